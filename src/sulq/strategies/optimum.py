"""The best whole-number matrix to read a given batch of sums from.

Measuring A x and reading W x off it has mean variance tr(G X^-1) / rows, G = W^T W, X = A^T A. At
the optimum X M X = G, where M = diag(mu) + the Laplacian of nu has one multiplier for the length of
each column and, in pairs, one for the distance of each two. So X follows from M by one root, and
each multiplier grows with the square of what it bounds until all of them hold at once.

Where the sum of all cells is known, all columns may be moved by one vector: only how far they are
from a common centre counts (alone), or from each other (in pairs). The last cell is then the
others' origin, and G that of W with its column taken off the others. About a centre that weighs the
columns by mu, sum of mu = 1, M = diag(mu) - mu mu^T.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SCALE = 2**10  # what a length of 1 is in whole numbers; finer ones gain less than 0.1%
ROUNDS = (4, 40)  # fewest and most
EFFORT = 40_000  # rounds times columns squared
POWER = {False: 2.0, True: 4.0}  # how fast multipliers grow, alone and in pairs
RIDGE = 1e-3  # of plain cells, so that every sum of columns can be read
TINY = 1e-4
CENTRING = 60  # rounds of the search for a centre

Array = NDArray[np.float64]
Whole = NDArray[np.int64]


def best_matrix(gram: Array, in_pairs: bool) -> Whole:
    """Whole numbers, columns of length about SCALE at most; or, in pairs, that far apart."""
    size = len(gram)
    plain = (np.eye(size) + 1.0) / 2 if in_pairs else np.eye(size)
    lengths, apart = np.ones(size), np.ones((size, size)) if in_pairs else None
    least, best = np.inf, plain
    for _ in range(min(max(EFFORT // size**2, ROUNDS[0]), ROUNDS[1])):
        products = _products(gram, lengths, apart)
        sizes, distances = _sizes(products, in_pairs)
        longest = max(sizes.max(), distances.max(initial=0.0))
        tried = (1 - RIDGE) * products / longest + RIDGE * plain
        variance = float((np.linalg.inv(tried) * gram).sum())
        if variance < least:
            least, best = variance, tried
        power = POWER[in_pairs]
        lengths = lengths * np.maximum(sizes / longest, TINY) ** power
        if apart is not None:
            apart = apart * np.maximum(distances / longest, TINY) ** power
        whole = lengths.sum() + (0.0 if apart is None else apart.sum() / 2)
        lengths = np.maximum(lengths / whole, TINY**2)
        apart = None if apart is None else apart / whole
    found: Whole = np.rint(np.linalg.cholesky(best).T * SCALE).astype(np.int64)
    return found


def known_total(gram: Array) -> Array:
    """G over the cells but the last one, where the sum of all is known."""
    last = gram[:-1, -1:]
    return np.asarray(gram[:-1, :-1] - last - last.T + gram[-1, -1])


def best_centred(gram: Array) -> Whole:
    """Whole numbers for all cells where their sum is known; columns about SCALE at most.

    `gram` is that of all cells but the last; there is one row fewer than cells.
    """
    size = len(gram)
    plain = np.eye(size) + 1.0
    weights = np.full(size + 1, 1 / (size + 1))
    least, best = np.inf, plain
    for _ in range(min(max(EFFORT // size**2, ROUNDS[0]), ROUNDS[1])):
        inner = weights[:-1]
        products = _rooted(gram, np.diag(inner) - np.outer(inner, inner))
        sizes = _from_centre(products, weights)
        tried = (1 - RIDGE) * products / sizes.max() + RIDGE * plain
        variance = float((np.linalg.inv(tried) * gram).sum())
        if variance < least:
            least, best = variance, tried
        weights = _heavier(weights, sizes)
    return _about_centre(best)


def _about_centre(products: Array) -> Whole:
    """Columns with these products, and 0 for the last cell, moved until the longest is shortest."""
    weights = np.full(len(products) + 1, 1 / (len(products) + 1))
    least, centre = np.inf, weights
    for _ in range(CENTRING):
        sizes = _from_centre(products, weights)
        if sizes.max() < least:
            least, centre = float(sizes.max()), weights
        weights = _heavier(weights, sizes)
    columns = np.pad(np.linalg.cholesky(products).T, [(0, 0), (0, 1)])
    moved = (columns - columns @ centre[:, None]) / np.sqrt(least)
    return np.asarray(np.rint(moved * SCALE), dtype=np.int64)


def _from_centre(products: Array, weights: Array) -> Array:
    """Squared distances of all columns, the last one 0, from their weighted mean."""
    to_centre = products @ weights[:-1]
    own = np.append(np.diagonal(products) - 2 * to_centre, 0.0)
    return np.asarray(own + weights[:-1] @ to_centre)


def _heavier(weights: Array, sizes: Array) -> Array:
    """More weight for what is far away."""
    grown = weights * np.maximum(sizes / sizes.max(), TINY) ** POWER[False]
    return np.asarray(np.maximum(grown / grown.sum(), TINY**2))


def _products(gram: Array, lengths: Array, apart: Array | None) -> Array:
    """X with X M X = G: with M = R^T R it is R^-1 (R G R^T)^(1/2) R^-T."""
    if apart is None:
        root = np.sqrt(lengths)
        values, vectors = np.linalg.eigh(gram * np.outer(root, root))
        half = vectors * np.maximum(values, 0.0) ** 0.25 / root[:, None]
        return np.asarray(half @ half.T)
    links = apart - np.diag(np.diagonal(apart))
    return _rooted(gram, np.diag(lengths + links.sum(axis=1)) - links)


def _rooted(gram: Array, multipliers: Array) -> Array:
    """The same for any M that can be factored."""
    upper = np.linalg.cholesky(multipliers).T
    values, vectors = np.linalg.eigh(upper @ gram @ upper.T)
    half = np.linalg.solve(upper, vectors * np.maximum(values, 0.0) ** 0.25)
    return np.asarray(half @ half.T)


def _sizes(products: Array, in_pairs: bool) -> tuple[Array, Array]:
    """Squared lengths of the columns, and squared distances where they count."""
    sizes = np.diagonal(products).copy()
    if not in_pairs:
        return sizes, np.zeros((0, 0))
    return sizes, np.add.outer(sizes, sizes) - 2 * products

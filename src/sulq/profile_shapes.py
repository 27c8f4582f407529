"""What columns of numbers look like, before one is seen: a public list of shapes.

Each shape is a share of rows for every cell: of numbers from 0 up to some size, around 0, around a
number of some size, of sizes around one, of small whole numbers. Besides, some rows may be
exactly 0, and some may have no value. Nothing in here is from rows: the list is the same for every
table, and says no more than that a density per unit of width does not run up towards 0 by chance.
`Shapes.expected` is what counts are expected to be, given a noisy answer: every shape with every
share of zeros and of missing values, weighed by how likely it makes what was released.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KEPT = 4  # lists of shapes with the answers they make
ENDLESS = 1e290  # beyond all sizes, and finite beside them
NEVER = 1e-300  # sizes from here on are above 0
USUAL = range(-3, 5)  # decades in which most numbers lie
DECADES = range(-6, 13)
SIZES = tuple(
    float(f"{m}e{j}")
    for j in DECADES
    for m in ((1, 1.5, 2, 3, 4, 6, 8) if j in USUAL else (1, 2, 5))
)
SPREADS = (0.1, 0.2, 0.4, 0.6, 1.0, 1.6, 2.5, 5.0)  # of a normal law, beside its mean
LOG_SPREADS = (0.5, 1.0, 1.7, 2.5)  # of the logarithm of a size
MOST = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40)  # of small whole numbers
FALLS = (0.3, 0.6, 0.8, 1.0)  # of how many have k + 1 beside those who have k
DISCREPANCY = 0.02  # of all rows: by how much a column may differ from every shape in the list

# Shares of zeros and of the shape, and how likely they are. What is left has no value.
ZEROS = (0.03, 0.07, 0.12, 0.17, 0.22, 0.25, 0.28, 0.33, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7,
         0.75, 0.8, 0.85, 0.9, 0.95)  # fmt: skip
THERE = (0.97, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.03)
SOME = (0.2, 0.5, 0.8)
MIXED = np.array(
    [(0.0, 1.0, 0.5)]
    + [(z, 1 - z, 0.35 / len(ZEROS)) for z in ZEROS]
    + [(0.0, f, 0.1 / len(THERE)) for f in THERE]
    + [(f * z, f * (1 - z), 0.05 / len(THERE) / len(SOME)) for f in THERE for z in SOME]
)


class Shapes:
    """The shapes over one column's cells, and what each would have been answered."""

    def __init__(self, edges: Array, matrix: Array) -> None:
        self.zero = int(np.searchsorted(edges, 0.0, side="right")) - 1  # the cell that holds 0
        self.matrix = matrix
        self.squares = matrix.T @ matrix
        self._shares = shapes(edges)
        self._answers = self._shares @ matrix.T
        at_zero = matrix[:, self.zero]
        zeros, whole, likely = MIXED.T
        self._zeros, self._whole = zeros, whole
        lengths = (self._answers**2).sum(axis=1)
        across = self._answers @ at_zero
        self._squared = (
            float(at_zero @ at_zero) * zeros**2
            + np.outer(lengths, whole**2)
            + 2 * np.outer(across, zeros * whole)
        )
        self._logs = np.log(likely)

    def expected(self, released: Array, std: float, rows: int) -> Array:
        """Counts of cells, averaged over all shapes by how likely each is; rows > 0."""
        of_shape = self._answers @ released / rows
        of_zero = float(self.matrix[:, self.zero] @ released) / rows
        fit = np.outer(of_shape, self._whole)
        fit += self._zeros * of_zero
        fit -= self._squared / 2
        fit *= 1 / ((std / rows) ** 2 + DISCREPANCY**2)
        fit += self._logs
        fit -= fit.max()
        weights = np.exp(fit, out=fit)
        weights /= weights.sum()
        counts = (weights @ self._whole) @ self._shares
        counts[self.zero] += float((weights @ self._zeros).sum())
        return np.asarray(counts * rows)


def shapes_of(edges: Sequence[Any], matrix: Array) -> Shapes:
    """Those over cells with these edges, for answers to this matrix; the last few are kept."""
    whole = np.ascontiguousarray(matrix, dtype=float)
    return _kept(tuple(float(e) for e in edges), whole.tobytes())


@lru_cache(maxsize=KEPT)
def _kept(edges: tuple[float, ...], matrix: bytes) -> Shapes:
    return Shapes(np.array(edges), np.frombuffer(matrix).reshape(-1, len(edges) - 1))


# ---- the list -----------------------------------------------------------------------------------


def shapes(edges: Array) -> Array:
    """A row of shares for every shape."""
    edges = edges.copy()
    edges[0], edges[-1] = -ENDLESS, ENDLESS
    found = [np.diff(law) for size in SIZES for law in _laws(edges, size)]
    found += list(_whole_numbers(edges))
    shares = np.maximum(found, 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _laws(edges: Array, size: float) -> Iterator[Array]:
    """The distribution functions of all laws of one size, at the edges."""
    from scipy.special import ndtr

    yield _even(edges, -size, size)
    yield ndtr(edges / size)
    for at in (edges, -edges[::-1]):  # from 0 up, and the same from 0 down
        laws = [_even(at, 0.0, size), _even(at, size, 2 * size), 1 - np.exp(-at.clip(0.0) / size)]
        for spread in SPREADS:
            mean = size if spread < 0.5 else size / spread
            laws.append(ndtr((at - mean) / (mean * spread)))
        far = np.log(at.clip(NEVER) / size)
        laws += [ndtr(far / spread) * (at > 0) for spread in LOG_SPREADS]
        yield from laws if at is edges else (1 - law[::-1] for law in laws)


def _even(edges: Array, low: float, high: float) -> Array:
    return ((edges - low) / (high - low)).clip(0.0, 1.0)


def _whole_numbers(edges: Array) -> Iterator[Array]:
    """From 0 to a few, falling or rising, or all alike."""
    for most, fall in itertools.product(MOST, FALLS):
        numbers = np.arange(most + 1.0)
        weights = fall**numbers
        yield np.histogram(numbers, edges, weights=weights)[0]
        if fall < 1:
            yield np.histogram(numbers, edges, weights=weights[::-1])[0]

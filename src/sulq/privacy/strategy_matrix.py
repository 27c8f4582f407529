"""Whole-number matrices from which every range, or every prefix, of a line of cells is read best.

Measuring A x with noise and reading W x off it by least squares has mean variance
tr(W^T W X^-1) / rows of W, X = A^T A. Two ways to bound what one row can move:

Alone: no column of A is longer than 1 (dp, or a cell that is public). The best X is near
D (W^T W)^(1/2) D, with D making every column's length 1. For ranges and prefixes the eigenvectors
are sines, so nothing is searched for: within 0.3% of the optimum.

In pairs: no two columns are further apart than 1, nor is one from 0 (beliefs). 0 is one more point
among the columns, and only differences count. Columns far apart may all be at distance 1, so their
products, up to a shift, are a kernel that ends: k(r) = 1 - log(1 + c r) / log(1 + c L), 0 beyond L.
Ranges close to a circle through 0; prefixes are a line from 0 to the first cell, at whose ends the
kernel is reflected. Within 1% of the optimum (benchmarks/strategies.py compares them).

"cdf" is for prefixes of cells whose sum is known. A vector that all columns have in common then
moves nothing, so there is one combination fewer than cells: alone, the root of (C W^T W C)^(1/2),
C = I - 1 1^T/size, without its constant wave; in pairs, the last cell is 0. One row moves what is
left by less: docs/proofs/strategies.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sulq.privacy.one_thread import one_thread

UNIT = 2**20  # what a length of 1 is in whole numbers
MARGIN = 1 - 2**-15  # so that rounding makes no column longer, and no two further apart
MAX_CELLS = 1_536  # that one matrix combines

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
T = TypeVar("T")
KEPT = 8  # matrices, inverses and extents
SMALL = 64  # rows of a triangle that is not halved


@lru_cache(maxsize=KEPT)
def strategy_matrix(workload: tuple[str, ...], sizes: tuple[int, ...], in_pairs: bool) -> Whole:
    """The matrix for a product of workloads over a grid of cells, the last axis fastest.

    `in_pairs` bounds how far two columns are apart; for one axis only.
    """
    if workload == ("suffixes",):
        return strategy_matrix(("prefixes",), sizes, in_pairs)[:, ::-1]
    if in_pairs:
        (name,), (size,) = workload, sizes
        if name == "cdf":  # of all but the last cell, which is 0
            whole = np.pad(_root(_from_nothing(_line(size - 1))), [(0, 0), (0, 1)])
        else:
            whole = _root(_from_nothing(PAIRED[name](size)))
    else:
        pairs = zip(workload, sizes, strict=True)
        parts = [_turned(name, ALONE[name](size)) for name, size in pairs]
        whole = reduce(lambda a, b: np.asarray(np.kron(a, b)), parts)
    found = np.rint(whole * (UNIT * MARGIN)).astype(np.int64)
    found.setflags(write=False)
    return found


def inverse_of(matrix: Whole, unit: int) -> Array:
    """The inverse of matrix / unit; that of a named strategy is computed once."""
    kept = _turned_from(matrix)
    if kept is not None:
        return inverse_of(kept, unit)[::-1]
    return _once(_inverses, matrix, lambda: _inverse(matrix / unit))


def extent_of(matrix: Whole) -> tuple[int, int, int]:
    """How long its longest column is and how far two are apart at most, squared, and in L1.

    Exact: sums of squares stay below 2^53. That of a named strategy is computed once.
    """
    kept = _turned_from(matrix)
    return _once(_extents, matrix if kept is None else kept, lambda: _extent(matrix))


def _turned_from(matrix: Whole) -> Whole | None:
    """The matrix that is kept whose columns these are, from the last to the first."""
    turned = matrix.strides[1] < 0 and not matrix.flags.writeable
    return matrix.base if turned else None


_inverses: dict[int, tuple[Whole, Array]] = {}
_extents: dict[int, tuple[Whole, tuple[int, int, int]]] = {}


def _once(kept: dict[int, tuple[Whole, T]], matrix: Whole, compute: Callable[[], T]) -> T:
    """What is computed of a matrix; kept for those that are kept above, which nobody can write."""
    if matrix.flags.writeable:
        return compute()
    found = kept.get(id(matrix))
    if found is None or found[0] is not matrix:
        found = kept[id(matrix)] = matrix, compute()
        while len(kept) > KEPT:
            kept.pop(next(iter(kept)), None)
    return found[1]


def _extent(matrix: Whole) -> tuple[int, int, int]:
    a = matrix.astype(np.float64)
    with one_thread(a.shape[1]):
        products = a.T @ a
    norms = np.diagonal(products)
    apart = norms[:, None] + norms - 2.0 * products
    sums = np.abs(a).sum(axis=0)
    return tuple(int(x.max(initial=0.0)) for x in (norms, apart, sums))  # type: ignore[return-value]


def _inverse(a: Array) -> Array:
    """A triangular matrix has a cheap one."""
    return _of_triangle(a) if np.array_equal(a, np.triu(a)) else np.asarray(np.linalg.inv(a))


def _of_triangle(a: Array) -> Array:
    """The inverse of an upper triangular matrix, from those of its two halves."""
    if len(a) <= SMALL:
        return np.asarray(np.linalg.inv(a))
    at = len(a) // 2
    first, last = _of_triangle(a[:at, :at]), _of_triangle(a[at:, at:])
    found = np.zeros_like(a)
    found[:at, :at], found[at:, at:] = first, last
    found[:at, at:] = -first @ a[:at, at:] @ last
    return found


def _turned(name: str, matrix: Array) -> Array:
    """Suffixes are the prefixes of the cells from the last to the first."""
    return matrix[:, ::-1] if name == "suffixes" else matrix


# --- alone ------------------------------------------------------------------------------


def _ranges(size: int) -> Array:
    """For every range of neighbouring cells: (W^T W)_ij = min(i, j) (size + 1 - max(i, j))."""
    angle = math.pi * np.arange(1, size + 1) / (size + 1)
    waves = np.sin(np.outer(np.arange(1, size + 1), angle))
    return _balanced(waves, 2 - 2 * np.cos(angle))


def _prefixes(size: int) -> Array:
    """For the first cell, the first two, ..., all: (W^T W)_ij = size + 1 - max(i, j)."""
    angle = math.pi * (2 * np.arange(1, size + 1) - 1) / (2 * size + 1)
    waves = np.cos(np.outer(np.arange(size) + 0.5, angle))
    return _balanced(waves, 2 - 2 * np.cos(angle))


def _cdf(size: int) -> Array:
    """For prefixes of cells whose sum is known: one row fewer than cells."""
    angle = math.pi * np.arange(1, size) / size
    waves = np.cos(np.outer(np.arange(size) + 0.5, angle))
    root = (waves * (2 - 2 * np.cos(angle)) ** -0.25).T
    return np.asarray(root / np.sqrt((root**2).sum(axis=0)))


def _balanced(waves: Array, inverse: Array) -> Array:
    """The symmetric root of (W^T W)^(1/2), its columns scaled to length 1.

    `waves` are the eigenvectors of W^T W and `inverse` one over its eigenvalues, each up to a
    factor.
    """
    waves = waves / np.sqrt((waves**2).sum(axis=0))
    root = (waves * inverse**-0.25) @ waves.T
    return np.asarray(root / np.sqrt((root**2).sum(axis=0)))


ALONE: dict[str, Callable[[int], Array]] = {
    "cells": np.eye,
    "ranges": _ranges,
    "prefixes": _prefixes,
    "suffixes": _prefixes,
    "cdf": _cdf,
}


# --- in pairs ---------------------------------------------------------------------------


def _kernel(apart: Array, curve: float, reach: float) -> Array:
    """1 at 0, falling like a logarithm, 0 from `reach` on. Convex, so it is a kernel (Polya)."""
    return np.maximum(1 - np.log1p(curve * apart) / math.log1p(curve * reach), 0.0)


def _no_kernel(size: int) -> Array:
    """Cells by themselves: all pairs equally far apart."""
    return np.eye(size + 1)


def _circle(size: int) -> Array:
    """Ranges: the cells and 0 on a circle, where a range and its complement are alike."""
    i = np.arange(size + 1)
    each = _kernel(np.minimum(i, size + 1 - i).astype(float), 6.3, 0.21 * (size + 1))
    return np.asarray(each[np.abs(np.subtract.outer(i, i))])


def _line(size: int) -> Array:
    """Prefixes: the cells and then 0 on a line, mirrored at both ends."""
    n, i = size + 1, np.arange(size + 1)
    added = np.add.outer(i, i)
    kernel = _kernel(np.arange(2.0 * n), 6.9, 0.348 * n)
    mirrored = kernel[added + 1] + kernel[2 * n - 1 - added]
    found = kernel[np.abs(np.subtract.outer(i, i))] + 1.35 * mirrored
    length = np.sqrt(np.diagonal(found))
    return np.asarray(found / np.outer(length, length))


def _from_nothing(kernel: Array) -> Array:
    """The products of the columns when the last point is moved to 0, longest distance 1."""
    longest = 2 - 2 * float(kernel.min())
    to_last = kernel[:-1, -1:]
    return np.asarray((kernel[:-1, :-1] - to_last - to_last.T + 1) / longest)


def _root(products: Array) -> Array:
    """Columns that have these products."""
    return np.asarray(np.linalg.cholesky(products).T)


PAIRED: dict[str, Callable[[int], Array]] = {
    "cells": _no_kernel,
    "ranges": _circle,
    "prefixes": _line,
}

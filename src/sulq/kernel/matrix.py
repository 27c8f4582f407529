"""Exact sums, cells x values, gathered batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.columns import Array
from sulq.kernel.batch import Batch, Bools, Floats
from sulq.kernel.cells import FEW_CELLS, Cells
from sulq.questions.contributions import Dense


class Matrix:
    """Exact sums, cells x values, as Python integers gathered from int64 parts."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.total: dict[tuple[int, int], int] = {}
        self.seen: set[tuple[int, Any]] = set()
        self.met: dict[str, int] | None = None  # texts that rows have, and how many
        self.whole: NDArray[np.int64] | None = None  # of the last rows, not in the total yet
        self.pending = 0  # how many rows these are

    def see(self, cell: int, name: Any) -> None:
        """Count a person once in a cell."""
        if (cell, name) not in self.seen:
            self.seen.add((cell, name))
            self.total[cell, 0] = self.total.get((cell, 0), 0) + 1

    def meet(self, value: str) -> None:
        """Count one more row that has this text."""
        assert self.met is not None
        self.met[value] = self.met.get(value, 0) + 1

    def add(self, cells: Array, values: Array) -> None:
        """Add a part: which cells, and their integers below 2^63."""
        for cell, row in zip(cells.tolist(), values.tolist(), strict=True):
            for j, x in enumerate(row):
                if x:
                    self.total[cell, j] = self.total.get((cell, j), 0) + int(x)

    def add_whole(self, cells: Any, values: NDArray[np.float64], rows: int) -> None:
        """Add whole numbers that are at most 2^33 for each of `rows` rows."""
        if self.whole is None:
            self.whole = np.zeros(self.shape, dtype=np.int64)
        self.whole[cells] += values.astype(np.int64)
        self.pending += rows
        if self.pending > 2**28:  # long before 64 bits are full
            self._settle()

    def _settle(self) -> None:
        if self.whole is not None:
            present = np.flatnonzero(self.whole.any(axis=1))
            self.add(present, self.whole[present])
            self.whole, self.pending = None, 0

    def sums(self) -> dict[tuple[int, int], int]:
        """What is not 0, by cell and value."""
        self._settle()
        return self.total

    def rows(self) -> list[list[Any]]:
        """The whole matrix, empty cells as 0; or texts and how many rows have each."""
        if self.met is not None:
            return [[value, count] for value, count in self.met.items()]
        out = [[0] * self.shape[1] for _ in range(self.shape[0])]
        for (cell, j), x in self.sums().items():
            out[cell][j] = x
        return out


# ---- sums and products of several columns at once -------------------------------------------
# Every coordinate is a whole number of steps 2**-DENSE, held in float64. Batches are small
# enough that all sums stay far below 2**53, so that any order of additions is exact. Columns
# stand one below the other, as sources hold them, each worked on while it is in cache. A row with
# a missing coordinate is left out: it adds nothing, not even to a count.


def clipped(y: Floats, norm: int | None) -> Floats:
    """Rows no longer than `norm` steps, rounded toward zero so that none grows."""
    if norm is None:
        return y
    length2 = np.einsum("ij,ij->j", y, y)
    long = length2 > norm * norm
    if not long.any():
        return y
    factor = norm / np.sqrt(length2[long]) * (1 - 2.0**-45)  # below the true quotient
    y = y.copy()
    y[:, long] = np.trunc(y[:, long] * factor)
    return y


def add_dense(dense: Dense, batch: Batch, member: Bools, cells: Cells, matrix: Matrix) -> None:
    """Add one batch's sums or products, cell by cell."""
    linear = dense.kind == "sums" and dense.row_norm is None  # centring can wait for the sums
    y = clipped(batch.scaled(dense.points, 0 if linear else dense.centre), dense.row_norm)
    member = member & batch.complete(dense.points)
    if not member.all():
        y, cells = y[:, member], cells[member]
    if dense.kind == "products":
        for cell, own in _by_cell(y, cells, matrix.shape[0]):
            matrix.add_whole(cell, _products(own, dense), own.shape[1])
        return
    counts = np.bincount(cells, minlength=matrix.shape[0]).astype(np.float64)
    totals = _sums_by_cell(y, cells, matrix.shape[0])
    if linear:
        totals -= dense.centre * counts[:, None]
    matrix.add_whole(slice(None), np.column_stack([counts, totals]), y.shape[1])


def _sums_by_cell(y: Floats, cells: Cells, size: int) -> Floats:
    """Cells x columns."""
    if size == 1:
        return np.asarray(y.sum(axis=1)[None, :])
    if size <= FEW_CELLS:
        inside = (cells == np.arange(size)[:, None]).astype(np.float64)
        return np.asarray(inside @ y.T)
    totals = np.zeros((size, len(y)))  # of floats, also where bincount of no row gives integers
    for j, row in enumerate(y):
        totals[:, j] = np.bincount(cells, weights=row, minlength=size)
    return totals


def _by_cell(y: Floats, cells: Cells, size: int) -> list[tuple[int, Floats]]:
    if size == 1:
        return [(0, y)]
    return [(cell, y[:, cells == cell]) for cell in np.unique(cells).tolist()]


def _products(y: Floats, dense: Dense) -> Floats:
    """The upper triangle of y y^T row by row, after the count and the sums of y if asked for."""
    parts = [np.array([float(y.shape[1])])] if dense.counted else []
    parts += [y @ np.ones(y.shape[1])] if dense.means else []
    return np.concatenate([*parts, (y @ y.T)[np.triu_indices(len(y))]])

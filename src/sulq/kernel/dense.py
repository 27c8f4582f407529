"""Several columns at once: scaled to [0, 1], centred, clipped, then summed or multiplied.

Every coordinate is a whole number of steps 2**-DENSE, held in float64. Batches are small
enough that all sums stay far below 2**53, so that any order of additions is exact. Columns
stand one below the other, as sources hold them, each worked on while it is in cache. A row with
a missing coordinate is left out: it adds nothing, not even to a count.
"""

from __future__ import annotations

import numpy as np

from sulq.kernel.batch import Batch, Bools, Floats
from sulq.kernel.cells import FEW_CELLS, Cells
from sulq.kernel.matrix import Matrix
from sulq.questions.contributions import Dense


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

"""Several columns at once: scaled to [0, 1], centred, clipped, then summed or multiplied.

Every coordinate is a whole number of steps 2**-DENSE, held in float64. Batches are small
enough that all sums stay far below 2**53, so that any order of additions is exact. Columns
stand one below the other, as sources hold them, each worked on while it is in cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sulq.partition import DENSE, Axis
from sulq.schema import Column
from sulq.tree import Node
from sulq.values import Dense

if TYPE_CHECKING:
    from sulq.kernel import Batch, Matrix

Floats = NDArray[np.float64]
Cells = NDArray[np.int64]

NUMBERS = 2**21  # in a batch, all its coordinates together
ONE = 2**DENSE
MIDDLE = 2 ** (DENSE - 1)  # what a missing value counts as
FEW_CELLS = 64  # a matrix of who is in which cell is worth writing down up to here


def scaled(batch: Batch, points: tuple[Node, ...], centre: int = 0) -> Floats:
    """Coordinates x rows: each value on [0, 1] in whole steps, less the centre."""
    out = np.empty((len(points), batch.rows))
    for point, steps in zip(points, out, strict=True):
        _scale(batch, point, steps)
        if centre:
            steps -= centre
    return out


def _scale(batch: Batch, point: Node, steps: Floats) -> None:
    if point.op == "column":
        plain = _plain(batch.raw[point.value], batch.schema[point.value])
        if plain is not None:
            _to_steps(plain, point, steps)
            if not np.isnan(steps).any():
                return
    found = batch.evaluate(point)
    _to_steps(found.data, point, steps)
    steps[np.isnan(steps) | ~found.valid] = MIDDLE


def _to_steps(data: NDArray[Any], point: Node, steps: Floats) -> None:
    """round((x - low) / (high - low) * 2**DENSE), kept within the range."""
    low, high = float(point.low), float(point.high)
    with np.errstate(all="ignore"):
        if low:
            data = np.subtract(data, low, out=steps, dtype=np.float64)
        np.multiply(data, np.float64(ONE) / (high - low), out=steps, dtype=np.float64)
        np.maximum(steps, 0.0, out=steps)
        np.minimum(steps, ONE, out=steps)
        np.rint(steps, out=steps)


def _plain(raw: Any, column: Column) -> NDArray[Any] | None:
    """Numbers as they lie in memory, where reading them as declared would change none."""
    import pyarrow as pa

    if isinstance(raw, pa.ChunkedArray) and raw.num_chunks == 1:
        raw = raw.chunk(0)
    if not isinstance(raw, pa.Array) or raw.null_count:
        return None
    if column.type == "number" and pa.types.is_float64(raw.type):
        return np.asarray(raw.to_numpy())
    if column.type == "integer" and pa.types.is_signed_integer(raw.type):
        return np.asarray(raw.to_numpy())
    return None


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


# --- cells ------------------------------------------------------------------------------


def nearest_cells(axis: Axis, batch: Batch) -> Cells:
    """The centre each row is nearest to, the first of equals."""
    # |y - c|^2 = |y|^2 - 2 y.c + |c|^2 in whole numbers below 2^53, so any order is exact.
    centres = np.array(axis.detail, dtype=np.float64)
    y, lengths2 = batch.scaled(axis.points), (centres**2).sum(axis=1)
    cells = np.empty(batch.rows, dtype=np.int64)
    step = max(1, 2**22 // len(centres))  # rows at a time, so that memory stays small
    for i in range(0, batch.rows, step):
        far = (-2.0 * centres) @ y[:, i : i + step]
        far += lengths2[:, None]
        cells[i : i + step] = _smallest(far)
    return cells


def _smallest(far: Floats) -> Cells:
    """The row with the least value in each column; numpy's own argmin strides through memory."""
    if len(far) > FEW_CELLS:
        return np.asarray(far.argmin(axis=0))
    at, least = np.zeros(far.shape[1], dtype=np.uint8), far[0].copy()
    for i in range(1, len(far)):
        nearer = (far[i] < least).view(np.uint8)
        np.maximum(at, nearer * np.uint8(i), out=at)  # i is larger than all before it
        np.minimum(least, far[i], out=least)
    return at.astype(np.int64)


def side_cells(axis: Axis, batch: Batch) -> Cells:
    """1 on the positive side of a hyperplane, else 0."""
    *weights, bias = axis.detail
    reach = np.array(weights, dtype=np.float64) @ batch.scaled(axis.points)
    return np.asarray(reach + float(bias) * ONE > 0).astype(np.int64)


# --- sums -------------------------------------------------------------------------------


def add_dense(
    dense: Dense, batch: Batch, member: NDArray[np.bool_], cells: Cells, matrix: Matrix
) -> None:
    """Add one batch's sums or products, cell by cell."""
    linear = dense.kind == "sums" and dense.row_norm is None  # centring can wait for the sums
    y = clipped(batch.scaled(dense.points, 0 if linear else dense.centre), dense.row_norm)
    if not member.all():
        y, cells = y[:, member], cells[member]
    if dense.kind == "products":
        for cell, own in _by_cell(y, cells, matrix.shape[0]):
            matrix.add_whole(cell, _products(own, dense.means), own.shape[1])
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
    return np.column_stack([np.bincount(cells, weights=row, minlength=size) for row in y])


def _by_cell(y: Floats, cells: Cells, size: int) -> list[tuple[int, Floats]]:
    if size == 1:
        return [(0, y)]
    return [(cell, y[:, cells == cell]) for cell in np.unique(cells).tolist()]


def _products(y: Floats, means: bool) -> Floats:
    """The upper triangle of y y^T row by row, after the sums of y if they are asked for."""
    upper = (y @ y.T)[np.triu_indices(len(y))]
    return np.concatenate([y @ np.ones(y.shape[1]), upper]) if means else upper

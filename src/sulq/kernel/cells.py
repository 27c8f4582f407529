"""Which cell of an axis each row of a batch is in."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.columns import PRIME, key_numbers
from sulq.expressions.node import days
from sulq.kernel.batch import ONE, Batch, Floats
from sulq.questions.partitions import Axis

FEW_CELLS = 64  # a matrix of who is in which cell is worth writing down up to here
Cells = NDArray[np.int64]


def hashed(batch: Batch, numbers: Sequence[int]) -> Cells:
    """(c3*k^3 + c2*k^2 + c1*k + c0) mod (2^31 - 1) of every row's key."""
    key = batch.schema.key
    assert key is not None
    k = key_numbers(batch.raw[key.name], key)
    found = np.full(len(k), numbers[0], dtype=np.int64)
    for c in numbers[1:]:
        found = (found * k + c) % PRIME
    return found


def cell_numbers(axis: Axis, batch: Batch) -> Cells:
    """Which cell of the axis each row is in."""
    return AXES[axis.kind](axis, batch)


def _expression_cells(axis: Axis, batch: Batch) -> Cells:
    assert axis.node is not None
    found = batch.evaluate(axis.node)
    other = len(axis.labels) - 1
    number = {_data(label): i for i, label in enumerate(axis.labels)}
    keys, inverse = np.unique(found.data, return_inverse=True)
    codes = np.array([number.get(k, other) for k in keys.tolist()], dtype=np.int64)
    cells = codes[inverse] if len(codes) else np.zeros(batch.rows, dtype=np.int64)
    return np.where(found.valid, cells, other)


def _data(label: Any) -> Any:
    return days(label) if isinstance(label, datetime.date) else label


def _bin_cells(axis: Axis, batch: Batch) -> Cells:
    assert axis.node is not None
    found = batch.evaluate(axis.node)
    edges = np.array(axis.detail, dtype=np.float64)
    data = found.data.astype(np.float64)
    cells = np.searchsorted(edges, data, side="right") - 1
    cells = np.where(data == edges[-1], len(edges) - 2, cells)
    other = len(edges) - 1
    inside = (cells >= 0) & (cells < other) & found.valid
    return np.where(inside, cells, other)


def _block_cells(axis: Axis, batch: Batch) -> Cells:
    *numbers, count = axis.detail
    return np.asarray(hashed(batch, numbers) % count)


def _leaf_cells(axis: Axis, batch: Batch) -> Cells:
    cells = np.zeros(batch.rows, dtype=np.int64)
    for number, path in reversed(list(enumerate(axis.detail))):  # the first that holds wins
        if path is not None:
            cells[batch.true(path)] = number
    return cells


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


AXES: dict[str, Callable[[Axis, Batch], Cells]] = {
    "expression": _expression_cells,
    "bins": _bin_cells,
    "blocks": _block_cells,
    "nearest": nearest_cells,
    "side": side_cells,
    "leaf": _leaf_cells,
}

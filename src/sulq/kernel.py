"""Contributions in numpy: what every engine must agree with, bit for bit.

The reference engine is this file run over the whole table. The other engines use it for
what SQL cannot say exactly (exp, ln, power) or fast (centres, products), batch by batch, and
for evaluating predicates on small tables of cells.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.check import CheckedQuery
from sulq.dense import NUMBERS, add_dense, nearest_cells, scaled, side_cells
from sulq.operations import OPERATIONS
from sulq.partition import PRIME, Axis
from sulq.schema import Schema
from sulq.tree import Node, days
from sulq.values import Dense, Value
from sulq.vectors import Array, Vector, arrow_vector, constant, key_numbers, read


class Batch:
    """Some rows: raw columns by name, read on demand as the schema declares them."""

    def __init__(self, columns: Mapping[str, Any], rows: int, schema: Schema) -> None:
        self.raw = columns
        self.rows = rows
        self.schema = schema
        self._read: dict[str, Vector] = {}
        self._scaled: dict[tuple[str, ...], NDArray[np.float64]] = {}
        self._known: dict[str, Vector] = {}

    def again(self) -> Batch:
        """The same rows and columns, nothing worked out from them: what is kept must not grow."""
        made = Batch(self.raw, self.rows, self.schema)
        made._read = self._read
        return made

    def column(self, name: str) -> Vector:
        """A declared column: clamped, undeclared and NaN missing."""
        if name not in self._read:
            self._read[name] = read(self.raw[name], self.schema[name])
        return self._read[name]

    def scaled(self, points: tuple[Node, ...], centre: int = 0) -> NDArray[np.float64]:
        """Coordinates x rows on [0, 1], in whole steps less the centre; not to be written to."""
        key = (str(centre), *(p.text for p in points))
        if key not in self._scaled:
            self._scaled[key] = scaled(self, points, centre)
        return self._scaled[key]

    def evaluate(self, node: Node) -> Vector:
        """The value of a row function on every row; equal parts are computed once."""
        with np.errstate(all="ignore"):
            return self._evaluate(node)

    def _evaluate(self, node: Node) -> Vector:
        if node.op == "literal":
            return constant(node, self.rows)
        found = self._known.get(node.text)
        if found is None:
            if node.op == "column":
                found = self.column(node.value)
            else:
                found = OPERATIONS[node.op](node, *[self._evaluate(a) for a in node.args])
            self._known[node.text] = found
        return found

    def true(self, node: Node | None) -> NDArray[np.bool_]:
        """Where a predicate holds; missing is not true."""
        if node is None:
            return np.ones(self.rows, dtype=bool)
        found = self.evaluate(node)
        return found.data.astype(bool) & found.valid


def grid(value: Value, found: Vector) -> NDArray[np.int64]:
    """A value as grid integers, clamped as the last step; missing is 0."""
    data = found.data
    if value.node.type == "number":
        factor = 2.0**value.scale
        inside = np.clip(data, value.low / factor, value.high / factor)
        data = np.rint(inside * factor)  # halves to even, as the engines' casts do
    whole = np.clip(data.astype(np.int64), value.low, value.high)
    missing = 0 if value.node.nullable else min(max(0, value.low), value.high)
    return np.where(found.valid, whole, missing)


def hashed(batch: Batch, numbers: Sequence[int]) -> NDArray[np.int64]:
    """(c3*k^3 + c2*k^2 + c1*k + c0) mod (2^31 - 1) of every row's key."""
    key = batch.schema.key
    assert key is not None
    k = key_numbers(batch.raw[key.name], key)
    found = np.full(len(k), numbers[0], dtype=np.int64)
    for c in numbers[1:]:
        found = (found * k + c) % PRIME
    return found


def cell_numbers(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    """Which cell of the axis each row is in."""
    return AXES[axis.kind](axis, batch)


def _expression_cells(axis: Axis, batch: Batch) -> NDArray[np.int64]:
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


def _bin_cells(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    assert axis.node is not None
    found = batch.evaluate(axis.node)
    edges = np.array(axis.detail, dtype=np.float64)
    data = found.data.astype(np.float64)
    cells = np.searchsorted(edges, data, side="right") - 1
    cells = np.where(data == edges[-1], len(edges) - 2, cells)
    other = len(edges) - 1
    inside = (cells >= 0) & (cells < other) & found.valid
    return np.where(inside, cells, other)


def _block_cells(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    *numbers, count = axis.detail
    return np.asarray(hashed(batch, numbers) % count)


def _leaf_cells(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    cells = np.zeros(batch.rows, dtype=np.int64)
    for number, path in reversed(list(enumerate(axis.detail))):  # the first that holds wins
        if path is not None:
            cells[batch.true(path)] = number
    return cells


AXES: dict[str, Callable[[Axis, Batch], NDArray[np.int64]]] = {
    "expression": _expression_cells,
    "bins": _bin_cells,
    "blocks": _block_cells,
    "nearest": nearest_cells,
    "side": side_cells,
    "leaf": _leaf_cells,
}


class Matrix:
    """Exact sums, cells x values, as Python integers gathered from int64 parts."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.total: dict[tuple[int, int], int] = {}
        self.seen: set[tuple[int, Any]] = set()
        self.whole: NDArray[np.int64] | None = None  # of the last rows, not in the total yet
        self.pending = 0  # how many rows these are

    def see(self, cell: int, name: Any) -> None:
        """Count a person once in a cell."""
        if (cell, name) not in self.seen:
            self.seen.add((cell, name))
            self.total[cell, 0] = self.total.get((cell, 0), 0) + 1

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

    def rows(self) -> list[list[int]]:
        """The whole matrix, empty cells as 0."""
        out = [[0] * self.shape[1] for _ in range(self.shape[0])]
        for (cell, j), x in self.sums().items():
            out[cell][j] = x
        return out


def add_batch(
    query: CheckedQuery, batch: Batch, matrix: Matrix, counts: Array | None = None
) -> None:
    """Add one batch's contributions; `counts` says how many rows each stands for."""
    member, cells = member_cells(query, batch)
    if isinstance(query.values, Dense):
        if query.values.kind == "people":
            _add_people(query.values, batch, member, cells, matrix)
        else:
            add_dense(query.values, batch, member, cells, matrix)
        return
    columns = [grid(v, batch.evaluate(v.node))[member] for v in query.values]
    _add_columns(columns, cells[member], matrix, None if counts is None else counts[member])


def member_cells(query: CheckedQuery, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which rows a query is about, and the cell of each row."""
    member = batch.true(query.rows) & batch.true(query.where)
    if query.sample is not None:
        *numbers, threshold = query.sample
        member &= hashed(batch, numbers) < threshold
    cells = np.zeros(batch.rows, dtype=np.int64)
    for axis in query.axes:
        cells = cells * len(axis.labels) + cell_numbers(axis, batch)
    return member, cells


def _add_columns(
    columns: list[NDArray[np.int64]], cells: Array, matrix: Matrix, counts: Array | None
) -> None:
    """Group-by in numpy: integers only, in two halves so that no partial sum can wrap."""
    size = matrix.shape[0]
    present = np.unique(cells) if size > 1 else np.zeros(1, dtype=np.int64)
    out = np.zeros((len(present), len(columns)), dtype=object)
    slot = np.searchsorted(present, cells)
    for j, column in enumerate(columns):
        if counts is not None:
            out[:, j] = _weighted(slot, column, counts, len(present))
            continue
        low = np.bincount(slot, weights=column & 0xFFFFFF, minlength=len(present))
        high = np.bincount(slot, weights=column >> 24, minlength=len(present))
        out[:, j] = [int(h) * 2**24 + int(v) for h, v in zip(high, low, strict=True)]
    matrix.add(present, out)


def _weighted(slot: Array, column: Array, counts: Array, size: int) -> list[int]:
    """Sums of column * counts by slot; Python integers where 64 bits might not do."""
    if len(column) and int(np.abs(column).max()) * int(counts.sum()) < 2**62:
        out = np.zeros(size, dtype=np.int64)
        np.add.at(out, slot, column * counts)
        return [int(x) for x in out]
    exact = [0] * size
    for s, x, c in zip(slot.tolist(), column.tolist(), counts.tolist(), strict=True):
        exact[s] += x * c
    return exact


def _add_people(dense: Dense, batch: Batch, member: Array, cells: Array, matrix: Matrix) -> None:
    """Remember who was seen in each cell; nobody counts twice, the unnamed not at all."""
    raw = batch.raw[dense.columns[0]]
    found = raw if isinstance(raw, Vector) else arrow_vector(raw)
    names = found.data
    member = member & found.valid
    if names.dtype.kind == "f":
        member = member & ~np.isnan(names)
    for cell, name in zip(cells[member].tolist(), names[member].tolist(), strict=True):
        matrix.see(cell, name)


def needed_columns(query: CheckedQuery, schema: Schema) -> frozenset[str]:
    """The raw columns a query reads."""
    names: set[str] = set()
    for node in (query.rows, query.where):
        names |= node.columns() if node is not None else set()
    for axis in query.axes:
        names |= set(axis.columns)
        names |= axis.node.columns() if axis.node is not None else set()
    if query.sample is not None and schema.key is not None:
        names.add(schema.key.name)
    if isinstance(query.values, Dense):
        names |= set(query.values.columns)
    else:
        for value in query.values:
            names |= value.node.columns()
    return frozenset(names)


def vectors_of(queries: Sequence[CheckedQuery], schema: Schema) -> int:
    """How many row vectors a batch holds while these queries are evaluated."""
    names: set[str] = set()
    texts: set[str] = set()
    for query in queries:
        names |= needed_columns(query, schema)
        roots = [query.rows, query.where, *(a.node for a in query.axes)]
        roots += [path for a in query.axes if a.kind == "leaf" for path in a.detail]
        roots += [] if isinstance(query.values, Dense) else [v.node for v in query.values]
        texts |= {node.text for root in roots if root is not None for node in root.walk()}
    return len(names) + len(texts)


def batch_rows(queries: Sequence[CheckedQuery], schema: Schema) -> int:
    """Rows per batch for these queries: what speaks of several columns wants smaller ones."""
    most = rows_at_most(vectors_of(queries, schema))
    widest = max((len(points) for q in queries for points in _points(q)), default=0)
    return min(most, max(NUMBERS // widest, 1)) if widest else most


def _points(query: CheckedQuery) -> list[tuple[Node, ...]]:
    values = [query.values.points] if isinstance(query.values, Dense) else []
    return [*values, *(a.points for a in query.axes)]


def rows_at_most(width: int) -> int:
    """Rows per batch so that exact float64 sums and memory both stay small."""
    return int(max(2**12, min(2**20, 2 ** (26 - math.ceil(math.log2(width + 1))))))

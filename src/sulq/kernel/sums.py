"""Contributions in numpy: what every engine must agree with, bit for bit.

The reference engine is this file run over the whole table. The other engines use it for
what SQL cannot say exactly (exp, ln, power) or fast (centres, products), batch by batch, and
for evaluating predicates on small tables of cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.columns import Array, Vector, arrow_vector, key_vector
from sulq.expressions.node import Node
from sulq.expressions.node import column as column_node
from sulq.kernel.batch import Batch
from sulq.kernel.cells import cell_numbers, hashed
from sulq.kernel.matrix import Matrix, add_dense
from sulq.questions.check import CheckedQuery
from sulq.questions.contributions import Dense
from sulq.questions.discovery import Discovery
from sulq.questions.grid import Value
from sulq.questions.shards import KeySet
from sulq.values.schema import Schema

NUMBERS = 2**21  # in a batch, all its coordinates together


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


def add_batch(
    query: CheckedQuery, batch: Batch, matrix: Matrix, counts: Array | None = None
) -> None:
    """Add one batch's contributions; `counts` says how many rows each stands for."""
    member, cells = member_cells(query, batch)
    if isinstance(query.measurement, Discovery):
        _add_values(query.measurement, batch, member, matrix)
        return
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
        member &= _chosen(query.sample, batch)
    cells = np.zeros(batch.rows, dtype=np.int64)
    for axis in query.axes:
        cells = cells * len(axis.labels) + cell_numbers(axis, batch)
        if axis.points:  # a row without a place is nearest to nothing
            member &= batch.complete(axis.points)
    return member, cells


def _chosen(sample: tuple[Any, ...], batch: Batch) -> NDArray[np.bool_]:
    """Which rows are in a set of keys, a seeded sample or shards."""
    key = batch.schema.key
    if isinstance(sample, KeySet) and key is not None:
        found = key_vector(batch.raw[key.name], key)
        named: NDArray[np.bool_] = sample.member(found.data) & found.valid
        return named
    return _sampled(hashed(batch, sample[:4]), sample[4:])


def _sampled(found: NDArray[np.int64], ends: tuple[int, ...]) -> NDArray[np.bool_]:
    """Is a hash below a threshold, or within one of these stretches?"""
    if len(ends) == 1:
        return found < ends[0]
    inside: NDArray[np.bool_] = np.searchsorted(np.array(ends), found, side="right") % 2 == 1
    return inside


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


def _add_values(sought: Discovery, batch: Batch, member: Array, matrix: Matrix) -> None:
    """Count how many rows have each text; the missing have none."""
    found = batch.evaluate(column_node(batch.schema[sought.column]))
    for value in found.data[member & found.valid].tolist():
        matrix.meet(value[: sought.letters])


def gather(
    queries: Sequence[CheckedQuery], batches: Iterable[Batch], counts: Array | None = None
) -> list[Matrix]:
    """The sums of every query over all batches."""
    gathered = [Matrix(q.shape) for q in queries]
    for query, matrix in zip(queries, gathered, strict=True):
        matrix.met = {} if isinstance(query.measurement, Discovery) else None
    for batch in batches:
        for query, matrix in zip(queries, gathered, strict=True):
            add_batch(query, batch, matrix, counts)
    return gathered


def batches_of(
    tables: Iterable[Any], names: Sequence[str], rows: int, schema: Schema
) -> Iterator[Batch]:
    """Arrow tables of these columns, in this order, as batches of at most so many rows."""
    for table in tables:
        for start in range(0, table.num_rows, rows):
            part = table.slice(start, rows)
            columns = {name: part.column(i) for i, name in enumerate(names)}
            yield Batch(columns, part.num_rows, schema)


def nodes_of(query: CheckedQuery) -> list[Node]:
    """Every row function that a query speaks of."""
    found = [query.rows, query.where, *(a.node for a in query.axes)]
    found += [path for a in query.axes if a.kind == "leaf" for path in a.detail]
    found += [] if isinstance(query.values, Dense) else [v.node for v in query.values]
    return [node for node in found if node is not None]


def needed_columns(queries: Sequence[CheckedQuery], schema: Schema) -> list[str]:
    """The raw columns that queries read."""
    names: set[str] = set()
    for query in queries:
        for node in nodes_of(query):
            names |= node.columns()
        for axis in query.axes:
            names |= set(axis.columns)
        if isinstance(query.measurement, Discovery):
            names.add(query.measurement.column)
        if query.sample is not None and schema.key is not None:
            names.add(schema.key.name)
        if isinstance(query.values, Dense):
            names |= set(query.values.columns)
    return sorted(names)


def vectors_of(queries: Sequence[CheckedQuery], schema: Schema) -> int:
    """How many row vectors a batch holds while these queries are evaluated."""
    texts = {part.text for q in queries for node in nodes_of(q) for part in node.walk()}
    return len(needed_columns(queries, schema)) + len(texts)


def batch_rows(queries: Sequence[CheckedQuery], schema: Schema) -> int:
    """Rows per batch for these queries: what speaks of several columns wants smaller ones."""
    most = rows_at_most(vectors_of(queries, schema))
    dense = [q.values.points for q in queries if isinstance(q.values, Dense)]
    points = [*dense, *(a.points for q in queries for a in q.axes)]
    widest = max(map(len, points), default=0)
    return min(most, max(NUMBERS // widest, 1)) if widest else most


def rows_at_most(width: int) -> int:
    """Rows per batch so that exact float64 sums and memory both stay small."""
    return int(max(1, min(2**20, 2 ** (26 - math.ceil(math.log2(width + 1))))))

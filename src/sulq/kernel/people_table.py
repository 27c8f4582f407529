"""One row for each person, in numpy and plain Python: what every engine must agree with."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sulq.expressions.columns import Vector
from sulq.expressions.node import EPOCH, column
from sulq.kernel.batch import Batch
from sulq.kernel.sums import grid
from sulq.questions.features import Feature
from sulq.questions.people_view import PeopleRows

TYPES = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(),
         "date": pa.date32(), "text": pa.string()}  # fmt: skip


def people_table(people: PeopleRows, table: pa.Table) -> pa.Table:
    """A table with one row for each person who has a row that is looked at."""
    batch = Batch(
        {name: table.column(name) for name in table.column_names}, table.num_rows, people.base
    )
    person = people.schema.columns[0]
    looked = np.flatnonzero(batch.true(people.rows))
    names = _names(table.column(person.name))
    groups: dict[Any, list[int]] = {}
    for row in looked.tolist():
        groups.setdefault(names[row], []).append(row)
    ties = _ties(people, table)
    columns: dict[str, Any] = {person.name: _firsts(table.column(person.name), groups)}
    for feature in people.features:
        found = _found(feature, batch, groups, ties)
        if column(feature.column).type == "date":
            found = [None if x is None else EPOCH + datetime.timedelta(days=int(x)) for x in found]
        columns[feature.column.name] = pa.array(found, TYPES[column(feature.column).type])
    return pa.table(columns)


def _names(stored: Any) -> list[Any]:
    """Whose row each is; NaN is nobody."""
    return [None if x is None or x != x else x for x in stored.to_pylist()]


def _firsts(stored: Any, groups: dict[Any, list[int]]) -> Any:
    whole = stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
    places = [None if name is None else rows[0] for name, rows in groups.items()]
    return whole.take(pa.array(places, pa.int64()))


def _ties(people: PeopleRows, table: pa.Table) -> Sequence[tuple[Any, ...]]:
    """What puts rows of one moment in order: their key, then their place."""
    key, person = people.base.key, people.schema.columns[0]
    if key is None or key.name == person.name:
        return [(i,) for i in range(table.num_rows)]
    stored = _names(table.column(key.name))
    return [(k is None, k if k is not None else 0, i) for i, k in enumerate(stored)]


def _found(
    feature: Feature, batch: Batch, groups: dict[Any, list[int]], ties: Sequence[tuple[Any, ...]]
) -> list[Any]:
    if feature.kind in ("sum", "avg"):
        value = feature.grid
        known = batch.evaluate(value.node)
        whole = grid(value, known)
        valid = known.valid | (not value.node.nullable)
        added = [(whole, valid, rows) for rows in groups.values()]
        return [_added(feature, *each) for each in added]
    given = batch.evaluate(feature.given)
    if feature.order is not None:
        order = batch.evaluate(feature.order)
        return [_chosen(feature, given, order, rows, ties) for rows in groups.values()]
    make = AGGREGATES[feature.kind]
    data, valid = given.data, given.valid
    return [make([data[i] for i in rows if valid[i]], feature) for rows in groups.values()]


def _added(feature: Feature, whole: Any, valid: Any, rows: list[int]) -> Any:
    """A sum or an average of grid integers, in the feature's own units."""
    kept = [int(whole[i]) for i in rows if valid[i]]
    if not kept:
        return None
    total, c = sum(kept), feature.column
    if feature.kind == "sum" and c.type == "integer":
        return min(max(total, c.low), c.high)
    step = 2.0**-feature.grid.scale
    return float(total) * step if feature.kind == "sum" else float(total) / len(kept) * step


def _chosen(
    feature: Feature, given: Vector, order: Vector, rows: list[int], ties: Sequence[tuple[Any, ...]]
) -> Any:
    """What the first or last row has, of those that have it and their place in the order."""
    known = [i for i in rows if given.valid[i] and order.valid[i]]
    if not known:
        return None
    choose: Callable[..., int] = min if feature.kind == "first" else max
    return _plain(given.data[choose(known, key=lambda i: (order.data[i], ties[i]))])


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _within(found: int, feature: Feature) -> int:
    return int(min(max(found, feature.column.low), feature.column.high))


AGGREGATES: dict[str, Callable[[list[Any], Feature], Any]] = {
    "count": lambda found, f: _within(len(found), f),
    "distinct": lambda found, f: _within(len(set(found)), f),
    "min": lambda found, f: _plain(min(found)) if found else None,
    "max": lambda found, f: _plain(max(found)) if found else None,
    "same": lambda found, f: _plain(max(found)) if found else None,
    "any": lambda found, f: any(map(bool, found)) if found else None,
    "every": lambda found, f: all(map(bool, found)) if found else None,
}

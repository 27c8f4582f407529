"""What can be known from declarations alone: every value a column or an expression can have."""

from __future__ import annotations

import datetime
import math
from functools import lru_cache
from typing import Any

import numpy as np

from sulq.expressions.columns import Vector, ends, vector_of
from sulq.expressions.node import Node
from sulq.expressions.operations import Evaluator
from sulq.expressions.program_node import has_program
from sulq.values.schema import Column, Schema

EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


@lru_cache(maxsize=256)
def true_cells(node: Node, schema: Schema) -> tuple[int, ...]:
    """The ledger cells in which a public predicate holds."""
    columns = zip(*schema.cells, strict=True)
    raw = {c.name: vector_of(v) for c, v in zip(schema.cell_columns, columns, strict=True)}
    batch = Evaluator(raw, schema.cell_count, schema)
    return tuple(np.flatnonzero(batch.true(node)).tolist())


@lru_cache(maxsize=16)
def reachable(node: Node, schema: Schema, most: int = 2**16) -> tuple[Any, ...] | None:
    """Every value an expression over few-valued columns can have; None where it may be missing.

    Found from the declarations alone. Where the columns have too many combinations, the values of
    the parts are combined: `year(a) - year(b)` has few, though two dates have billions. Parts that
    read the same column are combined as if they did not, so a value may be listed that never
    occurs; one that occurs is never left out. None instead of a tuple: too many combinations, or a
    program, which runs on paid questions only.
    """
    found = None if has_program(node) else _values(node, schema, most)
    if found is None:
        return None
    values = sorted(set(found.data[found.valid].tolist()))
    if node.type == "date":
        values = [datetime.date.fromordinal(EPOCH_DAY + v) for v in values]
    return (*values, *([None] if node.nullable else []))


def _values(node: Node, schema: Schema, most: int) -> Vector | None:
    """The values of an expression, a missing one among them; None if they are too many."""
    batch = domain_batch(tuple(sorted(node.columns())), schema, most)
    if batch is not None:
        return _distinct(batch.evaluate(node))
    parts = {part.text: part for part in node.args if part.op != "literal"}
    values: list[Vector] = []
    for part in parts.values():
        own = _values(part, schema, most)
        if own is None or len(own.data) * math.prod(len(v.data) for v in values) > most:
            return None
        values.append(own)
    if not values:
        return None
    vectors, size = _combinations(values)
    known = dict(zip(parts, vectors, strict=True))
    return _distinct(Evaluator({}, size, schema, known).evaluate(node))


def _distinct(vector: Vector) -> Vector:
    """Each value once, and one missing value if there is any."""
    values = vector.data[vector.valid]
    if values.dtype == object:
        values = np.array(sorted(set(values.tolist())), dtype=object)
    else:
        values = np.unique(values)
    if vector.valid.all():
        return Vector(values, np.ones(len(values), dtype=bool))
    missing = vector.data[~vector.valid][:1]
    return Vector(np.append(values, missing), np.append(np.ones(len(values), dtype=bool), False))


def _combinations(values: list[Vector]) -> tuple[list[Vector], int]:
    """Every combination of some values, once each, as columns of one length."""
    size, repeat, columns = math.prod(len(v.data) for v in values), 1, []
    for v in values:
        at = np.arange(size) // repeat % len(v.data)
        columns.append(Vector(v.data[at], v.valid[at]))
        repeat *= len(v.data)
    return columns, size


@lru_cache(maxsize=256)
def may_be_missing(node: Node, schema: Schema) -> bool:
    """Can the expression be NULL for rows that are as the owner declared them?

    A category declared `nullable = false` is one of its values in every row.
    """
    if not node.nullable:
        return False
    if has_program(node):
        return True
    batch = domain_batch(tuple(sorted(node.columns())), schema, 2**12, declared=True)
    return batch is None or not batch.evaluate(node).valid.all()


def domain_batch(
    names: tuple[str, ...], schema: Schema, most: int, *, declared: bool = False
) -> Evaluator | None:
    """Every combination of values these columns can have, once each.

    Anything may stand in a category's column, unless rows are taken to be as `declared`.
    """
    domains = {name: _domain(schema[name], declared) for name in names}
    size = math.prod(len(d.data) if d is not None else most + 1 for d in domains.values())
    if size > most:
        return None
    columns, size = _combinations([d for d in domains.values() if d is not None])
    return Evaluator(dict(zip(domains, columns, strict=True)), size, schema)


def _domain(column: Column, declared: bool) -> Vector | None:
    """Every value a column can have as declared, then a missing one."""
    if column.listed is not None:
        data = vector_of([*column.listed, None]).data
    elif column.type in ("integer", "date") and column.bounded:
        low, high = ends(column)
        if high - low >= 2**16:
            return None
        data = np.append(np.arange(low, high + 1), low)
    else:
        return None
    if not column.nullable and (declared or column.type != "category"):
        return Vector(data[:-1], np.ones(len(data) - 1, dtype=bool))
    return Vector(data, np.arange(len(data)) < len(data) - 1)

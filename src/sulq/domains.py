"""What can be known from declarations alone: every value a column or an expression can have."""

from __future__ import annotations

import datetime
import math
from functools import lru_cache
from typing import Any

import numpy as np

from sulq.kernel import Batch
from sulq.schema import Column, Schema
from sulq.tree import Node
from sulq.vectors import Vector, ends

EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


@lru_cache(maxsize=256)
def true_cells(node: Node, schema: Schema) -> tuple[int, ...]:
    """The ledger cells in which a public predicate holds."""
    raw: dict[str, Vector] = {}
    for i, column in enumerate(schema.cell_columns):
        values = [cell[i] for cell in schema.cells]
        valid = np.array([v is not None for v in values])
        blank: Any = "" if any(isinstance(v, str) for v in values) else 0
        kind: Any = object if blank == "" else None
        data = np.array([blank if v is None else v for v in values], dtype=kind)
        raw[column.name] = Vector(data.astype(bool) if column.type == "boolean" else data, valid)
    batch = Batch(raw, schema.cell_count, schema)
    return tuple(np.flatnonzero(batch.true(node)).tolist())


@lru_cache(maxsize=16)
def reachable(node: Node, schema: Schema) -> tuple[Any, ...] | None:
    """Every value an expression over few-valued columns can have; None where it may be missing.

    Found from the declarations alone. None instead of a tuple: too many combinations.
    """
    batch = domain_batch(tuple(sorted(node.columns())), schema, 2**16)
    if batch is None:
        return None
    found = batch.evaluate(node)
    values = sorted(set(found.data[found.valid].tolist()))
    if node.type == "date":
        values = [datetime.date.fromordinal(EPOCH_DAY + v) for v in values]
    return (*values, *([None] if node.nullable else []))


def domain_batch(names: tuple[str, ...], schema: Schema, most: int) -> Batch | None:
    """Every combination of values these columns can have as declared, once each."""
    domains = {name: _domain(schema[name]) for name in names}
    size = math.prod(len(d.data) if d is not None else most + 1 for d in domains.values())
    if size > most:
        return None
    raw: dict[str, Vector] = {}
    repeat = 1
    for name, d in domains.items():
        assert d is not None
        at = np.arange(size) // repeat % len(d.data)
        raw[name] = Vector(d.data[at], d.valid[at])
        repeat *= len(d.data)
    return Batch(raw, size, schema)


def _domain(column: Column) -> Vector | None:
    """Every value a column can have as declared, then a missing one."""
    if column.listed is not None:
        blank: Any = "" if isinstance(column.listed[0], str) else column.listed[0]
        kind: Any = object if blank == "" else None
        data = np.array([*column.listed, blank], dtype=kind)
    elif column.type in ("integer", "date") and column.bounded:
        low, high = ends(column)
        if high - low >= 2**16:
            return None
        data = np.append(np.arange(low, high + 1), low)
    else:
        return None
    if not column.nullable and column.type != "category":
        return Vector(data[:-1], np.ones(len(data) - 1, dtype=bool))
    return Vector(data, np.arange(len(data)) < len(data) - 1)

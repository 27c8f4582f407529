"""Everything by which a row gets its cell, shard, person, period and place among rows that count.

Spending is kept by label, and it belongs to rows. Whatever decides the label of a row is therefore
one value, whose digest the ledger keeps: two schemas with the same digest put each row of the same
bytes under the same label. Private columns decide nothing of this and are left out.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from sulq.values.column import Column
from sulq.values.schema import Schema

ENGINES = 1  # how engines read keys, cells and persons: raise it when a row may get another label
COLUMNS = "columns"
# Attributes of a column that clamp or describe values; the name of a person is read without them.
NOT_OF_PERSONS = frozenset(
    {"name", "low", "high", "values", "public", "key", "nullable", "bins", "max_length", "shards"}
)


@dataclass(frozen=True)
class Assignment:
    """The part of a schema that says which row is whose, and where its spending is kept."""

    columns: tuple[Column, ...]  # those that decide
    shards: Column | None
    others: Mapping[str, Any]  # every other attribute of the schema, by its name
    labels: str  # the public values of each cell column, in order
    persons: Mapping[str, Any]  # what makes a person: this may never change

    @classmethod
    def of(cls, schema: Schema) -> Assignment:
        """The assignment that a schema declares."""
        unit, cells = schema.unit, schema.cell_columns
        names = {c.name for c in cells} | {table.on for table in schema.lookups}
        names |= set() if unit is None else {unit.column}
        return cls(
            columns=tuple(c for c in schema.columns if c.key or c.name in names),
            shards=schema.shards,
            others={
                f.name: getattr(schema, f.name)
                for f in fields(schema) if f.compare and f.name != COLUMNS
            },
            labels=json.dumps([[c.name, described(c.listed)] for c in cells]),
            persons=persons_of(schema),
        )  # fmt: skip

    @cached_property
    def digest(self) -> str:
        """A short name for exactly this assignment."""
        body = {"engines": ENGINES, "assignment": described(self)}
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def persons_of(schema: Schema) -> dict[str, Any]:
    """What makes a person: the column that names them, how it is read, in each of the tables."""
    if schema.unit is None:
        return {"column": None}
    column = schema[schema.unit.column]
    reading = {
        f.name: described(getattr(column, f.name))
        for f in fields(column) if f.name not in NOT_OF_PERSONS
    }  # fmt: skip
    # A file of texts stores a category of whole numbers as numbers, so 01 and 1 are one.
    words = [] if column.values is None else sorted({type(v).__name__ for v in column.values})
    found: dict[str, Any] = {"column": column.name, "reading": reading | {"values": words}}
    found["max_periods"] = schema.unit.max_periods
    if schema.star is not None:
        found["people"] = schema.star.people.name
        found["tables"] = {t.name: t.person for t in schema.star.tables}
    return found


def described(value: Any) -> Any:
    """A declaration as JSON that differs wherever it does: every attribute of every part.

    Declarations with names are sorted by them, since the order of a schema read back is another.
    """
    if is_dataclass(value) and not isinstance(value, type):
        shown = {f.name: described(getattr(value, f.name)) for f in fields(value) if f.compare}
        return {"is": type(value).__name__} | shown
    if isinstance(value, Mapping):
        return {str(name): described(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        named = all(is_dataclass(each) and hasattr(each, "name") for each in value)
        return [described(each) for each in (sorted(value, key=_name) if named else value)]
    if isinstance(value, datetime.date):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no canonical description")


def _name(declaration: Any) -> str:
    return str(declaration.name)

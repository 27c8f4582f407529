"""The encoded store: rows already clamped and on their grids, in one DuckDB file.

A private sum over it is a plain sum of integers, and a category is a small number. The file
holds what the rows held, so it is as secret as they are. It goes on with the ledger of the
rows it was made from.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from sulq.engines.writer import Writer
from sulq.errors import SchemaError
from sulq.expressions.node import column as column_node
from sulq.expressions.quoting import quote, text
from sulq.questions.grid import gridded
from sulq.questions.partitions import Axis
from sulq.sources.source import STORE_VERSION
from sulq.values.schema import Column, Schema

GRID = "#grid"  # behind a number column's name: its grid integers

WIDTHS = ((2**7, "TINYINT"), (2**15, "SMALLINT"), (2**31, "INTEGER"), (2**63, "BIGINT"))


def encode(
    connection: Any, schema: Schema, writer: Writer, path: Path, facts: Any, source: str
) -> None:
    """Write the rows of a connection's view to a new store at `path`."""
    if path.exists():
        raise _exists(path)
    with tempfile.TemporaryDirectory(prefix=".sulq-", dir=path.parent) as folder:
        partial = Path(folder) / path.name  # nobody else can look into this folder
        connection.execute(f"ATTACH {text(str(partial))} AS store")
        try:
            for c in (c for c in schema.columns if _is_words(c)):
                values = ", ".join(text(v) for v in c.values or ())
                connection.execute(f"CREATE TYPE {_enum(c)} AS ENUM ({values})")
            parts = (part for c in schema.columns for part in _columns(c, writer, schema))
            columns = ", ".join(parts)
            connection.execute(f"CREATE TABLE store.rows AS SELECT {columns} FROM {source}")
            connection.execute("CREATE TABLE store.sulq (facts VARCHAR)")
            body = json.dumps({"version": STORE_VERSION, "schema": schema.to_json(), **facts})
            connection.execute("INSERT INTO store.sulq VALUES (?)", [body])
        finally:
            connection.execute("DETACH store")
        partial.chmod(0o600)
        try:
            os.link(partial, path)  # unlike a rename it never replaces what is there
        except FileExistsError:
            raise _exists(path) from None


def _exists(path: Path) -> SchemaError:
    return SchemaError(f"{path.name!r} exists. Remove it, or give another name.")


def _enum(c: Column) -> str:
    return f"store.{quote('type of ' + c.name)}"


def _is_words(c: Column) -> bool:
    return c.values is not None and isinstance(c.values[0], str)


def _is_name(c: Column, schema: Schema) -> bool:
    """Does it name rows or people? Such a column is kept as it was: names must not be clamped."""
    return c.key or (schema.unit is not None and c.name == schema.unit.column)


def _grid(c: Column, schema: Schema) -> str:
    """The name of a number's grid column, one that no declared column has."""
    name, taken = c.name + GRID, {n.lower() for n in schema.names}
    while name.lower() in taken:
        name += "#"
    return name


def _columns(c: Column, writer: Writer, schema: Schema) -> list[str]:
    """A column as it is stored: read as declared, as narrow as its range allows."""
    read = writer.read(c)
    if _is_name(c, schema):
        return [f"{quote(c.name)} AS {quote(c.name)}"]
    if _is_words(c):
        return [f"CAST({read} AS {_enum(c)}) AS {quote(c.name)}"]
    if c.type == "integer" and c.bounded:
        return [f"CAST({read} AS {_narrow(c.low, c.high)}) AS {quote(c.name)}"]
    stored = [f"{read} AS {quote(c.name)}"]
    if c.type == "number" and c.bounded:
        value = gridded(column_node(c))
        kind = _narrow(value.low, value.high)
        stored.append(f"CAST({writer.value(value)} AS {kind}) AS {quote(_grid(c, schema))}")
    return stored


def _narrow(low: int, high: int) -> str:
    return next(kind for most, kind in WIDTHS if -most <= low and high < most)


class StoreWriter(Writer):
    """Writes SQL over a store: everything is read already."""

    def read(self, c: Column) -> str:
        """The stored column: clamped, undeclared and NaN missing."""
        if _is_name(c, self.schema):
            return super().read(c)
        if _is_words(c):  # an enum refuses to meet words it does not know
            return f"CAST({quote(c.name)} AS VARCHAR)"
        if c.type in ("integer", "category"):
            return f"CAST({quote(c.name)} AS BIGINT)"
        return quote(c.name)

    def key(self, c: Column) -> str:
        """Words are grouped by their small numbers."""
        words = _is_words(c) and not _is_name(c, self.schema)
        return quote(c.name) if words else self.read(c)

    def axis(self, axis: Axis) -> str:
        """What to group by."""
        node = axis.node
        if axis.kind == "expression" and node is not None and node.op == "column":
            return self.key(self.schema[node.value])
        return super().axis(axis)

    def value(self, value: Any) -> str:
        """A number column's sum is that of its stored grid integers."""
        node = value.node
        if node.op == "column" and not _is_name(self.schema[node.value], self.schema):
            c = self.schema[node.value]
            if c.type == "number":
                return quote(_grid(c, self.schema))
            if c.type == "integer" and c.bounded:
                return quote(c.name)
        return super().value(value)

"""Statements that SQLAlchemy writes once and SQLite's own driver runs.

A charge and its answer are a dozen small statements, and on SQLite most of their time would go
into preparing them anew. Elsewhere SQLAlchemy runs them as always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Executable, Select, bindparam
from sqlalchemy.dialects import sqlite

FEW = 32  # values of an IN for which a statement of its own is kept

_SQLITE = sqlite.dialect(paramstyle="qmark")


def run(
    connection: Connection, statement: Any, values: Mapping[str, Any] | Sequence[Any] = ()
) -> Any:
    """Run it with one set of values, or once with each of several; gives a cursor."""
    if connection.dialect.name != "sqlite":
        return connection.execute(statement, values or None)
    driver: Any = connection.connection.driver_connection
    many = not isinstance(values, Mapping)
    first: Mapping[str, Any] = (values[0] if values else {}) if many else values  # type: ignore[index,assignment]
    sql, names, constants = _compiled(statement, tuple(first))
    if many and values:
        rows = [[_value(each, name, constants) for name in names] for each in values]
        return driver.executemany(sql, rows)
    return driver.execute(sql, [_value(first, name, constants) for name in names])


def _value(values: Any, name: str, constants: Mapping[str, Any]) -> Any:
    return values[name] if name in values else constants[name]


@lru_cache(maxsize=512)
def _compiled(
    statement: Executable, keys: tuple[str, ...]
) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """The text, the names of its values in order, and the constants among them."""
    made = statement.compile(dialect=_SQLITE, column_keys=list(keys) or None)  # type: ignore[attr-defined]
    return str(made), tuple(made.positiontup or ()), dict(made.params)


def among(connection: Connection, statement: Select[Any], column: Column[Any], values: Any) -> Any:
    """The rows of a SELECT whose column is one of these values."""
    wanted = list(values)
    if not wanted:
        return ()
    if len(wanted) <= FEW:
        numbered = {f"v{i}": value for i, value in enumerate(wanted)}
        return run(connection, _among(statement, column, len(wanted)), numbered)
    return connection.execute(statement.where(column.in_(wanted)))


@lru_cache(maxsize=512)
def _among(statement: Select[Any], column: Column[Any], count: int) -> Select[Any]:
    return statement.where(column.in_([bindparam(f"v{i}") for i in range(count)]))

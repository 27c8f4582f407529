"""Rows out of PostgreSQL for the kernel: only the columns needed, in batches, by binary COPY.

Every number, date and flag has a fixed width in a row, so that a batch of rows is read by
numpy at once. Words have not; they come last and are cut out row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sulq.engines.postgres.writer import PostgresWriter, sendable
from sulq.engines.writer import folded
from sulq.expressions.columns import Vector
from sulq.kernel.batch import Batch
from sulq.values.schema import Column

if TYPE_CHECKING:
    import psycopg

HEADER = 19  # bytes before the first row
FEW_WORDS = 64  # a category of more is sent as text
FIRST_DAY = 10_957  # PostgreSQL counts days from 2000-01-01

Records = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A column on its way: what is selected, how wide it is, what becomes of it."""

    name: str
    sql: tuple[str, ...]  # a value and perhaps whether it is there
    types: tuple[str, ...]
    made: Callable[..., Vector]


def stream(
    connection: psycopg.Connection[Any], writer: PostgresWriter, names: list[str], source: str,
    step: int,
) -> Iterator[Batch]:  # fmt: skip
    """The rows of a source in batches of at most `step`; only these columns are sent."""
    fields = [f for n in names if (f := _field(writer, writer.schema[n])) is not None]
    words = [n for n in names if n not in {f.name for f in fields}]
    chosen = [sql for f in fields for sql in f.sql] + [writer.stored[n] for n in words]
    record = _record([kind for f in fields for kind in f.types] if chosen else ["u1"])
    sql = f"COPY (SELECT {', '.join(chosen) or 'TRUE'} FROM {source}) TO STDOUT (FORMAT binary)"
    for messages in _copied(connection, sql, step):
        fixed = messages if not words else [m[: record.itemsize] for m in messages]
        rows = np.frombuffer(b"".join(fixed), dtype=record)
        columns, at = {}, 0
        for f in fields:
            parts = [rows[f"v{at + i}"] for i in range(len(f.sql))]
            columns[f.name] = f.made(*parts)
            at += len(f.sql)
        columns |= _words(messages, words, record.itemsize)
        yield Batch(columns, len(messages), writer.schema)


def _record(kinds: list[str]) -> np.dtype[Any]:
    """A row: how many fields it has, then each behind its length."""
    parts = [part for i, kind in enumerate(kinds) for part in ((f"n{i}", ">i4"), (f"v{i}", kind))]
    return np.dtype([("fields", ">i2"), *parts])


def _field(writer: PostgresWriter, c: Column) -> Field | None:
    """How a column is sent; None: as text."""
    name, kind = writer.stored[c.name], writer.physical[c.name]
    there = f"{name} IS NOT NULL"
    wide = kind == "HUGEINT" and c.type == "number"
    if wide or kind in ("FLOAT", "DOUBLE", "DECIMAL"):  # missing and NaN mean the same
        return Field(c.name, (f"COALESCE({writer.as_number(c)}, 'NaN')",), (">f8",), _floats)
    if kind == "BOOLEAN":
        return Field(c.name, (f"COALESCE({name}, FALSE)", there), ("u1", "u1"), _flags)
    if c.type == "timestamp":
        found = writer.seconds(c)
        return Field(
            c.name, (f"COALESCE({found}, 0)", f"{found} IS NOT NULL"), (">i8", "u1"), _wholes
        )
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        day = f"COALESCE({writer.as_date(c)}, DATE '2000-01-01')"
        return Field(c.name, (day, there), (">i4", "u1"), _days)
    if kind == "VARCHAR":
        return _few_words(writer, c, name)
    if kind == "HUGEINT":
        name = f"CASE WHEN {name} < 'NaN' THEN {name} END"
        there, name = f"({name}) IS NOT NULL", folded(f"({name})")
    whole = f"COALESCE(CAST({name} AS BIGINT), 0)"
    return Field(c.name, (whole, there), (">i8", "u1"), _wholes)


def _few_words(writer: PostgresWriter, c: Column, name: str) -> Field | None:
    """A category by the place of its word; undeclared is missing."""
    words = c.values
    if c.type != "category" or words is None or len(words) > FEW_WORDS:
        return None
    if not all(sendable(w) for w in words):
        return None
    known = np.array([*words, ""], dtype=object)
    place = f"COALESCE({writer.place(words, name)}, {len(words)})"

    def made(at: Records) -> Vector:
        return Vector(known[at], at < len(words))

    return Field(c.name, (place,), (">i4",), made)


def _floats(values: Records) -> Vector:
    data = values.astype(np.float64)
    return Vector(data, ~np.isnan(data))


def _flags(values: Records, there: Records) -> Vector:
    return Vector(values.astype(bool), there.astype(bool))


def _wholes(values: Records, there: Records) -> Vector:
    return Vector(values.astype(np.int64), there.astype(bool))


def _days(values: Records, there: Records) -> Vector:
    # Endless dates are sent as the ends of 32 bits, which are beyond every date declared.
    return Vector(values.astype(np.int64) + FIRST_DAY, there.astype(bool))


def _words(messages: list[bytes], names: list[str], start: int) -> dict[str, Vector]:
    """Text columns, each behind its length; a length of -1 is missing."""
    if not names:
        return {}
    found: list[list[str | None]] = [[] for _ in names]
    for message in messages:
        at = start
        for column in found:
            size = int.from_bytes(message[at : at + 4], signed=True)
            at += 4
            column.append(None if size < 0 else message[at : at + size].decode())
            at += max(size, 0)
    out = {}
    for name, column in zip(names, found, strict=True):
        valid = np.array([x is not None for x in column], dtype=bool)
        data = np.empty(len(column), dtype=object)
        data[:] = [x or "" for x in column]
        out[name] = Vector(data, valid)
    return out


def _copied(connection: psycopg.Connection[Any], sql: str, step: int) -> Iterator[list[bytes]]:
    """The rows of a COPY as they came, at most `step` at a time; nothing else is in memory."""
    from psycopg import pq
    from psycopg.errors import error_from_result

    link = connection.pgconn
    begun = link.exec_(sql.encode())
    if begun.status != pq.ExecStatus.COPY_OUT:
        raise error_from_result(begun)
    first, rows = True, []
    while True:
        size, data = link.get_copy_data(0)
        if size < 0:
            break
        row = bytes(data)
        if first:
            row, first = row[HEADER:], False
        if len(row) > 2:  # not the last message, which holds no row
            rows.append(row)
        if len(rows) >= step:
            yield rows
            rows = []
    while (ended := link.get_result()) is not None:
        if ended.status != pq.ExecStatus.COMMAND_OK:
            raise error_from_result(ended)
    if rows:
        yield rows

"""Files whose values are read as texts: JSON lines, SQLite and Excel, and CSVs that are not UTF-8.

Their own types change from value to value, so none is trusted: each value is written down as text
and then read as its column is declared (text_values.py). What is no text, number, date or truth is
missing.
"""

from __future__ import annotations

import datetime
import gzip
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_path

from sulq.errors import MissingExtra, SchemaError
from sulq.expressions.quoting import quote

CHUNK = 50_000  # rows at a time
LINE = 2**24  # characters of one JSON object
SQLITE_HEAD = b"SQLite format 3\0"


def is_sqlite(path: Path) -> bool:
    """Is it a file of SQLite's, whatever it is called?"""
    with path.open("rb") as file:
        return file.read(len(SQLITE_HEAD)) == SQLITE_HEAD


def opened_file(path: Path, mode: str, **how: str) -> Any:
    """A file, unpacked where it is gzipped."""
    opener: Any = gzip.open if path.name.lower().endswith(".gz") else open
    return opener(path, mode, **how)


def as_text(value: Any) -> str | None:
    """A value as a CSV would have it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return None


def text_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """Rows of any values as an Arrow table of texts."""
    import pyarrow as pa

    schema, width = pa.schema([(name, pa.string()) for name in names]), len(names)
    batches, rest = [], iter(rows)
    while chunk := list(islice(rest, CHUNK)):
        columns = [
            pa.array([as_text(row[i]) if i < len(row) else None for row in chunk], pa.string())
            for i in range(width)
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


def text_rows(kind: str, path: Path | None, table: str | None) -> tuple[Any, str]:
    """The rows of a SQLite or Excel file as a frame of texts, and the name of their table."""
    assert path is not None
    return (sqlite_table if kind == "sqlite" else excel_table)(path, table)


# ---- SQLite -----------------------------------------------------------------------------------


def sqlite_table(path: Path, table: str | None) -> tuple[Any, str]:
    """One table of a SQLite file."""
    try:
        with closing(_sqlite(path)) as file:
            chosen = _one_of(sqlite_tables(path), table, path, "table")
            found = file.execute(f"SELECT * FROM {quote(chosen)}")
            return text_table([d[0] for d in found.description], found), chosen
    except (sqlite3.Error, UnicodeEncodeError):
        raise SchemaError(f"source={path.name!r} cannot be read as a SQLite file.") from None


def sqlite_tables(path: Path) -> list[str]:
    """The plain tables of a SQLite file: a view may run for ever, or be other rows each time."""
    listed = (
        "SELECT name FROM sqlite_schema WHERE type = 'table' "
        "AND sql NOT LIKE 'create virtual%' ORDER BY name"
    )
    try:
        with closing(_sqlite(path)) as file:
            return [n for (n,) in file.execute(listed) if not n.startswith("sqlite_")]
    except sqlite3.Error:
        raise SchemaError(f"source={path.name!r} cannot be read as a SQLite file.") from None


def _sqlite(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(f"file:{quote_path(str(path))}?mode=ro", uri=True)
    file.text_factory = _decoded
    return file


def _decoded(raw: bytes) -> str | None:
    """A text, or nothing where its bytes are none: SQLite does not look."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


# ---- Excel ------------------------------------------------------------------------------------


def excel_table(path: Path, sheet: str | None) -> tuple[Any, str]:
    """One sheet of an Excel file; its first row names the columns."""
    try:
        import openpyxl
    except ImportError:
        raise MissingExtra("Excel files need: pip install 'sulq[excel]'") from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception:
        raise SchemaError(f"source={path.name!r} cannot be read as an Excel file.") from None
    try:
        chosen = _one_of(book.sheetnames, sheet, path, "sheet")
        rows = book[chosen].iter_rows(values_only=True)
        head = next(rows, ())
        names = [as_text(cell) or "" for cell in head]
        while names and not names[-1]:
            names.pop()
        if not names or not all(names) or len({n.lower() for n in names}) != len(names):
            raise SchemaError(
                f"source={path.name!r}: the first row of the sheet must name every column, each "
                "by a name of its own."
            )
        filled = (row for row in rows if any(cell is not None for cell in row))
        return text_table(names, filled), chosen
    finally:
        book.close()


def _one_of(names: Sequence[str], wanted: str | None, path: Path, what: str) -> str:
    chosen = wanted or (names[0] if len(names) == 1 else None)
    if chosen not in names:
        raise SchemaError(
            f"table={wanted!r}: {path.name!r} has the {what}s {', '.join(names) or '(none)'}. "
            "Name one with table=..."
        )
    return str(chosen)


# ---- JSON lines and encodings -----------------------------------------------------------------


def json_names(path: Path) -> list[str]:
    """The names in the first object of a file of JSON lines."""
    try:
        with opened_file(path, "rt", encoding="utf-8-sig") as lines:
            found = json.loads(lines.readline(LINE))
    except (OSError, EOFError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found:
        raise SchemaError(
            f"source={path.name!r}: the first line must be a JSON object, in UTF-8 text."
        )
    return list(found)


def in_utf8(path: Path, encoding: str, folder: Path) -> Path:
    """A copy of a text file in UTF-8, in this folder."""
    out = folder / "rows.csv"
    try:
        with (
            opened_file(path, "rt", encoding=encoding, newline="") as given,
            out.open("w", encoding="utf-8", newline="") as made,
        ):
            for part in iter(lambda: given.read(2**20), ""):
                made.write(part)
    except (OSError, EOFError, UnicodeError):
        raise SchemaError(
            f"source={path.name!r} is not text in {encoding}. Set encoding under [file] in the "
            "schema, or leave it out for UTF-8."
        ) from None
    return out

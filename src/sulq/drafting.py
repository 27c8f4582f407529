"""A first draft of a schema, from a file's metadata alone.

Names and stored types are not about any row. Bounds and categories read off the rows would
be answers nobody paid for, so they are left blank; Parquet's own minima and maxima are not
looked at either.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path

from sulq.errors import SchemaError
from sulq.schema import MAX_NAME
from sulq.sources import DATES, FLOATS, MAX_HEADER, WHOLE, Source, open_source

HEAD = """\
# Draft of a schema for {name}. Names and types come from the file's metadata.
#
# Bounds and categories are left blank on purpose. Fill them in from what you know about the
# world (an age is 0 to 120), never by looking at the rows: a bound read off the rows would
# be an answer nobody paid for, and it would tell of the row that set it.
#
#   low, high         values outside are moved to the nearer end
#   values            the categories that can occur; anything else counts as 'other'
#   public = true     who has which value is no secret; spending is kept apart by it
#   key = true        a public row number: forms samples and blocks
#   nullable = false  no value is missing; makes sums and means more exact
"""


def stored_types(source: Source) -> dict[str, str | None]:
    """Column names and stored types; None where only the rows would tell (CSV)."""
    if source.url is not None:
        from sulq.engines.postgres import stored_types as on_server

        return dict(on_server(source))
    if source.kind == "csv":
        assert source.path is not None
        return dict.fromkeys(_header(source.path))
    import duckdb

    from_rows = "DESCRIBE SELECT * FROM read_parquet(?)"
    try:
        if source.kind == "parquet":
            with duckdb.connect() as connection:
                rows = connection.execute(from_rows, [str(source.path)]).fetchall()
        else:
            with duckdb.connect(str(source.path), read_only=True) as connection:
                rows = connection.execute(f"DESCRIBE {_only_table(connection, source)}").fetchall()
    except duckdb.Error:
        raise SchemaError(f"{source.name!r} cannot be read as {source.kind}.") from None
    return {row[0]: row[1] for row in rows}


def _only_table(connection: object, source: Source) -> str:
    tables = [r[0] for r in connection.execute("SHOW TABLES").fetchall()]  # type: ignore[attr-defined]
    table = source.table or (tables[0] if len(tables) == 1 else None)
    if table not in tables:
        raise SchemaError(f"table={source.table!r}: the file has {', '.join(tables) or 'none'}.")
    return '"' + str(table).replace('"', '""') + '"'


def _header(path: Path) -> list[str]:
    """The first line of a CSV, cut at whichever separator it uses."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            line = file.readline(MAX_HEADER)
    except (OSError, UnicodeDecodeError):
        raise SchemaError(f"{path.name!r} cannot be read as UTF-8 text.") from None
    separator = max(",;\t|", key=line.count)
    names = next(csv.reader([line], delimiter=separator), [])
    if not names or any(not n.strip() or len(n) > MAX_NAME for n in names):
        raise SchemaError(f"{path.name!r}: the first line must name every column.")
    return names


def kind_of(stored: str) -> str | None:
    """The declared type that fits how a column is stored."""
    plain = stored.split("(")[0]
    if plain == "BOOLEAN":
        return "boolean"
    if plain in WHOLE:
        return "integer"
    if plain in FLOATS or plain == "DECIMAL":
        return "number"
    if plain in DATES:
        return "date"
    return "text" if plain in ("VARCHAR", "ENUM") else None


def draft(path: str | Path, table: str | None = None) -> str:
    """The text of a draft."""
    source = open_source(path, table)
    blocks = [_block(name, stored) for name, stored in stored_types(source).items()]
    named = source.name if source.url is not None else Path(path).name
    return "\n".join([HEAD.format(name=named), *blocks])


def _block(name: str, stored: str | None) -> str:
    head = f"[columns.{name if re.fullmatch('[A-Za-z0-9_-]+', name) else json.dumps(name)}]"
    if stored is None:
        lines = [
            head,
            '# type = ""          # integer, number, boolean, text or date',
            *BLANKS["any"],
        ]
        return "\n".join(lines) + "\n"
    kind = kind_of(stored)
    if kind is None:
        return f"# {head}  is stored as {stored.split('(')[0]}, which no question can use.\n"
    return "\n".join([head, f'type = "{kind}"', *BLANKS.get(kind, ())]) + "\n"


BLANKS = {
    "any": (
        '# type = ""          # integer, number, boolean, text or date',
        "# low =",
        "# high =",
        '# values = [""]      # for a category, instead of a type',
    ),
    "integer": ("# low =", "# high ="),
    "number": ("# low =", "# high ="),
    "date": ("# low =             # such as 1900-01-01", "# high ="),
    "text": ('# values = [""]      # to make it a category; then remove the type',),
}

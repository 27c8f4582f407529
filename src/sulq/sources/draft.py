"""A first draft of a schema, from a file's metadata; of a CSV, with types guessed for its owner.

Names and stored types are not about any row. Bounds and categories read off the rows would
be answers nobody paid for, so they are left blank; Parquet's own minima and maxima are not
looked at either.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from sulq.errors import SchemaError
from sulq.expressions.quoting import quote
from sulq.sources.guess import guessed_lines
from sulq.sources.postgres_catalog import server_types
from sulq.sources.source import (
    Source,
    csv_header,
    files_of,
    kind_of,
    looks_like_data,
    open_source,
)
from sulq.sources.text_files import json_names, text_rows
from sulq.values.schema import MAX_NAME

HEAD = """\
# Draft of a schema for {name}. Names and types come from the file's metadata; a CSV has
# none, so types are guessed from its first rows, on this machine, for you to check.
#
# Bounds and categories are left blank on purpose. Fill them in from what you know about the
# world (an age is 0 to 120), never by looking at the rows: a bound read off the rows would
# be an answer nobody paid for, and it would tell of the row that set it.
#
#   low, high         values outside are moved to the nearer end
#   values            the categories that can occur; anything else counts as '(other)'
#   public = true     who has which value is no secret; spending is kept apart by it
#   key = true        a public row number: forms samples and blocks
#   nullable = false  no value is missing; makes sums and means more exact
"""


STAR = """\
# Several files: one has a row for each person, the others have their events. Every one of events
# says how many rows of a person count, and has a key.
[unit]
column = ""          # what names the person; where a table calls it otherwise, column = that
"""


def stored_types(source: Source) -> dict[str, str | None]:
    """Column names and stored types; None where only the rows would tell (CSV)."""
    if source.url is not None:
        return dict(server_types(source.url, source.table))
    if source.kind in ("csv", "json"):
        assert source.path is not None
        names = csv_header(source.path)[1] if source.kind == "csv" else json_names(source.path)
        if any(len(name) > MAX_NAME for name in names):
            raise SchemaError(f"{source.path.name!r}: the first line must name every column.")
        return dict.fromkeys(names)
    if source.kind in ("sqlite", "excel"):
        found, _ = text_rows(source.kind, source.path, source.table)
        return dict.fromkeys(found.column_names)
    import duckdb

    from_rows = "DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)"
    try:
        if source.kind == "parquet":
            with duckdb.connect() as connection:
                rows = connection.execute(from_rows, [[str(files_of(source)[0])]]).fetchall()
        else:
            with duckdb.connect(str(source.path), read_only=True) as connection:
                rows = connection.execute(f"DESCRIBE {only_table(connection, source)}").fetchall()
    except duckdb.Error:
        raise SchemaError(f"{source.name!r} cannot be read as {source.kind}.") from None
    return {row[0]: row[1] for row in rows}


def stored_rows(source: Source) -> int | None:
    """How many rows Parquet's own metadata says there are; None of what would have to be read."""
    if source.kind != "parquet":
        return None
    import duckdb

    counted = "SELECT sum(num_rows) FROM parquet_file_metadata(?)"
    try:
        with duckdb.connect() as connection:
            ((found,),) = connection.execute(
                counted, [[str(file) for file in files_of(source)]]
            ).fetchall()
    except duckdb.Error:
        return None
    return None if found is None else int(found)


def only_table(connection: object, source: Source) -> str:
    """The table that is meant of a DuckDB file, quoted."""
    if source.kind == "store":
        return "rows"
    tables = [r[0] for r in connection.execute("SHOW TABLES").fetchall()]  # type: ignore[attr-defined]
    table = source.table or (tables[0] if len(tables) == 1 else None)
    if table not in tables:
        raise SchemaError(f"table={source.table!r}: the file has {', '.join(tables) or 'none'}.")
    return quote(str(table))


def draft(path: str | Path, table: str | None = None) -> str:
    """The text of a draft."""
    source = open_source(path, table)
    named = source.name if source.url is not None else Path(path).name
    blocks = _of_tables(source) if source.kind == "tables" else _columns(source, "columns")
    return "\n".join([HEAD.format(name=named), *blocks])


def _columns(source: Source, at: str) -> list[str]:
    guessed = guessed_lines(source.path) if source.kind == "csv" and source.path else {}
    stored = stored_types(source)
    return [_block(name, kind, guessed.get(name), at) for name, kind in stored.items()]


def _of_tables(source: Source) -> list[str]:
    """A folder with a file for each table: of people, and of their events."""
    assert source.path is not None
    blocks = [STAR]
    for file in sorted(filter(looks_like_data, source.path.iterdir())):
        part = open_source(file)
        name = re.sub(r"\W", "_", part.name)
        said = f"[tables.{name}]\n# max_rows =         # of a person that count; leave it out of"
        blocks.append(f'{said} the table of people\nsource = "{file.name}"\n')
        blocks += _columns(part, f"tables.{name}.columns")
    return blocks


def _block(name: str, stored: str | None, guessed: tuple[str, ...] | None, at: str) -> str:
    head = f"[{at}.{name if re.fullmatch('[A-Za-z0-9_-]+', name) else json.dumps(name)}]"
    if guessed is not None:
        first, *how = guessed
        blanks = BLANKS.get(first.split('"')[1], ())
        return "\n".join([head, f"{first:<20} {GUESSED}", *how, *blanks]) + "\n"
    if stored is None:
        return "\n".join([head, *BLANKS["any"]]) + "\n"
    kind = kind_of(stored)
    if kind is None:
        return f"# {head}  is stored as {stored.split('(')[0]}, which no question can use.\n"
    return "\n".join([head, f'type = "{kind}"', *BLANKS.get(kind, ())]) + "\n"


GUESSED = "# guessed from the first rows of your file: look before you trust it"
BLANKS = {
    "any": (
        '# type = ""          # integer, number, boolean, text, date or timestamp',
        "# low =",
        "# high =",
        '# values = [""]      # for a category, instead of a type',
    ),
    "integer": ("# low =", "# high ="),
    "number": ("# low =", "# high ="),
    "date": ("# low =             # such as 1900-01-01", "# high ="),
    "text": ('# values = [""]      # to make it a category; then remove the type',),
}

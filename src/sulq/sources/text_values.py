"""Texts read as the type that is declared: in DuckDB's SQL, value by value, never failing.

What cannot be read is missing. CSV, JSON lines, SQLite and Excel files are read this way, and the
folders of a partitioned Parquet table. A column may say how its values are written: the form of
its dates, its decimal comma, its words for true and false.
"""

from __future__ import annotations

import re

from sulq.expressions.quoting import text
from sulq.values.column import Column

CASTS = {"boolean": "BOOLEAN", "integer": "BIGINT", "number": "DOUBLE", "date": "DATE",
         "timestamp": "TIMESTAMP"}  # fmt: skip


def stored_as(column: Column | None) -> str:
    """The type that DuckDB gives its values."""
    if column is None:
        return "VARCHAR"
    if column.values and not isinstance(column.values[0], str):
        return "BIGINT"
    return CASTS.get(column.type, "VARCHAR")


def typed(column: Column | None, raw: str) -> str:
    """A text as its declared type; NULL where it is not one.

    DuckDB moves a bare TRY_CAST into its CSV reader, where a failure drops the row or raises;
    behind trim() it stays a cast of this value alone.
    """
    kind, trimmed = stored_as(column), f"trim({raw})"
    if column is None or kind == "VARCHAR":
        return raw
    if column.date_format is not None:
        return f"CAST(try_strptime({trimmed}, {text(column.date_format)}) AS {kind})"
    if column.true is not None and column.false is not None:
        yes, no = (_listed(words) for words in (column.true, column.false))
        said = f"lower({trimmed})"
        return f"CASE WHEN {said} IN ({yes}) THEN TRUE WHEN {said} IN ({no}) THEN FALSE END"
    if column.decimal is not None or column.thousands is not None:
        return f"TRY_CAST({_plain_number(column, trimmed)} AS {kind})"
    return f"TRY_CAST({trimmed} AS {kind})"


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(text(word.strip().lower()) for word in words)


def _plain_number(column: Column, trimmed: str) -> str:
    """A number as SQL writes it; NULL where groups of digits are not of three."""
    point, comma = column.decimal or ".", column.thousands
    whole = r"\d+" if comma is None else rf"(\d+|\d{{1,3}}({re.escape(comma)}\d{{3}})+)"
    form = rf"[+-]?({whole}({re.escape(point)}\d*)?|{re.escape(point)}\d+)([eE][+-]?\d{{1,3}})?"
    bare = trimmed if comma is None else f"replace({trimmed}, {text(comma)}, '')"
    bare = bare if point == "." else f"replace({bare}, {text(point)}, '.')"
    return f"CASE WHEN regexp_full_match({trimmed}, {text(form)}) THEN {bare} END"

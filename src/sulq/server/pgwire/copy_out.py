"""COPY (SELECT ...) TO STDOUT: rows as text or CSV, in PostgreSQL's spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sulq.server.pgwire.problems import Problem
from sulq.server.pgwire.result_types import as_text
from sulq.server.pgwire.service_calls import Result
from sulq.values.safe_text import csv_cell

ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
           "\v": "\\v"}  # fmt: skip
OPTION = re.compile(
    r"(format|delimiter|null|header|csv|text|quote|escape|encoding|binary)\b\s*(?:as\s+)?"
    r"(E?'(?:[^']|'')*'|true|false|on|off|csv\b|text\b|binary\b|\d\b)?", re.IGNORECASE,
)  # fmt: skip
WITH = re.compile(r"with\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How rows are written."""

    csv: bool = False
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'

    @classmethod
    def read(cls, text: str) -> CopyOptions:
        """From what stands behind TO STDOUT, in the old or the new spelling."""
        rest = text.strip()
        found = WITH.match(rest)
        rest = rest[found.end() if found else 0 :].strip().removeprefix("(").removesuffix(")")
        said: dict[str, str] = {}
        for option in OPTION.finditer(rest):
            said[option[1].lower()] = _value(option[2])
        if OPTION.sub("", rest).strip(" ,\t\n"):
            raise Problem("0A000", "COPY: an option is not known here",
                          "known: FORMAT csv or text, HEADER, DELIMITER, NULL, QUOTE")  # fmt: skip
        form = said.get("format", "csv" if "csv" in said else "text").lower()
        if "binary" in (form, *said):
            raise Problem("0A000", "COPY: want FORMAT csv or text")
        csv = form == "csv"
        header = "header" in said and said["header"].lower() not in ("false", "off", "0")
        delimiter = said.get("delimiter", "," if csv else "\t")
        quote = said.get("quote", '"')
        if len(delimiter) != 1 or len(quote) != 1:
            raise Problem("22023", "COPY: delimiter and quote are one letter each")
        return cls(csv, header, delimiter, said.get("null", "" if csv else "\\N"), quote)


def _value(text: str | None) -> str:
    if not text:
        return ""
    if text[0] in "eE" and text[1:2] == "'":
        return text[2:-1].replace("''", "'").replace("\\t", "\t").replace("\\\\", "\\")
    return text[1:-1].replace("''", "'") if text[0] == "'" else text


def copied(result: Result, options: CopyOptions) -> Iterator[bytes]:
    """The rows, line by line."""
    if options.header:
        yield _line([column.name for column in result.columns], options)
    for row in result.rows:
        yield _line([as_text(value) for value in row], options)


def _line(values: list[str | None], options: CopyOptions) -> bytes:
    write = _quoted if options.csv else _escaped
    values = [csv_cell(v) for v in values] if options.csv else values
    cells = [options.null if v is None else write(v, options) for v in values]
    return (options.delimiter.join(cells) + "\n").encode("utf-8", "replace")


def _quoted(value: str, options: CopyOptions) -> str:
    special = (options.delimiter, options.quote, "\n", "\r")
    if value != options.null and not any(c in value for c in special):
        return value
    return options.quote + value.replace(options.quote, options.quote * 2) + options.quote


def _escaped(value: str, options: CopyOptions) -> str:
    out = "".join(ESCAPES.get(c, c) for c in value)
    return (
        out
        if options.delimiter == "\t"
        else out.replace(options.delimiter, f"\\{options.delimiter}")
    )

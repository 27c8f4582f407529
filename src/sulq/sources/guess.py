"""What the columns of a CSV may be, guessed from its first rows, for their owner's eyes.

A guess reads values, so it is never more than a draft: the owner looks at each type and declares
it. Parquet and databases store types, and nothing is guessed there.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import TypeVar

from sulq.sources.source import csv_header

ROWS = 1000  # that a guess looks at,
LINES = 2**22  # and characters
WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")
Kind = TypeVar("Kind", str, tuple[str, ...])
MOMENT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([ T][0-9:.]+Z?)?")


def _is_number(text: str) -> bool:
    return bool(NUMBER.fullmatch(text)) and any(c.isdigit() for c in text)


def _is_day(text: str) -> bool:
    found = MOMENT.fullmatch(text)
    with suppress(ValueError):
        return found is not None and date.fromisoformat(found[1]) is not None
    return False


# In the order in which they are tried; what is none of these is a text.
TYPES: dict[str, Callable[[str], object]] = {
    "integer": WHOLE.fullmatch,
    "number": _is_number,
    "boolean": lambda text: text.lower() in ("true", "false"),
    "date": _is_day,
}


def _written(form: str) -> Callable[[str], object]:
    """Is a text a day in this form?"""

    def fits(text: str) -> bool:
        with suppress(ValueError):
            return datetime.strptime(text, form) is not None
        return False

    return fits


def _one_of(*words: str) -> Callable[[str], object]:
    """Is a text one of these words?"""
    known = {word.lower() for word in words}
    return lambda text: text.lower() in known


# Types with how they are written, where that is not SQL's own way; tried after those above.
FORMS = ("%d-%m-%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d")
WRITTEN: dict[tuple[str, ...], Callable[[str], object]] = {
    ("number", 'decimal = ","'): re.compile(r"[+-]?[0-9]+(,[0-9]+)?").fullmatch,
    ("number", 'decimal = ","', 'thousands = "."'):
        re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})*(,[0-9]+)?").fullmatch,
    ("number", 'thousands = ","'):
        re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})*(\.[0-9]+)?").fullmatch,
    **{("date", f'date_format = "{form}"'): _written(form) for form in FORMS},
    **{
        ("boolean", f'true = ["{yes}"]', f'false = ["{no}"]'): _one_of(yes, no)
        for yes, no in (("J", "N"), ("Y", "N"), ("yes", "no"), ("ja", "nein"), ("ja", "nee"))
    },
}  # fmt: skip


def guessed_types(path: Path) -> dict[str, str]:
    """A type for each column of a CSV that has a value in its first rows."""
    found = _fitting(path, TYPES)
    return {name: next(iter(kinds), "text") for name, kinds in found.items()}


def guessed_lines(path: Path) -> dict[str, tuple[str, ...]]:
    """The same as lines of a schema, with how the values are written."""
    plain = {(kind,): fit for kind, fit in TYPES.items()}
    found = _fitting(path, plain | WRITTEN)
    best = {name: next(iter(kinds), ("text",)) for name, kinds in found.items()}
    return {name: (f'type = "{kind}"', *how) for name, (kind, *how) in best.items()}


def _fitting(path: Path, kinds: Mapping[Kind, Callable[[str], object]]) -> dict[str, list[Kind]]:
    """Which of these every value of a column fits, for columns with a value in the first rows."""
    delimiter, names = csv_header(path)
    fits: dict[str, list[Kind]] = {}
    for row in _first_rows(path, delimiter):
        for name, value in zip(names, row, strict=False):
            text = value.strip()
            if text:
                fits[name] = [kind for kind in fits.get(name, kinds) if kinds[kind](text)]
    return {name: fits[name] for name in names if name in fits}


def _first_rows(path: Path, delimiter: str) -> list[list[str]]:
    """Whole rows from the beginning of a file; none of what is no text."""
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        start = file.read(LINES)
        lines = start.splitlines(keepends=True)
        cut = bool(file.read(1))
    rows: list[list[str]] = []
    with suppress(csv.Error):
        for row in islice(csv.reader(lines, delimiter=delimiter), 1, ROWS + 1):
            rows.append(row)
    return rows[:-1] if cut and len(rows) < ROWS else rows

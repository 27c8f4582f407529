"""Public tables that rows are joined to: what a ward, a product or a postcode is.

A lookup table is public and each of its rows has a key of its own, so its columns are public
functions of one column of the private table. Nothing of it is private, and joining it changes no
row's share in any sum.
"""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sulq.errors import SchemaError

MAX_ENTRIES = 100_000
FIELDS = ("on", "key", "file", "rows")


@dataclass(frozen=True)
class Lookup:
    """A public table: `on` is the private table's column, `key` the one it is equal to here."""

    name: str
    on: str
    key: str
    columns: tuple[str, ...]
    entries: tuple[tuple[Any, tuple[Any, ...]], ...]  # a key, and its row's other values

    def column(self, name: str) -> int | None:
        """The place of a column, as SQL finds it."""
        folded = [c.lower() for c in self.columns]
        return folded.index(name.lower()) if name.lower() in folded else None

    def to_json(self) -> dict[str, Any]:
        """The table as plain values."""
        rows = [
            {self.key: _plain(k)} | {c: _plain(v) for c, v in zip(self.columns, row, strict=True)}
            for k, row in self.entries
        ]
        return {"on": self.on, "key": self.key, "rows": rows}


def read_lookups(spec: Any, where: str, folder: Path) -> tuple[Lookup, ...]:
    """The lookup tables that a schema declares."""
    if spec is None:
        return ()
    if not isinstance(spec, Mapping):
        raise SchemaError(f'{where or "schema"}: lookups: want [lookups.NAME] with on = "column".')
    return tuple(_read(str(name), body, folder) for name, body in spec.items())


def _read(name: str, spec: Any, folder: Path) -> Lookup:
    if not name.isidentifier() or not isinstance(spec, Mapping) or set(spec) - set(FIELDS):
        raise SchemaError(
            f"lookups.{name}: want on = a column of the table, file = a CSV or Parquet file or "
            "rows = a list, and key = its column that is equal, if that has another name."
        )
    if not isinstance(spec.get("on"), str) or ("file" in spec) == ("rows" in spec):
        raise SchemaError(f"lookups.{name}: want on = a column, and either file or rows.")
    key = str(spec.get("key", spec["on"]))
    rows = spec["rows"] if "rows" in spec else _file(name, folder / str(spec["file"]))
    if not isinstance(rows, Sequence) or not all(isinstance(r, Mapping) for r in rows) or not rows:
        raise SchemaError(f"lookups.{name}: want rows such as {{ {key} = 1, floor = 3 }}.")
    if len(rows) > MAX_ENTRIES:
        raise SchemaError(f"lookups.{name}: {len(rows):,} rows, at most {MAX_ENTRIES:,}.")
    columns = tuple(dict.fromkeys(str(c) for r in rows for c in r if c != key))
    entries: dict[Any, tuple[Any, ...]] = {}
    for row in rows:
        found = _scalar(name, row.get(key))
        if found is None or found in entries:
            raise SchemaError(
                f"lookups.{name}: every row has a {key!r} of its own, which {found!r} is not. A "
                "join on a key that repeats would count a row of the table several times."
            )
        entries[found] = tuple(_scalar(name, row.get(c)) for c in columns)
    return Lookup(name, spec["on"], key, columns, tuple(entries.items()))


def _file(name: str, path: Path) -> list[dict[str, Any]]:
    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet

            rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
            return rows
        with path.open(encoding="utf-8", newline="") as handle:
            return [{k: _typed(v) for k, v in row.items()} for row in csv.DictReader(handle)]
    except (OSError, ValueError, csv.Error):
        raise SchemaError(
            f"lookups.{name}: {path.name!r} cannot be read as CSV or Parquet."
        ) from None


def _typed(text: Any) -> Any:
    """A value of a CSV: a number, true or false, a date, or the text; nothing is missing."""
    if not isinstance(text, str) or not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float, datetime.date.fromisoformat):
        try:
            found = read(text)
        except ValueError:
            continue
        if not isinstance(found, float) or math.isfinite(found):
            return found
    return text


def _scalar(name: str, value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        value = value.date()
    finite = not isinstance(value, float) or math.isfinite(value)
    if value is None or (finite and isinstance(value, bool | int | float | str | datetime.date)):
        return value
    raise SchemaError(f"lookups.{name}: {str(value)[:40]!r} is no number, text, date or Boolean.")


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value

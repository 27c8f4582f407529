"""One declared column, and whose rows are whose."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

TYPES = ("integer", "number", "boolean", "category", "text", "date", "timestamp")
WRITTEN = ("date_format", "decimal", "thousands", "true", "false")  # how texts of a file say it
FIELDS = (
    "type", "low", "high", "values", "public", "key", "nullable", "bins", "max_length",
    "shards", *WRITTEN
)  # fmt: skip
LARGEST = 2**53  # integers up to here are exact on every engine
MAX_CELLS = 10_000  # of the ledger
MAX_COLUMNS = 10_000
MAX_NAME = 200
LONGEST_TEXT = 10_000  # letters
OTHER = "(other)"  # how the cell of what is missing or was not declared is shown


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column. `public` columns hide nothing; a `key` is a public row number."""

    name: str
    type: str
    low: Any = None
    high: Any = None
    values: tuple[Any, ...] | None = None
    public: bool = False
    key: bool = False
    nullable: bool = True
    bins: tuple[Any, ...] | None = None
    max_length: int | None = None  # letters of a text, of which the rest is not looked at
    shards: int | None = None  # of a key: hashed, it parts the rows into so many ledger cells
    # How a file of texts writes it:
    date_format: str | None = None  # %d-%m-%Y
    decimal: str | None = None  # the sign before decimals
    thousands: str | None = None  # the sign between groups of three digits
    true: tuple[str, ...] | None = None
    false: tuple[str, ...] | None = None

    @property
    def bounded(self) -> bool:
        """Are both ends of the range known?"""
        return self.low is not None and self.high is not None

    @property
    def is_cell(self) -> bool:
        """Does the ledger keep spending apart by this column's values?"""
        return self.public and self.listed is not None

    @property
    def listed(self) -> tuple[Any, ...] | None:
        """The values that name cells, if there are few and known."""
        return (False, True) if self.type == "boolean" else self.values

    def to_json(self) -> dict[str, Any]:
        """The declaration as plain values, defaults left out."""
        out: dict[str, Any] = {} if self.type == "key" else {"type": self.type}
        for name in ("low", "high", "values", "bins", "max_length", "shards", *WRITTEN):
            if getattr(self, name) is not None:
                out[name] = plain(getattr(self, name))
        if self.public or self.key:
            out["key" if self.key else "public"] = True
        if not self.nullable:
            out["nullable"] = False
        return out


@dataclass(frozen=True, slots=True)
class FileFormat:
    """What a file does not say of itself."""

    encoding: str | None = None  # of a CSV; UTF-8 unless said
    delimiter: str | None = None  # of a CSV; the most frequent one of its first line unless said
    hive_partitions: bool = False  # are folders such as year=2024 columns?

    def to_json(self) -> dict[str, Any]:
        """What was said."""
        said = {"encoding": self.encoding, "delimiter": self.delimiter}
        out: dict[str, Any] = {name: x for name, x in said.items() if x is not None}
        return out | ({"hive_partitions": True} if self.hive_partitions else {})


PLAIN = FileFormat()  # nothing is said of it


@dataclass(frozen=True, slots=True)
class Unit:
    """Whose rows are whose: `column` names the person, who counts with at most `max_rows`.

    Where rows arrive by periods that is in each of them, and in at most `max_periods`, the first.
    """

    column: str
    max_rows: int
    max_periods: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As a schema file says it."""
        said: dict[str, Any] = {"column": self.column, "max_rows": self.max_rows}
        return said if self.max_periods is None else said | {"max_periods": self.max_periods}


def plain(value: Any) -> Any:
    """A value as JSON has it: dates as text, tuples as lists."""
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return value.isoformat() if isinstance(value, datetime.date) else value

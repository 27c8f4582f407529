"""A public number of rows, with which rows it counts.

Several tables are read as one stack, and a view may have a row for each person. A bare number of
rows does not say which of these it counts, and one was taken for another.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Every row that the engine reads: of the one table, or of all [tables] together."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of one of several [tables]."""

    name: str


@dataclass(frozen=True, slots=True)
class ViewRows:
    """The rows of a view, such as one for each person."""


@dataclass(frozen=True, slots=True)
class RowCount:
    """A number of rows, and the rows it counts. It is public."""

    n: int
    of: StoredRows | TableRows | ViewRows

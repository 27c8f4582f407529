"""How a column falls into branches: by its listed values, or by bins of its declared range.

The same cut is a partition of a query, a part of the tree that `Leaf` takes, a SQL predicate
per branch, and a way to sort rows that the analyst holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sulq
from sulq.expressions.quoting import quote
from sulq.learn.task import Task, bounded, declared, equals

OTHER = "(other)"  # missing, or a value nobody declared


@dataclass(frozen=True, slots=True)
class Cut:
    """Branches of one column: a value each, or a bin between two edges each, then `other`."""

    column: str
    values: tuple[Any, ...] = ()
    edges: tuple[float, ...] = ()
    other: bool = True  # can a row be in none of them?

    @property
    def size(self) -> int:
        """How many branches there are."""
        return (len(self.edges) - 1 if self.edges else len(self.values)) + self.other

    @property
    def cells(self) -> int:
        """How many cells the partition has: bins have one for other even if none can be."""
        return len(self.edges) or self.size

    @property
    def by(self) -> str | sulq.Bins:
        """The partition of a query."""
        return sulq.Bins(self.column, self.edges) if self.edges else self.column

    @property
    def labels(self) -> list[str]:
        """Each branch in words."""
        names = [str(value) for value in self.values]
        if self.edges:
            inner = [f"{edge:g}" for edge in self.edges[1:-1]]
            pairs = [f"{a} to {b}" for a, b in itertools.pairwise(inner)]
            names = [f"< {inner[0]}", *pairs, f">= {inner[-1]}"] if inner else ["any"]
        return names + [OTHER] * self.other

    def tests(self) -> list[str]:
        """Each branch as a SQL predicate; together they hold of every row once."""
        name = quote(self.column)
        known = [equals(self.column, value) for value in self.values]
        if self.edges:
            inner = [f"{edge!r}" for edge in self.edges[1:-1]]
            ends = zip([None, *inner], [*inner, None], strict=True)
            known = [_between(name, low, high) for low, high in ends]
        return known + [f"{name} IS NULL"] * self.other

    def tree(self, below: Sequence[Any], wanted: Sequence[bool]) -> tuple[Any, list[int]]:
        """A node of the tree that `sulq.Leaf` takes, and its branches from left to right.

        `below` is the tree of each branch. Values that are not wanted may go with the last one.
        """
        if not self.edges:
            last = self.size - 1
            named = [i for i in range(last) if wanted[i] or wanted[last]]
            pairs = [[self.values[i], below[i]] for i in named]
            node = {"column": self.column, "branches": pairs, "other": below[last]}
            return node, [*named, last]
        numbers = list(range(len(self.edges) - 1))
        bins = self._halved([below[i] for i in numbers], list(self.edges[1:-1]))
        if not self.other:
            return bins, numbers
        # Columns are clamped to their range: what is not at its low end or above is missing.
        return self._split(self.edges[0], below[-1], bins), [len(numbers), *numbers]

    def _halved(self, below: list[Any], inner: list[float]) -> Any:
        """Bins as a balanced tree of thresholds."""
        if not inner:
            return below[0]
        middle = len(inner) // 2
        low = self._halved(below[: middle + 1], inner[:middle])
        return self._split(
            inner[middle], low, self._halved(below[middle + 1 :], inner[middle + 1 :])
        )

    def _split(self, threshold: float, below: Any, above: Any) -> dict[str, Any]:
        return {"column": self.column, "threshold": threshold, "below": below, "above": above}

    def codes(self, column: Any) -> NDArray[np.int64]:
        """The branch of each value that the analyst holds."""
        missing = self.size - 1 if self.other else 0
        if self.edges:
            numbers = numbers_in(column, self.column)
            found = np.searchsorted(np.array(self.edges[1:-1]), numbers, side="right")
            return np.where(np.isnan(numbers), missing, found)
        # As text too, as a CSV has it.
        number = {str(v): i for i, v in enumerate(self.values)}
        number |= {str(v).lower(): i for i, v in enumerate(self.values) if isinstance(v, bool)}
        places: dict[Any, int] = {**number, **{v: i for i, v in enumerate(self.values)}}
        try:
            return np.array([places.get(v, missing) for v in column.tolist()], dtype=np.int64)
        except TypeError:
            raise sulq.Refused(f"X: column {self.column!r} holds values, not lists.") from None


def numbers_in(column: Any, name: str) -> NDArray[np.float64]:
    """A column's numbers; what is missing is NaN."""
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise sulq.Refused(f"X: column {name!r} holds numbers.") from None


def usable(column: Any) -> bool:
    """Can it be cut?"""
    return column.listed is not None or bounded(column)


def cuts_of(task: Task, bins: int) -> list[Cut]:
    """The cuts of some columns, none of them the label."""
    columns = task.columns
    if not columns or task.label in columns or len(set(columns)) < len(columns):
        raise sulq.QueryNotAllowed(
            f"columns={list(columns)!r}: name each once, and not the label {task.label!r}."
        )
    return [cut_of(task.db.schema, name, bins) for name in columns]


def cut_of(schema: Any, name: str, bins: int) -> Cut:
    """The cut of a declared column: listed values, declared bins, or `bins` equal ones."""
    column = declared(schema, name)
    if not usable(column):
        raise sulq.QueryNotAllowed(
            f"columns: {name!r} is neither Boolean, nor a column with listed values, nor a number "
            "with declared low and high."
        )
    if column.listed is not None:
        return Cut(name, tuple(column.listed), (), column.type == "category" or column.nullable)
    return Cut(name, (), _edges(column, bins), column.nullable)


def _edges(column: Any, bins: int) -> tuple[float, ...]:
    """The edges of bins that cover a declared range."""
    low, high = column.low, column.high
    if column.bins is not None:
        return tuple(sorted({low, *column.bins, high}))
    if column.type == "integer":  # whole edges; the last one is above every value
        count = min(bins, high + 1 - low)
        return tuple(low + (high + 1 - low) * i // count for i in range(count + 1))
    return (*(low + (high - low) * i / bins for i in range(bins)), high)


def _between(name: str, low: str | None, high: str | None) -> str:
    parts = [f"{name} >= {low}"] * (low is not None) + [f"{name} < {high}"] * (high is not None)
    return " AND ".join(parts) or f"{name} IS NOT NULL"

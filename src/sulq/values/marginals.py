"""All tables of so many of some columns, asked together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.values.plain_values import positive
from sulq.values.query import Rows

MAX_TABLES = 1_000

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Marginals:
    """Counts by every combination of `width` of the columns, asked together.

    Without `budget` the mean squared error of all cells is that of asking each table alone; with
    it, that many queries are spent as well as they can be. `weights` says how much the squared
    error of a cell counts in some of the tables, 1 in the others: {("sex", "region"): 10}.
    `consistent` moves the tables to where no cell is below zero, which makes them biased.
    """

    columns: Sequence[str]
    width: int
    _: KW_ONLY
    where: str | None = None
    rows: Rows | None = None
    budget: Fraction | None = None
    weights: Mapping[Columns, Any] | tuple[tuple[Columns, Fraction], ...] = ()
    consistent: bool = False

    def __post_init__(self) -> None:
        columns, width = self.columns, self.width
        listed = isinstance(columns, Sequence) and not isinstance(columns, str)
        names = tuple(columns) if listed else ()
        if not names or not all(isinstance(c, str) for c in names) or len(set(names)) < len(names):
            raise QueryNotAllowed(
                f"columns={columns!r}: want a list of different columns, such as ['sex', 'region']."
            )
        if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= len(names):
            raise QueryNotAllowed(
                f"width={width!r}: want how many columns each table has, 1 to {len(names):,}."
            )
        if math.comb(len(names), width) > MAX_TABLES:
            raise QueryNotAllowed(
                f"width={width} of {len(names):,} columns are more than {MAX_TABLES:,} tables. "
                "Name fewer columns."
            )
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "weights", self._weights())
        if self.budget is not None:
            object.__setattr__(self, "budget", positive(self.budget, "budget"))

    def _weights(self) -> tuple[tuple[Columns, Fraction], ...]:
        given: Any = self.weights or {}
        if not isinstance(given, Mapping):
            raise QueryNotAllowed(
                f"weights={given!r}: want a weight for some tables, as {{('sex', 'region'): 10}}."
            )
        tables = {frozenset(t): t for t in self.tables}
        named = {k: frozenset((k,) if isinstance(k, str) else k) for k in given}
        for key, table in named.items():
            if table not in tables:
                raise QueryNotAllowed(f"weights: {key!r} is none of the tables.")
        return tuple((tables[named[k]], positive(w, "weights")) for k, w in given.items())

    @property
    def tables(self) -> list[Columns]:
        """The columns of each table, in the order given."""
        return list(itertools.combinations(tuple(self.columns), self.width))

    def weight(self, table: Columns) -> float:
        """How much the squared error of one of its cells counts."""
        return float(dict(self.weights).get(table, 1))

"""What a formula of aggregates is made of: numbers, truths and labels, one per cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.parse import parse, predicate, shorten
from sulq.sql.moments import Moments, Released
from sulq.sql.noisy import Noisy
from sulq.sql.quantiles import ChosenPercentile, Located, Quantile
from sulq.values.query import People, Query
from sulq.values.schema import Schema

Bools = NDArray[np.bool_]
Numbers = Callable[["Context"], Noisy]


class Sums:
    """The sums that the aggregates of one statement need, and what came back of them."""

    def __init__(
        self, schema: Schema, keys: tuple[str, ...], moments: Moments, combined: bool,
        chooses: bool,
    ) -> None:  # fmt: skip
        self.schema = schema
        self.keys = keys
        self.moments = moments
        self.combined = combined  # counts of cells may be measured by combinations of them
        self.chooses = chooses  # PERCENTILE_DISC is a choice, not read off all cells
        self.quantiles: list[Quantile | ChosenPercentile] = []
        self.people: list[str] = []  # conditions of COUNT(DISTINCT person)
        self._spelled: dict[str, str] = {}

    def spelled(self, text: str) -> str:
        """One spelling for all that mean the same, so that nothing is asked twice."""
        return self._spelled.setdefault(parse(text, self.schema).text, text)

    def condition(self, text: str) -> str:
        """The predicate of a FILTER, in one spelling."""
        predicate(text, self.schema)
        return self.spelled(text)

    def queries(self, condition: str | None) -> tuple[Query, ...]:
        """The statement's query, then those of its quantiles."""
        terms = self.moments.terms()
        by = self.keys or None
        found = [Query(terms, by=by, where=condition)] if terms.sums or terms.groups else []
        for extra in self.people:
            parts = [c for c in (condition, extra) if c not in (None, "true")]
            where = " AND ".join(f"({c})" for c in parts) or None
            found.append(Query(People(), by=by, where=where))
        for quantile in self.quantiles:
            found += quantile.within(self.keys, condition)
        return tuple(found)

    @property
    def flat(self) -> int:
        """How many of its queries have one cell per group: all but those of quantiles."""
        return int(bool(self.moments.sums or self.moments.groups)) + len(self.people)

    def released(
        self, columns: list[Noisy], located: list[Located], cells: list[tuple[Any, ...]]
    ) -> Context:
        """Name the numbers that came back."""
        plain = self.moments.numbers
        after = plain + len(self.people)
        moments = self.moments.released(columns[:plain])
        quantiles = [Noisy.released(q.value, after + i) for i, q in enumerate(located)]
        return Context(moments, columns[plain:after], quantiles, located, cells)


@dataclass(frozen=True)
class Context:
    """What a compiled formula reads from: released sums, quantiles, the cells' keys."""

    moments: Released
    people: list[Noisy]
    quantiles: list[Noisy]
    located: list[Located]  # the same, with the ends of their intervals
    cells: list[tuple[Any, ...]]
    divisors: list[Noisy] = field(default_factory=list)  # what was divided by, on the way

    def moved(self, at: int, end: NDArray[np.float64]) -> Context:
        """The same with one quantile at an end of its interval."""
        quantiles = list(self.quantiles)
        quantiles[at] = Noisy(end, quantiles[at].slopes)
        return replace(self, quantiles=quantiles, divisors=[])

    def constant(self, value: float) -> Noisy:
        """The same number in every cell."""
        return Noisy(np.full(len(self.cells), float(value)), {})


@dataclass(frozen=True)
class Truth:
    """True, false or unknown, in every cell."""

    true: Bools
    known: Bools

    def number(self) -> Noisy:
        """1, 0 or missing."""
        return Noisy(np.where(self.known, self.true.astype(float), np.nan), {})


@dataclass(frozen=True)
class Formula:
    """A compiled expression. `kind` says what it reads: number, truth or label."""

    kind: str
    read: Callable[[Context], Any]
    width: float | None = None  # of an aggregate's possible range; None of what is made of them
    quotient: Callable[[Context], tuple[Noisy, Noisy]] | None = None  # what it divides, by what

    def number(self, context: Context) -> Noisy:
        """Its value in every cell; true and false count as 1 and 0."""
        found: Noisy | Truth = self.read(context)
        return found.number() if isinstance(found, Truth) else found


def numbers_of(made: Formula, e: Any) -> Numbers:
    """What must be a number; true and false count as 1 and 0."""
    if made.kind == "label":
        raise QueryNotAllowed(
            f"{shorten(written(e))}: text and dates can be compared by =, <> and IN only. Choose "
            "rows by them in WHERE."
        )
    return made.number


def truth_of_labels(labels: list[Any]) -> Truth:
    """Keys that are true, false or missing."""
    known = np.array([x is not None for x in labels])
    return Truth(np.array([bool(x) for x in labels]), known)

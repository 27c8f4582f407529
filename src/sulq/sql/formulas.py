"""Expressions of aggregates: SUM(a) / SUM(b), 100 * AVG(smoker), CASE WHEN COUNT(*) > 5 ...

Everything that can be refused is refused while compiling, before anything is paid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions import MAX_DEPTH, parse, predicate, shorten
from sulq.query import People, Query
from sulq.schema import Schema
from sulq.sql.aggregates import AGGREGATES, ALIASES, has_aggregate, is_aggregate, refuse
from sulq.sql.formula import (
    Bools,
    Context,
    Formula,
    Numbers,
    Truth,
    numbers_of,
    sql_of,
    truth_of_labels,
)
from sulq.sql.moments import Moments
from sulq.sql.noisy import Noisy
from sulq.sql.operators import BUILDERS
from sulq.sql.quantiles import Quantile
from sulq.tree import NUMERIC


class Formulas:
    """Compiles the outputs of one statement, collecting the sums they need."""

    def __init__(self, schema: Schema, keys: tuple[str, ...], above_low: bool = False) -> None:
        self.schema = schema
        self.keys = keys
        self.moments = Moments(schema, above_low)
        self.quantiles: list[Quantile] = []
        self.people: list[str] = []  # conditions of COUNT(DISTINCT person)
        self._nodes = [parse(key, schema) for key in keys]
        self._places = {node.text: i for i, node in enumerate(self._nodes)}
        self._spelled: dict[str, str] = {}
        self._depth = 0

    # --- what the statement asks --------------------------------------------------------

    def queries(self, condition: str | None) -> tuple[tuple[Query, ...], tuple[Quantile, ...]]:
        """The statement's query, then those of its quantiles."""
        terms = self.moments.terms()
        by = self.keys or None
        found = [Query(terms, by=by, where=condition)] if terms.sums or terms.groups else []
        for extra in self.people:
            parts = [c for c in (condition, extra) if c not in (None, "true")]
            where = " AND ".join(f"({c})" for c in parts) or None
            found.append(Query(People(), by=by, where=where))
        for quantile in self.quantiles:
            found += quantile.queries(self.keys, condition)
        return tuple(found), tuple(self.quantiles)

    @property
    def asks(self) -> bool:
        """Does it ask for sums, not only for quantiles and people?"""
        return bool(self.moments.sums or self.moments.groups)

    @property
    def flat(self) -> int:
        """How many of its queries have one cell per group."""
        return int(self.asks) + len(self.people)

    def released(self, columns: list[Noisy], cells: list[tuple[Any, ...]]) -> Context:
        """Name the numbers that came back."""
        plain = len(self.moments.sums) + sum(1 + len(g.members) for g in self.moments.groups)
        after = plain + len(self.people)
        moments = self.moments.released(columns[:plain])
        return Context(moments, columns[plain:after], columns[after:], cells)

    def number(self, formula: Formula, context: Context) -> Noisy:
        """The value of an output in every cell; true and false count as 1 and 0."""
        found: Noisy | Truth = formula.read(context)
        return found.number() if isinstance(found, Truth) else found

    def test(self, formula: Formula, context: Context) -> Bools:
        """Where a HAVING holds; unknown is not true."""
        found = formula.read(context)
        assert isinstance(found, Truth)
        return found.true & found.known

    def ranks(self, by: Formula | int, context: Context) -> list[Any]:
        """What to sort by; None where it is missing."""
        if isinstance(by, int):
            return [c[by] for c in context.cells]
        return [None if np.isnan(v) else v for v in self.number(by, context).value.tolist()]

    def small(self, context: Context, stds: list[Any]) -> Bools:
        """Cells where what is divided by is within the noise: the quotient means little."""
        weak = np.zeros(len(context.cells), dtype=bool)
        counts = [context.moments.counts[i] for i, g in enumerate(self.moments.groups) if g.members]
        for divisor in [*counts, *context.divisors]:
            with np.errstate(all="ignore"):
                error = np.sqrt(divisor.variance(stds))
                weak |= (error > 0) & ~(np.abs(divisor.value) >= 4 * error)
        for count in counts:
            weak |= ~(count.value > 0)
        return weak

    # --- compiling ----------------------------------------------------------------------

    def count(self, condition: str) -> Formula:
        """COUNT(*)."""
        read = self.moments.count(condition)
        return Formula("number", lambda c: read(c.moments))

    def place(self, e: Any) -> int | None:
        """Which group key an expression is, however it is spelled."""
        if not self.keys or has_aggregate(e):
            return None
        try:
            return self._places.get(parse(sql_of(e), self.schema).text)
        except QueryNotAllowed:
            return None

    def compile(self, e: Any) -> Formula:
        """An expression of aggregates, group keys and constants."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise QueryNotAllowed("the statement is nested too deeply.")
        try:
            return self._compiled(e)
        finally:
            self._depth -= 1

    def _compiled(self, e: Any) -> Formula:
        kind = type(e).__name__
        if is_aggregate(e):
            return self._aggregate(e, "true")
        if kind == "Filter":
            if not is_aggregate(e.this):
                raise refuse(e.this)
            return self._aggregate(e.this, self.condition(sql_of(e.expression.this)))
        at = self.place(e)
        if at is not None:
            return self._key(at)
        builder = BUILDERS.get(kind)
        if builder is not None:
            return builder(self, e)
        if kind == "Column":
            raise QueryNotAllowed(
                f"{e.name!r} would return rows. Ask for a sum or a count, or add it to GROUP BY."
            )
        raise refuse(e)

    def _key(self, at: int) -> Formula:
        node = self._nodes[at]
        binned = node.op == "column" and self.schema[node.value].bins is not None
        if node.type == "boolean":
            return Formula("truth", lambda c: truth_of_labels([x[at] for x in c.cells]))
        if node.type not in NUMERIC or binned:
            return Formula("label", lambda c: [x[at] for x in c.cells])

        def read(c: Context) -> Noisy:
            labels = [x[at] for x in c.cells]
            return Noisy(np.array([np.nan if x is None else float(x) for x in labels]), {})

        return Formula("number", read)

    def _aggregate(self, e: Any, condition: str) -> Formula:
        kind = type(e).__name__
        if kind == "Anonymous":
            kind = ALIASES[str(e.this).lower()]
        return Formula("number", AGGREGATES[kind](self, e, condition))

    def spelled(self, text: str) -> str:
        """One spelling for all that mean the same, so that nothing is asked twice."""
        return self._spelled.setdefault(parse(text, self.schema).text, text)

    def condition(self, text: str) -> str:
        """The predicate of a FILTER, in one spelling."""
        predicate(text, self.schema)
        return self.spelled(text)

    def number_of(self, e: Any) -> Numbers:
        """Compile what must be a number; true and false count as 1 and 0."""
        return numbers_of(self.compile(e), e)

    def truth_of(self, e: Any, what: str) -> Callable[[Context], Truth]:
        """Compile what must be true or false."""
        made = self.compile(e)
        if made.kind != "truth":
            raise QueryNotAllowed(f"{what} wants true or false: compare {shorten(sql_of(e))}.")
        return made.read

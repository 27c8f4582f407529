"""Expressions of aggregates: SUM(a) / SUM(b), 100 * AVG(smoker), CASE WHEN COUNT(*) > 5 ...

Everything that can be refused is refused while compiling, before anything is paid.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.literals import check_equal
from sulq.expressions.node import NUMERIC
from sulq.expressions.parse import MAX_DEPTH, parse
from sulq.expressions.syntax import no_column
from sulq.sql.aggregates import aggregate, has_aggregate, is_aggregate, refuse
from sulq.sql.formula import Bools, Context, Formula, Sums, Truth, truth_of_labels
from sulq.sql.moments import Moments
from sulq.sql.noisy import Array, Noisy, quotient_ends
from sulq.sql.operators import BUILDERS, Compiler
from sulq.values.schema import Schema


class Formulas(Sums, Compiler):
    """Compiles the outputs of one statement, collecting the sums they need."""

    def __init__(
        self, schema: Schema, keys: tuple[str, ...], above_low: bool = False, public: bool = False,
        filtered: bool = False, combined: bool = False, chooses: bool = False,
    ) -> None:  # fmt: skip
        moments = Moments(schema, above_low, public, combined)
        super().__init__(schema, keys, moments, combined, chooses)
        self.filtered = filtered  # the one FILTER there is stands in the WHERE
        self._nodes = [parse(key, schema) for key in keys]
        self._places = {node.text: i for i, node in enumerate(self._nodes)}
        self._depth = 0

    # --- reading what came back ---------------------------------------------------------

    def interval(
        self, formula: Formula, context: Context, stds: list[Array], reach: float
    ) -> tuple[Array, Array, Array]:
        """The value of an output in every cell, and the ends of its interval.

        Sums move it by their slopes. A quantile moves it from one end of its own interval to
        the other; those of one histogram share their noise, so what they do is added up.
        """
        number = formula.number(context)
        if formula.quotient is not None and all(j < len(stds) for j in number.slopes):
            low, high = quotient_ends(*formula.quotient(context), stds, reach)
            none = np.isnan(number.value)  # a variance that noise made negative divides nothing
            return number.value, np.where(none, -np.inf, low), np.where(none, np.inf, high)
        plain = [*stds, *(np.zeros_like(number.value) for _ in context.located)]
        with np.errstate(all="ignore"):
            down, up = (reach**2 * number.variance(plain) for _ in range(2))
            for source in {q.source for q in context.located}:
                below, above = self._moved_by(source, formula, context, number, len(stds))
                down, up = down + below**2, up + above**2
            return number.value, number.value - np.sqrt(down), number.value + np.sqrt(up)

    def _moved_by(
        self, source: int, formula: Formula, context: Context, number: Noisy, first: int
    ) -> tuple[Array, Array]:
        """How far the quantiles of one histogram may move an output down, and up."""
        below, above = np.zeros_like(number.value), np.zeros_like(number.value)
        for at, q in enumerate(context.located):
            if q.source != source or first + at not in number.slopes:
                continue
            ends = [formula.number(context.moved(at, e)).value for e in (q.low, q.high)]
            ends = [np.where(np.isnan(e), np.inf, e) for e in ends]
            below += np.maximum(number.value - np.minimum(*ends), 0.0)
            above += np.maximum(np.maximum(*ends) - number.value, 0.0)
        return below, above

    def is_exact(self, formula: Formula, context: Context, stds: list[Array]) -> bool:
        """Has an output no noise? Beside noisy numbers only an aggregate itself is sure of it.

        The interval does not tell: that of a quantile may be one whole number.
        """
        if not context.located and not any(std.any() for std in stds):
            return True
        read = formula.number(context).slopes
        public = all(j < len(stds) and not stds[j].any() for j in read)
        return formula.width is not None and bool(read) and public

    def test(self, formula: Formula, context: Context) -> Bools:
        """Where a HAVING holds; unknown is not true."""
        found = formula.read(context)
        assert isinstance(found, Truth)
        return found.true & found.known

    def ranks(self, by: Formula | int, context: Context) -> list[Any]:
        """What to sort by; None where it is missing."""
        if isinstance(by, int):
            return [c[by] for c in context.cells]
        return [None if np.isnan(v) else v for v in by.number(context).value.tolist()]

    def small(self, context: Context, stds: list[Any]) -> Bools:
        """Cells where what is divided by is within the noise: the quotient means little."""
        weak = np.zeros(len(context.cells), dtype=bool)
        stds = [*stds, *((q.high - q.low) / 4 for q in context.located)]  # about two each side
        counts = [context.moments.counts[i] for i, g in enumerate(self.moments.groups) if g.members]
        counts += [context.moments.sums[size] for size in self.moments.sizes]
        for divisor in [*counts, *context.divisors]:
            with np.errstate(all="ignore"):
                error = np.sqrt(divisor.variance(stds))
                weak |= (error > 0) & ~(np.abs(divisor.value) >= 4 * error)
        for count in counts:
            weak |= ~(count.value > 0)
        return weak

    # --- compiling ----------------------------------------------------------------------

    def place(self, e: Any) -> int | None:
        """Which group key an expression is, however it is spelled."""
        if not self.keys or has_aggregate(e):
            return None
        try:
            return self._places.get(parse(written(e), self.schema).text)
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
            return aggregate(self, e, "true")
        if kind == "Filter":
            if not is_aggregate(e.this):
                raise refuse(e.this)
            condition = self.condition(written(e.expression.this))
            return aggregate(self, e.this, "true" if self.filtered else condition)
        at = self.place(e)
        if at is not None:
            return self._key(at)
        builder = BUILDERS.get(kind)
        if builder is not None:
            return builder(self, e)
        if kind == "Column":
            if self.schema.get(e.name, quoted=bool(e.this.args.get("quoted"))) is None:
                raise no_column(e.name, self.schema)
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

    def check_equal(self, *sides: Any) -> None:
        """Refuse a group key compared with a value that it cannot have."""
        for key, other in (sides, sides[::-1]):
            at = self.place(key)
            if at is not None and type(other).__name__ == "Literal":
                check_equal(self._nodes[at], parse(written(other), self.schema), self.schema)

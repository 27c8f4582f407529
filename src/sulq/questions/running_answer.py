"""Totals so far as an answer: each with its error, and what came in between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.privacy.pricing import Tariff
from sulq.privacy.toeplitz import deviations, difference
from sulq.questions.check import CheckedQuery
from sulq.questions.running_rows import RunningRows, Stream
from sulq.values.answer import Answer
from sulq.values.price import Price
from sulq.values.uncertain import Linked, Uncertain


@dataclass(frozen=True, repr=False)
class RunningTotals(Answer):
    """Totals so far, one for each period; `between` says what came in from one to another."""

    stream: Stream | None = field(default=None, compare=False)
    each: float = 0.0  # the standard deviation of a strategy answer

    def between(self, first: Any, last: Any) -> Uncertain:
        """The sum over the periods from `first` to `last`, both included, with its own error.

        It is narrower than the difference of two totals taken apart: their noise hangs together.
        """
        places = [self._place(first), self._place(last)]
        if places[0] > places[1]:
            raise QueryNotAllowed(f"between: {first!r} comes after {last!r}.")
        before = self.exact[places[0] - 1][0] if places[0] else Fraction(0)
        value = float(self.exact[places[1]][0] - before)
        if not self.each or self.stream is None:
            return Uncertain(value, {}, self.spread)
        std = self.each * difference(self.stream.horizon, *places)
        return Uncertain(value, {Linked(): std}, self.spread)

    def _place(self, period: Any) -> int:
        for i, cell in enumerate(self.cells):
            if cell == period or str(cell) == str(period):
                return i
        raise QueryNotAllowed(f"between: {period!r} has no total here.")

    __str__ = Answer.__str__
    __repr__ = Answer.__str__


def totals_answer(
    like: Answer, exact: Sequence[Fraction], stds: Sequence[float], stream: Stream, each: float
) -> RunningTotals:
    """Totals with their errors; the price and what is left are those of another answer."""
    return RunningTotals(
        tuple((x,) for x in exact), tuple((s,) for s in stds), stream.periods[: len(exact)],
        ("total",), like.price, like.remaining, like.spread, axes=(stream.column,),
        stream=stream, each=each,
    )  # fmt: skip


def received(checked: CheckedQuery, tariff: Tariff, body: Mapping[str, Any]) -> RunningTotals:
    """Totals that a server read off, as its JSON has them."""
    assert isinstance(checked.measurement, RunningRows)
    stream, law = checked.measurement.stream, tariff.laws[0]
    exact = [Fraction(row[0]) for row in body["exact"]]
    each = law.std * float(tariff.steps[0])
    stds = [each * far for far in deviations(stream.horizon)[: len(exact)]]
    price, left = Price(body["price_micro"]), body["remaining_micro"]
    none = Answer((), (), (), (), price, left, lambda level: law.half_width(level) / law.std)
    return totals_answer(none, exact, stds, stream, each)

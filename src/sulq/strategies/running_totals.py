"""Totals so far at every period: asked as strategy answers, one for each period, and read off.

An answer about a period is drawn once, when the period is there, and kept: totals of later periods
go on from the answers of earlier ones. The ledger says which periods have theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.stored_tree import dumps
from sulq.privacy.pricing import Tariff
from sulq.privacy.toeplitz import deviations, difference, totals
from sulq.questions.check import CheckedQuery
from sulq.questions.facts import Fact, is_public
from sulq.questions.question import Bundle, Question
from sulq.questions.running_rows import RunningRows, Stream, stream_of
from sulq.values.answer import Answer
from sulq.values.price import Price
from sulq.values.query import Query, Running
from sulq.values.schema import Schema
from sulq.values.uncertain import Linked, Uncertain

Checked = tuple[CheckedQuery, Tariff]
OF = '"of":'  # what stands before the stream in the text of a stretch
Stretches = Callable[[str], Sequence[tuple[int, int]]]


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


def stretch_text(stream: str, first: int, last: int) -> str:
    """What the ledger knows a stretch of answers as."""
    return f'{{"running":{dumps({"from": first, "to": last})},{OF}{stream}}}'


def running_question(
    query: Query, schema: Schema, opened: Sequence[Any], stretches: Stretches | None,
    check: Callable[[Query], Checked],
) -> Question:  # fmt: skip
    """The question for totals so far, at the periods that have rows.

    `stretches` says of a stream what the ledger has of it. None: the ledger is elsewhere, and
    gives totals.
    """
    asked = query.values
    assert isinstance(asked, Running)
    stream = stream_of(asked, schema)
    reached = stream.reached(opened)
    if not reached:
        raise QueryNotAllowed(
            f"running: the first period, {stream.periods[0]!r}, has no rows. Nothing was charged.\n"
            "Say start=... with one that has."
        )

    def checked(first: int, last: int) -> Checked:
        return check(replace(query, values=replace(asked, span=(first, last))))

    whole = checked(0, reached)
    text, tariff = whole[0].text, whole[1]
    if is_public(whole[0], schema):
        plain = Query((asked.expression,), by=stream.column, where=query.where)
        fact = Fact(plain, check(plain)[0])
        return Question((), lambda _, known: _counted(known[0], stream, reached), (fact,))
    far = deviations(stream.horizon)[reached - 1]
    widths = (tariff.laws[0].half_width(0.95) * float(tariff.steps[0]) * far,)
    if stretches is None:
        sent = replace(query, values=replace(asked, span=None))
        bundles, laid_out = [Bundle((whole,), (sent,))], _as_it_came
    else:
        spans = list(stretches(text))
        known = spans[-1][1] if spans else 0
        spans += [(known, reached)] if known < reached else []
        bundles = [
            Bundle((checked(*span),), (query,), charged_as=stretch_text(text, *span))
            for span in spans
        ]
        laid_out = partial(_totals, stream, tariff)
    return Question(tuple(bundles), laid_out, half_widths=widths, apart=True)


def _as_it_came(found: list[list[Answer]], known: list[Answer]) -> Answer:
    return found[0][0]


def _counted(found: Answer, stream: Stream, reached: int) -> RunningTotals:
    """Totals of what is public: exact, and free."""
    by_period = dict(zip(found.cells, found.exact, strict=True))
    sums = accumulate(by_period[period][0] for period in stream.periods[:reached])
    return _answer(found, list(sums), [0.0] * reached, stream, 0.0)


def _totals(
    stream: Stream, tariff: Tariff, found: list[list[Answer]], known: list[Answer]
) -> RunningTotals:
    """Totals from the answers of all stretches, in order."""
    rows = [row for (answer,) in found for row in answer.exact]
    exact = totals(stream.horizon, [row[0] for row in rows], tariff.steps[0])
    first = found[0][0]
    each = first.stds[0][0]
    stds = [each * far for far in deviations(stream.horizon)[: len(exact)]]
    left = min(answer.remaining for (answer,) in found)
    return _answer(replace(first, remaining=left), exact, stds, stream, each)


def _answer(
    like: Answer, exact: Sequence[Fraction], stds: Sequence[float], stream: Stream, each: float
) -> RunningTotals:
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
    return _answer(none, exact, stds, stream, each)

"""Totals so far at every period: asked as strategy answers, one for each period, and read off.

An answer about a period is drawn once, when the period is there, and kept: totals of later periods
go on from the answers of earlier ones. The ledger says which periods have theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.stored_tree import dumps
from sulq.privacy.pricing import Tariff
from sulq.privacy.toeplitz import deviations, totals
from sulq.questions.check import CheckedQuery
from sulq.questions.facts import Fact, is_public
from sulq.questions.question import Bundle, Question
from sulq.questions.running_answer import RunningTotals, totals_answer
from sulq.questions.running_rows import Stream, stream_of
from sulq.values.answer import Answer
from sulq.values.query import Query, Running
from sulq.values.schema import Schema

Checked = tuple[CheckedQuery, Tariff]
OF = '"of":'  # what stands before the stream in the text of a stretch
Stretches = Callable[[str], Sequence[tuple[int, int]]]


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
    return totals_answer(found, list(sums), [0.0] * reached, stream, 0.0)


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
    return totals_answer(replace(first, remaining=left), exact, stds, stream, each)

"""A mean: what is asked for it, and how it is read off that."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sulq.errors import QueryNotAllowed
from sulq.expressions.node import Node
from sulq.questions.check import CheckedQuery
from sulq.values.answer import Answer
from sulq.values.query import Mean, Query


def mean_query(total: Query, node: Node, counted: CheckedQuery, rows: int) -> tuple[Query, bool]:
    """What to ask for the mean of a sum's expression, and whether how many rows it has is public.

    `counted` is the count of its rows, checked. Over public rows a mean is a sum over a known n;
    otherwise n is asked for too.
    """
    if counted.axes:
        raise QueryNotAllowed(
            "rows=Rows.blocks(...): a mean is one number. Ask db.sum over the blocks, or a "
            "mean over Rows.sample(...) or Rows.where(...)."
        )
    if counted.where is None and not node.nullable and node.low != node.high:
        if total.error is None:
            return total, True
        if not counted.everyone:
            raise QueryNotAllowed(
                "error: for a mean over some of the rows, ask db.sum(..., error=) and divide."
            )
        return Query(total.values, error=total.error * max(rows, 1)), True
    if total.error is not None:
        raise QueryNotAllowed(
            "error: how exact a mean over private rows will be depends on how many there are, "
            "which is itself private. Leave error out, or ask db.sum and db.count with error=."
        )
    assert isinstance(total.values, tuple)
    return replace(total, values=Mean(total.values[0])), False


def private_mean(answer: Answer, node: Node, noise: str) -> Answer:
    """mid + (sum about mid) / count, with the noise of both carried over."""
    low, high = Fraction(node.low), Fraction(node.high)
    count, total = answer.exact[0]
    if answer.public and not count:
        raise QueryNotAllowed(
            "mean: no row can be among these, whatever the rows are, so there is no mean. Nothing "
            "was charged.\nAsk for rows that the declared ranges allow."
        )
    base = low if noise in ("binomial", "stitched") else (low + high) / 2
    n = max(count, Fraction(1))
    ratio = total / n
    value = min(max(base + ratio, low), high)
    std = answer.std_of((-float(ratio), 1.0)) / float(n)
    small = float(count) < 4 * answer.stds[0][0]
    notes = [answer.note] * bool(answer.note) + ["too few rows for the noise"] * small
    return Answer(
        ((value,),), ((std,),), ("all",), (f"mean({answer.names[1]})",), answer.price,
        answer.remaining, answer.spread, "; ".join(notes), float(high - low),
        noise=answer.noise and (answer.noise, "mean", node.text),
    )  # fmt: skip

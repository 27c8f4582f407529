"""Lines over time and over T, drawn as SVG: how spending grew, how error grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from sulq.console.charts import WIDTH, picture, tag
from sulq.console.plans import Plan, short
from sulq.errors import MICRO, in_queries

HEIGHT = 190.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, WIDTH - 14.0, 14.0, 158.0
LETTERS = "end", "middle", "start"

Points = Sequence[tuple[float, float]]


def _x(share: float) -> float:
    return LEFT + (RIGHT - LEFT) * share


def _y(share: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * share


def _path(points: Points, *, steps: bool = False) -> str:
    """Shares of width and height as a path; with steps, flat until the next point."""
    parts = []
    for i, (x, y) in enumerate(points):
        if i and steps:
            parts.append(f"H{_x(x):.5g}")
        parts.append(f"{'L' if i else 'M'}{_x(x):.5g} {_y(y):.5g}")
    return "".join(parts)


def _rule(share: float, text: str) -> list[Markup]:
    """A horizontal line with its number."""
    y = _y(share)
    return [
        tag("path", class_="grid-line", d=f"M{LEFT:g} {y:.5g}H{RIGHT:g}"),
        tag("text", text, class_="soft-text", x=LEFT - 6, y=y + 4, text_anchor="end"),
    ]


def _below(share: float, text: str) -> Markup:
    """A number below the picture, kept within it."""
    anchor = "start" if share < 0.05 else "end" if share > 0.95 else "middle"
    return tag("text", text, class_="soft-text", x=_x(share), y=BOTTOM + 18, text_anchor=anchor)


def spending(curve: Sequence[tuple[str, int]], total: int) -> Markup:
    """What was spent over time, up to T."""
    times = [datetime.fromisoformat(time).timestamp() for time, _ in curve]
    first, last = times[0], times[-1]
    span, steps = last - first, max(len(curve) - 1, 1)
    # Within a minute, one after the other; there is nothing to see in seconds.
    at = [i / steps if span < 60 else (t - first) / span for i, t in enumerate(times)]
    top = max(min(total, _round_up(1.2 * curve[-1][1])), 1)  # T only once it is near
    points = [(x, spent / top) for x, (_, spent) in zip(at, curve, strict=True)]
    inside = [m for i in range(5) for m in _rule(i / 4, _short_amount(top * i / 4))]
    area = _path([(points[0][0], 0.0), *points, (points[-1][0], 0.0)], steps=True)
    inside.append(tag("path", class_="area", d=area + "Z"))
    inside.append(tag("path", class_="line", d=_path(points, steps=True)))
    inside.append(tag("circle", class_="dot", cx=_x(points[-1][0]), cy=_y(points[-1][1]), r=4))
    inside.append(tag("path", class_="axis", d=f"M{LEFT:g} {BOTTOM:g}H{RIGHT:g}"))
    ends = [(0.0, curve[0][0]), (1.0, curve[-1][0])] if span >= 60 else [(0.5, curve[0][0])]
    inside += [_below(at, _moment(time, span)) for at, time in ends]
    words = (
        f"From {_moment(curve[0][0], 0)} to {_moment(curve[-1][0], 0)} UTC, spending of the rows "
        f"that spent most grew to {in_queries(curve[-1][1])} of {in_queries(total)}."
    )
    return picture("spending", "Queries spent over time", words, HEIGHT, inside)


def _round_up(micro: float) -> int:
    """The next number of the kind 1, 2, 4 or 8 with zeros."""
    power = 10 ** math.floor(math.log10(max(micro, 1)))
    return next(int(power * k) for k in (1, 2, 4, 8, 10) if power * k >= micro)


def _short_amount(micro: float) -> str:
    return short(micro / MICRO)


def _moment(time: str, span: float) -> str:
    """A day; within two days, the minute too."""
    return time[:10] if span > 2 * 86_400 else f"{time[:10]} {time[11:16]}"


def error_by_queries(plan: Plan) -> Markup:
    """The error of one count as T grows, beside the sampling error; both axes by tens."""
    xs = [math.log10(t) for t, _ in plan.curve]
    ys = [math.log10(max(w, 1e-9)) for _, w in plan.curve]
    level = math.log10(plan.sampling)
    low, high = math.floor(min(*ys, level)), math.ceil(max(*ys, level))
    high = max(high, low + 1)
    left, right = min(xs), max(max(xs), min(xs) + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        return (x - left) / (right - left), (y - low) / (high - low)

    every = max(1, (high - low + 5) // 6)
    inside = [
        m for i in range(low, high + 1, every) for m in _rule((i - low) / (high - low), _ten(i))
    ]
    chance = at(left, level)[1]
    inside.append(tag("path", class_="line dashed", d=f"M{LEFT:g} {_y(chance):.5g}H{RIGHT:g}"))
    inside.append(tag("path", class_="line", d=_path([at(*p) for p in zip(xs, ys, strict=True)])))
    here = at(math.log10(plan.promise.queries), math.log10(max(plan.count, 1e-9)))
    inside.append(tag("circle", class_="dot", cx=_x(here[0]), cy=_y(here[1]), r=5))
    inside.append(tag("path", class_="axis", d=f"M{LEFT:g} {BOTTOM:g}H{RIGHT:g}"))
    marks = [i for i in range(math.ceil(left), math.floor(right) + 1)]
    inside += [_below(at(i, low)[0], _ten(i)) for i in marks[:: 1 + len(marks) // 5]]
    words = (
        f"With T = {plan.promise.queries:,} a count is within {short(plan.count)} rows (95%); "
        f"chance alone moves a count over {plan.rows:,} rows by {short(plan.sampling)}. "
        + "; ".join(f"T = {t:,.0f}: {short(w)}" for t, w in plan.curve)
        + "."
    )
    return picture("error", "Error of a count, by T", words, HEIGHT, inside)


def _ten(power: int) -> str:
    if 0 <= power < 6:
        return f"{10**power:,}"
    return f"10^{power}" if power > 0 else f"{10.0**power:g}"

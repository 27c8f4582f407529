"""Columns with error bars over an axis: of numbers, of days, or of names.

A histogram of numbers stands on a numeric axis, each bin as wide as it is.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sulq.drawing.bars import Bar, left_out, spoken, telling
from sulq.drawing.lines import LEFT, RIGHT, Axis, Line, lines, titles
from sulq.drawing.scale import Scale
from sulq.drawing.svg import (
    LETTER,
    PAGE,
    Figure,
    Svg,
    box,
    in_lines,
    label,
    line,
    noted,
    shortened,
    tag,
)

OTHER = "(other)"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|-?\.\d+")
ALONE = 5  # single numbers that make an axis; fewer are names
MAX_COLUMNS = 400
TURNED = 0.64  # of the length of a label that is turned, in height
LONG = 20  # letters of such a label
Marks = Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class ColumnBar:
    """A bar and the stretch of the axis that it stands on."""

    low: float
    high: float
    bar: Bar


@dataclass(frozen=True, slots=True)
class Stretches:
    """Where labels lie along an axis; None for '(other)', which lies nowhere."""

    ends: tuple[tuple[float, float] | None, ...]
    days: bool = False

    def marks(self, most: int) -> Marks:
        """Days are written as dates; for numbers the axis finds its own."""
        if not self.days:
            return ()
        known = [end for end in self.ends if end is not None]
        some = known[:: 1 + (len(known) - 1) // most]
        return [(low, datetime.date.fromordinal(int(low)).isoformat()) for low, _ in some]


def stretches(labels: Sequence[Any]) -> Stretches | None:
    """The places of labels such as 40, '0 to 9' or '2026-01-01 to 2026-01-31'; None of names."""
    texts = [str(label) for label in labels]
    known = [text for text in texts if text != OTHER]
    for read, days in ((_number, False), (_day, True)):
        found = [_ends(text, read) for text in known]
        pairs = [pair for pair in found if pair is not None]
        if len(pairs) == len(found) and _ascending(pairs):
            wide = iter(_widened(pairs, days))
            return Stretches(tuple(None if t == OTHER else next(wide) for t in texts), days)
    return None


def _ends(text: str, read: Any) -> tuple[float, float] | None:
    parts = [read(part) for part in text.split(" to ")]
    if len(parts) > 2 or None in parts:
        return None
    return parts[0], parts[-1]


def _number(text: str) -> float | None:
    return float(text.replace(",", "")) if NUMBER.fullmatch(text) else None


def _day(text: str) -> float | None:
    try:
        return float(datetime.date.fromisoformat(text).toordinal())
    except ValueError:
        return None


def _ascending(pairs: Sequence[tuple[float, float]]) -> bool:
    least = ALONE if all(a == b for a, b in pairs) else 2
    apart = all(a[1] <= b[0] and a[0] < b[0] for a, b in pairwise(pairs))
    return len(pairs) >= least and apart


def _widened(pairs: Sequence[tuple[float, float]], days: bool) -> list[tuple[float, float]]:
    """Bins up to where the next begins; single numbers half-way to their neighbours."""
    if all(a == b for a, b in pairs):
        half = min(b[0] - a[0] for a, b in pairwise(pairs)) / 2
        return [(a - half, a + half) for a, _ in pairs]
    whole = days or all(x == round(x) for pair in pairs for x in pair)
    gap = 1.0 if whole and all(b[0] - a[1] == 1 for a, b in pairwise(pairs)) else 0.0
    return [(low, high + gap) for low, high in pairs]


def columns(
    key: str, title: str, found: Sequence[ColumnBar], *, marks: Marks = (), across: str = "",
    up: str = "", width: float = PAGE, height: float = 230.0, caption: str = "",
) -> Figure:  # fmt: skip
    """Columns from 0 on, each with its 95% interval, over an axis of numbers or over `marks`."""
    kept, lost = telling([each.bar for each in found])
    shown = [each for each in found if each.bar in kept][:MAX_COLUMNS]
    heights = [0.0, *(end for each in shown for end in (each.bar.low, each.bar.high))]
    edges = [end for each in shown for end in (each.low, each.high)] or [0.0, 1.0]
    x = Scale.of(edges, LEFT, width - RIGHT)
    texts, below = _labels(marks, (x.end - x.start) / max(len(marks), 1), x.at(edges[0]))
    top, bottom = 14.0 + 14.0 * bool(up), height
    y = Scale.of(heights, bottom, top)
    drawn, steps = _grid(x, y, width - RIGHT), max(4, int(width / 90))
    if not marks:
        texts, marks = [[said] for _, said in x.ticks(steps)], x.ticks(steps)
    for (at, name), rows in zip(marks, texts, strict=True):
        drawn.append(_mark(x.at(at), name, rows, bottom))
    for each in shown:
        drawn.append(_column(each, x, y, top, bottom))
    drawn += titles(across, up, (LEFT + width - RIGHT) / 2, bottom + below + 16)
    said = " ".join(filter(None, (caption, left_out(lost))))
    words = spoken([each.bar for each in shown], len(kept))
    whole = bottom + below + 22.0 * bool(across)
    return Figure(key, title, words, width, whole, tuple(drawn), said)


def _grid(x: Scale, y: Scale, right: float) -> list[Svg]:
    out = []
    for tick, text in y.ticks(5):
        at = y.at(tick)
        out.append(line(f"M{x.start:.5g} {at:.5g}H{right:.5g}", "grid-line" if tick else "axis"))
        out.append(label(text, x.start - 6, at + 4, "end", "soft-text"))
    return out


def _labels(marks: Marks, step: float, left: float) -> tuple[list[list[str]], float]:
    """How each name is written below its column, and how tall that is.

    In one line or two where there is room; otherwise turned, which is one line without a place.
    """
    room = int(step / LETTER)
    lines = [in_lines(text, room) for _, text in marks]
    if all("".join(said).replace(" ", "") == text.replace(" ", "")
           for said, (_, text) in zip(lines, marks, strict=True)):  # fmt: skip
        return lines, 20.0 + 14.0 * any(len(said) > 1 for said in lines)
    most = min(LONG, int((left + step / 2) / (TURNED * LETTER)))
    said = [["", shortened(text, most), ""] for _, text in marks]
    return said, 20.0 + TURNED * LETTER * max(len(text) for _, text, _ in said)


def _mark(x: float, whole: str, said: list[str], bottom: float) -> Svg:
    if len(said) < 3:
        rows = [label(t, x, bottom + 16 + 14 * i, "middle", "soft-text")
                for i, t in enumerate(said)]  # fmt: skip
        return rows[0] if len(rows) == 1 else tag("g", *rows)
    place = f"translate({x + 4:.5g} {bottom + 12:.5g}) rotate(-45)"
    drawn = tag("text", said[1], class_="soft-text", text_anchor="end", transform=place)
    return drawn if said[1] == whole else noted(whole, drawn)


def _column(each: ColumnBar, x: Scale, y: Scale, top: float, bottom: float) -> Svg:
    left, right = x.at(each.low), x.at(each.high)
    wide = right - left
    gap = min(wide * 0.08, 2.0)
    start, end = sorted((y.at(0.0), y.within(each.bar.value)))
    hit = box("hit", left, top, wide, bottom - top)
    bar = box("bar", left + gap, start, max(wide - 2 * gap, 0.5), max(end - start, 0.5))
    ends = (each.bar.low, each.bar.high)
    if ends[0] == ends[1]:
        return noted(each.bar.words, hit, bar)
    middle, reach = (left + right) / 2, min(4.0, wide / 3)
    low, high = (y.within(end) for end in ends)
    caps = "".join(
        f"M{middle - reach:.5g} {place:.5g}h{2 * reach:.5g}"
        for end, place in zip(ends, (low, high), strict=True)
        if y.holds(end)
    )
    drawn = line(f"M{middle:.5g} {low:.5g}V{high:.5g}{caps}", "whisker")
    return noted(each.bar.words, hit, bar, drawn)


def standing(found: Sequence[Bar], axis: Stretches) -> list[ColumnBar]:
    """Bars as columns where their labels lie; '(other)' stands nowhere."""
    pairs = zip(found, axis.ends, strict=True)
    return [ColumnBar(*ends, bar) for bar, ends in pairs if ends is not None]


def over_names(found: Sequence[Bar]) -> tuple[list[ColumnBar], Marks]:
    """Columns one after the other, each with its name below."""
    placed = [ColumnBar(i + 0.1, i + 0.9, bar) for i, bar in enumerate(found)]
    return placed, [(i + 0.5, bar.label) for i, bar in enumerate(found)]


def line_over(
    key: str, title: str, found: Sequence[ColumnBar], *, marks: Marks = (), across: str = "",
    up: str = "", width: float = PAGE, height: float = 230.0, caption: str = "",
) -> Figure:  # fmt: skip
    """The same as a line through the middles of its stretches, with a band for the intervals."""
    kept, lost = telling([each.bar for each in found])
    shown = [each for each in found if each.bar in kept]
    if not shown:
        return columns(key, title, [], across=across, up=up, width=width, caption=left_out(lost))
    points = [((each.low + each.high) / 2, each.bar.value) for each in shown]
    ends = [0.0, *(end for each in shown for end in (each.bar.low, each.bar.high))]
    drawn = Line(
        points, dots=len(points) <= 60, band=[(each.bar.low, each.bar.high) for each in shown],
        said=[each.bar.words for each in shown],
    )  # fmt: skip
    words = spoken([each.bar for each in shown], len(kept))
    said = " ".join(filter(None, (caption, left_out(lost))))
    return lines(
        key, title, words, [drawn], Axis(shown[0].low, shown[-1].high, marks=marks, name=across),
        Axis(min(ends), max(ends), name=up), width=width, height=height, caption=said,
    )  # fmt: skip

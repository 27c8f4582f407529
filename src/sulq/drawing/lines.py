"""Lines, steps, bands and points over two axes, each even or by powers of ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sulq.drawing.scale import Scale
from sulq.drawing.style import series
from sulq.drawing.svg import PAGE, Figure, Svg, label, legend, line, noted, shortened, tag

LEFT, RIGHT, TOP, BELOW = 52.0, 14.0, 14.0, 32.0  # units around the drawing
TITLE = 40  # letters of an axis' title
Points = Sequence[tuple[float, float]]
Marks = Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Line:
    """Points from left to right, and how they are drawn."""

    points: Points
    name: str = ""  # in the legend
    drawn: bool = True  # or dots alone
    dots: bool = False
    steps: bool = False  # flat until the next point
    area: bool = False  # filled down to the bottom
    band: Points = ()  # low and high at each point
    said: Sequence[str] = ()  # what each dot says to whoever points at it


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis has room for; without marks, a few round numbers are written."""

    low: float
    high: float
    log: bool = False
    marks: Marks = ()
    name: str = ""

    def scale(self, start: float, end: float) -> Scale:
        """Places between start and end."""
        return Scale.of((self.low, self.high), start, end, log=self.log)


def lines(
    key: str, title: str, words: str, found: Sequence[Line], across: Axis, up: Axis, *,
    dot: tuple[float, float] | None = None, level: float | None = None, width: float = PAGE,
    height: float = 190.0, caption: str = "",
) -> Figure:  # fmt: skip
    """Lines, with one point and one dashed level marked if they are given."""
    names = list(dict.fromkeys(each.name for each in found if each.name))
    marks, top = legend(names, [series(i) for i in range(len(names))], LEFT, width) if names else (
        [], 0.0)  # fmt: skip
    bottom = height - BELOW
    top += 14.0 * bool(up.name)
    x, y = across.scale(LEFT, width - RIGHT), up.scale(bottom, top + TOP)
    marks += _axes(x, y, across, up, width - RIGHT, bottom)
    if level is not None:
        marks.append(line(f"M{LEFT:g} {y.at(level):.5g}H{width - RIGHT:g}", "dashed"))
    for each in found:
        marks += _marks(each, x, y, names.index(each.name) if each.name else 0)
    if dot is not None:
        marks.append(tag("circle", class_="dot", cx=x.at(dot[0]), cy=y.at(dot[1]), r=5))
    below = 18.0 * bool(across.name)
    return Figure(key, title, words, width, height + below, tuple(marks), caption)


def _axes(
    x: Scale, y: Scale, across: Axis, up: Axis, right: float, bottom: float
) -> list[Svg]:  # fmt: skip
    out = []
    for value, text in up.marks or y.ticks():
        at = y.at(value)
        out.append(line(f"M{LEFT:g} {at:.5g}H{right:g}", "grid-line"))
        out.append(label(text, LEFT - 6, at + 4, "end", "soft-text"))
    out.append(line(f"M{LEFT:g} {bottom:g}H{right:g}", "axis"))
    for value, text in across.marks or x.ticks():
        share = (x.at(value) - x.start) / (x.end - x.start)
        anchor = "start" if share < 0.05 else "end" if share > 0.95 else "middle"
        out.append(label(text, x.at(value), bottom + 18, anchor, "soft-text"))
    return out + titles(across.name, up.name, (LEFT + right) / 2, bottom + 38, y.end - TOP - 2)


def titles(across: str, up: str, middle: float, below: float, above: float = 11.0) -> list[Svg]:
    """What the axes are of: below the middle of one, above the other."""
    out = [label(shortened(across, TITLE), middle, below, "middle", "soft-text")] * bool(across)
    return out + [label(shortened(up, TITLE), 0.0, above, kind="soft-text")] * bool(up)


def _marks(each: Line, x: Scale, y: Scale, number: int) -> list[Svg]:
    places = [(x.at(a), y.at(b)) for a, b in each.points]
    out = []
    if each.band:
        ends = [(a, y.at(low), y.at(high)) for (a, _), (low, high) in
                zip(places, each.band, strict=True)]  # fmt: skip
        ring = [(a, low) for a, low, _ in ends] + [(a, high) for a, _, high in reversed(ends)]
        out.append(line(path(ring) + "Z", "area"))
    if each.area:
        around = [(places[0][0], y.start), *places, (places[-1][0], y.start)]
        out.append(line(path(around, steps=each.steps) + "Z", "area"))
    if each.drawn:
        out.append(line(path(places, steps=each.steps), series(number, "line")))
    if each.dots:
        drawn = [tag("circle", class_=series(number), cx=a, cy=b, r=4) for a, b in places]
        said = zip(each.said, drawn, strict=True)
        out += [noted(words, dot) for words, dot in said] if each.said else drawn
    return out


def path(places: Points, *, steps: bool = False) -> str:
    """Places as a path; with steps, flat until the next one."""
    parts = []
    for i, (x, y) in enumerate(places):
        if i and steps:
            parts.append(f"H{x:.5g}")
        parts.append(f"{'L' if i else 'M'}{x:.5g} {y:.5g}")
    return "".join(parts)

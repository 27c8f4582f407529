"""Bars and points with error bars, one below the other; a second label groups them by colour.

A noisy count below zero is drawn below zero: cutting it off would hide the noise. A number whose
interval leaves the picture on both sides says nothing and is named below it instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from sulq.drawing.scale import Scale
from sulq.drawing.style import series
from sulq.drawing.svg import (
    LETTER,
    PAGE,
    Figure,
    Svg,
    box,
    in_lines,
    label,
    legend,
    line,
    noted,
    shortened,
    tag,
)

LINE, THIN = 24.0, 15.0  # units from one bar to the next; of a group, or where there are many
MANY = 40  # bars
MAX_BARS = 60
FAR = 8  # times the usual width: an interval that the picture does not follow to its end
SPOKEN = 24  # bars named in the text alternative
NAMED = 6  # of those that are not drawn
SMALL = 0.84  # of a letter, in small text


@dataclass(frozen=True, slots=True)
class Bar:
    """A number with the ends of its interval."""

    label: str
    value: float
    low: float
    high: float
    group: str = ""  # bars of one label stand together, a colour for each group
    note: str = ""  # what is written at its end
    faint: bool = False
    said: str = ""  # the number as people read it

    @property
    def name(self) -> str:
        """What it is called in words."""
        return f"{self.label}, {self.group}" if self.group else self.label

    @property
    def words(self) -> str:
        """What it says to whoever points at it."""
        if self.said:
            return f"{self.name}: {self.said}"
        if self.low == self.high:
            return f"{self.name}: {self.value:,.4g}" + f" ({self.note})" * bool(self.note)
        return f"{self.name}: {self.value:,.4g} ({self.low:,.4g} to {self.high:,.4g})"


@dataclass(frozen=True, slots=True)
class _Place:
    """A bar and where it lies."""

    bar: Bar
    middle: float
    half: float  # of its thickness
    kind: str


Mark = Callable[[Scale, _Place], list[Svg]]


def bars(
    key: str, title: str, found: Sequence[Bar], *, share: bool = False, width: float = PAGE,
    most: int = MAX_BARS, caption: str = "",
) -> Figure:  # fmt: skip
    """Bars from 0 on, each with its 95% interval."""

    def mark(scale: Scale, place: _Place) -> list[Svg]:
        left, right = sorted((scale.at(0.0), scale.within(place.bar.value)))
        kind = place.kind + " faint" * place.bar.faint
        top, thick = place.middle - place.half, 2 * place.half
        drawn = box(kind, left, top, max(right - left, 0.5), thick)
        return [drawn, whisker(scale, place.bar, place.middle)]

    return _figure(key, title, found, mark, share, width, most, caption)


def dots(
    key: str, title: str, found: Sequence[Bar], *, width: float = PAGE, caption: str = ""
) -> Figure:
    """Points with their intervals, beside a line at 0: coefficients."""

    def mark(scale: Scale, place: _Place) -> list[Svg]:
        x = scale.within(place.bar.value)
        dot = tag("circle", class_="dot", cx=x, cy=place.middle, r=5)
        return [whisker(scale, place.bar, place.middle), dot]

    return _figure(key, title, found, mark, False, width, MAX_BARS, caption)


def _figure(
    key: str, title: str, found: Sequence[Bar], mark: Mark, share: bool, width: float, most: int,
    caption: str,
) -> Figure:  # fmt: skip
    kept, lost = telling(found)
    shown = kept[:most]
    gutter = min(0.38 * width, 10 + LETTER * max((len(b.label) for b in shown), default=0))
    groups = [name for name in dict.fromkeys(bar.group for bar in shown) if name]
    colours = [series(i) for i in range(len(groups))]
    marks, top = legend(groups, colours, 4.0, width) if groups else ([], 0.0)
    places, names, bottom = _placed(shown, dict(zip(groups, colours, strict=True)), top)
    written = max((len(bar.note) for bar in shown), default=0)
    scale = Scale.of([0.0, *_ends(shown)], gutter, width - 14 - 0.85 * LETTER * written)
    marks += _grid(scale, top, bottom, share)
    room = int((gutter - 8) / LETTER + 0.01)
    fits = all(len(text) <= room for text, *_ in names)
    for text, y, thin in names:
        marks += _name(text, gutter, y, room, thin, fits)
    for place in places:
        half = THIN / 2 if colours else place.half + 2
        hit = box("hit", gutter, place.middle - half, width - gutter, 2 * half)
        marks.append(noted(_words(place.bar, share), hit, *(m for m in mark(scale, place) if m)))
        if place.bar.note:
            end = scale.within(max(place.bar.value, place.bar.high, 0.0)) + 5
            marks.append(label(place.bar.note, end, place.middle + 4.5, kind="soft-text"))
    words = spoken(shown, len(kept), share)
    below = " ".join(filter(None, (caption, left_out(lost))))
    return Figure(key, title, words, width, bottom + 20, tuple(marks), below)


def _placed(
    shown: Sequence[Bar], colours: dict[str, str], top: float
) -> tuple[list[_Place], list[tuple[str, float, bool]], float]:
    """Where each bar lies, where each label stands, and where the last one ends."""
    step = THIN if colours or len(shown) > MANY else LINE
    half = 6.0 if step == THIN else 8.0
    places, names, y = [], [], top + 2
    for text in dict.fromkeys(bar.label for bar in shown):
        mine = [bar for bar in shown if bar.label == text]
        names.append((text, y + step * len(mine) / 2, step == THIN and not colours))
        for bar in mine:
            kind = colours.get(bar.group, series(0))
            places.append(_Place(bar, y + step / 2, half, kind))
            y += step
        y += 8.0 * bool(colours)
    return places, names, y + 4


def _grid(scale: Scale, top: float, bottom: float, share: bool) -> list[Svg]:
    out = []
    for tick, said in scale.ticks(max(4, int((scale.end - scale.start) / 75))):
        x = scale.at(tick)
        out.append(line(f"M{x:.6g} {top + 2:.6g}V{bottom:.6g}", "grid-line" if tick else "axis"))
        text = f"{100 * tick:.3g}%" if share else said
        out.append(label(text, x, bottom + 15, "middle", "soft-text"))
    return out


def _name(text: str, gutter: float, y: float, room: int, thin: bool, fits: bool) -> list[Svg]:
    """A label beside its bars: whole, in two lines, or without its middle; all of one size."""
    small = thin or not fits
    most = int(room / SMALL) if small else room
    said = [shortened(text, most)] if thin else in_lines(text, most)
    kind = "small-text" * small
    first = y + 4.5 - 0.5 * small - 6.0 * (len(said) - 1)
    drawn = [label(s, gutter - 6, first + 12.0 * i, "end", kind) for i, s in enumerate(said)]
    return drawn if "".join(said) == text else [noted(text, *drawn)]


def whisker(scale: Scale, bar: Bar, y: float) -> Svg:
    """An interval: a line with ends, but for an end that leaves the picture."""
    if bar.low == bar.high:
        return Svg()
    left, right = scale.within(bar.low), scale.within(bar.high)
    ends = [x for end, x in ((bar.low, left), (bar.high, right)) if scale.holds(end)]
    path = f"M{left:.6g} {y:.6g}H{right:.6g}" + "".join(f"M{x:.6g} {y - 4:.6g}v8" for x in ends)
    return line(path, "whisker")


def spoken(shown: Sequence[Bar], count: int, share: bool = False) -> str:
    """The bars in words."""
    more = f"; {count - SPOKEN} more are in the table" if count > SPOKEN else ""
    said = "; ".join(_words(bar, share) for bar in shown[:SPOKEN]) + f"{more}."
    exact = all(bar.low == bar.high for bar in shown)
    return said if exact else f"With 95% intervals of the noise. {said}"


def _words(bar: Bar, share: bool) -> str:
    return f"{bar.name}: {bar.value:.1%}" if share and not bar.said else bar.words


def telling(found: Sequence[Bar]) -> tuple[list[Bar], list[Bar]]:
    """Those that say something, and those that do not: an interval far wider than all the rest."""
    finite = [bar for bar in found if all(map(math.isfinite, (bar.value, bar.low, bar.high)))]
    ends = [0.0, *_ends(finite)]
    lost = [bar for bar in finite if bar.low < min(ends) and bar.high > max(ends)]
    return [bar for bar in finite if bar not in lost], lost


def left_out(lost: Sequence[Bar]) -> str:
    """What is not drawn, by name."""
    if not lost:
        return ""
    more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    return f"Too noisy to draw: {', '.join(bar.name for bar in lost[:NAMED])}{more}."


def _ends(shown: Sequence[Bar]) -> list[float]:
    """What a picture should have room for: all but intervals far wider than most."""
    if not shown:
        return []
    most = FAR * median(bar.high - bar.low for bar in shown)
    plain = [bar for bar in shown if bar.high - bar.low <= most]
    return [end for bar in plain for end in (bar.value, bar.low, bar.high)]

"""Pictures with error bars, drawn as SVG that takes its colours from the stylesheet.

They stand in the page itself, so that light and dark are the page's own. Each has a title and
says in words what it shows; every text in it is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

WIDTH = 340  # units; the page stretches it
LINE = 24  # units from one bar to the next
LETTER = 8.0  # units, about
MOST_BARS = 60
FAR = 8  # times the usual width: an interval that the picture does not follow to its end
SPOKEN = 24  # bars named in the text alternative


@dataclass(frozen=True, slots=True)
class Bar:
    """A number with the ends of its interval."""

    label: str
    value: float
    low: float
    high: float


def tag(name: str, text: str = "", **attributes: object) -> Markup:
    """One element; attribute names have - for _ and lose a _ at the end."""
    said = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _short(value))
        for key, value in attributes.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), said, text)


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def picture(
    key: str, title: str, words: str, height: float, inside: Sequence[Markup], width: float = WIDTH
) -> Markup:
    """A whole picture, with its text alternative."""
    body = Markup("").join(
        [tag("title", title, id=f"{key}-title"), tag("desc", words, id=f"{key}-words"), *inside]
    )
    return tag(
        "svg", body, class_="chart", role="img", viewBox=f"0 0 {width:.6g} {height:.6g}",
        aria_labelledby=f"{key}-title {key}-words",
    )  # fmt: skip


def bars(key: str, title: str, found: Sequence[Bar], share: bool = False) -> Markup:
    """Bars from 0 on, one below the other, each with its 95% interval."""
    shown = [b for b in found if _finite(b)][:MOST_BARS]
    gutter = min(0.38 * WIDTH, 10 + LETTER * max((len(b.label) for b in shown), default=0))
    scale = Scale.of([0.0, *_ends(shown)], gutter)
    bottom = LINE * len(shown) + 6.0
    inside = [*scale.lines(bottom, share)]
    for i, bar in enumerate(shown):
        middle = LINE * (i + 0.5) + 2
        inside.append(_label(bar.label, gutter, middle))
        left, right = sorted((scale.at(0.0), scale.within(bar.value)))
        inside.append(
            tag("rect", class_="bar", x=left, y=middle - 8, width=max(right - left, 0.5), height=16)
        )
        inside.append(whisker(scale, bar, middle))
    return picture(key, title, spoken(shown, len(found), share), bottom + 20, inside)


def dots(key: str, title: str, found: Sequence[Bar]) -> Markup:
    """Points with their 95% intervals, beside a line at 0: coefficients."""
    shown = [b for b in found if _finite(b)][:MOST_BARS]
    gutter = min(0.38 * WIDTH, 10 + LETTER * max((len(b.label) for b in shown), default=0))
    scale = Scale.of([0.0, *_ends(shown)], gutter)
    bottom = LINE * len(shown) + 6.0
    inside = [*scale.lines(bottom, False)]
    for i, bar in enumerate(shown):
        middle = LINE * (i + 0.5) + 2
        inside.append(_label(bar.label, gutter, middle))
        inside.append(whisker(scale, bar, middle))
        inside.append(tag("circle", class_="dot", cx=scale.within(bar.value), cy=middle, r=5))
    return picture(key, title, spoken(shown, len(found)), bottom + 20, inside)


def spoken(shown: Sequence[Bar], count: int, share: bool = False) -> str:
    """The bars in words, for whoever does not see them."""
    if all(bar.low == bar.high for bar in shown):
        texts = (f"{bar.value:.1%}" if share else f"{bar.value:,.4g}" for bar in shown)
        named = zip((bar.label for bar in shown[:SPOKEN]), texts, strict=False)
        return "; ".join(f"{label}: {text}" for label, text in named) + "."
    said = [f"{b.label}: {b.value:,.4g} ({b.low:,.4g} to {b.high:,.4g})" for b in shown[:SPOKEN]]
    more = f"; {count - SPOKEN} more are in the table" if count > SPOKEN else ""
    return "With 95% intervals of the noise. " + "; ".join(said) + more + "."


def whisker(scale: Scale, bar: Bar, y: float) -> Markup:
    """An interval: a line with ends, but for an end that leaves the picture."""
    if bar.low == bar.high:
        return Markup("")
    left, right = scale.within(bar.low), scale.within(bar.high)
    path = f"M{left:.6g} {y:.6g}H{right:.6g}"
    for end, x in ((bar.low, left), (bar.high, right)):
        if scale.low <= end <= scale.high:
            path += f"M{x:.6g} {y - 4:.6g}v8"
    return tag("path", class_="whisker", d=path)


def _ends(shown: Sequence[Bar]) -> list[float]:
    """What a picture should have room for: all but intervals far wider than most."""
    if not shown:
        return []
    most = FAR * median(bar.high - bar.low for bar in shown)
    plain = [bar for bar in shown if bar.high - bar.low <= most]
    return [end for bar in plain for end in (bar.value, bar.low, bar.high)]


def _label(text: str, gutter: float, y: float) -> Markup:
    room = int((gutter - 8) / LETTER + 0.01)
    said = text if len(text) <= room else text[: max(room - 1, 1)] + "…"
    return tag("text", said, x=gutter - 6, y=y + 4.5, text_anchor="end")


def _finite(bar: Bar) -> bool:
    return all(math.isfinite(x) for x in (bar.value, bar.low, bar.high))


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers -> places along the picture, with a few round ones marked."""

    low: float
    high: float
    start: float
    end: float = WIDTH - 14.0

    @classmethod
    def of(cls, values: Sequence[float], start: float) -> Scale:
        """A scale that has room for all these."""
        low, high = min(values), max(values)
        if not high > low:
            low, high = low - 1, high + 1
        return cls(low, high, start)

    def at(self, value: float) -> float:
        """Where a number lies."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def within(self, value: float) -> float:
        """The same, at the edge for what lies beyond it."""
        return self.at(min(max(value, self.low), self.high))

    def ticks(self) -> list[float]:
        """Two to five round numbers."""
        rough = (self.high - self.low) / 4
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.high / step) + 1)]

    def lines(self, bottom: float, share: bool) -> list[Markup]:
        """The marks, from top to bottom, and their numbers."""
        out = []
        for tick in self.ticks():
            x = self.at(tick)
            kind = "axis" if tick == 0 else "grid-line"
            out.append(tag("path", class_=kind, d=f"M{x:.6g} 2V{bottom:.6g}"))
            said = f"{100 * tick:.3g}%" if share else compact(tick)
            out.append(
                tag("text", said, class_="soft-text", x=x, y=bottom + 15, text_anchor="middle")
            )
        return out


def compact(value: float) -> str:
    """1,200 as 1.2k, so that marks do not meet."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"

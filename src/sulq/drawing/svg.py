"""SVG elements, and a figure: a drawing with its title and the same in words.

Every text is escaped. In a page the colours are the stylesheet's, so that light and dark are the
page's own; style.py has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

PAGE, SHEET = 340.0, 560.0  # units across, in a page (which stretches it) and in a file
LETTER = 8.0  # units, about
BREAKS = re.compile(r"[\s_/,;:.-]+")  # after which a name may go on in the next line
# What XML has not, and marks that would turn or hide what stands beside a name.
NOT_XML = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufffe\uffff]"
)


class Svg(str):
    """Text that is SVG already; templates leave it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def tag(name: str, *inside: str, **attributes: object) -> Svg:
    """One element; attribute names have - for _ and lose a _ at the end."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(_short(value))}"'
        for key, value in attributes.items()
    )
    body = "".join(x if isinstance(x, Svg) else _escaped(x) for x in inside)
    return Svg(f"<{name}{said}>{body}</{name}>")


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return escape(NOT_XML.sub("\ufffd", text))


def label(text: str, x: float, y: float, anchor: str = "start", kind: str = "") -> Svg:
    """A text that starts, ends or has its middle at x."""
    where = {"x": x, "y": y} | ({"text_anchor": anchor} if anchor != "start" else {})
    return tag("text", text, **({"class_": kind} if kind else {}), **where)


def line(d: str, kind: str) -> Svg:
    """A path."""
    return tag("path", class_=kind, d=d)


def box(kind: str, x: float, y: float, width: float, height: float, **more: object) -> Svg:
    """A rectangle."""
    return tag("rect", class_=kind, x=x, y=y, width=width, height=height, **more)


def shortened(text: str, most: int) -> str:
    """A text that fits; a long one loses its middle, since names often differ at their ends."""
    if len(text) <= most:
        return text
    tail = max(most - 1, 1) * 2 // 5
    return text[: max(most - 1, 1) - tail] + "…" + text[len(text) - tail :]


def in_lines(text: str, most: int) -> list[str]:
    """A text in one line, or in two that break at a space or another mark; shortened if need be."""
    if len(text) <= most:
        return [text]
    fits = shortened(text, 2 * most - 4) if len(text) > 2 * most else text
    places = [m.end() for m in BREAKS.finditer(fits) if len(fits) - most <= m.end() <= most]
    if not places:
        return [shortened(text, most)]
    middle = min(places, key=lambda place: abs(place - len(fits) / 2))
    return [fits[:middle].strip(), fits[middle:].strip()]


def noted(words: str, *marks: Svg) -> Svg:
    """Marks that say something to whoever points at them."""
    return tag("g", tag("title", words), *marks)


def legend(
    names: list[str], kinds: list[str], left: float, right: float
) -> tuple[list[Svg], float]:
    """Colours and what they mean, in as many lines as they need; and how tall that is."""
    marks, x, y = [], left, 6.0
    for name, kind in zip(names, kinds, strict=True):
        said = shortened(name, 30)
        room = 18 + LETTER * len(said) + 12
        if x > left and x + room > right:
            x, y = left, y + 20
        marks += [box(f"key {kind}", x, y, 12.0, 12.0), label(said, x + 18, y + 10.5)]
        x += room
    return marks, y + 22


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing with its title, its words for whoever does not see it, and what stands below it."""

    key: str
    title: str
    words: str
    width: float
    height: float
    marks: tuple[Svg, ...]
    caption: str = ""
    wide: bool = False  # does it scroll on a narrow screen?

    def __html__(self) -> str:
        """As it stands in a page."""
        named = [tag("title", self.title, id=f"{self.key}-title"),
                 tag("desc", self.words, id=f"{self.key}-words")]  # fmt: skip
        return tag(
            "svg", *named, *self.marks, class_="chart", role="img",
            viewBox=f"0 0 {self.width:.6g} {self.height:.6g}",
            aria_labelledby=f"{self.key}-title {self.key}-words",
        )  # fmt: skip

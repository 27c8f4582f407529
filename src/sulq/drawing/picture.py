"""A picture: figures one below the other and the same in words, for notebooks and files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from sulq.drawing.style import for_files
from sulq.drawing.svg import LETTER, Figure, Svg, box, label, tag
from sulq.errors import MissingExtra, Refused

ENDINGS = (".svg", ".png")
MARGIN, GAP = 14.0, 22.0  # units around and between figures
LINE = 19.0  # units of a line of text
SHARP = 2  # pixels of a PNG to one unit


class Picture:
    """Something drawn, and the same in words: print it, show it in a notebook, or save it."""

    def __init__(self, text: str, figures: Sequence[Figure]) -> None:
        self.text = text
        self.figures = tuple(figures)

    @cached_property
    def svg(self) -> str:
        """The drawing as SVG, whole by itself; light or dark as whoever looks at it likes it."""
        return self._drawn(for_files())

    def save(self, path: str | Path) -> Picture:
        """Write it as .svg or .png; an SVG holds the words too, for those who cannot see it."""
        self.ready(path)
        path = Path(path)
        drawn = self.svg.encode() if path.suffix.lower() == ".svg" else self.png()
        try:
            path.write_bytes(drawn)
        except OSError as error:
            raise Refused(f"plot={str(path)!r} cannot be written: {error.strerror}.") from None
        return self

    @staticmethod
    def ready(path: str | Path | None = None) -> None:
        """Can it be saved there? Ask this before paying for what will be drawn."""
        if path is None:
            return
        path = Path(path)
        if path.suffix.lower() not in ENDINGS:
            raise Refused(f"plot={str(path)!r}: the ending says the kind, one of .svg and .png.")
        if not path.parent.is_dir():
            raise Refused(f"plot={str(path)!r}: the folder {str(path.parent)!r} does not exist.")
        if path.suffix.lower() == ".png":
            _rasteriser()

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What a notebook shows: the drawing itself, which needs no network."""
        return {"image/svg+xml": self.svg, "text/plain": self.text}

    def png(self) -> bytes:
        """The drawing as pixels, light."""
        drawn = self._drawn(for_files(dark=False))
        made: bytes = bytes(_rasteriser().svg_to_bytes(svg_string=drawn, zoom=SHARP))
        return made

    def _drawn(self, style: str) -> str:
        width = max((figure.width for figure in self.figures), default=0.0)
        marks: list[Svg] = []
        y = MARGIN
        for figure in self.figures:
            lines = _lines(figure, width)
            for text, kind in lines:
                marks.append(label(text, 0.0, y + 13, kind=kind))
                y += LINE
            y += 6.0
            marks.append(tag("g", *figure.marks, transform=f"translate(0 {y:.6g})"))
            y += figure.height + GAP
        across, down = width + 2 * MARGIN, y - GAP + MARGIN
        return tag(
            "svg", tag("desc", self.text), Svg(f"<style>{style}</style>"),
            box("paper", 0.0, 0.0, across, down),
            tag("g", *marks, transform=f"translate({MARGIN:g} 0)"), role="img", class_="chart",
            xmlns="http://www.w3.org/2000/svg", width=across, height=down,
            viewBox=f"0 0 {across:.6g} {down:.6g}",
        )  # fmt: skip


def _lines(figure: Figure, width: float) -> list[tuple[str, str]]:
    """The title and what is said below it, as lines that fit."""
    title = textwrap.wrap(figure.title, int(width / (1.15 * LETTER)))
    said = figure.caption.removeprefix(figure.title).lstrip(".,; ")
    below = textwrap.wrap(said[:1].upper() + said[1:], int(width / (0.9 * LETTER)))
    return [(text, "heading") for text in title] + [(text, "soft-text") for text in below]


def _rasteriser() -> Any:
    try:
        import resvg_py
    except ImportError:
        raise MissingExtra(
            "PNG pictures need resvg: pip install 'sulq[plot]'. SVG needs nothing."
        ) from None
    return resvg_py

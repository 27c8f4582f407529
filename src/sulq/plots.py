"""Table -> bars with error bars, drawn by Altair, saved as SVG or PNG; and pictures in general.

A noisy count below zero is drawn below zero: cutting it off would hide the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.errors import MissingExtra, QueryNotAllowed, Refused

if TYPE_CHECKING:
    from sulq.answer import Table

ENDINGS = (".svg", ".png")
BLUE, INK = "#4c78a8", "#333333"
WIDTH, HEIGHT = 640, 360
LEAST_WIDTH, MOST_WIDTH = 14, 4000  # of one bar, of a chart
MANY = 12  # labels, or one of LONG letters: from here on they are written slanted
LONG = 10


class Picture:
    """Something drawn, and the same in words: print it, show it in a notebook, or save it.

    `draw` gives an Altair chart when handed Altair, which is loaded only then.
    """

    def __init__(self, text: str, draw: Callable[[Any], Any]) -> None:
        self.text = text
        self._draw = draw

    @cached_property
    def chart(self) -> Any:
        """The Altair chart, to change or show your own way."""
        return _styled(self._draw(ready()))

    def save(self, path: str | Path) -> Picture:
        """Write it as .svg or .png; an SVG holds the words too, for those who cannot see it."""
        ready(path)
        save(self.chart, path, self.text)
        return self

    @staticmethod
    def ready(path: str | Path | None = None) -> None:
        """Can it be drawn, and saved there? Ask this before paying for what will be drawn."""
        ready(path)

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What a notebook shows: the drawing itself, which needs no network."""
        try:
            ready("picture.svg")
        except MissingExtra:
            return {"text/plain": self.text}
        return {"image/svg+xml": _svg(self.chart, self.text), "text/plain": self.text}


def bars(table: Table, path: str | Path | None = None) -> Any:
    """Draw a table with one or two label columns; save it if a path is given.

    One label column gives bars, two give groups of coloured bars; several noisy columns give
    one chart below the other. Gives the Altair chart.
    """
    alt = ready(path)
    if not table.numbers or len(table.by) not in (1, 2):
        raise QueryNotAllowed(
            f"plot: {len(table.by)} label columns and {len(table.numbers)} numbers, want one or "
            "two label columns and a number. Use .to_pandas() and draw it your own way."
        )
    charts = [_chart(alt, table, name) for name in table.numbers]
    chart = _styled(charts[0] if len(charts) == 1 else alt.vconcat(*charts))
    if path is not None:
        save(chart, path)
    return chart


def ready(path: str | Path | None = None) -> Any:
    """Altair, or a refusal: ask this before paying for what will be drawn."""
    if path is not None:
        _check_path(Path(path))
    try:
        import altair

        if path is not None:
            import vl_convert  # noqa: F401
    except ImportError:
        raise MissingExtra("charts need Altair: pip install 'sulq[plot]'") from None
    return altair


def _check_path(path: Path) -> None:
    if path.suffix.lower() not in ENDINGS:
        raise Refused(f"plot={str(path)!r}: the ending says the kind, one of .svg and .png.")
    if not path.parent.is_dir():
        raise Refused(f"plot={str(path)!r}: the folder {str(path.parent)!r} does not exist.")


def save(chart: Any, path: str | Path, text: str = "") -> None:
    """Write the chart as SVG or PNG; an SVG says the text to those who cannot see it."""
    import vl_convert

    path = Path(path)
    _check_path(path)
    content = (
        _svg(chart, text).encode()
        if path.suffix.lower() == ".svg"
        else vl_convert.vegalite_to_png(chart.to_json(), scale=2)
    )
    try:
        path.write_bytes(content)
    except OSError as error:
        raise Refused(f"plot={str(path)!r} cannot be written: {error.strerror}.") from None


def _svg(chart: Any, text: str) -> str:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(chart.to_json())
    head, _, rest = svg.partition(">")  # the opening tag
    return f'{head} role="img"><desc>{escape(text)}</desc>{rest}' if text else svg


def _chart(alt: Any, table: Table, name: str) -> Any:
    """Bars, the whiskers from low to high, and a line at zero."""
    first = table.by[0]
    order = list(dict.fromkeys(table[first]))
    rows = [
        {"x": str(row[first]), "g": str(row[table.by[-1]]), "y": row[name],
         "low": row[f"{name}_low"], "high": row[f"{name}_high"]}
        for row in table
    ]  # fmt: skip
    slanted = len(order) > MANY or max(map(len, map(str, order))) > LONG
    axis = alt.Axis(labelAngle=-40 if slanted else 0, labelLimit=180)
    # A bin such as '0 to 5' counts as a name: the order is the declared one, not the alphabet.
    x = alt.X("x:N", sort=[str(o) for o in order], title=_title(first), axis=axis)
    number = {"title": f"{_title(name)}, with its 95% interval"}
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    tips = [alt.Tooltip(f"{field}:Q", format=",.1f") for field in ("y", "low", "high")]
    drawn = base.mark_bar(color=BLUE, opacity=0.85).encode(y=alt.Y("y:Q", **number), tooltip=tips)
    whiskers = base.mark_errorbar(ticks={"size": 8}, color=INK, thickness=1.3).encode(
        y=alt.Y("low:Q", **number), y2="high:Q"
    )
    layers = [drawn, whiskers]
    if len(table.by) == 2:
        layers = [layer.encode(**_grouped(alt, table, fill=layer is drawn)) for layer in layers]
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(color=INK).encode(y=alt.datum(0))
    width = min(max(WIDTH, len(rows) * LEAST_WIDTH), MOST_WIDTH)
    heading = _heading(table, name)
    title = alt.Title(heading, subtitle=table.note) if table.note else heading
    return alt.layer(*layers, zero).properties(title=title, width=width, height=HEIGHT)


def _grouped(alt: Any, table: Table, *, fill: bool) -> dict[str, Any]:
    """The second label column, side by side within the first."""
    second = table.by[1]
    order = [str(label) for label in dict.fromkeys(table[second])]
    found = {"xOffset": alt.XOffset("g:N", sort=order)}
    if fill:
        colour = alt.Color("g:N", sort=order, title=_title(second), scale=alt.Scale(domain=order))
        found["color"] = colour
    return found


def _heading(table: Table, name: str) -> str:
    return f"{_title(name)} by {' and '.join(map(_title, table.by))}"


def _title(name: str) -> str:
    return name if len(name) <= 40 else name[:37] + "..."


def _styled(chart: Any) -> Any:
    font = "DejaVu Sans, Helvetica, Arial, sans-serif"
    return (
        chart.configure(font=font, background="white")
        .configure_axis(labelFontSize=13, titleFontSize=14, titlePadding=10, gridColor="#e4e4e4")
        .configure_legend(labelFontSize=13, titleFontSize=14)
        .configure_title(fontSize=16, anchor="start")
        .configure_view(stroke=None)
    )

"""What a model learned, drawn and in words: components, centres, coefficients.

Everything here was paid for already, but for the histogram behind k-means' centres.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import sulq

BLUE, GREY, ORANGE, INK = "#4c78a8", "#b5b5b5", "#e45756", "#333333"
WIDTH, HEIGHT = 520, 260
MANY = 12  # cells of a row up to which each is written out
DARK = 0.65  # of the strongest colour: from here on letters are white
Row = dict[str, Any]


def drawn(picture: sulq.Picture, path: str | Path | None) -> sulq.Picture:
    """The picture, saved if a path is given."""
    return picture if path is None else picture.save(path)


def give_or_take(value: float, reach: float) -> str:
    """A number to two digits of its error: 40,260 +/- 230."""
    if not 0 < reach < math.inf:
        return f"{value:,.6g}"
    digits = 1 - math.floor(math.log10(reach))
    ends = (round(x, digits) for x in (value, reach))
    return " +/- ".join(f"{x:,.{max(digits, 0)}f}" for x in ends)


# --- components --------------------------------------------------------------------------


def components(model: Any) -> sulq.Picture:
    """Scree and loadings: the variance along each component, and what it is made of."""
    names = [f"pc{i + 1}" for i in range(model.n_components_)]
    degrees = [math.degrees(angle) for angle in model.component_angles_]
    shares = [float(share) for share in model.explained_variance_ratio_]
    scree = [
        {"component": n, "share": s, "turned": turned(a), "kind": "noise" if a > 89 else "found"}
        for n, s, a in zip(names, shares, degrees, strict=True)
    ]
    loadings = [
        {"component": n, "column": c, "loading": float(v), "strength": abs(float(v))}
        for n, row in zip(names, model.components_, strict=True)
        for c, v in zip(model.columns_, row, strict=True)
    ]

    def draw(alt: Any) -> Any:
        return alt.vconcat(_scree(alt, scree, names), _loadings(alt, loadings, names, model))

    return sulq.Picture(_components_text(model, scree, loadings), draw)


def turned(degrees: float) -> str:
    """How far noise may have turned a component, in words."""
    return "may be noise" if degrees > 89 else f"±{degrees:.1f}°"


def _components_text(model: Any, scree: list[Row], loadings: list[Row]) -> str:
    lines = [
        f"{type(model).__name__}: share of variance, how far noise may have turned it, made of"
    ]
    for s in scree:
        mine = [x for x in loadings if x["component"] == s["component"]]
        mine.sort(key=lambda x: -x["strength"])
        made = ", ".join(f"{x['loading']:+.2f} {x['column']}" for x in mine[:4])
        more = f", {len(mine) - 4} more" if len(mine) > 4 else ""
        lines.append(f"  {s['component']:<5}{s['share']:6.1%}  {s['turned']:<13} {made}{more}")
    return "\n".join(lines)


def _scree(alt: Any, rows: list[Row], names: list[str]) -> Any:
    x = alt.X("component:N", sort=names, title=None, axis=alt.Axis(labelAngle=0))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    colour = alt.Color(
        "kind:N", legend=None, scale=alt.Scale(domain=["found", "noise"], range=[BLUE, GREY])
    )
    y = alt.Y("share:Q", title="share of variance", axis=alt.Axis(format="%"))
    bars = base.mark_bar().encode(y=y, color=colour)
    said = base.mark_text(dy=-8, color=INK).encode(y=y, text="turned:N")
    title = alt.Title(
        "Variance along each component", subtitle="and how far noise may have turned it"
    )
    return alt.layer(bars, said).properties(title=title, width=WIDTH, height=HEIGHT)


def _loadings(alt: Any, rows: list[Row], names: list[str], model: Any) -> Any:
    most = max(1e-9, *(r["strength"] for r in rows))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("component:N", sort=names, title=None, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("column:N", sort=list(model.columns_), title=None),
    )
    scale = alt.Scale(scheme="blueorange", domain=[-most, most], domainMid=0)
    cells = base.mark_rect().encode(color=alt.Color("loading:Q", scale=scale, title="loading"))
    layers = [cells]
    if len(names) <= MANY:
        dark = alt.datum.strength > DARK * most
        ink = alt.when(dark).then(alt.value("white")).otherwise(alt.value(INK))
        text = alt.Text("loading:Q", format="+.2f")
        layers.append(base.mark_text().encode(text=text, color=ink))
    height = max(60, 22 * len(model.columns_))
    return alt.layer(*layers).properties(title="What each is made of", width=WIDTH, height=height)


# --- centres -----------------------------------------------------------------------------


def two_of(held: tuple[str, ...], columns: Sequence[str] | None) -> tuple[str, str]:
    """The two columns to draw: those asked for, or the model's first."""
    chosen = held[:2] if columns is None else tuple(columns)
    if len(chosen) != 2 or not set(chosen) <= set(held) or chosen[0] == chosen[1]:
        raise sulq.Refused(f"columns={list(chosen)!r}, want two of the model's: {', '.join(held)}.")
    return chosen[0], chosen[1]


def centres(model: Any, db: Any, columns: tuple[str, str], query: sulq.Query) -> sulq.Picture:
    """Centres over noisy counts by two columns: asks, and pays."""
    price = db.price(query)
    answer = db.ask(query)
    cells = [
        {"x": a[0], "x2": end(a), "y": b[0], "y2": end(b), "count": float(count)}
        for (a, b), count in zip(answer.cells, answer.values[:, 0], strict=True)
        if a is not None and b is not None  # rows outside every bin
    ]
    points = _points(model, *(model.columns_.index(name) for name in columns))
    said = f"noisy counts, each +/- {price.half_widths[0]:,.0f} (95%), price {price}"

    def draw(alt: Any) -> Any:
        return _centres(alt, points, cells, columns, said)

    return sulq.Picture(f"{centres_text(model, columns)}\nBehind them: {said}", draw)


def end(span: tuple[Any, Any]) -> Any:
    """Where a bin ends in a drawing: whole numbers 0 to 24 reach up to 25."""
    return span[1] + 1 if all(isinstance(x, int) for x in span) else span[1]


def _points(model: Any, i: int, j: int) -> list[Row]:
    """Every centre, with two standard deviations of noise around it."""
    found = zip(model.cluster_centers_, model.center_stds_, model.cluster_fractions_, strict=True)
    return [
        {
            "cluster": str(number), "x": float(c[i]), "y": float(c[j]), "share": float(share),
            "x_low": float(c[i] - 2 * s[i]), "x_high": float(c[i] + 2 * s[i]),
            "y_low": float(c[j] - 2 * s[j]), "y_high": float(c[j] + 2 * s[j]),
        }
        for number, (c, s, share) in enumerate(found)
    ]  # fmt: skip


def centres_text(model: Any, columns: Sequence[str]) -> str:
    """Each centre in these columns, with two standard deviations of noise."""
    lines = ["Centres, with the share of rows near each"]
    at = [model.columns_.index(name) for name in columns]
    found = zip(model.cluster_centers_, model.center_stds_, model.cluster_fractions_, strict=True)
    for number, (c, s, share) in enumerate(found):
        where = ", ".join(
            f"{n} {give_or_take(c[i], 2 * s[i])}" for n, i in zip(columns, at, strict=True)
        )
        few = "; too few rows to move it" if number in model.small_clusters_ else ""
        lines.append(f"  {number}: {where}; {share:.1%}{few}")
    return "\n".join(lines)


def _centres(
    alt: Any, points: list[Row], cells: list[Row], columns: tuple[str, str], said: str
) -> Any:
    x, y = (alt.Scale(zero=False, nice=False) for _ in columns)
    most = max(1.0, *(cell["count"] for cell in cells))
    shade = alt.Scale(range=["#f7fafd", "#08519c"], interpolate="rgb", domain=[0, most], clamp=True)
    counts = (
        alt.Chart(alt.Data(values=cells))
        .mark_rect()
        .encode(
            x=alt.X("x:Q", scale=x, title=columns[0]), x2="x2:Q",
            y=alt.Y("y:Q", scale=y, title=columns[1]), y2="y2:Q",
            color=alt.Color("count:Q", scale=shade, title="rows"),
        )
    )  # fmt: skip
    base = alt.Chart(alt.Data(values=points)).encode(x="x:Q", y="y:Q")
    across = base.mark_rule(color=ORANGE, strokeWidth=2).encode(x="x_low:Q", x2="x_high:Q")
    along = base.mark_rule(color=ORANGE, strokeWidth=2).encode(y="y_low:Q", y2="y_high:Q")
    size = alt.Size("share:Q", scale=alt.Scale(range=[60, 500]), legend=None)
    dots = base.mark_point(color=ORANGE, strokeWidth=2, filled=False).encode(size=size)
    names = base.mark_text(dx=12, dy=-10, color=INK, fontWeight="bold").encode(text="cluster:N")
    title = alt.Title("Centres of clusters", subtitle=f"behind them {said}")
    drawn = alt.layer(counts, across, along, dots, names)
    return drawn.properties(title=title, width=WIDTH, height=round(1.5 * HEIGHT))


# --- coefficients ------------------------------------------------------------------------


def coefficients(model: Any, level: float) -> sulq.Picture:
    """What each column does to the label over its declared range, with what noise may do to it."""
    if not 0 < level < 1:
        raise sulq.Refused(f"level={level!r}, want a number between 0 and 1.")
    z = NormalDist().inv_cdf((1 + level) / 2)
    rows = [
        {
            "column": c, "coef": float(b), "reach": float(z * s), "effect": float(b * w),
            "low": float((b - z * s) * w), "high": float((b + z * s) * w),
        }
        for c, b, s, w in zip(
            model.columns_, model.coef_, model.coef_std_, model.width_, strict=True
        )
    ]  # fmt: skip

    def draw(alt: Any) -> Any:
        return _coefficients(alt, rows, level)

    return sulq.Picture(_coefficients_text(model, rows, z, level), draw)


def _coefficients_text(model: Any, rows: list[Row], z: float, level: float) -> str:
    wide = max(len("intercept"), *(len(r["column"]) for r in rows))
    lines = [f"Coefficients in own units, with the {level:.0%} interval of noise alone"]
    for name, value, reach in [
        *((r["column"], r["coef"], r["reach"]) for r in rows),
        ("intercept", model.intercept_, z * model.intercept_std_),
    ]:
        lines.append(f"  {name:<{wide}}  {give_or_take(value, reach)}")
    if model.alpha_:
        lines.append(f"  shrunk by a ridge of {model.alpha_:.3g}")
    return "\n".join(lines)


def _coefficients(alt: Any, rows: list[Row], level: float) -> Any:
    y = alt.Y("column:N", sort=[r["column"] for r in rows], title=None)
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    title = "change of the label from the column's low to its high end"
    whiskers = base.mark_rule(color=INK, strokeWidth=1.5).encode(
        x=alt.X("low:Q", title=title), x2="high:Q"
    )
    tips = [alt.Tooltip(f"{f}:Q", format=",.4g") for f in ("coef", "effect", "low", "high")]
    dots = base.mark_point(color=BLUE, filled=True, size=90).encode(x="effect:Q", tooltip=tips)
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(color=GREY).encode(x=alt.datum(0))
    heading = alt.Title("Coefficients", subtitle=f"with the {level:.0%} interval of noise alone")
    height = max(120, 34 * len(rows))
    return alt.layer(zero, whiskers, dots).properties(title=heading, width=WIDTH, height=height)

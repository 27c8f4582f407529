"""What a model learned, drawn for a page: components, centres, a tree, coefficients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count, pairwise
from typing import Any

from markupsafe import Markup

from sulq.console.charts import (
    LETTER,
    MOST_BARS,
    WIDTH,
    Bar,
    Scale,
    bars,
    compact,
    dots,
    picture,
    tag,
)
from sulq.learn.tree_drawing import Seen, seen

TWO = 1.96  # standard deviations of a 95% interval
CELL = 26  # units of a row of a heat map
LEVEL, LEAF, SHARES, WORDS = 120, 40, 90, 170  # units: a level, a leaf, its bar, its words
MOST_DOWN, MOST_ACROSS, MOST_LEAVES = 40, 12, 80  # of what a picture shows
LONG = 22  # letters of a name that there is room for


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture and what stands below it."""

    svg: Markup
    caption: str
    wide: bool = False  # does it scroll on a narrow screen?


def figures(model: Any, extra: dict[str, Any]) -> list[Figure]:
    """The pictures of a fitted model; `extra` holds the histogram behind centres."""
    draw = {
        "PCA": _components, "KMeans": _clusters, "ID3": _tree, "NaiveBayes": _classes,
        "Perceptron": _weights, "LinearRegression": _coefficients,
    }  # fmt: skip
    return list(draw[type(model).__name__](model, extra))


# ---- components -----------------------------------------------------------------------------


def _components(model: Any, extra: dict[str, Any]) -> Iterator[Figure]:
    names = [f"pc{i + 1}" for i in range(model.n_components_)]
    shares = [float(x) for x in model.explained_variance_ratio_]
    degrees = [math.degrees(a) for a in model.component_angles_]
    scree = [Bar(n, s, s, s) for n, s in zip(names, shares, strict=True)]
    turned = ", ".join(
        f"{n} {'may be noise alone' if d > 89 else f'by up to {d:.1f} degrees'}"
        for n, d in zip(names, degrees, strict=True)
    )
    yield Figure(
        bars("scree", "Share of variance along each component", scree, share=True),
        f"Share of variance along each component. Noise may have turned it: {turned}.",
    )
    loadings = [[float(v) for v in row[:MOST_DOWN]] for row in model.components_[:MOST_ACROSS]]
    down, across = list(model.columns_)[:MOST_DOWN], names[:MOST_ACROSS]
    some = len(down) < len(model.columns_) or len(across) < len(names)
    yield Figure(
        _heat("loadings", "What each component is made of", down, across, loadings),
        "Loadings: what each component is made of, from -1 to 1."
        + (" The rest is in the JSON model." if some else ""),
        wide=len(names) > 4,
    )


def _heat(
    key: str, title: str, down: list[str], across: list[str], values: list[list[float]]
) -> Markup:
    """A table of signed numbers, coloured by strength; values[across][down]."""
    gutter = min(170.0, 8 + LETTER * max(len(_short(name)) for name in down))
    wide = max((WIDTH - gutter - 6) / len(across), 56.0)
    most = max(1e-9, *(abs(v) for row in values for v in row))
    inside = []
    for i, name in enumerate(across):
        x = gutter + wide * (i + 0.5)
        inside.append(tag("text", name, class_="soft-text", x=x, y=14, text_anchor="middle"))
    for j, name in enumerate(down):
        y = 22 + CELL * j
        inside.append(tag("text", _short(name), x=gutter - 6, y=y + 17, text_anchor="end"))
        for i in range(len(across)):
            value = values[i][j]
            inside.append(
                tag("rect", class_="heat" if value >= 0 else "heat-2", x=gutter + wide * i, y=y,
                    width=wide - 2, height=CELL - 2, fill_opacity=0.6 * abs(value) / most)
            )  # fmt: skip
            middle = gutter + wide * (i + 0.5) - 1
            inside.append(
                tag(
                    "text",
                    f"{round(value, 2) + 0.0:+.2f}",
                    x=middle,
                    y=y + 17,
                    text_anchor="middle",
                )
            )
    said = "; ".join(
        f"{a}: " + ", ".join(f"{d} {v:+.2f}" for d, v in zip(down[:12], row, strict=False))
        for a, row in zip(across, values, strict=True)
    )
    width = max(float(WIDTH), gutter + wide * len(across) + 6)
    return picture(key, title, said, 26.0 + CELL * len(down), inside, width)


# ---- centres --------------------------------------------------------------------------------


def _clusters(model: Any, extra: dict[str, Any]) -> Iterator[Figure]:
    shares = [
        Bar(f"group {i}", float(x), float(x), float(x))
        for i, x in enumerate(model.cluster_fractions_)
    ]
    if "histogram" in extra:
        yield _centres(model, extra["histogram"])
    yield Figure(
        bars("shares", "Share of rows near each centre", shares, share=True),
        "Share of rows near each centre.",
    )


def _centres(model: Any, behind: dict[str, Any]) -> Figure:
    """Centres over noisy counts by two columns."""
    first, second = behind["columns"]
    i, j = (list(model.columns_).index(name) for name in (first, second))
    cells = behind["cells"]
    across = Scale(min(c[0][0] for c in cells), max(c[0][1] for c in cells), 46.0)
    down = Scale(min(c[1][0] for c in cells), max(c[1][1] for c in cells), 268.0, 30.0)
    most = max(1.0, *(c[2] for c in cells))
    inside = []
    for (x1, x2), (y1, y2), n in cells:
        left, right, top, bottom = across.at(x1), across.at(x2), down.at(y2), down.at(y1)
        inside.append(
            tag("rect", class_="heat", x=left, y=top, width=max(right - left - 0.5, 0.5),
                height=max(bottom - top - 0.5, 0.5), fill_opacity=0.75 * max(n, 0.0) / most)
        )  # fmt: skip
    for tick in across.ticks():
        x = across.at(tick)
        inside.append(
            tag("text", compact(tick), class_="soft-text", x=x, y=284, text_anchor="middle")
        )
    for tick in down.ticks():
        y = down.at(tick)
        inside.append(
            tag("text", compact(tick), class_="soft-text", x=42, y=y + 4, text_anchor="end")
        )
    said = []
    pairs = zip(model.cluster_centers_, model.center_stds_, strict=True)
    for number, (centre, std) in enumerate(pairs):
        x, y = float(centre[i]), float(centre[j])
        ex, ey = TWO * float(std[i]), TWO * float(std[j])
        cross = (
            f"M{across.at(x - ex):.6g} {down.at(y):.6g}H{across.at(x + ex):.6g}"
            f"M{across.at(x):.6g} {down.at(y - ey):.6g}V{down.at(y + ey):.6g}"
        )
        inside.append(tag("path", class_="whisker", d=cross))
        inside.append(tag("circle", class_="dot", cx=across.at(x), cy=down.at(y), r=9))
        inside.append(
            tag("text", str(number), class_="on-dot", x=across.at(x), y=down.at(y) + 4.5,
                text_anchor="middle")
        )  # fmt: skip
        said.append(f"group {number}: {first} {x:,.4g} ± {ex:,.2g}, {second} {y:,.4g} ± {ey:,.2g}")
    inside.append(tag("text", _short(second), x=4, y=13))
    inside.append(tag("text", _short(first), x=WIDTH - 14, y=302, text_anchor="end"))
    title = f"Centres by {first} (across) and {second} (up)"
    return Figure(
        picture("centres", title, "; ".join(said) + ".", 308.0, inside),
        f"{title}, with 95% intervals of the noise, over noisy counts.",
    )


# ---- trees ----------------------------------------------------------------------------------


def _tree(model: Any, extra: dict[str, Any]) -> Iterator[Figure]:
    root = seen(model)
    nodes = list(root.walk())
    leaves = [node for node in nodes if not node.below]
    if len(leaves) > MOST_LEAVES:
        return  # too large to look at; the words are there
    place = _places(root, count())
    width = float((max(n.level for n in nodes) + 1) * LEVEL + SHARES + WORDS)
    inside: list[Markup] = []
    for node in nodes:
        inside += _node(model, node, place)
    title = f"A tree with {len(nodes) - len(leaves)} splits and {len(leaves)} leaves"
    classes = ", ".join(
        f"{'orange' if i % 2 else 'teal'} {c}" for i, c in enumerate(map(str, model.classes_[:2]))
    )
    more = f" Bars show the share of each class in a leaf: {classes}." if len(leaves) > 0 else ""
    yield Figure(
        picture("tree", title, model.text(), LEAF * len(leaves) + 8.0, inside, width),
        f"{title}.{more}",
        wide=True,
    )


def _node(model: Any, node: Seen, place: dict[int, float]) -> Iterator[Markup]:
    x, y = float(node.level * LEVEL), LEAF * (place[node.number] + 0.5)
    yield tag("path", class_="axis", d=f"M{x:.6g} {y:.6g}h{LEVEL}")
    if node.branch:
        yield tag("text", _short(node.branch, 16), class_="soft-text", x=x + 4, y=y - 5)
    if node.below:
        yield tag("text", _short(node.name, 16), class_="strong-text", x=x + 4, y=y + 15)
        ends = [LEAF * (place[n.number] + 0.5) for n in (node.below[0], node.below[-1])]
        yield tag("path", class_="axis", d=f"M{x + LEVEL:.6g} {ends[0]:.6g}V{ends[1]:.6g}")
        return
    shares = [float(s) for s in model.node_shares_[node.number]]
    edges = [x + LEVEL + SHARES * e for e in accumulate(shares, initial=0.0)]
    for i, (a, b) in enumerate(pairwise(edges)):
        strength = 1 - 0.6 * (i // 2) / max(len(shares) / 2, 1)
        yield tag("rect", class_="bar-2" if i % 2 else "bar", x=a, y=y - 9, height=18,
                  width=max(b - a, 0.0), fill_opacity=strength)  # fmt: skip
    yield tag("text", _short(node.name), x=x + LEVEL + SHARES + 6, y=y - 2)
    rows = node.rows.replace("+/-", "±")
    yield tag("text", rows, class_="soft-text", x=x + LEVEL + SHARES + 6, y=y + 13)


def _places(node: Seen, line: Iterator[int]) -> dict[int, float]:
    """Leaves one below the other; a split in the middle of what is below it."""
    if not node.below:
        return {node.number: float(next(line))}
    found: dict[int, float] = {}
    for child in node.below:
        found |= _places(child, line)
    found[node.number] = (found[node.below[0].number] + found[node.below[-1].number]) / 2
    return found


# ---- numbers --------------------------------------------------------------------------------


def _classes(model: Any, extra: dict[str, Any]) -> Iterator[Figure]:
    reach = TWO * float(model.class_count_std_)
    counted = zip(model.classes_, model.class_count_, strict=True)
    found = [Bar(str(c), float(n), float(n) - reach, float(n) + reach) for c, n in counted]
    yield Figure(
        bars("classes", "Rows of each class", found),
        "Rows of each class, with 95% intervals of the noise.",
    )


def _weights(model: Any, extra: dict[str, Any]) -> Iterator[Figure]:
    for i, row in enumerate(model.coef_[:MOST_BARS]):
        name = model.classes_[i if len(model.coef_) > 1 else 1]
        found = [
            Bar(c, x, x, x)
            for c, x in zip(model.columns_, (row * model.width_).tolist(), strict=True)
        ]
        title = f"What speaks for {name}"
        yield Figure(
            bars(f"weights-{i}", title, found),
            f"{title}: weights of the columns, each over its declared range.",
        )


def _coefficients(model: Any, extra: dict[str, Any]) -> Iterator[Figure]:
    effects, stds = model.coef_ * model.width_, TWO * model.coef_std_ * model.width_
    found = [
        Bar(c, x, x - s, x + s)
        for c, x, s in zip(model.columns_, effects.tolist(), stds.tolist(), strict=True)
    ]
    title = "Change of the label from a column's low to its high end"
    yield Figure(dots("coefficients", title, found), f"{title}, with 95% intervals of the noise.")


def _short(name: str, most: int = LONG) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"

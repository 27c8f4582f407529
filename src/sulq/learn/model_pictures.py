"""What a model learned, in words and as figures: components, centres, trees, coefficients.

Everything here was paid for already, but for the histogram behind k-means' centres. Notebooks,
files and the console show the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import sulq
from sulq.drawing.bars import MAX_BARS, Bar, bars, dots
from sulq.drawing.heat import Cell, Point, heat, scatter
from sulq.drawing.svg import PAGE, SHEET, Figure
from sulq.drawing.tree import Node, tree
from sulq.learn.cuts import OTHER, Cut
from sulq.learn.mixture_pictures import densities, groups
from sulq.learn.parameters import checked_share
from sulq.learn.shape_pictures import along_columns, drawn_shapes

REACH = 1.96  # standard deviations of a 95% interval
MAX_DOWN, MAX_ACROSS, MAX_LEAVES = 40, 12, 80  # of what a page shows
TOO_FEW = "too few rows"
Counted = dict[str, Any]  # "columns": two names, "cells": Cell, ... as lists


def figures(model: Any, behind: Counted | None = None, width: float = PAGE) -> list[Figure]:
    """The figures of a fitted model on a page; `behind` is what `counted` gave for k-means."""
    kind = type(model).__name__
    if kind == "KMeans":
        return centres(model, behind, width)
    if kind == "ID3" and tree_of(model).leaves > MAX_LEAVES:
        return []  # too large to look at; the words are there
    draw: dict[str, Callable[[Any, float], list[Figure]]] = {
        "PCA": components, "SVD": components, "LSI": components,
        "ID3": decisions, "NaiveBayes": classes,
        "Perceptron": weights, "LinearRegression": coefficients,
        "LogisticRegression": coefficients, "LinearSVM": coefficients,
        "AdditiveClassifier": drawn_shapes, "AdditiveRegressor": drawn_shapes,
        "Synthesizer": pair_strengths, "AssociationRules": drawn_rules, "RandomTrees": strengths,
        "GaussianMixture": densities, "LocallyWeightedRegression": along_columns,
        "SpectralClustering": groups, "ConjunctionLearner": literals,
    }  # fmt: skip
    return draw[kind](model, width)


class Drawn:
    """A learner of which `plot` shows what pages show: figures, and what it learned in words."""

    def plot(self, path: str | Path | None = None) -> sulq.Picture:
        """What was learned, drawn, saved as SVG or PNG if a path is given. Nothing is asked."""
        model: Any = self
        model._check_fitted()
        return saved(model._words(), figures(model, width=SHEET), path)


@dataclass(frozen=True, slots=True)
class Rows:
    """What a model learned as a table."""

    caption: str
    heads: list[str]
    rows: list[list[str]]


def in_rows(model: Any) -> Rows | None:
    """The numbers of a fitted model, row by row, where it is made of a few; None otherwise."""
    draw: dict[str, Callable[[Any], Rows]] = {
        "PCA": _component_rows, "SVD": _component_rows, "KMeans": _centre_rows,
        "LinearRegression": _coefficient_rows,
    }  # fmt: skip
    make = draw.get(type(model).__name__)
    return None if make is None else make(model)


def saved(text: str, drawn: list[Figure], path: str | Path | None) -> sulq.Picture:
    """The picture, saved if a path is given."""
    picture = sulq.Picture(text, drawn)
    return picture if path is None else picture.save(path)


def give_or_take(value: float, reach: float) -> str:
    """A number to two digits of its error: 40,260 +/- 230."""
    if not 0 < reach < math.inf:
        return f"{value:,.6g}"
    digits = 1 - math.floor(math.log10(reach))
    ends = (round(x, digits) for x in (value, reach))
    return " +/- ".join(f"{x:,.{max(digits, 0)}f}" for x in ends)


def plus_minus(value: float, reach: float) -> str:
    """The same as pages write it."""
    if not 0 < reach < math.inf:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return give_or_take(value, reach).replace("+/-", "±")


# --- components --------------------------------------------------------------------------


def components(model: Any, width: float = SHEET) -> list[Figure]:
    """Scree and loadings: the variance along each component, and what it is made of."""
    names, columns = model.get_feature_names_out().tolist(), list(model.columns_)
    title = "Share of variance along each component"
    scree = bars(
        "scree", title, list(_scree(model)), share=True, width=width,
        caption=f"{title}, and how far noise may have turned it.",
    )  # fmt: skip
    down, across = columns[:MAX_DOWN], names[:MAX_ACROSS]
    some = len(down) < len(columns) or len(across) < len(names)
    loadings = heat(
        "loadings", "What each component is made of", down, across,
        [[float(v) for v in row[:MAX_DOWN]] for row in model.components_[:MAX_ACROSS]],
        width=width, caption="Loadings: what each component is made of, from -1 to 1."
        + " The rest is in the JSON model." * some,
    )  # fmt: skip
    return [scree, loadings]


def _scree(model: Any) -> Iterator[Bar]:
    names, shares = model.get_feature_names_out(), model.explained_variance_ratio_
    for name, share, angle in zip(names, shares, model.component_angles_, strict=True):
        noise = math.degrees(angle) > 89
        said = "may be noise" if noise else f"±{math.degrees(angle):.1f}°"
        yield Bar(name, float(share), float(share), float(share), note=said, faint=noise)


def components_text(model: Any) -> str:
    """A line for each component: its share of variance, its angle, what it is made of."""
    lines = [
        f"{type(model).__name__}: share of variance, how far noise may have turned it, made of"
    ]
    for bar, row in zip(_scree(model), model.components_, strict=True):
        mine = sorted(zip(row.tolist(), model.columns_, strict=True), key=lambda x: -abs(x[0]))
        made = ", ".join(f"{loading:+.2f} {column}" for loading, column in mine[:4])
        more = f", {len(mine) - 4} more" if len(mine) > 4 else ""
        lines.append(f"  {bar.label:<5}{bar.value:6.1%}  {bar.note:<13} {made}{more}")
    return "\n".join(lines)


def _component_rows(model: Any) -> Rows:
    rows = []
    for bar, row in zip(_scree(model), model.components_, strict=True):
        mine = sorted(zip(row.tolist(), model.columns_, strict=True), key=lambda x: -abs(x[0]))
        made = ", ".join(f"{loading:+.2f} {column}" for loading, column in mine[:4])
        rows.append([bar.label, f"{bar.value:.1%}", bar.note, made + ", …" * (len(mine) > 4)])
    heads = ["Component", "Share of variance", "Turned by noise", "Made of"]
    return Rows("Each component, and how far noise may have turned it (95%)", heads, rows)


# --- centres -----------------------------------------------------------------------------


def two_of(held: tuple[str, ...], columns: Sequence[str] | None) -> tuple[str, str]:
    """The two columns to draw: those asked for, or the model's first."""
    chosen = held[:2] if columns is None else tuple(columns)
    if len(chosen) != 2 or not set(chosen) <= set(held) or chosen[0] == chosen[1]:
        raise sulq.Refused(f"columns={list(chosen)!r}, want two of the model's: {', '.join(held)}.")
    return chosen[0], chosen[1]


def counted(db: sulq.Queryable, columns: Sequence[str], query: sulq.Query) -> Counted:
    """Noisy counts by two columns, to draw centres over: asks, and pays."""
    answer = db.ask(query)
    cells = [
        [_span(a), _span(b), float(count)]
        for (a, b), count in zip(answer.cells, answer.values[:, 0], strict=True)
        if a is not None and b is not None  # rows outside every bin
    ]
    return {"columns": list(columns), "cells": cells}


def _span(cell: Any) -> list[float]:
    """Where a cell begins and ends in a drawing: whole numbers 0 to 24 reach up to 25."""
    if isinstance(cell, tuple):
        return [float(cell[0]), float(cell[1]) + all(isinstance(x, int) for x in cell)]
    return [float(cell) - 0.5, float(cell) + 0.5]


def centres(model: Any, behind: Counted | None, width: float = SHEET) -> list[Figure]:
    """Centres over noisy counts by two columns, and the share of rows near each."""
    shares = [
        Bar(f"group {i}", float(x), float(x), float(x))
        for i, x in enumerate(model.cluster_fractions_)
    ]
    title = "Share of rows near each centre"
    drawn = [bars("shares", title, shares, share=True, width=width, caption=f"{title}.")]
    return drawn if behind is None else [_over(model, behind, width), *drawn]


def _over(model: Any, behind: Counted, width: float) -> Figure:
    first, second = behind["columns"]
    i, j = (list(model.columns_).index(name) for name in (first, second))
    cells: list[Cell] = [(tuple(a), tuple(b), count) for a, b, count in behind["cells"]]
    points = [
        Point(str(n), float(c[i]), float(c[j]), REACH * float(s[i]), REACH * float(s[j]))
        for n, (c, s) in enumerate(zip(model.cluster_centers_, model.center_stds_, strict=True))
    ]
    title = f"Centres by {first} (across) and {second} (up)"
    caption = (
        f"{title}, over noisy counts, with 95% intervals of the noise (smaller than the dots where "
        "none shows)."
    )
    return scatter("centres", title, points, cells, (first, second), width=width, caption=caption)


def centres_text(model: Any, columns: Sequence[str]) -> str:
    """Each centre in these columns, with the 95% interval of its noise."""
    lines = ["Centres, with the share of rows near each"]
    at = [model.columns_.index(name) for name in columns]
    found = zip(model.cluster_centers_, model.center_stds_, model.cluster_fractions_, strict=True)
    bounds = getattr(model, "center_bounds_", None)  # a model of an older version has none
    for number, (c, s, share) in enumerate(found):
        where = ", ".join(
            f"{n} {give_or_take(c[i], REACH * s[i])}" for n, i in zip(columns, at, strict=True)
        )
        few = "; too few rows to move it" if number in model.small_clusters_ else ""
        near = "" if bounds is None or few else f", within {bounds[number]:.2g} of its rows' mean"
        lines.append(f"  {number}: {where}; {share:.1%}{few}{near}")
    return "\n".join(lines)


def _centre_rows(model: Any) -> Rows:
    names = list(model.columns_[:MAX_ACROSS])
    found = zip(model.cluster_centers_, model.center_stds_, model.cluster_fractions_, strict=True)
    rows = []
    for number, (c, s, share) in enumerate(found):
        where = [plus_minus(c[i], REACH * s[i]) for i in range(len(names))]
        few = "too few rows to move it" if number in model.small_clusters_ else ""
        rows.append([str(number), f"{share:.1%}", *where, few])
    heads = ["Group", "Share of rows", *names, "Note"]
    if len(model.small_clusters_) == 0:
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return Rows("Each centre, with the 95% interval of its noise", heads, rows)


# --- trees -------------------------------------------------------------------------------


def tree_of(model: Any, number: int = 0, branch: str = "") -> Node:
    """A fitted tree as it is shown."""
    column = int(model.node_columns_[number])
    if column < 0:
        return _leaf(model, number, branch)
    cut = Cut(*model.cuts_[column])
    children = model.node_children_[number, : cut.size].tolist()
    below = [
        tree_of(model, child, label) for child, label in zip(children, cut.labels, strict=True)
    ]
    # Mostly nobody is there, and whoever is gets what the split node says.
    shown = tuple(n for n in below if (n.branch, n.rows) != (OTHER, TOO_FEW))
    return Node(branch, cut.column, below=shown)


def _leaf(model: Any, number: int, branch: str) -> Node:
    """The class predicted, and the rows it was learned from, with their 95% error."""
    shares, counts = model.node_shares_[number], model.node_counts_[number]
    error = REACH * float(model.node_stds_[number]) * math.sqrt(len(counts))
    rows = f"{shares.max():.0%} of {counts.sum():,.0f} +/- {error:,.0f}"
    name = str(model.classes_[shares.argmax()])
    return Node(branch, name, TOO_FEW if counts.sum() <= error else rows, tuple(shares.tolist()))


def decisions(model: Any, width: float = SHEET) -> list[Figure]:
    """A decision tree."""
    root = tree_of(model)
    room = width if width < SHEET else None
    return [tree("tree", root, [str(c) for c in model.classes_], root.text, room)]


# --- numbers -----------------------------------------------------------------------------


def classes(model: Any, width: float = SHEET) -> list[Figure]:
    """How many rows each class has."""
    reach = REACH * float(model.class_count_std_)
    pairs = zip(model.classes_, model.class_count_, strict=True)
    found = [Bar(str(c), float(n), float(n) - reach, float(n) + reach) for c, n in pairs]
    caption = "Rows of each class, with 95% intervals of the noise."
    return [bars("classes", "Rows of each class", found, width=width, caption=caption)]


def weights(model: Any, width: float = SHEET) -> list[Figure]:
    """What each column says for each class."""
    out = []
    for i, row in enumerate(model.coef_[:MAX_BARS]):
        effects = zip(model.columns_, (row * model.width_).tolist(), strict=True)
        title = f"What speaks for {model.classes_[i if len(model.coef_) > 1 else 1]}"
        found = [Bar(column, x, x, x) for column, x in effects]
        caption = f"{title}: weights of the columns, each over its declared range."
        out.append(bars(f"weights-{i}", title, found, width=width, caption=caption))
    return out


def coefficients(model: Any, width: float = SHEET, level: float = 0.95) -> list[Figure]:
    """What each column does to the label over its declared range, with what noise may do to it."""
    effects, reach = model.coef_ * model.width_, _z(level) * model.coef_std_ * model.width_
    found = [
        Bar(column, x, x - r, x + r)
        for column, x, r in zip(model.columns_, effects.tolist(), reach.tolist(), strict=True)
    ]
    title = "Change of what is predicted from a column's low to its high end"
    caption = f"{title}, with {level:.0%} intervals of the noise."
    return [dots("coefficients", title, found, width=width, caption=caption)]


def coefficients_text(model: Any, level: float = 0.95) -> str:
    """Each coefficient in its own units, with the interval of noise alone."""
    z = _z(level)
    wide = max(len("intercept"), *(len(column) for column in model.columns_))
    lines = [f"Coefficients in own units, with the {level:.0%} interval of noise alone"]
    for name, value, std in [
        *zip(model.columns_, model.coef_.tolist(), model.coef_std_.tolist(), strict=True),
        ("intercept", model.intercept_, model.intercept_std_),
    ]:
        lines.append(f"  {name:<{wide}}  {give_or_take(value, z * std)}")
    if model.alpha_:
        lines.append(f"  shrunk by a ridge of {model.alpha_:.3g}")
    return "\n".join(lines)


def _coefficient_rows(model: Any) -> Rows:
    z, rows = _z(0.95), []
    found = zip(model.columns_, model.coef_, model.coef_std_, model.width_, strict=True)
    for name, value, std, width in found:
        whole = plus_minus(float(value * width), float(z * std * width))
        rows.append([name, plus_minus(float(value), float(z * std)), whole])
    heads = ["Column", "Change for one more", "Change over its whole range"]
    start = plus_minus(float(model.intercept_), z * model.intercept_std_)
    start = f"; starts from {start} where every column is 0"
    ridge = f"; shrunk by a ridge of {model.alpha_:.3g}" if model.alpha_ else ""
    words = f"Coefficients, with the 95% interval of the noise alone{start}{ridge}"
    return Rows(words, heads, rows)


# --- what columns tell --------------------------------------------------------------------


def strengths(model: Any, width: float = SHEET) -> list[Figure]:
    """Each column's part of what random splits tell of the classes."""
    found = [Bar(*each) for each in _strengths(model)][:MAX_DOWN]
    title = "How much splits by each column tell of the classes"
    caption = f"{title}: its part of the impurity that all take away, with 95% intervals."
    return [dots("strengths", title, found, width=width, caption=caption)]


def strengths_text(model: Any) -> str:
    """The same in words, the strongest column first."""
    lines = ["How much splits by each column tell of the classes"]
    wide = max(len(column) for column in model.columns_)
    for column, value, low, _ in _strengths(model):
        lines.append(f"  {column:<{wide}}  {value:6.1%} +/- {value - low:.1%}")
    return "\n".join(lines)


def _strengths(model: Any) -> list[tuple[str, float, float, float]]:
    values, reach = model.column_strengths_.tolist(), (REACH * model.strength_stds_).tolist()
    found = [(c, v, v - r, v + r) for c, v, r in zip(model.columns_, values, reach, strict=True)]
    return sorted(found, key=lambda each: -each[1])


# --- pairs of columns ---------------------------------------------------------------------


def pair_strengths(model: Any, width: float = SHEET) -> list[Figure]:
    """How far each pair of columns is from independent."""
    names, strength = list(model.columns_)[:MAX_ACROSS], model.dependence_
    values = [[float(strength[i, j]) for j in range(len(names))] for i in range(len(names))]
    title = "How far each pair of columns is from independent"
    some = " The rest is in the JSON model." * (len(names) < len(model.columns_))
    caption = f"{title}: total variation, 0 to 1, less what noise alone gives.{some}"
    return [heat("pairs", title, names, names, values, width=width, caption=caption)]


def drawn_rules(model: Any, width: float = SHEET) -> list[Figure]:
    """The confidence of each rule."""
    found = [
        Bar(str(rule), rule.confidence.value, rule.confidence.low, rule.confidence.high)
        for rule in model.rules()[:MAX_DOWN]
    ] or [Bar("no rule", 0.0, 0.0, 0.0)]
    title = "Confidence of each rule"
    caption = f"{title}, with 95% intervals of the noise."
    return [dots("rules", title, found, width=width, caption=caption)]


def literals(model: Any, width: float = SHEET) -> list[Figure]:
    """The share of rows in which each literal is false and the label true; dropped ones faint."""
    tau, shares = float(model.tau_), zip(map(float, model.shares_), model.tested_, strict=True)
    found = [
        Bar(literal, share, share - tau, share + tau, faint=i >= len(model.literals_))
        for i, (share, literal) in enumerate(sorted(shares))  # those with small shares are kept
    ][:MAX_DOWN]
    title = "How often each literal is false where the label is true"
    caption = f"{title}: a share of all rows. Kept literals are dark; the others were dropped."
    return [dots("literals", title, found, width=width, caption=caption)]


def _z(level: float) -> float:
    """Standard deviations of an interval of this level."""
    return NormalDist().inv_cdf((1 + checked_share("level", level)) / 2)

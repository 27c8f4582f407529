"""A mixture of normal distributions, drawn and in words. Nothing is asked for it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sulq.drawing.bars import Bar, bars
from sulq.drawing.heat import Cell, Point, heat, scatter
from sulq.drawing.svg import SHEET, Figure
from sulq.learn.arrays import Array

REACH = 1.96  # standard deviations of a 95% interval
ACROSS = 24  # cells of a drawn density, each way


def densities(model: Any, width: float = SHEET) -> list[Figure]:
    """The density of the first two columns with the means on it, and the weights."""
    weights, stds = model.weights_.tolist(), (REACH * model.weight_stds_).tolist()
    shares = [
        Bar(f"component {i}", x, max(x - s, 0.0), min(x + s, 1.0))
        for i, (x, s) in enumerate(zip(weights, stds, strict=True))
    ]
    title = "Share of rows in each component"
    drawn = [
        bars(
            "weights",
            title,
            shares,
            share=True,
            width=width,
            caption=f"{title}, with 95% intervals.",
        )
    ]
    return [_over(model, width), *drawn] if len(model.columns_) > 1 else drawn


def _over(model: Any, width: float) -> Figure:
    names = (model.columns_[0], model.columns_[1])
    ends = [
        np.linspace(low, low + wide, ACROSS + 1)
        for low, wide in zip(model.low_[:2], model.width_[:2], strict=True)
    ]
    middles = [(e[1:] + e[:-1]) / 2 for e in ends]
    grid = np.array([[a, b] for a in middles[0] for b in middles[1]])
    height = density(model, grid).reshape(ACROSS, ACROSS)
    cells: list[Cell] = [
        ((float(ends[0][i]), float(ends[0][i + 1])), (float(ends[1][j]), float(ends[1][j + 1])),
         float(height[i, j]))
        for i in range(ACROSS) for j in range(ACROSS)
    ]  # fmt: skip
    points = [
        Point(str(n), float(m[0]), float(m[1]), REACH * float(s[0]), REACH * float(s[1]))
        for n, (m, s) in enumerate(zip(model.means_, model.mean_stds_, strict=True))
    ]
    title = f"Components by {names[0]} (across) and {names[1]} (up)"
    caption = f"{title}, means with 95% intervals of the noise, over the density of the mixture."
    return scatter("components", title, points, cells, names, width=width, caption=caption)


def density(model: Any, places: Array) -> Array:
    """The density of the first two columns, up to a factor: the most is 1,000."""
    found = np.zeros(len(places))
    for weight, mean, covariance in zip(
        model.weights_, model.means_, model.covariances_, strict=True
    ):
        C, off = covariance[:2, :2], places - mean[:2]
        far = np.einsum("ni,ij,nj->n", off, np.linalg.inv(C), off)
        found += weight * np.exp(-far / 2) / math.sqrt(max(float(np.linalg.det(C)), 1e-300))
    return np.asarray(1000 * found / max(float(found.max()), 1e-300))


def mixture_text(model: Any) -> str:
    """Each component's weight, means and spreads."""
    lines = ["Components: share of rows, mean and standard deviation of each column"]
    for i, (weight, mean, off, covariance) in enumerate(
        zip(model.weights_, model.means_, model.mean_stds_, model.covariances_, strict=True)
    ):
        few = ", too few rows for the noise" if i in model.small_components_ else ""
        lines.append(f"  {i}: {weight:.1%}{few}")
        for j, column in enumerate(model.columns_):
            said = f"{mean[j]:,.4g} +/- {REACH * off[j]:,.2g}"
            lines.append(f"     {column}: {said}, spread {math.sqrt(covariance[j, j]):,.3g}")
    return "\n".join(lines)


# ---- groups along few directions ------------------------------------------------------------

MAX_GROUPS, MAX_COLUMNS = 12, 40  # of what a page shows


def groups(model: Any, width: float = SHEET) -> list[Figure]:
    """The share of rows in each group, and where each is in every column."""
    few = set(map(int, model.small_clusters_))
    shares = [
        Bar(f"group {i}", float(x), float(x), float(x), note="too few rows" * (i in few),
            faint=i in few)
        for i, x in enumerate(model.cluster_fractions_)
    ]  # fmt: skip
    title = "Share of rows in each group"
    drawn = bars("shares", title, shares, share=True, width=width, caption=f"{title}.")
    placed = (model.cluster_centers_ - model.low_) / model.width_
    names = [f"group {i}" for i in range(len(placed))][:MAX_GROUPS]
    columns = list(model.columns_)[:MAX_COLUMNS]
    some = len(names) < len(placed) or len(columns) < len(model.columns_)
    title = "Where each group is"
    said = f"{title}: 0 is a column's low end, 1 its high end." + (
        " The rest is in the JSON model." * some
    )
    values = [[float(x) for x in row[:MAX_COLUMNS]] for row in placed[:MAX_GROUPS]]
    return [drawn, heat("groups", title, columns, names, values, width=width, caption=said)]


def groups_text(model: Any) -> str:
    """Each group's share and centre."""
    k = model.n_components_
    lines = [f"Groups along {k} direction{'s' * (k != 1)}: share of rows, and centre"]
    for i, (share, centre) in enumerate(
        zip(model.cluster_fractions_, model.cluster_centers_, strict=True)
    ):
        few = ", too few rows to move it" if i in model.small_clusters_ else ""
        where = ", ".join(
            f"{c} {x:,.4g}" for c, x in zip(model.columns_[:8], centre[:8], strict=False)
        )
        lines.append(f"  {i}: {share:.1%}{few}; {where}")
    return "\n".join(lines)

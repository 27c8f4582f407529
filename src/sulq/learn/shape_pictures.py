"""Shape functions in words and as figures: steps with a band, points with intervals, or shades."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sulq.drawing.bars import MAX_BARS, Bar, dots
from sulq.drawing.heat import heat
from sulq.drawing.lines import Axis, Line, lines
from sulq.drawing.svg import SHEET, Figure
from sulq.learn.arrays import Array

REACH = 1.96  # standard deviations of a 95% interval
MAX_SHAPES = 12  # drawn, those that say most first
MAX_TABLE = 12  # cells of a pair each way


def importance(model: Any) -> Array:
    """How much each term moves a prediction: its shape's standard deviation over the rows."""
    out = []
    for shape, rows in zip(model.shapes_, model.shape_rows_, strict=True):
        share = rows / max(float(rows.sum()), 1e-300)
        out.append(math.sqrt(max(float(share @ (shape - share @ shape) ** 2), 0.0)))
    return np.array(out)


def drawn_shapes(model: Any, width: float = SHEET) -> list[Figure]:
    """The shapes, those that say most first, each with the 95% band of its noise."""
    order = np.argsort(-importance(model), kind="stable")[:MAX_SHAPES]
    return [_figure(model, int(i), width) for i in order]


def _figure(model: Any, i: int, width: float) -> Figure:
    term, shape = model.terms[i], model.shapes_[i]
    reach = REACH * model.shape_stds_[i]
    title = f"What {term.name} adds to {_unit(model)}"
    by_hand = " Changed by hand." if term.name in model.edited_ else ""
    caption = f"{title}, with the 95% band of the noise.{by_hand}"
    if len(term.cuts) == 2:
        first, second = (cut.labels[:n][:MAX_TABLE] for cut, n in
                         zip(term.cuts, term.sizes, strict=True))  # fmt: skip
        table = shape.reshape(term.sizes)[:MAX_TABLE, :MAX_TABLE]
        return heat(f"shape-{i}", title, first, second, table.T.tolist(), width=width,
                    caption=f"{title}.{by_hand}")  # fmt: skip
    if not term.ordered:
        found = [
            Bar(label, x, x - r, x + r)
            for label, x, r in zip(term.labels, shape.tolist(), reach.tolist(), strict=True)
        ]
        return dots(f"shape-{i}", title, found[:MAX_BARS], width=width, caption=caption)
    return _steps(f"shape-{i}", title, term, shape, reach, width, caption)


def _steps(
    key: str, title: str, term: Any, shape: Array, reach: Array, width: float, caption: str
) -> Figure:
    """A number's shape: flat in each bin."""
    edges = term.cuts[0].edges
    points, band = [], []
    for j, (value, r) in enumerate(zip(shape.tolist(), reach.tolist(), strict=True)):
        for end in (edges[j], edges[j + 1]):
            points.append((float(end), value))
            band.append((value - r, value + r))
    ends = [y for pair in band for y in pair] + [0.0]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    words = "; ".join(
        f"{label}: {x:+.3g} ({x - r:+.3g} to {x + r:+.3g})"
        for label, x, r in zip(term.labels, shape.tolist(), reach.tolist(), strict=True)
    )
    return lines(
        key, title, f"With 95% intervals of the noise. {words}.", [Line(points, band=band)],
        Axis(float(edges[0]), float(edges[-1]), name=term.name),
        Axis(min(ends) - room, max(ends) + room), level=0.0, width=width, caption=caption,
    )  # fmt: skip


def shapes_text(model: Any) -> str:
    """A line for each term: how much it says, and where it says most."""
    says = importance(model)
    lines = [f"Shapes, what each adds to {_unit(model)}: how much they vary, lowest and highest"]
    wide = max(len(term.name) for term in model.terms)
    for i in np.argsort(-says, kind="stable"):
        term, shape, std = model.terms[i], model.shapes_[i], model.shape_stds_[i]
        low, high = int(shape.argmin()), int(shape.argmax())
        ends = ", ".join(
            f"{term.labels[j]} {shape[j]:+.3g} +/- {REACH * std[j]:.2g}" for j in (low, high)
        )
        by_hand = " (changed by hand)" if term.name in model.edited_ else ""
        lines.append(f"  {term.name:<{wide}}  {says[i]:.3g}  {ends}{by_hand}")
    return "\n".join([*lines, f"  intercept {model.intercept_:+.4g}"])


def _unit(model: Any) -> str:
    if model.estimator_type == "classifier":
        return f"the log odds of {model.classes_[1]}"
    return "the label"


def isotonic(values: Array, weights: Array) -> Array:
    """The nearest values that never fall."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(values, weights=np.maximum(weights, 1e-12)).x)


# ---- a local regression along each of its columns -------------------------------------------

POINTS, SAID = 61, 7  # of a curve, as it is drawn and as it is told


def along_columns(model: Any, width: float = SHEET) -> list[Figure]:
    """The prediction along each column, the others at their middle, with the band of its noise."""
    return [_curve_figure(model, i, *curve, width) for i, curve in enumerate(_curves(model))]


def along_text(model: Any) -> str:
    """Some points of each curve."""
    out = []
    for column, (x, y, reach) in zip(model.columns_, _curves(model), strict=True):
        others = ", other columns in the middle" * (len(model.columns_) > 1)
        out.append(f"Along {column}{others}, with the 95% interval of noise alone")
        for i in np.linspace(0, POINTS - 1, SAID).astype(int):
            out.append(f"  {x[i]:>12,.4g}  {y[i]:,.4g} +/- {reach[i]:,.2g}")
    return "\n".join(out)


def _curves(model: Any) -> Iterator[tuple[Array, Array, Array]]:
    for i in range(len(model.columns_)):
        rows = np.tile(model.low_ + model.width_ / 2, (POINTS, 1))
        rows[:, i] = np.linspace(model.low_[i], model.low_[i] + model.width_[i], POINTS)
        values, stds = model.predict(rows, return_std=True)
        yield rows[:, i], values, REACH * stds


def _curve_figure(model: Any, i: int, x: Array, y: Array, reach: Array, width: float) -> Figure:
    name = model.columns_[i]
    least, most = model.label_low_, model.label_low_ + model.label_width_
    ends_of = (np.clip(y + side * reach, least, most).tolist() for side in (-1, 1))
    band = list(zip(*ends_of, strict=True))
    ends = [end for pair in band for end in pair]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    title = f"Along {name}" + ", other columns in the middle" * (len(model.columns_) > 1)
    some = np.linspace(0, POINTS - 1, SAID).astype(int)
    words = "; ".join(f"{x[j]:,.4g}: {y[j]:,.4g} ± {reach[j]:,.2g}" for j in some)
    return lines(
        f"along-{i}", title, f"With 95% intervals of the noise. {words}.",
        [Line(list(zip(x.tolist(), y.tolist(), strict=True)), band=band)],
        Axis(float(x[0]), float(x[-1]), name=name), Axis(min(ends) - room, max(ends) + room),
        width=width, height=300.0, caption=f"{title}, with the 95% band of the noise.",
    )  # fmt: skip

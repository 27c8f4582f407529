"""A local regression along each of its columns, drawn and in words. Nothing is asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sulq.drawing.lines import Axis, Line, lines
from sulq.drawing.svg import SHEET, Figure
from sulq.learn.arrays import Array

REACH = 1.96  # standard deviations of a 95% interval
POINTS, SAID = 61, 7  # of a curve, as it is drawn and as it is told


def along_columns(model: Any, width: float = SHEET) -> list[Figure]:
    """The prediction along each column, the others at their middle, with the band of its noise."""
    return [_figure(model, i, *curve, width) for i, curve in enumerate(_curves(model))]


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


def _figure(model: Any, i: int, x: Array, y: Array, reach: Array, width: float) -> Figure:
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

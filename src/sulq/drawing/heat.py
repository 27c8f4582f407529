"""Tables of signed numbers coloured by strength, and points over shaded cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sulq.drawing.scale import Scale
from sulq.drawing.svg import LETTER, PAGE, Figure, Svg, box, label, line, shortened, tag

CELL = 26.0  # units of a row
LEAST = 56.0  # units of a column
LONG = 22  # letters of a name that there is room for
FEW = 0.03  # of the fullest cell: near empty
SPOKEN = 12  # rows named in the text alternative
Cell = tuple[tuple[float, float], tuple[float, float], float]  # across, up, how many


def heat(
    key: str, title: str, down: Sequence[str], across: Sequence[str],
    values: Sequence[Sequence[float]], *, width: float = PAGE, caption: str = "",
) -> Figure:  # fmt: skip
    """A table of signed numbers; values[across][down]."""
    gutter = min(170.0, 8 + LETTER * max(len(shortened(name, LONG)) for name in down))
    wide = max((width - gutter - 6) / len(across), LEAST)
    most = max(1e-9, *(abs(v) for row in values for v in row))
    marks: list[Svg] = []
    for i, name in enumerate(across):
        marks.append(label(name, gutter + wide * (i + 0.5), 14, "middle", "soft-text"))
        for j, value in enumerate(values[i]):
            x, y = gutter + wide * i, 22 + CELL * j
            kind, strength = "bar" if value >= 0 else "bar-2", 0.6 * abs(value) / most
            marks.append(box(kind, x, y, wide - 2, CELL - 2, fill_opacity=strength))
            said = f"{round(value, 2) + 0.0:+.2f}"
            marks.append(label(said, x + wide / 2 - 1, y + 17, "middle"))
    for j, name in enumerate(down):
        marks.append(label(shortened(name, LONG), gutter - 6, 39 + CELL * j, "end"))
    words = "; ".join(
        f"{a}: " + ", ".join(f"{d} {v:+.2f}" for d, v in zip(down[:SPOKEN], row, strict=False))
        for a, row in zip(across, values, strict=True)
    )
    whole = max(width, gutter + wide * len(across) + 6)
    height = 26.0 + CELL * len(down)
    return Figure(key, title, words, whole, height, tuple(marks), caption, len(across) > 4)


@dataclass(frozen=True, slots=True)
class Point:
    """A place with the half-widths of its intervals both ways."""

    name: str
    x: float
    y: float
    reach_x: float
    reach_y: float


def scatter(
    key: str, title: str, points: Sequence[Point], cells: Sequence[Cell], names: tuple[str, str],
    *, width: float = PAGE, caption: str = "",
) -> Figure:  # fmt: skip
    """Points with crosses for their intervals, over cells shaded by how many are in them."""
    bottom = 0.6 * width + 30
    shown = _busy(cells, points)
    across = Scale.of([x for cell in shown for x in cell[0]], 46.0, width - 14)
    up = Scale.of([y for cell in shown for y in cell[1]], bottom, 30.0)
    marks = _shades(shown, across, up)
    marks.append(line(f"M46 30V{bottom:.6g}H{width - 14:.6g}", "outline"))
    marks += [
        label(said, across.at(tick), bottom + 16, "middle", "soft-text")
        for tick, said in across.ticks()
    ]
    marks += [label(said, 42, up.at(tick) + 4, "end", "soft-text") for tick, said in up.ticks()]
    for point in points:
        marks += _cross(point, across, up)
    marks.append(label(shortened(names[1], LONG), 4, 13, kind="soft-text"))
    middle = (46 + width - 14) / 2
    marks.append(label(shortened(names[0], LONG), middle, bottom + 34, "middle", "soft-text"))
    words = "; ".join(
        f"group {p.name}: {names[0]} {p.x:,.4g} ± {p.reach_x:,.2g}, "
        f"{names[1]} {p.y:,.4g} ± {p.reach_y:,.2g}"
        for p in points
    )
    return Figure(key, title, words + ".", width, bottom + 40, tuple(marks), caption)


def _busy(cells: Sequence[Cell], points: Sequence[Point]) -> list[Cell]:
    """The cells of the smallest rectangle with every point and all that are not near empty."""
    least = FEW * max((count for *_, count in cells), default=0.0)
    kept = [cell for cell in cells if cell[2] > least]
    kept += [cell for cell in cells for p in points if _in(p.x, cell[0]) and _in(p.y, cell[1])]
    if not kept:
        return list(cells)
    left, right = min(x[0] for x, *_ in kept), max(x[1] for x, *_ in kept)
    low, high = min(y[0] for _, y, _ in kept), max(y[1] for _, y, _ in kept)
    return [
        (x, y, count) for x, y, count in cells
        if left <= x[0] and x[1] <= right and low <= y[0] and y[1] <= high
    ]  # fmt: skip


def _in(value: float, stretch: tuple[float, float]) -> bool:
    return stretch[0] <= value <= stretch[1]


def _shades(cells: Sequence[Cell], across: Scale, up: Scale) -> list[Svg]:
    most = max(1.0, *(count for *_, count in cells))
    out = []
    for (x1, x2), (y1, y2), count in cells:
        left, right, top, bottom = across.at(x1), across.at(x2), up.at(y2), up.at(y1)
        wide, tall = max(right - left - 0.5, 0.5), max(bottom - top - 0.5, 0.5)
        strength = 0.75 * max(count, 0.0) / most
        out.append(box("bar", left, top, wide, tall, fill_opacity=strength))
    return out


def _cross(point: Point, across: Scale, up: Scale) -> list[Svg]:
    x, y = across.at(point.x), up.at(point.y)
    ends = [across.within(point.x + k * point.reach_x) for k in (-1, 1)]
    sides = [up.within(point.y + k * point.reach_y) for k in (-1, 1)]
    cross = f"M{ends[0]:.6g} {y:.6g}H{ends[1]:.6g}M{x:.6g} {sides[0]:.6g}V{sides[1]:.6g}"
    return [
        line(cross, "whisker"),
        tag("circle", class_="dot", cx=x, cy=y, r=9),
        label(point.name, x, y + 4.5, "middle", "on-dot"),
    ]

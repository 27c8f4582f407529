"""The cells by which a profile looks at a column: public, whatever the rows hold.

A number without declared ends is looked at on both sides of 0 by its size: from a thousandth to a
hundred thousand in ten cells to a decade, beyond in three. A date goes by two years; a declared
range by 64 cells.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.values.schema import LARGEST, Column

Array = NDArray[np.float64]

BINS = 64  # of a declared range
DECADES = range(-6, 16)
USUAL = range(-3, 5)  # decades in which most numbers lie
ROUND = tuple(float(f"{m}e{j}") for j in DECADES for m in (1, 2, 5))
FINE = tuple(
    float(f"{m}e{j}")
    for j in DECADES
    for m in ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if j in USUAL else (1, 2, 5))
)
HUGE = 1e300
ENDS = frozenset((*ROUND, 0, HUGE, LARGEST))
EACH = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000)
YEARS = tuple(datetime.date(year, 1, 1) for year in range(1850, 2101, 2))
PART = 20  # of the distance between the quartiles: ends that are nearer to 0 tell nothing
WIDE = 5  # of the same: no bin is wider because it was merged


@dataclass(frozen=True)
class Scale:
    """The cells of one column, and what is read off a curve over them."""

    column: Column
    edges: tuple[Any, ...]

    @property
    def by_size(self) -> bool:
        """Whether the cells are those of numbers without declared ends."""
        return self.column.type in ("number", "integer") and not self.column.bounded

    def at(self, below: Array, share: float) -> Any:
        """The value that this share of the rows lies below, on a line within its cell."""
        target = share * float(below[-1])
        cell = int(np.clip(np.searchsorted(below, target) - 1, 0, len(self.edges) - 2))
        low, high = self.edges[cell], self.edges[cell + 1]
        rise = float(below[cell + 1] - below[cell])
        part = 0.5 if rise <= 0 else min(max((target - float(below[cell])) / rise, 0.0), 1.0)
        return self._within(low, high, part)

    def _within(self, low: Any, high: Any, part: float) -> Any:
        if self.column.type == "date":
            return low + datetime.timedelta(int((high - low).days * part))
        if self.column.type == "timestamp":
            return low + datetime.timedelta(seconds=int((high - low).total_seconds() * part))
        if self.column.type == "integer":
            return min(low + int((high - low) * part), max(high - 1, low))
        if self.by_size and 0 in (low, high):
            return 0.0  # nothing is told apart there
        if self.by_size and max(-low, high) >= HUGE:
            return min(low, high, key=abs)
        return float(f"{low + (high - low) * part:.4g}")

    def range(self, below: Array, clear: float) -> tuple[Any, Any]:
        """Round ends beyond which no more rows are missed than noise could hide."""
        ends = [i for i, edge in enumerate(self.edges) if self._is_round(edge)]
        below, cells = below[ends], len(ends) - 1
        first = max(int(np.argmax(below > clear)) - 2, 0)  # the cell before that, and one more
        last = min(int(np.argmax(below >= below[-1] - clear)) + 1, cells)
        return self.edges[ends[first]], self.edges[ends[last]]

    def _is_round(self, edge: Any) -> bool:
        return not self.by_size or abs(edge) in ENDS

    def told_apart(self, low: Any, high: Any) -> list[Any]:
        """The edges without those near 0 that lie closer together than quartiles at such ends."""
        if not self.by_size:
            return list(self.edges)
        least = (high - low) / PART
        return [e for e in self.edges if e == 0 or abs(e) >= least]

    def bins(self, below: Array, apart: Any, ends: tuple[Any, Any]) -> list[int]:
        """Which edges bound the bins of a histogram between ends that were found.

        No bin is wider for being merged than a fifth of the distance between the noisy quartiles,
        `apart` (where that is nothing, of the tenth and the ninetieth percentile): of numbers
        without declared ends those near 0 are one up to there, and 1, 2, 5, 10, 20, ... bound all
        others; of other columns so many cells are one bin as fit into it.
        """
        wide = (apart or self.at(below, 0.9) - self.at(below, 0.1)) / WIDE
        if self.by_size:
            kept = [
                i for i, e in enumerate(self.edges)
                if e == 0 or (self._is_round(e) and abs(e) >= wide)
            ]  # fmt: skip
        else:
            kept = [0]
            for i, edge in enumerate(self.edges[2:], 1):
                if edge - self.edges[kept[-1]] > wide:
                    kept.append(i)
        inside = {i for i in kept if ends[0] < self.edges[i] < ends[1]}
        return sorted(inside | {self.edges.index(e) for e in ends})


def edges_of(column: Column, *, fine: bool) -> list[Any]:
    """Cells that hold all there can be: of a declared range, or of all numbers or years."""
    if column.type == "date":
        return _days(column)
    if column.type == "timestamp":
        return _moments(column)
    if column.bounded:
        width = column.high - column.low
        count = min(BINS, math.ceil(width)) if column.type == "integer" else BINS
        inner = [column.low + width * i / count for i in range(count)]
        whole = [math.ceil(x) for x in inner] if column.type == "integer" else inner
        return [*dict.fromkeys([*whole, column.high])]
    sizes: list[float] = [*(FINE if fine else ROUND), HUGE]
    if column.type == "integer":
        sizes = [*(int(x) for x in sizes[:-1] if x >= 1 and x == int(x)), LARGEST]
    return [*(-x for x in reversed(sizes)), 0, *sizes]


def _days(column: Column) -> list[Any]:
    """Edges of cells of a date: of its range, or of two years each."""
    if not column.bounded:
        return list(YEARS)
    days = (column.high - column.low).days
    count = min(BINS, days)
    steps = [column.low + datetime.timedelta(days * i // count) for i in range(count)]
    return [*steps, column.high]


def _moments(column: Column) -> list[Any]:
    """Edges of cells of a timestamp: of its range, or the years' first seconds."""
    if not column.bounded:
        return [datetime.datetime.combine(day, datetime.time()) for day in YEARS]
    wide = column.high - column.low
    count = min(BINS, int(wide.total_seconds()))
    steps = (column.low + wide * i // count for i in range(count))
    return [*dict.fromkeys(step.replace(microsecond=0) for step in steps), column.high]

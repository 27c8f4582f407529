"""A batch of rows of an array: its coordinates in one go, in the order in which the rows lie.

The integers are those of the same rows held by columns. Work goes through a few rows at a time,
while they are in cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.columns import Vector, read
from sulq.expressions.node import Node
from sulq.kernel.batch import ONE, Batch, Bools, Floats, to_whole_steps
from sulq.values.schema import Schema

CACHED = 2**15  # numbers worked on at a time


class ArrayBatch(Batch):
    """Some rows of an array, and of columns beside it."""

    def __init__(
        self, array: NDArray[Any], names: Sequence[str], beside: Mapping[str, Any], schema: Schema
    ) -> None:
        columns = {name: array[:, i] for i, name in enumerate(names)}
        super().__init__({**columns, **beside}, len(array), schema)
        self._array = array
        self._place = {name: i for i, name in enumerate(names)}
        self._by_rows = abs(array.strides[1]) <= abs(array.strides[0])

    def column(self, name: str) -> Vector:
        """A declared column: clamped, undeclared and NaN missing."""
        if name in self._place and name not in self._read:
            plain = np.asarray(self.raw[name], dtype=np.float64)
            self._read[name] = read(Vector(plain, np.ones(self.rows, bool)), self.schema[name])
        return super().column(name)

    def _room(self, points: int) -> Floats:
        """Coordinates x rows, in the order in which the array has them."""
        return np.empty((self.rows, points)).T if self._by_rows else super()._room(points)

    def _fill(self, points: tuple[Node, ...], out: Floats, centre: int) -> Bools | None:
        """Write columns of the array that stand side by side together, the others one by one."""
        first, last = self._side_by_side(points)
        if last - first < 2 or not self._by_rows:
            return super()._fill(points, out, centre)
        start = self._place[points[first].value]
        found = self._together(points[first:last], start, out.T[:, first:last], centre)
        for part in (slice(0, first), slice(last, None)):
            missing = super()._fill(points[part], out[part], centre) if points[part] else None
            if missing is not None:
                found = missing if found is None else found | missing
        return found

    def _side_by_side(self, points: tuple[Node, ...]) -> tuple[int, int]:
        """Which points are neighbouring numbers of the array: the first such run."""
        places = [self._place.get(p.value, -2) if self._is_number(p) else -2 for p in points]
        first = next((i for i, place in enumerate(places) if place >= 0), 0)
        last = first
        while last < len(places) and places[last] == places[first] + last - first >= 0:
            last += 1
        return first, last

    def _is_number(self, point: Node) -> bool:
        return point.op == "column" and self.schema[point.value].type == "number"

    def _together(
        self, points: tuple[Node, ...], start: int, out: Floats, centre: int
    ) -> Bools | None:
        """round((x - low) / (high - low) * 2**DENSE) of several columns, rows x columns."""
        low = np.array([float(p.low) for p in points])
        factor = np.array([np.float64(ONE) / (float(p.high) - float(p.low)) for p in points])
        nullable = np.array([self.schema[p.value].nullable for p in points])
        missing: Bools | None = None
        step = max(CACHED // len(points), 1)
        whole = out.flags.c_contiguous  # else work goes on where numbers stand side by side
        scratch = np.empty((step, len(points)))
        for i in range(0, self.rows, step):
            place = out[i : i + step]
            part = place if whole else scratch[: len(place)]
            own = self._array[i : i + step, start : start + len(points)]
            with np.errstate(all="ignore"):
                if low.any():
                    own = np.subtract(own, _one(low), out=part, dtype=np.float64)
                np.multiply(own, _one(factor), out=part, dtype=np.float64)
                to_whole_steps(part, centre)
            if np.isnan(part.sum()):  # which is NaN where any is, since none is infinite
                unknown = np.isnan(part)
                part[unknown] = -centre
                missing = np.zeros(self.rows, dtype=bool) if missing is None else missing
                missing[i : i + step] = (unknown & nullable).any(axis=1)
            if not whole:
                place[...] = part
        return missing if missing is not None and missing.any() else None


def _one(values: Floats) -> Any:
    """The one number that all are, or all: numpy is faster with one."""
    return values[0] if (values == values[0]).all() else values

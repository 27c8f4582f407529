"""A batch of rows: its columns, its expressions, and its coordinates on [0, 1] in whole steps.

Every coordinate is a whole number of steps 2**-DENSE, held in float64. Columns stand one below
the other, as sources hold them, each worked on while it is in cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.columns import Vector, in_numpy, read
from sulq.expressions.node import Node
from sulq.expressions.operations import Evaluator
from sulq.questions.partitions import DENSE
from sulq.values.schema import Column, Schema

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ONE = 2**DENSE
ROUNDER = 1.5 * 2.0**52  # a float64 between 2^52 and 2^53 has no fraction: adding this rounds


class Batch(Evaluator):
    """Some rows, with the scaled coordinates that centres, sides and products speak of."""

    def __init__(
        self, columns: Mapping[str, Any], rows: int, schema: Schema,
        known: Mapping[str, Vector] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(columns, rows, schema, known)
        self._scaled: dict[tuple[str, ...], tuple[Floats, Bools | None]] = {}

    def again(self) -> Batch:
        """The same rows and columns, nothing computed from them: what is kept must not grow."""
        made = Batch(self.raw, self.rows, self.schema)
        made._read = self._read
        return made

    def scaled(self, points: tuple[Node, ...], centre: int = 0) -> Floats:
        """Coordinates x rows on [0, 1], in whole steps less the centre; not to be written to."""
        return self._coordinates(points, centre)[0]

    def complete(self, points: tuple[Node, ...]) -> Bools:
        """Which rows have every coordinate. What has not is left out of all that needs them."""
        texts = tuple(p.text for p in points)
        known = [found for key, found in self._scaled.items() if key[1:] == texts]
        complete = (known[0] if known else self._coordinates(points, 0))[1]
        return np.ones(self.rows, dtype=bool) if complete is None else complete

    def _coordinates(self, points: tuple[Node, ...], centre: int) -> tuple[Floats, Bools | None]:
        """Each value on [0, 1] in whole steps, less the centre; None: every row has them all."""
        key = (str(centre), *(p.text for p in points))
        if key not in self._scaled:
            out = self._room(len(points))
            missing = self._fill(points, out, centre)
            self._scaled[key] = out, None if missing is None else ~missing
        return self._scaled[key]

    def _room(self, points: int) -> Floats:
        """Coordinates x rows, not written yet."""
        return np.empty((points, self.rows))

    def _fill(self, points: tuple[Node, ...], out: Floats, centre: int) -> Bools | None:
        """Write the coordinates; which rows lack one, or None."""
        missing = None
        for point, steps in zip(points, out, strict=True):
            lacking = _scale(self, point, steps)
            if lacking is not None:
                missing = lacking if missing is None else missing | lacking
            if centre:
                steps -= centre
        return missing


def _scale(batch: Evaluator, point: Node, steps: Floats) -> Bools | None:
    """Write one coordinate; which rows do not have it, or None. They are written as 0."""
    if point.op == "column":
        plain = _plain(batch.raw[point.value], batch.schema[point.value])
        if plain is not None:
            _to_steps(plain, point, steps)
            if not np.isnan(steps).any():
                return None
    found = batch.evaluate(point)
    _to_steps(found.data, point, steps)
    missing: Bools = np.isnan(steps) | ~found.valid
    steps[missing] = 0.0
    return missing if missing.any() else None


def _to_steps(data: NDArray[Any], point: Node, steps: Floats) -> None:
    """round((x - low) / (high - low) * 2**DENSE), kept within the range."""
    low, high = float(point.low), float(point.high)
    with np.errstate(all="ignore"):
        if low:
            data = np.subtract(data, low, out=steps, dtype=np.float64)
        np.multiply(data, np.float64(ONE) / (high - low), out=steps, dtype=np.float64)
        to_whole_steps(steps)


def to_whole_steps(steps: Floats, centre: int = 0) -> None:
    """Round to whole steps, halves to even, kept within 0 and ONE; then take away the centre.

    The sum of a value and ROUNDER has no fraction, and whether it is even is told by the value's
    own last bit. What is too large to be rounded so is beyond the range, and clamped.
    """
    steps += ROUNDER
    np.clip(steps, ROUNDER, ROUNDER + ONE, out=steps)
    steps -= ROUNDER + centre


def _plain(raw: Any, column: Column) -> NDArray[Any] | None:
    """Numbers as they lie in memory, where reading them as declared would change none."""
    import pyarrow as pa

    if isinstance(raw, np.ndarray):
        return raw if column.type == "number" else None
    if isinstance(raw, pa.ChunkedArray) and raw.num_chunks == 1:
        raw = raw.chunk(0)
    if not isinstance(raw, pa.Array) or raw.null_count:
        return None
    if column.type == "number" and pa.types.is_float64(raw.type):
        return in_numpy(raw)
    if column.type == "integer" and pa.types.is_signed_integer(raw.type):
        return in_numpy(raw)
    return None


# ---- an array of numbers, scaled where it lies ----------------------------------------------
# The integers are those of the same rows held by columns. Work goes through a few rows at a time,
# while they are in cache.

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

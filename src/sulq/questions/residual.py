"""What a table says beyond its margins: noise on every cell, then only differences leave.

privacy/residuals.py has the geometry. The cells with their noise are never stored or shown: they
would tell more than was paid for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.privacy.geometry import Geometry
from sulq.privacy.residuals import Part, diameter2, least_variance, size_of
from sulq.questions.measurements import Measurement
from sulq.questions.partitions import Axis

KINDS = ("expression", "bins")  # axes that have every row in exactly one cell


def cells_of(axis: Axis) -> int:
    """How many cells rows can be in; where the schema rules '(other)' out, it is none."""
    return len(axis.labels) - (axis.complete and axis.labels[-1] is None)


@dataclass(frozen=True)
class Projected(Measurement):
    """Counts by some axes: the differences from each axis's last cell, in all axes at once."""

    over: tuple[Axis, ...]
    said: Any = "residual"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each axis."""
        return tuple(cells_of(a) for a in self.over)

    @property
    def drawn(self) -> int:
        """How many numbers have noise of their own, before the differences are taken."""
        return math.prod(self.sizes)

    @property
    def numbers(self) -> int:
        """How many differences leave."""
        return math.prod(m - 1 for m in self.sizes)

    @property
    def deviation(self) -> float:
        """The standard deviation of a difference, where that of a cell is 1."""
        return math.sqrt(2 ** len(self.over))

    @property
    def least_variance(self) -> Fraction:
        """The variance of a cell's noise, in steps, that the proof wants."""
        return least_variance(self.sizes)

    @property
    def labels(self) -> tuple[Any, ...]:
        """Every cell but the last ones, named as in a table."""
        each = [a.labels[: m - 1] for a, m in zip(self.over, self.sizes, strict=True)]
        if len(each) == 1:
            return each[0]
        return tuple(itertools.product(*each)) if each else ("all",)

    @property
    def axes(self) -> tuple[str, ...]:
        """What the parts of a name are."""
        return tuple(f"residual {i + 1}" for i in range(len(self.over)))

    @property
    def geometry(self) -> Geometry:
        """How far one row can move all differences together; L1 is not used."""
        part = [Part(tuple(range(len(self.over))))]
        known = frozenset(i for i, a in enumerate(self.over) if a.public)
        none = Fraction(0)
        radius, diameter = size_of(self.sizes), diameter2(part, self.sizes, known)
        return Geometry(radius, diameter, none, none, self.numbers, whole=True)

    def before_noise(self, exact: list[list[int]]) -> list[list[int]]:
        """The cells; a row that the schema rules out counts in its axis's last cell."""
        cells = np.array([row[0] for row in exact], dtype=object)
        cells = cells.reshape([len(a.labels) for a in self.over])
        return [[int(x)] for x in folded(cells, self.sizes).ravel()]

    def after_noise(self, noisy: list[list[int]]) -> list[list[int]]:
        """The differences from the last cell of every axis, in whole numbers."""
        cells = np.array([row[0] for row in noisy], dtype=object).reshape(self.sizes)
        for i in range(len(self.sizes)):
            turned = np.moveaxis(cells, i, 0)
            cells = np.moveaxis(turned[:-1] - turned[-1:], 0, i)
        return [[int(x)] for x in cells.ravel()]

    def of(self, exact: list[list[int]]) -> list[list[int]]:
        """The same differences of exact counts."""
        return self.after_noise(self.before_noise(exact))


def folded(cells: NDArray[Any], sizes: Sequence[int]) -> NDArray[Any]:
    """Counts by so many cells of each axis; one that is left over goes with the last of them."""
    for i, m in enumerate(sizes):
        if m < cells.shape[i]:
            kept, stray = np.split(np.moveaxis(cells, i, 0), [m])
            kept = kept.copy()
            kept[-1] += stray[0]
            cells = np.moveaxis(kept, 0, i)
    return cells


def projected(axes: tuple[Axis, ...], public: bool, error: Any, noise: str) -> Projected:
    """The residual over these axes, or a refusal."""
    if noise != "gaussian":
        raise QueryNotAllowed(f"Residual: it needs gaussian noise, this database has {noise}.")
    if error is not None:
        raise QueryNotAllowed("Residual: leave error= out; weights= says how exact it shall be.")
    if public:
        raise QueryNotAllowed(
            "Residual: these columns are public. Ask for the counts, which are exact and free."
        )
    made = Projected(axes)
    if any(a.kind not in KINDS for a in axes) or any(m < 2 for m in made.sizes):
        raise QueryNotAllowed(
            "Residual: by= wants columns or sulq.Bins, each with two cells or more."
        )
    return made

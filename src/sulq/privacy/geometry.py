"""How far one row can move an answer, and the numbers that leave: what a price is taken from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Release:
    """One number that leaves: engine integer * step, noise of `unit` engine integers."""

    name: str
    step: Fraction  # own units per engine integer
    unit: Fraction  # engine integers in one unit of the geometry
    weight2: Fraction = Fraction(1)  # squared weight: the variance is unit^2 / weight2
    least_variance: Fraction = Fraction(0)  # in steps: the grid is fine enough for this much


@dataclass(frozen=True, slots=True)
class Geometry:
    """How far one row can move an answer within a cell, zero included.

    `whole`: not within a cell but in the whole answer, whichever cells the row may be in.

    radius: largest distance from 0; diameter: largest distance between two contributions.
    """

    radius2: Fraction  # squared L2
    diameter2: Fraction
    radius1: Fraction  # L1
    diameter1: Fraction
    coordinates: int
    whole: bool = False

    def __add__(self, other: Geometry) -> Geometry:
        return Geometry(
            self.radius2 + other.radius2, self.diameter2 + other.diameter2,
            self.radius1 + other.radius1, self.diameter1 + other.diameter1,
            self.coordinates + other.coordinates, self.whole or other.whole,
        )  # fmt: skip


NOTHING = Geometry(*(Fraction(0),) * 4, 0)

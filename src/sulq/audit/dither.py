"""The dither: a small whole-number noise on exact sums, and none where the owner wants none.

It hides low-order digits from whoever would read them off one answer. No promise rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sulq.noise import Gaussian, Law


@dataclass(frozen=True, slots=True)
class Nothing:
    """No dither: always 0."""

    @property
    def std(self) -> float:
        """The standard deviation, in steps."""
        return 0.0

    def pmf(self, k: int) -> float:
        """Return the probability of k."""
        return float(k == 0)

    def half_width(self, level: float) -> float:
        """Return h such that |noise| <= h with probability `level`."""
        return 0.0

    def draw(self, count: int) -> list[int]:
        """Return `count` zeros."""
        return [0] * count


def dither_law(std: Fraction, unit: Fraction) -> Law:
    """The dither of one sum on a grid with `unit` steps to one row; `std` is in rows."""
    return Gaussian((std * unit) ** 2) if std else Nothing()

"""From how many rows on a value is named that nobody listed.

A value is looked at if at least `least` rows have it, and named if its noisy count reaches the
threshold. One row (or person) can bring a value to be looked at, and that this one is named has
at most the chance that the promise set aside. Proof: docs/proofs/discover.md
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

from sulq.privacy.noise import Gaussian, Laplace, root_up

MAX_LOOKED_AT = 2**16  # values of one discovery: so much noise is drawn at most
UP = 1 + Fraction(1, 2**30)  # far above what a quantile or a logarithm errs by


def least_count(rows: int) -> int:
    """So many rows must have a value for it to be looked at: then there are few, whatever they are.

    Public like n, and so is how many can be looked at: n divided by this.
    """
    return max(1, -(-rows // MAX_LOOKED_AT))


def deviations(chance: float, noise: str = "gaussian") -> Fraction:
    """How many widths a number is above with at most this chance.

    Widths are standard deviations of a normal number, scales of a Laplace number, whose tail is
    exp(-t)/2.
    """
    if noise == "laplace":
        return Fraction(-math.log(2 * chance)) * UP
    return Fraction(-NormalDist().inv_cdf(chance)) * UP


def width(law: Gaussian | Laplace) -> Fraction:
    """The standard deviation of Gaussian noise, the scale of Laplace noise, in steps."""
    return law.scale if isinstance(law, Laplace) else Fraction(root_up(law.variance))


def reach(wide: Fraction, chance: float, rows_each: int, noise: str = "gaussian") -> Fraction:
    """How far beyond `least - 1` the threshold is, in units: max(m + z wide, 1 + z' wide).

    m rows of one person are all of one value, or each of another: z is for the chance itself, z'
    for one of m parts of it.
    """
    together, apart = deviations(chance, noise), deviations(chance / rows_each, noise)
    return max(rows_each + together * wide, 1 + apart * wide)


def threshold(law: Gaussian | Laplace, unit: int, chance: float, least: int, rows_each: int) -> int:
    """The least noisy count that is named, in steps of a grid with `unit` of them to a row.

    A discrete number is at least k with at most the chance that one of its law on a line is at
    least k-1.
    """
    noise = "laplace" if isinstance(law, Laplace) else "gaussian"
    beyond = reach(width(law) / unit, chance, rows_each, noise)
    return math.ceil((least - 1 + beyond) * unit) + 1


def widest(
    at_least: int, chance: float, least: int, rows_each: int, noise: str = "gaussian"
) -> Fraction:
    """The largest width of noise, in units, with a threshold of so many rows; 0: there is none.

    A little less, so that the step and the roundings of `threshold` have room.
    """
    above = Fraction(at_least) - Fraction(1, 100) - (least - 1)
    together, apart = deviations(chance, noise), deviations(chance / rows_each, noise)
    return max(min((above - rows_each) / together, (above - 1) / apart), Fraction(0))

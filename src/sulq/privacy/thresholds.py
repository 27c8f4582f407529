"""From how many rows on a value is named that nobody listed.

A value is looked at if at least `least` rows have it, and named if its noisy count reaches the
threshold. One row (or person) can bring a value to be looked at, and that this one is named has
at most the chance that the promise set aside. Proof: docs/proofs/discover.md
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

from sulq.privacy.noise import Gaussian, root_up

MAX_LOOKED_AT = 2**16  # values of one discovery: so much noise is drawn at most
UP = 1 + Fraction(1, 2**30)  # far above what a quantile of the normal law errs by


def least_count(rows: int) -> int:
    """So many rows must have a value for it to be looked at: then there are few, whatever they are.

    Public like n, and so is how many can be looked at: n divided by this.
    """
    return max(1, -(-rows // MAX_LOOKED_AT))


def deviations(chance: float) -> Fraction:
    """How many standard deviations a normal number is above with at most this chance."""
    return Fraction(-NormalDist().inv_cdf(chance)) * UP


def reach(std: Fraction, chance: float, rows_each: int) -> Fraction:
    """How far beyond `least - 1` the threshold is, in units: max(m + z std, 1 + z' std).

    m rows of one person are all of one value, or each of another: z is for the chance itself, z'
    for one of m parts of it.
    """
    together, apart = deviations(chance), deviations(chance / rows_each)
    return max(rows_each + together * std, 1 + apart * std)


def threshold(law: Gaussian, unit: int, chance: float, least: int, rows_each: int) -> int:
    """The least noisy count that is named, in steps of a grid with `unit` of them to a row.

    A discrete Gaussian is at least k with at most the chance that a normal number is at least k-1.
    """
    std = Fraction(root_up(law.variance)) / unit
    return math.ceil((least - 1 + reach(std, chance, rows_each)) * unit) + 1


def widest(at_least: int, chance: float, least: int, rows_each: int) -> Fraction:
    """The largest standard deviation, in units, with a threshold of so many rows; 0: there is none.

    A little less, so that the step and the roundings of `threshold` have room.
    """
    above = Fraction(at_least) - Fraction(1, 100) - (least - 1)
    together, apart = deviations(chance), deviations(chance / rows_each)
    return max(min((above - rows_each) / together, (above - 1) / apart), Fraction(0))

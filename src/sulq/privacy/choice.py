"""One of many cells, chosen so that near ones are likelier: the exponential mechanism, exactly.

A cell at distance d is chosen with probability proportional to exp(-rate * d), up to a factor
1 +- 2**-96. Distances are whole numbers, weights are integers, no float is formed.
Proof, and the price of a choice: docs/proofs/choice.md
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sulq.errors import PromiseError
from sulq.privacy.noise import Law, SystemSource
from sulq.privacy.promise import Promise

WEIGHT = 192  # bits of the largest weight
UNIFORM = 320  # bits of the uniform number that a cell is chosen by
FARTHEST = 64  # rate * distance: beyond, a cell is as unlikely as here, e^-64
SHARPEST = 32  # a rate above this would leave a cell one row off without a weight
MAX_TABLE = 2**16
DIGITS = Context(prec=90)
PI_ABOVE = Fraction(355, 113)
# Of the price, what is spent on the value; the rest is spent on the ends of its interval.
ON_VALUE = {"gaussian": Fraction(4, 5), "laplace": Fraction(9, 10)}

Distances = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Choosing(Law):
    """How cells are chosen: the rate for a value and for the ends of its interval, per row.

    `draw` gives uniform integers below 2**320, by which `choose` chooses. The standard deviation
    and the rest are in rows: how far the number of rows below the value is from the share asked.
    """

    value: Fraction
    ends: Fraction

    @property
    def std(self) -> float:
        """That of a two-sided exponential."""
        return math.sqrt(2) / float(self.value)

    def pmf(self, k: int) -> float:
        """Return the probability to be k rows off, where every row has a cell of its own."""
        rate = float(self.value)
        return math.tanh(rate / 2) * math.exp(-abs(k) * rate)

    def half_width(self, level: float) -> float:
        """Return h such that a value is within h rows with probability `level`."""
        return -math.log1p(-level) / float(self.value)

    def draw(self, count: int) -> list[int]:
        """Return `count` independent uniform integers."""
        source = SystemSource()
        return [source.bits(UNIFORM) for _ in range(count)]


def choosing(promise: Promise, share: Fraction) -> Choosing:
    """The rates that a query pays for, where `share` of the rows shall lie below the value."""
    most = max(share, 1 - share)
    on_value = ON_VALUE[promise.noise]
    on_end = (1 - on_value) / 2
    if promise.noise == "laplace":
        rate = 1 / (2 * (most if promise.guarantee == "dp" else 1) * promise.scale)
        return _capped(rate * on_value, rate * on_end)
    square = 1 / promise.exact_variance
    if promise.guarantee == "dp":
        square *= 2 / (PI_ABOVE * most**2)
    return _capped(root_down(square * on_value), root_down(square * on_end))


def _capped(*rates: Fraction) -> Choosing:
    """No rate is so high that a cell one row off has no weight left."""
    return Choosing(*(min(rate, Fraction(SHARPEST)) for rate in rates))


def choose(distances: Distances, rate: Fraction, uniform: int) -> int:
    """The place of a cell, chosen by its distance; with `uniform` 0, the first nearest one.

    Each distance is a whole number, and `rate` is for a distance of 1. The work is the same
    whatever the distances are.
    """
    coarse, fine, side, farthest = _tables(rate)
    nearest = int(distances.argmin())  # cells are gone through from here on
    near = np.minimum(np.roll(distances, -nearest), farthest)
    high, low = (part.tolist() for part in np.divmod(near, side))
    weights = [(coarse[a] * fine[b]) >> WEIGHT for a, b in zip(high, low, strict=True)]
    sums = list(accumulate(weights))
    wanted = (uniform * sums[-1]) >> UNIFORM
    return (nearest + bisect_right(sums, wanted)) % len(sums)


@lru_cache(maxsize=64)
def _tables(rate: Fraction) -> tuple[list[int], list[int], int, int]:
    """exp(-rate * k) as a product of two: k = a * side + b, each rounded down in 192 bits.

    And how wide a table is, and the largest k that is told apart from larger ones.
    """
    farthest = math.floor(FARTHEST / rate)
    side = math.isqrt(farthest) + 1
    if side > MAX_TABLE:
        raise PromiseError(f"a rate of {float(rate):g} leaves nothing to choose by.")
    coarse = [_exp(rate * side * a) for a in range(side)]
    return coarse, [_exp(rate * b) for b in range(side)], side, farthest


def root_down(x: Fraction) -> Fraction:
    """A square root, never above the true one: prices round up."""
    scaled = x * 4**80
    return Fraction(math.isqrt(scaled.numerator // scaled.denominator), 2**80)


def _exp(x: Fraction) -> int:
    """exp(-x) in units of 2**-192, rounded down; Decimal rounds exp correctly."""
    ratio = DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))
    return int(DIGITS.multiply(DIGITS.exp(-ratio), Decimal(2**WEIGHT)))

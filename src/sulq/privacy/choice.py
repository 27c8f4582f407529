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
from itertools import accumulate, repeat

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.privacy.noise import Law, SystemSource
from sulq.privacy.promise import Promise

WEIGHT = 256  # bits of the largest weight
UNIFORM = 320  # bits of the uniform number that a cell is chosen by
FARTHEST = 64  # rate * distance: beyond, a cell is as unlikely as here, e^-64
SHARPEST = 32  # a rate above this would leave a cell one row off without a weight
MAX_ROWS = 2**48  # whose distances 64 bits hold
DIGIT = 8  # bits of a distance that one factor of its weight is for
DECIMALS = Context(prec=90)
ONE, UNIT = Decimal(1), Decimal(2**WEIGHT)
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


@lru_cache(maxsize=1024)
def choosing(promise: Promise, share: Fraction) -> Choosing:
    """The rates that a query pays for, where `share` of the rows shall lie below the value."""
    most = max(share, 1 - share)
    on_value = ON_VALUE[promise.noise]
    on_end = (1 - on_value) / 2
    if promise.noise == "laplace":
        rate = 1 / (2 * (most if promise.guarantee == "dp" else 1) * promise.scale)
        return _bounded(promise, rate * on_value, rate * on_end)
    square = 1 / promise.exact_variance
    if promise.guarantee == "dp":
        square *= 2 / (PI_ABOVE * most**2)
    return _bounded(promise, root_down(square * on_value), root_down(square * on_end))


def _bounded(promise: Promise, *rates: Fraction) -> Choosing:
    """The rates, none so high that a cell one row off has no weight, or refused as too low."""
    if min(rates) * MAX_ROWS < FARTHEST:
        raise QueryNotAllowed(
            f"Percentile: with epsilon={promise.epsilon:g} and T={promise.queries:,} a value would "
            "be chosen without regard to the rows of any table. Nothing was charged.\nAsk for "
            "PERCENTILE_CONT or MEDIAN, or promise less when a new ledger begins: a larger "
            "epsilon, or fewer queries."
        )
    return Choosing(*(min(rate, Fraction(SHARPEST)) for rate in rates))


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """exp(-rate * k) for whole k up to `farthest`: a product of one factor for each digit of k.

    Factors are in units of 2**-256, those of the lowest digit first.
    """

    factors: tuple[list[int], ...]
    farthest: int  # the largest k that is told apart from larger ones

    @classmethod
    def of(cls, rate: Fraction) -> Weights:
        """The weights of this rate; equal rates share their tables."""
        return _weights(rate)

    def at(self, distances: Distances) -> list[int]:
        """The weight of each distance."""
        near = np.minimum(distances, self.farthest)
        first, *others = (
            [factor[d] for d in ((near >> (DIGIT * i)) & (2**DIGIT - 1)).tolist()]
            for i, factor in enumerate(self.factors)
        )
        for each in others:
            first = [(w * f) >> WEIGHT for w, f in zip(first, each, strict=True)]
        return first


def choose(distances: Distances, weights: Weights, uniform: int) -> int:
    """The place of a cell, chosen by its distance; with `uniform` 0, the first nearest one.

    Each distance is a whole number, and the rate is for a distance of 1. The work is the same
    whatever the distances are.
    """
    nearest = int(distances.argmin())  # cells are gone through from here on
    sums = list(accumulate(weights.at(np.roll(distances, -nearest))))
    wanted = (uniform * sums[-1]) >> UNIFORM
    return (nearest + bisect_right(sums, wanted)) % len(sums)


@lru_cache(maxsize=64)
def _weights(rate: Fraction) -> Weights:
    farthest = math.floor(FARTHEST / rate)
    factors: list[list[int]] = []
    left = farthest
    while left or not factors:
        step = _exp(rate * 2 ** (DIGIT * len(factors)))
        powers = accumulate(repeat(step, min(left, 2**DIGIT - 1)), DECIMALS.multiply, initial=ONE)
        factors.append([int(DECIMALS.multiply(x, UNIT)) for x in powers])
        left >>= DIGIT
    return Weights(tuple(factors), farthest)


def root_down(x: Fraction) -> Fraction:
    """A square root, never above the true one: prices round up."""
    scaled = x * 4**80
    return Fraction(math.isqrt(scaled.numerator // scaled.denominator), 2**80)


def _exp(x: Fraction) -> Decimal:
    """exp(-x) to 90 digits."""
    ratio = DECIMALS.divide(Decimal(x.numerator), Decimal(x.denominator))
    return DECIMALS.exp(ratio.copy_negate())  # a minus sign would round to 28 digits

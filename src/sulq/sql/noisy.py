"""Numbers with error bars: values per cell, and how they move with each released number.

The noise of the released numbers is independent, so the variance of anything smooth computed
from them is the sum of (slope * std)^2: the delta method, with slopes carried along exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.values.answer import Answer

Array = NDArray[np.float64]

CAREFUL = 3.0  # standard deviations instead of about two, where a divisor is NEAR to 0
NEAR, FAR = 4.0, 6.0  # in standard deviations; from FAR on it is as always


@dataclass(frozen=True)
class Noisy:
    """One number per cell; `slopes[j]` is its derivative by released number j."""

    value: Array
    slopes: dict[int, Array]

    @classmethod
    def released(cls, value: Array, number: int) -> Noisy:
        """A released number itself."""
        return cls(value, {number: np.ones_like(value)})

    def variance(self, stds: list[Array]) -> Array:
        """The variance that the noise of the released numbers gives it."""
        total = np.zeros_like(self.value)
        with np.errstate(all="ignore"):
            for j, slope in self.slopes.items():
                total = total + (slope * stds[j]) ** 2
        return total

    def covariance(self, other: Noisy, stds: list[Array]) -> Array:
        """How its noise goes along with that of another number."""
        total = np.zeros_like(self.value)
        with np.errstate(all="ignore"):
            for j in self.slopes.keys() & other.slopes.keys():
                total = total + self.slopes[j] * other.slopes[j] * stds[j] ** 2
        return total

    def through(self, f: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Noisy:
        """A smooth function of it."""
        with np.errstate(all="ignore"):
            factor = slope(self.value)
            return Noisy(f(self.value), {j: s * factor for j, s in self.slopes.items()})

    def within(self, low: float, high: float) -> Noisy:
        """The same, no further out than these ends."""
        return Noisy(np.clip(self.value, low, high), self.slopes)

    def where(self, test: NDArray[np.bool_]) -> Noisy:
        """The same where the test holds, missing elsewhere."""
        return Noisy(np.where(test, self.value, np.nan), self.slopes)

    def __add__(self, other: Noisy | float) -> Noisy:
        return _combine(self, other, lambda a, b: a + b, lambda a, b: 1.0, lambda a, b: 1.0)

    __radd__ = __add__

    def __sub__(self, other: Noisy | float) -> Noisy:
        return _combine(self, other, lambda a, b: a - b, lambda a, b: 1.0, lambda a, b: -1.0)

    def __mul__(self, other: Noisy | float) -> Noisy:
        return _combine(self, other, lambda a, b: a * b, lambda a, b: b, lambda a, b: a)

    __rmul__ = __mul__

    def __truediv__(self, other: Noisy | float) -> Noisy:
        return _combine(
            self, other, lambda a, b: a / b, lambda a, b: 1 / b, lambda a, b: -a / (b * b)
        )


def released(answer: Answer, first: int) -> tuple[list[Noisy], list[Array]]:
    """The numbers of an answer, and the sizes of the errors behind them, numbered from `first` on.

    The errors of an estimate's numbers hang together; those they are made of do not.
    """
    values, numbers = answer.values, range(len(answer.names))
    if not answer.factors:
        stds = [np.array([row[j] for row in answer.stds]) for j in numbers]
        return [Noisy.released(values[:, j], first + j) for j in numbers], stds
    factors = np.array(answer.factors)
    errors = range(factors.shape[2])
    slopes = [{first + k: factors[:, j, k] for k in errors} for j in numbers]
    ones = [np.ones(len(values)) for _ in errors]
    return [Noisy(values[:, j], s) for j, s in zip(numbers, slopes, strict=True)], ones


def where(test: NDArray[np.bool_], a: Noisy, b: Noisy) -> Noisy:
    """`a` in the cells where the test holds, `b` elsewhere."""
    numbers = a.slopes.keys() | b.slopes.keys()
    none = np.zeros_like(a.value)
    slopes = {j: np.where(test, a.slopes.get(j, none), b.slopes.get(j, none)) for j in numbers}
    return Noisy(np.where(test, a.value, b.value), slopes)


def quotient_ends(a: Noisy, b: Noisy, stds: list[Array], reach: float) -> tuple[Array, Array]:
    """The ends of an interval for a / b, both noisy: every t for which a - t b may be 0.

    Fieller (1954): exact for normal noise, however near to 0 the divisor is. Where it may be 0
    itself there are no ends. Those that chance alone gives ends are mostly wrong, so near 0 more is
    asked for: ends that hold with CAREFUL standard deviations (docs/proofs/moments.md).
    """
    with np.errstate(all="ignore"):
        of_a, of_b, both = a.variance(stds), b.variance(stds), a.covariance(b, stds)
        away = np.abs(b.value) / np.sqrt(of_b)
        near = np.clip((FAR - np.where(np.isnan(away), 0.0, away)) / (FAR - NEAR), 0.0, 1.0)
        z = reach * (1 + near * (CAREFUL / 2 - 1))
        # t with (a - t b)^2 <= z^2 (of_a - 2 t both + t^2 of_b)
        square = b.value**2 - z**2 * of_b
        middle = (a.value * b.value - z**2 * both) / square
        apart = middle**2 - (a.value**2 - z**2 * of_a) / square
        half = np.where(square > 0, np.sqrt(np.maximum(apart, 0.0)), np.inf)
        middle = np.where(square > 0, middle, a.value / b.value)
        return middle - half, middle + half


def _combine(
    a: Noisy, b: Noisy | float, f: Callable[..., Any], by_a: Callable[..., Any],
    by_b: Callable[..., Any],
) -> Noisy:  # fmt: skip
    if not isinstance(b, Noisy):
        b = Noisy(np.full_like(a.value, b), {})
    with np.errstate(all="ignore"):
        slopes: dict[int, Array] = {}
        for part, factor in ((a, by_a(a.value, b.value)), (b, by_b(a.value, b.value))):
            for j, slope in part.slopes.items():
                slopes[j] = slopes.get(j, 0.0) + slope * factor
        return Noisy(f(a.value, b.value), slopes)

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

Array = NDArray[np.float64]


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

    def __rsub__(self, other: float) -> Noisy:
        return constant(other, self) - self

    def __mul__(self, other: Noisy | float) -> Noisy:
        return _combine(self, other, lambda a, b: a * b, lambda a, b: b, lambda a, b: a)

    __rmul__ = __mul__

    def __truediv__(self, other: Noisy | float) -> Noisy:
        return _combine(
            self, other, lambda a, b: a / b, lambda a, b: 1 / b, lambda a, b: -a / (b * b)
        )

    def __rtruediv__(self, other: float) -> Noisy:
        return constant(other, self) / self

    def __neg__(self) -> Noisy:
        return self * -1.0


def constant(value: Any, like: Noisy) -> Noisy:
    """The same number in every cell, without noise."""
    return Noisy(np.full_like(like.value, float(value)), {})


def where(test: NDArray[np.bool_], a: Noisy, b: Noisy) -> Noisy:
    """`a` in the cells where the test holds, `b` elsewhere."""
    numbers = a.slopes.keys() | b.slopes.keys()
    none = np.zeros_like(a.value)
    slopes = {j: np.where(test, a.slopes.get(j, none), b.slopes.get(j, none)) for j in numbers}
    return Noisy(np.where(test, a.value, b.value), slopes)


def _combine(
    a: Noisy, b: Noisy | float, f: Callable[..., Any], by_a: Callable[..., Any],
    by_b: Callable[..., Any],
) -> Noisy:  # fmt: skip
    if not isinstance(b, Noisy):
        b = constant(b, a)
    with np.errstate(all="ignore"):
        slopes: dict[int, Array] = {}
        for part, factor in ((a, by_a(a.value, b.value)), (b, by_b(a.value, b.value))):
            for j, slope in part.slopes.items():
                slopes[j] = slopes.get(j, 0.0) + slope * factor
        return Noisy(f(a.value, b.value), slopes)

"""A number with an error bar: what mining gives wherever it gives a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from sulq.learn.parameters import checked_share
from sulq.values.number_text import with_error

Array = NDArray[np.float64]
Ends = Callable[[float], tuple[float, float]]  # level -> low and high end
WHOLE = (-math.inf, math.inf)
STEP = 1e-6  # of a derivative; probabilities are of order one


class Estimate(float):
    """A float that knows how far the truth may be: `.interval(level)`, `.std`.

    The interval speaks of the tables themselves. It covers the noise in every database that
    was asked and the luck of how people fell into blocks or subsets.
    """

    __slots__ = ("_ends",)
    _ends: Ends

    def __new__(cls, value: float, ends: Ends) -> Estimate:
        """Make one; `ends` gives the interval at a level."""
        made = super().__new__(cls, value)
        made._ends = ends
        return made

    @property
    def value(self) -> float:
        """The number alone."""
        return float(self)

    @property
    def std(self) -> float:
        """Half of the interval that one standard deviation either way would be."""
        low, high = self._ends(0.6826894921)
        return (high - low) / 2

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Low and high ends that hold the tables' own number with probability `level`."""
        return self._ends(checked_share("level", level))

    def to_json(self) -> dict[str, Any]:
        """The number and its 95% interval, as plain values."""
        low, high = self._ends(0.95)
        ends = [end if math.isfinite(end) else None for end in (low, high)]
        return {"value": float(self), "low": ends[0], "high": ends[1]}

    def __str__(self) -> str:
        low, high = self._ends(0.95)
        if math.isfinite(high - low) and abs((high + low) / 2 - self) <= (high - low) / 20:
            return f"{with_error(float(self), (high - low) / 2)} (95%)"
        return f"{float(self):.4g}, {low:.4g} to {high:.4g} (95%)"

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise TypeError("an Estimate is not pickled; keep its to_json().")


def reach(level: float, freedom: float) -> float:
    """How many standard deviations an interval goes either way."""
    return float(student.ppf((1 + checked_share("level", level)) / 2, freedom))


def plain(
    value: float, std: float, bounds: tuple[float, float] = WHOLE, freedom: float = math.inf
) -> Estimate:
    """An estimate with normal errors, kept within what is possible at all.

    The truth is within the bounds, so moving the estimate there brings it no further from it:
    an interval about the moved one covers at least as often.
    """
    low, high = bounds
    value, std = float(min(max(value, low), high)), float(std)

    def ends(level: float) -> tuple[float, float]:
        width = reach(level, freedom) * std
        return max(value - width, low), min(value + width, high)

    return Estimate(value, ends)


def smooth(
    f: Callable[[Array], float],
    at: Array,
    covariance: Array,
    bounds: tuple[float, float] = WHOLE,
    freedom: float = math.inf,
) -> Estimate:
    """f at an estimated point; its variance is g S g, with gradient g and the point's errors S."""
    g = gradient(f, at)
    return plain(f(at), math.sqrt(max(float(g @ covariance @ g), 0.0)), bounds, freedom)


def quotient(
    over: Callable[[Array], float],
    under: Callable[[Array], float],
    at: Array,
    covariance: Array,
    bounds: tuple[float, float],
    freedom: float,
) -> Estimate:
    """over / under at an estimated point (Fieller): every q for which over - q under may be 0.

    Where `under` itself may be 0 that is no interval, and the ratio may be anything.
    """
    y, z = over(at), under(at)
    slopes = np.array([gradient(over, at), gradient(under, at)])
    (yy, yz), (_, zz) = slopes @ covariance @ slopes.T
    least = max(math.sqrt(max(float(covariance.diagonal()[:2].max()), 0.0)), 1e-12)
    low, high = bounds

    def ends(level: float) -> tuple[float, float]:
        t2 = reach(level, freedom) ** 2
        square, middle, rest = z * z - t2 * zz, y * z - t2 * yz, y * y - t2 * yy
        if square <= 0:
            return bounds
        width = math.sqrt(max(middle * middle - square * rest, 0.0))
        return max((middle - width) / square, low), min((middle + width) / square, high)

    return Estimate(min(max(y / max(z, least), low), high), ends)


def gradient(f: Callable[[Array], float], at: Array) -> Array:
    """Derivatives by differences."""
    steps = np.eye(len(at)) * STEP
    return np.array([(f(at + h) - f(at - h)) / (2 * STEP) for h in steps])

"""Numbers -> places along a drawing, with a few round ones marked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """From low at `start` to high at `end`, evenly or by powers of ten."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def of(cls, values: Iterable[float], start: float, end: float, *, log: bool = False) -> Scale:
        """A scale that has room for all these."""
        found = [math.log10(max(x, 1e-9)) for x in values] if log else list(values)
        low, high = min(found), max(found)
        if not high > low:
            low, high = low - 1, high + 1
        return cls(low, high, start, end, log)

    def at(self, value: float) -> float:
        """Where a number lies."""
        x = math.log10(max(value, 1e-9)) if self.log else value
        return self.start + (x - self.low) / (self.high - self.low) * (self.end - self.start)

    def within(self, value: float) -> float:
        """The same, at the edge for what lies beyond it."""
        first, last = sorted((self.start, self.end))
        return min(max(self.at(value), first), last)

    def holds(self, value: float) -> bool:
        """Is there a place for it?"""
        return self.within(value) == self.at(value)

    def ticks(self, steps: int = 4) -> list[tuple[float, str]]:
        """A few round numbers, about as many as steps, and how they are written."""
        if self.log:
            powers = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
            return [(10.0**i, power_of_ten(i)) for i in powers[:: 1 + len(powers) // 6]]
        rough = (self.high - self.low) / steps
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [(i * step, compact(i * step)) for i in range(first, last + 1)]


def compact(value: float) -> str:
    """1,200 as 1.2k, so that marks do not meet."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def rounded_up(value: float) -> int:
    """The next number of the kind 1, 2, 4 or 8 with zeros."""
    power = 10 ** math.floor(math.log10(max(value, 1)))
    return next(int(power * k) for k in (1, 2, 4, 8, 10) if power * k >= value)


def power_of_ten(power: int) -> str:
    """1,000, or 10^7 where that would be long."""
    if 0 <= power < 6:
        return f"{10**power:,}"
    return f"10^{power}" if power > 0 else f"{10.0**power:g}"

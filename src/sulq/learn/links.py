"""What an additive model's sum of shapes says of a label in [-1/2, 1/2]: its mean, and how surely.

Everything is in units in which a sum over rows changes by its own variance when a shape changes
by 1, as in logistic regression. Numbers have a variance of their own, which is taken to be SPREAD.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sulq.learn.arrays import Array
from sulq.learn.shapes import Seen

WITHIN = 0.7  # the variance of p within a group's rows, over that of their mean p
NEAR = 0.02  # a mean p is no nearer to 0 or 1 than this where its variance is taken
SPREAD = 1 / 32  # the variance of a number about its mean, in a range of 1


class Link(Protocol):
    """How a sum of shapes becomes a mean label."""

    @property
    def unit(self) -> float:
        """What a sum of labels is divided by."""
        ...

    def sql(self, total: str) -> str:
        """The mean label as a SQL expression, in [-1/2, 1/2]."""
        ...

    def level(self, mean: float) -> float:
        """The sum of shapes that has this mean label."""
        ...

    def raw(self, found: Seen, level: float) -> tuple[Array, Array]:
        """A shape from its own groups' sums alone, and the variance of each value."""
        ...

    def curve(self, found: Seen, sums: Array) -> Array:
        """What the groups' sums change by when their values change by 1."""
        ...

    def mean(self, total: Array) -> Array:
        """The mean label, in [-1/2, 1/2]."""
        ...


@dataclass(frozen=True, slots=True)
class Logistic:
    """The label is +1/2 with probability 1 / (1 + exp(-total)), else -1/2."""

    unit: float = 1.0

    def sql(self, total: str) -> str:
        """p - 1/2."""
        return f"1 / (1 + EXP(-({total}))) - 0.5"

    def level(self, mean: float) -> float:
        """The log odds."""
        p = min(max(0.5 + mean, NEAR / 4), 1 - NEAR / 4)
        return math.log(p / (1 - p))

    def raw(self, found: Seen, level: float) -> tuple[Array, Array]:
        """Log odds of each group beyond those of all rows: naive Bayes."""
        near = np.clip(0.5 / np.sqrt(found.rows), NEAR / 4, 0.5)
        p = np.clip(0.5 + found.sums / found.rows, near, 1 - near)
        curve = found.rows * p * (1 - p)
        return np.log(p / (1 - p)) - level, (found.variance + curve) / curve**2

    def curve(self, found: Seen, sums: Array) -> Array:
        """rows p (1 - p), as the groups' mean p gives it, less what p varies within a group."""
        p = np.clip(0.5 + sums / found.rows, NEAR, 1 - NEAR)
        return np.asarray(found.rows * p * (1 - p) * WITHIN)

    def mean(self, total: Array) -> Array:
        """p - 1/2."""
        return np.asarray(0.5 * np.tanh(np.asarray(total) / 2))


@dataclass(frozen=True, slots=True)
class Identity:
    """The label is the total, within its range, and varies about it by SPREAD."""

    unit: float = SPREAD

    def sql(self, total: str) -> str:
        """The total within [-1/2, 1/2]."""
        return f"GREATEST(-0.5, LEAST(0.5, {total}))"

    def level(self, mean: float) -> float:
        """The mean itself."""
        return min(max(mean, -0.5), 0.5)

    def raw(self, found: Seen, level: float) -> tuple[Array, Array]:
        """The mean of each group beyond that of all rows."""
        curve = found.rows / self.unit
        return np.clip(found.sums / curve, -0.5, 0.5) - level, (found.variance + curve) / curve**2

    def curve(self, found: Seen, sums: Array) -> Array:
        """Every row changes by what the shape changes by."""
        return np.asarray(found.rows / self.unit)

    def mean(self, total: Array) -> Array:
        """The total within [-1/2, 1/2]."""
        return np.clip(np.asarray(total), -0.5, 0.5)


def label_sql(label: str, low: Any, width: Any) -> str:
    """A number as it is asked about: its place in [-1/2, 1/2]."""
    return f"({label} - {float(low + width / 2)!r}) / {float(width)!r}"

"""Means and second moments from one Products query, each with the noise it carries.

y is a row scaled to [0, 1] and centred at 1/2, |y| <= B. The query releases sum(y) with weight w
and the symmetric sum(y y^T); its price under dp is B^4 + w^2 B^2, under beliefs
2 (B^2 + w^2/2)^2, with B^2 = d/4 unless rows are clipped to row_norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import sulq

from .base import Array, within

CENTRE = 0.5


@dataclass(frozen=True, slots=True)
class Moments:
    """Noisy averages over n rows, with the standard deviation of every entry's noise."""

    mean: Array  # of y
    second: Array  # of y y^T
    mean_std: float
    second_std: Array

    @property
    def covariance(self) -> Array:
        """E[y y^T] - E[y] E[y]^T."""
        return self.second - np.outer(self.mean, self.mean)


def moments_query(
    columns: tuple[str, ...], guarantee: str, row_norm: float | None, mean_length: float
) -> sulq.Query:
    """One query for means and second moments, weighted for the least error at its price."""
    w = mean_weight(len(columns), guarantee, row_norm, mean_length)
    return sulq.Query(sulq.Products(columns, CENTRE, row_norm, w))


def mean_weight(
    d: int, guarantee: str, row_norm: float | None = None, mean_length: float = 1 / 3
) -> float:
    """The w that makes E[y y^T] - m m^T most exact for its price.

    With u = w^2/B^2, noise on the second moments is d^2/2 and that of the means, through
    m n^T + n m^T, is 2 |m|^2 d / w^2; so the error at a fixed price goes as

        dp:       (1 + u)     (1 + c/u)     best at u = sqrt(c)
        beliefs:  (1 + u/2)^2 (1 + c/u)     best at u^2 + c u/2 = c

    where c = 4 |m|^2 / (d B^2) and |m|^2 is taken to be `mean_length` of B^2.
    """
    bound2 = d / 4 if row_norm is None else min(row_norm**2, d / 4)
    c = 4 * mean_length / d
    u = math.sqrt(c) if guarantee == "dp" else (math.sqrt(c * c / 4 + 4 * c) - c / 2) / 2
    return round(math.sqrt(u * bound2), 6)


def count_and_sum_weights(
    d: int, guarantee: str, row_norm: float | None = None
) -> tuple[float, float]:
    """The weights (a, b) of count and sum that make a mean m most exact for its price.

    Its variance is d/b^2 + |m|^2/a^2 over the count squared, with |m|^2 about B^2/3.
    dp charges a^2 + b^2 B^2: best at a^2 / (b^2 B^2) = 1/sqrt(3 d). beliefs charges
    max(2 (a^2 + b^2 B^2), 4 b^2 B^2), so that a = b B is free.
    """
    bound2 = d / 4 if row_norm is None else min(row_norm**2, d / 4)
    ratio = 1.0 / math.sqrt(3 * d) if guarantee == "dp" else 1.0
    return round(math.sqrt(ratio * bound2), 6), 1.0


def ask_moments(db: Any, query: sulq.Query, budget: Any) -> Moments:
    """Ask, and divide by n, which is public."""
    assert isinstance(query.values, sulq.Products)
    d, means = len(query.values.columns), bool(query.values.mean_weight)
    return read_moments(db.ask(within(db, query, budget)), d, db.rows, means=means)


def read_moments(answer: Any, d: int, rows: int, *, means: bool) -> Moments:
    """The answer to a Products query as averages over so many rows."""
    n = max(rows, 1)
    numbers, stds = answer.values[0] / n, np.array(answer.stds[0]) / n
    first = d if means else 0
    mean = numbers[:first] if first else np.zeros(d)
    mean_std = float(stds[0]) if first else 0.0
    return Moments(mean, symmetric(numbers[first:], d), mean_std, symmetric(stds[first:], d))


def symmetric(upper: Array, d: int) -> Array:
    """A symmetric matrix from its upper triangle, row by row."""
    out = np.zeros((d, d))
    out[np.triu_indices(d)] = upper
    return np.asarray(out + np.triu(out, 1).T)

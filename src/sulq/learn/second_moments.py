"""Means and second moments from one Products query, each with the noise it carries.

y is a row scaled to [0, 1] and centred at 1/2, |y| <= B. The query releases sum(y) with weight w
and the symmetric sum(y y^T); its price under dp is B^4 + w^2 B^2, under beliefs
2 (B^2 + w^2/2)^2, with B^2 = d/4 unless rows are clipped to row_norm. Where a column may have
missing values, rows with one are left out, and the rest are counted by the same query: with
weight c that is c^2 more under dp, and free under beliefs up to c^2 = B^4 + w^2 B^2 + w^4/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from sulq.learn.arrays import Array
from sulq.learn.task import NOBODY, LeftOut, Task, lacking

CENTRE = 0.5


@dataclass(frozen=True, slots=True)
class Moments:
    """Noisy averages over some rows, with the standard deviation of every entry's noise.

    That is the noise of the sums. Where the rows were counted, the count's own noise moves all
    averages together, by the part `rows_off` (one standard deviation).
    """

    mean: Array  # of y
    second: Array  # of y y^T
    mean_std: float
    second_std: Array
    rows: float = 1.0  # that the averages are over
    rows_off: float = 0.0
    left_out: LeftOut = NOBODY

    @property
    def covariance(self) -> Array:
        """E[y y^T] - E[y] E[y]^T."""
        return self.second - np.outer(self.mean, self.mean)


def moments_query(
    db: sulq.Queryable, columns: tuple[str, ...], row_norm: float | None, mean_length: float
) -> sulq.Query:
    """One query for means and second moments, weighted for the least error at its price."""
    guarantee = db.promise.guarantee
    w = mean_weight(len(columns), guarantee, row_norm, mean_length)
    counted = lacking(db.schema, columns)
    c = count_weight(len(columns), guarantee, row_norm, w) if counted else 0.0
    return sulq.Query(sulq.Products(columns, CENTRE, row_norm, w, c))


def count_weight(d: int, guarantee: str, row_norm: float | None, w: float) -> float:
    """The c of the count of complete rows.

    Under beliefs the most that is free. Under dp a part p of noise in the count moves E[y y^T]
    by p E[y y^T], of length about B^2/3 against noise of d/sqrt(2) in its entries: the error at
    a fixed price is least near c = B/3.
    """
    bound2 = longest2(d, row_norm)
    free2 = bound2**2 + w**2 * bound2 + w**4 / 2
    c = math.sqrt(bound2) / 3 if guarantee == "dp" else math.sqrt(free2)
    return max(math.floor(c * 10**6) / 10**6, 1e-6)


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
    c = 4 * mean_length / d
    u = math.sqrt(c) if guarantee == "dp" else (math.sqrt(c * c / 4 + 4 * c) - c / 2) / 2
    return round(math.sqrt(u * longest2(d, row_norm)), 6)


def count_and_sum_weights(
    d: int, guarantee: str, row_norm: float | None = None
) -> tuple[Fraction, Fraction]:
    """The weights (a, b) of count and sum that make a mean m most exact for its price.

    Its variance is d/b^2 + |m|^2/a^2 over the count squared, with |m|^2 about B^2/3.
    dp charges a^2 + b^2 B^2: best at a^2 / (b^2 B^2) = 1/sqrt(3 d). beliefs charges
    max(2 (a^2 + b^2 B^2), 4 b^2 B^2), so that a = b B is free.
    """
    ratio = 1.0 / math.sqrt(3 * d) if guarantee == "dp" else 1.0
    return Fraction(round(math.sqrt(ratio * longest2(d, row_norm)), 6)), Fraction(1)


def longest2(d: int, row_norm: float | None) -> float:
    """B^2: the square of how long y can be."""
    return d / 4 if row_norm is None else min(row_norm**2, d / 4)


def ask_moments(task: Task, query: sulq.Query) -> Moments:
    """Ask, and divide by the rows: public n, or the noisy count of those that miss nothing."""
    return read_moments(task.db.ask(task.finest([query]))[0], query, task.db.rows)


def read_moments(answer: Any, query: sulq.Query, n: int, cell: int = 0) -> Moments:
    """The answer to a Products query, of a table of n rows, as averages over one cell's rows."""
    asked = query.values
    assert isinstance(asked, sulq.Products)
    numbers, stds = answer.values[cell], np.array(answer.stds[cell])
    rows, off, left_out = float(max(n, 1)), 0.0, NOBODY
    if asked.count_weight:
        left_out = LeftOut(n - float(numbers[0]), float(stds[0]))
        rows = max(float(numbers[0]), left_out.std, 1.0)
        off, numbers, stds = left_out.std / rows, numbers[1:], stds[1:]
    numbers, stds = numbers / rows, stds / rows
    d = len(asked.columns)
    first = d if asked.mean_weight else 0
    mean = numbers[:first] if first else np.zeros(d)
    mean_std = float(stds[0]) if first else 0.0
    second, spread = symmetric(numbers[first:], d), symmetric(stds[first:], d)
    return Moments(mean, second, mean_std, spread, rows, off, left_out)


def symmetric(upper: Array, d: int) -> Array:
    """A symmetric matrix from its upper triangle, row by row."""
    out = np.zeros((d, d))
    out[np.triu_indices(d)] = upper
    return np.asarray(out + np.triu(out, 1).T)

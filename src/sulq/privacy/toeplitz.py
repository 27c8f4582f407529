"""Running totals by a Toeplitz strategy: whole-number weights, their sizes, and how to read them.

Totals so far are A x, A all ones on and below the diagonal. With f_k = binom(2k, k) / 4^k the
Toeplitz matrix of f is the square root of A. Period t's answer is y_t = c_0 x_t + c_1 x_(t-1) + ...
with noise, c near f and a whole multiple of 1/UNIT; the totals are read off as b_0 y_t +
b_1 y_(t-1) + ..., where b(z) c(z) (1 - z) = 1. A row of period j is in the answers of j and all
later ones up to the horizon: it moves them by c_0, c_1, ..., a column whose squared length is what
its period pays. Proof: docs/proofs/running.md
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

UNIT = 2**20  # what a length of 1 is in whole numbers
MAX_HORIZON = 1_536  # periods
FINE = 256  # bits behind the point of what totals are read off with: far finer than any grid
_ROOT = 192  # bits of the weights before they are rounded


@lru_cache(maxsize=32)
def weights(horizon: int) -> tuple[int, ...]:
    """c_0, c_1, ... in parts of UNIT, rounded down: the whole column is no longer than 1."""
    root = [1 << _ROOT]
    for k in range(1, horizon):
        root.append(root[-1] * (2 * k - 1) // (2 * k))
    length = math.isqrt(sum(f * f for f in root)) + 1
    return tuple(f * UNIT // length for f in root)


def column_size(horizon: int, period: int) -> Fraction:
    """The squared length of a period's column: what a row of it moves, over the whole horizon."""
    return Fraction(sum(c * c for c in weights(horizon)[: horizon - period]), UNIT**2)


def column_length(horizon: int, period: int) -> Fraction:
    """The same added up instead of squared."""
    return Fraction(sum(weights(horizon)[: horizon - period]), UNIT)


@lru_cache(maxsize=32)
def readers(horizon: int) -> tuple[int, ...]:
    """b_0, b_1, ... in parts of 2^FINE, nearest: what totals are read off with."""
    c = weights(horizon)
    step = [(UNIT << FINE) // c[0]]  # 1 / c(z), which takes the strategy back to single periods
    for k in range(1, horizon):
        step.append(-sum(c[j] * step[k - j] for j in range(1, k + 1)) // c[0])
    total, found = 0, []
    for s in step:
        total += s
        found.append(total)
    return tuple(found)


def combined(horizon: int, sums: list[int], first: int, last: int) -> list[int]:
    """The exact strategy answers of periods first to last - 1, in parts of UNIT."""
    c = weights(horizon)
    return [sum(c[t - j] * sums[j] for j in range(t + 1)) for t in range(first, last)]


def totals(horizon: int, answers: list[Fraction], step: Fraction) -> list[Fraction]:
    """Totals so far from strategy answers, on the grid that these are on.

    Without noise they are exact: what they are read off with is finer than any grid.
    """
    b, y = readers(horizon), [a / step for a in answers]
    whole = [int(x) for x in y]  # multiples of the step
    assert whole == y
    half = 1 << (FINE - 1)
    sums = (sum(b[t - j] * whole[j] for j in range(t + 1)) for t in range(len(whole)))
    return [((x + half) >> FINE) * step for x in sums]


@lru_cache(maxsize=32)
def deviations(horizon: int) -> tuple[float, ...]:
    """The standard deviation of each total, where that of a strategy answer is 1."""
    total, found = Fraction(0), []
    for b in readers(horizon):
        total += Fraction(b, 1 << FINE) ** 2
        found.append(math.sqrt(total))
    return tuple(found)


def difference(horizon: int, first: int, last: int) -> float:
    """The standard deviation of what comes between two totals: those of `last` and before `first`.

    Their noise hangs together, so it is less than that of two totals by themselves.
    """
    b = readers(horizon)
    parts = (b[last - j] - (b[first - 1 - j] if j < first else 0) for j in range(last + 1))
    return math.sqrt(sum(Fraction(x, 1 << FINE) ** 2 for x in parts))


def mean_variance(horizon: int) -> Fraction:
    """The mean variance of all totals in units of one query's, where the first period pays one."""
    squares = [Fraction(b, 1 << FINE) ** 2 for b in readers(horizon)]
    return sum((s * (horizon - k) for k, s in enumerate(squares)), Fraction(0)) / horizon

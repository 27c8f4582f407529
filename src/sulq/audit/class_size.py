"""How rare, epsilon, delta -> K: how many rows hide one another in an exact count.

One row of a class goes from value a to value b. The others are independent, and each has value a
with probability at least `low_a` and value b with at least `low_b`, whatever else may differ
among them. So each is, with probability low_a + low_b, a draw from the fixed law (low_a, low_b);
tell the attacker about all others. Of the N drawn rows that are left, the counts of a and b are
the binomial count of N rows, plus the one that changed: N is itself binomial, and the
hockey-stick divergence of the whole is the mean over N of that of N.

Where the probabilities are known exactly this is the exact multinomial count, not a bound: the
other values of the table have the same likelihood on both sides. One more row never raises it,
nor does a larger low_a or low_b, so K is found by halving.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 1024  # binomial laws worked out for one K
SURE = 1e-9  # of delta: how much of a tail may be left out, and is then counted as lost
SLACK = 1 + 1e-6  # floats err by a few parts in 1e9
LARGEST, SMALLEST = 700.0, 1e-300  # of epsilon and of a tail, that a float still holds


@lru_cache(maxsize=4096)
def smallest_crowd(
    low_a: float, low_b: float, epsilon: float, delta: float, most: int = 2**30
) -> int | None:
    """K: the fewest rows, the one that changes included, that keep (epsilon, delta).

    None: not even `most` rows do.
    """

    def told(rows: int) -> bool:
        return divergence(rows, low_a, low_b, epsilon, delta) * SLACK > delta

    if low_a <= 0 or low_b <= 0:
        return None
    few, many = 0, 1
    while told(many):
        if many >= most:
            return None
        few, many = many, min(2 * many, most)
    return few + 1 + bisect_left(range(few + 1, many), True, key=lambda rows: not told(rows))


def divergence(rows: int, low_a: float, low_b: float, epsilon: float, delta: float) -> float:
    """The larger hockey-stick divergence of the counts, of a against b and of b against a."""
    share = min(low_a + low_b, 1.0)
    part = low_a / (low_a + low_b)
    if share == 1.0:
        return max(_sticks(rows - 1, part, epsilon))
    drawn, chances, lost = _window(rows - 1, share, delta * SURE)
    step = 1 + len(drawn) // FEW  # of many neighbours, the fewest rows stand for all
    pairs = np.array([_sticks(int(n), part, epsilon) for n in drawn[::step]])
    return float((chances @ np.repeat(pairs, step, axis=0)[: len(drawn)]).max()) + lost


@lru_cache(maxsize=2**16)
def _sticks(n: int, p: float, epsilon: float) -> tuple[float, float]:
    """With f the binomial law of n draws: sum of (f(k-1) - e^eps f(k))+ and the other way."""
    _, f, lost = _window(n, p, 1e-30)
    grow = math.exp(min(epsilon, LARGEST))
    one = np.append(f, 0.0)  # the count where the row that changes is not an a
    two = np.insert(f, 0, 0.0)  # where it is
    return (
        float(np.maximum(two - grow * one, 0.0).sum()) + lost,
        float(np.maximum(one - grow * two, 0.0).sum()) + lost,
    )


def _window(n: int, p: float, left_out: float) -> tuple[NDArray[np.int64], Any, float]:
    """The binomial law but for far tails: values, probabilities, what the tails may hold.

    Bernstein: |X - np| exceeds sqrt(2 v L) + L with probability at most 2 exp(-L).
    """
    from scipy.special import gammaln, xlog1py, xlogy

    left_out = max(left_out, SMALLEST)
    bits = math.log(2 / left_out)
    reach = math.sqrt(2 * n * p * (1 - p) * bits) + bits
    first, last = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    k = np.arange(first, last + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    lost = 0.0 if (first, last) == (0, n) else left_out
    return k, np.exp(ways + xlogy(k, p) + xlog1py(n - k, -p)), lost

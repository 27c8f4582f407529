"""Sums modulo q (Duan, 4.1): how many rows hide one another in a sum of which q is taken away.

If one of the others is uniform over 0 .. q - 1, so is the sum modulo q whatever the rest are, and
it tells nothing at all. Here each of the others takes every residue with probability at least
`low`, independently: with probability q low it is uniform. So but with probability
(1 - q low)^(K - 1) one of the K - 1 others is, and the sum is uniform up to that.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def smallest_crowd(q: int, low: float, epsilon: float) -> int | None:
    """K: the fewest rows, the one that changes included, that keep epsilon, with delta = 0.

    Of others that are not known, a share (1 - q low)^(K - 1) of the probability may lie anywhere
    and the rest is even over the q residues: no residue is more than
    (1 - r + q r) / (1 - r) times as likely as before, r = (1 - q low)^(K - 1). None: it never is.
    """
    even = min(q * low, 1.0)
    if q < 2 or even <= 0:
        return None
    if even == 1.0:
        return 2  # the other one is uniform: nothing is told
    # (1 - r + q r) / (1 - r) <= e^epsilon where r <= (e^epsilon - 1) / (e^epsilon - 1 + q)
    grow = math.expm1(min(epsilon, 700.0))
    return 1 + math.ceil(math.log(grow / (grow + q)) / math.log1p(-even) - 1e-12)


def law(q: int, chances: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """The law of the sum of so many rows modulo q, each with these chances of a residue."""
    found = np.zeros(q)
    found[0] = 1.0
    for _ in range(rows):
        found = np.array([sum(found[(s - v) % q] * chances[v] for v in range(q)) for s in range(q)])
    return found

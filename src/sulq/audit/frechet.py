"""The least probability of a set of combinations, whatever goes with whatever (Frechet's bounds).

Of each part of a row the owner bounds how likely its values are. The parts may depend on each
other in any way. If numbers u satisfy, for every combination x, sum over parts g of u[g, x_g] <= 1
where x is in the set and <= 0 elsewhere, then the set has at least the probability

    sum over g and v of u[g, v] * (low[g, v] if u[g, v] > 0 else high[g, v]),

and the best such u gives the least probability there can be (linear programming duality). The u
found in floats is checked against every combination, so that rounding can only lower the bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-9  # subtracted from what floats gave

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]  # low and high, one for each value


def least_probability(members: NDArray[np.bool_], ends: Sequence[Ends]) -> float:
    """How rare the set may be; `members` has an axis for each part, one place for each value."""
    kept = [i for i in range(len(ends)) if not _constant(members, i)]
    dropped = tuple(i for i in range(len(ends)) if i not in kept)
    inside = np.asarray(members.any(axis=dropped)) if dropped else members
    if inside.all():
        return 1.0
    if not inside.any():
        return 0.0
    low, high = (np.concatenate([ends[i][k] for i in kept]) for k in (0, 1))
    u = _best(inside, low, high)
    parts = np.split(u, np.cumsum(inside.shape)[:-1])
    reach = sum(np.ix_(*parts))  # the sum of u over the parts of every combination
    excess = float((reach - inside).max())
    bound = float(np.where(u > 0, u * low, u * high).sum()) - max(excess, 0.0)
    return max(0.0, bound - ROUNDING)


def _constant(members: NDArray[np.bool_], axis: int) -> bool:
    """Does this part say nothing about who is in the set?"""
    return bool((members == members.take([0], axis=axis)).all())


def _best(
    inside: NDArray[np.bool_], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The u of the largest bound; all zeros, which is always allowed, if none was found."""
    from scipy import sparse
    from scipy.optimize import linprog

    places = np.indices(inside.shape).reshape(inside.ndim, -1)
    starts = np.cumsum([0, *inside.shape[:-1]])
    columns = (places + starts[:, None]).T.reshape(-1)
    rows = np.repeat(np.arange(inside.size), inside.ndim)
    picks = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (inside.size, len(low)))
    found = linprog(
        np.concatenate([-low, high]),
        sparse.hstack([picks, -picks]),
        inside.reshape(-1).astype(float),
    )
    if found.x is None:
        return np.zeros(len(low))
    return np.asarray(found.x[: len(low)] - found.x[len(low) :])

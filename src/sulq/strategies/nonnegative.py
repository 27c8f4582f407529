"""Tables without negative cells that agree with each other, nearest to the noisy ones.

Dykstra's algorithm between two convex sets: tables that agree (a subspace: the parts of
residual_planner.py, averaged over the tables that have them) and tables without negative cells.
The nearest point is biased: small cells come out too high on average, since none is below zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sulq.strategies.residual_planner import Array, Axes, centred, subsets, table_of

ROUNDS = 200
CLOSE = 1e-4  # of an even cell: how far below zero the last round may leave one


def nonnegative(
    tables: Sequence[Axes], cells: Sequence[Array], sizes: Sequence[int],
    fixed: Mapping[Axes, Array],
) -> list[Array]:  # fmt: skip
    """The tables that agree, have the `fixed` parts and no cell below zero, nearest to these.

    The part over no axes, the total, is among the fixed ones.
    """
    total = float(fixed[()])
    if total <= 0:
        return [np.zeros_like(c) for c in cells]
    now = [np.array(c) for c in cells]
    kept = [np.zeros_like(c) for c in cells]  # what clipping took away, given back before the next
    for _ in range(ROUNDS):
        clipped = [np.maximum(c + k, 0.0) for c, k in zip(now, kept, strict=True)]
        kept = [c + k - x for c, k, x in zip(now, kept, clipped, strict=True)]
        now = agreed(tables, clipped, sizes, fixed)
        if all(float(c.min()) > -CLOSE * total / c.size for c in now):
            break
    return _lifted(now, [_even(t, sizes, fixed) for t in tables])


def agreed(
    tables: Sequence[Axes], cells: Sequence[Array], sizes: Sequence[int],
    fixed: Mapping[Axes, Array],
) -> list[Array]:  # fmt: skip
    """The nearest tables that agree with each other and have these parts."""
    sums: dict[Axes, Array] = {}
    counts: dict[Axes, float] = {}
    for table, found in zip(tables, cells, strict=True):
        inside = sorted(table)
        ordered = found.transpose([table.index(i) for i in inside])
        for part in subsets(table):
            others = tuple(k for k, i in enumerate(inside) if i not in part)
            weight = 1 / math.prod(sizes[inside[k]] for k in others)
            seen = weight * centred(ordered.sum(axis=others))
            sums[part] = sums[part] + seen if part in sums else seen
            counts[part] = counts.get(part, 0.0) + weight
    parts = {part: seen / counts[part] for part, seen in sums.items()} | dict(fixed)
    return [table_of(table, parts, sizes) for table in tables]


def _even(table: Axes, sizes: Sequence[int], fixed: Mapping[Axes, Array]) -> Array:
    """The table that has the fixed parts and says nothing else."""
    parts = {part: np.zeros([sizes[i] for i in part]) for part in subsets(table)}
    return table_of(table, parts | {p: x for p, x in fixed.items() if p in parts}, sizes)


def _lifted(cells: list[Array], even: list[Array]) -> list[Array]:
    """Moved towards the even tables, which agree too, until no cell is below zero."""
    share = 0.0
    for c, e in zip(cells, even, strict=True):
        low = (c < 0) & (e > 0)
        share = max(share, float(np.max(-c[low] / (e[low] - c[low]), initial=0.0)))
    return [np.maximum(c + share * (e - c), 0.0) for c, e in zip(cells, even, strict=True)]

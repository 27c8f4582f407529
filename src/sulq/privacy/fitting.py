"""How many queries suit a table: the most whose noise is no larger than what is wanted.

And what each choice comes to, as a table.

n is public, so the proposal may be too. It reads no row.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from sulq.errors import PromiseError
from sulq.privacy.promise import Promise
from sulq.privacy.promise_terms import whole_number

MOST = 10**9  # queries that are looked at
QUICK = ("gaussian", "laplace")  # kinds whose variance is a formula


def fitting_queries(rows: int, error: float | None = None, **promise: Any) -> int | None:
    """The most queries, 1 or more, whose counts are as exact as is wanted.

    `error` is the 95% half-width of a count as a share of all rows. Without it the noise stays
    below the sampling error of so many rows, sqrt(n)/2: more exact answers would say more about
    these rows than about the world. None if not even one query is, or for noise without a formula.
    """
    if error is not None and not 0 < error < math.inf:
        raise PromiseError(f"error={error!r}, want a share of the rows such as 0.05.")
    if promise.get("noise", "gaussian") not in QUICK or rows < 1:
        return None

    def fits(queries: int) -> bool:
        made = Promise(queries=queries, **promise)
        if error is None:
            return made.std <= math.sqrt(rows) / 2
        return made.half_width() <= error * rows

    if not fits(1):
        return None
    few, many = 1, 2
    while many <= MOST and fits(many):
        few, many = many, 2 * many
    return few + bisect_left(range(few + 1, many), True, key=lambda queries: not fits(queries))


def proposal(rows: int, promise: Promise) -> str:
    """What to choose instead, where one answer's error is larger than the table; else nothing."""
    if promise.half_width() <= rows:
        return ""
    names = ("epsilon", "delta", "noise", "guarantee")
    said: dict[str, Any] = {name: getattr(promise, name) for name in names}
    fits = fitting_queries(rows, **said)
    instead = (
        f"With epsilon={promise.epsilon:g}, {fits:,} {'query' if fits == 1 else 'queries'} in its "
        f"whole life would keep the noise below the sampling error."
        if fits
        else "Choose a larger epsilon, or more rows."
    )
    return (
        f"one count is off by up to {promise.half_width():,.0f}, more than the {rows:,} rows there "
        f"are. {instead}"
    )


def plan_table(
    rows: int,
    queries: Iterable[int],
    epsilons: Iterable[float],
    delta: float = 1e-6,
    noise: str = "gaussian",
    guarantee: str = "beliefs",
) -> list[dict[str, Any]]:
    """Return what each choice of T and epsilon buys, beside the sampling error of `rows`.

    Each line has queries, epsilon, variance (R), std, half_width (95%), sampling (sqrt(n)/2)
    and ratio (std/sampling: below 1, the noise is below the sampling error).
    """
    sampling, epsilons = math.sqrt(whole_number("rows", rows)) / 2, list(epsilons)
    promises = [Promise(e, delta, t, noise, guarantee) for t in queries for e in epsilons]
    return [
        {
            "queries": promise.queries,
            "epsilon": promise.epsilon,
            "variance": promise.variance,
            "std": promise.std,
            "half_width": promise.half_width(),
            "sampling": sampling,
            "ratio": promise.std / sampling,
        }
        for promise in promises
    ]

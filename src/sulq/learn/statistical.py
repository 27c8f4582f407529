"""Statistical queries (PODS 05, 4.5): shares of rows, each within tau with probability 1 - beta.

The paper averages R/(tau n^2) repeats of a query. Here one query is asked at the price of the
same error, and tau is an error, not a variance: with h the half-width of one query's noise at
1 - beta, that price is (h / tau n)^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from sulq.learn.arrays import Array
from sulq.learn.parameters import checked_share
from sulq.learn.task import MICRO

Cases = tuple[tuple[str, float], ...]  # predicates, one of them true, each with a value in [0, 1]
LEAST_BETA = 1e-14  # a float does not tell much less from 0
ONE_NOISE = ("binomial", "stitched")  # kinds of noise that cannot be bought finer


class StatisticalQueries:
    """Kearns' oracle on a database.

    The shares are those of the rows in the table. What they say of the world that the rows were
    drawn from has a sampling error of about 1 / sqrt(n) besides.
    """

    def __init__(self, db: sulq.Queryable) -> None:
        self.db = db

    def stat(self, predicate: str, tau: float, beta: float = 0.05) -> float:
        """The share of rows where the predicate is true."""
        return float(self.stats([predicate], tau, beta)[0])

    def stats(self, predicates: Sequence[str], tau: float, beta: float = 0.05) -> Array:
        """Several shares in one batch: with probability 1 - beta none is off by more than tau."""
        return np.clip(self.means(self.queries(predicates, tau, beta)), 0.0, 1.0)

    def price(self, predicates: str | Sequence[str], tau: float, beta: float = 0.05) -> sulq.Price:
        """The most that `stat` charges, or `stats` for a list. Nothing is spent."""
        listed = [predicates] if isinstance(predicates, str) else predicates
        return price_of(self.db, self.queries(listed, tau, beta))

    def repeats(self, tau: float, beta: float = 0.05) -> int:
        """How many whole queries the paper's STAT would ask for one such share."""
        reach = float(self.db.promise.half_width(_level(beta, 1))) / _rows(self.db, tau)
        return math.ceil(reach**2)

    # --- the queries behind it ----------------------------------------------------------

    def queries(
        self, functions: Sequence[str | Cases], tau: float, beta: float = 0.05
    ) -> list[sulq.Query]:
        """What is asked for the means of predicates, or of functions into [0, 1], within tau."""
        if isinstance(functions, str) or not functions:
            raise sulq.Refused(f"predicates={functions!r}, want a list such as ['age > 40'].")
        wanted, level = _rows(self.db, tau), _level(beta, len(functions))
        promise = self.db.promise
        if promise.noise not in ONE_NOISE:
            error = Fraction(wanted * promise.half_width(0.95) / promise.half_width(level))
            return [self.query(f, error) for f in functions]
        reach = promise.half_width(level)
        if reach > wanted:
            raise sulq.QueryNotAllowed(
                f"tau={tau!r}: {promise.noise} noise has one size. With beta={beta!r} a share is "
                f"within {reach / self.db.rows:.3g}."
            )
        return [self.query(f, None) for f in functions]

    def query(self, function: str | Cases, error: Fraction | None) -> sulq.Query:
        """A sum that `means` turns into a mean.

        Under dp a row that counts as -1/2 or 1/2 moves the sum half as far as one that counts
        as 0 or 1, which is a quarter of the price; n is public, so nothing is lost.
        """
        if isinstance(function, str):
            if not self._centre:
                return sulq.Query(where=function, error=error)
            function = ((f"({function})", 1.0), (f"NOT COALESCE(({function}), FALSE)", 0.0))
        # Without ELSE the case can be missing, so the price is that of values about 0.
        whens = " ".join(f"WHEN {p} THEN {value - self._centre!r}" for p, value in function)
        return sulq.Query((f"CASE {whens} END",), error=error)

    def means(self, queries: list[sulq.Query]) -> Array:
        """Ask all of them or none, and divide by n, which is public."""
        answers = self.db.ask(queries)
        sums = np.array([answer.value for answer in answers])
        return np.asarray(self._centre + sums / max(self.db.rows, 1))

    def tau(self, query: sulq.Query, beta: float = 0.05) -> float:
        """What the mean of one of these queries is within, with probability 1 - beta."""
        promise = self.db.promise
        wider = promise.half_width(_level(beta, 1)) / promise.half_width(0.95)
        return float(self.db.price(query).half_widths[0] * wider / max(self.db.rows, 1))

    @property
    def _centre(self) -> float:
        promise = self.db.promise
        return 0.5 if promise.guarantee == "dp" and promise.noise not in ONE_NOISE else 0.0


def rows_needed(
    taus: Sequence[float], promise: sulq.Promise, beta: float = 0.05, queries: float | None = None
) -> int:
    """The rows with which all these statistical queries fit into T queries (Theorem 5, mended).

    With probability 1 - beta all q answers are within their tau. h is the half-width of one
    query at 1 - beta/q, half of that under dp, and T is the promise's `queries` or those given:

        gaussian  n^2 >= h^2 / T * sum 1/tau^2      laplace  n >= h / T * sum 1/tau

    The paper's T - q, for repeats rounded up to whole queries, is T here: prices are fractions.
    """
    q = len(taus)
    if not q:
        raise sulq.Refused("taus: give the accuracy of at least one statistical query.")
    total = float(promise.queries if queries is None else queries)
    h = promise.half_width(_level(beta, q))
    if promise.noise in ONE_NOISE:
        if q > total:
            raise sulq.Refused(f"{q} statistical queries need {q} queries, there are {total:g}.")
        return math.ceil(h / min(checked_share("tau", tau) for tau in taus))
    h = h / 2 if promise.guarantee == "dp" else h
    power = 1 if promise.noise == "laplace" else 2
    spent = sum(checked_share("tau", tau) ** -power for tau in taus)
    left = total - q / MICRO  # a price is rounded up to a millionth
    if not left > 0:
        raise sulq.Refused(f"queries={queries!r}, want more than {q / MICRO:g}.")
    return math.ceil(h * math.pow(spent / left, 1 / power))


def price_of(db: sulq.Queryable, queries: Sequence[sulq.Query]) -> sulq.Price:
    """What these cost when each is asked by itself; equal ones are paid once."""
    return sum((db.price(query) for query in dict.fromkeys(queries)), sulq.Price(0))


def _rows(db: sulq.Queryable, tau: Any) -> float:
    """tau in rows."""
    n = max(db.rows, 1)
    if not checked_share("tau", tau) * n >= 1:
        raise sulq.Refused(f"tau={tau!r} is less than one of {n:,} rows: want {1 / n:.3g} or more.")
    return float(tau * n)


def _level(beta: Any, count: int) -> float:
    """How sure to be of each of so many, to be sure of all of them but for beta."""
    each = checked_share("beta", beta) / count
    if each < LEAST_BETA:
        raise sulq.Refused(f"beta={beta!r} over {count} queries, want {LEAST_BETA * count:g}.")
    return 1 - each

"""Statistical queries (PODS 05, 4.5): shares of rows, each within tau with probability 1 - beta.

The paper averages R/(tau n^2) repeats of a query. Here one query is asked at the price of the
same error, and tau is an error, not a variance: with h the half-width of one query's noise at
1 - beta, that price is (h / tau n)^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import sulq
from sulq.learn.arrays import Array, Column, boolean_columns
from sulq.learn.base import Classifier
from sulq.learn.model_pictures import Drawn
from sulq.learn.parameters import About, checked_share, parameter
from sulq.learn.perceptron import tests_of
from sulq.learn.task import MICRO, NOBODY, LeftOut, Task, conjoined, equals, noise_std

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
    """The price of these when each is asked by itself; equal ones are paid once."""
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


# ---- a hidden conjunction (Kearns) ----------------------------------------------------------
# A literal of the target is never false where the label is true. So ask for every literal how
# often that happens, and keep those where it happens hardly ever: what the target has is kept, and
# what is kept besides is wrong on few rows.


class Literal(NamedTuple):
    """column = value, or column <> value."""

    column: str
    value: Any
    equal: bool

    def __str__(self) -> str:
        return equals(self.column, self.value, self.equal)

    def holds(self, column: Any) -> Any:
        """Where it is true; of a missing value nothing is true."""
        known = np.array([v is not None for v in column], dtype=bool)
        same = np.array([v == self.value for v in column], dtype=bool)
        return known & (same if self.equal else ~same)


@dataclass(kw_only=True, eq=False, repr=False)
class ConjunctionLearner(Drawn, Classifier):
    """Finds the conjunction of literals that the label is.

    Columns are Booleans or have listed values; their literals are `x` and `NOT x`, or `c = v` and
    `c <> v` for every value. If the label is a conjunction of them, then with probability
    1 - beta the one found differs from it on at most `max_error` of the rows, and each of m
    literals is asked within max_error / 2m. With a `budget` they are asked as exactly as it buys.

    `label_noise` is the known share of labels that were flipped by chance, below 1/2: the same
    number of queries, each for (literal false) * (label - label_noise), finds it all the same.

    Shares are of all rows. Those with a missing value or label are left out: they make no literal
    false. One more query counts them where there can be any. `fit(X, y)` takes X of zeros and
    ones, anything else is missing, and needs `classes` unless y is an array of Booleans.

    literals_ are those kept of tested_, shares_ for each tested literal the share of rows in which
    it is false and the label true, conjunction_ the SQL predicate they make, tau_ how closely each
    share is known, error_bound_ on how many rows it can differ from the label (before noise).
    """

    about = About(
        "conjunction", "The conjunction that a label is, from one statistical query per literal.",
        "--columns smoker,region --label disease --out rule.json",
    )  # fmt: skip

    max_error: float = parameter(0.05, "The share of rows it may get wrong.", low=0, high=1)
    beta: float = parameter(0.05, "Except with this probability.", low=0, high=1)
    label_noise: float = parameter(0.0, "The known share of false labels.", low=0, high=0.5)

    @staticmethod
    def _usable(column: Any) -> bool:
        return bool(column.listed)

    def _price(self, task: Task) -> sulq.Price:
        return price_of(task.db, self._queries(task))

    def _fit(self, task: Task) -> None:
        db, columns = task.db, task.columns
        literals, oracle = literals_of(db, columns), StatisticalQueries(db)
        queries = self._queries(task)
        scale = 1 - 2 * self.label_noise
        self.tau_ = oracle.tau(queries[0], self._beta / len(queries)) / scale
        allowed = self.tau_ + self._by_chance(len(literals), db.rows) / scale
        # E[(literal false) (label - noise)] = (1 - 2 noise) P(literal false, label before noise)
        means = oracle.means(queries)
        self._leave_out(NOBODY)
        if len(queries) > len(literals):
            rows = db.rows * (1 - float(means[-1]))
            self._leave_out(LeftOut(rows, noise_std(db, db.price(queries[-1]))))
        shares = (means[: len(literals)] - self.label_noise) / scale
        kept = shares <= allowed
        self.tested_, self.shares_ = tuple(map(str, literals)), shares
        self.literals_ = tuple(t for t, keep in zip(literals, kept, strict=True) if keep)
        self.conjunction_ = " AND ".join(map(str, self.literals_)) or "TRUE"
        self.error_bound_ = min(1.0, float((np.maximum(shares[kept], 0.0) + allowed).sum()))
        self.classes_ = task.classes
        self._use(task)
        self.values_ = tuple(tuple(db.schema[name].listed or ()) for name in columns)

    def _queries(self, task: Task) -> list[sulq.Query]:
        """For every literal, how often it is false where the label is true; then the rows used."""
        tests, known = tests_of(task), task.known
        if len(tests) != 1:
            raise sulq.QueryNotAllowed(
                f"label={task.label!r}: want a Boolean, or two listed values."
            )
        literals = literals_of(task.db, task.columns)
        functions = [self._function(str(t), tests[0], known) for t in literals]
        functions += [known] if known else []
        oracle = StatisticalQueries(task.db)
        if task.budget is None:
            tau = self.max_error * (1 - 2 * self.label_noise) / (2 * len(literals))
            return oracle.queries(functions, tau, self._beta)
        return task.finest([oracle.query(f, None) for f in functions])

    def _function(self, text: str, test: str, known: str | None) -> str | Cases:
        """A predicate, or with label noise (literal false) * (label - noise) + noise."""
        false = conjoined(known, f"NOT COALESCE({text}, FALSE)")
        if not self.label_noise:
            return f"{false} AND {test}"
        # 1 and 0 where the literal is false, and the noise where it is not.
        return (
            (f"{false} AND {test}", 1.0),
            (f"{false} AND NOT {test}", 0.0),
            (f"NOT ({false})", self.label_noise),
        )

    @property
    def _beta(self) -> float:
        """Flipped labels may mislead too: then half of beta is for them."""
        return self.beta / 2 if self.label_noise else self.beta

    def _by_chance(self, m: int, n: int) -> float:
        """How far flipping labels can move a share: Hoeffding's bound for m of them at once."""
        if not self.label_noise:
            return 0.0
        return math.sqrt(math.log(m / self._beta) / (2 * max(n, 1)))

    def _inputs(self, X: Any) -> dict[str, Column]:
        """X of zeros and ones as Boolean columns."""
        return boolean_columns(X)

    # --- using it -----------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """The class of each row: Booleans as True and False or 1 and 0, categories by name."""
        self._check_fitted()
        rows = self._rows(X)
        parts = map(declared, self.columns_, rows.T, self.values_)
        held = dict(zip(self.columns_, parts, strict=True))
        found = np.ones(len(rows), dtype=bool)
        for name, value, equal in self.literals_:
            found &= Literal(name, value, equal).holds(held[name])
        return self.classes_[found.astype(int)]

    def _words(self) -> str:
        bound = f"wrong on at most {self.error_bound_:.2%} of the rows if it is a conjunction"
        return f"{self.classes_[1]} where {self.conjunction_}  ({bound})"


def literals_of(db: sulq.Queryable, columns: tuple[str, ...]) -> list[Literal]:
    """Everything a conjunction can say of these columns."""
    out = []
    for name in columns:
        column = db.schema.get(name)
        if column is None or not column.listed:
            raise sulq.QueryNotAllowed(
                f"columns: {name!r} is neither Boolean nor a column with listed values."
            )
        # Of two values, not being the one is being the other.
        ways = (True,) if len(column.listed) <= 2 else (True, False)
        out += [Literal(name, value, equal) for value in column.listed for equal in ways]
    return out


def declared(name: str, column: Any, values: tuple[Any, ...]) -> list[Any]:
    """What the analyst holds of a column as its declared values, None where it is missing."""
    known = {text: v for v in values for text in (str(v), str(v).lower()) if text not in values}
    known |= {v: v for v in values}  # 1 and 0 are True and False
    out = []
    for v in column:
        missing = v is None or v != v
        if not missing and v not in known:
            raise sulq.Refused(
                f"X: {v!r} is no declared value of {name!r}: {', '.join(map(str, values))}."
            )
        out.append(None if missing else known[v])
    return out

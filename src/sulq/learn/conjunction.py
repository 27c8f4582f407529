"""Kearns' learner of a hidden conjunction, from statistical queries alone (PODS 05, 4.5).

A literal of the target is never false where the label is true. So ask for every literal how
often that happens, and keep those where it happens hardly ever: what the target has is kept, and
what is kept besides is wrong on few rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import sulq

from .base import Learner, all_within, as_matrix
from .perceptron import classes_of, labels, literal, quoted, tests_of
from .statistical import Cases, StatisticalQueries, price_of


class Literal(NamedTuple):
    """column = value, or column <> value."""

    column: str
    value: Any
    equal: bool

    def __str__(self) -> str:
        name = quoted(self.column)
        if isinstance(self.value, bool):
            return name if self.value == self.equal else f"NOT {name}"
        return f"{name} {'=' if self.equal else '<>'} {literal(self.value)}"

    def holds(self, column: Any) -> Any:
        """Where it is true; of a missing value nothing is true."""
        known = np.array([v is not None for v in column], dtype=bool)
        same = np.array([v == self.value for v in column], dtype=bool)
        return known & (same if self.equal else ~same)


class ConjunctionLearner(Learner):
    """Finds the conjunction of literals that the label is.

    Columns are Booleans or have listed values; their literals are `x` and `NOT x`, or `c = v` and
    `c <> v` for every value. If the label is a conjunction of them, then with probability
    1 - beta the one found differs from it on at most `max_error` of the rows, and each of m
    literals is asked within max_error / 2m. With a `budget` they are asked as exactly as it buys.

    `label_noise` is the known share of labels that were flipped by chance, below 1/2: the same
    number of queries, each for (literal false) * (label - label_noise), finds it all the same.

    literals_ are those kept, conjunction_ the SQL predicate they make, tau_ what each share was
    known within, error_bound_ on how many rows it can differ from the label (before noise).
    """

    estimator_type = "classifier"

    def __init__(
        self,
        *,
        max_error: float = 0.05,
        beta: float = 0.05,
        label_noise: float = 0.0,
        budget: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        guarantee: str = "beliefs",
    ) -> None:
        self.max_error = max_error
        self.beta = beta
        self.label_noise = label_noise
        self.budget = budget
        self.epsilon = epsilon
        self.delta = delta
        self.guarantee = guarantee

    def _columns(self, db: Any, columns: Any, label: str | None) -> tuple[str, ...]:
        """The columns asked for, or every one whose values are listed but the label and keys."""
        if columns is not None:
            return super()._columns(db, columns, label)
        return tuple(
            c.name for c in db.schema.columns if c.listed and c.name != label and not c.key
        )

    def _price(
        self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any
    ) -> sulq.Price:
        return price_of(db, self._queries(db, columns, label, budget))

    def _fit(self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any) -> None:
        literals, oracle = literals_of(db, columns), StatisticalQueries(db)
        queries = self._queries(db, columns, label, budget)
        scale = 1 - 2 * self.label_noise
        self.tau_ = oracle.tau(queries[0], self._beta / len(literals)) / scale
        allowed = self.tau_ + self._by_chance(len(literals), db.rows) / scale
        # E[(literal false) (label - noise)] = (1 - 2 noise) P(literal false, label before noise)
        shares = (oracle.means(queries) - self.label_noise) / scale
        kept = shares <= allowed
        self.literals_ = tuple(t for t, keep in zip(literals, kept, strict=True) if keep)
        self.conjunction_ = " AND ".join(map(str, self.literals_)) or "TRUE"
        self.error_bound_ = min(1.0, float((np.maximum(shares[kept], 0.0) + allowed).sum()))
        self.classes_ = classes_of(db, label)
        self.columns_, self.n_features_in_ = columns, len(columns)
        self.values_ = tuple(tuple(db.schema.get(name).listed) for name in columns)

    def _queries(
        self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any
    ) -> list[sulq.Query]:
        """For every literal, how often it is false where the label is true."""
        self._check()
        test = self._test(db, label)
        functions = [self._function(str(t), test) for t in literals_of(db, columns)]
        oracle = StatisticalQueries(db)
        if budget is None:
            tau = self.max_error * (1 - 2 * self.label_noise) / (2 * len(functions))
            return oracle.queries(functions, tau, self._beta)
        return all_within(db, [oracle.query(f, None) for f in functions], budget)

    def _function(self, text: str, test: str) -> str | Cases:
        """A predicate, or with label noise (literal false) * (label - noise) + noise."""
        false = f"NOT COALESCE({text}, FALSE)"
        if not self.label_noise:
            return f"{false} AND {test}"
        # 1 and 0 where the literal is false, and the noise where it is not.
        return (
            (f"{false} AND {test}", 1.0),
            (f"{false} AND NOT {test}", 0.0),
            (f"COALESCE({text}, FALSE)", self.label_noise),
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

    def _check(self) -> None:
        for name, high in (("max_error", 1), ("beta", 1), ("label_noise", 0.5)):
            value = getattr(self, name)
            least = name == "label_noise" and value == 0
            if isinstance(value, bool) or not (least or 0 < value < high):
                raise sulq.Refused(f"{name}={value!r}, want a number between 0 and {high}.")

    def _test(self, db: Any, label: str | None) -> str:
        tests = tests_of(db, label)
        if len(tests) != 1:
            raise sulq.QueryNotAllowed(f"label={label!r}: want a Boolean, or two listed values.")
        return tests[0]

    def _inputs(self, X: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """X of zeros and ones as Boolean columns."""
        rows = as_matrix(X)
        if not np.isin(rows[~np.isnan(rows)], (0.0, 1.0)).all():
            raise sulq.Refused("X: want zeros and ones, or NaN. Categories need a database.")
        names = [f"x{i}" for i in range(rows.shape[1])]
        held = [[None if np.isnan(v) else bool(v) for v in column] for column in rows.T]
        return dict(zip(names, held, strict=True)), {n: {"type": "boolean"} for n in names}

    def _target(self, y: Any) -> tuple[Any, dict[str, Any]]:
        return labels(y)

    # --- using it -----------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """The class of each row: Booleans as True and False or 1 and 0, categories by name."""
        self._check_fitted()
        rows = np.array(X, dtype=object)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise sulq.Refused(
                f"X has shape {rows.shape}, want rows with the model's columns: "
                f"{', '.join(self.columns_)}."
            )
        parts = map(declared, self.columns_, rows.T, self.values_)
        held = dict(zip(self.columns_, parts, strict=True))
        found = np.ones(len(rows), dtype=bool)
        for name, value, equal in self.literals_:
            found &= Literal(name, value, equal).holds(held[name])
        return self.classes_[found.astype(int)]

    def summary(self) -> str:
        """The conjunction, and how often it can be wrong."""
        self._check_fitted()
        bound = f"wrong on at most {self.error_bound_:.2%} of the rows if it is a conjunction"
        return f"{self.classes_[1]} where {self.conjunction_}  ({bound})"

    def score(self, X: Any, y: Any) -> float:
        """The share of rows the analyst holds that are classified as y says."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


def literals_of(db: Any, columns: tuple[str, ...]) -> list[Literal]:
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

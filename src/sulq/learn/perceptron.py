"""The perceptron (PODS 05, 4.3): rounds that add a noisy average of misclassified rows.

A row scaled to [0, 1] and centred is y, its vector (y, 1/2) with 1/2 for the bias, its label
+1 or -1. A round asks, by side of the hyperplane and by label, for counts and sums: one query.
From the two misclassified cells come their count s and the sum u of vector times label. The
paper adds u / s, always a step of full length, and w swings to and fro where few rows are wrong;
u / n, with n all rows, is the same direction, settles, and has s/n of the noise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

import sulq

from .base import MICRO, WELL_ABOVE, Array, Learner, bounds_of, check_budget, within
from .moments import CENTRE, count_and_sum_weights

BIAS = 0.5  # the constant coordinate, as long as a column can be
NEGATIVE, POSITIVE = 0, 1


class Perceptron(Learner):
    """A linear threshold, or one per class against the rest, from noisy sums.

    The label is a Boolean column or one with listed values. `max_iter` rounds share `budget`;
    each class pays its own rounds, two classes need one threshold. A class stops when its
    count of misclassified rows is no longer well above the noise, and pays no more.
    step="damped" adds u / n each round, step="paper" u / s.

    coef_ and intercept_ are in own units: the last weights where a class stopped, else those
    of the second half of its rounds averaged. n_iter_ holds the rounds of each threshold,
    misclassified_ the noisy count it ended with.
    """

    estimator_type = "classifier"

    def __init__(
        self,
        *,
        max_iter: int = 20,
        step: str = "damped",
        fit_intercept: bool = True,
        row_norm: float | None = None,
        budget: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        guarantee: str = "beliefs",
        bounds: Any = (0.0, 1.0),
    ) -> None:
        self.max_iter = max_iter
        self.step = step
        self.fit_intercept = fit_intercept
        self.row_norm = row_norm
        self.budget = budget
        self.epsilon = epsilon
        self.delta = delta
        self.guarantee = guarantee
        self.bounds = bounds

    def rounds_needed(self, columns: int, margin: float) -> int:
        """Theorem 3: rounds enough for rows that some unit vector separates by `margin`.

        32 max|d|^2 / margin^2, in columns scaled to [0, 1] about 1/2.
        """
        if not margin > 0:
            raise sulq.Refused(f"margin={margin!r}, want a positive number.")
        longest2 = columns / 4 if self.row_norm is None else min(self.row_norm**2, columns / 4)
        return math.ceil(32 * (longest2 + BIAS**2 * self.fit_intercept) / margin**2)

    def _price(
        self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any
    ) -> sulq.Price:
        rounds = self.max_iter
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
            raise sulq.Refused(f"max_iter={rounds!r}, want 1 or more.")
        if self.step not in ("damped", "paper"):
            raise sulq.Refused(f"step={self.step!r}, want 'damped' or 'paper'.")
        tests = tests_of(db, label)
        one = self._query(db, columns, tests[0], np.zeros(len(columns) + 1))
        if budget is None:
            return sulq.Price(rounds * len(tests) * db.price(one).micro)
        within(db, one, Fraction(budget) / (rounds * len(tests)))  # refuses what cannot be
        return sulq.Price(int(Fraction(budget) * MICRO))

    def _fit(self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any) -> None:
        price = self._price(db, columns, label, budget)
        check_budget(db, price)
        walks = [Walk(test, len(columns), self.fit_intercept) for test in tests_of(db, label)]
        share = price.queries / (self.max_iter * len(walks))
        with self._steps(db, self.max_iter) as steps:
            for _ in range(self.max_iter):
                active = [walk for walk in walks if not walk.done]
                if not active:
                    break
                asked = [self._query(db, columns, walk.test, walk.w) for walk in active]
                answers = db.ask([within(db, query, share) for query in asked])
                for walk, answer in zip(active, answers, strict=True):
                    walk.go(answer, max(db.rows, 1) if self.step == "damped" else None)
                steps.step()
        self._scale(db, columns)
        self.classes_ = classes_of(db, label)
        self.n_iter_ = np.array([len(walk.path) - 1 for walk in walks])
        self.misclassified_ = np.array([walk.wrong for walk in walks])
        self._settle(np.array([walk.result for walk in walks]))

    def _query(self, db: Any, columns: tuple[str, ...], test: str, w: Array) -> sulq.Query:
        """Counts and sums by side of w and by label."""
        a, b = count_and_sum_weights(len(columns), db.promise.guarantee, self.row_norm)
        weights = (Fraction(a), Fraction(b))
        if getattr(db, "pricing", "geometry") == "paper":
            return self._paper_query(db, columns, test, w, weights)
        # w . (x - 1/2) + bias/2 > 0, written for x.
        bias = float(w[-1] * BIAS - w[:-1].sum() * CENTRE)
        by = (sulq.Side(columns, tuple(w[:-1].tolist()), bias), test)
        return sulq.Query(sulq.Sums(columns, CENTRE, self.row_norm), by=by, weights=weights)

    def _paper_query(
        self, db: Any, columns: tuple[str, ...], test: str, w: Array, weights: tuple[Any, Any]
    ) -> sulq.Query:
        """As the paper counts: s, and the sum of label times row, over misclassified rows alone."""
        low, width = bounds_of(db.schema, columns)
        ends = zip(columns, low.tolist(), (low + width).tolist(), strict=True)
        signed = [f"CASE WHEN {test} THEN {n} ELSE {a + b!r} - {n} END" for n, a, b in (
            (quoted(c), a, b) for c, a, b in ends)]  # fmt: skip
        if self.fit_intercept:
            signed.append(f"CASE WHEN {test} THEN 1 ELSE 0 END")
        values = sulq.Sums(tuple(signed), CENTRE, self.row_norm)
        if not w.any():  # <d, 0> <= 0: everything is misclassified
            return sulq.Query(values, weights=weights)
        middle = low + CENTRE * width
        slope = w[:-1] / width
        terms = [
            f"{s!r} * COALESCE({quoted(c)}, {m!r})"
            for c, s, m in zip(columns, slope.tolist(), middle.tolist(), strict=True)
        ]
        level = float(w[-1] * BIAS - slope @ middle)
        side = f"{' + '.join(terms)} > {-level!r}"
        return sulq.Query(values, where=f"({side}) <> ({test})", weights=weights)

    def _settle(self, w: Array) -> None:
        """Weights of unit length, put into own units."""
        length = np.linalg.norm(w, axis=1, keepdims=True)
        w = w / np.where(length == 0, 1.0, length)
        self.coef_ = w[:, :-1] / self.width_
        middle = self.low_ + CENTRE * self.width_
        self.intercept_ = w[:, -1] * BIAS - self.coef_ @ middle

    def _target(self, y: Any) -> tuple[Any, dict[str, Any]]:
        return labels(y)

    # --- using it -----------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Signed distances in scaled columns: one per row, or one per row and class."""
        scores = self._own(self._unit(X)) @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 0] if len(self.coef_) == 1 else scores)

    def predict(self, X: Any) -> Any:
        """The class of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def summary(self) -> str:
        """Each threshold: its weights, its rounds and how many rows it ended up wrong about."""
        self._check_fitted()
        lines = []
        for i, (w, bias) in enumerate(zip(self.coef_, self.intercept_, strict=True)):
            terms = " ".join(f"{x:+.3g} {c}" for x, c in zip(w, self.columns_, strict=True))
            said = f"{self.n_iter_[i]} rounds, about {self.misclassified_[i]:,.0f} rows wrong"
            name = self.classes_[i if len(self.coef_) > 1 else 1]
            lines.append(f"{name} where {terms} {bias:+.3g} > 0  ({said})")
        return "\n".join(lines)

    def score(self, X: Any, y: Any) -> float:
        """The share of rows the analyst holds that are classified as y says."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


class Walk:
    """One threshold on its way: every w so far, and what was counted."""

    def __init__(self, test: str, columns: int, fit_intercept: bool) -> None:
        self.test = test
        self.fit_intercept = fit_intercept
        self.path = [np.zeros(columns + 1)]
        self.wrong = math.inf
        self.done = False
        self.labelled = np.zeros((2, columns + 1))  # count and sum of each label, over the rounds
        self.asked = 0

    @property
    def w(self) -> Array:
        """Where it is now."""
        return self.path[-1]

    @property
    def result(self) -> Array:
        """The last w if it stopped by the rule, else the average over the second half."""
        if self.done:
            return self.w
        return np.asarray(np.mean(self.path[len(self.path) // 2 :], axis=0))

    def go(self, answer: Any, n: int | None) -> None:
        """Add the misclassified rows over n or over s; stop where there are too few to tell."""
        s, u, share = self._alone(answer) if len(answer.values) == 1 else self._by_side(answer)
        self.wrong = s
        if s <= WELL_ABOVE * answer.stds[0][0] * math.sqrt(share):
            self.done = True
            return
        self.path.append(self.w + u / (n or s))

    def _alone(self, answer: Any) -> tuple[float, Array, float]:
        """s and u as the paper asks for them, and the variance of s over R."""
        s, *u = answer.values[0]
        return float(s), np.array(u if self.fit_intercept else [*u, 0.0]), 1.0

    def _by_side(self, answer: Any) -> tuple[float, Array, float]:
        """The same from counts and sums by side and label."""
        cells = answer.values.reshape(2, 2, -1)  # side x label x (count, sum of y)
        wrong, share = self._misclassified(cells)
        count, *y = wrong[POSITIVE] - wrong[NEGATIVE]
        u = np.array([*y, BIAS * count * self.fit_intercept])
        return float(wrong[NEGATIVE, 0] + wrong[POSITIVE, 0]), u, 2 * share

    def _misclassified(self, cells: Array) -> tuple[Array, float]:
        """Count and sum of the misclassified rows of each label, and their noise's share of R.

        The rows of a label are the same in every round, so what earlier rounds said of them
        corrects this one: wrong = labelled - right, known with the same noise again.
        """
        side = np.array([1, 0])  # the wrong side for a negative row is 1
        wrong, right = cells[side, [0, 1]], cells[1 - side, [0, 1]]
        if not self.w.any():  # <d, 0> <= 0: everything is misclassified
            wrong, right = wrong + right, 0 * right
            self._remember(wrong)
            return wrong, 2.0
        known = self.asked / (self.asked + 1) / 2
        corrected = wrong + known * (self.labelled / self.asked - wrong - right)
        self._remember(wrong + right)
        return corrected, 1.0 - known

    def _remember(self, labelled: Array) -> None:
        self.labelled = self.labelled + labelled
        self.asked += 1


def tests_of(db: Any, label: str | None) -> list[str]:
    """For each threshold the SQL predicate of its class; two classes need only the second."""
    classes = classes_of(db, label)
    name = quoted(str(label))
    if classes.dtype == bool:
        return [f"COALESCE({name}, FALSE)"]
    tests = [f"COALESCE({name} = {literal(value)}, FALSE)" for value in classes.tolist()]
    return tests[1:] if len(tests) == 2 else tests


def labels(y: Any) -> tuple[Any, dict[str, Any]]:
    """An array's classes as a column and its declaration."""
    if y is None:
        raise sulq.Refused("y: give a label for each row.")
    given = np.asarray(y)
    if given.dtype == bool:
        return given, {"type": "boolean", "nullable": False}
    given = given.astype(str) if given.dtype.kind == "O" else given
    return given, {"values": np.unique(given).tolist()}


def classes_of(db: Any, label: str | None) -> Any:
    """What the owner declared that the label can be."""
    column = db.schema.get(label) if label is not None else None
    if column is None or column.listed is None or len(column.listed) < 2:
        raise sulq.QueryNotAllowed(
            f"label={label!r}: want a Boolean column, or one with two or more listed values."
        )
    return np.array(column.listed)


def quoted(name: str) -> str:
    """A column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A constant in SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)

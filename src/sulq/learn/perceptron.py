"""The perceptron (PODS 05, 4.3): rounds that add a noisy average of misclassified rows.

A row scaled to [0, 1] and centred is y, its vector (y, 1/2) with 1/2 for the bias, its label
+1 or -1. A round asks, by side of the hyperplane and by label, for counts and sums: one query.
From the two misclassified cells come their count s and the sum u of vector times label. The
paper adds u / s, always a step of full length, and w swings to and fro where few rows are wrong;
u / n, with n all rows, is the same direction, settles, and has s/n of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from sulq.expressions.quoting import quote
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, ROW_NORM, WELL_ABOVE, Classifier
from sulq.learn.parameters import About, parameter
from sulq.learn.second_moments import CENTRE, count_and_sum_weights, longest2
from sulq.learn.task import NOBODY, LeftOut, Task, conjoined, equals, within

STEP = "How far a round moves: damped, or as the paper has it."
BIAS = 0.5  # the constant coordinate, as long as a column can be
NEGATIVE, POSITIVE = 0, 1


@dataclass(kw_only=True, eq=False, repr=False)
class Perceptron(Classifier):
    """A linear threshold, or one per class against the rest, from noisy sums.

    The label is a Boolean column or one with listed values; `fit(X, y)` needs `classes`, what y can
    be, unless y is an array of Booleans. `max_iter` rounds share `budget`;
    each class pays its own rounds, two classes need one threshold. A class stops when its
    count of misclassified rows is no longer well above the noise, and pays no more.
    step="damped" adds u / n each round, step="paper" u / s. w0 is where the first round begins,
    coefficients and then the intercept in own units, a row for each threshold; by default at 0.

    coef_ and intercept_ are in own units: the last weights where a class stopped, else those
    of the second half of its rounds averaged. n_iter_ holds the rounds of each threshold,
    misclassified_ the noisy count it ended with.
    """

    about = About(
        "perceptron", "A linear threshold between classes, from rounds of noisy sums.",
        "--columns age,income --label smoker --out smokers.json", "Perceptron", "class",
    )  # fmt: skip

    max_iter: int = parameter(20, "The most rounds.", low=1, words="Rounds", first=20, most=200)
    step: str = parameter("damped", STEP, choices=("damped", "paper"))
    fit_intercept: bool = parameter(True, "A threshold away from the middle, or through it.")
    row_norm: float | None = parameter(None, ROW_NORM, low=0, above=True)
    w0: Any = parameter(None, "Where to begin: coefficients and the intercept, in own units.")
    bounds: Any = parameter(None, BOUNDS)

    def rounds_needed(self, columns: int, margin: float) -> int:
        """Theorem 3: rounds enough for rows that some unit vector separates by `margin`.

        32 max|d|^2 / margin^2, in columns scaled to [0, 1] about 1/2.
        """
        if not margin > 0:
            raise sulq.Refused(f"margin={margin!r}, want a positive number.")
        longest = longest2(columns, self.row_norm) + BIAS**2 * self.fit_intercept
        return math.ceil(32 * longest / margin**2)

    def _price(self, task: Task) -> sulq.Price:
        tests = tests_of(task)
        self._starts(task, len(tests))  # refuses what cannot be
        one = self._query(task, tests[0], np.zeros(len(task.columns) + 1))
        asked = self.max_iter * len(tests)
        natural = sulq.Price(asked * task.db.price(one).micro)
        return task.most(natural, [one], Fraction(1, asked))

    def _fit(self, task: Task) -> None:
        price, db = self._price(task), task.db
        task.check(price)
        public = None if task.known else max(db.rows, 1)
        tests = tests_of(task)
        starts = self._starts(task, len(tests))
        walks = [
            Walk(test, start, self.fit_intercept, public)
            for test, start in zip(tests, starts, strict=True)
        ]
        share = price.queries / (self.max_iter * len(walks))
        with self._steps(db, self.max_iter) as steps:
            for _ in range(self.max_iter):
                active = [walk for walk in walks if not walk.done]
                if not active:
                    break
                asked = [self._query(task, walk.test, walk.w) for walk in active]
                answers = db.ask([within(db, query, share) for query in asked])
                for walk, answer in zip(active, answers, strict=True):
                    walk.go(answer, damped=self.step == "damped")
                steps.step()
        self._scale(task)
        self.classes_ = task.classes
        self.n_iter_ = np.array([len(walk.path) - 1 for walk in walks])
        self.misclassified_ = np.array([walk.wrong for walk in walks])
        self._leave_out(NOBODY if public else left_out_of(walks, db.rows))
        self._settle(np.array([walk.result for walk in walks]))

    def _starts(self, task: Task, thresholds: int) -> Array:
        """The first w of each threshold, in scaled columns."""
        shape = thresholds, len(task.columns) + 1
        if self.w0 is None:
            return np.zeros(shape)
        given = np.atleast_2d(np.asarray(self.w0, dtype=np.float64))
        if given.shape != shape or not np.isfinite(given).all():
            raise sulq.Refused(f"w0 has shape {given.shape}, want finite numbers of shape {shape}.")
        if task.db.pricing == "paper" and task.known:
            raise sulq.Refused("w0: where values may be missing, the paper's count starts at 0.")
        low, width = task.bounds
        slope, level = given[:, :-1], given[:, -1] + given[:, :-1] @ (low + CENTRE * width)
        return np.column_stack([slope * width, level / BIAS * self.fit_intercept])

    def _query(self, task: Task, test: str, w: Array) -> sulq.Query:
        """Counts and sums by side of w and by label, of rows that have one."""
        columns, known = task.columns, task.labelled
        weights = count_and_sum_weights(len(columns), task.db.promise.guarantee, self.row_norm)
        if task.db.pricing == "paper":
            values, where = self._paper_query(task, test, w)
            return sulq.Query(values, where=conjoined(where, known), weights=weights)
        # w . (x - 1/2) + bias/2 > 0, written for x.
        bias = float(w[-1] * BIAS - w[:-1].sum() * CENTRE)
        by = (sulq.Side(columns, tuple(w[:-1].tolist()), bias), test)
        values = sulq.Sums(columns, CENTRE, self.row_norm)
        return sulq.Query(values, by=by, where=known, weights=weights)

    def _paper_query(self, task: Task, test: str, w: Array) -> tuple[sulq.Sums, str | None]:
        """As the paper counts: s, and the sum of label times row, over misclassified rows alone."""
        names, (low, width) = [quote(c) for c in task.columns], task.bounds
        ends = zip(names, (low + (low + width)).tolist(), strict=True)
        signed = [f"CASE WHEN {test} THEN {name} ELSE {both!r} - {name} END" for name, both in ends]
        if self.fit_intercept:
            signed.append(f"CASE WHEN {test} THEN 1 ELSE 0 END")
        values = sulq.Sums(tuple(signed), CENTRE, self.row_norm)
        if not w.any():  # <d, 0> <= 0: everything is misclassified
            return values, None
        middle = low + CENTRE * width
        slope = w[:-1] / width
        terms = [f"{s!r} * {name}" for name, s in zip(names, slope.tolist(), strict=True)]
        level = float(w[-1] * BIAS - slope @ middle)
        side = f"{' + '.join(terms)} > {-level!r}"
        return values, f"({side}) <> ({test})"

    def _settle(self, w: Array) -> None:
        """Weights of unit length, put into own units."""
        length = np.linalg.norm(w, axis=1, keepdims=True)
        w = w / np.where(length == 0, 1.0, length)
        self.coef_ = w[:, :-1] / self.width_
        middle = self.low_ + CENTRE * self.width_
        self.intercept_ = w[:, -1] * BIAS - self.coef_ @ middle

    # --- using it -----------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Signed distances in scaled columns: one per row, or one per row and class."""
        scores = self._own(self._unit(X)) @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 0] if len(self.coef_) == 1 else scores)

    def predict(self, X: Any) -> Any:
        """The class of each row; a row with a missing value has none."""
        scores = self.decision_function(X)
        if np.isnan(scores).any():
            raise sulq.Refused(
                "X: rows with a missing value are on neither side. Leave them out, or complete "
                "them first."
            )
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _words(self) -> str:
        """Each threshold: its weights, its rounds and how many rows it ended up wrong about."""
        lines = []
        for i, (w, bias) in enumerate(zip(self.coef_, self.intercept_, strict=True)):
            terms = " ".join(f"{x:+.3g} {c}" for x, c in zip(w, self.columns_, strict=True))
            said = f"{self.n_iter_[i]} rounds, about {self.misclassified_[i]:,.0f} rows wrong"
            name = self.classes_[i if len(self.coef_) > 1 else 1]
            lines.append(f"{name} where {terms} {bias:+.3g} > 0  ({said})")
        return "\n".join(lines)


class Walk:
    """One threshold on its way: every w so far, and what was counted.

    `rows` is how many there are, where that is public; else they are counted on the way.
    """

    def __init__(self, test: str, start: Array, fit_intercept: bool, rows: int | None) -> None:
        self.test = test
        self.rows = rows
        self.fit_intercept = fit_intercept
        self.path = [start]
        self.wrong = math.inf
        self.done = False
        self.labelled = np.zeros((2, len(start)))  # count and sum of each label, over the rounds
        self.asked = 0
        self.std = 0.0  # of the noise of all rows together, as one round counts them

    @property
    def counted(self) -> float:
        """All rows, as the rounds so far counted them."""
        return float(self.labelled[:, 0].sum()) / max(self.asked, 1)

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

    def go(self, answer: Any, *, damped: bool) -> None:
        """Add the misclassified rows over n or over s; stop where there are too few to tell."""
        s, u, share = self._alone(answer) if len(answer.values) == 1 else self._by_side(answer)
        self.wrong = s
        n = (self.rows or max(self.counted, 1.0)) if damped else None
        if s <= WELL_ABOVE * answer.stds[0][0] * math.sqrt(share):
            self.done = True
            return
        self.path.append(self.w + u / (n or s))

    def _alone(self, answer: Any) -> tuple[float, Array, float]:
        """s and u as the paper asks for them, and the variance of s over R."""
        s, *u = answer.values[0]
        if not self.w.any():  # everything is misclassified: the one round that counts all rows
            self.labelled[POSITIVE, 0], self.asked, self.std = s, 1, answer.stds[0][0]
        return float(s), np.array(u if self.fit_intercept else [*u, 0.0]), 1.0

    def _by_side(self, answer: Any) -> tuple[float, Array, float]:
        """The same from counts and sums by side and label."""
        cells = answer.values.reshape(2, 2, -1)  # side x label x (count, sum of y)
        self.std = 2 * answer.stds[0][0]
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
        rounds, before = self.asked, self.labelled
        self.asked, self.labelled = rounds + 1, before + wrong + right
        if not self.w.any():  # <d, 0> <= 0: everything is misclassified
            return wrong + right, 2.0
        if not rounds:
            return wrong, 1.0
        known = rounds / (rounds + 1) / 2
        return wrong + known * (before / rounds - wrong - right), 1.0 - known


def left_out_of(walks: list[Walk], n: int) -> LeftOut:
    """Rows that no walk counted. Each round of each walk counts all the others anew."""
    rounds = sum(walk.asked for walk in walks)
    counted = sum(walk.asked * walk.counted for walk in walks) / rounds
    return LeftOut(n - counted, walks[0].std / math.sqrt(rounds))


def tests_of(task: Task) -> list[str]:
    """For each threshold the SQL predicate of its class; two classes need only the second."""
    classes, label = task.classes.tolist(), str(task.label)
    tests = [f"COALESCE({equals(label, value)}, FALSE)" for value in classes]
    return tests[1:] if len(tests) == 2 else tests

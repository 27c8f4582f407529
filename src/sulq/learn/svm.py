"""A linear support vector machine from noisy moments of each class, then corrected by gradients.

A row scaled to [0, 1] and centred is y, |y_i| <= 1/2, its label s = +1 or -1. What is minimised is

    alpha/2 |theta|^2 + mean of max(0, 1 - s z),    z = theta . y + b.

One question asks for counts, means and second moments of y by label. Were the columns of a class
normal, the mean would follow from these: with u = 1 - s E[z] and the deviation d of z it is
u Phi(u/d) + d phi(u/d). That is minimised without asking more. A round asks for counts and sums of
y over the rows with s z < 1, by label, which is the true gradient; the model moves against it by
the curvature of the normal one.
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
from sulq.learn.base import BOUNDS, ROW_NORM
from sulq.learn.parameters import About, parameter
from sulq.learn.perceptron import tests_of
from sulq.learn.regression import LinearClassifier
from sulq.learn.second_moments import (
    CENTRE,
    Moments,
    count_and_sum_weights,
    count_weight,
    mean_weight,
    read_moments,
)
from sulq.learn.task import NOBODY, LeftOut, Task, all_within, balanced, conjoined

MOMENTS = Fraction(1, 2)  # of the budget; the rounds share the rest
STEP = 0.7  # of what a round would move by
FURTHEST = 2.0  # a round moves z by at most so much, one standard deviation of it
SIGNS = (-1.0, 1.0)  # of the classes, in their order


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVM(LinearClassifier):
    """A threshold between two classes, with the widest margin: the hinge loss at its least.

    The label is a Boolean column or one with two listed values; `fit(X, y)` needs `classes`, what y
    can be, unless y is an array of Booleans. One question gives the model that normal columns would
    have; each of `max_iter` rounds corrects it by the gradient at it. `alpha` is the ridge in
    columns scaled to [0, 1], 1/(C n) in scikit-learn's words.

    coef_ and intercept_ are in own units, coef_std_ and intercept_std_ what noise alone gives them.
    """

    about = About(
        "linear-svm", "A threshold between two classes with the widest margin.",
        "--columns age,income --label smoker --out margin.json", "Linear support vectors", "class",
    )  # fmt: skip

    _measure = "Margin"
    _blank = "are on neither side"

    max_iter: int = parameter(2, "Rounds of correction.", low=0, words="Rounds", first=2, most=50)
    alpha: float = parameter(0.001, "The ridge.", low=0, above=True)
    row_norm: float | None = parameter(None, ROW_NORM, low=0, above=True)
    bounds: Any = parameter(None, BOUNDS)

    def _first(self, task: Task) -> sulq.Query:
        """The question for the moments of each class."""
        self._check_two_classes(task)
        d, guarantee = len(task.columns), task.db.promise.guarantee
        w = mean_weight(d, guarantee, self.row_norm)
        c = count_weight(d, guarantee, self.row_norm, w)
        values = sulq.Products(task.columns, CENTRE, self.row_norm, w, c)
        return sulq.Query(values, by=tests_of(task)[0], where=task.labelled)

    def _price(self, task: Task) -> sulq.Price:
        first = self._first(task)
        natural = task.db.price(first).micro
        if self.max_iter:
            one = self._round_query(task, np.ones(len(task.columns)), 0.0)
            natural += self.max_iter * task.db.price(one).micro
        least = min(MOMENTS, (1 - MOMENTS) / max(self.max_iter, 1))
        return task.most(sulq.Price(natural), [first], least)

    def _fit(self, task: Task) -> None:
        price, db = self._price(task), task.db
        task.check(price)
        whole = price.queries
        share = whole * MOMENTS if self.max_iter else whole
        with self._steps(db, 1 + self.max_iter) as steps:
            (first,) = all_within(db, [self._first(task)], share)
            answer = db.ask(first)
            state = State([read_moments(answer, first, db.rows, i) for i in (0, 1)], self.alpha)
            steps.step()
            for _ in range(self.max_iter):
                query = self._round_query(task, state.theta, state.level)
                share = whole * (1 - MOMENTS) / self.max_iter
                state.round(db.ask(all_within(db, [query], share)[0]))
                steps.step()
        self._scale(task)
        self.classes_, self.n_iter_, self.alpha_ = task.classes, self.max_iter, self.alpha
        found = LeftOut.of(db.rows, answer.values[:2, 0], answer.stds[0][0])
        self._leave_out(found if task.known else NOBODY)
        self._settle(state, np.full(len(task.columns), CENTRE))

    def _round_query(self, task: Task, theta: Array, level: float) -> sulq.Query:
        """Counts and sums of y by label, over complete rows within the margin."""
        low, width = task.bounds
        names, middles = [quote(c) for c in task.columns], low + CENTRE * width
        slopes = (theta / width).tolist()
        start = float(level - np.array(slopes) @ middles)
        z = balanced([repr(start), *(f"{s!r} * {n}" for s, n in zip(slopes, names, strict=True))])
        (test,) = tests_of(task)
        near = f"CASE WHEN {test} THEN {z} < 1 ELSE {z} > -1 END"
        weights = count_and_sum_weights(len(names), task.db.promise.guarantee, self.row_norm)
        values = sulq.Sums(task.columns, CENTRE, self.row_norm)
        where = conjoined(task.known, near)
        return sulq.Query(values, by=test, where=where, weights=weights)


class State:
    """theta and b in scaled columns, and what noise they carry."""

    def __init__(self, classes: list[Moments], alpha: float) -> None:
        self.alpha, self.classes = alpha, classes
        self.rows = max(sum(c.rows for c in classes), 1.0)
        self.parts = [
            (s, c.rows / self.rows, c.mean, lifted(c)) for s, c in zip(SIGNS, classes, strict=True)
        ]
        self.at = self._least()
        self.variance = self._of_moments()  # of the gradient

    @property
    def theta(self) -> Array:
        """The weights of scaled columns."""
        return self.at[:-1]

    @property
    def level(self) -> float:
        """b, where every column is in the middle of its range."""
        return float(self.at[-1])

    def round(self, answer: Any) -> None:
        """Move against the gradient: over the rows within the margin, s (y, 1) on average."""
        pull = np.zeros(len(self.at))
        for s, (count, *sums) in zip(SIGNS, answer.values[:2], strict=True):
            pull += s * np.array([*sums, count]) / self.rows
        gradient = np.append(self.alpha * self.theta, 0.0) - pull
        move: Array = np.asarray(np.linalg.solve(self.curvature(self.at), gradient), np.float64)
        length = math.sqrt(max(self._spread(move), 1e-300))
        self.at = self.at - STEP * move * min(1.0, FURTHEST / length)
        count_std, sum_std = answer.stds[0][:2]
        stds = np.append(np.full(len(self.theta), sum_std), count_std) * math.sqrt(2) / self.rows
        self.variance = (1 - STEP) ** 2 * self.variance + (STEP * stds) ** 2

    def noise(self) -> tuple[Array, float]:
        """Standard deviations that noise gives theta and b, to first order."""
        inverse = np.linalg.inv(self.curvature(self.at))
        stds = np.sqrt(np.diag((inverse * self.variance) @ inverse))
        return stds[:-1], float(stds[-1])

    def _spread(self, move: Array) -> float:
        """The mean square by which a move changes z."""
        found = 0.0
        for _, share, mean, C in self.parts:
            found += share * float(move[:-1] @ C @ move[:-1] + (move[:-1] @ mean + move[-1]) ** 2)
        return found

    # --- were the columns of each class normal --------------------------------------------

    def _least(self) -> Array:
        """Where the mean is least: Newton's steps, halved until they lead down."""
        at = np.zeros(len(self.parts[0][2]) + 1)
        value, gradient = self.loss(at)
        for _ in range(100):
            move = np.linalg.solve(self.curvature(at), gradient)
            size = 1.0
            while size > 1e-6:
                tried = at - size * move
                found = self.loss(tried)
                if found[0] <= value - 1e-4 * size * float(gradient @ move):
                    break
                size /= 2
            if size <= 1e-6 or value - found[0] < 1e-12:
                break
            at, (value, gradient) = tried, found
        return at

    def loss(self, at: Array) -> tuple[float, Array]:
        """What is minimised, and its gradient."""
        theta = at[:-1]
        value = self.alpha / 2 * float(theta @ theta)
        gradient = np.append(self.alpha * theta, 0.0)
        for s, share, mean, C in self.parts:
            u, d, phi, Phi = self._hinge(at, s, mean, C)
            value += share * (u * Phi + d * phi)
            gradient -= share * s * Phi * np.append(mean, 1.0)
            gradient[:-1] += share * phi / d * (C @ theta)
        return value, gradient

    def curvature(self, at: Array) -> Array:
        """The second derivatives of what is minimised."""
        theta = at[:-1]
        out = np.diag(np.append(np.full(len(theta), self.alpha), 1e-9))
        for s, share, mean, C in self.parts:
            u, d, phi, _ = self._hinge(at, s, mean, C)
            along = C @ theta / d
            across = -s * np.append(mean, 1.0) - u / d * np.append(along, 0.0)
            out += share * phi / d * np.outer(across, across)
            out[:-1, :-1] += share * phi / d * (C - np.outer(along, along))
        return out

    @staticmethod
    def _hinge(at: Array, s: float, mean: Array, C: Array) -> tuple[float, float, float, float]:
        """u, d, phi(u/d) and Phi(u/d) of a class."""
        theta = at[:-1]
        u = 1.0 - s * float(theta @ mean + at[-1])
        d = math.sqrt(float(theta @ C @ theta) + 1e-6)
        t = max(min(u / d, 30.0), -30.0)
        phi = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        return u, d, max(phi, 1e-6), 0.5 * math.erfc(-t / math.sqrt(2))

    def _of_moments(self) -> Array:
        """The gradient's variance from the moments' noise, to first order."""
        theta, out = self.theta, np.zeros(len(self.at))
        for (s, share, mean, C), held in zip(self.parts, self.classes, strict=True):
            _, d, phi, Phi = self._hinge(self.at, s, mean, C)
            of_mean = Phi**2 * np.full(len(theta), held.mean_std**2)
            of_second = (phi / d) ** 2 * (held.second_std**2 @ theta**2)
            out += share**2 * np.append(of_mean + of_second, held.rows_off**2)
        return out


def lifted(moments: Moments) -> Array:
    """The covariance with no direction below what noise alone gives it."""
    C = moments.covariance
    values, vectors = np.linalg.eigh(C)
    t = float(moments.second_std.max()) + 2 * moments.mean_std * float(np.abs(moments.mean).max())
    least = max(t * math.sqrt(len(C)), 1e-6)
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)

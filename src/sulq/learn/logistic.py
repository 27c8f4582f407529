"""Logistic regression from noisy moments, then corrected by noisy sums of what it predicts.

A row scaled to [0, 1] and centred is y, |y_i| <= 1/2, its label +1/2 or -1/2. One question asks for
counts and sums of y by label, one for means and second moments of y. Where y is normal with mean m
and covariance C, the model that these moments have is, by Stein's lemma,

    cov(label, y) = k C theta,    E[label] = E[p] - 1/2,    k = E[p (1 - p)],

which is solved without asking more. A round asks for the sums of p - 1/2 and of (p - 1/2) y, and
moves theta and the level by what they differ from those of the label, which was asked about once:
that corrects what is not normal, and what the noise of C has turned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from sulq.expressions.quoting import quote
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, ROW_NORM
from sulq.learn.parameters import About, parameter
from sulq.learn.perceptron import tests_of
from sulq.learn.regression import LinearClassifier, noise_ridge
from sulq.learn.second_moments import (
    CENTRE,
    Moments,
    count_and_sum_weights,
    moments_query,
    read_moments,
)
from sulq.learn.task import NOBODY, LeftOut, Task, all_within, balanced

LABELS, MOMENTS = Fraction(2, 5), Fraction(3, 10)  # of the budget; the rounds share the rest
STEP = 0.7  # of what a round would move by
STEEPEST = 8.0  # the standard deviation of the log odds, at most
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True, slots=True)
class Labels:
    """Sums over rows of the label, +1/2 or -1/2, and of label times y; the noise of each."""

    whole: float
    along: Array
    whole_variance: float
    along_variance: float
    rows: float


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(LinearClassifier):
    """The log odds of the second of two classes, linear in the columns.

    The label is a Boolean column or one with two listed values; `fit(X, y)` needs `classes`, what y
    can be, unless y is an array of Booleans. Two questions give the model that normal columns would
    have; each of `max_iter` rounds corrects it by what it predicts. `alpha` is the ridge in columns
    scaled to [0, 1]; None takes the least that keeps the noisy covariance well above its own noise.

    coef_ and intercept_ are in own units, coef_std_ and intercept_std_ what noise alone gives them.
    """

    about = About(
        "logistic-regression", "The log odds of a class, linear in the columns.",
        "--columns age,income --label smoker --out odds.json", "Logistic regression", "class",
    )  # fmt: skip

    _measure = "Log odds"
    _blank = "have no log odds"

    max_iter: int = parameter(1, "Rounds of correction.", low=0, words="Rounds", first=1, most=50)
    alpha: float | None = parameter(None, "The ridge; by default what the noise asks for.", low=0)
    row_norm: float | None = parameter(None, ROW_NORM, low=0, above=True)
    bounds: Any = parameter(None, BOUNDS)

    def _first(self, task: Task) -> tuple[sulq.Query, sulq.Query]:
        """The questions for the label's sums and for the columns' moments."""
        self._check_two_classes(task)
        columns, guarantee = task.columns, task.db.promise.guarantee
        weights = count_and_sum_weights(len(columns), guarantee, self.row_norm)
        values = sulq.Sums(columns, CENTRE, self.row_norm)
        (test,) = tests_of(task)
        labels = sulq.Query(values, by=test, where=task.labelled, weights=weights)
        moments = moments_query(task.db, columns, self.row_norm, 1 / 3)
        return labels, replace(moments, where=task.labelled)

    def _price(self, task: Task) -> sulq.Price:
        labels, moments = self._first(task)
        natural = task.db.price(labels).micro + task.db.price(moments).micro
        if self.max_iter:
            one = self._round_query(task, np.ones(len(task.columns)), 0.0)
            natural += self.max_iter * task.db.price(one).micro
        least = min(LABELS, MOMENTS, (1 - LABELS - MOMENTS) / max(self.max_iter, 1))
        return task.most(sulq.Price(natural), [moments], least)

    def _fit(self, task: Task) -> None:
        price, db = self._price(task), task.db
        task.check(price)
        whole = price.queries
        spare = (1 - LABELS - MOMENTS) / 2 if not self.max_iter else Fraction(0)
        asked = self._first(task)
        shares = (whole * (LABELS + spare), whole * (MOMENTS + spare))
        with self._steps(db, 1 + self.max_iter) as steps:
            finest = [all_within(db, [q], share)[0] for q, share in zip(asked, shares, strict=True)]
            first, second = db.ask(finest, share=False)
            labels = labels_of(first, None if task.known else db.rows)
            self._leave_out(left_out_of(first, db.rows) if task.known else NOBODY)
            state = State(labels, read_moments(second, finest[1], db.rows), self.alpha)
            steps.step()
            for _ in range(self.max_iter):
                share = whole * (1 - LABELS - MOMENTS) / self.max_iter
                level = state.level - float(state.theta @ state.m)
                query = self._round_query(task, state.theta, level)
                state.round(db.ask(all_within(db, [query], share))[0])
                steps.step()
        self._scale(task)
        self.classes_, self.n_iter_, self.alpha_ = task.classes, self.max_iter, state.alpha
        self._settle(state, CENTRE + state.m)

    def _round_query(self, task: Task, theta: Array, level: float) -> sulq.Query:
        """Sums of p - 1/2 and of (p - 1/2) y over complete rows."""
        low, width = task.bounds
        names, middles = [quote(c) for c in task.columns], (low + CENTRE * width).tolist()
        scaled = [
            f"(({name}) - {middle!r}) / {w!r}"
            for name, middle, w in zip(names, middles, width.tolist(), strict=True)
        ]
        slopes = [
            f"{s!r} * {name}" for name, s in zip(names, (theta / width).tolist(), strict=True)
        ]
        start = float(level - (theta / width) @ np.array(middles))
        p = f"(1 / (1 + EXP(-({balanced([repr(start), *slopes])}))) - 0.5)"
        values = (p, *(f"{p} * {y}" for y in scaled))
        return sulq.Query(values, where=task.known)

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of classes_."""
        p = 0.5 + 0.5 * np.tanh(self.decision_function(X) / 2)
        return np.column_stack([1 - p, p])


class State:
    """theta and the level in scaled columns about their mean, and what noise they carry."""

    def __init__(self, labels: Labels, moments: Moments, alpha: float | None) -> None:
        self.labels, self.m = labels, moments.mean
        C = moments.covariance
        some = len(C) > 1
        self.alpha = (noise_ridge(C, moments) if some else 0.0) if alpha is None else float(alpha)
        values, vectors = np.linalg.eigh(C + self.alpha * np.eye(len(C)))
        self.C = (vectors * np.maximum(values, 1e-6)) @ vectors.T
        self.inverse: Array = np.asarray(np.linalg.inv(self.C), dtype=np.float64)
        share = labels.whole / labels.rows
        self.covariance = labels.along / labels.rows - self.m * share
        self.level, self.theta, self.k = as_if_normal(self.covariance, self.C, self.inverse, share)
        self.heard = 0.0, 0.0  # the rounds' part of the variance, of the level and of theta

    def round(self, answer: Any) -> None:
        """Move by what the sums of predictions differ from those of the label."""
        n, (whole, *along) = self.labels.rows, answer.values[0]
        off = (self.labels.whole - whole) / n
        force = (self.labels.along - np.array(along)) / n - self.m * off
        self.k = steepness(self.level, float(self.theta @ self.C @ self.theta))
        self.level += STEP * float(np.clip(off / self.k, -2.0, 2.0))
        move = self.inverse @ force / self.k
        length = math.sqrt(float(move @ self.C @ move))
        self.theta = self.theta + STEP * move * min(1.0, 2.0 / max(length, 1e-12))
        kept, stds = (1 - STEP) ** 2, answer.stds[0]
        whole_heard, along_heard = self.heard
        self.heard = (
            kept * whole_heard + (STEP * stds[0]) ** 2,
            kept * along_heard + (STEP * stds[1]) ** 2,
        )

    def noise(self) -> tuple[Array, float]:
        """Standard deviations that noise gives theta and the level, to first order."""
        n = self.labels.rows
        along = (self.labels.along_variance + self.heard[1]) / n**2
        whole = (self.labels.whole_variance + self.heard[0]) / n**2
        force = along * np.eye(len(self.m)) + whole * np.outer(self.m, self.m)
        variance = self.inverse @ force @ self.inverse / self.k**2
        return np.sqrt(np.diag(variance)), math.sqrt(whole) / self.k


def labels_of(answer: Any, rows: int | None) -> Labels:
    """The label's sums from counts and sums by label; n is public or counted."""
    (n0, *s0), (n1, *s1) = answer.values[:2]
    count_std, sum_std = answer.stds[0][:2]
    n = float(rows) if rows is not None else float(n0 + n1)
    along = (np.array(s1) - np.array(s0)) / 2
    least = max(n, count_std, 1.0)
    return Labels(float(n1 - n0) / 2, along, count_std**2 / 2, sum_std**2 / 2, least)


def left_out_of(answer: Any, n: int) -> LeftOut:
    """Rows that were counted with neither label."""
    return LeftOut.of(n, answer.values[:2, 0], answer.stds[0][0])


def as_if_normal(c: Array, C: Array, inverse: Array, share: float) -> tuple[float, Array, float]:
    """The level, theta and k that normal columns with covariance C would have.

    theta = C^-1 c / k, and k depends on theta: the standard deviation s of the log odds solves
    s k(s) = sqrt(c C^-1 c), where the left side grows up to 1/sqrt(2 pi).
    """
    mean = min(max(share, -0.495), 0.495)
    wanted = math.sqrt(max(float(c @ inverse @ c), 0.0))
    low, high = 0.0, STEEPEST
    for _ in range(50):
        s = (low + high) / 2
        if s * steepness(level_for(mean, s * s), s * s) < wanted:
            low = s
        else:
            high = s
    level = level_for(mean, low * low)
    k = steepness(level, low * low)
    theta = inverse @ c / k
    length = math.sqrt(max(float(theta @ C @ theta), 1e-300))
    return level, np.asarray(theta * min(1.0, STEEPEST / length)), k


def level_for(mean: float, variance: float) -> float:
    """The mean of normal log odds whose p is 1/2 + mean on average."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        if _average(0.5 * np.tanh(_odds(middle, variance) / 2)) < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def steepness(level: float, variance: float) -> float:
    """E[p (1 - p)] of normal log odds."""
    half = np.cosh(np.clip(_odds(level, variance) / 2, -300, 300))
    return max(_average(0.25 / half**2), 1e-3)


def _odds(level: float, variance: float) -> Array:
    return np.asarray(level + math.sqrt(max(variance, 0.0)) * NODES)


def _average(values: Array) -> float:
    return float(WEIGHTS @ values / WEIGHTS.sum())

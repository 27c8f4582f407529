"""Least squares from one noisy query: means and second moments of the columns and the label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import sulq
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, ROW_NORM, Classifier, Learner, Regressor
from sulq.learn.model_pictures import coefficients, coefficients_text, saved
from sulq.learn.parameters import About, parameter
from sulq.learn.second_moments import CENTRE, Moments, ask_moments, moments_query
from sulq.learn.task import Task, bounds_of


class Linear(Learner):
    """A model with one weight a column: coef_ . x + intercept_, in own units."""

    coef_: Array
    intercept_: float

    def plot(self, path: str | Path | None = None, level: float = 0.95) -> sulq.Picture:
        """Coefficients with intervals, saved as SVG or PNG if a path is given."""
        self._check_fitted()
        drawn = coefficients(self, level=level)
        return saved(coefficients_text(self, level), drawn, path)

    def _words(self) -> str:
        return coefficients_text(self)

    def _heights(self, X: Any) -> Array:
        return np.asarray(self._own(self._unit(X)) @ self.coef_ + self.intercept_)


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(Linear, Regressor):
    """Ordinary least squares with as much ridge as the noise asks for.

    `alpha` is the ridge in columns scaled to [0, 1]; None takes the least that keeps the noisy
    matrix well above its own noise, which is 0 where the columns vary enough. coef_ and
    intercept_ are in own units, coef_std_ and intercept_std_ the standard deviations that noise
    alone gives them. `fit(X, y)` needs label_bounds, the range y can have, unless y is an array
    of Booleans.
    """

    about = About(
        "regression", "Least squares from one query, with what noise may do to each coefficient.",
        "--columns age,smoker --label income --out income.json", "Linear regression", "number",
    )  # fmt: skip

    alpha: float | None = parameter(None, "The ridge; by default what the noise asks for.", low=0)
    row_norm: float | None = parameter(None, ROW_NORM, low=0, above=True)
    bounds: Any = parameter(None, BOUNDS)

    def _query(self, task: Task) -> sulq.Query:
        if task.label is None or task.label in task.columns:
            raise sulq.QueryNotAllowed(
                f"label={task.label!r}: name a column that is not in columns."
            )
        return moments_query(task.db, (*task.columns, task.label), self.row_norm, 1 / 3)

    def _price(self, task: Task) -> sulq.Price:
        return task.db.price(task.finest([self._query(task)]))

    def _fit(self, task: Task) -> None:
        moments = ask_moments(task, self._query(task))
        self._scale(task)
        self._leave_out(moments.left_out)
        low, width = bounds_of(task.db.schema, [str(task.label)])
        self._learn(moments, float(low[0]), float(width[0]))

    def _learn(self, moments: Moments, low: float, width: float) -> None:
        """Everything after the query: no more data is touched."""
        C, c = moments.covariance[:-1, :-1], moments.covariance[:-1, -1]
        m, target = moments.mean[:-1], moments.mean[-1]
        self.alpha_ = noise_ridge(C, moments) if self.alpha is None else float(self.alpha)
        lifted = C + self.alpha_ * np.eye(len(C))
        inverse: Array = np.asarray(np.linalg.pinv(lifted, hermitian=True), dtype=np.float64)
        beta = inverse @ c
        stds, start_std = noise_stds(inverse, beta, moments)
        # y in own units = low + width (1/2 + target + beta . (x - 1/2 - m))
        self.coef_ = width * beta / self.width_
        self.coef_std_ = width * stds / self.width_
        middle = (self.low_ + (CENTRE + m) * self.width_) @ self.coef_
        self.intercept_ = float(low + width * (CENTRE + target) - middle)
        origin = self.low_ / self.width_ + CENTRE  # the middle, seen from x = 0
        self.intercept_std_ = float(width * start_std(-origin))

    def predict(self, X: Any) -> Array:
        """The label of each row, in its own units."""
        return self._heights(X)


def noise_ridge(C: Array, moments: Moments) -> float:
    """The least ridge that lifts C above its noise.

    The noise is a symmetric matrix with off-diagonal standard deviation t: its norm is about
    2 t sqrt(d). Eigenvalues below that would be inverted noise.
    """
    d = len(C)
    t = moments.second_std[0, 1] + 2 * moments.mean_std * float(np.abs(moments.mean).max())
    return float(max(0.0, 2 * t * math.sqrt(d) - np.linalg.eigvalsh(C)[0]))


def noise_stds(inverse: Array, beta: Array, moments: Moments) -> tuple[Array, Any]:
    """What noise alone does to beta, and to the prediction at any row, to first order.

    With b = (-beta, 1), second-moment noise N and mean noise n,
    d beta = C^-1 r with r = N b - m (n.b) - n (m.b), all but the last row. Where the rows were
    counted and the count is off by a part p, N has -p S besides and n has -p m, S being the
    second moments.
    """
    b = np.append(-beta, 1.0)
    variance = moments.second_std**2
    off = variance - np.diag(np.diag(variance))
    from_second = np.diag(variance @ b**2) + off * np.outer(b, b)
    from_second = inverse @ from_second[:-1, :-1] @ inverse
    m = moments.mean
    from_mean = -inverse @ (np.outer(m, b) + (m @ b) * np.eye(len(b)))[:-1]  # times n
    by_count = inverse @ (2 * m * (m @ b) - moments.second @ b)[:-1]  # times p
    total = from_second + moments.mean_std**2 * from_mean @ from_mean.T
    total = total + moments.rows_off**2 * np.outer(by_count, by_count)

    def prediction_std(y: Array) -> float:
        """At a row y, scaled and about the middle: d = n.b + (y - m) . d beta."""
        away = y - m[:-1]
        rows, counted = b + away @ from_mean, away @ by_count - m @ b
        noise2 = away @ from_second @ away + moments.mean_std**2 * rows @ rows
        return math.sqrt(noise2 + (moments.rows_off * counted) ** 2)

    return np.sqrt(np.diag(total)), prediction_std


# ---- two classes told apart by one weight a column ------------------------------------------


class LinearClassifier(Linear, Classifier):
    """The second class where coef_ . x + intercept_ is above 0."""

    classes_: Array
    _many_classes = False
    _measure: ClassVar[str]  # what that number is
    _blank: ClassVar[str]  # what rows with a missing value are

    def _check_two_classes(self, task: Task) -> None:
        """Refuse a label or columns that it cannot be made from."""
        if len(task.classes) != 2:
            raise sulq.QueryNotAllowed(
                f"label={task.label!r} has {len(task.classes)} classes: this model tells two apart."
            )
        if not task.columns or task.label in task.columns:
            raise sulq.QueryNotAllowed(
                f"columns={list(task.columns)!r}: name some, and not the label {task.label!r}."
            )

    def _settle(self, state: Any, middle: Array) -> None:
        """The model in own units, with what noise alone does to it.

        `state` has it in scaled columns, its level where these are at `middle`.
        """
        stds, level_std = state.noise()
        self.coef_, self.coef_std_ = state.theta / self.width_, stds / self.width_
        at = self.low_ + middle * self.width_
        self.intercept_ = float(state.level - at @ self.coef_)
        self.intercept_std_ = float(math.hypot(level_std, float(at @ self.coef_std_)))

    def decision_function(self, X: Any) -> Array:
        """How far each row is on the second class's side."""
        return self._heights(X)

    def predict(self, X: Any) -> Any:
        """The class of each row; a row with a missing value has none."""
        z = self.decision_function(X)
        if np.isnan(z).any():
            raise sulq.Refused(
                f"X: rows with a missing value {self._blank}. Leave them out, or complete them "
                "first."
            )
        return self.classes_[(z > 0).astype(int)]

    def _words(self) -> str:
        return f"{self._measure} of {self.classes_[1]}. {super()._words()}"

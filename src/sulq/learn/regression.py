"""Least squares from one noisy query: means and second moments of the columns and the label."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import sulq

from .base import Array, Learner, each_bound, within
from .moments import CENTRE, Moments, ask_moments, moments_query
from .pictures import coefficients, drawn


class LinearRegression(Learner):
    """Ordinary least squares with as much ridge as the noise asks for.

    `alpha` is the ridge in columns scaled to [0, 1]; None takes the least that keeps the noisy
    matrix well above its own noise, which is 0 where the columns vary enough. coef_ and
    intercept_ are in own units, coef_std_ and intercept_std_ the standard deviations that noise
    alone gives them.
    """

    estimator_type = "regressor"

    def __init__(
        self,
        *,
        alpha: float | None = None,
        row_norm: float | None = None,
        budget: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        guarantee: str = "beliefs",
        bounds: Any = (0.0, 1.0),
        label_bounds: Any = (0.0, 1.0),
    ) -> None:
        self.alpha = alpha
        self.row_norm = row_norm
        self.budget = budget
        self.epsilon = epsilon
        self.delta = delta
        self.guarantee = guarantee
        self.bounds = bounds
        self.label_bounds = label_bounds

    def _query(self, db: Any, columns: tuple[str, ...], label: str | None) -> sulq.Query:
        if label is None or label in columns:
            raise sulq.QueryNotAllowed(f"label={label!r}: name a column that is not in columns.")
        if self.alpha is not None and not self.alpha >= 0:
            raise sulq.Refused(f"alpha={self.alpha!r}, want 0 or more.")
        return moments_query((*columns, label), db.promise.guarantee, self.row_norm, 1 / 3)

    def _price(
        self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any
    ) -> sulq.Price:
        price: sulq.Price = db.price(within(db, self._query(db, columns, label), budget))
        return price

    def _fit(self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any) -> None:
        query = self._query(db, columns, label)
        moments = ask_moments(db, query, budget)
        self._scale(db, (*columns, str(label)))
        low, width = self.low_, self.width_
        self._scale(db, columns)
        self._learn(moments, float(low[-1]), float(width[-1]))

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

    def _target(self, y: Any) -> tuple[Any, dict[str, Any]]:
        if y is None:
            raise sulq.Refused("y: give a number for each row.")
        low, high = each_bound(self.label_bounds)
        declared = {"type": "number", "low": float(low), "high": float(high)}
        return np.asarray(y, dtype=np.float64), declared

    def plot(self, path: str | Path | None = None, level: float = 0.95) -> sulq.Picture:
        """Coefficients with intervals, saved as SVG or PNG if a path is given."""
        self._check_fitted()
        return drawn(coefficients(self, level), path)

    def summary(self) -> str:
        """Coefficients with the 95% interval of noise alone."""
        return self.plot().text

    def predict(self, X: Any) -> Array:
        """The label of each row, in its own units."""
        return np.asarray(self._own(self._unit(X)) @ self.coef_ + self.intercept_)

    def score(self, X: Any, y: Any) -> float:
        """R^2 on rows the analyst holds."""
        target = np.asarray(y, dtype=np.float64)
        wrong = ((target - self.predict(X)) ** 2).sum()
        return float(1 - wrong / max(((target - target.mean()) ** 2).sum(), 1e-300))


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
    d beta = C^-1 r with r = N b - m (n.b) - n (m.b), all but the last row.
    """
    b = np.append(-beta, 1.0)
    variance = moments.second_std**2
    off = variance - np.diag(np.diag(variance))
    from_second = np.diag(variance @ b**2) + off * np.outer(b, b)
    from_second = inverse @ from_second[:-1, :-1] @ inverse
    m = moments.mean
    from_mean = -inverse @ (np.outer(m, b) + (m @ b) * np.eye(len(b)))[:-1]  # times n
    total = from_second + moments.mean_std**2 * from_mean @ from_mean.T

    def prediction_std(y: Array) -> float:
        """At a row y, scaled and about the middle: d = n.b + (y - m) . d beta."""
        away = y - m[:-1]
        rows = b + away @ from_mean
        return math.sqrt(away @ from_second @ away + moments.mean_std**2 * rows @ rows)

    return np.sqrt(np.diag(total)), prediction_std

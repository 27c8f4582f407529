"""A model of two classes with one weight a column: what is asked of the task, and its use."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import sulq
from sulq.learn.arrays import Array
from sulq.learn.base import Classifier
from sulq.learn.model_pictures import coefficients, coefficients_text, saved
from sulq.learn.task import Task


class LinearClassifier(Classifier):
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
        return np.asarray(self._own(self._unit(X)) @ self.coef_ + self.intercept_)

    def predict(self, X: Any) -> Any:
        """The class of each row; a row with a missing value has none."""
        z = self.decision_function(X)
        if np.isnan(z).any():
            raise sulq.Refused(
                f"X: rows with a missing value {self._blank}. Leave them out, or complete them "
                "first."
            )
        return self.classes_[(z > 0).astype(int)]

    def plot(self, path: str | Path | None = None, level: float = 0.95) -> sulq.Picture:
        """Coefficients with intervals, saved as SVG or PNG if a path is given."""
        self._check_fitted()
        drawn = coefficients(self, level=level)
        return saved(coefficients_text(self, level), drawn, path)

    def _words(self) -> str:
        return f"{self._measure} of {self.classes_[1]}. {coefficients_text(self)}"

"""Spectral clustering on SVD (PODS 05, 4.1): k-means among the top singular vectors of the rows.

One query finds the directions, as SVD does. What k-means then asks is about rows projected onto
them (4.1.2), so that its noise goes by the few directions and not by the many columns.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, ROW_NORM, Clusterer
from sulq.learn.kmeans import KMeans
from sulq.learn.mixture_pictures import groups_text
from sulq.learn.model_pictures import Drawn
from sulq.learn.parameters import About, parameter
from sulq.learn.pca import SVD
from sulq.learn.seeds import distances2
from sulq.learn.task import Task
from sulq.learn.validation import Transformer

FOR_AXES = Fraction(1, 5)  # of the budget, for finding the directions
AXES = (
    "columns_", "n_features_in_", "low_", "width_", "components_", "explained_variance_",
    "explained_variance_ratio_", "singular_values_", "component_angles_", "subspace_angle_",
    "mean_",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class SpectralClustering(Drawn, Transformer, Clusterer):
    """Groups of rows that lie along the same few directions.

    The directions are the top right singular vectors of the columns scaled to [0, 1], as SVD finds
    them: `n_components` of them, by default as many as clusters. They take a fifth of `budget`; the
    rest is k-means on the rows projected onto them, within `clip` root mean squares of 0. A
    direction that has no length beyond the noise is left out.

    components_ are the directions, axis_centers_ the centres along them, cluster_centers_ the same
    in own units, cluster_fractions_ the share of rows in each.
    """

    about = About(
        "spectral-clustering", "Groups of rows that lie along the same few directions.",
        "--columns age,income,smoker --n-clusters 3 --budget 200 --out groups.json",
        "Spectral clustering",
    )  # fmt: skip

    n_clusters: int = parameter(8, "How many clusters.", low=1, words="Groups", first=3, most=50)
    _: KW_ONLY
    n_components: int | None = parameter(None, "Directions; by default as many as clusters.", low=1)
    max_iter: int = parameter(5, "The most steps.", low=1, words="Steps", first=5, most=30)
    clip: float = parameter(3.0, "Root mean squares that a coordinate may have.", low=0, above=True)
    row_norm: float | None = parameter(None, ROW_NORM, low=0, above=True)
    random_state: int = parameter(0, "Seeds the public start, not noise.")
    bounds: Any = parameter(None, BOUNDS)

    # --- learning -----------------------------------------------------------------------

    def _price(self, task: Task) -> sulq.Price:
        first, later = self._shares(task)
        asked = self._directions(task)._price(first)
        # The price of a step does not depend on which directions there are, only on how many.
        some = task.db.project(stand_in(task, self._dimensions(task)))
        names = tuple(f"pc{i + 1}" for i in range(self._dimensions(task)))
        rest = self._grouping()._price(Task(some, names, None, later))
        return sulq.Price(asked.micro + rest.micro)

    def _fit(self, task: Task) -> None:
        task.check(self._price(task))
        first, later = self._shares(task)
        directions = self._directions(task)
        directions._fit(first)
        length2 = directions.explained_variance_
        kept = np.flatnonzero(length2 > 0)
        clip = self.clip if len(kept) else None
        k = len(kept) if len(kept) else len(length2)
        directions = first_of(directions, k)
        view = task.db.project(directions, clip=clip)
        found = self._grouping()
        found._watch = getattr(self, "_watch", True)
        found._fit(Task(view, tuple(f"pc{i + 1}" for i in range(k)), None, later))
        self.components_ = directions.components_
        for name in AXES:
            setattr(self, name, getattr(directions, name))
        self.n_components_ = k
        self.axis_low_, self.axis_width_ = found.low_, found.width_
        self.axis_centers_, self.axis_stds_ = found.cluster_centers_, found.center_stds_
        self.cluster_centers_ = directions.inverse_transform(found.cluster_centers_)
        self.cluster_fractions_ = found.cluster_fractions_
        self.small_clusters_, self.n_iter_ = found.small_clusters_, found.n_iter_
        self.left_out_, self.left_out_std_ = found.left_out_, found.left_out_std_

    def _shares(self, task: Task) -> tuple[Task, Any]:
        """The task of finding the directions, and the budget of what comes after."""
        if task.budget is None:
            return task, None
        if isinstance(task.budget, bool) or not task.budget > 0:
            raise sulq.Refused(f"budget={task.budget!r}, want a number of queries above 0.")
        first = Fraction(task.budget) * FOR_AXES
        return Task(task.db, task.columns, None, first), Fraction(task.budget) - first

    def _dimensions(self, task: Task) -> int:
        if self.n_components is None:
            return min(self.n_clusters, len(task.columns))
        if self.n_components > len(task.columns):
            raise sulq.Refused(
                f"n_components={self.n_components!r}, want 1 to {len(task.columns)}."
            )
        return self.n_components

    def _directions(self, task: Task) -> SVD:
        return SVD(self._dimensions(task), row_norm=self.row_norm)

    def _grouping(self) -> KMeans:
        return KMeans(self.n_clusters, max_iter=self.max_iter, random_state=self.random_state)

    # --- using it -----------------------------------------------------------------------

    def _axes(self) -> SVD:
        """The directions as a model of their own: for `db.project`, too."""
        self._check_fitted()
        made = SVD(self.n_components_, row_norm=self.row_norm)
        for name in AXES:
            setattr(made, name, getattr(self, name))
        made.n_components_ = self.n_components_
        return made

    def as_columns(self) -> list[dict[str, Any]]:
        """Each direction as a new column, for `db.project`."""
        return self._axes().as_columns()

    def transform(self, X: Any) -> Any:
        """Rows in own units -> their coordinates along the directions."""
        return self._laid_out(self._placed(X), X)

    def _placed(self, X: Any) -> Array:
        unit = self._unit(X)
        return np.asarray(unit @ self.components_.T)

    def _nearness(self, X: Any) -> Array:
        return -self._distances2(X)

    def _distances2(self, X: Any) -> Array:
        """To every centre, each direction scaled by its range, as k-means asked."""
        rows = self._placed(X)
        low, width = self.axis_low_, self.axis_width_
        placed = np.clip((rows - low) / width, 0.0, 1.0)
        return distances2(placed, (self.axis_centers_ - low) / width)

    def _words(self) -> str:
        return groups_text(self)


def first_of(model: SVD, k: int) -> SVD:
    """The same with its first k directions alone."""
    model.n_components = model.n_components_ = k
    for name in ("components_", "explained_variance_", "explained_variance_ratio_",
                 "singular_values_", "component_angles_"):  # fmt: skip
        setattr(model, name, getattr(model, name)[:k])
    return model


def stand_in(task: Task, k: int) -> SVD:
    """A model of k public directions, each of all columns: it is asked at the same price."""
    d = len(task.columns)
    made = SVD(k)
    made.columns_, made.n_features_in_ = task.columns, d
    made.low_, made.width_ = task.bounds
    made.components_ = 1 + np.arange(k * d).reshape(k, d) / (k * d)  # no two alike
    made.explained_variance_ = np.ones(k)
    made.mean_, made.n_components_ = np.zeros(d), k
    return made

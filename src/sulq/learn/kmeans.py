"""k-means (PODS 05, 4.2): a step is one query for counts and sums by nearest centre.

The partition is private, but its interface is not: k points go in, k noisy means come out.
A row is in one cell, so a step's price does not grow with k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import sulq

from .base import MICRO, WELL_ABOVE, Array, Learner, as_matrix, bounds_of, check_budget, within
from .moments import CENTRE, count_and_sum_weights
from .pictures import centres, centres_text, drawn, two_of

GROWTH = math.sqrt(2.0)  # each step gets this much more of the budget than the one before
LEAST_SHARE = Fraction(1, 1000)  # of what is left: less would see nothing
COARSE = 0.1  # of a column's range: a mean with more noise than this is not worth moving to
TRIES = 200  # random points tried for a place in the packing


class TooFewRows(sulq.SulqError):
    """A cluster has too few rows for the noise. What was asked so far stays charged."""


@dataclass(frozen=True, slots=True)
class Step:
    """New centres, the rows counted near the old ones, and the noise of both."""

    centres: Array
    counts: Array
    small: Array  # which clusters have too few rows for the noise
    noise2: Array  # the variance of each coordinate of a new centre


class KMeans(Learner):
    """k-means that sees only noisy counts and sums.

    The start is data-blind: spheres packed into the box of the declared bounds (random_state
    seeds these public points, never the noise), or `init`, an array of k points in own units.
    `max_iter` steps share `budget`; later ones get more, since only the last one's noise stays.
    When a step moves no centre further than its noise, what is left goes into one last step.

    A cluster whose count is not well above its noise keeps its centre (on_small="keep") or
    ends the fit (on_small="raise"); small_clusters_ names those of the last step.
    """

    estimator_type = "clusterer"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        max_iter: int = 5,
        init: Any = "packing",
        on_small: str = "keep",
        row_norm: float | None = None,
        random_state: int = 0,
        budget: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        guarantee: str = "beliefs",
        bounds: Any = (0.0, 1.0),
    ) -> None:
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.init = init
        self.on_small = on_small
        self.row_norm = row_norm
        self.random_state = random_state
        self.budget = budget
        self.epsilon = epsilon
        self.delta = delta
        self.guarantee = guarantee
        self.bounds = bounds

    def _price(
        self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any
    ) -> sulq.Price:
        start = self._start(db, columns)
        if budget is None:
            budget = self.max_iter * db.price(self._query(db, columns, start)).queries
        smallest = Fraction(budget) * share_now(self.max_iter)
        within(db, self._query(db, columns, start), smallest)  # refuses what cannot be
        return sulq.Price(int(Fraction(budget) * MICRO))

    def _fit(self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any) -> None:
        price = self._price(db, columns, label, budget)
        check_budget(db, price)
        centres = self._start(db, columns)
        left, step, settled = price.queries, None, False
        with self._steps(db, self.max_iter) as steps:
            for taken in range(1, self.max_iter + 1):
                last = settled or taken == self.max_iter
                share = left if last else left * share_now(self.max_iter - taken + 1)
                before, step = step, self._step(db, columns, centres, share)
                settled = still(centres, before, step)
                left, centres = left - share, step.centres
                steps.step()
                if last:
                    break
        assert step is not None
        self._scale(db, columns)
        self.cluster_centers_ = self._own(centres)
        counts = np.maximum(step.counts, 0.0)
        self.cluster_fractions_ = counts / max(float(counts.sum()), 1.0)
        self.small_clusters_ = np.flatnonzero(step.small)
        self.center_stds_ = np.sqrt(step.noise2)[:, None] * self.width_
        self.n_iter_ = taken

    def _step(self, db: Any, columns: tuple[str, ...], centres: Array, share: Any) -> Step:
        """One k-means step, seen only through noisy sums."""
        answer = db.ask(within(db, self._query(db, columns, centres), share))
        counts, sums = answer.values[:, 0], answer.values[:, 1:]
        count_std, sum_std = answer.stds[0][0], answer.stds[0][1]
        small = counts <= np.maximum(WELL_ABOVE * count_std, sum_std / COARSE)
        if small.any() and self.on_small == "raise":
            names = ", ".join(map(str, np.flatnonzero(small)))
            raise TooFewRows(
                f"clusters {names} have too few rows for the noise. What was asked so far stays "
                "charged. Use fewer clusters, a better init, or on_small='keep'."
            )
        s = np.where(small, 1.0, counts)[:, None]
        means = np.clip(CENTRE + sums / s, 0.0, 1.0)
        # |m'| is at most half the box's diagonal; the count's noise moves a mean along it.
        along2 = (sums / s) ** 2
        noise2 = (sum_std**2 + along2.mean(axis=1) * count_std**2) / s[:, 0] ** 2
        new = np.where(small[:, None], centres, means)
        return Step(new, counts, small, np.where(small, 0.0, noise2))

    def _query(self, db: Any, columns: tuple[str, ...], centres: Array) -> sulq.Query:
        values = sulq.Sums(columns, CENTRE, self.row_norm)
        a, b = count_and_sum_weights(len(columns), db.promise.guarantee, self.row_norm)
        by = sulq.NearestCentre(columns, tuple(map(tuple, centres.tolist())))
        return sulq.Query(values, by=by, weights=(Fraction(a), Fraction(b)))

    def _start(self, db: Any, columns: tuple[str, ...]) -> Array:
        """Where to begin, without looking at data."""
        for name, least in (("n_clusters", 1), ("max_iter", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise sulq.Refused(f"{name}={value!r}, want {least} or more.")
        if self.on_small not in ("keep", "raise"):
            raise sulq.Refused(f"on_small={self.on_small!r}, want 'keep' or 'raise'.")
        if isinstance(self.init, str):
            if self.init != "packing":
                raise sulq.Refused(f"init={self.init!r}, want 'packing' or an array of points.")
            return packing(self.n_clusters, len(columns), self.random_state)
        points = as_matrix(self.init)
        if points.shape != (self.n_clusters, len(columns)):
            raise sulq.Refused(
                f"init has shape {points.shape}, want {(self.n_clusters, len(columns))}."
            )
        low, width = bounds_of(db.schema, columns)
        return np.clip((points - low) / width, 0.0, 1.0)

    # --- using it -----------------------------------------------------------------------

    def plot(
        self, db: Any, columns: Sequence[str] | None = None, *, bins: int = 20,
        budget: float | None = None, path: str | Path | None = None,
    ) -> sulq.Picture:  # fmt: skip
        """Centres over a noisy histogram of two columns, which is one more query: plot_price.

        `budget` is what the histogram may spend; it is saved as SVG or PNG if a path is given.
        """
        self._check_fitted()
        sulq.Picture.ready(path)  # before anything is paid for
        chosen, query = self._histogram(db, columns, bins, budget)
        return drawn(centres(self, db, chosen, query), path)

    def plot_price(
        self, db: Any, columns: Sequence[str] | None = None, *, bins: int = 20,
        budget: float | None = None,
    ) -> sulq.Price:  # fmt: skip
        """What the histogram of `plot` costs, also before a fit. Nothing is spent."""
        price: sulq.Price = db.price(self._histogram(db, columns, bins, budget)[1])
        return sulq.Price(price.micro, price.half_widths[:1])

    def _histogram(
        self, db: Any, columns: Sequence[str] | None, bins: int, budget: float | None
    ) -> tuple[tuple[str, str], sulq.Query]:
        chosen = two_of(getattr(self, "columns_", tuple(columns or ())), columns)
        by = tuple(db.histogram_axis(name, bins) for name in chosen)
        return chosen, within(db, sulq.Query(by=by), budget)

    def summary(self) -> str:
        """The centres, their noise, and the share of rows near each."""
        self._check_fitted()
        return centres_text(self, self.columns_)

    def predict(self, X: Any) -> Any:
        """The number of the nearest centre, in columns scaled by their bounds."""
        return self._distances2(X).argmin(axis=1)

    def transform(self, X: Any) -> Array:
        """Distances to every centre, in columns scaled by their bounds."""
        return np.sqrt(self._distances2(X))

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Fit an array and give its rows' clusters: these are exact, not private."""
        return self.fit(X, y).predict(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the squared distances of rows the analyst holds to their nearest centres."""
        return -float(self._distances2(X).min(axis=1).sum())

    def _distances2(self, X: Any) -> Array:
        unit, centres = self._unit(X), (self.cluster_centers_ - self.low_) / self.width_
        cross = unit @ centres.T
        out = (unit**2).sum(axis=1)[:, None] - 2 * cross + (centres**2).sum(axis=1)
        return np.asarray(np.maximum(out, 0.0))


def share_now(steps_left: int) -> Fraction:
    """The next step's part of what is left.

    If a step shrinks what was wrong before by a factor r, the last centres' variance is
    sum r^(2 steps to go) / share, least for shares that go as r^(steps to go); r = 1/GROWTH.
    """
    total = sum(GROWTH**i for i in range(steps_left))
    return max(Fraction(round(MICRO / total), MICRO), LEAST_SHARE)


def still(centres: Array, before: Step | None, step: Step) -> bool:
    """Did this step move no centre further than noise does?"""
    if before is None:
        return False
    moved2 = ((step.centres - centres) ** 2).sum(axis=1)
    return bool(np.all(moved2 <= 2 * centres.shape[1] * (before.noise2 + step.noise2)))


def packing(k: int, d: int, seed: int) -> Array:
    """k points of [0, 1]^d whose spheres of one radius neither meet nor leave the box.

    The largest radius that random placing reaches, by halving the interval.
    """
    low, high, best = 0.0, 0.5, None
    for _ in range(20):
        radius = (low + high) / 2
        found = placed(k, d, radius, np.random.default_rng(seed))
        if found is None:
            high = radius
        else:
            low, best = radius, found
    if best is None:
        best = np.random.default_rng(seed).random((k, d))
    return best


def placed(k: int, d: int, radius: float, rng: np.random.Generator) -> Array | None:
    """k spheres placed one after the other, or None if one finds no place."""
    points = np.empty((0, d))
    for _ in range(k):
        tries = rng.uniform(radius, 1 - radius, (TRIES, d))
        apart2 = ((tries[:, None, :] - points) ** 2).sum(axis=2)
        free = np.all(apart2 >= 4 * radius**2, axis=1)
        if not free.any():
            return None
        points = np.vstack([points, tries[free.argmax()]])
    return points

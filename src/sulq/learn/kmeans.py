"""k-means (PODS 05, 4.2): a step is one query for counts and sums by nearest centre.

The partition is private, but its interface is not: k points go in, k noisy means come out.
A row is in one cell, so a step's price does not grow with k: seeds.py begins with many points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from sulq.learn.arrays import Array, as_matrix
from sulq.learn.base import BOUNDS, ROW_NORM, WELL_ABOVE, Clusterer
from sulq.learn.model_pictures import centres, centres_text, counted, saved, two_of
from sulq.learn.parameters import About, parameter
from sulq.learn.second_moments import CENTRE, count_and_sum_weights
from sulq.learn.seeds import SHARES, clustered, distances2, how_many, kept, spread
from sulq.learn.task import (
    EXACT,
    MICRO,
    NOBODY,
    LeftOut,
    Task,
    is_exact,
    lacking,
    noise_std,
    within,
)
from sulq.learn.validation import Transformer

SMALL = "What becomes of a cluster too small for the noise: keep it, or raise."
GROWTH = math.sqrt(2.0)  # each step gets this much more of the budget than the one before
LEAST_SHARE = Fraction(1, 1000)  # of what is left: less would see nothing
COARSE = 0.1  # of a column's range: a mean with more noise than this is not worth moving to
TRIES = 200  # random points tried for a place in the packing
INITS = ("seeds", "packing")
FIRST = sum(SHARES)  # of the budget, for finding where to begin
MISSED = 0.05  # how often a centre may be further off than center_bounds_ says


class TooFewRows(sulq.SulqError):
    """A cluster has too few rows for the noise. What was asked so far stays charged.

    Whether any of it was is not known: what was asked before is answered free.
    """


@dataclass(frozen=True, slots=True)
class Seen:
    """Noisy counts and means of the rows near each of some points, and the noise of the sums."""

    counts: Array
    means: Array  # in [0, 1]; those of small cells mean nothing
    count_std: float
    sum_std: float

    @property
    def small(self) -> Array:
        """Which cells have too few rows for the noise."""
        least = np.maximum(WELL_ABOVE * self.count_std, self.sum_std / COARSE)
        return np.asarray(self.counts <= least)


@dataclass(frozen=True, slots=True)
class Step:
    """New centres, the rows counted near the old ones, and the noise of both."""

    centres: Array
    counts: Array
    small: Array  # which clusters have too few rows for the noise
    noise2: Array  # the variance of each coordinate of a new centre
    bounds: Array  # Lemma 2: how far each new centre may be from the exact mean
    count_std: float


@dataclass(eq=False, repr=False)
class KMeans(Transformer, Clusterer):
    """k-means that sees only noisy counts and sums.

    init="seeds" asks three times over many public points, and begins where their cells cluster;
    it takes 35% of the budget. init="packing" looks at no data: spheres packed into the box of the
    declared bounds. random_state seeds these public points, never the noise. Or `init` is an array
    of k points in own units. Where the rows are too few for seeds, or the database counts as the
    papers do (pricing="paper") or answers exactly (mode="audited"), seeds are the packing.

    `max_iter` steps share the rest of `budget`; later ones get more, since only the last one's
    noise stays. When a step moves no centre further than its noise, what is left goes into one
    last step. By default a fit pays for `max_iter` steps at the database's own noise, seeds
    included.

    A cluster whose count is not well above its noise keeps its centre (on_small="keep") or
    ends the fit (on_small="raise"); small_clusters_ names those of the last step.

    center_bounds_ is Lemma 2 with its constants: with 95% probability each, a centre is no further
    than this, in columns scaled to [0, 1], from the exact mean of the rows of its last step.
    """

    about = About(
        "kmeans", "Groups of rows near each other. A picture of them asks one more query.",
        "--columns age,income --n-clusters 3 --budget 200 --out groups.json", "k-means",
    )  # fmt: skip

    n_clusters: int = parameter(8, "How many clusters.", low=1, words="Groups", first=3, most=50)
    _: KW_ONLY
    max_iter: int = parameter(5, "The most steps.", low=1, words="Steps", first=5, most=30)
    init: Any = parameter("seeds", "Where centres begin: seeds, packing, or points in own units.")
    on_small: str = parameter("keep", SMALL, choices=("keep", "raise"))
    row_norm: float | None = parameter(None, ROW_NORM, low=0, above=True)
    random_state: int = parameter(0, "Seeds the public start, not noise.")
    bounds: Any = parameter(None, BOUNDS)

    def _price(self, task: Task) -> sulq.Price:
        # The price of a step is the same for all centres; an auditor's goes by how many differ.
        alike = np.full((self.n_clusters, len(task.columns)), CENTRE)
        some = self._packed(task) if is_exact(task.db) else alike
        self._given(task)  # refuses what cannot be
        step = self._query(task, some)
        natural = sulq.Price(self.max_iter * task.db.price(step).micro)
        least = share_now(self.max_iter)
        if self._seeded(task):
            least = min((1 - FIRST) * least, *SHARES)
        return task.most(natural, [step], least)

    def _fit(self, task: Task) -> None:
        price = self._price(task)
        task.check(price)
        left, step, settled = price.queries, None, False
        m = self._points(task, price)
        with self._steps(task.db, self.max_iter + (len(SHARES) if m else 0)) as steps:
            if m:
                centres = self._seeds(task, left, m, steps)
                left -= left * FIRST
            else:
                centres = self._blind(task)
            for taken in range(1, self.max_iter + 1):
                if settled and is_exact(task.db):
                    taken -= 1
                    break  # the same question would say the same
                last = settled or taken == self.max_iter
                share = left if last else left * share_now(self.max_iter - taken + 1)
                before, step = step, self._step(task, centres, share)
                settled = still(centres, before, step)
                left, centres = left - share, step.centres
                steps.step()
                if last:
                    break
        assert step is not None
        self._scale(task)
        self.cluster_centers_ = self._own(centres)
        counts = np.maximum(step.counts, 0.0)
        self.cluster_fractions_ = counts / max(float(counts.sum()), 1.0)
        self.small_clusters_ = np.flatnonzero(step.small)
        self.center_stds_ = np.sqrt(step.noise2)[:, None] * self.width_
        self.center_bounds_ = step.bounds
        self.n_iter_ = taken
        found = LeftOut.of(task.db.rows, step.counts, step.count_std)
        self._leave_out(found if lacking(task.db.schema, task.columns) else NOBODY)

    def _step(self, task: Task, centres: Array, share: Any) -> Step:
        """One k-means step, seen only through noisy sums."""
        seen = self._look(task, centres, share)
        small = seen.small
        if small.any() and self.on_small == "raise":
            names = ", ".join(map(str, np.flatnonzero(small)))
            raise TooFewRows(
                f"clusters {names} have too few rows for the noise. What was asked so far stays "
                "charged. Use fewer clusters, a better init, or on_small='keep'."
            )
        s = np.where(small, 1.0, seen.counts)
        # |m'| is at most half the box's diagonal; the count's noise moves a mean along it.
        along2 = ((seen.means - CENTRE) ** 2).mean(axis=1)
        noise2 = (seen.sum_std**2 + along2 * seen.count_std**2) / s**2
        new = np.where(small[:, None], centres, seen.means)
        bounds = np.where(small, math.sqrt(len(task.columns)), mean_bounds(seen))
        noise2 = np.where(small, 0.0, noise2)
        return Step(new, seen.counts, small, noise2, bounds, seen.count_std)

    def _look(self, task: Task, points: Array, share: Any) -> Seen:
        """Ask for counts and means of the rows near each point."""
        answer = task.db.ask(within(task.db, self._query(task, points), share))
        counts, sums = answer.values[:, 0], answer.values[:, 1:]
        count_std, sum_std = answer.stds[0][0], answer.stds[0][1]
        rows = np.maximum(counts, max(count_std, 1.0))[:, None]
        return Seen(counts, np.clip(CENTRE + sums / rows, 0.0, 1.0), count_std, sum_std)

    def _query(self, task: Task, centres: Array) -> sulq.Query:
        values = sulq.Sums(task.columns, CENTRE, self.row_norm)
        weights = count_and_sum_weights(len(task.columns), task.db.promise.guarantee, self.row_norm)
        by = sulq.NearestCentre(task.columns, tuple(map(tuple, centres.tolist())))
        return sulq.Query(values, by=by, weights=weights)

    # --- where it begins ----------------------------------------------------------------

    def _seeded(self, task: Task) -> bool:
        """Are seeds asked for, where a question about many points has the price of any?"""
        wanted = isinstance(self.init, str) and self.init == "seeds"
        return wanted and task.db.pricing not in ("paper", EXACT)

    def _points(self, task: Task, price: sulq.Price) -> int:
        """How many points a question for seeds has; 0: none is asked. Only n is looked at."""
        if not self._seeded(task):
            return 0
        step = self._query(task, np.full((self.n_clusters, len(task.columns)), CENTRE))
        first = task.db.price(within(task.db, step, price.queries * SHARES[0]))
        return how_many(self.n_clusters, task.db.rows, noise_std(task.db, first))

    def _seeds(self, task: Task, budget: Any, m: int, steps: sulq.Steps) -> Array:
        """Centres of what many public points have near them."""
        rng = np.random.default_rng(self.random_state)
        points = rng.random((m, len(task.columns)))
        for share in SHARES:
            seen = self._look(task, points, budget * share)
            cells = kept(seen.means, seen.counts, seen.count_std, seen.sum_std, WELL_ABOVE)
            points = spread(cells, m, rng) if len(cells) else points
            steps.step()
        return clustered(cells, self.n_clusters, rng) if len(cells) else self._packed(task)

    def _blind(self, task: Task) -> Array:
        """Where to begin without looking at data."""
        given = self._given(task)
        return self._packed(task) if given is None else given

    def _packed(self, task: Task) -> Array:
        return packing(self.n_clusters, len(task.columns), self.random_state)

    def _given(self, task: Task) -> Array | None:
        """The points of `init`, scaled to [0, 1]; None: it names a way to find them."""
        shape = self.n_clusters, len(task.columns)
        if isinstance(self.init, str):
            if self.init not in INITS:
                raise sulq.Refused(
                    f"init={self.init!r}, want 'seeds', 'packing' or an array of points."
                )
            return None
        points = as_matrix(self.init)
        if points.shape != shape:
            raise sulq.Refused(f"init has shape {points.shape}, want {shape}.")
        low, width = task.bounds
        return np.clip((points - low) / width, 0.0, 1.0)

    # --- using it -----------------------------------------------------------------------

    def plot(
        self, db: sulq.Queryable, columns: Sequence[str] | None = None, *, bins: int = 20,
        budget: float | None = None, path: str | Path | None = None,
    ) -> sulq.Picture:  # fmt: skip
        """Centres over a noisy histogram of two columns, which is one more query: plot_price.

        `budget` is what the histogram may spend; it is saved as SVG or PNG if a path is given.
        """
        self._check_fitted()
        sulq.Picture.ready(path)  # before anything is paid for
        chosen, query = self._histogram(db, columns, bins, budget)
        price = db.price(query)
        drawn = centres(self, counted(db, chosen, query))
        said = f"noisy counts, each +/- {price.half_widths[0]:,.0f} (95%), price {price}"
        return saved(f"{centres_text(self, chosen)}\nBehind them: {said}", drawn, path)

    def plot_price(
        self, db: sulq.Queryable, columns: Sequence[str] | None = None, *, bins: int = 20,
        budget: float | None = None,
    ) -> sulq.Price:  # fmt: skip
        """The price of the histogram of `plot`, also before a fit. Nothing is spent."""
        price: sulq.Price = db.price(self._histogram(db, columns, bins, budget)[1])
        return sulq.Price(price.micro, price.half_widths[:1])

    def _histogram(
        self, db: sulq.Queryable, columns: Sequence[str] | None, bins: int, budget: float | None
    ) -> tuple[tuple[str, str], sulq.Query]:
        chosen = two_of(getattr(self, "columns_", tuple(columns or ())), columns)
        by = tuple(db.histogram_axis(name, bins) for name in chosen)
        return chosen, within(db, sulq.Query(by=by), budget)

    def _words(self) -> str:
        return centres_text(self, self.columns_)

    def _nearness(self, X: Any) -> Array:
        return -self._distances2(X)

    def transform(self, X: Any) -> Any:
        """Distances to every centre, in columns scaled by their bounds."""
        return self._laid_out(np.sqrt(self._distances2(X)), X)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Any:
        """kmeans0, kmeans1, ..."""
        self._check_fitted()
        return np.array([f"kmeans{i}" for i in range(len(self.cluster_centers_))], dtype=object)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the squared distances of rows the analyst holds to their nearest centres."""
        return -float(np.nansum(self._distances2(X).min(axis=1)))

    def _distances2(self, X: Any) -> Array:
        return distances2(self._unit(X), (self.cluster_centers_ - self.low_) / self.width_)


def share_now(steps_left: int) -> Fraction:
    """The next step's part of what is left.

    If a step shrinks what was wrong before by a factor r, the last centres' variance is
    sum r^(2 steps to go) / share, least for shares that go as r^(steps to go); r = 1/GROWTH.
    """
    total = sum(GROWTH**i for i in range(steps_left))
    return max(Fraction(round(MICRO / total), MICRO), LEAST_SHARE)


def mean_bounds(seen: Seen) -> Array:
    """Lemma 2 (PODS 05): how far each mean may be from the exact one of the same rows.

    With noise c in the count s and z in the sum, the error is (z - c m) / (s - c), m being the
    noisy mean about the middle. |z|^2 is at most (d + 2 sqrt(d x) + 2 x) of its variance but with
    probability exp(-x), |c| at most 2.25 of its standard deviation but with 2.5%.
    """
    d, x = seen.means.shape[1], math.log(2 / MISSED)
    z = seen.sum_std * math.sqrt(d + 2 * math.sqrt(d * x) + 2 * x)
    c = 2.25 * seen.count_std
    along = np.linalg.norm(seen.means - CENTRE, axis=1)
    rows = np.maximum(seen.counts - c, 1.0)
    return np.asarray(np.minimum((z + c * along) / rows, math.sqrt(d)))


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

"""A mixture of normal distributions by EM: a step is one query for sums weighed by component.

Where a row belongs is not known: component k has the part r_k of it, and these parts add up to 1. A
step asks for the sums of r_k, r_k y and r_k y y^T over all components at once. Since the parts add
up to 1, what a row adds is no longer than if it belonged to one component: the price of a step does
not grow with the number of components. k-means finds where to begin.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from sulq.expressions.quoting import quote
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, WELL_ABOVE, Clusterer
from sulq.learn.kmeans import KMeans, share_now
from sulq.learn.mixture_pictures import mixture_text
from sulq.learn.model_pictures import Drawn
from sulq.learn.parameters import About, parameter
from sulq.learn.second_moments import CENTRE, count_weight, mean_weight, symmetric
from sulq.learn.task import NOBODY, LeftOut, Task, balanced, conjoined, lacking, within

GROUPS, SPREADS = Fraction(3, 10), Fraction(2, 10)  # of the budget; the steps of EM share the rest
GROUP_STEPS = 2  # of k-means
COUNTED = Fraction(1, 100)  # the weight of the count of rows, which a step does not need
LONGEST = 3  # |a row's sums|^2: 1 for r, r y and r (y y^T - I/8) each
STEEPEST = 60  # of what EXP is asked for
APART = 1e-9  # so that no two components are one question
MAX_NUMBERS = 2000  # of one step


@dataclass(eq=False, repr=False)
class GaussianMixture(Drawn, Clusterer):
    """Normal distributions that together make up the rows.

    k-means with seeds finds where to begin, with 3/10 of the budget; one question asks for the
    spread of each group, with 2/10; `max_iter` steps of EM share the rest, later ones get more.
    covariance_type="full" lets a component lie in any direction, "diag" only along the columns.
    random_state seeds the public points that k-means begins with, never the noise.

    weights_, means_ and covariances_ are in own units, mean_stds_ what noise alone gives the
    means. A component with too few rows for the noise keeps its place; small_components_ names
    those of the last step.
    """

    about = About(
        "gaussian-mixture", "Normal distributions that together make up the rows.",
        "--columns age,income --n-components 3 --budget 300 --out mixture.json", "Mixture",
    )  # fmt: skip

    estimator_type = "density_estimator"

    n_components: int = parameter(
        3, "How many components.", low=1, words="Components", first=3, most=20
    )
    _: KW_ONLY
    covariance_type: str = parameter("full", "Any direction, or columns.", choices=("full", "diag"))
    max_iter: int = parameter(3, "Steps of EM.", low=1, words="Steps", first=3, most=30)
    random_state: int = parameter(0, "Seeds the public start, not noise.")
    bounds: Any = parameter(None, BOUNDS)

    # --- learning -----------------------------------------------------------------------

    def _price(self, task: Task) -> sulq.Price:
        k, d = self.n_components, len(task.columns)
        if not d or len(set(task.columns)) < d:
            raise sulq.QueryNotAllowed(f"columns={list(task.columns)!r}: name each once.")
        if k * len(self._places(d)[0]) > MAX_NUMBERS:
            raise sulq.QueryNotAllowed(
                f"n_components={k} of {d} columns: a step has too many sums. Use fewer columns or "
                "components, or covariance_type='diag'."
            )
        shares = self._shares(task)
        groups = self._groups()._price(Task(task.db, task.columns, None, shares[0]))
        spreads, step = self._spreads(task, np.full((k, d), CENTRE)), self._step(task, even(k, d))
        natural = groups.micro + task.db.price(spreads).micro
        natural += self.max_iter * task.db.price(step).micro
        least = min(SPREADS, (1 - GROUPS - SPREADS) * share_now(self.max_iter))
        return task.most(sulq.Price(natural), [spreads], least)

    def _shares(self, task: Task) -> tuple[Any, Any]:
        """What k-means and the question for spreads may spend."""
        if task.budget is None:
            return None, None
        return Fraction(task.budget) * GROUPS, Fraction(task.budget) * SPREADS

    def _groups(self) -> KMeans:
        found = KMeans(self.n_components, max_iter=GROUP_STEPS, random_state=self.random_state)
        found._watch = False
        return found

    def _fit(self, task: Task) -> None:
        price = self._price(task)
        task.check(price)
        shares, db = self._shares(task), task.db
        with self._steps(db, 2 + self.max_iter) as steps:
            groups = self._groups()
            groups._fit(Task(db, task.columns, None, shares[0]))
            steps.step()
            centres = (groups.cluster_centers_ - groups.low_) / groups.width_
            query = within(db, self._spreads(task, centres), shares[1])
            answer = db.ask(query)
            k, d = self.n_components, len(task.columns)
            model, small, sums = self._begun(answer, even(k, d, centres - CENTRE))
            found = LeftOut.of(db.rows, answer.values[:, 0], answer.stds[0][0])
            self._leave_out(found if lacking(db.schema, task.columns) else NOBODY)
            steps.step()
            left = price.queries * (1 - GROUPS - SPREADS)
            for taken in range(self.max_iter):
                share = None if task.budget is None else left * share_now(self.max_iter - taken)
                model, small, sums = self._moved(db, task, model, share)
                left -= 0 if share is None else share
                steps.step()
        self._scale(task)
        self._keep(model, small, sums)

    def _keep(self, model: Mixture, small: Array, sums: Sums) -> None:
        """The model in own units."""
        self.weights_ = model.weights
        self.means_ = self._own(model.means + CENTRE)
        self.covariances_ = model.covariances * np.outer(self.width_, self.width_)
        rows = np.maximum(sums.rows, max(sums.rows_std, 1.0))[:, None]
        off = np.hypot(sums.first_std, np.abs(model.means) * sums.rows_std) / rows
        self.mean_stds_ = off * self.width_
        self.weight_stds_ = np.full(len(rows), sums.rows_std / max(float(sums.rows.sum()), 1.0))
        self.small_components_ = np.flatnonzero(small)
        self.n_iter_ = self.max_iter

    def _spreads(self, task: Task, centres: Array) -> sulq.Query:
        """Counts, means and second moments of the rows near each centre."""
        d, guarantee = len(task.columns), task.db.promise.guarantee
        w = mean_weight(d, guarantee)
        values = sulq.Products(task.columns, CENTRE, None, w, count_weight(d, guarantee, None, w))
        by = sulq.NearestCentre(task.columns, tuple(map(tuple, centres.tolist())))
        return sulq.Query(values, by=by)

    def _begun(self, answer: Any, at: Mixture) -> tuple[Mixture, Array, Sums]:
        """The mixture of the groups, each row in one of them."""
        d, stds = at.means.shape[1], np.array(answer.stds[0])
        rows, first, upper = np.split(answer.values, [1, 1 + d], axis=1)
        eye = np.eye(d)
        second = np.array([symmetric(u, d) for u in upper]) - MIDDLE * rows[:, :, None] * eye
        of_second = symmetric(stds[1 + d :], d)
        sums = Sums(rows[:, 0], first, second, float(stds[0]), float(stds[1]), of_second)
        return (*maximised(sums, at, WELL_ABOVE, self.covariance_type == "diag"), sums)

    def _moved(
        self, db: sulq.Queryable, task: Task, at: Mixture, share: Any
    ) -> tuple[Mixture, Array, Sums]:
        """One step of EM, seen only through noisy sums."""
        answer = db.ask(within(db, self._step(task, at), share))
        k, d = at.means.shape
        places, weights = self._places(d)
        # Asked for were halves of weight times sum, after the count of rows.
        values = 2 * answer.values[0][1:].reshape(k, len(places)) / weights
        stds = 2 * np.array(answer.stds[0][1 : 1 + len(places)]) / weights
        second, second_std = np.zeros((k, d, d)), np.zeros((d, d))
        for number, place in enumerate(places):
            if len(place) == 2:
                i, j = place
                second[:, i, j] = second[:, j, i] = values[:, number]
                second_std[i, j] = second_std[j, i] = stds[number]
        sums = Sums(values[:, 0], values[:, 1 : 1 + d], second, stds[0], stds[1], second_std)
        return (*maximised(sums, at, WELL_ABOVE, self.covariance_type == "diag"), sums)

    # --- the question of a step -----------------------------------------------------------

    def _places(self, d: int) -> tuple[list[tuple[int, ...]], Array]:
        """What r is multiplied by: nothing, y_i, y_i y_j; and the weight of each.

        |y|^2 is at most d/4. y y^T - I/8 has a squared length of t^2 - t/4 + d/64 with t = |y|^2,
        most at an end of its range; its diagonal alone d/64. Weights make each part at most 1 long,
        an entry off the diagonal standing for two.
        """
        full = self.covariance_type == "full"
        pairs = [(i, j) for i in range(d) for j in range(i, d if full else i + 1)]
        longest = max(d / 64, d * d / 16 - 3 * d / 64) if full else d / 64
        places = [(), *((i,) for i in range(d)), *pairs]
        found = [1.0] + [2 / math.sqrt(d)] * d
        found += [(1.0 if i == j else math.sqrt(2)) / math.sqrt(longest) for i, j in pairs]
        return places, np.array(found)

    def _step(self, task: Task, at: Mixture) -> sulq.Query:
        """The sums of r, r y and r (y y^T - I/8) of all components.

        A row's values are within [-1, 1], and together no longer than sqrt(3). The first branch is
        never taken: it says that a value may be -1 as well as 1, so that nothing is added for 0.
        """
        low, width = task.bounds
        columns = [quote(c) for c in task.columns]
        y = [
            f"(({name}) - {float(a + CENTRE * w)!r}) / {float(w)!r}"
            for name, a, w in zip(columns, low, width, strict=True)
        ]
        places, weights = self._places(len(columns))
        never = f"WHEN {columns[0]} > {float(low[0] + 2 * width[0])!r}"
        values = []
        for r in parts_of(at, columns, low, width):
            for place, weight in zip(places, weights.tolist(), strict=True):
                of = " * ".join(f"({y[i]})" for i in place) or "1"
                of = f"({of} - {MIDDLE!r})" if len(set(place)) < len(place) else of
                said = f"{weight!r} * {r} * {of}"
                values.append(f"CASE {never} THEN -1 {never} THEN 1 ELSE {said} END")
        norm = math.sqrt(LONGEST) / 2
        where = conjoined(task.complete)
        weighed = (COUNTED, Fraction(1))
        return sulq.Query(sulq.Sums(tuple(values), CENTRE, norm), where=where, weights=weighed)

    # --- using it -----------------------------------------------------------------------

    @property
    def _mixture(self) -> Mixture:
        self._check_fitted()
        means = (self.means_ - self.low_) / self.width_ - CENTRE
        covariances = self.covariances_ / np.outer(self.width_, self.width_)
        return Mixture(self.weights_, means, covariances)

    def predict_proba(self, X: Any) -> Array:
        """The part that each component has of each row."""
        found = self._mixture.log_densities(self._unit(X) - CENTRE)
        found = np.exp(found - found.max(axis=1, keepdims=True))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def _nearness(self, X: Any) -> Array:
        return self.predict_proba(X)

    def score_samples(self, X: Any) -> Array:
        """The logarithm of the density at each row, in own units."""
        found = self._mixture.log_densities(self._unit(X) - CENTRE)
        most = found.max(axis=1)
        total = most + np.log(np.exp(found - most[:, None]).sum(axis=1))
        return np.asarray(total - np.log(self.width_).sum())

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of score_samples over rows the analyst holds."""
        return float(np.nanmean(self.score_samples(X)))

    def _words(self) -> str:
        return mixture_text(self)


def even(k: int, d: int, means: Array | None = None) -> Mixture:
    """k components of one weight and size."""
    spread = np.tile(np.eye(d) / 16, (k, 1, 1))
    return Mixture(np.full(k, 1 / k), np.zeros((k, d)) if means is None else means, spread)


def parts_of(at: Mixture, columns: list[str], low: Array, width: Array) -> list[str]:
    """Each component's part of a row as a SQL expression: 1 / (1 + EXP(l_j - l_k) + ...).

    A difference of two log densities is a polynomial of the columns, written in their own units.
    """
    constant, linear, square = at.polynomials()
    middle = low + CENTRE * width
    square = square / np.outer(width, width)
    linear = linear / width
    own = linear - 2 * np.einsum("kij,j->ki", square, middle)
    level = constant - linear @ middle + np.einsum("kij,i,j->k", square, middle, middle)
    level = level + APART * np.arange(len(level))
    out = []
    for k in range(len(level)):
        terms = ["1"]
        for j in range(len(level)):
            if j != k:
                said = polynomial(
                    level[j] - level[k], own[j] - own[k], square[j] - square[k], columns
                )
                terms.append(f"EXP(LEAST({STEEPEST}, {said}))")
        out.append(f"(1 / {balanced(terms)})")
    return out


def polynomial(level: float, linear: Array, square: Array, columns: list[str]) -> str:
    """c + sum of l_i x_i + sum of q_ij x_i x_j, as SQL."""
    terms = [repr(float(level))]
    for i, name in enumerate(columns):
        inner = [repr(float(linear[i]))]
        for j in range(i, len(columns)):
            q = float(square[i, j]) * (1 if i == j else 2)
            if q:
                inner.append(f"{q!r} * {columns[j]}")
        terms.append(f"{name} * {balanced(inner)}")
    return balanced(terms)


# ---- a mixture of normal distributions, and one step of EM ----------------------------------
# Rows are y, scaled to [0, 1] and centred, |y_i| <= 1/2. A step has, for every component, the
# sums of its responsibility r times 1, y_i and the products y_i y_j less 1/8 where i = j.

MIDDLE = 0.125  # of the range of y^2
LEAST = 1e-6  # a variance of y, as scikit-learn has it


@dataclass(frozen=True, slots=True)
class Mixture:
    """Weights, means and covariances of some components."""

    weights: Array
    means: Array
    covariances: Array  # components x d x d

    def polynomials(self) -> tuple[Array, Array, Array]:
        """log(weight x density) of each component as c + l . y + y . Q y, up to what all share."""
        precision = np.linalg.inv(self.covariances)
        linear = np.einsum("kij,kj->ki", precision, self.means)
        _, volume = np.linalg.slogdet(self.covariances)
        constant = np.log(self.weights) - volume / 2 - (linear * self.means).sum(axis=1) / 2
        return constant, linear, -precision / 2

    def log_densities(self, y: Array) -> Array:
        """log(weight x density) of every row, rows x components."""
        constant, linear, square = self.polynomials()
        found = constant + y @ linear.T + np.einsum("ni,kij,nj->nk", y, square, y)
        return np.asarray(found - y.shape[1] / 2 * math.log(2 * math.pi))


@dataclass(frozen=True, slots=True)
class Sums:
    """Noisy sums of r, of r y and of r (y y^T - I/8) for each component, and their noise."""

    rows: Array
    first: Array
    second: Array  # components x d x d
    rows_std: float
    first_std: float
    second_std: Array  # d x d


def maximised(sums: Sums, before: Mixture, above: float, diagonal: bool) -> tuple[Mixture, Any]:
    """The mixture of the sums, and which components had too few rows for the noise to move.

    A direction is no narrower than the noise of its variance alone would make it.
    """
    d = sums.first.shape[1]
    small = sums.rows <= max(above * sums.rows_std, 1.0)
    means, covariances = before.means.copy(), before.covariances.copy()
    for i in np.flatnonzero(~small):
        n = float(sums.rows[i])
        mean = np.clip(sums.first[i] / n, -0.5, 0.5)
        found = sums.second[i] / n + MIDDLE * np.eye(d) - np.outer(mean, mean)
        along = (2 * np.abs(mean).max() * sums.first_std) ** 2 + (MIDDLE * sums.rows_std) ** 2
        off = np.sqrt(sums.second_std**2 + along) / n
        means[i] = mean
        covariances[i] = widened(found, off, diagonal)
    there = np.maximum(sums.rows, max(sums.rows_std, 1e-3))
    return Mixture(there / there.sum(), means, covariances), small


def widened(covariance: Array, std: Array, diagonal: bool) -> Array:
    """A covariance whose every direction is at least as wide as its noise, at most as the box."""
    if diagonal:
        least = np.maximum(np.diag(std), LEAST)
        return np.diag(np.clip(np.diag(covariance), least, 0.25))
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    d = len(values)
    narrowest = max(float(std.max()), LEAST)
    return np.asarray((vectors * np.clip(values, narrowest, d / 4)) @ vectors.T)

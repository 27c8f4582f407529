"""SVD and PCA (PODS 05, 4.1): eigenvectors of a noisy second-moment matrix. One query each.

A paper's row x in [0, 1]^d is moved to y = x - 1/2, so that |y|^2 <= d/4 instead of d: the
matrix has a sixteenth of the price, and A^T A about 0 follows from the moments about 1/2 and n.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from sulq.drawing.heat import heat
from sulq.drawing.svg import SHEET, Figure
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, ROW_NORM, Learner
from sulq.learn.model_pictures import MAX_ACROSS, Drawn, components, components_text, saved
from sulq.learn.parameters import About, checked_whole, parameter
from sulq.learn.second_moments import CENTRE, Moments, ask_moments, moments_query
from sulq.learn.task import Task
from sulq.learn.validation import Transformer

FIRST_ORDER = 0.5  # the sine up to which turning is about linear in the noise


@dataclass(eq=False, repr=False)
class SVD(Drawn, Transformer, Learner):
    """The top right singular vectors of the rows, seen through one noisy query.

    Columns are scaled to [0, 1] by their bounds; scaled=False goes back to their own units
    before looking for directions, so that wide columns weigh more. `row_norm` clips rows to
    that distance from the middle of the box, which makes the query cheaper.

    components_ are orthonormal rows, explained_variance_ the mean squares along them,
    component_angles_ how far noise may have turned each (radians, one standard deviation;
    pi/2: it is noise), subspace_angle_ the same for their span.
    """

    about = About(
        "svd", "The same about zero instead of the mean: singular vectors, from one query.",
        "--columns age,income --out svd.json",
    )  # fmt: skip

    _centred = False
    _mean_length = 1.0  # |m|^2 over B^2: the origin is a corner of the box

    n_components: int | None = parameter(
        None, "How many; by default all.", low=1, words="Components", first=2, most=50
    )
    _: KW_ONLY
    row_norm: float | None = parameter(None, ROW_NORM, low=0, above=True)
    scaled: bool = parameter(True, "Columns scaled by their bounds, or as is.")
    bounds: Any = parameter(None, BOUNDS)

    def _query(self, task: Task) -> sulq.Query:
        k = self.n_components
        if k is not None and k > len(task.columns):
            raise sulq.Refused(f"n_components={k!r}, want 1 to {len(task.columns)}.")
        return moments_query(task.db, task.columns, self.row_norm, self._mean_length)

    def _price(self, task: Task) -> sulq.Price:
        return task.db.price(task.finest([self._query(task)]))

    def _fit(self, task: Task) -> None:
        moments = ask_moments(task, self._query(task))
        self._scale(task)
        self._learn(moments)

    def _learn(self, moments: Moments) -> None:
        """Everything after the query: no more data is touched."""
        units = np.ones(len(self.columns_)) if self.scaled else self.width_
        about = moments.mean if self._centred else self._from_origin()
        matrix, spread = self._matrix(moments)
        matrix, spread = matrix * np.outer(units, units), spread * np.outer(units, units)
        values, vectors = np.linalg.eigh(matrix)
        order = np.argsort(values)[::-1]
        values, vectors = values[order], vectors[:, order].T
        k, n = self.n_components or len(values), moments.rows
        self.components_ = upright(vectors[:k])
        positive = np.maximum(values, 0.0)  # the nearest PSD matrix
        # The noisy trace is unbiased; a sum of clipped eigenvalues would not be.
        total = max(float(np.trace(matrix)), float(positive[:k].sum()), 1e-300)
        self.explained_variance_ = positive[:k] * (n / max(n - 1, 1.0) if self._centred else 1.0)
        self.explained_variance_ratio_ = positive[:k] / total
        self.singular_values_ = np.sqrt(positive[:k] * n)
        self.n_components_ = k
        self.mean_ = self._own(CENTRE + about) if self._centred else np.zeros(len(units))
        self._leave_out(moments.left_out)
        turned = turning(vectors, spread**2, moments, about * units, units)
        by_count = vectors @ (matrix - np.outer(about * units, about * units)) @ vectors.T
        turned += (moments.rows_off * by_count) ** 2
        self.component_angles_, self.subspace_angle_ = angles(values, turned, k)

    def _matrix(self, moments: Moments) -> tuple[Array, Array]:
        """E[x x^T] from moments about the middle, and the noise of its entries."""
        c = -self._from_origin()  # x = y + c
        shifted = np.outer(moments.mean, c)
        return moments.second + shifted + shifted.T + np.outer(c, c), moments.second_std

    def _from_origin(self) -> Array:
        """The origin, seen from the middle: scaled columns begin at low, own units at zero."""
        low = np.zeros(len(self.columns_)) if self.scaled else self.low_ / self.width_
        return -(CENTRE + low)

    # --- using it -----------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Rows in own units -> their coordinates along the components."""
        return self._laid_out(self._centre(X) @ self.components_.T, X)

    def inverse_transform(self, Z: Any) -> Array:
        """Coordinates along the components -> rows in own units."""
        self._check_fitted()
        return self._uncentre(np.asarray(Z, dtype=np.float64) @ self.components_)

    def clean(self, row: Any) -> Array:
        """A row with missing entries (NaN), completed from the components (4.1.2).

        The coordinates are fitted to the entries that are known. Only the row's holder sees
        anything of it.
        """
        given = np.asarray(row, dtype=np.float64)
        known = ~np.isnan(given)
        y = self._centre(given[None, :])[0]
        z, *_ = np.linalg.lstsq(self.components_[:, known].T, y[known], rcond=1e-9)
        return np.asarray(self._uncentre(z @ self.components_))

    def _centre(self, X: Any) -> Array:
        """Rows as the components see them: scaled or not, about the mean or about zero."""
        unit = self._unit(X)
        if self.scaled:
            return unit - (self.mean_ - self.low_) / self.width_ if self._centred else unit
        return self._own(unit) - self.mean_

    def _uncentre(self, y: Array) -> Array:
        if not self.scaled:
            return np.asarray(self.mean_ + y)
        return np.asarray(self.mean_ + y * self.width_ if self._centred else self._own(y))

    def _words(self) -> str:
        return components_text(self)

    def as_columns(self) -> list[dict[str, Any]]:
        """Each component as a new column: offset + sum of weight times column, in own units.

        Its low and high follow from the declared bounds, so it can be asked for like any other.
        """
        self._check_fitted()
        at_zero = self._centre(np.zeros((1, len(self.columns_)))) @ self.components_.T
        weights = self.components_ / self.width_ if self.scaled else self.components_
        out = []
        for i, (w, offset) in enumerate(zip(weights, at_zero[0], strict=True)):
            ends = np.array([w * self.low_, w * (self.low_ + self.width_)])
            out.append(
                {
                    "name": f"pc{i + 1}",
                    "offset": float(offset),
                    "weights": dict(zip(self.columns_, w.tolist(), strict=True)),
                    "low": float(offset + ends.min(axis=0).sum()),
                    "high": float(offset + ends.max(axis=0).sum()),
                    "std": float(np.sqrt(self.explained_variance_[i])),  # about zero
                }
            )
        return out


@dataclass(eq=False, repr=False)
class PCA(SVD):
    """Principal components: the same query as SVD, with the noisy mean taken out.

    mean_ is in own units; explained_variance_ and the components are those of the columns
    scaled to [0, 1], or in own units with scaled=False.
    """

    about = About(
        "pca", "Directions along which rows vary: principal components, from one query.",
        "--columns age,income --out pca.json", "Principal components",
    )  # fmt: skip

    _centred = True
    _mean_length = 1 / 3  # |m|^2 over B^2, as for a mean anywhere in the box

    def _matrix(self, moments: Moments) -> tuple[Array, Array]:
        return moments.covariance, moments.second_std


def upright(vectors: Array) -> Array:
    """Eigenvectors with their largest entry positive, so that two runs look alike."""
    largest = np.abs(vectors).argmax(axis=1)
    signs = np.sign(vectors[np.arange(len(vectors)), largest])
    return np.asarray(vectors * np.where(signs == 0, 1.0, signs)[:, None])


def turning(V: Array, variance: Array, moments: Moments, m: Array, units: Array) -> Array:
    """The variance of v_i^T N v_j, N being the noise in the matrix, for every pair i, j.

    N has independent entries on and above the diagonal, and from the means the part
    m n^T + n m^T.
    """
    off = variance - np.diag(np.diag(variance))
    squares = V * V
    out = squares @ off @ squares.T + (squares * np.diag(variance)) @ squares.T
    for i, v in enumerate(V):
        u = V * v
        out[i] += ((u @ off) * u).sum(axis=1)
    along = (V @ m) ** 2
    means = (moments.mean_std * units) ** 2
    spread = squares @ means
    return np.asarray(out + np.outer(along, spread) + np.outer(spread, along))


def angles(values: Array, turned: Array, k: int) -> tuple[Array, float]:
    """How far noise may have turned each of k components, and their span (Davis-Kahan).

    To first order v_i turns towards v_j by N_ij / (l_i - l_j). Where that adds up to more than
    30 degrees first order no longer holds, and the answer is a right angle.
    """
    d = len(values)
    gaps2 = (values[:k, None] - values) ** 2
    gaps2[np.arange(k), np.arange(k)] = np.inf
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0, of equals, is a right angle too
        sines = np.sqrt((turned[:k] / gaps2).sum(axis=1))
    sines = np.where(sines <= FIRST_ORDER, sines, 1.0)
    if k == d:
        return np.arcsin(sines), 0.0
    gap = max(float(values[k - 1] - values[k]), 1e-300)
    push = np.sqrt(turned[:k, k:].max()) * (np.sqrt(k) + np.sqrt(d - k))
    return np.arcsin(sines), float(np.arcsin(min(1.0, push / gap)))


# ---- latent semantic indexing ---------------------------------------------------------------
# The noisy matrix A^T A holds which terms go together. Its top singular vectors place every term,
# and every document that the analyst holds, among few dimensions, where terms that occur in the
# same documents are near each other. Nothing more is asked than SVD asks.


@dataclass(eq=False, repr=False)
class LSI(SVD):
    """Terms and documents among the top singular vectors of the rows.

    Columns are terms: Booleans, or numbers with bounds such as counts. What is asked and learned is
    as SVD's; term_vectors_ places every term, one row each: its loadings times the singular values
    over the square root of n.
    """

    about = About(
        "lsi", "Terms that occur together: latent semantic indexing, from one query.",
        "--columns age,income,smoker --n-components 2 --out lsi.json", "Terms (LSI)",
    )  # fmt: skip

    def _learn(self, moments: Any) -> None:
        super()._learn(moments)
        self.term_vectors_ = (self.components_ * np.sqrt(self.explained_variance_)[:, None]).T

    def terms_like(self, term: str, most: int = 10) -> list[tuple[str, float]]:
        """The terms nearest to one, each with the cosine between them."""
        self._check_fitted()
        if term not in self.columns_:
            raise sulq.Refused(f"term={term!r}, want one of {', '.join(self.columns_)}.")
        checked_whole("most", most, 1, 10**6)
        near = cosines(self.term_vectors_, self.term_vectors_)[list(self.columns_).index(term)]
        order = [i for i in np.argsort(-near, kind="stable") if self.columns_[i] != term]
        return [(self.columns_[i], float(near[i])) for i in order[:most]]

    def similarity(self, X: Any, Y: Any = None) -> Array:
        """Cosines between documents the analyst holds: X with Y, or with each other."""
        first = np.asarray(self.transform(X), dtype=np.float64)
        return cosines(first, first if Y is None else np.asarray(self.transform(Y), np.float64))

    def search(self, query: Any, X: Any, most: int = 10) -> list[tuple[int, float]]:
        """The documents of X nearest to a query, by number, each with its cosine.

        A query is a document, or some terms by name.
        """
        checked_whole("most", most, 1, 10**6)
        if isinstance(query, str) or (len(query) and isinstance(query[0], str)):
            query = self._named([query] if isinstance(query, str) else list(query))
        (near,) = self.similarity([query], X)
        order = np.argsort(-np.where(np.isnan(near), -2.0, near), kind="stable")[:most]
        return [(int(i), float(near[i])) for i in order]

    def _named(self, terms: list[str]) -> Array:
        """A document that has some terms, each at its high end, and no other."""
        self._check_fitted()
        unknown = [term for term in terms if term not in self.columns_]
        if unknown:
            raise sulq.Refused(f"term={unknown[0]!r}, want one of {', '.join(self.columns_)}.")
        has = np.array([column in terms for column in self.columns_])
        return np.asarray(self.low_ + has * self.width_)

    def plot(self, path: str | Path | None = None) -> sulq.Picture:
        """Scree, loadings and how near terms are, saved as SVG or PNG if a path is given."""
        self._check_fitted()
        return saved(components_text(self), term_figures(self), path)


def cosines(a: Array, b: Array) -> Array:
    """Of the angles between rows; 0 with a row of nothing."""
    lengths = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    return np.asarray(a @ b.T / np.where(lengths > 0, lengths, 1.0))


def term_figures(model: Any, width: float = SHEET) -> list[Figure]:
    """Components, and how near the first terms are to each other."""
    names = list(model.columns_)[:MAX_ACROSS]
    near = cosines(model.term_vectors_, model.term_vectors_)[: len(names), : len(names)]
    title = "How near terms are to each other"
    drawn = heat("terms", title, names, names, near.tolist(), width=width,
                 caption=f"{title}: cosines, from -1 to 1.")  # fmt: skip
    return [*components(model, width), drawn]

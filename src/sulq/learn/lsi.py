"""Latent semantic indexing on SVD: rows are documents, columns are terms.

The noisy matrix A^T A holds which terms go together. Its top singular vectors place every term, and
every document that the analyst holds, among few dimensions, where terms that occur in the same
documents are near each other. Nothing more is asked than SVD asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from sulq.drawing.heat import heat
from sulq.drawing.svg import SHEET, Figure
from sulq.learn.arrays import Array
from sulq.learn.model_pictures import MAX_ACROSS, components, components_text, saved
from sulq.learn.parameters import About, checked_whole
from sulq.learn.pca import SVD


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

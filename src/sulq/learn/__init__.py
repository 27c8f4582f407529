"""Learning through the primitive: the papers' algorithms in scikit-learn's shape.

Each asks the database for noisy sums and nothing else, so a model is as private as the answers
it was made from. `price(db, ...)` says the most that `fit(db, ...)` will charge.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sulq

from .base import Learner
from .conjunction import ConjunctionLearner
from .id3 import ID3
from .kmeans import KMeans, TooFewRows
from .naive_bayes import NaiveBayes
from .pca import PCA, SVD
from .perceptron import Perceptron
from .regression import LinearRegression
from .statistical import StatisticalQueries, rows_needed

__all__ = [
    "ID3",
    "PCA",
    "SVD",
    "ConjunctionLearner",
    "KMeans",
    "Learner",
    "LinearRegression",
    "NaiveBayes",
    "Perceptron",
    "StatisticalQueries",
    "TooFewRows",
    "from_json",
    "load",
    "rows_needed",
]

_KINDS: dict[str, type[Learner]] = {
    kind.__name__: kind
    for kind in (
        PCA, SVD, KMeans, Perceptron, ID3, NaiveBayes, LinearRegression, ConjunctionLearner,
    )
}  # fmt: skip


def from_json(body: Mapping[str, Any] | str) -> Learner:
    """A model of whatever kind from its JSON form."""
    plain = Learner.parsed(body)
    kind = plain.get("kind")
    if kind not in _KINDS:
        raise sulq.Refused(f"kind={kind!r}, want one of {', '.join(_KINDS)}.")
    return _KINDS[kind].from_json(plain)


def load(path: str | Path) -> Learner:
    """The model that `model.save(path)` wrote: JSON, so that reading it runs nothing."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise sulq.Refused(f"model={str(path)!r} cannot be read: {why}.") from None
    return from_json(text)

"""Learning through the primitive: the papers' algorithms in scikit-learn's shape.

Each asks the database for noisy sums and nothing else, so a model is as private as the answers
it was made from. `price(db, ...)` says the most that `fit(db, ...)` will charge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sulq

from .base import Learner
from .kmeans import KMeans, TooFewRows
from .pca import PCA, SVD
from .perceptron import Perceptron
from .regression import LinearRegression

__all__ = [
    "PCA",
    "SVD",
    "KMeans",
    "Learner",
    "LinearRegression",
    "Perceptron",
    "TooFewRows",
    "from_json",
]

_KINDS: dict[str, type[Learner]] = {
    kind.__name__: kind for kind in (PCA, SVD, KMeans, Perceptron, LinearRegression)
}


def from_json(body: Mapping[str, Any] | str) -> Learner:
    """A model of whatever kind from its JSON form."""
    plain = Learner.parsed(body)
    kind = plain.get("kind")
    if kind not in _KINDS:
        raise sulq.Refused(f"kind={kind!r}, want one of {', '.join(_KINDS)}.")
    return _KINDS[kind].from_json(plain)

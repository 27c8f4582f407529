"""Learning through the primitive: the papers' algorithms in scikit-learn's shape.

Each asks the database for noisy sums and nothing else, so a model is as private as the answers
it was made from. `price(db, ...)` says the most that `fit(db, ...)` will charge.

    additive.py        sums of shape functions, from noisy histograms of what is predicted
    arrays.py          X and y of `fit(X, y)` as columns with declarations
    association_rules.py  frequent sets and rules, with intervals
    base.py            what every learner shares: parameters, data or a database, JSON
    cuts.py            how a column falls into branches
    id3.py             ID3 decision trees (PODS 05, 4.4), and what they ask about each level
    kmeans.py          k-means (PODS 05, 4.2)
    local_regression.py  locally weighted regression, from sums in bins
    logistic.py        logistic regression, from moments and sums of what is predicted
    mixture.py         mixtures of normal distributions, by EM one step at a time
    mixture_pictures.py  mixtures and spectral groups, drawn and in words
    model_pictures.py  what a model learned, drawn and in words
    naive_bayes.py     naive Bayes from one batch of noisy sums
    parameters.py      what a learner may be told, declared once: where the learner is
    pca.py             SVD and PCA (PODS 05, 4.1); latent semantic indexing
    perceptron.py      the perceptron (PODS 05, 4.3)
    random_trees.py    trees with public random splits and noisy leaves
    regression.py      least squares from means and second moments; linear classifiers
    second_moments.py  means and second moments from one Products query
    seeds.py           where k-means begins: cells of many public points, clustered offline
    shape_pictures.py  shape functions and local regressions, drawn and in words
    shapes.py          shape functions: their cells, noise told from shape, what they say of a label
    spectral.py        k-means among the top singular vectors (PODS 05, 4.1)
    statistical.py     statistical queries, and a hidden conjunction by them (PODS 05, 4.5)
    svm.py             a linear support vector machine, from moments and gradients
    synthesizer.py     synthetic rows from noisy counts of every pair of columns, marked as such
    synthetic_tables.py  rows made to have given tables: a tree of pairs, then all pairs
    task.py            the database of a fit, its columns, label and budget; rows left out
    trees.py           a decision tree as it grows from noisy counts
    validation.py      the errors, names and frames that scikit-learn expects
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sulq
from sulq.learn.additive import AdditiveClassifier, AdditiveRegressor
from sulq.learn.association_rules import AssociationRules
from sulq.learn.base import Learner
from sulq.learn.id3 import ID3
from sulq.learn.kmeans import KMeans, TooFewRows
from sulq.learn.local_regression import LocallyWeightedRegression
from sulq.learn.logistic import LogisticRegression
from sulq.learn.mixture import GaussianMixture
from sulq.learn.naive_bayes import NaiveBayes
from sulq.learn.pca import LSI, PCA, SVD
from sulq.learn.perceptron import Perceptron
from sulq.learn.random_trees import RandomTrees
from sulq.learn.regression import LinearRegression
from sulq.learn.spectral import SpectralClustering
from sulq.learn.statistical import ConjunctionLearner, StatisticalQueries, rows_needed
from sulq.learn.svm import LinearSVM
from sulq.learn.synthesizer import Synthesizer

__all__ = [
    "ID3",
    "LSI",
    "PCA",
    "SVD",
    "AdditiveClassifier",
    "AdditiveRegressor",
    "AssociationRules",
    "ConjunctionLearner",
    "GaussianMixture",
    "KMeans",
    "Learner",
    "LinearRegression",
    "LinearSVM",
    "LocallyWeightedRegression",
    "LogisticRegression",
    "NaiveBayes",
    "Perceptron",
    "RandomTrees",
    "SpectralClustering",
    "StatisticalQueries",
    "Synthesizer",
    "TooFewRows",
    "from_json",
    "load",
    "rows_needed",
]

KINDS: dict[str, type[Learner]] = {
    kind.__name__: kind
    for kind in (
        PCA, SVD, KMeans, Perceptron, ID3, NaiveBayes, LinearRegression, ConjunctionLearner,
        AdditiveClassifier, AdditiveRegressor, LogisticRegression, Synthesizer, AssociationRules,
        RandomTrees, LinearSVM, GaussianMixture, LocallyWeightedRegression, LSI,
        SpectralClustering,
    )
}  # fmt: skip


def from_json(body: Mapping[str, Any] | str) -> Learner:
    """A model of whatever kind from its JSON form."""
    plain = Learner.parsed(body)
    kind = plain.get("kind")
    if kind not in KINDS:
        raise sulq.Refused(f"kind={kind!r}, want one of {', '.join(KINDS)}.")
    return KINDS[kind].from_json(plain)


def load(path: str | Path) -> Learner:
    """The model that `model.save(path)` wrote: JSON, so that reading it runs nothing."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise sulq.Refused(f"model={str(path)!r} cannot be read: {why}.") from None
    return from_json(text)

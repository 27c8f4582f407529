"""Each method runs on data that scikit-learn ships, with the bounds its documentation gives.

At epsilon = 100 a few hundred rows are learned about as well as without noise; what smaller
epsilons give is in docs/howto/learn.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import datasets
from soak import in_soak

from sulq.learn import ID3, PCA, KMeans, LinearRegression, NaiveBayes, Perceptron

# Iris in centimetres, digits 0 to 16, diabetes standardised columns within +-0.2.
IRIS = (0.0, 10.0)
DIGITS = (0.0, 16.0)
DIABETES, PROGRESSION = (-0.2, 0.2), (25.0, 346.0)
# Breast cancer: the table of minima and maxima in scikit-learn's description of the data.
CANCER = (
    [6.981, 9.71, 43.79, 143.5, 0.053, 0.019, 0.0, 0.0, 0.106, 0.05,
     0.112, 0.36, 0.757, 6.802, 0.002, 0.002, 0.0, 0.0, 0.008, 0.001,
     7.93, 12.02, 50.41, 185.2, 0.071, 0.027, 0.0, 0.0, 0.156, 0.055],
    [28.11, 39.28, 188.5, 2501.0, 0.163, 0.345, 0.427, 0.201, 0.304, 0.097,
     2.873, 4.885, 21.98, 542.2, 0.031, 0.135, 0.396, 0.053, 0.079, 0.03,
     36.04, 49.54, 251.2, 4254.0, 0.223, 1.058, 1.252, 0.291, 0.664, 0.208],
)  # fmt: skip


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="epsilon=100 says little")
        yield


def digits(epsilon):
    """Captured variance of 8 components over the exact one's."""
    X = datasets.load_digits().data
    model = PCA(8, epsilon=epsilon, guarantee="dp", bounds=DIGITS).fit(X)
    C = np.cov(X.T)
    best = np.linalg.eigvalsh(C)[::-1][:8].sum()
    return np.trace(model.components_ @ C @ model.components_.T) / best


def iris(epsilon):
    """Squared distances to 3 centres over those of exact k-means."""
    from sklearn.cluster import KMeans as Exact

    X = datasets.load_iris().data
    start = np.array([[5.0, 3.5, 1.5, 0.5], [6.0, 3.0, 4.0, 1.0], [7.0, 3.0, 6.0, 2.0]])
    model = KMeans(3, init=start, epsilon=epsilon, guarantee="dp", bounds=IRIS).fit(X)
    return -model.score(X) / (Exact(3, init=start, n_init=1).fit(X).inertia_ / 100)


def cancer(epsilon, rounds=10):
    """The share of rows classified rightly."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = Perceptron(
        epsilon=epsilon, guarantee="dp", bounds=CANCER, max_iter=rounds, classes=[0, 1]
    )
    return model.fit(X, y).score(X, y)


def diabetes(epsilon):
    """R^2 of the progression of diabetes; least squares without noise has 0.52."""
    X, y = datasets.load_diabetes(return_X_y=True)
    model = LinearRegression(
        epsilon=epsilon, guarantee="dp", bounds=DIABETES, label_bounds=PROGRESSION
    )
    return model.fit(X, y).score(X, y)


def test_digits():
    """PCA captures nearly all variance of the digits."""
    assert digits(100.0) > 0.98


def test_iris():
    """The inertia of k-means is near the exact one."""
    assert iris(100.0) < 1.1


def test_breast_cancer():
    """Most tumours are classified as they are."""
    assert cancer(100.0) > 0.9


def test_diabetes():
    """Regression explains part of the progression."""
    assert diabetes(100.0) > 0.3


@pytest.mark.parametrize(
    ("data", "bounds", "tree", "bayes"),
    [
        ("iris", IRIS, 0.8, 0.7),
        ("breast_cancer", CANCER, 0.85, 0.85),
        pytest.param("digits", DIGITS, 0.3, 0.8, marks=in_soak),
    ],
)
def test_classes(data, bounds, tree, bayes):
    """A tree of two levels and naive Bayes, far above the commonest class."""
    X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    for model, least in ((ID3(max_depth=2), tree), (NaiveBayes(), bayes)):
        model.set_params(epsilon=100.0, guarantee="dp", bounds=bounds, classes=range(y.max() + 1))
        assert model.fit(X, y).score(X, y) > least

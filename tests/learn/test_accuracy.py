"""Without noise each learner is its exact algorithm; with noise it is close."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import opened
from learn.data import blobs, columns_of, low_rank, schema, separable, table

import sulq
from sulq.learn import PCA, SVD, KMeans, LinearRegression, Perceptron, pca

GRID = 2e-4  # columns are cut into 2**16 steps


def silent(X, low=0.0, high=1.0, **more):
    declared = {"flag": {"type": "boolean", "nullable": False}} if "flag" in more else {}
    db = opened(table(X, **more), schema(X.shape[1], low, high, **declared), guarantee="dp")
    return db, columns_of(X.shape[1])


def captured(model, matrix):
    """The share of the best k directions' variance that the model's directions hold."""
    best = np.linalg.eigvalsh(matrix)[::-1][: len(model.components_)].sum()
    return np.trace(model.components_ @ matrix @ model.components_.T) / best


@pytest.mark.parametrize("scaled", [True, False])
def test_silent_pca_is_exact(scaled):
    """Without noise the components are those of numpy."""
    X = low_rank() * 40 - 10
    db, columns = silent(X, -10, 30)
    model = PCA(2, scaled=scaled).fit(db, columns=columns)
    units = 40 if scaled else 1
    values, vectors = np.linalg.eigh(np.cov(X.T) / units**2)
    assert np.allclose(model.mean_, X.mean(axis=0), atol=40 * GRID)
    assert np.allclose(model.explained_variance_, values[::-1][:2], rtol=1e-3)
    ratio = values[::-1][:2] / values.sum()
    assert np.allclose(model.explained_variance_ratio_, ratio, rtol=1e-3)
    assert np.allclose(np.abs(model.components_ @ vectors[:, ::-1][:, :2]), np.eye(2), atol=2e-3)
    want = (X - X.mean(axis=0)) / units @ model.components_.T
    assert np.allclose(model.transform(X), want, atol=40 * GRID)
    back = model.inverse_transform(model.transform(X))
    assert np.abs(back - X).max() < 6  # what the other directions held, in own units
    assert np.abs(back - X).mean() < 1


@pytest.mark.parametrize("scaled", [True, False])
def test_silent_svd_is_exact(scaled):
    """Without noise the singular vectors are those of numpy."""
    X = low_rank() * 4 + 1
    db, columns = silent(X, 1, 5)
    model = SVD(2, scaled=scaled).fit(db, columns=columns)
    A = (X - 1) / 4 if scaled else X
    left = np.linalg.svd(A, full_matrices=False)
    assert np.allclose(model.singular_values_, left.S[:2], rtol=1e-3)
    assert np.allclose(np.abs(model.components_ @ left.Vh[:2].T), np.eye(2), atol=2e-3)
    assert np.allclose(model.transform(X), A @ model.components_.T, atol=GRID)


def test_clean_completes_a_row():
    """A row of the subspace with entries missing comes back whole."""
    X = low_rank()
    db, columns = silent(X)
    model = PCA(2).fit(db, columns=columns)
    row = model.inverse_transform(np.array([0.2, -0.1]))
    broken = row.copy()
    broken[[1, 4]] = np.nan
    assert np.allclose(model.clean(broken), row, atol=1e-6)
    assert np.allclose(model.clean(X[0]), model.inverse_transform(model.transform(X[:1]))[0])


def lloyd(X, centres, steps):
    for _ in range(steps):
        near = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        parts = [X[near == j] for j in range(len(centres))]
        means = [p.mean(axis=0) if len(p) > 50 else c for p, c in zip(parts, centres, strict=True)]
        centres = np.array(means)
    return centres


def test_silent_kmeans_is_exact():
    """Without noise the centres are those of Lloyd's steps."""
    X, _ = blobs()
    X = X * 10
    db, columns = silent(X, 0, 10)
    start = np.array([[3.0, 3, 3], [4, 5, 5], [6, 6, 6]])
    model = KMeans(3, init=start, max_iter=6, budget=900).fit(db, columns=columns)
    want = lloyd(X, start, model.n_iter_)
    assert np.allclose(model.cluster_centers_, want, atol=10 * GRID)
    near = ((X[:, None] - want) ** 2).sum(axis=2).argmin(axis=1)
    assert (model.predict(X) == near).mean() > 0.999
    assert np.allclose(model.cluster_fractions_, np.bincount(near) / len(X), atol=0.01)


def perceptron(X, y, rounds, step):
    rows = np.c_[X - 0.5, np.full(len(X), 0.5)] * np.where(y, 1, -1)[:, None]
    path = [np.zeros(rows.shape[1])]
    for _ in range(rounds):
        wrong = rows[rows @ path[-1] <= 0]
        path.append(path[-1] + wrong.sum(axis=0) / (len(X) if step == "damped" else len(wrong)))
    return path


@pytest.mark.parametrize("step", ["damped", "paper"])
def test_silent_perceptron_is_exact(step):
    """Without noise the weights are those of the exact algorithm."""
    X, y = separable(margin=0.0)
    y ^= np.arange(len(y)) % 10 == 0  # so that some rows are always misclassified
    db, columns = silent(X, flag=y)
    model = Perceptron(max_iter=5, budget=900, step=step).fit(db, columns=columns, label="flag")
    w = np.mean(perceptron(X, y, 5, step)[3:], axis=0)
    w /= np.linalg.norm(w)
    assert model.n_iter_.tolist() == [5]
    assert np.allclose(model.coef_[0], w[:-1], atol=0.02)
    assert np.allclose(model.intercept_[0], w[-1] / 2 - w[:-1].sum() / 2, atol=0.02)


def test_silent_regression_is_exact():
    """Without noise the coefficients are least squares."""
    X = np.random.default_rng(3).random((4000, 3)) * 8 - 4
    y = np.clip(X @ [0.5, -1.0, 2.0] + 3 + np.random.default_rng(4).normal(size=4000), -20, 20)
    bounds = {"y": {"type": "number", "low": -20, "high": 20, "nullable": False}}
    db = opened(table(X, y=y), schema(3, -4, 4, **bounds), epsilon=5.0, guarantee="dp")
    model = LinearRegression().fit(db, columns=columns_of(3), label="y")
    want = np.linalg.lstsq(np.c_[X, np.ones(4000)], y, rcond=None)[0]
    assert model.alpha_ == 0
    assert np.allclose(model.coef_, want[:3], atol=0.01)
    assert model.intercept_ == pytest.approx(want[3], abs=0.01)
    assert np.allclose(model.predict(X), X @ want[:3] + want[3], atol=0.05)


# --- with noise: each bound below is many standard deviations away ------------------------


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
def test_noisy_pca_is_close(guarantee):
    """At epsilon 1 nearly all variance is captured."""
    X = low_rank(20_000)
    model = PCA(2, epsilon=1.0, guarantee=guarantee, bounds=(0, 1)).fit(X)
    assert captured(model, np.cov(X.T)) > 0.98
    svd = SVD(2, epsilon=1.0, guarantee=guarantee, bounds=(0, 1)).fit(X)
    assert captured(svd, X.T @ X) > 0.99


def test_short_rows_make_pca_closer():
    """row_norm makes the query cheaper, so the same promise gives less noise."""
    X = low_rank(20_000, 12)
    models = (PCA(2, epsilon=0.5, bounds=(0, 1), row_norm=r).fit(X) for r in (None, 0.8))
    plain, clipped = (model.subspace_angle_ for model in models)
    assert clipped < plain / 2


def test_angles_tell_how_far_noise_turned_the_components():
    """True angles are about the announced: the root mean square of their ratio is near 1."""
    X = low_rank(20_000, 8, 3)
    true = np.linalg.eigh(np.cov(X.T))[1][:, ::-1][:, :3]
    ratios = []
    for _ in range(12):
        model = PCA(3, epsilon=1.0, bounds=(0, 1)).fit(X)
        angles = np.arccos(np.clip(np.abs((model.components_ * true.T).sum(axis=1)), 0, 1))
        ratios.append(angles / model.component_angles_)
    assert 0.6 < np.sqrt(np.mean(np.square(ratios))) < 1.5


def test_equal_and_exact_directions_are_right_angles_without_a_warning():
    """Two constant public columns: nothing tells their directions apart, and numpy is quiet."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, _ = pca.angles(np.array([1.0, 0.0, 0.0]), np.zeros((3, 3)), 3)
    assert np.degrees(found) == pytest.approx([0, 90, 90])


def test_angles_of_noise_are_right():
    """Components that are nothing but noise say so."""
    model = PCA(20, epsilon=0.1, bounds=(0, 1)).fit(low_rank(300, 20))
    assert np.median(np.degrees(model.component_angles_)) == pytest.approx(90)


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
def test_noisy_kmeans_is_close(guarantee):
    """At epsilon 1 the inertia is near that of exact steps."""
    X, _ = blobs(20_000)
    start = np.array([[0.2, 0.2, 0.3], [0.4, 0.5, 0.5], [0.7, 0.6, 0.7]])
    model = KMeans(3, init=start, epsilon=1.0, guarantee=guarantee, bounds=(0, 1)).fit(X)
    exact = lloyd(X, start, 10)
    inertia = ((X[:, None] - exact) ** 2).sum(axis=2).min(axis=1).sum()
    assert -model.score(X) < 1.05 * inertia


def test_noisy_perceptron_is_close():
    """At epsilon 1 nearly all rows are on their side."""
    X, y = separable(20_000)
    model = Perceptron(epsilon=1.0, bounds=(0, 1), max_iter=15).fit(X, y)
    assert model.score(X, y) > 0.97


def test_perceptron_of_several_classes():
    """Three classes are told apart."""
    rng = np.random.default_rng(1)
    X = rng.random((6000, 2))
    y = np.array(["left", "right", "top"])[
        np.where(X[:, 1] > 0.7, 2, np.where(X[:, 0] > 0.5, 1, 0))
    ]
    classes = ["left", "right", "top"]
    model = Perceptron(epsilon=5.0, bounds=(0, 1), classes=classes, max_iter=15).fit(X, y)
    assert model.classes_.tolist() == ["left", "right", "top"]
    assert model.decision_function(X).shape == (6000, 3)
    assert model.score(X, y) > 0.85


def test_rounds_needed_is_the_theorems():
    """32 max|d|^2 / margin^2 with max|d|^2 = (16 + 1)/4."""
    assert Perceptron().rounds_needed(16, 0.5) == 544
    assert Perceptron(fit_intercept=False).rounds_needed(16, 0.5) == 512


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
def test_regression_errors_are_those_announced(guarantee):
    """Noise moves coefficients by about their announced standard deviations."""
    X = np.random.default_rng(3).random((20_000, 3))
    y = 0.2 + X @ [0.3, 0.1, 0.2]
    pulls = []
    for _ in range(12):
        ends = {"bounds": (0, 1), "label_bounds": (0, 1)}
        model = LinearRegression(epsilon=1.0, guarantee=guarantee, **ends).fit(X, y)
        pulls.append([*((model.coef_ - [0.3, 0.1, 0.2]) / model.coef_std_),
                      (model.intercept_ - 0.2) / model.intercept_std_])  # fmt: skip
        assert model.score(X, y) > 0.95
    assert 0.6 < np.sqrt(np.mean(np.square(pulls))) < 1.5


def test_the_perceptron_begins_where_it_is_told():
    """One round from w0 is one step of the exact algorithm from there, in own units."""
    X, y = separable()
    X = 40 * X - 10
    db, columns = silent(X, -10, 30, flag=y)
    w0 = np.array([0.5, -1.0, 0.25, 0.1, 0.4])
    model = Perceptron(max_iter=1, w0=w0, step="paper").fit(db, columns=columns, label="flag")
    rows = np.column_stack([(X + 10) / 40 - 0.5, np.full(len(X), 0.5)])
    w = np.append(w0[:-1] * 40, (w0[-1] + w0[:-1].sum() * 10) / 0.5)
    wrong = (rows @ w > 0) != y
    u = (rows * np.where(y, 1.0, -1.0)[:, None])[wrong]
    w = w + u.mean(axis=0)
    w /= np.linalg.norm(w)
    assert model.misclassified_[0] == pytest.approx(wrong.sum(), abs=2)
    assert np.allclose(model.coef_[0], w[:-1] / 40, atol=1e-3)
    again = Perceptron(w0=[*model.coef_[0], model.intercept_[0]], max_iter=1)
    again.fit(db, columns=columns, label="flag")
    assert again.misclassified_[0] == pytest.approx((model.predict(X) != y).sum(), abs=2)


@pytest.mark.parametrize("w0", [[1.0, 2.0], [[0.0] * 5] * 2, [1.0, 2.0, 3.0, 4.0, float("nan")]])
def test_a_start_of_another_shape_is_refused_free(w0):
    """w0 must fit the columns; nothing is asked otherwise."""
    X, y = separable(n=50)
    db, columns = silent(X, flag=y)
    for call in (Perceptron(w0=w0).price, Perceptron(w0=w0).fit):
        with pytest.raises(sulq.Refused, match="w0 has shape"):
            call(db, columns=columns, label="flag")
    assert db.history() == []

"""scikit-learn's shape: parameters, pipelines, refusals; models as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import opened
from learn.data import blobs, columns_of, low_rank, schema, separable, table

import sulq
from sulq import learn
from sulq.learn import (
    LSI,
    PCA,
    SVD,
    AdditiveClassifier,
    AdditiveRegressor,
    GaussianMixture,
    KMeans,
    LinearRegression,
    LinearSVM,
    LocallyWeightedRegression,
    LogisticRegression,
    Perceptron,
    RandomTrees,
    SpectralClustering,
    TooFewRows,
)

ALL = [
    LSI, PCA, SVD, KMeans, Perceptron, LinearRegression, AdditiveClassifier, AdditiveRegressor,
    LogisticRegression, RandomTrees, LinearSVM,
    GaussianMixture, LocallyWeightedRegression, SpectralClustering,
]  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_parameters_are_kept_unchanged(kind):
    """The constructor keeps what it is given; unknown names are refused."""
    bounds = (0, 5)
    model = kind(epsilon=2.0, bounds=bounds)
    assert model.get_params()["bounds"] is bounds
    assert model.set_params(epsilon=3.0).epsilon == 3.0
    assert repr(kind(epsilon=2.0)) == f"{kind.__name__}(epsilon=2.0)"
    with pytest.raises(ValueError, match="has no 'nonsense'"):
        model.set_params(nonsense=1)


@pytest.mark.parametrize("kind", ALL)
def test_clone(kind):
    """scikit-learn clones every learner."""
    from sklearn import base as sklearn

    model = kind(epsilon=2.0, bounds=(0, 5))
    assert sklearn.clone(model).get_params() == model.get_params()


def test_pipeline_and_cross_validation():
    """PCA before a perceptron; each fold is one promise."""
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    X, y = separable(6000)
    side = Perceptron(epsilon=5.0, bounds=(-1, 1), classes=[0, 1], max_iter=10)
    steps = make_pipeline(PCA(4, epsilon=5.0, bounds=(0, 1)), side)
    scores = cross_val_score(steps, X, y.astype(int), cv=2)
    assert scores.min() > 0.9
    target = np.clip(X @ [0.2, 0.3, 0.1, 0.2], 0, 1)
    line = LinearRegression(epsilon=5.0, bounds=(0, 1), label_bounds=(0, 1))
    assert cross_val_score(line, X, target, cv=2).min() > 0.9
    clusters = make_pipeline(
        PCA(2, epsilon=5.0, bounds=(0, 1)), KMeans(2, epsilon=5.0, bounds=(-1, 1))
    )
    assert set(clusters.fit(X).predict(X)) <= {0, 1}


def test_arrays_spend_the_whole_promise(monkeypatch):
    """fit(X) opens a database with epsilon and delta, and leaves nothing of it."""
    seen = []
    real = sulq.open

    def watched(*args, **settings):
        seen.append((real(*args, **settings), settings))
        monkeypatch.setattr(seen[-1][0], "close", lambda: None)
        return seen[-1][0]

    monkeypatch.setattr(sulq, "open", watched)
    PCA(2, epsilon=0.7, delta=1e-5, bounds=(0, 1)).fit(low_rank(500))
    db, settings = seen[0]
    assert (settings["epsilon"], settings["delta"]) == (0.7, 1e-5)
    assert float(db.budget.remaining) == pytest.approx(0, abs=1e-3)


def fitted(kind):
    X, y = separable(2000)
    return kind(epsilon=10.0, bounds=(0, 1)).fit(X, y), X


@pytest.mark.parametrize("kind", ALL)
def test_models_are_json(kind):
    """Through text and back nothing is lost."""
    model, X = fitted(kind)
    text = json.dumps(model.to_json())
    for back in (kind.from_json(text), learn.from_json(text), learn.from_json(json.loads(text))):
        assert type(back) is kind
        use = "transform" if kind in (LSI, PCA, SVD) else "predict"
        assert np.array_equal(getattr(back, use)(X), getattr(model, use)(X))
        assert back.to_json() == model.to_json()


@pytest.mark.parametrize(
    "body", ["nonsense", "[]", {}, {"kind": "PCA", "params": {"x": 1}}, {"kind": "Pickle"},
             {"kind": "PCA", "learned": {"__class__": 1}}, {"kind": "PCA", "learned": {"fit": 1}}],
)  # fmt: skip
def test_what_is_no_model_is_refused(body):
    """Other JSON is not read as a model."""
    with pytest.raises(sulq.Refused):
        learn.from_json(body)


def database():
    X, which = blobs(500)
    flag = {"flag": {"type": "boolean"}, "word": {"values": ["a", "b'c"]}, "text": {"type": "text"}}
    words = np.array(["a", "b'c"])[which % 2]
    return opened(table(X, flag=which == 1, word=words, text=words), schema(3, **flag))


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        (PCA(9), {}, "n_components=9"),
        (PCA(), {"columns": ["text"]}, "text"),
        (PCA(), {"columns": "x0"}, "columns='x0'"),
        (PCA(budget=-1), {}, "budget=-1"),
        (SVD(), {"columns": ["nope"]}, "nope"),
        (KMeans(budget=1e-6), {}, "budget"),
        (Perceptron(budget=0), {"label": "flag"}, "budget"),
        (KMeans(0), {}, "n_clusters=0"),
        (KMeans(max_iter=0), {}, "max_iter=0"),
        (KMeans(on_small="weep"), {}, "on_small"),
        (KMeans(init="k-means++"), {}, "init"),
        (KMeans(2, init=[[0.0]]), {}, "shape"),
        (Perceptron(), {}, "label=None"),
        (Perceptron(), {"label": "x1"}, "label='x1'"),
        (Perceptron(max_iter=True), {"label": "flag"}, "max_iter=True"),
        (Perceptron(step="big"), {"label": "flag"}, "step='big'"),
        (LinearRegression(), {}, "label=None"),
        (LinearRegression(), {"columns": ["x0", "x1"], "label": "x0"}, "label='x0'"),
        (LinearRegression(alpha=-1), {"label": "x0"}, "alpha=-1"),
    ],
)  # fmt: skip
def test_refusals_are_free(model, asked, said):
    """What cannot be learned is refused before a question."""
    db = database()
    with pytest.raises(sulq.Refused, match=said):
        model.fit(db, **asked)
    assert db.history() == []


def test_arrays_need_a_promise_and_bounds():
    """Each refusal names what is missing."""
    X, y = separable(100)
    with pytest.raises(sulq.Refused, match="epsilon"):
        PCA().fit(X)
    with pytest.raises(sulq.Refused, match="low < high"):
        PCA(epsilon=1.0, bounds=(1, 0)).fit(X)
    with pytest.raises(sulq.Refused, match="y: give"):
        Perceptron(epsilon=1.0, bounds=(0, 1)).fit(X)
    with pytest.raises(sulq.Refused, match="fit"):
        PCA(epsilon=1.0).transform(X)
    with pytest.raises(sulq.Refused, match="X has 2 features"):
        Perceptron(epsilon=1.0, bounds=(0, 1)).fit(X, y).predict(X[:, :2])


def test_labels_with_quotes():
    """A declared value may hold what SQL quotes with."""
    db = database()
    model = Perceptron(max_iter=2).fit(db, columns=["x0", "x1"], label="word")
    assert model.classes_.tolist() == ["a", "b'c"]


def test_every_number_is_the_default():
    """Without columns= all numbers but the label are used."""
    db = database()
    assert PCA().fit(db).columns_ == ("x0", "x1", "x2", "flag")
    assert LinearRegression().fit(db, label="flag").columns_ == ("x0", "x1", "x2")


def test_small_clusters_are_kept_or_raise():
    """A cluster of too few rows keeps its start, or the fit fails."""
    X, _ = blobs(2000)
    start = np.array([[0.1, 0.1, 0.1], [0.8, 0.8, 0.8], [0.0, 1.0, 0.0]])
    model = KMeans(3, init=start, epsilon=5.0, bounds=(0, 1)).fit(X)
    assert model.small_clusters_.tolist() == [2]
    assert np.array_equal(model.cluster_centers_[2], start[2])
    db = opened(table(X), schema(3))
    with pytest.raises(TooFewRows, match="stays charged"):
        KMeans(3, init=start, on_small="raise").fit(db, columns=columns_of(3))
    assert len(db.history()) == 1


@pytest.mark.parametrize(("k", "d"), [(1, 1), (8, 2), (30, 16)])
def test_the_start_is_blind_and_spread(k, d):
    """Starting points are far apart, and depend on the seed alone."""
    from sulq.learn.kmeans import packing

    points = packing(k, d, 0)
    assert points.shape == (k, d)
    assert points.min() >= 0
    assert points.max() <= 1
    assert np.array_equal(points, packing(k, d, 0))
    if k > 1:
        apart = np.linalg.norm(points[:, None] - points, axis=2)[np.triu_indices(k, 1)]
        assert apart.min() > 0.2


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("kind", [PCA, SVD])
def test_components_as_columns(kind, scaled):
    """Offset and weights give what transform gives, within the range they announce."""
    X = low_rank(500) * 4 + 1
    model = kind(2, epsilon=5.0, bounds=(1, 5), scaled=scaled).fit(X)
    for i, column in enumerate(model.as_columns()):
        z = column["offset"] + X @ list(column["weights"].values())
        assert np.allclose(z, model.transform(X)[:, i])
        assert column["low"] <= z.min() <= z.max() <= column["high"]
    assert model.get_feature_names_out().tolist() == ["pc1", "pc2"]


@pytest.mark.parametrize(("kind", "label"), [(PCA, None), (KMeans, None), (Perceptron, "flag")])
def test_laplace_noise_has_its_own_arithmetic(kind, label):
    """Price goes as 1/error there; a budget is still kept."""
    X, which = blobs(500)
    flag = {"flag": {"type": "boolean", "nullable": False}}
    db = opened(table(X, flag=which == 1), schema(3, **flag), noise="laplace")
    model = kind(budget=50).fit(db, columns=columns_of(3), label=label)
    assert db.budget.spent <= model.price(db, columns_of(3), label).queries <= 50

"""What a fit costs: the formulas of the docs, in the papers' count and in ours."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import opened
from learn.data import blobs, columns_of, low_rank, schema, separable, stand_in, table

import sulq
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
)
from sulq.learn.second_moments import count_and_sum_weights, mean_weight


def database(d=6, **settings):
    X = low_rank(300, d)
    flag = {"flag": {"type": "boolean", "nullable": False}}
    return opened(table(X, flag=X[:, 0] > 0.5), schema(d, **flag), **settings)


def names(db):
    return [c for c in db.columns if c.startswith("x")]


@pytest.mark.parametrize("d", [2, 6, 16])
def test_second_moments_alone_cost_a_sixteenth_of_the_papers(d):
    """With w = 0: d^2/16 (dp), d^2/8 (beliefs)."""
    query = sulq.Query(sulq.Products(tuple(columns_of(d)), 0.5))
    assert database(d, guarantee="dp").price(query).queries == sulq.Price(d * d * 62500).queries
    assert database(d).price(query).queries == sulq.Price(d * d * 125000).queries


@pytest.mark.parametrize("model", [PCA(2), SVD(2)])
@pytest.mark.parametrize("row_norm", [None, 0.7])
def test_pca_price(model, row_norm):
    """B^4 + w^2 B^2 under dp, 2 (B^2 + w^2/2)^2 under beliefs."""
    d, b2 = 6, 6 / 4 if row_norm is None else 0.7**2
    for guarantee in ("dp", "beliefs"):
        db = database(d, guarantee=guarantee)
        w2 = mean_weight(d, guarantee, row_norm, model._mean_length) ** 2
        want = b2**2 + w2 * b2 if guarantee == "dp" else 2 * (b2 + w2 / 2) ** 2
        found = model.set_params(row_norm=row_norm).price(db, names(db))
        assert float(found) == pytest.approx(want, rel=1e-4)


def test_kmeans_price_does_not_grow_with_k():
    """a^2 + b^2 B^2 a step under dp, 4 b^2 B^2 under beliefs, where a = b B is free."""
    for k in (2, 20):
        db = database(guarantee="dp")
        a, b = count_and_sum_weights(6, "dp")
        found = KMeans(k, max_iter=3).price(db, names(db))
        assert float(found) == pytest.approx(3 * (a * a + b * b * 1.5), rel=1e-5)
        assert float(KMeans(k, max_iter=3).price(database(), columns_of(6))) == pytest.approx(18)


def test_papers_counts():
    """pricing="paper": d + d(d+1)/2, k + kd a step, 1 + d a round, the bias a coordinate too."""
    db = database(pricing="paper")
    d = 6
    assert float(PCA(2).price(db, names(db))) == d + d * (d + 1) / 2
    assert float(SVD(2).price(db, names(db))) == d + d * (d + 1) / 2
    assert float(KMeans(5, max_iter=3).price(db, names(db))) == 3 * (5 + 5 * d)
    assert float(Perceptron(max_iter=3).price(db, names(db), "flag")) == 3 * (1 + d + 1)
    bare = Perceptron(max_iter=3, fit_intercept=False)
    assert float(bare.price(db, names(db), "flag")) == 3 * (1 + d)
    found = float(LinearRegression().price(db, names(db)[1:], "x0"))
    assert found == d + d * (d + 1) / 2


@pytest.mark.parametrize("step", ["damped", "paper"])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_papers_round_goes_the_same_way(step, intercept):
    """Without noise both forms of a round lead to the same weights."""
    X, y = separable(2000, 4)
    flag = {"flag": {"type": "boolean", "nullable": False}}
    rows = table(X, flag=np.asarray(y).astype(bool))
    found = []
    for pricing in ("geometry", "paper"):
        db = opened(rows, schema(4, **flag), pricing=pricing)
        model = Perceptron(max_iter=5, step=step, fit_intercept=intercept)
        found.append(model.fit(db, columns=columns_of(4), label="flag"))
    assert np.allclose(found[0].coef_, found[1].coef_, rtol=1e-4)
    assert np.array_equal(found[0].n_iter_, found[1].n_iter_)


def models():
    return [
        (PCA(2), None), (SVD(2), None), (LSI(2), None), (KMeans(3, max_iter=4), None),
        (SpectralClustering(3, max_iter=2), None),
        (Perceptron(max_iter=4), "flag"), (LinearRegression(), "flag"),
        (AdditiveClassifier(max_iter=2), "flag"), (AdditiveRegressor(max_iter=2), "flag"),
        (LogisticRegression(), "flag"), (LogisticRegression(max_iter=0), "flag"),
        (RandomTrees(n_estimators=3), "flag"), (LinearSVM(), "flag"),
        (LocallyWeightedRegression(bins=2), "flag"),
        (GaussianMixture(2, max_iter=2), None),
        (LinearSVM(max_iter=0), "flag"),
    ]  # fmt: skip


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
@pytest.mark.parametrize("budget", [None, 7.5])
@pytest.mark.parametrize(("model", "label"), models(), ids=lambda m: type(m).__name__)
def test_fit_never_spends_more_than_announced(model, label, budget, guarantee):
    """For every learner, with a budget and without."""
    db = database(guarantee=guarantee)
    announced = model.set_params(budget=budget).price(db, names(db), label).queries
    assert model.fit(db, columns=names(db), label=label) is model
    assert 0 < db.budget.spent <= announced
    if budget is not None:
        assert announced <= budget
        if label is None or isinstance(
            model,
            LinearRegression
            | LogisticRegression
            | RandomTrees
            | LinearSVM
            | LocallyWeightedRegression,
        ):  # the others may stop
            assert db.budget.spent == pytest.approx(budget, rel=1e-5)


@pytest.mark.parametrize("reach", [10, 10**9, 10**15])
@pytest.mark.parametrize(("model", "label"), models(), ids=lambda m: type(m).__name__)
def test_random_answers_end_within_the_price(model, label, reach):
    """A database that answers anything at all ends the fit within the announced price."""
    X = low_rank(300, 4)
    flag = {"flag": {"type": "boolean", "nullable": False}}
    db = stand_in(table(X, flag=X[:, 0] > 0.5), schema(4, **flag), reach)
    announced = model.price(db, columns_of(4), label).queries
    model.fit(db, columns=columns_of(4), label=label)
    assert db.budget.spent <= announced
    held = [v for v in vars(model).values() for v in (v if isinstance(v, tuple) else (v,))]
    learned = [v for v in held if isinstance(v, np.ndarray) and v.dtype == float]
    assert all(np.isfinite(v).all() for v in learned)


@pytest.mark.parametrize(
    ("model", "label"),
    [case for case in models() if not isinstance(case[0], LocallyWeightedRegression)],  # below 1
    ids=lambda m: type(m).__name__,
)
def test_too_little_budget_is_refused_before_the_first_query(model, label):
    """A fit is paid whole or not begun."""
    db = database(queries=1)
    with pytest.raises(sulq.BudgetExceeded):
        model.fit(db, columns=names(db), label=label)
    assert db.history() == []


def test_a_model_fitted_twice_pays_once():
    """The same one query returns its stored answer, free."""
    db = database(quiet=False)
    first = PCA(2).fit(db, columns=names(db))
    spent = db.budget.spent
    second = PCA(3).fit(db, columns=names(db))
    assert db.budget.spent == spent
    assert np.array_equal(first.components_, second.components_[:2])


def test_a_stopped_perceptron_keeps_the_rest():
    """Rounds that are not needed are not paid."""
    X, y = separable()
    flag = {"flag": {"type": "boolean", "nullable": False}}
    db = opened(table(X, flag=y), schema(4, **flag), epsilon=20.0, guarantee="dp")
    model = Perceptron(max_iter=60).fit(db, columns=columns_of(4), label="flag")
    assert model.n_iter_[0] < 60
    assert db.budget.spent < model.price(db, columns_of(4), "flag").queries


def test_kmeans_that_settled_spends_the_rest_on_one_last_step():
    """What is left of a budget buys a finer last step."""
    X, _ = blobs()
    db = opened(table(X), schema(3), epsilon=5.0, guarantee="dp")
    model = KMeans(3, max_iter=12, budget=100).fit(db, columns=columns_of(3))
    assert model.n_iter_ < 12
    assert float(db.budget.spent) == pytest.approx(100, rel=1e-5)


def test_many_steps_are_priced_as_they_can_be_paid():
    """Each step gets a share that can be asked for, however many there may be."""
    X, _ = blobs()
    db = opened(table(X), schema(3), epsilon=5.0, guarantee="dp")
    model = KMeans(3, max_iter=60)
    price = model.price(db, columns_of(3)).queries
    model.fit(db, columns=columns_of(3))
    assert 0 < db.budget.spent <= price

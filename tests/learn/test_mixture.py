"""Mixtures by EM: each step exact without noise, priced by what one row can add."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from helpers import opened
from learn.data import columns_of, schema, table

import sulq
from sulq import learn
from sulq.learn import GaussianMixture
from sulq.learn.mixture import Mixture, even, parts_of
from sulq.learn.task import Task

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=")  # large ones stand for no noise
MEANS = np.array([[0.3, 0.3], [0.6, 0.35], [0.5, 0.75]])
SPREADS = np.array(
    [[[0.01, 0.006], [0.006, 0.008]], [[0.006, -0.004], [-0.004, 0.009]], [[0.015, 0], [0, 0.004]]]
)


def rows(n=6000, seed=0):
    """Three components that overlap."""
    rng = np.random.default_rng(seed)
    which = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    roots = np.linalg.cholesky(SPREADS)
    drawn = MEANS[which] + np.einsum("nij,nj->ni", roots[which], rng.normal(size=(n, 2)))
    return np.clip(drawn, 0, 1)


def database(X, **settings):
    return opened(table(X), schema(X.shape[1]), guarantee="dp", **settings)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_without_noise_a_step_is_one_of_em(kind):
    """scikit-learn's, from the same start; columns need not be within [0, 1]."""
    from sklearn.mixture import GaussianMixture as Exact

    X = rows() * [50, 2] + [1950, -1]
    ends = {"x0": (1950.0, 2000.0), "x1": (-1.0, 1.0)}
    declared = {
        name: {"type": "number", "low": low, "high": high, "nullable": False}
        for name, (low, high) in ends.items()
    }
    db = opened(table(X), declared, epsilon=1e8, guarantee="dp")
    task = Task(db, ("x0", "x1"), None, None)
    start = Mixture(np.array([0.3, 0.3, 0.4]), MEANS - 0.45, SPREADS * 1.5)
    if kind == "diag":
        start = Mixture(start.weights, start.means, start.covariances * np.eye(2))
    found, small, _ = GaussianMixture(covariance_type=kind)._moved(db, task, start, None)
    precisions = np.linalg.inv(start.covariances)
    exact = Exact(
        3, covariance_type=kind, max_iter=1, tol=0, reg_covar=0, weights_init=start.weights,
        means_init=start.means + 0.5,
        precisions_init=precisions if kind == "full" else precisions[:, [0, 1], [0, 1]],
    ).fit(rows())  # fmt: skip
    assert not small.any()
    assert np.allclose(found.weights, exact.weights_, atol=1e-4)
    assert np.allclose(found.means + 0.5, exact.means_, atol=1e-4)
    mine = found.covariances if kind == "full" else found.covariances[:, [0, 1], [0, 1]]
    assert np.allclose(mine, exact.covariances_, atol=1e-4)


@pytest.mark.parametrize("kind", ["full", "diag"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_row_adds_no_more_than_its_price_says(kind, d):
    """The longest vector of random rows, corners and mixtures is within 3, and comes near it."""
    model, rng, longest = GaussianMixture(covariance_type=kind), np.random.default_rng(0), 0.0
    places, weights = model._places(d)
    corners = np.array([[(-0.5) ** (c >> i & 1) * 0.5 for i in range(d)] for c in range(2**d)])
    corners = np.sign(corners) * 0.5
    y = np.vstack([rng.uniform(-0.5, 0.5, (2000, d)), corners, np.zeros((1, d))])
    for _ in range(20):
        sure = rng.exponential(5)
        r = np.exp(sure * rng.normal(size=(len(y), 4)))
        r /= r.sum(axis=1, keepdims=True)
        each = [
            np.prod(y[:, list(p)], axis=1) - 0.125 * (len(set(p)) < len(p)) if p
            else np.ones(len(y))
            for p in places
        ]  # fmt: skip
        added = np.concatenate(
            [r * (w * e)[:, None] for w, e in zip(weights, each, strict=True)], 1
        )
        assert np.abs(added).max() <= 1 + 1e-12
        longest = max(longest, float((added**2).sum(axis=1).max()))
    assert 2.5 < longest <= 3 + 1e-9


def test_a_step_costs_the_same_for_any_number_of_components():
    """3/4 and what the count of rows adds, under dp; for any number of columns too."""
    for k, d in ((2, 2), (6, 2), (3, 4)):
        db = database(np.full((50, d), 0.5))
        task = Task(db, tuple(columns_of(d)), None, None)
        price = db.price(GaussianMixture(k)._step(task, even(k, d)))
        assert float(price) == pytest.approx(0.75 + 1e-4, abs=1e-4)


@pytest.mark.parametrize("budget", [None, 60.0])
def test_the_price_is_what_is_spent(budget):
    """No more than the announced price is paid."""
    db = database(rows(3000), quiet=False)
    model = GaussianMixture(3, max_iter=2, budget=budget)
    announced = model.price(db, columns_of(2)).queries
    assert db.budget.spent == 0
    model.fit(db, columns=columns_of(2))
    assert db.budget.spent <= announced
    assert float(db.budget.spent) == pytest.approx(float(announced), rel=1e-4)
    assert budget is None or announced == budget


def test_it_finds_the_components_through_noise():
    """At epsilon 1 the density of new rows is near that of the exact mixture."""
    from sklearn.mixture import GaussianMixture as Exact

    X, new = rows(20_000), rows(5000, seed=3)
    model = GaussianMixture(3, epsilon=1.0, guarantee="dp", bounds=(0, 1)).fit(X)
    exact = Exact(3, random_state=0).fit(X)
    assert model.score(new) > exact.score(new) - 0.1
    agree = model.predict_proba(new)
    assert agree.sum(axis=1) == pytest.approx(1)
    blind = Exact(1).fit(X).score(new)
    assert model.score(new) > blind + 0.1


def test_means_are_off_by_what_they_say():
    """Less those without noise from the same start, over mean_stds_. False alarm: below 1e-9.

    The mean square of 20 x 6 numbers is within 0.3 and 2.2 but with a probability below 1e-9.
    """
    X = rows(8000)
    start = Mixture(np.array([0.5, 0.3, 0.2]), MEANS - 0.5, SPREADS)
    found = []
    made = GaussianMixture(3)
    for quiet in [True] + [False] * 20:
        db = database(X, epsilon=1.0, queries=100, quiet=quiet)
        task = Task(db, tuple(columns_of(2)), None, None)
        moved, _, sums = made._moved(db, task, start, 30)
        made._scale(task)
        made._keep(moved, np.zeros(3), sums)
        found.append((made.means_, made.mean_stds_))
    off = [(mean - found[0][0]) / std for mean, std in found[1:]]
    assert 0.3 < float(np.mean(np.square(off))) < 2.2


def test_parts_are_responsibilities():
    """The SQL of each component's part is its density over all; the parts add up to 1."""
    X = rows(500)
    at = Mixture(np.array([0.5, 0.3, 0.2]), MEANS - 0.5, SPREADS)
    db = database(X, epsilon=1e9)
    said = parts_of(at, ["x0", "x1"], np.zeros(2), np.ones(2))
    logs = at.log_densities(X - 0.5)
    want = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    for k, part in enumerate(said):
        assert db.sum(part).value == pytest.approx(want[:, k].sum(), abs=0.05)


def test_a_model_is_json_drawn_and_said():
    """A model read back predicts the same."""
    db = database(rows(3000), epsilon=50.0)
    model = GaussianMixture(3, max_iter=1).fit(db, columns=columns_of(2))
    same = learn.from_json(json.dumps(model.to_json()))
    assert np.array_equal(same.predict_proba(MEANS), model.predict_proba(MEANS))
    assert len(set(model.predict(MEANS).tolist())) == 3
    assert model.predict([[math.nan, 0.5]]).tolist() == [-1]
    density, weights = model.plot().figures
    assert "group 2: x0" in density.words
    assert "component 1" in weights.words
    assert "share of rows" in model.summary()
    one = GaussianMixture(1, max_iter=1).fit(db, columns=["x0"])
    assert len(one.plot().figures) == 1
    assert one.means_[0, 0] == pytest.approx(rows(3000)[:, 0].mean(), abs=0.01)


def test_few_rows_move_nothing():
    """A component without rows keeps its place, and is named."""
    db = database(np.full((5, 2), 0.5), epsilon=0.1, quiet=False)
    model = GaussianMixture(3, max_iter=1).fit(db, columns=columns_of(2))
    assert np.isfinite(model.covariances_).all()
    assert len(model.small_components_) >= 2


def test_refusals_are_free():
    """What cannot be learned is refused before a question."""
    db = database(rows(50))
    many = GaussianMixture(2000)
    for model, columns, said in (
        (many, ["x0", "x1"], "too many sums"), (GaussianMixture(2), ["x0", "x0"], "each once"),
        (GaussianMixture(2, covariance_type="round"), ["x0"], "want 'full' or 'diag'"),
    ):  # fmt: skip
        for call in (model.price, model.fit):
            with pytest.raises(sulq.Refused, match=said):
                call(db, columns=columns)
    assert db.history() == []

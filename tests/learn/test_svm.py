"""LinearSVM: the least hinge loss without noise, off by what it says with it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from helpers import opened
from learn.data import columns_of, schema, table

import sulq
from sulq import learn
from sulq.learn import LinearSVM
from sulq.learn.second_moments import Moments
from sulq.learn.svm import State

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=")  # large ones stand for no noise
FLAG = {"flag": {"type": "boolean", "nullable": False}}
ALPHA = 0.01


def rows(n=10_000, d=3, normal=True, seed=0):
    """Columns within [0, 1] that go together, and a label that mostly follows them."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(n, d)) if normal else rng.exponential(size=(n, d)) - 1
    X = np.clip(0.45 + 0.1 * drawn @ (np.eye(d) + 0.4), 0, 1)
    return X, (X - 0.5) @ np.linspace(6, -4, d) + rng.logistic(size=n) > 0.3


def database(X, y, **settings):
    return opened(table(X, flag=y), schema(X.shape[1], **FLAG), guarantee="dp", **settings)


def fitted(db, d=3, **made):
    return LinearSVM(alpha=ALPHA, **made).fit(db, columns=columns_of(d), label="flag")


def loss(coef, intercept, X, y):
    """What is minimised, written out; columns are within [0, 1] already."""
    z = X @ coef + intercept
    return ALPHA / 2 * coef @ coef + np.maximum(0, 1 - np.where(y, 1, -1) * z).mean()


def exact(X, y):
    from sklearn.svm import LinearSVC

    made = LinearSVC(loss="hinge", C=1 / (ALPHA * len(X)), max_iter=50_000, intercept_scaling=30)
    found = made.fit(X - 0.5, y)
    return found.coef_[0], float(found.intercept_[0] - found.coef_[0].sum() / 2)


def test_rounds_lead_to_the_least_loss():
    """Without noise, whatever the columns' distribution is, and not without the rounds."""
    X, y = rows(normal=False)
    coef, intercept = exact(X, y)
    db = database(X, y, epsilon=1e10, queries=10**4)
    found = {r: fitted(db, max_iter=r) for r in (0, 8)}
    least = loss(coef, intercept, X, y)
    over = {r: loss(m.coef_, m.intercept_, X, y) / least - 1 for r, m in found.items()}
    assert abs(over[8]) < 1e-3 < over[0]
    assert np.allclose(found[8].coef_, coef, atol=0.1)
    assert found[8].score(X, y) == pytest.approx(np.mean((X @ coef + intercept > 0) == y), abs=0.01)


def test_normal_columns_need_few_rounds():
    """The first model is near the best loss."""
    X, y = rows()
    coef, intercept = exact(X, y)
    model = fitted(database(X, y, epsilon=1e10), max_iter=0)
    found = loss(model.coef_, model.intercept_, X, y)
    assert found == pytest.approx(loss(coef, intercept, X, y), rel=2e-3)


def test_the_loss_of_normal_columns_is_the_formula():
    """Mean hinge, gradient and curvature of drawn rows; derivatives by differences."""
    rng = np.random.default_rng(0)
    means, C = ([0.1, -0.2], [-0.1, 0.1]), np.array([[0.04, 0.01], [0.01, 0.02]])
    classes = [
        Moments(np.array(m), C + np.outer(m, m), 0.0, np.zeros((2, 2)), r)
        for m, r in zip(means, (300.0, 100.0), strict=True)
    ]
    state, at = State(classes, ALPHA), np.array([3.0, -2.0, 0.4])
    drawn = [1 - s * (rng.multivariate_normal(m, C, 400_000) @ at[:2] + at[2])
             for s, m in zip((-1, 1), means, strict=True)]  # fmt: skip
    hinges = [np.maximum(0, u).mean() for u in drawn]
    want = ALPHA / 2 * at[:2] @ at[:2] + 0.75 * hinges[0] + 0.25 * hinges[1]
    value, gradient = state.loss(at)
    assert value == pytest.approx(want, abs=0.003)
    steps = 1e-4 * np.eye(3)
    by_value = [(state.loss(at + e)[0] - state.loss(at - e)[0]) / 2e-4 for e in steps]
    assert np.allclose(gradient, by_value, atol=1e-4)
    by_gradient = [(state.loss(at + e)[1] - state.loss(at - e)[1]) / 2e-4 for e in steps]
    assert np.allclose(state.curvature(at), by_gradient, atol=1e-3)
    assert np.abs(state.loss(state.at)[1]).max() < 1e-4  # where it begins


def test_coefficients_are_off_by_what_they_say():
    """Less those without noise, over coef_std_: by about 1. False alarm: below 1e-9.

    The mean square of 20 x 3 numbers, 60 degrees of freedom, is above 2.5 or below 0.25 with a
    probability below 1e-9; errors of twice the size or more would be rejected.
    """
    X, y = rows(8000)
    promised = {"epsilon": 1.0, "queries": 100}
    for rounds in (0, 2):
        quiet = fitted(database(X, y, **promised), max_iter=rounds, budget=100)
        found = []
        for _ in range(20):
            db = database(X, y, quiet=False, **promised)
            model = fitted(db, max_iter=rounds, budget=100)
            found += ((model.coef_ - quiet.coef_) / model.coef_std_).tolist()
        assert 0.25 < float(np.mean(np.square(found))) < 2.5, rounds


@pytest.mark.parametrize("max_iter", [0, 2])
def test_the_price_is_what_is_spent(max_iter):
    """The announced price is paid, with a budget and without."""
    X, y = rows(2000)
    for budget in (None, 30):
        db = database(X, y, quiet=False)
        model = LinearSVM(max_iter=max_iter, budget=budget)
        announced = model.price(db, columns_of(3), "flag").queries
        model.fit(db, columns=columns_of(3), label="flag")
        assert float(db.budget.spent) == pytest.approx(float(announced), rel=1e-5)
        assert db.budget.spent <= announced
        assert budget is None or announced == budget


def test_a_model_is_json_drawn_and_said():
    """A model read back decides the same."""
    X, y = rows(2000)
    model = fitted(database(X, y))
    same = learn.from_json(json.dumps(model.to_json()))
    assert np.array_equal(same.decision_function(X[:5]), model.decision_function(X[:5]))
    assert "Margin of True" in model.summary()
    assert "intercept" in str(model.plot())
    with pytest.raises(sulq.Refused, match="on neither side"):
        model.predict([[math.nan, 0.5, 0.5]])


def test_one_class_alone_is_no_error():
    """What the rows hold changes no outcome: a class without rows, one row, no rows near."""
    for y in (np.ones(50, dtype=bool), np.zeros(50, dtype=bool)):
        model = fitted(database(np.full((50, 3), 0.3), y))
        assert np.isfinite(model.coef_).all()

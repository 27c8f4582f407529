"""Logistic regression: exact without noise, off by what it says with it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from helpers import opened
from learn.data import columns_of, schema, table

import sulq
from sulq import learn
from sulq.learn import LogisticRegression
from sulq.learn.logistic import as_if_normal, level_for, steepness

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=")  # large ones stand for no noise
FLAG = {"flag": {"type": "boolean", "nullable": False}}


def rows(n=20_000, d=3, normal=True, seed=0):
    """Columns within [0, 1] that go together, and a label with log odds linear in them."""
    rng = np.random.default_rng(seed)
    mixed = np.eye(d) + 0.4
    drawn = rng.normal(size=(n, d)) if normal else rng.exponential(size=(n, d)) - 1
    X = np.clip(0.45 + 0.08 * drawn @ mixed, 0, 1)
    odds = (X - 0.5) @ np.linspace(6, -4, d) - 0.5
    return X, rng.random(n) < 1 / (1 + np.exp(-odds))


def database(X, y, **settings):
    return opened(table(X, flag=y), schema(X.shape[1], **FLAG), guarantee="dp", **settings)


def exact(X, y):
    from sklearn import linear_model

    return linear_model.LogisticRegression(C=1e6, max_iter=1000).fit(X, y)


def fitted(X, y, db, **made):
    return LogisticRegression(**made).fit(db, columns=columns_of(X.shape[1]), label="flag")


def test_normal_columns_need_no_rounds():
    """Without noise, moments alone give the maximum of the likelihood, but for the sample."""
    X, y = rows()
    model = fitted(X, y, database(X, y, epsilon=1e10), max_iter=0)
    want = exact(X, y)
    assert np.allclose(model.coef_, want.coef_[0], atol=0.15)
    assert model.intercept_ == pytest.approx(want.intercept_[0], abs=0.1)


def test_rounds_lead_to_the_maximum_of_the_likelihood():
    """Whatever the columns' distribution is, and not without the rounds."""
    X, y = rows(normal=False)
    want = exact(X, y)
    db = database(X, y, epsilon=1e10, queries=10**4)
    off = [np.abs(fitted(X, y, db, max_iter=r).coef_ - want.coef_[0]).max() for r in (0, 12)]
    assert 2 * off[1] < 0.06 < off[0]
    model = fitted(X, y, db, max_iter=12)
    assert np.allclose(model.predict_proba(X), want.predict_proba(X), atol=0.01)
    assert model.score(X, y) == pytest.approx(want.score(X, y), abs=0.002)


def test_coefficients_are_off_by_what_they_say():
    """Less those without noise, over coef_std_: by about 1. False alarm: below 1e-9.

    The mean square of 20 x 3 numbers, 60 degrees of freedom, is above 2.5 or below 0.25 with a
    probability below 1e-9; errors of twice the size or more would be rejected.
    """
    X, y = rows(8000)
    promised = {"epsilon": 1.0, "queries": 100}
    quiet = fitted(X, y, database(X, y, **promised), budget=100)
    found = []
    for _ in range(20):
        model = fitted(X, y, database(X, y, quiet=False, **promised), budget=100)
        found += ((model.coef_ - quiet.coef_) / model.coef_std_).tolist()
    spread = float(np.mean(np.square(found)))
    assert 0.25 < spread < 2.5


@pytest.mark.parametrize("max_iter", [0, 2])
def test_the_price_is_what_is_spent(max_iter):
    """The announced price is the budget, and is paid."""
    X, y = rows(2000)
    db = database(X, y, quiet=False)
    model = LogisticRegression(max_iter=max_iter, budget=30)
    announced = model.price(db, columns_of(3), "flag").queries
    model.fit(db, columns=columns_of(3), label="flag")
    assert announced == 30
    assert float(db.budget.spent) == pytest.approx(30, rel=1e-5)


def test_stein_holds_of_normal_columns():
    """E[p - 1/2] and E[(p - 1/2) y] of drawn columns are those of the formula."""
    rng = np.random.default_rng(1)
    C = np.array([[0.04, 0.01], [0.01, 0.02]])
    theta, level = np.array([5.0, -7.0]), 0.4
    y = rng.multivariate_normal([0, 0], C, 400_000)
    p = 1 / (1 + np.exp(-(level + y @ theta))) - 0.5
    variance = float(theta @ C @ theta)
    assert level_for(p.mean(), variance) == pytest.approx(level, abs=0.02)
    assert np.allclose((p[:, None] * y).mean(axis=0), steepness(level, variance) * C @ theta,
                       atol=1e-3)  # fmt: skip
    found = as_if_normal((p[:, None] * y).mean(axis=0), C, np.linalg.inv(C), p.mean())
    assert np.allclose(found[1], theta, atol=0.2)
    far = as_if_normal(np.array([9.0, 9.0]), C, np.linalg.inv(C), 0.2)  # no such model
    assert all(np.isfinite(np.r_[far[0], far[1], far[2]]))


def test_a_model_is_json_drawn_and_said():
    """A model read back predicts the same."""
    X, y = rows(2000)
    model = fitted(X, y, database(X, y))
    same = learn.from_json(json.dumps(model.to_json()))
    assert np.array_equal(same.predict_proba(X[:5]), model.predict_proba(X[:5]))
    assert "Log odds of True" in model.summary()
    assert "intercept" in str(model.plot())
    with pytest.raises(sulq.Refused, match="no log odds"):
        model.predict([[math.nan, 0.5, 0.5]])

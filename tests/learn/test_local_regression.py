"""Locally weighted regression: the weighted line without noise, off by what it says with it."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq
from sulq import learn
from sulq.learn import LocallyWeightedRegression

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=")  # large ones stand for no noise
SURE = {"nullable": False}
SCHEMA = {
    "age": {"type": "integer", "low": 0, "high": 99} | SURE,
    "dose": {"type": "number", "low": 0.0, "high": 2.0},
    "flag": {"type": "boolean"} | SURE,
    "pay": {"type": "number", "low": -10.0, "high": 30.0} | SURE,
}


def rows(n=5000, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    age, dose, flag = rng.integers(0, 100, n), 2 * rng.random(n), rng.random(n) < 0.5
    pay = 8 * np.sin(age / 15) + 3 * dose + 2 * flag + rng.normal(size=n) + 5
    dose = pa.array(dose, mask=rng.random(n) < missing)
    return pa.table({"age": age, "dose": dose, "flag": flag, "pay": np.clip(pay, -10, 30)})


def database(table=None, **settings):
    return opened(rows() if table is None else table, SCHEMA, guarantee="dp", **settings)


def fitted(db, columns=("age",), **made):
    return LocallyWeightedRegression(**made).fit(db, columns=list(columns), label="pay")


def line(x, y, places, bandwidth, degree):
    """Weighted least squares at each place. Independent code, row by row."""
    out = []
    for place in places:
        K = np.exp(-((x - place) ** 2).sum(axis=1) / (2 * bandwidth**2))
        A = np.column_stack([np.ones(len(x)), x - place]) if degree else np.ones((len(x), 1))
        out.append(np.linalg.lstsq(A * np.sqrt(K)[:, None], y * np.sqrt(K), rcond=None)[0][0])
    return np.array(out)


@pytest.mark.parametrize("degree", [0, 1])
def test_without_noise_it_is_the_weighted_line(degree):
    """With a bin for every age it is that of the rows themselves."""
    table = rows()
    model = fitted(database(table, epsilon=1e8), bins=100, degree=degree, bandwidth=0.07)
    age, pay = np.array(table["age"], float)[:, None], np.array(table["pay"])
    places = np.array([[0.0], [13], [50], [99]])
    want = line(age / 99, pay, places / 99, 0.07, degree)
    assert model.predict(places) == pytest.approx(want, abs=0.02)
    assert np.abs(want - 5).max() > 2


def test_two_columns_and_missing_values():
    """Rows are in the middle of their bins; those with a missing value are left out."""
    table = rows(missing=0.3)
    model = fitted(database(table, epsilon=1e8), ["age", "dose"], bins=10, bandwidth=0.2)
    kept = table.filter(table["dose"].is_valid())
    assert model.left_out_ == pytest.approx(len(table) - len(kept), abs=0.1)
    age, dose = np.array(kept["age"]), np.array(kept["dose"], float)
    x = np.column_stack([(age // 10 * 10 + 4.5) / 99, (np.minimum(dose // 0.2, 9) + 0.5) / 10])
    places = np.array([[20, 0.5], [70, 1.9]])
    want = line(x, np.array(kept["pay"]), places / [99, 2], 0.2, 1)
    assert model.predict(places) == pytest.approx(want, abs=0.02)
    gone = model.predict([[20, math.nan]])
    assert np.isnan(gone).all()


def test_predictions_are_off_by_what_they_say():
    """Less those without noise, over their std: by 1. False alarm: below 1e-9.

    The mean square of 40 x 4 numbers at places that share few rows is within 0.45 and 1.9 but with
    a probability below 1e-9; errors 1.5 times as large would be rejected.
    """
    table, places = rows(), np.array([[10.0], [35], [60], [90]])
    settings = {"epsilon": 1.0, "queries": 100}
    made = {"bandwidth": 0.05, "budget": 50}
    exact = fitted(database(table, **settings), **made).predict(places)
    off = []
    for _ in range(40):
        model = fitted(database(table, quiet=False, **settings), **made)
        found, stds = model.predict(places, return_std=True)
        off.append((found - exact) / stds)
    assert 0.45 < float(np.mean(np.square(off))) < 1.9


def test_the_price_is_what_is_spent_for_any_bins():
    """One question whose price grows neither with bins nor with columns."""
    prices = set()
    for bins, columns in ((5, ["age"]), (40, ["age"]), (10, ["age", "dose", "flag"])):
        db = database(quiet=False)
        model = LocallyWeightedRegression(bins=bins)
        price = model.price(db, columns, "pay").queries
        model.fit(db, columns=columns, label="pay")
        assert db.budget.spent == price
        prices.add(price)
    assert len(prices) == 1
    db = database(quiet=False)
    model = LocallyWeightedRegression(budget=20)
    assert float(model.price(db, ["age"], "pay")) == pytest.approx(20, rel=1e-5)


def test_many_columns_have_fewer_bins():
    """As many as can be asked for; what is still too many is refused."""
    n, many = 50, 13
    table = pa.table({f"c{i}": np.linspace(0, 1, n) for i in range(many)})
    ends = {"type": "number", "low": 0.0, "high": 1.0, "nullable": False}
    db = opened(table, dict.fromkeys(table.column_names, ends))
    model = LocallyWeightedRegression(bins=20).fit(db, columns=["c0", "c1", "c2", "c3"], label="c4")
    assert len(model.bin_counts_) == 5**4
    with pytest.raises(sulq.QueryNotAllowed, match="more than 90,000 bins together"):
        LocallyWeightedRegression().price(db, table.column_names[1:], "c0")


def test_another_bandwidth_asks_nothing():
    """A fitted model predicts with other settings for nothing."""
    db = database(epsilon=1e8)
    model = fitted(db)
    spent, before = db.budget.spent, model.predict([[24]])
    model.set_params(bandwidth=1.5, degree=0)
    assert db.budget.spent == spent
    assert abs(model.predict([[24]]) - before) > 1


def test_where_there_are_few_rows_the_kernel_widens():
    """No rows above 50: what is said of 90 comes from those below, with its error."""
    table = rows().filter(np.array(rows()["age"]) < 50)
    model = fitted(database(table, epsilon=1.0, queries=100, quiet=False), budget=50, degree=0)
    near, far = (model.predict([[x]], return_std=True) for x in (25, 90))
    assert np.isfinite([*near[0], *far[0], *near[1], *far[1]]).all()
    low, high = np.array(table["pay"]).min(), np.array(table["pay"]).max()
    assert low < far[0][0] < high
    nobody = fitted(database(rows(3), epsilon=0.1, queries=100, quiet=False))
    assert np.isfinite(nobody.predict([[25]])).all()


def test_a_model_is_json_drawn_and_said():
    """A model read back predicts the same."""
    model = fitted(database(epsilon=1e8), ["age", "flag"])
    same = learn.from_json(json.dumps(model.to_json()))
    assert np.array_equal(same.predict([[30, True]]), model.predict([[30, True]]))
    assert model.predict([[30, True]]) > model.predict([[30, False]]) + 1
    first, second = model.plot().figures
    assert first.title == "Along age, other columns in the middle"
    assert "With 95% intervals" in second.words
    assert "Along flag" in model.summary()
    held = rows(500, seed=3)
    X = np.column_stack([held["age"], held["flag"]]).astype(float)
    assert model.score(X, np.array(held["pay"])) > 0.7


def test_refusals_are_free():
    """What cannot be learned is refused before a question."""
    db = database()
    one = LocallyWeightedRegression()
    for model, columns, label, said in (
        (one, ["age"], None, "label=None"), (one, ["age", "pay"], "pay", "not the label"),
        (one, [f"c{i}" for i in range(12)], "pay", "no column 'c0'"),
        (one, ["age"], "x", "no column"),
        (LocallyWeightedRegression(bandwidth=0), ["age"], "pay", "want a number above 0"),
    ):  # fmt: skip
        for call in (model.price, model.fit):
            with pytest.raises(sulq.Refused, match=said):
                call(db, columns=columns, label=label)
    assert db.history() == []

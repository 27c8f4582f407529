"""db.define: functions of a row as columns, for questions, learners and over HTTP."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq
from sulq.errors import QueryNotAllowed
from sulq.learn import ID3, PCA, KMeans, LinearRegression, SpectralClustering

RNG = np.random.default_rng(3)
N = 2000
AGE, BMI = RNG.integers(0, 100, N), RNG.random(N) * 50
TABLE = pa.table({"id": [f"p{i}" for i in range(N)], "age": AGE, "bmi": BMI, "ill": AGE > 60})
SURE = {"nullable": False}
SCHEMA = {
    "id": {"key": True},
    "age": {"type": "integer", "low": 0, "high": 99} | SURE,
    "bmi": {"type": "number", "low": 0, "high": 50} | SURE,
    "ill": {"type": "boolean"} | SURE,
}


@sulq.row
def bracket(age):
    return 0 if age < 30 else 1 if age < 60 else 2


@sulq.row
def old(age, limit=60):
    return age > limit


@sulq.row
def heavy(bmi):
    return bmi / 50


@pytest.fixture
def db():
    return opened(TABLE, SCHEMA, queries=1000, epsilon=20.0)


def test_a_function_is_a_column(db):
    """With its range and its values; questions about it are those about its expression."""
    view = db.define(bracket, old, heavy, half="age / 2")
    assert view.columns[-4:] == ["bracket", "old", "heavy", "half"]
    assert view.schema["bracket"].values == (0, 1, 2)
    assert (view.schema["heavy"].low, view.schema["heavy"].high) == (0.0, 1.0)
    assert view.count("old and bracket = 2").value == (AGE > 60).sum()
    assert view.count("old(age, 30)").value == (AGE > 30).sum()
    found = view.sql("select bracket, count(*) as n from frame where not old group by bracket")
    exact = [((AGE <= 60) & (b == np.digitize(AGE, [30, 60]))).sum() for b in range(3)]
    assert found["n"] == exact
    spent = db.budget.spent
    assert db.count(f"{old} and {bracket} = 2").value == (AGE > 60).sum()
    assert db.budget.spent == spent  # the same question


def test_learners_take_functions_as_columns_and_labels(db):
    """Each learns what it would from a stored column of the same values."""
    stored = TABLE.append_column("level", pa.array(np.digitize(AGE, [30, 60])))
    stored = stored.append_column("weight", pa.array(BMI / 50))
    declared = SCHEMA | {
        "level": {"type": "integer", "low": 0, "high": 2} | SURE,
        "weight": {"type": "number", "low": 0, "high": 1} | SURE,
    }
    kept = opened(stored, declared, queries=1000, epsilon=20.0)
    tree = ID3(max_depth=1).fit(db, columns=[bracket], label=old)
    assert tree.node_counts_[0].sum() == N
    assert list(tree.predict([[0], [2]])) == [False, True]
    for model in (PCA(1), KMeans(2, init=np.array([[0.0, 0.2], [2.0, 0.7]]))):
        ours = type(model)(**model.get_params()).fit(db, columns=[bracket, heavy])
        theirs = model.fit(kept, columns=["level", "weight"])
        assert ours.columns_ == ("bracket", "heavy")
        name = "components_" if isinstance(model, PCA) else "cluster_centers_"
        assert np.allclose(getattr(ours, name), getattr(theirs, name))
    line = LinearRegression().fit(db, columns=["age"], label=heavy)
    other = LinearRegression().fit(kept, columns=["age"], label="weight")
    assert np.allclose(line.coef_, other.coef_)
    assert SpectralClustering(2).fit(db, columns=[heavy, "age"]).columns_ == ("heavy", "age")
    view = db.define(bracket, heavy)
    named = PCA(1).price(view, columns=["bracket", "heavy"])
    assert PCA(1).price(db, columns=[bracket, heavy]) == named


def test_texts_that_are_no_expressions_stay(db):
    """Keys named like a defined column are keys."""
    view = db.define(p1="age > 3", p2="age > 4")
    rows = sulq.Rows.keys(["p1", "p2"])
    assert view.count("ill", rows=rows).value == (AGE[1:3] > 60).sum()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda db: db.define(), "at least one function"),
        (lambda db: db.define("age"), "with its name"),
        (lambda db: db.define(age="bmi"), "a column called 'age' already"),
        (lambda db: db.define(old, old="bmi > 3"), "a column called 'old' already"),
        (lambda db: db.define(x=3), "want an expression"),
        (lambda db: db.define(x="nobody"), "there is no column 'nobody'"),
        (lambda db: db.define(x="id"), "a condition or a number with a known range"),
        (lambda db: db.define(x="bmi").define(y="bmi"), "a view already"),
    ],
)
def test_what_is_no_column_is_refused(db, make, said):
    """In words, and nothing is charged."""
    with pytest.raises(QueryNotAllowed, match=said):
        make(db)
    assert db.budget.spent == 0

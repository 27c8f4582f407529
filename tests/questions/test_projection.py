"""db.project: components as columns, for every kind of question."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq
from sulq.learn import PCA, SVD, KMeans, LinearRegression, Perceptron

RNG = np.random.default_rng(5)
N, D = 3000, 5


DIRECTIONS = np.linalg.qr(RNG.normal(size=(D, 2)))[0].T
X = np.clip(0.5 + RNG.normal(size=(N, 2)) * [0.3, 0.15] @ DIRECTIONS, 0, 1)
TABLE = pa.table(
    {**{f"x {i}": X[:, i] * 10 for i in range(D)}, "well": X[:, 0] > 0.5,
     "region": np.where(X[:, 1] > 0.5, "north", "south")}
)  # fmt: skip
SCHEMA = {
    "columns": {
        **{f"x {i}": {"type": "number", "low": 0.0, "high": 10.0} for i in range(D)},
        "well": {"type": "boolean", "nullable": False},
        "region": {"values": ["north", "south"], "public": True},
    }
}
COLUMNS = [f"x {i}" for i in range(D)]


@pytest.fixture(scope="module")
def db():
    return opened(TABLE, SCHEMA, queries=1000, epsilon=20.0)


@pytest.fixture(scope="module")
def pca(db):
    return PCA(2).fit(db, columns=COLUMNS)


@pytest.fixture(scope="module")
def scores(pca):
    return pca.transform(X * 10)


def test_columns_are_components_and_the_rest(db, pca):
    """A view has them in place of what they were made of."""
    view = db.project(pca)
    assert view.columns == ["pc1", "pc2", "well", "region"]
    assert db.columns == [*COLUMNS, "well", "region"], "the table itself is as it was"
    assert view.rows == db.rows


@pytest.mark.parametrize("kind", [PCA, SVD])
@pytest.mark.parametrize("scaled", [True, False])
def test_sums_and_counts_of_components(db, kind, scaled):
    """Sums, means, predicates and SQL see what `transform` gives for the same rows."""
    model = kind(2, scaled=scaled).fit(db, columns=COLUMNS)
    z, view = model.transform(X * 10), db.project(model)
    assert view.sum("pc1").value == pytest.approx(z[:, 0].sum(), abs=1e-3 * N)
    assert view.mean("PC2", "well").value == pytest.approx(z[X[:, 0] > 0.5, 1].mean(), abs=1e-2)
    assert view.count('"pc1" > pc2 and well').value == ((z[:, 0] > z[:, 1]) & (X[:, 0] > 0.5)).sum()
    table = view.sql(
        f"select region, count(*), avg(pc1) from {view.name or 'frame'} group by region"
    )
    north = X[:, 1] > 0.5
    found = {row["region"]: row["avg(pc1)"] for row in table.to_arrow().to_pylist()}
    assert found["north"] == pytest.approx(z[north, 0].mean(), abs=1e-2)


def test_histogram_and_bins(db, pca, scores):
    """Counts by bins of a component are those of the scores."""
    view = db.project(pca)
    low, high = view.schema["pc1"].low, view.schema["pc1"].high
    table = view.histogram("pc1", bins=8)
    wanted = np.histogram(scores[:, 0], np.linspace(low, high, 9))[0]
    assert table["count"][:8] == wanted.tolist()


def test_learners_on_components(db, pca, scores):
    """KMeans, Perceptron and a regression on components find what they find on the scores."""
    view = db.project(pca, clip=2)
    means = KMeans(3, max_iter=4).fit(view, columns=["pc1", "pc2"])
    ends = view.schema["pc1"].low, view.schema["pc1"].high
    wide = 2 * scores[:, 0].std()
    assert ends == pytest.approx((-wide, wide), rel=0.02)
    nearest = means.predict(scores)
    for i in range(3):
        own = scores[nearest == i]
        if len(own) > 200:
            assert np.abs(own.mean(axis=0) - means.cluster_centers_[i]).max() < 0.2
    threshold = Perceptron(max_iter=10).fit(view, columns=["pc1", "pc2"], label="well")
    assert threshold.score(scores, X[:, 0] > 0.5) > 0.9
    line = LinearRegression().fit(view, columns=["pc1"], label="pc2")
    assert abs(line.coef_[0]) < 0.05, "components are uncorrelated"


def test_one_price_and_one_ledger(db, pca):
    """A question about components is charged once, to the table."""
    view, spent = db.project(pca), db.budget.spent
    query = sulq.Query(["pc1"], where="pc2 > 0.123")
    price = view.price(query).queries
    view.ask(query)
    view.ask(query)
    assert db.budget.spent == view.budget.spent == spent + price


def test_leaves_of_components(db, pca, scores):
    """A tree may cut components and columns."""
    view = db.project(pca)
    tree = {"column": "pc1", "threshold": 0.1, "below": None,
            "above": {"column": "well", "branches": [[True, None]], "other": None}}  # fmt: skip
    counts = view.ask(sulq.Query(by=sulq.Leaf(tree))).values[:, 0]
    above, well = scores[:, 0] >= 0.1, X[:, 0] > 0.5
    wanted = [(~above).sum(), (above & well).sum(), (above & ~well).sum()]
    assert counts.tolist() == wanted


@pytest.mark.parametrize("engine", ["duckdb", "reference"])
def test_engines_agree_on_components(engine, pca):
    """Sums of components are the same integers everywhere."""
    one = opened(TABLE, SCHEMA, engine=engine, queries=10**6).project(pca)
    two = opened(TABLE, SCHEMA, queries=10**6).project(pca)
    query = sulq.Query(sulq.Products(["pc1", "pc2"]), where="pc1 < 0.5")
    assert one.ask(query).exact == two.ask(query).exact


def test_a_component_of_a_missing_value_is_missing():
    """A row that lacks a column has no component: it is skipped, as SQL skips what is missing."""
    table = pa.table({"a": [0.0, None, 1.0, 0.5] * 50, "b": [1.0, 0.5, 0.0, None] * 50})
    declared = {"columns": {n: {"type": "number", "low": 0.0, "high": 1.0} for n in "ab"}}
    db = opened(table, declared, queries=10**6)
    pca = PCA(1).fit(db)
    view, held = db.project(pca), np.array([[0.0, 1.0], [1.0, 0.0]] * 50)
    assert view.sum("pc1").value == pytest.approx(pca.transform(held)[:, 0].sum(), abs=1e-3)
    assert view.count("pc1 is null").value == 100


@pytest.mark.parametrize("clip", [None, 2])
def test_learners_on_components_leave_out_and_count_rows_with_a_gap(clip):
    """Clipped or not: a row with a gap is no row at the low end, and is among those left out."""
    gone = np.arange(N) % 3 == 0
    columns = {"a": pa.array(X[:, 0], mask=gone), "b": pa.array(X[:, 1])}
    declared = {"columns": {n: {"type": "number", "low": 0.0, "high": 1.0} for n in "ab"}}
    db = opened(pa.table(columns), declared, queries=10**6, epsilon=20.0)
    pca = PCA(2).fit(db)
    view = db.project(pca, clip=clip)
    for model in (KMeans(2, max_iter=2), PCA(2)):
        model.fit(view, columns=["pc1", "pc2"])
        assert model.left_out_ == pytest.approx(gone.sum(), abs=1e-6), type(model)
        assert model.left_out_std_ > 0
    ends = [view.schema["pc1"].low, view.schema["pc1"].high]
    scores = np.clip(pca.transform(X[~gone][:, :2])[:, 0], *ends)
    assert view.sum("pc1").value == pytest.approx(scores.sum(), abs=1e-2)


def test_refusals(db, pca):
    """Columns that a view lacks, and models that are none, are refused."""
    view = db.project(pca)
    with pytest.raises(sulq.QueryNotAllowed, match="no column 'x0'"):
        view.count("x0 > 1")
    with pytest.raises(sulq.QueryNotAllowed, match="a view already"):
        view.project(pca)
    with pytest.raises(sulq.Refused, match="want a fitted"):
        db.project(KMeans(2))
    with pytest.raises(sulq.Refused, match="learned nothing"):
        db.project(PCA(2))
    with pytest.raises(sulq.QueryNotAllowed, match="standard deviations"):
        db.project(pca, clip=-1)
    other = opened(
        pa.table({"y": [0.5]}), {"columns": {"y": {"type": "number", "low": 0.0, "high": 1.0}}}
    )
    with pytest.raises(sulq.QueryNotAllowed, match="which is not here"):
        other.project(pca)


def test_hidden_columns_stay_hidden(db, pca):
    """A view speaks of its own columns; the stored ones have other names there."""
    with pytest.raises(sulq.QueryNotAllowed, match="no column"):
        db.project(pca).sum('"x 0"')

"""Naive Bayes: without noise the exact method, with noise off by what it says; its price."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from learn.data import RandomEngine

import sulq
from sulq import learn
from sulq.learn import NaiveBayes
from sulq.learn.naive_bayes import Counts, bells_of, moments

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=")  # large ones stand for no noise
BOOLEAN = {"type": "boolean", "nullable": False}
SCHEMA = {
    "columns": {
        "x": {"type": "number", "low": -10, "high": 10},
        "k": {"type": "integer", "low": 0, "high": 40, "nullable": False},
        "word": {"values": ["a", "b"]},
        "flag": BOOLEAN,
        "label": {"values": ["low", "high"]},
    }
}
NAMES = ("x", "k", "word", "flag")


def rows(n=4000, seed=0):
    """Two classes that differ in every column."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return pa.table(
        {
            "x": np.clip(rng.normal(np.where(y, 2, -1), 1.5), -10, 10),
            "k": np.clip(rng.normal(np.where(y, 25, 15), 4), 0, 40).astype(int),
            "word": np.where(rng.random(n) < np.where(y, 0.8, 0.3), "a", "b"),
            "flag": rng.random(n) < np.where(y, 0.6, 0.5),
            "label": np.where(y, "high", "low"),
        }
    )


def database(table=None, **settings):
    settings = {"guarantee": "dp"} | settings
    return opened(rows() if table is None else table, SCHEMA, **settings)


def matrix(table):
    return np.array([table.column(n).to_pylist() for n in NAMES], dtype=object).T


def by_class(table, name):
    column, y = np.array(table.column(name)), np.array(table.column("label"))
    return [column[y == c] for c in ("low", "high")]


# --- what is learned -----------------------------------------------------------------------


def test_silent_naive_bayes_is_exact():
    """Counts, means, variances and shares are those of the rows."""
    table = rows()
    model = NaiveBayes(budget=1000).fit(database(table, epsilon=10**6), label="label")
    assert model.columns_ == NAMES
    assert model.numbers_ == ("x", "k")
    assert model.classes_.tolist() == ["low", "high"]
    parts = {name: by_class(table, name) for name in NAMES}
    sizes = [len(part) for part in parts["x"]]
    assert model.class_count_ == pytest.approx(sizes, abs=1e-6)
    assert model.class_prior_ == pytest.approx(np.array(sizes) / 4000)
    for i, name in enumerate(("x", "k")):
        assert model.theta_[:, i] == pytest.approx([p.mean() for p in parts[name]], abs=1e-3)
        assert model.var_[:, i] == pytest.approx([p.var() for p in parts[name]], rel=1e-2)
    words, flags = model.category_shares_
    assert words[0] == pytest.approx([(p == "a").mean() for p in parts["word"]], abs=1e-4)
    assert words.shape == (3, 2)  # a, b, other
    assert flags[1] == pytest.approx([p.mean() for p in parts["flag"]], abs=1e-4)


def test_it_predicts_as_scikit_learn_does():
    """With hardly any noise it agrees with GaussianNB."""
    from sklearn.naive_bayes import GaussianNB

    table = rows()
    X, y = matrix(table)[:, :2].astype(float), np.array(table.column("label"))
    db = database(table, epsilon=10**6)
    model = NaiveBayes(budget=1000).fit(db, columns=["x", "k"], label="label")
    exact = GaussianNB().fit(X, y)
    want = exact.predict_proba(X)[:, [1, 0]]  # alphabetical there
    assert np.abs(model.predict_proba(X) - want).max() < 0.01
    assert (model.predict(X) == exact.predict(X)).mean() > 0.998
    assert np.exp(model.predict_log_proba(X)) == pytest.approx(model.predict_proba(X))


def test_errors_are_those_announced():
    """Means and variances are off by what they say. False alarm: 1e-9; 0.85 or 1.2 is refused."""
    rng, n, stds = np.random.default_rng(0), 5000.0, np.array([30.0, 10, 10, 4, 4])
    mean, var = np.array([[0.2, -0.3], [0.0, 0.4]]), np.array([[0.01, 0.03], [0.02, 0.015]])
    truth = np.column_stack([[n, n], n * mean, n * (var + mean**2 - 0.125)])
    pulls = []
    for _ in range(3000):
        values = truth + rng.normal(0, stds, truth.shape)
        found = bells_of(
            SimpleNamespace(values=values, stds=[stds]), Counts(values[:, 0], stds[0]),
            np.zeros(2, dtype=bool),
        )  # fmt: skip
        own = found.var - found.mean_std**2
        pulls.append([(found.mean - mean) / found.mean_std, (own - var) / found.var_std])
    rms = np.sqrt(np.mean(np.square(pulls), axis=0))
    assert np.abs(rms - 1).max() < 6.5 / math.sqrt(2 * len(pulls)) + 0.02  # and second order


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
def test_fits_are_off_by_what_they_say(guarantee):
    """The same through a whole fit, counted more roughly. False alarm: 1e-9."""
    rng = np.random.default_rng(1)
    X, y = np.clip(rng.normal(0.4, 0.15, (3000, 10)), 0, 1), rng.random(3000) < 0.4
    true = [X[y == c] for c in (False, True)]
    pulls = []
    for _ in range(6):
        model = NaiveBayes(epsilon=2.0, guarantee=guarantee, bounds=(0, 1)).fit(X, y)
        pulls.append((model.theta_ - [t.mean(0) for t in true]) / model.theta_std_)
        raw = model.var_ - model.theta_std_**2
        pulls.append((raw - [t.var(0) for t in true]) / model.var_std_)
    assert 0.6 < np.sqrt(np.mean(np.square(pulls))) < 1.4


def test_squares_have_a_quarter_of_the_noise():
    """About the middle of its range: half of what y^2 would have, a quarter of what y has."""
    for guarantee in ("dp", "beliefs"):
        db = database(guarantee=guarantee)
        count, x, k, x2, k2 = db.price(moments(db, ("x", "k"), "label", None)).half_widths
        assert x2 / x == pytest.approx(0.25, rel=1e-3)
        assert k2 / k == pytest.approx(0.25, rel=1e-3)
        assert count > 0


def test_categories_count_classes_too():
    """A histogram's sum over t values has the noise of t counts; two of them are averaged."""
    db = database()
    one = NaiveBayes().fit(db, columns=["word"], label="label")
    assert one.class_count_std_ == pytest.approx(db.promise.std * math.sqrt(3), rel=1e-3)
    both = NaiveBayes().fit(db, columns=["word", "flag"], label="label")
    want = db.promise.std / math.sqrt(1 / 3 + 1 / 2)
    assert both.class_count_std_ == pytest.approx(want, rel=1e-3)


def test_noise_widens_what_it_cannot_tell():
    """A column without any spread gets the spread of its noise, never zero or less."""
    y = np.arange(400) % 2 == 0
    X = np.full((400, 1), 0.5)
    for _ in range(5):
        model = NaiveBayes(epsilon=0.5, bounds=(0, 1)).fit(X, y)
        assert (model.var_ >= model.var_std_ + model.theta_std_**2).all()
    assert (model.var_ > 0).all()


def test_small_classes_are_given_what_all_have():
    """A class of few rows has the spread of all rows."""
    rng = np.random.default_rng(0)
    y = np.array(["common"] * 3000 + ["rare"] * 3)
    X = np.where(y == "rare", 0.95, 0.3)[:, None] + rng.normal(0, 0.01, (3003, 1))
    model = NaiveBayes(epsilon=1.0, bounds=(0, 1), classes=["common", "rare"]).fit(X, y)
    assert model.small_classes_.tolist() == ["rare"]
    assert model.theta_[1, 0] == pytest.approx(0.3, abs=0.2)
    assert model.predict(X[:5]).tolist() == ["common"] * 5
    assert "too few for the noise" in model.summary()


def test_a_missing_number_says_nothing():
    """A gap leaves the other columns to decide."""
    model = NaiveBayes(budget=1000).fit(database(epsilon=100.0), label="label")
    blank = model.predict_proba([[None, None, None, None]])
    assert blank[0, 1] < 0.5
    one, other = model.predict_proba([[None, 25, "a", True], [3.0, 25, "a", True]])
    assert other[1] > one[1] > 0.5


def test_declared_bins_make_a_number_a_category():
    """A number with bins is counted by bin."""
    binned = {"type": "integer", "low": 0, "high": 40, "bins": [10, 20]}
    columns = SCHEMA["columns"] | {"k": binned}
    table = rows()
    db = opened(table, {"columns": columns}, epsilon=10**6)
    model = NaiveBayes(budget=1000).fit(db, columns=["x", "k"], label="label")
    assert model.numbers_ == ("x",)
    (shares,) = model.category_shares_
    want = [np.histogram(part, [0, 10, 20, 41])[0] / len(part) for part in by_class(table, "k")]
    assert shares[:3] == pytest.approx(np.array(want).T, abs=1e-4)
    assert model.predict([[2.0, 25]]).tolist() == ["high"]


def test_noisy_naive_bayes_is_close():
    """At epsilon = 1 on 20,000 rows it is within half a point of no noise; noise is far smaller."""
    table = rows(20_000)
    y = np.array(table.column("label"))
    exact = NaiveBayes(budget=1000).fit(database(table, epsilon=10**6), label="label")
    model = NaiveBayes(budget=1000).fit(database(table, quiet=False), label="label")
    assert model.score(matrix(table), y) > exact.score(matrix(table), y) - 0.005 > 0.9


# --- price -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("guarantee", "number", "histogram"), [("dp", 1, 1), ("beliefs", 1, 2)])
def test_price(guarantee, number, histogram):
    """a^2 + 2d for d numbers, and a histogram for each category."""
    db = database(guarantee=guarantee)
    a2 = round(math.sqrt(math.sqrt(2) / 2), 6) ** 2
    price = NaiveBayes().price(db, label="label")
    assert float(price) == pytest.approx(number * (a2 + 4) + 2 * histogram, rel=1e-5)
    assert len(NaiveBayes().fit(db, label="label").columns_) == 4
    assert db.budget.spent == price.queries


def test_the_papers_count():
    """Every number released: a cell per class and one for none, times what is asked."""
    db = database(pricing="paper")
    cells = 3
    assert NaiveBayes().price(db, label="label").queries == cells * (1 + 4) + cells * 3 + cells * 2


def test_it_is_one_scan():
    """All questions of a fit are read at once."""
    db = database()
    scans = []
    real = db._pipeline.engine.sums
    db._pipeline.engine.sums = lambda queries: scans.append(len(queries)) or real(queries)
    NaiveBayes(budget=5).fit(db, label="label")
    assert scans == [3]


@pytest.mark.parametrize("budget", [None, 7.5])
@pytest.mark.parametrize("reach", [10, 10**9, 10**15])
@pytest.mark.parametrize("columns", [NAMES, ("x",), ("word", "flag")])
def test_random_answers_end_within_the_price(columns, reach, budget):
    """Whatever the answers are, no more than announced is paid."""
    db = database()
    db._pipeline.engine = RandomEngine(db._pipeline.engine, reach)
    model = NaiveBayes(budget=budget)
    announced = model.price(db, columns, "label").queries
    model.fit(db, columns=columns, label="label")
    assert 0 < db.budget.spent <= announced
    assert budget is None or announced <= budget
    learned = [model.theta_, model.var_, model.theta_std_, model.class_prior_]
    assert all(np.isfinite(v).all() for v in (*learned, *model.category_shares_))
    held = matrix(rows(5))[:, [NAMES.index(name) for name in columns]]
    assert np.isfinite(model.predict_log_proba(held)).all()


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        (NaiveBayes(), {}, "label=None"),
        (NaiveBayes(), {"label": "x"}, "label='x'"),
        (NaiveBayes(), {"label": "flag", "columns": ["flag"]}, "not the label 'flag'"),
        (NaiveBayes(), {"label": "flag", "columns": ["nope"]}, "no column 'nope'"),
        (NaiveBayes(budget=0), {"label": "flag"}, "budget=0"),
    ],
)
def test_refusals_are_free(model, asked, said):
    """What cannot be learned is refused before a question."""
    db = database()
    with pytest.raises(sulq.Refused, match=said):
        model.fit(db, **asked)
    assert db.history() == []


def test_what_was_fitted_before_is_free():
    """With nothing left, the same fit gives the same model from the stored answers."""
    db = database(quiet=False)
    models = [NaiveBayes(budget=db.budget.total).fit(db, label="label")]
    left = db.budget.remaining
    models.append(NaiveBayes(budget=db.budget.total).fit(db, label="label"))
    assert db.budget.remaining == left < 1
    assert models[0].to_json() == models[1].to_json()


def test_too_little_budget_is_refused_before_the_first_query():
    """A fit is paid whole or not begun."""
    db = database(queries=1)
    with pytest.raises(sulq.BudgetExceeded):
        NaiveBayes().fit(db, label="label")
    assert db.history() == []


# --- shape ---------------------------------------------------------------------------------


def test_in_scikit_learn():
    """It works in a pipeline and in cross-validation."""
    from sklearn import base as sklearn
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    rng = np.random.default_rng(0)
    y = rng.random(4000) < 0.5
    X = np.clip(rng.normal(np.where(y, 0.6, 0.4)[:, None], 0.1, (4000, 3)), 0, 1)
    model = NaiveBayes(epsilon=5.0, bounds=(0, 1))
    assert sklearn.clone(model).get_params() == model.get_params()
    assert repr(model) == "NaiveBayes(epsilon=5.0, bounds=(0, 1))"
    assert cross_val_score(model, X, y, cv=2).min() > 0.9
    assert make_pipeline(FunctionTransformer(), model).fit(X, y).score(X, y) > 0.9
    with pytest.raises(sulq.Refused, match="X has 2 features"):
        model.fit(X, y).predict(X[:, :2])
    with pytest.raises(sulq.Refused, match="learned nothing"):
        NaiveBayes().predict(X)


@pytest.mark.parametrize("columns", [NAMES, ("x", "k"), ("word", "flag")])
def test_models_are_json(columns):
    """A model read back predicts the same."""
    model = NaiveBayes(budget=1000).fit(database(), columns=columns, label="label")
    X = matrix(rows(50))[:, [NAMES.index(name) for name in columns]]
    body = json.dumps(model.to_json())
    for back in (NaiveBayes.from_json(body), learn.from_json(body)):
        assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
        assert back.to_json() == model.to_json()
        assert back.summary() == model.summary()


def test_the_model_in_words():
    """The summary has each class, its mean and its spread."""
    said = NaiveBayes(budget=1000).fit(database(epsilon=100.0), label="label").summary()
    low, x, k, word, *_ = said.splitlines()
    assert low.startswith("low: ")
    assert " +/- " in low
    assert x.startswith("  x: -0.9")
    assert "spread 1.4" in x
    assert k.startswith("  k: 14.")
    assert word.startswith("  word: a 27.7%, b 72.3%, (other)")

"""Statistical queries are within tau as often as they say, at the price they say."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from learn.data import stand_in
from scipy import stats

import sulq
from sulq import learn
from sulq.learn import ConjunctionLearner, StatisticalQueries, rows_needed
from sulq.learn.statistical import literals_of

SURE = 1e-9  # the chance that a right learner fails one of these tests
NUMBER = {"columns": {"x": {"type": "number", "low": 0, "high": 1}}}


def numbers(n, **settings):
    """x at 1/n, 2/n, ..., and the last one missing."""
    x = [*((i + 1) / n for i in range(n - 1)), None]
    return opened(pa.table({"x": pa.array(x, pa.float64())}), NUMBER, **settings)


# --- the oracle ---------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
def test_a_share_is_that_of_all_rows(guarantee):
    """Rows where the predicate is missing count as rows where it is false."""
    oracle = StatisticalQueries(numbers(100, guarantee=guarantee, epsilon=5.0))
    assert oracle.stat("x > 0.5", 0.1) == pytest.approx(0.49)
    assert oracle.stat("not x > 0.5", 0.1) == pytest.approx(0.50)
    assert oracle.stats(["x > 2", "x <= 1"], 0.1) == pytest.approx([0.0, 0.99])


@pytest.mark.parametrize(
    ("guarantee", "noise"), [("beliefs", "gaussian"), ("dp", "gaussian"), ("dp", "laplace")]
)
def test_answers_are_off_by_tau_as_often_as_beta_says(guarantee, noise):
    """Within tau with probability 1 - beta, and no surer than paid for. False alarm: 1e-9."""
    count, beta, n = 600, 0.2, 400
    settings = {"guarantee": guarantee, "noise": noise, "quiet": False, "engine": "reference"}
    db = numbers(n, epsilon=10.0, queries=2000, **settings)
    oracle = StatisticalQueries(db)
    tau = db.promise.half_width(1 - beta) / n  # about one query each, or less

    def misses(asked_beta, first):
        """How many of `count` answers are off by more than tau."""
        wheres = [f"x > {(first + i) / 1e6}" for i in range(count)]
        queries = [oracle.queries([where], tau, asked_beta)[0] for where in wheres]
        true = [1 - 1 / n] * count  # x is at 1/n or above, or missing
        return int((np.abs(oracle.means(queries) - true) > tau).sum())

    def p_value(found):
        law = stats.binom(count, beta)
        return 2 * min(law.cdf(found), law.sf(found - 1))

    assert p_value(misses(beta, 0)) > SURE
    assert p_value(misses(0.5, count)) < SURE


def test_a_share_is_one_whatever_the_noise():
    """Never below 0 or above 1: cutting brings no answer further from the truth."""
    db = stand_in(pa.table({"x": [0.5] * 50}), NUMBER, reach=10**6, epsilon=20.0)
    found = StatisticalQueries(db).stats([f"x > {i / 20}" for i in range(20)], 0.5, 0.5)
    assert set(found) == {0.0, 1.0}


def test_several_are_right_together():
    """Each of q gets beta / q."""
    oracle = StatisticalQueries(numbers(1000))
    alone = oracle.queries(["x > 0.1"], 0.05, 0.01)
    assert alone == oracle.queries(["x > 0.1", "x > 0.2", "x > 0.3", "x > 0.4"], 0.05, 0.04)[:1]


@pytest.mark.parametrize(
    ("settings", "power", "unit"),
    [
        ({}, 2, 1), ({"guarantee": "dp"}, 2, 1 / 2), ({"noise": "laplace"}, 1, 1),
        ({"noise": "laplace", "guarantee": "dp"}, 1, 1 / 2), ({"pricing": "paper"}, 2, 1),
    ],
)  # fmt: skip
def test_the_price_is_known_before(settings, power, unit):
    """(h / tau n)^2 for one share, half the h under dp; and no more is charged."""
    n, tau, beta = 500, 0.07, 0.01
    db = numbers(n, **settings)
    oracle = StatisticalQueries(db)
    h = unit * db.promise.half_width(1 - beta)
    price = oracle.price("x > 0.5", tau, beta)
    assert float(price) == pytest.approx((h / (tau * n)) ** power, rel=1e-4)
    oracle.stat("x > 0.5", tau, beta)
    assert db.budget.spent == price.queries
    assert oracle.repeats(tau, beta) == math.ceil((h / unit / (tau * n)) ** 2)


def test_a_batch_costs_the_sum_of_its_parts():
    """Each names its own error, so no shared histogram answers for several."""
    db = numbers(500)
    oracle = StatisticalQueries(db)
    wheres = [f"x > {i / 50}" for i in range(40)]
    price = oracle.price(wheres, 0.5)
    oracle.stats(wheres, 0.5)
    assert db.budget.spent == price.queries
    assert price.micro == 40 * oracle.price("x > 0.5", 0.5, 0.05 / 40).micro
    twice = oracle.price(["x > 0.1", "x > 0.1"], 0.4)
    assert twice == oracle.price("x > 0.1", 0.4, 0.05 / 2)  # a question is paid once


@pytest.mark.parametrize("noise", ["binomial", "stitched"])
def test_noise_of_one_size_is_enough_or_refused(noise):
    """Noise that cannot be made finer answers what it is fine enough for."""
    db = numbers(2000, noise=noise, epsilon=5.0, queries=20)
    oracle = StatisticalQueries(db)
    reach = db.promise.half_width(0.95) / 2000
    assert oracle.stat("x > 0.5", 1.01 * reach) == pytest.approx(0.4995, abs=1e-3)
    with pytest.raises(sulq.QueryNotAllowed, match="one size"):
        oracle.stat("x > 0.5", 0.99 * reach)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("x > 0", 0.0), "tau=0"), (("x > 0", True), "tau=True"), (("x > 0", 1e-3), "one of 100"),
        (("x > 0", 0.1, 1.0), "beta=1"), (("x > 0", 0.1, 1e-15), "beta=1e-15"),
        (("nope > 0", 0.1), "nope"), (("x", 0.1), "x"), (("select 1", 0.1), "select"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_free(asked, said):
    """It is refused before a question."""
    db = numbers(100)
    with pytest.raises(sulq.Refused, match=said):
        StatisticalQueries(db).stat(*asked)
    with pytest.raises(sulq.Refused, match="want a list"):
        StatisticalQueries(db).stats("x > 0", 0.1)
    assert db.history() == []


# --- Theorem 5 ----------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_rows_needed_are_enough_and_no_more(guarantee, noise):
    """With so many rows the queries fit into T; with one row in a hundred fewer they do not."""
    settings = {"epsilon": 20.0, "queries": 50, "noise": noise, "guarantee": guarantee}
    promise = sulq.Promise(epsilon=20.0, queries=50, noise=noise, guarantee=guarantee)
    wheres, tau = [f"x > {i / 10}" for i in range(7)], 0.05
    n = rows_needed([tau] * 7, promise, 0.01)
    enough, few = numbers(n, **settings), numbers(n * 99 // 100, **settings)
    assert StatisticalQueries(enough).price(wheres, tau, 0.01).queries <= 50
    StatisticalQueries(enough).stats(wheres, tau, 0.01)
    assert StatisticalQueries(few).price(wheres, tau, 0.01).queries > 50
    with pytest.raises(sulq.BudgetExceeded):
        StatisticalQueries(few).stats(wheres, tau, 0.01)


def test_rows_needed_of_different_accuracies():
    """n^2 = h^2 / T * sum 1/tau^2."""
    promise = sulq.Promise(epsilon=1.0, queries=1000)
    h = promise.half_width(1 - 0.05 / 2)
    want = h * math.sqrt((1 / 0.01**2 + 1 / 0.1**2) / 200)
    assert rows_needed([0.01, 0.1], promise, queries=200) == math.ceil(want)
    binomial = sulq.Promise(epsilon=1.0, queries=1000, noise="binomial")
    reach = binomial.half_width(1 - 0.05 / 2)
    assert rows_needed([0.01, 0.1], binomial) == math.ceil(reach / 0.01)


def test_rows_needed_refusals():
    """Tolerances and queries that cannot be are named."""
    promise = sulq.Promise(epsilon=1.0)
    for taus, said in (([], "taus"), ([0.0], "tau=0"), ([2], "tau=2")):
        with pytest.raises(sulq.Refused, match=said):
            rows_needed(taus, promise)
    with pytest.raises(sulq.Refused, match="queries=0"):
        rows_needed([0.1], promise, queries=0)
    with pytest.raises(sulq.Refused, match="need 3 queries"):
        rows_needed([0.1] * 3, sulq.Promise(1.0, queries=2, noise="binomial"))


# --- conjunctions -------------------------------------------------------------------------

COLUMNS = {
    **{f"x{i}": {"type": "boolean"} for i in range(5)},
    "colour": {"values": ["red", "green", "b'lue"]},
    "label": {"type": "boolean"},
}
TARGET = '"x0" AND NOT "x3" AND "colour" <> \'green\''


def hidden(n=8000, flipped=0.0, seed=0):
    """Rows whose label is TARGET, with some labels flipped; and the label before that."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5)) < 0.6
    colour = rng.choice(["red", "green", "b'lue"], n)
    y = X[:, 0] & ~X[:, 3] & (colour != "green")
    columns = {f"x{i}": X[:, i] for i in range(5)} | {"colour": colour}
    return pa.table(columns | {"label": y ^ (rng.random(n) < flipped)}), y


def rows_of(table):
    return [list(row.values())[:-1] for row in table.to_pylist()]


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
@pytest.mark.parametrize("flipped", [0.0, 0.1])
def test_a_hidden_conjunction_is_found(guarantee, flipped):
    """Every literal of the target, and nothing that is wrong on more rows than promised."""
    table, y = hidden(flipped=flipped)
    db = opened(
        table, {"columns": COLUMNS}, quiet=False, epsilon=20.0, guarantee=guarantee
    )  # fmt: skip
    model = ConjunctionLearner(max_error=0.2, beta=SURE, label_noise=flipped)
    announced = model.price(db, label="label").queries
    model.fit(db, label="label")
    assert model.conjunction_ == TARGET
    assert db.budget.spent == announced
    assert np.array_equal(model.predict(rows_of(table)), y)
    assert model.score(rows_of(table), y) == 1.0
    assert model.tau_ == pytest.approx(0.2 / 32)
    assert 3 * model.tau_ <= model.error_bound_ < 1
    assert TARGET in model.summary()


@pytest.mark.parametrize(("flipped", "beta"), [(0.0, 0.04), (0.1, 0.02)])
def test_the_price_of_a_conjunction(flipped, beta):
    """m shares within max_error (1 - 2 noise) / 2m and a count of complete rows within as much."""
    table, _ = hidden(2000)
    db = opened(table, {"columns": COLUMNS}, epsilon=20.0)
    price = ConjunctionLearner(max_error=0.3, beta=0.04, label_noise=flipped).price(
        db, None, "label"
    )
    one = StatisticalQueries(db).price("x0", 0.3 * (1 - 2 * flipped) / 32, beta / 17)
    assert price.micro == 17 * one.micro


def test_flipped_labels_hide_it_from_who_does_not_know():
    """label_noise is what finds it: without, every literal of the target is false too often."""
    table, _ = hidden(flipped=0.1)
    db = opened(table, {"columns": COLUMNS}, epsilon=20.0)
    assert ConjunctionLearner(max_error=0.2).fit(db, label="label").conjunction_ == "TRUE"


def test_a_literal_that_is_hardly_ever_false_may_stay():
    """What is kept besides the target is wrong on few rows: within max_error in all."""
    table, _ = hidden()
    rare = np.arange(len(table)) % 32 == 0  # false with the label on a bit less than tau
    table = table.set_column(4, "x4", pa.array(~rare))
    db = opened(table, {"columns": COLUMNS}, epsilon=20.0)
    model = ConjunctionLearner(max_error=0.2).fit(db, label="label")
    assert model.conjunction_ == '"x0" AND NOT "x3" AND "x4" AND "colour" <> \'green\''
    wrong = np.mean(model.predict(rows_of(table)) != np.array(table["label"]))
    assert 0 < wrong <= model.error_bound_ <= 0.2


def test_a_budget_is_kept_and_buys_tau():
    """A larger budget gives a finer tolerance."""
    table, _ = hidden()
    found = []
    for budget in (50, 200):
        db = opened(table, {"columns": COLUMNS}, epsilon=20.0, quiet=False)
        model = ConjunctionLearner(budget=budget, beta=SURE).fit(db, label="label")
        assert db.budget.spent == model.price(db, label="label").queries
        assert budget * 0.9999 < db.budget.spent <= budget
        found.append(model.tau_)
    assert found[0] == pytest.approx(2 * found[1], rel=1e-4)


@pytest.mark.parametrize("reach", [10, 10**9])
def test_random_answers_end_within_the_price(reach):
    """Whatever the answers are, no more than announced is paid."""
    table, _ = hidden(500)
    db = stand_in(table, {"columns": COLUMNS}, reach, epsilon=20.0)
    model = ConjunctionLearner(max_error=0.5)
    announced = model.price(db, label="label").queries
    assert db.budget.spent <= announced
    assert model.fit(db, label="label").conjunction_


def test_literals():
    """Both of a Boolean; for more than two values, being and not being each."""
    table, _ = hidden(100)
    db = opened(table, {"columns": COLUMNS})
    said = list(map(str, literals_of(db, ("x1", "colour"))))
    assert said == [
        'NOT "x1"', '"x1"', "\"colour\" = 'red'", "\"colour\" <> 'red'", "\"colour\" = 'green'",
        "\"colour\" <> 'green'", "\"colour\" = 'b''lue'", "\"colour\" <> 'b''lue'",
    ]  # fmt: skip


def fitted():
    table, y = hidden()
    db = opened(table, {"columns": COLUMNS}, epsilon=20.0)
    return ConjunctionLearner(max_error=0.2).fit(db, label="label"), rows_of(table), y


def test_a_model_is_drawn():
    """A dot for each literal that was tested, those that were dropped faint; JSON keeps it."""
    model, _, _ = fitted()
    (figure,) = model.plot().figures
    assert len(model.tested_) == len(model.shares_) > len(model.literals_)
    assert all(literal in figure.words for literal in model.tested_)
    back = learn.from_json(json.dumps(model.to_json()))
    assert back.plot().figures[0].words == figure.words


def test_a_model_is_json():
    """A model read back predicts the same."""
    model, rows, _ = fitted()
    back = learn.from_json(json.dumps(model.to_json()))
    assert isinstance(back, ConjunctionLearner)
    assert np.array_equal(back.predict(rows), model.predict(rows))
    assert back.to_json() == model.to_json()


def test_rows_as_a_file_has_them():
    """Booleans as numbers or words, and what is missing satisfies no literal."""
    model, _, _ = fitted()
    row = [True, False, False, False, True, "red"]
    for other in ([1, 0, 0, 0, 1, "red"], ["true", "false", "False", 0.0, 1, "red"]):
        assert model.predict([row, other]).tolist() == [True, True]
    nan = float("nan")
    assert model.predict([[None, *row[1:]], [*row[:5], None], [*row[:3], nan, *row[4:]]]).tolist() \
        == [False, False, False]  # fmt: skip
    with pytest.raises(sulq.Refused, match="'purple' is no declared value of 'colour'"):
        model.predict([[*row[:5], "purple"]])
    with pytest.raises(sulq.Refused, match="X has 2 features"):
        model.predict([[1, 0]])


def test_arrays_of_zeros_and_ones():
    """Arrays of 0 and 1 are read as Booleans."""
    from sklearn.base import clone

    rng = np.random.default_rng(0)
    X = (rng.random((4000, 4)) < 0.6).astype(float)
    y = (X[:, 0] == 1) & (X[:, 2] == 0)
    model = clone(ConjunctionLearner(epsilon=10.0, beta=SURE)).fit(X, y)
    assert model.conjunction_ == '"x0" AND NOT "x2"'
    assert model.score(X, y) == 1.0
    assert ConjunctionLearner(epsilon=10.0, beta=SURE).fit(X + 0.5, y).left_out_ > 3900


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        (ConjunctionLearner(max_error=0), {"label": "label"}, "max_error=0"),
        (ConjunctionLearner(beta=1), {"label": "label"}, "beta=1"),
        (ConjunctionLearner(label_noise=0.5), {"label": "label"}, "label_noise=0.5"),
        (ConjunctionLearner(max_error=1e-6), {"label": "label"}, "tau="),
        (ConjunctionLearner(budget=0), {"label": "label"}, "budget=0"),
        (ConjunctionLearner(), {}, "label=None"),
        (ConjunctionLearner(), {"label": "colour"}, "label='colour'"),
        (ConjunctionLearner(), {"label": "label", "columns": ["age"]}, "age"),
        (ConjunctionLearner(), {"label": "label", "columns": "x0"}, "columns='x0'"),
        (ConjunctionLearner(max_error=0.2), {"label": "label"}, "remaining=1,000"),
    ],
)  # fmt: skip
def test_refusals_are_free(model, asked, said):
    """What cannot be learned is refused before a question."""
    table, _ = hidden(200)
    age = {"age": {"type": "number", "low": 0, "high": 1}}
    table = table.append_column("age", pa.array([0.5] * 200))
    db = opened(table, {"columns": COLUMNS | age})
    with pytest.raises(sulq.Refused, match=said):
        model.fit(db, **asked)
    assert db.history() == []

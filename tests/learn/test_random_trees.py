"""Random trees: public splits, leaves that are exact without noise, one batch of histograms."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq
from sulq import learn
from sulq.learn import RandomTrees
from sulq.learn.cuts import Cut
from sulq.learn.random_trees import grown

NEVER = {"nullable": False}
SCHEMA = {
    "age": {"type": "integer", "low": 0, "high": 99} | NEVER,
    "dose": {"type": "number", "low": 0.0, "high": 1.0} | NEVER,
    "town": {"values": ["rome", "oslo", "lima"]},
    "flag": {"type": "boolean"} | NEVER,
    "ill": {"type": "boolean"} | NEVER,
}
COLUMNS = ["age", "dose", "town", "flag"]


def rows(n=6000, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    age, dose = rng.integers(0, 100, n), rng.random(n)
    town, flag = rng.choice(["rome", "oslo", "lima"], n), rng.random(n) < 0.5
    odds = 0.08 * (age - 50) + 2.0 * (town == "oslo") - 1.0 * flag
    gone = rng.random(n) < missing
    return pa.table({
        "age": age, "dose": dose, "town": pa.array(town, mask=gone), "flag": flag,
        "ill": rng.random(n) < 1 / (1 + np.exp(-odds)),
    })  # fmt: skip


def database(table=None, **settings):
    return opened(rows() if table is None else table, SCHEMA, guarantee="dp", **settings)


def fitted(db, **made):
    return RandomTrees(**made).fit(db, columns=COLUMNS, label="ill")


def walked(model, row, tree):
    """The nodes that a row comes through. Independent code."""
    node, path = 0, [0]
    while model.node_columns_[tree, node] >= 0:
        column, values, edges, _ = model.cuts_[model.node_columns_[tree, node]]
        place = model.node_places_[tree, node]
        second = row[column] >= edges[place] if edges else row[column] == values[place]
        node = 2 * node + 1 + bool(second)
        path.append(node)
    return path


def test_without_noise_nodes_count_their_rows():
    """Every node of every tree has the class counts of the rows that come through it."""
    table = rows(1500, missing=0.2)
    model = fitted(database(table, epsilon=1e9), n_estimators=3, max_depth=4)
    complete = [row for row in table.to_pylist() if row["town"] is not None]
    want = np.zeros_like(model.node_counts_)
    for row in complete:
        for tree in range(3):
            want[tree, walked(model, row, tree), int(row["ill"])] += 1
    assert np.allclose(model.node_counts_, want, atol=1e-2)
    assert model.left_out_ == pytest.approx(1500 - len(complete), abs=0.1)
    proba = model.predict_proba([[row[c] for c in COLUMNS] for row in complete[:50]])
    for row, found in zip(complete[:50], proba, strict=True):
        leaves = [want[tree, walked(model, row, tree)[-1]] for tree in range(3)]
        assert found == pytest.approx(np.mean([x / x.sum() for x in leaves], axis=0), abs=1e-3)


def test_splits_are_drawn_without_looking():
    """The same seed has the same trees on any rows; another has others; all splits do split."""
    first, second = fitted(database()), fitted(database(rows(6000, seed=9)))
    assert np.array_equal(first.node_columns_, second.node_columns_)
    assert np.array_equal(first.node_places_, second.node_places_)
    other = fitted(database(), random_state=1)
    assert not np.array_equal(first.node_columns_, other.node_columns_)
    cuts = [Cut("a", ("x", "y")), Cut("b", (), (0.0, 0.5, 1.0), False)]
    forest = grown(cuts, 20, 5, 0)
    assert len(forest.columns) > 3
    for tree in range(len(forest.columns)):
        _, order = forest.leaf(tree)
        codes = np.array([[a, b] for a in (0, 1) for b in (0, 1)])
        landed = forest.landed(codes, tree)
        assert sorted(set(landed.tolist())) == sorted(order)  # no leaf that no row can reach
        assert len(order) == 4


def test_the_price_is_what_is_spent():
    """The announced price is paid, with a budget and without."""
    for budget in (None, 40.0):
        db = database(quiet=False)
        model = RandomTrees(n_estimators=8, budget=budget)
        price = model.price(db, COLUMNS, "ill").queries
        assert db.budget.spent == 0
        model.fit(db, columns=COLUMNS, label="ill")
        assert db.budget.spent == price
        assert float(price) == pytest.approx(8 if budget is None else 40, rel=1e-4)
    assert [charge.price for charge in db.history()] == [4_999_999] * 8


def test_it_learns_with_noise():
    """Better than the most frequent class, and depth follows the public number of rows."""
    table = rows(8000)
    model = fitted(database(table, epsilon=1.0, quiet=False), budget=90)
    held = rows(2000, seed=5)
    X = [[row[c] for c in COLUMNS] for row in held.to_pylist()]
    y = np.array(held["ill"])
    assert model.score(X, y) > max(y.mean(), 1 - y.mean()) + 0.15
    few = fitted(database(rows(300), epsilon=1.0), budget=90)
    assert few.node_columns_.shape[1] < model.node_columns_.shape[1]


def test_counts_are_off_by_what_they_say():
    """Leaves less those without noise, over node_stds_: by 1. False alarm: below 1e-9.

    The mean square of 4 x 64 x 2 numbers and more, 512 degrees of freedom at least: within 0.65
    and 1.45 but with a probability below 1e-9; noise 1.25 times as large is rejected.
    """
    table = rows(4000)
    made = {"n_estimators": 4, "max_depth": 6, "budget": 40}
    promised = {"epsilon": 4.0, "queries": 100}
    quiet = fitted(database(table, **promised), **made)
    noisy = fitted(database(table, quiet=False, **promised), **made)
    leaves = noisy.node_columns_ == -1
    leaves &= noisy.node_stds_ > 0
    off = (noisy.node_counts_ - quiet.node_counts_)[leaves] / noisy.node_stds_[leaves][:, None]
    assert off.size >= 400
    assert 0.65 < float(np.mean(off**2)) < 1.45


def test_strengths_say_which_columns_tell():
    """Age and town tell of the label, the dose does not, with noise too."""
    model = fitted(database(rows(8000), epsilon=4.0, quiet=False), budget=90)
    strength = dict(zip(COLUMNS, model.column_strengths_, strict=True))
    assert strength["age"] > 0.4
    assert strength["dose"] < 0.1
    assert sum(strength.values()) == pytest.approx(1, abs=0.05)
    assert "age" in str(model.plot()).splitlines()[1]
    assert "32 random trees of at most 5 levels" in model.summary()
    assert "age" in model.plot().figures[0].words


def test_one_boolean_has_few_trees():
    """A tree is asked about once: there are two of one Boolean, and each has half of the budget."""
    db = database(quiet=False)
    model = RandomTrees(budget=10).fit(db, columns=["flag"], label="ill")
    assert len(model.node_columns_) == 2
    assert float(db.budget.spent) == pytest.approx(10, rel=1e-5)


def test_missing_values_stay_above():
    """A row without a value is predicted by the nodes that did not need it."""
    model = fitted(database(), n_estimators=4, max_depth=3)
    assert np.isfinite(model.predict_proba([[50, 0.5, None, True]])).all()
    nothing = model.predict_proba([[float("nan"), float("nan"), None, None]])
    assert nothing[0].sum() == pytest.approx(1)
    again = learn.from_json(json.dumps(model.to_json()))
    assert np.array_equal(again.predict_proba([[50, 0.5, "oslo", True]]),
                          model.predict_proba([[50, 0.5, "oslo", True]]))  # fmt: skip


def test_refusals_are_free():
    """What cannot be learned is refused before a question."""
    db = database()
    for columns, label, said in (
        (["age", "ill"], "ill", "not the label"), (["age"], "age", "want a Boolean column"),
        (["age"], None, "label=None"),
    ):  # fmt: skip
        for call in (RandomTrees().price, RandomTrees().fit):
            with pytest.raises(sulq.Refused, match=said):
                call(db, columns=columns, label=label)
    assert db.history() == []

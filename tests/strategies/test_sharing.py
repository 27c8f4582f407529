"""Batches of counts from one strategy: the same counts, for less."""

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq

SCHEMA = {
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 100},
        "smoker": {"type": "boolean"},
        "region": {"values": ["n", "s", "e"]},
        "day": {"type": "date", "low": "2024-01-01", "high": "2024-12-31"},
        "income": {"type": "number", "low": 0, "high": 100_000},
    }
}


def table():
    pick = np.random.default_rng(2)
    ages = [None if a > 100 else int(a) for a in pick.integers(0, 108, 3000)]
    days = np.datetime64("2024-01-01") + pick.integers(0, 366, 3000)
    smokes = pick.choice(np.array([True, False, None], dtype=object), 3000)
    return pa.table(
        {
            "age": ages,
            "smoker": pa.array(smokes.tolist(), pa.bool_()),
            "region": pick.choice(["n", "s", "e", "elsewhere"], 3000),
            "day": days.astype("datetime64[D]"),
            "income": pa.array(pick.uniform(-1e4, 2e5, 3000), mask=pick.random(3000) < 0.1),
        }
    )


BATCHES = {
    "thresholds": ([f"age > {a}" for a in range(20, 90)], 6.5, 4.6),
    "ranges": ([f"age between {a} and {3 * a} and smoker" for a in range(5, 34)], 8.8, 4.0),
    "decades": ([f"age >= {a} and age < {a + 10}" for a in range(0, 100, 10)], 2.0, 1.01),
    "missing": (["age is null", "age > 5", "age < 3", "smoker", "smoker is null"], 2.9, 1.7),
    "two columns": (
        [f"age between {a} and {a + 9} and region = '{r}'" for a in range(40) for r in "nse"],
        8.3, 3.6,
    ),
    "many": (
        [
            f"age between {a} and {b} and region = '{r}'"
            for a in range(0, 100, 4) for b in range(a, 100, 3) for r in "nse"
        ],
        12.4, 6.2,
    ),
    "days": ([f"day >= '2024-{m:02}-{d:02}'" for m in range(1, 13) for d in range(2, 28)], 11, 7),
    "numbers": ([f"income between {a} and {3 * a}" for a in range(2000, 60_000, 1000)], 9.6, 4.9),
    "too many values": (
        [
            f"age < {a} and day >= '2024-{m:02}-01'"
            for a in range(10, 100, 10) for m in range(2, 12)
        ],
        9.3, 5.8,
    ),
    "disjoint": (
        [f"income >= {a} and income < {a + 1e4} and smoker" for a in range(0, 90_000, 10_000)],
        2.0, 1.01,
    ),
    "many numbers": ([f"income between {a} and {2 * a}" for a in range(9, 50_000, 333)], 15.5, 9.0),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_counts_what_each_count_does(name):
    """Without noise, to a millionth; for a price and at the mean error that were announced."""
    wheres, beliefs, dp = BATCHES[name]
    queries = [sulq.Query(where=where) for where in wheres]
    for guarantee, most in (("beliefs", beliefs), ("dp", dp)):
        db = opened(table(), SCHEMA, guarantee=guarantee, queries=10_000)
        alone = [a.value for a in db.ask(queries, share=False)]
        before = db.budget.spent
        together = db.ask(queries)
        assert [a.value for a in together] == pytest.approx(alone, abs=1e-6)
        assert db.budget.spent - before == db.price(queries).queries <= most
        half = [a.spread(0.95) * a.std for a in together]
        assert db.price(queries).half_widths == pytest.approx(half, rel=1e-6)  # as announced
        mean = np.mean([a.std**2 for a in together])
        assert mean == pytest.approx(db.promise.std**2, rel=1e-4)


@pytest.mark.parametrize(("guarantee", "most"), [("beliefs", 24.0), ("dp", 12.0)])
def test_rectangles_of_two_columns(guarantee, most):
    """More than 200 cells differ: a product of two strategies, both columns combined."""
    pick = np.random.default_rng(3)
    schema = {n: {"type": "integer", "low": 0, "high": 19, "nullable": False} for n in "ab"}
    rows = pa.table({n: pick.integers(0, 20, 500) for n in "ab"})
    ends = np.sort(pick.integers(0, 20, (150, 2, 2)), axis=2).tolist()
    queries = [
        sulq.Query(where=f"a between {a} and {b} and b between {c} and {d}")
        for (a, b), (c, d) in ends
    ]
    db = opened(rows, schema, guarantee=guarantee)
    assert db.price(queries).queries <= most
    together = [x.value for x in db.ask(queries)]
    assert together == pytest.approx([x.value for x in db.ask(queries, share=False)], abs=1e-6)


def test_counts_that_have_no_cells_in_common_are_asked_one_by_one():
    """Columns that are compared, errors of their own, or more cells than are looked at."""
    db = opened(table(), SCHEMA)
    each = {
        "compared": [f"income > 100 * age + {a}" for a in range(6)],
        "too many": [f"income > {a} and day > '2024-02-{a % 28 + 1:02}' and age > {a % 100}"
                     for a in range(1, 200)],
    }  # fmt: skip
    for wheres in each.values():
        assert db.price([sulq.Query(where=w) for w in wheres]).queries == len(wheres)
    exact = [sulq.Query(where=f"income > {a}", error=500) for a in range(6)]
    assert db.price(exact).queries == 6 * db.price(exact[0]).queries


def test_a_batch_in_another_order_is_the_same_question():
    """Only which counts there are decides what is measured."""
    db = opened(table(), SCHEMA, quiet=False)
    queries = [sulq.Query(where=f"age > {a}") for a in range(10, 40)]
    first = db.ask(queries)
    spent = db.budget.spent
    again = db.ask(queries[::-1])
    assert db.budget.spent == spent
    assert [a.value for a in again[::-1]] == pytest.approx([a.value for a in first])


def test_the_inverse_of_a_named_strategy_is_computed_once(monkeypatch):
    """And is the same as ever; one that is made for a batch is computed each time."""
    from sulq.privacy import strategy_matrix as named

    matrix = named.strategy_matrix(("ranges",), (37,), False)
    first = named.inverse_of(matrix, named.UNIT)
    assert np.allclose(first @ (matrix / named.UNIT), np.eye(37))
    monkeypatch.setattr(named, "KEPT", 2)
    assert named.inverse_of(named.strategy_matrix(("ranges",), (37,), False), named.UNIT) is first
    own = matrix.copy()
    assert np.array_equal(named.inverse_of(own, named.UNIT), first)
    assert named.inverse_of(own, named.UNIT) is not named.inverse_of(own, named.UNIT)
    for size in (5, 6, 7):
        named.inverse_of(named.strategy_matrix(("ranges",), (size,), False), named.UNIT)
    assert len(named._inverses) == 2

"""What an engine keeps between questions does not grow with every question of a long life."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from helpers import ENGINES, reference_engine, sums

import sulq
from sulq.engines import writer as sql

SCHEMA = {
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 99, "nullable": False},
        "income": {"type": "number", "low": 0, "high": 1000, "nullable": False},
    }
}


@pytest.fixture
def db():
    rows = pa.table({"age": list(range(100)) * 5, "income": [float(i) for i in range(500)]})
    return sulq.open(rows, SCHEMA, epsilon=1.0, queries=10**6, ledger=":memory:")


def test_written_sql_is_forgotten_in_time(db, monkeypatch):
    """What the writer keeps is bounded."""
    monkeypatch.setattr(sql, "MAX_DONE", 5_000)
    for i in range(200):
        db.count(f"income > {i}")
    kept = db._pipeline.engine._writer._done
    assert 0 < sum(len(k) + len(v) for k, v in kept.items()) < 6_000


def test_a_cube_keeps_nothing_that_was_worked_out_from_it(db):
    """Its columns stay, values of expressions do not."""
    for i in range(20):
        db.ask([sulq.Query(where=f"age > {i} and age <> {j}") for j in range(30, 34)])
    kept = db._pipeline.engine._cubes._kept
    assert kept
    assert all(not batch._known and batch._read for batch, _ in kept.values())


TRUTHS = {
    "age": {"type": "integer", "low": 0, "high": 9},
    "smoker": {"type": "boolean"},
    "sure": {"type": "boolean", "nullable": False},
    "stored": {"type": "boolean"},  # as 0 and 1
    "income": {"type": "number", "low": 0, "high": 10},
    "rows_true": {"type": "integer", "low": 0, "high": 3},  # as a count might be called
}
ROWS = [
    (age, smoker, sure, None if smoker is None else int(smoker), income, number)
    for age, smoker, sure, income, number in itertools.product(
        [None, -(2**31), 0, 4, 5, 9, 2**31 - 1], [None, True, False], [None, True, False],
        [None, float("nan"), float("-inf"), 0.0, 4.5, 10.0, float("inf")], [0, 3],
    )
    if (age, smoker) != (4, None)
]  # fmt: skip
BATCHES = [
    [sulq.Query(by=["age", "smoker"]), sulq.Query(where="smoker and age > 3")],
    [sulq.Query(by="smoker"), sulq.Query(where="smoker is null"), sulq.Query(by="sure")],
    [sulq.Query(by=["sure", "smoker", "rows_true"])],
    [sulq.Query(by=["stored", "age"])],
    [sulq.Query(by=["smoker", "age"], where="income > 4")],  # a private predicate of all
    [sulq.Query(by=sulq.Bins("age", [0, 3, 5, 9])), sulq.Query(by=sulq.Bins("age", [4, 5, 6]))],
    [sulq.Query(["income", "1"], by=sulq.Bins("age", [0, 5, 9]), where="income > 4")],
    [
        sulq.Query(
            ["income"], by=(sulq.Bins("age", [0, 1, 4, 5, 9]), sulq.Bins("income", [0, 4, 10]))
        )
    ],
    [sulq.Query(["income"], by=sulq.Bins("income", [0, 4.5, 10]))],
    [sulq.Query(["income"], by=sulq.Bins("income", [4, 5]))],
    [sulq.Query(["income"], by=(sulq.Bins("age", [-1, 4.5, 12]), "sure"))],
]


@pytest.fixture(scope="module", params=sorted(ENGINES))
def engine(request):
    kinds = [pa.int32(), pa.bool_(), pa.bool_(), pa.int8(), pa.float64(), pa.int64()]
    columns = zip(TRUTHS, zip(*ROWS, strict=True), kinds, strict=True)
    table = pa.table({name: pa.array(values, kind) for name, values, kind in columns})
    return ENGINES[request.param](table, TRUTHS), reference_engine(table, TRUTHS)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_truths_and_bins_are_counted_as_the_reference_counts_them(engine, batch):
    """Whatever a column is grouped by first: true, false, missing, clamped, in a bin or in none."""
    mine, reference = engine
    assert sums(mine, *batch) == sums(reference, *batch)


def test_a_cube_has_no_combination_without_rows(engine):
    """What no row has is not listed: nobody of age 4 has no answer about smoking."""
    mine, _ = engine
    if not hasattr(mine, "_cubes"):
        pytest.skip("it keeps no cubes")
    with mine._scanning():
        found = mine._cubes.combinations(["age", "smoker"]).to_pylist()
    counts = {tuple(row.values())[:2]: tuple(row.values())[2] for row in found}
    assert (4, None) not in counts
    assert (4, True) in counts
    assert sum(counts.values()) == len(ROWS)
    assert all(counts.values())

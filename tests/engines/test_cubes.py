"""What an engine keeps between questions does not grow with every question of a long life."""

from __future__ import annotations

import pyarrow as pa
import pytest

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

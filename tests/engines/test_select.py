"""One private predicate of a statement is a key to group by: every row is added alike."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import checked, duckdb_engine, reference_engine, sums

from sulq import Query
from sulq.engines.select import BatchSelect
from sulq.open_database import encode

SCHEMA = {
    "age": {"type": "integer", "low": -5, "high": 120},
    "sure": {"type": "integer", "low": 0, "high": 9, "nullable": False},
    "income": {"type": "number", "low": 0, "high": 1000},
    "city": {"values": ["a", "b'"]},
    "smoker": {"type": "boolean"},
}
AGES = [None, -(2**62), -6, -5, 0, 30, 120, 121, 2**62]
NUMBERS = [None, math.nan, -math.inf, math.inf, 0.0, -0.0, 1000.0, 42.5]
N = 9 * 8 * 3
TABLE = pa.table(
    {
        "age": [AGES[i % 9] for i in range(N)],
        "sure": [[None, 0, 9, 10][i % 4] for i in range(N)],
        "income": [NUMBERS[i % 8] for i in range(N)],
        "city": [[None, "a", "b'", "c"][i // 2 % 4] for i in range(N)],
        "smoker": [[None, True, False][i % 3] for i in range(N)],
    }
)
ENDS = [-6, -5, -4, 119, 120, 121]
PREDICATES = [
    *(f"age {sign} {end}" for sign in ("<", "<=", ">", ">=") for end in ENDS),
    *(f"income {sign} {end}" for sign in ("<", "<=", ">", ">=") for end in (0.0, 42.5, 1000.0)),
    "sure <= 0", "sure >= 9", "not (age > 30)", "age > 30 or income < 5 and smoker", "smoker",
    "smoker is null", "city = 'a'", "city <> 'a'", "age > 200", "income >= 0 or income is null",
]  # fmt: skip
GROUPS = [None, "city", "smoker", ["city", "smoker"], "age > 30"]


@pytest.fixture(scope="module", params=["parquet", "held", "frame", "store"])
def engine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    if request.param == "frame":
        return duckdb_engine(TABLE, SCHEMA)
    path = folder / "rows.parquet"
    pq.write_table(TABLE, path)
    if request.param == "store":
        encode(path, SCHEMA, folder / "rows.sulq", ledger=folder / "rows.ledger")
        return duckdb_engine(folder / "rows.sulq", SCHEMA)
    found = duckdb_engine(path, SCHEMA)
    assert request.param == "parquet" or found.hold()
    return found


@pytest.fixture(scope="module")
def reference():
    return reference_engine(TABLE, SCHEMA)


@pytest.mark.parametrize("by", GROUPS, ids=str)
def test_sums_under_a_predicate_are_those_of_the_reference(engine, reference, by):
    """At each end of a range, over missing, NaN, endless and undeclared values; of nobody too."""
    for where in PREDICATES:
        asked = Query(["income", "age", "1", "smoker"], by=by, where=where)
        assert sums(engine, asked) == sums(reference, asked), where
    pair = [Query(["income"], by=by, where="age > 3"), Query(["1"], by="city", where="age > 3")]
    assert sums(engine, *pair) == sums(reference, *pair)  # two groupings, one predicate


def plan(engine, sql):
    return "\n".join(row[1] for row in engine._ask(f"EXPLAIN {sql}")).lower()


@pytest.mark.parametrize("by", GROUPS, ids=str)
def test_no_row_is_left_out_by_a_private_predicate(engine, by):
    """It is no filter and no condition on a sum, in what the engine makes of it either."""
    (query,) = checked([Query(["income", "1"], by=by, where="age > 30")], engine)
    statement = BatchSelect(engine._writer, [query], engine._source)
    assert "filter" not in plan(engine, statement.sql)


def test_a_filter_would_be_seen(engine):
    """The same look finds a predicate that picks groups: the engine filters rows by it."""
    (query,) = checked([Query(["income"], by="city", where="age > 30")], engine)
    written = BatchSelect(engine._writer, [query], engine._source)
    assert "filter" in plan(engine, f"SELECT * FROM ({written.sql}) WHERE {written._gate} = 1")
    other = replace(query, where=None)
    assert "filter" in plan(engine, BatchSelect(engine._writer, [query, other], engine._source).sql)


def scans(engine, monkeypatch, *queries):
    """How many statements a batch takes."""
    asked = []
    ask, table = engine._ask, engine._cubes._table
    monkeypatch.setattr(engine, "_ask", lambda sql: asked.append(sql) or ask(sql))
    monkeypatch.setattr(engine._cubes, "_table", lambda sql: asked.append(sql) or table(sql))
    engine._cubes._kept.clear()
    sums(engine, *queries)
    return len(asked)


TOTAL = Query(["income"], by="city", where="age > 30")


@pytest.mark.parametrize(
    "others",
    [[Query(by="city", where="age > 30")], [Query(by=by, where="age > 30") for by in GROUPS[2:]]],
    ids=len,
)
def test_what_is_about_the_same_rows_is_one_scan(monkeypatch, others):
    """A count beside a sum is read with it, though it has a small cube of its own."""
    assert scans(duckdb_engine(TABLE, SCHEMA), monkeypatch, TOTAL, *others) == 1


def test_what_is_about_other_rows_takes_as_long_as_alone(monkeypatch):
    """Counts that have a cube of their own rows keep it beside a sum over others: one for all."""
    others = [Query(by=by, where="age > 31") for by in ("city", "smoker")]
    assert scans(duckdb_engine(TABLE, SCHEMA), monkeypatch, TOTAL, *others) == 2

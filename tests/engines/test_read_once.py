"""Many questions in one statement: each column read once, missing values filled; sums the same."""

import itertools
import math

import pyarrow as pa
import pytest

from sulq import Query
from sulq.engines.duckdb import DuckDBEngine
from sulq.engines.read_once import ReadOnce
from sulq.engines.reference import ReferenceEngine
from sulq.questions.check import check
from sulq.sources.source import Source
from sulq.values.schema import Schema

SCHEMA = Schema.load(
    {
        "id": {"key": True},
        "age": {"type": "integer", "low": -5, "high": 120},
        "free": {"type": "integer"},
        "income": {"type": "number", "low": 0, "high": 500_000},
        "wild": {"type": "number"},
        "grade": {"values": [3, 5, 9]},
        "city": {"values": ["a", "b'"]},
        "smoker": {"type": "boolean"},
        "surely": {"type": "boolean", "nullable": False},
        "born": {"type": "date", "low": "1900-01-01", "high": "2020-01-01"},
        "read_1": {"type": "number", "low": 0, "high": 1},
    }
)
AGES = [None, -(2**62), -5, 0, 30, 120, 2**62, 7]
NUMBERS = [None, math.nan, -math.inf, math.inf, 0.0, -0.0, 1e300, 42.5]
LEAVES = [
    "age > 30", "30 <= age", "age < -4", "age = 30", "age <> 30", "age <= 2.5", "free < 7",
    "free = -9007199254740992", "free >= -9007199254740992", "free <= 9007199254740992",
    "income < 1e300", "-1e300 < income", "income = 0", "wild > -1e300", "wild <= 1e300",
    "wild <> 42.5", "grade > 3", "grade = 5", "grade < 10", "grade in (3, 9)", "city = 'a'",
    "city <> 'b'''", "city is null", "age is null", "income is not null", "smoker", "not smoker",
    "smoker is null", "surely", "not surely", "born < date '1950-01-01'", "age + grade > 10",
    "age < grade", "read_1 < 0.5", "not (age > 30 and smoker)", "smoker = surely",
]  # fmt: skip


@pytest.fixture(scope="module")
def engines():
    n = 64
    rows = {
        "id": range(n),
        "age": [AGES[i % 8] for i in range(n)],
        "free": [AGES[i // 8] for i in range(n)],
        "income": [NUMBERS[i % 8] for i in range(n)],
        "wild": [NUMBERS[(i + i // 8) % 8] for i in range(n)],
        "grade": [[None, 3, 5, 9, 4][i % 5] for i in range(n)],
        "city": [[None, "a", "b'", "c"][i % 4] for i in range(n)],
        "smoker": [[None, True, False][i % 3] for i in range(n)],
        "surely": [[None, True, False][i // 3 % 3] for i in range(n)],
        "born": pa.array([[None, -30_000, 0, 40_000][i // 4 % 4] for i in range(n)], pa.date32()),
        "read_1": [[None, 0.25, 0.75][i % 3] for i in range(n)],
    }
    table = pa.table(rows)
    duckdb = DuckDBEngine(Source("arrow", "rows", frame=table), SCHEMA)
    return duckdb, ReferenceEngine(table, SCHEMA)


def queries():
    """Every leaf, and pairs of them joined; values and groups too."""
    ors = [f"({a}) or ({b}) and smoker" for a, b in itertools.pairwise(LEAVES)]
    ands = [f"({a}) and ({b})" for a, b in zip(LEAVES, LEAVES[5:], strict=False)]
    found = [Query(where=where) for where in [*LEAVES, *ors, *ands]]
    found += [Query(["income", "age * 2", "smoker"], where=where) for where in LEAVES[:12]]
    found += [Query(by="grade", where="age > 3"), Query(by=["city", "smoker"])]
    return [check(q, SCHEMA, "laplace", "dp") for q in found]


def test_many_questions_have_the_sums_that_each_has_alone(engines):
    """On values beyond every range, missing, NaN and endless."""
    duckdb, reference = engines
    asked = [q for q in queries() if not q.axes]
    together = duckdb._by_statement(asked)
    assert together == reference.sums(asked)
    assert duckdb.sums(queries()) == reference.sums(queries())


def test_control_an_end_that_a_constant_can_reach_is_noticed(engines, monkeypatch):
    """The same comparison finds a missing value that counts as a number."""
    from sulq.engines import read_once

    duckdb, reference = engines
    asked = [q for q in queries() if not q.axes]
    wrong = read_once.ENDS | {"integer": ("CAST(30 AS BIGINT)", "CAST(30 AS BIGINT)")}
    monkeypatch.setattr(read_once, "ENDS", wrong)
    assert duckdb._by_statement(asked) != reference.sums(asked)


def test_each_column_is_read_below_all_questions(engines):
    """No clamp stands in what is counted, and no name meets a declared one."""
    duckdb, _ = engines
    writer = ReadOnce(SCHEMA, duckdb._writer.physical)
    asked = [check(Query(where=f"age > {i}"), SCHEMA, "laplace", "dp") for i in range(3)]
    written = [writer.truth(q.where) for q in asked]
    assert all("CASE" not in sql for sql in written)
    assert '"read_1"' not in {writer.read(c) for c in SCHEMA.columns}

"""@sulq.row: a ten-line Python function beside SQL written by hand, with the same clamp and grid.

Both are one scan of rows in DuckDB's own storage on one core.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa

import sulq
from benchmarks.measure import Line, in_turn
from sulq.engines.duckdb import DuckDBEngine
from sulq.questions.check import check
from sulq.sources.source import open_source

ROWS = 10_000_000
WANTED = 1 / 10_000_000  # seconds a row and core
SCHEMA = {
    "age": {"type": "integer", "low": 0, "high": 120},
    "visits": {"type": "integer", "low": 0, "high": 50},
    "smoker": {"type": "boolean", "nullable": False},
}


@sulq.row
def score(age, visits, smoker):
    points = 0
    if age >= 65:
        points += 3
    elif age >= 40:
        points += 1
    if smoker:
        points += 2
    if visits > 10:
        points += visits % 5
    return points


AGE = "CASE WHEN age BETWEEN 0 AND 120 THEN age WHEN age > 120 THEN 120 WHEN age < 0 THEN 0 END"
VISITS = (
    "CASE WHEN visits BETWEEN 0 AND 50 THEN visits WHEN visits > 50 THEN 50 "
    "WHEN visits < 0 THEN 0 END"
)
BY_HAND = f"""
    SELECT sum(CASE WHEN p BETWEEN 0 AND 9 THEN p WHEN p > 9 THEN 9 ELSE 0 END) FROM (
      SELECT CASE WHEN age >= 65 THEN 3 WHEN age >= 40 THEN 1 ELSE 0 END
        + CASE WHEN smoker THEN 2 ELSE 0 END
        + CASE WHEN visits > 10 THEN visits % 5 ELSE 0 END AS p
      FROM (SELECT {AGE} AS age, {VISITS} AS visits, COALESCE(smoker, FALSE) AS smoker
            FROM source))"""


def lines() -> Iterator[Line]:
    """On one core, for both: an engine's settings are locked."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield from compared()
    finally:
        os.sched_setaffinity(0, before)


def compared() -> Iterator[Line]:
    with TemporaryDirectory(dir=".bench") as folder:
        path = Path(folder) / "people.duckdb"
        made = duckdb.connect(str(path))
        rows = people()
        made.execute("CREATE TABLE people AS SELECT * FROM rows")
        made.close()
        del rows
        engine = DuckDBEngine(open_source(path, "people"), sulq.Schema.load(SCHEMA))
        query = check(sulq.Query([score]), engine.schema, "gaussian", "beliefs")
        other = engine._connection  # with its settings: some of what is quick tells of rows
        (ours,), hand = engine.sums([query])[0], other.execute(BY_HAND).fetchone()
        assert ours[0] == hand[0], (ours, hand)
        a, b = in_turn(lambda: engine.sums([query]), lambda: other.execute(BY_HAND).fetchone())
        note = f"{ROWS / a / 1e6:.1f} million rows a second and core"
        yield Line("@sulq.row, ten lines", a, b, "SQL by hand", 1.1, note)
        yield Line("the same", a, ROWS * WANTED, "1 s wanted", 1.0, note)
        engine.close()


def people() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({
        "age": rng.integers(0, 110, ROWS), "visits": rng.integers(0, 40, ROWS),
        "smoker": rng.random(ROWS) < 0.3,
    })  # fmt: skip

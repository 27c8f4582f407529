"""python -m benchmarks.billions [rows] [workers]: what docs/scale.md reckons, tried out.

Rows are made where they are counted, so that billions of them fit a machine with two cores.
They repeat after PERIOD rows: every exact sum is known, and Spark's must be equal to it.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from benchmarks.data import SCHEMA
from benchmarks.measure import seconds
from benchmarks.postgres import ranges
from benchmarks.spark import running
from sulq.engines.duckdb import DuckDBEngine
from sulq.engines.spark.engine import SparkEngine
from sulq.questions.check import CheckedQuery, check
from sulq.sources.source import open_source
from sulq.values.schema import Schema

ROWS = 10**9
TASKS = 64
PERIOD = 101 * 3 * 1000  # rows after which the pattern repeats
ROW = (
    "CAST(id % 101 AS INT) AS age",
    "id % 3 = 0 AS smoker",
    "(id % 1000) / 7.0D * 3500 AS income",
    "array('north', 'south', 'east', 'west', 'moon')[CAST(id % 5 AS INT)] AS region",
)
COUNTS = [sulq.Query(["1"], where=f"age between {a} and {b} and smoker") for a, b in ranges(0)]
BATCHES = {
    "20 counts": COUNTS,
    "counts and sums by region": [sulq.Query(["1", "age", "income"], by="region")],
    "products": [sulq.Query(sulq.Products(["age", "income"]))],
}
SLOW = "products"  # runs in the workers' Python, so it gets a tenth of the rows


def main(rows: int, workers: int) -> None:
    columns = {n: d for n, d in SCHEMA["columns"].items() if n != "id"}
    with running(workers) as session:
        truth = DuckDBEngine(open_source(made(session, PERIOD).toArrow()), Schema.load(columns))
        for what, queries in BATCHES.items():
            times = math.ceil(rows / PERIOD / (10 if what == SLOW else 1))
            checked = [check(q, truth.schema, "gaussian", "beliefs") for q in queries]
            wanted = scaled(truth.sums(checked), times)
            asked(session, what, checked, wanted, times)
    ledger()


def made(session: Any, rows: int) -> Any:
    return session.range(rows, numPartitions=TASKS).selectExpr(*ROW)


def asked(
    session: Any, what: str, queries: Sequence[CheckedQuery], wanted: list[Any], times: int
) -> None:
    """One batch over so many rows: exact, how long, and what went between executors."""
    declared = {n: d for n, d in SCHEMA["columns"].items() if n != "id"}
    engine = SparkEngine(open_source(made(session, PERIOD * times)), Schema.load(declared))
    before, found = shuffled(session), []
    spent = seconds(lambda: found.extend(engine.sums(queries)))
    sent = shuffled(session) - before
    assert found == wanted, "not the exact sums"
    largest = max(abs(x) for matrix in found for row in matrix for x in row)
    print(
        f"{what}: {engine.rows:,} rows, every sum exact, the largest 2^{math.log2(largest):.1f}; "
        f"{spent:.0f} s, {spent / engine.rows * 1e9:.2f} ns a row; {sent:,} bytes shuffled by "
        f"{TASKS} tasks",
        flush=True,
    )


def scaled(matrices: list[list[list[int]]], times: int) -> list[Any]:
    return [[[x * times for x in row] for row in matrix] for matrix in matrices]


def shuffled(session: Any) -> int:
    """All bytes that tasks wrote for other tasks, since the cluster began."""
    from py4j.protocol import Py4JError

    store, total, stage = session.sparkContext._jsc.sc().statusStore(), 0, 0
    while True:
        try:
            total += store.lastStageAttempt(stage).shuffleWriteBytes()
        except Py4JError:
            return total
        stage += 1


def ledger(count: int = 500) -> None:
    """Questions a second on three rows: what is left is the ledger, whatever n is."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "a.ledger"
        db = sulq.open(np.zeros((3, 1)), epsilon=1.0, queries=10**7, ledger=place)
        spent = seconds(lambda: [db.count(f"x0 > {i}e-6") for i in range(count)])
        print(f"ledger: {count / spent:.0f} questions a second, each charge on disk first")


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    main(given[0] if given else ROWS, given[1] if len(given) > 1 else 2)

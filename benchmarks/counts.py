"""Part 1: counts in one scan, a clamped sum, one small count with its commits, the import."""

from __future__ import annotations

import itertools
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import polars as pl

import sulq
from benchmarks.data import SCHEMA, people
from benchmarks.measure import Line, in_fresh_processes, in_turn, seconds


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=".bench") as folder:
        yield small_count(Path(folder))
    yield from hundred_counts()
    yield clamped_sum()
    yield light_import()


def thresholds(turn: int) -> list[tuple[int, int]]:
    """100 pairs of ages, other ones every turn."""
    return [((i * 7 + turn) % 60, 61 + (i * 3 + turn * 11) % 38) for i in range(100)]


def counts_by_sulq(turn: int) -> Callable[[], object]:
    db = opened()
    asked = [sulq.Query(where=f"age between {a} and {b} and smoker") for a, b in thresholds(turn)]
    return lambda: db.ask(asked)


def counts_by_polars(turn: int) -> Callable[[], object]:
    sums = [
        (pl.col("age").is_between(a, b) & pl.col("smoker")).sum().alias(str(i))
        for i, (a, b) in enumerate(thresholds(turn))
    ]
    return lambda: pl.scan_parquet(people()).select(sums).collect()


def counts_by_duckdb(turn: int) -> Callable[[], object]:
    plain = duckdb.connect()
    counts = ", ".join(f"count_if(age between {a} and {b} and smoker)" for a, b in thresholds(turn))
    return lambda: plain.execute(f"select {counts} from '{people()}'").fetchall()


def group_by_duckdb(turn: int) -> Callable[[], object]:
    plain = duckdb.connect()
    return lambda: plain.execute(
        f"select age, smoker, count(*) from '{people()}' group by age, smoker"
    ).fetchall()


COLD = {
    "sulq": counts_by_sulq, "polars": counts_by_polars, "duckdb": counts_by_duckdb,
    "group by": group_by_duckdb,
}  # fmt: skip


def opened() -> sulq.Database:
    """The people, with a ledger that all processes of this run share."""
    return sulq.open(
        people(), schema=SCHEMA, epsilon=1.0, queries=10**7, name="people",
        ledger=Path(os.environ["SULQ_BENCH"]) / "people.ledger",
    )  # fmt: skip


def hundred_counts() -> Iterator[Line]:
    a, b, c, d = in_fresh_processes("benchmarks.counts", tuple(COLD))
    what = "100 counts over (age, smoker), one batch, cold"
    yield Line(what, a, b, "Polars, one select", 1.5)
    yield Line(what, a, c, "DuckDB, 100 count_if", 0.2)
    yield Line(what, a, d, "DuckDB, one group by", 3.0)


def clamped_sum() -> Line:
    path, db, plain, turn = people(), opened(), duckdb.connect(), itertools.count(1)

    def ours() -> None:
        db.sum("income", error=10**10 + next(turn))  # another error is another question

    def duck() -> None:
        plain.execute(f"select sum(greatest(0, least(500000, income))) from '{path}'").fetchall()

    def duck_case() -> None:
        plain.execute(
            "select sum(case when income >= 0 and income <= 500000 then income when income > "
            f"500000 and not isnan(income) then 500000 else 0 end) from '{path}'"
        ).fetchall()

    a, b, c = in_turn(ours, duck, duck_case)
    note = f"against its CASE spelling {a / c:.2f}"
    return Line("sum of a bounded number", a, b, "DuckDB, clamped sum", 2.0, note)


def small_count(folder: Path) -> Line:
    path = people(1000)
    db = sulq.open(path, schema=SCHEMA, epsilon=1.0, queries=10**6, ledger=folder / "small.ledger")
    bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
    bare.execute("pragma journal_mode = wal")
    bare.execute("pragma synchronous = full")
    bare.execute("create table t (x text)")
    turn = itertools.count()

    def ours() -> None:
        db.count("smoker", error=1000 + next(turn))  # another error is another question

    def two_commits() -> None:
        for _ in range(2):
            bare.execute("begin immediate")
            bare.execute("insert into t values (?)", ("x" * 500,))
            bare.execute("commit")

    for way in (ours, two_commits):
        way()
    pairs = [(seconds(ours), seconds(two_commits)) for _ in range(101)]
    a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Line(
        "one count on 1,000 rows, charge and answer kept", a, b, "two durable commits", 9.0,
        f"{(a - b) * 1000:.2f} ms more",
    )  # fmt: skip


def light_import() -> Line:
    def run(code: str) -> float:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        done = subprocess.run(
            [sys.executable, "-c", timed], capture_output=True, text=True, check=True,
            env=environment,
        )  # fmt: skip
        return float(done.stdout)

    codes = ("from sulq import *", "import duckdb, numpy", "import sulq")
    times = [[run(code) for code in codes] for _ in range(9)]
    ours, other, light = (statistics.median(column) for column in zip(*times, strict=True))
    note = f"import sulq alone: {light * 1000:.0f} ms"
    return Line("every public name of sulq", ours, other, "import duckdb, numpy", 2.0, note)

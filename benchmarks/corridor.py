"""Part 1: counts in one scan, a clamped sum, one small count with its commits, the import."""

from __future__ import annotations

import itertools
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl

import sulq
from benchmarks.data import SCHEMA, people
from benchmarks.measure import Line, in_turn, seconds
from sulq import database, expressions


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=".bench") as folder:
        yield small_count(Path(folder))
        yield from hundred_counts(Path(folder))
        yield clamped_sum(Path(folder))
    yield light_import()


def thresholds(turn: int) -> list[tuple[int, int]]:
    """100 pairs of ages, other ones every turn, so that no stored answer helps."""
    return [((i * 7 + turn) % 60, 61 + (i * 3 + turn * 11) % 38) for i in range(100)]


def forget(db: sulq.Database) -> None:
    """Nothing is kept from before: no cube of rows, no reading of a text."""
    db._engine.forget()  # type: ignore[attr-defined]
    expressions._short.cache_clear()
    database._small.cache_clear()


def hundred_counts(folder: Path) -> Iterator[Line]:
    path = people()
    db = sulq.open(path, schema=SCHEMA, epsilon=1.0, queries=10**6, ledger=folder / "counts.ledger")
    plain = duckdb.connect()
    turn = itertools.count()

    def ours() -> None:
        t = next(turn)
        forget(db)
        db.ask([sulq.Query(["1"], where=f"age between {a} and {b} and smoker")
                for a, b in thresholds(t)])  # fmt: skip

    def polars() -> None:
        counts = [
            (pl.col("age").is_between(a, b) & pl.col("smoker")).sum().alias(str(i))
            for i, (a, b) in enumerate(thresholds(next(turn)))
        ]
        pl.scan_parquet(path).select(counts).collect()

    def duck() -> None:
        counts = ", ".join(
            f"count_if(age between {a} and {b} and smoker)" for a, b in thresholds(next(turn))
        )
        plain.execute(f"select {counts} from '{path}'").fetchall()

    a, b, c = in_turn(ours, polars, duck, rounds=5)
    yield Line("100 counts over (age, smoker), one batch", a, b, "Polars, one select", 1.5)
    yield Line("100 counts over (age, smoker), one batch", a, c, "DuckDB, 100 count_if", 0.2)


def clamped_sum(folder: Path) -> Line:
    path = people()
    db = sulq.open(path, schema=SCHEMA, epsilon=1.0, queries=10**6, ledger=folder / "counts.ledger")
    plain = duckdb.connect()
    turn = itertools.count(1)

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
    extra = (a - b) * 1000
    return Line(
        "one count on 1,000 rows, charge and answer kept", a, b + 0.004,
        "two durable commits + 4 ms", 1.0, f"{extra:.2f} ms beyond two commits of {b * 500:.2f} ms",
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

    codes = ("import sulq", "import duckdb, numpy", "from sulq import *")
    times = [[run(code) for code in codes] for _ in range(9)]
    ours, other, names = (statistics.median(column) for column in zip(*times, strict=True))
    note = f"every public name loaded: {names / other:.2f}"
    return Line("import sulq", ours, other, "import duckdb, numpy", 2.0, note)

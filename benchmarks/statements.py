"""Part 2: SQL at the speed of the engine, on Parquet and on the encoded store."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

import sulq
from benchmarks.data import SCHEMA, people, two_columns
from benchmarks.measure import Line, in_turn
from sulq.open_database import encode


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=".bench") as name:
        folder = Path(name)
        yield by_region(folder)
        yield by_region_encoded(folder)
        yield kept(folder)
        yield memory(folder)


# Another question every turn, about the same rows: nobody here is older than 100.
STATEMENT = "select region, count(*), avg(income) from {} where age < {} group by region"
OLDEST = 119


def by_region(folder: Path) -> Line:
    path = people()
    db = sulq.open(
        path, schema=SCHEMA, epsilon=1.0, queries=10**7, ledger=folder / "p.ledger", name="people"
    )
    plain = duckdb.connect()
    oldest = itertools.count(OLDEST, -1)

    def ours() -> None:
        db.sql(STATEMENT.format("people", next(oldest)))

    def duck() -> None:
        plain.execute(STATEMENT.format(f"'{path}'", OLDEST)).fetchall()

    a, b = in_turn(ours, duck)
    return Line("count and mean by region, Parquet", a, b, "plain DuckDB", 1.6)


def by_region_encoded(folder: Path) -> Line:
    path, folder = people(), folder / "encoded"  # the same rows have one ledger a folder
    folder.mkdir()
    encode(path, SCHEMA, folder / "people.sulq", ledger=folder / "e.ledger", name="people")
    db = sulq.open(folder / "people.sulq", epsilon=1.0, queries=10**7)
    plain = duckdb.connect(str(folder / "plain.duckdb"))
    plain.execute(f"create table people as select * from '{path}'")
    oldest = itertools.count(OLDEST, -1)

    def ours() -> None:
        db.sql(STATEMENT.format("people", next(oldest)))

    def duck() -> None:
        plain.execute(STATEMENT.format("people", OLDEST)).fetchall()

    a, b = in_turn(ours, duck)
    return Line("count and mean by region, encoded", a, b, "DuckDB's own table", 1.1)


def kept(folder: Path) -> Line:
    """A new question over columns already counted: no scan, just the ledger."""
    db = sulq.open(
        people(), schema=SCHEMA, epsilon=1.0, queries=10**7, ledger=folder / "p.ledger",
        name="people",
    )  # fmt: skip
    db.crosstab(["age", "smoker"])
    turn = itertools.count()
    book = db._ledger
    from sulq.ledger import Request

    def ours() -> None:
        t = next(turn)
        db.count(f"age > {t % 50} and age < {60 + t // 50} and smoker")

    def commits() -> None:
        (charge,) = book.charge([Request(f"bench {next(turn)}", 1, None)])
        book.record([(charge.number, "[]")])

    a, b = in_turn(ours, commits, rounds=101)
    note = f"{(a - b) * 1000:.2f} ms more"
    return Line("a count over columns kept", a, b, "the ledger's two commits", 3.0, note)


CHILD = """
import resource, sys, sulq
db = sulq.open(sys.argv[1], schema={"columns": {"age": {"type": "integer", "low": 0, "high": 120},
               "smoker": {"type": "boolean"}}}, epsilon=1.0, queries=1000, ledger=sys.argv[2],
               name="people")
db.sql("select smoker, count(*), avg(age) from people group by smoker")
db.count("age > 40 and smoker")
db.sum("age * age")
db.ask(sulq.Query(sulq.Products(["age", "smoker"])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory(folder: Path) -> Line:
    """Peak memory of a program that asks about 100 million rows, in GiB against 2 GiB."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(two_columns()), str(folder / "m.ledger")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    peak = int(done.stdout) / 2**20
    return Line("peak memory, 100 million rows of two columns", peak, 2.0, "2 GiB", 1.0,
                f"{peak:.2f} GiB", unit="GiB")  # fmt: skip

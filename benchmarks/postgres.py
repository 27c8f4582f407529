"""Part 6: rows that stay in PostgreSQL, against the plain SQL on the same server."""

from __future__ import annotations

import importlib.util
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import sulq
from benchmarks.data import SCHEMA, people
from benchmarks.measure import Line, Opened, in_turn

ROWS = 2_000_000
COLUMNS = "id bigint, age integer, smoker boolean, income double precision, region text"
# Another question every turn, about the same rows: nobody here is older than 100.
BY_REGION = "select region, count(*), avg(income) from people where age < {} group by region"
OLDEST = 119


def lines() -> Iterator[Line]:
    with running() as server, tempfile.TemporaryDirectory(dir=".bench") as folder:
        fill(server)

        def opened() -> sulq.Database:
            """Opened anew: nothing is kept from before."""
            return sulq.open(
                server.url("reader"), SCHEMA, table="people", epsilon=1.0, queries=10**7,
                ledger=Path(folder) / "people.ledger",
            )  # fmt: skip

        with server.connect() as plain:
            yield from counts(opened, plain)
            yield by_region(opened, plain)
            yield products(opened(), plain)
            yield from looks(opened(), plain)


@contextmanager
def running() -> Iterator[Any]:
    """A PostgreSQL of the benchmark's own, as the tests make theirs."""
    spec = importlib.util.spec_from_file_location("postgres", "tests/postgres.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    with tempfile.TemporaryDirectory(prefix="sulq-bench-") as folder:
        os.chmod(folder, 0o755)
        server = made.Server.make(Path(folder) / "server")
        server.start("shared_buffers=512MB")
        try:
            yield server
        finally:
            server.stop()


def fill(server: Any) -> None:
    """The benchmark's people in a table that a role may only read."""
    import io

    import pyarrow.csv

    options = pyarrow.csv.WriteOptions(include_header=False)
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE people ({COLUMNS})".encode())
        with connection.cursor().copy("COPY people FROM STDIN (FORMAT csv)") as copy:
            for batch in pq.ParquetFile(people(ROWS)).iter_batches(100_000):
                sink = io.BytesIO()
                pyarrow.csv.write_csv(batch, sink, options)
                copy.write(sink.getvalue())
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON people TO reader")
        connection.execute("VACUUM (ANALYZE, FREEZE) people")


def ranges(turn: int) -> list[tuple[int, int]]:
    """20 pairs of ages, none of them asked in another turn, so that no stored answer helps."""
    return [(i, 61 + turn) for i in range(20)]


def counts(opened: Callable[[], sulq.Database], plain: Any) -> Iterator[Line]:
    """20 counts in one batch, nothing kept from before; over few values, and over a number."""
    turn = itertools.count()

    def ours() -> Callable[[], object]:
        db, t = opened(), next(turn)
        return lambda: db.ask([sulq.Query(where=f"age between {a} and {b} and smoker")
                               for a, b in ranges(t)])  # fmt: skip

    def theirs() -> None:
        some = ", ".join(
            f"count(*) filter (where age between {a} and {b} and smoker)"
            for a, b in ranges(next(turn))
        )
        plain.execute(f"select {some} from people".encode()).fetchall()

    a, b = in_turn(Opened(ours), theirs)
    yield Line("20 counts over (age, smoker), PostgreSQL", a, b, "plain SQL, 20 filters", 1.3)

    db = opened()

    def ours_wide() -> None:
        t = next(turn)
        db.ask([sulq.Query(["1"], where=f"income > {1000 * b + t} and age > {a}")
                for a, b in ranges(t)])  # fmt: skip

    def theirs_wide() -> None:
        t = next(turn)
        some = ", ".join(
            f"count(*) filter (where income > {1000 * b + t} and age > {a})" for a, b in ranges(t)
        )
        plain.execute(f"select {some} from people".encode()).fetchall()

    a, b = in_turn(ours_wide, theirs_wide)
    yield Line("20 counts over (income, age), PostgreSQL", a, b, "plain SQL, 20 filters", 1.3)


def by_region(opened: Callable[[], sulq.Database], plain: Any) -> Line:
    oldest = itertools.count(OLDEST, -1)

    def ours() -> Callable[[], object]:
        db, age = opened(), next(oldest)
        return lambda: db.sql(BY_REGION.format(age))

    def theirs() -> None:
        plain.execute(BY_REGION.format(OLDEST).encode()).fetchall()

    a, b = in_turn(Opened(ours), theirs)
    return Line("count and mean by region, PostgreSQL", a, b, "plain SQL, group by", 1.3)


def products(db: sulq.Database, plain: Any) -> Line:
    """What the kernel needs is sent; against sending the same columns and doing nothing."""
    oldest = itertools.count(OLDEST, -1)
    copy = "COPY (SELECT age::float8, income FROM people) TO STDOUT (FORMAT binary)"

    def ours() -> None:
        db.ask(sulq.Query(sulq.Products(["age", "income"]), where=f"age < {next(oldest)}"))

    def theirs() -> None:
        link = plain.pgconn
        link.exec_(copy.encode())
        while link.get_copy_data(0)[0] > 0:
            pass
        while link.get_result() is not None:
            pass

    a, b = in_turn(ours, theirs, rounds=3)
    return Line("products of two columns, PostgreSQL", a, b, "binary COPY of them", 3.0)


def looks(db: sulq.Database, plain: Any) -> Iterator[Line]:
    """One count with the look before it: while nothing is written, and after a write elsewhere."""
    turn = itertools.count()
    plain.execute("CREATE TABLE elsewhere (x int)")

    def ours() -> None:
        db.count(f"income > {1000 + next(turn)} and smoker")

    def ours_after_a_write() -> Callable[[], object]:
        plain.execute("INSERT INTO elsewhere VALUES (1)")
        return ours

    def theirs() -> None:
        some = f"income > {1000 + next(turn)} and smoker"
        plain.execute(f"select count(*) filter (where {some}) from people".encode()).fetchall()

    ours()  # what the benchmark itself wrote is looked into once
    a, b = in_turn(ours, theirs)
    yield Line("one count, nothing written, PostgreSQL", a, b, "plain SQL, one filter", 2.0)
    a, b = in_turn(Opened(ours_after_a_write), theirs)
    yield Line("one count after a write elsewhere, PostgreSQL", a, b, "plain SQL, one filter", 15.0)

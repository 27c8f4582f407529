"""Part 6: rows that stay in Spark, against plain Spark SQL in the same session."""

from __future__ import annotations

import importlib.util
import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sulq
from benchmarks.data import SCHEMA, people
from benchmarks.measure import Line, Opened, in_turn
from benchmarks.postgres import BY_REGION, OLDEST, ranges

CLUSTER = "local-cluster[{},1,2048]"  # workers of one core each
COLUMNS = ["age", "income"]
TURNS = itertools.count()  # never the same question twice: its answer would be stored


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=".bench") as folder:
        with running(1) as session:
            questions(session, folder)  # so that both clusters have done as much before
            one = in_turn(asking(session, folder), multiplying(session, folder), rounds=3)
        with running(2) as session:
            yield questions(session, folder)
            two = in_turn(asking(session, folder), multiplying(session, folder), rounds=3)
    for what, a, b in zip(("20 counts and a group-by", "products"), two, one, strict=True):
        # Two cores hold a driver and two workers here, so a second one need only do no harm.
        yield Line(f"{what} with two workers, Spark", a, b, "one worker", 1.2)


@contextmanager
def running(workers: int) -> Iterator[Any]:
    """A small cluster of the benchmark's own, as the tests make theirs."""
    spec = importlib.util.spec_from_file_location("spark", "tests/spark.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    with made.cluster(CLUSTER.format(workers), "") as session:
        yield session


def opened(session: Any, folder: str) -> sulq.Database:
    path = people()
    ledger = Path(folder) / "people.ledger"
    frame = session.read.parquet(str(path.resolve()))
    return sulq.open(frame, SCHEMA, epsilon=1.0, queries=10**7, ledger=ledger, name="people")


def asking(session: Any, folder: str) -> Opened:
    """20 counts in one batch, then a statement; opened anew, so that nothing is kept."""

    def ready() -> Callable[[], None]:
        db, t = opened(session, folder), next(TURNS)

        def ask() -> None:
            db.ask([sulq.Query(where=f"age between {a} and {b} and smoker")
                    for a, b in ranges(t)])  # fmt: skip
            db.sql(BY_REGION.format(OLDEST - t))

        return ask

    return Opened(ready)


def questions(session: Any, folder: str) -> Line:
    plain = session.newSession()
    plain.read.parquet(str(people().resolve())).createTempView("people")

    def theirs() -> None:
        some = ", ".join(
            f"count_if(age between {a} and {b} and smoker)" for a, b in ranges(next(TURNS))
        )
        plain.sql(f"select {some} from people").collect()
        plain.sql(BY_REGION.format(OLDEST)).collect()

    a, b = in_turn(asking(session, folder), theirs)
    return Line("20 counts and a group-by, Spark", a, b, "plain Spark SQL", 1.3)


def multiplying(session: Any, folder: str) -> Callable[[], object]:
    """Products of two columns, by the kernel in the workers."""
    db = opened(session, folder)
    return lambda: db.ask(sulq.Query(sulq.Products(COLUMNS), where=f"age < {OLDEST - next(TURNS)}"))

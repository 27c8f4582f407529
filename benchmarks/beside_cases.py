"""The cases that benchmarks/beside.py asks of two releases: one process, which is told what to ask.

Those of a server are in benchmarks/beside_server.py.

Only names that both releases have are used, or the one that is there. A case makes ready what is
not timed, and gives what is; every turn has other questions, so that no stored answer helps.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from benchmarks.data import SCHEMA, people

Timed = Callable[[], object]
HERE = ExitStack()  # what is open until the process ends
MANY, LARGE = 10_000_000, 100_000_000
TERMS: dict[str, Any] = {"schema": SCHEMA, "epsilon": 1.0, "queries": 10**7, "name": "people"}


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table."""

    section: str
    what: str
    ready: Callable[[int], Timed]  # from the number of the turn
    often: int = 1  # how many times what is named is done
    new_process: bool = False
    elsewhere: bool = False  # most of the work is another server's

    @property
    def named(self) -> str:
        return f"{self.section}: {self.what}"

    @property
    def postgres(self) -> bool:
        return self.section == "PostgreSQL"


CASES: dict[str, Case] = {}


def all_cases() -> dict[str, Case]:
    """These, and those of a server, which are added when they are imported."""
    importlib.import_module("benchmarks.beside_server")
    return CASES


def case(section: str, what: str, **more: Any) -> Callable[[Any], Any]:
    """Add what the function makes ready to the cases."""

    def add(ready: Callable[[int], Timed]) -> Callable[[int], Timed]:
        made = Case(section, what, ready, **more)
        CASES[made.named] = made
        return ready

    return add


def one_of(*names: str) -> Any:
    """The module that this release has."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError(" or ".join(names))


def folder(name: str) -> Path:
    """One for each ledger: the same rows have one in each."""
    path = Path(sys.argv[1]) / name
    path.mkdir(exist_ok=True)
    return path


def opened(rows: int, where: str) -> Any:
    return sulq.open(people(rows), ledger=folder(where) / "p.ledger", **TERMS)


@cache
def kept_open(rows: int) -> Any:
    return opened(rows, f"kept-{rows}")


# --- counts and sums ---------------------------------------------------------------------------


@case("Counts and sums", "one count on 1,000 rows, charge and answer kept", often=50)
def small_count(turn: int) -> Timed:
    db = kept_open(1000)
    errors = range(1000 + 50 * turn, 1050 + 50 * turn)  # another error is another question
    return lambda: [db.count("smoker", error=error) for error in errors]


def hundred(turn: int, where: str) -> Timed:
    db = opened(MANY, where)
    pairs = [((i * 7 + turn) % 60, 61 + (i * 3 + turn * 11) % 38) for i in range(100)]
    asked = [sulq.Query(where=f"age between {a} and {b} and smoker") for a, b in pairs]
    return lambda: db.ask(asked)


for _way in ("in a new process", "opened anew"):
    case("Counts and sums", f"100 counts in one batch, {_way}", new_process=_way[:2] == "in")(
        lambda turn, way=_way: hundred(turn, way[:2])
    )


@case("Counts and sums", "sum of a bounded number")
def clamped_sum(turn: int) -> Timed:
    db = kept_open(MANY)
    return lambda: db.sum("income", error=10**10 + turn)


@case("Counts and sums", "import of every public name, in a new process")
def imports(turn: int) -> Timed:
    return lambda: subprocess.run([sys.executable, "-c", "from sulq import *"], check=True)


# --- SQL ---------------------------------------------------------------------------------------

STATEMENT = "select {0}, count(*), avg(income) from people where age < {1} group by {0}"


@case("SQL", "price of a SELECT", often=20)
def price(turn: int) -> Timed:
    db = kept_open(1000)
    asked = [
        f"select region, count(*), avg(income) from people where age < {20 + turn} and "
        f"income > {50 * turn + i} group by region"
        for i in range(20)
    ]
    return lambda: [db.price(text) for text in asked]


@case("SQL", "count and mean by region, Parquet")
def by_region(turn: int) -> Timed:
    db = kept_open(MANY)
    return lambda: db.sql(STATEMENT.format("region", 119 - turn))


@case("SQL", "count and mean by a private Boolean, Parquet")
def by_boolean(turn: int) -> Timed:
    db = kept_open(MANY)
    return lambda: db.sql(STATEMENT.format("smoker", 119 - turn))


@cache
def encoded() -> Any:
    place = folder("encoded")
    encode = one_of("sulq.open_database", "sulq.opening").encode
    encode(people(), SCHEMA, place / "people.sulq", ledger=place / "e.ledger", name="people")
    return sulq.open(place / "people.sulq", epsilon=1.0, queries=10**7)


@case("SQL", "count and mean by region, encoded")
def by_region_encoded(turn: int) -> Timed:
    db = encoded()
    return lambda: db.sql(STATEMENT.format("region", 119 - turn))


@case("SQL", "a count over columns kept", often=50)
def kept_columns(turn: int) -> Timed:
    db = kept_open(MANY)
    db.crosstab(["age", "smoker"])
    numbers = range(50 * turn, 50 * turn + 50)
    return lambda: [
        db.count(f"age > {k % 50} and age < {60 + k // 50} and smoker") for k in numbers
    ]


# --- learning, ID3, across databases -----------------------------------------------------------


@cache
def learning_rows(kind: str) -> Any:
    from benchmarks import learning

    if kind == "directions":
        return learning.opened(learning.strong_directions(1_000_000, 64), queries=10**9), None
    if kind == "clusters":
        X, start = learning.clusters(1_000_000, 16)
        return learning.opened(X, queries=10**9), start
    return learning.opened(*learning.with_a_margin(1_000_000, 16), queries=10**9), None


@case("Learning", "PCA, 1,000,000 x 64")
def pca(turn: int) -> Timed:
    db, _ = learning_rows("directions")
    return lambda: sulq.learn.PCA(8, budget=1000 + turn).fit(db)


@case("Learning", "k-means, 1,000,000 x 16, one step")
def k_means(turn: int) -> Timed:
    db, start = learning_rows("clusters")
    return lambda: sulq.learn.KMeans(8, init=start, max_iter=1, budget=1000 + turn).fit(db)


@case("Learning", "perceptron, 1,000,000 x 16")
def perceptron(turn: int) -> Timed:
    db, _ = learning_rows("margin")
    model = sulq.learn.Perceptron(max_iter=1, budget=1000 + turn)
    return lambda: model.fit(db, label="label")


@case("ID3", "ID3, 1,000,000 x 10, a whole tree")
def large_tree(turn: int) -> Timed:
    return tree(1_000_000)


@case("ID3", "ID3, 20,000 x 10, a whole tree")
def small_tree(turn: int) -> Timed:
    return tree(20_000)


def tree(rows: int) -> Timed:
    from benchmarks import learn_trees

    db = learn_trees.opened(learn_trees.parquet(rows))
    model = sulq.learn.ID3(max_depth=learn_trees.DEPTH, budget=1000)
    return lambda: model.fit(db, label="label")


@case("Across databases", "Delta by blocks, n = 1,000,000")
def delta(turn: int) -> Timed:
    from benchmarks import vertical

    hospital, insurer, _ = vertical.two_databases(1, queries=1)
    return lambda: sulq.vertical.implication(hospital, "a", insurer, "b")


@cache
def attributes() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    return {f"x{i}": rng.random(1_000_000) < 0.3 for i in range(8)}


@case("Across databases", "8 attributes published, n = 1,000,000")
def published(turn: int) -> Timed:
    from benchmarks import vertical

    db = vertical.opened(
        attributes(), vertical.BOOLEAN, "census", epsilon=3.0, guarantee="dp", queries=28
    )
    path = folder("published") / f"{turn}.parquet"
    return lambda: sulq.vertical.publish(db, list(attributes()), 2, path)


@case("Across databases", "PCA across four databases, n = 1,000,000")
def vertical_pca(turn: int) -> Timed:
    from benchmarks import vertical

    rng, parts = np.random.default_rng(5), []
    for i in range(0, 16, 4):
        columns = {f"x{j}": rng.random(1_000_000) for j in range(i, i + 4)}
        db = vertical.opened(
            columns, vertical.NUMBER, f"part {i}", epsilon=3.0, guarantee="dp", queries=1
        )
        parts.append((db, list(columns)))
    return lambda: sulq.vertical.PCA(n_components=1, budget=1).fit(parts)


# --- the auditor -------------------------------------------------------------------------------


@case("The auditor", "50th audited question, 1,000,000 rows, rule='duan'")
def fiftieth(turn: int) -> Timed:
    from benchmarks import audit

    schema = {f"b{i}": {"type": "boolean", "nullable": False} for i in range(audit.BITS)}
    db = sulq.open(
        audit.bits(), schema, epsilon=1.0, queries=50, rule="duan",
        ledger=folder(f"audit-{turn}") / "audit.ledger", **audit.AUDITED,
    )  # fmt: skip
    for i in range(49):
        db.count(f"b{i}")
    return lambda: db.count("b49")


# --- PostgreSQL and Spark ----------------------------------------------------------------------


def in_postgres() -> Any:
    return sulq.open(
        os.environ["SULQ_BENCH_READER"], SCHEMA, table="people", epsilon=1.0, queries=10**7,
        ledger=folder("postgres") / "p.ledger",
    )  # fmt: skip


@cache
def kept_in_postgres() -> Any:
    return in_postgres()


@case("PostgreSQL", "20 counts over (age, smoker)", elsewhere=True)
def few_values(turn: int) -> Timed:
    db = in_postgres()
    asked = [sulq.Query(where=f"age between {i} and {61 + turn} and smoker") for i in range(20)]
    return lambda: db.ask(asked)


@case("PostgreSQL", "20 counts over (income, age)", elsewhere=True)
def many_values(turn: int) -> Timed:
    db = kept_in_postgres()
    asked = [sulq.Query(where=f"income > {70_000 + turn} and age > {i}") for i in range(20)]
    return lambda: db.ask(asked)


@case("PostgreSQL", "count and mean by region", elsewhere=True)
def by_region_in_postgres(turn: int) -> Timed:
    db = in_postgres()
    return lambda: db.sql(STATEMENT.format("region", 119 - turn))


@case("PostgreSQL", "products of two columns", elsewhere=True)
def products(turn: int) -> Timed:
    db = kept_in_postgres()
    asked = sulq.Query(sulq.Products(["age", "income"]), where=f"age < {119 - turn}")
    return lambda: db.ask(asked)


@case("PostgreSQL", "one count, nothing written", elsewhere=True)
def one_count(turn: int) -> Timed:
    db = kept_in_postgres()
    return lambda: db.count(f"income > {1000 + turn} and smoker")


@case("PostgreSQL", "one count after a write elsewhere", elsewhere=True)
def after_a_write(turn: int) -> Timed:
    import psycopg

    db = kept_in_postgres()
    with psycopg.connect(os.environ["SULQ_BENCH_OWNER"], autocommit=True) as owner:
        owner.execute("INSERT INTO elsewhere VALUES (1)")
    return lambda: db.count(f"income > {2000 + turn} and smoker")


@cache
def spark() -> Any:
    """A cluster of two workers; the lock of the tests' own would let one release wait."""
    import shutil
    import tempfile

    spec = importlib.util.spec_from_file_location("spark", "tests/spark.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = tempfile.mkdtemp(prefix="sulq-spark-")
    HERE.callback(shutil.rmtree, place, ignore_errors=True)
    session = made.started(place, "local-cluster[2,1,2048]", "")
    HERE.callback(made.stop, session)
    return session


def in_spark() -> Any:
    frame = spark().read.parquet(str(people().resolve()))
    return sulq.open(frame, ledger=folder("spark") / "p.ledger", **TERMS)


@case("Spark", "20 counts and a group-by", elsewhere=True)
def counts_in_spark(turn: int) -> Timed:
    db = in_spark()
    asked = [sulq.Query(where=f"age between {i} and {61 + turn} and smoker") for i in range(20)]
    return lambda: (db.ask(asked), db.sql(STATEMENT.format("region", 119 - turn)))


@case("Spark", "products of two columns", elsewhere=True)
def products_in_spark(turn: int) -> Timed:
    db = in_spark()
    asked = sulq.Query(sulq.Products(["age", "income"]), where=f"age < {119 - turn}")
    return lambda: db.ask(asked)


# --- scale -------------------------------------------------------------------------------------

CENTRES = [(0.1, 0.1), (0.3, 0.1), (0.5, 0.2), (0.7, 0.1), (0.9, 0.3)]


def counts_of(rows: int, turn: int) -> Timed:
    db = opened(rows, f"scale-{rows}")
    asked = [sulq.Query(where=f"age between {i} and {61 + turn} and smoker") for i in range(20)]
    return lambda: (db.ask(asked), db.sql(STATEMENT.format("region", 119 - turn)))


def step_of(rows: int, turn: int) -> Timed:
    db = opened(rows, f"scale-{rows}")
    by = sulq.NearestCentre(["age", "income"], CENTRES)
    asked = sulq.Query(sulq.Sums(["age", "income"]), by=by, where=f"age < {119 - turn}")
    return lambda: db.ask(asked)


for _rows in (1_000_000, MANY, LARGE):
    _named = f"{_rows // 1_000_000} million rows"
    case("Scale", f"20 counts and a group-by, {_named}")(
        lambda turn, rows=_rows: counts_of(rows, turn)
    )
    case("Scale", f"one step of k-means, {_named}")(lambda turn, rows=_rows: step_of(rows, turn))


# --- the process -------------------------------------------------------------------------------


def processor() -> float:
    """Seconds of processors that this process and its children took."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in every)


def main() -> None:
    """Answer each line of the input: a case and the number of the turn."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    print(sulq.__file__, file=out, flush=True)
    every = all_cases()
    with HERE:
        for line in sys.stdin:
            named, turn = json.loads(line)
            timed = every[named].ready(turn)
            used, start = processor(), time.perf_counter()
            timed()
            took = time.perf_counter() - start, processor() - used
            print(json.dumps(took), file=out, flush=True)


if __name__ == "__main__":
    from benchmarks import beside_cases  # as others import it, so that there is one of it

    beside_cases.main()

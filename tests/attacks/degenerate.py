"""A fuzz of rows that are hardly there: no question may fail, every engine gives the reference.

    python tests/attacks/degenerate.py --batches 30000 --places arrow,parquet,csv,store

One batch is one list of questions to one engine, whose matrices must equal the reference
engine's; or one call through the front door, charge and noise included, which must not fail.
A failure prints the world that it was found in: --world 17 --places csv asks there again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import postgres
import spark
from attacks.degenerate_questions import CALLS, GENEROUS, LEARNERS, STATEMENTS, Questions
from attacks.degenerate_rows import PLACES, for_parquet, placed, schema_of, table_of
from helpers import reference_engine

import sulq
from sulq.engines.duckdb import DuckDBEngine
from sulq.engines.postgres.engine import PostgresEngine
from sulq.sources.source import open_source
from sulq.sources.spark import is_spark

BATCHES = 30  # of one world
OWN = ("csv", "pandas", "polars")  # places whose values are not bit for bit the frame's
SERVERS = ("postgres", "spark")  # hold no NUL, and no moment beyond their own range
LOCAL = tuple(p for p in PLACES if p not in SERVERS)


class Tally:
    """What was asked and what went wrong."""

    def __init__(self) -> None:
        self.batches: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failures: list[str] = []

    def __str__(self) -> str:
        places = ", ".join(f"{p} {n:,}" for p, n in sorted(self.batches.items()))
        return (
            f"{self.batches.total():,} batches ({places}), {len(self.failures)} failures; "
            f"sources refused when opened: {dict(self.refused)}"
        )


@lru_cache(maxsize=8)
def questions(key: str, person: bool, number: int) -> Questions:
    """The questions of some worlds in a row whose schemas are alike."""
    schema = schema_of(person).with_types({"id": key})
    return Questions(random.Random(f"questions {number} {key} {person}"), schema)


def ask_world(world: int, place: str, tally: Tally, batches: int = BATCHES) -> None:
    """Make one table, put it in one place, and ask it some batches."""
    pick = random.Random(f"world {world}")
    person = pick.random() < 0.15
    schema = schema_of(person)
    table = table_of(pick, person, tame=place in SERVERS)
    table = for_parquet(table) if place == "parquet" else table
    with tempfile.TemporaryDirectory(prefix="sulq-degenerate-") as folder:
        try:
            source = placed(table, schema, place, Path(folder))
            if source is None:
                return
            engine = engine_of(source, schema)
        except sulq.SchemaError as refused:
            tally.refused[f"{place}: {str(refused)[:60]}"] += 1
            return
        except Exception:
            tally.failures.append(f"world {world} in {place}: opening\n{traceback.format_exc()}")
            return
        reference = reference_engine(source if place in OWN else table, schema)
        asked = questions(engine.schema["id"].type, person, world // 25)
        for _ in range(batches):
            tally.batches[place] += 1
            _ask_engine(engine, reference, asked.batch(pick), f"world {world} in {place}", tally)
        if pick.random() < 0.2:
            _ask_front_door(source, schema, asked, pick, f"world {world} in {place}", tally, place)
        engine.close()


def engine_of(source, schema):
    """An engine over a source, every value of it read through as opening does."""
    if isinstance(source, tuple):
        return PostgresEngine(open_source(*source), schema)
    if is_spark(source):
        from sulq.engines.spark.engine import SparkEngine

        return SparkEngine(open_source(source), schema)
    engine = DuckDBEngine(open_source(source), schema)
    engine.read_through()
    return engine


def _ask_engine(engine, reference, batch, where, tally) -> None:
    texts = [(q.text, str(q.values)[:300]) for q in batch]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning that rows cause is an answer too
            warnings.simplefilter("ignore", FutureWarning)  # pyspark's about pandas, once
            found = engine.sums(batch)
            wanted = reference.sums(batch)
    except Exception:
        tally.failures.append(f"{where}: {texts}\n{traceback.format_exc()}")
        return
    for text, one, other in zip(texts, found, wanted, strict=True):
        if one != other:
            tally.failures.append(f"{where}: {text} differs from the reference")


def _ask_front_door(source, schema, asked, pick, where, tally, place) -> None:
    table = {}
    if isinstance(source, tuple):
        source, table["table"] = source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        db = sulq.open(source, schema, ledger=":memory:", name="people", **GENEROUS, **table)
    try:
        few = [pick.choice(asked.written) for _ in range(3)]
        call_once(lambda db: db.ask(few), db, f"{where}: {few}", tally)
        for name, call in (pick.choice(list(LEARNERS.items())), pick.choice(list(CALLS.items()))):
            call_once(call, db, f"{where}: {name}", tally)
        statement = pick.choice(STATEMENTS)
        call_once(lambda db: db.sql(statement), db, f"{where}: {statement}", tally)
        tally.batches[place] += 4
    finally:
        db.close()


def call_once(call, db, where, tally) -> None:
    """One call through the front door: answered, or refused before its charge."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            call(db)
    except sulq.Refused as refused:
        if type(refused).__name__ == "Frozen":
            tally.failures.append(f"{where}: {refused}")
    except Exception:
        tally.failures.append(f"{where}\n{traceback.format_exc()}")


def run(batches, places, first=0, *, each=BATCHES, most_failures=20, loud=False) -> Tally:
    """Ask worlds in all places in turn, `each` batches a world, until so many were asked."""
    tally, world = Tally(), first
    while tally.batches.total() < batches and len(tally.failures) < most_failures:
        told = len(tally.failures)
        ask_world(world, places[world % len(places)], tally, each)
        world += 1
        if loud:
            print(*tally.failures[told:], sep="\n", end="", flush=True)
        if loud and world % 20 == 0:
            print(f"{world - first:,} worlds: {tally}", flush=True)
    return tally


def main() -> int:
    """Run, print what was seen, and fail if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=30_000)
    parser.add_argument("--places", default=",".join([*LOCAL, "postgres"]), help="or spark, alone")
    parser.add_argument("--world", type=int, help="ask this one only")
    parser.add_argument("--first", type=int, default=0, help="the first world")
    chosen = parser.parse_args()
    places, begun = chosen.places.split(","), time.monotonic()
    postgres.plan()
    try:
        with spark.cluster("local[2]") if "spark" in places else nullcontext():
            if chosen.world is not None:
                tally = Tally()
                for place in places:
                    ask_world(chosen.world, place, tally)
                print(*tally.failures, sep="\n")
            else:
                tally = run(chosen.batches, places, chosen.first, loud=True)
    finally:
        postgres.end()
    print(f"{tally}; {time.monotonic() - begun:.0f} s", flush=True)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""What questions take at worst on this machine, measured when a dataset is made.

The rows are made up from the schema alone, in a file of the same kind and as many as there are
(or a sample, what more take being in proportion). Every row computes every expression in full,
and as many questions run at once as later may. So what is measured says nothing of the rows.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.promise import Promise
from sulq.query import Bins, Blocks, Query
from sulq.schema import Column, Schema
from sulq.server.deadlines import Pace
from sulq.sources import Source

if TYPE_CHECKING:
    from sulq.database import Database

SAMPLE = 200_000  # rows
TURNS = 3
VALUES = 6  # sums of one question
TERMS = 4  # of each long one
CELLS = 4000
PER_NUMBER = 1e-4  # seconds, where no histogram of this schema is wide enough to measure it


def measure(db: Database, kind: str, folder: Path, slots: int) -> Pace:
    """The pace of questions to a dataset like this one; its rows are not read."""
    rows = max(min(db.rows, SAMPLE), 1)
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=".pace-") as place,
        _like(db.schema, rows, kind, db.promise, db.pricing, Path(place)) as made_up,
    ):
        found = _Tries(made_up, slots).pace()
    more = max(db.rows / rows, 1.0)
    return Pace(found.scan * more, found.letter * more, found.value * more, found.number)


@contextmanager
def _like(
    schema: Schema, rows: int, kind: str, promise: Promise, pricing: str, folder: Path
) -> Iterator[Database]:
    """A database of made-up rows in a file of this kind, with a ledger on the same disk."""
    from pyarrow import csv, parquet

    from sulq.rehearsing import made_up, on_rows

    table = made_up(schema, rows)
    path = folder / ("rows.csv" if kind == "csv" else "rows.parquet")
    if kind == "csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path)
    source = Source("csv" if kind == "csv" else "parquet", "rows", path=path)
    with on_rows(source, schema, promise, pricing, folder / "ledger") as db:
        yield db


class _Tries:
    """Asks a database of made-up rows and looks at the clock."""

    def __init__(self, db: Database, slots: int) -> None:
        self._db = db
        self._slots = slots
        self._turn = itertools.count(1)

    def pace(self) -> Pace:
        """Solve for the parts: a scan, its values, their letters, the numbers of an answer."""
        scan = self._seconds(lambda same: Query(where=same))
        letter, value = 0.0, 0.0
        for term in _terms(self._db.schema):
            short = self._seconds(lambda same, t=term: Query(_sums(t, 1), where=same))
            long = self._seconds(lambda same, t=term: Query(_sums(t, TERMS), where=same))
            letters = self._letters(_sums(term, TERMS)) - self._letters(_sums(term, 1))
            letter = max(letter, (long - short) / letters)
            value = max(value, (short - scan) / VALUES)
        by = _wide(self._db.schema)
        number = PER_NUMBER
        if by is not None:
            number = (self._seconds(lambda same: Query(by=by, where=same)) - scan) / CELLS
        return Pace(scan, max(letter, 0.0), max(value, 0.0), max(number, 1e-6))

    def _letters(self, values: tuple[str, ...]) -> int:
        return self._db.question(Query(values)).work.letters

    def _seconds(self, make: Callable[..., Query]) -> float:
        """The longest of some tries, as many at once as there are slots."""

        def once(_: int) -> float:
            same = next(self._turn)  # another question each time, or the ledger would know it
            question = self._db.question(make(f"{same} = {same}"))  # before the clock starts
            start = time.perf_counter()
            json.dumps(self._db.answer(question).to_json())
            return time.perf_counter() - start

        with ThreadPoolExecutor(self._slots) as pool:
            once(0)
            return max(pool.map(once, range(self._slots * TURNS)))


def _sums(term: str, terms: int) -> tuple[str, ...]:
    """Several sums of several terms, no two alike."""
    return tuple(
        " + ".join(term.format(k=100 * i + j) for j in range(terms)) for i in range(VALUES)
    )


def _terms(schema: Schema) -> list[str]:
    """A costly term of each type the schema has; {k} is a number that makes it another."""
    found: dict[str, str] = {}
    for column in schema.columns:
        name = '"' + column.name.replace('"', '""') + '"'
        if column.bounded and column.type in ("integer", "number"):
            found.setdefault("number", f"ln(abs({name}) + 1.{{k}}1)")
        elif column.type == "text":
            found.setdefault("text", f"case when {name} like '%a%{{k}}%b%' then 1 else 0 end")
        elif column.type == "date":
            found.setdefault(
                "date", f"case when {name} > date '2000-01-01' then 1.{{k}}1 else 0 end"
            )
        else:
            found.setdefault("other", f"case when {name} is not null then 1.{{k}}1 else 0 end")
    return list(found.values())


def _wide(schema: Schema) -> Any:
    """A partition into many cells, if the schema has one."""
    if schema.key is not None:
        return Blocks(1, CELLS)
    for column in schema.columns:
        if _is_number(column):
            step = (float(column.high) - float(column.low)) / CELLS
            return Bins(column.name, tuple(float(column.low) + step * i for i in range(CELLS + 1)))
    return None


def _is_number(column: Column) -> bool:
    return column.bounded and column.type == "number" and column.low < column.high

"""What questions take on this machine, measured on made-up rows.

The rows are made up from the schema alone, in a file of the same kind and as many as there are (or
a sample, what more take being in proportion), with texts of some length. So what is measured says
nothing of the rows. Questions alike but for their numbers are measured a few times in all, and the
quickest counts: what another program was doing just then is not part of it. While somebody sends
too much, a question is measured by itself only, and again now and then until nobody does.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.audit.promise import is_audited
from sulq.expressions.quoting import quote
from sulq.pipeline import Order, row_by_row
from sulq.privacy.promise import Promise
from sulq.programs.worst_time import worst_seconds
from sulq.questions.alike import alike
from sulq.questions.check import CheckedQuery
from sulq.questions.question import Question
from sulq.rehearsal_database import made_up, on_rows
from sulq.server.services.slots import Pace, Work
from sulq.sources.source import Source
from sulq.values.query import Blocks, Query
from sulq.values.schema import Schema

if TYPE_CHECKING:
    from sulq.database import Database

DRAWN = 100_000  # rows; more are these again,
SAMPLE = 1_000_000  # up to so many
TRIES = 4  # of which the quickest counts, and the last of them at a moment that is not busy:
AGAIN_SECONDS = 0.25  # until there is one, it is tried again so often at most
PAIRS = 10  # of scans of made-up and real rows, before real ones are blamed (lateness.py)
TEXT_LETTERS = 64  # of a text whose longest is not declared
BATCH = 8  # questions
MORE = 7  # questions like the one that is measured,
CHEAP_SECONDS = 0.1  # if it takes no longer than this,
LEAST_SHARE = 0.02  # of what it takes by itself, that it adds to others at least
CELLS = 1000
LEAST_EACH = 2e-4  # seconds
PER_NUMBER = 5e-6  # seconds, where the schema has no key to make many cells of
ELSEWHERE = "elsewhere"  # rows that another engine reads: only their number can be timed
SHAPES = 10_000  # that are remembered
# Questions alike but for these are the same work, if they have as many cells.
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


class MadeUp:
    """A database of made-up rows like a dataset's, to time questions on."""

    def __init__(self, db: Database, kind: str, folder: Path, hold: bool = False) -> None:
        from pyarrow import csv, parquet

        stored = db.stored_rows.n
        rows = max(min(stored, SAMPLE), 1)
        self._place = tempfile.TemporaryDirectory(dir=folder, prefix=".timing-")
        path = Path(self._place.name) / ("rows.csv" if kind == "csv" else "rows.parquet")
        table = table_like(db.schema, rows)
        if kind == "csv":
            csv.write_csv(table, path)
        else:
            parquet.write_table(table, path)
        source = Source("csv" if kind == "csv" else "parquet", "rows", path=path)
        ledger = Path(self._place.name) / "ledger"
        promise, pricing = db.promise, db.pricing
        if is_audited(promise):  # its sums take as long under any promise
            promise = Promise(promise.epsilon, promise.delta, promise.queries)
            pricing = "geometry"
        self._db = on_rows(source, db.schema, promise, pricing, ledger)
        self._db.warm(hold)  # as the dataset's are
        self.rows = stored  # how many the dataset has
        self._share = max(stored / rows, 1.0)
        if kind == ELSEWHERE:
            self._share *= self._slower(db)

    def _slower(self, db: Database) -> float:
        """How many times as long the dataset's engine takes, by a count of all rows: public."""
        everyone = [self._db.question(Query())]
        theirs, ours = (
            min(one.scan_seconds(everyone, 60.0) for _ in range(TRIES)) for one in (db, self._db)
        )
        return max(theirs / ours * self._db.stored_rows.n / max(db.stored_rows.n, 1), 1.0)

    def close(self) -> None:
        """Remove the rows."""
        self._db.close()
        self._place.cleanup()

    def seconds(self, questions: Sequence[Question], most: float, more_like_it: int = 0) -> float:
        """How long reading made-up rows for these takes now, in proportion to the dataset's."""
        return self._db.scan_seconds(questions, most / self._share, more_like_it) * self._share

    def pace(self) -> Pace:
        """What batches take beside their questions."""
        count = self._count
        some = [Query(where=_predicate(self._db.schema, k)) for k in range(BATCH)]
        one, many = self._beside([count]), self._beside(some)
        each = max((many - one) / (BATCH - 1), LEAST_EACH)
        number = PER_NUMBER
        if self._db.schema.key is not None:
            wide = self._beside([replace(count, by=Blocks(1, CELLS))])
            number = max((wide - one) / CELLS, 1e-6)
        alone, together = self.count_seconds(), self._scan(some)
        shared = max(alone - (together - alone) / (BATCH - 1), 0.1 * alone)
        return Pace(self.rows, shared, alone, max(one - each, 1e-4), each, number)

    @property
    def _count(self) -> Query:
        return Query(where=_predicate(self._db.schema, 0))

    def count_seconds(self) -> float:
        """How long a plain count takes now: of some tries the quickest."""
        return self._scan([self._count])

    def _scan(self, queries: Sequence[Query]) -> float:
        questions = [self._db.question(query) for query in queries]
        return min(self.seconds(questions, 600.0) for _ in range(TRIES))

    def _beside(self, queries: Sequence[Query]) -> float:
        """Seconds that all but the scan takes: two commits, and laying out."""
        orders = [Order(self._db.question(query)) for query in queries]
        found = []
        for _ in range(TRIES):
            self._db.forget()
            watch = _Watch()
            start = time.perf_counter()
            for answer in self._db.answer_all(orders, timing=watch):
                json.dumps(answer.to_json())
            found.append(time.perf_counter() - start - watch.seconds)
        return min(found)


class _Watch:
    """A timing that looks at the clock and holds nothing up."""

    seconds = 0.0

    def begin(self, known: Sequence[Any]) -> None:
        self._start = time.perf_counter()

    def end(self) -> None:
        self.seconds = time.perf_counter() - self._start


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of questions that are alike but for their numbers."""

    alone: float  # seconds, by itself
    more: float | None = None  # seconds that one adds to the scan of others, if measured
    tries: int = 0
    after: float = 0.0  # the moment before which it is not tried again


class ScanTimes:
    """What is known of the questions to one dataset. Its made-up rows are there when needed."""

    def __init__(self, make: Callable[[], MadeUp], most: float) -> None:
        self._make = make
        self._most = most  # seconds
        self._rows: MadeUp | None = None
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._shapes: OrderedDict[bytes, Shape] = OrderedDict()

    def pace(self) -> Pace:
        """What batches take now."""
        return self._made().pace()

    def work(self, question: Question, *, busy: bool = False) -> Work:
        """What a question takes: measured now, if those like it were not often enough before.

        What is measured at a busy moment does not settle it.
        """
        text = "\n".join(map(_alike, question.checked))
        name = sha256(text.encode()).digest()
        with self._lock:
            shape = self._shapes.get(name, Shape(self._most))
        if shape.tries < TRIES and time.monotonic() >= shape.after:
            shape = self._tried(shape, question, busy)
            with self._lock:
                self._shapes[name] = shape
                self._shapes.move_to_end(name)
                while len(self._shapes) > SHAPES:
                    self._shapes.popitem(last=False)
        kernel = row_by_row(question)
        each = row_seconds(question)  # what its programs can take, which made-up rows do not show
        programs = each * self._made().rows if each else 0.0
        more = None if shape.more is None else shape.more + programs
        return Work(shape.alone + programs, question.numbers, kernel, more, name)

    def _tried(self, shape: Shape, question: Question, busy: bool) -> Shape:
        """Measured once more: by itself, and with others like it if that does not take long."""
        rows = self._made()
        alone = min(shape.alone, rows.seconds([question], self._most))
        more, tries = shape.more, shape.tries + 1
        if busy:
            after = time.monotonic() + AGAIN_SECONDS if tries >= TRIES else 0.0
            return Shape(alone, more, min(tries, TRIES - 1), after)
        if alone <= CHEAP_SECONDS and any(alike(c, 1) for c in question.checked):
            together = rows.seconds([question], self._most, MORE)
            adds = min(max((together - alone) / MORE, LEAST_SHARE * alone), alone)
            more = adds if more is None else min(more, adds)
        return Shape(alone, more, tries)

    def seconds(self, questions: Sequence[Question]) -> float:
        """How long reading made-up rows for all of these takes now."""
        return self._made().seconds(questions, self._most)

    def count_seconds(self) -> float:
        """How long a plain count's made-up rows take to read now."""
        return self._made().count_seconds()

    def again(self) -> None:
        """Measure questions once more when they are asked: they may have met a busy moment."""
        with self._lock:
            for name, shape in self._shapes.items():
                self._shapes[name] = replace(shape, tries=min(shape.tries, TRIES - 1))

    def _made(self) -> MadeUp:
        with self._making:
            if self._rows is None:
                self._rows = self._make()
            return self._rows

    def close(self) -> None:
        """Remove the rows."""
        with self._making:
            if self._rows is not None:
                self._rows.close()
                self._rows = None


def _alike(checked: CheckedQuery) -> str:
    """The same for queries that are the same work: alike but for numbers, with as many cells, and
    a sample of about as many rows.
    """
    sample = checked.sample
    rows = sample[-1].bit_length() if isinstance(sample, tuple) and len(sample) == 5 else None
    return f"{checked.shape} {rows} {NUMBER.sub('0', checked.text)}"


def row_seconds(question: Question) -> float:
    """The most that the programs of a question can take for one row: all of their fuel."""
    return sum(map(worst_seconds, question.programs))


def table_like(schema: Schema, rows: int) -> Any:
    """Made-up rows, with texts of some length, no two of them alike."""
    import pyarrow as pa

    few = made_up(schema, min(rows, DRAWN))
    for i, column in enumerate(schema.columns):
        if column.type == "text" and not column.key:
            words = pa.array(_texts(few.num_rows, column.max_length or TEXT_LETTERS), pa.string())
            few = few.set_column(i, column.name, words)
    if rows <= few.num_rows:
        return few
    return pa.concat_tables([few] * -(-rows // few.num_rows)).slice(0, rows).combine_chunks()


def _texts(rows: int, length: int) -> list[str]:
    """Texts of that many letters."""
    import numpy as np

    letters = np.random.default_rng(1).integers(97, 123, (rows, length), dtype=np.uint8)
    return [bytes(row).decode("ascii") for row in letters]


def _predicate(schema: Schema, k: int) -> str:
    """A private predicate, another for each number as far as there are enough.

    Of several tables it is about the people: a question about events has to name their table.
    """
    star = schema.star
    columns = [c for c in schema.columns if star is None or star.home(c.name) is star.people]
    private = [c for c in columns if not c.public and not c.key]
    numbers = [c for c in private if c.bounded and c.type in ("integer", "number")]
    if numbers:
        column = numbers[0]
        middle = float(column.low) + (float(column.high) - float(column.low)) * (k + 1) / (k + 2)
        return f"{quote(column.name)} > {middle!r}"
    return f"{quote(private[k % len(private)].name)} is not null" if private else "1 = 1"

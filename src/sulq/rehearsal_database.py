"""sulq.rehearsal: a schema -> a Database of synthetic rows, to try questions free.

The rows are drawn from the declarations alone: no file is opened and no ledger on disk is
touched. Whatever comes back says that it is a rehearsal.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.database import Database
from sulq.engines.enlarged import Enlarged
from sulq.errors import MICRO, Refused
from sulq.ledger.guard import Guard
from sulq.ledger.types import MEMORY
from sulq.planner import Planner
from sulq.privacy.noise import SystemNoise
from sulq.privacy.promise import Promise
from sulq.programs.library import FUEL
from sulq.sources.source import Source
from sulq.values.schema import Column, Schema

if TYPE_CHECKING:
    import numpy as np

    from sulq.engines.base import Engine
    from sulq.questions.question import Question

    Values = np.ndarray[Any, Any]

NOTE = "rehearsal: synthetic rows, nothing spent"
NAME = "rehearsal"
PLENTY = 10**9 * MICRO  # the budget of a rehearsal, so that it never ends one
MAX_ROWS = 10**12  # that a rehearsal stands for
MAX_MADE = 1_000_000  # that are made; their sums stand for the rest
SEED = 249  # the rows are made up, so they may be the same every time; the noise never is
MISSING = 0.05  # of a column that may be
WORDS = 3, 8  # letters of a made-up text
# Where the owner declared no ends. A comparison is all that may be asked of these anyway.
LOW, HIGH = 0, 100
FIRST, LAST = datetime.date(2000, 1, 1), datetime.date(2029, 12, 31)


class Rehearsal(Database):
    """A Database of synthetic rows: the same calls, nothing real read or spent."""

    def answer(
        self, question: Question, *, request_id: str | None = None, most: int | None = None
    ) -> Any:
        """Answer a question from synthetic rows."""
        return _marked(super().answer(question, request_id=request_id, most=most))

    def estimated(self, question: Question, *, analyst: str | None = None) -> Any:
        """What stored answers say, of synthetic rows as they are."""
        return _marked(super().estimated(question, analyst=analyst))

    def forget(self) -> None:
        """Answer every question anew from now on, as if the rows had changed."""
        self._ledger.renew(self._ledger.terms, {"reason": "rehearsed again"})

    def __repr__(self) -> str:
        return f"<sulq.Database {self.name!r}, a {NOTE}: {self.rows:,} rows>"


def _marked(given: Any) -> Any:
    """Say that this is a rehearsal, before anything else there is to note."""
    if isinstance(given, list):
        return [_marked(each) for each in given]
    if isinstance(given, dict):
        return {name: _marked(each) for name, each in given.items()}
    if given.note.startswith(NOTE):
        return given
    return replace(given, note=f"{NOTE}; {given.note}" if given.note else NOTE)


def rehearsal(
    schema: Schema | str | Path | Mapping[str, Any],
    rows: int = 1000,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    queries: int = 1000,
    noise: str = "gaussian",
    guarantee: str = "beliefs",
    pricing: str = "geometry",
    name: str | None = None,
    made: int = MAX_MADE,
    program_fuel: int | None = FUEL,
) -> Database:
    """A database of synthetic rows from the schema alone, to try questions free.

    Rows are spread evenly over the declared ranges and categories; a twentieth of what may be
    missing is. State the promise and the number of rows of the real table to see its prices and
    error bars; the budget here does not run out. `name` is what SQL calls the table: the schema
    file's name unless given. At most `made` rows are made, and their sums multiplied to stand
    for all of them, so the error bars are those of `rows`. Programs run, with `program_fuel` for a
    row at most, whether or not the owner lets them run on the real table; None: none does.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= MAX_ROWS:
        raise Refused(f"rows={rows!r}, want a whole number from 0 to {MAX_ROWS:,}.")
    promise = Promise(epsilon, delta, queries, noise, guarantee)
    declared = Schema.load(schema)
    named = name or Path(declared.where).stem or NAME
    source = Source("arrow", named, frame=made_up(declared, min(rows, max(made, 1))))
    return on_rows(source, declared, promise, pricing, rows=rows, program_fuel=program_fuel)


def on_rows(
    source: Source, schema: Schema, promise: Promise, pricing: str, ledger: Path | str = MEMORY,
    rows: int | None = None, program_fuel: int | None = None,
) -> Rehearsal:  # fmt: skip
    """A rehearsal on these made-up rows, wherever they are; its budget does not run out.

    With `rows` they stand for so many. Programs may take `program_fuel` for a row; None: none runs.
    """
    from sulq.engines.duckdb import DuckDBEngine
    from sulq.ledger import Ledger
    from sulq.ledger.claims import terms_of

    engine: Engine = DuckDBEngine(source, schema)
    if rows is not None and engine.rows != rows:
        engine = Enlarged(engine, rows)
    if engine.schema.unit is not None:
        promise = replace(promise, subject="person")
    book = Ledger.open(
        ledger, terms=terms_of(engine, promise.to_json(), pricing), cells=engine.schema.cell_count,
        total=PLENTY, name=source.name,
    )  # fmt: skip
    guard = Guard(source, None)
    planner = Planner(engine.schema, promise, pricing, source.name, book, program_fuel=program_fuel)
    return Rehearsal(
        engine, promise, book, SystemNoise(), guard, pricing=pricing, name=source.name,
        planner=planner,
    )  # fmt: skip


# --- rows ---------------------------------------------------------------------------------


def made_up(schema: Schema, rows: int) -> Any:
    """An Arrow table that the schema fits, drawn from it alone."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(SEED)
    columns = {}
    for column in schema.columns:
        each = _rows_each(column, schema)
        values = _drawn(column, rows, rng) if each is None else _numbered(column, rows, each)
        missing = rng.random(rows) < MISSING if column.nullable and each is None else None
        columns[column.name] = pa.array(values, type=_type(column), mask=missing)
    return pa.table(columns)


def _rows_each(column: Column, schema: Schema) -> int | None:
    """How many rows share a number: one of a key, max_rows of a person; None elsewhere."""
    if column.key:
        return 1
    unit = schema.unit
    return unit.max_rows if unit is not None and unit.column == column.name else None


def _type(column: Column) -> Any:
    """How Arrow should store it; None lets the values decide."""
    import pyarrow as pa

    kinds = {"date": pa.date32(), "timestamp": pa.timestamp("s"), "text": pa.string()}
    return kinds.get(column.type)


def _numbered(column: Column, rows: int, each: int) -> Values:
    """0, 1, 2, ..., each in as many rows as one person or key has."""
    import numpy as np

    numbers = np.arange(rows) // each
    if column.listed is not None:
        return np.array(column.listed)[numbers % len(column.listed)]
    if column.type == "text":
        return numbers.astype(str).astype(object)
    if not column.bounded or column.type != "integer":
        return numbers
    return np.asarray(column.low + numbers % (column.high - column.low + 1))


def _drawn(column: Column, rows: int, rng: np.random.Generator) -> Values:
    """Values spread evenly over what the column may hold."""
    import numpy as np

    if column.listed is not None:
        return np.array(column.listed)[rng.integers(0, len(column.listed), rows)]
    if column.type == "text":
        return np.array([_word(rng) for _ in range(rows)], dtype=object)
    if column.type == "date":
        first, last = (column.low, column.high) if column.bounded else (FIRST, LAST)
        days = np.arange(np.datetime64(first), np.datetime64(last) + 1)
        return days[rng.integers(0, len(days), rows)]
    if column.type == "timestamp":
        ends = (column.low, column.high) if column.bounded else (FIRST, LAST)
        low, high = (int(np.datetime64(end, "s").astype(np.int64)) for end in ends)
        return rng.integers(low, high, rows, endpoint=True).astype("datetime64[s]")
    low, high = (column.low, column.high) if column.bounded else (LOW, HIGH)
    if column.type == "integer":
        return rng.integers(low, high, rows, endpoint=True)
    return rng.uniform(low, high, rows)


def _word(rng: np.random.Generator) -> str:
    letters = rng.integers(ord("a"), ord("z") + 1, rng.integers(*WORDS, endpoint=True))
    return "".join(map(chr, letters))

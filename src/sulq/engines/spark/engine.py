"""Rows that stay in a cluster: a table, a path or a frame of Spark's, only ever read.

What SQL can say exactly is one aggregate over all rows; the rest runs as the numpy kernel in
the executors. Either way only integer sums reach this program, where the noise is drawn, once.
"""

from __future__ import annotations

import copy
import json
import math
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sulq.engines.base import Matrix
from sulq.engines.cubes import Cubes
from sulq.engines.failures import ScanFailed, ScanStopped, without_words
from sulq.engines.people_rows import kinds_of, people_select
from sulq.engines.select import BatchSelect, Row
from sulq.engines.spark.executor import (
    SUMS,
    VERSION,
    Members,
    Partials,
    laid_out,
    runs_programs_here,
    version_here,
)
from sulq.engines.spark.writer import SparkWriter, called
from sulq.engines.sql_engine import SqlEngine
from sulq.engines.text_values_found import Found, statement
from sulq.engines.writer import TYPES, TooLong
from sulq.errors import Refused, SchemaError
from sulq.kernel.sums import needed_columns
from sulq.questions.check import CheckedQuery
from sulq.questions.contributions import Dense
from sulq.questions.discovery import Discovery
from sulq.questions.partitions import Axis
from sulq.questions.people_view import PeopleRows
from sulq.sources.source import Source, bind
from sulq.sources.spark import SparkRows, failures
from sulq.sources.stacked_rows import Part, stack_sql
from sulq.values.schema import Schema
from sulq.values.star import Star

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MAX_SQL = 60_000  # characters of one statement; longer ones take longer to plan than to run
VIEW, COUNTED = "sulq_rows", "sulq_counted"
HASH = "sum(CAST(xxhash64({}) AS DECIMAL(20, 0)))"

# A stored type, and the DuckDB type that means the same to a declaration; decimal(p, 0) is HUGEINT.
KINDS = {
    "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER",
    "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR", "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip

_checked_workers: set[str] = set()  # applications whose workers have this very sulq


class SparkEngine(SqlEngine):
    """Exact integer sums from Spark."""

    title = "Spark"
    # Each first or last row is a sort and each count of different values a copy of the rows:
    # hundreds in one plan take minutes before the first row is read.
    features_at_once = 16
    _writer: SparkWriter

    def __init__(self, source: Source, schema: Schema) -> None:
        self._found: SparkRows = source.frame
        if schema.star is not None:
            self._found = stacked(self._found, schema.star, kind_of)
        self._name = source.name
        self._session = self._found.session
        self._lock = threading.RLock()
        self._tag = f"sulq-{secrets.token_hex(8)}"
        # Whole files are known again when they are opened again; what was computed is not.
        self._stamp = "files" if self._found.whole and self._found.roots else secrets.token_hex(16)
        fields = self._found.frame.schema.fields
        self._types = {f.name: f.dataType.simpleString() for f in fields}
        if len(self._types) != len(fields):
            raise SchemaError("source: two columns of the frame have one name. Rename one.")
        self._columns = {name: f"c{i}" for i, name in enumerate(self._types)}
        self._kinds = {name: kind_of(stored) for name, stored in self._types.items()}
        self.schema = bind(schema, self._kinds)
        with self._looking():
            self._show_rows()
            # Without a name of its own, `rows WHERE (c0)` is rows called WHERE, one column c0.
            self._source = f"{self._rows_that_count()} AS counted"
            self.rows = int(self._ask(f"SELECT count(*) FROM {self._source}")[0][0])
            self._check_workers()
        physical = {c.name: self._kinds[c.name] for c in self.schema.columns}
        self._writer = SparkWriter(self.schema, physical, self._columns, self.rows)
        self._cubes = Cubes(self._writer, self._source, self._table)

    # --- opening ------------------------------------------------------------------------

    def _show_rows(self) -> None:
        """Make a view of the rows under our own names, in which equal texts are equal letters."""
        frame = self._found.frame.toDF(*self._columns.values())
        shown = [
            f"collate({c}, 'UTF8_BINARY') AS {c}" if "collate" in self._types[n] else c
            for n, c in self._columns.items()
        ]
        frame.selectExpr(*shown).createOrReplaceTempView(VIEW)

    def _rows_that_count(self) -> str:
        """The rows, or the first few of each person."""
        unit = self.schema.unit
        if unit is None:
            return VIEW
        counted = self._first_of_each(VIEW, self._columns, self._columns)
        by, most = self._ranked_by(self._columns)
        many = f"SELECT 1 FROM {VIEW} GROUP BY {by} HAVING count(*) > {most} LIMIT 1"
        if not self._ask(many):
            return VIEW
        self._session.sql(counted).createOrReplaceTempView(COUNTED)
        return COUNTED

    def _check_workers(self) -> None:
        """The kernel runs on the workers: they need the very sulq that is here."""
        from sulq import __version__

        application = self._session.sparkContext.applicationId
        if application in _checked_workers:
            return
        try:
            found = self._session.range(1).mapInArrow(version_here, VERSION).collect()
        except failures():
            found = []
        if [row[0] for row in found] != [__version__]:
            raise SchemaError(
                f"engine='spark': the workers' Python does not have sulq {__version__}. Install it "
                "there, set PYSPARK_PYTHON to a Python that has it, or send it along with "
                "spark.archives."
            )
        _checked_workers.add(application)

    def check_programs(self) -> None:
        """Refuse to let programs run where the workers have nothing that runs them."""
        with self._looking():
            found = self._session.range(1).mapInArrow(runs_programs_here, VERSION).collect()
        if [row[0] for row in found] != ["yes"]:
            raise SchemaError(
                "programs: the workers' Python does not have wasmtime. Install sulq[programs] "
                "there, or leave programs off."
            )

    def _with_people(self, people: PeopleRows) -> SparkEngine:
        """The same engine over rows of which each person has one."""
        twin = copy.copy(self)
        short = {c.name: f"f{i}" for i, c in enumerate(people.schema.columns)}
        physical = {name: TYPES[kind] for name, kind in kinds_of(people).items()}
        person = people.schema.columns[0].name
        physical[person] = self._kinds[person]
        select = people_select(self._writer, people, VIEW, short.__getitem__, wide="DECIMAL(28, 0)")
        twin.schema, twin._source, twin._columns = people.schema, f"({select}) AS people", short
        twin._writer = SparkWriter(people.schema, physical, short, self.rows)
        twin._cubes = Cubes(twin._writer, twin._source, self._table)
        return twin

    # --- are the rows still the same? ---------------------------------------------------

    @property
    def place(self) -> str | None:
        """Where the rows lie, whatever they are called; None for what was only computed."""
        return " ".join(self.places) or None

    @property
    def places(self) -> tuple[str, ...]:
        """The same of each table."""
        return self._found.places

    @without_words
    def version(self) -> str | None:
        """Moves when rows may have changed; None if nothing would tell."""
        with self._looking():
            listing = self._found.listing()
        return None if listing is None else f"{self._stamp} {listing}"

    @without_words
    def contents(self) -> tuple[str, str]:
        """Numbers that every row takes part in: with all columns, and with those declared.

        They say something of the rows, so they are not kept as they are.
        """
        every, declared = sorted(self._columns), sorted(self.schema.names)
        with self._looking():
            sql = f"SELECT count(*), {self._hash(every)}, {self._hash(declared)} FROM {VIEW}"
            rows, *hashes = map(str, self._ask(sql)[0])
        names = zip((every, declared), hashes, strict=True)
        whole, part = (json.dumps([*columns, rows, found]) for columns, found in names)
        return whole, part

    def declared_contents(self) -> tuple[str, None]:
        """The last of `contents` alone. Nothing less would tell that rows are the same."""
        return self.contents()[-1], None

    def _hash(self, names: list[str]) -> str:
        """The sum of a hash of every row, whatever their order; NULL has a place in it."""
        known = {*KINDS.values(), "DECIMAL", "HUGEINT"}
        parts = []
        for name in names:
            column = self._columns[name]
            parts += [f"isnull({column})"]
            parts += [column if self._kinds[name] in known else f"CAST({column} AS STRING)"]
        return HASH.format(", ".join(parts))

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """A look that nobody pays for, so that its failure is no one's charge."""
        try:
            if self._session.sparkContext._jsc is None:
                raise OSError("the session was stopped")
            with self._lock:
                yield
        except failures():
            raise Refused(
                f"{self._name!r} cannot be read by Spark now. Nothing was charged. Is the cluster "
                "there, and does a plain query over all columns and rows work?"
            ) from None

    # --- answering ----------------------------------------------------------------------

    @contextmanager
    def _scanning(self) -> Iterator[None]:
        try:
            if self._session.sparkContext._jsc is None:
                raise OSError("the session was stopped")
            with self._lock, self._tagged():
                yield
        except failures() as error:
            if _from_outside(str(error)):
                raise ScanStopped from None
            raise ScanFailed(error) from None

    def beside(self) -> SparkEngine:
        """The same rows under a tag of its own: a cluster runs jobs side by side."""
        twin = copy.copy(self)
        twin._lock = threading.RLock()
        twin._tag = f"sulq-{secrets.token_hex(8)}"
        twin._cubes = Cubes(self._writer, self._source, twin._table)
        return twin

    def interrupt(self) -> None:
        """Stop the scan that is running, if one is; it raises EngineFailed."""
        self._session.sparkContext.cancelJobsWithTag(self._tag)

    @contextmanager
    def _tagged(self) -> Iterator[None]:
        """Jobs begun here carry our tag."""
        context = self._session.sparkContext  # a session's own tags do not reach toArrow's thread
        context.addJobTag(self._tag)
        try:
            yield
        finally:
            context.removeJobTag(self._tag)

    def _table(self, sql: str) -> Any:
        return self._session.sql(called(sql)).toArrow()

    def _ask(self, sql: str) -> list[Row]:
        return _lines(self._table(sql))

    def _by_statement(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """One way to group that is finer than all, where there is one; Spark is quicker by it."""
        axes = finest(queries)
        fine = queries if axes is None else [replace(q, axes=axes) for q in queries]
        statement = BatchSelect(self._writer, fine, self._source)
        if len(statement.sql) > MAX_SQL:
            raise TooLong
        found = statement.matrices(self._ask(statement.sql))
        if axes is None:
            return found
        return [margin(q, axes, m) for q, m in zip(queries, found, strict=True)]

    def _by_kernel(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """Each task adds up its own rows; Spark adds up the tasks."""
        sums = [q for q in queries if not _of_people(q)]
        found = iter(self._partial_sums(sums) if sums else [])
        return [self._people(q) if _of_people(q) else next(found) for q in queries]

    def _partial_sums(self, queries: list[CheckedQuery]) -> list[Matrix]:
        names = needed_columns(queries, self.schema)
        task = Partials(tuple(queries), tuple(names), self.schema)
        parts = self._sent(names).mapInArrow(task, SUMS)
        totals = parts.groupBy("query", "cell", "place").sum("total").toArrow()
        return laid_out(queries, _lines(totals))

    def _people(self, query: CheckedQuery) -> Matrix:
        """Who is in which cell is known to the workers only; how many are, here too."""
        assert isinstance(query.values, Dense)
        column = self.schema[query.values.columns[0]]
        names = needed_columns([query], self.schema)
        task = Members(query, tuple(names), self.schema)
        kinds = f"cell INT, person {self._types[column.name]}"
        seen = self._sent(names, self._writer.person(column)).mapInArrow(task, kinds)
        people = seen.where("person IS NOT NULL").distinct().groupBy("cell").count()
        lines = ((0, row[0], 0, row[1]) for row in people.collect())
        return laid_out([query], lines)[0]

    def _discovered(self, query: CheckedQuery, sought: Discovery) -> Found:
        """Values and how many rows have them; where the kernel reads rows, Spark still counts."""
        if statement(self._writer, query, sought, self._source) is not None:
            return super()._discovered(query, sought)
        value = f"left({self._writer.read(self.schema[sought.column])}, {sought.letters})"
        names = needed_columns([query], self.schema)
        task = Members(query, tuple(names), self.schema)
        seen = self._sent(names, value).mapInArrow(task, "cell INT, person STRING")
        counted = seen.where("person IS NOT NULL").groupBy("person").count()
        return [(row[0], row[1]) for row in counted.where(f"count >= {sought.least}").collect()]

    def _sent(self, names: list[str], *more: str) -> DataFrame:
        """These columns of all rows, as the kernel reads them."""
        raw = [self._writer.raw(self.schema[name]) for name in names]
        chosen = [f"{sql} AS s{i}" for i, sql in enumerate([*raw, *more])]
        sql = f"SELECT {', '.join(chosen) or '1 AS one'} FROM {self._source}"
        return self._session.sql(called(sql))


def _lines(table: Any) -> list[Row]:
    """The rows of an Arrow table."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _of_people(query: CheckedQuery) -> bool:
    return isinstance(query.values, Dense) and query.values.kind == "people"


def _from_outside(words: str) -> bool:
    """Was it cancelled? Spark's own class stands before what it quotes."""
    condition = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", words)
    return condition is not None and condition[1].endswith(("CANCELLED", "CANCELED"))


def kind_of(stored: str) -> str:
    """One of Spark's types in the words that declarations are compared with."""
    plain = stored.split(" collate ")[0]
    if plain.startswith("decimal("):
        return "HUGEINT" if plain.endswith(",0)") else "DECIMAL"
    if plain.startswith(("varchar(", "char(")):
        return "VARCHAR"
    return KINDS.get(plain, plain.upper())


# ---- several ways to group, answered from one that is finer ---------------------------------

MAX_CELLS = 2**12  # of the finer grouping

Axes = tuple[Axis, ...]


def finest(queries: Sequence[CheckedQuery]) -> Axes | None:
    """The axes of all queries together; None if they are alike, too many, or do not add up."""
    axes = tuple(dict.fromkeys(a for q in queries for a in q.axes))
    if len({q.axes for q in queries}) == 1 or math.prod(len(a.labels) for a in axes) > MAX_CELLS:
        return None
    people = any(isinstance(q.values, Dense) for q in queries)  # may be in several cells
    twice = any(len(set(q.axes)) < len(q.axes) for q in queries)
    return None if people or twice else axes


def margin(query: CheckedQuery, axes: Axes, found: Matrix) -> Matrix:
    """The sums of a query from those of the finer one."""
    width = query.shape[1]
    cube = np.array(found, dtype=object).reshape(*(len(a.labels) for a in axes), width)
    kept = [axes.index(a) for a in query.axes]
    others = tuple(i for i in range(len(axes)) if i not in kept)
    rest = [i for i in range(len(axes)) if i in kept]
    summed = cube.sum(axis=others) if others else cube
    order = [rest.index(i) for i in kept]
    rows: Matrix = summed.transpose(*order, len(kept)).reshape(query.shape).tolist()
    return rows


# ---- tables of people and events ------------------------------------------------------------


def stacked(found: SparkRows, star: Star, kind_of: Callable[[str], str]) -> SparkRows:
    """The rows of all tables, as the stack has them."""
    if found.parts is None:
        raise SchemaError(
            "source: the schema has several tables. Give a dict of Spark frames by their names."
        )
    parts = {}
    for i, table in enumerate(star.tables):
        frame = found.parts[table.source].frame
        view = f"sulq_part_{i}"
        frame.createOrReplaceTempView(view)
        types = {f.name: kind_of(f.dataType.simpleString()) for f in frame.schema.fields}
        parts[table.name] = Part(view, types)
    sql = stack_sql(star, parts, "STRING", named=_quoted)
    return replace(found, frame=found.session.sql(sql))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

"""Rows that stay in a cluster: a table, a path or a frame of Spark's, only ever read.

What SQL can say exactly is one aggregate over all rows; the rest runs as the numpy kernel in
the executors. Either way only integer sums reach this program, where the noise is drawn, once.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sulq.check import CheckedQuery
from sulq.engines.base import Matrix, check_public
from sulq.engines.cubes import Cubes, spare
from sulq.engines.margins import finer, finest, margin
from sulq.engines.spark_kernel import SUMS, VERSION, Members, Partials, laid_out, version_here
from sulq.engines.spark_sql import WHOLE_DECIMAL, SparkWriter, called
from sulq.engines.sql import TooLong
from sulq.engines.statement import Row, Statement, in_two_ways
from sulq.errors import EngineFailed, Refused, SchemaError
from sulq.kernel import needed_columns
from sulq.schema import Schema
from sulq.sources import Source, bind
from sulq.spark import SparkRows, failures
from sulq.values import Dense

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_SQL = 60_000  # characters of one statement; longer ones take longer to plan than to run
VIEW, COUNTED = "sulq_rows", "sulq_counted"
HASH = "sum(CAST(xxhash64({}) AS DECIMAL(20, 0)))"

# A stored type, and the DuckDB type that means the same to a declaration.
KINDS = {
    "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER",
    "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR", "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip

_checked_workers: set[str] = set()  # applications whose workers have this very sulq


class SparkEngine:
    """Exact integer sums from Spark."""

    def __init__(self, source: Source, schema: Schema) -> None:
        self._found: SparkRows = source.frame
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
        self._cubes = Cubes(self._writer, self._source, self._ask)

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
        """The rows, or at most max_rows of each person: the first by key.

        Which ones does not depend on values, and who owns which rows is public.
        """
        unit, key = self.schema.unit, self.schema.key
        if unit is None:
            return VIEW
        if key is None or key.name == unit.column:
            raise SchemaError(
                "unit: which rows of a person count is fixed by a key, and a table's rows have "
                "no other order. Declare one with key = true."
            )
        person, order = self._columns[unit.column], self._columns[key.name]
        if self._ask(f"SELECT count(*) > count(DISTINCT {order}) FROM {VIEW}")[0][0]:
            raise SchemaError(
                f"unit: the key {key.name!r} is missing or repeated in some rows, so it does not "
                "say which rows of a person count. Give every row its own."
            )
        many = f"SELECT 1 FROM {VIEW} GROUP BY {person} HAVING count(*) > {unit.max_rows} LIMIT 1"
        if not self._ask(many):
            return VIEW
        columns = ", ".join(self._columns.values())
        rank = f"row_number() OVER (PARTITION BY {person} ORDER BY {order}) AS place"
        self._session.sql(
            f"SELECT {columns} FROM (SELECT {columns}, {rank} FROM {VIEW}) AS ranked "
            f"WHERE place <= {unit.max_rows}"
        ).createOrReplaceTempView(COUNTED)
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

    # --- are the rows still the same? ---------------------------------------------------

    @property
    def place(self) -> str | None:
        """Where the rows lie, whatever they are called; None for what was only computed."""
        return self._found.place

    def version(self) -> str | None:
        """Moves when rows may have changed; None if nothing would tell."""
        with self._looking():
            listing = self._found.listing()
        return None if listing is None else f"{self._stamp} {listing}"

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

    def _hash(self, names: list[str]) -> str:
        """The sum of a hash of every row, whatever their order; NULL has a place in it."""
        known = {*KINDS.values(), "DECIMAL", WHOLE_DECIMAL}
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

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query."""
        try:
            with self._lock, self._tagged():
                return in_two_ways(queries, self._by_sql, self._by_kernel)
        except failures():
            # Spark's own words may quote rows, so they stop here.
            raise EngineFailed(
                "the engine gave no sum. The charge stands; asking the same question again "
                "does not pay again."
            ) from None

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it: an Arrow table.

        Public like n, so no one pays for it.
        """
        check_public(names, self.schema)
        read = [self._writer.key(self.schema[n]) for n in names]
        places = ", ".join(str(i + 1) for i in range(len(names)))
        sql = f"SELECT {', '.join([*read, 'count(*)'])} FROM {self._source} GROUP BY {places}"
        with self._looking():
            found = self._session.sql(called(sql)).toArrow()
        return found.rename_columns([*names, spare("rows", names)])

    def interrupt(self) -> None:
        """Stop the scan that is running, if one is; it raises EngineFailed."""
        self._session.sparkContext.cancelJobsWithTag(self._tag)

    def forget(self) -> None:
        """Forget what was kept: the rows may have changed."""
        self._cubes.forget()

    def close(self) -> None:
        """Nothing is held: the session is the owner's, and ours beside it ends with it."""

    @contextmanager
    def _tagged(self) -> Iterator[None]:
        """Jobs begun here carry our tag."""
        context = self._session.sparkContext  # a session's own tags do not reach toArrow's thread
        context.addJobTag(self._tag)
        try:
            yield
        finally:
            context.removeJobTag(self._tag)

    def _ask(self, sql: str) -> list[Row]:
        """The rows of one SELECT."""
        table = self._session.sql(called(sql)).toArrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _by_sql(self, queries: list[CheckedQuery]) -> list[Matrix]:
        if not queries:
            return []
        found = self._cubes.sums(queries)
        if found is not None:
            return found
        with suppress(TooLong):
            axes = finest(queries)
            if axes is None:
                return self._by_statement(queries)
            fine = self._by_statement([finer(q, axes) for q in queries])
            return [margin(q, axes, m) for q, m in zip(queries, fine, strict=True)]
        if len(queries) == 1:
            return self._by_kernel(queries)
        half = len(queries) // 2
        return self._by_sql(queries[:half]) + self._by_sql(queries[half:])

    def _by_statement(self, queries: list[CheckedQuery]) -> list[Matrix]:
        statement = Statement(self._writer, queries, self._source)
        if len(statement.sql) > MOST_SQL:
            raise TooLong
        return statement.matrices(self._ask(statement.sql))

    def _by_kernel(self, queries: list[CheckedQuery]) -> list[Matrix]:
        """Each task adds up its own rows; Spark adds up the tasks."""
        if not queries:
            return []
        sums = [q for q in queries if not _of_people(q)]
        found = iter(self._partial_sums(sums) if sums else [])
        return [self._people(q) if _of_people(q) else next(found) for q in queries]

    def _partial_sums(self, queries: list[CheckedQuery]) -> list[Matrix]:
        names = self._needed(queries)
        task = Partials(tuple(queries), tuple(names), self.schema)
        parts = self._sent(names).mapInArrow(task, SUMS)
        totals = parts.groupBy("query", "cell", "place").sum("total").toArrow()
        lines = zip(*(column.to_pylist() for column in totals.columns), strict=True)
        return laid_out(queries, lines)

    def _people(self, query: CheckedQuery) -> Matrix:
        """Who is in which cell is known to the workers only; how many are, here too."""
        assert isinstance(query.values, Dense)
        column = self.schema[query.values.columns[0]]
        names = self._needed([query])
        task = Members(query, tuple(names), self.schema)
        kinds = f"cell INT, person {self._types[column.name]}"
        seen = self._sent(names, self._writer.person(column)).mapInArrow(task, kinds)
        people = seen.where("person IS NOT NULL").distinct().groupBy("cell").count()
        lines = ((0, row[0], 0, row[1]) for row in people.collect())
        return laid_out([query], lines)[0]

    def _needed(self, queries: list[CheckedQuery]) -> list[str]:
        return sorted(set().union(*(needed_columns(q, self.schema) for q in queries)))

    def _sent(self, names: list[str], *more: str) -> DataFrame:
        """These columns of all rows, as the kernel reads them."""
        raw = [self._writer.raw(self.schema[name]) for name in names]
        chosen = [f"{sql} AS s{i}" for i, sql in enumerate([*raw, *more])]
        sql = f"SELECT {', '.join(chosen) or '1 AS one'} FROM {self._source}"
        return self._session.sql(called(sql))


def _of_people(query: CheckedQuery) -> bool:
    return isinstance(query.values, Dense) and query.values.kind == "people"


def kind_of(stored: str) -> str:
    """One of Spark's types in the words that declarations are compared with."""
    plain = stored.split(" collate ")[0]
    if plain.startswith("decimal("):
        return WHOLE_DECIMAL if plain.endswith(",0)") else "DECIMAL"
    if plain.startswith(("varchar(", "char(")):
        return "VARCHAR"
    return KINDS.get(plain, plain.upper())

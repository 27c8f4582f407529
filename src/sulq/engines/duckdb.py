"""The embedded default: DuckDB over files of many kinds, or an Arrow table.

The connection is locked before the first question: no other file, no network, no extension,
no Python variable, no setting can be reached from it. SQL is written from checked queries
only. A batch is one scan: questions about few-valued columns share one small group-by cube,
the others become one statement, and what SQL cannot say exactly streams through the kernel.
"""

from __future__ import annotations

import copy
import math
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sulq.engines.base import Matrix, Progress
from sulq.engines.cubes import Cubes
from sulq.engines.duckdb_connection import (
    LOCKS,
    byte_by_byte,
    check_view,
    failures,
    limited,
    remove_spill,
    unreadable,
)
from sulq.engines.duckdb_files import reader_of, texts_of
from sulq.engines.duckdb_people import PLACE, limit_rows, show_star, stacked_files
from sulq.engines.failures import without_words
from sulq.engines.people_rows import each_of_its_rows, kinds_of, people_select
from sulq.engines.read_once import SEVERAL, ReadOnce, reads_again
from sulq.engines.scan_progress import watched
from sulq.engines.select import BatchSelect, Row, needs_kernel
from sulq.engines.sql_engine import SqlEngine
from sulq.engines.store import StoreWriter, encode
from sulq.engines.writer import TYPES, TooLong, Writer
from sulq.errors import SchemaError
from sulq.expressions.quoting import quote, text
from sulq.kernel.sums import batch_rows, batches_of, gather, needed_columns
from sulq.questions.check import CheckedQuery
from sulq.questions.people_view import PeopleRows
from sulq.sources.frames import readable
from sulq.sources.source import FILES, Source, bind
from sulq.sources.text_files import text_rows
from sulq.sources.text_values import stored_as, typed
from sulq.values.schema import Column, Schema

READ_ROWS = 2**17  # of a stream, at a time
PLAIN = ("double", "int64", "int32")  # what DuckDB gives back as it got it

HELD_BYTES = 2**26  # of rows that a server keeps in memory


class DuckDBEngine(SqlEngine):
    """Exact integer sums from DuckDB."""

    title = "DuckDB"
    progress: Progress | None = None
    _source = "source"
    _every = "source"  # also the rows beyond max_rows
    _place: str | None = None  # the column that tells rows apart by where they stand

    def __init__(
        self, source: Source, schema: Schema | None, progress: Progress | None = None
    ) -> None:
        self.progress = progress
        self._connect(source, schema)
        for lock in LOCKS:
            self._connection.execute(lock)
        self._cubes = Cubes(self._writer, self._source, self._table)
        self.rows = self._count_rows(source)

    # --- opening ------------------------------------------------------------------------

    def _connect(self, source: Source, schema: Schema | None) -> None:
        """A connection whose view `source` has the declared columns; not locked yet."""
        self._lock = threading.Lock()
        self._spill = tempfile.mkdtemp(prefix="sulq-")  # the owner's alone
        self._clean: Any = weakref.finalize(self, remove_spill, self._spill, os.getpid())
        self._numbered = schema is not None and schema.unit is not None
        self._frame: Any = None  # an Arrow table whose every row counts
        self._registered: Any = None  # an Arrow table as DuckDB reads it
        self._lazy = source.kind == "parquet"  # may a value be found unreadable later?
        self._connection = self._open(source, schema)
        stored = {
            row[0]: str(row[1])
            for row in self._connection.execute("DESCRIBE SELECT * FROM source").fetchall()
        }
        texts = texts_of(source, schema, list(stored))
        if texts and schema is not None:
            stored |= self._type_texts(schema, list(stored), texts)
        self.schema = bind(schema or Schema.of_array(len(stored)), stored)
        physical = {c.name: stored[c.name].split("(")[0] for c in self.schema.columns}
        encoded = source.kind == "store"  # and so read already
        self._writer = (StoreWriter if encoded else Writer)(self.schema, physical)
        if self.schema.unit is not None:
            try:
                self._every = "all_rows"
                found = limit_rows(self._connection, source, self._writer, self._lazy)
                self._place, self._counted = found
            except duckdb.Error:
                raise unreadable(source) from None
        self._holdable = source.kind in FILES
        self._once = None if encoded else ReadOnce(self.schema, physical)
        self._set_dictionaries(source.kind == "parquet")

    @classmethod
    def write_store(cls, source: Source, schema: Schema | None, path: Path, facts: Any) -> None:
        """Encode the rows of a source into a new store."""
        engine = cls.__new__(cls)
        engine._connect(source, schema)
        try:
            engine.read_through()
            # Also rows beyond max_rows, which features of people are of.
            run = (engine._connection, engine.schema, engine._writer, path, facts)
            encode(*run, engine._every)
        finally:
            engine.close()

    def _open(self, source: Source, schema: Schema | None) -> duckdb.DuckDBPyConnection:
        try:
            if source.kind in ("duckdb", "store"):
                return self._open_database(source, schema)
            connection = limited(self._spill)
            if source.kind in ("arrow", "sqlite", "excel", "star"):
                return self._register(connection, source, schema)
            self._reader = reader_of(source, schema, self._spill, self._numbered)
            connection.execute(f"SET allowed_paths = [{self._reader.allowed}]")
            connection.execute(f"CREATE VIEW source AS SELECT * FROM {self._reader.sql}")
        except duckdb.Error:
            raise unreadable(source) from None
        return connection

    def _register(
        self, connection: duckdb.DuckDBPyConnection, source: Source, schema: Schema | None
    ) -> duckdb.DuckDBPyConnection:
        """A frame, or a file that was read into one, as the view `source`."""
        given = source.frame
        if source.kind == "star":
            given = stacked_files(source, schema, self._read_whole)
        elif source.kind != "arrow":
            given, self.table_name = text_rows(source.kind, source.path, source.table)
        names = given.column_names if schema is None else schema.names
        frame = readable(given, names)
        self._frame = None if self._numbered or source.kind != "arrow" else frame
        if self._numbered and source.kind == "arrow":
            frame = frame.append_column(PLACE, [np.arange(frame.num_rows)])
        self._registered = frame
        connection.register("arrow_source", frame)
        connection.execute("CREATE VIEW source AS SELECT * FROM arrow_source")
        return connection

    @classmethod
    def _read_whole(cls, source: Source, schema: Schema) -> Any:
        """All rows of a file as an Arrow table, every value of it readable."""
        engine = cls(source, schema)
        try:
            engine.read_through()
            return engine.arrow()
        finally:
            engine.close()

    def _open_database(self, source: Source, schema: Schema | None) -> duckdb.DuckDBPyConnection:
        connection = limited(self._spill)
        connection.execute(f"ATTACH {text(str(source.path))} AS owner (READ_ONLY)")
        found = connection.execute(
            "SELECT schema_name, table_name, FALSE FROM duckdb_tables() "
            "WHERE database_name = 'owner' "
            "UNION ALL SELECT schema_name, view_name, TRUE FROM duckdb_views() "
            "WHERE database_name = 'owner' AND NOT internal"
        ).fetchall()
        if schema is not None and schema.star is not None and source.kind == "duckdb":
            self._lazy = True
            return show_star(source, schema.star, connection, found)
        names = [name for _, name, _ in found]
        table = source.table or (names[0] if len(names) == 1 else None)
        table = "rows" if source.kind == "store" else table
        if table is None or table not in names:
            raise SchemaError(
                f"table={table!r}: the DuckDB file has {', '.join(names) or 'no table'}. Name one "
                "with table=..."
            )
        home, self._lazy = next((s, view) for s, name, view in found if name == table)
        self.table_name = table if source.kind == "duckdb" else None
        check_view(source, f"owner.{quote(home)}.{quote(table)}")
        number = f", rowid AS {PLACE}" if self._numbered and not self._lazy else ""
        place = f"owner.{quote(home)}.{quote(table)}"
        every = byte_by_byte(connection, place)
        connection.execute(f"CREATE VIEW source AS SELECT {every}{number} FROM {place}")
        return connection

    def _count_rows(self, source: Source) -> int:
        """n; every line of a CSV is read, so that none can fail or vanish later."""
        if source.kind not in ("csv", "json"):
            try:
                return int(self._ask("SELECT count(*) FROM source")[0][0])
            except duckdb.Error:
                raise unreadable(source) from None
        counts = "".join(f", count({quote(n)})" for n in self.schema.names)
        try:
            rows = int(self._ask(f"SELECT count(*){counts} FROM raw_source")[0][0])
        except duckdb.Error:
            raise SchemaError(
                f"source={source.name!r}: a line is not UTF-8 text, or longer than 2 MB. Convert "
                "the file, declare its encoding under [file], or write it as Parquet."
            ) from None
        self._reader.check()
        if self.schema.unit is not None:  # only the rows that count
            rows = int(self._ask("SELECT count(*) FROM source")[0][0])
        return rows

    def read_through(self) -> tuple[str, ...]:
        """Read every declared value once, so that none can fail a question later: what was read.

        A table of DuckDB's own, a frame and a CSV are known to be readable.
        """
        names = self.schema.names if self._lazy else []
        for name in names:
            try:
                with self._lock, watched(self.progress, self._connection):
                    self._ask(f"SELECT bit_xor(hash({quote(name)})) FROM {self._every}")
            except duckdb.Error:
                raise SchemaError(
                    f"column {name!r} has a value that cannot be read: text that is not UTF-8, a "
                    "moment more than 290,000 years away, a failing expression of a view, or a "
                    "damaged page. Convert the column, or leave it out of the schema."
                ) from None
        return tuple(names)

    def _type_texts(self, schema: Schema, names: list[str], texts: list[str]) -> dict[str, str]:
        """Declared types are tried value by value, failures are NULL. Gives the new types."""
        declared = {name: schema.get(name, quoted=True) for name in texts}
        parts = [
            f"{typed(declared[n], quote(n))} AS {quote(n)}" if n in declared else quote(n)
            for n in names
        ]
        self._connection.execute("ALTER VIEW source RENAME TO raw_source")
        self._connection.execute(f"CREATE VIEW source AS SELECT {', '.join(parts)} FROM raw_source")
        return {name: stored_as(column) for name, column in declared.items()}

    def hold(self, wanted: bool | None = None) -> bool:
        """Keep the declared columns as a table in memory.

        Files that hold the same rows in different ways then take the same time.
        """
        if not self._holdable or wanted is False:
            return False
        run, every = self._connection.execute, self._every
        if wanted is None and self.rows * row_bytes(self.schema) > HELD_BYTES:  # n is public
            return False
        place = [self._place] if self._place else []
        names = ", ".join([*(quote(n) for n in self.schema.names), *place])
        with self._lock, suppress(duckdb.Error):  # there may be too little memory
            run(f"CREATE TABLE held AS SELECT {names} FROM {every}")
            run(f"ALTER VIEW {every} RENAME TO file_source")
            run(f"CREATE VIEW {every} AS SELECT * FROM held")
            if every != "source":
                run(f"CREATE OR REPLACE VIEW source AS SELECT * FROM {every}{self._counted}")
            self._holdable, self._lazy = False, False
            self._set_dictionaries(False)
            return True
        return False

    def _set_dictionaries(self, stored: bool) -> None:
        """Say whether words are stored as places in a dictionary, as Parquet does with few."""
        for writer in (self._writer, self._once):
            if writer is not None:
                writer.dictionaries = stored

    def beside(self) -> DuckDBEngine:
        """The same rows over a connection of its own to the same locked database."""
        twin = copy.copy(self)
        twin._lock = threading.Lock()
        twin._connection = self._connection.cursor()
        twin._clean = lambda: None  # what is spilled is this one's
        if self._registered is not None:
            twin._connection.register("arrow_source", self._registered)
        twin._cubes = Cubes(self._writer, self._source, twin._table)
        return twin

    # --- answering ----------------------------------------------------------------------

    @without_words
    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query, in one scan."""
        with self._scanning(), watched(self.progress, self._connection):
            return each_of_its_rows(queries, self._sums, self._of_people)

    def _of_rows(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The sums of queries about these rows, within a scan."""
        found = self._cubes.sums(queries)
        return self._partly_by_cubes(queries, self._in_one_way) if found is None else found

    def _with_people(self, people: PeopleRows) -> DuckDBEngine:
        """The same engine over rows of which each person has one."""
        twin = copy.copy(self)
        physical = {name: TYPES[kind] for name, kind in kinds_of(people).items()}
        person = people.schema.columns[0].name
        physical[person] = self._writer.physical[person]
        select = people_select(self._writer, people, "all_rows", quote, self._place)
        twin.schema, twin._source, twin._frame = people.schema, f"({select}) AS people", None
        twin._writer, twin._once = Writer(twin.schema, physical), ReadOnce(twin.schema, physical)
        twin._cubes = Cubes(twin._writer, twin._source, self._table)
        return twin

    def _in_one_way(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """All by one statement, or all through the kernel."""
        if not queries:
            return []
        if not any(needs_kernel(q) for q in queries):
            with suppress(TooLong):
                return self._by_statement(queries)
        return self._by_kernel(queries)

    def _by_statement(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        once = self._once
        if once is None or (len(queries) < SEVERAL and not reads_again(queries)):
            return super()._by_statement(queries)
        statement = BatchSelect(once, queries, once.over(self._source))
        return statement.matrices(self._ask(statement.sql))

    @contextmanager
    def _scanning(self) -> Iterator[None]:
        with failures(), self._lock:
            yield

    def _ask(self, sql: str) -> list[Row]:
        found: list[Row] = self._connection.execute(sql).fetchall()
        return found

    def _table(self, sql: str) -> Any:
        return self._connection.sql(sql).to_arrow_table()

    @without_words
    def contents_by(self, name: str) -> dict[Any, str]:
        """Numbers that every row of a period takes part in, by period; None: of no declared one.

        They say something of the rows, so they are not kept as they are.
        """
        columns = ", ".join(quote(n) for n in sorted(self.schema.names))
        row = f"md5(CAST(ROW({columns}) AS VARCHAR))"
        parts = ", ".join(f"sum(CAST('0x' || substr({row}, {i}, 14) AS HUGEINT))" for i in (1, 15))
        with self._scanning():
            sql = f"SELECT {self._writer.read(self.schema[name])}, count(*), {parts}"
            found = self._ask(f"{sql} FROM {self._every} GROUP BY 1")
        return {None: "0"} | {value: f"{value} {rest}" for value, *rest in found}

    def every_group(self, names: Sequence[str]) -> Any:
        """`groups` of all rows, also those that do not count."""
        with self._scanning():
            return Cubes(self._writer, self._every, self._table).combinations(names)

    def arrow(self) -> Any:
        """The declared columns as one Arrow table, for the reference engine."""
        names = ", ".join(quote(n) for n in self.schema.names)
        return self._table(f"SELECT {names} FROM source")

    def every_row(self) -> Any:
        """The same of all rows, also those beyond max_rows."""
        names = ", ".join(quote(n) for n in self.schema.names)
        return self._table(f"SELECT {names} FROM {self._every}")

    def interrupt(self) -> None:
        """Stop the scan that is running, if one is; it raises EngineFailed."""
        self._connection.interrupt()

    def close(self) -> None:
        """Let go of the source."""
        self._connection.close()
        self._clean()

    def _by_kernel(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        names, step = needed_columns(queries, self.schema), batch_rows(queries, self.schema)
        parts = batches_of(self._parts(names, step), names, step, self.schema)
        return [m.rows() for m in gather(queries, parts)]

    def _parts(self, names: list[str], rows: int) -> Iterator[Any]:
        """These columns of all rows in parts; the next one is read meanwhile."""
        if self._frame is not None and all(
            str(self._frame.schema.field(n).type) in PLAIN for n in names
        ):
            yield from self._frame.select(names).to_batches(max_chunksize=rows)
            return
        columns = ", ".join(quote(n) for n in names) or "1 AS one"
        found = self._connection.sql(f"SELECT {columns} FROM {self._source}")
        yield from ahead(iter(found.to_arrow_reader(max(rows, READ_ROWS))))


def row_bytes(schema: Schema) -> float:
    """About what a row takes in memory, by what is declared; endless where a text may be."""
    return sum(_bytes(c) for c in schema.columns)


def _bytes(c: Column) -> float:
    if c.type == "text":
        return 16 + (64 if c.key else c.max_length or math.inf)
    return 16 if isinstance((c.values or (0,))[0], str) else 8


def ahead(items: Iterator[Any]) -> Iterator[Any]:
    """The same items, each fetched while the one before is worked on."""
    with ThreadPoolExecutor(max_workers=1) as aside:
        coming = aside.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = aside.submit(next, items, None)
            yield item

"""The embedded default: DuckDB over Parquet, CSV, a DuckDB file or an Arrow table.

The connection is locked before the first question: no other file, no network, no extension,
no Python variable, no setting can be reached from it. SQL is written from checked queries
only. A batch is one scan: questions about few-valued columns share one small group-by cube,
the others become one statement, and what SQL cannot say exactly streams through the kernel.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sulq.check import CheckedQuery
from sulq.engines.base import Matrix, Progress, check_public
from sulq.engines.cubes import Cubes, spare
from sulq.engines.sql import TooLong, Writer, quote, text
from sulq.engines.statement import Statement, needs_kernel
from sulq.errors import EngineFailed, SchemaError
from sulq.kernel import Batch, add_batch, batch_rows, needed_columns
from sulq.kernel import Matrix as Gathered
from sulq.schema import Schema
from sulq.sources import Source, bind, check_quotes, csv_header
from sulq.store import StoreWriter, encode

READ_ROWS = 2**17  # of a stream, at a time
PLAIN = ("double", "int64", "int32")  # what DuckDB gives back as it got it
SLOW_SECONDS = 1.0  # after this a scan shows its progress

LOCKS = (
    # A file's own minimum and maximum may lie, and leave NaN out: with them DuckDB would drop a
    # clamp as needless, and even isnan(), so that one row could fail a scan or move a sum further
    # than was paid for (DuckDB 2.0 on Parquet).
    "SET disabled_optimizers = 'statistics_propagation'",
    "SET enable_progress_bar = true",  # how far a scan is can be asked for,
    "SET enable_progress_bar_print = false",  # but it is ours to show
    "SET TimeZone = 'UTC'",  # a moment is the same date on every machine
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


# What tells rows apart where they lie; a CSV has nothing but its columns.
PLACES = {
    "parquet": "file_row_number",
    "arrow": "sulq_row_number",
    "duckdb": "sulq_row_number",
    "store": "sulq_row_number",
}


class DuckDBEngine:
    """Exact integer sums from DuckDB."""

    def __init__(
        self, source: Source, schema: Schema | None, progress: Progress | None = None
    ) -> None:
        self.progress = progress
        self._connect(source, schema)
        for lock in LOCKS:
            self._connection.execute(lock)
        self._lock = threading.Lock()
        self._cubes = _ArrowCubes(self._writer, "source", self._counted)
        self.rows = self._count_rows(source)

    # --- opening ------------------------------------------------------------------------

    def _connect(self, source: Source, schema: Schema | None) -> None:
        """A connection whose view `source` has the declared columns; not locked yet."""
        self._spill = tempfile.mkdtemp(prefix="sulq-")  # the owner's alone
        self._clean = weakref.finalize(self, shutil.rmtree, self._spill, ignore_errors=True)
        self._numbered = schema is not None and schema.unit is not None
        self._frame: Any = None  # an Arrow table whose every row counts
        self._connection = self._open(source)
        stored = {
            row[0]: str(row[1])
            for row in self._connection.execute("DESCRIBE SELECT * FROM source").fetchall()
        }
        if source.kind == "csv" and schema is not None:
            stored = self._type_csv(schema, stored)
        self.schema = bind(schema or Schema.of_array(len(stored)), stored)
        physical = {c.name: stored[c.name].split("(")[0] for c in self.schema.columns}
        if self.schema.unit is not None:
            self._limit_rows(source, self.schema)
        writer = StoreWriter if source.kind == "store" else Writer
        self._writer = writer(self.schema, physical)

    def _limit_rows(self, source: Source, schema: Schema) -> None:
        """Leave at most max_rows rows of each person, the first by key or by place.

        Which ones does not depend on values, and who owns which rows is public.
        """
        assert schema.unit is not None
        person, most = quote(schema.unit.column), schema.unit.max_rows
        place = PLACES.get(source.kind)
        keyed = schema.key is not None and schema.key.name != schema.unit.column
        if place is None and not keyed:
            raise SchemaError(
                f"unit: which rows of a person count is fixed by a key, and {source.kind} rows "
                "have no other order. Declare one with key = true, or use Parquet."
            )
        key = quote(schema.key.name) if keyed and schema.key is not None else None
        order = ", ".join(part for part in (key, place) if part)  # equal keys by their place
        rank = f"row_number() OVER (PARTITION BY {person} ORDER BY {order})"
        run = self._connection.execute
        run("ALTER VIEW source RENAME TO all_rows")
        if place is None:
            several = run(f"SELECT count(*) > count(DISTINCT {key}) FROM all_rows").fetchall()
            if several[0][0]:
                raise SchemaError(
                    f"unit: the key {key} is missing or repeated in some rows, so it does not say "
                    "which rows of a person count. Give every row its own, or use Parquet."
                )
        place = place or key
        run(
            f"CREATE TEMP TABLE beyond AS SELECT {place} AS place FROM (SELECT {place}, {rank} AS "
            f"rank FROM all_rows) WHERE rank > {most}"
        )
        few = run("SELECT count(*) FROM beyond").fetchall()[0][0] == 0
        rest = "" if few else f" WHERE {place} NOT IN (SELECT place FROM beyond)"
        run(f"CREATE VIEW source AS SELECT * FROM all_rows{rest}")

    @classmethod
    def write_store(cls, source: Source, schema: Schema | None, path: Path, facts: Any) -> None:
        """Encode the rows of a source into a new store."""
        engine = cls.__new__(cls)
        engine._connect(source, schema)
        try:
            encode(engine._connection, engine.schema, engine._writer, path, facts)
        finally:
            engine.close()

    def _open(self, source: Source) -> duckdb.DuckDBPyConnection:
        try:
            if source.kind in ("duckdb", "store"):
                return self._open_database(source)
            connection = self._limited()
            if source.kind == "arrow":
                frame = source.frame
                self._frame = None if self._numbered else frame
                if self._numbered:
                    frame = frame.append_column(PLACES["arrow"], [np.arange(frame.num_rows)])
                connection.register("arrow_source", frame)
                connection.execute("CREATE VIEW source AS SELECT * FROM arrow_source")
                return connection
            path = text(str(source.path))
            connection.execute(f"SET allowed_paths = [{path}]")
            numbered = ", file_row_number = true" if self._numbered else ""
            reader = f"read_parquet({path}{numbered})"
            if source.kind == "csv":
                assert source.path is not None
                reader = f"read_csv({path}, {_csv_options(*csv_header(source.path))})"
            connection.execute(f"CREATE VIEW source AS SELECT * FROM {reader}")
        except duckdb.Error:
            raise _unreadable(source) from None
        return connection

    def _open_database(self, source: Source) -> duckdb.DuckDBPyConnection:
        connection = self._limited()
        connection.execute(f"ATTACH {text(str(source.path))} AS owner (READ_ONLY)")
        found = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'owner' "
            "UNION ALL SELECT schema_name, view_name FROM duckdb_views() "
            "WHERE database_name = 'owner' AND NOT internal"
        ).fetchall()
        names = [name for _, name in found]
        table = source.table or (names[0] if len(names) == 1 else None)
        table = "rows" if source.kind == "store" else table
        if table is None or table not in names:
            raise SchemaError(
                f"table={table!r}: the DuckDB file has {', '.join(names) or 'no table'}. Name one "
                "with table=..."
            )
        home = next(s for s, name in found if name == table)
        self._check_view(source, f"owner.{quote(home)}.{quote(table)}")
        number = f", rowid AS {PLACES['duckdb']}" if self._numbered else ""
        connection.execute(
            f"CREATE VIEW source AS SELECT *{number} FROM owner.{quote(home)}.{quote(table)}"
        )
        return connection

    def _check_view(self, source: Source, name: str) -> None:
        """Refuse a view of anything but its own file: already to describe it would read there."""
        with duckdb.connect(":memory:") as locked:
            locked.execute(f"ATTACH {text(str(source.path))} AS owner (READ_ONLY)")
            for lock in LOCKS:
                locked.execute(lock)
            locked.execute(f"DESCRIBE SELECT * FROM {name}")

    def _count_rows(self, source: Source) -> int:
        """n; every line of a CSV is read, so that none can fail or vanish later."""
        if source.kind != "csv":
            try:
                return int(self._execute("SELECT count(*) FROM source").fetchall()[0][0])
            except duckdb.Error:
                raise _unreadable(source) from None
        assert source.path is not None
        counts = "".join(f", count({quote(n)})" for n in self.schema.names)
        try:
            rows = int(self._execute(f"SELECT count(*){counts} FROM raw_source").fetchall()[0][0])
        except duckdb.Error:
            raise SchemaError(
                f"source={source.name!r}: a line is not UTF-8 text, or longer than 2 MB. Convert "
                "the file, or write it as Parquet."
            ) from None
        check_quotes(source.path)
        if self.schema.unit is not None:  # only the rows that count
            rows = int(self._execute("SELECT count(*) FROM source").fetchall()[0][0])
        return rows

    def _type_csv(self, schema: Schema, stored: dict[str, str]) -> dict[str, str]:
        """A CSV holds text; declared types are tried value by value, failures are NULL."""
        wanted = {"boolean": "BOOLEAN", "integer": "BIGINT", "number": "DOUBLE", "date": "DATE"}
        parts, types = [], {}
        for name in stored:
            column = schema.get(name, quoted=True)
            kind = wanted.get(column.type, "VARCHAR") if column is not None else "VARCHAR"
            if column is not None and column.values and not isinstance(column.values[0], str):
                kind = "BIGINT"
            types[name] = kind
            # DuckDB moves a bare TRY_CAST into its CSV reader, where a failure drops the row
            # or raises; behind trim() it stays a cast of this value alone.
            cast = quote(name) if kind == "VARCHAR" else f"TRY_CAST(trim({quote(name)}) AS {kind})"
            parts.append(f"{cast} AS {quote(name)}")
        self._connection.execute("ALTER VIEW source RENAME TO raw_source")
        self._connection.execute(f"CREATE VIEW source AS SELECT {', '.join(parts)} FROM raw_source")
        return types

    # --- answering ----------------------------------------------------------------------

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query, in one scan."""
        try:
            with self._lock, self._watched():
                found = self._cubes.sums(queries)
                if found is not None:
                    return found
                if not any(needs_kernel(q) for q in queries):
                    with suppress(TooLong):
                        return self._from_sql(queries)
                return self._from_stream(queries)
        except duckdb.Error:
            # The engine's own words may quote rows, so they stop here.
            raise EngineFailed(
                "the engine gave no sum. The charge stands; asking the same question again "
                "does not pay again."
            ) from None

    def _execute(self, statement: str) -> Any:
        return self._connection.execute(statement)

    def arrow(self) -> Any:
        """The declared columns as one Arrow table, for the reference engine."""
        names = ", ".join(quote(n) for n in self.schema.names)
        return self._connection.sql(f"SELECT {names} FROM source").to_arrow_table()

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it: an Arrow table.

        Public like n, so no one pays for it.
        """
        check_public(names, self.schema)
        try:
            with self._lock:
                return self._counted(names)
        except duckdb.Error:
            raise EngineFailed("the engine did not count rows by their public columns.") from None

    def interrupt(self) -> None:
        """Stop the scan that is running, if one is; it raises EngineFailed."""
        self._connection.interrupt()

    def close(self) -> None:
        """Let go of the source."""
        self._connection.close()
        self._clean()

    def _limited(self) -> duckdb.DuckDBPyConnection:
        """A new connection that keeps to half the memory and spills nowhere but here."""
        connection = duckdb.connect(":memory:")
        connection.execute(f"SET temp_directory = {text(self._spill)}")
        connection.execute(f"SET memory_limit = '{memory_limit()}B'")
        return connection

    def forget(self) -> None:
        """Forget what was kept: the rows may have changed."""
        self._cubes.forget()

    # --- three ways to a sum ------------------------------------------------------------

    def _counted(self, names: Sequence[str], member: str = "") -> Any:
        """How many rows have each combination of these columns, as declared: an Arrow table."""
        return self._connection.sql(
            self._cubes.statement(names, member, spare("rows", names))
        ).to_arrow_table()

    def _from_sql(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        statement = Statement(self._writer, queries, "source")
        return statement.matrices(self._execute(statement.sql).fetchall())

    def _from_stream(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        names = sorted(set().union(*(needed_columns(q, self.schema) for q in queries)))
        gathered = [Gathered(q.shape) for q in queries]
        for part in self._parts(names, batch_rows(queries, self.schema)):
            batch = Batch({n: part.column(n) for n in names}, part.num_rows, self.schema)
            for query, matrix in zip(queries, gathered, strict=True):
                add_batch(query, batch, matrix)
        return [m.rows() for m in gathered]

    def _parts(self, names: list[str], rows: int) -> Iterator[Any]:
        """These columns of all rows, some rows at a time; the next are read meanwhile."""
        if self._frame is not None and all(
            str(self._frame.schema.field(n).type) in PLAIN for n in names
        ):
            yield from self._frame.select(names).to_batches(max_chunksize=rows)
            return
        columns = ", ".join(quote(n) for n in names) or "1 AS one"
        reader = self._connection.sql(f"SELECT {columns} FROM source").to_arrow_reader(
            max(rows, READ_ROWS)
        )
        for part in ahead(iter(reader)):
            for start in range(0, part.num_rows, rows):
                yield part.slice(start, rows)

    # Progress of long scans.

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Report the share done of a scan that takes longer than a moment."""
        if self.progress is None:
            yield
            return
        done = threading.Event()
        report, connection = self.progress, self._connection

        def watch() -> None:
            if done.wait(SLOW_SECONDS):
                return
            while not done.wait(0.2):
                report(max(0.0, min(connection.query_progress() / 100, 1.0)))
            report(1.0)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


class _ArrowCubes(Cubes):
    """Cubes that come as Arrow tables."""

    def __init__(
        self, writer: Writer, source: str, table: Callable[[Sequence[str], str], Any]
    ) -> None:
        super().__init__(writer, source, lambda sql: [])
        self._table = table

    def counted(self, names: tuple[str, ...], member: str) -> tuple[Batch, Any]:
        """The combinations as rows of a batch, and how many rows each stands for."""
        table = self._table(names, member)
        columns = {n: table.column(i) for i, n in enumerate(names)}
        return Batch(columns, table.num_rows, self._schema), table.column(len(names)).to_numpy()


def ahead(items: Iterator[Any]) -> Iterator[Any]:
    """The same items, each fetched while the one before is worked on."""
    with ThreadPoolExecutor(max_workers=1) as aside:
        coming = aside.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = aside.submit(next, items, None)
            yield item


def _csv_options(delimiter: str, names: list[str]) -> str:
    """Nothing is guessed from rows: a line is a row, short ones padded, long ones cut."""
    columns = ", ".join(f"{text(n)}: 'VARCHAR'" for n in names)
    return (
        f"auto_detect = false, header = true, delim = {text(delimiter)}, quote = '\"', "
        f"escape = '\"', columns = {{{columns}}}, null_padding = true, strict_mode = false, "
        "parallel = false"  # with it, a line break inside quotes is an error
    )


def memory_limit() -> int:
    """Bytes DuckDB may use: half of what the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _unreadable(source: Source) -> SchemaError:
    return SchemaError(
        f"source={source.name!r} could not be opened as {source.kind}. Is the file complete, and "
        "of that format? A view may read its own file only, and no name may have *, ? or [."
    )

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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sulq.check import CheckedQuery
from sulq.engines.base import Matrix, Progress, check_public
from sulq.engines.sql import TooLong, Writer, place, quote, text
from sulq.engines.statement import few_values, needs_kernel
from sulq.errors import EngineFailed, SchemaError
from sulq.kernel import Batch, add_batch, batch_rows, needed_columns
from sulq.kernel import Matrix as Gathered
from sulq.schema import Schema
from sulq.sources import Source, bind, check_quotes, csv_header
from sulq.store import StoreWriter, encode
from sulq.tree import KERNEL_ONLY
from sulq.values import Dense, Value, gridded

CUBE_CELLS = 2**16  # a group-by this small is cheaper than many sums
KEPT_CELLS = 2**20  # of all cubes kept together
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
        # By columns and predicate, kept while the rows stay as they are.
        self._cubes: dict[tuple[tuple[str, ...], str], Any] = {}
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
            raise SchemaError(
                f"source={source.name!r} could not be opened as {source.kind}. Is the file "
                "complete, and of that format?"
            ) from None
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
        number = f", rowid AS {PLACES['duckdb']}" if self._numbered else ""
        connection.execute(
            f"CREATE VIEW source AS SELECT *{number} FROM owner.{quote(home)}.{quote(table)}"
        )
        return connection

    def _count_rows(self, source: Source) -> int:
        """n; every line of a CSV is read, so that none can fail or vanish later."""
        if source.kind != "csv":
            return int(self._execute("SELECT count(*) FROM source").fetchall()[0][0])
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
                cube = self._cube_columns(queries)
                if cube is None or self._larger_cube(cube) is None:
                    found = self._from_filtered_cube(queries)
                    if found is not None:
                        return found
                if cube is not None:
                    return self._from_cube(queries, cube)
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
                return self._counted(list(names), "")
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

    # One cube: the distinct combinations of few-valued columns, and how many rows have each.

    def _cube_columns(self, queries: Sequence[CheckedQuery]) -> list[str] | None:
        if any(isinstance(q.values, Dense) or q.sample for q in queries):
            return None
        if any(a.kind in ("blocks", "nearest", "side") for q in queries for a in q.axes):
            return None
        names = sorted(set().union(*(needed_columns(q, self.schema) for q in queries)))
        size = 1.0
        for name in names:
            size *= few_values(self.schema, name)
            if size > CUBE_CELLS:
                return None
        numbers = sum(q.shape[1] if not q.axes else 3 for q in queries)
        worth = numbers >= 3 or self._larger_cube(names) is not None
        return names if names and worth else None

    def _larger_cube(self, names: list[str], member: str = "") -> tuple[str, ...] | None:
        """A cube already kept that has these columns of the same rows."""
        kept = (names_ for names_, rows in self._cubes if rows == member)
        return next((k for k in kept if set(names) <= set(k)), None)

    def _from_filtered_cube(self, queries: Sequence[CheckedQuery]) -> list[Matrix] | None:
        """A smaller cube, of the rows that every question is about."""
        members = {(q.rows, q.where) for q in queries}
        if len(members) != 1 or members == {(None, None)} or any(q.sample for q in queries):
            return None
        bare = [replace(q, rows=None, where=None) for q in queries]
        names = self._cube_columns(bare)
        nodes = [n for n in members.pop() if n is not None]
        if names is None or any(p.op in KERNEL_ONLY for n in nodes for p in n.walk()):
            return None
        with suppress(TooLong):
            return self._from_cube(bare, names, self._writer.member(queries[0]))
        return None

    def _from_cube(
        self, queries: Sequence[CheckedQuery], names: list[str], member: str = ""
    ) -> list[Matrix]:
        names = list(self._larger_cube(names, member) or names)
        if (tuple(names), member) not in self._cubes:
            self._keep((tuple(names), member), self._counted(names, member))
        table = self._cubes[tuple(names), member]
        batch = Batch({n: table.column(n) for n in names}, table.num_rows, self.schema)
        counts = table.column(len(names)).to_numpy()
        out = []
        for query in queries:
            gathered = Gathered(query.shape)
            add_batch(query, batch, gathered, counts)
            out.append(gathered.rows())
        return out

    def _counted(self, names: list[str], member: str) -> Any:
        """How many rows have each combination of these columns, as declared."""
        columns = ", ".join(f"{self._writer.key(self.schema[n])} AS {quote(n)}" for n in names)
        raw, count = ", ".join(quote(n) for n in names), quote(_spare(names))
        where = f" WHERE {member}" if member else ""
        # Grouping what is stored, then reading it, reads each distinct value once.
        below = f"SELECT {raw}, count(*) AS {count} FROM source{where} GROUP BY ALL"
        return self._connection.sql(
            f"SELECT {columns}, CAST(sum({count}) AS BIGINT) AS {count} FROM ({below}) GROUP BY ALL"
        ).to_arrow_table()

    def _keep(self, key: tuple[tuple[str, ...], str], cube: Any) -> None:
        """Keep a cube for later questions; the oldest makes room."""
        self._cubes[key] = cube
        while sum(c.num_rows for c in self._cubes.values()) > KEPT_CELLS and len(self._cubes) > 1:
            del self._cubes[next(iter(self._cubes))]

    def forget(self) -> None:
        """Forget what was kept: the rows may have changed."""
        self._cubes.clear()

    # One statement: keys and gated contributions below, integer sums above.

    def _from_sql(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        writer = self._writer
        members = [writer.member(q) for q in queries]
        shared = members[0] if len(set(members)) == 1 else ""
        gates = {m: quote(f"sulq gate {i}") for i, m in enumerate(dict.fromkeys(members)) if m}
        source = "source"
        if not shared and gates:  # each predicate once, not once per value
            listed = ", ".join(f"({m}) AS {name}" for m, name in gates.items())
            source = f"(SELECT *, {listed} FROM source)"
        elif shared:
            source = f"source WHERE {shared}"
        columns: dict[str, str] = {}  # SQL -> its name below
        keys = [[_name(columns, writer.axis(a), "k") for a in q.axes] for q in queries]
        sums: dict[str, str] = {}
        values = []
        for query, member in zip(queries, members, strict=True):
            gate = "" if member == shared else gates[member]
            if isinstance(query.values, Dense):
                person = self._writer.person(self.schema[query.values.columns[0]])
                found = [f"count(DISTINCT {_name(columns, _gated(person, gate), 'v')})"]
            else:
                found = [self._aggregate(v, gate, columns) for v in query.values]
            values.append([_name(sums, sql, "s") for sql in found])
        sets = list(dict.fromkeys(tuple(k) for k in keys))
        words = len(sets) == 1 and any(writer.words(a) for a in queries[0].axes)
        if words and not any(isinstance(q.values, Dense) for q in queries):
            return self._in_two_steps(queries, keys, values, columns, sums, source)
        below = ", ".join(f"{sql} AS {name}" for sql, name in columns.items()) or "1 AS one"
        names = sorted({k for s in sets for k in s})
        chosen = [*names, *(f"{sql} AS {name}" for sql, name in sums.items())]
        if len(sets) > 1:
            chosen += [f"GROUPING({k}) AS g{k}" for k in names]
        grouped = (
            " GROUP BY GROUPING SETS (" + ", ".join(f"({', '.join(s)})" for s in sets) + ")"
            if any(sets)
            else ""
        )
        table = self._execute(
            f"SELECT {', '.join(chosen)} FROM (SELECT {below} FROM {source}){grouped}"
        ).fetchall()
        at = {name: i for i, name in enumerate([*names, *sums.values(), *(f"g{k}" for k in names)])}
        by_set = _by_set(table, [at[f"g{n}"] for n in names]) if len(sets) > 1 else {}
        return [
            self._laid_out(query, k, v, by_set.get(_set(k, names), ()) if by_set else table, at)
            for query, k, v in zip(queries, keys, values, strict=True)
        ]

    def _in_two_steps(
        self, queries: Sequence[CheckedQuery], keys: list[list[str]], values: list[list[str]],
        columns: dict[str, str], sums: dict[str, str], source: str,
    ) -> list[Matrix]:  # fmt: skip
        """Group by what is stored, then by what it is read as: far fewer values to read."""
        axes = dict(zip(keys[0], queries[0].axes, strict=True))
        words = {k: self._writer.words(a) for k, a in axes.items()}
        stored = {k: quote(a.node.value) for k, a in axes.items() if a.node and words[k]}
        below = ", ".join(f"{stored.get(name, sql)} AS {name}" for sql, name in columns.items())
        inner = ", ".join([*axes, *(f"{sql} AS {name}" for sql, name in sums.items())])
        outer = [place(w, k) if w else k for k, w in words.items()]
        totals = [f"sum({name})" for name in sums.values()]
        grouped = f"SELECT {inner} FROM (SELECT {below} FROM {source}) GROUP BY {', '.join(axes)}"
        table = self._execute(
            f"SELECT {', '.join([*outer, *totals])} FROM ({grouped}) GROUP BY {', '.join(outer)}"
        ).fetchall()
        at = {name: i for i, name in enumerate([*axes, *sums.values()])}
        return [
            self._laid_out(query, k, v, table, at)
            for query, k, v in zip(queries, keys, values, strict=True)
        ]

    def _aggregate(self, value: Value, gate: str, columns: dict[str, str]) -> str:
        """One sum over the rows of the gate; counting is cheaper than adding ones."""
        node = value.node
        if node.op == "literal" and node.type != "number" and node.value in (1, True):
            return f"count_if({_name(columns, gate, 'v')})" if gate else "count(*)"
        if node.op == "not" and node.args[0].op == "is_null":  # as many as are not missing
            inner = node.args[0].args[0]
            number = inner.type == "number" and inner.bounded  # the same SQL as its sum
            written = self._writer.value(gridded(inner)) if number else self._writer.node(inner)
            return f"count({_name(columns, _gated(written, gate), 'v')})"
        if node.type == "boolean":
            written = self._writer.node(node)
            both = f"({gate}) AND ({written})" if gate else written
            return f"count_if({_name(columns, both, 'v')})"
        return f"sum({_name(columns, _gated(self._writer.value(value), gate), 'v')})"

    def _laid_out(
        self, query: CheckedQuery, keys: list[str], values: list[str],
        table: Iterable[tuple[Any, ...]], at: dict[str, int],
    ) -> Matrix:  # fmt: skip
        """Put grouped sums into the cells they belong to."""
        cells, width = query.shape
        out = [[0] * width for _ in range(cells)]
        numbers = [self._writer.numbering(axis) for axis in query.axes]
        for row in table:
            cell = 0
            for axis, key, number in zip(query.axes, keys, numbers, strict=True):
                cell = cell * len(axis.labels) + number(row[at[key]])
            for j, name in enumerate(values):
                out[cell][j] += int(row[at[name]] or 0)
        return out

    # The kernel, batch by batch.

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


def _spare(names: list[str]) -> str:
    """A name no column has."""
    name = "rows"
    while name.lower() in {n.lower() for n in names}:
        name += "_"
    return name


def _name(known: dict[str, str], sql: str, letter: str) -> str:
    """A short name for a piece of SQL; the same piece is computed once."""
    return known.setdefault(sql, f"{letter}{len(known)}")


def _gated(value: str, member: str) -> str:
    return f"CASE WHEN {member} THEN {value} END" if member else value


def _by_set(
    table: list[tuple[Any, ...]], grouping: list[int]
) -> dict[tuple[int, ...], list[tuple[Any, ...]]]:
    """The rows of each grouping set, by which of the keys are not grouped."""
    out: dict[tuple[int, ...], list[tuple[Any, ...]]] = {}
    for row in table:
        out.setdefault(tuple(row[i] for i in grouping), []).append(row)
    return out


def _set(keys: list[str], names: list[str]) -> tuple[int, ...]:
    """A grouping set as GROUPING() says it: 0 for its own keys."""
    return tuple(0 if n in keys else 1 for n in names)

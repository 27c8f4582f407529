"""The embedded default: DuckDB over Parquet, CSV, a DuckDB file or an Arrow table.

The connection is locked before the first question: no other file, no network, no extension,
no Python variable, no setting can be reached from it. SQL is written from checked queries
only. A batch is one scan: questions about few-valued columns share one small group-by cube,
the others become one statement, and what SQL cannot say exactly streams through the kernel.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np

from sulq.check import CheckedQuery
from sulq.engines.base import Matrix, Progress
from sulq.engines.sql import Writer, quote, text
from sulq.errors import EngineFailed, SchemaError
from sulq.kernel import Batch, add_batch, needed_columns, rows_at_most
from sulq.kernel import Matrix as Gathered
from sulq.partition import Axis
from sulq.schema import Schema
from sulq.sources import Source, bind
from sulq.tree import KERNEL_ONLY
from sulq.values import Dense

CUBE_CELLS = 2**16  # a group-by this small is cheaper than many sums
SLOW_SECONDS = 1.0  # after this a scan shows its progress

LOCKS = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class DuckDBEngine:
    """Exact integer sums from DuckDB."""

    def __init__(
        self, source: Source, schema: Schema | None, progress: Progress | None = None
    ) -> None:
        self.progress = progress
        self._connection = self._open(source)
        stored = {
            row[0]: str(row[1])
            for row in self._connection.execute("DESCRIBE SELECT * FROM source").fetchall()
        }
        if source.kind == "csv" and schema is not None:
            stored = self._type_csv(schema, stored)
        self.schema = bind(schema or Schema.unit(len(stored)), stored)
        physical = {c.name: stored[c.name].split("(")[0] for c in self.schema.columns}
        self._writer = Writer(self.schema, physical)
        for lock in LOCKS:
            self._connection.execute(lock)
        self._lock = threading.Lock()
        self.rows = int(self._execute("SELECT count(*) FROM source").fetchall()[0][0])

    # --- opening ------------------------------------------------------------------------

    def _open(self, source: Source) -> duckdb.DuckDBPyConnection:
        try:
            if source.kind == "duckdb":
                return self._open_database(source)
            connection = duckdb.connect(":memory:")
            if source.kind == "arrow":
                connection.register("source", source.frame)
                return connection
            path = text(str(source.path))
            connection.execute(f"SET allowed_paths = [{path}]")
            reader = f"read_parquet({path})"
            if source.kind == "csv":
                # Types are never guessed from rows, and a malformed line cannot raise.
                reader = (
                    f"read_csv({path}, all_varchar = true, header = true, sample_size = 1, "
                    "ignore_errors = true, null_padding = true, strict_mode = false)"
                )
            connection.execute(f"CREATE VIEW source AS SELECT * FROM {reader}")
        except duckdb.Error:
            raise SchemaError(
                f"source={source.name!r} could not be opened as {source.kind}. Is the file "
                "complete, and of that format?"
            ) from None
        return connection

    def _open_database(self, source: Source) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:")
        connection.execute(f"ATTACH {text(str(source.path))} AS owner (READ_ONLY)")
        found = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'owner' "
            "UNION ALL SELECT schema_name, view_name FROM duckdb_views() "
            "WHERE database_name = 'owner' AND NOT internal"
        ).fetchall()
        names = [name for _, name in found]
        table = source.table or (names[0] if len(names) == 1 else None)
        if table is None or table not in names:
            raise SchemaError(
                f"table={table!r}: the DuckDB file has {', '.join(names) or 'no table'}. Name one "
                "with table=..."
            )
        home = next(s for s, name in found if name == table)
        connection.execute(
            f"CREATE VIEW source AS SELECT * FROM owner.{quote(home)}.{quote(table)}"
        )
        return connection

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
            cast = quote(name) if kind == "VARCHAR" else f"TRY_CAST({quote(name)} AS {kind})"
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
                if cube is not None:
                    return self._from_cube(queries, cube)
                if any(needs_kernel(q) for q in queries):
                    return self._from_stream(queries)
                return self._from_sql(queries)
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

    def close(self) -> None:
        """Let go of the source."""
        self._connection.close()

    # One cube: the distinct combinations of few-valued columns, and how many rows have each.

    def _cube_columns(self, queries: Sequence[CheckedQuery]) -> list[str] | None:
        numbers = sum(q.shape[1] if not q.axes else 3 for q in queries)
        if numbers < 3 or any(isinstance(q.values, Dense) or q.sample for q in queries):
            return None
        if any(a.kind in ("blocks", "nearest", "side") for q in queries for a in q.axes):
            return None
        names = sorted(set().union(*(needed_columns(q, self.schema) for q in queries)))
        size = 1.0
        for name in names:
            size *= few_values(self.schema, name)
            if size > CUBE_CELLS:
                return None
        return names if names else None

    def _from_cube(self, queries: Sequence[CheckedQuery], names: list[str]) -> list[Matrix]:
        columns = ", ".join(f"{self._writer.read(self.schema[n])} AS {quote(n)}" for n in names)
        table = self._connection.sql(
            f"SELECT {columns}, count(*) AS {quote(_spare(names))} FROM source GROUP BY ALL"
        ).to_arrow_table()
        batch = Batch({n: table.column(n) for n in names}, table.num_rows, self.schema)
        counts = table.column(len(names)).to_numpy()
        out = []
        for query in queries:
            gathered = Gathered(query.shape)
            add_batch(query, batch, gathered, counts)
            out.append(gathered.rows())
        return out

    # One statement: keys and gated contributions below, integer sums above.

    def _from_sql(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        writer = self._writer
        members = [writer.member(q) for q in queries]
        shared = members[0] if len(set(members)) == 1 else ""
        columns: dict[str, str] = {}  # SQL -> its name below
        keys = [[_name(columns, writer.axis(a), "k") for a in q.axes] for q in queries]
        sums: dict[str, str] = {}
        values = []
        for query, member in zip(queries, members, strict=True):
            assert isinstance(query.values, tuple)
            gate = "" if member == shared else member
            written = [_gated(writer.value(v), gate) for v in query.values]
            values.append([_name(sums, f"sum({_name(columns, w, 'v')})", "s") for w in written])
        sets = list(dict.fromkeys(tuple(k) for k in keys))
        below = ", ".join(f"{sql} AS {name}" for sql, name in columns.items()) or "1 AS one"
        names = sorted({k for s in sets for k in s})
        chosen = [*names, *(f"{sql} AS {name}" for sql, name in sums.items())]
        if len(sets) > 1:
            chosen += [f"GROUPING({k}) AS g{k}" for k in names]
        where = f" WHERE {shared}" if shared else ""
        grouped = (
            " GROUP BY GROUPING SETS (" + ", ".join(f"({', '.join(s)})" for s in sets) + ")"
            if any(sets)
            else ""
        )
        table = self._execute(
            f"SELECT {', '.join(chosen)} FROM (SELECT {below} FROM source{where}){grouped}"
        ).fetchall()
        at = {name: i for i, name in enumerate([*names, *sums.values(), *(f"g{k}" for k in names)])}
        return [
            self._laid_out(query, k, v, _of_set(table, at, k, names, len(sets) > 1), at)
            for query, k, v in zip(queries, keys, values, strict=True)
        ]

    def _laid_out(
        self, query: CheckedQuery, keys: list[str], values: list[str],
        table: Iterator[tuple[Any, ...]], at: dict[str, int],
    ) -> Matrix:  # fmt: skip
        """Put grouped sums into the cells they belong to."""
        cells, width = query.shape
        out = [[0] * width for _ in range(cells)]
        numbers = [_numbering(axis) for axis in query.axes]
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
        columns = ", ".join(quote(n) for n in names) or "1 AS one"
        gathered = [Gathered(q.shape) for q in queries]
        reader = self._connection.sql(f"SELECT {columns} FROM source").to_arrow_reader(
            rows_at_most(len(names))
        )
        for part in reader:
            batch = Batch({n: part.column(n) for n in names}, part.num_rows, self.schema)
            for query, matrix in zip(queries, gathered, strict=True):
                add_batch(query, batch, matrix)
        return [m.rows() for m in gathered]

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


def needs_kernel(query: CheckedQuery) -> bool:
    """Does any part of it have no exact SQL?"""
    if isinstance(query.values, Dense) or any(a.kind in ("nearest", "side") for a in query.axes):
        return True
    nodes = [n for n in (query.rows, query.where) if n is not None]
    nodes += [v.node for v in query.values]
    nodes += [a.node for a in query.axes if a.node is not None]
    return any(part.op in KERNEL_ONLY for node in nodes for part in node.walk())


def few_values(schema: Schema, name: str) -> float:
    """How many values a column can have as declared, missing included."""
    column = schema[name]
    if column.listed is not None:
        return len(column.listed) + 1
    if column.type == "integer" and column.bounded:
        return int(column.high - column.low) + 2
    return math.inf


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


def _of_set(
    table: list[tuple[Any, ...]], at: dict[str, int], keys: list[str], names: list[str], many: bool
) -> Iterator[tuple[Any, ...]]:
    """The rows of one grouping set: exactly its keys are grouped."""
    for row in table:
        if not many or all((row[at[f"g{n}"]] == 0) == (n in keys) for n in names):
            yield row


def _numbering(axis: Axis) -> Any:
    """From what SQL grouped by to the number of the cell."""
    if axis.kind != "expression":
        return lambda value: int(value)
    number = {label: i for i, label in enumerate(axis.labels)}
    other = len(axis.labels) - 1
    return lambda value: number.get(_plain(value), other)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value

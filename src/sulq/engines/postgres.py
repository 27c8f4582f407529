"""Rows that stay in PostgreSQL: a table, a view or a partitioned table, only ever read.

Every statement is written here from checked queries: a SELECT of integer sums, or a COPY of the
few columns that the kernel needs. Each question is one read-only transaction over one state of
the rows, under settings that are pinned and checked when it begins.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sulq.check import CheckedQuery
from sulq.engines.base import Matrix, check_public
from sulq.engines.cubes import Cubes, spare
from sulq.engines.postgres_catalog import contents_of, find_relation, version_of
from sulq.engines.postgres_stream import stream
from sulq.engines.sql import TooLong, quote
from sulq.engines.statement import Statement, in_two_ways
from sulq.errors import EngineFailed, Refused, SchemaError
from sulq.kernel import Matrix as Gathered
from sulq.kernel import add_batch, batch_rows, needed_columns
from sulq.postgres import Address, connect, driver, snapshot, why
from sulq.schema import Schema
from sulq.sources import Source, bind

if TYPE_CHECKING:
    import psycopg

BATCH = (2**14, 2**16)  # rows here at a time: few enough for memory, enough to be worth it


class PostgresEngine:
    """Exact integer sums from PostgreSQL."""

    def __init__(self, source: Source, schema: Schema) -> None:
        assert source.url is not None
        self._address = Address.read(source.url)
        self._lock = threading.RLock()
        self._holder: list[Any] = []  # the connection, and the process that made it
        self._clean = weakref.finalize(self, _close, self._holder)
        self._holder[:] = [_reached(source), os.getpid()]
        with _first_look(source, self._connection):
            self._relation = find_relation(self._connection, source.table)
            self.schema = bind(schema, self._relation.types)
            self._writer = self._relation.writer(self.schema)
            self._source = self._rows_that_count()
            self._cubes = Cubes(self._writer, self._source, self._ask)
            self.rows = int(self._ask(f"SELECT count(*) FROM {self._source}")[0][0])
        if self._relation.writable:
            warnings.warn(
                f"the role that reads {self._relation.shown} may also write there, or is a "
                "superuser. `sulq postgres grant` prints how to make one that may only read.",
                stacklevel=5,
            )

    # --- connecting ---------------------------------------------------------------------

    @property
    def _connection(self) -> psycopg.Connection[Any]:
        """The connection, made anew after it was lost or in a forked child."""
        if self._holder and self._holder[1] != os.getpid():
            self._holder.clear()  # the parent's; closing it here would end it there
        if self._holder and self._holder[0].closed:
            self._holder.clear()
        if not self._holder:
            self._holder[:] = [connect(self._address), os.getpid()]
        connection: psycopg.Connection[Any] = self._holder[0]
        return connection

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """One transaction; a connection that was lost meanwhile is made again, once."""
        try:
            found = snapshot(self._connection)
            found.__enter__()
        except driver().OperationalError:
            self._drop()
            found = snapshot(self._connection)
            found.__enter__()
        try:
            yield
        except BaseException:
            self._drop()  # whatever was under way ends with the connection
            raise
        found.__exit__(None, None, None)

    def _drop(self) -> None:
        _close(self._holder)

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of one SELECT. Binary results need the protocol of one statement at a time."""
        return self._connection.execute(sql.encode(), binary=True).fetchall()

    def interrupt(self) -> None:
        """Stop the scan that is running, if one is; it raises EngineFailed."""
        if self._holder:
            self._holder[0].cancel()

    def forget(self) -> None:
        """Forget what was kept: the rows may have changed."""
        self._cubes.forget()

    def close(self) -> None:
        """Let go of the server."""
        self._clean()

    # --- which rows ---------------------------------------------------------------------

    def _rows_that_count(self) -> str:
        """The table, or at most max_rows rows of each person: the first by key.

        Which ones does not depend on values, and who owns which rows is public.
        """
        unit, key, table = self.schema.unit, self.schema.key, self._relation.name
        if unit is None:
            return table
        if key is None or key.name == unit.column:
            raise SchemaError(
                "unit: which rows of a person count is fixed by a key, and a table's rows have "
                "no other order. Declare one with key = true."
            )
        person, order = (self._writer.stored[name] for name in (unit.column, key.name))
        several = self._ask(f"SELECT count(*) > count(DISTINCT {order}) FROM {table}")
        if several[0][0]:
            raise SchemaError(
                f"unit: the key {key.name!r} is missing or repeated in some rows, so it does not "
                "say which rows of a person count. Give every row its own."
            )
        columns = ", ".join(quote(name) for name in self._relation.types)
        rank = quote(spare("place", list(self._relation.types)))
        ranked = (
            f"SELECT {columns}, row_number() OVER (PARTITION BY {person} ORDER BY {order}) "
            f"AS {rank} FROM {table}"
        )
        return (
            f"(SELECT {columns} FROM ({ranked}) AS ranked WHERE {rank} <= {unit.max_rows}) "
            "AS counted"
        )

    @property
    def place(self) -> str:
        """Which table of which database of which server, whatever it is called."""
        return self._relation.place

    def version(self) -> str | None:
        """Moves when rows may have changed; None if nothing would tell."""
        with self._looking():
            return version_of(self._connection, self._relation)

    def contents(self) -> tuple[str, str]:
        """Numbers that every row takes part in: with all columns, and with those declared.

        They say something of the rows, so they are not kept as they are.
        """
        with self._looking():
            return contents_of(self._connection, self._relation, self.schema.names)

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """A look that nobody pays for, so that its failure is no one's charge."""
        try:
            with self._lock, self._snapshot():
                yield
        except driver().Error:
            raise Refused(
                f"{self._relation.shown!r} cannot be read at {self._address.shown!r} now. Nothing "
                "was charged. Is the server there, and may this role still read the table?"
            ) from None

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it: an Arrow table.

        Public like n, so no one pays for it.
        """
        import pyarrow as pa

        check_public(names, self.schema)
        with self._looking():
            found = self._cubes.combinations(list(names))
        columns = {n: [row[i] for row in found] for i, n in enumerate(names)}
        return pa.table(columns | {spare("rows", names): [int(row[-1]) for row in found]})

    # --- answering ----------------------------------------------------------------------

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query, over one state of the rows."""
        try:
            with self._lock, self._snapshot():
                return in_two_ways(queries, self._in_server, self._from_stream)
        except driver().Error:
            # The server's own words may quote rows, so they stop here.
            raise EngineFailed(
                "the engine gave no sum. The charge stands; asking the same question again "
                "does not pay again."
            ) from None

    def _in_server(self, queries: list[CheckedQuery]) -> list[Matrix]:
        if not queries:
            return []
        found = self._cubes.sums(queries)
        if found is not None:
            return found
        with suppress(TooLong):
            statement = Statement(self._writer, queries, self._source)
            return statement.matrices(self._ask(statement.sql))
        if len(queries) == 1:
            return self._from_stream(queries)
        half = len(queries) // 2
        return self._in_server(queries[:half]) + self._in_server(queries[half:])

    def _from_stream(self, queries: list[CheckedQuery]) -> list[Matrix]:
        """Batch by batch; no more rows than one batch are here at any time."""
        if not queries:
            return []
        names = sorted(set().union(*(needed_columns(q, self.schema) for q in queries)))
        gathered = [Gathered(q.shape) for q in queries]
        step = min(max(batch_rows(queries, self.schema), BATCH[0]), BATCH[1])
        for batch in stream(self._connection, self._writer, names, self._source, step):
            for query, matrix in zip(queries, gathered, strict=True):
                add_batch(query, batch, matrix)
        return [m.rows() for m in gathered]


def stored_types(source: Source) -> dict[str, str]:
    """Each readable column's stored type, in the words that declarations are compared with."""
    with _reached(source) as connection, _first_look(source, connection):
        return find_relation(connection, source.table).types


def _reached(source: Source) -> psycopg.Connection[Any]:
    address = Address.read(source.url or "")
    try:
        return connect(address)
    except driver().Error as error:
        raise SchemaError(f"source={address.shown!r} cannot be reached: {why(error)}.") from None


@contextmanager
def _first_look(source: Source, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Names, types and n. Errors are about the server or the role, not about rows."""
    psycopg, shown = driver(), Address.read(source.url or "").shown
    try:
        with snapshot(connection):
            yield
    except psycopg.errors.InsufficientPrivilege:
        raise SchemaError(
            f"table={source.table!r}: this role may not read it, or a row security policy "
            "would hide some of its rows. `sulq postgres grant` prints what to run."
        ) from None
    except psycopg.Error as error:
        raise SchemaError(
            f"source={shown!r}, table={source.table!r} could not be read "
            f"({type(error).__name__}). Does a plain SELECT over all its rows work?"
        ) from None


def _close(holder: list[Any]) -> None:
    """Close a connection, unless it is the parent's."""
    if holder and holder[1] == os.getpid():
        holder[0].close()
    holder.clear()

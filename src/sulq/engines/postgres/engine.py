"""Rows that stay in PostgreSQL: a table, a view or a partitioned table, only ever read.

Every statement is written here from checked queries: a SELECT of integer sums, or a COPY of the
few columns that the kernel needs. Each question is one read-only transaction over one state of
the rows, under settings that are pinned and checked when it begins.
"""

from __future__ import annotations

import copy
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sulq.engines.base import Matrix
from sulq.engines.cubes import Cubes
from sulq.engines.failures import ScanFailed, ScanStopped, without_words
from sulq.engines.people_rows import kinds_of, people_select
from sulq.engines.postgres.stream import stream
from sulq.engines.postgres.writer import PostgresWriter
from sulq.engines.select import Row
from sulq.engines.sql_engine import SqlEngine
from sulq.engines.writer import TYPES
from sulq.errors import Refused, placed
from sulq.expressions.quoting import quote
from sulq.kernel.sums import batch_rows, gather, needed_columns, rows_at_most, vectors_of
from sulq.questions.check import CheckedQuery
from sulq.questions.people_view import PeopleRows
from sulq.sources.postgres import (
    EACH_ITS_OWN,
    ONE_STATE,
    Address,
    connect,
    driver,
    first_look,
    reach,
    snapshot,
)
from sulq.sources.postgres_catalog import (
    Look,
    Stored,
    contents_of,
    declared_contents_of,
    find_relations,
    untouched,
    version_of,
)
from sulq.sources.source import Source, bind
from sulq.values.schema import Schema

if TYPE_CHECKING:
    import psycopg

BATCH = (2**14, 2**16)  # rows here at a time: few enough for memory, enough to be worth it

# What a server says when rows have no part in it: cancelled, ended, no connection, a lock. A full
# disk is not among them: how much a scan spills depends on rows.
OUTSIDE = ("57014", "57P", "08", "53300", "55P03")


class PostgresEngine(SqlEngine):
    """Exact integer sums from PostgreSQL."""

    title = "PostgreSQL"
    _writer: PostgresWriter

    def __init__(self, source: Source, schema: Schema) -> None:
        assert source.url is not None
        self._address = Address.read(source.url)
        self._lock = threading.RLock()
        self._holder: list[Any] = []  # the connection, and the process that made it
        self._clean = weakref.finalize(self, _close, self._holder)
        self._holder[:] = [reach(source.url), os.getpid()]
        with first_look(source.url, source.table, self._connection):
            self._relation = find_relations(self._connection, source.table, schema.star)
            self.schema = bind(schema, self._relation.types)
            self._writer = PostgresWriter(self.schema, self._relation.columns)
            self._source = self._relation.name
            if self.schema.unit is not None:
                named = {name: quote(name) for name in self._relation.types}
                counted = self._first_of_each(self._source, named, self._writer.stored)
                self._source = f"({counted}) AS counted"
            self._cubes = Cubes(self._writer, self._source, self._table)
            self.rows = int(self._ask(f"SELECT count(*) FROM {self._source}")[0][0])
        if self._relation.writable:
            warnings.warn(
                f"the role that reads {self._relation.shown} may also write there, or is a "
                "superuser. `sulq postgres grant` prints how to make one that may only read.",
                stacklevel=4,
            )

    def _with_people(self, people: PeopleRows) -> PostgresEngine:
        """The same engine over rows of which each person has one."""
        twin = copy.copy(self)
        short = {c.name: f"f{i}" for i, c in enumerate(people.schema.columns)}
        stored = {name: Stored(TYPES[kind], short[name]) for name, kind in kinds_of(people).items()}
        person = people.schema.columns[0].name
        stored[person] = replace(self._relation.columns[person], sql=short[person])
        select = people_select(
            self._writer, people, self._relation.name, short.__getitem__, collated=' COLLATE "C"'
        )
        twin.schema, twin._source = people.schema, f"({select}) AS people"
        twin._writer = PostgresWriter(people.schema, stored)
        twin._writer.short = short
        twin._cubes = Cubes(twin._writer, twin._source, self._table)
        return twin

    # --- connecting ---------------------------------------------------------------------

    @property
    def _connection(self) -> psycopg.Connection[Any]:
        """The connection, made anew after it was lost or in a forked child."""
        # One of a parent process is left alone: closing it here would end it there.
        if not self._holder or self._holder[1] != os.getpid() or self._holder[0].closed:
            self._holder.clear()
            self._holder[:] = [connect(self._address), os.getpid()]
        connection: psycopg.Connection[Any] = self._holder[0]
        return connection

    @contextmanager
    def _snapshot(self, level: str = ONE_STATE) -> Iterator[None]:
        """One transaction; a connection that was lost meanwhile is made again, once."""
        try:
            found = snapshot(self._connection, level)
            found.__enter__()
        except driver().OperationalError:
            self._drop()
            found = snapshot(self._connection, level)
            found.__enter__()
        try:
            yield
        except BaseException:
            self._drop()  # whatever was under way ends with the connection
            raise
        found.__exit__(None, None, None)

    def _drop(self) -> None:
        _close(self._holder)

    def _ask(self, sql: str) -> list[Row]:
        """The rows of one SELECT. Binary results need the protocol of one statement at a time."""
        return self._connection.execute(sql.encode(), binary=True).fetchall()

    def _table(self, sql: str) -> Any:
        import pyarrow as pa

        cursor = self._connection.execute(sql.encode(), binary=True)
        columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(cursor.description or ())
        return pa.table(columns, names=[str(i) for i in range(len(columns))])

    def interrupt(self) -> None:
        """Stop the scan that is running, if one is; it raises EngineFailed."""
        if self._holder:
            self._holder[0].cancel()

    def close(self) -> None:
        """Let go of the server."""
        self._clean()

    def beside(self) -> PostgresEngine:
        """The same rows over a connection of its own, made when it is needed."""
        twin = copy.copy(self)
        twin._lock = threading.RLock()
        twin._holder = []
        twin._clean = weakref.finalize(twin, _close, twin._holder)
        twin._cubes = Cubes(self._writer, self._source, twin._table)
        return twin

    # --- are the rows still the same? ---------------------------------------------------

    @property
    def place(self) -> str:
        """Which table of which database of which server, whatever it is called."""
        return " ".join(self.places)

    @property
    def places(self) -> tuple[str, ...]:
        """The same of each table."""
        return self._relation.places

    @without_words
    def version(self) -> str | None:
        """Moves when rows may have changed; None if nothing would tell."""
        with self._looking():
            return version_of(self._connection, self._relation)

    @without_words
    def contents(self) -> tuple[str, ...]:
        """Numbers that every row takes part in: with all columns, and with those declared.

        They say something of the rows, so they are not kept as they are. Those that older
        ledgers know come first.
        """
        with self._looking():
            return contents_of(self._connection, self._relation, self.schema.names)

    @without_words
    def declared_contents(self) -> tuple[str, Look | None]:
        """The last of `contents` alone, which takes a fraction of the time; and for `untouched`."""
        with self._looking(EACH_ITS_OWN):
            return declared_contents_of(self._connection, self._relation, self.schema.names)

    @without_words
    def untouched(self, look: Look, numbers: range) -> bool:
        """Has none of these transactions, which ended since, written to the rows of `look`?"""
        with self._looking(EACH_ITS_OWN):
            return untouched(self._connection, self._relation, look, numbers)

    @contextmanager
    def _looking(self, level: str = ONE_STATE) -> Iterator[None]:
        """A look that nobody pays for, so that its failure is no one's charge."""
        try:
            with self._lock, self._snapshot(level):
                yield
        except driver().Error:
            raise placed(
                Refused(
                    f"{self._relation.shown!r} cannot be read at {self._address.shown!r} now. "
                    "Nothing was charged. Is the server there, and may this role still read the "
                    "table?"
                )
            ) from None

    # --- answering ----------------------------------------------------------------------

    @contextmanager
    def _scanning(self) -> Iterator[None]:
        try:
            with self._lock, self._snapshot():
                yield
        except driver().Error as error:
            if (error.sqlstate or "").startswith(OUTSIDE):
                raise ScanStopped from None
            raise ScanFailed(error) from None

    def _by_kernel(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """Batch by batch; no more rows than one batch are here at any time."""
        if not queries:
            return []
        names = needed_columns(queries, self.schema)
        most = min(rows_at_most(vectors_of(queries, self.schema)), BATCH[1])
        step = min(max(batch_rows(queries, self.schema), BATCH[0]), most)
        batches = stream(self._connection, self._writer, names, self._source, step)
        return [m.rows() for m in gather(queries, batches)]


def _close(holder: list[Any]) -> None:
    """Close a connection, unless it is the parent's."""
    if holder and holder[1] == os.getpid():
        holder[0].close()
    holder.clear()

"""A registry in one schema of a PostgreSQL database, which servers on many machines share.

A writer holds one lock until its commit is durable, so that writers are alone as they are on a
file. A look is one statement on a connection of its own and sees what was committed before: a key
that was revoked at one server is refused by all. Whoever finds the database away says so at once
for a moment, so that nobody waits for what is known to be gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy.exc import TimeoutError as PoolBusy
from sqlalchemy.pool import QueuePool

from sulq.errors import LimitReached, Refused
from sulq.expressions.quoting import quote
from sulq.server.services import logs
from sulq.server.services.registry_file import Run, Taken, another_version
from sulq.server.services.registry_tables import STEPS, VERSION, for_server
from sulq.sources.postgres import OLDEST, Address, connect, driver, why

WORD, SCHEMA = "registry", "sulq_registry"  # ?registry=NAME in an address names its schema
KEPT, MORE = 4, 28  # connections that stay open, and those that come when many are needed
BUSY_SECONDS = 10
AWAY_SECONDS = 1.0  # for which nobody tries again
SESSION = (
    "SET search_path = {}; SET statement_timeout = '30s'; SET lock_timeout = '30s'; "
    "SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = error"
)
ALONE = "pg_advisory_xact_lock(hashtextextended('sulq registry ' || current_schema(), 0))"
WRITING = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; "
    f"SELECT {ALONE}"
).encode()
SAFE = (
    b"SELECT current_setting('server_version_num')::int, current_setting('fsync'), "
    b"current_setting('server_encoding')"
)
# Asked of the catalogs' own rows, which a lock that was waited for does not leave behind.
MADE = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relname = 'version' AND n.nspname = ?"
)
OWN = (
    "CREATE TABLE version (number BIGINT NOT NULL)",
    "CREATE TABLE moved (digest TEXT PRIMARY KEY)",  # files whose rows were copied here
    # How much each may still ask. Forgotten when PostgreSQL crashes, and cheap to write.
    "CREATE UNLOGGED TABLE rates (who TEXT PRIMARY KEY, tokens DOUBLE PRECISION NOT NULL, "
    "since TIMESTAMPTZ NOT NULL)",
)
Given = TypeVar("Given")


class Away(LimitReached):
    """The database that the servers share cannot be reached just now."""

    charged = None  # it may be lost after a charge

    def __init__(self) -> None:
        super().__init__(
            "the server cannot reach its own database just now. If a charge was made, asking "
            "again does not pay again.\nAsk again in a moment.", 1.0,
        )  # fmt: skip


class RegistryServer:
    """The schema, reached over some connections. Safe among threads."""

    local = False

    def __init__(self, text: str) -> None:
        self.address = Address.read(text, WORD, SCHEMA)
        self._psycopg = driver()
        self._away_until = 0.0
        self._pool = QueuePool(
            self._connected, pool_size=KEPT, max_overflow=MORE, timeout=BUSY_SECONDS,
            reset_on_return=None,
        )  # fmt: skip

    def close(self) -> None:
        """Let go of every connection."""
        self._pool.dispose()

    def rows(self, sql: str, values: Sequence[Any]) -> Sequence[Any]:
        """Every row of a SELECT. A connection that had ended is made anew, once."""
        return self.alone(lambda run: run(sql, *values).fetchall())

    def alone(self, work: Callable[[Run], Given]) -> Given:
        """Work of one statement, which is a transaction by itself and may be done twice."""
        for last in (False, True):
            try:
                with self._held() as connection:
                    return work(_runner(connection))
            except Away:
                if last or time.monotonic() < self._away_until:
                    raise
        raise Away

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """One transaction, alone among all writers; durable when it ends."""
        with self._held() as connection:
            connection.execute(WRITING)
            try:
                yield _runner(connection)
            except BaseException as error:
                with suppress(self._psycopg.Error):
                    connection.execute(b"ROLLBACK")
                if isinstance(error, self._psycopg.IntegrityError):
                    raise Taken(type(error).__name__) from None
                raise
            connection.execute(b"COMMIT")

    @contextmanager
    def _held(self) -> Iterator[Any]:
        """A connection, for as long as it is used; Away if there is none or it ends."""
        if time.monotonic() < self._away_until:
            raise Away
        lost = (self._psycopg.OperationalError, self._psycopg.InterfaceError)
        try:
            held = self._pool.connect()
        except (*lost, PoolBusy) as error:
            self._away_until = time.monotonic() + AWAY_SECONDS
            logs.event("registry away", why=type(error).__name__)
            raise Away from None
        connection: Any = held.driver_connection
        try:
            yield connection
        except lost as error:
            logs.event("registry lost", why=type(error).__name__)
            held.invalidate()
            raise Away from None
        except BaseException:
            if connection.info.transaction_status:
                held.invalidate()  # whatever it was in the middle of
            raise
        finally:
            held.close()

    def _connected(self) -> Any:
        connection = connect(self.address)
        connection.row_factory = _rows
        connection.execute(SESSION.format(quote(self.address.ledger)).encode())
        return connection

    # ---- tables ---------------------------------------------------------------------------

    def version(self) -> int | None:
        """The version of its tables; None if there are none."""
        found = self.rows(MADE, (self.address.ledger,))
        return int(self.rows("SELECT number FROM version", ())[0][0]) if found[0][0] else None

    def check_version(self) -> None:
        """Make the tables, or those that came later; refuse a server that may forget."""
        self._check_safe()
        version = self.version()
        if version is None or version < VERSION:
            self._step_up()
        elif version > VERSION:
            raise another_version("the registry", version)

    def _step_up(self) -> None:
        """Make what is missing, unless another process or machine just did."""
        self._make_schema()
        with self.writing() as run:
            there = run(MADE, self.address.ledger).fetchone()[0]
            for statement in () if there else OWN:
                run(statement)
            version = run("SELECT coalesce(max(number), 0) FROM version").fetchone()[0]
            for step in STEPS[version:]:
                for statement in for_server(step):
                    run(statement)
            run("DELETE FROM version")
            run("INSERT INTO version (number) VALUES (?)", VERSION)

    def _make_schema(self) -> None:
        """Before any transaction, whose lock is named after it."""
        name = self.address.ledger
        if self.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", (name,)):
            return
        try:
            with self._held() as connection:
                connection.execute(f"CREATE SCHEMA {quote(name)}".encode())
        except (self._psycopg.errors.UniqueViolation, self._psycopg.errors.DuplicateSchema):
            pass  # by two at once
        except self._psycopg.errors.InsufficientPrivilege:
            raise Refused(
                f"registry={self.address.shown!r}: this role may not make the schema {name!r} "
                f"there. Run as its owner: CREATE SCHEMA {quote(name)} AUTHORIZATION ROLE;"
            ) from None

    def _check_safe(self) -> None:
        try:
            connection = connect(self.address)
        except self._psycopg.Error as error:
            raise Refused(
                f"registry={self.address.shown!r} cannot be reached: {why(error)}."
            ) from None
        with connection:
            version, sync, encoding = connection.execute(SAFE).fetchone() or (0, "", "")
        if version < OLDEST or sync != "on" or encoding != "UTF8":
            raise Refused(
                f"registry={self.address.shown!r}: PostgreSQL {version // 10_000} with fsync = "
                f"{sync} and encoding {encoding}; want {OLDEST // 10_000} or newer, fsync = on "
                "and UTF8."
            )

    def scrub(self) -> None:
        """Nothing to do: PostgreSQL forgets by itself."""


class Row:
    """A row by name and by number, as SQLite gives it."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: dict[str, int], values: Sequence[Any]) -> None:
        self._names = names
        self._values = values

    def __getitem__(self, name: str | int) -> Any:
        return self._values[name if isinstance(name, int) else self._names[name]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> list[str]:
        """The names, so that a dict can be made of it."""
        return list(self._names)


def _rows(cursor: Any) -> Callable[[Sequence[Any]], Row]:
    names = {column.name: i for i, column in enumerate(cursor.description or ())}
    return lambda values: Row(names, values)


def _runner(connection: Any) -> Run:
    return lambda sql, *values: connection.execute(_marked(sql), values)


@lru_cache(maxsize=512)
def _marked(sql: str) -> bytes:
    """A statement with psycopg's marks for values."""
    return sql.replace("%", "%%").replace("?", "%s").encode()

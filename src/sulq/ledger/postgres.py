"""One schema of a PostgreSQL database that many processes and machines may share.

A writer holds the head's row until its commit is durable; at READ COMMITTED everyone who
waited for it then reads what it wrote. A connection may be lost at any moment: before the
commit nothing was kept; while it was under way nobody knows, so it counts as kept and is
looked up when the same is done again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from sulq.errors import LedgerDamaged, Refused, SulqError
from sulq.ledger import own_transactions
from sulq.ledger.chain import begin
from sulq.ledger.retry import Lost
from sulq.ledger.sqlite import watch_forks
from sulq.sources.postgres import OLDEST, Address, connect, driver, why

BUSY_SECONDS = 30

# Every transaction says these itself, so that no setting of a role, a database or a pool between
# can change what a commit means. A client that froze lets go of the head within a minute.
WRITING = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; "
    f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'; "
    "SET LOCAL idle_in_transaction_session_timeout = '60s'"
)
READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
ALWAYS = "SET LOCAL statement_timeout = '5min'; SET LOCAL client_min_messages = error"

# Nothing of the transaction was kept, and the reason is not in the ledger.
KEPT_NOTHING = {
    "55P03": f"another process has held it for {BUSY_SECONDS} seconds",
    "53100": "the server's disk is full",
    "53200": "the server is out of memory",
    "25006": "the server takes no writes: it is a standby, or set to read only",
    "42501": "this role may not write there. `sulq postgres grant --ledger` prints what to run",
    "57014": "the server ended it after five minutes",
}
# What a server says that will take connections soon.
PASSING = ("starting up", "shutting down", "recovery", "not yet accepting", "too many")


class Server:
    """Where one ledger is kept: a schema of a database."""

    shared = True
    order = 0

    def __init__(self, address: Address) -> None:
        self.address = address
        self.lock = threading.RLock()  # held by one thread at a time, and during a fork
        self._engine = _engine(address)
        watch_forks(self)

    def close(self) -> None:
        """Let go of the connection. Using it again makes another."""
        with self.lock:
            self._engine.dispose()

    def check_writable(self) -> None:
        """Raise Refused if the server takes no writes now: a standby, or set to read only."""
        with self.reading() as connection:
            closed = connection.execute(_CLOSED).scalar_one()
        if closed:
            raise Refused(
                f"The ledger {self.address.shown!r} cannot be used: {KEPT_NOTHING['25006']}. "
                "Nothing was charged."
            )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One view of the ledger, as it is now."""
        with self.lock, self._failures(Refused), self._begun(READING) as connection:
            yield connection

    @contextmanager
    def writing(self, failure: type[SulqError] = Refused) -> Iterator[Connection]:
        """One transaction, alone among all writers; durable when it ends."""
        with self.lock:
            with self._failures(failure):
                held = self._begun(WRITING)
                connection = held.__enter__()
            try:
                with self._failures(failure):
                    yield connection
                    own = self._own(connection)
            except BaseException as error:
                with self._failures(failure):
                    held.__exit__(type(error), error, error.__traceback__)
                raise
            with self._failures(failure, committing=True):
                held.__exit__(None, None, None)
            if own is not None:
                own_transactions.note(*own)

    def _own(self, connection: Connection) -> tuple[str, int] | None:
        """This transaction, if rows on the same server may be watched and it leaves them alone."""
        if not own_transactions.watched():
            return None
        found = connection.execute(_OWN, {"name": self.address.ledger}).one()
        return (found.life, int(found.number)) if found.alone and found.number else None

    @contextmanager
    def _begun(self, how: str) -> Iterator[Connection]:
        connection = self._engine.connect().execution_options(begins=how)
        with connection, connection.begin():
            yield connection

    @contextmanager
    def _failures(self, failure: type[SulqError], committing: bool = False) -> Iterator[None]:
        """Turn what the database library raises into what the ledger says."""
        try:
            yield
        except DBAPIError as error:
            raise self._explained(error, failure, committing) from None

    def _explained(
        self, error: DBAPIError, failure: type[SulqError], committing: bool
    ) -> SulqError:
        shown, state = self.address.shown, getattr(error.orig, "sqlstate", None) or ""
        if error.connection_invalidated or state.startswith(("08", "57P")):
            self._engine.dispose()
            return Lost(shown, "the connection ended", failure, unknown=committing)
        if state in KEPT_NOTHING:
            return Lost(shown, KEPT_NOTHING[state], failure, hopeless=True)
        if not state and isinstance(error.orig, driver().OperationalError):  # none could be made
            said = why(error.orig)
            hopeless = "FATAL" in said and not any(word in said for word in PASSING)
            return Lost(shown, said, failure, hopeless=hopeless)
        return LedgerDamaged(
            f"The ledger {shown!r} cannot be read ({type(error.orig).__name__}). "
            "Nothing is answered.\nRestore the newest copy of the ledger."
        )


# ---- connecting -----------------------------------------------------------------------------


def _engine(address: Address) -> Engine:
    """One connection; what it begins, it begins in words, so that nothing is left to defaults."""
    driver()
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: connect(address), poolclass=QueuePool,
        pool_size=1, max_overflow=2, hide_parameters=True,
    )  # fmt: skip
    path = address.ledger.replace('"', '""')

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        how = connection.get_execution_options().get("begins")
        if how is not None:
            words = f'{how}; SET LOCAL search_path = "{path}"; {ALWAYS}'
            connection.exec_driver_sql(words, execution_options={"no_parameters": True})

    return engine


# ---- creating -------------------------------------------------------------------------------

# Asked of the catalogs' own rows: to_regclass and the like may remember what was there before a
# lock was waited for.
_HERE = text(
    "SELECT count(*) > 0, count(c.oid) > 0 FROM pg_namespace n LEFT JOIN pg_class c "
    "ON c.relnamespace = n.oid AND c.relname = 'entries' WHERE n.nspname = :name"
)
_SAFE = text(
    "SELECT current_setting('server_version_num')::int, current_setting('fsync'), "
    "current_setting('server_encoding')"
)
_CLOSED = text(
    "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean"
)
# The number of this transaction, and whether a write to the ledger is that and nothing more: plain
# tables, and no trigger, rule, policy, constraint, default, type or index of somebody's own, whose
# functions may write elsewhere, and none that would be taken for one of PostgreSQL's: an operator
# for (varchar, text), say. None comes between while the tables are held by this transaction.
_OWN = text("""
SELECT pg_current_xact_id_if_assigned()::text AS number,
  extract(epoch FROM pg_postmaster_start_time())::text AS life,
  NOT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :name AND c.relkind NOT IN ('i', 't', 'S') AND (
      c.relkind <> 'r' OR c.relhasrules OR c.relrowsecurity OR c.relhassubclass
      OR c.relispartition OR c.relchecks > 0
      OR EXISTS (SELECT FROM pg_attrdef f
        JOIN pg_depend d ON d.classid = CAST('pg_attrdef' AS regclass) AND d.objid = f.oid
        WHERE f.adrelid = c.oid AND d.refclassid <> CAST('pg_class' AS regclass))
      OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND NOT attisdropped
        AND atttypid >= 16384)
      OR EXISTS (SELECT FROM pg_trigger t LEFT JOIN pg_class o ON o.oid = t.tgconstrrelid
        WHERE t.tgrelid = c.oid
          AND NOT (t.tgisinternal AND o.relnamespace IS NOT DISTINCT FROM c.relnamespace))
      OR EXISTS (SELECT FROM pg_index i
        JOIN pg_depend d ON d.classid = CAST('pg_class' AS regclass) AND d.objid = i.indexrelid
        WHERE i.indrelid = c.oid AND d.refclassid NOT IN (CAST('pg_class' AS regclass),
          CAST('pg_constraint' AS regclass), CAST('pg_collation' AS regclass)))
    )) AND NOT EXISTS (
    SELECT FROM pg_namespace n WHERE n.nspname IN (:name, 'pg_catalog') AND (
      EXISTS (SELECT FROM pg_operator o WHERE o.oid >= 16384 AND o.oprnamespace = n.oid)
      OR EXISTS (SELECT FROM pg_proc p WHERE p.oid >= 16384 AND p.pronamespace = n.oid)
    )) AND NOT EXISTS (
    SELECT FROM pg_cast WHERE oid >= 16384 AND castsource < 16384 AND casttarget < 16384) AS alone
""")
_ALONE = text("SELECT pg_advisory_xact_lock(hashtextextended('sulq ledger ' || :name, 0))")


def begun(server: Server) -> bool:
    """Is there a ledger?"""
    with server.reading() as connection:
        return bool(connection.execute(_HERE, {"name": server.address.ledger}).one()[1])


def create(server: Server, opening: Mapping[str, Any]) -> None:
    """Begin a ledger in one transaction, so none is ever half made; the first who comes does."""
    with server.writing() as connection:
        connection.execute(_ALONE, {"name": server.address.ledger})
        namespace, made = connection.execute(_HERE, {"name": server.address.ledger}).one()
        if made:
            return  # another process was first
        if not namespace:
            quoted = server.address.ledger.replace('"', '""')
            connection.exec_driver_sql(f'CREATE SCHEMA "{quoted}"')
        begin(connection, opening)


def check_safe(server: Server) -> None:
    """Refuse a server that may forget a commit: a ledger there would promise what it cannot."""
    with server.reading() as connection:
        version, sync, encoding = connection.execute(_SAFE).one()
    shown = server.address.shown
    if version < OLDEST:
        raise Refused(
            f"ledger={shown!r}: PostgreSQL {version // 10_000} is too old, want "
            f"{OLDEST // 10_000} or newer. Nothing was charged."
        )
    if sync != "on" or encoding != "UTF8":
        raise Refused(
            f"ledger={shown!r}: the server has fsync = {sync} and encoding {encoding}; a ledger "
            "needs fsync = on, so that a charge outlives a power cut, and UTF8. Nothing was "
            "charged."
        )

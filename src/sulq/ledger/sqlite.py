"""One SQLite file that threads, processes and forked children may share.

It is made whole or not at all, every commit is synced, and its lock is held until the commit
is done. After a failed sync the system may report unsaved data as saved, so a file that failed
once is not used again by this process.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from errno import EIO
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from sulq.errors import LedgerDamaged, Refused, SulqError, placed
from sulq.ledger.chain import begin
from sulq.ledger.seal import Seal, folder_lock, may_write, sync_folder
from sulq.ledger.types import MEMORY

BUSY_SECONDS = 30


class Disk:
    """Where one ledger is kept: a file, or the memory of this process (path=None)."""

    order = 0

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.shared = path is not None
        self.lock = threading.RLock()  # held by one thread at a time, and during a fork
        self._engine = _connect(path)
        self._connection: Connection | None = (
            None  # kept, since making one takes as long as using it
        )
        self._file = _identity(path)
        self._pid = os.getpid()
        watch_forks(self)

    def close(self) -> None:
        """Let go of the file. Using it again opens it again."""
        with self.lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._engine.dispose()

    def check_writable(self) -> None:
        """Raise Refused if this process may not write to the file, or not beside it."""
        if self.path is not None:
            check_writable(self.path)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One view of the ledger, as it is now."""
        with self.lock, self._failures(Refused), _transaction(self._connected(), "BEGIN") as view:
            yield view

    @contextmanager
    def writing(self, failure: type[SulqError] = Refused) -> Iterator[Connection]:
        """One transaction, alone among all writers; on disk when it ends."""
        with self.lock, self._failures(failure), _transaction(self._connected()) as connection:
            yield connection

    @contextmanager
    def _failures(self, failure: type[SulqError]) -> Iterator[None]:
        """Turn what the database library raises into what the ledger says."""
        self._check_usable()
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise _explained(error, self.path, failure) from error

    def _check_usable(self) -> None:
        if self.path is None:
            if self._pid != os.getpid():
                raise LedgerDamaged(
                    "An in-memory ledger cannot be shared with a forked process: each would "
                    "spend the whole budget. Nothing is answered. Use a ledger file."
                )
            return
        refuse_poisoned(self.path)
        if _identity(self.path) != self._file:
            raise LedgerDamaged(
                f"The ledger {self.path.name!r} was moved or replaced while in use. "
                "Nothing is answered. Put the file back and start again."
            )


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Which file the path leads to, whatever it is called."""
    try:
        found = os.stat(path) if path is not None else None
    except FileNotFoundError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def check_writable(path: Path) -> None:
    """Raise Refused if this process may not write to a ledger's file, or not beside it."""
    beside = (Path(f"{path}{end}") for end in ("", "-wal", "-shm"))
    for place in (path.parent, *beside):
        if place.exists() and not may_write(place):
            raise Refused(
                f"The ledger {path.name!r} cannot be written: {str(place)!r} is read-only for "
                "this process. Nothing was charged.\nMake it writable for the user that runs this "
                "process."
            )


# ---- connecting -----------------------------------------------------------------------------


def _connect(path: Path | None) -> Engine:
    """All that is particular to SQLite: one connection, a write-ahead log, every commit synced.

    Its writers wait for each other at BEGIN IMMEDIATE; those of a server at the head's row.
    """

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            MEMORY if path is None else f"file:{quote(str(path))}?mode=rw",
            uri=path is not None,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON"):
            connection.execute(f"PRAGMA {pragma}").close()
        return connection

    return create_engine("sqlite://", creator=connect, poolclass=StaticPool, hide_parameters=True)


def driver_of(connection: Connection) -> Any:
    """SQLite's own connection."""
    return connection.connection.driver_connection


@contextmanager
def _transaction(connection: Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[Connection]:
    """One transaction of SQLite's own driver, which begins nothing by itself."""
    driver = driver_of(connection)
    driver.execute(begin)
    try:
        yield connection
        driver.execute("COMMIT")
    finally:
        if driver.in_transaction:
            with suppress(sqlite3.Error):  # what went wrong before is what matters
                driver.rollback()
        if connection.in_transaction():
            connection.rollback()  # SQLAlchemy's own account of it; the driver's has ended


# ---- creating -------------------------------------------------------------------------------


def create(path: Path, opening: Mapping[str, Any], seal: Seal | None) -> None:
    """Begin a ledger under another name and move it into place, so none is ever half made."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with _FORKING, folder_lock(path.parent):
            if path.exists():
                return  # another process was first
            _check_vacant(path, seal)
            _fill(temporary, opening)
            os.rename(temporary, path)
            sync_folder(path.parent)
    except (DBAPIError, sqlite3.Error) as error:
        raise _explained(error, path, Refused) from error
    except OSError as error:
        if error.errno == EIO:
            _POISONED.add(str(path))
        raise Refused(
            f"ledger={str(path)!r} cannot be created: {error.strerror}. Nothing was charged."
        ) from error
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{temporary}{suffix}").unlink(missing_ok=True)


def _check_vacant(path: Path, seal: Seal | None) -> None:
    if Path(f"{path}-wal").exists():
        raise LedgerDamaged(
            f"The ledger {path.name!r} is gone but {path.name}-wal is still there. "
            "Restore the ledger file, with that file beside it."
        )
    if seal is not None:
        seal.check_vacant()


def _fill(path: Path, opening: Mapping[str, Any]) -> None:
    """A whole ledger in this one file, readable by its owner only."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    engine = _connect(path)
    try:
        with engine.connect() as connection, _transaction(connection):
            begin(connection, opening)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all()
    finally:
        engine.dispose()


# ---- failures -------------------------------------------------------------------------------

_POISONED: set[str] = set()

# Nothing of the transaction was kept: SQLite had not finished writing it, or never began.
_KEPT_NOTHING = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file is read-only",
    sqlite3.SQLITE_BUSY: f"another process has held it for {BUSY_SECONDS} seconds",
    sqlite3.SQLITE_LOCKED: "another connection holds it",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "the file may not be opened",
}


def refuse_poisoned(path: Path) -> None:
    """Raise if a write to this file failed in this process."""
    if str(path) in _POISONED:
        raise LedgerDamaged(
            f"A write to the ledger {path.name!r} failed in this process, and after a failed "
            "write the system may report unsaved data as saved. No more answers are given.\n"
            "Check the disk and restart the process."
        )


def _explained(
    error: DBAPIError | sqlite3.Error, path: Path | None, failure: type[SulqError]
) -> SulqError:
    """Say what a failed statement or commit means for charges and answers."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    name = path.name if path is not None else MEMORY
    if code in _KEPT_NOTHING:
        kept = "The charge stands, asking again does not pay again"
        kept = "Nothing was charged" if issubclass(failure, Refused) else kept
        words = f"The ledger {name!r} cannot be written: {_KEPT_NOTHING[code]}. {kept}."
        return placed(failure(words))
    if code == sqlite3.SQLITE_IOERR and path is not None:
        _POISONED.add(str(path))
        return LedgerDamaged(
            f"Writing the ledger {name!r} failed ({cause}). No answer is given; a charge may have "
            "been made.\nCheck the disk and restart the process."
        )
    return LedgerDamaged(
        f"The ledger {name!r} cannot be read ({cause}). Nothing is answered.\n"
        "Restore the newest copy of the ledger."
    )


# ---- forks ----------------------------------------------------------------------------------
# SQLite keeps its file locks in process memory; a child that inherits an open connection
# believes it holds locks it does not. Two that share one to a server would talk over each
# other. So connections are closed before every fork.


class Place(Protocol):
    """Where a ledger is kept: a file, this process's memory, or a server."""

    shared: bool
    lock: Any
    order: int  # whoever needs the locks of several takes them in this order

    def close(self) -> None:
        """Let go of the connection. Using it again makes another."""
        ...

    def check_writable(self) -> None:
        """Raise Refused if nothing can be written there now."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """One view of the ledger, as it is now."""
        ...

    def writing(self, failure: type[SulqError] = Refused) -> AbstractContextManager[Connection]:
        """One transaction, alone among all writers; durable when it ends."""
        ...


_OPEN: weakref.WeakSet[Place] = weakref.WeakSet()
_FORKING = threading.Lock()
_HELD: list[Place] = []


def watch_forks(place: Place) -> None:
    """Close this place's connection before every fork from now on."""
    _OPEN.add(place)


def _before_fork() -> None:
    _FORKING.acquire()
    for place in sorted(_OPEN, key=lambda place: place.order):
        if place.shared:
            place.lock.acquire()
            _HELD.append(place)
            place.close()


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().lock.release()
    _FORKING.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

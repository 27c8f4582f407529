"""A registry in one SQLite file, which threads and processes of one machine may share."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sulq.errors import LedgerDamaged, Refused
from sulq.server.services.registry_tables import STEPS, VERSION, statements

BUSY_SECONDS = 30
Run = Callable[..., Any]  # run(sql, *values), inside a transaction


class Taken(Exception):
    """What was to be written is there already, and may be there only once."""


class RegistryFile:
    """The file, open. Every write is synced."""

    local = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        on = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")
        for pragma in on:
            self._connection.execute(f"PRAGMA {pragma}")

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def rows(self, sql: str, values: Sequence[Any]) -> Sequence[Any]:
        """Every row of a SELECT."""
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """One transaction, alone among all writers."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda sql, *values: self._connection.execute(sql, values)
            except BaseException as error:
                self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.IntegrityError):
                    raise Taken(str(error)) from None
                raise
            self._connection.execute("COMMIT")

    def step_up(self) -> None:
        """Make the tables that came after the file's version, unless another process just did."""
        with self.writing() as run:
            version = run("PRAGMA user_version").fetchone()[0]
            for step in STEPS[version:]:
                for statement in statements(step):
                    run(statement)
            run(f"PRAGMA user_version = {VERSION}")

    def check_version(self) -> None:
        """Bring an older file up to date; refuse one that this sulq does not know."""
        try:
            version = self.rows("PRAGMA user_version", ())[0][0]
        except sqlite3.Error as error:
            raise LedgerDamaged(
                f"{self.path.name} cannot be read ({error}). Restore a copy."
            ) from None
        if 1 <= version < VERSION:
            self.step_up()
        elif version != VERSION:
            raise another_version(self.path.name, version)

    def scrub(self) -> None:
        """Leave nothing of what was just deleted in the file's log."""
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)", ())


def another_version(name: str, version: int) -> Refused:
    """What is said of a registry that this sulq does not know."""
    return Refused(
        f"{name} is of version {version}, this sulq knows {VERSION}. Install the newer one."
    )

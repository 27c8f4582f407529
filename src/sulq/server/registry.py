"""One SQLite file in a server's folder: people, keys, datasets, alarms, sessions, models.

What was asked and spent is not here but in each dataset's ledger. Several processes may share
the file; every write is synced. Secrets are never in it: keys are kept as hashes.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sulq.errors import LedgerDamaged, Refused

FILE = "server.db"
BUSY_SECONDS = 30

TABLES = """
CREATE TABLE people (
  id INTEGER PRIMARY KEY,
  house INTEGER NOT NULL,            -- the owner's id; an owner's own
  name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('owner', 'analyst')),
  created TEXT NOT NULL,
  removed TEXT
);
CREATE UNIQUE INDEX owner_names ON people (name) WHERE role = 'owner';
CREATE UNIQUE INDEX analyst_names ON people (house, name) WHERE role = 'analyst';
CREATE TABLE keys (
  id TEXT PRIMARY KEY,               -- the public half
  hash BLOB NOT NULL,                -- SHA-256 of the secret half
  person INTEGER NOT NULL REFERENCES people (id),
  label TEXT NOT NULL,
  datasets TEXT,                     -- a JSON list of names; NULL: all that the person may see
  created TEXT NOT NULL,
  expires TEXT NOT NULL,
  revoked TEXT
);
CREATE TABLE datasets (
  id INTEGER PRIMARY KEY,
  house INTEGER NOT NULL REFERENCES people (id),
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  arguments TEXT NOT NULL,           -- of sulq.open, as JSON
  pace TEXT,                         -- what was measured for deadlines, as JSON
  state TEXT NOT NULL CHECK (state IN ('open', 'frozen', 'closed')),
  created TEXT NOT NULL
);
CREATE UNIQUE INDEX dataset_names ON datasets (house, name) WHERE state <> 'closed';
CREATE TABLE members (
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  person INTEGER NOT NULL REFERENCES people (id),
  PRIMARY KEY (dataset, person)
) WITHOUT ROWID;
CREATE TABLE late (                  -- replies that left as noise, by request id
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  analyst TEXT NOT NULL,
  request TEXT NOT NULL,
  asked TEXT NOT NULL,               -- a hash of the question
  body BLOB NOT NULL,
  PRIMARY KEY (dataset, analyst, request)
) WITHOUT ROWID;
CREATE TABLE alarms (
  id INTEGER PRIMARY KEY,
  house INTEGER NOT NULL REFERENCES people (id),
  dataset INTEGER REFERENCES datasets (id),
  kind TEXT NOT NULL,
  message TEXT NOT NULL,
  time TEXT NOT NULL,
  seen TEXT
);
"""

SINCE_2 = """
CREATE TABLE sessions (              -- of the console
  id BLOB PRIMARY KEY,               -- SHA-256 of what the cookie holds
  key TEXT NOT NULL REFERENCES keys (id),
  begun TEXT NOT NULL,
  seen TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE entrances (             -- one-time sign-in links of the console
  id BLOB PRIMARY KEY,               -- SHA-256 of what the link holds
  key TEXT NOT NULL REFERENCES keys (id),
  expires TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE asked (                 -- questions of the console, with the answers that were paid
  id TEXT PRIMARY KEY,               -- their request id
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  person INTEGER NOT NULL REFERENCES people (id),
  created TEXT NOT NULL,
  question TEXT NOT NULL,            -- as JSON
  answer TEXT NOT NULL               -- noisy numbers, as JSON
);
CREATE TABLE models (                -- learned through the console, from noisy answers alone
  id TEXT PRIMARY KEY,
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  person INTEGER NOT NULL REFERENCES people (id),
  asked TEXT NOT NULL,               -- kind, columns and parameters, as JSON
  created TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'ready', 'failed')),
  seen TEXT NOT NULL,                -- when whoever learns it last said so
  progress TEXT NOT NULL,            -- as JSON
  body TEXT                          -- the model as JSON, or why there is none
);
"""

STEPS = (TABLES, SINCE_2)
VERSION = len(STEPS)


def now() -> str:
    """UTC, ISO 8601, so that times sort as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Registry:
    """The file, open. Safe among threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            self._connection.execute(f"PRAGMA {pragma}")

    @classmethod
    def begin(cls, folder: Path) -> Registry:
        """Make a new one."""
        path = folder / FILE
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        registry = cls(path)
        registry._step_up()
        return registry

    def _step_up(self) -> None:
        """Make the tables that came after the file's version, unless another process just did."""
        with self.writing() as run:
            version = run("PRAGMA user_version").fetchone()[0]
            for step in STEPS[version:]:
                for statement in step.split(";\n"):
                    run(statement)
            run(f"PRAGMA user_version = {VERSION}")

    @classmethod
    def open(cls, folder: Path) -> Registry:
        """Open a folder's, or say that there is none."""
        path = folder / FILE
        if not path.is_file():
            raise Refused(
                f"{str(folder)!r} is no server's folder: it has no {FILE}. `sulq init DIR` makes "
                "one."
            )
        path.chmod(0o600)
        try:
            registry = cls(path)
            version = registry.one("PRAGMA user_version")[0]
        except sqlite3.Error as error:
            raise LedgerDamaged(f"{FILE} cannot be read ({error}). Restore a copy.") from None
        if 1 <= version < VERSION:
            registry._step_up()
        elif version != VERSION:
            raise Refused(
                f"{FILE} is of version {version}, this sulq knows {VERSION}. Install the newer one."
            )
        return registry

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    # ---- reading and writing --------------------------------------------------------------

    def all(self, sql: str, *values: Any) -> Sequence[sqlite3.Row]:
        """Every row of a SELECT."""
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> Any:
        """The first row of a SELECT; None without any."""
        with self._lock:
            return self._connection.execute(sql, values).fetchone()

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """One transaction, alone among all writers: run(sql, *values) inside it."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda sql, *values: self._connection.execute(sql, values)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    # ---- alarms ---------------------------------------------------------------------------

    def alarm(self, house: int, dataset: int | None, kind: str, message: str) -> None:
        """Something an owner should look at."""
        with self.writing() as run:
            run(
                "INSERT INTO alarms (house, dataset, kind, message, time) VALUES (?, ?, ?, ?, ?)",
                house, dataset, kind, message, now(),
            )  # fmt: skip

    def see_alarms(self, house: int) -> None:
        """The owner has seen them; late replies are counted anew towards a freeze."""
        with self.writing() as run:
            run("UPDATE alarms SET seen = ? WHERE house = ? AND seen IS NULL", now(), house)

    def alarms(self, house: int) -> Sequence[sqlite3.Row]:
        """An owner's alarms, newest first."""
        return self.all(
            "SELECT a.id, a.kind, a.message, a.time, a.seen, d.name AS dataset FROM alarms a "
            "LEFT JOIN datasets d ON d.id = a.dataset WHERE a.house = ? ORDER BY a.id DESC "
            "LIMIT 1000", house,
        )  # fmt: skip

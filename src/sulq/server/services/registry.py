"""People, keys, datasets, alarms, sessions, models: what a server knows of who may do what.

It is one SQLite file in the server's folder, or, where `registry` is set, a schema of PostgreSQL
that servers on several machines share. What was asked and spent is not here but in each dataset's
ledger. Every write is durable. Secrets are never in it: keys are kept as hashes, passwords of
addresses in passwords.json.

Statements are those that both understand, with ? for each value.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger.chain import now as now  # UTC, ISO 8601, so that times sort as text
from sulq.server.services import logs, outbox
from sulq.server.services.high_water import ClockDoubt, HighWater
from sulq.server.services.registry_file import RegistryFile, Run, Taken
from sulq.server.services.registry_server import RegistryServer
from sulq.server.services.registry_tables import VERSION as VERSION

FILE = "server.db"
THREADS = 16  # for looks at a server
Given = TypeVar("Given")

__all__ = ["FILE", "VERSION", "Registry", "Run", "Taken", "alarm", "new_id", "now"]


def alarm(run: Run, tenant: int, dataset: int | None, kind: str, message: str) -> None:
    """Note something that an owner should look at."""
    run(
        "INSERT INTO alarms (house, dataset, kind, message, time) VALUES (?, ?, ?, ?, ?)",
        tenant, dataset, kind, message, now(),
    )  # fmt: skip
    if kind == outbox.LATE and dataset is not None:
        ((name,),) = run("SELECT name FROM datasets WHERE id = ?", dataset).fetchall()
        outbox.enqueue(run, tenant, outbox.LATE, message, dataset=name)


def new_id(run: Run, insert: str, *values: Any) -> int:
    """The number of a new row, which an INSERT made."""
    ((number,),) = run(f"{insert} RETURNING id", *values).fetchall()
    return int(number)


class Registry:
    """The registry, open. Safe among threads, processes and, on a server, machines."""

    def __init__(self, store: RegistryFile | RegistryServer) -> None:
        self.store = store
        self.clock = HighWater(self)  # by which keys, sessions and links expire
        self._threads = (
            None if store.local else ThreadPoolExecutor(THREADS, thread_name_prefix="registry")
        )

    @classmethod
    def begin(cls, folder: Path, address: str | None = None) -> Registry:
        """Make a new one; at an address, go on with the one that is there."""
        if address is not None:
            return cls._at(address)
        path = folder / FILE
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        store = RegistryFile(path)
        store.step_up()
        return cls(store)

    @classmethod
    def open(cls, folder: Path, address: str | None = None) -> Registry:
        """Open a folder's, or that at an address; or say that there is none."""
        if address is not None:
            return cls._at(address)
        path = folder / FILE
        if not path.is_file() and any((folder / "ledgers").glob("*.ledger")):
            raise LedgerDamaged(
                f"{str(path)!r} is gone, but the ledgers of its datasets are here. Nothing is "
                "answered.\nPut it back with `sulq restore COPY DIR --reason ...`."
            )
        if not path.is_file():
            raise Refused(
                f"{str(folder)!r} is no server's folder: it has no {FILE}. `sulq init DIR` makes "
                "one."
            )
        _check_writable(folder, path)
        store = RegistryFile(path)
        store.check_version()
        return cls(store)

    @classmethod
    def _at(cls, address: str) -> Registry:
        store = RegistryServer(address)
        store.check_version()
        return cls(store)

    def close(self) -> None:
        """Let go of the file or the server."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        self.store.close()

    async def run(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what looks or writes here: at once on a file, in a thread where a server is asked.

        A look at a file takes less than a change of threads; a server may be slow or away, and
        nobody else may wait for that.
        """
        if self._threads is None:
            return function(*arguments)
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, context.run, function, *arguments)

    def shared_secret(self, purpose: str) -> bytes:
        """The same for all processes and servers of a registry, and known to no analyst."""
        row = self.one("SELECT hash FROM keys ORDER BY created, id LIMIT 1")
        return sha256(purpose.encode() + (b"" if row is None else bytes(row["hash"]))).digest()

    # ---- reading and writing --------------------------------------------------------------

    def all(self, sql: str, *values: Any) -> Sequence[Any]:
        """Every row of a SELECT."""
        return self.store.rows(sql, values)

    def one(self, sql: str, *values: Any) -> Any:
        """The first row of a SELECT; None without any."""
        found = self.store.rows(sql, values)
        return found[0] if found else None

    def writing(self) -> AbstractContextManager[Run]:
        """One transaction, alone among all writers; Taken if a name is there already."""
        return self.store.writing()

    # ---- what one person keeps of a dataset -----------------------------------------------

    def own_row(self, table: str, dataset: int, person: int, id: str) -> Any:
        """One person's answer ("asked") or model ("models") from a dataset, if it is there."""
        own = "id = ? AND dataset = ? AND person = ?"
        return self.one(f"SELECT * FROM {table} WHERE {own}", id, dataset, person)

    def own_rows(self, table: str, dataset: int, person: int, most: int) -> Sequence[Any]:
        """All of them, newest first."""
        own = "dataset = ? AND person = ? ORDER BY rowid DESC LIMIT ?"
        return self.all(f"SELECT * FROM {table} WHERE {own}", dataset, person, most)

    # ---- alarms ---------------------------------------------------------------------------

    def note_clock(self, doubt: ClockDoubt) -> None:
        """Log that the machine's clock may be wrong; every owner has an alarm of it, once a day."""
        logs.event("clock", logging.WARNING, why=str(doubt))
        side = "ahead" if doubt.seconds > 0 else "behind"
        what = f"clock {side} of {doubt.latest:%Y-%m-%d}"
        with self.writing() as run:
            for owner in run("SELECT id FROM people WHERE role = 'owner'").fetchall():
                new = run("INSERT INTO told (house, what) VALUES (?, ?) ON CONFLICT DO NOTHING",
                          owner["id"], what).rowcount  # fmt: skip
                if new:
                    alarm(run, owner["id"], None, "clock", str(doubt))

    def alarms(self, tenant: int) -> Sequence[Any]:
        """An owner's alarms, newest first."""
        return self.all(
            "SELECT a.id, a.kind, a.message, a.time, a.seen, d.name AS dataset FROM alarms a "
            "LEFT JOIN datasets d ON d.id = a.dataset WHERE a.house = ? ORDER BY a.id DESC "
            "LIMIT 1000", tenant,
        )  # fmt: skip


def _check_writable(folder: Path, path: Path) -> None:
    """Refuse a folder that cannot be written to: what is spent and who asks is written there."""
    why = "no permission to write there"
    try:
        path.chmod(0o600)
    except OSError as error:
        why = str(error.strerror)
    else:
        if os.access(folder, os.W_OK) and os.access(path, os.W_OK):
            return
    raise Refused(
        f"the server's folder {str(folder)!r} cannot be used: {why}. Nothing was charged or "
        "changed.\nMake it writable for whoever runs the server, or copy it to where it is."
    )

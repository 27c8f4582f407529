"""What the owner keeps outside a ledger on a server: marks here, fingerprints with the ledger.

Each machine keeps the highest entry it has seen in its own folder `.sulq`, so that a ledger set
back on the server is noticed by every one of them. Which rows the ledger is about must be the
same for all machines, so fingerprints stand beside the ledger's tables, keyed with the secret
that the owner copies from the first machine to the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, func, insert, select
from sqlalchemy import text as sql

from sulq.errors import Refused
from sulq.expressions.quoting import quote
from sulq.ledger.chain import ENTRIES, damaged
from sulq.ledger.postgres import Server, begun
from sulq.ledger.retry import patient, plainly
from sulq.ledger.seal import FOLDER, Mark, Seal, folder_lock, open_folder
from sulq.sources.postgres import Address

HOME = "SULQ_HOME"  # where the folder is, if not in the user's home
CHECK = b"the secret of this ledger"  # what row 0 holds, keyed: is it the same secret here?

_TABLES = MetaData()
SOURCES = Table(
    "sources",
    _TABLES,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("fingerprint", Text, nullable=False),
)
_newest = select(SOURCES.c.number, SOURCES.c.fingerprint).order_by(SOURCES.c.number)
# Every other ledger of the database, whoever owns it: names are readable by all, rows may not be.
_elsewhere = sql(
    "SELECT n.nspname, s.oid IS NOT NULL, "
    "has_schema_privilege(n.oid, 'USAGE') AND coalesce(has_table_privilege(s.oid, 'SELECT'), true) "
    "FROM pg_namespace n JOIN pg_class e ON e.relnamespace = n.oid AND e.relname = 'entries' "
    "LEFT JOIN pg_class s ON s.relnamespace = n.oid AND s.relname = 'sources' "
    "WHERE n.nspname <> :own AND (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = e.oid "
    "AND a.attname IN ('number', 'kind', 'body', 'previous', 'hash')) = 5 ORDER BY n.nspname"
)
_has = sql(
    "SELECT count(*) > 0 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relname = 'sources' AND n.nspname = :own"
)
_alone = sql("SELECT pg_advisory_xact_lock(hashtextextended('sulq sources', 0))")


def home() -> Path:
    """Where this machine's folder is."""
    return Path(os.environ.get(HOME) or Path.home())


class ServerSeal(Seal):
    """The owner's side of a ledger on a server. Safe among threads, processes and machines."""

    def __init__(self, address: Address, secret: bytes | None = None) -> None:
        """Open this machine's folder for a ledger on a server, or make it."""
        super().__init__(home() / "unnamed", secret or open_folder(home() / FOLDER))
        self.server = Server(address)
        self._named = False

    def beside(self, ledger: str | Path) -> Seal:
        """The seal of another ledger in the same database; this machine's folder may be held."""
        return ServerSeal(Address.read(str(ledger)), self._secret)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder, and the list of sources on the server, against all others."""
        with folder_lock(self.folder), plainly(), self.server.writing() as connection:
            # What is done meanwhile may take as long as reading the whole chain.
            connection.execute(sql("SET LOCAL idle_in_transaction_session_timeout = 0"))
            connection.execute(_alone)
            yield

    # -- marks: in this machine's folder, under the ledger's own random id --

    def marked(self) -> Mark | None:
        """The highest entry this machine has seen; None if there never was one."""
        self._find_name()
        return super().marked()

    def mark(self, number: int, hash: str) -> None:
        """Remember this entry, unless a later one is marked already."""
        self._find_name()
        super().mark(number, hash)

    def forget(self, reason: str) -> dict[str, Any]:
        """Put the mark aside and give what was known, for the next ledger's chain."""
        if self._begun():
            self._find_name()
            return super().forget(reason)
        # The ledger is gone, so its id is too: every mark of that name here was of it.
        found: dict[str, Any] = {}
        for path in sorted(self.folder.glob("*.mark")):
            if path.name.startswith(self._prefix):
                self._path = path
                found |= super().forget(reason)
        self.name = self.server.address.ledger
        return found | {"reason": reason, "ledger": self.name}

    @patient
    def _begun(self) -> bool:
        return begun(self.server)

    @property
    def _prefix(self) -> str:
        return f"postgresql-{self.server.address.ledger.replace('/', '_')[:100]}-"

    @patient
    def _find_name(self) -> None:
        """A ledger keeps its id wherever it is moved, and another in its place has another."""
        if self._named:
            return
        with self.server.reading() as connection:
            body = connection.execute(select(ENTRIES.c.body).where(ENTRIES.c.number == 0)).scalar()
        if body is None:
            raise damaged(0, "is missing")
        own = sha256(str(json.loads(body)["id"]).encode()).hexdigest()[:16]
        self.name = self._prefix + own
        self._path = self.folder / f"{self.name}.mark"
        self._named = True

    # -- sources: beside the ledger's tables --

    def current(self) -> str | None:
        """The fingerprint of the rows this ledger is about now: the last one remembered."""
        known = self._sources()
        return known[-1] if known else None

    @patient
    def known(self, fingerprint: str) -> str | None:
        """Name another ledger of this database, or of this machine's folder, about these rows."""
        if fingerprint in self._sources():
            return None
        other = self.other(fingerprint)
        if other is not None:
            return f"{self.server.address.shown}, ledger={other}"
        return super().known(fingerprint)

    @patient
    def other(self, fingerprint: str) -> str | None:
        """Name another ledger of this database about these rows."""
        known = ((name, found) for name, found in self._elsewhere().items() if found is not None)
        return next((name for name, found in known if fingerprint in found), None)

    @patient
    def strangers(self) -> list[str]:
        """Other ledgers of this database of whose rows nothing can be known here.

        Their sources may not be read by this role, were keyed with another secret, or are gone.
        """
        check = self._check_row()
        return [
            name
            for name, found in self._elsewhere().items()
            if found is None or (found[0] != check if found else self._charged(name))
        ]

    def _elsewhere(self) -> dict[str, list[str] | None]:
        """Each other ledger's sources, its check row first; None if this role may not read them."""
        found: dict[str, list[str] | None] = {}
        with self.server.reading() as connection:
            own = self.server.address.ledger
            for name, kept, readable in connection.execute(_elsewhere, {"own": own}).all():
                found[name] = None
                if readable:
                    asked = f"SELECT fingerprint FROM {quote(name)}.sources ORDER BY number"
                    found[name] = list(connection.execute(sql(asked)).scalars()) if kept else []
        return found

    def _charged(self, name: str) -> bool:
        """Has this other ledger charges, as far as this role may know?"""
        with self.server.reading() as connection:
            entries = f"{quote(name)}.entries"
            may = sql("SELECT has_table_privilege(:entries, 'SELECT')")
            if not connection.execute(may, {"entries": entries}).scalar():
                return True
            charges = sql(f"SELECT EXISTS (SELECT FROM {entries} WHERE kind = 'charge')")
            return bool(connection.execute(charges).scalar())

    @patient
    def remember(self, fingerprint: str) -> None:
        """Keep this source's fingerprint with the ledger, for good."""
        with self.server.writing() as connection:
            _TABLES.create_all(connection)
            if connection.execute(select(func.count()).select_from(SOURCES)).scalar() == 0:
                connection.execute(insert(SOURCES), {"number": 0, "fingerprint": self._check_row()})
            known = connection.execute(_newest).all()
            if known[-1].fingerprint != fingerprint:
                row = {"number": known[-1].number + 1, "fingerprint": fingerprint}
                connection.execute(insert(SOURCES), row)
        super().remember(fingerprint)

    def remembers(self, fingerprint: str) -> bool:
        """Was this ledger ever about these rows?"""
        return fingerprint in self._sources()

    @patient
    def _sources(self) -> list[str]:
        """Every source this ledger was about, oldest first; refuse if the secret is another."""
        with self.server.reading() as connection:
            if not connection.execute(_has, {"own": self.server.address.ledger}).scalar():
                return []
            rows = connection.execute(_newest).all()
        if rows and rows[0].fingerprint != self._check_row():
            raise Refused(
                f"the ledger {self.server.address.shown!r} was begun with another secret than "
                f"{str(self.folder / 'secret')!r}. Nothing was charged.\nCopy that file from a "
                "machine that uses the ledger, so that all of them recognise the same rows."
            )
        return [row.fingerprint for row in rows[1:]]

    def _check_row(self) -> str:
        return self.fingerprint(iter([CHECK]))

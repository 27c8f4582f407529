"""The ledger that a dataset's rows have: found, begun, recognised, or given up for good.

Spending belongs to rows, not to names: the same rows under another name, or another owner, are
noticed here before anything is made. The mark beside a ledger notices that the ledger was set back
alone; the registry, which keeps what it has seen of each, notices that both were. That is written
when a dataset is opened and when it is left: it may be behind, never ahead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from sulq.database import Database
from sulq.errors import LedgerDamaged, Refused
from sulq.ledger import Ledger
from sulq.ledger.book import Book
from sulq.ledger.claims import is_about, ledger_of_rows
from sulq.ledger.group_ledger import GroupLedger, check_group_name
from sulq.ledger.location import GIVEN_UP, move, sealed, shown
from sulq.ledger.seal import Seal
from sulq.ledger.types import Group
from sulq.server.services import locations
from sulq.server.services.access import Record
from sulq.server.services.allowed_sources import NotTheirs, twice
from sulq.server.services.locations import LEDGERS
from sulq.server.services.people import Person
from sulq.server.services.registry import Registry
from sulq.server.services.registry_server import WORD
from sulq.sources.postgres import DEFAULT_LEDGER, LEDGER, Address, is_address, with_word
from sulq.values.safe_text import checked_text

MAX_SCHEMA = 63  # letters of a name in PostgreSQL


class DatasetLedgers:
    """Every ledger of a server's datasets."""

    def __init__(self, registry: Registry, folder: Path, server: str | None = None) -> None:
        self._registry = registry
        self._folder = folder
        self._server = server  # the PostgreSQL in which new ledgers begin; None: in the folder

    def of(self, owner: Person, name: str, said: Mapping[str, Any]) -> Path | str:
        """The ledger these rows have, or the one of this name; NotTheirs if another owner's."""
        locations.check_lost(self._registry, self._folder, owner.tenant)
        folder = self._folder / LEDGERS
        folder.mkdir(mode=0o700, exist_ok=True)
        own = folder / f"{owner.tenant}.{name}.ledger"
        before = self._check_elsewhere(owner.tenant, said)
        other = self._other(owner.tenant, own, said)
        if other is None and said.get("ledger") is not None:
            return str(said["ledger"])
        if other is None and before is not None:
            return before
        if other is None:
            return own if self._server is None else on_server(self._server, owner.tenant, name)
        for _, state, used in locations.every(self._registry, self._folder):
            if state != "closed" and used["ledger"] == str(folder / other):
                raise twice()
        return folder / other

    def other(self, tenant: int, own: Path, said: Mapping[str, Any]) -> str | None:
        """Name the ledger here that these rows have, if it is another one; NotTheirs, if not."""
        self._check_elsewhere(tenant, said)
        return self._other(tenant, own, said)

    def _other(self, tenant: int, own: Path, said: Mapping[str, Any]) -> str | None:
        other = ledger_of_rows(said["source"], own, said.get("table"), said["schema"])
        if other is not None and not other.startswith(f"{tenant}."):
            raise NotTheirs()
        return other

    def _check_elsewhere(self, tenant: int, said: Mapping[str, Any]) -> str | None:
        """Refuse rows whose ledger is in use outside the server's folder, where no mark tells.

        Gives the ledger of a dataset of theirs that was closed, with which the rows go on.
        """
        before = None
        for whose, state, used in locations.every(self._registry, self._folder):
            ledger, own = used["ledger"], whose == tenant
            named = shown(said.get("ledger", "")) == shown(ledger)
            if not self.is_elsewhere(ledger) or (own and named):
                continue
            try:
                found = is_about(ledger, said["source"], said.get("table"), said["schema"])
            except (LedgerDamaged, Refused):
                raise Refused(
                    "not every ledger of this server can be read just now, so nobody can tell "
                    "whether these rows have one. Nothing was made.\nAsk whoever runs the server."
                ) from None
            if found and own and state == "closed":
                before = ledger
            elif found:
                raise twice() if own else NotTheirs()
        return before

    def is_elsewhere(self, ledger: str) -> bool:
        """Is there a ledger outside the server's folder at this place?"""
        if is_address(ledger):
            return True
        path = self._folder / ledger
        return path.parent != self._folder / LEDGERS and path.exists()

    def check_seen(self, record: Record, db: Database) -> None:
        """Raise if the ledger is older than what the registry has seen of it."""
        row = self._registry.one("SELECT seen FROM datasets WHERE id = ?", record.id)
        if row is None or row["seen"] is None:
            return
        number, hash = json.loads(row["seen"])
        entry = next(db.entries(number), None)
        if entry is None or entry.hash != hash:
            raise LedgerDamaged(
                f"The ledger of {record.name!r} is older than what this server has seen of it, or "
                f"another: entry {number} is not the one that was seen. Nothing is answered.\n"
                "Restore the newest copy. If there is none, restore the whole backup to a new "
                "folder with `sulq restore`: its ledgers then say so."
            )

    def note_seen(self, record: Record, db: Database) -> None:
        """Keep the ledger's newest entry."""
        head = db._ledger.head()
        with self._registry.writing() as run:
            row = run("SELECT seen FROM datasets WHERE id = ?", record.id).fetchone()
            if row is None or (
                row["seen"] is not None and json.loads(row["seen"])[0] >= head.number
            ):
                return
            run("UPDATE datasets SET seen = ? WHERE id = ?",
                json.dumps([head.number, head.hash]), record.id)  # fmt: skip


def on_server(server: str, tenant: int, name: str) -> str:
    """The address of the ledger that a dataset of this name begins: a schema of its own.

    Its name begins with that of the registry's schema, or with `ledger=` of `ledgers`.
    """
    word = WORD if f"{WORD}=" in server else LEDGER
    address = Address.read(server, word, DEFAULT_LEDGER)
    schema = f"{address.ledger}.{tenant}.{name}"
    if len(schema.encode()) > MAX_SCHEMA:
        digest = sha256(schema.encode()).hexdigest()[:16]
        schema = f"{address.ledger[:20]}.{tenant}.{digest}"
    return with_word(address.url, LEDGER, schema)


def group_beside(ledger: Path | str, tenant: int, name: str) -> Group:
    """A tenant's group of this name, whose ledger lies where the dataset's does."""
    check_group_name(name)
    if is_address(ledger):
        address = Address.read(str(ledger))
        schema = f"group.{tenant}.{name}"
        return Group(name, with_word(address.url, LEDGER, schema[:MAX_SCHEMA]))
    return Group(name, str(Path(ledger).parent / f"group.{tenant}.{name}.ledger"))


def give_up(ledger: Path | str, reason: str) -> dict[str, Any]:
    """Put a ledger aside; give what is known of it, for the next one to say."""
    check_text(reason, "override", 1000)
    if not reason.strip():
        raise Refused("override: say why; it stays in the new ledger.")
    if not isinstance(ledger, Path) or not ledger.exists():
        raise Refused("override: these rows have no ledger here, so there is none to give up.")
    seal = Seal.open(ledger)
    with closing(Ledger.reopen(ledger, seal=seal)) as book:
        if book.group:
            raise Refused(
                f"override: the ledger is in the group {book.group!r}, which none leaves. Nothing "
                "was given up."
            )
    known = seal.forget(reason)
    aside = ledger.with_name(f"{ledger.name}.{known.get('hash', 'none')[:12]}{GIVEN_UP}")
    move(ledger, aside)
    return known | {"aside": aside.name}


def note_in(ledger: Path | str, kind: str, body: Mapping[str, Any]) -> None:
    """Write into a ledger what became of it or of an older one, for every report to show."""
    with closing(book_at(ledger, sealed(ledger))) as book:
        book.note(kind, body)


def book_at(ledger: Path | str, seal: Seal) -> Book:
    """The ledger at this place, of a dataset or of a group."""
    if is_group_at(ledger):
        return GroupLedger.reopen(ledger, seal)
    return Ledger.reopen(ledger, seal=seal)


def is_group_at(ledger: Path | str) -> bool:
    """Is it the ledger of a group? By its name: no dataset's begins so."""
    return not is_address(ledger) and Path(ledger).name.startswith("group.")


def check_text(text: Any, what: str, most: int) -> None:
    """Refuse what is no text, too long a one, or one with what cannot be seen in it."""
    checked_text(text, what, most, lines=True)

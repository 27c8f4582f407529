"""An owner's audit log: sign-ins, keys, people, invitations, freezes; chained, so none is lost.

What was asked and spent is in each dataset's ledger. Here stands who was let in, and who decided
what. An entry is written in the transaction of what it tells of, and carries the hash of the entry
before it, as a ledger's do: an entry that is changed, added or taken out is noticed. A log whose
end was cut off is not noticed by itself; whoever keeps the newest number and hash elsewhere
(`head`) notices that too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger.chain import EMPTY, canonical, link_hash
from sulq.server.services.registry import Registry, now
from sulq.server.services.registry_file import Run

# Whose request is under way, and the public half of their key; none at the server's own terminal.
acting: ContextVar[tuple[str, str]] = ContextVar("acting", default=("", ""))
HERE = "the server's terminal"
PAGE = 1000  # entries read at a time
NEWEST = "SELECT number, hash FROM audit_log WHERE house = ? ORDER BY number DESC LIMIT 1"
WORDS = {
    "analyst": "{about} became an analyst",
    "analyst-removed": "{about} was removed: their keys and invitations ended",
    "append": "{dataset} took in rows of new periods",
    "clock": "the machine's clock was accepted as it is",
    "close": "{dataset} was closed",
    "dataset": "{dataset} was made",
    "freeze": "{dataset} was frozen",
    "invite": "{about} was invited to {dataset}",
    "key": "a key was made for {about}",
    "key-replaced": "a key of {about} was replaced",
    "key-revoked": "a key of {about} was revoked",
    "link": "a sign-in link was made for {about}",
    "linked": "{about} signs in with the institution's account from now on",
    "owner": "{about} became an owner",
    "refresh": "{dataset} goes on with its rows as they were then",
    "sign-in": "{about} signed in",
    "sign-in-refused": "a sign-in of {about} was refused",
    "sign-out": "{about} signed out",
    "thaw": "{dataset} was thawed",
    "uninvite": "the invitation of {about} to {dataset} was taken back",
    "webhook": "messages are sent to {about}",
    "webhook-removed": "messages are no longer sent to {about}",
}


def record(
    run: Run, tenant: int, kind: str, *, about: str = "", by: str | None = None, **more: Any
) -> None:
    """Add one entry to a tenant's log, in the transaction that is under way."""
    assert kind in WORDS, kind
    last = run(NEWEST, tenant).fetchone()
    number, previous = last or (EMPTY.number, EMPTY.hash)
    actor, key = acting.get()
    said = {"time": now(), "by": by or actor or HERE, "about": about}
    more["with"] = key if said["by"] == actor else None
    body = canonical(said | {name: value for name, value in more.items() if value})
    run("INSERT INTO audit_log (house, number, kind, body, previous, hash) "
        "VALUES (?, ?, ?, ?, ?, ?)", tenant, number + 1, kind, body, previous,
        link_hash(previous, number + 1, kind, body))  # fmt: skip


class AuditLog:
    """The logs of all owners of a server."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def head(self, tenant: int) -> dict[str, Any]:
        """The number and the hash of the newest entry: what to keep elsewhere."""
        number, hash = self._registry.one(NEWEST, tenant) or (EMPTY.number, EMPTY.hash)
        return {"number": number, "hash": hash}

    def entries(self, tenant: int, after: int = EMPTY.number, most: int = PAGE) -> list[Any]:
        """Entries after this number, oldest first, each as it is exported."""
        rows = self._registry.all(
            "SELECT * FROM audit_log WHERE house = ? AND number > ? ORDER BY number LIMIT ?",
            tenant, after, most,
        )  # fmt: skip
        return [_shown(row) for row in rows]

    def newest(self, tenant: int, most: int, before: int | None = None) -> list[Any]:
        """The newest entries before this number, newest first."""
        rows = self._registry.all(
            "SELECT * FROM audit_log WHERE house = ? AND number < coalesce(?, number + 1) "
            "ORDER BY number DESC LIMIT ?", tenant, before, most,
        )  # fmt: skip
        return [_shown(row) for row in rows]

    def all(self, tenant: int) -> Iterator[Any]:
        """Every entry, in pages."""
        after = EMPTY.number
        while found := self.entries(tenant, after):
            yield from found
            after = found[-1]["number"]

    def verify(self, tenant: int, head: str | None = None) -> dict[str, Any]:
        """Check every link, or LedgerDamaged; with NUMBER:HASH, that this entry is still in it."""
        return verify(self.all(tenant), head)


def verify(entries: Iterator[Any] | list[Any], head: str | None = None) -> dict[str, Any]:
    """Check the links of an exported log, and that a head kept elsewhere is one of them."""
    wanted = None if head is None else _read(head)
    found, number, previous = wanted in (None, (EMPTY.number, EMPTY.hash)), EMPTY.number, EMPTY.hash
    for entry in entries:
        number += 1
        body = canonical(entry["body"])
        if entry["number"] != number:
            raise _damaged(number, "is missing")
        if entry["previous"] != previous:
            raise _damaged(number, "does not follow from the one before")
        if entry["hash"] != link_hash(previous, number, entry["kind"], body):
            raise _damaged(number, "was changed")
        previous = entry["hash"]
        found = found or wanted == (number, previous)
    if not found and wanted is not None:
        raise _damaged(wanted[0], "is not the one that was kept elsewhere")
    return {"number": number, "hash": previous}


def _read(head: str) -> tuple[int, str]:
    number, _, found = head.partition(":")
    if not number.removeprefix("-").isdigit() or len(found) != 64:
        raise Refused(f"head={head!r}: want NUMBER:HASH, as an export ends with.")
    return int(number), found


def _damaged(number: int, what: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"Entry {number} of the audit log {what}. What it says of who was let in cannot be "
        "trusted.\nCompare it with the newest export."
    )


def _shown(row: Any) -> dict[str, Any]:
    body = json.loads(row["body"])
    names = {"about": body["about"], "dataset": body.get("dataset", "")}
    return {
        "number": row["number"], "kind": row["kind"], "what": WORDS[row["kind"]].format(**names),
        "body": body, "previous": row["previous"], "hash": row["hash"],
    }  # fmt: skip

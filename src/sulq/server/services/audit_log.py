"""An owner's audit log: who was let in, and who decided what; chained, so none is lost.

What was asked and spent is in each dataset's ledger. An entry is written in the transaction of what
it tells of, and carries the hash of the entry before it, as a ledger's do: an entry that is
changed, added or taken out is noticed. All that is shown of an entry is what its hash covers. A log
whose end was cut off is not noticed by itself; whoever keeps the newest number and hash elsewhere
(`head`) notices that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sulq.errors import LedgerDamaged
from sulq.ledger.chain import EMPTY, canonical, link_hash, now
from sulq.ledger.chain_lines import Link, follow, links_in
from sulq.server.services.actors import Actor, account_id, acting
from sulq.server.services.registry_file import Run

if TYPE_CHECKING:
    from sulq.server.services.registry import Registry

PAGE = 1000  # entries read at a time
NEWEST = "SELECT number, hash FROM audit_log WHERE house = ? ORDER BY number DESC LIMIT 1"
WORDS = {
    "account": "{about} signs in with the institution's account",
    "alarms-seen": "alarms were marked as seen",
    "allot": "what {about} may spend on {dataset} was set to {queries}",
    "analyst": "{about} became an analyst",
    "analyst-removed": "{about} was removed: their keys and invitations ended",
    "append": "{dataset} took in rows of new periods",
    "backup": "a copy of everything but the rows was made",
    "cap": "what a key of {about} may spend was set to {queries}",
    "clock": "the machine's clock was accepted as it is",
    "close": "{dataset} was closed",
    "dataset": "{dataset} was made",
    "describe": "the description of {dataset} was changed",
    "file": "the file {about} was sent",
    "file-removed": "the file {about} was removed",
    "freeze": "{dataset} was frozen",
    "invite": "{about} was invited to {dataset}",
    "key": "a key was made for {about}",
    "key-ended": "a key of {about} ended with what granted it",
    "key-replaced": "a key of {about} was replaced",
    "key-revoked": "a key of {about} was revoked",
    "link": "a sign-in link was made for {about}",
    "linked": "{about} signs in with the institution's account from now on",
    "owner": "{about} became an owner",
    "programs": "programs of {dataset} were switched {programs}",
    "refresh": "{dataset} goes on with its rows as they were then",
    "restore": "a copy was put in place",
    "sign-in": "{about} signed in",
    "sign-in-refused": "a sign-in of {about} was refused",
    "sign-out": "{about} signed out",
    "thaw": "{dataset} was thawed",
    "uninvite": "the invitation of {about} to {dataset} was taken back",
    "webhook": "messages are sent to {about}",
    "webhook-removed": "messages are no longer sent to {about}",
    "webhook-test": "a message was sent to see that it arrives",
}


def record(
    run: Run, tenant: int, kind: str, *, about: str = "", by: Actor | None = None, **more: Any
) -> None:
    """Add one entry to a tenant's log, in the transaction that is under way."""
    last = run(NEWEST, tenant).fetchone()
    number, previous = last or (EMPTY.number, EMPTY.hash)
    body = {name: value for name, value in more.items() if value not in (None, "")}
    what = WORDS[kind].format(about=about, **{"dataset": "", "queries": ""} | body)
    body |= {"time": now(), "about": about, "what": what} | _named(run, by or acting.get())
    text = canonical(body)
    run("INSERT INTO audit_log (house, number, kind, body, previous, hash) "
        "VALUES (?, ?, ?, ?, ?, ?)", tenant, number + 1, kind, text, previous,
        link_hash(previous, number + 1, kind, text))  # fmt: skip


def _named(run: Run, actor: Actor) -> dict[str, str]:
    """Who acts; with a key that an institution's account was given, that account."""
    said = {"by": actor.name, "by_id": actor.id} | ({"with": actor.key} if actor.key else {})
    found = account_of(run, actor.key) if actor.key else None
    if found is None:
        return said
    return said | {"by": found["name"], "by_id": account_id(found["issuer"], found["subject"]),
                   "as": actor.id}  # fmt: skip


def account_of(run: Run, key: str) -> Any:
    """The institution's account that a key was made for; None: none."""
    return run("SELECT * FROM key_accounts WHERE key = ?", key).fetchone()


class AuditLog:
    """The logs of all owners of a server."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def note(self, tenant: int, kind: str, *, about: str = "", **more: Any) -> None:
        """Add one entry about what is not in the registry itself."""
        with self._registry.writing() as run:
            record(run, tenant, kind, about=about, **more)

    def see_alarms(self, tenant: int) -> None:
        """The owner has seen them; late replies are counted anew towards a freeze."""
        with self._registry.writing() as run:
            done = run("UPDATE alarms SET seen = ? WHERE house = ? AND seen IS NULL",
                       now(), tenant)  # fmt: skip
            if done.rowcount:
                record(run, tenant, "alarms-seen")

    def head(self, tenant: int) -> dict[str, Any]:
        """The number and the hash of the newest entry: what to keep elsewhere."""
        number, hash = self._registry.one(NEWEST, tenant) or (EMPTY.number, EMPTY.hash)
        return {"number": number, "hash": hash}

    def entries(self, tenant: int, after: int = EMPTY.number, most: int = PAGE) -> list[Link]:
        """Entries after this number, oldest first."""
        rows = self._registry.all(
            "SELECT * FROM audit_log WHERE house = ? AND number > ? ORDER BY number LIMIT ?",
            tenant, after, most,
        )  # fmt: skip
        return [_link(row) for row in rows]

    def newest(self, tenant: int, most: int, before: int | None = None) -> list[Link]:
        """The newest entries before this number, newest first."""
        rows = self._registry.all(
            "SELECT * FROM audit_log WHERE house = ? AND number < coalesce(?, number + 1) "
            "ORDER BY number DESC LIMIT ?", tenant, before, most,
        )  # fmt: skip
        return [_link(row) for row in rows]

    def all(self, tenant: int) -> Iterator[Link]:
        """Every entry, in pages."""
        after = EMPTY.number
        while found := self.entries(tenant, after):
            yield from found
            after = found[-1].number

    def export(self, tenant: int) -> bytes:
        """Every entry, a line each, as `verify` reads it."""
        return b"".join(link.line() for link in self.all(tenant))

    def verify(self, tenant: int, head: str | None = None) -> dict[str, Any]:
        """Check every link, or LedgerDamaged; with NUMBER:HASH, that this entry is still in it."""
        return follow(self.all(tenant), _damaged, head)


def verify(lines: Iterable[bytes], head: str | None = None) -> dict[str, Any]:
    """Check an exported log by its lines alone, and that a head kept elsewhere is one of them."""
    return follow(links_in(lines, _damaged), _damaged, head)


def words_of(entry: dict[str, Any]) -> str:
    """An entry as one line: what was decided, about whom, and why; also one of an older version."""
    body = entry["body"]
    named = {"about": body["about"], "dataset": body.get("dataset", "")}
    said = body.get("what") or WORDS[entry["kind"]].format(**named)
    for before, name in ((", with ", "how"), (" for ", "account")):
        said += f"{before}{body[name]}" if name in body else ""
    said += f" ({body['label']})" if "label" in body else ""
    said += f" [{body['about_id']}]" if "about_id" in body else ""
    return said + (f": {body['reason']}" if "reason" in body else "")


def who_of(entry: dict[str, Any]) -> tuple[str, str]:
    """Whose decision it was: the id that stays theirs, and the name."""
    body = entry["body"]
    return body.get("by_id", ""), body["by"]


def _damaged(number: int, what: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"Entry {number} of the audit log {what}. What it says of who was let in cannot be "
        "trusted.\nCompare it with the newest export."
    )


def _link(row: Any) -> Link:
    return Link(row["number"], row["kind"], row["body"], row["previous"], row["hash"])

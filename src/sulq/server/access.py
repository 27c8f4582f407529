"""A key -> a Visitor, and what a Visitor may see. The only room that decides rights.

Whatever is wrong with a key, the refusal is the same. A dataset is looked up within the
visitor's own house, invitations and scope in one statement: another's looks like a missing one
because it is never found.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from typing import Any

from sulq.errors import KeyRefused, NotFound, NotPermitted
from sulq.server.people import KEY, Person, hashed
from sulq.server.registry import Registry, now

REFUSED = (
    "the key is missing, malformed, unknown, expired or revoked. Nothing was charged.\n"
    "Send it as 'Authorization: Bearer sulq_...'; ask the dataset's owner for a new one."
)
NOBODY = bytes(32)
HOLDER = (
    "SELECT k.id AS key, k.hash, k.datasets, k.expires, k.revoked, p.* FROM keys k "
    "JOIN people p ON p.id = k.person WHERE k.id = ?"
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks, with which key."""

    person: Person
    key: str  # its public half
    scope: frozenset[str] | None  # datasets the key is for; None: all that the person may see

    @property
    def is_owner(self) -> bool:
        """May this visitor decide about datasets?"""
        return self.person.role == "owner"


@dataclass(frozen=True, slots=True)
class Record:
    """A dataset as the registry has it."""

    id: int
    house: int
    name: str
    description: str
    arguments: str
    pace: str | None
    state: str
    created: str


class Access:
    """Decides who may do what."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def visitor(self, authorization: str | None) -> Visitor:
        """Who holds this key, or KeyRefused."""
        scheme, _, text = (authorization or "").partition(" ")
        match = KEY.fullmatch(text.strip()) if scheme.lower() == "bearer" else None
        number, secret = match.groups() if match else ("", "")
        row = self._registry.one(HOLDER, number)
        same = hmac.compare_digest(hashed(secret), NOBODY if row is None else row["hash"])
        if row is None or not same or row["revoked"] or row["removed"] or row["expires"] <= now():
            raise KeyRefused(REFUSED)
        return _visitor(row)

    def holder(self, key: str) -> Visitor:
        """Who holds the key of this public half, for a session begun with it; or KeyRefused."""
        row = self._registry.one(HOLDER, key)
        if row is None or row["revoked"] or row["removed"] or row["expires"] <= now():
            raise KeyRefused(REFUSED)
        return _visitor(row)

    def dataset(self, visitor: Visitor, name: str) -> Record:
        """A dataset this visitor may see, or NotFound."""
        found = self.datasets(visitor, name)
        if not found:
            raise NotFound(f"there is no dataset {name[:64]!r} for this key. Nothing was charged.")
        return found[0]

    def again(self, visitor: Visitor, record: Record) -> Record:
        """The dataset as it is now, after a wait in which rights may have ended."""
        self.holder(visitor.key)
        found = self.dataset(visitor, record.name)
        if found.id != record.id:  # closed, and another made under its name
            raise NotFound(f"{record.name!r} is no longer what it was. Nothing was charged.")
        return found

    def datasets(self, visitor: Visitor, name: str | None = None) -> list[Record]:
        """All that this visitor may see; those of one name."""
        rows = self._registry.all(
            "SELECT d.* FROM datasets d WHERE d.house = ? AND d.state <> 'closed' "
            "AND d.name = coalesce(?, d.name) AND (? OR EXISTS "
            "(SELECT 1 FROM members m WHERE m.dataset = d.id AND m.person = ?)) ORDER BY d.name",
            visitor.person.house, name, visitor.is_owner, visitor.person.id,
        )  # fmt: skip
        records = [record_of(row) for row in rows]
        return [r for r in records if visitor.scope is None or r.name in visitor.scope]

    def owner(self, visitor: Visitor) -> Visitor:
        """The same visitor if an owner, or NotPermitted."""
        if not visitor.is_owner:
            raise NotPermitted("only the owner may do this. Nothing was charged or changed.")
        return visitor

    def whole_owner(self, visitor: Visitor) -> Visitor:
        """An owner whose key is not for some datasets only."""
        if self.owner(visitor).scope is not None:
            raise NotPermitted(
                "this key is for some datasets only, and this concerns the whole house. "
                "Use a key without datasets. Nothing was changed."
            )
        return visitor


def _visitor(row: Any) -> Visitor:
    scope = None if row["datasets"] is None else frozenset(json.loads(row["datasets"]))
    person = Person(row["id"], row["house"], row["name"], row["role"])
    return Visitor(person, row["key"], scope)


def record_of(row: object) -> Record:
    """A row of the table `datasets`."""
    fields = ("id", "house", "name", "description", "arguments", "pace", "state", "created")
    return Record(*(row[f] for f in fields))  # type: ignore[index]

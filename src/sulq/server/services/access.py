"""A key -> a Principal, and what a Principal may see. The only module that decides rights.

What a key is worth is what its grounds give at that moment (grounds.py).

Whatever is wrong with a key, the refusal is the same. A dataset is looked up within the
principal's own tenant, invitations and scope in one statement: another's looks like a missing one
because it is never found.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sulq.errors import Frozen, KeyRefused, NotFound, NotPermitted
from sulq.programs.library import FUEL
from sulq.server.services.grounds import Ground, Grounds, Link, closed, rights
from sulq.server.services.people import KEY, Person, hashed, person_of
from sulq.server.services.registry import Registry

REFUSED = (
    "the key is missing, malformed, unknown, expired or revoked. Nothing was charged.\n"
    "Send it as 'Authorization: Bearer sulq_...'; ask the dataset's owner for a new one."
)
NOBODY = bytes(32)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, with which key."""

    person: Person
    key: str  # its public half
    scope: frozenset[str] | None  # datasets the key is for; None: all that the person may see
    capped: bool = False  # True if it, or a key it was made with, has a cap (spending_caps.py)

    @property
    def is_owner(self) -> bool:
        """May this principal decide about datasets?"""
        return self.person.role == "owner"


@dataclass(frozen=True, slots=True)
class Record:
    """A dataset as the registry has it."""

    id: int
    tenant: int
    name: str
    description: str
    arguments: str
    timing: str | None
    state: str
    created: str

    @property
    def program_fuel(self) -> int | None:
        """How many instructions a program may take for a row; None: programs are off."""
        return _program_fuel(self.arguments)


@lru_cache(maxsize=256)
def _program_fuel(arguments: str) -> int | None:
    said = json.loads(arguments)
    return int(said.get("program_fuel", FUEL)) if said.get("programs") else None


class Access:
    """Decides who may do what."""

    def __init__(self, registry: Registry, grounds: Grounds | None = None) -> None:
        self._registry = registry
        self._grounds = grounds or Grounds(registry)

    def principal(self, authorization: str | None) -> Principal:
        """Who holds this key, or KeyRefused."""
        scheme, _, text = (authorization or "").partition(" ")
        match = KEY.fullmatch(text.strip()) if scheme.lower() == "bearer" else None
        number, secret = match.groups() if match else ("", "")
        chain = self._grounds.chain(number)
        same = hmac.compare_digest(hashed(secret), chain[0]["hash"] if chain else NOBODY)
        return self._working(chain if same else ())

    def verifier(self, key: str) -> str | None:
        """By what the key of this public half is proved; '': it was made before there was that.

        None if there is no such key, or no longer: nothing proves it.
        """
        chain = self._grounds.chain(key)
        try:
            self._working(chain)
        except KeyRefused:
            return None
        return chain[0]["scram"] or ""

    def holder(self, key: str) -> Principal:
        """Who holds the key of this public half, for a session begun with it; or KeyRefused."""
        return self._working(self._grounds.chain(key))

    def _working(self, chain: Sequence[Link]) -> Principal:
        """The holder of the key at the beginning of this chain, with what the whole chain gives."""
        now = self._registry.clock.now()
        if not chain or closed(chain[0], now):
            raise KeyRefused(REFUSED)
        why = self._grounds.lost(chain, now)
        if why:
            raise KeyRefused(
                f"this key has ended: {why}. Nothing was charged.\nSign in anew, or ask the "
                "dataset's owner for a new key."
            )
        found = rights(chain)
        return Principal(person_of(chain[0]), chain[0]["key"], found.scope, found.capped)

    def dataset(self, principal: Principal, name: str) -> Record:
        """A dataset this principal may see, or NotFound."""
        found = self.datasets(principal, name)
        if not found:
            raise NotFound(f"there is no dataset {name[:64]!r} for this key. Nothing was charged.")
        return found[0]

    def again(self, principal: Principal, record: Record) -> Record:
        """The dataset as it is now, after a wait in which rights may have ended."""
        found = self.dataset(self.holder(principal.key), record.name)
        if found.id != record.id:  # closed, and another made under its name
            raise NotFound(f"{record.name!r} is no longer what it was. Nothing was charged.")
        return found

    def datasets(self, principal: Principal, name: str | None = None) -> list[Record]:
        """All that this principal may see; those of one name."""
        rows = self._registry.all(
            "SELECT d.*, m.ground, o.name AS owner FROM datasets d "
            "JOIN people o ON o.id = d.house "
            "LEFT JOIN members m ON m.dataset = d.id AND m.person = ? WHERE d.house = ? "
            "AND d.state <> 'closed' AND d.name = coalesce(?, d.name) "
            "AND (? OR m.person IS NOT NULL) ORDER BY d.name",
            principal.person.id, principal.person.tenant, name, principal.is_owner,
        )  # fmt: skip
        records = [record_of(row) for row in rows if self._is_invited(principal, row)]
        return [r for r in records if principal.scope is None or r.name in principal.scope]

    def _is_invited(self, principal: Principal, row: Any) -> bool:
        """True unless the invitation was a role's that opens this dataset no longer."""
        if principal.is_owner or row["ground"] != Ground.ROLE:
            return True
        return row["name"] in self._grounds.opened(principal.person.id, row["owner"])

    def owner(self, principal: Principal) -> Principal:
        """The same principal if an owner, or NotPermitted."""
        if not principal.is_owner:
            raise NotPermitted("only the owner may do this. Nothing was charged or changed.")
        return principal

    def whole_owner(self, principal: Principal) -> Principal:
        """An owner whose key is not for some datasets only."""
        if self.owner(principal).scope is not None:
            raise NotPermitted(
                "this key is for some datasets only, and this concerns the whole organisation. "
                "Use a key without datasets. Nothing was changed."
            )
        return principal


def record_of(row: object) -> Record:
    """A row of the table `datasets`."""
    fields = ("id", "house", "name", "description", "arguments", "pace", "state", "created")
    return Record(*(row[f] for f in fields))  # type: ignore[index]


def check_open(record: Record) -> None:
    """Refuse a frozen dataset."""
    if record.state != "open":
        raise Frozen(
            f"{record.name!r} is frozen: nothing may be asked until its owner thaws it. Nothing "
            "was charged."
        )

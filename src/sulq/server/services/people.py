"""Owners, analysts and their keys.

A tenant is an owner with what is theirs: datasets, analysts, keys. Names are unique within a
tenant only, so that no name tells anything about another tenant. A key is
`sulq_ID_SECRET` with a secret of 256 random bits; the registry keeps its SHA-256, which is
enough for a secret that nobody chose, and a verifier by which the key is proved to the door for
PostgreSQL's clients without being sent (scram.py). Every key expires, and rests on what granted it
(grounds.py): a key that a request makes rests on the key of that request.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

from sulq.errors import NotFound, Refused, in_queries
from sulq.server.services.actors import ROLES, Actor, acting
from sulq.server.services.audit_log import record
from sulq.server.services.events import note
from sulq.server.services.grounds import (
    CHAIN,
    DEEPEST,
    OF_TENANT,
    Ground,
    Grounds,
    ground_in_words,
    log_below,
)
from sulq.server.services.registry import Registry, Run, Taken, new_id, now
from sulq.server.services.scram import Verifier
from sulq.server.services.spending_caps import cap_of
from sulq.values.safe_text import checked_text

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEY = re.compile(r"sulq_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
MAX_DAYS = 3650
MAX_LABEL = 200
MAX_REPLACED = 1000  # times that a key may be replaced: each is kept, listed and logged
# How often this key and others of its person that end at the same moment were replaced.
REPLACED = (
    "SELECT count(*) FROM keys k JOIN keys o ON o.person = k.person AND o.expires = k.expires "
    "WHERE o.id = ? AND k.successor IS NOT NULL"
)
# A key, and those that took its place one after the other.
SUCCESSORS = (
    "WITH RECURSIVE after (id) AS (SELECT id FROM keys WHERE id = ? UNION "
    "SELECT n.id FROM after a JOIN keys k ON k.id = a.id JOIN keys n ON n.id = k.successor) "
)


@dataclass(frozen=True, slots=True)
class Person:
    """An owner or an analyst."""

    id: int
    tenant: int
    name: str
    role: str

    @property
    def known_as(self) -> str:
        """What the audit log calls them, whatever their name: nobody else is ever called so."""
        return f"{self.role}:{self.id}"

    def acting_with(self, key: str) -> Actor:
        """They as whoever acts, with the key of this public half."""
        return Actor(self.known_as, self.name, key)

    @property
    def in_ledger(self) -> str:
        """The name charges carry. No analyst's name begins with @."""
        return f"@{self.name}" if self.role == "owner" else self.name


@dataclass(frozen=True, slots=True)
class Key:
    """A new key: `text` is shown once and kept nowhere."""

    id: str
    text: str
    expires: str
    scram: str = field(default="", repr=False)  # what the registry keeps of it for a proof


@dataclass(frozen=True, slots=True)
class Account:
    """An account of an institution, and its name as the institution writes it."""

    issuer: str
    subject: str
    name: str


def check_name(name: Any, what: str) -> str:
    """A plain name, fit for a path and a log."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused(
            f"{what}={name!r}: want 1 to 64 letters, digits, dots, dashes or underscores, "
            "beginning with a letter or digit."
        )
    return name


class People:
    """Everybody the registry knows."""

    def __init__(
        self, registry: Registry, key_days: int = 90, grounds: Grounds | None = None
    ) -> None:
        self._registry = registry
        self._grounds = grounds or Grounds(registry)
        self._key_days = key_days

    # ---- owners and analysts --------------------------------------------------------------

    def add_owner(self, name: str) -> Person:
        """A new owner with an empty tenant. Only whoever runs the server can do this."""
        check_name(name, "owner")
        try:
            with self._registry.writing() as run:
                number = new_id(
                    run, "INSERT INTO people (house, name, role, created) "
                    "VALUES (0, ?, 'owner', ?)", name, now(),
                )  # fmt: skip
                run("UPDATE people SET house = id WHERE id = ?", number)
                record(run, number, "owner", about=name, about_id=f"owner:{number}")
        except Taken:
            raise Refused(f"owner={name!r} is there already.") from None
        return Person(number, number, name, "owner")

    def owner(self, name: str | None = None) -> Person:
        """The owner of this name; the only one without a name."""
        everyone = self.all_owners()
        found = [owner for owner in everyone if name in (None, owner.name)]
        if len(found) != 1:
            names = ", ".join(owner.name for owner in everyone)
            raise NotFound(f"owner={name!r}: want one of {names}.")
        return found[0]

    def all_owners(self) -> list[Person]:
        """Every owner, the first one first."""
        rows = self._registry.all("SELECT * FROM people WHERE role = 'owner' ORDER BY id")
        return [person_of(row) for row in rows]

    def add_analyst(self, tenant: int, name: str) -> Person:
        """A new analyst of a tenant; one who was removed comes back, with what they spent."""
        check_name(name, "analyst")
        with self._registry.writing() as run:
            known = run(
                "SELECT * FROM people WHERE house = ? AND name = ? AND role = 'analyst'",
                tenant, name,
            ).fetchone()  # fmt: skip
            if known is not None and known["removed"] is None:
                raise Refused(
                    f"analyst={name!r} is there already. Invite them to more datasets, or make "
                    "them another key."
                )
            if known is not None:
                run("UPDATE people SET removed = NULL WHERE id = ?", known["id"])
                person = person_of(known)
            else:
                number = new_id(
                    run, "INSERT INTO people (house, name, role, created) "
                    "VALUES (?, ?, 'analyst', ?)", tenant, name, now(),
                )  # fmt: skip
                person = Person(number, tenant, name, "analyst")
            record(run, tenant, "analyst", about=name, about_id=person.known_as)
        return person

    def analyst(self, tenant: int, name: str) -> Person:
        """An analyst of this tenant."""
        row = self._registry.one(
            "SELECT * FROM people WHERE house = ? AND name = ? AND role = 'analyst' "
            "AND removed IS NULL", tenant, name,
        )  # fmt: skip
        if row is None:
            raise NotFound(f"there is no analyst {name!r}.")
        return person_of(row)

    def analysts(self, tenant: int) -> list[dict[str, Any]]:
        """The analysts of a tenant, and the datasets each is invited to."""
        rows = self._registry.all(
            "SELECT p.name, p.created, d.name AS dataset FROM people p "
            "LEFT JOIN members m ON m.person = p.id "
            "LEFT JOIN datasets d ON d.id = m.dataset AND d.state <> 'closed' "
            "WHERE p.house = ? AND p.role = 'analyst' AND p.removed IS NULL "
            "ORDER BY p.name, d.name", tenant,
        )  # fmt: skip
        found: dict[str, dict[str, Any]] = {}
        for row in rows:
            said = {"name": row["name"], "created": row["created"], "datasets": []}
            listed = found.setdefault(row["name"], said)["datasets"]
            listed += [] if row["dataset"] is None else [row["dataset"]]
        return list(found.values())

    def remove_analyst(self, tenant: int, name: str) -> None:
        """Take away an analyst's keys and invitations. What they spent stays spent."""
        person = self.analyst(tenant, name)
        with self._registry.writing() as run:
            for row in run("SELECT dataset FROM members WHERE person = ?", person.id).fetchall():
                note(run, row["dataset"], "remove", who=name)
            record(run, tenant, "analyst-removed", about=name, about_id=person.known_as)
            run("UPDATE people SET removed = ? WHERE id = ?", now(), person.id)
            run("UPDATE keys SET revoked = ? WHERE person = ? AND revoked IS NULL",
                now(), person.id)  # fmt: skip
            run("DELETE FROM members WHERE person = ?", person.id)

    # ---- invitations ----------------------------------------------------------------------

    def invite(
        self, dataset: int, person: Person, by: Actor | None = None, ground: Ground = Ground.OWNER
    ) -> None:
        """Let an analyst see and ask a dataset.

        An owner's invitation stands whatever the institution's roles open; a role's ends with it.
        """
        with self._registry.writing() as run:
            new = run(
                "INSERT INTO members (dataset, person, ground) VALUES (?, ?, ?) "
                "ON CONFLICT (dataset, person) DO UPDATE SET ground = excluded.ground "
                "WHERE members.ground = 'role' AND excluded.ground = 'owner'",
                dataset, person.id, ground,
            ).rowcount  # fmt: skip
            if new:
                note(run, dataset, "invite", who=person.name, who_id=person.known_as, by=by)

    def invite_by_roles(self, person: Person, owner: Person) -> None:
        """Invite an analyst to what their roles at the institution open now."""
        for name in sorted(self._grounds.opened(person.id, owner.name)):
            row = self._registry.one("SELECT id FROM datasets WHERE house = ? AND name = ? AND "
                                     "state <> 'closed'", owner.tenant, name)  # fmt: skip
            if row is not None:
                self.invite(row["id"], person, ROLES, Ground.ROLE)

    def uninvite(self, dataset: int, person: Person, by: Actor | None = None) -> None:
        """The dataset is no longer there for this analyst."""
        with self._registry.writing() as run:
            gone = run("DELETE FROM members WHERE dataset = ? AND person = ?", dataset, person.id)
            if gone.rowcount:
                note(run, dataset, "uninvite", who=person.name, who_id=person.known_as, by=by)

    def members(self, dataset: int) -> list[str]:
        """The analysts invited to a dataset."""
        rows = self._registry.all(
            "SELECT p.name FROM members m JOIN people p ON p.id = m.person WHERE m.dataset = ? "
            "ORDER BY p.name", dataset,
        )  # fmt: skip
        return [row["name"] for row in rows]

    # ---- keys -----------------------------------------------------------------------------

    def new_key(
        self, person: Person, *, datasets: Sequence[str] | None = None, days: int | None = None,
        label: str = "", cap: Any = None, lasts: timedelta | None = None,
        account: Account | None = None,
    ) -> Key:  # fmt: skip
        """A new key for a person, for some datasets only if they are named.

        It may spend at most `cap` queries, if there is one (spending_caps.py). `lasts` is instead
        of days; `account` is who signed in for it, by issuer, subject and name (institution.py).
        A key that a request makes lasts at most as long as the key of that request.
        """
        days = self._key_days if days is None else days
        if type(days) is not int or not 1 <= days <= MAX_DAYS:
            raise Refused(f"days={days!r}: want a whole number from 1 to {MAX_DAYS:,}.")
        checked_text(label, "label", MAX_LABEL)
        scope = (
            None if datasets is None else json.dumps([check_name(d, "dataset") for d in datasets])
        )
        most = cap_of(cap)
        key, secret = _new()
        clock = self._registry.clock
        begun, expires = clock.now(), clock.now(timedelta(days=days) if lasts is None else lasts)
        parent = None if account is not None else acting.get().key or None
        made = Ground.KEY if parent else Ground.TERMINAL
        ground = made if account is None else Ground.ROLE
        with self._registry.writing() as run:
            if parent:
                expires = min(expires, _latest(run, parent))
            run(
                "INSERT INTO keys (id, hash, person, label, datasets, created, expires, spend_cap, "
                "scram, ground, parent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                key.id, hashed(secret), person.id, label, scope, begun, expires, most, key.scram,
                ground, parent,
            )  # fmt: skip
            if account is not None:
                run("INSERT INTO key_accounts (key, issuer, subject, name) VALUES (?, ?, ?, ?)",
                    key.id, account.issuer, account.subject, account.name)  # fmt: skip
            said = {"key": key.id, "label": label, "datasets": datasets and list(datasets)}
            by = None if account is None else person.acting_with(key.id)
            record(run, person.tenant, "key", about=person.name, about_id=person.known_as, by=by,
                   expires=expires, cap=None if most is None else in_queries(most),
                   ground=str(ground), **said)  # fmt: skip
        return replace(key, expires=expires)

    def keys(
        self, tenant: int, person: int | None = None, key: str | None = None
    ) -> list[dict[str, Any]]:
        """The keys of a tenant, of one person in it, or one of them; never their secrets.

        Each with what it rests on, and why it works no longer, if it does not.
        """
        ends = self._grounds.ends(tenant)
        return [
            {
                "id": row["key"], "person": row["name"], "role": row["role"],
                "label": row["label"], "datasets": json.loads(row["datasets"] or "null"),
                "created": row["begun"], "expires": row["expires"], "revoked": row["revoked"],
                "cap_micro": row["spend_cap"], "spent_micro": row["spent"],
                "ground": ground_in_words(row), "ended": ends.get(row["key"]),
            }
            for row in self._registry.all(OF_TENANT, tenant)
            if person in (None, row["id"]) and key in (None, row["key"])
        ]  # fmt: skip

    def rotate(self, key: str) -> Key:
        """A new key in place of this one, for the same datasets, days and cap; this one ends.

        It lasts no longer than the other would have: how long is for the owner to say. What was
        made with the other rests on it from now on, and it ends if the other is revoked later.
        """
        begun, (new, secret) = self._registry.clock.now(), _new()
        with self._registry.writing() as run:
            made = run(
                "INSERT INTO keys (id, hash, scram, person, label, datasets, created, expires, "
                "spend_cap, spent, ground, parent) "
                "SELECT ?, ?, ?, person, label, datasets, ?, expires, spend_cap, spent, ground, "
                "parent FROM keys WHERE id = ? AND revoked IS NULL AND ended IS NULL",
                new.id, hashed(secret), new.scram, begun, key,
            )  # fmt: skip
            if made.rowcount != 1:
                raise NotFound(f"there is no key {key!r}.")
            if run(REPLACED, key).fetchone()[0] >= MAX_REPLACED:
                raise Refused(
                    f"this key was replaced {MAX_REPLACED:,} times, and no key may be more often. "
                    "It stays as it is. Ask the dataset's owner for a new one."
                )
            run("UPDATE keys SET revoked = ?, successor = ? WHERE id = ?", now(), new.id, key)
            run("UPDATE keys SET parent = ? WHERE parent = ?", new.id, key)
            row = run("SELECT k.expires, p.* FROM keys k JOIN people p ON "
                      "p.id = k.person WHERE k.id = ?", new.id).fetchone()  # fmt: skip
            run("INSERT INTO key_accounts (key, issuer, subject, name) SELECT ?, issuer, subject, "
                "name FROM key_accounts WHERE key = ?", new.id, key)  # fmt: skip
            run("UPDATE key_questions SET key = ? WHERE key = ?", new.id, key)
            person = person_of(row)
            record(run, person.tenant, "key-replaced", about=person.name,
                   about_id=person.known_as, key=new.id, before=key)  # fmt: skip
        return replace(new, expires=row["expires"])

    def revoke(self, tenant: int, key: str, person: int | None = None) -> None:
        """End a key of this tenant, or of one person in it, at once; with what took its place.

        What was made with it ends too, and is logged.
        """
        moment = self._registry.clock.now()
        with self._registry.writing() as run:
            rows = run(f"{SUCCESSORS} SELECT k.id AS key, p.* FROM after a "
                       "JOIN keys k ON k.id = a.id JOIN people p ON p.id = k.person "
                       "WHERE p.house = ? AND p.id = coalesce(?, p.id)",
                       key, tenant, person).fetchall()  # fmt: skip
            if not rows:
                raise NotFound(f"there is no key {key!r}.")
            for row in rows:
                log_below(run, row["key"], moment)
                run("UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ?",
                    now(), row["key"])  # fmt: skip
                record(run, tenant, "key-revoked", about=row["name"],
                       about_id=person_of(row).known_as, key=row["key"])  # fmt: skip


def _latest(run: Run, key: str) -> str:
    """The moment until which a key may last that is made with this one; refused if too deep."""
    rows = run(f"{CHAIN} SELECT k.expires FROM chain c JOIN keys k ON k.id = c.id", key).fetchall()
    if not 0 < len(rows) <= DEEPEST:
        raise Refused(
            f"this key was made with a key that was made with a key, {DEEPEST} times. Make the new "
            "one with an earlier of them."
        )
    return min(str(row["expires"]) for row in rows)


def _new() -> tuple[Key, str]:
    """A key that expires at a time to be said, and its secret half."""
    number, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    text = f"sulq_{number}_{secret}"
    return Key(number, text, "", str(Verifier.of(text))), secret


def hashed(secret: str) -> bytes:
    """What the registry keeps of a secret."""
    return sha256(secret.encode()).digest()


def person_of(row: Any) -> Person:
    """A row of the table `people`."""
    return Person(row["id"], row["house"], row["name"], row["role"])

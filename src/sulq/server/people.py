"""Owners, analysts and their keys.

A house is an owner with what is theirs: datasets, analysts, keys. Names are unique within a
house only, so that no name tells anything about another house. A key is
`sulq_ID_SECRET` with a secret of 256 random bits; the registry keeps its SHA-256, which is
enough for a secret that nobody chose. Every key expires.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from sulq.errors import NotFound, Refused
from sulq.server.registry import Registry, now

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEY = re.compile(r"sulq_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
MOST_DAYS = 3650
MOST_LABEL = 200


@dataclass(frozen=True, slots=True)
class Person:
    """An owner or an analyst."""

    id: int
    house: int
    name: str
    role: str

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

    def __init__(self, registry: Registry, key_days: int = 90) -> None:
        self._registry = registry
        self._key_days = key_days

    # ---- owners and analysts --------------------------------------------------------------

    def add_owner(self, name: str) -> Person:
        """A new owner with an empty house. Only whoever runs the server can do this."""
        check_name(name, "owner")
        try:
            with self._registry.writing() as run:
                number = run(
                    "INSERT INTO people (house, name, role, created) VALUES (0, ?, 'owner', ?)",
                    name, now(),
                ).lastrowid  # fmt: skip
                run("UPDATE people SET house = id WHERE id = ?", number)
        except sqlite3.IntegrityError:
            raise Refused(f"owner={name!r} is there already.") from None
        return Person(number, number, name, "owner")

    def owner(self, name: str | None = None) -> Person:
        """The owner of this name; the only one without a name."""
        rows = self._registry.all("SELECT * FROM people WHERE role = 'owner' ORDER BY id")
        found = [row for row in rows if name in (None, row["name"])]
        if len(found) != 1:
            names = ", ".join(row["name"] for row in rows)
            raise NotFound(f"owner={name!r}: want one of {names}.")
        return _person(found[0])

    def owners(self) -> int:
        """How many owners this server has."""
        return int(self._registry.one("SELECT count(*) FROM people WHERE role = 'owner'")[0])

    def add_analyst(self, house: int, name: str) -> Person:
        """A new analyst of a house; one who was removed comes back, with what they spent."""
        check_name(name, "analyst")
        with self._registry.writing() as run:
            known = run(
                "SELECT * FROM people WHERE house = ? AND name = ? AND role = 'analyst'",
                house, name,
            ).fetchone()  # fmt: skip
            if known is not None and known["removed"] is None:
                raise Refused(f"analyst={name!r} is there already.")
            if known is not None:
                run("UPDATE people SET removed = NULL WHERE id = ?", known["id"])
                return _person(known)
            number = run(
                "INSERT INTO people (house, name, role, created) VALUES (?, ?, 'analyst', ?)",
                house, name, now(),
            ).lastrowid  # fmt: skip
        return Person(number, house, name, "analyst")

    def analyst(self, house: int, name: str) -> Person:
        """An analyst of this house."""
        row = self._registry.one(
            "SELECT * FROM people WHERE house = ? AND name = ? AND role = 'analyst' "
            "AND removed IS NULL", house, name,
        )  # fmt: skip
        if row is None:
            raise NotFound(f"there is no analyst {name!r}.")
        return _person(row)

    def analysts(self, house: int) -> list[dict[str, Any]]:
        """The analysts of a house, and the datasets each is invited to."""
        rows = self._registry.all(
            "SELECT p.name, p.created, d.name AS dataset FROM people p "
            "LEFT JOIN members m ON m.person = p.id "
            "LEFT JOIN datasets d ON d.id = m.dataset AND d.state <> 'closed' "
            "WHERE p.house = ? AND p.role = 'analyst' AND p.removed IS NULL "
            "ORDER BY p.name, d.name", house,
        )  # fmt: skip
        found: dict[str, dict[str, Any]] = {}
        for row in rows:
            one = found.setdefault(
                row["name"], {"name": row["name"], "created": row["created"], "datasets": []}
            )
            if row["dataset"] is not None:
                one["datasets"].append(row["dataset"])
        return list(found.values())

    def remove_analyst(self, house: int, name: str) -> None:
        """Take away an analyst's keys and invitations. What they spent stays spent."""
        person = self.analyst(house, name)
        with self._registry.writing() as run:
            run("UPDATE people SET removed = ? WHERE id = ?", now(), person.id)
            run("UPDATE keys SET revoked = ? WHERE person = ? AND revoked IS NULL",
                now(), person.id)  # fmt: skip
            run("DELETE FROM members WHERE person = ?", person.id)

    # ---- invitations ----------------------------------------------------------------------

    def invite(self, dataset: int, person: Person) -> None:
        """Let an analyst see and ask a dataset."""
        with self._registry.writing() as run:
            run("INSERT OR IGNORE INTO members (dataset, person) VALUES (?, ?)", dataset, person.id)

    def uninvite(self, dataset: int, person: Person) -> None:
        """The dataset is no longer there for this analyst."""
        with self._registry.writing() as run:
            run("DELETE FROM members WHERE dataset = ? AND person = ?", dataset, person.id)

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
        label: str = "",
    ) -> Key:  # fmt: skip
        """A new key for a person, for some datasets only if they are named."""
        days = self._key_days if days is None else days
        if type(days) is not int or not 1 <= days <= MOST_DAYS:
            raise Refused(f"days={days!r}: want a whole number from 1 to {MOST_DAYS:,}.")
        if not isinstance(label, str) or len(label) > MOST_LABEL:
            raise Refused(f"label: want at most {MOST_LABEL} letters.")
        scope = (
            None if datasets is None else json.dumps([check_name(d, "dataset") for d in datasets])
        )
        number, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        expires = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
        with self._registry.writing() as run:
            run(
                "INSERT INTO keys (id, hash, person, label, datasets, created, expires) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                number, hashed(secret), person.id, label, scope, now(), expires,
            )  # fmt: skip
        return Key(number, f"sulq_{number}_{secret}", expires)

    def keys(self, house: int, person: int | None = None) -> list[dict[str, Any]]:
        """The keys of a house, or of one person in it; never their secrets."""
        rows = self._registry.all(
            "SELECT k.*, p.name, p.role FROM keys k JOIN people p ON p.id = k.person "
            "WHERE p.house = ? AND p.id = coalesce(?, p.id) ORDER BY k.created, k.id",
            house, person,
        )  # fmt: skip
        return [
            {
                "id": row["id"], "person": row["name"], "role": row["role"],
                "label": row["label"],
                "datasets": None if row["datasets"] is None else json.loads(row["datasets"]),
                "created": row["created"], "expires": row["expires"], "revoked": row["revoked"],
            }
            for row in rows
        ]  # fmt: skip

    def revoke(self, house: int, key: str, person: int | None = None) -> None:
        """End a key of this house, or of one person in it, at once."""
        with self._registry.writing() as run:
            done = run(
                "UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ? AND person IN "
                "(SELECT id FROM people WHERE house = ? AND id = coalesce(?, id))",
                now(), key, house, person,
            )  # fmt: skip
        if done.rowcount != 1:
            raise NotFound(f"there is no key {key!r}.")


def hashed(secret: str) -> bytes:
    """What the registry keeps of a secret."""
    return sha256(secret.encode()).digest()


def _person(row: Any) -> Person:
    return Person(row["id"], row["house"], row["name"], row["role"])

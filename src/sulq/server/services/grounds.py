"""The ground of each right: what granted it, and whether that still stands.

A key is granted at the server's terminal, by the holder of another key, or by a role that an
account has at the institution; an invitation by an owner or by such a role. Sessions, sign-in links
and connections rest on a key. Nothing of a ground is copied: at every use the chain is walked from
the key to the ground at its end, and the key is worth what all of them give now: the datasets that
all of them are for, until the first of them expires, within the cap of each.

A ground that is lost at a sign-in or at a start of the server is marked, and logged: what rested on
it stays ended, though the role may come back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sulq.server.services.actors import ROLES
from sulq.server.services.audit_log import record
from sulq.server.services.events import note
from sulq.server.services.oidc_settings import OidcSettings
from sulq.server.services.registry import Registry, Run

DEEPEST = 16  # keys that were made with a key that was made with a key ...
CHAIN = (
    "WITH RECURSIVE chain (depth, id) AS (SELECT 0, k.id FROM keys k WHERE k.id = ? UNION ALL "
    "SELECT c.depth + 1, up.id FROM chain c JOIN keys k ON k.id = c.id "
    f"JOIN keys up ON up.id = k.parent WHERE k.ground = 'key' AND c.depth < {DEEPEST}) "
)
BELOW = (
    "WITH RECURSIVE below (id) AS (SELECT id FROM keys WHERE parent = ? UNION "
    "SELECT k.id FROM keys k JOIN below b ON k.parent = b.id) "
)
COLUMNS = (
    "k.id AS key, k.hash, k.datasets, k.label, k.created AS begun, k.expires, k.revoked, k.ended, "
    "k.why, k.spend_cap, k.spent, k.scram, k.ground, k.parent, s.issuer, a.roles, "
    "a.name AS account, o.name AS owner, p.* FROM keys k JOIN people p ON p.id = k.person "
    "JOIN people o ON o.id = p.house "
    "LEFT JOIN key_accounts s ON s.key = k.id "
    "LEFT JOIN accounts a ON a.issuer = s.issuer AND a.subject = s.subject"
)
LINKS = f"{CHAIN} SELECT c.depth, {COLUMNS} JOIN chain c ON c.id = k.id ORDER BY c.depth"
OF_TENANT = f"SELECT {COLUMNS} WHERE p.house = ? ORDER BY k.created, k.id"
BY_ROLES = (
    f"SELECT {COLUMNS} WHERE k.ground = 'role' AND k.revoked IS NULL AND k.ended IS NULL "
    "AND k.expires > ?"
)
ACCOUNTS = (
    "SELECT a.issuer, a.roles FROM identities i JOIN accounts a "
    "ON a.issuer = i.issuer AND a.subject = i.subject WHERE i.person = ?"
)
INVITED_BY_ROLE = (
    "SELECT m.dataset, d.name AS name, p.id AS person, p.name AS who, p.role, o.name AS owner "
    "FROM members m JOIN datasets d ON d.id = m.dataset JOIN people p ON p.id = m.person "
    "JOIN people o ON o.id = p.house WHERE m.ground = 'role'"
)
Link = Mapping[str, Any]


class Ground(StrEnum):
    """Everything that grants a right; `tests/server/test_grounds.py` takes each of them away."""

    TERMINAL = "terminal"  # a key: whoever runs the server made it
    KEY = "key"  # a key: the holder of another key made it
    ROLE = "role"  # a key of a sign-in, or an invitation: a role at the institution
    OWNER = "owner"  # an invitation: an owner decided it


@dataclass(frozen=True, slots=True)
class Rights:
    """The worth of a key now: what every link of its chain gives."""

    scope: frozenset[str] | None  # datasets; None: all that the person may see
    capped: bool
    expires: str


class Grounds:
    """Looks up what rights rest on, and ends those whose ground is lost."""

    def __init__(self, registry: Registry, settings: OidcSettings | None = None) -> None:
        self._registry = registry
        self._settings = settings

    # ---- keys -------------------------------------------------------------------------------

    def chain(self, key: str) -> Sequence[Link]:
        """A key and what it was made with, up to the end; empty if there is no such key."""
        return self._registry.all(LINKS, key)

    def lost(self, chain: Sequence[Link], now: str) -> str | None:
        """Why the ground of a key no longer stands; None if it does. The key itself is not judged.

        A key without a ground at the end of its chain has none.
        """
        for link in chain:
            if link["ended"]:
                return str(link["why"])
            if self._registry.clock.is_ahead(link["begun"]):
                return "it was made while the server's clock was ahead, and would last too long"
            if link["ground"] == Ground.ROLE and not self._has_role(link):
                return f"{_role(link)} opens nothing here any more"
        for link in chain[1:]:
            end = closed(link, now)
            if end:
                return f"the key {link['key']} that it was made with {end}"
        if chain and chain[-1]["ground"] == Ground.KEY:
            return f"the key {chain[-1]['parent']} that it was made with is gone"
        return None

    def _has_role(self, link: Link) -> bool:
        """Does the account's newest token have a role that the settings of now take?"""
        settings = self._settings
        if settings is None or settings.owner not in (None, link["owner"]):
            return False
        taken = settings.owners if link["role"] == "owner" else settings.analysts
        return link["issuer"] == settings.issuer and bool(_roles(link) & set(taken))

    def ends(self, tenant: int) -> dict[str, str]:
        """Why each key of a tenant works no longer; those that work are not in it."""
        links = {link["key"]: link for link in self._registry.all(OF_TENANT, tenant)}
        now = self._registry.clock.now()
        found: dict[str, str] = {}
        for key, link in links.items():
            chain: list[Link] = []
            up: Link | None = link
            while up is not None and len(chain) <= DEEPEST:
                chain.append(up)
                up = links.get(up["parent"]) if up["ground"] == Ground.KEY else None
            why = closed(link, now) or self.lost(chain, now)
            if why:
                found[key] = why.removeprefix("was ").removeprefix("has ")
        return found

    # ---- invitations ------------------------------------------------------------------------

    def opened(self, person: int, owner: str) -> frozenset[str]:
        """The datasets that a person's roles at the institution open by the settings of now."""
        settings = self._settings
        if settings is None or settings.owner not in (None, owner):
            return frozenset()
        roles = {
            role
            for row in self._registry.all(ACCOUNTS, person)
            if row["issuer"] == settings.issuer and _roles(row) & set(settings.analysts)
            for role in _roles(row)
        }
        return frozenset(name for role in roles for name in settings.datasets.get(role, ()))

    # ---- what is lost -----------------------------------------------------------------------

    def note_roles(self, issuer: str, subject: str, name: str, roles: Sequence[str]) -> None:
        """Keep the roles that an account has now; what rested on others ends, and is logged."""
        clock = self._registry.clock
        moment = clock.time()
        seen = moment.isoformat(timespec="seconds")
        with self._registry.writing() as run:
            run("INSERT INTO accounts (issuer, subject, name, roles, seen) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (issuer, subject) DO UPDATE SET name = excluded.name, "
                "roles = excluded.roles, seen = excluded.seen",
                issuer, subject, name, json.dumps(list(roles)), seen)  # fmt: skip
        self.end_lost(moment)

    def end_lost(self, moment: datetime | None = None) -> int:
        """End the keys and invitations whose role is gone, and log each; how many keys.

        A server without an institution ends none: others of its registry may have one.
        """
        if self._settings is None:
            return 0
        moment = moment or self._registry.clock.time()
        now, ended = moment.isoformat(timespec="seconds"), 0
        rows = self._registry.all(BY_ROLES, now)
        for link in rows:
            if not self._has_role(link):
                with self._registry.writing() as run:
                    ended += self._end(run, link, f"{_role(link)} ended on {moment:%Y-%m-%d}", now)
        for row in self._registry.all(INVITED_BY_ROLE):
            if row["name"] not in self.opened(row["person"], row["owner"]):
                with self._registry.writing() as run:
                    gone = run("DELETE FROM members WHERE dataset = ? AND person = ? "
                               "AND ground = 'role'", row["dataset"], row["person"])  # fmt: skip
                    if gone.rowcount:
                        who_id = f"{row['role']}:{row['person']}"
                        note(run, row["dataset"], "uninvite", who=row["who"], who_id=who_id,
                             by=ROLES)  # fmt: skip
        return ended

    def _end(self, run: Run, link: Link, why: str, now: str) -> int:
        done = run("UPDATE keys SET ended = ?, why = ? WHERE id = ? AND ended IS NULL",
                   now, why, link["key"]).rowcount  # fmt: skip
        if done:
            log_end(run, link, why)
            log_below(run, link["key"], now)
        return int(done)


def closed(link: Link, now: str) -> str | None:
    """How a key ended by itself or with its person; None if it did not."""
    if link["revoked"]:
        return f"was revoked on {link['revoked'][:10]}"
    if link["removed"]:
        return f"was revoked on {link['removed'][:10]}"
    return f"has expired on {link['expires'][:10]}" if link["expires"] <= now else None


def rights(chain: Sequence[Link]) -> Rights:
    """The worth of the key at the beginning of a chain."""
    scopes = [frozenset(json.loads(link["datasets"])) for link in chain if link["datasets"]]
    return Rights(
        frozenset.intersection(*scopes) if scopes else None,
        any(link["spend_cap"] is not None for link in chain),
        min(link["expires"] for link in chain),
    )


def ground_in_words(link: Link) -> str:
    """What a key rests on, for lists of keys."""
    if link["ground"] == Ground.KEY:
        return f"the key {link['parent']}"
    return _role(link) if link["ground"] == Ground.ROLE else "the server's terminal"


def log_end(run: Run, link: Link, why: str) -> None:
    """The audit log's entry about one key whose ground is lost."""
    record(run, link["house"], "key-ended", about=link["name"],
           about_id=f"{link['role']}:{link['id']}", key=link["key"], why=why)  # fmt: skip


def log_below(run: Run, key: str, now: str) -> None:
    """The audit log's entries about the keys that end with this one."""
    lines = (
        "SELECT k.id AS key, p.* FROM keys k JOIN people p ON p.id = k.person "
        "JOIN below b ON b.id = k.id WHERE k.revoked IS NULL AND k.ended IS NULL AND k.expires > ?"
    )
    for row in run(f"{BELOW} {lines}", key, now).fetchall():
        log_end(run, row, f"the key {key} that it was made with ended")


def _roles(row: Link) -> frozenset[str]:
    return frozenset(json.loads(row["roles"] or "[]"))


def _role(link: Link) -> str:
    whose = f" of {link['account']}" if link["account"] else ""
    return f"the {link['role']} role{whose} at the institution"

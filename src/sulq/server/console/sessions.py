"""A key -> a session in a cookie; sign-in links; signing out.

What the cookie holds is random and kept only as a hash, beside the key it was begun with. A
session is worth no more than its key: whoever loses that loses the session at once.
"""

from __future__ import annotations

import hmac
import secrets
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from sulq.errors import KeyRefused, NotFound
from sulq.server.services.access import Access, Principal
from sulq.server.services.actors import acting_as, terminal
from sulq.server.services.audit_log import record
from sulq.server.services.grounds import Grounds
from sulq.server.services.oidc_settings import OidcSettings
from sulq.server.services.people import People, hashed, person_of
from sulq.server.services.registry import Registry, Run
from sulq.server.services.settings import Settings
from sulq.server.services.shared_rate import AnyRate

COOKIE = "sulq_session"
IDLE = timedelta(minutes=30)  # without a look at any page, a session ends;
LONGEST = timedelta(hours=12)  # and however busy, it ends after this
WRITTEN = timedelta(minutes=1)  # how exactly the last look is kept
SIGN_IN = 20  # requests that a sign-in counts as, with a good key too: each is written to disk
LINK = timedelta(minutes=30)  # how long a sign-in link may be used
LINKED = "SELECT * FROM entrances WHERE id = ?"


@dataclass(frozen=True, slots=True)
class Session:
    """Someone who signed in."""

    principal: Principal
    secret: str  # what the cookie holds

    @property
    def token(self) -> str:
        """What every form of this session carries, and nobody else can know."""
        return hmac.new(self.secret.encode(), b"form", sha256).hexdigest()


class Sessions:
    """Everybody who is signed in, in all processes of a server."""

    def __init__(self, registry: Registry, access: Access, rate: AnyRate | None = None) -> None:
        self._registry = registry
        self._access = access
        self._rate = rate  # of one person; None: for whoever sits at the server's terminal

    def _ago(self, span: timedelta) -> str:
        return self._registry.clock.now(-span)

    def begin(self, key: str) -> Session:
        """Sign in with a key, or KeyRefused; LimitReached if it is too often."""
        principal = self._access.principal(f"Bearer {key}")
        self._admit(principal)
        return self.begun(principal)

    def _admit(self, principal: Principal) -> None:
        if self._rate is not None:
            self._rate.take(principal.person.id, SIGN_IN)

    def begun(self, principal: Principal, how: str = "a key") -> Session:
        """A new session of whoever showed who they are; the audit log says how."""
        secret = secrets.token_urlsafe(32)
        idle, longest, now = self._ago(IDLE), self._ago(LONGEST), self._registry.clock.now()
        with self._registry.writing() as run:
            run("DELETE FROM sessions WHERE seen < ? OR begun < ?", idle, longest)
            run("INSERT INTO sessions (id, key, begun, seen) VALUES (?, ?, ?, ?)",
                hashed(secret), principal.key, now, now)  # fmt: skip
            log(run, principal, "sign-in", how=how)
        return Session(principal, secret)

    def find(self, secret: str | None) -> Session | None:
        """The session of a cookie, if it goes on; looking at it keeps it going."""
        if not secret:
            return None
        row = self._registry.one("SELECT * FROM sessions WHERE id = ?", hashed(secret))
        clock = self._registry.clock
        if row is None or row["seen"] < self._ago(IDLE) or row["begun"] < self._ago(LONGEST):
            return None
        if clock.is_ahead(row["begun"]) or clock.is_ahead(row["seen"]):
            return None
        try:
            principal = self._access.holder(row["key"])
        except KeyRefused:
            return None
        if row["seen"] < self._ago(WRITTEN):
            now = self._registry.clock.now()
            with self._registry.writing() as run:
                run("UPDATE sessions SET seen = ? WHERE id = ?", now, row["id"])
        return Session(principal, secret)

    def move(self, session: Session, key: str) -> None:
        """Let this session go on with another key of the same person."""
        with self._registry.writing() as run:
            run("UPDATE sessions SET key = ? WHERE id = ? AND ? IN (SELECT id FROM keys "
                "WHERE person = ?)", key, hashed(session.secret), key,
                session.principal.person.id)  # fmt: skip

    def end(self, session: Session) -> None:
        """Sign out here."""
        with self._registry.writing() as run:
            log(run, session.principal, "sign-out")
            run("DELETE FROM sessions WHERE id = ?", hashed(session.secret))

    def end_all(self, session: Session) -> None:
        """Sign this person out everywhere, and let no sign-in link of theirs work."""
        own = "(SELECT id FROM keys WHERE person = ?)"
        with self._registry.writing() as run:
            log(run, session.principal, "sign-out", how="everywhere")
            for table in ("sessions", "entrances"):
                run(f"DELETE FROM {table} WHERE key IN {own}", session.principal.person.id)

    # ---- sign-in links --------------------------------------------------------------------

    def link(self, key: str, lasts: timedelta = LINK) -> str:
        """The path of a link that signs in once with the key of this public half."""
        token = secrets.token_urlsafe(32)
        now, expires = self._registry.clock.now(), self._ago(-lasts)
        with self._registry.writing() as run:
            run("DELETE FROM entrances WHERE expires < ?", now)
            run("INSERT INTO entrances (id, key, expires) VALUES (?, ?, ?)",
                hashed(token), key, expires)  # fmt: skip
            row = run("SELECT p.* FROM keys k JOIN people p ON p.id = k.person "
                      "WHERE k.id = ?", key).fetchone()  # fmt: skip
            person = person_of(row)
            record(run, person.tenant, "link", about=person.name, about_id=person.known_as,
                   key=key)  # fmt: skip
        return f"/console/enter/{token}"

    def enter(self, token: str) -> Session:
        """Use a link up, or NotFound; LimitReached, and the link stays, if it is too often."""
        gone = NotFound(
            "this sign-in link was used already, or is too old.\nSign in with your key, or ask for "
            "a new link."
        )
        row, clock = self._registry.one(LINKED, hashed(token)), self._registry.clock
        if row is None or row["expires"] < clock.now() or clock.is_ahead(row["expires"]):
            raise gone
        principal = self._access.holder(row["key"])
        self._admit(principal)
        with self._registry.writing() as run:
            if run("DELETE FROM entrances WHERE id = ?", hashed(token)).rowcount != 1:
                raise gone
        return self.begun(principal, "a link")


def log(run: Run, principal: Principal, kind: str, **more: str) -> None:
    """An entry of the audit log about whoever signs in or out."""
    person = principal.person
    record(run, person.tenant, kind, about=person.name, about_id=person.known_as,
           by=person.acting_with(principal.key), role=person.role, key=principal.key,
           **more)  # fmt: skip


def ago(span: timedelta) -> str:
    """The time so long before now, as the registry writes it."""
    return (datetime.now(UTC) - span).isoformat(timespec="seconds")


def entrance(folder: Path, analyst: str | None = None) -> str | None:
    """The path of a link that signs in once: the owner, or one of their analysts.

    For whoever sits at the server's own terminal; nobody else sees it. None where there are several
    owners, or where no key of that person works any more.
    """
    with closing(Registry.open(folder, Settings.load(folder).registry)) as registry:
        grounds = Grounds(registry, OidcSettings.load(folder))
        people = People(registry, grounds=grounds)
        if len(people.all_owners()) != 1:
            return None
        person = people.owner()
        if analyst is not None:
            person = people.analyst(person.tenant, analyst)
        keys = [
            key["id"]
            for key in people.keys(person.tenant, person.id)
            if not key["ended"] and key["datasets"] is None
        ]
        if not keys:
            return None
        with acting_as(terminal()):
            return Sessions(registry, Access(registry, grounds)).link(keys[-1])

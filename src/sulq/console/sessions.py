"""A key -> a session in a cookie; sign-in links; signing out.

What the cookie holds is random and kept only as a hash, beside the key it was begun with. A
session is worth no more than its key: whoever loses that loses the session at once.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from sulq.errors import KeyRefused, NotFound
from sulq.server.access import Access, Visitor
from sulq.server.people import hashed
from sulq.server.registry import Registry, now

COOKIE = "sulq_session"
IDLE = timedelta(minutes=30)  # without a look at any page, a session ends;
LONGEST = timedelta(hours=12)  # and however busy, it ends after this
WRITTEN = timedelta(minutes=1)  # how exactly the last look is kept
LINK = timedelta(minutes=30)  # how long a sign-in link may be used


@dataclass(frozen=True, slots=True)
class Session:
    """Someone who signed in."""

    visitor: Visitor
    secret: str  # what the cookie holds

    @property
    def token(self) -> str:
        """What every form of this session carries, and nobody else can know."""
        return hmac.new(self.secret.encode(), b"form", sha256).hexdigest()


class Sessions:
    """Everybody who is signed in, in all processes of a server."""

    def __init__(self, registry: Registry, access: Access) -> None:
        self._registry = registry
        self._access = access

    def begin(self, key: str) -> Session:
        """Sign in with a key, or KeyRefused."""
        return self._begun(self._access.visitor(f"Bearer {key}"))

    def _begun(self, visitor: Visitor) -> Session:
        secret = secrets.token_urlsafe(32)
        with self._registry.writing() as run:
            run("DELETE FROM sessions WHERE seen < ? OR begun < ?", _ago(IDLE), _ago(LONGEST))
            run("INSERT INTO sessions (id, key, begun, seen) VALUES (?, ?, ?, ?)",
                hashed(secret), visitor.key, now(), now())  # fmt: skip
        return Session(visitor, secret)

    def find(self, secret: str | None) -> Session | None:
        """The session of a cookie, if it goes on; looking at it keeps it going."""
        if not secret:
            return None
        row = self._registry.one("SELECT * FROM sessions WHERE id = ?", hashed(secret))
        if row is None or row["seen"] < _ago(IDLE) or row["begun"] < _ago(LONGEST):
            return None
        try:
            visitor = self._access.holder(row["key"])
        except KeyRefused:
            return None
        if row["seen"] < _ago(WRITTEN):
            with self._registry.writing() as run:
                run("UPDATE sessions SET seen = ? WHERE id = ?", now(), row["id"])
        return Session(visitor, secret)

    def end(self, session: Session) -> None:
        """Sign out here."""
        with self._registry.writing() as run:
            run("DELETE FROM sessions WHERE id = ?", hashed(session.secret))

    def end_all(self, session: Session) -> None:
        """Sign this person out everywhere, and let no sign-in link of theirs work."""
        own = "(SELECT id FROM keys WHERE person = ?)"
        with self._registry.writing() as run:
            for table in ("sessions", "entrances"):
                run(f"DELETE FROM {table} WHERE key IN {own}", session.visitor.person.id)

    # ---- sign-in links --------------------------------------------------------------------

    def link(self, key: str, lasts: timedelta = LINK) -> str:
        """The path of a link that signs in once with the key of this public half."""
        token = secrets.token_urlsafe(32)
        expires = (datetime.now(UTC) + lasts).isoformat(timespec="seconds")
        with self._registry.writing() as run:
            run("DELETE FROM entrances WHERE expires < ?", now())
            run("INSERT INTO entrances (id, key, expires) VALUES (?, ?, ?)",
                hashed(token), key, expires)  # fmt: skip
        return f"/console/enter/{token}"

    def enter(self, token: str) -> Session:
        """Use a link up, or NotFound."""
        with self._registry.writing() as run:
            row = run(
                "DELETE FROM entrances WHERE id = ? RETURNING key, expires", hashed(token)
            ).fetchone()
        if row is None or row["expires"] < now():
            raise NotFound(
                "this sign-in link was used already, or is too old.\nSign in with your key, or "
                "ask for a new link."
            )
        return self._begun(self._access.holder(row["key"]))


def _ago(span: timedelta) -> str:
    return (datetime.now(UTC) - span).isoformat(timespec="seconds")

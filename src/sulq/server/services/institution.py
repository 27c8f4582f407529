"""Accounts of an institution -> people here, their role and invitations by what its tokens claim.

An account is known by issuer and subject, never by a name: the first sign-in of an analyst makes
one of the name that is claimed, if nobody has it; an analyst who is there already is linked by
whoever runs the server. What a role opens is looked at at every sign-in. A sign-in ends in a key
like any other, for some hours, so that rights are decided in one place. The key rests on the role
(grounds.py): at the next sign-in without it, or once the settings take it no longer, the key ends
with all that was made with it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from sulq.errors import KeyRefused, NotFound, NotPermitted, Refused
from sulq.server.services.actors import Actor, account_id, acting, acting_as
from sulq.server.services.audit_log import record
from sulq.server.services.grounds import Grounds
from sulq.server.services.high_water import LEAP
from sulq.server.services.oidc import Claims, Issuer, refused, used_id
from sulq.server.services.oidc_settings import OidcSettings
from sulq.server.services.people import NAME, Account, Key, People, Person, person_of
from sulq.server.services.registry import Registry, Run, Taken, now
from sulq.server.services.shared_rate import rate_of
from sulq.values.safe_text import one_line

LABEL = "signed in by the institution"
BEGUN = timedelta(minutes=10)  # for a browser to come back
MAX_ONWARD = 1_000  # characters of where to go on; a browser keeps about 4,000 in a cookie
REDEEMING = 8  # codes at once; more wait, so that a flood slows the institution's people only
PURPOSE = "sign-ins under way"  # of the shared secret
EXCHANGES = 5.0, 50  # tokens from one address: a second, and at once
MAX_ACCOUNT = 100  # letters of an account's name
UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SignIn:
    """A sign-in on its way to the institution and back."""

    state: str
    nonce: str
    verifier: str  # of PKCE
    onward: str  # the page to go on to


class Institution:
    """The accounts of one issuer, at one server."""

    def __init__(
        self, settings: OidcSettings, registry: Registry, people: People, grounds: Grounds
    ) -> None:
        self.settings = settings
        self._grounds = grounds
        self.issuer = Issuer(settings, registry.clock.machine_time)
        self.exchanges = rate_of(registry, "exchanges", *EXCHANGES)  # from one address
        self._registry = registry
        self._people = people
        self._redeeming = asyncio.Semaphore(REDEEMING)

    # ---- on the way there and back ----------------------------------------------------------

    def begin(self, onward: str) -> tuple[SignIn, str]:
        """A new sign-in, and the cookie by which its browser is known; nothing is stored here."""
        until = self._registry.clock.now(BEGUN)
        onward = onward if len(onward) <= MAX_ONWARD else ""
        payload = json.dumps([secrets.token_urlsafe(32), until, onward]).encode()
        cookie = urlsafe_b64encode(payload).rstrip(b"=").decode()
        return self._sign_in(cookie, onward), cookie

    def come_back(self, state: str, cookie: str) -> SignIn:
        """The sign-in that this browser began; or KeyRefused. Its code is good once at the issuer.

        The state signs the cookie, so a cookie is parsed only if this server made it.
        """
        expected = self._sign_in(cookie, "")
        if not hmac.compare_digest(expected.state.encode(), state.encode()):
            raise refused("this sign-in was not begun here, or in another browser")
        _, until, onward = json.loads(urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4)))
        if until < self._registry.clock.now():
            raise refused("it took too long")
        return self._sign_in(cookie, onward)

    def _sign_in(self, cookie: str, onward: str) -> SignIn:
        """The values of a sign-in, derived from its cookie by a secret that all processes share."""
        secret = self._registry.shared_secret(PURPOSE)

        def derived(name: str) -> str:
            digest = hmac.digest(secret, f"{name}:{cookie}".encode(), "sha256")
            return urlsafe_b64encode(digest).rstrip(b"=").decode()

        return SignIn(derived("state"), derived("nonce"), derived("verifier"), onward)

    async def redeemed(self, code: str, back: str, begun: SignIn) -> Claims:
        """The claims of the person who came back with this code, or KeyRefused."""
        async with self._redeeming:
            return await self.issuer.redeemed(code, back, begun.nonce, begun.verifier)

    # ---- who they are -----------------------------------------------------------------------

    async def exchange(self, token: str) -> Key:
        """A key for a token of the issuer's, once for each token; or KeyRefused."""
        claims = await self.issuer.claims(token, self.settings.for_tokens)
        await self._registry.run(self._use_up, token, claims)
        return await self._registry.run(self.key_for, claims)

    def _use_up(self, token: str, claims: Claims) -> None:
        until = datetime.fromtimestamp(min(claims["exp"] + 3600, 2**40), UTC)
        past = self._registry.clock.now(-LEAP)  # before which no token is taken any more
        try:
            with self._registry.writing() as run:
                run("DELETE FROM oidc_used WHERE expires < ?", past)
                run("INSERT INTO oidc_used (id, expires) VALUES (?, ?)",
                    used_id(token), until.isoformat(timespec="seconds"))  # fmt: skip
        except Taken:
            raise refused("this token was exchanged already") from None

    def key_for(self, claims: Claims) -> Key:
        """A key for some hours, for whoever the claims name; NotPermitted without a role."""
        account = self._account(claims)
        with acting_as(Actor(account_id(account.issuer, account.subject), account.name)):
            return self._key_for(claims, account)

    def _account(self, claims: Claims) -> Account:
        """Whose token it is, and what the institution calls them."""
        said, subject = claims.get(self.settings.name_claim), claims["sub"]
        name = one_line(said)[:MAX_ACCOUNT] if isinstance(said, str) and said.strip() else ""
        return Account(self.settings.issuer, subject, name or one_line(subject))

    def _key_for(self, claims: Claims, account: Account) -> Key:
        roles = _roles(claims, self.settings.roles_claim)
        owner = self._people.owner(self.settings.owner)
        self._grounds.note_roles(account.issuer, account.subject, account.name, roles)
        person = self._known(claims["sub"])
        if any(role in self.settings.owners for role in roles):
            person = owner
        elif any(role in self.settings.analysts for role in roles):
            person = person or self._new(owner, claims)
            self._people.invite_by_roles(person, owner)
        else:
            self._turn_away(owner, person)
        self._tidy(person)
        lasts = timedelta(hours=self.settings.hours)
        return self._people.new_key(person, label=LABEL, lasts=lasts, account=account)

    def link(self, person: Person, subject: str) -> None:
        """Let an account sign in as an analyst who is there already."""
        if not 0 < len(subject) <= 255:
            raise Refused("subject: want the account's `sub`, 1 to 255 letters.")
        try:
            with self._registry.writing() as run:
                self._link(run, person, subject)
        except Taken:
            raise Refused("this account is somebody already.") from None

    def _link(self, run: Run, person: Person, subject: str) -> None:
        run("INSERT INTO identities (issuer, subject, person, created) VALUES (?, ?, ?, ?)",
            self.settings.issuer, subject, person.id, now())  # fmt: skip
        record(run, person.tenant, "linked", about=person.name, about_id=person.known_as,
               issuer=self.settings.issuer, subject=subject)  # fmt: skip

    def _known(self, subject: str) -> Person | None:
        row = self._registry.one(
            "SELECT p.* FROM identities i JOIN people p ON p.id = i.person "
            "WHERE i.issuer = ? AND i.subject = ?", self.settings.issuer, subject,
        )  # fmt: skip
        if row is not None and row["removed"]:
            raise KeyRefused("not signed in: the owner has removed this person.")
        return None if row is None else person_of(row)

    def _new(self, owner: Person, claims: Claims) -> Person:
        said = claims.get(self.settings.name_claim)
        name = UNFIT.sub("-", said).lstrip("._-")[:64] if isinstance(said, str) else ""
        if not NAME.fullmatch(name):
            raise refused(f"the token has no {self.settings.name_claim} that is a name")
        taken = self._registry.one(
            "SELECT 1 FROM people WHERE house = ? AND name = ? AND role = 'analyst'",
            owner.tenant, name,
        )  # fmt: skip
        if taken is not None:
            raise refused(
                f"there is an analyst {name!r} already, and this account is not linked to them: "
                "the owner can do that with `sulq analyst link`"
            )
        person = self._people.add_analyst(owner.tenant, name)
        with self._registry.writing() as run:
            self._link(run, person, claims["sub"])
        return person

    def _turn_away(self, owner: Person, person: Person | None) -> NoReturn:
        """Let nobody in without a role; keys that rested on one ended when the token was read."""
        about = acting.get().name if person is None else person.name
        with self._registry.writing() as run:
            record(
                run,
                owner.tenant,
                "sign-in-refused",
                about=about,
                about_id=None if person is None else person.known_as,
                why="no role",
            )
        raise NotPermitted(
            "not signed in: this account has no role here. Nothing was charged.\nAsk whoever "
            "gives roles at your institution."
        )

    def _tidy(self, person: Person) -> None:
        """Forget the keys of earlier sign-ins that are over; the audit log has them."""
        now = self._registry.clock.now()
        with self._registry.writing() as run:
            over = (
                "SELECT k.id FROM keys k WHERE k.person = ? AND k.ground = 'role' "
                "AND k.expires < ? AND NOT EXISTS (SELECT 1 FROM keys m WHERE m.parent = k.id)"
            )
            for table in ("sessions", "entrances"):
                run(f"DELETE FROM {table} WHERE key IN ({over})", person.id, now)
            run(f"DELETE FROM keys WHERE id IN ({over})", person.id, now)


def _roles(claims: Claims, path: str) -> list[str]:
    """The roles at a path of claims: one text, or a list of them."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    listed = [found] if isinstance(found, str) else found
    return [role for role in listed if isinstance(role, str)] if isinstance(listed, list) else []


def no_institution() -> NotFound:
    """What is said where no institution signs anybody in."""
    return NotFound("no institution signs people in here. Use a key.")

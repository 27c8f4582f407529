"""An institution's OpenID Connect issuer: where it signs people in, and whether a token is its own.

A token is believed if one of the issuer's public keys signed it by an asymmetric algorithm, and
issuer, audience, times and nonce are what they must be. The issuer's addresses come from its own
description, whose issuer must be the one that was named.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from sulq.errors import KeyRefused, LimitReached, MissingExtra
from sulq.server.services.oidc_settings import OidcSettings, is_safe

DISCOVERY = "/.well-known/openid-configuration"
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
KINDS = ("RSA", "EC", "OKP")  # of keys; never one that is shared
TYPES = (None, "JWT", "jwt", "at+jwt", "application/at+jwt")
LEEWAY_SECONDS = 30  # by which clocks may differ
FETCH_SECONDS = 5.0
MAX_BYTES = 1_000_000  # of what an issuer replies
MAX_TOKEN = 16_000  # letters
KEPT_SECONDS = 600.0  # for which keys are kept,
AGAIN_SECONDS = 30.0  # and after which an unknown key has them fetched again
Claims = Mapping[str, Any]


class Issuer:
    """One issuer. What it says of itself is fetched when it is needed and kept for a while."""

    def __init__(self, settings: OidcSettings, clock: Callable[[], datetime]) -> None:
        self.settings = settings
        self._clock = clock
        self._known: dict[str, Any] = {}
        self._keys: Any = None
        self._fetched = -KEPT_SECONDS
        self._lock = asyncio.Lock()
        _library()

    # ---- signing in -----------------------------------------------------------------------

    async def sign_in_address(self, back: str, state: str, nonce: str, verifier: str) -> str:
        """Where a browser goes to sign in; it comes back with a code for this state."""
        known = await self._description()
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code", "client_id": self.settings.client_id, "redirect_uri": back,
            "scope": self.settings.scopes, "state": state, "nonce": nonce,
            "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        place = known["authorization_endpoint"]
        return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode(asked)}"

    async def redeemed(self, code: str, back: str, nonce: str, verifier: str) -> Claims:
        """The claims of whoever came back with this code, or KeyRefused."""
        known = await self._description()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back,
                "code_verifier": verifier, "client_id": self.settings.client_id}  # fmt: skip
        secret, auth = self.settings.client_secret, None
        if secret is not None:
            auth = httpx.BasicAuth(quote(self.settings.client_id, safe=""), quote(secret, safe=""))
        said = await _fetched("POST", known["token_endpoint"], data=form, auth=auth)
        token = said.get("id_token")
        if not isinstance(token, str):
            raise refused("the issuer gave no token for its code")
        return await self.claims(token, self.settings.client_id, nonce)

    def check_issuer(self, said: str) -> None:
        """Refuse a way back that another issuer sent (RFC 9207)."""
        if said and said != self.settings.issuer:
            raise refused("it comes back from another issuer")

    # ---- tokens ---------------------------------------------------------------------------

    async def claims(self, token: str, audience: str, nonce: str | None = None) -> Claims:
        """What a token says, if it is the issuer's, for this audience, and not too old or young."""
        if len(token) > MAX_TOKEN:
            raise refused("the token is too long")
        decoded = await self._decoded(token)
        if decoded.header.get("typ") not in TYPES:
            raise refused("the token is of another kind")
        claims: Claims = decoded.claims
        self._check(claims, audience)
        if nonce is not None and not _equal(claims.get("nonce"), nonce):
            raise refused("the token is not for this sign-in")
        return claims

    async def _decoded(self, token: str) -> Any:
        jwt, _, wrong = _library()
        for again in (False, True):
            keys = await self._public_keys(again)
            try:
                return jwt.decode(token, keys, algorithms=ALGORITHMS)
            except wrong.InvalidKeyIdError:
                continue  # the issuer may have a new key
            except (wrong.JoseError, ValueError, TypeError, KeyError):
                break
        raise refused("the token is not signed by the issuer")

    def _check(self, claims: Claims, audience: str) -> None:
        now, said = self._clock().timestamp(), claims.get("aud")
        aimed = [said] if isinstance(said, str) else said
        if not _equal(claims.get("iss"), self.settings.issuer):
            raise refused("the token is another issuer's")
        if not isinstance(aimed, list) or audience not in aimed:
            raise refused("the token is for another audience")
        if len(aimed) > 1 and claims.get("azp") not in (None, self.settings.client_id):
            raise refused("the token is for another audience")
        times = [claims.get(name, 0) for name in ("exp", "iat", "nbf")]
        if not all(type(t) in (int, float) for t in times) or "exp" not in claims:
            raise refused("the token has no times")
        if times[0] <= now - LEEWAY_SECONDS:
            raise refused("the token has expired")
        if max(times[1:]) > now + LEEWAY_SECONDS:
            raise refused("the token is not good yet")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= 255:
            raise refused("the token names nobody")

    # ---- what the issuer says of itself -----------------------------------------------------

    async def _description(self) -> dict[str, Any]:
        async with self._lock:
            if not self._known:
                place = self.settings.issuer.rstrip("/") + DISCOVERY
                said = await _fetched("GET", place)
                ends = ("authorization_endpoint", "token_endpoint", "jwks_uri")
                if said.get("issuer") != self.settings.issuer or not all(
                    is_safe(said.get(name)) for name in ends
                ):
                    raise _away()
                self._known = said
            return self._known

    async def _public_keys(self, again: bool) -> Any:
        known = await self._description()
        async with self._lock:
            age = time.monotonic() - self._fetched
            if age > (AGAIN_SECONDS if again else KEPT_SECONDS):
                said = await _fetched("GET", known["jwks_uri"])
                self._keys, self._fetched = _key_set(said), time.monotonic()
            return self._keys


def used_id(token: str) -> bytes:
    """What a token is known by: what was signed, since a signature may have several spellings."""
    return sha256(token.rpartition(".")[0].encode()).digest()


def refused(why: str) -> KeyRefused:
    """A sign-in that does not hold, and why."""
    return KeyRefused(f"not signed in: {why}. Nothing was charged.\nSign in again.")


def _equal(said: Any, wanted: str) -> bool:
    return isinstance(said, str) and hmac.compare_digest(said.encode(), wanted.encode())


def _library() -> tuple[Any, Any, Any]:
    try:
        from joserfc import errors, jwk, jwt
    except ImportError:
        raise MissingExtra(
            "[oidc] needs joserfc, which is not installed: pip install 'sulq[oidc]'."
        ) from None
    return jwt, jwk, errors


def _key_set(said: Mapping[str, Any]) -> Any:
    """The keys that may sign; what is not understood is left out."""
    _, jwk, wrong = _library()
    found = []
    listed = said.get("keys")
    for key in listed if isinstance(listed, list) else ():
        if not isinstance(key, dict) or key.get("kty") not in KINDS or key.get("use") == "enc":
            continue
        try:
            found.append(jwk.import_key(key))
        except (wrong.JoseError, ValueError, TypeError, KeyError):
            continue
    return jwk.KeySet(found)


async def _fetched(method: str, url: str, **said: Any) -> dict[str, Any]:
    """A JSON object from the issuer, small and soon; no redirect is followed."""
    try:
        async with (
            httpx.AsyncClient(timeout=FETCH_SECONDS) as client,
            client.stream(method, url, headers={"accept": "application/json"}, **said) as reply,
        ):
            body = b""
            async for chunk in reply.aiter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise _away()
            if 400 <= reply.status_code < 500 and method == "POST":
                raise refused("the issuer does not take its code")
            if reply.status_code != 200:
                raise _away()
            found = json.loads(body)
    except (httpx.HTTPError, OSError, ValueError, RecursionError):
        raise _away() from None
    if not isinstance(found, dict):
        raise _away()
    return found


def _away() -> LimitReached:
    return LimitReached(
        "the institution's sign-in cannot be reached, or is set up otherwise than here. Nothing "
        "was charged.\nTry again in a moment, or sign in with a key.", 5.0,
    )  # fmt: skip

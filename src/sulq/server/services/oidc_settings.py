"""[oidc] of a folder's sulq.toml, and the environment -> how an institution's accounts sign in.

Every setting that is a text may also be given as SULQ_OIDC_NAME, which wins over the file: the
client's secret belongs there, not into a file that is copied.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sulq.errors import Refused
from sulq.server.services.web_addresses import parts_of
from sulq.settings_file import FILE

PREFIX = "SULQ_OIDC_"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
CLAIM = re.compile(r"[A-Za-z0-9_:./-]{1,200}")
MAX_HOURS = 24
WANTED = "a list of texts, as they are in the claim of roles"


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """How accounts of one issuer become people of one owner's."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)  # None: a public client, with PKCE
    audience: str | None = None  # of tokens that are exchanged; None: client_id
    address: str | None = None  # of this server, as browsers see it
    owner: str | None = None  # whose analysts they are; None: of the only owner
    name_claim: str = "preferred_username"
    roles_claim: str = "groups"  # a path with dots, such as realm_access.roles
    owners: tuple[str, ...] = ()  # roles that sign in as the owner
    analysts: tuple[str, ...] = ()  # roles that sign in as analysts
    datasets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # role -> invited to
    hours: int = 8  # that a session or an exchanged key lasts
    scopes: str = "openid profile"

    @classmethod
    def load(cls, folder: Path) -> OidcSettings | None:
        """Those of a server's folder; None without any."""
        found = tomllib.loads((folder / FILE).read_text(encoding="utf-8")).get("oidc", {})
        if not isinstance(found, dict):
            raise Refused(f"{FILE}: want [oidc] with settings below it.")
        texts = [f.name for f in fields(cls) if str(f.type).startswith("str")]
        said = {n: os.environ[f"{PREFIX}{n.upper()}"] for n in texts
                if f"{PREFIX}{n.upper()}" in os.environ}  # fmt: skip
        values = found | said
        return cls(**_checked(values)) if values else None

    @property
    def for_tokens(self) -> str:
        """Whom a token must be for that is exchanged."""
        return self.audience or self.client_id


def is_safe(url: Any) -> bool:
    """Is it an address over TLS, or on this machine?"""
    if not isinstance(url, str) or not url.isascii() or not url.isprintable():
        return False
    parts = parts_of(url)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    return secure and bool(parts.hostname) and parts.username is None and not parts.fragment


def _checked(said: dict[str, Any]) -> dict[str, Any]:
    kinds = {f.name: str(f.type) for f in fields(OidcSettings)}
    for name in said:
        if name not in kinds:
            raise Refused(f"[oidc] has no {name!r}. Known: {', '.join(kinds)}.")
    for name in ("issuer", "client_id"):
        if name not in said:
            raise Refused(f"[oidc] needs {name}.")
    made = {name: _value(name, kinds[name], value) for name, value in said.items()}
    if not (made.get("owners") or made.get("analysts")):
        raise Refused("[oidc] owners and analysts: name the roles that may sign in.")
    return made


def _value(name: str, kind: str, value: Any) -> Any:
    if name in ("issuer", "address") and not is_safe(value):
        raise _wrong(name, "an address that begins with https://")
    if name in ("name_claim", "roles_claim") and not (
        isinstance(value, str) and CLAIM.fullmatch(value)
    ):
        raise _wrong(name, "the name of a claim")
    if name == "datasets":
        if not isinstance(value, dict):
            raise _wrong(name, 'a table such as {"research" = ["people"]}')
        return {role: _listed(name, names) for role, names in value.items()}
    if kind.startswith("tuple"):
        return _listed(name, value)
    if kind == "int":
        if type(value) is not int or not 1 <= value <= MAX_HOURS:
            raise _wrong(name, f"a whole number from 1 to {MAX_HOURS}")
        return value
    if not isinstance(value, str) or not value:
        raise _wrong(name, "text")
    return value.rstrip("/") if name == "address" else value


def _listed(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) and v for v in value):
        raise _wrong(name, WANTED)
    return tuple(value)


def _wrong(name: str, want: str) -> Refused:
    return Refused(f"[oidc] {name}: want {want}.")

"""Who acts, as the audit log names them: by an id that stays theirs, and a name to read.

Names are given again, are chosen by an institution, or belong to two people at once; an id is
`owner:1`, `analyst:5`, `account:SUBJECT ISSUER`, `terminal:USER` (a command on the server's own
machine) or `server` (what nobody asked for).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and the public half of the key they came with."""

    id: str
    name: str
    key: str = ""


SERVER = Actor("server", "the server")
LATE = Actor("server", "the server, because rows were late too often")
FAILED = Actor("server", "the server, because a scan failed")
ROLES = Actor("server", "the institution's roles")
# Whose request or command is under way; nobody's: the server does it by itself.
acting: ContextVar[Actor] = ContextVar("acting", default=SERVER)


def account_id(issuer: str, subject: str) -> str:
    """The id of an account of an institution."""
    return f"account:{subject} {issuer}"


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Whatever is decided within is this actor's decision."""
    token = acting.set(actor)
    try:
        yield
    finally:
        acting.reset(token)


def terminal() -> Actor:
    """Whoever runs a command on the server's own machine, by their account there."""
    return Actor(f"terminal:{_user()}", "the server's terminal")


def _user() -> str:
    if not hasattr(os, "getuid"):
        return os.environ.get("USERNAME", "?")
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())

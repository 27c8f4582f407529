"""Sign-in links for whoever sits at the server's own terminal. Nobody else sees them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sulq.console.sessions import Sessions
from sulq.server.access import Access
from sulq.server.people import People
from sulq.server.registry import Registry, now


def entrance(folder: Path, analyst: str | None = None) -> str | None:
    """The path of a link that signs in once: the owner, or one of their analysts.

    None where there are several owners, or where no key of that person works any more.
    """
    with closing(Registry.open(folder)) as registry:
        people = People(registry)
        if people.owners() != 1:
            return None
        person = people.owner()
        if analyst is not None:
            person = people.analyst(person.house, analyst)
        keys = [
            key["id"]
            for key in people.keys(person.house, person.id)
            if not key["revoked"] and key["expires"] > now() and key["datasets"] is None
        ]
        return Sessions(registry, Access(registry)).link(keys[-1]) if keys else None

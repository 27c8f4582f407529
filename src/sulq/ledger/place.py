"""Where a ledger is: a file, or a schema on a server. Has it begun, and whose seal is it under?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.errors import Refused
from sulq.ledger.disk import Disk, Place, create, refuse_poisoned
from sulq.ledger.patience import plainly
from sulq.postgres import Address, is_address
from sulq.seal import Seal

if TYPE_CHECKING:
    from sulq.ledger.server import Server


def on_server(where: str | Path) -> bool:
    """Is the ledger on a server?"""
    return is_address(where)


def shown(where: str | Path) -> str:
    """The place as people may see it: no password."""
    return Address.read(str(where)).shown if on_server(where) else str(where)


def sealed(where: str | Path) -> Seal:
    """The owner's side of the ledger at this place."""
    if on_server(where):
        from sulq.ledger.server_seal import ServerSeal

        return ServerSeal.on(Address.read(str(where)))
    parent = Path(where).parent
    if not parent.is_dir():
        raise Refused(f"ledger={str(where)!r}: the folder {str(parent)!r} does not exist.")
    return Seal.open(where)


@plainly()
def exists(where: str | Path, seal: Seal | None = None) -> bool:
    """Has a ledger begun there?"""
    if not on_server(where):
        return Path(where).exists()
    from sulq.ledger.server import begun

    return begun(_server(where, seal))


@plainly()
def begin(where: str | Path, opening: Mapping[str, Any], seal: Seal | None) -> None:
    """Begin a ledger there, unless one has begun."""
    if on_server(where):
        from sulq.ledger import server

        place = _server(where, seal)
        server.check_safe(place)
        if not server.begun(place):
            server.create(place, opening)
        return
    path = Path(os.path.realpath(where))
    if not path.exists():
        create(path, opening, seal)


@plainly()
def opened(where: str | Path, seal: Seal | None) -> Place:
    """The place itself, where a ledger has begun."""
    if on_server(where):
        from sulq.ledger import server

        place = _server(where, seal)
        server.check_safe(place)
        if not server.begun(place):
            raise Refused(f"ledger={shown(where)!r} has not begun. Nothing was charged.")
        return place
    path = Path(os.path.realpath(where))
    refuse_poisoned(path)
    if not path.exists():
        raise Refused(f"ledger={str(path)!r} does not exist. Nothing was charged.")
    return Disk(path)


def _server(where: str | Path, seal: Seal | None) -> Server:
    """The server of the seal, so that both share one connection, or one of its own."""
    from sulq.ledger.server import Server
    from sulq.ledger.server_seal import ServerSeal

    return seal.server if isinstance(seal, ServerSeal) else Server(Address.read(str(where)))

"""Where a ledger is: a file, or a schema on a server. Has it begun, and is it a copy of another?

And which ledgers lie together, as those of a group do.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger import postgres
from sulq.ledger.postgres_seal import ServerSeal
from sulq.ledger.retry import plainly
from sulq.ledger.seal import FOLDER, Seal, replace_file
from sulq.ledger.sqlite import Disk, Place, create, refuse_poisoned
from sulq.ledger.sqlite import check_writable as check_file_writable
from sulq.sources.postgres import LEDGER, Address, is_address, with_word
from sulq.sources.text_files import is_sqlite

MAX_SCHEMA = 63  # letters of a name in PostgreSQL
GIVEN_UP = ".given-up"  # the ending of a ledger that was put aside for another


def shown(where: str | Path) -> str:
    """The place as people may see it: no password."""
    return Address.read(str(where)).shown if is_address(where) else str(where)


def sealed(where: str | Path) -> Seal:
    """The owner's side of the ledger at this place."""
    if is_address(where):
        return ServerSeal(Address.read(str(where)))
    parent = Path(where).parent
    if not parent.is_dir():
        raise Refused(f"ledger={str(where)!r}: the folder {str(parent)!r} does not exist.")
    return Seal.open(where)


@plainly()
def exists(where: str | Path, seal: Seal | None = None) -> bool:
    """Has a ledger begun there?"""
    return postgres.begun(_server(where, seal)) if is_address(where) else Path(where).exists()


@plainly()
def begin(where: str | Path, opening: Mapping[str, Any], seal: Seal | None) -> None:
    """Begin a ledger there, unless one has begun."""
    if is_address(where):
        server = _server(where, seal)
        postgres.check_safe(server)
        if not postgres.begun(server):
            postgres.create(server, opening)
        return
    path = Path(os.path.realpath(where))
    if not path.exists():
        create(path, opening, seal)


@plainly()
def opened(where: str | Path, seal: Seal | None) -> Place:
    """The place itself, where a ledger has begun."""
    if is_address(where):
        server = _server(where, seal)
        postgres.check_safe(server)
        if not postgres.begun(server):
            raise Refused(f"ledger={shown(where)!r} has not begun. Nothing was charged.")
        return server
    path = Path(os.path.realpath(where))
    refuse_poisoned(path)
    if not path.exists():
        raise Refused(f"ledger={str(path)!r} does not exist. Nothing was charged.")
    return Disk(path)


def check_writable(where: str | Path) -> None:
    """Raise Refused if this process may not write the ledger's file here, or its mark."""
    if not is_address(where):
        path = Path(os.path.realpath(where))
        check_file_writable(path)
        Seal(path, b"").check_writable()


def move(ledger: Path, to: Path) -> None:
    """Give a ledger's file another name, with what SQLite keeps beside it."""
    for end in ("", "-wal", "-shm"):
        if Path(f"{ledger}{end}").exists():
            os.replace(f"{ledger}{end}", f"{to}{end}")


def _server(where: str | Path, seal: Seal | None) -> postgres.Server:
    """The server of the seal, so that both share one connection, or one of its own."""
    if isinstance(seal, ServerSeal):
        return seal.server
    return postgres.Server(Address.read(str(where)))


# ---- copies ---------------------------------------------------------------------------------
# The seal notes the folder of each ledger. Found in another folder, a ledger was moved or copied:
# if the one in the noted folder is still there, each would spend the whole budget by itself. What
# is on another machine, or was moved away first, cannot be seen from here.


def noted(seal: Seal) -> Path | None:
    """The folder in which the ledger was used last; None if that was never noted."""
    try:
        return Path(os.fsdecode(_note(seal).read_bytes()))
    except FileNotFoundError:
        return None


def settle(seal: Seal, here: Path | None = None) -> None:
    """Note that the ledger is used in this folder; without one, in the folder it is in."""
    try:
        replace_file(_note(seal), os.fsencode(here or seal.folder.parent))
    except OSError as error:
        raise Refused(
            f"folder={str(seal.folder)!r} cannot be used: {error.strerror}. Nothing was charged."
        ) from error


def original(seal: Seal, here: Path, before: Path | None) -> Path | None:
    """The folder with the ledger that the one `here` is a copy of, if it is still there."""
    if before is None:
        return None
    try:
        there = seal.has_secret_of(before / FOLDER) and (before / seal.name).exists()
        same = here.exists() and os.path.samefile(before, here)
    except OSError:
        return None
    return before if there and not same else None


def check_alone(seal: Seal) -> None:
    """Raise if the ledger is a copy of one that is still there; else note where it is."""
    here, before = seal.folder.parent, noted(seal)
    if before == here:
        return
    if original(seal, here, before) is not None:
        raise LedgerDamaged(
            f"The ledger {seal.name!r} is a copy: the one it was copied from is still in "
            f"{str(before)!r}, and each would spend the whole budget by itself. Nothing is "
            "answered.\nGo on with that one. If this one is to go on, stop that one and take it "
            "away first."
        )
    settle(seal)


def strangers(seal: Seal) -> list[str]:
    """Ledgers beside this one that charged, and of whose rows the seal knows nothing.

    One that was given up, with a reason that its next one says for good, is none of them.
    """
    folder = seal.folder.parent
    kept = [path for path in folder.iterdir() if path.suffix != GIVEN_UP]
    beside = {Path(os.path.realpath(path)) for path in kept if _is_sqlite(path)}
    unknown = [p for p in beside if p.parent == folder and not seal.knows_rows_of(p.name)]
    return sorted(p.name for p in unknown if _charged(p))


def _is_sqlite(path: Path) -> bool:
    """Could it be a ledger, whatever its name?"""
    try:
        return path.is_file() and is_sqlite(path)
    except OSError:
        return False


def _note(seal: Seal) -> Path:
    return seal.folder / f"{seal.name}.place"


def _charged(path: Path) -> bool:
    """Is this file a ledger with charges?"""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as file:
            found = file.execute("SELECT count(*) FROM entries WHERE kind = 'charge'").fetchone()
    except sqlite3.Error:
        return False
    return bool(found[0])


# ---- groups ----------------------------------------------------------------------------------
# The ledgers of a group lie in one folder, or in one database: they are moved, backed up and
# restored together.


def beside(disk: Place, name: str) -> str:
    """The ledger of this name in the folder, or the database, of another."""
    if isinstance(disk, postgres.Server):
        return with_word(disk.address.url, LEDGER, name)
    return str(_path(disk).parent / name)


def name_of(disk: Place) -> str:
    """What a ledger is called in its folder or database."""
    if isinstance(disk, postgres.Server):
        return disk.address.ledger
    return _path(disk).name


def _path(disk: Place) -> Path:
    path = disk.path if isinstance(disk, Disk) else None
    if path is None:
        raise Refused("a ledger in memory is in no group. Nothing was charged.")
    return path


def called(where: str) -> str:
    """The same of a place."""
    return Address.read(where).ledger if is_address(where) else os.path.basename(where)


def check_together(own: str, group: str) -> None:
    """Raise unless both ledgers lie in one folder or one database."""
    if is_address(own) and is_address(group):
        together = _database(own) == _database(group)
    elif is_address(own) or is_address(group):
        together = False
    else:
        together = Path(own).resolve().parent == Path(group).resolve().parent
    if not together:
        raise Refused(
            f"ledger={shown(own)!r} and the group's {shown(group)!r} lie apart. Nothing was "
            "charged.\nThe ledgers of a group lie in one folder, or in one database: they are "
            "backed up and restored together."
        )


def member_place(group: str, name: str) -> str:
    """Where a dataset that begins in a group keeps its own ledger: beside the group's."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    if is_address(group):
        address = Address.read(group)
        schema = f"{address.ledger}.{plain}"
        if len(schema) > MAX_SCHEMA:
            schema = f"{address.ledger[:20]}.{sha256(schema.encode()).hexdigest()[:16]}"
        return with_word(address.url, LEDGER, schema)
    path = Path(group)
    return str(path.with_name(f"{path.stem}.{plain}{path.suffix or '.ledger'}"))


def _database(address: str) -> Any:
    found = Address.read(address)
    return with_word(found.url, LEDGER, "-")

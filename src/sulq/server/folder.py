"""A server's folder: begun, backed up, restored.

    sulq.toml     settings
    server.db     people, keys (hashed), datasets, alarms      0600
    ledgers/      a ledger for each dataset, and their .sulq/  0700
    data/         where owners' files may lie

A backup copies marks before ledgers: a mark may be behind its ledger, never ahead of it. The
rows are not in it, since they are the owner's to keep.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sulq.config import FILE
from sulq.errors import LedgerDamaged, Refused, SulqError
from sulq.ledger import Ledger
from sulq.ledger.place import shown
from sulq.seal import FOLDER as SEALED
from sulq.seal import Seal
from sulq.server.datasets import LEDGERS
from sulq.server.people import Key, People
from sulq.server.registry import FILE as REGISTRY
from sulq.server.registry import Registry, now

OWNER_DAYS = 365
ABOUT = "backup.json"

SETTINGS = """\
# How this server runs: docs/howto/serve.md explains every setting.
[server]
host = "127.0.0.1"     # other machines need TLS: certificate, private_key
port = 8707
sources = ["data"]     # folders whose files owners may name over HTTP
padding = true         # replies leave at a deadline, so that time tells nothing
"""


def begin(folder: Path, owner: str) -> Key:
    """Make a server's folder with its first owner; the key is shown once."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{str(folder)!r} is not empty. Give a new folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name in (LEDGERS, "data"):
            (folder / name).mkdir(mode=0o700)
        (folder / FILE).write_text(SETTINGS, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{str(folder)!r} cannot be made: {error.strerror}.") from None
    with closing(Registry.begin(folder)) as registry:
        people = People(registry)
        return people.new_key(people.add_owner(owner), days=OWNER_DAYS, label="first")


# ---- backup ---------------------------------------------------------------------------------


def backup(folder: Path, out: Path) -> dict[str, Any]:
    """Copy everything but the rows, safely while a server runs."""
    if out.exists():
        raise Refused(f"{str(out)!r} is there already. Give a new folder.")
    with closing(Registry.open(folder)) as registry:
        elsewhere = _elsewhere(registry, folder / LEDGERS)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    (partial / LEDGERS).mkdir(mode=0o700)
    sealed = folder / LEDGERS / SEALED
    if sealed.is_dir():
        shutil.copytree(sealed, partial / LEDGERS / SEALED)
        (partial / LEDGERS / SEALED).chmod(0o700)
    heads = {}
    for ledger in sorted((folder / LEDGERS).glob("*.ledger")):
        copy = partial / LEDGERS / ledger.name
        _copied(ledger, copy)
        heads[ledger.name] = _head(copy)
    _copied(folder / REGISTRY, partial / REGISTRY)
    shutil.copy2(folder / FILE, partial / FILE)
    about = {"made": now(), "heads": heads, "elsewhere": elsewhere}
    (partial / ABOUT).write_text(json.dumps(about, indent=2), encoding="utf-8")
    partial.rename(out)
    return about


def _elsewhere(registry: Registry, ledgers: Path) -> list[str]:
    """Ledgers that datasets have outside the server's folder."""
    rows = registry.all("SELECT arguments FROM datasets WHERE state <> 'closed'")
    places = {json.loads(row["arguments"])["ledger"] for row in rows}
    return sorted(shown(p) for p in places if "://" in p or Path(p).parent != ledgers)


def _copied(file: Path, copy: Path) -> None:
    """One SQLite file as it is at one moment, whoever writes to it."""
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE").fetchall()


def _head(ledger: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(ledger)) as connection:
        number, hash = connection.execute("SELECT number, hash FROM head").fetchone()
    return {"number": number, "hash": hash}


# ---- restore --------------------------------------------------------------------------------


def restore(copy: Path, folder: Path, reason: str) -> dict[str, Any]:
    """Put a backup in place: whole into a new folder, or ledger by ledger into an old one.

    A ledger whose folder has seen later entries than the backup has is not put back: that would
    be going backwards. Each ledger says from then on that it was restored.
    """
    if not (copy / ABOUT).is_file():
        raise Refused(f"{str(copy)!r} is no backup: it has no {ABOUT}. `sulq backup` makes one.")
    if not reason.strip():
        raise Refused("reason: say why; it stays in the ledgers.")
    about = json.loads((copy / ABOUT).read_text(encoding="utf-8"))
    fresh = not folder.exists() or not any(folder.iterdir())
    if fresh:
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        folder.chmod(0o700)
        (folder / ABOUT).unlink()
        (folder / "data").mkdir(exist_ok=True, mode=0o700)
    restored = []
    for name, head in about["heads"].items():
        if fresh or _put_back(copy / LEDGERS / name, folder / LEDGERS / name):
            _say(folder / LEDGERS / name, about["made"], head, reason)
            restored.append(name)
    return {"made": about["made"], "restored": restored, "whole": fresh}


def _put_back(copy: Path, ledger: Path) -> bool:
    """Put one ledger back where it is missing or damaged; refuse to go backwards."""
    seal = Seal.open(ledger)
    if ledger.exists():
        try:
            Ledger.reopen(ledger, seal=seal).close()
            return False  # it is whole: nothing to restore
        except LedgerDamaged:
            pass
    aside = ledger.with_name(f"{ledger.name}.damaged")
    if ledger.exists():
        for end in ("", "-wal", "-shm"):
            if Path(f"{ledger}{end}").exists():
                os.replace(f"{ledger}{end}", f"{aside}{end}")
    shutil.copy2(copy, ledger)
    try:
        Ledger.reopen(ledger, seal=seal).close()
    except SulqError:
        ledger.unlink()
        for end in ("", "-wal", "-shm"):
            if Path(f"{aside}{end}").exists():
                os.replace(f"{aside}{end}", f"{ledger}{end}")
        raise
    return True


def _say(ledger: Path, made: str, head: dict[str, Any], reason: str) -> None:
    book = Ledger.reopen(ledger, seal=Seal.open(ledger))
    try:
        book.note("restore", {"backup": made, "reason": reason, "number": head["number"]})
    finally:
        book.close()

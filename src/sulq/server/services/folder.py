"""A server's folder: begun, backed up, restored.

    sulq.toml     settings
    server.db     people, keys (hashed), datasets, alarms      0600
    passwords.json  of PostgreSQL addresses, if there are any   0600
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
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sulq.errors import LedgerDamaged, Refused, SulqError
from sulq.ledger.location import move, noted, original, shown
from sulq.ledger.seal import FOLDER as SEALED
from sulq.ledger.seal import Seal
from sulq.server.services.actors import acting_as, terminal
from sulq.server.services.audit_log import AuditLog
from sulq.server.services.backup_manifest import FILE as ABOUT
from sulq.server.services.backup_manifest import checked_manifest, write_manifest
from sulq.server.services.dataset_ledgers import book_at, is_group_at, note_in
from sulq.server.services.locations import LEDGERS, every, former
from sulq.server.services.passwords import FILE as PASSWORDS
from sulq.server.services.passwords import count
from sulq.server.services.people import Key, People
from sulq.server.services.registry import FILE as REGISTRY
from sulq.server.services.registry import Registry, now
from sulq.server.services.settings import Settings as ServerSettings
from sulq.settings_file import FILE
from sulq.values.safe_text import checked_text

OWNER_DAYS = 365
MAX_REASON = 1000  # letters

SETTINGS = """\
# How this server runs: docs/howto/serve.md explains every setting.
[server]
host = "127.0.0.1"     # other machines need TLS: certificate, private_key
port = 8707
sources = ["data"]     # folders whose files owners may name over HTTP
padding = true         # replies leave on a public beat, so that time tells nothing
"""


def begin(folder: Path, owner: str) -> Key | None:
    """Make a server's folder with its first owner, whose key is shown once.

    None if it joins servers that share a registry, where owners are already.
    """
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
    try:
        address = ServerSettings.load(folder).registry
        with closing(Registry.begin(folder, address)) as registry:
            people = People(registry)
            if address is not None and people.all_owners():
                return None
            with acting_as(terminal()):
                return people.new_key(people.add_owner(owner), days=OWNER_DAYS, label="first")
    except BaseException:
        _unmake(folder)
        raise


def _unmake(folder: Path) -> None:
    """Leave nothing of a folder that could not be made."""
    for name in (LEDGERS, "data"):
        (folder / name).rmdir()
    for path in (folder / FILE, *folder.glob(f"{REGISTRY}*")):
        path.unlink()


# ---- backup ---------------------------------------------------------------------------------


def backup(folder: Path, out: Path) -> dict[str, Any]:
    """Copy everything but the rows, safely while a server runs."""
    if out.exists():
        raise Refused(f"{str(out)!r} is there already. Give a new folder.")
    folder, out = folder.resolve(), out.resolve()
    address = ServerSettings.load(folder).registry
    with closing(Registry.open(folder, address)) as registry:
        used = {said["ledger"] for _, state, said in every(registry, folder) if state != "closed"}
    outside = [p for p in used if "://" in p or Path(p).parent != folder / LEDGERS]
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    (partial / LEDGERS).mkdir(mode=0o700)
    if address is None:
        _copied(folder / REGISTRY, partial / REGISTRY)  # first: it may be behind, never ahead
    else:
        outside.append(address)
    sealed = folder / LEDGERS / SEALED
    if sealed.is_dir():
        shutil.copytree(sealed, partial / LEDGERS / SEALED)
        (partial / LEDGERS / SEALED).chmod(0o700)
    heads = {}
    # Those of groups last: one may have counted what a dataset was not charged, never less.
    for ledger in sorted((folder / LEDGERS).glob("*.ledger"), key=is_group_at):
        copy = partial / LEDGERS / ledger.name
        _copied(ledger, copy)
        heads[ledger.name] = _head(copy)
    shutil.copy2(folder / FILE, partial / FILE)
    if (folder / PASSWORDS).exists():
        shutil.copy2(folder / PASSWORDS, partial / PASSWORDS)
    about = {
        "made": now(), "heads": heads, "elsewhere": sorted(map(shown, outside)),
        "passwords": count(partial),
    }  # fmt: skip
    about = write_manifest(partial, about)
    partial.rename(out)
    _note_all(folder, "backup", ledgers=len(heads))
    return about | {"registry": address is None}


def _note_all(folder: Path, kind: str, **more: Any) -> None:
    """An entry in the audit log of every owner: this concerns them all."""
    with (
        closing(Registry.open(folder, ServerSettings.load(folder).registry)) as registry,
        acting_as(terminal()),
    ):
        for owner in People(registry).all_owners():
            AuditLog(registry).note(owner.tenant, kind, **more)


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
    """Put a backup in place: whole into a new folder, or what is missing into an old one.

    A ledger whose folder has seen later entries than the backup has is not put back: that would
    be going backwards. Nor is a second folder made while the first is there: each would spend the
    whole budget; nor anything put back from a copy of which a byte was changed. Each ledger says
    from then on that it was restored.
    """
    if not (copy / ABOUT).is_file():
        raise Refused(f"{str(copy)!r} is no backup: it has no {ABOUT}. `sulq backup` makes one.")
    if not reason.strip():
        raise Refused("reason: say why; it stays in the ledgers.")
    checked_text(reason, "reason", MAX_REASON, lines=True)
    copy, folder = copy.resolve(), folder.resolve()
    if copy == folder:
        raise Refused(
            f"{str(copy)!r} is the backup itself. Name the folder that it is put into; "
            "nothing was restored."
        )
    about = checked_manifest(copy)
    fresh = not folder.exists() or not any(folder.iterdir())
    restored = [] if fresh else _fill_in(copy, folder)
    if fresh:
        _check_gone(copy, folder, about["heads"])
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        folder.chmod(0o700)
        (folder / ABOUT).unlink()
        (folder / "data").mkdir(exist_ok=True, mode=0o700)
    for name, head in sorted(about["heads"].items(), key=lambda kept: not is_group_at(kept[0])):
        if fresh or _put_back(copy / LEDGERS / name, folder / LEDGERS / name):
            said = {"backup": about["made"], "reason": reason, "number": head["number"]}
            note_in(folder / LEDGERS / name, "restore", said)
            restored.append(name)
    if fresh or restored:
        _note_all(folder, "restore", backup=about["made"], reason=reason)
    return {"made": about["made"], "restored": restored, "whole": fresh}


def _check_gone(copy: Path, folder: Path, names: Iterable[str]) -> None:
    """Refuse a second folder while the one that was copied is still there."""
    secret = copy / LEDGERS / SEALED / "secret"
    if not (copy / REGISTRY).is_file():
        return  # of servers that share a registry, and so their ledgers
    with closing(sqlite3.connect(f"file:{quote(str(copy / REGISTRY))}?mode=ro", uri=True)) as file:
        rows = file.execute("SELECT arguments FROM datasets").fetchall()
    told = [former(json.loads(arguments), copy) for (arguments,) in rows]  # of a folder of before
    for name in names if secret.exists() else ():
        seal = Seal(copy / LEDGERS / name, secret.read_bytes())
        for before in (noted(seal), *(place / LEDGERS for place in told if place is not None)):
            if original(seal, folder / LEDGERS, before) is not None:
                raise Refused(
                    f"the folder of this backup is still there, with {name!r} in {str(before)!r}, "
                    "and each would spend the whole budget by itself. Nothing was restored.\n"
                    "Restore into that folder, which puts back what is missing; or, if it is not "
                    "to go on, stop it and take it away first."
                )


def _fill_in(copy: Path, folder: Path) -> list[str]:
    """Put back the registry, the settings and the seal where they are missing."""
    (folder / LEDGERS).mkdir(exist_ok=True, mode=0o700)
    restored = []
    for name in (REGISTRY, FILE, PASSWORDS):
        if not (folder / name).exists() and (copy / name).exists():
            shutil.copy2(copy / name, folder / name)
            restored.append(name)
    sealed = folder / LEDGERS / SEALED
    if not sealed.exists() and (copy / LEDGERS / SEALED).is_dir():
        shutil.copytree(copy / LEDGERS / SEALED, sealed)
        sealed.chmod(0o700)
        restored.append(SEALED)
    return restored


def _put_back(copy: Path, ledger: Path) -> bool:
    """Put one ledger back where it is missing or damaged; refuse to go backwards."""
    seal = Seal.open(ledger)
    if ledger.exists():
        try:
            book_at(ledger, seal).close()
            return False  # it is whole: nothing to restore
        except LedgerDamaged:
            pass
    aside = ledger.with_name(f"{ledger.name}.damaged")
    if ledger.exists():
        move(ledger, aside)
    shutil.copy2(copy, ledger)
    try:
        book_at(ledger, seal).close()
    except SulqError:
        ledger.unlink()
        move(aside, ledger)
        raise
    return True

"""Passwords of addresses, kept beside the registry and never in it.

    passwords.json    an address without its password -> the password    0600

The registry has addresses without passwords. Where a password stands in none of them, libpq looks
for one as it always does: in PGPASSWORD, in a service file, in ~/.pgpass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sulq.errors import LedgerDamaged
from sulq.ledger.seal import folder_lock, replace_file
from sulq.server.services.registry import Registry
from sulq.sources.postgres import PASSWORD, Address, is_address, with_word, without_password

FILE = "passwords.json"
PLACES = ("source", "ledger")


def kept(said: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Arguments of sulq.open as the registry keeps them; passwords go into their file."""
    out, secrets = dict(said), {}
    for name in PLACES:
        if is_address(said.get(name)):
            out[name], password = without_password(said[name])
            if password is not None:
                secrets[out[name]] = password
    if secrets.items() - _read(folder).items():
        with folder_lock(folder):
            text = json.dumps(_read(folder) | secrets, indent=2)
            replace_file(folder / FILE, text.encode())
    return out


def found(said: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The same as sulq.open takes them."""
    secrets = _read(folder) if any(is_address(said.get(name)) for name in PLACES) else {}
    known = {name: _secret(name, said.get(name), secrets) for name in PLACES}
    return dict(said) | {
        n: with_word(said[n], PASSWORD, secret) for n, secret in known.items() if secret
    }


def _secret(name: str, address: Any, secrets: Mapping[str, str]) -> str | None:
    """The password of an address; of a ledger, that of the server whose schema it is in."""
    if not is_address(address):
        return None
    own = secrets.get(address)
    return own or (secrets.get(Address.read(address).url) if name == "ledger" else None)


def keep_own(server: str | None, folder: Path) -> None:
    """Keep the password in the settings for the ledgers there, wherever each was begun."""
    if server is not None:
        kept({"ledger": Address.read(Address.read(server).url, "registry").url}, folder)


def move_out(registry: Registry, folder: Path) -> None:
    """Take the passwords out of a registry of before, and out of its file's free pages."""
    moved = False
    for row in registry.all("SELECT id, arguments FROM datasets"):
        said = json.loads(row["arguments"])
        if any(
            is_address(said.get(n)) and without_password(said[n])[1] is not None for n in PLACES
        ):
            now = json.dumps(kept(said, folder))
            with registry.writing() as run:
                run("UPDATE datasets SET arguments = ? WHERE id = ? AND arguments = ?",
                    now, row["id"], row["arguments"])  # fmt: skip
            moved = True
    if moved:
        registry.store.scrub()


def count(folder: Path) -> int:
    """How many passwords a folder holds."""
    return len(_read(folder))


def _read(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError):
        raise LedgerDamaged(
            f"{FILE} in the server's folder cannot be read. Nothing is answered.\nRestore it from "
            "a backup, or offer the datasets of PostgreSQL again, with their passwords."
        ) from None

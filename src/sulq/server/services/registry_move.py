"""A folder's registry file -> the PostgreSQL that the settings name now, once and whole.

The rows are copied in one transaction, and the file then gets another name. If the server died
between the two, the copy is recognised by a hash of all its rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger.seal import folder_lock
from sulq.server.services.high_water import HighWater
from sulq.server.services.registry import FILE, Registry, Run
from sulq.server.services.registry_file import RegistryFile

MOVED = f"{FILE}.moved"
# In the order in which rows may refer to each other.
TABLES = (
    "people", "keys", "datasets", "members", "late", "alarms", "sessions", "entrances", "asked",
    "models", "boards", "board_items", "shares", "events", "audit_log", "identities", "oidc_used",
    "webhooks", "outbox", "told", "key_accounts", "key_questions", "accounts",
)  # fmt: skip
NUMBERED = ("people", "datasets", "alarms", "events")


def open_registry(folder: Path, address: str | None) -> Registry:
    """The registry that the settings name; a file that was used before is moved there first."""
    registry = Registry.open(folder, address)
    if address is None:
        return registry
    try:
        with folder_lock(folder):
            if (folder / FILE).is_file():
                _move(folder / FILE, registry)
        _check_ledgers(folder, registry)
    except BaseException:
        registry.close()
        raise
    return registry


def _move(file: Path, registry: Registry) -> None:
    with closing(RegistryFile(file)) as old:
        old.check_version()
        found = {table: [dict(row) for row in _rows(old, table)] for table in TABLES}
        ((latest,),) = old.rows("SELECT latest FROM clock", ())
    text = json.dumps(found, sort_keys=True, default=bytes.hex)
    digest = sha256(text.encode()).hexdigest()
    with registry.writing() as run:
        known = [row[0] for row in run("SELECT digest FROM moved").fetchall()]
        if digest not in known:
            _check_empty(run, file)
            _copy(run, found, latest)
            run("INSERT INTO moved (digest) VALUES (?)", digest)
    registry.clock = HighWater(registry)  # not below what the file had seen
    for end in ("", "-wal", "-shm"):
        if Path(f"{file}{end}").exists():
            os.replace(f"{file}{end}", file.with_name(f"{MOVED}{end}"))


def _rows(old: RegistryFile, table: str) -> Sequence[Any]:
    """All rows of a table, in the order they came."""
    ((bare,),) = old.rows(f"SELECT wr FROM pragma_table_list('{table}')", ())
    return old.rows(f"SELECT * FROM {table}" + ("" if bare else " ORDER BY rowid"), ())


def _check_empty(run: Run, file: Path) -> None:
    if run("SELECT count(*) FROM people").fetchone()[0]:
        raise Refused(
            f"the registry that `registry` names has owners already, and {str(file)!r} is another "
            "one. Nothing was changed.\nTo go on with the one on the server, take the file away; "
            "for the file, name another schema with ?registry=NAME in the address."
        )


def _copy(run: Run, found: dict[str, list[dict[str, Any]]], latest: int) -> None:
    for table, rows in found.items():
        for row in rows:
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            run(f"INSERT INTO {table} ({names}) VALUES ({marks})", *row.values())
    run("UPDATE clock SET latest = ? WHERE latest < ?", latest, latest)
    for table in NUMBERED:  # the next number is one that no row has
        run(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "
            f"(SELECT coalesce(max(id), 0) + 1 FROM {table}), false)")  # fmt: skip


def _check_ledgers(folder: Path, registry: Registry) -> None:
    """Raise if there are ledgers here and nobody whose they are: never a fresh start."""
    ledgers = any((folder / "ledgers").glob("*.ledger"))
    if ledgers and not registry.one("SELECT count(*) FROM datasets")[0]:
        raise LedgerDamaged(
            "the registry is empty, but ledgers of its datasets are in the folder 'ledgers'. "
            "Nothing is answered.\nRestore the database that `registry` names."
        )

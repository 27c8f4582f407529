"""Places in a server's folder, written down relative to it, so that the folder can move.

Folders of before wrote down whole paths. Such a path is still understood: if a ledger of its name
is in this folder, then this is the folder that was there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sulq.errors import LedgerDamaged, SourceChanged
from sulq.ledger.location import exists, noted, settle, shown
from sulq.ledger.seal import FOLDER, Seal
from sulq.server.services import passwords
from sulq.server.services.registry import Registry

LEDGERS = "ledgers"
PLACES = ("ledger", "source", "simulate")


def kept(said: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Arguments of sulq.open as the registry keeps them."""
    inside = {n: _relative(str(said[n]), folder) for n in PLACES if n in said}
    return passwords.kept(dict(said) | inside, folder)


def found(said: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The same as sulq.open takes them, wherever the folder is now."""
    before = former(said, folder)
    whole = {n: _absolute(said[n], folder, before) for n in PLACES if n in said}
    return passwords.found(dict(said) | whole, folder)


def every(registry: Registry, folder: Path) -> list[tuple[int, str, dict[str, Any]]]:
    """The tenant, the state and the arguments of each dataset, closed ones too."""
    rows = registry.all("SELECT house, state, arguments FROM datasets")
    return [(r["house"], r["state"], found(json.loads(r["arguments"]), folder)) for r in rows]


def former(said: Mapping[str, Any], folder: Path) -> Path | None:
    """Where the folder was when it wrote down whole paths; None if it did not."""
    ledger = Path(said["ledger"])
    if "://" in said["ledger"] or not ledger.is_absolute() or ledger.parent.name != LEDGERS:
        return None
    return ledger.parent.parent if (folder / LEDGERS / ledger.name).exists() else None


def note_former(said: Mapping[str, Any], folder: Path) -> None:
    """Tell the seal of a folder of before where its ledger was, so that a copy is noticed."""
    before = former(said, folder)
    if before is not None:
        seal = Seal.open(folder / LEDGERS / Path(said["ledger"]).name)
        if noted(seal) is None:
            settle(seal, before / LEDGERS)


def check_lost(registry: Registry, folder: Path, tenant: int) -> None:
    """Raise if a ledger is gone with its mark: the rows of a new dataset may have been its rows.

    Another tenant's ledger is not named.
    """
    for whose, _, said in every(registry, folder):
        ledger = Path(said["ledger"])
        mark = folder / LEDGERS / FOLDER / f"{ledger.name}.mark"
        if ledger.parent == folder / LEDGERS and not ledger.exists() and not mark.exists():
            which = f"The ledger {ledger.name!r}" if whose == tenant else "A ledger"
            raise LedgerDamaged(
                f"{which} of this server is gone, with what was known of its "
                "rows. Nothing was made, since these rows may be the same.\nPut it back with "
                "`sulq restore COPY DIR --reason ...`."
            )


def check_there(name: str, arguments: Mapping[str, Any]) -> None:
    """Raise if a dataset's ledger or rows are gone: never a fresh start."""
    source = str(arguments["source"])
    if not exists(arguments["ledger"]):
        raise LedgerDamaged(
            f"The ledger {shown(arguments['ledger'])!r} of {name!r} is gone. Nothing is answered.\n"
            "Put it back with `sulq restore COPY DIR --reason ...`."
        )
    if "://" not in source and not Path(source).exists():
        raise SourceChanged(
            f"the rows of {name!r} are gone: {Path(source).name!r} is not where it was. Nothing "
            "was charged.\nPut the file back; a backup has no rows."
        )


def _relative(place: str, folder: Path) -> str:
    path = Path(place)
    inside = "://" not in place and path.is_relative_to(folder)
    return str(path.relative_to(folder)) if inside else place


def _absolute(place: str, folder: Path, before: Path | None) -> str:
    if "://" in place:
        return place
    path = Path(place)
    if before is not None and path.is_relative_to(before):
        path = path.relative_to(before)
    return str(folder / path)

"""What a backup holds, with a hash of each file: checked whole before anything is restored.

`backup.json` is written in one way only and carries the hash of itself, so that any byte of a
backup that was changed, lost or added is noticed. Whoever can write to it can write a whole other
one: keep its digest elsewhere to notice that too.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger.chain import canonical

FILE = "backup.json"
VERSION = 2  # 1 had no hashes
DIGEST = "digest"


def write_manifest(copy: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Write what a whole copy holds beside it; gives it with its digest."""
    said = about | {"version": VERSION, "files": dict(_hashes(copy))}
    whole = said | {DIGEST: _digest(said)}
    with (copy / FILE).open("xb") as file:
        file.write(_bytes(whole))
        file.flush()
        os.fsync(file.fileno())
    return whole


def checked_manifest(copy: Path) -> dict[str, Any]:
    """What a backup says of itself, once every byte of it is as it was made; or LedgerDamaged."""
    try:
        written = (copy / FILE).read_bytes()
    except OSError:
        raise Refused(
            f"{str(copy)!r} is no backup: it has no {FILE}. `sulq backup` makes one."
        ) from None
    try:
        whole = json.loads(written)
        said = {name: value for name, value in whole.items() if name != DIGEST}
        older = DIGEST not in whole and "files" not in whole and "heads" in whole
        same = _bytes(whole) == written and whole.get(DIGEST) == _digest(said)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise _changed(FILE, "was changed") from None
    if older:
        raise Refused(
            f"{str(copy)!r} was made by an older sulq and has no hashes to check it by. Nothing "
            "was restored.\nRestore it with that version, and make a new backup with this one."
        )
    if not same or said.get("version") != VERSION:
        raise _changed(FILE, "was changed")
    found = dict(_hashes(copy))
    for name in sorted(said["files"].keys() | found.keys()):
        if name not in found:
            raise _changed(name, "is missing")
        if name not in said["files"]:
            raise _changed(name, "was not in it when it was made")
        if found[name] != said["files"][name]:
            raise _changed(name, "was changed")
    return dict(said)


def _hashes(copy: Path) -> Iterator[tuple[str, str]]:
    """The hash of each file, by its path in the copy; a link or a pipe is no part of one."""
    for path in sorted(copy.rglob("*")):
        name = path.relative_to(copy).as_posix()
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind) or name == FILE:
            continue
        if not stat.S_ISREG(kind):
            raise _changed(name, "is no plain file")
        with path.open("rb") as file:
            yield name, file_digest(file, "sha256").hexdigest()


def _bytes(whole: dict[str, Any]) -> bytes:
    return canonical(whole).encode() + b"\n"


def _digest(said: dict[str, Any]) -> str:
    return sha256(canonical(said).encode()).hexdigest()


def _changed(name: str, what: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"{name!r} of this backup {what}, so nothing was restored.\nTake another copy of it, or "
        "the backup before."
    )

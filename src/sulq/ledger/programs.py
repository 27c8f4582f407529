"""The WebAssembly modules that paid questions ran: each is an entry of the chain, once.

It is written before the first charge that names it, in the same transaction. So the owner can read
what was run, and a question can be read back when the ledger is opened again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, bindparam, select, text

from sulq.errors import QueryNotAllowed
from sulq.ledger.chain import DECISION, ENTRIES, Page, now

KIND = "program"
MAX_KEPT = 1_000  # modules in one ledger

_kept = select(ENTRIES).where(text(DECISION), ENTRIES.c.kind == KIND)
_known = _kept.where(ENTRIES.c.body.like(bindparam("begin")))


@dataclass(frozen=True, slots=True)
class KeptProgram:
    """A module that a ledger keeps."""

    number: int  # its entry
    hash: str
    time: str
    code: bytes


def not_kept(page: Page, modules: Iterable[bytes]) -> dict[str, bytes]:
    """The modules that the ledger has not yet, by their hashes; refused if they are too many."""
    named = {sha256(code).hexdigest(): code for code in modules}
    new = {name: code for name, code in named.items() if not _is_kept(page, _begin(name))}
    if new:
        kept = page.connection.execute(_kept.with_only_columns(ENTRIES.c.number)).all()
        if len(kept) + len(new) > MAX_KEPT:
            raise QueryNotAllowed(
                f"the ledger keeps {len(kept):,} programs already, at most {MAX_KEPT:,}. Nothing "
                "was charged.\nAsk with one of them."
            )
    return new


def keep_programs(page: Page, modules: Mapping[str, bytes]) -> None:
    """Append modules to the chain."""
    for name, code in modules.items():
        module = base64.b64encode(code).decode()
        page.append(KIND, {"hash": name, "module": module, "time": now()})


def _is_kept(page: Page, begin: str) -> bool:
    """Is there an entry that begins so, written or waiting on the page?"""
    if any(e["kind"] == KIND and e["body"].startswith(begin) for e in page.entries):
        return True
    return page.connection.execute(_known, {"begin": f"{begin}%"}).first() is not None


def _begin(name: str) -> str:
    """How the entry of a module begins, in canonical JSON."""
    return f'{{"hash":"{name}"'


def kept_programs(connection: Connection, name: str = "") -> list[KeptProgram]:
    """The modules, oldest first; those whose hash begins so."""
    rows = connection.execute(_kept.order_by(ENTRIES.c.number)).all()
    return [_read(row) for row in rows if row.body.startswith(_begin(name)[:-1])]


def _read(row: Any) -> KeptProgram:
    body = json.loads(row.body)
    return KeptProgram(row.number, body["hash"], body["time"], base64.b64decode(body["module"]))

"""What a charge brings along: modules that it runs, sets of keys that name its rows, discoveries.

Each is an entry of the chain, written before the first charge that needs it, in the same
transaction; a module and a set once. So the owner can read what was run and whom a question was
about, and a question can be read back when the ledger is opened again. Of discoveries, which name
values that nobody listed, the promise allows so many in the ledger's whole life: it sets a share of
delta aside for them, and refreshes change nothing about it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, text

from sulq.errors import QueryNotAllowed
from sulq.ledger.chain import DECISION, ENTRIES, Page, now
from sulq.ledger.types import Request

PROGRAM, KEYS, DISCOVER = "program", "keys", "discover"  # kinds of entries
MAX_PROGRAMS = 1_000  # in one ledger
MAX_SETS = 10_000

_all = select(ENTRIES).where(text(DECISION), ENTRIES.c.kind == bindparam("kind"))
_known = _all.where(ENTRIES.c.body.like(bindparam("begin")))


@dataclass(frozen=True, slots=True)
class KeptProgram:
    """A module that a ledger keeps."""

    number: int  # its entry
    hash: str
    time: str
    code: bytes


@dataclass(frozen=True, slots=True)
class Beside:
    """What is new of some requests: modules and sets by their hashes, and how many discoveries."""

    modules: Mapping[str, bytes]
    sets: Mapping[str, tuple[Any, ...]]
    discoveries: int

    def keep(self, page: Page) -> None:
        """Append it to the chain."""
        for name, code in self.modules.items():
            module = base64.b64encode(code).decode()
            page.append(PROGRAM, {"hash": name, "module": module, "time": now()})
        for name, keys in self.sets.items():
            page.append(KEYS, {"hash": name, "keys": keys, "time": now()})
        if self.discoveries:
            page.append(DISCOVER, {"count": self.discoveries, "time": now()})


def allowed_discoveries(terms: Mapping[str, Any]) -> int:
    """How many discoveries the promise allows in all."""
    return int(terms.get("promise", {}).get("discoveries", 0))


def brought_along(page: Page, new: Iterable[Request], discoveries: int, name: str) -> Beside:
    """What the ledger has not yet of these requests; refused if it would be too much."""
    asked = list(new)
    codes = {sha256(code).hexdigest(): code for request in asked for code in request.programs}
    modules = {key: code for key, code in codes.items() if not _is_kept(page, PROGRAM, key)}
    if modules and (kept := _count(page, PROGRAM)) + len(modules) > MAX_PROGRAMS:
        raise QueryNotAllowed(
            f"the ledger keeps {kept:,} programs already, at most {MAX_PROGRAMS:,}. Nothing "
            "was charged.\nAsk with one of them."
        )
    named = dict(each for request in asked for each in request.key_sets)
    sets = {key: keys for key, keys in named.items() if not _is_kept(page, KEYS, key)}
    if sets and _count(page, KEYS) + len(sets) > MAX_SETS:
        raise QueryNotAllowed(
            f"the ledger keeps {MAX_SETS:,} sets of keys at most. Nothing was charged.\nChoose "
            "rows by a public column, or by shards."
        )
    return Beside(modules, sets, _affordable(page, asked, discoveries, name))


def _affordable(page: Page, new: Iterable[Request], most: int, name: str) -> int:
    """How many discoveries these requests are; refused if they are more than there are left."""
    wanted = sum(request.discoveries for request in new)
    if not wanted:
        return 0
    bodies = [row.body for row in page.connection.execute(_all, {"kind": DISCOVER})]
    bodies += [entry["body"] for entry in page.entries if entry["kind"] == DISCOVER]
    made = sum(json.loads(body)["count"] for body in bodies)
    if made + wanted > most:
        raise QueryNotAllowed(
            f"discover: {made:,} of {most:,} discoveries of {name!r} are made, and {wanted:,} more "
            "are asked for. The promise sets a share of delta aside for so many. Nothing was "
            "charged.\nWhat was found before stays free to ask for."
        )
    return wanted


def _count(page: Page, kind: str) -> int:
    counted = _all.with_only_columns(func.count())
    return int(page.connection.execute(counted, {"kind": kind}).scalar_one())


def _is_kept(page: Page, kind: str, name: str) -> bool:
    """Is there an entry of this hash, written or waiting on the page?"""
    begin = f'{_begin(name)}"'
    if any(e["kind"] == kind and e["body"].startswith(begin) for e in page.entries):
        return True
    found = page.connection.execute(_known, {"kind": kind, "begin": f"{begin}%"})
    return found.first() is not None


def _begin(name: str) -> str:
    """How the entry of a hash that begins so begins, in canonical JSON."""
    return f'{{"hash":"{name}'


def kept_programs(connection: Connection, name: str = "") -> list[KeptProgram]:
    """The modules, oldest first; those whose hash begins so."""
    rows = connection.execute(_all.order_by(ENTRIES.c.number), {"kind": PROGRAM}).all()
    return [_program(row) for row in rows if row.body.startswith(_begin(name))]


def _program(row: Any) -> KeptProgram:
    body = json.loads(row.body)
    return KeptProgram(row.number, body["hash"], body["time"], base64.b64decode(body["module"]))

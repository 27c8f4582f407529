"""The sets of keys that paid questions named rows by: each is an entry of the chain, once.

It is written before the first charge that names its hash, in the same transaction. So the owner can
read whom a question was about.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select, text

from sulq.errors import QueryNotAllowed
from sulq.ledger.chain import DECISION, ENTRIES, Page, now

KIND = "keys"
MAX_KEPT = 10_000  # sets in one ledger

_kept = select(ENTRIES.c.number).where(text(DECISION), ENTRIES.c.kind == KIND)
_known = (
    select(ENTRIES.c.body)
    .where(text(DECISION), ENTRIES.c.kind == KIND)
    .where(ENTRIES.c.body.like(bindparam("begin")))
)

Sets = Mapping[str, tuple[Any, ...]]  # by their hashes


def sets_not_kept(page: Page, sets: Iterable[tuple[str, tuple[Any, ...]]]) -> Sets:
    """The sets that the ledger has not yet; refused if they are too many."""
    new = {name: keys for name, keys in dict(sets).items() if not _is_kept(page, name)}
    if new and len(page.connection.execute(_kept).all()) + len(new) > MAX_KEPT:
        raise QueryNotAllowed(
            f"the ledger keeps {MAX_KEPT:,} sets of keys at most. Nothing was charged.\nChoose "
            "rows by a public column, or by shards."
        )
    return new


def keep_sets(page: Page, sets: Sets) -> None:
    """Append sets of keys to the chain."""
    for name, keys in sets.items():
        page.append(KIND, {"hash": name, "keys": keys, "time": now()})


def kept_set(connection: Connection, name: str) -> tuple[Any, ...] | None:
    """The keys of the set with this hash, or with one that begins so."""
    row = connection.execute(_known, {"begin": f'{{"hash":"{name}%'}).first()
    return None if row is None else tuple(json.loads(row[0])["keys"])


def _is_kept(page: Page, name: str) -> bool:
    begin = f'{{"hash":"{name}"'
    if any(e["kind"] == KIND and e["body"].startswith(begin) for e in page.entries):
        return True
    return page.connection.execute(_known, {"begin": f"{begin}%"}).first() is not None

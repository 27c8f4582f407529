"""The ledger, page by page: an analyst's own questions, an owner's whole chain."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from sulq.database import Database
from sulq.report import answer_parts
from sulq.wording import readable

LOOKED_AT = 5000  # entries of the chain for one page


def page_of(
    db: Database, analyst: str, after: int, limit: int, shown: Callable[[str], bool]
) -> dict[str, Any]:
    """What one analyst asked behind an entry, with the answers that may be shown already.

    `next` continues; None: there is no more for now. Questions of others are passed over.
    """
    found: list[dict[str, Any]] = []
    last = after
    entries = itertools.islice(db.entries(after + 1), LOOKED_AT)
    for entry in entries:
        last = entry.number
        body = entry.body
        if entry.kind != "charge" or body["analyst"] != analyst or _is_list(body["query"]):
            continue
        found.append(_charge(db, entry.number, body, shown(body["time"])))
        if len(found) == limit:
            break
    more = next(db.entries(last + 1), None) is not None
    return {"answers": found, "next": last if more else None}


def _is_list(query: str) -> bool:
    """The free line that stands for a whole batch with a request id."""
    return query.startswith('{"batch"')


def _charge(db: Database, number: int, body: dict[str, Any], shown: bool) -> dict[str, Any]:
    kept = {k: body[k] for k in ("query", "price", "remaining", "request", "time", "analyst")}
    own = {"own": body["own"]} if "own" in body else {}
    return {
        "number": number,
        "question": readable(body["query"]),
        "answer": answer_parts(db, body["query"]) if shown else None,
        **kept,
        **own,
    }


def chain_of(db: Database) -> Iterator[bytes]:
    """Every entry as a line of JSON, for whoever checks the hashes elsewhere."""
    for entry in db.entries():
        yield json.dumps(asdict(entry)).encode() + b"\n"

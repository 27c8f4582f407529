"""The ledger, page by page: an analyst's own questions, an owner's whole chain."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

from sulq.database import Database
from sulq.ledger import Entry
from sulq.report import answer_parts, decision
from sulq.wording import readable

LOOKED_AT = 5000  # entries of the chain for one page
CHARTED = 20_000  # the last entries, which a timeline is drawn and searched in
POINTS = 300  # of a drawn curve


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


def newest_of(db: Database, analyst: str, limit: int) -> dict[str, Any]:
    """The last questions of one analyst, newest first, without their answers."""
    first = max(0, db._ledger._last() + 1 - CHARTED)
    found: deque[Entry] = deque(maxlen=limit)  # put into words once it is known which
    for entry in db.entries(first):
        body = entry.body
        if entry.kind == "charge" and body["analyst"] == analyst and not _is_list(body["query"]):
            found.append(entry)
    charges = [_charge(db, entry.number, entry.body, False) for entry in reversed(found)]
    return {"answers": charges, "next": None}


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


# ---- the owner's timeline -------------------------------------------------------------------


def timeline_of(
    db: Database, before: int | None, limit: int, text: str, analyst: str, kind: str
) -> dict[str, Any]:
    """The last charges and decisions that fit, newest first, and how spending grew.

    `curve` has [time, micro-queries spent by the rows that spent most]; only the last entries of
    a long ledger are looked at, and `first` says from which on.
    """
    last = db._ledger._last()
    first = max(0, last + 1 - CHARTED)
    total, most = db._ledger.total, 0
    curve: list[tuple[str, int]] = []
    fitting: list[Entry] = []
    people: set[str] = set()
    for entry in db.entries(first):
        body = entry.body
        if entry.kind in ("answer", "retry") or (
            entry.kind == "charge" and _is_list(body["query"])
        ):
            continue
        if entry.kind == "charge":
            people.add(body["analyst"])
            most = max(most, total - body["remaining"])
            curve.append((body["time"], most))
        if before is not None and entry.number >= before:
            continue
        if kind in ("", entry.kind) and analyst in ("", body.get("analyst", "")):
            fitting.append(entry)
    found = list(itertools.islice(_lines(reversed(fitting), text), limit + 1))
    return {
        "entries": found[:limit],
        "next": found[limit - 1]["number"] if len(found) > limit else None,
        "curve": _thinned(curve),
        "total_micro": total,
        "spent_micro": db._ledger.budget()[1],
        "people": sorted(people),
        "first": first,
        "last": last,
    }


def _lines(entries: Iterable[Entry], text: str) -> Iterator[dict[str, Any]]:
    """Those with the text in their words, put into words one by one."""
    for entry in entries:
        line = _line(entry.number, entry.kind, entry.body)
        if text.lower() in f"{line['what']} {line['analyst'] or ''}".lower():
            yield line


def _line(number: int, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """One entry in words."""
    if kind == "charge":
        what, price, left = readable(body["query"]), body["price"], body["remaining"]
        who = body["analyst"]
    else:
        what, price, left, who = decision(kind, body), None, None, None
    return {
        "number": number, "kind": kind, "time": body.get("time"), "what": what, "analyst": who,
        "price_micro": price, "remaining_micro": left,
    }  # fmt: skip


def _thinned(curve: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """At most so many points, the last one among them."""
    step = max(1, -(-len(curve) // POINTS))
    return curve[::-1][::step][::-1]

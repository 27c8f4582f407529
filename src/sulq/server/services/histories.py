"""The ledger, page by page: an analyst's own questions, an owner's whole chain."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any

from sulq.database import Database
from sulq.ledger import Charge, Entry, Ledger, canonical
from sulq.ledger.chain import digest
from sulq.ledger.chain_lines import Link
from sulq.questions.describe import readable
from sulq.report import answer_parts, decision

CHARTED = 20_000  # the last entries, which a timeline is drawn and searched in
POINTS = 300  # of a drawn curve
PAGE = 200  # charges read at a time


def page_of(db: Database, analyst: str, after: int, limit: int) -> dict[str, Any]:
    """What one analyst asked behind an entry, with the answers that are stored.

    `next` continues; None: there is no more for now. Questions of others are passed over.
    """
    asked = db._ledger.charges(after=after, analyst=analyst, limit=limit + 1, batches=False)
    found = [_charge(db, charge, True) for charge in asked[:limit]]
    return {"answers": found, "next": asked[limit - 1].number if len(asked) > limit else None}


def newest_of(db: Database, analyst: str, limit: int) -> dict[str, Any]:
    """The last questions of one analyst, newest first, without their answers."""
    asked = db._ledger.charges(analyst=analyst, limit=limit, newest=True, batches=False)
    return {"answers": [_charge(db, charge, False) for charge in asked], "next": None}


def newest_with(db: Database, analyst: str, limit: int, texts: Set[str]) -> list[dict[str, Any]]:
    """The last questions of one analyst, newest first: those whose text has one of these hashes."""
    end = db._ledger.head().number + 1
    asked = _charges(db._ledger, max(0, end - CHARTED), end, analyst)
    own = (charge for charge in asked if digest(charge.query) in texts)
    return [_charge(db, charge, False) for charge in itertools.islice(own, limit)]


def _charge(db: Database, charge: Charge, shown: bool) -> dict[str, Any]:
    said = asdict(charge)
    if charge.own is None:
        del said["own"]
    answer = answer_parts(db, charge.query) if shown else None
    return said | {"question": readable(charge.query), "answer": answer}


def chain_of(db: Database) -> Iterator[bytes]:
    """Every entry as a line of JSON, for whoever checks the hashes elsewhere."""
    for entry in db.entries():
        yield Link(**(asdict(entry) | {"body": canonical(entry.body)})).line()


# ---- the owner's timeline -------------------------------------------------------------------


# Kinds that are looked for together.
TOGETHER = {
    "freeze": ("freeze", "thaw", "resume"),
    "invite": ("invite", "uninvite", "remove"),
    "key": ("key", "revoke"),
}
MAX_EVENTS = 500  # on one page
NO_PRICE = {"price_micro": None, "remaining_micro": None}


def timeline_of(
    db: Database, before: int | None, limit: int, text: str, analyst: str, kind: str,
    events: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:  # fmt: skip
    """The last charges and decisions that fit, newest first, and how spending grew.

    `events` of the registry stand among them by their time, without a number of their own.
    `curve` has [time, micro-queries spent by the rows that spent most]; only the last entries of
    a long ledger are looked at, and `first` says from which on.
    """
    ledger = db._ledger
    last = ledger.head().number
    first = max(0, last + 1 - CHARTED)
    end = last + 1 if before is None else min(before, last + 1)
    lines = map(_line, _newest_first(ledger, first, end, analyst, kind))
    found = list(itertools.islice((line for line in lines if _has(text, line)), limit + 1))
    oldest = str(found[limit - 1]["time"]) if len(found) > limit else ""
    newest = None if before is None else _time_of(ledger, end)
    among = [
        event
        for event in reversed(events)
        if oldest <= event["time"] and (newest is None or event["time"] < newest)
        and _is_of(kind, event["kind"]) and analyst in ("", event["analyst"])
        and _has(text, event)
    ]  # fmt: skip
    unnumbered = [{"number": None, **NO_PRICE, **event} for event in among[:MAX_EVENTS]]
    merged = heapq.merge(unnumbered, found[:limit], key=lambda e: str(e["time"]), reverse=True)
    return {
        "entries": list(merged),
        "next": found[limit - 1]["number"] if len(found) > limit else None,
        "curve": ledger.spending_since(first, POINTS),
        "total_micro": ledger.total,
        "spent_micro": ledger.budget()[1],
        "people": ledger.analysts_since(first),
        "first": first,
        "last": last,
    }


def _newest_first(
    ledger: Ledger, first: int, end: int, analyst: str, kind: str
) -> Iterator[Charge | Entry]:
    """Charges and decisions from entry `first` up to `end`, of one analyst or kind if named."""
    decisions = [
        entry
        for entry in reversed(ledger.decisions(after=first - 1, before=end))
        if _is_of(kind, entry.kind) and analyst in ("", entry.body.get("analyst", ""))
    ]
    charges = _charges(ledger, first, end, analyst) if kind in ("", "charge") else ()
    return heapq.merge(charges, decisions, key=lambda found: -found.number)


def _charges(ledger: Ledger, first: int, end: int, analyst: str) -> Iterator[Charge]:
    """Charges, newest first, read as far as somebody looks."""
    while page := ledger.charges(
        after=first - 1, before=end, analyst=analyst or None, limit=PAGE, newest=True,
        batches=False,
    ):  # fmt: skip
        yield from page
        end = page[-1].number


def _has(text: str, line: Mapping[str, Any]) -> bool:
    return text.lower() in f"{line['what']} {line['analyst'] or ''}".lower()


def _is_of(wanted: str, kind: str) -> bool:
    return wanted == "" or kind in TOGETHER.get(wanted, (wanted,))


def _time_of(ledger: Ledger, number: int) -> str | None:
    """When an entry was made; None if there is none of this number."""
    charges = ledger.charges(after=number - 1, before=number + 1, limit=1, batches=False)
    decisions = ledger.decisions(after=number - 1, before=number + 1)
    times = [c.time for c in charges] + [e.body.get("time") for e in decisions]
    return next((str(time) for time in times if time), None)


def _line(found: Charge | Entry) -> dict[str, Any]:
    if isinstance(found, Entry):
        what = decision(found.kind, found.body)
        said = {"kind": found.kind, "time": found.body.get("time"), "what": what}
        return {"number": found.number, "analyst": None} | said | NO_PRICE
    return {
        "number": found.number, "kind": "charge", "time": found.time,
        "what": readable(found.query), "analyst": found.analyst,
        "price_micro": found.price, "remaining_micro": found.remaining,
    }  # fmt: skip

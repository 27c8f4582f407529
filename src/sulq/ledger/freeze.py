"""A scan failed although its engine was there: from that entry on nothing new is paid or kept.

The freeze is an entry of the chain, so that every process that shares the ledger sees it and
opening it again does not clear it. Only the owner's `resume` does, which is an entry too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, bindparam, select

from sulq.errors import EngineFailed, Frozen, Refused
from sulq.ledger.chain import ENTRIES, Page, now
from sulq.ledger.older_text import question_of
from sulq.ledger.types import Freeze, Head

FREEZE, RESUME = "freeze", "resume"
MAX_REASON = 1000
MAX_QUESTIONS = 20  # that one entry names

_newest = (
    select(ENTRIES.c.number, ENTRIES.c.kind, ENTRIES.c.body)
    .where(ENTRIES.c.number > bindparam("seen"), ENTRIES.c.kind.in_((FREEZE, RESUME)))
    .order_by(ENTRIES.c.number.desc())
    .limit(1)
)


def followed(
    known: Freeze | None, number: int, kind: str, body: Mapping[str, Any]
) -> Freeze | None:
    """What one more entry makes of it."""
    if kind == RESUME:
        return None
    if kind != FREEZE:
        return known
    questions = tuple(question_of(text) for text in body["questions"])
    return Freeze(number, body["time"], questions, body["engine"], body["error"])


def current(connection: Connection, seen: Head, head: Head, known: Freeze | None) -> Freeze | None:
    """Is it frozen at `head`, if at `seen` it was as `known` says?"""
    if head.number == seen.number:
        return known
    row = connection.execute(_newest, {"seen": seen.number}).fetchone()
    return known if row is None else followed(known, row.number, row.kind, json.loads(row.body))


def freeze(page: Page, failed: Freeze) -> Freeze:
    """Append the freeze."""
    body = asdict(failed) | {"questions": failed.questions[:MAX_QUESTIONS]}
    del body["number"]
    return replace(failed, number=page.append(FREEZE, body))


def resume(page: Page, known: Freeze | None, reason: Any) -> int:
    """Append the owner's decision to go on; give its entry."""
    if known is None:
        raise Refused("resume: nothing is frozen here, so there is nothing to go on from.")
    if not isinstance(reason, str) or not 0 < len(reason.strip()) <= MAX_REASON:
        raise Refused(
            f"reason: say why it may go on, in at most {MAX_REASON:,} letters; it stays in the "
            "ledger."
        )
    return page.append(RESUME, {"reason": reason, "freeze": known.number, "time": now()})


def refusal(name: str, known: Freeze) -> Frozen:
    """Why a new question is not answered. It depends on the ledger only."""
    return Frozen(
        f"{name!r} is frozen since {known.time}: a scan failed although its engine was there, and "
        "whether one fails may depend on rows. Nothing was charged.\nStored answers stay free. "
        "For new ones its owner looks at what failed and goes on: db.resume(reason), or "
        "`sulq resume`."
    )


def withheld(name: str) -> EngineFailed:
    """What everyone hears who had paid when it froze, whether or not their own scan failed."""
    return EngineFailed(
        f"{name!r} froze while this was being answered: a scan failed although its engine was "
        "there, and whether one fails may depend on rows. The charge stands.\nOnce its owner goes "
        "on, asking the same question again does not pay again."
    )

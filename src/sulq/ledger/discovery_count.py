"""How often values that nobody listed were named: each time is an entry of the chain.

The promise sets a share of delta aside for so many discoveries in the ledger's whole life. The
entry is written with the charge, in the same transaction; refreshes change nothing about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select, text

from sulq.errors import QueryNotAllowed
from sulq.ledger.chain import DECISION, ENTRIES, Page, now
from sulq.ledger.types import Request

KIND = "discover"

_made = select(ENTRIES.c.body).where(text(DECISION), ENTRIES.c.kind == KIND)


def allowed(terms: Mapping[str, Any]) -> int:
    """How many discoveries the promise allows in all."""
    return int(terms.get("promise", {}).get("discoveries", 0))


def check_discoveries(page: Page, new: Iterable[Request], most: int, name: str) -> int:
    """How many discoveries these requests are; refused if they are more than there are left."""
    wanted = sum(request.discoveries for request in new)
    if not wanted:
        return 0
    bodies = [row[0] for row in page.connection.execute(_made)]
    bodies += [entry["body"] for entry in page.entries if entry["kind"] == KIND]
    made = sum(json.loads(body)["count"] for body in bodies)
    if made + wanted > most:
        raise QueryNotAllowed(
            f"discover: {made:,} of {most:,} discoveries of {name!r} are made, and {wanted:,} more "
            "are asked for. The promise sets a share of delta aside for so many. Nothing was "
            "charged.\nWhat was found before stays free to ask for."
        )
    return wanted


def keep_discoveries(page: Page, count: int) -> None:
    """Append what is about to be asked to the chain."""
    if count:
        page.append(KIND, {"count": count, "time": now()})

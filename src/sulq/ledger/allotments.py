"""What each analyst has spent, and the most that the owner lets them spend of the total.

An allotment is a cap, not a reservation: the total stays one for everybody, because analysts
can pool what they learn (PODS 05, 3.1.3). It is kept in the same transaction as the charge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import Connection, bindparam, insert, select, update

from sulq.errors import BudgetExceeded, Refused, in_queries
from sulq.ledger.chain import ANALYSTS, Page, now
from sulq.ledger.statements import among, run
from sulq.ledger.types import Allotment, Request

NOTHING = Allotment(0, None)
MAX_NAME = 200

_all = select(ANALYSTS)
_new = insert(ANALYSTS)
_set = (
    update(ANALYSTS)
    .where(ANALYSTS.c.analyst == bindparam("who"))
    .values(spent=bindparam("spending"), allotted=bindparam("allotment"))
)


def allotments(connection: Connection, names: Iterable[str] | None = None) -> dict[str, Allotment]:
    """The analysts the ledger knows: all, or those of these names."""
    if names is None:
        rows = run(connection, _all)
    else:
        rows = among(connection, _all, ANALYSTS.c.analyst, names)
    return {name: Allotment(spent, allotted) for name, spent, allotted in rows}


class Allotments:
    """What the analysts of some requests may still spend. Nobody's name is the empty one."""

    def __init__(self, connection: Connection, requests: Iterable[Request]) -> None:
        names = {r.analyst for r in requests} - {""}
        self._known = allotments(connection, names) if names else {}
        self._now: dict[str, Allotment] = {}

    def check(self, requests: Iterable[Request], name: str) -> None:
        """Refuse all of them if one analyst's are more than is left of their allotment."""
        prices: dict[str, int] = {}
        for request in requests:
            prices[request.analyst] = prices.get(request.analyst, 0) + request.price
        for analyst, price in prices.items():
            left = self._known.get(analyst, NOTHING).left
            if left is not None and price > max(left, 0):
                raise BudgetExceeded(price, max(left, 0), name, " of the allotment")

    def spend(self, request: Request) -> int | None:
        """Take a price out; give what is left of the allotment, if there is one."""
        who = request.analyst
        if not who:
            return None
        before = self._now.get(who) or self._known.get(who, NOTHING)
        self._now[who] = replace(before, spent=before.spent + request.price)
        return self._now[who].left

    def write(self, page: Page) -> None:
        """Keep what was spent, after the entries that say so."""
        for who, allotment in self._now.items():
            write(page, who, allotment, new=who not in self._known)


def allot(page: Page, analyst: str, allotted: int | None, total: int) -> int:
    """Append the owner's decision; give its entry."""
    if not isinstance(analyst, str) or not 0 < len(analyst) <= MAX_NAME:
        raise Refused(f"analyst={analyst!r}: want a name of 1 to {MAX_NAME} letters.")
    whole = type(allotted) is int and 0 <= allotted <= total
    if allotted is not None and not whole:
        said = in_queries(allotted) if type(allotted) is int else repr(allotted)
        raise Refused(
            f"{said} cannot be allotted: want 0 to the {in_queries(total)} there are, or nothing "
            "for no limit of their own."
        )
    known = allotments(page.connection, [analyst])
    number = page.append("allot", {"analyst": analyst, "allotted": allotted, "time": now()})
    allotment = replace(known.get(analyst, NOTHING), allotted=allotted)
    write(page, analyst, allotment, new=analyst not in known)
    return number


def write(page: Page, who: str, allotment: Allotment, *, new: bool) -> None:
    """Put one analyst's line into the index."""
    if new:
        page.index(_new, {"analyst": who, "spent": allotment.spent, "allotted": allotment.allotted})
    else:
        page.index(_set, {"who": who, "spending": allotment.spent, "allotment": allotment.allotted})

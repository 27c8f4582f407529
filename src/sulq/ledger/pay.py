"""Requests -> charges on one page of the chain: all or none, and never above the total.

A question is charged once, under the hash of its canonical text; a request id is bound to one
question of one analyst. Both are looked up first, so that asking again writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from sulq.errors import BudgetExceeded, QueryNotAllowed, in_queries
from sulq.ledger.allotments import Allotments
from sulq.ledger.chain import (
    CELLS,
    CHARGES,
    ENTRIES,
    HEAD,
    REQUESTS,
    Page,
    Spending,
    as_charge,
    charge_row,
    digest,
    now,
)
from sulq.ledger.kept_beside import brought_along
from sulq.ledger.older_text import question_of
from sulq.ledger.statements import among, run
from sulq.ledger.streams import SINCE, check_follow_on, is_running
from sulq.ledger.types import Charge, Request

_every = select(CHARGES.c.query, ENTRIES.c.number, ENTRIES.c.body, CHARGES.c.question).join(
    ENTRIES, ENTRIES.c.number == CHARGES.c.number
)
_charged = _every.where(CHARGES.c.epoch == select(HEAD.c.epoch).scalar_subquery())
_going_on = _every.where(CHARGES.c.kind == "running", CHARGES.c.epoch == SINCE)
_bound = select(REQUESTS.c.request, CHARGES.c.query).join(
    CHARGES, CHARGES.c.number == REQUESTS.c.charge
)
_extras = select(CELLS.c.cell, CELLS.c.spent)
_new_charge, _new_id = insert(CHARGES), insert(REQUESTS)
_set_extra = (
    update(CELLS).where(CELLS.c.cell == bindparam("which")).values(spent=bindparam("extra"))
)


def _key(request: Request) -> str:
    return digest(request.query)


def _id_key(request: Request) -> str:
    return digest(request.analyst, "" if request.id is None else request.id)


def normal(
    request: Request, cells: int, opened: tuple[int, ...] | None = None, width: int = 1
) -> Request:
    """The request as it is stored: its cells sorted and once each; all of them means everybody.

    `opened` are the cells of periods that have rows, where rows arrive by periods. A person may be
    in `width` cells: what asks about people, each once, is then charged to everybody, once.
    """
    question = question_of(request.query)
    if question != request.query:
        request = replace(request, query=question)
    charged = charged_cells(request.cells, request.people, cells, opened, width)
    return request if charged == request.cells else replace(request, cells=charged)


def charged_cells(
    asked: tuple[int, ...] | None, people: bool, cells: int, opened: tuple[int, ...] | None,
    width: int,
) -> tuple[int, ...] | None:  # fmt: skip
    """The cells that pay for a question about these; None: everybody, once."""
    if opened is not None and not (people and width > 1):
        asked = tuple(set(opened if asked is None else asked) & set(opened))
    if asked is None:
        return None
    chosen = sorted(set(asked))
    if any(type(c) is not int or not 0 <= c < cells for c in chosen):
        raise QueryNotAllowed(
            f"cells={asked!r}: the ledger has cells 0 to {cells - 1}. Nothing was charged."
        )
    # All cells are everybody where each is in one; where in several, everybody pays in each.
    every = len(chosen) == cells and width == 1
    return None if every else tuple(chosen)


# ---- what is known already ------------------------------------------------------------------


@dataclass(slots=True)
class Known:
    """Charges by question and questions by request id, as far as the ledger has them."""

    charges: dict[str, Charge]
    bound: dict[str, str]

    def covers(self, requests: Sequence[Request]) -> bool:
        """Is every question charged and every id bound?"""
        return all(
            _key(r) in self.charges and (r.id is None or _id_key(r) in self.bound) for r in requests
        )

    def lacks(self, requests: Sequence[Request]) -> bool:
        """Would one of them have to be paid?"""
        return any(r.price and _key(r) not in self.charges for r in requests)

    def charges_of(self, requests: Sequence[Request]) -> list[Charge]:
        """The charge of each request, in order."""
        return [self.charges[_key(request)] for request in requests]

    def bind(self, request: Request) -> bool:
        """Bind the request's id to its question; False if it was bound already."""
        id_key, key = _id_key(request), _key(request)
        if self.bound.get(id_key, key) != key:
            raise QueryNotAllowed(
                f"request id {request.id!r} was used for another question. Nothing was charged.\n"
                "Use a new id for a new question."
            )
        fresh = id_key not in self.bound
        self.bound[id_key] = key
        return fresh


def look_up(connection: Connection, requests: Sequence[Request]) -> Known:
    """What the ledger has of these requests; refuse an id used for anything else."""
    keys = {_key(request): is_running(request.query) for request in requests}
    plain = [key for key, going_on in keys.items() if not going_on]
    rows = [
        *among(connection, _charged, CHARGES.c.query, plain),
        *among(connection, _going_on, CHARGES.c.query, keys.keys() - set(plain)),
    ]
    ids = dict.fromkeys(_id_key(r) for r in requests if r.id is not None)
    bound = among(connection, _bound, REQUESTS.c.request, ids)
    charges = {query: as_charge(*charge) for query, *charge in rows}
    known = Known(charges, {id: query for id, query in bound})
    for request in requests:
        if request.id is None or _id_key(request) not in known.bound:
            continue
        known.bind(request)
        if _key(request) not in known.charges:
            raise QueryNotAllowed(
                f"request id {request.id!r} was used before the rows were refreshed. "
                "Nothing was charged.\nAsk with a new id to pay for an answer about the new rows."
            )
    return known


# ---- what is new ----------------------------------------------------------------------------


def pay(
    page: Page, requests: Sequence[Request], known: Known, *, total: int, name: str,
    discoveries: int, since: int, width: int, by_periods: bool,
    count: Callable[[Sequence[Request]], Sequence[tuple[int, int] | None]],
) -> None:  # fmt: skip
    """Charge each question not charged yet and bind each new id; or refuse all of them.

    `count` counts the new ones elsewhere first, or refuses them; it gives what is left there, for
    whoever spent most and for the rows asked about.
    """
    fresh_ids = [r for r in requests if r.id is not None and known.bind(r)]
    new: dict[str, Request] = {}
    for request in requests:
        if _key(request) not in known.charges:
            new.setdefault(_key(request), request)
    _check_most(requests, sum(request.price for request in new.values()), name)
    if by_periods and any(r.price and r.cells == () for r in new.values()):
        raise QueryNotAllowed(
            "the periods that this asks about have no rows yet. Nothing was charged."
        )
    check_follow_on(page.connection, new.values())
    spending = _afford(page, new.values(), total, name, width)
    allotments = Allotments(page.connection, new.values())
    allotments.check(new.values(), name)
    beside = brought_along(page, new.values(), discoveries, name)
    counted = count(list(new.values()))
    beside.keep(page)
    for (key, request), there in zip(new.items(), counted, strict=True):
        remaining = total - spending.add(request.price, request.cells)
        left = Left(remaining, spending.room(total, request.cells), there)
        own = allotments.spend(request)
        known.charges[key] = _append_charge(page, request, left, own, since)
    for request in fresh_ids:
        _append_id(page, request, known.charges[_key(request)])
    page.index(_set_extra, *({"which": c, "extra": e} for c, e in spending.extra.items()))
    allotments.write(page)
    page.head = replace(page.head, base=spending.base, most=spending.most)


def _check_most(requests: Sequence[Request], price: int, name: str) -> None:
    """Refuse what has a higher price than when it was allowed: the rows were refreshed since."""
    allowed = min((r.most for r in requests if r.most is not None), default=price)
    if price > allowed:
        error = BudgetExceeded(price, allowed, name)
        error.args = (
            f"price={in_queries(price)} now; allowed for it: {in_queries(allowed)}. Nothing was "
            "charged.\nIts rows were refreshed meanwhile: look at the price, and ask again.",
        )
        raise error


def _afford(page: Page, new: Collection[Request], total: int, name: str, width: int) -> Spending:
    """The spending before these requests; refuse them if any cell would exceed the total."""
    if width > 1:
        return _afford_in_several(page, new, total, name, width)
    everybody, added = 0, dict[int, int]()
    for request in new:
        if request.cells is None:
            everybody += request.price
        for cell in request.cells or ():
            added[cell] = added.get(cell, 0) + request.price
    extras = among(page.connection, _extras, CELLS.c.cell, added)
    before = {cell: extra for cell, extra in extras}
    spending = Spending(page.head.base, page.head.most, before)
    alike: dict[int, list[int]] = {}
    loads = [(everybody, spending.room(total, None))] if everybody else []
    for cell, price in added.items():
        alike.setdefault(everybody + price, []).append(cell)
    loads += [(price, spending.room(total, cells)) for price, cells in alike.items()]
    price, remaining = max(loads, key=lambda load: load[0] - load[1], default=(0, 0))
    if price > remaining:
        raise BudgetExceeded(price, remaining, name)
    return spending


def _afford_in_several(
    page: Page, new: Collection[Request], total: int, name: str, width: int
) -> Spending:
    """The same where a person may be in several cells: no `width` of them may exceed the total."""
    before = {cell: extra for cell, extra in run(page.connection, _extras).fetchall()}
    spending = Spending(page.head.base, page.head.most, before, width)
    after = Spending(spending.base, spending.most, before, width)
    for request in new:
        after.add(request.price, request.cells)
    if after.top > total:
        priced = [request for request in new if request.price]
        rooms = [spending.room(total, None)] if any(r.cells is None for r in priced) else []
        if cells := {c for r in priced for c in r.cells or ()}:
            rooms.append(spending.room(total, cells))
        raise BudgetExceeded(sum(r.price for r in priced), min(rooms), name)
    return spending


@dataclass(frozen=True, slots=True)
class Left:
    """Micro-queries left after a charge."""

    least: int  # for whoever spent most
    own: int  # for the rows asked about
    in_group: tuple[int, int] | None  # both in its group, if it is in one

    @property
    def told(self) -> int:
        """What a question about the same rows may still have."""
        return self.own if self.in_group is None else min(self.own, self.in_group[1])


def _append_charge(page: Page, request: Request, left: Left, own: int | None, since: int) -> Charge:
    fields: dict[str, Any] = {
        "query": request.query,
        "price": request.price,
        "remaining": left.told,
        "request": request.id,
        "time": now(),
        "analyst": request.analyst,
    }
    if own is not None:
        fields["own"] = own
    kept = fields | {"cells": request.cells, "remaining": left.least}
    whole = left.least
    if left.in_group is not None:
        kept["group"] = whole = left.in_group[0]
    if left.told != whole:
        kept["left"] = left.told
    number = page.append("charge", kept)
    page.index(_new_charge, charge_row(number, fields, page.head.epoch, since))
    return Charge(number=number, **fields)


def _append_id(page: Page, request: Request, charge: Charge) -> None:
    """Bind a request id to its charge, with an entry of its own unless the charge has it."""
    if (charge.request, charge.analyst) != (request.id, request.analyst):
        body = {"charge": charge.number, "request": request.id, "analyst": request.analyst}
        page.append("retry", body | {"time": now()})
    page.index(_new_id, {"request": _id_key(request), "charge": charge.number})

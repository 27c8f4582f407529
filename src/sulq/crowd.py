"""Questions of several people to one database, worked on at once.

One look at the ledger, one transaction for all charges, one scan, one for all answers. Each gets
what it would get alone: its charge or its refusal, its answer or its failure. The order is that
of the corridor: nothing is scanned that is not paid, nothing leaves that is not stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sulq.database import Database, add_noise, left_by
from sulq.errors import EngineFailed, SulqError
from sulq.question import Bundle, Question

if TYPE_CHECKING:
    from sulq.ledger import Charge, Request


@dataclass(slots=True)
class Order:
    """One person's question, and what becomes of it."""

    db: Database  # as this person sees it
    question: Question
    request_id: str | None = None
    requests: list[Request] = field(default_factory=list)
    charges: dict[str, Charge] = field(default_factory=dict)
    left: int | None = None
    error: SulqError | None = None

    def result(self, stored: dict[str, str]) -> Any:
        """The answers laid out, from what is stored."""
        remaining = self.db._left() if self.left is None else self.left
        found = [b.answers(json.loads(stored[b.text]), remaining) for b in self.question.bundles]
        return self.question.lay_out(found)


def answer_all(orders: Sequence[Order]) -> list[Any]:
    """What each order gets: an Answer, a list of them, a Table, or the error it meets."""
    if not orders:
        return []
    try:
        orders[0].db._guard.check()
        stored = _paid(orders)
        stored |= _computed(orders, stored)
    except SulqError as error:
        return [error] * len(orders)
    return [order.error or _result(order, stored) for order in orders]


def _result(order: Order, stored: dict[str, str]) -> Any:
    """One order's answers; what goes wrong here is its own."""
    try:
        return order.result(stored)
    except Exception as error:
        return error


def _paid(orders: Sequence[Order]) -> dict[str, str]:
    """Charge every order that must pay; the answers that are stored already."""
    ledger = orders[0].db._ledger
    found = ledger.find_all(b.text for order in orders for b in order.question.bundles)
    paying = []
    for order in orders:
        bundles = list(order.question.bundles)
        known = {b.text: found[b.text][0] for b in bundles if b.text in found}
        if order.request_id is None and len(known) == len({b.text for b in bundles}):
            order.charges = known
        else:
            order.requests = order.db._requests(bundles, order.request_id)
            paying.append(order)
    outcomes = ledger.charge_each([order.requests for order in paying])
    for order, outcome in zip(paying, outcomes, strict=True):
        if isinstance(outcome, SulqError):
            order.error = outcome
        else:
            order.charges = {c.query: c for c in outcome}
            order.left = left_by(outcome, order.requests)
    return {text: answer for text, (_, answer) in found.items() if answer is not None}


def _computed(orders: Sequence[Order], stored: dict[str, str]) -> dict[str, str]:
    """Scan once for every paid question without an answer, and store what comes of it."""
    missing: dict[str, tuple[Bundle, int]] = {}
    for order in orders:
        for bundle in order.question.bundles if order.error is None else ():
            if bundle.text not in stored:
                missing[bundle.text] = bundle, order.charges[bundle.text].number
    if not missing:
        return {}
    db, bundles = orders[0].db, [bundle for bundle, _ in missing.values()]
    noisy, failed = _noisy(db, bundles)
    kept = db._ledger.record([(missing[text][1], answer) for text, answer in noisy.items()])
    for order in orders:
        lost = [b.text for b in order.question.bundles if b.text in failed]
        if lost and order.error is None:
            order.error = failed[lost[0]]
    return dict(zip(noisy, kept, strict=True))  # the first answer recorded wins


def _noisy(db: Database, bundles: list[Bundle]) -> tuple[dict[str, str], dict[str, EngineFailed]]:
    """Noisy sums as they are stored; if the scan for all fails, each has one of its own."""
    try:
        sums, noise = db._sums_and_noise(bundles)
    except EngineFailed as error:
        if len(bundles) == 1:
            return {}, {bundles[0].text: error}
        parts = [_noisy(db, [bundle]) for bundle in bundles]
        return (
            {text: answer for good, _ in parts for text, answer in good.items()},
            {text: error for _, bad in parts for text, error in bad.items()},
        )
    exact = iter(sums)
    return {
        b.text: json.dumps([add_noise(c, t, next(exact), noise) for c, t in b.parts])
        for b in bundles
    }, {}

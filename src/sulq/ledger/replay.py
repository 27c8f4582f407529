"""Is the chain whole, and do the tables agree with it?

At every start the whole chain is followed from entry 0, every price is added again, and the
tables must be what the chain alone says they are. At every charge, what others wrote since
must continue from what this process has seen.
"""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from typing import Any

from sqlalchemy import Connection, Row, Table, select

from sulq.errors import LedgerDamaged
from sulq.ledger.allotments import NOTHING
from sulq.ledger.chain import (
    ANALYSTS,
    CELLS,
    CHARGES,
    EMPTY,
    HEAD,
    REQUESTS,
    Spending,
    checked_link,
    damaged,
    digest,
    walk,
)
from sulq.ledger.values import Allotment, Head


def audit(connection: Connection) -> Replay:
    """Replay the chain from its first entry and compare the tables with it."""
    replay = Replay()
    for row in walk(connection, 0):
        replay.take(row)
    if replay.head == EMPTY:
        raise damaged(0, "is missing")
    replay.compare(connection)
    return replay


def check_extends(connection: Connection, seen: Head, head: Head, total: int) -> None:
    """The chain must end where this process last saw it, or continue from there."""
    if head == seen:
        return
    if head.number <= seen.number:
        raise LedgerDamaged(
            f"The ledger changed behind this process at entry {seen.number}. Nothing was charged."
        )
    number, last = seen.number, seen.hash
    remaining = in_head = total - head.base - head.most
    for row in walk(connection, seen.number + 1):
        number += 1
        last = checked_link(row, number, last)
        if row.kind == "charge":
            remaining = json.loads(row.body)["remaining"]
    if remaining != in_head:
        raise damaged(number, "and the spending do not agree")
    if (number, last) != (head.number, head.hash):
        raise damaged(head.number, "is not where the chain ends")


class Replay:
    """The ledger's tables as the chain alone says they must be."""

    def __init__(self) -> None:
        self.terms: dict[str, Any] = {}
        self.cells = 0
        self.total = 0
        self.name = ""
        self.head = EMPTY
        self._spending = Spending(0, 0, {})
        self._charges: dict[int, tuple[str, int, int | None]] = {}  # query, epoch, answer
        self._requests: dict[str, int] = {}
        self.analysts: dict[str, Allotment] = {}

    def take(self, row: Row[Any]) -> None:
        """Follow one entry."""
        number = self.head.number + 1
        new = checked_link(row, number, self.head.hash)
        self.head = replace(self.head, number=number, hash=new)
        try:
            self._follow(number, row.kind, json.loads(row.body))
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(number, "cannot be read") from error

    def _follow(self, number: int, kind: str, body: dict[str, Any]) -> None:
        if (kind == "open") != (number == 0):
            raise damaged(number, "is out of place")
        if kind == "open":
            self.terms, self.cells, self.total = body["terms"], body["cells"], body["total"]
            self.name = body["name"]
        elif kind == "charge":
            self._charge(number, body)
        elif kind == "allot":
            before = self.analysts.get(body["analyst"], NOTHING)
            self.analysts[body["analyst"]] = replace(before, allotted=body["allotted"])
        elif kind == "retry":
            self._bind(number, body, body["charge"])
        elif kind == "answer":
            self._answer(number, body["charge"])
        elif kind == "refresh":
            self.terms = body["terms"]
            self.head = replace(self.head, epoch=number)

    def _charge(self, number: int, body: dict[str, Any]) -> None:
        remaining = self.total - self._spending.add(body["price"], body["cells"])
        if body["price"] < 0 or remaining < 0 or remaining != body["remaining"]:
            raise damaged(number, "does not add up")
        self.head = replace(self.head, base=self._spending.base, most=self._spending.most)
        self._spend(number, body)
        self._charges[number] = (digest(body["query"]), self.head.epoch, None)
        if body["request"] is not None:
            self._bind(number, body, number)

    def _spend(self, number: int, body: dict[str, Any]) -> None:
        if not body["analyst"]:
            return
        before = self.analysts.get(body["analyst"], NOTHING)
        after = replace(before, spent=before.spent + body["price"])
        if body.get("own") != after.left or (body["price"] and (after.left or 0) < 0):
            raise damaged(number, "does not keep to an allotment")
        self.analysts[body["analyst"]] = after

    def _bind(self, number: int, body: dict[str, Any], charge: int) -> None:
        id_key = digest(body["analyst"], body["request"])
        if charge not in self._charges or id_key in self._requests:
            raise damaged(number, "binds a request id wrongly")
        self._requests[id_key] = charge

    def _answer(self, number: int, charge: int) -> None:
        if charge not in self._charges or self._charges[charge][2] is not None:
            raise damaged(number, "answers no open charge")
        self._charges[charge] = (*self._charges[charge][:2], number)

    def compare(self, connection: Connection) -> None:
        """Raise if a table says anything else."""
        extra = self._spending.extra
        expected: dict[Table, dict[Any, tuple[Any, ...]]] = {
            HEAD: {1: astuple(self.head)},
            CHARGES: dict(self._charges),
            REQUESTS: {id_key: (charge,) for id_key, charge in self._requests.items()},
            CELLS: {cell: (extra.get(cell, 0),) for cell in range(self.cells)},
            ANALYSTS: {name: (a.spent, a.allotted) for name, a in self.analysts.items()},
        }
        for table, by_key in expected.items():
            rows = connection.execute(select(table)).all()
            # The count too: an edited file may have lost the key that forbids a row twice.
            if len(rows) != len(by_key) or {row[0]: tuple(row[1:]) for row in rows} != by_key:
                raise damaged(self.head.number, f"and the table {table.name!r} do not agree")

"""Is the chain whole, and do the tables agree with it?

At every start the whole chain is followed from entry 0, every price is added again, and the
tables must be what the chain alone says they are. At every charge, what others wrote since
must continue from what this process has seen.
"""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from typing import Any

from sqlalchemy import Connection, Table, select

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger.allotments import NOTHING
from sulq.ledger.chain import (
    ANALYSTS,
    CELLS,
    CHARGES,
    HEAD,
    REQUESTS,
    Following,
    Spending,
    charge_row,
    checked_link,
    damaged,
    digest,
    is_group,
    replayed,
    walk,
)
from sulq.ledger.freeze import followed
from sulq.ledger.kept_beside import DISCOVER, allowed_discoveries
from sulq.ledger.open_periods import cells_each, is_append
from sulq.ledger.types import Allotment, Freeze, Head

# What a refresh did with spending. Entries written before release 2 do not say, and left it with
# the cells, whichever rows were in them by then.
HIGHEST = "highest"  # every cell carries the highest of any
KEPT = "kept"  # the rows are the same, each in its cell
SPENDING = ("charge", "carry", "join", "spend", "level")  # entries that may change what is left


def audit(connection: Connection) -> Replay:
    """Replay the chain from its first entry and compare the tables with it."""
    return replayed(Replay(), connection)


def check_extends(connection: Connection, seen: Head, head: Head, total: int) -> None:
    """The chain must end where this process last saw it, or continue from there."""
    if head == seen:
        return
    if head.number <= seen.number:
        raise LedgerDamaged(
            f"The ledger changed behind this process at entry {seen.number}. Nothing is answered."
        )
    number, last = seen.number, seen.hash
    remaining = in_head = total - head.base - head.most
    for row in walk(connection, seen.number + 1):
        number += 1
        last = checked_link(row, number, last)
        if row.kind in SPENDING:
            remaining = json.loads(row.body).get("remaining", remaining)
    if remaining != in_head:
        raise damaged(number, "and the spending do not agree")
    if (number, last) != (head.number, head.hash):
        raise damaged(head.number, "is not where the chain ends")


class Replay(Following):
    """The ledger's tables as the chain alone says they must be."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: dict[str, Any] = {}
        self.cells = 0
        self.total = 0
        self.name = ""
        self.id = ""
        self.group: dict[str, Any] | None = None  # the group it joined, and where its ledger is
        self.freeze: Freeze | None = None
        self.discoveries = 0
        self.since = 0  # the entry since which rows were only added to
        self._spending = Spending(0, 0, {})  # as the tables have it
        self._highest = Spending(0, 0, {})  # the most that rows may have spent, wherever they moved
        self.charges: dict[int, dict[str, Any]] = {}  # rows of the index on them
        self.requests: dict[str, int] = {}
        self.analysts: dict[str, Allotment] = {}

    def _follow(self, number: int, kind: str, body: dict[str, Any]) -> None:
        if (kind == "open") != (number == 0):
            raise damaged(number, "is out of place")
        self.freeze = followed(self.freeze, number, kind, body)
        if kind == "open":
            self.terms, self.cells, self.total = body["terms"], body["cells"], body["total"]
            self.name, self.id = body["name"], body.get("id") or self.head.hash
            self._spending.width = self._highest.width = cells_each(body["terms"])
            if is_group(body):
                raise Refused(
                    f"this is the ledger of the group {self.name!r}, not of a dataset. Nothing was "
                    f"charged.\nTo open a dataset of it say group={self.name!r} too."
                )
        elif kind == "join":
            if self.group is not None:
                raise damaged(number, "is out of place")
            self.group = body
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
            self.head, self.since = replace(self.head, epoch=number), number
            self._refresh(number, body.get("spending"))
        elif kind == "append":
            if not is_append(self.terms, body["terms"]):
                raise damaged(number, "changes more than it may")
            self.terms = body["terms"]
            self.head = replace(self.head, epoch=number)
        elif kind == DISCOVER:
            self.discoveries += body["count"]
            if body["count"] <= 0 or self.discoveries > allowed_discoveries(self.terms):
                raise damaged(number, "names values more often than was promised")
        elif kind == "carry":
            self._carry(number, body["remaining"])

    def _refresh(self, number: int, spending: str | None) -> None:
        if spending not in (HIGHEST, KEPT, None):
            raise damaged(number, "cannot be read")
        if spending != KEPT:
            self._highest.level()
        if spending == HIGHEST:
            self._spending.level()
            self._to_head()

    def _carry(self, number: int, remaining: int) -> None:
        """From here on the tables have what the rows may have spent."""
        self._highest.level()
        self._spending = Spending(self._highest.base, 0, {})
        if remaining != self.remaining:
            raise damaged(number, "does not add up")
        self._to_head()

    def _to_head(self) -> None:
        self.head = replace(self.head, base=self._spending.base, most=self._spending.most)

    @property
    def spending(self) -> Spending:
        """What everybody and each cell has spent."""
        now = self._spending
        return Spending(now.base, now.most, now.extra, now.width)

    @property
    def remaining(self) -> int:
        """The least that any row may have left; below 0 if older refreshes let rows outspend."""
        return self.total - self._highest.base - self._highest.most

    @property
    def behind(self) -> bool:
        """Do the tables have less than rows may have spent?"""
        return self._spending.base < self._highest.base

    def _charge(self, number: int, body: dict[str, Any]) -> None:
        remaining = self.total - self._spending.add(body["price"], body["cells"])
        self._highest.add(body["price"], body["cells"])
        wrong = body["price"] < 0 or remaining < 0 or remaining != body["remaining"]
        if "left" in body:  # for the rows it asked about, where that is not the least of any
            room = self._spending.room(self.total, body["cells"])
            wrong = wrong or body["left"] > room or ("group" not in body and body["left"] != room)
        if wrong or body.get("group", remaining) > remaining:
            raise damaged(number, "does not add up")
        self._to_head()
        self._spend(number, body)
        self.charges[number] = charge_row(number, body, self.head.epoch, self.since)
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
        if charge not in self.charges or id_key in self.requests:
            raise damaged(number, "binds a request id wrongly")
        self.requests[id_key] = charge

    def _answer(self, number: int, charge: int) -> None:
        if charge not in self.charges or self.charges[charge]["answer"] is not None:
            raise damaged(number, "answers no open charge")
        self.charges[charge]["answer"] = number

    def compare(self, connection: Connection) -> None:
        """Raise if a table says anything else."""
        if self.behind:
            raise damaged(self.head.number, "does not carry what rows have spent")
        extra = self._spending.extra
        expected: dict[Table, dict[Any, tuple[Any, ...]]] = {
            HEAD: {1: astuple(self.head)},
            CHARGES: {number: tuple(row.values())[1:] for number, row in self.charges.items()},
            REQUESTS: {id_key: (charge,) for id_key, charge in self.requests.items()},
            CELLS: {cell: (extra.get(cell, 0),) for cell in range(self.cells)},
            ANALYSTS: {name: (a.spent, a.allotted) for name, a in self.analysts.items()},
        }
        for table, by_key in expected.items():
            rows = connection.execute(select(table)).all()
            # The count too: an edited file may have lost the key that forbids a row twice.
            if len(rows) != len(by_key) or {row[0]: tuple(row[1:]) for row in rows} != by_key:
                raise damaged(self.head.number, f"and the table {table.name!r} do not agree")

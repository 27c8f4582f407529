"""The ledger of a group: datasets about the same people, with one T for all of them.

Each dataset keeps its questions and answers in its own ledger; here stand the prices, so that one
transaction compares and adds for all. A charge is written here first and in the dataset's ledger
after: a crash between the two wastes it, and asking again finds it here and does not pay twice.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from sulq.errors import BudgetExceeded, LedgerDamaged, PromiseError, Refused, SchemaError
from sulq.ledger import location as place
from sulq.ledger.book import Book
from sulq.ledger.chain import ENTRIES, GROUP, SPENT, Page, Spending, digest, now
from sulq.ledger.group_shares import (
    Member,
    audit_group,
    elsewhere,
    largest,
    members_in,
    room_beside,
    shares_in,
    spent,
    write_level,
    write_member,
    write_spending,
)
from sulq.ledger.location import beside, exists, name_of
from sulq.ledger.replay import Replay
from sulq.ledger.retry import patient
from sulq.ledger.seal import Seal
from sulq.ledger.sqlite import Place
from sulq.ledger.statements import among, run
from sulq.ledger.terms import differing, plain
from sulq.ledger.types import Group, Request

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_spent = SPENT.select()


@dataclass(frozen=True, slots=True)
class Standing:
    """What a group has spent, as one of its datasets sees it, in micro-queries."""

    total: int
    spent: int  # the most that anyone in any of its datasets has spent
    elsewhere: int  # the most that anyone has spent in all its other datasets
    members: tuple[Member, ...]


def check_group_name(name: Any) -> str:
    """A group's name, or a refusal of what is none."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused(
            f"group={name!r}: want a name of letters, digits, dots, dashes and underscores, at "
            "most 64. Nothing was charged."
        )
    return name


class GroupLedger(Book):
    """What the datasets of a group spent. Safe among threads, processes and machines."""

    def __init__(self, disk: Place, seal: Seal | None) -> None:
        super().__init__(disk, seal)
        disk.order = 1  # after the ledgers of its datasets, by whoever needs both
        self.terms: dict[str, Any] = {}

    # -- opening --

    @classmethod
    def open(
        cls, where: str | Path, name: str, terms: Mapping[str, Any], total: int
    ) -> GroupLedger:
        """Open the ledger of a group with these terms, or begin it."""
        new = plain(
            {"terms": {**terms, "kind": GROUP}, "cells": 0, "total": total, "name": name,
             "time": now(), "id": secrets.token_hex(16)}
        )  # fmt: skip
        place.begin(where, new, place.sealed(where))
        group = cls.reopen(where)
        try:
            group._check(name, new["terms"])
        except BaseException:
            group.close()
            raise
        return group

    @classmethod
    def reopen(cls, where: str | Path, beside: Seal | None = None) -> GroupLedger:
        """Open a group's ledger with the terms recorded in it; `beside` one with this seal."""
        seal = place.sealed(where) if beside is None else beside.beside(where)
        if not place.exists(where, seal):
            raise LedgerDamaged(
                f"The ledger {place.shown(where)!r} of the group is gone, and with it what its "
                "datasets have spent together. Nothing is answered.\nRestore it."
            )
        return cls._verified(place.opened(where, seal), seal)

    @patient
    def _start(self) -> None:
        replay = self._walked(audit_group)
        self.terms, self.total = replay.body["terms"], replay.body["total"]
        self.name = replay.body["name"]
        self._mark()

    def _check(self, name: str, terms: Mapping[str, Any]) -> None:
        """One group, one promise, one unit."""
        if name != self.name:
            raise Refused(
                f"group={name!r}, but this is the ledger of the group {self.name!r}. Nothing was "
                "charged.\nEach group has a ledger of its own, shared by all its datasets."
            )
        different = differing(self.terms["promise"], terms["promise"])
        if different:
            said = "; ".join(different).replace("the ledger has", "the group has")
            raise PromiseError(
                f"group={name!r}: {said}. Nothing was charged.\nThe datasets of a group have one "
                "promise, since one T is spent by all of them. Open it with the group's."
            )
        if terms["unit"] != self.terms["unit"]:
            raise SchemaError(
                f"group={name!r}: unit={terms['unit']!r} but the group has "
                f"unit={self.terms['unit']!r}. Nothing was charged.\nThe datasets of a group "
                "name the same people: give each [unit] column = the same name, with max_rows = 1 "
                "where a person has one row, or give none of them a unit."
            )

    @property
    def called(self) -> str:
        """Its name in its folder or database."""
        return place.name_of(self._disk)

    def beside(self, name: str) -> str:
        """The ledger of this name in the same folder or database."""
        return place.beside(self._disk, name)

    # -- members --

    @patient
    def members(self) -> list[Member]:
        """Every dataset of the group, in the order in which they joined."""
        with self._reading() as connection:
            return members_in(connection)

    def member(self, id: str) -> Member | None:
        """The member with the ledger of this id."""
        return next((m for m in self.members() if m.id == id), None)

    def check_room(self, name: str, id: str, top: int) -> None:
        """Raise unless a dataset that spent so much may join."""
        members = self.members()
        if any(m.id == id for m in members):
            return
        if any(m.name == name for m in members):
            raise Refused(
                f"name={name!r}: the group {self.name!r} has a dataset of this name, with another "
                "ledger. Nothing was charged.\nIf its rows changed run `sulq refresh`; else give "
                "it another name."
            )
        if largest(members) + top > self.total:
            raise Refused(
                f"{name!r} brings what it spent: the datasets of the group {self.name!r} would "
                "have spent more than its T together, and what is spent cannot be taken back. "
                "Nothing was charged.\nThese datasets cannot have this promise together any more."
            )

    @patient
    def join(self, id: str, name: str, ledger: str, cells: int, spending: Spending) -> Member:
        """Let a dataset in with what it spent, unless it is in already."""
        with self._writing() as page:
            members = members_in(page.connection)
            known = next((m for m in members if m.id == id), None)
            if known is not None:
                return known
            extra = {cell: amount for cell, amount in spending.extra.items() if amount}
            fields = (len(members), id, name, ledger, cells, spending.base, spending.most)
            member = Member(*fields)
            body = {
                "member": member.number, "id": id, "name": name, "ledger": ledger, "cells": cells,
                "base": spending.base, "extra": extra,
            }  # fmt: skip
            self._append(page, "join", body, [*members, member])
            write_member(page, member, extra)
        return member

    # -- spending --

    @patient
    def spend(
        self, number: int, epoch: int, requests: Sequence[Request], name: str
    ) -> list[tuple[int, int]]:
        """Count these charges of a member, all or none; durable when it returns.

        Gives what the group has left after each, for whoever spent most and for the rows asked
        about. A charge that was counted before, and then lost
        on the way to the member's ledger, is not counted again.
        """
        keys = [_key(number, epoch, request) for request in requests]
        with self._writing() as page:
            members = members_in(page.connection)
            known = {row[0] for row in among(page.connection, _spent, SPENT.c.question, keys)}
            new = [(k, r) for k, r in zip(keys, requests, strict=True) if k not in known]
            left = self._afford(page, members, number, new, name)
            again = [r for k, r in zip(keys, requests, strict=True) if k in known]
            rooms = [self._room_in(page.connection, number, r.cells) for r in again]
        lost = iter(rooms)
        return [left[key] if key in left else (left[""][0], next(lost)) for key in keys]

    def _room_in(self, connection: Connection, number: int, cells: tuple[int, ...] | None) -> int:
        """The highest price that a question about these cells of a member may still have."""
        members = members_in(connection)
        extra = shares_in(connection, number, cells) if cells else {}
        member = members[number]
        spending = Spending(member.base, member.most, extra)
        return room_beside(self.total, members, number, spending, cells)

    @patient
    def room(self, number: int, cells: tuple[int, ...] | None) -> int:
        """The highest price that a question about these cells of a member may still have."""
        with self._reading() as connection:
            return self._room_in(connection, number, cells)

    def _afford(
        self, page: Page, members: list[Member], number: int, new: list[tuple[str, Request]],
        name: str,
    ) -> dict[str, tuple[int, int]]:  # fmt: skip
        """Append each charge; refuse all of them if anyone would exceed the total."""
        member = members[number]
        touched = {cell for _, request in new for cell in request.cells or ()}
        extra = shares_in(page.connection, number, touched) if touched else {}
        spending = Spending(member.base, member.most, extra)
        entries: list[tuple[str, Request, list[Member], int]] = []
        for key, request in new:
            spending.add(request.price, request.cells)
            member = spent(member, spending)
            members = [*members[:number], member, *members[number + 1 :]]
            room = room_beside(self.total, members, number, spending, request.cells)
            entries.append((key, request, members, room))
        self._check_afforded(members, number, spending, [r for _, r in new], name)
        left = {"": (self.total - largest(members), 0)}
        for key, request, after, room in entries:
            body = {"member": number, "question": key, "price": request.price,
                    "cells": request.cells}  # fmt: skip
            left[key] = self._append(page, "spend", body, after), room
            page.index(insert(SPENT), {"question": key})
        if entries:
            write_spending(page, member, spending.extra)
        return left

    def _check_afforded(
        self, members: list[Member], number: int, spending: Spending, new: list[Request], name: str
    ) -> None:
        """Raise if one whom these charges concern has spent more than the total."""
        price = sum(request.price for request in new)
        everybody = any(request.price and request.cells is None for request in new)
        own = spending.top if everybody else spending.base + max(spending.extra.values(), default=0)
        over = own + elsewhere(members, number) - self.total
        if price and over > 0:
            raise BudgetExceeded(price, max(price - over, 0), name, f" of the group {self.name!r}")

    @patient
    def level(self, number: int) -> None:
        """Let every cell of a member carry the highest spending of any: its rows changed."""
        with self._writing() as page:
            members = members_in(page.connection)
            before = members[number]
            if before.most:
                after = replace(before, base=before.top, most=0)
                members = [*members[:number], after, *members[number + 1 :]]
                self._append(page, "level", {"member": number}, members)
                write_level(page, after)

    def _append(
        self, page: Page, kind: str, body: Mapping[str, Any], members: Sequence[Member]
    ) -> int:
        """One entry, and what is left of the total after it."""
        top = largest(members)
        page.append(kind, {**body, "remaining": self.total - top, "time": now()})
        page.head = replace(page.head, base=top)
        return self.total - top

    # -- looking --

    @patient
    def standing(self, number: int) -> Standing:
        """What is spent, as this member sees it."""
        with self._reading() as connection:
            members = members_in(connection)
        return Standing(self.total, largest(members), elsewhere(members, number), tuple(members))

    @patient
    def spending(self, number: int) -> Spending:
        """What the cells of a member have spent in it, as the group counted it."""
        with self._reading() as connection:
            member = members_in(connection)[number]
            return Spending(member.base, member.most, shares_in(connection, number))

    @patient
    def verify(self) -> int:
        """Walk the whole chain and compare the tables with it; give the number of entries."""
        with self._reading() as connection:
            entries = audit_group(connection).head.number + 1
        self.verified = now()
        return entries


def _key(number: int, epoch: int, request: Request) -> str:
    """What a charge is known by: whose, of which rows, the question, its price and cells."""
    cells = "all" if request.cells is None else ",".join(map(str, request.cells))
    return digest(str(number), str(epoch), request.query, str(request.price), cells)


# ---- a dataset's place in its group ---------------------------------------------------------
# That a dataset is in a group stands in its own chain first, and in the group's after: from the
# first on nothing is paid that the group does not count, and what a crash cut short is finished
# when the ledger is next opened.

_joined = select(ENTRIES.c.number).where(
    ENTRIES.c.number > bindparam("seen"), ENTRIES.c.kind == "join"
)


class Membership:
    """One dataset of a group, as its ledger sees it."""

    def __init__(self, group: GroupLedger, number: int) -> None:
        self._group = group
        self._number = number
        self.name = group.name
        self.called = group.called  # its ledger

    def spend(self, epoch: int, requests: Sequence[Request], name: str) -> list[tuple[int, int]]:
        """Count these charges for all of the group, or refuse; what is left after each."""
        if not any(request.price for request in requests):
            now = self.standing()
            return [(now.total - now.spent, self.room(request.cells)) for request in requests]
        return self._group.spend(self._number, epoch, requests, name)

    def level(self) -> None:
        """Let every cell carry the highest spending of any: the rows changed."""
        self._group.level(self._number)

    def room(self, cells: tuple[int, ...] | None) -> int:
        """The highest price that a question about these cells may still have in the group."""
        return self._group.room(self._number, cells)

    def standing(self) -> Standing:
        """What the group has spent."""
        return self._group.standing(self._number)

    def by_cell(self, cells: int) -> dict[int, int]:
        """What the rows of each cell can have spent: here, and the most of anyone elsewhere."""
        found, now = self._group.spending(self._number), self.standing()
        return {
            cell: found.base + found.extra.get(cell, 0) + now.elsewhere for cell in range(cells)
        }

    def verify(self) -> int:
        """Walk the group's chain."""
        return self._group.verify()

    def check_usable(self) -> None:
        """Raise if nothing could be counted there now."""
        self._group.check_usable()

    def check_same(self, name: str, ledger: str, dataset: str) -> None:
        """Raise unless this is the group of that name with that ledger."""
        if (name, ledger) != (self.name, self.called):
            raise Refused(
                f"group={name!r} with ledger={ledger!r}: {dataset!r} is in the group "
                f"{self.name!r}, with ledger={self.called!r}, and cannot leave it: what its "
                "answers told about people stays told. Nothing was charged.\nOpen it with the "
                "group it is in."
            )

    def check_covers(self, own: Spending, cells: int) -> None:
        """Raise unless the group has counted all that this ledger charged."""
        counted = self._group.spending(self._number)
        for cell in range(cells):
            here = own.base + own.extra.get(cell, 0)
            if here > counted.base + counted.extra.get(cell, 0):
                raise LedgerDamaged(
                    f"The ledger of the group {self.name!r} has counted less than this dataset "
                    "was charged: an older copy of it was restored. Nothing is answered.\n"
                    "Restore the newest copy of both."
                )

    def close(self) -> None:
        """Let go of the group's ledger."""
        self._group.close()


def entered(disk: Place, seal: Seal | None, replay: Replay) -> Membership | None:
    """The dataset's place in the group that its chain says it joined, if it says so."""
    if replay.group is None:
        return None
    group = GroupLedger.reopen(beside(disk, replay.group["ledger"]), seal)
    try:
        member = group.join(
            replay.id, replay.group["name"], name_of(disk), replay.cells, replay.spending
        )
        found = Membership(group, member.number)
        found.check_covers(replay.spending, replay.cells)
    except BaseException:
        group.close()
        raise
    return found


def own_ledger(group: Group, name: str) -> str | None:
    """Where the dataset of this name in a group keeps its own ledger; None: it is not in it."""
    if not exists(group.ledger):
        return None
    book = GroupLedger.reopen(group.ledger)
    try:
        member = next((m for m in book.members() if m.name == name), None)
        return None if member is None else book.beside(member.ledger)
    finally:
        book.close()


def joined_since(connection: Connection, seen: int) -> bool:
    """Has the dataset joined a group behind this entry?"""
    return run(connection, _joined, {"seen": seen}).fetchone() is not None

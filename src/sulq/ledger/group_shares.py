"""What the datasets of a group have spent, and its tables as the chain alone says they must be.

Someone may be in every dataset of a group, but in one cell of each. So they have spent at most the
sum, over the datasets, of the highest spending of any cell: that is what the group has spent of its
one T. docs/howto/groups.md says why that is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from sqlalchemy import Connection, Table, bindparam, insert, select, update

from sulq.errors import Refused
from sulq.ledger.chain import (
    HEAD,
    MEMBERS,
    SHARES,
    SPENT,
    Following,
    Page,
    Spending,
    damaged,
    is_group,
    replayed,
)
from sulq.ledger.statements import run

_members = select(MEMBERS).order_by(MEMBERS.c.member)
_set_member = (
    update(MEMBERS)
    .where(MEMBERS.c.member == bindparam("which"))
    .values(base=bindparam("all"), most=bindparam("top"))
)
_set_share = (
    update(SHARES)
    .where(SHARES.c.member == bindparam("which"), SHARES.c.cell == bindparam("where"))
    .values(spent=bindparam("extra"))
)
_level = update(SHARES).where(SHARES.c.member == bindparam("which")).values(spent=0)


@dataclass(frozen=True, slots=True)
class Member:
    """A dataset of the group, in micro-queries."""

    number: int
    id: str
    name: str
    ledger: str
    cells: int
    base: int  # by all its cells
    most: int  # by one cell beyond that

    @property
    def top(self) -> int:
        """What the cell that spent most has spent in this dataset."""
        return self.base + self.most


def elsewhere(members: Sequence[Member], number: int) -> int:
    """The most that anyone can have spent in all other datasets: they may be in any cell there."""
    return sum(m.top for m in members if m.number != number)


def largest(members: Sequence[Member]) -> int:
    """The most that anyone can have spent in all datasets together."""
    return sum(m.top for m in members)


def room_beside(
    total: int, members: Sequence[Member], number: int, spending: Spending,
    cells: Iterable[int] | None,
) -> int:  # fmt: skip
    """The highest price that a question about these cells of a member may still have."""
    return max(spending.room(total - elsewhere(members, number), cells), 0)


def spent(member: Member, spending: Spending) -> Member:
    """The member with its spending as it is now."""
    return replace(member, base=spending.base, most=spending.most)


# ---- tables ---------------------------------------------------------------------------------


def members_in(connection: Connection) -> list[Member]:
    """Every member, in the order in which they joined."""
    return [Member(*row) for row in run(connection, _members).fetchall()]


def shares_in(
    connection: Connection, member: int, cells: Iterable[int] | None = None
) -> dict[int, int]:
    """What cells of a member spent beyond the rest: all of them, or these."""
    wanted = select(SHARES.c.cell, SHARES.c.spent).where(SHARES.c.member == member)
    if cells is not None:
        wanted = wanted.where(SHARES.c.cell.in_(list(cells)))
    return {cell: extra for cell, extra in connection.execute(wanted)}


def write_member(page: Page, member: Member, extra: dict[int, int]) -> None:
    """Keep a member that joined."""
    page.index(insert(MEMBERS), dict(zip(MEMBERS.c.keys(), astuple(member), strict=True)))
    page.index(
        insert(SHARES),
        *(
            {"member": member.number, "cell": c, "spent": extra.get(c, 0)}
            for c in range(member.cells)
        ),
    )


def write_spending(page: Page, member: Member, extra: dict[int, int]) -> None:
    """Keep what a member spent."""
    sums = {"which": member.number, "all": member.base, "top": member.most}
    page.index(_set_member, sums)
    page.index(
        _set_share,
        *({"which": member.number, "where": cell, "extra": e} for cell, e in extra.items()),
    )


def write_level(page: Page, member: Member) -> None:
    """Keep that every cell of a member carries the highest spending of any."""
    page.index(_level, {"which": member.number})
    write_spending(page, member, {})


# ---- following the chain --------------------------------------------------------------------


class GroupReplay(Following):
    """A group's tables as its chain alone says they must be."""

    def __init__(self) -> None:
        super().__init__()
        self.body: dict[str, Any] = {}
        self.members: list[Member] = []
        self._spending: list[Spending] = []
        self._spent: set[str] = set()

    def _follow(self, number: int, kind: str, body: dict[str, Any]) -> None:
        if (kind == "open") != (number == 0):
            raise damaged(number, "is out of place")
        if kind == "open":
            if not is_group(body):
                raise Refused(
                    f"this is the ledger of the dataset {body['name']!r}, not of a group. Nothing "
                    "was charged.\nWith group= name a ledger for the group, the same for all its "
                    "datasets; what this one has spent is counted there."
                )
            self.body = body
        elif kind == "join":
            self._join(number, body)
        elif kind == "spend":
            self._spend(number, body)
        elif kind == "level":
            self._spending[body["member"]].level()
            self._sums(body["member"])
        else:
            return
        self.head = replace(self.head, base=largest(self.members))
        if number and body["remaining"] != self.body["total"] - self.head.base:
            raise damaged(number, "does not add up")

    def _join(self, number: int, body: dict[str, Any]) -> None:
        extra = {int(cell): amount for cell, amount in body["extra"].items()}
        most = max(extra.values(), default=0)
        if body["member"] != len(self.members):
            raise damaged(number, "does not add up")
        names = ("id", "name", "ledger", "cells", "base")
        fields = {name: body[name] for name in names}
        self.members.append(Member(number=body["member"], most=most, **fields))
        self._spending.append(Spending(body["base"], most, extra))

    def _spend(self, number: int, body: dict[str, Any]) -> None:
        if body["price"] < 0 or body["question"] in self._spent:
            raise damaged(number, "does not add up")
        self._spent.add(body["question"])
        self._spending[body["member"]].add(body["price"], body["cells"])
        self._sums(body["member"])

    def _sums(self, number: int) -> None:
        self.members[number] = spent(self.members[number], self._spending[number])

    def compare(self, connection: Connection) -> None:
        """Raise if a table says anything else."""
        shares = [
            (m.number, cell, s.extra.get(cell, 0))
            for m, s in zip(self.members, self._spending, strict=True)
            for cell in range(m.cells)
        ]
        expected: dict[Table, list[tuple[Any, ...]]] = {
            HEAD: [(1, *astuple(self.head))],
            MEMBERS: [astuple(member) for member in self.members],
            SHARES: shares,
            SPENT: [(question,) for question in self._spent],
        }
        for table, rows in expected.items():
            found = sorted(tuple(row) for row in connection.execute(select(table)))
            if found != sorted(rows):
                raise damaged(self.head.number, f"and the table {table.name!r} do not agree")


def audit_group(connection: Connection) -> GroupReplay:
    """Replay a group's chain from its first entry and compare the tables with it."""
    return replayed(GroupReplay(), connection)

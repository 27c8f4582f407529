"""A dataset's place in its group: found beside its ledger, entered once, never left.

That a dataset is in a group stands in its own chain first, and in the group's after: from the
first on nothing is paid that the group does not count, and what a crash cut short is finished when
the ledger is next opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger.chain import ENTRIES, Spending
from sulq.ledger.group_ledger import GroupLedger, Standing
from sulq.ledger.location import beside, exists, name_of
from sulq.ledger.replay import Replay
from sulq.ledger.seal import Seal
from sulq.ledger.sqlite import Place
from sulq.ledger.statements import run
from sulq.ledger.types import Group, Request

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

    def spend(self, epoch: int, requests: Sequence[Request], name: str) -> list[int]:
        """Count these charges for all of the group, or refuse; what is left after each."""
        if not any(request.price for request in requests):
            return [self.standing().total - self.standing().spent] * len(requests)
        return self._group.spend(self._number, epoch, requests, name)

    def level(self) -> None:
        """Let every cell carry the highest spending of any: the rows changed."""
        self._group.level(self._number)

    def standing(self) -> Standing:
        """What the group has spent."""
        return self._group.standing(self._number)

    def by_cell(self, cells: int) -> dict[int, int]:
        """What the rows of each cell can no longer spend.

        What was charged to them here and to anyone elsewhere; and since a charge on one cell counts
        in full elsewhere, no less than the most that anyone spent there.
        """
        found, now = self._group.spending(self._number), self.standing()
        return {
            cell: max(found.base + found.extra.get(cell, 0) + now.elsewhere, now.others)
            for cell in range(cells)
        }

    def verify(self) -> int:
        """Walk the group's chain."""
        return self._group.verify()

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
            replay.id, replay.group["name"], name_of(disk), replay.cells, replay.spending,
            replay.whole,
        )  # fmt: skip
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

"""The ledger itself: the one class that the rest of the product calls.

It opens only what it has verified, pays before rows are read, and stores answers before they
leave. After every commit the newest entry is marked outside, in the owner's seal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from sulq.errors import (
    BudgetExceeded,
    EngineFailed,
    LedgerDamaged,
    Refused,
    SourceChanged,
    SulqError,
)
from sulq.ledger import location as place
from sulq.ledger.allotments import allot
from sulq.ledger.book import Book
from sulq.ledger.chain import (
    CHARGES,
    IN_A_GROUP,
    LAYOUT,
    VERSION,
    Page,
    Spending,
    begin,
    hold_head,
    now,
    read_head,
)
from sulq.ledger.freeze import current, freeze, refusal, resume, withheld
from sulq.ledger.group_commit import Ticket, Together
from sulq.ledger.group_ledger import GroupLedger, Membership, Standing, entered, joined_since
from sulq.ledger.history import ANSWERS, History, answer_in, extras_of
from sulq.ledger.kept_beside import allowed_discoveries
from sulq.ledger.migrate import is_current, upgrade
from sulq.ledger.open_periods import cells_each, check_opened, open_cells
from sulq.ledger.pay import Known, charged_cells, look_up, normal, pay
from sulq.ledger.renewal import check_same_cells, renewed
from sulq.ledger.replay import audit
from sulq.ledger.retry import Lost, patient, plainly
from sulq.ledger.seal import Seal
from sulq.ledger.sqlite import Disk, Place
from sulq.ledger.statements import among
from sulq.ledger.terms import check_assignment, check_opening, check_promise, opening, plain
from sulq.ledger.types import MEMORY, Charge, Freeze, Head, Request

_answered = select(CHARGES.c.number, CHARGES.c.epoch, ANSWERS.c.body).outerjoin(
    ANSWERS, ANSWERS.c.number == CHARGES.c.answer
)
_set_answer = (
    update(CHARGES).where(CHARGES.c.number == bindparam("charge")).values(answer=bindparam("entry"))
)


@dataclass(slots=True)
class Bill:
    """Requests to pay, and what was known of them when the ledger ended at `head`."""

    requests: list[Request]
    known: Known | None = None
    head: Head | None = None


Answers = Sequence[tuple[int, str]]  # by charge


class Ledger(Book, History):
    """A durable account of what was asked, paid and answered.

    Safe among threads, processes and forked children. Every charge is on disk when `charge`
    returns and every answer when `record` returns.
    """

    def __init__(self, disk: Place, seal: Seal | None) -> None:
        super().__init__(disk, seal)
        self._freeze: Freeze | None = None  # as of `_seen`: nothing new until the owner goes on
        self._group: Membership | None = None  # what is charged here is counted there too
        self._joined = False  # was it taken into a group since it was opened here?
        self._epoch = 0  # the rows this process is about: another's refresh does not move it
        self._since = 0  # the entry since which these were only added to
        self._bills: Together[Bill, Known] = Together(disk.lock, self._pay)
        self._answers: Together[Answers, dict[int, str]] = Together(disk.lock, self._keep)
        self._open: tuple[int, ...] | None = None  # cells of periods that have rows; None: all
        self.width = 1  # in how many cells the rows of one person may count
        self.cells = 0
        self.terms: dict[str, Any] = {}

    # -- opening --

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        terms: Mapping[str, Any],
        cells: int,
        total: int,
        name: str,
        seal: Seal | None = None,
    ) -> Ledger:
        """Open the ledger for these terms, or begin it. The promise in it never changes."""
        new = opening(terms, cells, total, name)
        if str(where) == MEMORY:
            ledger = cls._in_memory(new)
        else:
            place.begin(where, new, seal)
            ledger = cls.reopen(where, seal=seal)
        try:
            check_opening(new, terms=ledger.terms, cells=ledger.cells, total=ledger.total)
        except SulqError:
            ledger.close()
            raise
        ledger.name = name
        return ledger

    @classmethod
    def _in_memory(cls, new: Mapping[str, Any]) -> Ledger:
        disk = Disk(None)
        with disk.writing() as connection:
            begin(connection, new)
        ledger = cls(disk, None)
        ledger._start()
        return ledger

    @classmethod
    def reopen(cls, where: str | Path, *, seal: Seal | None = None) -> Ledger:
        """Open an existing ledger with the terms recorded in it."""
        return cls._verified(place.opened(where, seal), seal)

    @patient
    def _start(self) -> None:
        with self._reading() as connection:
            current = is_current(connection)
        if not current:
            with self._disk.writing() as connection:
                hold_head(connection)  # nobody charges meanwhile
                if not is_current(connection):  # another process may have been first
                    upgrade(connection)
        replay = self._walked(audit)
        self._epoch, self._since, self._freeze = replay.head.epoch, replay.since, replay.freeze
        self.terms, self.cells, self.total = replay.terms, replay.cells, replay.total
        self._open, self.width = open_cells(self.terms), cells_each(self.terms)
        self.name = replay.name
        self._mark()
        self._group = entered(self._disk, self._seal, replay)

    def check_usable(self) -> None:
        """Raise if nothing could be charged now, here or in its group."""
        super().check_usable()
        if self._group is not None:
            self._group.check_usable()

    def close(self) -> None:
        """Let go of the file. Using the ledger again opens it again."""
        super().close()
        if self._group is not None:
            self._group.close()

    def _look(self, connection: Connection, head: Head) -> None:
        """See whether others froze it, or took it into a group."""
        self._freeze = current(connection, self._seen, head, self._freeze)
        if self._group is None and head.number != self._seen.number:
            self._joined = self._joined or joined_since(connection, self._seen.number)

    # -- in a group --

    @property
    def group(self) -> str:
        """The group of datasets it spends one total with; empty if it is in none."""
        return self._group.name if self._group is not None else ""

    def standing(self) -> Standing | None:
        """What its group has spent, if it is in one."""
        return self._group.standing() if self._group is not None else None

    def join(self, group: GroupLedger) -> None:
        """Enter a group, with what was spent here; for good. Once is enough."""
        self.check_may_join(group.name, group.called)
        if self._group is None:
            with self._reading() as connection:
                replay = audit(connection)
            group.check_room(self.name, replay.id, replay.spending.top)
            ledger = group.called
            with self._writing() as page:
                page.append(
                    "join",
                    {"group": group.name, "ledger": ledger, "name": self.name, "time": now()},
                )
                page.index(update(LAYOUT), {"version": VERSION + IN_A_GROUP})
            self._start()

    def check_may_join(self, name: str, ledger: str) -> None:
        """Raise if it is in another group than this."""
        if self._group is not None:
            self._group.check_same(name, ledger, self.name)

    def left(self, cells: tuple[int, ...] | None = None, *, people: bool = False) -> int:
        """The highest price that a question about these cells may still have, in its group too.

        In micro-queries; None: about all rows. `people`: about people, of whom each counts once.
        """
        charged = charged_cells(cells, people, self.cells, self._open, self.width)
        room = self._spending(charged).room(self.total, charged)
        return room if self._group is None else min(room, self._group.room(charged))

    def left_by_cell(self) -> list[int]:
        """The highest price that a question about one cell may still have, for each of them."""
        each = range(self.cells)
        spending = self._spending(each)
        rooms = [spending.room(self.total, (cell,)) for cell in each]
        if self._group is None:
            return rooms
        there = (self._group.room((cell,)) for cell in each)
        return [min(pair) for pair in zip(rooms, there, strict=True)]

    @patient
    def _spending(self, cells: Collection[int] | None) -> Spending:
        """The spending of everybody, and of these cells; all cells, where people are in many."""
        with self._reading() as connection:
            head = read_head(connection)
            chosen = None if self.width > 1 or (cells and len(cells) == self.cells) else cells or ()
            extra = extras_of(connection, chosen)
        return Spending(head.base, head.most, extra, self.width)

    def budget(self) -> tuple[int, int, int]:
        """Total, spent and remaining in micro-queries, for whoever spent most, in its group too."""
        now = self.standing()
        if now is None:
            return super().budget()
        return now.total, now.spent, max(now.total - now.spent, 0)

    def spent_by_cell(self) -> dict[int, int]:
        """What the rows of each cell have spent, in its group too, in micro-queries."""
        if self._group is None:
            return super().spent_by_cell()
        return self._group.by_cell(self.cells)

    # -- paying and answering --

    @patient
    def charge(self, requests: Sequence[Request], *, new: bool = False) -> list[Charge]:
        """Pay for all of them or for none; durable when it returns.

        A question already charged, or asked again with the same request id, pays nothing.
        `new` says that `find` has just found none of them, so that looking twice is saved.
        """
        bill = Bill([normal(r, self.cells, self._open, self.width) for r in requests])
        if not new:
            with self._reading() as connection:
                bill.head = read_head(connection)
                bill.known = look_up(connection, bill.requests)
            if bill.known.covers(bill.requests):
                return bill.known.charges_of(bill.requests)
        return self._bills.through(bill).charges_of(bill.requests)

    @patient
    def charge_each(self, bills: Sequence[Sequence[Request]]) -> list[list[Charge] | SulqError]:
        """Pay several bills, each by itself whole or not at all, in one transaction."""
        opened = (self.cells, self._open, self.width)
        asked = [Bill([normal(r, *opened) for r in bill]) for bill in bills]
        outcomes = self._bills.through_each(asked)
        lost = [outcome for outcome in outcomes if isinstance(outcome, Lost)]
        if lost and len(lost) == len(outcomes):
            raise lost[0]
        return [
            outcome if isinstance(outcome, SulqError) else outcome.charges_of(bill.requests)
            for bill, outcome in zip(asked, outcomes, strict=True)
        ]

    def _pay(self, bills: Sequence[Ticket[Bill, Known]]) -> None:
        """Pay the bills of several threads in one transaction: each is paid whole or refused."""
        with self._writing() as page:
            if page.head.epoch != self._epoch:
                raise SourceChanged(
                    f"{self.name!r} was refreshed by another process. Nothing was charged. "
                    "Open the database again to ask about the new rows."
                )
            if self._joined:
                raise Refused(
                    f"{self.name!r} was taken into a group by another process. Nothing was "
                    "charged. Open the database again to go on in its group."
                )
            outcomes = self._paid_together(page, [bill.asked for bill in bills])
        for bill, outcome in zip(bills, outcomes, strict=True):
            if isinstance(outcome, SulqError):
                bill.set_exception(outcome)
            else:
                bill.set_result(outcome)

    def _paid_together(self, page: Page, bills: Sequence[Bill]) -> Sequence[Known | SulqError]:
        """Pay all at once, or each by itself if one is to be refused."""
        whole = bills[0]
        if len(bills) > 1:
            whole = Bill([request for bill in bills for request in bill.requests])
        try:
            known = self._paid(page, whole)
            page.write()  # so that the next one is measured against it
        except LedgerDamaged:
            raise
        except SulqError as error:
            if len(bills) == 1:
                return [error]
            return [self._paid_together(page, [bill])[0] for bill in bills]
        return [known] * len(bills)

    def _paid(self, page: Page, bill: Bill) -> Known:
        """Pay one bill on this page; a refused one leaves no trace on it."""
        known = bill.known
        if known is None or page.head != bill.head:  # another process charged since
            known = look_up(page.connection, bill.requests)
        if self._freeze is not None and known.lacks(bill.requests):
            raise refusal(self.name, self._freeze)
        self._write_charges(page, bill.requests, known)
        return known

    def _write_charges(self, page: Page, requests: Sequence[Request], known: Known) -> None:
        pay(
            page, requests, known, total=self.total, name=self.name, since=self._since,
            width=self.width, discoveries=allowed_discoveries(self.terms), count=self._counted,
            by_periods=self._open is not None,
        )  # fmt: skip

    def _counted(self, requests: Sequence[Request]) -> list[tuple[int, int] | None]:
        """What its group has left after each of these, counted there first; None: it has none.

        For whoever spent most in it, and for the rows asked about.
        """
        if self._group is None or not requests:
            return [None] * len(requests)
        return [*self._group.spend(self._epoch, requests, self.name)]

    @patient
    def record(self, answers: Answers) -> list[str]:
        """Store answers to charges and give what is stored: the first one wins."""
        kept = self._answers.through(answers)
        return [kept[number] for number, _ in answers]

    def _keep(self, tickets: Sequence[Ticket[Answers, dict[int, str]]]) -> None:
        """Store the answers of several threads in one transaction."""
        together = [answer for ticket in tickets for answer in ticket.asked]
        with self._writing(EngineFailed) as page:
            kept, waiting = self._stored(page.connection, {number for number, _ in together})
            if waiting and self._freeze is not None:
                raise withheld(self.name)
            for number, text in together:
                if number in waiting:
                    waiting.remove(number)
                    kept[number] = text
                    entry = page.append("answer", {"charge": number, "answer": text})
                    page.index(_set_answer, {"charge": number, "entry": entry})
                elif number not in kept:
                    raise LedgerDamaged(
                        f"Charge {number} is not in the ledger: no answer is given."
                    )
        for ticket in tickets:
            ticket.set_result(kept)

    def _stored(self, connection: Connection, numbers: set[int]) -> tuple[dict[int, str], set[int]]:
        """The answers stored for these charges, and the charges that have none."""
        kept: dict[int, str] = {}
        waiting: set[int] = set()
        for number, epoch, body in among(connection, _answered, CHARGES.c.number, sorted(numbers)):
            if body is not None:
                kept[number] = answer_in(body)
            elif epoch <= self._epoch:
                waiting.add(number)
            else:
                raise EngineFailed(
                    f"{self.name!r} was refreshed by another process, so an answer about the "
                    "old rows is not kept. The charge stands, asking again does not pay "
                    "again. Open the database again."
                )
        return kept, waiting

    # -- frozen after a failure --

    @patient
    def freeze(self, questions: Sequence[str], engine: str, error: str) -> None:
        """Freeze: nothing new is paid or kept until `resume`, whoever shares the ledger."""
        with self._disk.lock:
            if self._freeze is None:  # frozen here, even if the entry cannot be written
                self._freeze = Freeze(-1, now(), tuple(questions), engine, error)
        with self._writing() as page:
            if self._freeze is None or self._freeze.number >= 0:
                return  # another process was first
            written = freeze(page, self._freeze)
        self._freeze = written

    @plainly()
    def resume(self, reason: str) -> int:
        """Go on after a freeze: logged; give the entry."""
        with self._writing() as page:
            number = resume(page, self._freeze, reason)
        self._freeze = None
        return number

    @patient
    def frozen(self) -> Freeze | None:
        """What froze it, if it is frozen."""
        with self._disk.lock, self._reading() as connection:
            return current(connection, self._seen, read_head(connection), self._freeze)

    def frozen_meanwhile(self, *, paid: bool) -> SulqError:
        """What to say of a question that was being answered when it froze."""
        known = self._freeze
        return refusal(self.name, known) if known and not paid else withheld(self.name)

    def check_going(self) -> None:
        """Raise if it is frozen."""
        found = self.frozen()
        if found is not None:
            raise refusal(self.name, found)

    # -- allotments --

    @plainly()
    def allot(self, analyst: str, allotted: int | None) -> int:
        """Let an analyst spend at most so many micro-queries in all; None: no limit of theirs."""
        with self._writing() as page:
            return allot(page, analyst, allotted, self.total)

    # -- other rows --

    @plainly()
    def renew(
        self, terms: Mapping[str, Any], body: Mapping[str, Any], *, cells: int | None = None,
        same_rows: bool = False, new_periods: bool = False,
    ) -> int:  # fmt: skip
        """Go on with changed rows: logged, the same promise, spending goes on.

        Spending belongs to rows, and a row may have moved to another cell. So every cell then
        carries the highest spending of any, unless the rows are the `same_rows`, or they are and
        there are more, of `new_periods`. Answers about the rows before stay in the history.
        """
        new = plain(terms)
        check_promise(self.terms, new)
        check_same_cells(cells, self.cells)
        if new_periods:
            check_assignment(self.terms, new)
            check_opened(self.terms, new, in_group=bool(self._group), ordered=self.in_order())
        same_rows = same_rows or new_periods
        if self._group is not None and not same_rows:
            self._group.level()
        with self._writing() as page:
            going_on = renewed(page, new, body, self.cells, same_rows, new_periods)
            self._reserve(page, going_on)
            epoch = page.head.epoch
        self.terms, self._epoch, self._open = new, epoch, open_cells(new)
        self._since = self._since if new_periods else epoch
        return epoch

    def _reserve(self, page: Page, requests: Sequence[Request]) -> None:
        """Let the new periods pay for running totals that go on; those they cannot pay for end."""
        for request in requests:
            with suppress(BudgetExceeded):
                self._write_charges(page, [request], look_up(page.connection, [request]))
                page.write()  # so that the next one is measured against it

    # -- verifying --

    @patient
    def verify(self) -> int:
        """Walk the whole chain and compare the tables with it; give the number of entries."""
        with self._reading() as connection:
            entries = audit(connection).head.number + 1
        if self._group is not None:
            self._group.verify()
        self.verified = now()
        return entries

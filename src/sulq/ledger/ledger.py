"""The ledger itself: the one class that the rest of the product calls.

It opens only what it has verified, pays before rows are read, and stores answers before they
leave. After every commit the newest entry is marked outside, in the owner's seal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from sulq.errors import (
    EngineFailed,
    LedgerDamaged,
    Refused,
    SchemaError,
    SourceChanged,
    SulqError,
)
from sulq.ledger import place
from sulq.ledger.allotments import NOTHING, allot, allotments
from sulq.ledger.chain import (
    CELLS,
    CHARGES,
    EMPTY,
    ENTRIES,
    HEAD,
    Page,
    as_charge,
    begin,
    digest,
    entries_from,
    hash_of,
    hold_head,
    now,
    read_head,
)
from sulq.ledger.disk import MEMORY, Disk, Place
from sulq.ledger.layout import is_current, upgrade
from sulq.ledger.patience import Lost, patient, plainly
from sulq.ledger.paying import Known, look_up, normal, pay
from sulq.ledger.quick import among, run
from sulq.ledger.replay import audit, check_extends
from sulq.ledger.terms import check_opening, check_promise, opening, plain
from sulq.ledger.together import Ticket, Together
from sulq.ledger.values import Allotment, Charge, Entry, Head, Request
from sulq.seal import Seal

# Kinds with a meaning of their own.
RESERVED = ("open", "charge", "answer", "retry", "refresh", "allot")

_ANSWERS = ENTRIES.alias("answers")
_found = (
    select(ENTRIES.c.number, ENTRIES.c.body, _ANSWERS.c.body)
    .select_from(CHARGES)
    .join(ENTRIES, ENTRIES.c.number == CHARGES.c.number)
    .outerjoin(_ANSWERS, _ANSWERS.c.number == CHARGES.c.answer)
    .where(CHARGES.c.query == bindparam("query"))
    .where(CHARGES.c.epoch == select(HEAD.c.epoch).scalar_subquery())
)
_any_found = (
    select(CHARGES.c.query, ENTRIES.c.number, ENTRIES.c.body, _ANSWERS.c.body)
    .select_from(CHARGES)
    .join(ENTRIES, ENTRIES.c.number == CHARGES.c.number)
    .outerjoin(_ANSWERS, _ANSWERS.c.number == CHARGES.c.answer)
    .where(CHARGES.c.epoch == select(HEAD.c.epoch).scalar_subquery())
)
_answered = select(CHARGES.c.number, CHARGES.c.epoch, _ANSWERS.c.body).outerjoin(
    _ANSWERS, _ANSWERS.c.number == CHARGES.c.answer
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


class Ledger:
    """A durable account of what was asked, paid and answered.

    Safe among threads, processes and forked children. Every charge is on disk when `charge`
    returns and every answer when `record` returns.
    """

    def __init__(self, disk: Place, seal: Seal | None) -> None:
        self._disk = disk
        self._seal = seal
        self._seen = EMPTY
        self._epoch = 0  # the rows this process is about: another's refresh does not move it
        self._bills: Together[Bill, Known] = Together(disk.lock, self._pay)
        self._answers: Together[Answers, dict[int, str]] = Together(disk.lock, self._keep)
        self.name = ""
        self.cells = 0
        self.total = 0
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
        ledger = cls(place.opened(where, seal), seal)
        try:
            ledger._start()
        except BaseException:
            ledger.close()
            raise
        return ledger

    @patient
    def _start(self) -> None:
        """Believe nothing: walk the chain, compare the tables, then the mark outside."""
        # The mark first: another process may charge and mark while the chain is walked.
        mark = self._seal.marked() if self._seal is not None else None
        with self._reading() as connection:
            current = is_current(connection)
        if not current:
            with self._disk.writing() as connection:
                if not is_current(connection):  # another process may have been first
                    upgrade(connection)
        with self._reading() as connection:
            replay = audit(connection)
            if self._seal is not None:
                self._seal.check_mark(mark, replay.head.number, lambda n: hash_of(connection, n))
        self._seen, self._epoch = replay.head, replay.head.epoch
        self.terms, self.cells, self.total = replay.terms, replay.cells, replay.total
        self.name = replay.name
        self._mark()

    def _mark(self) -> None:
        if self._seal is not None:
            self._seal.mark(self._seen.number, self._seen.hash)

    def close(self) -> None:
        """Let go of the file. Using the ledger again opens it again."""
        self._disk.close()

    # -- transactions --

    def _reading(self) -> AbstractContextManager[Connection]:
        return self._disk.reading()

    @contextmanager
    def _writing(self, failure: type[SulqError] = Refused) -> Iterator[Page]:
        """Hold the head, append what the caller adds, commit, then mark it outside."""
        with self._disk.lock:
            with self._disk.writing(failure) as connection:
                head = hold_head(connection)
                check_extends(connection, self._seen, head, self.total)
                self._seen = head
                page = Page(connection, head)
                yield page
                page.write()
            self._seen = page.head
            if page.written:
                self._mark()

    # -- paying and answering --

    @patient
    def find(self, query: str) -> tuple[Charge, str | None] | None:
        """The charge already made for this question and its answer, if there is one."""
        with self._reading() as connection:
            row = run(connection, _found, {"query": digest(query)}).fetchone()
        if row is None:
            return None
        number, charge, answer = row
        return as_charge(number, charge), None if answer is None else _answer_in(answer)

    @patient
    def find_all(self, queries: Iterable[str]) -> dict[str, tuple[Charge, str | None]]:
        """The same for several questions: those of them that are charged."""
        texts = {digest(query): query for query in queries}
        with self._reading() as connection:
            rows = list(among(connection, _any_found, CHARGES.c.query, texts))
        return {
            texts[query]: (
                as_charge(number, charge),
                None if answer is None else _answer_in(answer),
            )
            for query, number, charge, answer in rows
        }

    @patient
    def charge(self, requests: Sequence[Request], *, new: bool = False) -> list[Charge]:
        """Pay for all of them or for none; durable when it returns.

        A question already charged, or asked again with the same request id, pays nothing.
        `new` says that `find` has just found none of them, so that looking twice is saved.
        """
        bill = Bill([normal(request, self.cells) for request in requests])
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
        asked = [Bill([normal(request, self.cells) for request in bill]) for bill in bills]
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
            outcomes = self._paid_together(page, [bill.asked for bill in bills])
        for bill, outcome in zip(bills, outcomes, strict=True):
            if isinstance(outcome, SulqError):
                bill.refuse(outcome)
            else:
                bill.give(outcome)

    def _paid_together(self, page: Page, bills: Sequence[Bill]) -> Sequence[Known | SulqError]:
        if len(bills) == 1:
            return [self._paid(page, bills[0])]
        try:
            whole = Bill([request for bill in bills for request in bill.requests])
            return [self._paid(page, whole)] * len(bills)
        except LedgerDamaged:
            raise
        except SulqError:  # one of them is to be refused, so each by itself
            return [self._paid_alone(page, bill) for bill in bills]

    def _paid_alone(self, page: Page, bill: Bill) -> Known | SulqError:
        try:
            known = self._paid(page, Bill(bill.requests))
            page.write()  # so that the next one is measured against it
        except LedgerDamaged:
            raise
        except SulqError as error:
            return error
        return known

    def _paid(self, page: Page, bill: Bill) -> Known:
        """Pay one bill on this page; a refused one leaves no trace on it."""
        known = bill.known
        if known is None or page.head != bill.head:  # another process charged since
            known = look_up(page.connection, bill.requests)
        pay(page, bill.requests, known, total=self.total, name=self.name)
        return known

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
            ticket.give(kept)

    def _stored(self, connection: Connection, numbers: set[int]) -> tuple[dict[int, str], set[int]]:
        """The answers stored for these charges, and the charges that have none."""
        kept: dict[int, str] = {}
        waiting: set[int] = set()
        for number, epoch, body in among(connection, _answered, CHARGES.c.number, sorted(numbers)):
            if body is not None:
                kept[number] = _answer_in(body)
            elif epoch <= self._epoch:
                waiting.add(number)
            else:
                raise EngineFailed(
                    f"{self.name!r} was refreshed by another process, so an answer about the "
                    "old rows is not kept. The charge stands, asking again does not pay "
                    "again. Open the database again."
                )
        return kept, waiting

    # -- allotments --

    @plainly()
    def allot(self, analyst: str, allotted: int | None) -> int:
        """Let an analyst spend at most so many micro-queries in all; None: no limit of theirs."""
        with self._writing() as page:
            return allot(page, analyst, allotted, self.total)

    @patient
    def allotments(self) -> dict[str, Allotment]:
        """Every analyst who has an allotment or has spent something."""
        with self._reading() as connection:
            return allotments(connection)

    @patient
    def allotment(self, analyst: str) -> Allotment:
        """What one analyst has spent and may spend."""
        with self._reading() as connection:
            return allotments(connection, [analyst]).get(analyst, NOTHING)

    # -- other entries --

    @plainly()
    def note(self, kind: str, body: Mapping[str, Any]) -> int:
        """Append an entry that the owner should find later, such as "override"."""
        if kind in RESERVED or not kind.isidentifier() or len(kind) > 16:
            raise ValueError(f"kind={kind!r}: a short word, not one of {', '.join(RESERVED)}")
        with self._writing() as page:
            return page.append(kind, {**body, "time": now()})

    @plainly()
    def renew(
        self, terms: Mapping[str, Any], body: Mapping[str, Any], *, cells: int | None = None
    ) -> int:
        """Go on with changed rows: logged, the same promise, spending goes on.

        Answers about the rows before are kept in the history but no longer given.
        """
        new = plain(terms)
        check_promise(self.terms, new)
        if cells is not None and cells != self.cells:
            raise SchemaError(
                f"cells={cells} but the ledger has {self.cells}: what each cell spent could not "
                "be carried over. Nothing was charged.\nKeep the public columns and their values."
            )
        with self._writing() as page:
            epoch = page.append("refresh", {"terms": new, "body": body, "time": now()})
            page.head = replace(page.head, epoch=epoch)
        self.terms, self._epoch = new, epoch
        return epoch

    # -- looking --

    @patient
    def budget(self) -> tuple[int, int, int]:
        """Total, spent and remaining in micro-queries, for the cell that spent most."""
        with self._reading() as connection:
            head = read_head(connection)
        spent = head.base + head.most
        return self.total, spent, self.total - spent

    @patient
    def spent_by_cell(self) -> dict[int, int]:
        """What the rows of each cell have spent, in micro-queries."""
        with self._reading() as connection:
            base = read_head(connection).base
            return {cell: base + extra for cell, extra in connection.execute(select(CELLS))}

    @patient
    def base(self) -> int:
        """What everybody has spent, in micro-queries."""
        with self._reading() as connection:
            return read_head(connection).base

    @patient
    def history(self) -> list[Charge]:
        """Every charge ever made, oldest first."""
        rows = select(ENTRIES.c.number, ENTRIES.c.body).where(ENTRIES.c.kind == "charge")
        with self._reading() as connection:
            charges = connection.execute(rows.order_by(ENTRIES.c.number)).all()
        return [as_charge(number, body) for number, body in charges]

    def entries(self, first: int = 0) -> Iterator[Entry]:
        """Every entry of the chain from this one on, oldest first."""
        last = self._last()
        while first <= last:
            rows = self._from(first)
            for row in rows:
                yield Entry(row.number, row.kind, json.loads(row.body), row.previous, row.hash)
            first += max(len(rows), 1)

    @patient
    def _last(self) -> int:
        with self._reading() as connection:
            return read_head(connection).number

    @patient
    def _from(self, first: int) -> Sequence[Row[Any]]:
        with self._reading() as connection:
            return entries_from(connection, first)

    @patient
    def decisions(self) -> list[Entry]:
        """Every entry that is no question and no answer, oldest first."""
        kinds = ENTRIES.c.kind.not_in(("charge", "answer", "retry"))
        with self._reading() as connection:
            rows = connection.execute(select(ENTRIES).where(kinds).order_by(ENTRIES.c.number)).all()
        return [Entry(r.number, r.kind, json.loads(r.body), r.previous, r.hash) for r in rows]

    @patient
    def verify(self) -> int:
        """Walk the whole chain and compare the tables with it; give the number of entries."""
        with self._reading() as connection:
            return audit(connection).head.number + 1


def _answer_in(body: str) -> str:
    return str(json.loads(body)["answer"])

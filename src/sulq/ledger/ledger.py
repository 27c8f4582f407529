"""The ledger itself: the one class that the rest of the product calls.

It opens only what it has verified, pays before rows are read, and stores answers before they
leave. After every commit the newest entry is marked outside, in the owner's seal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from sulq.errors import (
    EngineFailed,
    LedgerDamaged,
    Refused,
    SchemaError,
    SourceChanged,
    SulqError,
)
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
from sulq.ledger.disk import MEMORY, Disk, create, refuse_poisoned
from sulq.ledger.paying import look_up, normal, pay
from sulq.ledger.replay import audit, check_extends
from sulq.ledger.terms import check_opening, check_promise, opening, plain
from sulq.ledger.values import Charge, Entry, Request
from sulq.seal import Seal

RESERVED = ("open", "charge", "answer", "retry", "refresh")  # kinds with a meaning of their own

_ANSWERS = ENTRIES.alias("answers")
_found = (
    select(ENTRIES.c.number, ENTRIES.c.body, _ANSWERS.c.body)
    .select_from(CHARGES)
    .join(ENTRIES, ENTRIES.c.number == CHARGES.c.number)
    .outerjoin(_ANSWERS, _ANSWERS.c.number == CHARGES.c.answer)
    .where(CHARGES.c.query == bindparam("query"))
    .where(CHARGES.c.epoch == select(HEAD.c.epoch).scalar_subquery())
)
_answered = (
    select(CHARGES.c.number, CHARGES.c.epoch, _ANSWERS.c.body)
    .outerjoin(_ANSWERS, _ANSWERS.c.number == CHARGES.c.answer)
    .where(CHARGES.c.number.in_(bindparam("numbers", expanding=True)))
)
_set_answer = (
    update(CHARGES).where(CHARGES.c.number == bindparam("charge")).values(answer=bindparam("entry"))
)


class Ledger:
    """A durable account of what was asked, paid and answered.

    Safe among threads, processes and forked children. Every charge is on disk when `charge`
    returns and every answer when `record` returns.
    """

    def __init__(self, disk: Disk, seal: Seal | None) -> None:
        self._disk = disk
        self._seal = seal
        self._seen = EMPTY
        self._epoch = 0  # the rows this process is about: another's refresh does not move it
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
            path = Path(os.path.realpath(where))
            if not path.exists():
                create(path, new, seal)
            ledger = cls.reopen(path, seal=seal)
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
        path = Path(os.path.realpath(where))
        refuse_poisoned(path)
        if not path.exists():
            raise Refused(f"ledger={str(path)!r} does not exist. Nothing was charged.")
        ledger = cls(Disk(path), seal)
        try:
            ledger._start()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _start(self) -> None:
        """Believe nothing: walk the chain, compare the tables, then the mark outside."""
        # The mark first: another process may charge and mark while the chain is walked.
        mark = self._seal.marked() if self._seal is not None else None
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
            if page.entries:
                self._mark()

    # -- paying and answering --

    def find(self, query: str) -> tuple[Charge, str | None] | None:
        """The charge already made for this question and its answer, if there is one."""
        with self._reading() as connection:
            row = connection.execute(_found, {"query": digest(query)}).first()
        if row is None:
            return None
        number, charge, answer = row
        return as_charge(number, charge), None if answer is None else _answer_in(answer)

    def charge(self, requests: Sequence[Request], *, new: bool = False) -> list[Charge]:
        """Pay for all of them or for none; durable when it returns.

        A question already charged, or asked again with the same request id, pays nothing.
        `new` says that `find` has just found none of them, so that looking twice is saved.
        """
        requests = [normal(request, self.cells) for request in requests]
        head = known = None
        if not new:
            with self._reading() as connection:
                head = read_head(connection)
                known = look_up(connection, requests)
            if known.covers(requests):
                return known.charges_of(requests)
        with self._writing() as page:
            if page.head.epoch != self._epoch:
                raise SourceChanged(
                    f"{self.name!r} was refreshed by another process. Nothing was charged. "
                    "Open the database again to ask about the new rows."
                )
            if known is None or page.head != head:  # another process charged since
                known = look_up(page.connection, requests)
            pay(page, requests, known, total=self.total, name=self.name)
        return known.charges_of(requests)

    def record(self, answers: Sequence[tuple[int, str]]) -> list[str]:
        """Store answers to charges and give what is stored: the first one wins."""
        with self._writing(EngineFailed) as page:
            kept, waiting = self._stored(page.connection, {number for number, _ in answers})
            for number, text in answers:
                if number in waiting:
                    waiting.remove(number)
                    kept[number] = text
                    entry = page.append("answer", {"charge": number, "answer": text})
                    page.index(_set_answer, {"charge": number, "entry": entry})
                elif number not in kept:
                    raise LedgerDamaged(
                        f"Charge {number} is not in the ledger: no answer is given."
                    )
        return [kept[number] for number, _ in answers]

    def _stored(self, connection: Connection, numbers: set[int]) -> tuple[dict[int, str], set[int]]:
        """The answers stored for these charges, and the charges that have none."""
        kept: dict[int, str] = {}
        waiting: set[int] = set()
        for number, epoch, body in connection.execute(_answered, {"numbers": sorted(numbers)}):
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

    # -- other entries --

    def note(self, kind: str, body: Mapping[str, Any]) -> int:
        """Append an entry that the owner should find later, such as "override"."""
        if kind in RESERVED or not kind.isidentifier() or len(kind) > 16:
            raise ValueError(f"kind={kind!r}: a short word, not one of {', '.join(RESERVED)}")
        with self._writing() as page:
            return page.append(kind, {**body, "time": now()})

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

    def budget(self) -> tuple[int, int, int]:
        """Total, spent and remaining in micro-queries, for the cell that spent most."""
        with self._reading() as connection:
            head = read_head(connection)
        spent = head.base + head.most
        return self.total, spent, self.total - spent

    def spent_by_cell(self) -> dict[int, int]:
        """What the rows of each cell have spent, in micro-queries."""
        with self._reading() as connection:
            base = read_head(connection).base
            return {cell: base + extra for cell, extra in connection.execute(select(CELLS))}

    def base(self) -> int:
        """What everybody has spent, in micro-queries."""
        with self._reading() as connection:
            return read_head(connection).base

    def history(self) -> list[Charge]:
        """Every charge ever made, oldest first."""
        rows = select(ENTRIES.c.number, ENTRIES.c.body).where(ENTRIES.c.kind == "charge")
        with self._reading() as connection:
            charges = connection.execute(rows.order_by(ENTRIES.c.number)).all()
        return [as_charge(number, body) for number, body in charges]

    def entries(self) -> Iterator[Entry]:
        """Every entry of the chain, oldest first."""
        with self._reading() as connection:
            last = read_head(connection).number
        first = 0
        while first <= last:
            with self._reading() as connection:
                rows = entries_from(connection, first)
            for row in rows:
                yield Entry(row.number, row.kind, json.loads(row.body), row.previous, row.hash)
            first += max(len(rows), 1)

    def verify(self) -> int:
        """Walk the whole chain and compare the tables with it; give the number of entries."""
        with self._reading() as connection:
            return audit(connection).head.number + 1


def _answer_in(body: str) -> str:
    return str(json.loads(body)["answer"])

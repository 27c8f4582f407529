"""What a ledger has recorded, read by index: charges, answers, decisions, spending.

Nothing here writes. Questions come back as the JSON they are stored as, those of older ledgers too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select, text

from sulq.ledger.allotments import NOTHING, allotments
from sulq.ledger.chain import (
    CELLS,
    CHARGES,
    DECISION,
    ENTRIES,
    HEAD,
    as_charge,
    digest,
    entries_from,
    read_head,
)
from sulq.ledger.kept_beside import DISCOVER, KEYS, PROGRAM, KeptProgram, kept_programs
from sulq.ledger.older_text import question_of
from sulq.ledger.retry import patient
from sulq.ledger.statements import among, run
from sulq.ledger.streams import SINCE, is_running, stretches
from sulq.ledger.types import Allotment, Charge, Entry, Head

NEVER = 2**63 - 1  # beyond every entry's number
ANSWERS = ENTRIES.alias("answers")
_charge = (ENTRIES.c.number, ENTRIES.c.body, CHARGES.c.question)
_charged = CHARGES.join(ENTRIES, ENTRIES.c.number == CHARGES.c.number)
_maybe_answered = (
    select(CHARGES.c.query, *_charge, ANSWERS.c.body)
    .select_from(_charged)
    .outerjoin(ANSWERS, ANSWERS.c.number == CHARGES.c.answer)
)
_answered = _maybe_answered.where(CHARGES.c.epoch == select(HEAD.c.epoch).scalar_subquery())
_going_on = _maybe_answered.where(CHARGES.c.kind == "running", CHARGES.c.epoch == SINCE)
_charges = select(*_charge).select_from(_charged)
_first = _charges.order_by(CHARGES.c.number).limit(1)
_answers = select(CHARGES.c.number, ANSWERS.c.body).join(
    ANSWERS, ANSWERS.c.number == CHARGES.c.answer
)
_answered_now = (
    select(CHARGES.c.number)
    .where(
        CHARGES.c.kind == "question", CHARGES.c.epoch == bindparam("epoch"),
        CHARGES.c.answer.is_not(None),
    )
    .order_by(CHARGES.c.number.desc())
    .limit(bindparam("most"))
)  # fmt: skip
_answered_of = _answered_now.where(CHARGES.c.analyst == bindparam("who"))
_with_answers = (
    select(*_charge, ANSWERS.c.body)
    .select_from(_charged)
    .join(ANSWERS, ANSWERS.c.number == CHARGES.c.answer)
)
_decided = select(ENTRIES).where(text(DECISION)).order_by(ENTRIES.c.number)
_decisions = _decided.where(
    ENTRIES.c.number > bindparam("after"), ENTRIES.c.number < bindparam("before"),
    *(ENTRIES.c.kind != beside for beside in (PROGRAM, KEYS, DISCOVER)),
)  # fmt: skip
_carried = _decided.where(ENTRIES.c.kind == "carry", ENTRIES.c.number >= bindparam("first"))
_spent = select(CELLS).order_by(CELLS.c.cell)
_extras = select(CELLS.c.cell, CELLS.c.spent)
_analysts = select(CHARGES.c.analyst).where(CHARGES.c.number >= bindparam("first")).distinct()
_sampled = _charges.where(
    CHARGES.c.number.in_(
        select(func.max(CHARGES.c.number))
        .where(CHARGES.c.number >= bindparam("first"), CHARGES.c.kind != "batch")
        .group_by(CHARGES.c.number // bindparam("step"))
    )
).order_by(CHARGES.c.number)


class History:
    """The reading half of a ledger."""

    total: int
    terms: dict[str, Any]
    _epoch: int

    def _reading(self) -> AbstractContextManager[Connection]:
        raise NotImplementedError

    # -- questions --

    def find(self, query: str) -> tuple[Charge, str | None] | None:
        """The charge already made for this question and its answer, if there is one."""
        return self.find_all([query]).get(query)

    @patient
    def find_all(self, queries: Iterable[str]) -> dict[str, tuple[Charge, str | None]]:
        """The same for several questions: those of them that are charged."""
        texts = {digest(question_of(query)): query for query in queries}
        going = [key for key, query in texts.items() if is_running(query)]
        others = [key for key in texts if key not in set(going)] if going else texts
        with self._reading() as connection:
            rows = list(among(connection, _answered, CHARGES.c.query, others))
            rows += among(connection, _going_on, CHARGES.c.query, going)
        return {
            texts[key]: (as_charge(*charge), None if answer is None else answer_in(answer))
            for key, *charge, answer in rows
        }

    @patient
    def stretches(self, stream: str) -> list[tuple[int, int]]:
        """What is paid for of running totals, in order: from which period to before which."""
        with self._reading() as connection:
            return [(s.first, s.last) for s in stretches(connection).get(stream, ())]

    @patient
    def in_order(self) -> bool:
        """Must periods open in the order of the schema? Where totals run, or people are in many."""
        with self._reading() as connection:
            return self.terms["schema"].get("unit") is not None or bool(stretches(connection))

    def history(self) -> list[Charge]:
        """Every charge ever made, oldest first."""
        return self.charges()

    @patient
    def first_charge(self) -> Charge | None:
        """The oldest charge."""
        with self._reading() as connection:
            row = run(connection, _first).fetchone()
        return None if row is None else as_charge(*row)

    @patient
    def charges(
        self, *, after: int = -1, before: int | None = None, analyst: str | None = None,
        limit: int | None = None, newest: bool = False, batches: bool = True,
    ) -> list[Charge]:  # fmt: skip
        """Charges behind one entry and before another, oldest or newest first.

        `batches`: also the free lines that stand for a whole list of questions.
        """
        asked = _charges.where(CHARGES.c.number > after)
        if before is not None:
            asked = asked.where(CHARGES.c.number < before)
        if analyst is not None:
            asked = asked.where(CHARGES.c.analyst == analyst)
        if not batches:
            asked = asked.where(CHARGES.c.kind != "batch")
        order = CHARGES.c.number.desc() if newest else CHARGES.c.number
        with self._reading() as connection:
            rows = connection.execute(asked.order_by(order).limit(limit)).all()
        return [as_charge(*row) for row in rows]

    @patient
    def answers_to(self, charges: Sequence[int]) -> dict[int, str]:
        """The stored answers of these charges, of those that have one."""
        with self._reading() as connection:
            rows = list(among(connection, _answers, CHARGES.c.number, charges))
        return {number: answer_in(body) for number, body in rows}

    @patient
    def answered(self, *, most: int, analyst: str | None = None) -> list[int]:
        """The newest answered charges of the present rows, of one analyst if one is named."""
        asked, whose = (_answered_now, {}) if analyst is None else (_answered_of, {"who": analyst})
        with self._reading() as connection:
            rows = run(connection, asked, {"epoch": self._epoch, "most": most} | whose).fetchall()
        return [number for (number,) in rows]

    @patient
    def with_answers(self, charges: Sequence[int]) -> list[tuple[Charge, str]]:
        """These charges, of those that have an answer, with it."""
        with self._reading() as connection:
            rows = list(among(connection, _with_answers, CHARGES.c.number, charges))
        return [(as_charge(*charge), answer_in(answer)) for *charge, answer in rows]

    @patient
    def analysts_since(self, first: int) -> list[str]:
        """Who asked from this entry on."""
        with self._reading() as connection:
            rows = run(connection, _analysts, {"first": first}).fetchall()
        return sorted(row[0] for row in rows)

    @patient
    def spending_since(self, first: int, points: int) -> list[tuple[str, int]]:
        """How spending grew from this entry on: times and micro-queries, about so many of them."""
        with self._reading() as connection:
            step = max(1, -(-(read_head(connection).number + 1 - first) // points))
            rows = run(connection, _sampled, {"first": first, "step": step}).fetchall()
            carried = run(connection, _carried, {"first": first}).fetchall()
        found = [(row[0], json.loads(row[1])) for row in rows]
        found += [(number, json.loads(body)) for number, _, body, *_ in carried]
        found.sort(key=lambda each: each[0])
        return [(b["time"], self.total - b.get("group", b["remaining"])) for _, b in found]

    # -- spending --

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

    def budget(self) -> tuple[int, int, int]:
        """Total, spent and remaining in micro-queries, for the cell that spent most."""
        head = self.head()
        spent = head.base + head.most
        return self.total, spent, max(self.total - spent, 0)  # a carry may have spent more

    @patient
    def spent_by_cell(self) -> dict[int, int]:
        """What the rows of each cell have spent, in micro-queries."""
        with self._reading() as connection:
            base = read_head(connection).base
            return {cell: base + extra for cell, extra in extras_of(connection).items()}

    def base(self) -> int:
        """What everybody has spent, in micro-queries."""
        return self.head().base

    # -- entries --

    @patient
    def head(self) -> Head:
        """Where the chain ends and what has been spent."""
        with self._reading() as connection:
            return read_head(connection)

    def entries(self, first: int = 0) -> Iterator[Entry]:
        """Every entry of the chain from this one on, oldest first."""
        last = self.head().number
        while first <= last:
            rows = self._from(first)
            yield from map(_entry, rows)
            first += max(len(rows), 1)

    @patient
    def _from(self, first: int) -> Sequence[Row[Any]]:
        with self._reading() as connection:
            return entries_from(connection, first)

    @patient
    def decisions(self, *, after: int = -1, before: int | None = None) -> list[Entry]:
        """Every entry that is no question and no answer, oldest first."""
        between = {"after": after, "before": NEVER if before is None else before}
        with self._reading() as connection:
            rows = run(connection, _decisions, between).fetchall()
        return [_entry(row) for row in rows]

    # -- programs --

    @patient
    def programs(self, name: str = "") -> list[KeptProgram]:
        """The modules that paid questions ran, oldest first; those whose hash begins so."""
        with self._reading() as connection:
            return kept_programs(connection, name)


def _entry(row: Sequence[Any]) -> Entry:
    number, kind, body, previous, found = row
    return Entry(number, kind, json.loads(body), previous, found)


def extras_of(connection: Connection, cells: Collection[int] | None = None) -> dict[int, int]:
    """What cells spent beyond what everybody spent: all of them, or these."""
    if cells is None:
        return {cell: extra for cell, extra in run(connection, _spent).fetchall()}
    return {cell: extra for cell, extra in among(connection, _extras, CELLS.c.cell, cells)}


def answer_in(body: str) -> str:
    """The answer that an entry carries."""
    return str(json.loads(body)["answer"])

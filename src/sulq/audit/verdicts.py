"""What an auditor says of each question, in the order of the ledger.

A verdict depends on what was answered before, and the ledger puts all charges in one order. So
every thread and process finds each verdict by itself, from the charges up to it: nothing about
verdicts has to be agreed on, and two questions that may not both be answered never are. A question
that was charged and, after a crash, never answered counts as answered: it may still be asked for.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sulq.audit.limits import Limits
from sulq.audit.promise import AuditPromise
from sulq.audit.total import Total, restore_all
from sulq.errors import LedgerDamaged, QueryNotAllowed
from sulq.values.schema import Schema

if TYPE_CHECKING:
    from sulq.ledger import Charge, Ledger


ALIKE = "{alike}"  # in a detail: the questions it is like


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer it or not. `why` is for everyone; `kind` and `detail` are for the owner's review."""

    ok: bool
    why: str = ""
    kind: str = ""
    detail: str = ""
    alike: tuple[int, ...] = ()  # admitted questions that it is like, from 0
    added: int = 1  # rows that X gains, where it is answered
    exact: int | None = None  # the sum of one number, where deciding has computed it already

    def told(self, numbers: Sequence[int]) -> str:
        """The detail, with the questions it is like by the numbers of all those admitted."""
        return self.detail.replace(ALIKE, ", ".join(f"#{numbers[j]}" for j in self.alike))


class CountsByColumns(Protocol):
    """An engine that counts rows by public columns."""

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it."""
        ...


class Auditor(Protocol):
    """Decides one question after the other. A refused one leaves no trace."""

    @property
    def reads_rows(self) -> bool:
        """Does a verdict depend on private rows?"""
        return False

    def look_with(self, engine: CountsByColumns) -> None:
        """From now on, let this engine count by public columns: it waits for no scan."""
        return

    def check(self, total: Total) -> None:
        """Raise QueryNotAllowed if the rule cannot judge it at all. Reads the schema only."""
        return

    def judge(self, totals: Sequence[Total]) -> Verdict:
        """May all of these be answered beside everything admitted so far? Changes nothing."""
        ...

    def limits(self, promise: AuditPromise, n: int) -> Limits | None:
        """What a limit theorem is worth for what is admitted, if the rule rests on one."""
        return None

    def admit(self, totals: Sequence[Total]) -> None:
        """These are answered: every later verdict takes them into account."""
        ...


class VerdictLog:
    """What the auditor has decided so far, shared by all who ask in this process."""

    def __init__(self, auditor: Auditor, ledger: Ledger, schema: Schema) -> None:
        self.auditor = auditor
        self._ledger = ledger
        self._schema = schema
        self._lock = threading.Lock()
        self._last = -1  # every charge up to this entry is decided
        self._verdicts: dict[int, Verdict] = {}  # of those the ledger had no answer to

    def verdict(self, charge: Charge) -> Verdict | None:
        """Decide every charge up to this one and give this one's; None: its answer is stored."""
        with self._lock:
            if charge.number > self._last:
                self._catch_up(charge.number)
            return self._verdicts.get(charge.number)

    def _catch_up(self, last: int) -> None:
        told: list[Total] = []  # answered, and not admitted yet
        for charge in self._ledger.charges(after=self._last, before=last + 1):
            totals, stored = self._totals(charge), self.stored(charge)
            if stored is None:
                self._admit(told, charge.number - 1)
                told = []
                verdict = self.auditor.judge(totals)
                self._verdicts[charge.number] = verdict
                told = totals if verdict.ok else []
            elif "refused" not in stored:
                told += totals
        self._admit(told, last)

    def _totals(self, charge: Charge) -> list[Total]:
        try:
            return restore_all(charge.query, self._schema)
        except QueryNotAllowed:
            raise LedgerDamaged(
                f"Ledger entry {charge.number} is no question that this auditor can read, so what "
                "was answered is not known. Nothing more is answered."
            ) from None

    def _admit(self, told: Sequence[Total], number: int) -> None:
        self.auditor.admit(told)
        self._last = max(self._last, number)

    def stored(self, charge: Charge) -> dict[str, Any] | None:
        """What the ledger keeps as the answer: {"sum": steps} or {"sums"}, or {"refused": why}."""
        found = self._ledger.find(charge.query)
        if found is None or found[1] is None:
            return None
        body: dict[str, Any] = json.loads(found[1])
        return body

"""Verdicts in the order of the ledger, the same in every thread and process.

A verdict depends on what was answered before, and the ledger puts all charges in one order. So
every process finds each verdict by itself, from the charges up to it: nothing about verdicts has
to be agreed on, and two questions that may not both be answered never are. A question that was
charged and, after a crash, never answered counts as answered: it may still be asked for.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from sulq.audit.total import Total, restore
from sulq.audit.verdict import Auditor, Verdict
from sulq.errors import LedgerDamaged, QueryNotAllowed
from sulq.schema import Schema

if TYPE_CHECKING:
    from sulq.ledger import Charge, Ledger


class Docket:
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
        for charge in self._ledger.history():
            if not self._last < charge.number <= last:
                continue
            total, stored = self._total(charge), self.stored(charge)
            if stored is None:
                self._admit(told, charge.number - 1)
                verdict = self.auditor.judge(total)
                self._verdicts[charge.number] = verdict
                told = [total] if verdict.ok else []
            elif "refused" not in stored:
                told.append(total)
        self._admit(told, last)

    def _total(self, charge: Charge) -> Total:
        try:
            return restore(charge.query, self._schema)
        except QueryNotAllowed:
            raise LedgerDamaged(
                f"Ledger entry {charge.number} is no question that this auditor can read, so what "
                "was answered is not known. Nothing more is answered."
            ) from None

    def _admit(self, told: list[Total], number: int) -> None:
        self.auditor.admit(told)
        self._last = max(self._last, number)
        told.clear()

    def stored(self, charge: Charge) -> dict[str, Any] | None:
        """What the ledger keeps as the answer: {"sum": steps} or {"refused": why}."""
        found = self._ledger.find(charge.query)
        if found is None or found[1] is None:
            return None
        body: dict[str, Any] = json.loads(found[1])
        return body

"""Made-up rows to try a question on, free; and how close its answer will be.

A rehearsal is made from what is public alone: the schema, the promise and the number of rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from sulq.audit.promise import is_audited
from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.preview import Width, synthetic, widths
from sulq.values.answer import Answer
from sulq.values.query import Query
from sulq.values.table import Table

KEPT = 8  # rehearsals in memory
MAX_QUESTIONS = 300  # questions after which one is made anew, since it remembers what it was asked


@dataclass
class _Kept:
    db: Database
    lock: threading.Lock
    asked: int = 0


class KeptRehearsals:
    """Rehearsals of databases, made when they are wanted. For threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, real: Database, asked: str | Query) -> Table | Answer:
        """The answer on made-up rows."""
        if is_audited(real.promise):
            raise QueryNotAllowed(
                "an audited table is not rehearsed: its answers have no noise to get used to. "
                "Review the question instead, which is free. Nothing was charged."
            )
        kept = self._of(real)
        with kept.lock:
            found: Table | Answer = kept.db.answer(kept.db.question(asked))
        return found

    def table(self, real: Database, sql: str) -> Table:
        """The same of a SELECT."""
        found = self.answer(real, sql)
        assert isinstance(found, Table)
        return found

    def widths(self, real: Database, asked: str | Query) -> dict[str, Width]:
        """What each number of the answer will be within, at 95%; nothing of an audited table."""
        if is_audited(real.promise):
            return {}
        kept = self._of(real)
        with kept.lock:
            return widths(kept.db, asked)

    def _of(self, real: Database) -> _Kept:
        key = repr((real.name, real.schema, real.promise, real.pricing, real.rows))
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.asked >= MAX_QUESTIONS:
                found = self._kept[key] = _Kept(synthetic(real), threading.Lock())
            found.asked += 1
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return found

"""Made-up rows to try a question on, free; and how close its answer will be.

A rehearsal is made from what is public alone: the schema, the promise and the number of rows.
How close an answer will be is computed on it too, by sulq.preview.
"""

from __future__ import annotations

import math
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


class Rehearsals:
    """Rehearsals of datasets, made when they are wanted. For threads."""

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

    def errors(self, real: Database, asked: str | Query) -> list[tuple[str, str]]:
        """Each number of the answer and how close it will be, at 95%."""
        if is_audited(real.promise):
            half = max(real.question(asked).price.half_widths, default=0.0)
            return [("if it is answered", f"± {half:.3g}" if half else "exact")]
        kept = self._of(real)
        with kept.lock:
            found = widths(kept.db, asked)
        return [(name, _reach(width)) for name, width in found.items()]

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


def _reach(width: Width) -> str:
    if math.isnan(width.usual):
        return "not known before"
    return ("" if width.even else "about ") + str(width).replace("+/-", "±")

"""Made-up rows of the same schema and promise, to try questions on: free, and of no rows."""

from __future__ import annotations

import threading
from collections import OrderedDict

from sulq.audit.promise import is_audited
from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.preview import synthetic, widths
from sulq.values.table import Table

KEPT = 4  # in memory
MAX_QUESTIONS = 300  # after which one is made anew, since it remembers what it was asked


class Rehearsals:
    """Rehearsals of databases, made when they are wanted; for threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Database, threading.Lock]] = OrderedDict()
        self._asked: dict[str, int] = {}
        self._lock = threading.Lock()

    def answer(self, real: Database, sql: str) -> Table:
        """The answer to a SELECT, from made-up rows."""
        if is_audited(real.promise):
            raise QueryNotAllowed("an audited table is not rehearsed. Nothing was charged.")
        db, lock = self._of(real)
        with lock:
            return db.sql(sql)

    def errors(self, real: Database, sql: str) -> dict[str, float]:
        """What each number will be within, about, at 95%."""
        if is_audited(real.promise):
            return {}
        db, lock = self._of(real)
        with lock:
            return {name: width.usual for name, width in widths(db, sql).items()}

    def _of(self, real: Database) -> tuple[Database, threading.Lock]:
        key = repr((real.name, real.schema, real.promise, real.pricing, real.rows))
        with self._lock:
            found = self._kept.get(key)
            self._asked[key] = self._asked.get(key, 0) + 1
            if found is None or self._asked[key] > MAX_QUESTIONS:
                found = self._kept[key] = (synthetic(real), threading.Lock())
                self._asked[key] = 1
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                old, _ = self._kept.popitem(last=False)
                del self._asked[old]
            return found

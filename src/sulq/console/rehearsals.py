"""Made-up rows to try a question on, free; and how close its answer will be.

A rehearsal is made from what is public alone: the schema, the promise and the number of rows.
The error that a question's answer will have is worked out on it: sums of made-up rows, as many
as the table has, with the table's own noise.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import median
from typing import Any

from sulq.answer import Answer, Table, with_error
from sulq.console.showing import body_of, numbers_of
from sulq.database import Database
from sulq.query import Query
from sulq.rehearsing import rehearsal

MOST_ROWS = 20_000
KEPT = 8  # rehearsals in memory
TIRED = 300  # questions after which one is made anew, since it remembers what it was asked


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

    def answer(self, real: Database, asked: str | Query) -> dict[str, Any]:
        """The answer on made-up rows, as the body of a table."""
        kept = self._of(real)
        with kept.lock:
            found: Table | Answer = kept.db.answer(kept.db.question(asked))
        return body_of(found)

    def errors(self, real: Database, asked: str | Query) -> list[tuple[str, str]]:
        """Each number of the answer and how close it will be, at 95%."""
        kept = self._of(real)
        with kept.lock:
            question = kept.db.question(asked)
            given = [
                kept.db.ask(list(bundle.queries), share=False, together=len(bundle.queries) > 1)
                for bundle in question.bundles
            ]
        share = Fraction(max(real.rows, 1), max(kept.db.rows, 1))
        scaled = [[_scaled(answer, share) for answer in answers] for answers in given]
        body = body_of(question.lay_out(scaled))
        return [(name, _reach(body, name)) for name in numbers_of(body)]

    def _of(self, real: Database) -> _Kept:
        key = repr((real.name, real.schema, real.promise, real.pricing, real.rows))
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.asked >= TIRED:
                found = self._kept[key] = _Kept(_made(real), threading.Lock())
            found.asked += 1
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return found


def _made(real: Database) -> Database:
    promise = real.promise
    return rehearsal(
        real.schema, min(real.rows, MOST_ROWS), epsilon=promise.epsilon, delta=promise.delta,
        queries=promise.queries, noise=promise.noise, guarantee=promise.guarantee,
        pricing=real.pricing, name=real.name,
    )  # fmt: skip


def _scaled(answer: Answer, share: Fraction) -> Answer:
    """The same sums for more rows, with the same noise."""
    return replace(answer, exact=tuple(tuple(x * share for x in row) for row in answer.exact))


def _reach(body: dict[str, Any], name: str) -> str:
    found = [
        (row[f"{name}_high"] - row[f"{name}_low"]) / 2
        for row in body["rows"]
        if row[f"{name}_high"] is not None and row[f"{name}_low"] is not None
    ]
    if not found:
        return "not known before"
    usual = with_error(0.0, median(found)).split("+/- ")[1]
    return f"± {usual}" if max(found) <= 1.1 * min(found) else f"about ± {usual}"

"""A question before it is paid: its price, whether it is free, how exact it will be.

No private row is read. How exact a mean or a ratio will be depends on the rows, so it is
computed on synthetic ones, made from what is public alone, as many as the table has and under its
promise: the prompt, the console and whoever else shows a price look at them through here.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from sulq.audit.promise import is_audited
from sulq.errors import QueryNotAllowed
from sulq.policies import add_noise
from sulq.questions.question import Bundle
from sulq.rehearsal_database import rehearsal
from sulq.values.answer import Answer
from sulq.values.number_text import half_width
from sulq.values.price import Price
from sulq.values.query import Query
from sulq.values.table import Table

if TYPE_CHECKING:
    from sulq.database import Database
    from sulq.privacy.noise import Law

MAX_MADE = 20_000  # rows enough to know the sizes of groups; sums are brought to the table's size
KEPT = 8  # rehearsals in memory
MAX_QUESTIONS = 300  # questions after which one is made anew, since it remembers what it was asked
EVEN = 1.1  # of the least half-width: up to there groups have about the same


@dataclass(frozen=True, slots=True)
class Width:
    """What a number will be within, at 95%: the middle half-width over the groups."""

    usual: float
    even: bool  # do all groups have about the same?

    @classmethod
    def of(cls, halves: list[float]) -> Width:
        """From the half-widths of the groups; those that are not known do not count."""
        known = [half for half in halves if math.isfinite(half)]
        if not known:
            return cls(math.nan, True)
        return cls(statistics.median(known), max(known) <= EVEN * min(known))

    def __str__(self) -> str:
        if math.isnan(self.usual):
            return "unknown"
        return half_width(self.usual)


@dataclass(frozen=True, slots=True)
class Preview:
    """The price of a statement and how exact it would be."""

    price: Price
    free: bool  # asked before, or public
    widths: dict[str, Width]
    public: bool = False  # nothing private is asked

    def __str__(self) -> str:
        if self.public:
            return "free: public, so the answer is exact"
        if self.free:
            return "free: asked before, the stored answer comes back"
        within = ", ".join(f"{name} {width}" for name, width in self.widths.items())
        return f"price {self.price}" + (f"; expected within about {within} (95%)" if within else "")


@dataclass(eq=False)
class _Kept:
    db: Database
    lock: threading.Lock
    asked: int = 0
    users: int = 0
    widths: dict[tuple[Hashable, bytes], dict[str, Width]] = field(default_factory=dict)


class KeptRehearsals:
    """Rehearsals of databases, made when they are wanted. For threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._leaving: list[_Kept] = []  # no longer kept, and closed when nobody uses them
        self._lock = threading.Lock()

    def answer(self, real: Database, asked: str | Query) -> Table | Answer:
        """The answer on made-up rows."""
        if is_audited(real.promise):
            raise QueryNotAllowed(
                "an audited table is not rehearsed: its answers have no noise to get used to. "
                "Review the question instead, which is free. Nothing was charged."
            )
        with self._used(real) as kept:
            answer: Table | Answer = kept.db.answer(kept.db.question(asked))
        return answer

    def table(self, real: Database, sql: str) -> Table:
        """The same of a SELECT."""
        found = self.answer(real, sql)
        assert isinstance(found, Table)
        return found

    def widths(self, real: Database, asked: str | Query, who: Hashable = None) -> dict[str, Width]:
        """The 95% half-width of each number of the answer; nothing of an audited table.

        Cached per caller, so that latency does not reveal what others previewed.
        """
        if is_audited(real.promise):
            return {}
        text = asked if isinstance(asked, str) else json.dumps(asked.to_json())
        key = who, sha256(text.encode(errors="surrogatepass")).digest()
        with self._used(real) as kept:
            if key not in kept.widths:
                kept.widths[key] = widths(kept.db, asked)
            return kept.widths[key]

    def errors(
        self, real: Database, asked: str | Query, who: Hashable = None
    ) -> list[tuple[str, str]]:
        """The same in words: each number of the answer and how close it will be."""
        if is_audited(real.promise):
            half = max(real.question(asked).price.half_widths, default=0.0)
            return [("if it is answered", f"± {half:.3g}" if half else "exact")]
        return [(name, _reach(width)) for name, width in self.widths(real, asked, who).items()]

    @contextmanager
    def _used(self, real: Database) -> Iterator[_Kept]:
        """The rehearsal of a database, for one user at a time; evicted rehearsals are closed."""
        with self._lock:
            kept = self._of(real)
            kept.users += 1
        try:
            with kept.lock:
                yield kept
        finally:
            with self._lock:
                kept.users -= 1
                self._close_unused()

    def _of(self, real: Database) -> _Kept:
        terms = (real.name, real.schema, real.promise, real.pricing, real.rows, real.program_fuel)
        key = repr(terms)
        kept = self._kept.get(key)
        if kept is None or kept.asked >= MAX_QUESTIONS:
            if kept is not None:
                self._leaving.append(kept)
            kept = self._kept[key] = _Kept(synthetic(real), threading.Lock())
        kept.asked += 1
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._leaving.append(self._kept.popitem(last=False)[1])
        return kept

    def _close_unused(self) -> None:
        """Close what is no longer kept, but for what somebody looks at now."""
        for kept in [kept for kept in self._leaving if not kept.users]:
            self._leaving.remove(kept)
            kept.db.close()


class Previews:
    """Looks at the statements of one database before they are paid."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._rehearsals = KeptRehearsals()

    def look(self, text: str) -> Preview:
        """Price one SELECT. Nothing is spent; what may not be asked is refused here."""
        question = self._db.question(text)
        if not question.bundles:
            return Preview(Price(0), True, {}, public=True)
        known = all(self._db._ledger.find(bundle.text) is not None for bundle in question.bundles)
        return Preview(question.price, known, self._rehearsals.widths(self._db, text))


def synthetic(real: Database) -> Database:
    """A database of synthetic rows under the same promise, as many as the real one has."""
    promise = real.promise
    return rehearsal(
        real.schema, real.rows, made=MAX_MADE, epsilon=promise.epsilon, delta=promise.delta,
        queries=promise.queries, noise=promise.noise, guarantee=promise.guarantee,
        pricing=real.pricing, name=real.name, program_fuel=real.program_fuel,
    )  # fmt: skip


def widths(made: Database, asked: str | Query) -> dict[str, Width]:
    """What each number of the answer will be within, from synthetic rows and without noise."""
    question = made.question(asked)
    given = [bundle.answers(_sums(made, bundle), 0) for bundle in question.bundles]
    table = table_of(question.lay_out(given, made._pipeline.count(question.facts)))
    return {
        name: Width.of([
            (high - low) / 2
            for low, high in zip(table[f"{name}_low"], table[f"{name}_high"], strict=True)
        ])
        for name in table.numbers
    }  # fmt: skip


def _sums(made: Database, bundle: Bundle) -> list[list[list[int]]]:
    sums = made._pipeline.engine.sums([query for query, _ in bundle.parts])
    silence: defaultdict[Law, Iterator[int]] = defaultdict(lambda: itertools.repeat(0))
    return [
        add_noise(query, tariff, exact, silence)
        for (query, tariff), exact in zip(bundle.parts, sums, strict=True)
    ]


def table_of(found: Table | Answer) -> Table:
    """An answer in the shape of a table."""
    if isinstance(found, Table):
        return found
    return found.table(names=["count" if name == "1" else name for name in found.names])


def _reach(width: Width) -> str:
    if math.isnan(width.usual):
        return "not known before"
    return ("" if width.even else "about ") + str(width).replace("+/-", "±")

"""Answers that leave on time: scans are bounded, noise is drawn first, what is late is noise.

PODS 05, 3.1.5: how long a sum takes may tell something about a row. So a server gives its
replies at a deadline known beforehand (server/deadlines.py). Here is what the corridor does for
it: a scan that is not done by then is stopped, and a reply can be made of noise alone, paid for
like any other. It is never stored as the question's answer.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sulq.check import CheckedQuery
from sulq.database import Database, add_noise
from sulq.errors import EngineFailed
from sulq.noise import Law, Noise
from sulq.query import Query
from sulq.question import Bundle, Question

if TYPE_CHECKING:
    from sulq.engines.base import Engine, Matrix

AHEAD = 16  # numbers of one law
LAWS = 64
MOMENT_SECONDS = 0.5

_UNTIL: ContextVar[float | None] = ContextVar("sulq_until", default=None)


class TooLate(EngineFailed):
    """The scan was not done by its deadline. The charge stands."""

    def __init__(self) -> None:
        super().__init__(
            "the engine was not done in time. The charge stands; asking the same question again "
            "does not pay again."
        )


@contextmanager
def until(moment: float | None) -> Iterator[None]:
    """Scans in here must be done by this moment of time.monotonic(); None: whenever they are."""
    token = _UNTIL.set(moment)
    try:
        yield
    finally:
        _UNTIL.reset(token)


class BoundedEngine:
    """An engine whose scans stop at the moment that `until` says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn = threading.Lock()  # so that a scan stops itself and no other
        self.schema = engine.schema
        self.rows = engine.rows

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact sums, or TooLate."""
        moment = _UNTIL.get()
        if moment is None:
            return self._engine.sums(queries)
        if not self._turn.acquire(timeout=max(moment - time.monotonic(), 0.0)):
            raise TooLate
        stopped = threading.Event()
        try:
            with self._stopping(moment, stopped):
                return self._engine.sums(queries)
        except EngineFailed:
            if stopped.is_set():
                raise TooLate from None
            raise
        finally:
            self._turn.release()

    @contextmanager
    def _stopping(self, moment: float, stopped: threading.Event) -> Iterator[None]:
        stop = getattr(self._engine, "interrupt", None)

        def at_deadline() -> None:
            stopped.set()
            if stop is not None:
                with suppress(Exception):  # its connection may be closed by now
                    stop()

        timer = threading.Timer(max(moment - time.monotonic(), 0.0), at_deadline)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # one that has begun ends before the next scan does

    def close(self) -> None:
        """Let go of the source."""
        self._engine.close()


class NoiseAhead:
    """Noise drawn some numbers ahead of need: each is given once, none is kept for long.

    What is drawn ahead would be drawn again from a copy of this process's memory. So a fork begins
    with nothing, and what is older than a moment is thrown away.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._lock = threading.Lock()
        self._ready: dict[Law, tuple[float, list[int]]] = {}
        self._process = os.getpid()

    def draw(self, law: Law, count: int) -> list[int]:
        """Return `count` independent draws of `law`."""
        if count > AHEAD // 4:
            return self._noise.draw(law, count)
        with self._lock:
            if self._process != os.getpid() or len(self._ready) > LAWS:
                self._ready, self._process = {}, os.getpid()
            since, ready = self._ready.get(law, (0.0, []))
            if len(ready) < count or time.monotonic() - since > MOMENT_SECONDS:
                ready = self._noise.draw(law, AHEAD)
                self._ready[law] = (time.monotonic(), ready)
            drawn = ready[-count:] if count else []
            del ready[len(ready) - count :]
            return drawn


class Paced(Database):
    """A Database for a server: the same answers, from scans that end in time."""

    def _sums_and_noise(
        self, bundles: list[Bundle]
    ) -> tuple[list[list[list[int]]], dict[Law, Iterator[int]]]:
        """Noise first: how long it takes to draw then says nothing about the scan."""
        noise = self._drawn(bundles)
        return self._sums([c for b in bundles for c, _ in b.parts]), noise

    def noise_alone(self, question: Question, *, request_id: str | None = None) -> Any:
        """What `answer` would give if every sum were 0. Paid for, kept nowhere, no row read."""
        bundles = list(question.bundles)
        _, _, left = self._charge(bundles, request_id)
        remaining = self._left() if left is None else left
        found = []
        for bundle in bundles:
            noise = self._drawn([bundle])
            noisy = [add_noise(c, t, _zeros(c), noise) for c, t in bundle.parts]
            found.append(bundle.answers(noisy, remaining))
        return question.lay_out(found)


def _zeros(query: CheckedQuery) -> list[list[int]]:
    cells, width = query.shape
    return [[0] * width for _ in range(cells)]


def paced(db: Database) -> Paced:
    """The same database with bounded scans; what loads on first use is loaded now."""
    question = db.question(Query())
    db._drawn(list(question.bundles))
    return Paced(
        BoundedEngine(db._engine), db.promise, db._ledger, NoiseAhead(db._noise), db._guard,
        pricing=db.pricing, name=db.name,
    )  # fmt: skip

"""One question from door to door: price, admission, corridor, and a reply at its deadline.

The clock starts when the question is admitted. The slot is held until the deadline, or others
could tell by their own turn how long this one took. What the corridor has not given in time
leaves as noise, charged; the owner hears of it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sulq.crowd import Order, answer_all
from sulq.errors import EngineFailed, Refused, SourceChanged
from sulq.pace import Paced, TooLate, until
from sulq.question import Question
from sulq.server import logs
from sulq.server.access import Access, Record, Visitor
from sulq.server.admission import AtOnce
from sulq.server.crowding import Crowding
from sulq.server.datasets import Dataset, Datasets, check_open
from sulq.server.deadlines import random_delay, seconds_for
from sulq.server.metrics import Metrics
from sulq.server.replies import answer_body, dumped
from sulq.server.settings import Settings

SCAN_SHARE = 0.7  # of the time to the deadline, for the scan;
DECIDE_SHARE = 0.8  # and until what has not come is late
THREADS = 32

Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Clock:
    """When a question was admitted and how long after its reply leaves, by time.monotonic()."""

    start: float
    seconds: float

    def at(self, share: float) -> float:
        """The moment at this share of the time."""
        return self.start + share * self.seconds

    def left(self, share: float = 1.0) -> float:
        """Seconds until then."""
        return max(self.at(share) - time.monotonic(), 0.0)


class Asking:
    """Answers questions of all visitors to all datasets of this process."""

    def __init__(
        self, datasets: Datasets, access: Access, settings: Settings, metrics: Metrics
    ) -> None:
        self._datasets = datasets
        self._access = access
        self._settings = settings
        self._metrics = metrics
        self._at_once = AtOnce(settings.at_once)
        # Kept as long as their dataset is open or asked; then their threads end by themselves.
        self._own: WeakKeyDictionary[Dataset, _Threads] = WeakKeyDictionary()
        self._crowds: WeakKeyDictionary[Dataset, Crowding[Callable[[], _Asked]]] = (
            WeakKeyDictionary()
        )
        self._threads = _pool(THREADS)

    def close(self) -> None:
        """Wait for what is under way."""
        own = [pool for threads in self._own.values() for pool in (threads.scans, threads.noise)]
        for pool in (self._threads, *own):
            pool.shutdown(wait=True)

    async def run(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what blocks in a thread, with this request's context."""
        return await _run_in(self._threads, function, *arguments)

    def start(self, function: Callable[..., Any]) -> Future[Any]:
        """Begin something in a thread that nobody waits for."""
        return self._threads.submit(function)

    async def dataset(self, record: Record) -> Dataset:
        """The dataset, opened if need be."""
        if self._datasets.is_open(record):
            return self._datasets.opened(record)
        return await self.run(self._datasets.opened, record)

    def seconds(self, dataset: Dataset, question: Question) -> float | None:
        """The public deadline of a question."""
        return seconds_for(question.work, dataset.pace, self._settings)

    async def answer(
        self, visitor: Visitor, record: Record, make: Callable[[Paced], Question],
        request_id: str | None, form: str = "",
    ) -> bytes:  # fmt: skip
        """The reply to a question, at its deadline; `form` says how the reply is laid out."""
        who = visitor.person
        check_open(record)
        dataset = await self.dataset(record)
        db = dataset.db.as_analyst(who.in_ledger)
        assert isinstance(db, Paced)

        def asked() -> _Asked:
            return _Asked(record, db, who.in_ledger, make(db), request_id, form)

        try:
            with dataset.using(), self._at_once.one_more(who.id):
                if not self._settings.padding:
                    async with dataset.turnstile.slot(who.id) as waited:
                        if waited:
                            check_open(self._access.again(visitor, record))
                        reply: bytes = await self._crowd(dataset).ask(asked)
                        return reply
                ready = await self.run(asked)  # before the clock starts
                seconds = self.seconds(dataset, ready.question)
                assert seconds is not None
                async with dataset.turnstile.slot(who.id):
                    check_open(self._access.again(visitor, record))
                    return await self._on_time(ready, Clock(time.monotonic(), seconds), dataset)
        except SourceChanged:
            await self.run(self._datasets.forget, record)  # perhaps it was refreshed
            raise

    def _crowd(self, dataset: Dataset) -> Crowding[Callable[[], _Asked]]:
        """Those who ask one dataset without deadlines."""
        found = self._crowds.get(dataset)
        if found is None:

            async def work(some: Sequence[Callable[[], _Asked]]) -> Sequence[Any]:
                return await self.run(self._replies, some)

            found = self._crowds[dataset] = Crowding(work)
        return found

    def _replies(self, some: Sequence[Callable[[], _Asked]]) -> list[bytes | Exception]:
        """Each one's reply, or what it met; worked on at once."""
        out: list[bytes | Exception | None] = [None] * len(some)
        orders: dict[int, tuple[_Asked, Order]] = {}
        for i, make in enumerate(some):
            try:
                asked = make()
                out[i] = self._before(asked)
                if out[i] is None:
                    orders[i] = asked, Order(asked.db, asked.question, asked.request_id)
            except Exception as error:
                out[i] = error
        results = answer_all([order for _, order in orders.values()])
        for (i, (asked, _)), found in zip(orders.items(), results, strict=True):
            out[i] = found if isinstance(found, Exception) else self._dumped(asked, found)
        return [x if x is not None else RuntimeError("no reply") for x in out]

    async def _on_time(self, asked: _Asked, clock: Clock, dataset: Dataset) -> bytes:
        """The reply, not before the deadline; a refusal at once, since no row was read for it."""
        own = self._threads_of(dataset)
        work = _run_in(own.scans, self._reply, asked, clock.at(SCAN_SHARE))
        await asyncio.wait({work}, timeout=clock.left(DECIDE_SHARE))
        try:
            if _is_late(work):
                _leave_behind(work, dataset)
                body = await self._late(asked, own)
            else:
                body = work.result()
        except Refused:
            raise
        except EngineFailed:
            await self._leave(asked, clock)
            raise
        await self._leave(asked, clock)
        return body

    async def _leave(self, asked: _Asked, clock: Clock) -> None:
        """Wait for the deadline, and for the paper's random delay if it is wanted."""
        await asyncio.sleep(clock.left())
        if self._settings.random_delay:
            await asyncio.sleep(random_delay(clock.seconds, asked.db.rows, asked.db.promise))

    def _reply(self, asked: _Asked, moment: float | None) -> bytes:
        """Pay and answer; the noise of before, if this request id was late then."""
        if moment is not None and time.monotonic() > moment:
            raise TooLate  # no thread was free before: others' scans are stuck
        before = self._before(asked)
        if before is not None:
            return before
        with until(moment):
            found = asked.db.answer(asked.question, request_id=asked.request_id)
        return self._dumped(asked, found)

    def _dumped(self, asked: _Asked, found: Any) -> bytes:
        self._metrics.add(asked.record.house, "sulq_answers_total", dataset=asked.record.name)
        return dumped(answer_body(found))

    def _before(self, asked: _Asked) -> bytes | None:
        if asked.request_id is None:
            return None
        return self._datasets.late_reply(
            asked.record, asked.analyst, asked.request_id, asked.digest
        )

    async def _late(self, asked: _Asked, own: _Threads) -> bytes:
        """Noise, charged; the owner is told."""
        record = asked.record
        logs.event("late", logging.WARNING, dataset=record.name, person=asked.analyst)
        self._metrics.add(record.house, "sulq_late_total", dataset=record.name)
        return await _run_in(own.noise, self._noise, asked)

    def _threads_of(self, dataset: Dataset) -> _Threads:
        """Threads that are free for this dataset, whatever is asked of others."""
        found = self._own.get(dataset)
        if found is None:
            slots = self._settings.slots
            found = self._own[dataset] = _Threads(_pool(slots), _pool(slots))
        return found

    def _noise(self, asked: _Asked) -> bytes:
        found = asked.db.noise_alone(asked.question, request_id=asked.request_id)
        body = dumped(answer_body(found))
        self._datasets.keep_late(asked.record, asked.analyst, asked.request_id, asked.digest, body)
        return body


@dataclass(frozen=True, slots=True)
class _Threads:
    """One thread for each slot, and one more for its noise: a stuck scan holds up no reply."""

    scans: ThreadPoolExecutor
    noise: ThreadPoolExecutor


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked, of what, under which request id."""

    record: Record
    db: Paced
    analyst: str
    question: Question
    request_id: str | None
    form: str

    @property
    def digest(self) -> str:
        texts = "\n".join([*(bundle.text for bundle in self.question.bundles), self.form])
        return sha256(texts.encode()).hexdigest()


def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="sulq")


def _run_in(
    pool: ThreadPoolExecutor, function: Callable[..., Given], *arguments: Any
) -> asyncio.Future[Given]:
    """Run what blocks in a thread of this pool, with this request's context."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(pool, context.run, function, *arguments)


def _is_late(work: asyncio.Future[bytes]) -> bool:
    return not work.done() or isinstance(work.exception(), TooLate)


def _leave_behind(work: asyncio.Future[bytes], dataset: Dataset) -> None:
    """What the corridor gives later nobody waits for; until then the rows stay open."""

    def done(work: asyncio.Future[bytes]) -> None:
        dataset.use.end()
        if not work.cancelled():
            work.exception()

    if dataset.use.begin():
        work.add_done_callback(done)

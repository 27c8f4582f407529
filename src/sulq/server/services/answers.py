"""One question: read, gathered with others, answered in a batch, and a reply when it closes.

Each dataset has a beat of its own (beat.py) and threads of its own, so neither another dataset nor
a scan that does not end keeps its replies from leaving. What is public of a dataset has another
beat, and waits for no scan of private columns.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from sulq.audit.promise import is_audited
from sulq.database import Database
from sulq.errors import (
    MICRO,
    EngineFailed,
    Frozen,
    NotPermitted,
    SourceChanged,
    SulqError,
    placed,
)
from sulq.pipeline import Stopped
from sulq.questions.question import Question
from sulq.server.services import logs
from sulq.server.services.access import Access, Principal, Record, check_open
from sulq.server.services.admission import AtOnce, Overload
from sulq.server.services.asked import Asked
from sulq.server.services.beat import Beat, Place
from sulq.server.services.datasets import Dataset, Datasets
from sulq.server.services.garbage import Garbage
from sulq.server.services.lateness import Lateness, LateNoise, late
from sulq.server.services.metrics import Metrics
from sulq.server.services.responses import answer_body, dumped
from sulq.server.services.scan_times import row_seconds
from sulq.server.services.settings import Settings
from sulq.server.services.slots import Work, random_delay
from sulq.server.services.spending_caps import SpendingCaps
from sulq.server.services.threads import FairThreads, MeteredThreads, pool, run_in
from sulq.server.services.windows import Clock, Window
from sulq.server.services.work_meter import UNPAID, WorkMeter, current, timed

THREADS = 32  # for what blocks,
EACH = 4  # of them for one person
OPENING = 4  # for what is opened, once for all
READING = 2  # threads that read questions,
PRICING = 1  # and that read those which are only to be priced,
ESTIMATING = 1  # and that read those off stored answers,
LOOKING = 2  # and that look at ledgers
SCANNING = 4  # of one dataset; more than one is busy only while one is stuck
FREE = 2  # threads of one dataset for what is public of it
QUIET_SECONDS = 2.0  # after the last request, when nobody asks

Given = TypeVar("Given")


class Answers:
    """Answers questions of all principals to all datasets of this process."""

    def __init__(
        self, datasets: Datasets, access: Access, settings: Settings, metrics: Metrics,
        caps: SpendingCaps, meter: WorkMeter, clock: Clock | None = None,
    ) -> None:  # fmt: skip
        self._datasets = datasets
        self._access = access
        self._settings = settings
        self._metrics = metrics
        self._caps = caps
        self.clock = clock or Clock()
        self._garbage = Garbage()
        self._wanted = -math.inf  # when somebody last wanted something
        self._at_once = AtOnce(settings.at_once)
        self._free_at_once = AtOnce(settings.at_once)
        self._threads = FairThreads(THREADS, EACH)
        self._opening = pool(OPENING)
        most = settings.at_once
        self._reading = MeteredThreads(READING, meter, most)
        self._pricing = MeteredThreads(PRICING, meter, most, UNPAID)
        self._estimating = MeteredThreads(ESTIMATING, meter, most, UNPAID)
        self._looking = MeteredThreads(LOOKING, meter, most, UNPAID)
        self._metered = (self._reading, self._pricing, self._estimating, self._looking)
        self.overload: Overload = meter.overload
        self._closing = threading.Event()
        self._lateness = Lateness(datasets, metrics)
        self._noise = LateNoise(datasets, settings)
        self._beats: dict[Dataset, _Beats] = {}  # as long as their dataset is open or asked

    def stop(self) -> None:
        """Read no more questions: what waits to be read is refused, what is charged is answered."""
        for threads in self._metered:
            threads.stop()

    def close(self) -> None:
        """Wait for what is under way."""
        self._closing.set()
        for beats in list(self._beats.values()):
            beats.close(wait=True)
        for threads in self._metered:
            threads.close()
        self._threads.close()
        self._opening.shutdown(wait=True)

    async def run(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what blocks in a thread, in its person's turn and for the account of the request."""
        account = current.get()
        who = object() if account is None else account.who
        return await self._threads.run(who, timed, function, *arguments)

    def start(self, function: Callable[..., Any]) -> Future[Any]:
        """Begin something in a thread that nobody waits for."""
        return self._opening.submit(function)

    async def dataset(self, record: Record) -> Dataset:
        """The dataset, opened if need be; somebody wants something of it."""
        self._wanted = self.clock.now()
        if self._datasets.is_open(record):
            return self._datasets.opened(record)
        try:
            return await run_in(self._opening, self._datasets.opened, record)  # once, for all
        except SulqError as error:
            placed(error)  # why it cannot be opened is its owner's to know
            raise

    def waiting(self, dataset: Dataset) -> int:
        """How many questions wait for their batch."""
        found = self._beats.get(dataset)
        return 0 if found is None else found.paid.waiting

    @property
    def busy(self) -> bool:
        """Is any dataset being asked?"""
        return any(beats.paid.busy or beats.free.busy for beats in list(self._beats.values()))

    @property
    def quiet(self) -> bool:
        """Has nobody asked anything for a while?"""
        return not self.busy and self.clock.now() - self._wanted > QUIET_SECONDS

    @property
    def reading(self) -> bool:
        """Is it the time of any batch's scan?"""
        return any(b.paid.reading or b.free.reading for b in list(self._beats.values()))

    async def tidy(self, opening: Future[Any]) -> None:
        """Tidy the memory of this process between batches, once datasets are open, for ever."""
        await asyncio.wait({asyncio.wrap_future(opening)})
        await self._garbage.watch(lambda: self.reading, lambda: not self.quiet)

    # ---- questions ------------------------------------------------------------------------

    async def price(
        self, principal: Principal, record: Record, make: Callable[[Database], Question]
    ) -> tuple[Question, float | None]:
        """A question checked and priced, and the seconds of its slot."""
        dataset = await self.dataset(record)
        who = principal.person.id
        with dataset.using():
            question, work = await self._read(self._pricing, who, dataset, lambda: make(dataset.db))
        return question, dataset.slots.of_one(work)

    async def unpaid(self, principal: Principal, record: Record, question: Question) -> int:
        """What asking it now would charge, as far as this principal may know."""
        dataset, who = await self.dataset(record), principal.person.in_ledger
        own = who if self._settings.own_estimates else None
        with dataset.using():
            return await self.look(principal, lambda: dataset.db.unpaid(question, analyst=own))

    async def left(self, principal: Principal, record: Record, question: Question) -> int:
        """The micro-queries that one more question about the same rows may have."""
        dataset, who = await self.dataset(record), principal.person.in_ledger
        with dataset.using():
            view = dataset.db.as_analyst(who)
            return int(await self.look(principal, view.left, question) * MICRO)

    async def estimate(
        self, principal: Principal, record: Record, make: Callable[[Database], Question]
    ) -> Any:
        """What stored answers say about a question: no row is read, nothing is paid."""
        dataset, who = await self.dataset(record), principal.person
        own = who.in_ledger if self._settings.own_estimates else None
        db = dataset.db.as_analyst(who.in_ledger)
        with dataset.using():
            return await self._estimating.run(who.id, lambda: db.estimated(make(db), analyst=own))

    async def review(
        self, principal: Principal, record: Record, review: Callable[[Database], Given]
    ) -> Given:
        """Which of a list of questions an auditor would answer: nobody pays for it.

        Refused to an analyst where that depends on private rows.
        """
        dataset = await self.dataset(record)
        promise: Any = dataset.db.promise
        if is_audited(promise) and promise.reads_rows and not principal.is_owner:
            raise NotPermitted(
                "review: under rule='duan' the findings depend on rows, so they are for the owner. "
                "Nothing was charged."
            )
        with dataset.using():
            return await self._pricing.run(principal.person.id, lambda: review(dataset.db))

    async def look(
        self, principal: Principal, function: Callable[..., Given], *arguments: Any
    ) -> Given:
        """Run a look at the ledger, of one person one at a time."""
        return await self._looking.run(principal.person.id, lambda: function(*arguments))

    async def answer(
        self, principal: Principal, record: Record, make: Callable[[Database], Question],
        request_id: str | None, form: str = "", most: int | None = None, came: float | None = None,
    ) -> bytes:  # fmt: skip
        """The reply to a question, when its batch closes; at most so much is charged for it."""
        who, came = principal.person, self.clock.now() if came is None else came
        check_open(record)
        dataset = await self.dataset(record)
        db = dataset.db.as_analyst(who.in_ledger)
        try:
            with dataset.using(), self._at_once.one_more(who.id):
                beat = self._beats_of(dataset).paid
                with beat.coming(who.id):
                    question, work = await self._read(
                        self._reading, who.id, dataset, lambda: db.ready(make(db))
                    )
                    dataset.slots.of_one(work)  # refused if it takes too long
                kind, weight, begins = dataset.slots.place(work)
                async with self._within_cap(principal, db, question, most) as most:
                    asked = Asked(principal, record, db, question, request_id, form, work, most)
                    reply: bytes = await beat.ask(
                        who.id, kind, weight, asked, shape=work.shape or None, begins=begins,
                        came=came,
                    )  # fmt: skip
                await self._delay(dataset, work, question)
                return reply
        except SourceChanged:
            await self.run(self._datasets.forget, record)  # perhaps it was refreshed
            raise
        except (EngineFailed, Frozen):
            await self.run(self._datasets.note_stop, record, dataset.db)
            raise

    @asynccontextmanager
    async def _within_cap(
        self, principal: Principal, db: Database, question: Question, most: int | None
    ) -> AsyncIterator[int | None]:
        """Take what is unpaid of it from the key's cap; gives the most that may be charged then."""
        if not principal.capped:
            yield most
            return
        price = await self.look(principal, db.unpaid, question)
        await self.run(self._caps.take, principal.key, price)
        try:
            yield price if most is None else min(price, most)
        except SulqError as error:
            if error.charged is False:
                await self.run(self._caps.give_back, principal.key, price)
            raise

    async def _read(
        self, threads: MeteredThreads, who: int, dataset: Dataset, make: Callable[[], Question]
    ) -> tuple[Question, Work]:
        """Parse a question and learn what it takes; metered, since nobody has paid yet."""

        def read() -> tuple[Question, Work]:
            question = make()
            if dataset.slots.measured:
                work = dataset.scan_times.work(question, busy=self.overload.here)
                return question, work.times(_scans(dataset.db))
            return question, Work(0.0, question.numbers)

        return await threads.run(who, read)

    async def _delay(self, dataset: Dataset, work: Work, question: Question) -> None:
        """The paper's random delay, if it is wanted."""
        if not self._settings.random_delay:
            return
        db, seconds = dataset.db, dataset.slots.of_one(work)
        row, price = row_seconds(question), self._settings.time_price if question.programs else 1.0
        if row or seconds is not None:
            delay = random_delay(seconds or 0.0, db.stored_rows.n, db.promise, row, price)
            await asyncio.sleep(delay)

    # ---- what is public -------------------------------------------------------------------

    async def count(
        self, principal: Principal, record: Record, count: Callable[[Database], Given]
    ) -> Given:
        """What is public about the rows: free, on a beat that no scan of private columns holds."""
        dataset = await self.dataset(record)
        check_open(record)
        who = principal.person.id
        try:
            with dataset.using(), self._free_at_once.one_more(who):
                found: Given = await self._beats_of(dataset).free.ask(who, "", 1.0, count)
                return found
        except Frozen:
            await self.run(self._datasets.note_stop, record, dataset.db)
            raise

    # ---- batches --------------------------------------------------------------------------

    def _beats_of(self, dataset: Dataset) -> _Beats:
        found = self._beats.get(dataset)
        if found is None:
            found = self._beats[dataset] = self._made(dataset)
            dataset.use.when_closed(lambda: self._let_go(dataset))
        return found

    def _let_go(self, dataset: Dataset) -> None:
        """Its rows are closed: let its threads end."""
        found = self._beats.pop(dataset, None)
        if found is not None:
            found.close(wait=False)

    def _made(self, dataset: Dataset) -> _Beats:
        """The two beats of a dataset, with threads of their own."""
        scans, counts, settings = pool(SCANNING), pool(FREE), self._settings
        noise = self._noise.is_given_by(dataset.db)

        def window(batch: Sequence[Place[Asked]]) -> Window | None:
            works = [place.asked.work for place in batch]
            slot = dataset.slots.of(works, overloaded=self.overload.here)
            if slot is None:
                return None
            asked = [place.asked.question for place in batch]
            quiet = dataset.slots.quiet_scan_seconds(works)
            missed = self._lateness.of(dataset, asked, slot, quiet)
            return Window(slot, self.clock, self._closing, missed, patient=not noise)

        def free_window(batch: Sequence[Any]) -> Window | None:
            slot = dataset.slots.of_counts(len(batch))
            return None if slot is None else Window(slot, self.clock, self._closing)

        async def late(asked: Sequence[Asked], window: Window) -> Sequence[Any]:
            if noise:
                return await run_in(scans, lambda: [self._noise.reply(one) for one in asked])
            return self._said_late(asked, window)

        def between() -> asyncio.Future[Any] | None:
            if not self.reading:
                self._garbage.tidy()
            due = dataset.slots.longer > 1 and self._lateness.may_recover(dataset)
            return run_in(counts, self._lateness.recover, dataset) if due else None

        limits: dict[str, Any] = {
            "queue": settings.queue, "wait_seconds": settings.wait_seconds, "clock": self.clock,
        }  # fmt: skip
        paid: Beat[Asked] = Beat(
            lambda asked, window: run_in(scans, self._replies, dataset, asked, window),
            window, late=late, between=between, crowded=lambda: self.overload.here,
            aside=lambda look: self._lateness.aside(dataset, scans, look), **limits,
        )  # fmt: skip
        free: Beat[Callable[[Database], Any]] = Beat(
            lambda some, window: run_in(counts, _counted, dataset, some, window),
            free_window, **limits,
        )  # fmt: skip
        return _Beats(paid, free, scans, counts)

    def _replies(
        self, dataset: Dataset, asked: Sequence[Asked], window: Window | None
    ) -> list[bytes | Exception]:
        """Each one's reply, or what it met; in one pass through the pipeline."""
        out: list[bytes | Exception | None] = [None] * len(asked)
        ready: dict[int, Asked] = {}
        if not dataset.use.begin():  # nobody who asked waits any more
            return [Frozen("closed. Nothing was charged.")] * len(asked)
        try:
            refused = self._refused(asked)
            for i, one in enumerate(asked):
                try:
                    out[i] = refused[one.principal.key] or self._noise.before(one)
                    if out[i] is None:
                        ready[i] = one
                except Exception as error:
                    out[i] = error
            until = None
            if window is not None:
                window.places = list(ready)
                until = window.stops(self._settings.longest_seconds)
            orders = [one.order for one in ready.values()]
            found = dataset.db.answer_all(orders, until=until, timing=window) if orders else []
            for (i, one), outcome in zip(ready.items(), found, strict=True):
                out[i] = self._outcome(one, outcome, window)
        finally:
            dataset.use.end()
        return [x if x is not None else RuntimeError("no reply") for x in out]

    def _refused(self, asked: Sequence[Asked]) -> dict[str, Exception | None]:
        """Whose rights have ended while they waited, by key; the batch is of one dataset."""
        found: dict[str, Exception | None] = {}
        for one in asked:
            if one.principal.key not in found:
                try:
                    check_open(self._access.again(one.principal, one.record))
                    found[one.principal.key] = None
                except Exception as error:
                    found[one.principal.key] = error
        return found

    def _outcome(self, asked: Asked, found: Any, window: Window | None) -> bytes | Exception:
        if isinstance(found, Stopped):
            given = self._noise.is_given_by(asked.db)
            return self._noise.reply(asked) if given else late(window)
        if isinstance(found, Exception):
            return found
        self._metrics.add(asked.record.tenant, "sulq_answers_total", dataset=asked.record.name)
        try:
            return dumped(answer_body(found))
        except Exception as error:  # its own, not that of the others in its batch
            return error

    def _said_late(self, asked: Sequence[Asked], window: Window) -> list[bytes | Exception]:
        """What each of a late batch hears: what no longer depends on rows, or that it is late."""
        out: list[bytes | Exception] = [late(window) for _ in asked]
        for i, known in zip(window.places, window.known, strict=True):
            if known is not None:
                out[i] = self._outcome(asked[i], known, window)
        for one in {one.record.id: one for one in asked}.values():
            logs.event("late", logging.WARNING, dataset=one.record.name)
        return out


@dataclass(frozen=True, slots=True)
class _Beats:
    """The beat of private questions and the beat of public counts of one dataset."""

    paid: Beat[Asked]
    free: Beat[Callable[[Database], Any]]
    scans: ThreadPoolExecutor
    counts: ThreadPoolExecutor

    def close(self, wait: bool) -> None:
        """Let their threads end."""
        self.scans.shutdown(wait=wait)
        self.counts.shutdown(wait=wait)


def _scans(db: Database) -> int:
    """How many sums are read for one question.

    The paper's auditor reads a product with each earlier question; how many those are is public.
    """
    promise: Any = db.promise
    if is_audited(promise) and promise.reads_rows:
        return int(db.budget.spent) + 2
    return 1


def _counted(
    dataset: Dataset, some: Sequence[Callable[[Database], Any]], window: Window | None
) -> list[Any]:
    """Public counts, one after the other; heard of at a public moment."""
    if window is not None:
        window.begin()
    try:
        return [_tried(count, dataset.db) for count in some]
    finally:
        if window is not None:
            window.end()


def _tried(count: Callable[[Database], Any], db: Database) -> Any:
    try:
        return count(db)
    except Exception as error:
        return error

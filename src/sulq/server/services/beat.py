"""Questions to one dataset, answered together: a batch begins when somebody waits, lasts one
slot, and its replies leave together at the end. The next one may begin when the time for its scan
is over.

A question counts from the moment it came, not from when it was read: one that was read before is
read quicker, and would leave earlier.

Who is in a batch, when it begins and how long it lasts follow from what was asked and when, never
from rows. Persons take turns for the places of a batch, and so do the cheap and the dear kinds of
questions; cheap ones that wait go along with a dear one. Without a slot replies leave as soon as
they are there.

What is not there at the end of its slot is late (windows.py). While somebody sends too much it
is said a quarter of a second later: requests that are refused take time of the same processor.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sulq.errors import Late, LimitReached
from sulq.server.services.slots import DEAR, PLAIN
from sulq.server.services.windows import Clock, Window

MAX_BATCH = 32  # questions
MAX_EACH = 16  # of one person, of those
MAX_WEIGHT = 64.0  # of a batch, in plain counts; a question that weighs more is alone
ALONE, AMONG_OTHERS = MAX_WEIGHT / 2, 10.0  # of one person; with others about it is less,
ABOUT = 16  # batches after which who has asked nothing more is not about
YIELDS = 2  # batches that who waits with many leaves to others, beside those in turn
QUIET_SECONDS = 0.004  # after the last question came, in which it is read and others may come,
GATHER_SECONDS = 0.02  # or after this, if they do not stop coming
AGAIN_SECONDS = 0.015  # after replies left, in which who had one may ask again
STEP_SECONDS = 0.001
PATIENCE_SECONDS = 0.25  # beyond its slot, while somebody sends too much, before it is late

Asked = TypeVar("Asked")


@dataclass(slots=True, eq=False)
class Place(Generic[Asked]):
    """One question that waits, or is being answered."""

    who: Hashable
    kind: str
    weight: float  # in plain counts
    asked: Asked
    future: asyncio.Future[Any] = field(repr=False)
    shape: Hashable = None  # of questions that are alike,
    begins: float = 0.0  # and what the first of them weighs more

    def give(self, outcome: Any) -> None:
        """Let its reply leave."""
        if self.future.done():
            return  # nobody waits for it any more
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class _Filling(Generic[Asked]):
    """A batch to which questions are added."""

    def __init__(self, share: Callable[[Hashable], float]) -> None:
        self._share = share  # what one person's may weigh
        self.taken: list[Place[Asked]] = []
        self.counts: Counter[Hashable] = Counter()
        self._shapes: set[Hashable] = set()
        self._weights: Counter[Hashable] = Counter()

    def _adds(self, place: Place[Asked]) -> float:
        return place.weight + (0.0 if place.shape in self._shapes else place.begins)

    def has_room(self, place: Place[Asked]) -> bool:
        """May this one be added? The first may, whatever it weighs."""
        own, whole = self._weights[place.who], self._weights.total()
        adds = self._adds(place)
        heavy = own + adds > self._share(place.who) or whole + adds > MAX_WEIGHT
        return not (heavy and self.taken) and self.counts[place.who] < MAX_EACH

    def take(self, place: Place[Asked]) -> None:
        """Add it."""
        self._weights[place.who] += self._adds(place)  # type: ignore[assignment]
        self._shapes.add(place.shape)
        self.counts[place.who] += 1
        self.taken.append(place)


class Line(Generic[Asked]):
    """Those who wait: whoever was answered longest ago is next, with the others of that kind.

    Of one person's questions of several kinds, the kind that was answered longest ago is.
    """

    def __init__(self) -> None:
        self._kinds: OrderedDict[str, OrderedDict[Hashable, deque[Place[Asked]]]] = OrderedDict()
        self._batches = 0  # so far,
        self._about: OrderedDict[Hashable, int] = OrderedDict()  # and when each asked last,
        self._answered: OrderedDict[Hashable, int] = OrderedDict()  # or was in one,
        self._taken: dict[str, int] = {}  # and when there was one of each kind

    def __len__(self) -> int:
        return sum(len(own) for kind in self._kinds.values() for own in kind.values())

    @property
    def is_full(self) -> bool:
        """Is there nobody to wait for? Those who wait fill a batch, each with as many as it takes
        of one person; or nobody but one is about, who waits with so many.
        """
        own: Counter[Hashable] = Counter()
        for kind in self._kinds.values():
            own.update({who: len(places) for who, places in kind.items()})
        if sum(min(many, MAX_EACH) for many in own.values()) >= MAX_BATCH:
            return True
        return len(own) == 1 and all(self.has_share(w) and self._share(w) == ALONE for w in own)

    def misses(self, persons: set[Hashable], *, crowded: bool) -> bool:
        """Is any of these not here, while somebody sends too much or waits with many?"""
        here = {who for kind in self._kinds.values() for who in kind}
        return not persons <= here and (crowded or any(map(self._has_many, here)))

    def _has_many(self, who: Hashable) -> bool:
        return self.has_share(who) and sum(len(k.get(who, ())) for k in self._kinds.values()) > 1

    def has_share(self, who: Hashable) -> bool:
        """Does this person wait with all that one batch takes of them?"""
        own = [place for kind in self._kinds.values() for place in kind.get(who, ())]
        return len(own) >= MAX_EACH or sum(place.weight for place in own) >= self._share(who)

    def _share(self, who: Hashable) -> float:
        """What one person's questions may weigh: who has come lately finds no long batch."""
        while self._about and next(iter(self._about.values())) < self._batches - ABOUT:
            self._about.popitem(last=False)
        return ALONE if self._about.keys() <= {who} else AMONG_OTHERS

    def add(self, place: Place[Asked]) -> None:
        """To the end of the person's own."""
        self._about[place.who] = self._batches
        self._about.move_to_end(place.who)
        self._kinds.setdefault(place.kind, OrderedDict()).setdefault(place.who, deque()).append(
            place
        )

    def remove(self, place: Place[Asked]) -> None:
        """It is given up."""
        own = self._kinds[place.kind].get(place.who) if place.kind in self._kinds else None
        if own is not None and place in own:
            own.remove(place)
            self._tidy(place.kind, place.who)

    def _tidy(self, kind: str, who: Hashable) -> None:
        persons = self._kinds[kind]
        if not persons[who]:
            del persons[who]
        if not persons:
            del self._kinds[kind]

    def batch(self) -> list[Place[Asked]]:
        """The next batch: of one kind, persons in turn, each with so many at most.

        Plain questions go along with dear ones, as far as there is room, in place of waiting for
        these and for their own slot after that. Not with what is computed row by row: that is
        read apart from their scan, and they would be computed so too.
        """
        self._batches += 1
        kind, waiting = self._next()
        self._kinds[kind] = waiting
        self._taken[kind] = self._batches
        filling: _Filling[Asked] = _Filling(self._share)
        self._fill(filling, kind)
        if kind == DEAR:
            self._fill(filling, PLAIN)
        self._note(filling.counts)
        return filling.taken

    def _fill(self, batch: _Filling[Asked], kind: str) -> None:
        """Take those of this kind, one of each person in turn."""
        full: set[Hashable] = set()
        while len(batch.taken) < MAX_BATCH and kind in self._kinds:
            persons = self._kinds[kind]
            who = next((w for w in persons if w not in full), None)
            if who is None:
                break
            if not batch.has_room(persons[who][0]):
                full.add(who)
                continue
            batch.take(persons[who].popleft())
            persons.move_to_end(who)
            self._tidy(kind, who)

    def _next(self) -> tuple[str, OrderedDict[Hashable, deque[Place[Asked]]]]:
        """The kind of the next batch, and who waits with such, the longest unanswered first.

        Who asks again when a reply has come finds others in the line who were answered since. Who
        waits with several, enough for a batch, was as it were answered so many batches later.
        """

        def turn(who: Hashable) -> tuple[int, bool]:
            many = self._has_many(who)
            return self._answered.get(who, 0) + YIELDS * many, many

        persons = {
            kind: sorted((turn(who), i, who) for i, who in enumerate(waiting))
            for kind, waiting in self._kinds.items()
        }
        kind = min(persons, key=lambda kind: (persons[kind][0][0], self._taken.get(kind, 0)))
        return kind, OrderedDict((who, self._kinds[kind][who]) for _, _, who in persons[kind])

    def _note(self, persons: Iterable[Hashable]) -> None:
        """These were in a batch; who was in none of late is as if they never were."""
        for who in persons:
            self._answered[who] = self._batches
            self._answered.move_to_end(who)
        while next(iter(self._answered.values()), self._batches) < self._batches - ABOUT:
            self._answered.popitem(last=False)


class Beat(Generic[Asked]):
    """Gathers what is asked of one dataset and answers it batch by batch."""

    def __init__(
        self,
        work: Callable[[Sequence[Asked], Window | None], asyncio.Future[Sequence[Any]]],
        window: Callable[[Sequence[Place[Asked]]], Window | None],
        *,
        late: Callable[[Sequence[Asked], Window], Awaitable[Sequence[Any]]] | None = None,
        queue: int,
        wait_seconds: float,
        between: Callable[[], asyncio.Future[Any] | None] = lambda: None,
        crowded: Callable[[], bool] = lambda: False,
        aside: Callable[[Callable[[], None]], Awaitable[None]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._work = work
        self._window = window  # None: replies leave at once
        self._late = late  # what a late batch hears; None: it is waited for
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._between = between  # what is done between two batches, if anything
        self._crowded = crowded  # does somebody send more than they may?
        self._aside = aside  # runs a look into why a batch was late; it raises nothing
        self._clock = clock or Clock()
        self._line: Line[Asked] = Line()
        self._coming: Counter[Hashable] = Counter()
        self._last = 0.0
        self._answered: set[Hashable] = set()  # in the last batch,
        self._left = 0.0  # and when its replies leave
        self._running: asyncio.Task[None] | None = None
        self._reading = False
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many wait for their batch."""
        return len(self._line)

    @property
    def busy(self) -> bool:
        """Is anything waiting or being answered?"""
        return self._running is not None or bool(self._closing)

    @property
    def reading(self) -> bool:
        """Is it the time of a batch's scan? That is a public time, whenever the scan ends."""
        return self._reading

    @contextmanager
    def coming(self, who: Hashable) -> Iterator[None]:
        """A question is being read: a batch that is about to begin waits for it, for a moment."""
        self._coming[who] += 1
        try:
            yield
        finally:
            self._coming[who] -= 1
            if not self._coming[who]:
                del self._coming[who]

    async def ask(
        self, who: Hashable, kind: str, weight: float, asked: Asked, *, shape: Hashable = None,
        begins: float = 0.0, came: float | None = None,
    ) -> Any:  # fmt: skip
        """The outcome for this one, when its batch closes; raised if it is an error."""
        if len(self._line) >= self._queue:
            raise LimitReached(
                "too many questions wait for this dataset. Nothing was charged.\nAsk again later.",
                1.0,
            )
        loop = asyncio.get_running_loop()
        place = Place(who, kind, weight, asked, loop.create_future(), shape, begins)
        if not self._line.has_share(who):
            self._last = max(self._last, self._clock.now() if came is None else came)
        self._line.add(place)
        giving_up = loop.call_later(self._wait_seconds, self._give_up, place)
        if self._running is None:
            self._running = loop.create_task(self._run())
        try:
            return await place.future
        finally:
            giving_up.cancel()
            self._line.remove(place)

    def _give_up(self, place: Place[Asked]) -> None:
        """It waited too long for its turn; once its batch has begun it is answered."""
        before = len(self._line)
        self._line.remove(place)
        if len(self._line) < before:
            place.give(
                LimitReached(
                    f"the question waited {self._wait_seconds:g} seconds for its turn. Nothing "
                    "was charged.\nAsk again later.", self._wait_seconds,
                )
            )  # fmt: skip

    async def _run(self) -> None:
        try:
            while self._line:
                await self._do_between()
                start = await self._gather()
                if not self._line:
                    break
                batch = self._line.batch()
                try:
                    await self._answer(batch, start)
                except Exception as error:  # of nobody's question; the others go on
                    self._reading = False
                    _give(batch, [error] * len(batch))
        finally:
            self._running = None

    async def _do_between(self) -> None:
        """What is done between batches; what fails there is for the log alone."""
        try:
            doing = self._between()
            if doing is not None:
                await asyncio.wait({doing})
        except Exception as error:
            said = {"message": "between two batches", "exception": error}
            asyncio.get_running_loop().call_exception_handler(said)

    async def _gather(self) -> float:
        """Wait until nobody else is just coming, for a moment at most. Gives when that was.

        Whoever has questions enough for a batch is not waited for, however many more they send. Who
        was in the last batch is, while somebody sends too much: else they had every second batch.
        """
        clock, line = self._clock, self._line
        if self._window([]) is None:
            return clock.now()
        latest = clock.now() + GATHER_SECONDS
        while (now := clock.now()) < latest and not line.is_full:
            coming = not all(map(line.has_share, self._coming))
            away = line.misses(self._answered, crowded=self._crowded())
            again = self._left + AGAIN_SECONDS if away else 0.0
            quiet = max(self._last + QUIET_SECONDS, again)
            if not coming and now >= quiet:
                return max(quiet, now - STEP_SECONDS)
            await clock.until(min(now + STEP_SECONDS, latest if coming else max(quiet, again)))
        return clock.now()

    async def _answer(self, batch: list[Place[Asked]], start: float) -> None:
        """Answer a batch; returns when the next one may begin.

        That is when the time of its scan is over. What it gave is stored and said meanwhile.
        """
        window = self._window(batch)
        if window is not None:
            window.start = start
        work = self._work([place.asked for place in batch], window)
        if window is None:
            await self._reply(batch, work)
            return
        self._answered = {place.who for place in batch}
        self._reading = True
        late = await self._is_late(window, work)
        self._reading, self._left = False, window.closes
        closing = asyncio.get_running_loop().create_task(self._close(batch, window, work, late))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        if late:  # nothing goes on beside a scan that goes on
            await closing
            if self._aside is not None and window.patient:
                await self._aside(window.look_into)
                await self._clock.until(window.next_moment())
                await self._aside(window.conclude)

    async def _is_late(self, window: Window, work: asyncio.Future[Sequence[Any]]) -> bool:
        """Wait for the end of the time for the scan; were rows not read in it?"""
        await self._clock.until(window.scanned)
        while not window.reading and not work.done():  # the disk is slow, whatever the rows are
            await self._clock.until(self._clock.now() + STEP_SECONDS)
        await self._clock.until(window.scanned)
        return not work.done() and window.is_late()

    async def _close(
        self, batch: list[Place[Asked]], window: Window, work: asyncio.Future[Sequence[Any]],
        late: bool,
    ) -> None:  # fmt: skip
        """Let replies leave when the slot is over."""
        await self._clock.exactly(window.closes)
        if late:
            moments, stored = window.moments(), False
            if self._late is not None:
                said = await self._late([place.asked for place in batch], window)
                if window.patient and self._crowded():
                    _give(batch, [None if isinstance(one, Late) else one for one in said])
                    while not stored and self._clock.now() < window.closes + PATIENCE_SECONDS:
                        stored = await self._is_stored(window, work, moments)
                if not stored:
                    _give(batch, said)
            if not window.patient:
                return  # what is stuck is left behind, and others go on
            while not stored:
                stored = await self._is_stored(window, work, moments)
        await self._reply(batch, work)

    async def _is_stored(
        self, window: Window, work: asyncio.Future[Sequence[Any]], moments: Iterator[float]
    ) -> bool:
        """Wait for the next of these moments; is what was late stored by then?"""
        moment = next(moments)
        await self._clock.until(moment)
        return work.done() or window.shown_by(moment)

    async def _reply(self, batch: list[Place[Asked]], work: asyncio.Future[Sequence[Any]]) -> None:
        """Give each one what came of it."""
        try:
            outcomes = await work
        except Exception as error:
            outcomes = [error] * len(batch)
        _give(batch, outcomes)


def _give(batch: Sequence[Place[Any]], outcomes: Sequence[Any]) -> None:
    """Each its outcome; None for who hears of it later."""
    for place, outcome in zip(batch, outcomes, strict=True):
        if outcome is not None:
            place.give(outcome)

"""How often, how many, in which turn: what happens before a question's clock starts.

This is the only place where one visitor can feel that others are there. Waiting is fair: of
those who wait for a dataset, persons take turns, whatever each has sent.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager

from sulq.errors import LimitReached

REMEMBERED = 10_000  # persons or addresses with a bucket


class Rate:
    """Token buckets: `burst` at once, `rate` a second in the long run."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, who: Hashable, much: float = 1.0) -> None:
        """One more request, or as much as several; LimitReached if it is too much.

        What is more than a whole burst waits for a full bucket and empties it.
        """
        much = min(much, self._burst)
        now = time.monotonic()
        tokens, since = self._buckets.get(who, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        if tokens < much:
            wait = (much - tokens) / self._rate
            raise LimitReached(
                f"too many requests: {self._rate:g} a second in the long run. Nothing was "
                f"charged.\nAsk again in {wait:.2g} seconds.", wait,
            )  # fmt: skip
        self._buckets[who] = (tokens - much, now)
        self._buckets.move_to_end(who)
        while len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)


class AtOnce:
    """How many requests of one person may be under way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._now: dict[Hashable, int] = {}

    @contextmanager
    def one_more(self, who: Hashable) -> Iterator[None]:
        """Count one request of this person while it is under way."""
        running = self._now.get(who, 0)
        if running >= self._most:
            raise LimitReached(
                f"{running} of your requests are under way, and no more may be. Nothing was "
                "charged.\nWait for one of them.", 1.0,
            )  # fmt: skip
        self._now[who] = running + 1
        try:
            yield
        finally:
            self._now[who] -= 1
            if not self._now[who]:
                del self._now[who]


class Turnstile:
    """Lets so many questions to one dataset through at a time; persons take turns."""

    def __init__(self, slots: int, queue: int, wait_seconds: float) -> None:
        self._free = slots
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(len(line) for line in self._waiting.values())

    @asynccontextmanager
    async def slot(self, who: Hashable) -> AsyncIterator[bool]:
        """Hold a slot, and say whether that took a wait for a turn; or LimitReached."""
        waited = await self._enter(who)
        try:
            yield waited
        finally:
            self._leave()

    async def _enter(self, who: Hashable) -> bool:
        if self._free and not self._waiting:
            self._free -= 1
            return False
        if self.waiting >= self._queue:
            raise LimitReached(
                "too many questions wait for this dataset. Nothing was charged.\nAsk again later.",
                1.0,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        try:
            await asyncio.wait_for(asyncio.shield(turn), self._wait_seconds)
        except BaseException as error:
            self._give_up(who, turn)
            if isinstance(error, TimeoutError):
                raise LimitReached(
                    f"the question waited {self._wait_seconds:g} seconds for its turn. Nothing "
                    "was charged.\nAsk again later.", self._wait_seconds,
                ) from None  # fmt: skip
            raise
        return True

    def _give_up(self, who: Hashable, turn: asyncio.Future[None]) -> None:
        if turn.done():  # its turn had just come
            self._leave()
            return
        turn.cancel()
        line = self._waiting[who]
        line.remove(turn)
        if not line:
            del self._waiting[who]

    def _leave(self) -> None:
        if not self._waiting:
            self._free += 1
            return
        who, line = next(iter(self._waiting.items()))
        turn = line.popleft()
        del self._waiting[who]
        if line:
            self._waiting[who] = line  # to the end: the others come first
        turn.set_result(None)

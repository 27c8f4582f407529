"""How often, how many, how much: what one person may ask of the server at all."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from sulq.errors import LimitReached

REMEMBERED = 10_000  # persons or addresses with a bucket
LONGEST_SECONDS = 20.0  # that anyone waits to be refused
OVERLOAD, OVERLOAD_SECONDS = 5, 2.0  # refusals for sending too much, and in what time


class Buckets:
    """Token buckets: `burst` at once, `rate` a second in the long run."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._kept: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def _left(self, who: Hashable) -> float:
        now = time.monotonic()
        left, since = self._kept.get(who, (self._burst, now))
        return min(self._burst, left + (now - since) * self._rate)

    def spend(self, who: Hashable, much: float) -> None:
        """Take so much out of this person's, below nothing too."""
        with self._lock:
            self._kept[who] = self._left(who) - much, time.monotonic()
            self._kept.move_to_end(who)
            while len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)


class Rate(Buckets):
    """How many requests one person may send."""

    def take(self, who: Hashable, much: float = 1.0) -> None:
        """One more request, or as much as several; LimitReached if it is too much.

        What is more than a whole burst waits for a full bucket and empties it.
        """
        much, left = min(much, self._burst), self._left(who)
        if left < much:
            raise too_many(self._rate, (much - left) / self._rate)
        self.spend(who, much)

    def wait(self, who: Hashable) -> float:
        """The seconds until one more request would be let through; nothing is taken."""
        return max(1.0 - self._left(who), 0.0) / self._rate


def too_many(rate: float, wait: float) -> LimitReached:
    """What is said to whoever asks too often."""
    return LimitReached(
        f"too many requests: {rate:g} a second in the long run. Nothing was charged.\n"
        f"Ask again in {wait:.2g} seconds.", wait,
    )  # fmt: skip


class Spaced:
    """Moments for what takes time and is of no use: so many a second of one person, and a burst.

    Whoever sends more waits for each of them.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._each = 1 / rate  # seconds
        self._ahead = burst / rate
        self._next: OrderedDict[Hashable, float] = OrderedDict()

    def wait(self, who: Hashable) -> float:
        """The seconds until the moment of one more."""
        now, moment = time.monotonic(), self._moment(who)
        self._next[who] = min(moment, now + LONGEST_SECONDS)
        self._next.move_to_end(who)
        while len(self._next) > REMEMBERED:
            self._next.popitem(last=False)
        if moment - now > LONGEST_SECONDS:  # not all at one moment
            return random.uniform(LONGEST_SECONDS / 2, LONGEST_SECONDS)
        return max(moment - now, 0.0)

    def waiting(self, who: Hashable) -> float:
        """How many wait for their moment."""
        return max(self._moment(who) - time.monotonic(), 0.0) / self._each

    def _moment(self, who: Hashable) -> float:
        return max(self._next.get(who, 0.0), time.monotonic() - self._ahead) + self._each


class Waits:
    """Waiting that ends when the server is told to stop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._stopped = False

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until the server shuts down."""
        if seconds <= 0 or self._stopped:
            return
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _end, over)
        self._waiting.add(over)
        try:
            await over
        finally:
            timer.cancel()
            self._waiting.discard(over)

    def stop(self) -> None:
        """Nobody waits from now on."""
        self._stopped = True
        for over in self._waiting:
            _end(over)


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


class Overload:
    """Does somebody send more than they may? That depends on requests alone."""

    def __init__(self) -> None:
        self._refused: deque[float] = deque(maxlen=OVERLOAD)

    def note(self) -> None:
        """A request was refused for being too much."""
        self._refused.append(time.monotonic())

    @property
    def here(self) -> bool:
        """Were some refused of late?"""
        refused = self._refused
        return len(refused) == OVERLOAD and time.monotonic() - refused[0] < OVERLOAD_SECONDS


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


class Seconds(Buckets):
    """How many seconds of this machine's processors one person's requests may take.

    What a request takes is known afterwards: whoever has used up more than is there waits.
    """

    def check(self, who: Hashable) -> None:
        """LimitReached if this person's seconds are used up."""
        if self._left(who) <= 0:
            wait = self.wait(who)
            raise LimitReached(
                "your requests took too long to read. Nothing was charged.\n"
                f"Ask again in {max(wait, 0.1):.2g} seconds, or shorter ones.", wait,
            )  # fmt: skip

    def wait(self, who: Hashable) -> float:
        """The seconds until there are some again."""
        return max(-self._left(who), 0.0) / self._rate

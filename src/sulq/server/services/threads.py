"""Threads for what blocks: few, shared fairly by persons, and work before a charge metered."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sulq.errors import LimitReached
from sulq.server.services.admission import AtOnce
from sulq.server.services.work_meter import WorkMeter

Given = TypeVar("Given")


def pool(threads: int) -> ThreadPoolExecutor:
    """So many threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sulq")


def run_in(
    threads: ThreadPoolExecutor, function: Callable[..., Given], *arguments: Any
) -> asyncio.Future[Given]:
    """Run what blocks in one of these threads, with this request's context."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(threads, context.run, function, *arguments)


class FairThreads:
    """Threads of which a person has `each` at a time; persons who wait take turns."""

    def __init__(self, threads: int, each: int = 1) -> None:
        self._pool = pool(threads)
        self._free = threads
        self._each = each
        self._running: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self._stopped = False

    async def run(self, who: Hashable, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run this in the person's turn."""
        if self._stopped:
            raise _shutting_down()
        if not self._free or self._running[who] >= self._each:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(who, deque()).append(turn)
            try:
                await turn
            except BaseException:
                self._give_up(who, turn)
                raise
        else:
            self._take(who)
        try:
            job = run_in(self._pool, function, *arguments)
        except BaseException:
            self._leave(who)
            raise
        job.add_done_callback(lambda _: self._leave(who))
        return await asyncio.shield(job)  # whoever gives up has the thread until it is done

    def _take(self, who: Hashable) -> None:
        self._free -= 1
        self._running[who] += 1

    def _leave(self, who: Hashable) -> None:
        self._free += 1
        self._running[who] -= 1
        if not self._running[who]:
            del self._running[who]
        while (following := self._following()) is not None:
            line = self._waiting.pop(following)
            turn = line.popleft()
            if line:
                self._waiting[following] = line  # to the end: the others come first
            if not turn.done():  # else it was given up just now
                self._take(following)
                turn.set_result(None)
                return

    def _following(self) -> Hashable | None:
        """Who is next, if anybody is."""
        return next((w for w in self._waiting if self._running[w] < self._each), None)

    def _give_up(self, who: Hashable, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled() and turn.exception() is None:  # it had just come
            self._leave(who)
            return
        line = self._waiting.get(who)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[who]

    def stop(self) -> None:
        """Refuse those who wait, and whoever comes."""
        self._stopped = True
        for line in self._waiting.values():
            for turn in line:
                if not turn.done():
                    turn.set_exception(_shutting_down())
        self._waiting.clear()

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(wait=True)


def _shutting_down() -> LimitReached:
    return LimitReached("this server is shutting down. Nothing was charged.\nAsk again later.", 1.0)


class MeteredThreads:
    """Threads for work before a charge: of each person so many at once, within their seconds.

    A second of it counts as `times` as many in the meter.
    """

    def __init__(self, threads: int, meter: WorkMeter, at_once: int, times: float = 1.0) -> None:
        self._threads = FairThreads(threads)
        self._meter = meter
        self._times = times
        self._at_once = AtOnce(at_once)
        self.stop, self.close = self._threads.stop, self._threads.close

    async def run(self, who: Hashable, function: Callable[[], Given]) -> Given:
        """Run this in the person's turn, as long as its seconds last."""
        self._meter.check(who)

        def run() -> Given:
            self._meter.check(who)  # those before it may have used them up
            start = time.thread_time()
            try:
                return function()
            finally:
                self._meter.spend(who, self._times * (time.thread_time() - start))

        with self._at_once.one_more(who):
            return await self._threads.run(who, run)

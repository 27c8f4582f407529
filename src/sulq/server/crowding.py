"""Without deadlines: questions to one dataset that wait are worked on at once (sulq.crowd).

While threads work others arrive, and whoever is done first takes all that have arrived. More
threads help when a scan takes long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

MOST = 32  # that are worked on at once
USUAL = 1  # thread: others gather meanwhile and share its next commit
RUNNERS = 4
LONG_SECONDS = 0.05  # after which one more helps

Asked = TypeVar("Asked")


class Crowding(Generic[Asked]):
    """Gathers what is asked and hands it to `work`, which gives an outcome for each."""

    def __init__(self, work: Callable[[Sequence[Asked]], Awaitable[Sequence[Any]]]) -> None:
        self._work = work
        self._waiting: list[tuple[Asked, asyncio.Future[Any]]] = []
        self._runners: set[asyncio.Task[None]] = set()
        self._running = 0  # of these; one that has ended is still a task for a moment
        self._helping = False

    async def ask(self, asked: Asked) -> Any:
        """The outcome for this one; raised if it is an error."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((asked, future))
        if self._running < USUAL:
            self._start()
        elif not self._helping:
            self._helping = True
            loop.call_later(LONG_SECONDS, self._help)
        return await future

    def _help(self) -> None:
        self._helping = False
        if self._waiting and self._running < RUNNERS:
            self._start()

    def _start(self) -> None:
        self._running += 1
        runner = asyncio.get_running_loop().create_task(self._run())
        self._runners.add(runner)
        runner.add_done_callback(self._runners.discard)

    async def _run(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            try:
                outcomes = await self._work([asked for asked, _ in some])
            except Exception as error:
                outcomes = [error] * len(some)
            for (_, future), outcome in zip(some, outcomes, strict=True):
                if future.done():
                    continue  # nobody waits for it any more
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        self._running -= 1

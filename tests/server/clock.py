"""A clock that moves only when everybody waits for it, for tests of what happens when."""

import asyncio
import heapq
import itertools


class FakeClock:
    """Discrete time: the earliest moment that somebody waits for comes next, at once."""

    def __init__(self):
        self.time = 0.0
        self.held = None
        self._waiting = []
        self._order = itertools.count()

    def now(self):
        return self.time

    async def until(self, moment):
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (max(moment, self.time), next(self._order), turn))
        await turn

    exactly = until

    def hold(self, moment, stopping):
        """What a thread would wait for; whoever plays the thread awaits it (`scan`)."""
        self.held = moment

    async def drive(self, *tasks):
        """Let time pass until these are done; what each gave, an error as it is."""
        every = [asyncio.ensure_future(task) for task in tasks]
        while not all(task.done() for task in every):
            for _ in range(50):
                await asyncio.sleep(0)
            if all(task.done() for task in every):
                break
            assert self._waiting, "everybody waits for nothing"
            self.time, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
        return await asyncio.gather(*every, return_exceptions=True)

    async def scan(self, window, seconds, pay_seconds=0.0, known=()):
        """Play a batch's thread: the charge, the scan, and holding back what it gave."""
        await self.until(self.time + pay_seconds)
        if window is None:
            await self.until(self.time + seconds)
            return
        window.begin(known)
        await self.until(self.time + seconds)
        window.end()
        await self.until(self.held)

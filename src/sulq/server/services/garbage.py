"""When memory is tidied: between batches, since that stops every thread of the process.

Whenever enough was made, Python looks through all that is there for what only refers to itself.
With a server's hundred thousands of objects that takes longer than a slot, and whose batch it
hits is late. So a process that serves does it itself, at moments in which no batch reads rows, and
sets aside what is left once that is much: what is new since then is looked through in milliseconds.
What is under way is not worth setting aside: a connection that is closed later refers to itself,
and is let go only when everything is looked through, which takes up to a second.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable

NEVER = 1_000_000_000  # for Python to look through everything by itself
ENOUGH = 6  # times that what is young was looked through, after which all that is new is
LOOK_SECONDS = 0.25
MUCH_SECONDS = 0.0015  # of looking through what is new, after which what is left is set aside
WHOLE_SECONDS = 600.0  # after which everything is looked through, while nobody asks,
TOO_MUCH = 4_000_000  # or if there are so many blocks of memory more than then: some 400 MB


class Garbage:
    """Tidies the memory of this process, once it is told to begin."""

    def __init__(self) -> None:
        self._begun = False
        self._thresholds = gc.get_threshold()
        self._whole = 0.0  # when everything was looked through,
        self._first = 0  # and how many blocks of memory there were then

    @property
    def due(self) -> bool:
        """Is there enough to look through?"""
        return self._begun and gc.get_count()[2] >= ENOUGH

    def begin(self) -> None:
        """Let Python do it by itself no more; what is there is set aside."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:2], NEVER)
        self._begun = True
        self._all()

    def end(self) -> None:
        """Leave it to Python again."""
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()
        self._begun = False

    def tidy(self) -> None:
        """Look through what is new, if there is enough; in the event loop, between batches.

        It is much when it takes long. Objects are not counted: of those that are set aside Python
        does it by walking through all, which takes longer than a slot; and a list of the others
        (gc.get_objects) breaks what threads are just making: a tuple of a generator fails.
        """
        if not self.due:
            return
        if sys.getallocatedblocks() - self._first > TOO_MUCH:
            self._all()
            return
        start = time.thread_time()
        gc.collect()
        if time.thread_time() - start > MUCH_SECONDS:
            gc.freeze()

    async def watch(self, reading: Callable[[], bool], busy: Callable[[], bool]) -> None:
        """Tidy while no batch reads rows, for ever; now and then everything, while nobody asks."""
        self.begin()
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                if not busy() and time.monotonic() - self._whole > WHOLE_SECONDS:
                    self._all()
                elif not reading():
                    self.tidy()
        finally:
            self.end()

    def _all(self) -> None:
        """Look through everything, what was set aside too."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._whole = time.monotonic()
        self._first = sys.getallocatedblocks()

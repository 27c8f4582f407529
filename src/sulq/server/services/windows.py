"""The time of one batch: the public moments at which anything of it may be heard of.

Rows are read from the moment the charge is on disk, and have `scan_seconds` for it. What was read
in that time is stored at its end, and replies leave when the slot is over. What was not is late:
it is stored at the end of 1, 3, 7, ... further slots, whichever comes first after it is done, and
looked into from then on; what follows from that, and the next batch, begin at another of these
moments. So nothing moves at a moment that depends on rows.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

AHEAD_SECONDS = 0.002  # before a moment that is waited for exactly, in which a thread does
STOP_SHARE = 0.8  # of a slot, after which a scan is stopped that nobody will wait for


_ALARMS = ThreadPoolExecutor(4, thread_name_prefix="sulq-alarm")  # threads that only sleep


@dataclass(frozen=True, slots=True)
class Slot:
    """How long a batch takes, and how much of that its scan may take; both public."""

    seconds: float
    scan_seconds: float


class Clock:
    """The time, and waiting for a moment of it; tests bring one that moves when told to."""

    def now(self) -> float:
        """Seconds, of time.monotonic()."""
        return time.monotonic()

    async def until(self, moment: float) -> None:
        """Wait for this moment, in the event loop."""
        await asyncio.sleep(max(moment - self.now(), 0.0))

    async def exactly(self, moment: float) -> None:
        """Wait for this moment, to a tenth of a millisecond.

        An event loop counts whole milliseconds from whatever it was woken for last.
        """
        await self.until(moment - AHEAD_SECONDS)
        left = moment - self.now()
        if left > 0:
            await asyncio.get_running_loop().run_in_executor(_ALARMS, time.sleep, left)

    def hold(self, moment: float, closing: threading.Event) -> None:
        """Wait for this moment, in a thread; no longer if the server stops."""
        closing.wait(max(moment - self.now(), 0.0))


class Window:
    """One batch under way, seen from its thread (begin, end) and from the event loop."""

    def __init__(
        self, slot: Slot, clock: Clock, closing: threading.Event,
        missed: Callable[[float], Callable[[], None] | None] | None = None, *,
        patient: bool = True,
    ) -> None:  # fmt: skip
        self.slot = slot
        self.clock = clock
        self.start = clock.now()
        self.known: Sequence[Any] = ()  # of what the pipeline was asked, what is settled,
        self.places: Sequence[int] = ()  # and where each is in the batch
        self.late = False
        self.patient = patient  # or is a scan stopped that is not done in time?
        self._closing = closing
        self._missed = missed  # what follows from a scan that was late, and took so long
        self._took = 0.0
        self._follows: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._paid: float | None = None
        self._shown: float | None = None

    # ---- in the thread --------------------------------------------------------------------

    def begin(self, known: Sequence[Any] = ()) -> None:
        """The charge is on disk: rows are read from now on."""
        self.known = known
        self._paid = self.clock.now()

    def end(self) -> None:
        """Rows are read: wait for the next public moment."""
        assert self._paid is not None
        now = self.clock.now()
        with self._lock:
            self.late = late = self.late or now > self.due
            if not late:
                self._shown = self.due
        if late:
            self._took = now - self._paid
            self._shown = self.next_moment() if self.patient else now
        self.clock.hold(self._shown or now, self._closing)

    def look_into(self) -> None:
        """Find out why it was late; what was read is stored by now."""
        if self._missed is not None and self.patient:
            self._follows = self._missed(self._took)

    def conclude(self) -> None:
        """Do what follows from that: everybody can see it, so at a public moment."""
        if self._follows is not None:
            self._follows()

    def stops(self, longest: float) -> float:
        """The moment at which a scan that is not done is stopped."""
        return self.start + (longest if self.patient else STOP_SHARE * self.slot.seconds)

    # ---- in the event loop ----------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Is the charge on disk?"""
        return self._paid is not None

    @property
    def due(self) -> float:
        """The moment by which rows must be read."""
        assert self._paid is not None
        return self._paid + self.slot.scan_seconds

    @property
    def scanned(self) -> float:
        """The moment at which the time for the scan is over, whether there is one or not."""
        over = self.start + (self.slot.seconds + self.slot.scan_seconds) / 2
        return over if self._paid is None else max(over, self.due)

    @property
    def closes(self) -> float:
        """The moment at which replies leave."""
        over = self.start + self.slot.seconds
        return over if self._paid is None else max(over, self.due)

    def is_late(self) -> bool:
        """Asked when it closes: were rows not read in time? From then on that is settled."""
        with self._lock:
            self.late = self.late or self._shown is None
            return self.late

    def moments(self) -> Iterator[float]:
        """When a late answer may be stored: 1, 3, 7, ... slots after it was due."""
        further = 1
        while True:
            yield self.due + further * self.slot.seconds
            further = 2 * further + 1

    def next_moment(self) -> float:
        """The next of these."""
        now = self.clock.now()
        return next(moment for moment in self.moments() if moment >= now)

    def shown_by(self, moment: float) -> bool:
        """Is the answer stored from this moment on?"""
        return self._shown is not None and self._shown <= moment

"""Scans that must end by a moment known beforehand (PODS 05, 3.1.5).

How long a sum takes may tell something about a row, so a server's replies leave at a deadline.
A scan that is not done by then is stopped.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from sulq.engines.failures import TooLate
from sulq.questions.check import CheckedQuery

if TYPE_CHECKING:
    from sulq.engines.base import Engine, Matrix


Given = TypeVar("Given")


class Turns:
    """Bounded scans of one engine, one at a time: so each stops itself and no other."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def sums(self, engine: Engine, queries: Sequence[CheckedQuery], until: float) -> list[Matrix]:
        """The exact sums by this moment of time.monotonic(), or TooLate."""
        if not self._turn.acquire(timeout=max(until - time.monotonic(), 0.0)):
            raise TooLate
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            with suppress(Exception):  # its connection may be closed by now
                engine.interrupt()

        try:
            with ALARMS.at(until, stop):  # one that has begun ends before the next scan does
                return engine.sums(queries)
        except Exception:  # a stream that is interrupted raises what its reader makes of it
            if stopped.is_set():
                raise TooLate from None
            raise
        finally:
            self._turn.release()

    def alone(self, work: Callable[[], Given]) -> Given:
        """Do this in its turn, so that no scan's deadline stops it."""
        with self._turn:
            return work()


# ---- one thread that stops scans at their moment --------------------------------------------
# A thread of its own for each scan takes longer to start than a small scan does, and longest when
# the process is busy.


class Alarm:
    """What is to be done when."""

    def __init__(self, moment: float, act: Callable[[], None]) -> None:
        self.moment = moment  # of time.monotonic()
        self.act = act
        self.acting = threading.Lock()


class Alarms:
    """Alarms of one process. A fork begins with none."""

    def __init__(self) -> None:
        self.begin()
        _EVERY.add(self)

    def begin(self) -> None:
        """Have no alarm and no thread, as in a fork, which has neither of its parent's."""
        self._changed = threading.Condition()
        self._alarms: set[Alarm] = set()
        self._wakes = -math.inf  # when the thread looks again; it does not run yet

    @contextmanager
    def at(self, moment: float, act: Callable[[], None]) -> Iterator[None]:
        """Act at this moment, if what is done in here is not over; wait for an act that has begun.

        An act must not raise.
        """
        alarm = Alarm(moment, act)
        with self._changed:
            self._alarms.add(alarm)
            if self._wakes == -math.inf:
                self._wakes = math.inf
                threading.Thread(target=self._run, name="sulq-alarms", daemon=True).start()
            elif moment < self._wakes:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._alarms.discard(alarm)
            with alarm.acting:
                pass

    def _run(self) -> None:
        while True:
            self._wait()
            self._act()

    def _act(self) -> None:
        for alarm in self._due():
            try:
                alarm.act()
            finally:
                alarm.acting.release()

    def _wait(self) -> None:
        """Wait for the earliest moment; no alarm is held on to meanwhile."""
        with self._changed:
            while True:
                self._wakes = min((alarm.moment for alarm in self._alarms), default=math.inf)
                left = self._wakes - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(None if left == math.inf else left)

    def _due(self) -> list[Alarm]:
        """The alarms whose moment has come; each acts from now on."""
        with self._changed:
            due = [alarm for alarm in self._alarms if alarm.moment <= time.monotonic()]
            for alarm in due:
                self._alarms.discard(alarm)
                alarm.acting.acquire()
            return due


_EVERY: WeakSet[Alarms] = WeakSet()


def _begin_in_fork() -> None:
    for alarms in list(_EVERY):
        alarms.begin()


os.register_at_fork(after_in_child=_begin_in_fork)  # before the child has threads of its own


ALARMS = Alarms()

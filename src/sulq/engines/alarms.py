"""One thread that does something at a moment, unless that is called off before.

A thread of its own for each scan takes longer to start than a small scan does, and longest when
the process is busy.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet


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

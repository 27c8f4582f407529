"""Scans that must end by a moment known beforehand (PODS 05, 3.1.5).

How long a sum takes may tell something about a row, so a server's replies leave at a deadline.
A scan that is not done by then is stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from sulq.engines.alarms import Alarms
from sulq.engines.failures import TooLate
from sulq.questions.check import CheckedQuery

if TYPE_CHECKING:
    from sulq.engines.base import Engine, Matrix

Given = TypeVar("Given")
ALARMS = Alarms()


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

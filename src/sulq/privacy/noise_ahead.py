"""Noise drawn some numbers ahead of need, so that drawing takes no time when a reply is due."""

from __future__ import annotations

import os
import threading
import time

from sulq.privacy.noise import Law, Noise

AHEAD = 16  # numbers of one law
MAX_LAWS = 64
MOMENT_SECONDS = 0.5


class NoiseAhead:
    """Noise drawn some numbers ahead of need: each is given once, none is kept for long.

    What is drawn ahead would be drawn again from a copy of this process's memory. So a fork begins
    with nothing, and what is older than a moment is thrown away.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._lock = threading.Lock()
        self._ready: dict[Law, tuple[float, list[int]]] = {}
        self._process = os.getpid()

    def draw(self, law: Law, count: int) -> list[int]:
        """Return `count` independent draws of `law`."""
        if count > AHEAD // 4:
            return self._noise.draw(law, count)
        with self._lock:
            if self._process != os.getpid() or len(self._ready) > MAX_LAWS:
                self._ready, self._process = {}, os.getpid()
            since, ready = self._ready.get(law, (0.0, []))
            if len(ready) < count or time.monotonic() - since > MOMENT_SECONDS:
                ready = self._noise.draw(law, AHEAD)
                self._ready[law] = (time.monotonic(), ready)
            drawn = ready[-count:] if count else []
            del ready[len(ready) - count :]
            return drawn

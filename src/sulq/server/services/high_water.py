"""The latest time this server has seen. A clock that is set back revives nothing that has expired.

Time goes on here by the machine's clock or by the seconds that have passed, whichever is later. It
is kept in the registry some seconds ahead, so that a restart after the clock was set back goes on
from there; whatever expires does so at most that much earlier.
"""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

AHEAD_SECONDS = 5.0


class HighWater:
    """A clock that never goes back, whatever the machine's does."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._kept = float(registry.one("SELECT latest FROM clock")["latest"])
        self._latest = self._kept
        self._since = time.monotonic()

    def time(self) -> datetime:
        """Now, or later. Not to be asked inside a transaction of the registry: it may write."""
        with self._lock:
            passed = time.monotonic() - self._since
            self._latest = max(time.time(), self._latest + passed)
            self._since += passed
            latest = self._latest
            if latest >= self._kept:
                self._keep(latest + AHEAD_SECONDS)
        return datetime.fromtimestamp(latest, UTC)

    def _keep(self, latest: float) -> None:
        whole = math.ceil(latest)
        with self._registry.writing() as run:
            run("UPDATE clock SET latest = ? WHERE latest < ?", whole, whole)
            ((kept,),) = run("SELECT latest FROM clock").fetchall()
        self._kept = float(kept)

    def now(self, later: timedelta = timedelta()) -> str:
        """The same, or so much later, as the registry writes times."""
        return (self.time() + later).isoformat(timespec="seconds")

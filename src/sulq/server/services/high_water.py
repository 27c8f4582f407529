"""The clock by which keys, sessions and links expire.

A clock that is set back revives nothing that has expired: time goes on here by the machine's clock
or by the seconds that have passed since the latest time seen, whichever is later. That time is kept
in the registry some seconds ahead, so that a restart after the clock was set back goes on from
there; whatever expires does so at most that much earlier.

A machine's clock that leaps further ahead than LEAP is right (the server was off for days, or the
machine was suspended) or wrong, and nothing here can tell which. What expires by it is refused, but
it is not kept until it has gone on like that for as long as SETTLES, or whoever runs the server
accepts it (`sulq clock --accept`). Set right before that, everything works again. A leap is an
alarm and a line in the log, and so is a clock that stands far behind the latest time seen.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

AHEAD_SECONDS = 5.0
LEAP = timedelta(days=1)  # by which a clock may be ahead of the latest time seen; no hour matters
SETTLES = timedelta(days=1)  # after which a clock that leapt further is believed for good
ACCEPT = "`sulq clock --accept --reason ...`"


@dataclass(frozen=True, slots=True)
class ClockDoubt:
    """A machine's clock that is far from the latest time this server has seen."""

    seconds: float  # by which it is ahead; negative: behind
    latest: datetime  # the latest time seen

    def __str__(self) -> str:
        days, latest = abs(self.seconds) / 86_400, f"{self.latest:%Y-%m-%d %H:%M} UTC"
        if self.seconds > 0:
            return (
                f"The machine's clock is {days:.1f} days ahead of {latest}, the latest time this "
                "server has seen. If the server was off for so long, all is well: it is believed "
                f"for good after a day, or at once with {ACCEPT}. If not, set it right: keys "
                "expire by it meanwhile."
            )
        return (
            f"The machine's clock is {days:.1f} days behind {latest}, the latest time this server "
            "has seen, and keys expire by that. If it is wrong, set it right. If it is right, and "
            f"was ahead before: {ACCEPT}."
        )


class HighWater:
    """A clock that goes back only from what was not believed yet, or is accepted anew."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._read_mark(registry.one("SELECT latest, accepted FROM clock"))
        self._settled = self._kept or time.time()  # believed; goes on by the seconds that pass
        self._since = time.monotonic()
        self._leap: tuple[float, float] | None = None  # how far ahead, and since when
        self._doubt: ClockDoubt | None = None

    def _read_mark(self, row: Any) -> None:
        self._kept, self._accepted = float(row["latest"]), int(row["accepted"])

    @property
    def doubt(self) -> ClockDoubt | None:
        """How the machine's clock differs from the latest time seen; None: by less than LEAP."""
        self.time()
        return self._doubt

    def time(self) -> datetime:
        """Now, or later. Not to be asked inside a transaction of the registry: it may write."""
        with self._lock:
            before, latest = self._doubt, self._now()
            if self._settled >= self._kept:
                self._keep(self._settled + AHEAD_SECONDS)
                latest = self._now()
            doubt = self._doubt
        if doubt is not None and (before is None or before.seconds * doubt.seconds < 0):
            self._registry.note_clock(doubt)
        return datetime.fromtimestamp(latest, UTC)

    def _now(self) -> float:
        passed, wall = time.monotonic() - self._since, time.time()
        self._since += passed
        self._settled += passed
        ahead, leap = wall - self._settled, LEAP.total_seconds()
        if ahead <= leap:
            self._leap = None
            self._settled = max(self._settled, wall)
        elif self._leap is None or abs(ahead - self._leap[0]) > leap:
            self._leap = ahead, self._since
        elif self._since - self._leap[1] >= SETTLES.total_seconds():
            self._leap, self._settled = None, wall
        ahead = wall - self._settled
        latest = datetime.fromtimestamp(self._settled, UTC)
        self._doubt = ClockDoubt(ahead, latest) if abs(ahead) > leap else None
        return max(wall, self._settled)

    def _keep(self, latest: float) -> None:
        whole, accepted = math.ceil(latest), self._accepted
        with self._registry.writing() as run:
            run("UPDATE clock SET latest = ? WHERE latest < ? AND accepted = ?",
                whole, whole, accepted)  # fmt: skip
            (row,) = run("SELECT latest, accepted FROM clock").fetchall()
        self._read_mark(row)
        if self._accepted != accepted:
            self._settled = self._kept
        elif self._leap is not None:  # another process has settled it
            self._settled = max(self._settled, self._kept - AHEAD_SECONDS)

    def accept(self) -> datetime:
        """Go on from the machine's clock, here and in every process; the latest time before."""
        before = max(self.time(), datetime.fromtimestamp(self._kept, UTC))
        with self._lock:
            with self._registry.writing() as run:
                run("UPDATE clock SET latest = ?, accepted = accepted + 1", math.ceil(time.time()))
                (row,) = run("SELECT latest, accepted FROM clock").fetchall()
            self._read_mark(row)
            self._settled, self._since, self._leap = self._kept, time.monotonic(), None
        return before

    def now(self, later: timedelta = timedelta()) -> str:
        """The same, or so much later, as the registry writes times."""
        return (self.time() + later).isoformat(timespec="seconds")

    def machine_time(self) -> datetime:
        """The machine's clock, at most LEAP behind: for times that others wrote, such as tokens'.

        After an hour's mistake is mended, time goes on here an hour ahead; tokens do not.
        """
        latest = self.time()
        return min(latest, max(datetime.fromtimestamp(time.time(), UTC), latest - LEAP))

    def is_ahead(self, begun: str) -> bool:
        """Was this begun while a clock was ahead, so that it would last too long?"""
        return begun > self.now(LEAP)

"""Progress bars for long scans and long computations, on a terminal only."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sulq.engines.base import Progress
from sulq.errors import MICRO, in_queries

if TYPE_CHECKING:
    from rich.console import Console

SLOW_SECONDS = 1.0  # after this, steps show how far they are


def show(what: str) -> Progress | None:
    """A reporter that draws a bar on stderr, or None where nobody is watching."""
    if not sys.stderr.isatty():
        return None
    return _Bar(what)


class Steps:
    """A computation's steps: how many are done, and the budget left after each.

    A bar on stderr shows both if a terminal is watching and it takes longer than a moment.
    `watch` is called after each step instead, with this object; watch=False is silence.
    """

    def __init__(
        self, what: str, total: int, db: Any = None, watch: Callable[[Steps], Any] | bool = True
    ) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._db = db
        self._bar = _StepsBar(what) if watch is True and sys.stderr.isatty() else None
        self._watch = watch if callable(watch) else self._bar

    @property
    def remaining(self) -> Fraction | None:
        """What the database has left, in queries."""
        return None if self._db is None else self._db.budget.remaining

    def step(self, count: int = 1) -> None:
        """So many more are done."""
        self.done += count
        if self._watch is not None:
            self._watch(self)

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __str__(self) -> str:
        done = f"{self.what}: {self.done} of {self.total} steps"
        left = self.remaining
        return done if left is None else f"{done}, {in_queries(int(left * MICRO))} left"


class _Bar:
    """Appears with the first report, disappears with the last."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.bar: Any = None
        self.task: Any = None

    def __call__(self, share: float) -> None:
        self.show(self.what, share)
        if share >= 1.0:
            self.stop()

    def show(self, text: str, share: float) -> None:
        """Draw it."""
        if self.bar is None:
            from rich.progress import Progress as Bar

            self.bar = Bar(console=_console(), transient=True)
            self.task = self.bar.add_task(text, total=1.0)
            self.bar.start()
        self.bar.update(self.task, completed=share, description=text, refresh=True)

    def stop(self) -> None:
        """Take it away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


class _StepsBar(_Bar):
    """The same for steps, from the moment on that they take long."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.since = time.monotonic()

    def __call__(self, steps: Any) -> None:  # a share, or Steps
        if self.bar is not None or time.monotonic() - self.since > SLOW_SECONDS:
            self.show(str(steps), min(steps.done / max(steps.total, 1), 1.0))


@functools.cache
def _console() -> Console:
    """One for all bars, so that a scan's stands below that of the steps it is part of."""
    from rich.console import Console

    return Console(stderr=True)

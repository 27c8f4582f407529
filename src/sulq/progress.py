"""A progress bar for long scans, on a terminal only."""

from __future__ import annotations

import sys
from typing import Any

from sulq.engines.base import Progress


def show(what: str) -> Progress | None:
    """A reporter that draws a bar on stderr, or None where nobody is watching."""
    if not sys.stderr.isatty():
        return None
    return _Bar(what)


class _Bar:
    """Appears with the first report, disappears with the last."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.bar: Any = None
        self.task: Any = None

    def __call__(self, share: float) -> None:
        if self.bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self.bar = Bar(console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task(self.what, total=1.0)
            self.bar.start()
        self.bar.update(self.task, completed=share)
        if share >= 1.0:
            self.bar.stop()
            self.bar = None

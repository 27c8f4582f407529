"""How far DuckDB is with a scan, told while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

SLOW_SECONDS = 1.0  # after this a scan shows its progress


@contextmanager
def watched(
    report: Callable[[float], None] | None, connection: duckdb.DuckDBPyConnection
) -> Iterator[None]:
    """Report the share done of a scan that takes longer than a moment."""
    if report is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        if done.wait(SLOW_SECONDS):
            return
        while not done.wait(0.2):
            report(max(0.0, min(connection.query_progress() / 100, 1.0)))
        report(1.0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()

"""May this server be sent questions? Whether what it needs can be reached from here.

That is looked at in the background, every few seconds: whoever asks hears what was found last,
at once, so that nobody's question can be felt in it and nobody can make it work. What is missing
is for the log.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from sulq.errors import SulqError
from sulq.server.services import locations, logs
from sulq.server.services.access import Record, record_of
from sulq.server.services.registry import Registry
from sulq.sources.postgres import Address, is_address, reach

LOOK_SECONDS = 2.0
PLACES = ("ledger", "source")
GOOD_KEY = "SELECT 1 FROM keys WHERE revoked IS NULL AND expires > ?"


class Readiness:
    """What was found when last looked at."""

    def __init__(self, registry: Registry, folder: Path) -> None:
        self._registry = registry
        self._folder = folder
        self._stopped = threading.Event()
        self._missing: tuple[str, ...] = ("start",)

    @property
    def ready(self) -> bool:
        """Was everything there?"""
        return not self._missing

    def start(self, opening: Future[Any]) -> None:
        """Look again and again until stopped, once datasets have been opened."""
        threading.Thread(target=self._watch, args=(opening,), name="readiness", daemon=True).start()

    def close(self) -> None:
        """Look no more, and be ready no more."""
        self._stopped.set()
        self._missing = ("stop",)

    def _watch(self, opening: Future[Any]) -> None:
        wait([opening])
        while not self._stopped.is_set():
            missing = self.missing()
            if missing != self._missing and not self._stopped.is_set():
                level = logging.WARNING if missing else logging.INFO
                logs.event("not ready" if missing else "ready", level, missing=list(missing))
                self._missing = missing
            self._stopped.wait(LOOK_SECONDS)

    def missing(self) -> tuple[str, ...]:
        """What cannot be reached: the registry, or the ledger or source of a dataset by name."""
        try:
            self._registry.clock.time()  # so that a clock that leaps is noticed though nobody asks
            rows = self._registry.all("SELECT * FROM datasets WHERE state = 'open' ORDER BY id")
        except Exception:
            return ("registry",)
        is_up = cache(_is_up)  # one try for all who are in one
        return self._locked_out() + tuple(
            f"{place} of {record.name}"
            for record in map(record_of, rows)
            for place in PLACES
            if not self._is_there(record, place, is_up)
        )

    def _locked_out(self) -> tuple[str, ...]:
        """The clock, if it may be wrong and no key is good by it."""
        clock = self._registry.clock
        if clock.doubt is None or self._registry.one(GOOD_KEY, clock.now()) is not None:
            return ()
        return ("a right clock",)

    def _is_there(self, record: Record, place: str, is_up: Callable[[str], bool]) -> bool:
        with suppress(Exception):
            said = locations.found(json.loads(record.arguments), self._folder)
            if is_address(said[place]):
                return is_up(Address.read(said[place]).url)
            return "://" in said[place] or Path(said[place]).exists()
        return False


def _is_up(url: str) -> bool:
    try:
        reach(url).close()
    except SulqError:
        return False
    return True

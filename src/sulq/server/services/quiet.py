"""Slots are measured again while nobody asks: what was measured may have met a busy moment."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from sulq.errors import SulqError
from sulq.server.services.datasets import Dataset, Datasets

LOOK_SECONDS = 5.0  # between looks
FIRST_SECONDS = 30.0  # after a dataset was opened,
AGAIN_SECONDS = 600.0  # and after each time


class Quiet:
    """Measures one dataset after the other, whenever nothing is asked of any."""

    def __init__(self, datasets: Datasets, busy: Callable[[], bool]) -> None:
        self._datasets = datasets
        self._busy = busy
        self._due: WeakKeyDictionary[Dataset, float] = WeakKeyDictionary()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sulq-quiet", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            self.look(time.monotonic())

    def look(self, now: float) -> int:
        """Measure what is due, unless somebody asks; how many were measured."""
        found = 0
        for dataset in self._datasets.all_open():
            due = self._due.setdefault(dataset, now + FIRST_SECONDS)
            if now < due or not dataset.slots.measured or self._busy():
                continue
            with suppress(SulqError, sqlite3.Error, OSError):  # tried again later
                found += self._measured(dataset)
                self._due[dataset] = now + AGAIN_SECONDS
        return found

    def _measured(self, dataset: Dataset) -> bool:
        if not dataset.use.begin():
            return False
        try:
            pace = dataset.scan_times.pace()
            if self._busy():
                return False  # somebody asked meanwhile: this tells little
            self._datasets.keep_pace(dataset, pace)
            dataset.scan_times.again()
            return True
        finally:
            dataset.use.end()

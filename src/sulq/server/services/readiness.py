"""May this server be sent questions? Read off the states of its datasets.

The states are computed in the background, so that a reply takes no time of anybody's question and
nobody can make the server work by asking.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from sulq.server.services.dataset_states import FROZEN, DatasetStates


@dataclass(frozen=True, slots=True)
class DatasetCounts:
    """How many datasets a server has, how many are stopped by a fault, how many are frozen."""

    datasets: int
    stopped: int
    frozen: int


class Readiness:
    """True once datasets were opened, until the server stops or something is missing."""

    def __init__(self, states: DatasetStates) -> None:
        self._states = states
        self._serving = threading.Event()

    def start(self, opening: Future[Any]) -> None:
        """Look at the datasets from now on; be ready once they were opened."""
        threading.Thread(target=self._begin, args=(opening,), name="readiness", daemon=True).start()

    def _begin(self, opening: Future[Any]) -> None:
        wait([opening])
        if not opening.cancelled():
            self._states.look_at_all()
            self._states.start()
            self._serving.set()

    def close(self) -> None:
        """Be ready no more."""
        self._serving.clear()
        self._states.close()

    @property
    def counts(self) -> DatasetCounts:
        """How many datasets there are, and in what state. Without names, so for everybody."""
        states = [state for _, state in self._states.all()]
        stopped = sum(state.is_fault for state in states)
        return DatasetCounts(len(states), stopped, sum(s.kind == FROZEN for s in states))

    @property
    def ready(self) -> bool:
        """True if no dataset is stopped by a fault."""
        return self.ready_for_some and not self.counts.stopped

    @property
    def ready_for_some(self) -> bool:
        """True unless every dataset is stopped, or the server as a whole cannot be asked."""
        counts = self.counts
        some = counts.stopped < counts.datasets or not counts.datasets
        return self._serving.is_set() and not self._states.fault and some

"""Time two ways of doing one thing in turn, and say how they compare.

What is called cold is done by a process that has done nothing before: no cache of ours, of the
engine's or of Python's can help. Rows are in the cache of the file system, for all ways alike.
"""

from __future__ import annotations

import importlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One comparison: ours against another's, and the most it may be."""

    what: str
    ours: float  # seconds
    other: float  # seconds
    against: str
    most: float  # ratio
    note: str = ""
    unit: str = "ms"

    @property
    def amounts(self) -> tuple[str, str]:
        scale = 1000 if self.unit == "ms" else 1
        ours, other = (
            f"{x * scale:.1f}" if scale > 1 else f"{x:.4g}" for x in (self.ours, self.other)
        )
        return f"{ours} {self.unit}", f"{other} {self.unit}"

    @property
    def ratio(self) -> float:
        return self.ours / self.other

    @property
    def ok(self) -> bool:
        return self.ratio <= self.most


def seconds(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Opened:
    """A way that opens what it needs, which is not timed, and gives what is timed."""

    ready: Callable[[], Callable[[], object]]

    def seconds(self) -> float:
        return seconds(self.ready())


def timed(way: Callable[[], object] | Opened) -> float:
    return way.seconds() if isinstance(way, Opened) else seconds(way)


def in_fresh_processes(module: str, ways: tuple[str, ...], rounds: int = 5) -> list[float]:
    """The median time of each cold way of a module, a new process for every run."""
    times = [[_in_a_process(module, way, turn) for way in ways] for turn in range(rounds + 1)]
    return [statistics.median(column) for column in zip(*times[1:], strict=True)]


def _in_a_process(module: str, way: str, turn: int) -> float:
    command = [sys.executable, "-m", "benchmarks.measure", module, way, str(turn)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split()[-1])


def in_turn(*ways: Callable[[], object] | Opened, rounds: int = 7) -> list[float]:
    """The median time of each way, taken in turn so that a busy moment hits all alike."""
    for way in ways:
        timed(way)  # warm up
    times = [[timed(way) for way in ways] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


if __name__ == "__main__":
    _, name, cold, number = sys.argv
    # A cold way opens what it needs, which is not timed, and gives what is.
    print(seconds(importlib.import_module(name).COLD[cold](int(number))))

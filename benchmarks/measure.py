"""Time two ways of doing one thing in turn, and say how they compare."""

from __future__ import annotations

import statistics
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


def in_turn(*ways: Callable[[], object], rounds: int = 7) -> list[float]:
    """The median time of each way, taken in turn so that a busy moment hits all alike."""
    for way in ways:
        way()  # warm up
    times = [[seconds(way) for way in ways] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]

"""MEDIAN and PERCENTILE_CONT from a small tree of noisy counts over the declared range.

Two histograms, 16 coarse cells and 16 fine ones in each, are asked at once. The coarse counts
correct the sums of the fine ones (least squares), so a position is off by about three
standard deviations of one count, wherever it lies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.answer import Answer
from sulq.errors import QueryNotAllowed
from sulq.expressions import parse, shorten
from sulq.query import Bins, Query
from sulq.schema import Schema

BRANCH = 16

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """The best estimate of every fine cell, and the noise of one released count."""

    fine: Array  # groups x cells
    std: float

    @property
    def error(self) -> float:
        """The standard deviation of a sum of cells from the first on, at its largest.

        Whole coarse cells before it: at most half of them count, since the total is noisy
        too; and half of the fine cells of the one it ends in.
        """
        return self.std * math.sqrt(BRANCH * (1 / 2 + 1 / 4))

    def few(self) -> NDArray[np.bool_]:
        """Groups whose size is within the noise."""
        most = self.std * math.sqrt(BRANCH * BRANCH / (BRANCH + 1))
        return np.asarray(~(self.fine.sum(axis=1) > 4 * most))

    def below(self) -> Array:
        """How many lie below each edge: rising, midway between the two envelopes."""
        sums = np.concatenate([np.zeros((len(self.fine), 1)), self.fine.cumsum(axis=1)], axis=1)
        up = np.maximum.accumulate(sums, axis=1)
        down = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
        return np.asarray((up + down) / 2)


class Quantile:
    """The quantiles asked of one expression over the rows of one condition."""

    levels = 2  # queries it asks

    def __init__(self, x: str, condition: str, schema: Schema) -> None:
        node = parse(x, schema)
        if node.type not in ("integer", "number") or not node.bounded:
            raise QueryNotAllowed(
                f"MEDIAN({shorten(x)}): want a number with declared low and high."
            )
        self.x = x
        self.condition = condition
        self.shares: list[float] = []
        self.whole = node.type == "integer"
        low, high = float(node.low), float(node.high)
        if self.whole:
            low, high = low - 0.5, high + 0.5  # a whole number is the middle of its cell
            step = max(1, math.ceil((high - low) / BRANCH**2))
            high = low + step * BRANCH**2
            self.step = float(step)
        else:
            self.step = (high - low) / BRANCH**2
        self.fine = [low + self.step * i for i in range(BRANCH**2)] + [high]
        self.coarse = self.fine[::BRANCH]

    def add(self, share: float) -> int:
        """Ask for one more quantile; gives its place."""
        if share not in self.shares:
            self.shares.append(share)
        return self.shares.index(share)

    def queries(self, keys: tuple[str, ...], condition: str | None) -> list[Query]:
        """The coarse and the fine histogram, within every group."""
        parts = [c for c in (condition, self.condition) if c not in (None, "true")]
        where = " AND ".join(f"({c})" for c in parts) or None
        return [
            Query(("1",), by=(*keys, Bins(self.x, tuple(edges))), where=where)
            for edges in (self.coarse, self.fine)
        ]

    def cells(self, answer: Answer, depth: int) -> list[tuple[Any, ...]]:
        """The groups, from the cells of the coarse histogram."""
        seen = dict.fromkeys(c[:depth] if depth else ("all",) for c in _tuples(answer.cells))
        return list(seen)

    def counts(self, answers: list[Answer], groups: int) -> Counts:
        """What the two histograms say together."""
        coarse, fine = (a.values.reshape(groups, -1)[:, :-1] for a in answers)  # without 'other'
        return Counts(
            _consistent(coarse, fine.reshape(groups, BRANCH, BRANCH)), answers[0].stds[0][0]
        )

    def read(self, counts: Counts) -> Iterator[tuple[Array, Array]]:
        """Each quantile in every group, and its standard deviation."""
        below, total = counts.below(), counts.fine.sum(axis=1)
        for share in self.shares:
            target = share * total
            found = self._invert(below, target)
            reach = [self._invert(below, target + side * counts.error) for side in (-1, 1)]
            std = np.maximum((reach[1] - reach[0]) / 2, self.step / 4)
            yield np.where(total > 0, found, np.nan), std

    def _invert(self, below: Array, target: Array) -> Array:
        edges = np.array(self.fine)
        out = np.empty(len(below))
        for i, (curve, t) in enumerate(zip(below, target, strict=True)):
            j = int(np.clip(np.searchsorted(curve, t) - 1, 0, len(edges) - 2))
            rise = curve[j + 1] - curve[j]
            share = 0.5 if rise <= 0 else float(np.clip((t - curve[j]) / rise, 0, 1))
            out[i] = edges[j] + share * (edges[j + 1] - edges[j])
            if self.whole and self.step == 1.0:
                out[i] = round((edges[j] + edges[j + 1]) / 2)
        return out


def _tuples(cells: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for cell in cells:
        # A bin's own label is a pair, so only longer or nested tuples are combinations.
        yield (
            cell
            if isinstance(cell, tuple) and any(isinstance(x, tuple) or x is None for x in cell)
            else (cell,)
        )


def _consistent(coarse: Array, fine: NDArray[np.float64]) -> Array:
    """Fine counts that add up to the best estimate of each coarse one.

    A coarse count and the sum of its 16 fine ones estimate the same number, with variances
    1 : 16; the weighted mean of the two is spread evenly over the fine cells.
    """
    added = fine.sum(axis=2)
    best = (coarse * BRANCH + added) / (BRANCH + 1)
    spread = (best - added) / BRANCH
    return np.asarray((fine + spread[:, :, None]).reshape(len(coarse), -1))

"""A value that a share of the rows lies below, chosen among ordered cells.

Of every group three cells leave: the value's, and one on either side of it that holds the true one
between them in 95 of 100 cases. privacy/choice.py chooses; here cells get their distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.privacy.choice import MAX_ROWS, Choosing, Distances, Weights, choose
from sulq.privacy.geometry import Geometry
from sulq.questions.measurements import InEachBlock
from sulq.questions.partitions import Axis
from sulq.values.query import Percentile, Query

ENDS = ("low", "value", "high")
MISSED = Fraction(1, 40)  # how often an end may be on the wrong side


@dataclass(frozen=True, eq=False)
class Choice(InEachBlock):
    """Three of the inner cells in every outer cell."""

    share: Fraction
    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    tables: tuple[Weights, Weights] | None = None  # for a value and for the ends, once priced
    margin: int = 0  # from the value's target to those of the ends, in parts of one row

    axes = ("end",)
    places = ENDS

    @property
    def said(self) -> Any:
        """As JSON."""
        return {"percentile": str(self.share), "over": len(self.inner)}

    @property
    def geometry(self) -> Geometry:
        """One query; two where two values of a row may be in two groups."""
        one = Fraction(1)
        two = one * (1 if all(a.public for a in self.outer) else 2)
        return Geometry(one, two, one, two, 1, whole=True)

    def ready(self, law: Choosing) -> Choice:
        """Build its tables, so that none is left to build once it is paid."""
        parts = self.share.denominator
        size = math.prod(len(a.labels) - (None in a.labels) for a in self.inner)
        tables = Weights.of(law.value / parts), Weights.of(law.ends / parts)
        margin = math.ceil(math.log(size / MISSED) / law.ends * parts)
        return replace(self, tables=tables, margin=margin)

    def chosen(self, exact: list[list[int]], uniform: Iterator[int]) -> list[Any]:
        """The places of three cells for every outer cell."""
        assert self.tables is not None
        on_value, on_end = self.tables
        low, high = (-self.margin, on_end), (self.margin, on_end)
        out = []
        for edges in self._edges(exact):
            for target, weights in (low, (0, on_value), high):
                out.append([choose(_distances(edges, target), weights, next(uniform))])
        return out

    def of(self, exact: list[list[int]]) -> list[list[int]]:
        """The cell that holds the value, for all three."""
        found = [int(_distances(edges, 0).argmin()) for edges in self._edges(exact)]
        return [[place] for place in found for _ in ENDS]

    def _edges(self, exact: list[list[int]]) -> Iterator[Distances]:
        """For each group and edge of a cell: the rows below less `share` of them all.

        In parts of one row, so that it is whole; what is in '(other)' counts nowhere.
        """
        shape = [len(a.labels) for a in self.inner]
        counts = np.array([row[0] for row in exact], dtype=object).reshape(self.blocks, *shape)
        for i, axis in enumerate(self.inner):
            if None in axis.labels:
                counts = np.take(counts, range(shape[i] - 1), axis=i + 1)
        for block in counts.reshape(self.blocks, -1):
            if sum(block) > MAX_ROWS:
                raise OverflowError("more rows than distances can be told of")
            below = np.concatenate([[0], np.cumsum(block.astype(np.int64))])
            yield below * self.share.denominator - self.share.numerator * below[-1]


def _distances(edges: Distances, target: int) -> Distances:
    """How far the target is from what lies between the edges of each cell.

    A target below all rows is in the first cell, one above them in the last.
    """
    early, late = edges[:-1] - target, target - edges[1:]
    if target < 0:
        early[0] = 0
    if target > 0:
        late[-1] = 0
    return np.maximum(np.maximum(early, late), 0)


def choice(query: Query, axes: tuple[Axis, ...], noise: str) -> Choice:
    """The choice that is meant over these cells, or a refusal."""
    asked = query.values
    assert isinstance(asked, Percentile)
    if noise not in ("gaussian", "laplace"):
        raise QueryNotAllowed(
            f"Percentile: it needs gaussian or laplace noise, this database has {noise}. "
            "PERCENTILE_CONT is answered."
        )
    if query.error is not None or query.weights is not None:
        raise QueryNotAllowed("Percentile: leave error= and weights= out; a choice has one price.")
    if not isinstance(asked.over, int) or not 0 < asked.over <= len(axes):
        raise QueryNotAllowed(
            f"Percentile: over={asked.over!r}, want how many of the last columns of by= are the "
            "cells to choose from."
        )
    return Choice(asked.share, axes[: -asked.over], axes[-asked.over :])

"""Exact sums, cells x values, gathered batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.columns import Array


class Matrix:
    """Exact sums, cells x values, as Python integers gathered from int64 parts."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.total: dict[tuple[int, int], int] = {}
        self.seen: set[tuple[int, Any]] = set()
        self.met: dict[str, int] | None = None  # texts that rows have, and how many
        self.whole: NDArray[np.int64] | None = None  # of the last rows, not in the total yet
        self.pending = 0  # how many rows these are

    def see(self, cell: int, name: Any) -> None:
        """Count a person once in a cell."""
        if (cell, name) not in self.seen:
            self.seen.add((cell, name))
            self.total[cell, 0] = self.total.get((cell, 0), 0) + 1

    def meet(self, value: str) -> None:
        """Count one more row that has this text."""
        assert self.met is not None
        self.met[value] = self.met.get(value, 0) + 1

    def add(self, cells: Array, values: Array) -> None:
        """Add a part: which cells, and their integers below 2^63."""
        for cell, row in zip(cells.tolist(), values.tolist(), strict=True):
            for j, x in enumerate(row):
                if x:
                    self.total[cell, j] = self.total.get((cell, j), 0) + int(x)

    def add_whole(self, cells: Any, values: NDArray[np.float64], rows: int) -> None:
        """Add whole numbers that are at most 2^33 for each of `rows` rows."""
        if self.whole is None:
            self.whole = np.zeros(self.shape, dtype=np.int64)
        self.whole[cells] += values.astype(np.int64)
        self.pending += rows
        if self.pending > 2**28:  # long before 64 bits are full
            self._settle()

    def _settle(self) -> None:
        if self.whole is not None:
            present = np.flatnonzero(self.whole.any(axis=1))
            self.add(present, self.whole[present])
            self.whole, self.pending = None, 0

    def sums(self) -> dict[tuple[int, int], int]:
        """What is not 0, by cell and value."""
        self._settle()
        return self.total

    def rows(self) -> list[list[Any]]:
        """The whole matrix, empty cells as 0; or texts and how many rows have each."""
        if self.met is not None:
            return [[value, count] for value, count in self.met.items()]
        out = [[0] * self.shape[1] for _ in range(self.shape[0])]
        for (cell, j), x in self.sums().items():
            out[cell][j] = x
        return out

"""Positive definite or not, in whole numbers: elimination without fractions, a row at a time.

Bareiss: entry (i, j) after step s is a minor of the matrix, so every division is exact and the
s-th pivot is the determinant of the leading s x s block. A symmetric matrix is positive definite
exactly when all of these are positive. Nothing is rounded, so the answer does not depend on the
machine or on the engine the numbers came from.
"""

from __future__ import annotations

from collections.abc import Sequence


class Elimination:
    """A symmetric matrix of integers that grows by one row at a time, while it is definite."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []  # row s of the upper triangle after s steps
        self.definite = True  # once it is not, it cannot become so again, and no row is added

    def copy(self) -> Elimination:
        """Another one, to which rows are added on trial."""
        other = Elimination()
        other._rows, other.definite = [list(row) for row in self._rows], self.definite
        return other

    @property
    def last(self) -> int:
        """The last pivot: the determinant of all of it."""
        return self._rows[-1][0] if self._rows else 1

    def reduced(self, row: Sequence[int]) -> list[int]:
        """A new row after every step: its entries, then its pivot. O(k^2) products.

        The row is its products with the earlier ones, then with itself. Nothing is changed.
        """
        left = list(row)
        before = 1
        for s, above in enumerate(self._rows):
            pivot, entry = above[0], left[s]
            for j in range(s + 1, len(left) - 1):
                left[j] = (pivot * left[j] - entry * above[j - s]) // before
            left[-1] = (pivot * left[-1] - entry * entry) // before
            before = pivot
        return left

    def add(self, reduced: Sequence[int]) -> None:
        """Add a row that was reduced."""
        self.definite = self.definite and reduced[-1] > 0
        if not self.definite:
            return
        for above, entry in zip(self._rows, reduced, strict=False):
            above.append(entry)
        self._rows.append([reduced[-1]])

"""Sparse matrices of exact numbers: the weights of linear forms, without a rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Sparse = Any  # scipy.sparse.csr_array; scipy is loaded when it is needed

MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd numbers without a pattern
HALF = np.uint64(32)
BITS = 26  # of each half of a hash


@dataclass(frozen=True)
class ExactMatrix:
    """At each place a whole number times one of `units`; entries at the same place add up."""

    shape: tuple[int, int]
    rows: Whole
    columns: Whole
    whole: Whole
    unit: Whole  # which of the units each entry has
    units: tuple[Fraction, ...]

    @classmethod
    def of_ones(cls, columns: int) -> ExactMatrix:
        """One row, 1 in every column."""
        none = np.zeros(columns, dtype=np.int64)
        ones = np.ones(columns, dtype=np.int64)
        return cls((1, columns), none, np.arange(columns), ones, none, (Fraction(1),))

    def times(self, left: Sparse, factor: Fraction) -> ExactMatrix:
        """`left`, of whole numbers, times this matrix of whole numbers, times the factor."""
        from scipy import sparse

        assert self.units in ((), (Fraction(1),))
        at = (self.rows, self.columns)
        own = sparse.csr_array((self.whole, at), shape=self.shape, dtype=np.int64)
        product = sparse.coo_array(left.astype(np.int64) @ own)
        none = np.zeros(product.nnz, dtype=np.int64)
        rows, columns = (x.astype(np.int64) for x in product.coords)
        return ExactMatrix(product.shape, rows, columns, product.data, none, (factor,))

    def turned(self) -> ExactMatrix:
        """Its transpose."""
        return replace(self, shape=self.shape[::-1], rows=self.columns, columns=self.rows)

    def with_width(self, columns: int) -> ExactMatrix:
        """Return a copy with this number of columns; columns added or dropped are empty."""
        return replace(self, shape=(self.shape[0], columns))

    def rows_within(self, columns: int) -> Whole:
        """Return the rows whose entries all lie in the first `columns` columns."""
        inside = np.ones(self.shape[0], dtype=bool)
        inside[self.rows[self.columns >= columns]] = False
        return np.flatnonzero(inside)

    def with_rows(self, places: Whole) -> ExactMatrix:
        """These rows alone, in ascending order."""
        if len(places) == self.shape[0]:
            return self
        return self._selected(self.rows, places, (len(places), self.shape[1]), "rows")

    def with_columns(self, places: Whole) -> ExactMatrix:
        """These columns alone, in ascending order."""
        if len(places) == self.shape[1]:
            return self
        return self._selected(self.columns, places, (self.shape[0], len(places)), "columns")

    def at_columns(self, places: Whole, columns: int) -> ExactMatrix:
        """Return a copy of width `columns`, its columns moved to these places."""
        return replace(self, shape=(self.shape[0], columns), columns=places[self.columns])

    def _selected(
        self, present: Whole, places: Whole, shape: tuple[int, int], name: str
    ) -> ExactMatrix:
        new = np.full(self.shape[name == "columns"], -1)
        new[places] = np.arange(len(places))
        at = new[present]
        used = at >= 0
        other = replace(
            self, shape=shape, rows=self.rows[used], columns=self.columns[used],
            whole=self.whole[used], unit=self.unit[used],
        )  # fmt: skip
        moved: dict[str, Any] = {name: at[used]}
        return replace(other, **moved)

    def floats(self) -> Sparse:
        """Convert to floats, each entry rounded once."""
        from scipy import sparse

        units = np.array([float(u) for u in self.units])
        entries = self.whole * units[self.unit] if len(self.whole) else np.zeros(0)
        return sparse.csr_array((entries, (self.rows, self.columns)), shape=self.shape)

    def modulo(self, prime: int) -> Sparse:
        """Reduce modulo a prime below 2^31. Raise ValueError if it divides a denominator."""
        from scipy import sparse

        units = [u.numerator * pow(u.denominator, -1, prime) % prime for u in self.units]
        entries = self.whole % prime
        if any(u != 1 for u in units):
            entries = entries * np.array(units, dtype=np.int64)[self.unit] % prime
        at = (self.rows, self.columns)
        summed = sparse.csr_array((entries, at), shape=self.shape, dtype=np.int64)
        summed.data %= prime
        summed.eliminate_zeros()
        return summed

    def distinct_columns(self) -> Whole:
        """One of all columns whose entries are the same, in ascending order; none that are empty.

        Candidates are looked up by a hash of the columns, and compared entry by entry.
        """
        mixed, counts = self._mixed(), np.bincount(self.columns, minlength=self.shape[1])
        used = np.flatnonzero(counts)
        halves = [mixed >> BITS, mixed & (2**BITS - 1)]
        high, low = (
            np.bincount(self.columns, weights=half, minlength=self.shape[1])[used]
            for half in halves
        )  # of whole numbers below 2^26, as many as 2^27: exact
        keys = high + 1j * low
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        alike = used[first][group]  # the first column with the same hash
        again = alike != used
        differing = self._differing(used[again], alike[again], counts)
        return np.union1d(used[first], differing)

    def _mixed(self) -> Whole:
        """A number below 2^52 for each entry, by its row and value."""
        by_row, by_value = MIX
        found = self.whole.view(np.uint64) * by_value + self.unit.view(np.uint64)
        found ^= found >> HALF
        found = (found + self.rows.view(np.uint64) * by_row) * by_value
        found = (found ^ (found >> HALF)) * by_row
        return (found >> np.uint64(64 - 2 * BITS)).view(np.int64)

    def _differing(self, columns: Whole, first: Whole, counts: Whole) -> Whole:
        """The columns that are not entry by entry what the first of the same hash is."""
        looked = np.zeros(self.shape[1], dtype=bool)
        looked[columns] = looked[first] = True
        here = np.flatnonzero(looked[self.columns])
        here = here[np.argsort(self.columns[here], kind="stable")]
        counts = np.where(looked, counts, 0)
        starts = np.cumsum(counts) - counts
        same = counts[columns] == counts[first]
        bad, columns, first = columns[~same], columns[same], first[same]
        each = counts[columns]
        inside = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        one, other = (here[np.repeat(starts[c], each) + inside] for c in (columns, first))
        wrong = np.zeros(len(one), dtype=bool)
        for x in (self.rows, self.whole, self.unit):
            wrong |= x[one] != x[other]
        return np.concatenate([bad, np.unique(np.repeat(columns, each)[wrong])])


def stacked(parts: Sequence[ExactMatrix], columns: int) -> ExactMatrix:
    """All rows below each other, of so many columns."""
    units: dict[Fraction, int] = {}
    each: list[tuple[Whole, ...]] = []
    height = 0
    for part in parts:
        own = np.array([units.setdefault(u, len(units)) for u in part.units], dtype=np.int64)
        each.append((part.rows + height, part.columns, part.whole, own[part.unit]))
        height += part.shape[0]
    if not each:
        each.append((np.zeros(0, dtype=np.int64),) * 4)
    rows, at, whole, unit = (np.concatenate(found) for found in zip(*each, strict=True))
    return ExactMatrix((height, columns), rows, at, whole, unit, tuple(units))

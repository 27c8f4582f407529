"""What leaves in place of the cell sums: whole-number combinations of them.

A checked query may carry a measurement. Engines give exact cell sums as ever; the measurement
combines them before noise is added, all in integers. Its geometry is that of the whole answer:
one row is in one cell, so it moves the answer by one column of the matrix.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.privacy.geometry import Geometry
from sulq.privacy.strategy_matrix import ALONE, MAX_CELLS, UNIT, extent_of, strategy_matrix
from sulq.questions.partitions import Axis
from sulq.values.query import Strategy

MAX_ENTRIES = 65_536  # of a matrix that is given
MAX_ENTRY = 2**20
LIMB = 31  # bits of a count that one product takes: 2^20 * 2^31 * 1536 stays below 2^63
NEAT = 4096  # sizes are rounded up to parts of this, so that all machines agree on a price

Whole = NDArray[np.int64]


class Measurement:
    """Combinations of cell sums that are released instead of the sums."""

    @property
    def numbers(self) -> int:
        """How many rows are released."""
        raise NotImplementedError

    @property
    def labels(self) -> tuple[Any, ...]:
        """A name for each of them."""
        raise NotImplementedError

    @property
    def axes(self) -> tuple[str, ...]:
        """What the parts of a name are, behind the axes that are kept."""
        raise NotImplementedError

    @property
    def said(self) -> Any:
        """As JSON: equal where the combinations are."""
        raise NotImplementedError

    @property
    def geometry(self) -> Geometry:
        """How far one row can move the whole answer."""
        raise NotImplementedError

    def of(self, exact: list[list[int]]) -> list[list[int]]:
        """The combinations of these exact cell sums, without noise."""
        raise NotImplementedError

    @property
    def kept(self) -> int:
        """How many of the first axes are kept: their cells are not combined."""
        return 0

    @property
    def unit(self) -> int:
        """Released integers in one unit of the geometry."""
        return 1

    @property
    def drawn(self) -> int:
        """How many numbers have noise of their own."""
        return self.numbers

    @property
    def deviation(self) -> float:
        """The standard deviation of a released number, where that of the noise is 1."""
        return 1.0

    @property
    def least_variance(self) -> Fraction:
        """The variance that the noise has at least, in steps."""
        return Fraction(0)

    def before_noise(self, exact: list[list[int]]) -> list[list[int]]:
        """What noise is added to."""
        return self.of(exact)

    def after_noise(self, noisy: list[list[int]]) -> list[list[int]]:
        """What leaves, once noise is added."""
        return noisy


class InEachBlock(Measurement):
    """The same numbers in every cell of `outer`, whose axes are kept."""

    outer: tuple[Axis, ...]

    @property
    def places(self) -> Sequence[Any]:
        """A name for each number of one outer cell."""
        raise NotImplementedError

    @property
    def kept(self) -> int:
        """How many axes are kept."""
        return len(self.outer)

    @property
    def blocks(self) -> int:
        """How many outer cells there are."""
        return math.prod(len(a.labels) for a in self.outer)

    @property
    def numbers(self) -> int:
        """As many in every outer cell."""
        return self.blocks * len(self.places)

    @property
    def labels(self) -> tuple[Any, ...]:
        """Its place, behind the labels of the outer cell."""
        if not self.outer:
            return tuple(self.places)
        return tuple(itertools.product(*(a.labels for a in self.outer), self.places))


@dataclass(frozen=True, eq=False)
class Combined(InEachBlock):
    """The same matrix over the inner cells of every outer cell."""

    matrix: Whole  # released numbers x columns
    columns: Whole  # the column of each inner cell; -1: it counts nowhere
    outer: tuple[Axis, ...]  # their cells are kept apart
    inner_public: bool  # is it no secret which inner cell a row is in?
    said: Any = None
    unit: int = 1
    axes: tuple[str, ...] = ("combination",)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The matrix in units of one count."""
        return np.asarray(self.matrix / self.unit)

    @property
    def places(self) -> Sequence[int]:
        """Places in the matrix."""
        return range(len(self.matrix))

    def of(self, exact: list[list[int]]) -> list[list[int]]:
        """Exact, and the same work whatever the counts are."""
        high = self._combined([row[0] >> LIMB for row in exact])
        low = self._combined([row[0] & (2**LIMB - 1) for row in exact])
        return [[(h << LIMB) + x] for h, x in zip(high, low, strict=True)]

    def _combined(self, counts: list[int]) -> list[int]:
        cells = np.array(counts, dtype=np.int64).reshape(self.blocks, len(self.columns))
        added = np.zeros((self.matrix.shape[1] + 1, self.blocks), dtype=np.int64)
        np.add.at(added, self.columns, cells.T)  # -1 is the last, which is left out
        combined: list[int] = (self.matrix @ added[:-1]).T.ravel().tolist()
        return combined

    @property
    def geometry(self) -> Geometry:
        """Columns that a row can be in: their norms, and how far two of them are apart."""
        used = np.unique(self.columns[self.columns >= 0])
        every = len(used) == self.matrix.shape[1]
        radius2, apart2, radius1 = extent_of(self.matrix if every else self.matrix[:, used])
        diameter2 = radius2 if self.inner_public else max(radius2, apart2)
        if any(not axis.public for axis in self.outer):
            diameter2 = max(diameter2, 2 * radius2)
        ends = (self._up(radius2, 2), self._up(diameter2, 2))
        ends1 = (self._up(radius1, 1), self._up(2 * radius1, 1))
        return Geometry(*ends, *ends1, len(self.matrix), whole=True)

    def _up(self, size: int, power: int) -> Fraction:
        return Fraction(-(-size * NEAT // self.unit**power), NEAT)


def measured(strategy: Strategy, axes: tuple[Axis, ...], noise: str, guarantee: str) -> Combined:
    """The combinations that a strategy means over these cells, or a refusal."""
    if noise != "gaussian":
        raise QueryNotAllowed(f"Strategy: it needs gaussian noise, this database has {noise}.")
    if (strategy.workload is None) == (strategy.matrix is None):
        raise QueryNotAllowed("Strategy: give workload= or matrix=, one of them.")
    if not axes:
        raise QueryNotAllowed("Strategy: give by=, whose cells are to be combined.")
    if strategy.matrix is not None:
        return _given(strategy, axes)
    return _named(strategy, axes, guarantee == "beliefs")


def _named(strategy: Strategy, axes: tuple[Axis, ...], beliefs: bool) -> Combined:
    workload = strategy.workload
    assert workload is not None
    unknown = [name for name in workload if name not in ALONE]
    if unknown or not 0 < len(workload) <= len(axes):
        raise QueryNotAllowed(
            f"Strategy: workload={workload!r}, want one of {', '.join(ALONE)} for each of the "
            "last columns of by=."
        )
    outer, inner = axes[: -len(workload)], axes[-len(workload) :]
    if "cdf" in workload and (len(workload) > 1 or len(inner[0].labels) < 3):
        raise QueryNotAllowed("Strategy: 'cdf' is for one column with two cells or more.")
    # (other) is left out, but for a cdf every row is in a cell.
    sizes = tuple(
        len(a.labels) - (None in a.labels and (a.complete or "cdf" not in workload)) for a in inner
    )
    if not 0 < math.prod(sizes) <= MAX_CELLS:
        raise QueryNotAllowed(
            f"Strategy: {math.prod(sizes):,} cells to combine, at most {MAX_CELLS:,}. Use wider "
            "bins."
        )
    places = np.arange(math.prod(sizes)).reshape(sizes)
    grown = [(0, len(a.labels) - size) for a, size in zip(inner, sizes, strict=True)]
    columns = np.pad(places, grown, constant_values=-1).ravel()
    public = all(a.public for a in inner)
    # Two cells of different groups are as far apart as they are long: there lengths are bounded.
    in_pairs = beliefs and len(workload) == 1 and not public and all(a.public for a in outer)
    matrix = strategy_matrix(workload, sizes, in_pairs)
    return Combined(matrix, columns, outer, public, list(workload), UNIT)


def _given(strategy: Strategy, axes: tuple[Axis, ...]) -> Combined:
    assert strategy.matrix is not None
    matrix, cells = _matrix(strategy.matrix), math.prod(len(a.labels) for a in axes)
    columns = strategy.columns if strategy.columns is not None else tuple(range(cells))
    if (
        not isinstance(columns, tuple)
        or len(columns) != cells
        or not all(type(c) is int and -1 <= c < matrix.shape[1] for c in columns)
    ):
        raise QueryNotAllowed(
            f"Strategy: columns= wants the matrix's column of each of the {cells:,} cells, from -1 "
            f"(it counts nowhere) to {matrix.shape[1] - 1:,}."
        )
    public = all(a.public for a in axes)
    packed = base64.b64encode(matrix.astype("<i4").tobytes()).decode()
    said = {"rows": len(matrix), "matrix": packed, "columns": list(columns)}
    return Combined(matrix, np.array(columns, dtype=np.int64), (), public, said)


def _matrix(rows: Any) -> Whole:
    """Whole numbers in rows of one length, small enough to be exact."""
    good = isinstance(rows, tuple) and rows and all(isinstance(r, tuple) and r for r in rows)
    if good and len({len(row) for row in rows}) == 1:
        shape = (len(rows), len(rows[0]))
        small = max(shape) <= MAX_CELLS and math.prod(shape) <= MAX_ENTRIES
        whole = small and all(set(map(type, row)) == {int} for row in rows)
        if whole and max(max(max(row), -min(row)) for row in rows) <= MAX_ENTRY:
            return np.array(rows, dtype=np.int64)
    raise QueryNotAllowed(
        f"Strategy: matrix= wants rows of whole numbers from {-MAX_ENTRY:,} to {MAX_ENTRY:,}, all "
        f"of one length, at most {MAX_ENTRIES:,} numbers."
    )

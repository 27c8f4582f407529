"""Rows of an array, read where they lie: C or Fortran order, any type of number, memory-mapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Arrow's types of what may stand beside an array, in DuckDB's words.
STORED = {"bool": "BOOLEAN", "int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR"}
ROWS = 2**14  # turned at a time


@dataclass(frozen=True, slots=True)
class ArrayRows:
    """An array of numbers, rows x columns, whose columns have names; NaN is a missing value.

    `beside` holds further columns as Arrow arrays of as many rows. Nothing is copied, so whoever
    gives an array leaves it as it is while it is open.
    """

    array: NDArray[Any]
    names: tuple[str, ...]
    beside: Mapping[str, Any]

    @property
    def stored(self) -> dict[str, str]:
        """How each column is stored, in DuckDB's words."""
        others = {name: STORED[str(column.type)] for name, column in self.beside.items()}
        return dict.fromkeys(self.names, "DOUBLE") | others

    def table(self) -> Any:
        """The same rows as an Arrow table: float64, column by column."""
        import numpy as np
        import pyarrow as pa

        rows, width = self.array.shape
        turned = np.empty((width, rows))
        for i in range(0, rows, ROWS):
            turned[:, i : i + ROWS] = self.array[i : i + ROWS].T
        made = {
            name: pa.array(column, from_pandas=True)
            for name, column in zip(self.names, turned, strict=True)
        }
        return pa.table({**made, **self.beside})

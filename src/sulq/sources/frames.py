"""Arrow tables whose every declared value can be read, whatever a question asks of it.

An array made from raw memory may hold what its type forbids: bytes that are not UTF-8, places
beyond a dictionary's end. Such a frame is refused here, before there is anything to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sulq.errors import SchemaError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def readable(table: Any, names: Collection[str]) -> Any:
    """The table, these columns of it checked, in types that the engine reads without fail."""
    import pyarrow as pa

    for i, name in enumerate(table.column_names):
        if name not in names:
            continue
        plain = _plain(table.column(i))
        try:
            plain.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError):
            raise SchemaError(
                f"source: column {name!r} of the frame holds what its type {plain.type} does not "
                "allow, such as text that is not UTF-8. Convert the column, or leave it out of the "
                "schema."
            ) from None
        if plain.type != table.column(i).type:
            table = table.set_column(i, name, plain)
    return table


def _plain(column: Any) -> Any:
    """A moment without its zone, since its day is that of UTC; half a float as a float."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    if not zoned and not pa.types.is_date64(kind):
        return column
    moment = pa.timestamp(kind.unit if zoned else "ms")
    # The same bytes as another type: a cast may fail where a view cannot.
    return pa.chunked_array([chunk.view(moment) for chunk in column.chunks], moment)


# ---- an array of numbers, read where it lies ------------------------------------------------

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

"""Arrow tables whose every declared value can be read, whatever a question asks of it.

An array made from raw memory may hold what its type forbids: bytes that are not UTF-8, places
beyond a dictionary's end. Such a frame is refused here, before there is anything to ask.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sulq.errors import SchemaError


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

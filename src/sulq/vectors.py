"""Raw columns as numpy: one value per row and which are there, read as the schema declares."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sulq.partition import PRIME
from sulq.schema import LARGEST, Column
from sulq.tree import Node, days

Array = NDArray[Any]
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Vector(NamedTuple):
    """One value per row, and which of them are there."""

    data: Array
    valid: NDArray[np.bool_]


def arrow_vector(array: Any) -> Vector:
    """An Arrow array as numpy data and validity, in its widest plain type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    if pa.types.is_null(kind):
        return Vector(np.zeros(len(array)), valid)
    if pa.types.is_timestamp(kind):
        whole = np.asarray(pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))
        day = whole // (86_400 * PER_SECOND[kind.unit])
        endless = np.abs(whole) == 2**63 - 1  # how infinity is stored
        return Vector(np.where(endless, np.sign(whole) * LARGEST, day), valid)
    if pa.types.is_date(kind):
        array = array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_decimal(kind):
        # Arrow's own cast is off by a last bit one time in ten; text is read to the nearest.
        array = array.cast(pa.string()).cast(pa.float64())
    elif pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_floating(kind):
        array = array.cast(pa.float64())
    if pa.types.is_boolean(array.type):
        return Vector(np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False)), valid)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        data = np.asarray(pc.fill_null(array, "").to_numpy(zero_copy_only=False), dtype=object)
        return Vector(data, valid)
    return Vector(np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False)), valid)


def read(array: Any, column: Column) -> Vector:
    """A raw column as its declaration reads it."""
    raw = array if isinstance(array, Vector) else arrow_vector(array)
    data, valid = raw
    low: Any
    words = column.type == "text" or isinstance((column.values or (0,))[0], str)
    if words and data.dtype != object:  # a frame's column without any value has no type
        data = np.full(len(data), "", dtype=object)
    if column.type == "boolean":
        if data.dtype != bool:
            valid = valid & ((data == 0) | (data == 1))
            data = data == 1
        data = data & valid
    elif column.type == "category":
        if not words:
            data, valid = _whole(data, valid & (data == np.trunc(data)))
        valid = valid & np.isin(data, np.array(column.values, dtype=data.dtype))
        data = np.where(valid, data, np.array("" if words else 0, data.dtype))
    elif column.type in ("integer", "date"):
        data, valid = _whole(data, valid)
        low, high = ends(column)
        if column.type == "date" and not column.bounded:  # only the years 1 to 9999 are dates
            valid = valid & (data >= low) & (data <= high)
        data = np.clip(data, low, high)
    elif column.type == "number":
        data = data.astype(np.float64)
        valid = valid & ~np.isnan(data)
        data = np.where(valid, data, 0.0)
        if column.bounded:
            data = np.clip(data, column.low, column.high)
    if not column.nullable and (column.bounded or column.type == "boolean"):
        low = days(column.low) if column.type == "date" else column.low or 0
        data = np.where(valid, data, np.array(low, dtype=data.dtype))
        valid = np.ones(len(data), dtype=bool)
    return Vector(data, valid)


def _whole(data: Array, valid: Array) -> Vector:
    """Floats that stand for whole numbers (a nullable integer column in pandas) as integers."""
    if data.dtype.kind == "f":
        valid = valid & ~np.isnan(data)
        data = np.clip(np.where(valid, data, 0.0), -LARGEST, LARGEST)
        data = half_away(data)
    elif data.dtype == np.uint64:
        data = np.minimum(data, np.uint64(2**63 - 1))
    return Vector(data.astype(np.int64), valid)


def ends(column: Column) -> tuple[int, int]:
    """The least and the largest whole number a column can hold."""
    if column.type == "date":
        return days(column.low or datetime.date.min), days(column.high or datetime.date.max)
    return (column.low, column.high) if column.bounded else (-LARGEST, LARGEST)


def constant(node: Node, rows: int) -> Vector:
    """A literal on every row."""
    value = node.value
    if value is None:
        kinds: dict[str, Any] = {"boolean": False, "number": 0.0, "text": ""}
        value = kinds.get(node.type, 0)
        return Vector(_full(value, rows), np.zeros(rows, dtype=bool))
    if isinstance(value, datetime.date):
        value = days(value)
    return Vector(_full(value, rows), np.ones(rows, dtype=bool))


def _full(value: Any, rows: int) -> Array:
    return np.full(rows, value, dtype=object if isinstance(value, str) else None)


def half_away(x: Array) -> Array:
    """To the nearest whole number, halves away from zero."""
    whole = np.trunc(x)
    return np.asarray(whole + np.copysign(np.abs(x - whole) >= 0.5, x))


def key_numbers(array: Any, key: Column) -> NDArray[np.int64]:
    """The key mod 2^31 - 1; text by the first 7 hex digits of its md5; missing is 0."""
    import pyarrow as pa

    if pa.types.is_decimal(getattr(array, "type", None)):  # 128-bit whole numbers
        return np.array([int(x or 0) % PRIME for x in array.to_pylist()], dtype=np.int64)
    raw = array if isinstance(array, Vector) else arrow_vector(array)
    if raw.data.dtype.kind == "f":
        raw = read(raw, key)
    if raw.data.dtype == object:
        digests = (hashlib.md5(x.encode(), usedforsecurity=False).hexdigest() for x in raw.data)
        found = np.fromiter((int(d[:7], 16) for d in digests), dtype=np.int64, count=len(raw.data))
    else:
        found = (raw.data % PRIME).astype(np.int64)
    return np.where(raw.valid, found, 0)

"""Raw columns as numpy: one value per row and which are there, read as the schema declares."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.node import Node, days, number_of, seconds
from sulq.values.schema import LARGEST, Column

Array = NDArray[Any]
PRIME = 2**31 - 1  # keys are counted modulo this, and put into blocks by it
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Vector(NamedTuple):
    """One value per row, and which of them are there."""

    data: Array
    valid: NDArray[np.bool_]


def vector_of(values: Sequence[Any]) -> Vector:
    """Python values as a raw column; None is missing."""
    blank = next((type(v)() for v in values if v is not None), 0)
    data = [blank if v is None else v for v in values]
    valid = np.array([v is not None for v in values], dtype=bool)
    return Vector(np.array(data, dtype=object if blank == "" else None), valid)


def in_numpy(array: Any) -> Array:
    """An Arrow array as numpy data, numbers and Booleans as they lie in memory; 0 where missing.

    Arrow's own `to_numpy` and `fill_null` import pandas, a quarter of a second before the first
    answer.
    """
    import pyarrow as pa

    kind = array.type
    boolean = pa.types.is_boolean(kind)
    if not (boolean or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    valid = None
    if array.null_count:
        valid = in_numpy(array.is_valid())
        shared = [None, *array.buffers()[1:]]
        array = pa.Array.from_buffers(kind, len(array), shared, offset=array.offset)
    data = np.from_dlpack(array.cast(pa.uint8()) if boolean else array)
    data = data if valid is None else np.where(valid, data, data.dtype.type(0))
    return data.view(bool) if boolean else data


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
    valid = in_numpy(array.is_valid())
    if pa.types.is_null(kind):
        return Vector(np.zeros(len(array)), valid)
    if pa.types.is_timestamp(kind):
        return _moments(array, 86_400)
    if pa.types.is_date(kind):
        array = array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_decimal(kind):
        # Arrow's own cast is off by a last bit one time in ten; text is read to the nearest.
        array = array.cast(pa.string()).cast(pa.float64())
    elif pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_floating(kind):
        array = array.cast(pa.float64())
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        data = np.asarray(pc.fill_null(array, "").to_numpy(zero_copy_only=False), dtype=object)
        return Vector(data, valid)
    return Vector(in_numpy(array), valid)


def _raw(array: Any, column: Column) -> Vector:
    """An Arrow array as numpy data: moments of a timestamp column as seconds, of a date as days."""
    import pyarrow as pa

    if column.type != "timestamp" or not pa.types.is_timestamp(array.type):
        return arrow_vector(array)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return _moments(array, 1)


def _moments(array: Any, each: int) -> Vector:
    """Moments in whole steps of so many seconds since 1970, down; far ones are missing."""
    import pyarrow as pa

    per = PER_SECOND[array.type.unit]
    whole = in_numpy(array.cast(pa.int64()))
    endless = np.abs(whole) == 2**63 - 1  # how infinity is stored
    reach = (2**63 - 1) // max(10**6 // per, 1)  # beyond, no date is known
    near = endless | (whole >= -reach) & (whole <= reach) if reach < 2**62 else True
    step = np.where(endless, np.sign(whole) * LARGEST, whole // (each * per))
    return Vector(step, in_numpy(array.is_valid()) & near)


def read(array: Any, column: Column) -> Vector:
    """A raw column as its declaration reads it."""
    raw = array if isinstance(array, Vector) else _raw(array, column)
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
        valid = valid & _declared(data, column.values or (), words)
        data = np.where(valid, data, np.array("" if words else 0, data.dtype))
    elif column.type == "text" and column.max_length is not None:
        data = np.array([word[: column.max_length] for word in data], dtype=object)
    elif column.type in ("integer", "date", "timestamp"):
        data, valid = _whole(data, valid)
        low, high = ends(column)
        if column.type != "integer" and not column.bounded:  # only the years 1 to 9999 are dates
            valid = valid & (data >= low) & (data <= high)
        data = np.clip(data, low, high)
    elif column.type == "number":
        data = data.astype(np.float64)
        valid = valid & ~np.isnan(data)
        data = np.where(valid, data, 0.0)
        if column.bounded:
            data = np.clip(data, column.low, column.high)
    if not column.nullable and (column.bounded or column.type == "boolean"):
        low = number_of(column.low) or 0
        data = np.where(valid, data, np.array(low, dtype=data.dtype))
        valid = np.ones(len(data), dtype=bool)
    return Vector(data, valid)


def _declared(data: Array, values: Sequence[Any], words: bool) -> Array:
    """Which of these are declared; words are looked up, since numpy sorts them one by one."""
    if not words:
        return np.isin(data, np.array(values, dtype=data.dtype))
    known = frozenset(values)
    return np.fromiter((word in known for word in data), bool, len(data))


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
    if column.type == "timestamp":
        first, last = datetime.datetime.min, datetime.datetime.max
        return seconds(column.low or first), seconds(column.high or last)
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


def key_vector(array: Any, key: Column) -> Vector:
    """The keys themselves: whole numbers or texts."""
    import pyarrow as pa

    plain = isinstance(array, Vector)
    if not plain and pa.types.is_decimal(array.type):  # 128-bit whole numbers
        found = [None if x is None else int(x) for x in array.to_pylist()]
        return Vector(np.array(found, dtype=object), np.array([x is not None for x in found]))
    raw = array if plain else arrow_vector(array)
    return read(raw, without_range(key)) if raw.data.dtype.kind == "f" else raw


def without_range(key: Column) -> Column:
    """The key as it names a row: floats as whole numbers, never clamped to low and high."""
    return replace(key, low=None, high=None, nullable=True)


def key_numbers(array: Any, key: Column) -> NDArray[np.int64]:
    """The key mod 2^31 - 1; text by the first 7 hex digits of its md5; missing is 0."""
    raw = key_vector(array, key)
    if raw.data.dtype == object and key.type != "text":
        return np.array([int(x or 0) % PRIME for x in raw.data], dtype=np.int64)
    if raw.data.dtype == object:
        digests = (hashlib.md5(x.encode(), usedforsecurity=False).hexdigest() for x in raw.data)
        found = np.fromiter((int(d[:7], 16) for d in digests), dtype=np.int64, count=len(raw.data))
    else:
        found = (raw.data % PRIME).astype(np.int64)
    return np.where(raw.valid, found, 0)

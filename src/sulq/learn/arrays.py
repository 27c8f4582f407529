"""X and y of `fit(X, y)` as columns with declarations, nothing of which is read off the rows.

Bounds and classes are given, or the array's type is Boolean. A cell that is no number, or a label
that is not among the classes, is missing: what one row holds changes no shape, name or message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sulq.learn.validation import InvalidData, refuse_sparse, warn_of_column
from sulq.sources.frames import ArrayRows

Array = NDArray[np.float64]
Column = tuple[Any, dict[str, Any]]  # values, and what is declared of them
NUMBERS = "biuf"  # numpy's kinds of numbers, Booleans among them


class Slot(NamedTuple):
    """A column of an array, which is not copied out of it."""

    array: NDArray[Any]
    number: int


def as_matrix(X: Any) -> Array:
    """Rows that are no secret as a 2-D float array."""
    refuse_sparse(X)
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("X: want a 2-D array of numbers.") from None
    return _matrix(rows)


def value_matrix(X: Any) -> NDArray[Any]:
    """Rows that are no secret, of whatever values, as a 2-D array."""
    return _matrix(_objects(X))


def _matrix(rows: NDArray[Any]) -> NDArray[Any]:
    if rows.ndim != 2:
        raise InvalidData(
            f"X has shape {rows.shape}, want rows x columns. Reshape your data: X.reshape(-1, 1) "
            "if it is one column, X.reshape(1, -1) if it is one row."
        )
    if rows.shape[1] < 1:
        raise InvalidData(
            f"X has 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required."
        )
    return rows


def _some_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows to learn from: there is at least one."""
    if not len(_matrix(rows)):
        raise InvalidData(f"X has 0 sample(s) (shape={rows.shape}), want at least one row.")
    return rows


def number_columns(X: Any, bounds: Any) -> dict[str, Column]:
    """X as columns x0, x1, ... within their bounds; a Boolean X needs none."""
    rows = _some_rows(_number_array(X, "X"))
    names = [f"x{i}" for i in range(rows.shape[1])]
    if bounds is None and not is_boolean(X):
        raise InvalidData(
            "bounds: say what range the columns of X can have, such as bounds=(0, 120), or a list "
            "of low ends and one of high ends. They come from knowledge, never from X; values "
            "beyond them are clamped. Nothing was charged."
        )
    low, high = each_bound((0.0, 1.0) if bounds is None else bounds, "bounds", len(names))
    return {
        name: (Slot(rows, i), {"type": "number", "low": float(a), "high": float(b)})
        for i, (name, a, b) in enumerate(zip(names, low, high, strict=True))
    }


def boolean_columns(X: Any) -> dict[str, Column]:
    """X of zeros and ones as Boolean columns; any other cell is missing."""
    import pyarrow as pa

    rows = _some_rows(_numbers(X, "X"))
    known = (rows == 0.0) | (rows == 1.0)
    return {
        f"x{i}": (pa.array(column == 1.0, mask=~there), {"type": "boolean"})
        for i, (column, there) in enumerate(zip(rows.T, known.T, strict=True))
    }


def number_label(y: Any, bounds: Any) -> Column:
    """y as a number within its bounds, or as a Boolean."""
    numbers = _vector(_numbers(_given(y, "a number"), "y"))
    if bounds is None and is_boolean(y):
        return numbers == 1.0, {"type": "boolean", "nullable": False}
    if bounds is None:
        raise InvalidData(
            "label_bounds: say what range y can have, such as label_bounds=(0, 100). It comes from "
            "knowledge, never from y; values beyond it are clamped. Nothing was charged."
        )
    low, high = each_bound(bounds, "label_bounds", 1)
    return numbers, {"type": "number", "low": float(low[0]), "high": float(high[0])}


def class_label(y: Any, classes: Any) -> Column:
    """y as one of the classes; any other label is missing, and its row is left out."""
    import pyarrow as pa

    _given(y, "a label")
    if classes is None:
        if not is_boolean(y):
            raise InvalidData(
                "classes: say what y can be, such as classes=['no', 'yes'] or classes=[0, 1]. They "
                "come from knowledge, never from y: a class that one row alone has would show. "
                "Only an array of Booleans needs none. Nothing was charged."
            )
        return _vector(np.asarray(y)).astype(bool), {"type": "boolean", "nullable": False}
    listed = checked_classes(classes)
    if isinstance(listed[0], str):
        held = [v if isinstance(v, str) else None for v in _vector(_objects(y)).tolist()]
        return pa.array(held, pa.string()), {"values": listed}
    numbers = _vector(_numbers(y, "y"))
    there = np.isin(numbers, np.array(listed, dtype=np.float64))
    whole = np.where(there, numbers, 0.0).astype(np.int64)
    if isinstance(listed[0], bool):
        return pa.array(whole == 1, mask=~there), {"type": "boolean"}
    return pa.array(whole, mask=~there), {"values": listed}


def checked_classes(classes: Any) -> list[Any]:
    """Two or more different names, whole numbers, or both Booleans."""
    if isinstance(classes, Sequence | np.ndarray) and not isinstance(classes, str):
        plain = [c.item() if isinstance(c, np.generic) else c for c in classes]
        listed = [int(c) if isinstance(c, float) and c.is_integer() else c for c in plain]
        kinds = {type(c) for c in listed}
        if len(kinds) == 1 and kinds <= {str, int, bool} and 2 <= len(set(listed)) == len(listed):
            return sorted(listed) if kinds == {bool} else listed
    raise InvalidData(
        f"classes={classes!r}, want two or more different names or whole numbers, such as "
        "['no', 'yes'] or [0, 1]."
    )


def is_boolean(values: Any) -> bool:
    """Does the array's type say that it holds Booleans? Its values are not looked at."""
    return getattr(values, "dtype", None) == np.dtype(bool)


def each_bound(bounds: Any, name: str, count: int) -> tuple[Array, Array]:
    """(low, high): two numbers, or two lists with one number per column."""
    try:
        ends = [np.asarray(end, dtype=np.float64) for end in bounds]
        low, high = (np.broadcast_to(end, (count,)) for end in ends)
    except (TypeError, ValueError):
        each = "" if count == 1 else f", two numbers or two lists of {count}"
        raise InvalidData(f"{name}={bounds!r}, want (low, high){each}.") from None
    if not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise InvalidData(f"{name}={bounds!r}, want low < high. They come from knowledge.")
    return low, high


def as_source(frame: dict[str, Any]) -> Any:
    """Columns as `sulq.open` takes them: an array with what is beside it, or an Arrow table.

    NaN is a missing value.
    """
    import pyarrow as pa

    slots = {name: column for name, column in frame.items() if isinstance(column, Slot)}
    beside = {
        name: column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
        for name, column in frame.items()
        if name not in slots
    }
    sizes = [len(slot.array) for slot in slots.values()] + [len(c) for c in beside.values()]
    if len(set(sizes)) > 1:
        raise InvalidData(f"X has {sizes[0]:,} rows and y {sizes[-1]:,}, want as many.")
    if not slots:
        return pa.table(beside)
    array = next(iter(slots.values())).array
    return ArrayRows(array, tuple(slots), beside)


def _given(y: Any, what: str) -> Any:
    if y is None:
        raise InvalidData(
            f"y: give {what} for each row. The model requires y to be passed, but the target y is "
            "None."
        )
    return y


def _vector(values: NDArray[Any]) -> NDArray[Any]:
    """One value a row; a single column will do."""
    if values.ndim == 2 and values.shape[1] == 1:
        warn_of_column("y")
        values = values[:, 0]
    if values.ndim != 1:
        raise InvalidData(f"y has shape {values.shape}, want one value for each row.")
    return values


def _objects(values: Any) -> NDArray[Any]:
    """An array of whatever it holds; one value of another type does not change the others."""
    refuse_sparse(values)
    try:
        if hasattr(values, "dtype") or hasattr(values, "__array__"):  # one type, or object
            return np.asarray(values)
        return np.array(values, dtype=object)
    except (TypeError, ValueError):
        raise InvalidData("X, y: want rows of equal length.") from None


def _numbers(values: Any, name: str) -> Array:
    """Floats, whatever the container; what is no number is NaN."""
    return _number_array(values, name).astype(np.float64, copy=False)


def _number_array(values: Any, name: str) -> NDArray[Any]:
    """The same, an array of any type of number as it is."""
    held = _objects(values)
    if held.dtype.kind in NUMBERS:
        return held
    if held.dtype.kind not in "OUS":
        said = "Complex data not supported: " if held.dtype.kind == "c" else ""
        raise InvalidData(f"{said}{name} holds {held.dtype.name}, want numbers.")
    flat = np.array([_number(v) for v in held.reshape(-1).tolist()], dtype=np.float64)
    return flat.reshape(held.shape)


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # whatever a cell's own __float__ raises: no error may come from one row
        return math.nan

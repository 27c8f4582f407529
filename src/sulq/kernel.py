"""Row functions in numpy: what every engine must agree with, bit for bit.

The reference engine is this file run over the whole table. The other engines use it for
what SQL cannot say exactly (exp, ln, power) or fast (centres, products), batch by batch, and
for evaluating predicates on small tables of cells.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sulq.check import CheckedQuery
from sulq.dense import NUMBERS, add_dense, nearest_cells, scaled, side_cells
from sulq.partition import PRIME, Axis
from sulq.schema import LARGEST, Column, Schema
from sulq.tree import HUGE, MAX_LENGTH, Node, days
from sulq.values import Dense, Value

Array = NDArray[Any]
EPOCH = np.datetime64("1970-01-01", "D")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


class Vector(NamedTuple):
    """One value per row, and which of them are there."""

    data: Array
    valid: NDArray[np.bool_]


class Batch:
    """Some rows: raw columns by name, read on demand as the schema declares them."""

    def __init__(self, columns: Mapping[str, Any], rows: int, schema: Schema) -> None:
        self.raw = columns
        self.rows = rows
        self.schema = schema
        self._read: dict[str, Vector] = {}
        self._scaled: dict[tuple[str, ...], NDArray[np.float64]] = {}
        self._known: dict[str, Vector] = {}

    def column(self, name: str) -> Vector:
        """A declared column: clamped, undeclared and NaN missing."""
        if name not in self._read:
            self._read[name] = read(self.raw[name], self.schema[name])
        return self._read[name]

    def scaled(self, points: tuple[Node, ...], centre: int = 0) -> NDArray[np.float64]:
        """Coordinates x rows on [0, 1], in whole steps less the centre; not to be written to."""
        key = (str(centre), *(p.text for p in points))
        if key not in self._scaled:
            self._scaled[key] = scaled(self, points, centre)
        return self._scaled[key]

    def evaluate(self, node: Node) -> Vector:
        """The value of a row function on every row; equal parts are computed once."""
        with np.errstate(all="ignore"):
            return self._evaluate(node)

    def _evaluate(self, node: Node) -> Vector:
        if node.op == "literal":
            return constant(node, self.rows)
        found = self._known.get(node.text)
        if found is None:
            if node.op == "column":
                found = self.column(node.value)
            else:
                found = OPERATIONS[node.op](node, *[self._evaluate(a) for a in node.args])
            self._known[node.text] = found
        return found

    def true(self, node: Node | None) -> NDArray[np.bool_]:
        """Where a predicate holds; missing is not true."""
        if node is None:
            return np.ones(self.rows, dtype=bool)
        found = self.evaluate(node)
        return found.data.astype(bool) & found.valid


# --- reading columns --------------------------------------------------------------------


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
        low, high = _ends(column)
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
        data = _half_away(data)
    elif data.dtype == np.uint64:
        data = np.minimum(data, np.uint64(2**63 - 1))
    return Vector(data.astype(np.int64), valid)


def _ends(column: Column) -> tuple[int, int]:
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


# --- operations -------------------------------------------------------------------------

Operation = Callable[..., Vector]


def _strict(f: Callable[..., Array]) -> Operation:
    """Missing if any argument is."""

    def apply(node: Node, *args: Vector) -> Vector:
        return Vector(f(*(a.data for a in args)), reduce(np.logical_and, (a.valid for a in args)))

    return apply


def _partial(f: Callable[..., Array], defined: Callable[..., Array]) -> Operation:
    """Missing also where the function is not defined."""

    def apply(node: Node, *args: Vector) -> Vector:
        data = [a.data for a in args]
        there = reduce(np.logical_and, (a.valid for a in args)) & defined(*data)
        found = f(*data)
        return Vector(np.where(there, found, np.zeros((), found.dtype)), there)

    return apply


def _as(node: Node, data: Array) -> Array:
    """Whole numbers where the node is whole."""
    return np.asarray(data.astype(np.int64) if node.type == "integer" else data)


def _rounding(f: Callable[[Array], Array]) -> Operation:
    return lambda node, a: Vector(_as(node, f(a.data)), a.valid)


def _half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.asarray(whole + np.copysign(np.abs(x - whole) >= 0.5, x))


def _and(node: Node, *args: Vector) -> Vector:
    false = reduce(np.logical_or, (a.valid & ~a.data for a in args))
    valid = reduce(np.logical_and, (a.valid for a in args)) | false
    return Vector(valid & ~false, valid)


def _or(node: Node, *args: Vector) -> Vector:
    true = reduce(np.logical_or, (a.valid & a.data for a in args))
    return Vector(true, reduce(np.logical_and, (a.valid for a in args)) | true)


def _extreme(pick: Callable[[Array, Array], Array]) -> Operation:
    def apply(node: Node, *args: Vector) -> Vector:
        data, valid = args[0]
        for other in args[1:]:
            both = valid & other.valid
            data = np.where(both, pick(data, other.data), np.where(valid, data, other.data))
            valid = valid | other.valid
        return Vector(data, valid)

    return apply


def _case(node: Node, *args: Vector) -> Vector:
    data, valid = args[-1]
    for condition, result in reversed(list(zip(args[:-1:2], args[1:-1:2], strict=True))):
        here = condition.data & condition.valid
        data = np.where(here, result.data, data)
        valid = np.where(here, result.valid, valid)
    return Vector(data, valid)


def _coalesce(node: Node, *args: Vector) -> Vector:
    data, valid = args[-1]
    for a in reversed(args[:-1]):
        data = np.where(a.valid, a.data, data)
        valid = valid | a.valid
    return Vector(data, valid)


def _in(node: Node, a: Vector, *items: Vector) -> Vector:
    wanted = {i.value if not isinstance(i.value, datetime.date) else days(i.value)
              for i in node.args[1:]}  # fmt: skip
    if a.data.dtype == object:
        found = np.fromiter((x in wanted for x in a.data), dtype=bool, count=len(a.data))
    else:
        found = np.isin(a.data, np.array(sorted(wanted), dtype=a.data.dtype))
    return Vector(found, a.valid)


def _texts(f: Callable[[str], Any], kind: Any) -> Operation:
    def apply(node: Node, a: Vector, *rest: Vector) -> Vector:
        out = np.empty(len(a.data), dtype=kind)
        out[:] = [f(x) for x in a.data] if len(a.data) else []
        return Vector(out, a.valid)

    return apply


def _like(node: Node, a: Vector, pattern: Vector) -> Vector:
    match = like_pattern(node.args[1].value).fullmatch
    found = np.fromiter((match(x) is not None for x in a.data), dtype=bool, count=len(a.data))
    return Vector(found, a.valid)


@lru_cache(maxsize=256)
def like_pattern(pattern: str) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression; runs of % are one, so matching stays cheap."""
    parts = re.sub("%+", "%", pattern)
    # Each % but the last is possessive-free yet atomic: the first match of what follows is
    # as good as any later one, so there is no backtracking across pieces.
    pieces = [re.escape(p).replace("_", ".") for p in parts.split("%")]
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    middle = "".join(f"(?>.*?{p})" for p in pieces[1:-1] if p)
    return re.compile(f"{pieces[0]}{middle}.*{pieces[-1]}", re.DOTALL)


_SMALL = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_CAPITAL = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _part(node: Node, a: Vector) -> Vector:
    dates = EPOCH + a.data.astype("timedelta64[D]")
    years = dates.astype("datetime64[Y]")
    months = dates.astype("datetime64[M]")
    month = months.astype(np.int64) % 12
    parts: dict[str, Callable[[], Array]] = {
        "year": lambda: years.astype(np.int64) + 1970,
        "quarter": lambda: month // 3 + 1,
        "month": lambda: month + 1,
        "day": lambda: (dates - months.astype("datetime64[D]")).astype(np.int64) + 1,
        "dayofweek": lambda: (a.data + 4) % 7,
        "dayofyear": lambda: (dates - years.astype("datetime64[D]")).astype(np.int64) + 1,
    }
    found = parts[node.value]()
    return Vector(np.clip(found, int(node.low), int(node.high)), a.valid)


def _trunc(node: Node, a: Vector) -> Vector:
    dates = EPOCH + a.data.astype("timedelta64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64)
    by: dict[str, Callable[[], Array]] = {
        "day": lambda: a.data,
        "week": lambda: a.data - (a.data + 3) % 7,
        "month": lambda: _first_day(months),
        "quarter": lambda: _first_day(months - months % 3),
        "year": lambda: _first_day(months - months % 12),
    }
    return Vector(np.maximum(by[node.value](), int(node.low)), a.valid)


def _first_day(months: Array) -> Array:
    return np.asarray(months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64))


def _power_defined(a: Array, b: Array) -> Array:
    return np.asarray(~(((a < 0) & (b != np.floor(b))) | ((a == 0) & (b < 0))))


OPERATIONS: dict[str, Operation] = {
    "add": _strict(np.add),
    "sub": _strict(np.subtract),
    "mul": _strict(np.multiply),
    "div": _partial(lambda a, b: a / np.where(b == 0, 1.0, b), lambda a, b: b != 0),
    "mod": _partial(lambda a, b: np.fmod(a, np.where(b == 0, 1, b)), lambda a, b: b != 0),
    "neg": _strict(np.negative),
    "abs": _strict(np.abs),
    "sign": _strict(lambda a: np.sign(a).astype(np.int64)),
    "floor": _rounding(np.floor),
    "ceil": _rounding(np.ceil),
    "round": _rounding(_half_away),
    "sqrt": _partial(lambda a: np.sqrt(np.maximum(a, 0.0)), lambda a: a >= 0),
    "ln": _partial(lambda a: np.log(np.where(a > 0, a, 1.0)), lambda a: a > 0),
    "exp": _strict(lambda a: np.minimum(np.exp(a), HUGE)),
    "power": _partial(
        lambda a, b: np.clip(np.power(np.where(_power_defined(a, b), a, 1.0), b), -HUGE, HUGE),
        _power_defined,
    ),
    "least": _extreme(np.minimum),
    "greatest": _extreme(np.maximum),
    "to_integer": _strict(lambda a: a.astype(np.int64)),
    "to_number": _strict(lambda a: a.astype(np.float64)),
    "eq": _strict(lambda a, b: np.asarray(a == b, dtype=bool)),
    "ne": _strict(lambda a, b: np.asarray(a != b, dtype=bool)),
    "lt": _strict(np.less),
    "le": _strict(np.less_equal),
    "is_null": lambda node, a: Vector(~a.valid, np.ones(len(a.data), dtype=bool)),
    "and": _and,
    "or": _or,
    "not": _strict(np.logical_not),
    "xor": _strict(np.not_equal),
    "in": _in,
    "like": _like,
    "case": _case,
    "coalesce": _coalesce,
    "length": _texts(lambda x: min(len(x), MAX_LENGTH), np.int64),
    "lower": _texts(lambda x: x.translate(_SMALL), object),
    "upper": _texts(lambda x: x.translate(_CAPITAL), object),
    "part": _part,
    "trunc": _trunc,
    "days": _strict(np.subtract),
    "shift": _strict(np.add),
}


# --- contributions ----------------------------------------------------------------------


def grid(value: Value, found: Vector) -> NDArray[np.int64]:
    """A value as grid integers, clamped as the last step; missing is 0."""
    data = found.data
    if value.node.type == "number":
        factor = 2.0**value.scale
        inside = np.clip(data, value.low / factor, value.high / factor)
        data = np.rint(inside * factor)  # halves to even, as the engines' casts do
    whole = np.clip(data.astype(np.int64), value.low, value.high)
    missing = 0 if value.node.nullable else min(max(0, value.low), value.high)
    return np.where(found.valid, whole, missing)


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


def hashed(batch: Batch, numbers: Sequence[int]) -> NDArray[np.int64]:
    """(c3*k^3 + c2*k^2 + c1*k + c0) mod (2^31 - 1) of every row's key."""
    key = batch.schema.key
    assert key is not None
    k = key_numbers(batch.raw[key.name], key)
    found = np.full(len(k), numbers[0], dtype=np.int64)
    for c in numbers[1:]:
        found = (found * k + c) % PRIME
    return found


def cell_numbers(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    """Which cell of the axis each row is in."""
    return AXES[axis.kind](axis, batch)


def _expression_cells(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    assert axis.node is not None
    found = batch.evaluate(axis.node)
    other = len(axis.labels) - 1
    number = {_data(label): i for i, label in enumerate(axis.labels)}
    keys, inverse = np.unique(found.data, return_inverse=True)
    codes = np.array([number.get(k, other) for k in keys.tolist()], dtype=np.int64)
    cells = codes[inverse] if len(codes) else np.zeros(batch.rows, dtype=np.int64)
    return np.where(found.valid, cells, other)


def _data(label: Any) -> Any:
    return days(label) if isinstance(label, datetime.date) else label


def _bin_cells(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    assert axis.node is not None
    found = batch.evaluate(axis.node)
    edges = np.array(axis.detail, dtype=np.float64)
    data = found.data.astype(np.float64)
    cells = np.searchsorted(edges, data, side="right") - 1
    cells = np.where(data == edges[-1], len(edges) - 2, cells)
    other = len(edges) - 1
    inside = (cells >= 0) & (cells < other) & found.valid
    return np.where(inside, cells, other)


def _block_cells(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    *numbers, count = axis.detail
    return np.asarray(hashed(batch, numbers) % count)


def _leaf_cells(axis: Axis, batch: Batch) -> NDArray[np.int64]:
    cells = np.zeros(batch.rows, dtype=np.int64)
    for number, path in reversed(list(enumerate(axis.detail))):  # the first that holds wins
        if path is not None:
            cells[batch.true(path)] = number
    return cells


AXES: dict[str, Callable[[Axis, Batch], NDArray[np.int64]]] = {
    "expression": _expression_cells,
    "bins": _bin_cells,
    "blocks": _block_cells,
    "nearest": nearest_cells,
    "side": side_cells,
    "leaf": _leaf_cells,
}


class Matrix:
    """Exact sums, cells x values, as Python integers gathered from int64 parts."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.total: dict[tuple[int, int], int] = {}
        self.seen: set[tuple[int, Any]] = set()
        self.whole: NDArray[np.int64] | None = None  # of the last rows, not in the total yet
        self.pending = 0  # how many rows these are

    def see(self, cell: int, name: Any) -> None:
        """Count a person once in a cell."""
        if (cell, name) not in self.seen:
            self.seen.add((cell, name))
            self.total[cell, 0] = self.total.get((cell, 0), 0) + 1

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

    def rows(self) -> list[list[int]]:
        """The whole matrix, empty cells as 0."""
        out = [[0] * self.shape[1] for _ in range(self.shape[0])]
        for (cell, j), x in self.sums().items():
            out[cell][j] = x
        return out


def add_batch(
    query: CheckedQuery, batch: Batch, matrix: Matrix, counts: Array | None = None
) -> None:
    """Add one batch's contributions; `counts` says how many rows each stands for."""
    member, cells = member_cells(query, batch)
    if isinstance(query.values, Dense):
        if query.values.kind == "people":
            _add_people(query.values, batch, member, cells, matrix)
        else:
            add_dense(query.values, batch, member, cells, matrix)
        return
    columns = [grid(v, batch.evaluate(v.node))[member] for v in query.values]
    _add_columns(columns, cells[member], matrix, None if counts is None else counts[member])


def member_cells(query: CheckedQuery, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which rows a query is about, and the cell of each row."""
    member = batch.true(query.rows) & batch.true(query.where)
    if query.sample is not None:
        *numbers, threshold = query.sample
        member &= hashed(batch, numbers) < threshold
    cells = np.zeros(batch.rows, dtype=np.int64)
    for axis in query.axes:
        cells = cells * len(axis.labels) + cell_numbers(axis, batch)
    return member, cells


def _add_columns(
    columns: list[NDArray[np.int64]], cells: Array, matrix: Matrix, counts: Array | None
) -> None:
    """Group-by in numpy: integers only, in two halves so that no partial sum can wrap."""
    size = matrix.shape[0]
    present = np.unique(cells) if size > 1 else np.zeros(1, dtype=np.int64)
    out = np.zeros((len(present), len(columns)), dtype=object)
    slot = np.searchsorted(present, cells)
    for j, column in enumerate(columns):
        if counts is not None:
            out[:, j] = _weighted(slot, column, counts, len(present))
            continue
        low = np.bincount(slot, weights=column & 0xFFFFFF, minlength=len(present))
        high = np.bincount(slot, weights=column >> 24, minlength=len(present))
        out[:, j] = [int(h) * 2**24 + int(v) for h, v in zip(high, low, strict=True)]
    matrix.add(present, out)


def _weighted(slot: Array, column: Array, counts: Array, size: int) -> list[int]:
    """Sums of column * counts by slot; Python integers where 64 bits might not do."""
    if len(column) and int(np.abs(column).max()) * int(counts.sum()) < 2**62:
        out = np.zeros(size, dtype=np.int64)
        np.add.at(out, slot, column * counts)
        return [int(x) for x in out]
    exact = [0] * size
    for s, x, c in zip(slot.tolist(), column.tolist(), counts.tolist(), strict=True):
        exact[s] += x * c
    return exact


def _add_people(dense: Dense, batch: Batch, member: Array, cells: Array, matrix: Matrix) -> None:
    """Remember who was seen in each cell; nobody counts twice, the unnamed not at all."""
    raw = batch.raw[dense.columns[0]]
    found = raw if isinstance(raw, Vector) else arrow_vector(raw)
    names = found.data
    member = member & found.valid
    if names.dtype.kind == "f":
        member = member & ~np.isnan(names)
    for cell, name in zip(cells[member].tolist(), names[member].tolist(), strict=True):
        matrix.see(cell, name)


def needed_columns(query: CheckedQuery, schema: Schema) -> frozenset[str]:
    """The raw columns a query reads."""
    names: set[str] = set()
    for node in (query.rows, query.where):
        names |= node.columns() if node is not None else set()
    for axis in query.axes:
        names |= set(axis.columns)
        names |= axis.node.columns() if axis.node is not None else set()
    if query.sample is not None and schema.key is not None:
        names.add(schema.key.name)
    if isinstance(query.values, Dense):
        names |= set(query.values.columns)
    else:
        for value in query.values:
            names |= value.node.columns()
    return frozenset(names)


@lru_cache(maxsize=256)
def true_cells(node: Node, schema: Schema) -> tuple[int, ...]:
    """The ledger cells in which a public predicate holds."""
    raw: dict[str, Vector] = {}
    for i, column in enumerate(schema.cell_columns):
        values = [cell[i] for cell in schema.cells]
        valid = np.array([v is not None for v in values])
        blank: Any = "" if any(isinstance(v, str) for v in values) else 0
        kind: Any = object if blank == "" else None
        data = np.array([blank if v is None else v for v in values], dtype=kind)
        raw[column.name] = Vector(data.astype(bool) if column.type == "boolean" else data, valid)
    batch = Batch(raw, schema.cell_count, schema)
    return tuple(np.flatnonzero(batch.true(node)).tolist())


@lru_cache(maxsize=16)
def reachable(node: Node, schema: Schema) -> tuple[Any, ...] | None:
    """Every value an expression over few-valued columns can have; None where it may be missing.

    Found from the declarations alone. None instead of a tuple: too many combinations.
    """
    batch = domain_batch(tuple(sorted(node.columns())), schema, 2**16)
    if batch is None:
        return None
    found = batch.evaluate(node)
    values = sorted(set(found.data[found.valid].tolist()))
    if node.type == "date":
        values = [datetime.date.fromordinal(EPOCH_DAY + v) for v in values]
    return (*values, *([None] if node.nullable else []))


def domain_batch(names: tuple[str, ...], schema: Schema, most: int) -> Batch | None:
    """Every combination of values these columns can have as declared, once each."""
    domains = {name: _domain(schema[name]) for name in names}
    size = math.prod(len(d.data) if d is not None else most + 1 for d in domains.values())
    if size > most:
        return None
    raw: dict[str, Vector] = {}
    repeat = 1
    for name, d in domains.items():
        assert d is not None
        at = np.arange(size) // repeat % len(d.data)
        raw[name] = Vector(d.data[at], d.valid[at])
        repeat *= len(d.data)
    return Batch(raw, size, schema)


def _domain(column: Column) -> Vector | None:
    """Every value a column can have as declared, then a missing one."""
    if column.listed is not None:
        blank: Any = "" if isinstance(column.listed[0], str) else column.listed[0]
        kind: Any = object if blank == "" else None
        data = np.array([*column.listed, blank], dtype=kind)
    elif column.type in ("integer", "date") and column.bounded:
        low, high = _ends(column)
        if high - low >= 2**16:
            return None
        data = np.append(np.arange(low, high + 1), low)
    else:
        return None
    if not column.nullable and column.type != "category":
        return Vector(data[:-1], np.ones(len(data) - 1, dtype=bool))
    return Vector(data, np.arange(len(data)) < len(data) - 1)


def vectors_of(queries: Sequence[CheckedQuery], schema: Schema) -> int:
    """How many row vectors a batch holds while these queries are evaluated."""
    names: set[str] = set()
    texts: set[str] = set()
    for query in queries:
        names |= needed_columns(query, schema)
        roots = [query.rows, query.where, *(a.node for a in query.axes)]
        roots += [path for a in query.axes if a.kind == "leaf" for path in a.detail]
        roots += [] if isinstance(query.values, Dense) else [v.node for v in query.values]
        texts |= {node.text for root in roots if root is not None for node in root.walk()}
    return len(names) + len(texts)


def batch_rows(queries: Sequence[CheckedQuery], schema: Schema) -> int:
    """Rows per batch for these queries: what speaks of several columns wants smaller ones."""
    most = rows_at_most(vectors_of(queries, schema))
    widest = max((len(points) for q in queries for points in _points(q)), default=0)
    return min(most, max(NUMBERS // widest, 1)) if widest else most


def _points(query: CheckedQuery) -> list[tuple[Node, ...]]:
    values = [query.values.points] if isinstance(query.values, Dense) else []
    return [*values, *(a.points for a in query.axes)]


def rows_at_most(width: int) -> int:
    """Rows per batch so that exact float64 sums and memory both stay small."""
    return int(max(2**12, min(2**20, 2 ** (26 - math.ceil(math.log2(width + 1))))))

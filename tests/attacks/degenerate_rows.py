"""Tables that are nearly nothing, or as far out as their types allow, and where they may lie."""

from __future__ import annotations

import csv
import math
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import postgres
import pyarrow as pa
import pyarrow.parquet
import spark
from engines.test_fuzz import COLUMNS
from helpers import duckdb_engine

from sulq.engines.duckdb import DuckDBEngine
from sulq.sources.frames import readable
from sulq.sources.source import open_source
from sulq.values.schema import Schema

ROWS = (0, 1, 1, 2, 3, 5, 17, 60)
MODES = ("null", "equal", "one value", "one gap", "mixed", "mixed", "mixed")
WORDS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
MOMENTS = tuple(pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "Asia/Tokyo"))
STORED = {  # how each column may be stored; its declaration is that of the other fuzz
    "id": (pa.int64(), pa.int32(), pa.uint64(), pa.int8(), pa.float64(), *WORDS),
    "g": (pa.string(), pa.dictionary(pa.int32(), pa.string())),
    "i": (pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.float32(), pa.float64()),
    "j": (pa.int64(), pa.uint64(), pa.float64(), pa.uint32()),
    "u": (pa.uint64(), pa.int64(), pa.float64()),
    "s": (pa.int32(), pa.float64(), pa.uint16()),
    "x": (pa.float64(), pa.float32(), pa.float16(), pa.decimal128(38, 10), pa.decimal64(5, 2),
          pa.int64()),
    "y": (pa.float32(), pa.float64(), pa.decimal128(10, 2)),
    "z": (pa.float64(), pa.float32(), pa.int64(), pa.uint64(), pa.decimal128(38, 0)),
    "d": (pa.decimal128(20, 6), pa.decimal128(38, 18), pa.float64(), pa.decimal128(38, 37)),
    "b": (pa.bool_(), pa.int8(), pa.float64(), pa.uint64()),
    "c": (pa.int8(), pa.bool_(), pa.float32()),
    "t": WORDS,
    "k": WORDS,
    "m": (pa.int64(), pa.int8(), pa.float64(), pa.float16()),
    "e": (pa.date32(), pa.date64(), *MOMENTS),
    "f": (pa.date32(), pa.date64(), *MOMENTS),
}  # fmt: skip
DECLARED = {
    "id": {"key": True},
    "g": {"values": ["a", "b", "c"], "public": True},
    **{name: declared for name, (declared, _, _) in COLUMNS.items()},
}
PERSON = {"p": {"type": "text"}}
LETTERS = [
    "", "a", "b", "A", "zz", "日本語", "a\0b", "\0", "?", "\ufffd", "\U0001f600", "e\u0301", "%_\\",
    "\u202e", "it's", 'q"', "a\nb", "a,b\r\n", " a ", "\x7f\x01", "NULL", "nan", "\ufeff", "\uffff",
]  # fmt: skip
SAFE = [w for w in LETTERS if "\0" not in w]  # PostgreSQL holds no NUL
END = 2**63 - 1


def schema_of(person: bool = False) -> Schema:
    """The declarations; with people, each may have two rows."""
    if not person:
        return Schema.load(DECLARED)
    unit = {"column": "p", "max_rows": 2}
    return Schema.load({"columns": DECLARED | PERSON, "unit": unit})


def table_of(pick, person: bool = False, tame: bool = False) -> pa.Table:
    """A degenerate table; `tame` has only what every server can hold."""
    rows = pick.choice(ROWS)
    stored = STORED | ({"p": WORDS[:1]} if person else {})
    columns = {}
    for name, kinds in stored.items():
        kind = pick.choice(kinds)
        if name == "id" and person:
            columns[name] = pa.array(range(rows), pa.int64())  # says which rows count
        else:
            columns[name] = _column(pick, name, kind, rows, tame)
    return pa.table(columns)


def _column(pick, name, kind, rows, tame):
    mode = pick.choice(MODES)
    if mode == "null" and not tame and pick.random() < 0.3:
        kind = pa.null()
    if mode == "null" or pa.types.is_null(kind):
        return pa.nulls(rows, kind)
    pool = _pool(name, kind, tame)
    if name in ("t", "id") and pick.random() < 0.03 and isinstance(pool[0], str):
        pool = ["é" * 600_000]  # more than a megabyte
    drawn = [pick.choice(pool) for _ in range(rows)]
    if mode == "equal":
        drawn = drawn[:1] * rows
    at = pick.randrange(rows) if rows else 0
    drawn = [
        None if (mode == "one value" and i != at) or (mode == "one gap" and i == at) else x
        for i, x in enumerate(drawn)
    ]
    return array_of(drawn, kind)


def array_of(values, kind) -> pa.Array:
    """Values that are as far out as the type allows; moments are whole numbers of their unit."""
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_floating(kind):
        with np.errstate(all="ignore"):
            data = np.array([0.0 if v is None else v for v in values], dtype=float)
            data = data.astype(kind.to_pandas_dtype())
        return pa.array(data, kind, mask=np.array([v is None for v in values], dtype=bool))
    return pa.array(values, kind)


def _pool(name, kind, tame):
    if pa.types.is_boolean(kind):
        return [True, False]
    if pa.types.is_floating(kind):
        return [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1.0, 0.5,
                -2.5, 7.0, 3.0, 8.0, 2.0**53, -(2.0**63), 2.0**64, 1 / 3, 6e-8]  # fmt: skip
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        whole = (0, 1, -1, most, -most, most // 3, 10 ** (kind.precision - 1))
        return [Decimal(x).scaleb(-kind.scale, _context()) for x in whole]
    if pa.types.is_integer(kind):
        width = kind.bit_width
        signed = pa.types.is_signed_integer(kind)
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
        near = (low, low + 1, -5, -3, -1, 0, 1, 2, 8, 9, 17, 40, 2**31, 2**53, 2**53 + 1, high)
        return [x for x in near if low <= x <= high]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _days(kind, tame)
    words = SAFE if tame else LETTERS
    return words if name in ("t", "id", "p") else ["a", "b", "c", "日本語", *words]


def _context():
    import decimal

    return decimal.Context(prec=60)


def _days(kind, tame):
    """Days and moments at the ends of what can be written, of years, and of their types."""
    known = [0, -1, 19_000, 29_219, -719_162, 2_932_896, -7_246, -7_245]  # years 1 to 9999
    if pa.types.is_date32(kind):
        return known if tame else [*known, 2**31 - 1, -(2**31) + 1, -(2**31), 2**31 - 2, 3_000_000]
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    each = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] * 86_400
    inside = [d * each for d in known] + [19_000 * each + each - 1, -1, 1]
    inside = [x for x in inside if abs(x) < END]
    if tame:
        return inside
    return [*inside, END, -END, -END - 1, END - 1, 10**13, 10**16, -(10**16), END // 10**6,
            END // 10**6 + 1, END // 1000, END // 1000 + 1, -(END // 1000) - 1]  # fmt: skip


# --- where they may lie -------------------------------------------------------------------


def placed(table: pa.Table, schema: Schema, where: str, folder: Path):
    """A source that holds these rows; None if it cannot."""
    return PLACES[where](table, schema, folder)


def _parquet(table, schema, folder):
    path = folder / "rows.parquet"
    pa.parquet.write_table(table, path, row_group_size=7)
    return path


def for_parquet(table: pa.Table) -> pa.Table:
    """The table without moments that Parquet cannot hold; they have a test of their own."""
    for i, column in enumerate(table.columns):
        if not _fits_parquet(column):
            table = table.set_column(i, table.column_names[i], pa.nulls(len(column), pa.date32()))
    return table


def _fits_parquet(column):
    kind = column.type
    if not pa.types.is_timestamp(kind):
        return not pa.types.is_date64(kind)
    if kind.unit == "ns":
        return kind.tz is None
    whole = [x for x in column.cast(pa.int64()).to_pylist() if x is not None]
    each = {"s": 10**6, "ms": 10**3, "us": 1}[kind.unit]
    return all(abs(x * each) <= END for x in whole)


def _csv(table, schema, folder):
    path = folder / "rows.csv"
    columns = [[_written(x) for x in _values(c)] for c in table.columns]
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else 0)
        writer.writerow(table.column_names)
        writer.writerows(zip(*columns, strict=True))
    return path


def _values(column):
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        unit = "ms" if pa.types.is_date64(kind) else kind.unit
        whole = pa.chunked_array([c.view(pa.int64()) for c in column.chunks], pa.int64())
        return [None if x is None else np.datetime64(x, unit) for x in whole.to_pylist()]
    if pa.types.is_date32(kind):
        whole = pa.chunked_array([c.view(pa.int32()) for c in column.chunks], pa.int32())
        return [None if x is None else np.datetime64(x, "D") for x in whole.to_pylist()]
    return column.to_pylist()


def _written(x):
    if isinstance(x, bool):
        return "true" if x else "false"
    return x if x is None or isinstance(x, str) else str(x)


def _frame(table, schema, folder):
    return table


def _pandas(table, schema, folder):
    try:
        return table.to_pandas()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OverflowError):
        return None


def _polars(table, schema, folder):
    import polars

    try:
        return polars.from_arrow(table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, polars.exceptions.PolarsError,
            ValueError):  # fmt: skip
        return None


def _duckdb(table, schema, folder):
    path = folder / "rows.duckdb"
    rows = readable(table, table.column_names)  # noqa: F841  found by name below
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE rows_ AS SELECT * FROM rows")
    return path


def _store(table, schema, folder):
    path = folder / "rows.sulq"
    facts = {"name": "rows", "ledger": "rows.ledger", "fingerprint": "none"}
    DuckDBEngine.write_store(open_source(table), schema, path, facts)
    return path


def _postgres(table, schema, folder):
    rows = duckdb_engine(table, schema).arrow()
    return postgres.shared().url("reader"), postgres.load(rows, schema)


def _spark(table, schema, folder):
    """A frame of the session that is running."""
    from pyspark.sql import SparkSession

    rows = duckdb_engine(table, schema).arrow()
    return spark.frame(SparkSession.getActiveSession(), rows, schema).coalesce(1)


PLACES = {
    "arrow": _frame, "parquet": _parquet, "csv": _csv, "store": _store, "duckdb": _duckdb,
    "pandas": _pandas, "polars": _polars, "postgres": _postgres,
    "spark": _spark,
}  # fmt: skip

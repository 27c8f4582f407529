"""Where rows come from: a path, a frame or an array, and what its metadata says.

Only names and types are looked at here. A column that does not fit its declaration is found
by its type, never by its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sulq.errors import MissingExtra, SchemaError
from sulq.schema import Schema

PARQUET = (".parquet", ".pq", ".parq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt")
DUCKDB = (".duckdb", ".ddb", ".db")


@dataclass(frozen=True)
class Source:
    """A place with rows. `kind` is parquet, csv, duckdb or arrow."""

    kind: str
    name: str
    path: Path | None = None
    frame: Any = None  # an Arrow table
    table: str | None = None

    @property
    def ledger(self) -> str:
        """The default ledger: beside a file, in memory for frames."""
        if self.path is None:
            return ":memory:"
        return str(self.path.with_name(self.path.name + ".ledger"))


def open_source(source: Any, table: str | None = None, name: str | None = None) -> Source:
    """Recognise what the owner gave."""
    if isinstance(source, str | Path):
        return _path(source, table, name)
    return Source("arrow", name or "frame", frame=_frame(source))


def _path(source: str | Path, table: str | None, name: str | None) -> Source:
    text = str(source)
    if "://" in text:
        scheme = text.split("://", 1)[0]
        raise SchemaError(
            f"source: {scheme}:// addresses are not supported by this version. Give a Parquet or "
            "CSV path, a DuckDB file, or a pandas, Polars or Arrow frame."
        )
    path = Path(source)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise SchemaError(f"source={text!r} {what}. Give a Parquet, CSV or DuckDB file.")
    lower = path.name.lower()
    for kind, endings in (("parquet", PARQUET), ("csv", CSV), ("duckdb", DUCKDB)):
        for ending in endings:
            if lower.endswith(ending):
                stem = path.name[: -len(ending)]
                return Source(kind, name or stem, path=path.resolve(), table=table)
    raise SchemaError(
        f"source={path.name!r}: the ending is not known. Parquet: {', '.join(PARQUET)}; CSV: "
        f"{', '.join(CSV)}; DuckDB: {', '.join(DUCKDB)}."
    )


def _frame(source: Any) -> Any:
    """pandas, Polars, Arrow or numpy as an Arrow table."""
    import numpy as np
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, np.ndarray):
        if source.ndim != 2:
            raise SchemaError(f"source: an array with {source.ndim} dimensions, want 2.")
        if source.dtype.kind not in "buif":
            raise SchemaError(f"source: an array of {source.dtype}, want numbers.")
        return pa.table(
            {f"x{i}": np.ascontiguousarray(column) for i, column in enumerate(source.T)}
        )
    module = type(source).__module__.split(".")[0]
    try:
        if module == "pandas":
            return pa.Table.from_pandas(source, preserve_index=False)
        if module == "polars":
            return _collected(source).to_arrow()
    except ImportError:
        raise MissingExtra(f"{module} frames need: pip install 'sulq[{module}]'") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise SchemaError(
            "source: a column of the frame mixes types. Give each column one type."
        ) from None
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    raise SchemaError(
        f"source: {type(source).__name__} is not known. Give a path, a pandas, Polars or Arrow "
        "frame, or a 2-D numpy array."
    )


def _collected(frame: Any) -> Any:
    return frame.collect() if hasattr(frame, "collect") else frame


# What a declared type may be stored as, in DuckDB's words.
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER",
         "UBIGINT", "HUGEINT", "UHUGEINT")  # fmt: skip
FLOATS = ("FLOAT", "DOUBLE")
DATES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
         "TIMESTAMP WITH TIME ZONE")  # fmt: skip


def fits(declared: str, stored: str, text_values: bool = True) -> bool:
    """May a column of this declared type be stored so?"""
    plain = stored.split("(")[0]
    if declared == "boolean":
        return plain == "BOOLEAN" or plain in WHOLE
    if declared == "integer":
        return plain in WHOLE or plain in FLOATS
    if declared == "number":
        return plain in WHOLE or plain in FLOATS or plain == "DECIMAL"
    if declared == "date":
        return plain in DATES
    if declared == "category" and not text_values:
        return plain in WHOLE
    return plain in ("VARCHAR", "ENUM")


def bind(schema: Schema, stored: dict[str, str]) -> Schema:
    """The schema with every declared column found in the source, or a refusal."""
    folded = {name.lower(): name for name in stored}
    types: dict[str, str] = {}
    for column in schema.columns:
        if column.name not in stored:
            near = folded.get(column.name.lower())
            hint = f" The source has {near!r}: names are matched exactly." if near else ""
            names = ", ".join(list(stored)[:20])
            raise SchemaError(
                f"column {column.name!r} is declared but not in the source.{hint} It has: {names}."
            )
        kind = stored[column.name]
        if column.type == "key":
            types[column.name] = "integer" if kind.split("(")[0] in WHOLE else "text"
    bound = schema.with_types(types)
    for column in bound.columns:
        kind = stored[column.name]
        words = column.values is not None and isinstance(column.values[0], str)
        if not fits(column.type, kind, words):
            raise SchemaError(
                f"column {column.name!r} is declared {column.type}, but the source stores it as "
                f"{kind}. Change the declaration or convert the column in the source."
            )
    return bound

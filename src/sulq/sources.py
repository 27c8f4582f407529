"""Where rows come from: a path, a frame or an array, and what its metadata says.

Only names and types are looked at here. A column that does not fit its declaration is found
by its type, never by its values.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sulq.errors import MissingExtra, SchemaError
from sulq.postgres import is_address
from sulq.schema import Schema
from sulq.spark import find_rows, is_spark

PARQUET = (".parquet", ".pq", ".parq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt")
DUCKDB = (".duckdb", ".ddb", ".db")
DELIMITERS = (",", "\t", ";", "|")
MAX_HEADER = 2**20  # characters
STORE = (".sulq",)


@dataclass(frozen=True)
class Source:
    """A place with rows. `kind` is parquet, csv, duckdb, store, arrow, postgres or spark."""

    kind: str
    name: str
    path: Path | None = None
    frame: Any = None  # an Arrow table, or rows that Spark found
    table: str | None = None
    facts: Mapping[str, Any] | None = None  # what a store says of itself
    url: str | None = field(default=None, repr=False)  # of a server; may hold a password

    @property
    def ledger(self) -> str:
        """The default ledger: beside a file, here for a server's table, in memory for frames."""
        if self.url is not None:
            return f"{self.name}.ledger"
        if self.path is None:
            return ":memory:"
        if self.facts is not None:  # a store goes on with the ledger of its rows
            return str(self.path.parent / self.facts["ledger"])
        return str(self.path.with_name(self.path.name + ".ledger"))


def looks_like_data(path: Path) -> bool:
    """Is it a file, or named like one that holds rows?"""
    endings = (*PARQUET, *CSV, *DUCKDB, *STORE)
    return path.is_file() or path.name.lower().endswith(endings)


def open_source(
    source: Any, table: str | None = None, name: str | None = None, engine: str | None = None
) -> Source:
    """Recognise what the owner gave."""
    if engine == "spark" or is_spark(source):
        return _spark(source, table, name)
    if isinstance(source, str | Path):
        return _path(source, table, name)
    return Source("arrow", name or "frame", frame=_frame(source))


def _path(source: str | Path, table: str | None, name: str | None) -> Source:
    text = str(source)
    if is_address(text):
        return Source("postgres", name or _last(table) or "table", table=table, url=text)
    if "://" in text:
        scheme = text.split("://", 1)[0]
        raise SchemaError(
            f"source: {scheme}:// addresses are not supported by this version. Give a "
            "postgresql:// address, a Parquet or CSV path, a DuckDB file, or a pandas, Polars or "
            "Arrow frame."
        )
    path = Path(source)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise SchemaError(f"source={text!r} {what}. Give a Parquet, CSV or DuckDB file.")
    lower = path.name.lower()
    for kind, endings in (
        ("parquet", PARQUET),
        ("csv", CSV),
        ("duckdb", DUCKDB),
        ("store", STORE),
    ):
        for ending in endings:
            if lower.endswith(ending):
                stem = path.name[: -len(ending)]
                facts = store_facts(path) if kind == "store" else None
                stem = facts["name"] if facts else stem
                return Source(kind, name or stem, path=path.resolve(), table=table, facts=facts)
    raise SchemaError(
        f"source={path.name!r}: the ending is not known. Parquet: {', '.join(PARQUET)}; CSV: "
        f"{', '.join(CSV)}; DuckDB: {', '.join(DUCKDB)}; encoded: {', '.join(STORE)}."
    )


def _spark(source: Any, table: str | None, name: str | None) -> Source:
    """Rows that Spark reads: files of this machine, a table, another place, or a frame."""
    if is_address(source):
        raise SchemaError("source: rows in PostgreSQL are read by engine='postgres'.")
    rows = find_rows(source, table)
    known = table or (str(source) if isinstance(source, str | Path) else None)
    place = rows.path or (Path(known) if known else None)
    last = _last(table) or (place.name if place else "frame")
    url = None if known is None or (rows.path and not table) else known
    return Source("spark", name or last.removesuffix(".parquet"), rows.path, rows, table, url=url)


def _last(table: str | None) -> str | None:
    """A table's own name, without its schema's."""
    return table.rpartition(".")[2] if table else None


def _opened(path: Path, mode: str, **how: str) -> Any:
    opener: Any = gzip.open if path.name.lower().endswith(".gz") else open
    return opener(path, mode, **how)


def _text_lines(path: Path) -> Any:
    return _opened(path, "rt", encoding="utf-8-sig", newline="")


def csv_header(path: Path) -> tuple[str, list[str]]:
    """The delimiter and the column names, from the first line alone: no row decides them."""
    try:
        with _opened(path, "rb") as lines:
            line = lines.readline(MAX_HEADER).split(b"\r")[0]
            first = line.decode("utf-8-sig").rstrip("\n")
    except (OSError, EOFError, UnicodeDecodeError):
        first = ""
    if not first.strip():
        raise SchemaError(
            f"source={path.name!r}: the first line must name the columns, in UTF-8 text."
        )
    delimiter = max(DELIMITERS, key=first.count)
    names: list[str] = []
    for i, name in enumerate(next(csv.reader([first], delimiter=delimiter))):
        name = name or f"column{i}"
        if name.lower() in {n.lower() for n in names}:
            raise SchemaError(f"source={path.name!r}: two columns are named {name!r}.")
        names.append(name)
    return delimiter, names


def check_quotes(path: Path) -> None:
    """Refuse a CSV with a quote left open: the rows after it would vanish into one value."""
    delimiter, _ = csv_header(path)
    with _text_lines(path) as lines:
        if not any('"' in part for part in iter(lambda: lines.read(2**20), "")):
            return
    csv.field_size_limit(2**31 - 1)
    with _text_lines(path) as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            for _ in reader:
                pass
        except csv.Error:
            raise SchemaError(
                f"source={path.name!r}, about line {reader.line_num:,}: a quote is not closed, or "
                "is followed by more than a delimiter. Double a quote inside a quoted value."
            ) from None


def store_facts(path: Path) -> Mapping[str, Any]:
    """The facts inside an encoded store."""
    from sulq.store import facts_of

    return facts_of(path)


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
        if source.dtype.kind == "b":
            source = source.astype(np.uint8)
        elif source.dtype.itemsize == 2 and source.dtype.kind == "f":
            source = source.astype(np.float32)
        source = source.astype(source.dtype.newbyteorder("="), copy=False)
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
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError):
        raise SchemaError(
            "source: two columns of the frame have one name, or a column mixes types. Give each "
            "column a name and a type of its own."
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
FLOATS = ("FLOAT", "DOUBLE")  # also whole numbers and Booleans of a pandas frame with gaps
UNTYPED = '"NULL"'  # a frame's column without any value
DATES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
         "TIMESTAMP WITH TIME ZONE")  # fmt: skip


def fits(declared: str, stored: str, text_values: bool = True) -> bool:
    """May a column of this declared type be stored so?"""
    plain = stored.split("(")[0]
    if plain == UNTYPED:
        return True
    if declared == "boolean":
        return plain == "BOOLEAN" or plain in WHOLE or plain in FLOATS
    if declared == "integer":
        return plain in WHOLE or plain in FLOATS
    if declared == "number":
        return plain in WHOLE or plain in FLOATS or plain == "DECIMAL"
    if declared == "date":
        return plain in DATES
    if declared == "category" and not text_values:
        return plain in WHOLE or plain in FLOATS
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
            whole = kind.split("(")[0] in (*WHOLE, *FLOATS)
            types[column.name] = "integer" if whole else "text"
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

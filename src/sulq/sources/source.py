"""Where rows come from: a path, a frame or an array, and what its metadata says.

Only names and types are looked at here. A column that does not fit its declaration is found
by its type, never by its values.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sulq.errors import MissingExtra, SchemaError, SourceChanged
from sulq.sources.frames import ArrayRows
from sulq.sources.lake_tables import check_plain
from sulq.sources.postgres import is_address
from sulq.sources.spark import find_rows, is_spark
from sulq.sources.text_files import is_sqlite, opened_file
from sulq.values.declarations import DELIMITERS
from sulq.values.schema import Column, Schema

PARQUET = (".parquet", ".pq", ".parq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt")
DUCKDB = (".duckdb", ".ddb", ".db")
JSON = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
SQLITE = (".sqlite", ".sqlite3")
EXCEL = (".xlsx", ".xlsm")
TEXTS = ("csv", "json", "sqlite", "excel")  # kinds whose values are read as texts
FILES = (*TEXTS, "parquet", "duckdb")  # kinds that DuckDB reads where they lie
WILD = "*?["
MAX_HEADER = 2**20  # characters
STORE = (".sulq",)
ENDINGS = {
    ending: kind
    for kind, endings in (
        ("parquet", PARQUET),
        ("csv", CSV),
        ("duckdb", DUCKDB),
        ("store", STORE),
        ("json", JSON),
        ("sqlite", SQLITE),
        ("excel", EXCEL),
    )
    for ending in endings
}
STORE_VERSION = 1


@dataclass(frozen=True)
class Source:
    """A place with rows. `kind` is that of a file (ENDINGS), or arrow, array, postgres, spark.

    Of several tables it is tables until a schema says how they belong together (star_source.py),
    and then star where they are files.
    """

    kind: str
    name: str
    path: Path | None = None  # a file, or a folder with files of one kind
    frame: Any = None  # an Arrow table, rows of an array, or rows that Spark found
    table: str | None = None
    facts: Mapping[str, Any] | None = None  # what a store says of itself
    url: str | None = field(default=None, repr=False)  # of a server; may hold a password
    pattern: str | None = None  # which files of a folder; None: all of them

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
    return path.is_file() or path.name.lower().endswith(tuple(ENDINGS))


def open_source(
    source: Any, table: str | None = None, name: str | None = None, engine: str | None = None
) -> Source:
    """Recognise what the owner gave."""
    if isinstance(source, Mapping):
        return Source("tables", name or "tables", frame=dict(source))
    if engine == "spark" or is_spark(source):
        return _spark(source, table, name)
    if isinstance(source, str | Path):
        return _path(source, table, name)
    if isinstance(source, ArrayRows):
        return Source("array", name or "array", frame=source)
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
    if path.is_dir() or (any(c in text for c in WILD) and not path.exists()):
        return _folder(path, name)
    if not path.is_file():
        raise SchemaError(
            f"source={text!r} does not exist. Give a file with rows, or a folder of Parquet files."
        )
    lower = path.name.lower()
    for ending, kind in ENDINGS.items():
        if lower.endswith(ending):
            kind = "sqlite" if kind == "duckdb" and is_sqlite(path) else kind
            if kind == "parquet":
                check_plain([path])
            facts = store_facts(path) if kind == "store" else None
            stem = facts["name"] if facts else path.name[: -len(ending)]
            return Source(kind, name or stem, path=path.resolve(), table=table, facts=facts)
    raise SchemaError(
        f"source={path.name!r}: the ending is not known. Parquet: {', '.join(PARQUET)}; CSV: "
        f"{', '.join(CSV)}; JSON lines: {', '.join(JSON)}; DuckDB: {', '.join(DUCKDB)}; SQLite: "
        f"{', '.join(SQLITE)}; Excel: {', '.join(EXCEL)}; encoded: {', '.join(STORE)}."
    )


def _folder(path: Path, name: str | None) -> Source:
    """A folder of Parquet files, those in folders of it too; or those that a pattern names."""
    parts = path.parts
    wild = next((i for i, part in enumerate(parts) if any(c in part for c in WILD)), len(parts))
    folder, pattern = Path(*parts[:wild]).resolve(), "/".join(parts[wild:]) or None
    found = Source("parquet", name or folder.name, path=folder, pattern=pattern)
    check_plain([folder])
    try:
        there = folder.is_dir() and bool(files_of(found))
        others = pattern is None and folder.is_dir() and any(map(looks_like_data, folder.iterdir()))
    except OSError:  # files come and go while it is looked through
        there = others = False
    if not there and others:  # one for each table of a schema
        return Source("tables", name or folder.name, path=folder)
    if not there:
        raise SchemaError(
            f"source={str(path)!r}: there is no Parquet file ({', '.join(PARQUET)}). A folder, or "
            "a pattern such as data/2024-*.parquet, is read as one table of Parquet files; or it "
            "has a file for each of the schema's [tables]."
        )
    check_plain(files_of(found))  # also of folders below
    return found


def files_of(source: Source) -> list[Path]:
    """The files with its rows, in a fixed order."""
    assert source.path is not None
    if source.kind == "star":
        return sorted(part.path for part in source.frame.values())
    if not source.path.is_dir():
        return [source.path]
    # What begins with _ or . is no data: _SUCCESS, ._part.parquet, .sulq/.
    found = (
        path for path in source.path.glob(source.pattern or "**/*")
        if path.name.lower().endswith(PARQUET) and path.is_file()
        and not any(p[0] in "_." for p in path.relative_to(source.path).parts)
    )  # fmt: skip
    return sorted(found)


def partitions_of(source: Source) -> list[str]:
    """The names that the folders of a partitioned table give: year of year=2024/part.parquet."""
    assert source.path is not None
    inside = [path.relative_to(source.path).parent.parts for path in files_of(source)]
    named = (part.partition("=") for parts in inside for part in parts)
    return list(dict.fromkeys(name for name, equals, _ in named if equals))


def store_facts(path: Path) -> dict[str, Any]:
    """What an encoded store says of itself: its schema, its ledger, the rows it was made from."""
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            found = connection.execute("SELECT facts FROM sulq").fetchone()
        facts: dict[str, Any] = json.loads(found[0]) if found else {}
    except (duckdb.Error, ValueError):
        raise SchemaError(f"{path.name!r} is not a store that `sulq encode` made.") from None
    if facts.get("version") != STORE_VERSION:
        raise SchemaError(
            f"{path.name!r} was made by another version of sulq. Make it again: sulq encode."
        )
    return facts


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


def lines_of(path: Path, errors: str = "strict") -> Any:
    """The lines of a text file."""
    return opened_file(path, "rt", encoding="utf-8-sig", newline="", errors=errors)


def csv_header(path: Path, delimiter: str | None = None) -> tuple[str, list[str]]:
    """The delimiter and the column names, from the first line alone: no row decides them."""
    try:
        with opened_file(path, "rb") as lines:
            line = lines.readline(MAX_HEADER).split(b"\r")[0]
            first = line.decode("utf-8-sig").rstrip("\n")
    except (OSError, EOFError, UnicodeDecodeError):
        first = ""
    if not first.strip():
        raise SchemaError(
            f"source={path.name!r}: the first line must name the columns, in UTF-8 text. For "
            "another encoding declare it: [file] with encoding = 'cp1252', say."
        )
    delimiter = delimiter or max(DELIMITERS, key=first.count)
    names: list[str] = []
    for i, name in enumerate(next(csv.reader([first], delimiter=delimiter))):
        name = name or f"column{i}"
        if name.lower() in {n.lower() for n in names}:
            raise SchemaError(f"source={path.name!r}: two columns are named {name!r}.")
        names.append(name)
    return delimiter, names


def check_quotes(path: Path, delimiter: str) -> None:
    """Refuse a CSV with a quote left open: the rows after it would vanish into one value."""
    with lines_of(path) as lines:
        if not any('"' in part for part in iter(lambda: lines.read(2**20), "")):
            return
    csv.field_size_limit(2**31 - 1)
    with lines_of(path) as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            for _ in reader:
                pass
        except csv.Error:
            raise SchemaError(
                f"source={path.name!r}, about line {reader.line_num:,}: a quote is not closed, or "
                "is followed by more than a delimiter. Double a quote inside a quoted value."
            ) from None


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
            return (source.collect() if hasattr(source, "collect") else source).to_arrow()
    except ImportError:
        raise MissingExtra(f"{module} frames need: pip install 'sulq[{module}]'") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError):
        raise SchemaError(_mixed(source)) from None
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    raise SchemaError(
        f"source: {type(source).__name__} is not known. Give a path, a pandas, Polars or Arrow "
        "frame, or a 2-D numpy array."
    )


def _mixed(frame: Any) -> str:
    """Which column of a pandas frame is none: the owner's own frame, so its name may be said."""
    import pyarrow as pa

    names = [str(name) for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"source: two columns of the frame are called {twice!r}. Rename one."
    for i, name in enumerate(names):
        try:
            pa.array(frame.iloc[:, i], from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError):
            return (
                f"source: column {name!r} of the frame mixes types. Give it one, for example "
                f"frame[{name!r}].astype('string')."
            )
    return "source: the frame cannot be read as a table. Give each column a name and a type."


def settled(source: Source) -> Source:
    """Refuse a database file with rows still in its write-ahead log, where no fingerprint sees."""
    logs = {"duckdb": ".wal", "store": ".wal", "sqlite": "-wal"}
    log = Path(f"{source.path}{logs[source.kind]}") if source.kind in logs else None
    if log is not None and log.exists() and (source.kind != "sqlite" or log.stat().st_size):
        raise SourceChanged(
            f"{source.name!r} has changes that are not in its file yet, in {log.name!r} beside it. "
            "Nothing was charged.\nRun CHECKPOINT in DuckDB (PRAGMA wal_checkpoint in SQLite), or "
            "close the program that writes to it, and open it again."
        )
    return source


# What a declared type is stored as, in DuckDB's words.
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER",
         "UBIGINT", "HUGEINT", "UHUGEINT")  # fmt: skip
FLOATS = ("FLOAT", "DOUBLE")  # also whole numbers and Booleans of a pandas frame with gaps
UNTYPED = '"NULL"'  # a frame's column without any value
STORED = {
    "boolean": ("BOOLEAN",),
    "integer": WHOLE,
    "number": (*FLOATS, "DECIMAL"),
    "date": ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
             "TIMESTAMP WITH TIME ZONE"),
    "timestamp": ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
                  "TIMESTAMP WITH TIME ZONE"),
    "text": ("VARCHAR", "ENUM"),
}  # fmt: skip
ALSO = {"boolean": (*WHOLE, *FLOATS), "integer": FLOATS, "number": WHOLE}


def kind_of(stored: str) -> str | None:
    """The declared type that fits best how a column is stored."""
    plain = stored.split("(")[0]
    return next((kind for kind, types in STORED.items() if plain in types), None)


def fits(column: Column, stored: str) -> bool:
    """May a column that is declared so be stored so?"""
    plain, kind = stored.split("(")[0], column.type
    if column.values is not None:
        kind = "text" if isinstance(column.values[0], str) else "integer"
    return plain == UNTYPED or plain in STORED[kind] or plain in ALSO.get(kind, ())


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
            if column.bounded and not whole:
                raise SchemaError(
                    f"column {column.name!r}: low and high apply to whole numbers, and the source "
                    'has texts. Declare type = "integer", or leave them out.'
                )
    bound = schema.with_types(types)
    for column in bound.columns:
        kind = stored[column.name]
        if not fits(column, kind):
            raise SchemaError(
                f"column {column.name!r} is declared {column.type}, but the source stores it as "
                f"{kind}. Change the declaration or convert the column in the source."
            )
    return bound

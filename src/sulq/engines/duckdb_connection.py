"""Connections to DuckDB that reach one source and nothing else, and whose words stop here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from sulq.engines.failures import ScanFailed, ScanStopped
from sulq.errors import SchemaError
from sulq.expressions.quoting import quote, text
from sulq.sources.parquet_bounds import memory_settings
from sulq.sources.source import Source

# A file's own minimum and maximum may lie, and leave NaN out: with them DuckDB would drop a clamp
# as needless, and even isnan(), so that one row could fail a scan or move a sum further than was
# paid for (DuckDB 2.0 on Parquet). And a moment is the same date on every machine.
SETTINGS = ("SET disabled_optimizers = 'statistics_propagation'", "SET TimeZone = 'UTC'")
LOCKS = (
    "SET enable_progress_bar = true",  # how far a scan is can be asked for,
    "SET enable_progress_bar_print = false",  # but it is ours to show
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def limited(spill: str) -> duckdb.DuckDBPyConnection:
    """A new connection that keeps to half the memory, or less, and spills nowhere but here."""
    connection = duckdb.connect(":memory:")
    for setting in SETTINGS:
        connection.execute(setting)
    connection.execute(f"SET temp_directory = {text(spill)}")
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    connection.execute(f"SET memory_limit = '{half}B'")
    for setting in memory_settings():
        connection.execute(setting)
    return connection


def check_view(source: Source, name: str) -> None:
    """Refuse a view of anything but its own file: already to describe it would read there."""
    with duckdb.connect(":memory:") as locked:
        locked.execute(f"ATTACH {text(str(source.path))} AS owner (READ_ONLY)")
        for lock in LOCKS:
            locked.execute(lock)
        locked.execute(f"DESCRIBE SELECT * FROM {name}")


def byte_by_byte(connection: duckdb.DuckDBPyConnection, place: str) -> str:
    """Every column of an owner's table, texts compared as they are stored.

    A collation such as NOCASE would make equal in one statement what is not in another, or in the
    kernel, so that a row could be counted in cells it is not charged in.
    """
    collated = connection.execute(
        "SELECT bool_or(sql ILIKE '%COLLATE%') FROM (SELECT sql FROM duckdb_tables() WHERE "
        "database_name = 'owner' UNION ALL SELECT sql FROM duckdb_views() WHERE database_name = "
        "'owner' AND NOT internal)"
    ).fetchone()
    if collated is None or not collated[0]:
        return "*"
    described = connection.execute(f"DESCRIBE SELECT * FROM {place}").fetchall()
    words = [quote(name) for name, kind, *_ in described if kind == "VARCHAR"]
    read = ", ".join(f"{name} COLLATE C AS {name}" for name in words)
    return f"* REPLACE ({read})" if words else "*"


def remove_spill(folder: str, process: int) -> None:
    """Remove the folder that this process spilled to; a forked child leaves its parent's."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def failures() -> Iterator[None]:
    """What DuckDB raises, alone or through Arrow, without its words: they may quote rows."""
    try:
        yield
    except (duckdb.Error, OSError, RuntimeError) as error:
        words = str(error)
        if type(error) is RuntimeError and words == "Query interrupted":  # Ctrl-C
            raise KeyboardInterrupt from None
        # DuckDB's own classes stand first; what it quotes of a row only after that. A full disk is
        # a failure like any other: how much a scan spills depends on rows.
        if words.startswith("INTERRUPT Error"):
            raise ScanStopped from None
        raise ScanFailed(error) from None


def unreadable(source: Source) -> SchemaError:
    """A source that DuckDB cannot open, as an error to raise."""
    return SchemaError(
        f"source={source.name!r} could not be opened as {source.kind}. Is the file complete, and "
        "of that format, its text UTF-8? A view may read its own file only, and no name may have "
        "*, ? or [."
    )

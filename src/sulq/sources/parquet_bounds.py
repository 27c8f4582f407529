"""Bounds on Parquet files that others send: what they unpack to, before and while it is read.

A file of a few kB may have 100 million rows, or pages that unpack to gigabytes. Its footer has the
numbers of rows and columns, and may lie about sizes, so an upload is also read once in little
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from sulq.errors import SchemaError
from sulq.expressions.quoting import quote
from sulq.sources.source import PARQUET, kind_of

ROOM_CELLS = 100_000_000  # rows x columns of any file,
CELLS_A_BYTE = 100  # and more of a larger one, for each of its bytes
ROOM_FOOTER_BYTES = 1_000_000
FOOTER_SHARE = 20  # a footer is this part of a file at most, beyond the room
MEMORY_BYTES = 2**29  # for one check, or to read an upload
THREADS = 2
LONGEST_VALUE_BYTES = 1_000_000
ROOM_TEXT_BYTES = 1_000_000_000  # of all texts in a file,
TEXT_BYTES_A_BYTE = 1_000  # and more of a larger one
AT_ONCE = 20  # columns in one scan
TAIL_BYTES = 8  # the length of the footer, and PAR1

_memory_bytes: ContextVar[int | None] = ContextVar("memory_bytes", default=None)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Let connections to DuckDB that are opened in here use MEMORY_BYTES at most."""
    before = _memory_bytes.set(MEMORY_BYTES)
    try:
        yield
    finally:
        _memory_bytes.reset(before)


def memory_settings() -> list[str]:
    """DuckDB's settings for a connection that is opened now, where memory is bounded."""
    most = _memory_bytes.get()
    if most is None:
        return []
    return [f"SET memory_limit = '{most}B'", f"SET threads = {THREADS}"]


def check_footer(path: Path) -> None:
    """Refuse a Parquet file of more cells than its size explains; no row is read."""
    if not path.name.lower().endswith(PARQUET):
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = path.stat().st_size
    _check_footer_size(path, size)
    try:
        with pq.ParquetFile(path) as file:
            rows, columns = file.metadata.num_rows, file.metadata.num_columns
    except (pa.ArrowException, OSError):
        raise _unreadable(path) from None
    most = max(ROOM_CELLS, CELLS_A_BYTE * size)
    if rows * columns > most:
        raise SchemaError(
            f"source={path.name!r} has {rows:,} rows of {columns:,} columns in {size:,} bytes, and "
            f"would unpack to far more than it seems. A server reads at most {most:,} values of a "
            f"file of this size: {ROOM_CELLS:,}, or {CELLS_A_BYTE} for each of its bytes. Nothing "
            "was made."
        )


def _check_footer_size(path: Path, size: int) -> None:
    with path.open("rb") as file:
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
    if len(tail) < TAIL_BYTES or tail[4:] != b"PAR1":
        raise _unreadable(path)
    footer, most = int.from_bytes(tail[:4], "little"), ROOM_FOOTER_BYTES + size // FOOTER_SHARE
    if footer > most:
        raise SchemaError(
            f"source={path.name!r}: its footer has {footer:,} bytes. A server reads at most "
            f"{most:,} of a file of this size. Write it with larger row groups. Nothing was made."
        )


def check_unpacked(path: Path) -> None:
    """Read a Parquet file once in bounded memory, or refuse it: its footer may lie."""
    if not path.name.lower().endswith(PARQUET):
        return
    import duckdb

    with duckdb.connect() as connection:
        # Else counts would come from the footer.
        connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        with bounded_memory():
            for setting in memory_settings():
                connection.execute(setting)
        rows = "read_parquet(?, hive_partitioning = false)"
        try:
            stored = connection.execute(f"DESCRIBE SELECT * FROM {rows}", [str(path)]).fetchall()
            # Lists and structures are read by no question.
            tests = [_cost(name, kind) for name, kind, *_ in stored if kind_of(kind) is not None]
            total = longest = 0
            for i in range(0, len(tests), AT_ONCE):
                listed = ", ".join(tests[i : i + AT_ONCE])
                found = connection.execute(f"SELECT {listed} FROM {rows}", [str(path)]).fetchone()
                texts = [cost for cost in found or () if isinstance(cost, list)]
                total += sum(int(text[0] or 0) for text in texts)
                longest = max([longest, *(int(text[1] or 0) for text in texts)])
        except duckdb.Error:  # its words may quote rows
            raise SchemaError(
                f"source={path.name!r} cannot be read within {MEMORY_BYTES:,} bytes of memory. "
                "Write it with pages of about 1 MB, as is usual, and texts in UTF-8. Nothing was "
                "made."
            ) from None
    _check_texts(path, total, longest)


def _cost(name: str, kind: str) -> str:
    """An expression that unpacks a column; of texts the bytes of all and of the longest."""
    if kind.split("(")[0] in ("VARCHAR", "ENUM"):
        length = f"strlen({quote(name)}::VARCHAR)"
        return f"[sum({length})::HUGEINT, max({length})::HUGEINT]"
    return f"bit_xor(hash({quote(name)}))"


def _check_texts(path: Path, total: int, longest: int) -> None:
    if longest > LONGEST_VALUE_BYTES:
        raise SchemaError(
            f"source={path.name!r} has a text of more than {LONGEST_VALUE_BYTES:,} bytes. Shorten "
            "it, or leave its column out. Nothing was made."
        )
    most = max(ROOM_TEXT_BYTES, TEXT_BYTES_A_BYTE * path.stat().st_size)
    if total > most:
        raise SchemaError(
            f"source={path.name!r}: its texts unpack to more than {most:,} bytes, the most "
            "of a file of this size. Nothing was made."
        )


def _unreadable(path: Path) -> SchemaError:
    return SchemaError(f"{path.name!r} cannot be read as parquet.")

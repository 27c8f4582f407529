"""The benchmark table: ten million rows in Parquet, made once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(".bench")
ROWS = 10_000_000

SCHEMA = {
    "columns": {
        "id": {"key": True},
        "age": {"type": "integer", "low": 0, "high": 120},
        "smoker": {"type": "boolean"},
        "income": {"type": "number", "low": 0, "high": 500_000},
        "region": {"values": ["north", "south", "east", "west"], "public": True},
    }
}


def people(rows: int = ROWS) -> Path:
    """A census-like table of this many rows."""
    path = FOLDER / f"people-{rows}.parquet"
    if path.exists():
        return path
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(7)
    schema = None
    writer = None
    partial = path.with_suffix(".partial")
    for start in range(0, rows, 1_000_000):
        n = min(1_000_000, rows - start)
        table = pa.table(
            {
                "id": np.arange(start, start + n),
                "age": rng.integers(0, 100, n).astype(np.int32),
                "smoker": rng.random(n) < 0.3,
                "income": rng.gamma(2.0, 20_000.0, n),
                "region": np.array(["north", "south", "east", "west"])[rng.integers(0, 4, n)],
            }
        )
        schema = schema or table.schema
        writer = writer or pq.ParquetWriter(partial, schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    partial.rename(path)
    return path


def two_columns(rows: int = 100_000_000) -> Path:
    """Only age and smoker, but ten times as many."""
    path = FOLDER / f"two-columns-{rows}.parquet"
    if path.exists():
        return path
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(8)
    partial = path.with_suffix(".partial")
    kinds = pa.schema([("age", pa.int32()), ("smoker", pa.bool_())])
    with pq.ParquetWriter(partial, kinds) as writer:
        for _ in range(0, rows, 2_000_000):
            ages = rng.integers(0, 100, 2_000_000).astype(np.int32)
            writer.write_table(pa.table([ages, rng.random(2_000_000) < 0.3], schema=kinds))
    partial.rename(path)
    return path

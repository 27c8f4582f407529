"""Synthetic rows as people take them away, marked as what they are wherever they go."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import sulq
from sulq.learn.cuts import Cut
from sulq.learn.synthetic_tables import Codes

NOTE = (
    "SYNTHETIC ROWS: drawn by SuLQ from noisy counts by pairs of columns. No row is a person's. "
    "What three or more columns have together was not measured."
)
MARK = b"sulq_synthetic"
DECLARED = b"sulq_schema"


@dataclass(frozen=True, slots=True)
class MarginalError:
    """How far a measured table of the synthetic rows may be from the true one."""

    columns: tuple[str, str]
    noise: float  # total variation between the noisy table and the true one, as noise is expected
    off: float  # total variation between the synthetic rows' table and the noisy one

    def __str__(self) -> str:
        a, b = self.columns
        return f"{a} by {b}: noise {self.noise:.2%}, rows from the noisy table {self.off:.2%}"


@dataclass(frozen=True, slots=True, repr=False)
class SyntheticRows:
    """Rows that are nobody's, with the columns and types of the table they are like.

    `errors` has, for each measured pair of columns, the total variation that noise is expected to
    have given its table, and that of these rows from the noisy table.
    """

    table: Any  # of Arrow, marked in its metadata
    errors: tuple[MarginalError, ...]
    note: str = NOTE

    @classmethod
    def of(
        cls, codes: Codes, cuts: Sequence[Cut], declared: Mapping[str, Any],
        errors: tuple[MarginalError, ...], rng: Any,
    ) -> SyntheticRows:  # fmt: skip
        """Values for codes; a number is drawn evenly within its bin."""
        import pyarrow as pa

        columns, fields = [], []
        for codes_of, cut in zip(codes.T, cuts, strict=True):
            column = _column(codes_of, cut, declared[cut.column], rng)
            columns.append(column)
            nullable = cut.other or declared[cut.column].get("nullable", True)
            fields.append(pa.field(cut.column, column.type, nullable))
        body = json.dumps({"columns": declared}, ensure_ascii=False)
        schema = pa.schema(fields, {MARK: NOTE.encode(), DECLARED: body.encode()})
        return cls(pa.Table.from_arrays(columns, schema=schema), errors)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        worst = max(self.errors, key=lambda e: e.noise + e.off)
        return (
            f"<{len(self):,} SYNTHETIC rows x {self.table.num_columns} columns; {len(self.errors)} "
            f"measured tables, worst: {worst}>"
        )

    def summary(self) -> str:
        """What these rows are, and the error of every measured table."""
        return "\n".join([self.note, "Total variation of each measured table:",
                          *(f"  {e}" for e in self.errors)])  # fmt: skip

    def to_arrow(self) -> Any:
        """As an Arrow table, whose metadata says that it is synthetic."""
        return self.table

    def to_pandas(self) -> Any:
        """As a pandas frame; frame.attrs["note"] says that it is synthetic."""
        try:
            frame = self.table.to_pandas()
        except ImportError:
            raise sulq.MissingExtra("pandas frames need: pip install 'sulq[pandas]'") from None
        frame.attrs["note"] = self.note
        return frame

    def to_polars(self) -> Any:
        """As a Polars frame. Polars keeps no notes: keep this one beside it."""
        try:
            import polars as pl
        except ImportError:
            raise sulq.MissingExtra("polars frames need: pip install 'sulq[polars]'") from None
        return pl.from_arrow(self.table)

    def to_parquet(self, path: str | Path | BinaryIO) -> None:
        """Write a Parquet file; its metadata says that it is synthetic, and has the schema."""
        import pyarrow.parquet as pq

        try:
            pq.write_table(self.table, path)
        except OSError as error:
            said = error.strerror or "it is no file"
            raise sulq.Refused(f"path={str(path)!r} cannot be written: {said}.") from None


def _column(codes: Codes, cut: Cut, declared: Mapping[str, Any], rng: Any) -> Any:
    """The values of one column; the last code of a cut with `other` is a missing value."""
    import pyarrow as pa

    size = cut.size - cut.other
    missing = codes >= size
    known = np.where(missing, 0, codes)
    if cut.edges:
        return pa.array(_within(known, cut.edges, declared, rng), mask=missing)
    values = pa.array([*cut.values])
    return values.take(pa.array(known, mask=missing))


def _within(codes: Codes, edges: Sequence[float], declared: Mapping[str, Any], rng: Any) -> Any:
    """A number drawn evenly within each bin, which leaves the declared range nowhere."""
    low = np.maximum(np.array(edges[:-1], dtype=np.float64), declared["low"])
    high = np.minimum(np.array(edges[1:], dtype=np.float64), declared["high"])
    u = rng.random(len(codes))
    if declared["type"] != "integer":
        return low[codes] + u * np.maximum(high - low, 0.0)[codes]
    first = np.ceil(low)
    # A bin ends before the next one's edge, but the last one is closed.
    last = np.where(np.arange(len(high)) < len(high) - 1, np.ceil(high) - 1, math.floor(high[-1]))
    wide = np.maximum(last - first, 0.0)[codes] + 1
    return (first[codes] + np.floor(u * wide)).astype(np.int64)

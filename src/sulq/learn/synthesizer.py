"""Synthetic rows: nobody's, made to have the noisy counts by every pair of columns.

One question asks for the tables of all pairs (db.marginals). A tree of the strongest pairs draws
rows, and these move until every measured pair fits. All of it is made from what was paid for:
drawing spends nothing, and its randomness may have a seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import sulq
from sulq.learn.base import BOUNDS, Learner
from sulq.learn.cuts import OTHER, Cut, usable
from sulq.learn.model_pictures import Drawn
from sulq.learn.parameters import About, checked_whole, parameter
from sulq.learn.synthetic_tables import (
    Codes,
    Tables,
    dependence,
    drawn,
    off,
    settled,
    spanning_tree,
)
from sulq.learn.task import NOBODY, Task, declared

MAX_ROWS = 100_000_000
MAX_SETTLED = 100_000  # rows that are moved; more are these again, with numbers of their own
REACH = 1.96  # standard deviations of a 95% interval
Measured = Mapping[tuple[str, ...], Any]  # tables by their two columns


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesizer(Drawn, Learner):
    """Rows that are nobody's, from the noisy counts by every pair of columns.

    `fit` asks for all pairs together, as db.marginals(columns, 2) does; with
    `marginals`, what db.marginals gave before, it asks nothing. Columns are Boolean, have listed
    values, or are numbers, which fall into their declared bins. A missing value is a value like
    any other: no row is left out.

    `sample(rows)` draws. pairs_ names the measured pairs, tables_ and stds_ hold their noisy counts
    and the standard deviation of each, tree_ the pairs that rows are drawn from at first.
    """

    about = About(
        "synthesizer", "Synthetic rows with the counts by every pair of columns.",
        "--columns age,region,smoker --out rows.json", "Synthetic rows", "", True,
    )  # fmt: skip

    _usable = staticmethod(usable)

    random_state: int = parameter(0, "Seeds the drawing of rows, not noise.")
    marginals: Any = parameter(None, "What db.marginals(columns, 2) gave; then nothing is asked.")
    bounds: Any = parameter(None, BOUNDS)

    def _question(self, task: Task) -> sulq.Marginals:
        for name in task.columns:
            if not usable(declared(task.db.schema, name)):
                raise sulq.QueryNotAllowed(
                    f"columns: {name!r} is neither Boolean, nor a column with listed values, nor a "
                    "number with declared low and high."
                )
        if len(task.columns) < 2:
            raise sulq.QueryNotAllowed(f"columns={list(task.columns)!r}: want two or more.")
        return sulq.Marginals(task.columns, 2, budget=task.budget)

    def _price(self, task: Task) -> sulq.Price:
        if self.marginals is not None:
            return sulq.Price(0)
        return task.db.price(self._question(task))

    def _fit(self, task: Task) -> None:
        if self.marginals is not None:
            tables: Measured = self._given(task)
        else:
            asked = self._question(task)
            task.check(task.db.price(asked))
            tables = task.db.marginals(task.columns, 2, budget=task.budget)
        self._use(task)
        self._learn(task.db, tables)
        self._leave_out(NOBODY)

    def _given(self, task: Task) -> Measured:
        """The tables of the constructor, if they are of these columns."""
        held = self.marginals
        pairs = isinstance(held, Mapping) and all(
            isinstance(k, tuple) and len(k) == 2 and hasattr(t, "numbers") for k, t in held.items()
        )
        if not pairs or {c for k in held for c in k} != set(task.columns):
            raise sulq.Refused(
                "marginals: want what db.marginals(columns, 2) gave, of the same columns: "
                f"{', '.join(task.columns)}."
            )
        return dict(held)

    def _learn(self, db: sulq.Queryable, tables: Measured) -> None:
        """Everything after the question: no more data is touched."""
        cuts = [cut_of(db, name, tables) for name in self.columns_]
        self.cuts_ = tuple((c.column, c.values, c.edges, c.other) for c in cuts)
        kept = [db.schema[name] for name in self.columns_]
        self.schema_ = json.dumps({c.name: c.to_json() for c in kept}, ensure_ascii=False)
        size = {c.column: c.size for c in cuts}
        heard = {}
        for (a, b), table in tables.items():
            counts = np.array(table["count"]).reshape(size[a], size[b])
            reach = float(np.max(np.array(table["count_high"]) - np.array(table["count"])))
            i, j = self.columns_.index(a), self.columns_.index(b)
            heard[min(i, j), max(i, j)] = counts if i < j else counts.T, reach / REACH
        self.pairs_ = tuple((self.columns_[i], self.columns_[j]) for i, j in sorted(heard))
        self.tables_ = tuple(heard[pair][0] for pair in sorted(heard))
        self.stds_ = np.array([heard[pair][1] for pair in sorted(heard)])
        self.rows_ = max(float(np.median([t.sum() for t in self.tables_])), 1.0)
        self.__dict__.pop("_tables", None)  # of a fit before
        self.tree_ = tuple(
            (self.columns_[a], self.columns_[b])
            for a, b in spanning_tree(dependence(self._tables))
            if a != b
        )

    # --- drawing ------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> Tables:
        """The noisy tables as the drawing takes them."""
        places = {name: i for i, name in enumerate(self.columns_)}
        keys = [(places[a], places[b]) for a, b in self.pairs_]
        counts = dict(zip(keys, self.tables_, strict=True))
        stds = dict(zip(keys, map(float, self.stds_), strict=True))
        return Tables.of([Cut(*c).size for c in self.cuts_], counts, stds, self.rows_)

    def sample(self, rows: int | None = None, random_state: int | None = None) -> SyntheticRows:
        """So many synthetic rows; by default as many as the table has. Nothing is spent.

        The same random_state, by default the constructor's, draws the same rows.
        """
        self._check_fitted()
        count = round(self.rows_) if rows is None else rows
        checked_whole("rows", count, 1, MAX_ROWS)
        rng = np.random.default_rng(self.random_state if random_state is None else random_state)
        tables = self._tables
        edges = spanning_tree(dependence(tables))
        times = math.ceil(count / MAX_SETTLED)
        codes = settled(tables, drawn(tables, edges, math.ceil(count / times), rng), rng)
        codes = rng.permutation(np.tile(codes, (times, 1))[:count])
        named = zip(self.pairs_, tables.pairs, off(tables, codes), strict=True)
        errors = [MarginalError(pair, tables.noise(i, j), apart) for pair, (i, j), apart in named]
        cuts = [Cut(*c) for c in self.cuts_]
        return SyntheticRows.of(codes, cuts, json.loads(self.schema_), tuple(errors), rng)

    @property
    def dependence_(self) -> Any:
        """How far each pair is from independent, in total variation, less what noise gives."""
        self._check_fitted()
        return np.maximum(dependence(self._tables), 0.0)

    def _words(self) -> str:
        tables = self._tables
        found = zip(self.pairs_, tables.pairs, strict=True)
        worst = sorted(((tables.noise(i, j), pair) for pair, (i, j) in found), reverse=True)
        lines = [
            f"Tables of {len(self.pairs_)} pairs of {len(self.columns_)} columns, "
            f"{self.rows_:,.0f} rows. Rows drawn from them are synthetic: nobody's.",
            "Drawn from: " + ", ".join(f"{a} - {b}" for a, b in self.tree_) + "; then all pairs.",
            "Total variation of a table that noise alone gives, the largest:",
        ]
        lines += [f"  {a} by {b}: {noise:.2%}" for noise, (a, b) in worst[:5]]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The model as plain JSON; tables that it was given are in what it learned."""
        held, self.marginals = self.marginals, None
        try:
            return super().to_json()
        finally:
            self.marginals = held


def cut_of(db: sulq.Queryable, name: str, tables: Measured) -> Cut:
    """How the tables cut a column: by its values, its declared bins, or those of a histogram."""
    column = declared(db.schema, name)
    shown = next(list(dict.fromkeys(t[name])) for key, t in tables.items() if name in key)
    other, by = OTHER in shown, db.histogram_axis(name, None)
    edges = by.edges if isinstance(by, sulq.Bins) else column.bins
    if column.listed is not None:
        cut = Cut(name, tuple(column.listed), (), other)
    elif edges is not None:
        cut = Cut(name, (), tuple(edges), other)
    else:  # whole numbers, each a value
        whole = range(math.ceil(column.low), math.floor(column.high) + 1)
        cut = Cut(name, tuple(whole), (), other)
    if cut.size != len(shown):
        raise sulq.Refused(f"marginals: {name!r} is not cut as the schema declares it.")
    return cut


# ---- synthetic rows as people take them away, marked as such --------------------------------

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

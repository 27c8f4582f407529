"""The numpy kernel inside Spark's executors: Arrow batches in, integer partial sums out.

This file runs on the workers, which need sulq and numpy, and nothing of Spark's here. A task
gives its sums when it has seen all of its rows. One that is lost is run again and counts once:
what it gives is a result like any other, never an accumulator that could be added to twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from sulq.kernel.batch import Batch
from sulq.kernel.sums import batch_rows, batches_of, gather, member_cells
from sulq.questions.check import CheckedQuery
from sulq.values.schema import Schema

SUMS = "query INT, cell INT, place INT, total DECIMAL(38, 0)"
VERSION = "version STRING"


@dataclass(frozen=True)
class Partials:
    """What one task does: the sums of all queries over its rows, one line for each but 0."""

    queries: tuple[CheckedQuery, ...]
    names: tuple[str, ...]  # of the columns sent, in order
    schema: Schema

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Arrow batches of rows -> one Arrow batch of partial sums."""
        import pyarrow as pa

        step = batch_rows(self.queries, self.schema)  # few enough that float sums stay exact
        gathered = gather(self.queries, batches_of(batches, self.names, step, self.schema))
        found = [(i, c, j, x) for i, m in enumerate(gathered) for (c, j), x in m.sums().items()]
        *at, sums = zip(*found, strict=True) if found else ((), (), (), ())
        columns = [pa.array(x, pa.int32()) for x in at]
        totals = pa.array([Decimal(int(x)) for x in sums], pa.decimal128(38, 0))
        yield pa.RecordBatch.from_arrays(
            [*columns, totals], names=["query", "cell", "place", "total"]
        )


@dataclass(frozen=True)
class Members:
    """What one task does for people: who is in which cell. Only Spark's own count leaves."""

    query: CheckedQuery
    names: tuple[str, ...]  # of the columns sent before the person's
    schema: Schema

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Arrow batches of rows -> the cell of each that counts, and whose it is."""
        import pyarrow as pa

        for given in batches:
            columns = {n: given.column(i) for i, n in enumerate(self.names)}
            batch = Batch(columns, given.num_rows, self.schema)
            member, cells = member_cells(self.query, batch)
            kept = pa.array(np.flatnonzero(member))
            person = given.column(len(self.names)).take(kept)
            yield pa.RecordBatch.from_arrays(
                [pa.array(cells, pa.int32()).take(kept), person], names=["cell", "person"]
            )


def version_here(batches: Iterator[Any]) -> Iterator[Any]:
    """Which sulq a worker has."""
    import pyarrow as pa

    from sulq import __version__

    for _ in batches:
        yield pa.RecordBatch.from_arrays([pa.array([__version__])], names=["version"])


def runs_programs_here(batches: Iterator[Any]) -> Iterator[Any]:
    """Whether a worker has what runs programs."""
    from importlib.util import find_spec

    import pyarrow as pa

    for _ in batches:
        said = "yes" if find_spec("wasmtime") else "no"
        yield pa.RecordBatch.from_arrays([pa.array([said])], names=["version"])


def laid_out(queries: Sequence[CheckedQuery], lines: Any) -> list[list[list[int]]]:
    """Sums by query, cell and place as matrices; what no line names is 0."""
    out = [[[0] * q.shape[1] for _ in range(q.shape[0])] for q in queries]
    for query, cell, place, total in lines:
        out[query][cell][place] += int(total)
    return out

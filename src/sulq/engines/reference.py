"""The numpy engine: the definition of what is right, one table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sulq.check import CheckedQuery
from sulq.engines.base import Matrix, check_public
from sulq.kernel import Batch, add_batch, batch_rows
from sulq.kernel import Matrix as Gathered
from sulq.schema import Schema


class ReferenceEngine:
    """Sums over an Arrow table with nothing but the kernel."""

    def __init__(self, table: pa.Table, schema: Schema) -> None:
        self.table = table
        self.schema = schema
        self.rows = table.num_rows

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query."""
        gathered = [Gathered(q.shape) for q in queries]
        step = batch_rows(queries, self.schema)
        for start in range(0, self.rows, step):
            part = self.table.slice(start, step)
            columns = {name: part.column(name) for name in part.column_names}
            batch = Batch(columns, part.num_rows, self.schema)
            for query, matrix in zip(queries, gathered, strict=True):
                add_batch(query, batch, matrix)
        return [m.rows() for m in gathered]

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it."""
        check_public(names, self.schema)
        found = self.table.select(list(names)).group_by(list(names))
        return found.aggregate([([], "count_all")])

    def close(self) -> None:
        """Nothing is held."""

"""The numpy engine: the definition of what is right, one table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sulq.engines.base import Matrix, check_public
from sulq.engines.text_values_found import apart
from sulq.kernel.sums import batch_rows, batches_of, gather
from sulq.questions.check import CheckedQuery
from sulq.values.schema import Schema


class ReferenceEngine:
    """Sums over an Arrow table with nothing but the kernel."""

    title = "numpy"

    def __init__(self, table: pa.Table, schema: Schema) -> None:
        self.table = table
        self.schema = schema
        self.rows = table.num_rows

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query."""
        return apart(queries, self._sums, lambda query, _: self._sums([query])[0])

    def _sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        step = batch_rows(queries, self.schema)
        parts = batches_of([self.table], self.table.column_names, step, self.schema)
        return [m.rows() for m in gather(queries, parts)]

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it."""
        check_public(names, self.schema)
        found = self.table.select(list(names)).group_by(list(names))
        return found.aggregate([([], "count_all")])

    def hold(self, wanted: bool | None = None) -> bool:
        """They are read where they are."""
        return False

    def beside(self) -> ReferenceEngine:
        """Itself: its scans hold no lock."""
        return self

    def probe(self) -> None:
        """It is always there."""

    def interrupt(self) -> None:
        """It runs to its end."""

    def close(self) -> None:
        """Nothing is held."""

"""An array in memory: the kernel reads its rows where they lie.

What SQL answers faster, such as histograms of many columns, is asked of a table made of the same
rows, once something wants it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sulq.engines.base import Engine, EngineInMemory, Matrix
from sulq.engines.duckdb import DuckDBEngine
from sulq.engines.select import needs_kernel
from sulq.kernel.batch import ArrayBatch
from sulq.kernel.sums import batch_rows, gather
from sulq.questions.check import CheckedQuery
from sulq.sources.frames import ArrayRows
from sulq.sources.source import Source, bind
from sulq.values.schema import Schema

PART = 2  # of a usual batch: its coordinates stay in a cache


class ArrayEngine(EngineInMemory):
    """Exact integer sums over an array and the columns beside it."""

    title = "numpy"

    def __init__(self, source: Source, schema: Schema) -> None:
        found: ArrayRows = source.frame
        self._source, self._found = source, found
        self._table: Engine | None = None
        self.schema = bind(schema, found.stored)
        self.rows = len(found.array)

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query, in one scan."""
        if not all(map(needs_kernel, queries)):
            return self._as_table().sums(queries)
        batches = self._batches(max(batch_rows(queries, self.schema) // PART, 1))
        return [m.rows() for m in gather(queries, batches)]

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it."""
        return self._as_table().groups(names)

    def _batches(self, rows: int) -> Iterator[ArrayBatch]:
        for i in range(0, self.rows, rows):
            beside = {name: c.slice(i, rows) for name, c in self._found.beside.items()}
            part = self._found.array[i : i + rows]
            yield ArrayBatch(part, self._found.names, beside, self.schema)

    def _as_table(self) -> Engine:
        if self._table is None:
            source = replace(self._source, kind="arrow", frame=self._found.table())
            self._table = DuckDBEngine(source, self.schema)
        return self._table

    def beside(self) -> ArrayEngine:
        """Another reader of the same array, with a table of its own."""
        return ArrayEngine(self._source, self.schema)

    def interrupt(self) -> None:
        """Stop a scan of the table; the kernel's runs to its end."""
        if self._table is not None:
            self._table.interrupt()

    def close(self) -> None:
        """Let go of the table, if there is one."""
        if self._table is not None:
            self._table.close()

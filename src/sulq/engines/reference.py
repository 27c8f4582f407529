"""The numpy engine: the definition of what is right, one table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sulq.engines.base import EngineInMemory, Matrix, check_public
from sulq.engines.people_rows import each_of_its_rows
from sulq.engines.text_values_found import apart
from sulq.kernel.people_table import people_table
from sulq.kernel.sums import batch_rows, batches_of, gather
from sulq.questions.check import CheckedQuery
from sulq.questions.people_view import PeopleRows
from sulq.values.schema import Schema


class ReferenceEngine(EngineInMemory):
    """Sums over an Arrow table with nothing but the kernel."""

    title = "numpy"

    def __init__(self, table: pa.Table, schema: Schema, every: pa.Table | None = None) -> None:
        self.table = table
        self._every = table if every is None else every  # also the rows beyond max_rows
        self.schema = schema
        self.rows = table.num_rows

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query."""
        return each_of_its_rows(queries, self._sums, self._of_people)

    def _of_people(self, people: PeopleRows, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The sums of queries about rows of which each person has one."""
        return ReferenceEngine(people_table(people, self._every), people.schema).sums(
            [replace(q, people=None) for q in queries]
        )

    def _sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The sums of queries about these rows; discoveries apart."""
        return apart(queries, self._of_rows, lambda query, _: self._of_rows([query])[0])

    def _of_rows(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The sums of queries about these rows."""
        step = batch_rows(queries, self.schema)
        parts = batches_of([self.table], self.table.column_names, step, self.schema)
        return [m.rows() for m in gather(queries, parts)]

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it."""
        return self._counted(self.table, names)

    def every_group(self, names: Sequence[str]) -> Any:
        """`groups` of all rows, also those that do not count."""
        return self._counted(self._every, names)

    def _counted(self, table: pa.Table, names: Sequence[str]) -> Any:
        check_public(names, self.schema)
        found = table.select(list(names)).group_by(list(names))
        return found.aggregate([([], "count_all")])

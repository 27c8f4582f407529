"""Few rows that stand for many: the engine of a rehearsal of a large table."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sulq.engines.base import Engine, Matrix
from sulq.questions.check import CheckedQuery
from sulq.questions.discovery import Discovery


class Enlarged(Engine):
    """An engine whose few rows stand for many: every sum and every count is multiplied."""

    def __init__(self, few: Engine, rows: int) -> None:
        self._few = few
        self._share = Fraction(rows, max(few.rows, 1))
        self.schema = few.schema
        self.rows = rows
        self.title = few.title
        self.table_name = few.table_name

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The sums of the few rows, brought to the size of the many."""
        found = zip(queries, self._few.sums(queries), strict=True)
        return [[self._enlarged(q, row) for row in matrix] for q, matrix in found]

    def _enlarged(self, query: CheckedQuery, row: list[Any]) -> list[Any]:
        if isinstance(query.measurement, Discovery):
            value, count = row
            return [value, round(count * self._share)]
        return [round(x * self._share) for x in row]

    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, with the counts of the many."""
        return self._counted(self._few.groups(names))

    def every_group(self, names: Sequence[str]) -> Any:
        """`groups` of all rows, also those that do not count."""
        return self._counted(self._few.every_group(names))

    def _counted(self, found: Any) -> Any:
        last = found.num_columns - 1
        counts = [round(n * self._share) for n in found.column(last).to_pylist()]
        return found.set_column(last, found.column_names[last], [counts])

    def contents_by(self, name: str) -> dict[Any, str]:
        """The contents of the few."""
        return self._few.contents_by(name)

    def read_through(self) -> tuple[str, ...]:
        """Read the few."""
        return self._few.read_through()

    def beside(self) -> Enlarged:
        """The same few rows beside."""
        return Enlarged(self._few.beside(), self.rows)

    def hold(self, wanted: bool | None = None) -> bool:
        """Keep the few rows in memory."""
        return self._few.hold(wanted)

    def probe(self) -> None:
        """Raise unless the few are there."""
        self._few.probe()

    def interrupt(self) -> None:
        """Stop the scan of the few."""
        self._few.interrupt()

    def close(self) -> None:
        """Let go of the few."""
        self._few.close()

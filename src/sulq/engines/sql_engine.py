"""What engines that speak SQL have in common: which statement answers what, and what is public."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from sulq.engines.base import EngineInMemory, Matrix, check_public
from sulq.engines.cubes import Cubes, spare
from sulq.engines.failures import ScanStopped, without_words
from sulq.engines.people_rows import each_of_its_rows
from sulq.engines.select import BatchSelect, Row, needs_kernel
from sulq.engines.text_values_found import Found, apart, statement
from sulq.engines.writer import TooLong, Writer
from sulq.errors import SchemaError
from sulq.expressions.quoting import text
from sulq.questions.check import CheckedQuery
from sulq.questions.discovery import Discovery
from sulq.questions.people_view import PeopleRows
from sulq.values.per_person import MAX_FEATURES
from sulq.values.star import TABLE, Star

Way = Callable[[Sequence[CheckedQuery]], list[Matrix]]


class SqlEngine(EngineInMemory):
    """Sums by cubes and statements where SQL says them exactly, and by the kernel elsewhere."""

    _writer: Writer
    _source: str  # the rows that count, behind FROM
    _cubes: Cubes
    features_at_once = MAX_FEATURES  # of people, in one scan

    def _scanning(self) -> AbstractContextManager[None]:
        """One scan at a time; the system's own words may quote rows, so they stop here."""
        raise NotImplementedError

    def _ask(self, sql: str) -> list[Row]:
        """The rows of one SELECT."""
        raise NotImplementedError

    def _table(self, sql: str) -> Any:
        """The same as an Arrow table."""
        raise NotImplementedError

    def _by_kernel(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The sums of queries that no statement says exactly, or none that is short enough."""
        raise NotImplementedError

    @without_words
    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query, over one state of the rows."""
        with self._scanning():
            return each_of_its_rows(queries, self._sums, self._of_people, self.features_at_once)

    def _sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The sums of queries about these rows, within a scan; discoveries apart."""
        return apart(queries, self._of_rows, self._discovered)

    def _of_rows(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        aside = [needs_kernel(q) for q in queries]
        ways = (
            way([q for q, kernel in zip(queries, aside, strict=True) if kernel == by_kernel])
            for by_kernel, way in ((False, self._by_sql), (True, self._by_kernel))
        )
        found = [iter(matrices) for matrices in ways]
        return [next(found[kernel]) for kernel in aside]

    def _discovered(self, query: CheckedQuery, sought: Discovery) -> Found:
        """Values and how many rows have them."""
        sql = statement(self._writer, query, sought, self._source)
        if sql is not None:
            return [(row[0], row[1]) for row in self._ask(sql)]
        return [(value, count) for value, count in self._by_kernel([query])[0]]

    def _of_people(self, people: PeopleRows, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The sums of queries about rows of which each person has one, within a scan."""
        try:
            return self._with_people(people)._sums(queries)
        except TooLong:  # the question alone decides it
            raise ScanStopped from None

    def _with_people(self, people: PeopleRows) -> SqlEngine:
        """The same engine over rows of which each person has one."""
        raise NotImplementedError

    @without_words
    def probe(self) -> None:
        """A fixed public scan: succeeds if the engine and its rows are there."""
        with self._scanning():
            self._ask(f"SELECT count(*) FROM {self._source}")

    @without_words
    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it: an Arrow table.

        Public like n, so no one pays for it.
        """
        check_public(names, self.schema)
        with self._scanning():
            found = self._cubes.combinations(names)
        return found.rename_columns([*names, spare("rows", names)])

    def _by_sql(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """From a cube, or by one statement; by several where one would be too long."""
        if not queries:
            return []
        found = self._cubes.sums(queries)
        return self._partly_by_cubes(queries, self._by_statements) if found is None else found

    def _partly_by_cubes(self, queries: Sequence[CheckedQuery], others: Way) -> list[Matrix]:
        """Some from cubes of their own rows, the others in another way."""
        apart = self._cubes.apart(queries)
        rest = iter(others([q for i, q in enumerate(queries) if i not in apart]))
        return [apart[i] if i in apart else next(rest) for i in range(len(queries))]

    def _by_statements(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        if not queries:
            return []
        with suppress(TooLong):
            return self._by_statement(queries)
        if len(queries) == 1:
            return self._by_kernel(queries)
        half = len(queries) // 2
        return self._by_statements(queries[:half]) + self._by_statements(queries[half:])

    def _by_statement(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        statement = BatchSelect(self._writer, queries, self._source)
        return statement.matrices(self._ask(statement.sql))

    def _ranked_by(self, stored: Mapping[str, str]) -> tuple[str, str]:
        """By what rows are parted that few of count: the person, and the table; and how many."""
        unit, star = self.schema.unit, self.schema.star
        assert unit is not None
        if star is None:
            return stored[unit.column], str(unit.max_rows)
        return f"{stored[unit.column]}, {stored[TABLE]}", most_of_each(star, stored[TABLE])

    def _first_of_each(
        self, table: str, columns: Mapping[str, str], stored: Mapping[str, str]
    ) -> str:
        """A SELECT of at most max_rows rows of each person: the first by key.

        Which ones does not depend on values, and who owns which rows is public.
        """
        unit, key = self.schema.unit, self.schema.key
        if unit is not None and unit.max_periods is not None:
            raise SchemaError(
                "unit: max_periods is for files and frames that DuckDB reads, not for tables "
                "elsewhere."
            )
        if unit is None or key is None or key.name == unit.column:
            raise SchemaError(
                "unit: which rows of a person count is fixed by a key, and a table's rows have "
                "no other order. Declare one with key = true."
            )
        order = stored[key.name]
        if self.schema.star is not None:
            if self._ask(repeated_keys(table, stored[TABLE], order))[0][0]:
                raise several_with_one_key()
        elif self._ask(f"SELECT count(*) > count(DISTINCT {order}) FROM {table}")[0][0]:
            raise SchemaError(
                f"unit: the key {key.name!r} is missing or repeated in some rows, so it does not "
                "say which rows of a person count. Give every row its own."
            )
        by, most = self._ranked_by(stored)
        chosen, place = ", ".join(columns.values()), spare("place", list(columns))
        rank = f"row_number() OVER (PARTITION BY {by} ORDER BY {order}) AS {place}"
        return (
            f"SELECT {chosen} FROM (SELECT {chosen}, {rank} FROM {table}) AS ranked "
            f"WHERE {place} <= {most}"
        )


def most_of_each(star: Star, column: str) -> str:
    """How many rows of a person count, by the table that a row is of."""
    cases = " ".join(f"WHEN {text(t.name)} THEN {t.most}" for t in star.tables)
    return f"CASE {column} {cases} ELSE 0 END"


def repeated_keys(source: str, table: str, key: str) -> str:
    """A SELECT: how many keys of one of the tables are missing or repeated?"""
    again = f"GROUP BY {table}, {key} HAVING count(*) > 1 OR count({key}) = 0"
    return f"SELECT count(*) FROM (SELECT 1 AS one FROM {source} {again}) AS again"


def several_with_one_key() -> SchemaError:
    """Keys that repeat in one of several tables, as an error to raise."""
    return SchemaError(
        "tables: a key is missing or repeated. Every person has one row in the table of people, "
        "with a name, and every event a key of its own; with two rows for a person their events "
        "would count twice."
    )

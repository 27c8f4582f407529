"""Cubes: the distinct combinations of few-valued columns, and how many rows have each.

A hundred counts over the same few columns cost about one group-by. The kernel answers them from
the cube as if each combination were a row that counts several times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sulq.engines.base import Matrix
from sulq.engines.select import in_kernel, private
from sulq.engines.writer import TooLong, Writer
from sulq.expressions.columns import Array, in_numpy
from sulq.kernel.batch import Batch
from sulq.kernel.sums import gather, needed_columns
from sulq.questions.check import CheckedQuery
from sulq.questions.contributions import Dense
from sulq.values.schema import Column

MAX_CELLS = 2**16  # a group-by this small is cheaper than many sums
KEPT_CELLS = 2**20  # of all cubes kept together


@dataclass(frozen=True, slots=True)
class Counted:
    """Which rows a cube counts, in SQL; '' is every row.

    A private predicate is part of the count, not a filter: rows that a filter skips take less time.
    """

    public: str = ""
    private: str = ""


EVERY = Counted()
Key = tuple[tuple[str, ...], Counted]


class Cubes:
    """Group-bys kept while the rows stay as they are."""

    def __init__(self, writer: Writer, source: str, table: Callable[[str], Any]) -> None:
        self._writer = writer
        self._schema = writer.schema
        self._source = source
        self._table = table  # the rows of a SELECT, in Arrow
        self._kept: dict[Key, tuple[Batch, Array]] = {}

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix] | None:
        """The sums of queries that a cube can answer; None if another way is better."""
        names = self._columns(queries)
        if names is None or self._larger(names) is None:
            found = self._of_their_rows(queries)
            if found is not None:
                return found
        return None if names is None else self._from(queries, names)

    def apart(self, queries: Sequence[CheckedQuery]) -> dict[int, Matrix]:
        """Of a batch without one cube for all, those that have a cube of their own rows.

        Each then takes as long as it would alone. What groups the same rows, as the parts of a
        statement do, stays together: if they have no cube in common, one scan gives them all.
        """
        alike: dict[Any, list[int]] = {}
        for i, query in enumerate(queries):
            if query.axes:
                alike.setdefault((query.rows, query.where), []).append(i)
        found: dict[int, Matrix] = {}
        for places in alike.values():
            own = self._of_their_rows([queries[i] for i in places])
            if own is not None:
                found |= zip(places, own, strict=True)
        return found

    def _columns(self, queries: Sequence[CheckedQuery]) -> list[str] | None:
        if any(isinstance(q.values, Dense) or q.sample for q in queries):
            return None
        if any(a.kind in ("blocks", "nearest", "side") for q in queries for a in q.axes):
            return None
        names = needed_columns(queries, self._schema)
        size = 1.0
        for name in names:
            size *= _few_values(self._schema[name])
            if size > MAX_CELLS:
                return None
        numbers = sum(q.shape[1] if not q.axes else 3 for q in queries)
        worth = numbers >= 3 or self._larger(names) is not None
        return names if names and worth else None

    def _larger(self, names: list[str], member: Counted = EVERY) -> tuple[str, ...] | None:
        """A cube already kept that has these columns of the same rows."""
        kept = (names_ for names_, rows in self._kept if rows == member)
        return next((k for k in kept if set(names) <= set(k)), None)

    def _of_their_rows(self, queries: Sequence[CheckedQuery]) -> list[Matrix] | None:
        """A smaller cube, of the rows that every question is about."""
        members = {(q.rows, q.where) for q in queries}
        if len(members) != 1 or members == {(None, None)} or any(q.sample for q in queries):
            return None
        bare = [replace(q, rows=None, where=None) for q in queries]
        names = self._columns(bare)
        nodes = [n for n in members.pop() if n is not None]
        if names is None or any(map(in_kernel, nodes)):
            return None
        with suppress(TooLong):
            first = queries[0]
            member = Counted(self._writer.public(first), private(self._writer, first))
            return self._from(bare, names, member)
        return None

    def _from(
        self, queries: Sequence[CheckedQuery], names: list[str], member: Counted = EVERY
    ) -> list[Matrix]:
        chosen = self._larger(names, member) or tuple(names)
        if (chosen, member) not in self._kept:
            self._keep((chosen, member), self._counted(chosen, member))
        kept, counts = self._kept[chosen, member]
        return [m.rows() for m in gather(queries, [kept.again()], counts)]

    def _counted(self, names: tuple[str, ...], member: Counted) -> tuple[Batch, Array]:
        """The combinations as rows of a batch, and how many rows each stands for."""
        table = self.combinations(names, member)
        columns = {n: table.column(i) for i, n in enumerate(names)}
        counts = in_numpy(table.column(len(names)).combine_chunks())
        return Batch(columns, table.num_rows, self._schema), counts

    def combinations(self, names: Sequence[str], member: Counted = EVERY) -> Any:
        """How many rows have each combination of these columns, as declared; the number last."""
        write, number = self._writer, self._writer.quoted(spare("n", names))
        stored = {n: f"{write.key_words(n)} AS {write.quoted(n)}" for n in names}
        read = [f"{write.key(self._schema[n])} AS {write.quoted(n)}" for n in names]
        where = f" WHERE {member.public}" if member.public else ""
        truth = _Truth.among(write, names, number)
        counted = f"{write.count_of(member.private)} AS {number}"
        if truth is not None:
            del stored[truth.name]
            counted = truth.counted(member.private)
        # Grouping what is stored, then reading it, reads each distinct value once.
        chosen = ", ".join([*stored.values(), counted])
        below = f"(SELECT {chosen} FROM {self._source}{where}{_group_by(len(stored))}) AS stored"
        rows = below if truth is None else truth.apart(stored, below)
        total = f"CAST(sum({number}) AS BIGINT) AS {number}"
        return self._table(f"SELECT {', '.join([*read, total])} FROM {rows}{_group_by(len(names))}")

    def _keep(self, key: Key, cube: tuple[Batch, Array]) -> None:
        """Keep a cube for later questions; the oldest makes room."""
        self._kept[key] = cube
        while sum(b.rows for b, _ in self._kept.values()) > KEPT_CELLS and len(self._kept) > 1:
            del self._kept[next(iter(self._kept))]


@dataclass(frozen=True, slots=True)
class _Truth:
    """A column that is true, false or missing, in a cube that has others beside it.

    Counting where it is which takes about half as long as grouping by it, and as long for all rows.
    """

    write: Writer
    name: str
    number: str  # what the count is called
    words: tuple[str, str, str]  # what three counts are called: rows, known ones, true ones

    @classmethod
    def among(cls, write: Writer, names: Sequence[str], number: str) -> _Truth | None:
        """One such column of these."""
        truths = (n for n in names if write.schema[n].type == "boolean")
        name = next((n for n in truths if write.physical[n] == "BOOLEAN"), None)  # as stored
        if name is None:
            return None
        rows, known, true = (spare(word, names) for word in ("rows_all", "rows_known", "rows_true"))
        return cls(write, name, number, (rows, known, true))

    def counted(self, private: str) -> str:
        """How many rows there are, how many of them are true or false, and how many true."""
        column = self.write.key_words(self.name)
        known = f"{column} IS NOT NULL"
        counts = (
            self.write.count_of(private),
            self.write.count_of(private, known) if private else f"count({column})",
            self.write.count_of(private, column),
        )
        return ", ".join(f"{c} AS {w}" for c, w in zip(counts, self.words, strict=True))

    def apart(self, others: Iterable[str], below: str) -> str:
        """A row for each of true, false and missing that there are rows of."""
        column, (rows, known, true) = self.write.quoted(self.name), self.words
        count = (
            f"CASE WHEN {column} THEN {true} WHEN NOT {column} THEN {known} - {true} "
            f"ELSE {rows} - {known} END AS {self.number}"
        )
        chosen = ", ".join([*(self.write.quoted(n) for n in others), column, count])
        each = f"(VALUES (TRUE), (FALSE), (CAST(NULL AS BOOLEAN))) AS each_one({column})"
        every = f"(SELECT {chosen} FROM {below} CROSS JOIN {each}) AS every_one"
        return f"(SELECT * FROM {every} WHERE {self.number} > 0) AS stored"


def _group_by(columns: int) -> str:
    """By the first so many columns; '' by none."""
    places = ", ".join(str(i + 1) for i in range(columns))
    return f" GROUP BY {places}" if places else ""


def _few_values(column: Column) -> float:
    """How many values a column can have as declared, missing included."""
    if column.listed is not None:
        return len(column.listed) + 1
    if column.type == "integer" and column.bounded:
        return int(column.high - column.low) + 2
    return math.inf


def spare(name: str, names: Sequence[str]) -> str:
    """A name like this one that none of these is."""
    while name.lower() in {n.lower() for n in names}:
        name += "_"
    return name

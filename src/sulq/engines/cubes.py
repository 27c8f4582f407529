"""Cubes: the distinct combinations of few-valued columns, and how many rows have each.

A hundred counts over the same few columns cost about one group-by. The kernel answers them from
the cube as if each combination were a row that counts several times.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from sulq.check import CheckedQuery
from sulq.engines.base import Matrix
from sulq.engines.sql import TooLong, Writer
from sulq.engines.statement import Row, few_values
from sulq.kernel import Batch, add_batch, needed_columns
from sulq.kernel import Matrix as Gathered
from sulq.schema import Column
from sulq.tree import KERNEL_ONLY, days
from sulq.values import Dense
from sulq.vectors import Vector

MOST_CELLS = 2**16  # a group-by this small is cheaper than many sums
KEPT_CELLS = 2**20  # of all cubes kept together

Key = tuple[tuple[str, ...], str]  # the columns, and the predicate of the rows counted


class Cubes:
    """Group-bys kept while the rows stay as they are."""

    def __init__(self, writer: Writer, source: str, ask: Callable[[str], list[Row]]) -> None:
        self._writer = writer
        self._schema = writer.schema
        self._source = source
        self._ask = ask
        self._kept: dict[Key, tuple[Batch, Any]] = {}

    def forget(self) -> None:
        """Forget what was kept: the rows may have changed."""
        self._kept.clear()

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix] | None:
        """The sums of queries that a cube can answer; None if another way is better."""
        names = self._columns(queries)
        if names is None or self._larger(names) is None:
            found = self._of_their_rows(queries)
            if found is not None:
                return found
        return None if names is None else self._from(queries, names)

    def _columns(self, queries: Sequence[CheckedQuery]) -> list[str] | None:
        if any(isinstance(q.values, Dense) or q.sample for q in queries):
            return None
        if any(a.kind in ("blocks", "nearest", "side") for q in queries for a in q.axes):
            return None
        names = sorted(set().union(*(needed_columns(q, self._schema) for q in queries)))
        size = 1.0
        for name in names:
            size *= few_values(self._schema, name)
            if size > MOST_CELLS:
                return None
        numbers = sum(q.shape[1] if not q.axes else 3 for q in queries)
        worth = numbers >= 3 or self._larger(names) is not None
        return names if names and worth else None

    def _larger(self, names: list[str], member: str = "") -> tuple[str, ...] | None:
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
        if names is None or any(p.op in KERNEL_ONLY for n in nodes for p in n.walk()):
            return None
        with suppress(TooLong):
            return self._from(bare, names, self._writer.member(queries[0]))
        return None

    def _from(
        self, queries: Sequence[CheckedQuery], names: list[str], member: str = ""
    ) -> list[Matrix]:
        chosen = self._larger(names, member) or tuple(names)
        if (chosen, member) not in self._kept:
            self._keep((chosen, member), self.counted(chosen, member))
        kept, counts = self._kept[chosen, member]
        batch = kept.again()
        out = []
        for query in queries:
            gathered = Gathered(query.shape)
            add_batch(query, batch, gathered, counts)
            out.append(gathered.rows())
        return out

    def counted(self, names: tuple[str, ...], member: str) -> tuple[Batch, Any]:
        """The combinations as rows of a batch, and how many rows each stands for."""
        table = self.combinations(names, member)
        *values, counts = zip(*table, strict=True) if table else [()] * (len(names) + 1)
        columns = {
            n: as_vector(column, self._schema[n]) for n, column in zip(names, values, strict=True)
        }
        return Batch(columns, len(table), self._schema), np.array([int(c) for c in counts], int)

    def combinations(self, names: Sequence[str], member: str = "") -> list[Row]:
        """How many rows have each combination of these columns, as declared; the number last."""
        return self._ask(self.statement(names, member, spare("n", names)))

    def statement(self, names: Sequence[str], member: str, count: str) -> str:
        """The statement for that; `count` is what the number is called."""
        write, number = self._writer, self._writer.quoted(count)
        stored = [f"{write.key_words(n)} AS {write.quoted(n)}" for n in names]
        read = [f"{write.key(self._schema[n])} AS {write.quoted(n)}" for n in names]
        places = ", ".join(str(i + 1) for i in range(len(names)))
        where = f" WHERE {member}" if member else ""
        # Grouping what is stored, then reading it, reads each distinct value once.
        below = (
            f"SELECT {', '.join(stored)}, count(*) AS {number} FROM {self._source}{where} "
            f"GROUP BY {places}"
        )
        total = f"CAST(sum({number}) AS BIGINT) AS {number}"
        return f"SELECT {', '.join([*read, total])} FROM ({below}) AS stored GROUP BY {places}"

    def _keep(self, key: Key, cube: tuple[Batch, Any]) -> None:
        """Keep a cube for later questions; the oldest makes room."""
        self._kept[key] = cube
        while sum(b.rows for b, _ in self._kept.values()) > KEPT_CELLS and len(self._kept) > 1:
            del self._kept[next(iter(self._kept))]


def as_vector(values: Sequence[Any], column: Column) -> Vector:
    """Values as a database gives them, None where there is none, as the kernel holds them."""
    valid = np.array([v is not None for v in values], dtype=bool)
    if column.type == "text" or isinstance((column.values or (0,))[0], str):
        words = np.empty(len(values), dtype=object)
        words[:] = [v or "" for v in values]
        return Vector(words, valid)
    if column.type == "boolean":
        return Vector(np.array([bool(v) for v in values], dtype=bool), valid)
    numbers = [days(v) if isinstance(v, datetime.date) else v or 0 for v in values]
    return Vector(np.array(numbers, dtype=float if column.type == "number" else np.int64), valid)


def spare(name: str, names: Sequence[str]) -> str:
    """A name like this one that none of these is."""
    while name.lower() in {n.lower() for n in names}:
        name += "_"
    return name

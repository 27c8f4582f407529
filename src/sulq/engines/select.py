"""A batch of checked queries -> one SELECT, and its rows back into cells.

Below, each key and each contribution is named once; above, integers are added by key. Several
ways to group are one scan by grouping sets. Written so that any engine that speaks SQL can
share it: what differs between them is in the Writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sulq.engines import stored_keys
from sulq.engines.base import Matrix
from sulq.engines.writer import TooLong, Writer, filtered
from sulq.expressions.functions import KERNEL_ONLY
from sulq.expressions.node import Node
from sulq.kernel.sums import nodes_of
from sulq.questions.check import CheckedQuery
from sulq.questions.contributions import Dense
from sulq.questions.grid import Value
from sulq.questions.shards import KeySet

MAX_COLUMNS = 1600  # of one SELECT, in PostgreSQL
MAX_SQL = 1_000_000  # characters of one statement
MAX_UNFOLDED = 10_000  # parts of one row function, as a database may write them out

Row = tuple[Any, ...]


class BatchSelect:
    """The SELECT for a batch, and where each of its numbers belongs."""

    def __init__(self, writer: Writer, queries: Sequence[CheckedQuery], source: str) -> None:
        self.queries = queries
        self._writer = writer
        self._below: dict[str, str] = {}  # SQL -> its name below
        self._sums: dict[str, str] = {}
        # A private predicate is a value, not a filter: rows that a filter skips take less time.
        members = [writer.public(q) for q in queries]
        shared = members[0] if len(set(members)) == 1 else ""
        gates = [
            " AND ".join(part for part in ("" if shared else public, private(writer, q)) if part)
            for public, q in zip(members, queries, strict=True)
        ]
        self._gate = self._shared_gate(gates)  # a key by which rows that count are told, or ''
        gates = [""] * len(gates) if self._gate else gates
        self._keys = [[self._named(writer.axis(a), "k") for a in q.axes] for q in queries]
        self._values = [
            [_name(self._sums, sql, "s") for sql in self._aggregates(q, gate)]
            for q, gate in zip(queries, gates, strict=True)
        ]
        self._source = f"{source} WHERE {shared}" if shared else source
        # Each set of keys once, whatever their order: a set named twice would count each row twice.
        gate = [self._gate] if self._gate else []
        self._sets = list(dict.fromkeys(tuple(_in_order([*k, *gate])) for k in self._keys))
        self._names = _in_order(k for s in self._sets for k in s)
        self.sql = self._in_two_steps() if self._by_stored() else self._in_one_step()
        if len(self._below) + len(self._sums) > MAX_COLUMNS or len(self.sql) > MAX_SQL:
            raise TooLong

    def _named(self, sql: str, letter: str) -> str:
        return _name(self._below, sql, letter)

    # --- writing ------------------------------------------------------------------------

    def _shared_gate(self, gates: Sequence[str]) -> str:
        """The one private predicate of all queries as a key, where an engine is quicker so.

        Rows that meet it and rows that do not are added up alike, and this side picks: no sum has a
        condition, and how many meet it takes no time. Counts alone are quicker as they are.
        """
        one = gates[0] if len(set(gates)) == 1 else ""
        key = self._writer.gate(one) if one and not all(map(_counts, self.queries)) else ""
        return self._named(key, "g") if key else ""

    def _aggregates(self, query: CheckedQuery, gate: str) -> list[str]:
        """The sums of one query over the rows of its gate."""
        gate = self._named(gate, "g") if gate else ""
        if isinstance(query.values, Dense):
            column = self._writer.schema[query.values.columns[0]]
            person = self._named(self._writer.person(column), "v")
            return [filtered(f"count(DISTINCT {person})", gate)]
        return [self._aggregate(value, gate) for value in query.values]

    def _aggregate(self, value: Value, gate: str) -> str:
        """One sum; counting is cheaper than adding ones."""
        node = value.node
        if _is_one(node):
            return self._writer.count_of(gate)
        if node.op == "not" and node.args[0].op == "is_null":  # as many as are not missing
            inner = node.args[0].args[0]
            added = self._writer.added(inner)
            if added:
                return filtered(f"count({self._named(added, 'v')})", gate)
            return self._writer.count_of(gate, self._named(self._writer.known(inner), "v"))
        if node.type == "boolean":
            return self._writer.count_of(gate, self._named(self._writer.truth(node), "v"))
        return filtered(f"sum({self._named(self._writer.value(value), 'v')})", gate)

    def _in_one_step(self) -> str:
        chosen = [*self._names, *(f"{sql} AS {name}" for sql, name in self._sums.items())]
        many = len(self._sets) > 1
        if many:
            chosen += [f"GROUPING({k}) AS g{k}" for k in self._names]
        sets = ", ".join(f"({', '.join(s)})" for s in self._sets)
        grouped = f" GROUP BY GROUPING SETS ({sets})" if many else _group_by(self._names)
        return f"SELECT {', '.join(chosen) or '1'} FROM {self._rows({})}{grouped}"

    def _by_stored(self) -> bool:
        """Is there one way to group, and first by a column as it is stored?"""
        if len(self._sets) > 1 or any(isinstance(q.values, Dense) for q in self.queries):
            return False
        return stored_keys.worth_it(self._writer, self.queries[0].axes)

    def _in_two_steps(self) -> str:
        """Group by what is stored, then by what it is read as."""
        axes = dict(zip(self._keys[0], self.queries[0].axes, strict=True))
        first = {k: sql for k, a in axes.items() if (sql := stored_keys.stored(self._writer, a))}
        names = self._names
        inner = ", ".join([*names, *(f"{sql} AS {name}" for sql, name in self._sums.items())])
        outer = [
            f"{stored_keys.read(self._writer, axes[k], k)} AS {k}" if k in first else k
            for k in names
        ]
        totals = [f"sum({name}) AS {name}" for name in self._sums.values()]
        below = f"SELECT {inner} FROM {self._rows(first)}{_group_by(names)}"
        places = ", ".join(str(i + 1) for i in range(len(names)))
        return f"SELECT {', '.join([*outer, *totals])} FROM ({below}) AS stored GROUP BY {places}"

    def _rows(self, instead: dict[str, str]) -> str:
        """The rows with every key and contribution named; `instead` says what some keys are."""
        named = [f"{instead.get(name, sql)} AS {name}" for sql, name in self._below.items()]
        return f"(SELECT {', '.join(named) or '1 AS one'} FROM {self._source}) AS named"

    # --- reading ------------------------------------------------------------------------

    def matrices(self, table: Iterable[Row]) -> list[Matrix]:
        """The rows that came back, each number in its cell."""
        columns = [*self._names, *self._sums.values(), *(f"g{k}" for k in self._names)]
        at = {name: i for i, name in enumerate(columns)}
        gate = at.get(self._gate)
        rows = [row for row in table if gate is None or row[gate]]
        by_set = self._by_set(rows, at) if len(self._sets) > 1 else None
        return [
            self._laid_out(query, k, v, rows if by_set is None else by_set[self._set(k)], at)
            for query, k, v in zip(self.queries, self._keys, self._values, strict=True)
        ]

    def _by_set(self, rows: list[Row], at: dict[str, int]) -> dict[tuple[int, ...], list[Row]]:
        """The rows of each grouping set, by which of the keys are not grouped."""
        out: dict[tuple[int, ...], list[Row]] = {self._set(k): [] for k in self._sets}
        for row in rows:
            out[tuple(row[at[f"g{k}"]] for k in self._names)].append(row)
        return out

    def _set(self, keys: Sequence[str]) -> tuple[int, ...]:
        """A grouping set as GROUPING() says it: 0 for its own keys."""
        return tuple(0 if n in keys or n == self._gate else 1 for n in self._names)

    def _laid_out(
        self, query: CheckedQuery, keys: list[str], values: list[str], rows: Iterable[Row],
        at: dict[str, int],
    ) -> Matrix:  # fmt: skip
        cells, width = query.shape
        out = [[0] * width for _ in range(cells)]
        axes = [
            (at[key], len(axis.labels), self._writer.numbering(axis))
            for axis, key in zip(query.axes, keys, strict=True)
        ]
        sums = [(j, at[name]) for j, name in enumerate(values)]
        for row in rows:
            cell = 0
            for place, size, number in axes:
                cell = cell * size + number(row[place])
            mine = out[cell]
            for j, place in sums:
                mine[j] += int(row[place] or 0)
        return out


def private(writer: Writer, query: CheckedQuery) -> str:
    """Who satisfies the private predicate; empty for everybody."""
    return "" if query.where is None else f"({writer.truth(query.where)})"


def _counts(query: CheckedQuery) -> bool:
    """Does it count rows, and add up nothing else?"""
    if isinstance(query.values, Dense):
        return False
    return all(v.node.type == "boolean" or _is_one(v.node) for v in query.values)


def _is_one(node: Node) -> bool:
    return node.op == "literal" and node.type != "number" and node.value in (1, True)


def needs_kernel(query: CheckedQuery) -> bool:
    """Does any part of it have no exact SQL?"""
    if any(a.kind in ("nearest", "side") for a in query.axes) or isinstance(query.sample, KeySet):
        return True
    if isinstance(query.values, Dense) and query.values.kind != "people":
        return True
    return any(in_kernel(node) for node in nodes_of(query))


def in_kernel(node: Node) -> bool:
    """Has a row function no exact SQL, or none that a database plans in time?"""
    return node.unfolded > MAX_UNFOLDED or any(part.op in KERNEL_ONLY for part in node.walk())


def _name(known: dict[str, str], sql: str, letter: str) -> str:
    """A short name for a piece of SQL; the same piece is computed once."""
    return known.setdefault(sql, f"{letter}{len(known)}")


def _in_order(keys: Iterable[str]) -> list[str]:
    """Different keys, by their number."""
    return sorted(set(keys), key=lambda k: int(k[1:]))


def _group_by(names: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(names)}" if names else ""

"""Our tree -> SQL text. Written from the tree, never from what an analyst typed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sulq.engines.function_sql import SPELLING, lean, moments_known, seconds_since_1970
from sulq.expressions.columns import PRIME, ends, without_range
from sulq.expressions.node import Node, number_of
from sulq.expressions.quoting import quote, text
from sulq.questions.check import CheckedQuery
from sulq.questions.grid import Value, gridded
from sulq.questions.partitions import Axis
from sulq.questions.shards import KeySet
from sulq.sources.source import UNTYPED
from sulq.values.schema import Column, Schema

MAX_SQL = 200_000  # characters of one expression
MAX_DONE = 2**24  # characters kept of what was written before
HALF = 2**62
TYPES = {"boolean": "BOOLEAN", "integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR",
         "date": "DATE", "null": "BIGINT"}  # fmt: skip


class TooLong(Exception):
    """The SQL would be too long for a database to plan; the kernel has no such limit."""


class Writer:
    """Writes SQL for one schema over one table; DuckDB's spelling."""

    longest = MAX_SQL
    types = TYPES
    filters = False  # is FILTER the quick way to count, or count_if?
    dictionaries = False  # are words stored as places in a dictionary? Then a cast is for each once
    spelling: Mapping[str, Callable[..., str]]  # of each operation

    def __init__(self, schema: Schema, physical: dict[str, str]) -> None:
        self.schema = schema
        self.physical = physical  # declared column -> the source's type
        self.spelling = SPELLING
        self._done: dict[str, str] = {}
        self._size = 0

    def node(self, node: Node) -> str:
        """A row function."""
        if node.op == "literal":
            return self.literal(node)
        node = lean(node)
        written = self._done.get(node.text)
        if written is None:
            if node.op == "column":
                written = self.read(self.schema[node.value])
            else:
                written = self.spelled(node, *(self.node(a) for a in node.args))
            if len(written) > self.longest:
                raise TooLong
            self._size += len(written) + len(node.text)
            if self._size > MAX_DONE:  # what is kept must not grow for years
                self._done, self._size = {}, 0
            self._done[node.text] = written
        return written

    def spelled(self, node: Node, *args: str) -> str:
        """An operation, its arguments written already."""
        c = self._words(node.args[0]) if node.op == "is_null" and not self.filters else None
        if c is not None:
            args = (self._word(c),)
        return self.spelling[node.op](node, *args)

    def number(self, x: float) -> str:
        """A number exactly."""
        return f"CAST('{x!r}' AS {self.types['number']})"

    def literal(self, node: Node) -> str:
        """A constant, with its type."""
        value = node.value
        if value is None:
            return f"CAST(NULL AS {self.types[node.type]})"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return f"CAST({value} AS BIGINT)"
        if isinstance(value, float):
            return self.number(value)
        if isinstance(value, datetime.date):
            return f"DATE '{value.isoformat()}'"
        return text(value)

    def read(self, c: Column) -> str:
        """A column as declared: clamped to its range, undeclared and NaN missing."""
        name = self._stored(c)
        if c.type == "boolean":
            if self.physical[c.name] not in ("BOOLEAN", UNTYPED):
                name = f"CASE WHEN {name} = 1 THEN TRUE WHEN {name} = 0 THEN FALSE END"
            return name if c.nullable else f"({name} IS TRUE)"  # quicker than COALESCE
        if c.type == "category":
            return self._category(c, name)
        if c.type == "text":
            return name if c.max_length is None else f"left({name}, {c.max_length})"
        if c.type == "number":
            return self._number(c)
        if c.type == "date":
            return self._date(c, name)
        return self.integer(c, self.seconds(c) if c.type == "timestamp" else name)

    def key(self, c: Column) -> str:
        """A column to group rows by."""
        return self.read(c)

    def truth(self, node: Node) -> str:
        """Where a predicate is true; whether it is false or missing elsewhere does not matter."""
        if node.op in ("and", "or"):
            return self.spelled(node, *(self.truth(arg) for arg in node.args))
        return self._compared(node) or self.node(node)

    def _compared(self, node: Node) -> str | None:
        """A stored column against a constant that clamping moves no value across; or None."""
        if node.op not in ("lt", "le"):
            return None
        mirrored = node.args[0].op == "literal"
        side, constant = reversed(node.args) if mirrored else node.args
        if side.op != "column" or constant.op != "literal" or constant.type != side.type:
            return None
        c = self.schema[side.value]
        kind = self.physical[c.name]
        plain = "INT" in kind if c.type == "integer" else c.type == "number" and kind == "DOUBLE"
        if not (plain and c.nullable and c.bounded and inside(node.op, mirrored, c, constant)):
            return None
        stored, against = self._stored(c), self.literal(constant)
        written = self.spelled(node, *((against, stored) if mirrored else (stored, against)))
        if mirrored and c.type == "number":  # NaN is above everything
            return f"({written} AND NOT isnan({stored}))"
        return written

    def gate(self, predicate: str) -> str:
        """A predicate as a number to group by, if that is quicker than a condition on each sum."""
        return "" if self.filters else f"CAST({predicate} AS TINYINT)"

    def known(self, node: Node) -> str:
        """Where a row function is not missing."""
        return f"({self.node(node)} IS NOT NULL)"

    def count_of(self, *conditions: str) -> str:
        """How many rows meet all of these; '' is met by every row."""
        both = " AND ".join(c for c in conditions if c)
        if self.filters or not both:
            return filtered("count(*)", both)
        return f"count_if({both})"

    def added(self, node: Node) -> str:
        """A row function as its sum adds it, if counting that is cheapest beside the sum; or ''."""
        shared = node.type == "number" and node.bounded and not self.filters
        return self.value(gridded(node)) if shared else ""

    def key_words(self, name: str) -> str:
        """A column of words as it is stored, to group by before it is read."""
        return quote(name)

    def quoted(self, name: str) -> str:
        """A declared column's name where a statement gives it one."""
        return quote(name)

    def person(self, c: Column) -> str:
        """Whose row it is, as stored; NaN is nobody."""
        name = self._stored(c)
        if self.physical[c.name] in ("FLOAT", "DOUBLE"):
            return f"CASE WHEN NOT isnan({name}) THEN {name} END"
        return name

    def _stored(self, c: Column) -> str:
        """The raw column, where need be in a type that means the same for every declaration."""
        kind, name = self.physical[c.name], quote(c.name)
        if kind == UNTYPED:  # a frame's column without any value
            words = c.type == "text" or isinstance((c.values or (0,))[0], str)
            return f"CAST({name} AS {'VARCHAR' if words else TYPES.get(c.type, 'BIGINT')})"
        if kind == "ENUM":  # an enum refuses to meet words it does not know
            return f"CAST({name} AS VARCHAR)"
        return f"CAST({name} AS DOUBLE)" if kind == "FLOAT" else name

    def _category(self, c: Column, name: str) -> str:
        if isinstance((c.values or ("",))[0], str):
            return f"CAST({self._as_enum(c, name)} AS VARCHAR)"
        values = sorted(c.values or ())
        listed = f"IN ({', '.join(map(str, values))})"
        run = values == list(range(values[0], values[0] + len(values)))
        if run and "INT" in self.physical[c.name]:  # a range is quicker than a list
            listed = f"BETWEEN {values[0]} AND {values[-1]}"
        return f"CASE WHEN {name} {listed} THEN CAST({name} AS BIGINT) END"

    def _word(self, c: Column) -> str:
        """A stored text among those declared as a small number; others are missing."""
        stored = self._stored(c)
        if self.dictionaries:
            return self._as_enum(c, stored)
        return self.place(c.values or (), stored)

    def _as_enum(self, c: Column, name: str) -> str:
        """A cast to an enum looks each distinct text up once; a CASE compares every row."""
        return f"TRY_CAST({name} AS ENUM ({', '.join(text(v) for v in c.values or ())}))"

    def integer(self, c: Column, name: str) -> str:
        """A whole number that is stored under this name, clamped."""
        low, high = ends(c)
        whole = f"CAST({name} AS BIGINT)"
        if self.physical[c.name] in ("FLOAT", "DOUBLE"):  # whole numbers kept as floats
            known = f"CASE WHEN NOT isnan({name}) THEN {name} END"
            name, whole = f"({known})", self.whole(name)
        missing = low if c.bounded and not c.nullable else "NULL"
        return (
            f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {whole} "
            f"WHEN {name} > {high} THEN CAST({high} AS BIGINT) "
            f"WHEN {name} < {low} THEN CAST({low} AS BIGINT) "
            f"ELSE CAST({missing} AS BIGINT) END"
        )

    def whole(self, name: str) -> str:
        """A number that fits 64 bits, as the nearest whole one."""
        return f"CAST(round({name}) AS BIGINT)"

    def seconds(self, c: Column) -> str:
        """A stored moment in whole seconds since 1970, down; an endless one is far out."""
        name, kind = self._stored(c), self.physical[c.name]
        return name if kind == UNTYPED else moments_known(seconds_since_1970(name, kind), c)

    def _number(self, c: Column, value: Value | None = None) -> str:
        """A number within its bounds; with a Value, straight on its grid, so read only once."""
        name = self._stored(c)
        if self.physical[c.name] not in ("DOUBLE", "FLOAT", UNTYPED):
            name = f"CAST({name} AS DOUBLE)"
        if not c.bounded:
            return f"CASE WHEN NOT isnan({name}) THEN {name} END"
        factor = 2.0**value.scale if value else 1.0
        ends = (value.low / factor, value.high / factor) if value else (float(c.low), float(c.high))
        low, high = (self.number(end) for end in ends)
        missing = "CAST(NULL AS DOUBLE)" if c.nullable else low
        # NaN is above everything in DuckDB and PostgreSQL; NULL fails every test.
        clamped = (
            f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} "
            f"WHEN {name} > {high} AND NOT isnan({name}) THEN {high} "
            f"WHEN {name} < {low} THEN {low} ELSE {missing} END"
        )
        return clamped if value is None else self.steps(clamped, value)

    def _date(self, c: Column, name: str) -> str:
        kind = self.physical[c.name]
        if kind == "TIMESTAMP_NS":  # a cast would round up to the next day
            ns, day = f"epoch_ns({name})", 86_400 * 10**9
            whole = f"CAST({ns} // {day} - CAST({ns} % {day} < 0 AS INTEGER) AS INTEGER)"
            name = f"COALESCE(DATE '1970-01-01' + {whole}, CAST({name} AS DATE))"
        elif kind in ("TIMESTAMP_S", "TIMESTAMP_MS"):  # beyond any date they are missing
            name = f"TRY_CAST({name} AS DATE)"
        elif kind not in ("DATE", UNTYPED):
            name = f"CAST({name} AS DATE)"
        return self._clamped_date(c, name)

    def _clamped_date(self, c: Column, name: str) -> str:
        """A date within its declared range, or among the years 1 to 9999."""
        low = f"DATE '{(c.low or datetime.date.min).isoformat()}'"
        high = f"DATE '{(c.high or datetime.date.max).isoformat()}'"
        if not c.bounded:
            return f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} END"
        missing = "CAST(NULL AS DATE)" if c.nullable else low
        return (
            f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} WHEN {name} > {high} "
            f"THEN {high} WHEN {name} < {low} THEN {low} ELSE {missing} END"
        )

    # --- whole queries ------------------------------------------------------------------

    def public(self, query: CheckedQuery) -> str:
        """Who is in S, by public columns; empty for everybody."""
        parts = [] if query.rows is None else [self.truth(query.rows)]
        if query.sample is not None and not isinstance(query.sample, KeySet):
            parts.append(self._sampled(query.sample))  # who is in a set of keys the kernel knows
        return " AND ".join(f"({p})" for p in parts)

    def _sampled(self, sample: tuple[int, ...]) -> str:
        """Is the key's hash below a threshold, or within one of these stretches?"""
        found, ends = self.hashed(list(sample[:4])), sample[4:]
        if len(ends) == 1:
            return f"{found} < {ends[0]}"
        pairs = zip(ends[::2], ends[1::2], strict=True)
        return " OR ".join(f"{found} BETWEEN {low} AND {high - 1}" for low, high in pairs)

    def key_number(self) -> str:
        """The key mod 2^31 - 1; text by the first 7 hex digits of its md5; missing is 0.

        Never clamped to low and high, in whatever type it is stored: a key names a row.
        """
        key = self.schema.key
        assert key is not None
        name, kind = self._stored(key), self.physical[key.name]
        if key.type == "text":
            return f"COALESCE(CAST({self.digits(name)} AS BIGINT), 0)"
        if kind in ("FLOAT", "DOUBLE"):
            name = self.integer(without_range(key), name)
        elif kind in ("UBIGINT", "HUGEINT", "UHUGEINT"):
            name = self.person(key)
        else:
            name = f"CAST({name} AS BIGINT)"  # PRIME added to a narrower one would overflow
        return f"COALESCE((CAST(({name}) % {PRIME} AS BIGINT) + {PRIME}) % {PRIME}, 0)"

    def digits(self, name: str) -> str:
        """The first 7 hex digits of a text's md5, as a number."""
        return f"'0x' || substr(md5({name}), 1, 7)"

    def hashed(self, numbers: Sequence[int]) -> str:
        """(c3*k^3 + c2*k^2 + c1*k + c0) mod (2^31 - 1)."""
        key, found = self.key_number(), f"CAST({numbers[0]} AS BIGINT)"
        for c in numbers[1:]:
            found = f"(({found} * {key} + {c}) % {PRIME})"
        return found

    def axis(self, axis: Axis) -> str:
        """What to group by: the value itself, or the number of its cell."""
        if axis.kind == "expression":
            assert axis.node is not None
            return self._key(axis.node)
        if axis.kind == "bins":
            return self.bins(axis)
        if axis.kind == "blocks":
            *numbers, count = axis.detail
            return f"({self.hashed(numbers)} % {count})"
        assert axis.kind == "leaf"
        tests = " ".join(
            f"WHEN {self.node(path)} THEN {i}" for i, path in enumerate(axis.detail) if path
        )
        return f"CASE {tests} ELSE 0 END" if tests else "0"

    def words(self, axis: Axis) -> tuple[Any, ...] | None:
        """The texts of a plain category, if rows are grouped by their places in the list."""
        c = None if self.dictionaries or axis.node is None else self._words(axis.node)
        return None if c is None else c.values

    def _words(self, node: Node) -> Column | None:
        """The column of few texts that a row function is, if it is nothing else."""
        c = self.schema[node.value] if node.op == "column" else None
        if c is None or c.values is None or not isinstance(c.values[0], str):
            return None
        return c if self.physical[c.name] == "VARCHAR" else None

    def _key(self, node: Node) -> str:
        """A row function as rows are grouped by it: numbers are quicker than words and truths."""
        c = self._words(node)
        if c is None:
            written = self.node(node)
            return self.gate(written) or written if node.type == "boolean" else written
        return self._word(c)

    def numbering(self, axis: Axis) -> Callable[[Any], int]:
        """From what `axis` grouped by to the number of the cell."""
        other = len(axis.labels) - 1
        if axis.kind != "expression" or self.words(axis) is not None:
            return lambda value: other if value is None else int(value)
        number = {label: i for i, label in enumerate(axis.labels)}
        return lambda value: number.get(value, other)

    def day_number(self, x: str) -> str:
        """Days since 1970."""
        return f"CAST(({x}) - DATE '1970-01-01' AS BIGINT)"

    def bins(self, axis: Axis, read: str = "") -> str:
        """A balanced tree of comparisons: log2 of the bins deep."""
        node = axis.node
        assert node is not None
        x = read or self.node(node)
        if node.type == "date":
            x = self.day_number(x)
        edges = [self.number(e) for e in axis.detail]
        other = len(edges) - 1

        def pick(first: int, last: int) -> str:
            if first == last:
                return str(first)
            middle = (first + last + 1) // 2
            below, above = pick(first, middle - 1), pick(middle, last)
            return f"CASE WHEN ({x}) < {edges[middle]} THEN {below} ELSE {above} END"

        within = f"({x}) >= {edges[0]} AND ({x}) <= {edges[-1]}"
        written = f"CASE WHEN {within} THEN {pick(0, other - 1)} ELSE {other} END"
        if len(written) > 2 * self.longest:
            raise TooLong
        return written

    def value(self, value: Value) -> str:
        """A contribution as an integer on its grid, clamped last; NULL contributes nothing."""
        x = self.node(value.node)
        least = min(max(0, value.low), value.high)  # in place of a value that cannot be missing
        if value.node.type == "boolean":
            return f"CAST({x} AS BIGINT)"
        if value.node.type == "integer":
            if value.node.op in ("column", "literal"):
                return x
            if not value.node.nullable:  # said once, so computed once
                there = _present(value.node, f"({x})", least)
                low, high = (f"CAST({end} AS BIGINT)" for end in (value.low, value.high))
                return f"greatest({low}, least({high}, {there}))"
            return (
                f"CASE WHEN ({x}) < {value.low} THEN {value.low} WHEN ({x}) > {value.high} "
                f"THEN {value.high} ELSE {_present(value.node, f'({x})', least)} END"
            )
        if value.node.op == "column":
            return self._number(self.schema[value.node.value], value)
        factor = 2.0**value.scale
        low, high = (self.number(end / factor) for end in (value.low, value.high))
        steps = self.steps(x, value)
        return (
            f"CASE WHEN ({x}) <= {low} THEN {value.low} WHEN ({x}) >= {high} THEN {value.high} "
            f"ELSE {_present(value.node, steps, least)} END"
        )

    def steps(self, sql: str, value: Value) -> str:
        """A number in steps of its grid; the cast rounds to nearest, halves to even."""
        narrow = value.low > -(2**31) and value.high < 2**31  # and small numbers add up faster
        kind = "INTEGER" if narrow and value.node.op == "column" else "BIGINT"
        return f"CAST(({sql}) * {self.number(2.0**value.scale)} AS {kind})"

    def place(self, words: Sequence[Any], sql: str) -> str:
        """The number of a word's cell; NULL for any other word."""
        return f"(list_position([{', '.join(text(w) for w in words)}], {sql}) - 1)"


def inside(op: str, mirrored: bool, c: Column, constant: Node) -> bool:
    """Does the constant lie where clamping moves no value across it?"""
    low, high = number_of(c.low), number_of(c.high)
    x = constant.low
    if op in ("eq", "ne"):
        return bool(low < x < high)
    from_below = (op == "lt") != mirrored  # x < c and c <= x: low itself is not below low
    return bool(low < x <= high) if from_below else bool(low <= x < high)


def filtered(aggregate: str, *conditions: str) -> str:
    """An aggregate of the rows that meet all of these."""
    both = " AND ".join(c for c in conditions if c)
    return f"{aggregate} FILTER (WHERE {both})" if both else aggregate


def folded(name: str) -> str:
    """A whole number too long for 64 bits as one that fits: as far out, in the same block."""
    return (
        f"CASE WHEN {name} >= {HALF} THEN {HALF} + ({name} - {HALF}) % {PRIME} "
        f"WHEN {name} <= -{HALF} THEN -{HALF} + ({name} + {HALF}) % {PRIME} ELSE {name} END"
    )


def _present(node: Node, sql: str, least: int) -> str:
    """A value that is never missing stays so, should an interval have been misjudged."""
    return sql if node.nullable else f"COALESCE({sql}, {least})"

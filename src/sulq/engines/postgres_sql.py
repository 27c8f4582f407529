"""Our tree -> PostgreSQL's SQL, in which no row can raise an error.

PostgreSQL stops at a division by zero, at a product too small for a float, at a number that
does not fit its type. So each of these is written with its edges apart, and gives on every
row the bits that IEEE arithmetic gives elsewhere.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

from sulq.engines.postgres_compare import compared, is_one_of
from sulq.engines.sql import TYPES, TooLong, Writer, quote, text
from sulq.partition import PRIME, Axis
from sulq.schema import LARGEST, Column, Schema
from sulq.tree import Node
from sulq.values import Value

NUMBER = "DOUBLE PRECISION"
LEAST = 2.0**-1074  # the smallest number above 0
MOST = 1.79769313486231e308  # beyond, a quotient counts as endless
SINGLE = 2.0**-149  # the same for a REAL
RANGES = {"SMALLINT": 2**15, "INTEGER": 2**31, "BIGINT": 2**63}
WHOLE_NUMERIC = "HUGEINT"  # numeric(p, 0), as DuckDB calls its widest whole numbers
PARTS = {"dayofweek": "dow", "dayofyear": "doy"}


class PostgresWriter(Writer):
    """Writes SQL over one PostgreSQL table, view or partitioned table."""

    longest = 50_000
    types = TYPES | {"number": NUMBER, "text": "TEXT"}
    filters = True

    def __init__(
        self,
        schema: Schema,
        physical: dict[str, str],
        stored: dict[str, str],
        scales: dict[str, int],
    ) -> None:
        super().__init__(schema, physical)
        self.stored = stored  # declared column -> the SQL that reads it, in a plain type
        self.scales = scales  # numeric columns -> digits after the point, where declared

    # --- constants and columns ----------------------------------------------------------

    def literal(self, node: Node) -> str:
        """A constant; what PostgreSQL's text cannot hold is left to the kernel."""
        if isinstance(node.value, str) and not sendable(node.value):
            raise TooLong
        return super().literal(node)

    def _stored(self, c: Column) -> str:
        return self.stored[c.name]

    def known(self, node: Node) -> str:
        """Where a row function is not missing."""
        if node.op == "column" and node.type == "number":
            c = self.schema[node.value]
            return f"{self.as_number(c)} < 'NaN'" if c.nullable or not c.bounded else "TRUE"
        return super().known(node)

    def key_words(self, name: str) -> str:
        """A column of words as it is stored, to group by before it is read."""
        return self.stored[name]

    def person(self, c: Column) -> str:
        """Whose row it is, as stored; NaN is nobody."""
        name = self._stored(c)
        floating = self.physical[c.name] in ("FLOAT", "DOUBLE", WHOLE_NUMERIC)
        return f"CASE WHEN {name} < 'NaN' THEN {name} END" if floating else name

    def _category(self, c: Column, name: str) -> str:
        if isinstance((c.values or ("",))[0], str):
            known = [text(v) for v in c.values or () if sendable(v)]
            return f"CASE WHEN {name} IN ({', '.join(known or [text('')])}) THEN {name} END"
        return super()._category(c, name)

    def _integer(self, c: Column, name: str) -> str:
        low, high = (c.low, c.high) if c.bounded else (-LARGEST, LARGEST)
        kind = self.physical[c.name]
        reach = RANGES.get(kind, math.inf)
        sure = c.bounded and not c.nullable
        if low <= -reach and reach - 1 <= high:  # as stored, none is outside
            return f"COALESCE(CAST({name} AS BIGINT), {low})" if sure else f"CAST({name} AS BIGINT)"
        whole = f"CAST({name} AS BIGINT)"
        if kind in ("FLOAT", "DOUBLE"):
            whole = f"CAST({half_away(name)} AS BIGINT)"
        missing = f"CAST({low} AS BIGINT)" if sure else "NULL"
        return (
            f"CASE WHEN {name} < {low} THEN CAST({low} AS BIGINT) "
            f"WHEN {name} <= {high} THEN {whole} "
            f"WHEN {self._known(kind, name, high)} THEN CAST({high} AS BIGINT) ELSE {missing} END"
        )

    def _known(self, kind: str, name: str, high: Any) -> str:
        """Above `high`, and a number: NaN is above everything in PostgreSQL."""
        nan = kind in ("FLOAT", "DOUBLE", "DECIMAL", WHOLE_NUMERIC)
        return f"{name} > {high} AND {name} < 'NaN'" if nan else f"{name} > {high}"

    def as_number(self, c: Column) -> str:
        """A stored number as a float, to the nearest; NaN stays NaN."""
        name, kind = self._stored(c), self.physical[c.name]
        if kind == "DOUBLE":
            return name
        plain = f"CAST({name} AS {NUMBER})"
        if kind != "DECIMAL" or c.name in self.scales:
            return plain
        # Without declared digits a numeric may be too large or too small to be cast at all.
        return (
            f"CASE WHEN abs({name}) < 1e-300 THEN CAST(0 AS {NUMBER}) "
            f"WHEN abs({name}) <= 1e300 OR abs({name}) >= 'Infinity' THEN {plain} "
            f"WHEN {name} > 0 THEN {self.number(1e300)} "
            f"WHEN {name} < 0 THEN {self.number(-1e300)} END"
        )

    def _number(self, c: Column, value: Value | None = None) -> str:
        name = self.as_number(c)
        if not c.bounded:
            return f"CASE WHEN {name} < 'NaN' THEN {name} END"
        factor = 2.0**value.scale if value else 1.0
        ends = (value.low / factor, value.high / factor) if value else (float(c.low), float(c.high))
        shown = [self.number(end) for end in ends]
        given = shown if value is None else [str(value.low), str(value.high)]
        inside = name if value is None else self.steps(name, value)
        missing = "NULL" if c.nullable else given[0]
        return (
            f"CASE WHEN {name} < {shown[0]} THEN {given[0]} WHEN {name} <= {shown[1]} "
            f"THEN {inside} WHEN {name} < 'NaN' THEN {given[1]} ELSE {missing} END"
        )

    def as_date(self, c: Column) -> str:
        """The day of a stored moment, in UTC."""
        name, kind = self._stored(c), self.physical[c.name]
        if kind == "TIMESTAMP WITH TIME ZONE":
            name = f"({name} AT TIME ZONE 'UTC')"
        return name if kind == "DATE" else f"CAST({name} AS DATE)"

    def _date(self, c: Column, name: str) -> str:
        name = self.as_date(c)
        low = f"DATE '{(c.low or datetime.date.min).isoformat()}'"
        high = f"DATE '{(c.high or datetime.date.max).isoformat()}'"
        if not c.bounded:
            return f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} END"
        missing = "CAST(NULL AS DATE)" if c.nullable else low
        return (
            f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} WHEN {name} > {high} "
            f"THEN {high} WHEN {name} < {low} THEN {low} ELSE {missing} END"
        )

    # --- keys and cells -----------------------------------------------------------------

    def key_number(self) -> str:
        """The key mod 2^31 - 1; text by the first 7 hex digits of its md5; missing is 0."""
        key = self.schema.key
        assert key is not None
        name, kind = self._stored(key), self.physical[key.name]
        if key.type == "text":
            digits = f"CAST('x' || substr(md5({name}), 1, 7) AS BIT(28))"
            return f"COALESCE(CAST(CAST({digits} AS INTEGER) AS BIGINT), 0)"
        if kind in ("FLOAT", "DOUBLE"):
            name = self.read(key)
        elif kind == WHOLE_NUMERIC:
            name = f"CASE WHEN {name} < 'NaN' THEN {name} END"
        else:
            name = f"CAST({name} AS BIGINT)"
        return f"COALESCE(CAST(((({name}) % {PRIME}) + {PRIME}) % {PRIME} AS BIGINT), 0)"

    def axis(self, axis: Axis) -> str:
        """What to group by: the value itself, or the number of its cell."""
        words = self.words(axis)
        if words is None or axis.node is None:
            return super().axis(axis)
        return self.place(words, self.stored[axis.node.value])

    def place(self, words: tuple[Any, ...], sql: str) -> str:
        """The number of a word's cell; NULL for any other word."""
        # A word PostgreSQL cannot hold keeps its place, as NULL, which no word is equal to.
        listed = ", ".join(text(w) if sendable(w) else "NULL" for w in words)
        found = f"(array_position(CAST(ARRAY[{listed}] AS TEXT[]), {sql}) - 1)"
        return (
            found if all(map(sendable, words)) else f"CASE WHEN {sql} IS NOT NULL THEN {found} END"
        )

    # --- contributions ------------------------------------------------------------------

    def value(self, value: Value) -> str:
        """A contribution as an integer on its grid; a narrow one adds up faster."""
        if value.node.type == "boolean":
            return f"CAST({self.node(value.node)} AS INTEGER)"
        written = super().value(value)
        narrow = value.node.type == "integer" and value.low >= -(2**31) and value.high < 2**31
        return f"CAST({written} AS INTEGER)" if narrow else written

    def steps(self, sql: str, value: Value) -> str:
        """A number in steps of its grid; the cast rounds to nearest, halves to even."""
        narrow = value.low >= -(2**31) and value.high < 2**31
        kind = "INTEGER" if narrow else "BIGINT"
        cast = f"CAST(({sql}) * {self.number(2.0**value.scale)} AS {kind})"
        if value.scale >= 0:
            return cast
        return f"CASE WHEN abs({sql}) < 1 THEN CAST(0 AS {kind}) ELSE {cast} END"

    # --- operations ---------------------------------------------------------------------

    def truth(self, node: Node) -> str:
        """Where a predicate is true; elsewhere false or missing, whichever is less work."""
        if node.op in ("and", "or"):
            return f"({f' {node.op.upper()} '.join(self.truth(a) for a in node.args)})"
        bare = compared(self, node, only_truth=True) or is_one_of(self, node)
        return bare or self.node(node)

    def least(self, c: Column) -> str:
        """A column's low end, which stands for what may not be missing."""
        if c.type == "date":
            return f"DATE '{c.low.isoformat()}'"
        return self.number(float(c.low)) if c.type == "number" else str(c.low)

    @staticmethod
    def holds(words: str) -> bool:
        """Can PostgreSQL hold this text?"""
        return sendable(words)

    def spelled(self, node: Node, *args: str) -> str:
        """An operation, its arguments written already."""
        bare = compared(self, node, only_truth=False)
        if bare is not None:
            return bare
        written = getattr(self, f"_{node.op}_", None)
        return str(written(node, *args)) if written else super().spelled(node, *args)

    def _mul_(self, node: Node, a: str, b: str) -> str:
        if node.type == "integer":
            return f"({a} * {b})"
        tiny, small = (self._least(n) for n in node.args)
        if tiny >= 1 or small >= 1 or tiny * small >= 2.0**-1000:
            return f"({a} * {b})"
        edge, far, up = (self.number(2.0**e) for e in (-500, 400, 537))
        safe = f"abs({a}) >= {edge} AND abs({b}) >= {edge} OR abs({a}) > {far} OR abs({b}) > {far}"
        # Below, the product in steps of the smallest number there is; 0 of them is no error.
        apart = f"round(({a} * {up}) * ({b} * {up})) * {self.number(LEAST)}"
        return f"(CASE WHEN {safe} THEN {a} * {b} ELSE {apart} END)"

    def _div_(self, node: Node, a: str, b: str) -> str:
        top, below = node.args
        b = b if below.op == "literal" and below.value else f"nullif({b}, 0)"
        plain = f"{a} / {b}"
        large = plain
        if self._least(top) < 2.0**-76:
            edge, up, rest = (self.number(2.0**e) for e in (-76, 1000, 74))
            apart = f"round({a} * {up} / {b} * {rest}) * {self.number(LEAST)}"
            large = f"CASE WHEN abs({a}) >= {edge} THEN {plain} ELSE {apart} END"
        if self._least(below) >= 1:
            return f"({large})"
        reach = max(abs(top.low), abs(top.high))
        over = ""
        if reach > MOST * self._least(below):
            up, down = (f"CAST('{sign}Infinity' AS {NUMBER})" for sign in ("", "-"))
            endless = f"CASE WHEN ({a} < 0) = ({b} < 0) THEN {up} ELSE {down} END"
            over = f"WHEN abs({a}) > abs({b}) * {self.number(MOST)} THEN {endless} "
        if large == plain and not over:
            return f"({plain})"
        return f"(CASE WHEN abs({b}) >= 1 THEN {large} {over}ELSE {plain} END)"

    def _least(self, node: Node) -> float:
        """How near to 0 its values can be without being 0, at least."""
        if node.type in ("integer", "boolean"):
            return 1.0
        if node.op == "literal":
            return abs(node.value) if node.value else 1.0
        if node.low > 0 or node.high < 0:
            return float(min(abs(node.low), abs(node.high)))
        if node.op == "column":
            return self._least_stored(self.schema[node.value])
        if node.op in ("neg", "abs", "to_number", "least", "greatest", "coalesce"):
            return min(self._least(a) for a in node.args)
        if node.op == "case":
            return min(self._least(a) for a in (*node.args[1::2], node.args[-1]))
        if node.op in ("floor", "ceil", "round"):
            return 1.0
        if node.op == "sqrt":
            return math.sqrt(self._least(node.args[0])) / 2
        if node.op == "mul":
            return max(self._least(node.args[0]) * self._least(node.args[1]) / 2, LEAST)
        return LEAST

    def _least_stored(self, c: Column) -> float:
        ends = [abs(float(e)) for e in (c.low, c.high) if c.bounded and e]
        kind, clamped = self.physical[c.name], min(ends, default=1.0)
        if kind == "DECIMAL" and c.name in self.scales:
            return min(clamped, 10.0 ** -self.scales[c.name] / 2)
        whole = kind in RANGES or kind == WHOLE_NUMERIC
        return min(clamped, 1.0 if whole else SINGLE if kind == "FLOAT" else LEAST)

    def _round_(self, node: Node, a: str) -> str:
        whole = half_away(a)
        return f"CAST({whole} AS BIGINT)" if node.type == "integer" else whole

    def _to_integer_(self, node: Node, a: str) -> str:
        return f"CAST(CAST({a} AS INTEGER) AS BIGINT)"

    def _to_number_(self, node: Node, a: str) -> str:
        return f"CAST({a} AS {NUMBER})"

    def _part_(self, node: Node, a: str) -> str:
        return f"CAST(date_part('{PARTS.get(node.value, node.value)}', {a}) AS BIGINT)"

    def _trunc_(self, node: Node, a: str) -> str:
        # A date alone would be taken for a moment in the session's time zone.
        return f"CAST(date_trunc('{node.value}', CAST({a} AS TIMESTAMP)) AS DATE)"


def half_away(x: str) -> str:
    """To the nearest whole number, halves away from 0; PostgreSQL's own rounds them to even."""
    return f"(trunc({x}) + CASE WHEN abs(({x}) - trunc({x})) >= 0.5 THEN sign({x}) ELSE 0 END)"


def sendable(words: str) -> bool:
    """Can PostgreSQL's UTF-8 text hold it? NUL and half a surrogate pair it cannot."""
    try:
        return b"\0" not in words.encode()
    except UnicodeEncodeError:
        return False


def name_of(namespace: str, relation: str) -> str:
    """A table's full name."""
    return f"{quote(namespace)}.{quote(relation)}"

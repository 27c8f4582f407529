"""Our tree -> PostgreSQL's SQL, in which no row can raise an error.

PostgreSQL stops at a division by zero, at a product too small for a float, at a number that
does not fit its type. So each of these is written with its edges apart, and gives on every
row the bits that IEEE arithmetic gives elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sulq.engines.function_sql import SPELLING, moments_known
from sulq.engines.writer import TYPES, TooLong, Writer, inside
from sulq.expressions.columns import ends
from sulq.expressions.functions import call
from sulq.expressions.node import Node, literal
from sulq.expressions.quoting import text
from sulq.questions.grid import Value
from sulq.questions.partitions import Axis
from sulq.sources.postgres_catalog import Stored
from sulq.values.schema import LARGEST, Column, Schema

NUMBER = "DOUBLE PRECISION"
LEAST = 2.0**-1074  # the smallest number above 0
MOST = 1.79769313486231e308  # beyond, a quotient counts as endless
SINGLE = 2.0**-149  # the same for a REAL
RANGES = {"SMALLINT": 2**15, "INTEGER": 2**31, "BIGINT": 2**63}
PARTS = {"dayofweek": "dow", "dayofyear": "doy"}
NAN = ("FLOAT", "DOUBLE", "DECIMAL", "HUGEINT")  # may hold NaN, above everything
SIGNS = {"lt": "<", "le": "<=", "eq": "=", "ne": "<>"}


class PostgresWriter(Writer):
    """Writes SQL over one PostgreSQL table, view or partitioned table."""

    longest = 50_000
    types = TYPES | {"number": NUMBER, "text": "TEXT"}
    filters = True

    def __init__(self, schema: Schema, columns: Mapping[str, Stored]) -> None:
        chosen = {c.name: columns[c.name] for c in schema.columns}
        super().__init__(schema, {name: c.kind for name, c in chosen.items()})
        self.stored = {name: c.sql for name, c in chosen.items()}
        self.scales = {name: c.scale for name, c in chosen.items() if c.scale is not None}
        self.spelling = SPELLING | OWN_SPELLING | {"mul": self._product, "div": self._quotient}
        self.short: dict[str, str] = {}  # names of ours, where a declared one may be too long

    # --- constants and columns ----------------------------------------------------------

    def literal(self, node: Node) -> str:
        """A constant; what PostgreSQL's text cannot hold is left to the kernel."""
        if isinstance(node.value, str) and not sendable(node.value):
            raise TooLong
        return super().literal(node)

    def _stored(self, c: Column) -> str:
        return self.stored[c.name]

    def quoted(self, name: str) -> str:
        """A declared column's name where a statement gives it one."""
        return self.short.get(name) or super().quoted(name)

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
        floating = self.physical[c.name] in ("FLOAT", "DOUBLE", "HUGEINT")
        return f"CASE WHEN {name} < 'NaN' THEN {name} END" if floating else name

    def _category(self, c: Column, name: str) -> str:
        if isinstance((c.values or ("",))[0], str):
            known = [text(v) for v in c.values or () if sendable(v)]
            return f"CASE WHEN {name} IN ({', '.join(known or [text('')])}) THEN {name} END"
        return super()._category(c, name)

    def integer(self, c: Column, name: str) -> str:
        """A whole number that is stored under this name, clamped."""
        low, high = ends(c)
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
        return f"{name} > {high} AND {name} < 'NaN'" if kind in NAN else f"{name} > {high}"

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

    def seconds(self, c: Column) -> str:
        """A stored moment in whole seconds since 1970, down; an endless one is far out."""
        name = self._stored(c)
        whole = f"CAST(floor(extract(epoch FROM {name})) AS BIGINT)"
        far = f"WHEN {name} > '1970-01-01' THEN {LARGEST} WHEN {name} IS NOT NULL"
        found = f"(CASE WHEN isfinite({name}) THEN {whole} {far} THEN -{LARGEST} END)"
        return moments_known(found, c)

    def _date(self, c: Column, name: str) -> str:
        return self._clamped_date(c, self.as_date(c))

    # --- keys and cells -----------------------------------------------------------------

    def digits(self, name: str) -> str:
        """The first 7 hex digits of a text's md5, as a number."""
        return f"CAST(CAST('x' || substr(md5({name}), 1, 7) AS BIT(28)) AS INTEGER)"

    def place(self, words: Sequence[Any], sql: str) -> str:
        """The number of a word's cell; NULL for any other word."""
        # A word PostgreSQL cannot hold keeps its place, as NULL, which no word is equal to.
        listed = ", ".join(text(w) if sendable(w) else "NULL" for w in words)
        found = f"(array_position(CAST(ARRAY[{listed}] AS TEXT[]), {sql}) - 1)"
        return (
            found if all(map(sendable, words)) else f"CASE WHEN {sql} IS NOT NULL THEN {found} END"
        )

    def bins(self, axis: Axis, read: str = "") -> str:
        """The number of edges that a value has reached, looked up once a row; or the other cell."""
        node, (first, *inner, last) = axis.node, axis.detail
        assert node is not None
        number = node.type in ("integer", "number") and node.bounded
        within = number and first <= node.low and node.high <= last
        if within and len(inner) == 1 and not read:
            # PostgreSQL knows that a truth has two values, and then groups in several processes.
            edge = math.ceil(inner[0]) if node.type == "integer" else float(inner[0])
            return self.node(call("le", literal(edge), node))
        x = read or self.node(node)
        if node.type == "date":
            x = self.day_number(x)
        edges = ", ".join(map(self.number, inner))
        found = f"width_bucket(CAST({x} AS DOUBLE PRECISION), CAST(ARRAY[{edges}] AS FLOAT8[]))"
        if not within:
            inside = f"({x}) >= {self.number(first)} AND ({x}) <= {self.number(last)}"
            found = f"CASE WHEN {inside} THEN {found} ELSE {len(inner) + 1} END"
        if len(found) > 2 * self.longest:
            raise TooLong
        return found  # what is missing has no number, and is in the other cell

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
        """Where a predicate is true; elsewhere false or missing, whichever is less work.

        Of an AND, which ends at what is false, what fewer values meet comes first.
        """
        if node.op in ("and", "or"):
            parts = sorted(node.args, key=_share) if node.op == "and" else node.args
            return f"({f' {node.op.upper()} '.join(self.truth(a) for a in parts)})"
        return self._stored_compared(node, True) or self._one_of(node) or self.node(node)

    def spelled(self, node: Node, *args: str) -> str:
        """An operation, its arguments written already."""
        return self._stored_compared(node, False) or super().spelled(node, *args)

    # PostgreSQL computes an expression anew wherever it stands. Within the declared range a clamped
    # column and the stored one compare alike, so that twenty counts need not clamp it twenty times.

    def _stored_compared(self, node: Node, only_truth: bool) -> str | None:
        """The comparison of a stored column with a constant in its range; None: say it in full.

        Where only truth counts, what is missing may as well be false.
        """
        if node.op not in SIGNS:
            return None
        left, right = node.args
        mirrored = left.op == "literal"
        side, constant = (right, left) if mirrored else (left, right)
        c = self._clamped(side)
        if c is None or constant.op != "literal" or constant.value is None:
            return None
        if not inside(node.op, mirrored, c, constant):
            return None
        stored = self._comparable(c, side, only_truth)
        sides = [stored, self.node(constant)]
        written = f" {SIGNS[node.op]} ".join(reversed(sides) if mirrored else sides)
        above = node.op == "ne" or (mirrored and node.op != "eq")  # where NaN would seem to be
        if only_truth and above and c.nullable and self.physical[c.name] in NAN:
            written = f"{written} AND {stored} < 'NaN'"
        return f"({written})"

    def _one_of(self, node: Node) -> str | None:
        """Where a category is a word or one of some; only for truth, since others are missing."""
        if node.op not in ("eq", "in"):
            return None
        column, *others = sorted(node.args, key=lambda a: a.op == "literal")
        if column.op != "column" or any(o.op != "literal" or o.value is None for o in others):
            return None
        known = self.schema[column.value].values
        if known is None or column.type != "text":
            return None
        words = [text(o.value) for o in others if o.value in known and sendable(o.value)]
        return f"({self.stored[column.value]} IN ({', '.join(words)}))" if words else "FALSE"

    def _clamped(self, side: Node) -> Column | None:
        """A clamped column, as it is or made a number; none that is rounded when it is read."""
        inner = side.args[0] if side.op == "to_number" else side
        if inner.op != "column":
            return None
        c = self.schema[inner.value]
        rounded = c.type == "integer" and self.physical[c.name] in ("FLOAT", "DOUBLE")
        return c if c.bounded and c.type in ("integer", "number", "date") and not rounded else None

    def _comparable(self, c: Column, side: Node, only_truth: bool) -> str:
        low = str(c.low)
        if c.type == "date":
            stored, low = self.as_date(c), f"DATE '{low}'"
        elif c.type == "number" or side.op == "to_number":
            stored = self.as_number(c)
        else:
            stored = self._stored(c)
        if self.physical[c.name] in NAN and not (only_truth and c.nullable):
            stored = f"nullif({stored}, 'NaN')"
        if c.type == "number":
            low = self.number(float(c.low))
        return stored if c.nullable else f"COALESCE({stored}, {low})"

    def _product(self, node: Node, a: str, b: str) -> str:
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

    def _quotient(self, node: Node, a: str, b: str) -> str:
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
        whole = kind in RANGES or kind == "HUGEINT"
        return min(clamped, 1.0 if whole else SINGLE if kind == "FLOAT" else LEAST)


def _round(node: Node, a: str) -> str:
    whole = half_away(a)
    return f"CAST({whole} AS BIGINT)" if node.type == "integer" else whole


def half_away(x: str) -> str:
    """To the nearest whole number, halves away from 0; PostgreSQL's own rounds them to even."""
    return f"(trunc({x}) + CASE WHEN abs(({x}) - trunc({x})) >= 0.5 THEN sign({x}) ELSE 0 END)"


def sendable(words: str) -> bool:
    """Can PostgreSQL's UTF-8 text hold it? NUL and half a surrogate pair it cannot."""
    try:
        return b"\0" not in words.encode()
    except UnicodeEncodeError:
        return False


OWN_SPELLING: dict[str, Callable[..., str]] = {
    "round": _round,
    "ends_with": lambda n, a, end: f"(right({a}, {len(n.args[1].value)}) = {end})",
    "contains": lambda n, a, part: f"(strpos({a}, {part}) > 0)",
    "to_integer": lambda node, a: f"CAST(CAST({a} AS INTEGER) AS BIGINT)",
    "to_number": lambda node, a: f"CAST({a} AS {NUMBER})",
    "part": lambda n, a: f"CAST(date_part('{PARTS.get(n.value, n.value)}', {a}) AS BIGINT)",
    # A date alone would be taken for a moment in the session's time zone.
    "trunc": lambda n, a: f"CAST(date_trunc('{n.value}', CAST({a} AS TIMESTAMP)) AS DATE)",
}


def _share(test: Node) -> float:
    """How much of a column's declared range meets a test, about, by the schema alone."""
    if test.op == "column":
        return 0.5
    if test.op not in ("lt", "le") or sorted(a.op for a in test.args) != ["column", "literal"]:
        return 1.0
    below, above = test.args
    column, constant = (below, above) if below.op == "column" else (above, below)
    if not column.bounded or column.low == column.high:
        return 1.0
    above_low = (constant.low - column.low) / (column.high - column.low)
    return above_low if column is below else 1 - above_low

"""Our tree -> Spark's SQL, which means the same in every mode, time zone and setting.

Columns are called c0, c1, ... and texts are written in hex, so that nothing an owner or an
analyst named stands in a statement. No row can raise an error, in ANSI mode or out of it.
"""

from __future__ import annotations

import re
from typing import Any

from sulq.engines.sql import TYPES, TooLong, Writer, folded
from sulq.partition import PRIME, Axis
from sulq.schema import Column, Schema
from sulq.tree import Node
from sulq.values import Value

WHOLE_DECIMAL = "HUGEINT"  # decimal(p, 0), as DuckDB calls its widest whole numbers
LONGEST = 2**62  # sums of this size and below stay within 64 bits, whatever their order
EXACT = 2.0**52  # from here on every float is a whole number
PLAIN_TEXT = re.compile("[A-Za-z0-9 _-]*")
PARTS = {"dayofweek": "(dayofweek({}) - 1)"}  # Sunday is 1 in Spark
SETS = " GROUP BY GROUPING SETS "
BARE = re.compile(r"(?<![\w`])(?<!IN )(?<!FROM )(?<!FILTER )\(")  # not a call, a list or a SELECT


class SparkWriter(Writer):
    """Writes SQL over one table or frame of Spark."""

    longest = 20_000
    types = TYPES | {"text": "STRING"}
    filters = True

    def __init__(
        self, schema: Schema, physical: dict[str, str], stored: dict[str, str], rows: int
    ) -> None:
        super().__init__(schema, physical)
        self.stored = stored  # declared column -> its name below: c0, c1, ...
        self.rows = rows

    # --- constants and columns ----------------------------------------------------------

    def literal(self, node: Node) -> str:
        """A constant, with its type."""
        if not isinstance(node.value, str):
            return super().literal(node)
        if not node.value.isascii() and any("\ud800" <= x <= "\udfff" for x in node.value):
            raise TooLong  # half a surrogate pair is no text to Spark; the kernel takes it
        return words(node.value)

    def quoted(self, name: str) -> str:
        """A column's name in our statements; what is no column is a plain word of ours."""
        return self.stored.get(name, name)

    def key_words(self, name: str) -> str:
        """A column as it is stored, to group by before it is read."""
        return self.stored[name]

    def _stored(self, c: Column) -> str:
        name, kind = self.stored[c.name], self.physical[c.name]
        if c.type == "text":  # bytes that are no characters are the same wherever it is read
            return f"make_valid_utf8({name})"
        return f"CAST({name} AS DOUBLE)" if kind == "FLOAT" else name

    def _category(self, c: Column, name: str) -> str:
        values = c.values or ()
        if isinstance((*values, "")[0], str):
            return f"CASE WHEN {name} IN ({', '.join(map(words, values))}) THEN {name} END"
        listed = ", ".join(map(str, values))
        if self.physical[c.name] in ("FLOAT", "DOUBLE"):
            name = unsigned(name)
        return f"CASE WHEN {name} IN ({listed}) THEN CAST({name} AS BIGINT) END"

    def whole(self, name: str) -> str:
        """A number that fits 64 bits, as the nearest whole one."""
        return f"CAST({half_away(name)} AS BIGINT)"

    def as_date(self, c: Column) -> str:
        """The day of a stored moment, in UTC."""
        name = self._stored(c)
        return name if self.physical[c.name] == "DATE" else f"CAST({name} AS DATE)"

    def raw(self, c: Column) -> str:
        """A column as the kernel gets it: what is stored, in a type that Arrow has."""
        name, kind = self._stored(c), self.physical[c.name]
        if kind == WHOLE_DECIMAL and c.type != "number":
            return f"CAST({folded(name)} AS BIGINT)"
        if kind in ("DECIMAL", WHOLE_DECIMAL):
            return f"CAST({name} AS DOUBLE)"
        if kind == "VARCHAR" and c.type != "text":
            return f"make_valid_utf8({name})"
        return self.as_date(c) if c.type == "date" else name

    # --- keys and cells -----------------------------------------------------------------

    def key_number(self) -> str:
        """The key mod 2^31 - 1; text by the first 7 hex digits of its md5; missing is 0."""
        key = self.schema.key
        assert key is not None
        name, kind = self._stored(key), self.physical[key.name]
        if key.type == "text":
            digits = f"conv(substr(md5(CAST({name} AS BINARY)), 1, 7), 16, 10)"
            return f"COALESCE(CAST({digits} AS BIGINT), CAST(0 AS BIGINT))"
        if kind in ("FLOAT", "DOUBLE"):
            name = self.read(key)
        elif kind != WHOLE_DECIMAL:
            name = f"CAST({name} AS BIGINT)"
        rest = f"CAST(({name}) % {PRIME} AS BIGINT)"
        return f"COALESCE(({rest} + {PRIME}) % {PRIME}, CAST(0 AS BIGINT))"

    def axis(self, axis: Axis) -> str:
        """What to group by: the value itself, or the number of its cell."""
        words_ = self.words(axis)
        if words_ is None or axis.node is None:
            return super().axis(axis)
        return self.place(words_, self.stored[axis.node.value])

    def place(self, words_: tuple[Any, ...], sql: str) -> str:
        """The number of a word's cell; NULL for any other word."""
        listed = ", ".join(map(words, words_))
        return f"(nullif(array_position(array({listed}), {sql}), 0) - 1)"

    def day_number(self, x: str) -> str:
        """Days since 1970."""
        return f"CAST(unix_date({x}) AS BIGINT)"

    # --- contributions ------------------------------------------------------------------

    def value(self, value: Value) -> str:
        """A contribution as an integer on its grid, wide enough for the sum of all rows."""
        written = super().value(value)
        # SUM of a BIGINT would wrap, or fail in ANSI mode; of a DECIMAL(28, 0) it has 38 digits.
        if max(abs(value.low), abs(value.high), 1) * max(self.rows, 1) <= LONGEST:
            return written
        return f"CAST({written} AS DECIMAL(28, 0))"

    def steps(self, sql: str, value: Value) -> str:
        """A number in steps of its grid, to the nearest, halves to even."""
        return f"CAST(rint(({sql}) * {self.number(2.0**value.scale)}) AS BIGINT)"

    # --- operations ---------------------------------------------------------------------

    def spelled(self, node: Node, *args: str) -> str:
        """An operation, its arguments written already."""
        written = getattr(self, f"_{node.op}_", None)
        return str(written(node, *args)) if written else super().spelled(node, *args)

    def _floor_(self, node: Node, a: str) -> str:
        return _rounded(node, a, f"CAST(floor({a}) AS DOUBLE)")

    def _ceil_(self, node: Node, a: str) -> str:
        return _rounded(node, a, f"CAST(ceil({a}) AS DOUBLE)")

    def _round_(self, node: Node, a: str) -> str:
        return _rounded(node, a, half_away(a))

    def _least_(self, node: Node, *args: str) -> str:
        return f"least({', '.join(args)})" if len(args) > 1 else args[0]

    def _greatest_(self, node: Node, *args: str) -> str:
        return f"greatest({', '.join(args)})" if len(args) > 1 else args[0]

    def _in_(self, node: Node, a: str, *items: str) -> str:
        if node.args[0].type == "number":  # a long list is looked up by bits, where -0.0 is not 0.0
            a, items = unsigned(a), tuple(unsigned(i) for i in items)
        return f"({a} IN ({', '.join(items)}))"

    def _like_(self, node: Node, a: str, pattern: str) -> str:
        """LIKE; a pattern that Spark would hand to a backtracking search is written without one."""
        shape = re.sub("%+", "%", node.args[1].value)
        if "_" not in shape and shape.count("%") <= 2 and "%" not in shape[1:-1]:
            return f"({a} LIKE {words(shape)})"
        return f"({a} RLIKE {words(like_pattern(shape))})"

    def _part_(self, node: Node, a: str) -> str:
        part = PARTS.get(node.value, node.value + "({})").format(a)
        return f"CAST({part} AS BIGINT)"

    def _trunc_(self, node: Node, a: str) -> str:
        return a if node.value == "day" else f"trunc({a}, '{node.value}')"

    def _days_(self, node: Node, a: str, b: str) -> str:
        return f"CAST(datediff({a}, {b}) AS BIGINT)"

    def _shift_(self, node: Node, a: str, b: str) -> str:
        return f"date_add({a}, CAST({b} AS INT))"


def called(sql: str) -> str:
    """The same statement, its brackets written as calls of coalesce, which of one thing is itself.

    Spark's parser looks ahead to the end of a bare bracket for each that it meets: seconds for an
    expression of a few lines, minutes for a batch. A call it reads as it comes.
    """
    head, sets, tail = sql.partition(SETS)
    return BARE.sub("coalesce(", head) + sets + tail


def words(value: str) -> str:
    """A text constant; in hex, where Spark's quoting or substitution might change it."""
    if PLAIN_TEXT.fullmatch(value):
        return f"'{value}'"
    return f"CAST(X'{value.encode('utf-8', 'surrogatepass').hex()}' AS STRING)"


def unsigned(x: str) -> str:
    """A number whose zero has no sign."""
    return f"({x} + CAST(0 AS DOUBLE))"


def half_away(x: str) -> str:
    """To the nearest whole number, halves away from 0; for numbers within 64 bits."""
    cut = f"CAST(CAST({x} AS BIGINT) AS DOUBLE)"
    return f"({cut} + CASE WHEN abs({x} - {cut}) >= 0.5D THEN sign({x}) ELSE 0D END)"


def _rounded(node: Node, a: str, small: str) -> str:
    """Rounding: floats too large to have a fraction stay as they are."""
    if node.type == "integer":
        return f"CAST({small} AS BIGINT)"
    return f"(CASE WHEN abs({a}) < {EXACT:.1f}D THEN {small} ELSE {a} END)"


def like_pattern(shape: str) -> str:
    """A LIKE pattern for Java's search: what stands between two % is found once, for good."""
    pieces = [re.sub(r"[^A-Za-z0-9 _\x80-\U0010ffff]", r"\\\g<0>", p) for p in shape.split("%")]
    first, *rest = (p.replace("_", ".") for p in pieces)
    if not rest:
        return rf"(?s)\A{first}\z"
    middle = "".join(f"(?>.*?{p})" for p in rest[:-1] if p)
    return rf"(?s)\A{first}{middle}.*{rest[-1]}\z"

"""Our tree -> Spark's SQL, which means the same in every mode, time zone and setting.

Columns are called c0, c1, ... and texts are written in hex, so that nothing an owner or an
analyst named stands in a statement. No row can raise an error, in ANSI mode or out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sulq.engines.function_sql import SPELLING, moments_known
from sulq.engines.writer import TYPES, TooLong, Writer, folded
from sulq.expressions.node import Node
from sulq.expressions.operations import like_pattern
from sulq.questions.grid import Value
from sulq.values.schema import Column, Schema

LONGEST = 2**62  # sums of this size and below stay within 64 bits, whatever their order
EXACT = 2.0**52  # from here on every float is a whole number
PLAIN_TEXT = re.compile("[A-Za-z0-9 _-]*")
PARTS = {"dayofweek": "(dayofweek({}) - 1)", "week": "weekofyear({})"}  # Sunday is 1 in Spark
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
        self.spelling = SPELLING | OWN_SPELLING

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
        if c.type == "text":  # bytes that are no characters are missing
            return f"try_validate_utf8({name})"
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

    def seconds(self, c: Column) -> str:
        """A stored moment in whole seconds since 1970, down."""
        fine = f"unix_micros(CAST({self._stored(c)} AS TIMESTAMP))"
        return moments_known(f"(({fine} - pmod({fine}, 1000000)) div 1000000)", c)

    def raw(self, c: Column) -> str:
        """A column as the kernel gets it: what is stored, in a type that Arrow has."""
        name, kind = self._stored(c), self.physical[c.name]
        if kind == "HUGEINT" and c.type != "number":
            return f"CAST({folded(name)} AS BIGINT)"
        if kind in ("DECIMAL", "HUGEINT"):
            return f"CAST({name} AS DOUBLE)"
        if kind == "VARCHAR" and c.type != "text":
            return f"try_validate_utf8({name})"
        if c.type == "timestamp":
            return self.seconds(c)
        return self.as_date(c) if c.type == "date" else name

    # --- keys and cells -----------------------------------------------------------------

    def digits(self, name: str) -> str:
        """The first 7 hex digits of a text's md5, as a number."""
        return f"conv(substr(md5(CAST({name} AS BINARY)), 1, 7), 16, 10)"

    def place(self, words_: Sequence[Any], sql: str) -> str:
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


def _of_several(name: str) -> Callable[..., str]:
    """A function that Spark wants two arguments for; of one it is that one."""
    return lambda node, *args: f"{name}({', '.join(args)})" if len(args) > 1 else args[0]


def _in(node: Node, a: str, *items: str) -> str:
    if node.args[0].type == "number":  # a long list is looked up by bits, where -0.0 is not 0.0
        a, items = unsigned(a), tuple(unsigned(i) for i in items)
    return f"({a} IN ({', '.join(items)}))"


def _like(node: Node, a: str, pattern: str) -> str:
    """LIKE; a pattern that Spark would hand to a backtracking search is written without one."""
    shape = re.sub("%+", "%", node.args[1].value)
    if "_" not in shape and shape.count("%") <= 2 and "%" not in shape[1:-1]:
        return f"({a} LIKE {words(shape)})"
    whole = rf"(?s)\A{like_pattern(shape).pattern}\z"
    return f"({a} RLIKE {words(whole)})"


def _part(node: Node, a: str) -> str:
    part = PARTS.get(node.value, node.value + "({})").format(a)
    return f"CAST({part} AS BIGINT)"


OWN_SPELLING: dict[str, Callable[..., str]] = {
    "floor": lambda node, a: _rounded(node, a, f"CAST(floor({a}) AS DOUBLE)"),
    "ceil": lambda node, a: _rounded(node, a, f"CAST(ceil({a}) AS DOUBLE)"),
    "round": lambda node, a: _rounded(node, a, half_away(a)),
    "least": _of_several("least"),
    "greatest": _of_several("greatest"),
    "in": _in,
    "like": _like,
    "starts_with": lambda node, a, begin: f"startswith({a}, {begin})",
    "ends_with": lambda node, a, end: f"endswith({a}, {end})",
    "part": _part,
    "trunc": lambda node, a: a if node.value == "day" else f"trunc({a}, '{node.value}')",
    "days": lambda node, a, b: f"CAST(datediff({a}, {b}) AS BIGINT)",
    "shift": lambda node, a, b: f"date_add({a}, CAST({b} AS INT))",
}

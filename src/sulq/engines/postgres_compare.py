"""Comparisons with a constant, written on what is stored instead of on what it is clamped to.

PostgreSQL computes an expression anew wherever it stands. Within the declared range a clamped
column and the stored one compare alike, so that twenty counts need not clamp it twenty times.
Where only truth counts, what is missing may as well be false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sulq.engines.sql import text
from sulq.schema import Column
from sulq.tree import Node, days

if TYPE_CHECKING:
    from sulq.engines.postgres_sql import PostgresWriter

NAN = ("FLOAT", "DOUBLE", "DECIMAL", "HUGEINT")  # may hold NaN, above everything
SIGNS = {"lt": "<", "le": "<=", "eq": "=", "ne": "<>"}


def compared(writer: PostgresWriter, node: Node, *, only_truth: bool) -> str | None:
    """The comparison of a column with a constant inside its range; None: say it in full."""
    if node.op not in SIGNS:
        return None
    left, right = node.args
    mirrored = left.op == "literal"
    side, constant = (right, left) if mirrored else (left, right)
    c = _column(writer, side)
    if c is None or constant.op != "literal" or constant.value is None:
        return None
    if not _inside(node.op, mirrored, c, constant):
        return None
    stored, other = _stored(writer, c, side, only_truth), writer.node(constant)
    written = f"{stored} {SIGNS[node.op]} {other}"
    if mirrored:
        written = f"{other} {SIGNS[node.op]} {stored}"
    above = node.op == "ne" or (mirrored and node.op != "eq")  # where NaN would seem to be
    if only_truth and above and c.nullable and writer.physical[c.name] in NAN:
        written = f"{written} AND {stored} < 'NaN'"
    return f"({written})"


def is_one_of(writer: PostgresWriter, node: Node) -> str | None:
    """Where a category is a word or one of some; only for truth, since others are missing."""
    if node.op not in ("eq", "in"):
        return None
    column, *others = sorted(node.args, key=lambda a: a.op == "literal")
    if column.op != "column" or any(o.op != "literal" or o.value is None for o in others):
        return None
    known = writer.schema[column.value].values
    if known is None or column.type != "text":
        return None
    words = [text(o.value) for o in others if o.value in known and writer.holds(o.value)]
    return f"({writer.stored[column.value]} IN ({', '.join(words)}))" if words else "FALSE"


def _column(writer: PostgresWriter, side: Node) -> Column | None:
    """A clamped column, as it is or made a number; none that is rounded when it is read."""
    inner = side.args[0] if side.op == "to_number" else side
    if inner.op != "column":
        return None
    c = writer.schema[inner.value]
    rounded = c.type == "integer" and writer.physical[c.name] in ("FLOAT", "DOUBLE")
    return c if c.bounded and c.type in ("integer", "number", "date") and not rounded else None


def _inside(op: str, mirrored: bool, c: Column, constant: Node) -> bool:
    """Does the constant lie where clamping moves no value across it?"""
    low, high = (days(c.low), days(c.high)) if c.type == "date" else (c.low, c.high)
    x = constant.low
    if op in ("eq", "ne"):
        return bool(low < x < high)
    from_below = (op == "lt") != mirrored  # x < c and c <= x: low itself is not below low
    return bool(low < x <= high) if from_below else bool(low <= x < high)


def _stored(writer: PostgresWriter, c: Column, side: Node, only_truth: bool) -> str:
    kind = writer.physical[c.name]
    if c.type == "date":
        stored = writer.as_date(c)
    elif c.type == "number" or side.op == "to_number":
        stored = writer.as_number(c)
    else:
        stored = writer.stored[c.name]
    if kind in NAN and not (only_truth and c.nullable):
        stored = f"nullif({stored}, 'NaN')"
    return stored if c.nullable else f"COALESCE({stored}, {writer.least(c)})"

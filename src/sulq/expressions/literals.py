"""A constant that is compared with a column must be a value the column can have.

`region = 'North'` is true of no row where 'north' was declared: a slip that would be paid for.
It is refused with the nearest value named. Inequalities stay free: an age of at least 0 or at
most 200 says what it means.
"""

from __future__ import annotations

import datetime
import operator
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.domains import reachable
from sulq.expressions.functions import call
from sulq.expressions.node import Node, literal
from sulq.expressions.spelling import listed, nearest
from sulq.expressions.timestamps import moment_in
from sulq.values.schema import Column, Schema

EPOCH = datetime.datetime(1970, 1, 1)
FAR = 2 * 10**11  # seconds around 1970 that are moments
MAX_COMBINATIONS = 2**12  # of values that the columns of an expression can have


def check_equal(a: Node, b: Node, schema: Schema) -> None:
    """Refuse an equality that no row can satisfy, whatever the rows are."""
    for side, constant in ((a, b), (b, a)):
        if constant.op == "literal" and constant.value is not None and side.op != "literal":
            _check(side, constant.value, schema)


def in_order(op: str, sides: list[Node], schema: Schema) -> Node:
    """a < b or a <= b. A text with listed values beside a constant: those that are, by code point.

    Engines sort texts by collations of their own, so which values those are is not left to them.
    """
    a, b = sides
    words = a if a.op == "column" else b
    other = b if words is a else a
    values = schema[words.value].values if words.op == "column" and words.type == "text" else None
    if not values or other.op != "literal" or not isinstance(other.value, str):
        return call(op, a, b)
    compare: Any = operator.lt if op == "lt" else operator.le
    end = other.value
    kept = [literal(v) for v in values if (compare(v, end) if words is a else compare(end, v))]
    return call("in", words, *kept) if kept else call("ne", words, words)


def _check(side: Node, value: Any, schema: Schema) -> None:
    if side.op == "column":
        _check_column(schema[side.value], value)
    elif side.type == "text" and isinstance(value, str):
        found = reachable(side, schema, MAX_COMBINATIONS)
        known = [v for v in found or () if v is not None]
        if known and value not in known:
            raise _undeclared(value, known, f"a value of {_say(side)}")


def _check_column(column: Column, value: Any) -> None:
    if column.values is not None:
        if isinstance(value, type(column.values[0])) and value not in column.values:
            what = f"a declared value of {column.name}"
            raise _undeclared(value, list(column.values), what)
    elif column.type == "boolean":
        if isinstance(value, int | float) and value not in (0, 1):
            raise QueryNotAllowed(f"{column.name} is true or false, never {_plain(value)}.")
    elif column.bounded:
        _check_range(column, _dated(value, column.type))


def _dated(value: Any, kind: str) -> Any:
    """A constant beside a date or a timestamp as one; beside another column as it is."""
    try:
        if kind == "timestamp" and isinstance(value, str):
            return moment_in(value)
        if kind == "timestamp" and type(value) is int and abs(value) < FAR:
            return EPOCH + datetime.timedelta(seconds=value)
        if kind == "date" and isinstance(value, str):
            return datetime.date.fromisoformat(value)
    except ValueError:
        pass  # what is no date is refused where it is compared
    return value


def _check_range(column: Column, value: Any) -> None:
    low, high = column.low, column.high
    dates = {"date": datetime.date, "timestamp": datetime.datetime}
    alike: Any = dates.get(column.type, int | float)
    if isinstance(value, alike) and not low <= value <= high:
        end = low if value < low else high
        raise QueryNotAllowed(
            f"{column.name} is declared from {_plain(low)} to {_plain(high)}, so it "
            f"is never {_plain(value)}; did you mean {_plain(end)}?"
        )


def _undeclared(value: Any, known: list[Any], what: str) -> QueryNotAllowed:
    names = [_plain(v) for v in known]
    if isinstance(value, str):
        shown, found = f"'{value[:80]}'", nearest(value, names)
        hint = f"; did you mean '{found}'?" if found is not None else "."
    else:
        shown, hint = str(value), f"; did you mean {min(known, key=lambda v: abs(v - value))}?"
    return QueryNotAllowed(f"{shown} is not {what}{hint} It can be {listed(names)}.")


def _say(node: Node) -> str:
    inside = node.args[0] if len(node.args) == 1 else None
    return f"{node.op}({inside.value})" if inside and inside.op == "column" else "this expression"


def _plain(value: Any) -> str:
    if isinstance(value, datetime.date | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"

"""Moments: what a timestamp column holds, in whole seconds since 1970-01-01, UTC.

To every engine a moment is a whole number, read from its column and clamped like one; all that is
asked of it (its day, its hour, how many hours lie between two) is arithmetic of these numbers, so
engines agree. x / 3600 is rounded once and no moment is near enough to the next hour to be lifted
there, so the floor of it is exact.
"""

from __future__ import annotations

import datetime
from dataclasses import replace

from sulq.errors import QueryNotAllowed
from sulq.expressions.arithmetic import ARITHMETIC
from sulq.expressions.node import EPOCH, Node, kind_of, literal, refuse, seconds, shown

MINUTE, HOUR, DAY = 60, 3600, 86_400
CLOCK = {"hour": (HOUR, DAY), "minute": (MINUTE, HOUR), "second": (1, MINUTE)}
EXAMPLE = "2020-01-31 14:30:00"


def _call(name: str, *args: Node) -> Node:
    return ARITHMETIC[name].build(*args)


def moment_in(text: str) -> datetime.datetime:
    """A text such as '2020-01-31 14:30' as a moment in UTC; refused if it is none."""
    try:
        return whole_moment(datetime.datetime.fromisoformat(text))
    except ValueError:
        raise refuse("timestamp", f"{text[:80]!r} is not a moment such as '{EXAMPLE}'.") from None


def whole_moment(said: datetime.datetime) -> datetime.datetime:
    """A moment in UTC, without its zone; a ValueError if it is between two seconds."""
    if said.tzinfo is not None:
        said = said.astimezone(datetime.UTC).replace(tzinfo=None)
    if said.microsecond:
        raise ValueError(said)
    return said


def as_moment(node: Node) -> Node:
    """A moment as it is, a date as its first second."""
    if node.moment:
        return node
    if node.op == "literal" and isinstance(node.value, datetime.date):
        return literal(DAY * int(node.low))
    return _call("mul", _call("sub", node, literal(EPOCH)), literal(DAY))


def day_of(node: Node) -> Node:
    """The date of a moment."""
    return _call("add", literal(EPOCH), _whole(node, DAY))


def clock(node: Node, part: str) -> Node:
    """Its hour (0 to 23), minute or second."""
    if not node.moment:
        raise refuse("extract", f"{part!r} wants a timestamp, {shown(node)} is {kind_of(node)}.")
    each, whole = CLOCK[part]
    # % has the sign of its left side, so that is moved above 0 by whole days.
    days = max(0, -int(node.low) // DAY + 1) if _bounded(node).low < 0 else 0
    later = _call("add", node, literal(days * DAY)) if days else node
    rest = _call("mod", later, literal(whole))
    return rest if each == 1 else _whole(rest, each)


def truncated_clock(node: Node, unit: str) -> Node:
    """The first second of the hour or minute a moment is in."""
    each = CLOCK[unit][0]
    found = node if each == 1 else _call("mul", _whole(node, each), literal(each))
    return replace(found, moment=True)


def clock_difference(unit: str, later: Node, earlier: Node) -> Node:
    """How many full hours, minutes or seconds of the clock begin between two moments."""
    each = CLOCK[unit][0]
    ends = (as_moment(later), as_moment(earlier))
    return _call("sub", *(x if each == 1 else _whole(x, each) for x in ends))


def days_between(later: Node, earlier: Node) -> Node:
    """How many times 24 hours lie between two moments, down."""
    return _whole(_call("sub", as_moment(later), as_moment(earlier)), DAY)


def _whole(node: Node, each: int) -> Node:
    """How many times so many seconds fit between 1970 and a moment, down."""
    return _call("floor", _call("div", _bounded(node), literal(each)))


def _bounded(node: Node) -> Node:
    if not node.bounded:
        raise refuse("timestamp", f"{shown(node)}: declare its low and high in the schema.")
    return node


def constant_moment(text: str) -> Node:
    """A constant moment."""
    return literal(seconds(moment_in(text)))


def constant_date(text: str) -> Node:
    """A constant date."""
    try:
        return literal(datetime.date.fromisoformat(text))
    except ValueError:
        raise QueryNotAllowed(f"{text[:80]!r} is not a date such as '2020-01-31'.") from None


# date '...', timestamp '...'
CONSTANTS = {
    "date": constant_date, "timestamp": constant_moment, "timestampntz": constant_moment,
}  # fmt: skip

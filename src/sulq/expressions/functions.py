"""The functions a question may use, and no others; here those of texts and of dates.

`FUNCTIONS` and the five of `MADE` are the allow-list of what an expression's tree may hold: the
texts say what each does at its edges, the same on every engine. Each file of functions adds its own
by a decorator. Which spellings of SQL become them is said by `READERS` in parse.py.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable

from sulq.errors import QueryNotAllowed
from sulq.expressions.arithmetic import ARITHMETIC
from sulq.expressions.logic import LOGIC
from sulq.expressions.node import (
    EPOCH,
    INF,
    MAX_LENGTH,
    Function,
    Functions,
    Node,
    days,
    kind_of,
    literal,
    node_of,
    refuse,
    shown,
    typed_null,
)
from sulq.expressions.regular import check_pattern
from sulq.expressions.timestamps import (
    CLOCK,
    clock,
    clock_difference,
    day_of,
    days_between,
    truncated_clock,
)

OTHERS = Functions()
MAX_PATTERN = 200  # characters of a constant text to look for
MAX_PARTS = 100  # of a text that is split

# ---- texts: the same characters on every engine -------------------------------------------


def _text(op: str, a: Node) -> Node:
    if a.type != "text":
        raise refuse(op, f"wants text, {shown(a)} is {kind_of(a)}.")
    return a


@OTHERS("Text like a constant pattern: % any run, _ one character; case matters.")
def _like(a: Node, pattern: Node) -> Node:
    if a.type == "null":
        return typed_null("boolean")
    _text("like", a)
    if pattern.op != "literal" or pattern.type != "text" or len(pattern.value) > 200:
        raise refuse("like", "the pattern is a constant text of at most 200 characters.")
    if "\\" in pattern.value:
        raise refuse("like", "a backslash in the pattern means different things to engines.")
    return node_of("like", (a, pattern), "boolean", 0, 1, a.nullable)


def _constant_text(op: str, node: Node) -> Node:
    if node.op != "literal" or node.type != "text" or not 1 <= len(node.value) <= MAX_PATTERN:
        raise refuse(op, f"wants a constant text of 1 to {MAX_PATTERN} characters.")
    return node


def _constant_place(op: str, node: Node, most: int) -> Node:
    if node.op != "literal" or node.type != "integer" or not 1 <= node.value <= most:
        raise refuse(op, f"wants a constant whole number from 1 to {most:,}.")
    return node


def _found(op: str, a: Node, part: Node) -> Node:
    if a.type == "null":
        return typed_null("boolean")
    args = (_text(op, a), _constant_text(op, part))
    return node_of(op, args, "boolean", 0, 1, a.nullable)


@OTHERS(
    r"Is a constant pattern found in a text, as RE2 finds it? Case matters. It may hold letters, "
    r"`.`, `[a-z]`, `[^,]`, `\d` `\w` `\s` (ASCII) and their opposites, `^`, `$`, groups, "
    r"alternatives, and `*` `+` `?` `{2,5}`. All its states are worked out before anything is "
    r"paid, 1,000 at most, so that every letter of a text takes the same time: `^a.{90}c` is "
    r"accepted, `a.{90}c` is not."
)
def _regexp_matches(a: Node, pattern: Node) -> Node:
    if a.type == "null":
        return typed_null("boolean")
    if pattern.op != "literal" or pattern.type != "text":
        raise refuse("regexp_matches", "the pattern is a constant text.")
    check_pattern(pattern.value)
    args = (_text("regexp_matches", a), pattern)
    return node_of("regexp_matches", args, "boolean", 0, 1, a.nullable)


OTHERS.several(
    _found,
    {
        "starts_with": "Does a text begin with a constant one? Case matters.",
        "ends_with": "Does a text end with a constant one? Case matters.",
        "contains": "Does a text hold a constant one? Case matters.",
    },
)


@OTHERS("Some characters of a text from a constant place on, the first being 1; '' beyond its end.")
def _substr(a: Node, start: Node, length: Node | None = None) -> Node:
    rest = literal(MAX_LENGTH) if length is None else length
    places = [_constant_place("substr", n, MAX_LENGTH) for n in (start, rest)]
    return node_of("substr", (_text("substr", a), *places), "text", -INF, INF, a.nullable)


@OTHERS("The k-th part of a text between constant marks; '' where there are fewer.")
def _split_part(a: Node, separator: Node, k: Node) -> Node:
    args = _text("split_part", a), _constant_text("split_part", separator)
    place = _constant_place("split_part", k, MAX_PARTS)
    return node_of("split_part", (*args, place), "text", -INF, INF, a.nullable)


@OTHERS("Number of characters (code points); beyond 10,000 counts as 10,000.")
def _length(a: Node) -> Node:
    return node_of("length", (_text("length", a),), "integer", 0, MAX_LENGTH, a.nullable)


def _cased(op: str, a: Node) -> Node:
    return node_of(op, (_text(op, a),), "text", -INF, INF, a.nullable)


OTHERS.several(
    _cased,
    {
        "lower": "Letters A to Z made small; every other character is kept.",
        "upper": "Letters a to z made capital; every other character is kept.",
    },
)


# ---- dates, from the year 1 to 9999 -------------------------------------------------------

PARTS = {
    "year": (1, 9999),
    "quarter": (1, 4),
    "month": (1, 12),
    "day": (1, 31),
    "dayofweek": (0, 6),
    "dayofyear": (1, 366),
    "week": (1, 53),
}


@OTHERS(
    "A part of a date: year, quarter, month, week (ISO), day, dayofweek (Sunday 0), dayofyear; of "
    "a timestamp also hour, minute, second, in UTC."
)
def _part(a: Node, name: Node) -> Node:
    if name.value in CLOCK:
        return clock(a, name.value)
    if a.moment:
        a = day_of(a)
    if a.type != "date":
        raise refuse("extract", f"wants a date, {shown(a)} is {kind_of(a)}.")
    if name.value not in PARTS:
        raise refuse("extract", f"{name.value!r} is not one of {', '.join(PARTS)}.")
    low, high = PARTS[name.value]
    if name.value == "year" and a.bounded:
        low, high = ((EPOCH + datetime.timedelta(days=int(end))).year for end in (a.low, a.high))
    return node_of("part", (a,), "integer", low, high, a.nullable, value=name.value)


def difference(unit: str, later: Node, earlier: Node) -> Node:
    """How many days lie between two dates, or how many firsts of a month, quarter or year.

    Also how many full hours, minutes or seconds of the clock, and how many full days of 24 hours.
    """
    if unit in CLOCK:
        return clock_difference(unit, later, earlier)
    if unit == "full_day" and (later.moment or earlier.moment):
        return days_between(later, earlier)
    later, earlier = (day_of(x) if x.moment else x for x in (later, earlier))
    if unit in ("day", "full_day"):
        return call("sub", later, earlier)
    years = call("sub", *(call("part", d, literal("year")) for d in (later, earlier)))
    if unit == "year":
        return years
    each = {"quarter": 4, "month": 12}.get(unit)
    if each is None:
        raise refuse(
            "date_diff",
            f"{unit!r} is not one of second, minute, hour, day, full_day, month, quarter, year.",
        )
    parts = call("sub", *(call("part", d, literal(unit)) for d in (later, earlier)))
    return call("add", call("mul", years, literal(each)), parts)


UNITS = ("day", "week", "month", "quarter", "year")


def truncated(date: datetime.date, unit: str) -> datetime.date:
    """The first day of the unit a date is in; weeks begin on Monday."""
    if unit == "week":
        back = min(date.weekday(), (date - datetime.date.min).days)
        return date - datetime.timedelta(days=back)
    month = {"year": 1, "quarter": (date.month - 1) // 3 * 3 + 1}.get(unit, date.month)
    return date if unit == "day" else date.replace(month=month, day=1)


@OTHERS(
    "The first day of a date's year, quarter, month, week (from Monday) or day; of a timestamp "
    "also the first second of its hour or minute."
)
def _trunc(a: Node, unit: Node) -> Node:
    if a.moment and unit.value in CLOCK:
        return truncated_clock(a, unit.value)
    if a.moment:
        a = day_of(a)
    if a.type != "date" or not a.bounded:
        raise refuse("date_trunc", f"wants a date with declared low and high, not {shown(a)}.")
    if unit.value not in UNITS:
        raise refuse("date_trunc", f"{unit.value!r} is not one of {', '.join(UNITS)}.")
    ends = (truncated(EPOCH + datetime.timedelta(days=int(e)), unit.value) for e in (a.low, a.high))
    low, high = (days(e) for e in ends)
    return node_of("trunc", (a,), "date", low, high, a.nullable, value=unit.value)


# ---- all of them --------------------------------------------------------------------------

FUNCTIONS: dict[str, Function] = {**ARITHMETIC, **LOGIC, **OTHERS}

# exp, ln and power differ in the last bit between engines, patterns mean different things to them,
# and none runs programs: the numpy kernel does.
KERNEL_ONLY = frozenset({"exp", "ln", "power", "program", "regexp_matches"})

# Nodes that only other functions make, with what they do.
MADE = {
    "column": "A column, clamped to its declared range; NaN, undeclared values are missing.",
    "literal": "A constant.",
    "days": "Whole days between two dates.",
    "shift": "A date moved by whole days.",
    "program": "A WebAssembly function; missing if an argument is, 0 if its run fails.",
}


def call(name: str, *args: Node) -> Node:
    """Apply one of FUNCTIONS, or refuse with what it takes."""
    build = FUNCTIONS[name].build
    try:
        return build(*args)
    except TypeError:
        _check_number(name, build, len(args))
        raise


def _check_number(name: str, build: Callable[..., Node], given: int) -> None:
    """Refuse a number of arguments that a function does not take."""
    try:
        inspect.signature(build).bind(*range(given))
    except TypeError:
        raise QueryNotAllowed(
            f"{name}: wrong number of arguments, {given}. docs/reference/functions.md lists what "
            "each function takes."
        ) from None

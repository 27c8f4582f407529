"""Arithmetic, and casts to numbers: what each takes, and the interval its values lie in."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable

from sulq.expressions.node import (
    HUGE,
    INF,
    NUMERIC,
    Functions,
    Node,
    any_null,
    days,
    kind_of,
    literal,
    node_of,
    refuse,
    shown,
    typed_null,
)
from sulq.values.schema import LARGEST

ARITHMETIC = Functions()


def numbers(op: str, *args: Node, bounded: bool = True) -> tuple[Node, ...]:
    """Arguments as numbers: Booleans count as 0 and 1; arithmetic needs finite ranges."""
    out = []
    for a in args:
        if a.type == "null":
            a = typed_null("integer")
        if a.type not in NUMERIC:
            raise refuse(op, f"wants a number, {shown(a)} is {kind_of(a)}.")
        if bounded and not a.bounded:
            raise refuse(
                op,
                f"the range of {shown(a)} is not known. Declare low and high in the schema, or "
                "clamp it: least(greatest(x, low), high).",
            )
        out.append(to_integer(a) if a.type == "boolean" else a)
    return tuple(out)


def _arithmetic(op: str, args: tuple[Node, ...], low: float, high: float, null: bool) -> Node:
    """A number; a whole one if its arguments are and it stays within +-2**53."""
    whole = all(a.type == "integer" for a in args)
    if whole and max(abs(low), abs(high)) <= LARGEST:
        return node_of(op, args, "integer", low, high, null)
    if not (abs(low) <= HUGE and abs(high) <= HUGE):
        raise refuse(op, "the range of the result is beyond 1e300; clamp its parts first.")
    if whole:
        args = tuple(to_number(a) for a in args)
    return node_of(op, args, "number", float(low), float(high), null)


def _about(low: float, high: float) -> tuple[float, float]:
    """Ends a few last bits further apart: mathematical libraries differ there."""
    for _ in range(8):
        low, high = math.nextafter(low, -INF), math.nextafter(high, INF)
    return low, high


@ARITHMETIC("a + b; a date plus whole days is a date. Whole numbers stay exact up to 2**53.")
def _add(a: Node, b: Node) -> Node:
    if "date" in (a.type, b.type):
        return _shift_date("add", *((a, b) if a.type == "date" else (b, a)), sign=1)
    args = numbers("+", a, b)
    a, b = args
    return _arithmetic("add", args, a.low + b.low, a.high + b.high, any_null(args))


@ARITHMETIC("a - b; two dates give whole days between them.")
def _sub(a: Node, b: Node) -> Node:
    if a.type == "date" and b.type == "date":
        if not (a.bounded and b.bounded):
            raise refuse("-", "the range of a date is not known. Declare its low and high.")
        return node_of("days", (a, b), "integer", a.low - b.high, a.high - b.low, any_null((a, b)))
    if a.type == "date":
        return _shift_date("sub", a, b, sign=-1)
    args = numbers("-", a, b)
    a, b = args
    return _arithmetic("sub", args, a.low - b.high, a.high - b.low, any_null(args))


def _shift_date(op: str, date: Node, by: Node, sign: int) -> Node:
    if by.type != "integer" or not by.bounded or not date.bounded:
        raise refuse(op, "a date moves by whole days, and both ranges must be known.")
    ends = (by.low, by.high) if sign > 0 else (-by.high, -by.low)
    low, high = date.low + ends[0], date.high + ends[1]
    if low < days(datetime.date.min) or high > days(datetime.date.max):
        raise refuse(op, "the date may leave the years 1 to 9999.")
    if sign < 0:
        by = _neg(by)
    return node_of("shift", (date, by), "date", low, high, any_null((date, by)))


@ARITHMETIC("a * b.")
def _mul(a: Node, b: Node) -> Node:
    args = numbers("*", a, b)
    a, b = args
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    if a.text == b.text and a.low < 0 < a.high:  # a square
        ends = [0, a.low * a.low, a.high * a.high]
    return _arithmetic("mul", args, min(ends), max(ends), any_null(args))


@ARITHMETIC("a / b, always a fraction (7 / 2 = 3.5); missing where b = 0.")
def _div(a: Node, b: Node) -> Node:
    a, b = map(to_number, numbers("/", a, b))
    low, high = -INF, INF
    whole = b.op == "to_number"  # a whole divisor other than 0 is at least 1 in size
    if b.low > 0 or b.high < 0:
        ends = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(ends), max(ends)
    elif whole:
        reach = max(abs(a.low), abs(a.high))
        low, high = -reach if a.low < 0 or b.low < 0 else 0.0, reach
    if abs(low) > HUGE or abs(high) > HUGE:
        low, high = -INF, INF
    null = any_null((a, b)) or b.low <= 0 <= b.high
    return node_of("div", (a, b), "number", float(low), float(high), null)


@ARITHMETIC("a % b for whole numbers, with the sign of a (-7 % 3 = -1); missing where b = 0.")
def _mod(a: Node, b: Node) -> Node:
    args = numbers("%", a, b)
    if any(x.type != "integer" for x in args):
        raise refuse("%", "wants whole numbers; round or floor them first.")
    a, b = args
    reach = max(abs(b.low), abs(b.high), 1) - 1
    low, high = max(-reach, min(a.low, 0)), min(reach, max(a.high, 0))
    return node_of("mod", args, "integer", low, high, any_null(args) or b.low <= 0 <= b.high)


@ARITHMETIC("-a.")
def _neg(a: Node) -> Node:
    (a,) = numbers("-", a)
    if a.op == "literal" and a.value is not None:
        return literal(-a.value)
    return node_of("neg", (a,), a.type, -a.high, -a.low, a.nullable)


@ARITHMETIC("Size without sign.")
def _abs(a: Node) -> Node:
    (a,) = numbers("abs", a, bounded=False)
    high = max(abs(a.low), abs(a.high))
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return node_of("abs", (a,), a.type, low, high, a.nullable)


@ARITHMETIC("-1, 0 or 1.")
def _sign(a: Node) -> Node:
    (a,) = numbers("sign", a, bounded=False)
    ends = (-1 if a.low < 0 else 0, 1 if a.high > 0 else 0)
    return node_of("sign", (a,), "integer", *ends, a.nullable)


def _half_away(x: float) -> float:
    whole = math.trunc(x)  # x + 0.5 would itself be rounded, up past a whole number at times
    return whole + (math.copysign(1, x) if abs(x - whole) >= 0.5 else 0)


ROUNDINGS: dict[str, Callable[[float], float]] = {
    "floor": math.floor, "ceil": math.ceil, "round": _half_away,
}  # fmt: skip


def _to_whole(op: str, a: Node) -> Node:
    (a,) = numbers(op, a, bounded=False)
    if a.type == "integer":
        return a
    low, high = (ROUNDINGS[op](e) if math.isfinite(e) else e for e in (a.low, a.high))
    if max(abs(low), abs(high)) <= LARGEST:
        return node_of(op, (a,), "integer", int(low), int(high), a.nullable)
    return node_of(op, (a,), "number", low, high, a.nullable)


ARITHMETIC.several(
    _to_whole,
    {
        "floor": "The largest whole number not above a.",
        "ceil": "The smallest whole number not below a.",
    },
)


@ARITHMETIC("To the nearest whole number, halves away from zero; round(a, d) keeps d digits.")
def _round(a: Node, digits: Node | None = None) -> Node:
    if digits is None or (digits.op == "literal" and digits.value == 0):
        return _to_whole("round", a)
    if digits.op != "literal" or not isinstance(digits.value, int) or not 0 <= digits.value <= 9:
        raise refuse("round", "the number of digits is a constant from 0 to 9.")
    (a,) = numbers("round", a)
    if a.type == "integer":
        return a
    power = literal(float(10**digits.value))
    return _div(_round(_mul(a, power)), power)


@ARITHMETIC("Square root; missing below 0.")
def _sqrt(a: Node) -> Node:
    (a,) = map(to_number, numbers("sqrt", a, bounded=False))
    low, high = math.sqrt(max(a.low, 0)), math.sqrt(max(a.high, 0))
    return node_of("sqrt", (a,), "number", low, high, a.nullable or a.low < 0)


@ARITHMETIC("Natural logarithm; missing at 0 and below.")
def _ln(a: Node) -> Node:
    (a,) = map(to_number, numbers("ln", a, bounded=False))
    low = math.log(a.low) if a.low > 0 else -INF
    high = math.log(a.high) if 0 < a.high < INF else (INF if a.high > 0 else 0.0)
    low, high = _about(low, high)
    if a.op == "to_number" or a.low >= 1:  # a whole number above 0 is at least 1
        low = max(low, 0.0)
    return node_of("ln", (a,), "number", min(low, high), high, a.nullable or a.low <= 0)


@ARITHMETIC("e to the power a; results beyond 1e300 count as 1e300.")
def _exp(a: Node) -> Node:
    (a,) = map(to_number, numbers("exp", a))
    low, high = _about(*(math.exp(e) if e < 700 else HUGE for e in (a.low, a.high)))
    return node_of("exp", (a,), "number", max(low, 0.0), min(high, HUGE), a.nullable)


@ARITHMETIC("a to the power b; missing where that is no real number; at most +-1e300.")
def _power(a: Node, b: Node) -> Node:
    """Power; small constant exponents become products, which every engine has exactly."""
    if b.op == "literal" and b.value in (2, 3, 4) and not isinstance(b.value, bool):
        square = _mul(a, a)
        return {2: square, 3: _mul(square, a), 4: _mul(square, square)}[int(b.value)]
    if b.op == "literal" and b.value == 0.5:
        return _sqrt(a)
    args = tuple(map(to_number, numbers("power", a, b)))
    a, b = args
    low, high = -INF, INF
    if a.low > 0:
        try:
            ends = [x**y for x in (a.low, a.high) for y in (b.low, b.high)]
        except OverflowError:
            ends = [0.0, HUGE]
        low, high = _about(min(ends), max(ends))
    elif a.low >= 0 and b.low >= 0:
        try:
            low, high = _about(0.0, max(a.high**b.high, a.high**b.low, 1.0))
        except OverflowError:
            low, high = 0.0, HUGE
    if a.low >= 0 and high < INF:
        low, high = max(low, 0.0), min(high, HUGE)
    return node_of("power", args, "number", low, high, any_null(args) or a.low <= 0)


def _extreme(op: str, *args: Node) -> Node:
    if not args:
        raise refuse(op, "wants at least one argument.")
    if len(args) == 1:
        return args[0]
    args = numbers(op, *args, bounded=False)
    args = tuple(a for a in args if not (a.op == "literal" and a.value is None))
    if not args:
        return typed_null("integer")
    kind = "integer" if all(a.type == "integer" for a in args) else "number"
    if kind == "number":
        args = tuple(map(to_number, args))
    low, high = min(a.low for a in args), max(a.high for a in args)
    sure = [a for a in args if not a.nullable]  # those missing are skipped, and hold no end
    if sure and op == "least":
        high = min(a.high for a in sure)
    elif sure:
        low = max(a.low for a in sure)
    return node_of(op, args, kind, low, high, nullable=not sure)


ARITHMETIC.several(
    _extreme,
    {
        "least": "The smallest argument; missing ones are skipped.",
        "greatest": "The largest argument; missing ones are skipped.",
    },
)


@ARITHMETIC("As a whole number, halves away from zero; true is 1. Text is not cast.")
def to_integer(a: Node) -> Node:
    """Cast to a whole number."""
    if a.type == "boolean":
        if a.op == "literal" and a.value is not None:
            return literal(int(a.value))
        return node_of("to_integer", (a,), "integer", a.low, a.high, a.nullable)
    return _round(a)


@ARITHMETIC("As a number; true is 1. Text is not cast.")
def to_number(a: Node) -> Node:
    """Cast to a number."""
    if a.type == "null":
        return typed_null("number")
    if a.type == "number":
        return a
    (a,) = numbers("cast", a, bounded=False)
    if a.op == "literal" and a.value is not None:
        return literal(float(a.value))
    return node_of("to_number", (a,), "number", float(a.low), float(a.high), a.nullable)

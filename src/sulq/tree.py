"""The row functions a question may use: our own small tree, total by construction.

Every node knows its type, an interval its values lie in, and whether it can be missing. No
node can fail on any row: columns are read clamped to their declared range, arithmetic is
allowed only where the interval is finite, and what has no value (a division by zero, the
root of a negative number) is missing, as NULL is. `FUNCTIONS` is the allow-list; its text
says what each does at its edges, the same on every engine.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.schema import LARGEST, Column

INF = math.inf
MAX_NODES = 2_000  # of one expression
HUGE = 1e300  # numbers beyond count as this
MAX_LENGTH = 10_000  # of a text, as LENGTH counts it
EPOCH = datetime.date(1970, 1, 1)
EARLIEST = datetime.date.min
NUMERIC = ("boolean", "integer", "number")


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a row function: an operation on the nodes below it."""

    op: str
    args: tuple[Node, ...]
    value: Any  # a column's name or a literal
    type: str  # boolean, integer, number, text, date or null
    low: float
    high: float
    nullable: bool
    text: str  # canonical: equal texts are equal functions
    size: int = 1  # nodes, repeats counted

    @property
    def bounded(self) -> bool:
        """Is the interval finite?"""
        return self.low > -INF and self.high < INF

    def walk(self) -> list[Node]:
        """This node and everything below it."""
        found, todo = [], [self]
        while todo:
            node = todo.pop()
            found.append(node)
            todo.extend(node.args)
        return found

    def columns(self) -> frozenset[str]:
        """The names of the columns it reads."""
        return frozenset(n.value for n in self.walk() if n.op == "column")


def column(c: Column) -> Node:
    """Read a column: missing or undeclared is NULL, numbers are clamped to their range."""
    low, high = -INF, INF
    kind = c.type
    if c.type == "boolean":
        low, high = 0, 1
    elif c.type == "category":
        kind = "text" if isinstance(c.values[0], str) else "integer"  # type: ignore[index]
        if kind == "integer":
            low, high = min(c.values), max(c.values)  # type: ignore[arg-type]
    elif c.bounded:
        low, high = (days(c.low), days(c.high)) if c.type == "date" else (c.low, c.high)
    filled = c.bounded or c.type == "boolean"  # a stray NULL then has a value to count as
    nullable = c.nullable or c.type == "category" or not filled
    return Node("column", (), c.name, kind, low, high, nullable, f"c:{c.name!r}")


def literal(value: Any) -> Node:
    """A constant: True, 3, 2.5, 'text', a date or None."""
    if value is None:
        return Node("literal", (), None, "null", 0, 0, True, "null")
    if isinstance(value, bool):
        return Node("literal", (), value, "boolean", value, value, False, f"b:{value:d}")
    if isinstance(value, int):
        if abs(value) > LARGEST:
            shown = str(value) if abs(value) < 10**40 else f"a number of {len(str(value))} digits"
            raise QueryNotAllowed(f"{shown} is beyond the whole numbers allowed, +-2**53.")
        return Node("literal", (), value, "integer", value, value, False, f"i:{value}")
    if isinstance(value, float):
        if not abs(value) <= HUGE:
            raise QueryNotAllowed(f"{value} is beyond the numbers allowed, +-1e300.")
        return Node("literal", (), value, "number", value, value, False, f"f:{value!r}")
    if isinstance(value, datetime.date):
        day = days(value)
        return Node("literal", (), value, "date", day, day, False, f"d:{value.isoformat()}")
    return Node("literal", (), value, "text", -INF, INF, False, f"t:{value!r}")


def days(date: datetime.date) -> int:
    """Days since 1970-01-01, the number a date is worth."""
    return (date - EPOCH).days


def call(name: str, *args: Node) -> Node:
    """Apply one of FUNCTIONS, or refuse with what it takes."""
    return FUNCTIONS[name].build(*args)


@dataclass(frozen=True, slots=True)
class Function:
    """One allowed function: how a node of it is built and what it does at its edges."""

    build: Callable[..., Node]
    edges: str


FUNCTIONS: dict[str, Function] = {}

# exp, ln and power differ in the last bit between engines: they run in the numpy kernel.
KERNEL_ONLY = frozenset({"exp", "ln", "power"})
COMMUTATIVE = frozenset({"add", "mul", "and", "or", "eq", "ne", "xor", "least", "greatest"})


def _function(edges: str) -> Callable[[Callable[..., Node]], Callable[..., Node]]:
    def add(build: Callable[..., Node]) -> Callable[..., Node]:
        FUNCTIONS[build.__name__.strip("_")] = Function(build, edges)
        return build

    return add


def _node(
    op: str, args: tuple[Node, ...], kind: str, low: float, high: float, nullable: bool,
    value: Any = None,
) -> Node:  # fmt: skip
    if op in COMMUTATIVE:
        args = tuple(sorted(args, key=lambda a: a.text))
    size = 1 + sum([a.size for a in args])
    if size > MAX_NODES:
        raise QueryNotAllowed(f"the expression has more than {MAX_NODES:,} parts; split it.")
    extra = "" if value is None else f" {value!r}"
    text = f"({op}{extra} {' '.join([a.text for a in args])})"
    return Node(op, args, value, kind, low, high, nullable, text, size)


def _refuse(op: str, problem: str) -> QueryNotAllowed:
    return QueryNotAllowed(f"{op}: {problem}")


def _numbers(op: str, *args: Node, bounded: bool = True) -> tuple[Node, ...]:
    """Arguments as numbers: Booleans count as 0 and 1; arithmetic needs finite ranges."""
    out = []
    for a in args:
        if a.type == "null":
            a = _typed_null("integer")
        if a.type not in NUMERIC:
            raise _refuse(op, f"wants a number, {_say(a)} is {_kind(a)}.")
        if bounded and not a.bounded:
            raise _refuse(
                op,
                f"the range of {_say(a)} is not known. Declare low and high in the schema, or "
                "clamp it: least(greatest(x, low), high).",
            )
        out.append(to_integer(a) if a.type == "boolean" else a)
    return tuple(out)


def _typed_null(kind: str) -> Node:
    return Node("literal", (), None, kind, 0, 0, True, f"null:{kind}")


def _say(node: Node) -> str:
    return f"'{node.value}'" if node.op in ("column", "literal") else f"the {node.op} inside"


def _kind(node: Node) -> str:
    return {"boolean": "a Boolean", "text": "text", "date": "a date"}.get(node.type, node.type)


def _boolean(op: str, node: Node) -> Node:
    if node.type == "null":
        return _typed_null("boolean")
    if node.type != "boolean":
        raise _refuse(op, f"wants true or false, {_say(node)} is {_kind(node)}; compare it.")
    return node


def _arithmetic(op: str, args: tuple[Node, ...], low: float, high: float, null: bool) -> Node:
    """A number; a whole one if its arguments are and it stays within +-2**53."""
    whole = all(a.type == "integer" for a in args)
    if whole and max(abs(low), abs(high)) <= LARGEST:
        return _node(op, args, "integer", low, high, null)
    if not (abs(low) <= HUGE and abs(high) <= HUGE):
        raise _refuse(op, "the range of the result is beyond 1e300; clamp its parts first.")
    if whole:
        args = tuple(to_number(a) for a in args)
    return _node(op, args, "number", float(low), float(high), null)


def _about(low: float, high: float) -> tuple[float, float]:
    """Ends a few last bits further apart: mathematical libraries differ there."""
    for _ in range(8):
        low, high = math.nextafter(low, -INF), math.nextafter(high, INF)
    return low, high


def _any_null(args: tuple[Node, ...]) -> bool:
    return any(a.nullable for a in args)


# --- arithmetic -------------------------------------------------------------------------


@_function("a + b; a date plus whole days is a date. Whole numbers stay exact up to 2**53.")
def add(a: Node, b: Node) -> Node:
    """Sum."""
    if "date" in (a.type, b.type):
        return _shift_date("add", *((a, b) if a.type == "date" else (b, a)), sign=1)
    args = _numbers("+", a, b)
    a, b = args
    return _arithmetic("add", args, a.low + b.low, a.high + b.high, _any_null(args))


@_function("a - b; two dates give whole days between them.")
def sub(a: Node, b: Node) -> Node:
    """Difference."""
    if a.type == "date" and b.type == "date":
        if not (a.bounded and b.bounded):
            raise _refuse("-", "the range of a date is not known. Declare its low and high.")
        return _node("days", (a, b), "integer", a.low - b.high, a.high - b.low, _any_null((a, b)))
    if a.type == "date":
        return _shift_date("sub", a, b, sign=-1)
    args = _numbers("-", a, b)
    a, b = args
    return _arithmetic("sub", args, a.low - b.high, a.high - b.low, _any_null(args))


def _shift_date(op: str, date: Node, by: Node, sign: int) -> Node:
    if by.type != "integer" or not by.bounded or not date.bounded:
        raise _refuse(op, "a date moves by whole days, and both ranges must be known.")
    ends = (by.low, by.high) if sign > 0 else (-by.high, -by.low)
    low, high = date.low + ends[0], date.high + ends[1]
    if low < days(datetime.date.min) or high > days(datetime.date.max):
        raise _refuse(op, "the date may leave the years 1 to 9999.")
    if sign < 0:
        by = neg(by)
    return _node("shift", (date, by), "date", low, high, _any_null((date, by)))


@_function("a * b.")
def mul(a: Node, b: Node) -> Node:
    """Product."""
    args = _numbers("*", a, b)
    a, b = args
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    if a.text == b.text and a.low < 0 < a.high:  # a square
        ends = [0, a.low * a.low, a.high * a.high]
    return _arithmetic("mul", args, min(ends), max(ends), _any_null(args))


@_function("a / b, always a fraction (7 / 2 = 3.5); missing where b = 0.")
def div(a: Node, b: Node) -> Node:
    """Quotient."""
    a, b = (to_number(x) if x.type == "integer" else x for x in _numbers("/", a, b))
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
    null = _any_null((a, b)) or b.low <= 0 <= b.high
    return _node("div", (a, b), "number", float(low), float(high), null)


@_function("a % b for whole numbers, with the sign of a (-7 % 3 = -1); missing where b = 0.")
def mod(a: Node, b: Node) -> Node:
    """Remainder."""
    args = _numbers("%", a, b)
    if any(x.type != "integer" for x in args):
        raise _refuse("%", "wants whole numbers; round or floor them first.")
    a, b = args
    reach = max(abs(b.low), abs(b.high), 1) - 1
    low, high = max(-reach, min(a.low, 0)), min(reach, max(a.high, 0))
    return _node("mod", args, "integer", low, high, _any_null(args) or b.low <= 0 <= b.high)


@_function("-a.")
def neg(a: Node) -> Node:
    """Opposite."""
    (a,) = _numbers("-", a)
    if a.op == "literal" and a.value is not None:
        return literal(-a.value)
    return _node("neg", (a,), a.type, -a.high, -a.low, a.nullable)


@_function("Size without sign.")
def abs_(a: Node) -> Node:
    """Absolute value."""
    (a,) = _numbers("abs", a, bounded=False)
    high = max(abs(a.low), abs(a.high))
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return _node("abs", (a,), a.type, low, high, a.nullable)


@_function("-1, 0 or 1.")
def sign(a: Node) -> Node:
    """Sign."""
    (a,) = _numbers("sign", a, bounded=False)
    ends = (-1 if a.low < 0 else 0, 1 if a.high > 0 else 0)
    return _node("sign", (a,), "integer", *ends, a.nullable)


def _to_whole(op: str, a: Node, f: Callable[[float], float]) -> Node:
    (a,) = _numbers(op, a, bounded=False)
    if a.type == "integer":
        return a
    low, high = (f(e) if math.isfinite(e) else e for e in (a.low, a.high))
    if max(abs(low), abs(high)) <= LARGEST:
        return _node(op, (a,), "integer", int(low), int(high), a.nullable)
    return _node(op, (a,), "number", low, high, a.nullable)


@_function("The largest whole number not above a.")
def floor(a: Node) -> Node:
    """Round down."""
    return _to_whole("floor", a, math.floor)


@_function("The smallest whole number not below a.")
def ceil(a: Node) -> Node:
    """Round up."""
    return _to_whole("ceil", a, math.ceil)


def _half_away(x: float) -> float:
    whole = math.trunc(x)  # x + 0.5 would itself be rounded, up past a whole number at times
    return whole + (math.copysign(1, x) if abs(x - whole) >= 0.5 else 0)


@_function("To the nearest whole number, halves away from zero; round(a, d) keeps d digits.")
def round_(a: Node, digits: Node | None = None) -> Node:
    """Round to nearest."""
    if digits is None or (digits.op == "literal" and digits.value == 0):
        return _to_whole("round", a, _half_away)
    if digits.op != "literal" or not isinstance(digits.value, int) or not 0 <= digits.value <= 9:
        raise _refuse("round", "the number of digits is a constant from 0 to 9.")
    (a,) = _numbers("round", a)
    if a.type == "integer":
        return a
    power = literal(float(10**digits.value))
    whole = round_(mul(a, power))
    return div(to_number(whole) if whole.type == "integer" else whole, power)


@_function("Square root; missing below 0.")
def sqrt(a: Node) -> Node:
    """Square root."""
    (a,) = (to_number(x) if x.type == "integer" else x for x in _numbers("sqrt", a, bounded=False))
    low, high = math.sqrt(max(a.low, 0)), math.sqrt(max(a.high, 0))
    return _node("sqrt", (a,), "number", low, high, a.nullable or a.low < 0)


@_function("Natural logarithm; missing at 0 and below.")
def ln(a: Node) -> Node:
    """Natural logarithm."""
    (a,) = (to_number(x) if x.type == "integer" else x for x in _numbers("ln", a, bounded=False))
    low = math.log(a.low) if a.low > 0 else -INF
    high = math.log(a.high) if 0 < a.high < INF else (INF if a.high > 0 else 0.0)
    low, high = _about(low, high)
    if a.op == "to_number" or a.low >= 1:  # a whole number above 0 is at least 1
        low = max(low, 0.0)
    return _node("ln", (a,), "number", min(low, high), high, a.nullable or a.low <= 0)


@_function("e to the power a; results beyond 1e300 count as 1e300.")
def exp(a: Node) -> Node:
    """Exponential."""
    (a,) = (to_number(x) if x.type == "integer" else x for x in _numbers("exp", a))
    low, high = _about(*(math.exp(e) if e < 700 else HUGE for e in (a.low, a.high)))
    return _node("exp", (a,), "number", max(low, 0.0), min(high, HUGE), a.nullable)


@_function("a to the power b; missing where that is no real number; at most +-1e300.")
def power(a: Node, b: Node) -> Node:
    """Power; small constant exponents become products, which every engine has exactly."""
    if b.op == "literal" and b.value in (2, 3, 4) and not isinstance(b.value, bool):
        square = mul(a, a)
        return {2: square, 3: mul(square, a), 4: mul(square, square)}[int(b.value)]
    if b.op == "literal" and b.value == 0.5:
        return sqrt(a)
    args = tuple(to_number(x) if x.type == "integer" else x for x in _numbers("power", a, b))
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
    return _node("power", args, "number", low, high, _any_null(args) or a.low <= 0)


def _extreme(op: str, args: tuple[Node, ...], pick: Callable[..., float]) -> Node:
    if not args:
        raise _refuse(op, "wants at least one argument.")
    if len(args) == 1:
        return args[0]
    args = _numbers(op, *args, bounded=False)
    args = tuple(a for a in args if not (a.op == "literal" and a.value is None))
    if not args:
        return _typed_null("integer")
    kind = "integer" if all(a.type == "integer" for a in args) else "number"
    if kind == "number":
        args = tuple(to_number(a) if a.type == "integer" else a for a in args)
    sure = [a for a in args if not a.nullable]
    ends = (pick(a.low for a in args), pick(a.high for a in args))
    if sure:  # a missing argument is skipped, so only those always there hold the other end
        low, high = ends
        if pick is min:
            high = min(a.high for a in sure)
        else:
            low = max(a.low for a in sure)
        ends = (low, high)
    else:
        ends = (min(a.low for a in args), max(a.high for a in args))
    return _node(op, args, kind, *ends, nullable=not sure)


@_function("The smallest argument; missing ones are skipped.")
def least(*args: Node) -> Node:
    """Minimum of the arguments."""
    return _extreme("least", args, min)


@_function("The largest argument; missing ones are skipped.")
def greatest(*args: Node) -> Node:
    """Maximum of the arguments."""
    return _extreme("greatest", args, max)


# --- casts ------------------------------------------------------------------------------


@_function("As a whole number, halves away from zero; true is 1. Text is not cast.")
def to_integer(a: Node) -> Node:
    """Cast to a whole number."""
    if a.type == "boolean":
        if a.op == "literal" and a.value is not None:
            return literal(int(a.value))
        return _node("to_integer", (a,), "integer", a.low, a.high, a.nullable)
    return round_(a)


@_function("As a number; true is 1. Text is not cast.")
def to_number(a: Node) -> Node:
    """Cast to a number."""
    if a.type == "null":
        return _typed_null("number")
    if a.type == "number":
        return a
    (a,) = _numbers("cast", a, bounded=False)
    if a.op == "literal" and a.value is not None:
        return literal(float(a.value))
    return _node("to_number", (a,), "number", float(a.low), float(a.high), a.nullable)


@_function("True where the number is not 0. Text is not cast.")
def to_boolean(a: Node) -> Node:
    """Cast to true or false."""
    return a if a.type == "boolean" else ne(a, literal(0))


# --- comparison and logic ---------------------------------------------------------------


def _pair(op: str, a: Node, b: Node, *, ordered: bool) -> tuple[Node, Node]:
    """Two sides of one type."""
    a, b = _dated(a, b), _dated(b, a)
    if a.type == "null" or b.type == "null":
        kind = b.type if a.type == "null" else a.type
        kind = "integer" if kind == "null" else kind
        return tuple(_typed_null(kind) if x.type == "null" else x for x in (a, b))  # type: ignore[return-value]
    if a.type == b.type:
        if ordered and a.type == "text":
            raise _refuse(op, "text can be compared by =, <>, IN and LIKE only.")
        if a.type == "boolean" and ordered:
            return to_integer(a), to_integer(b)
        return a, b
    if a.type in NUMERIC and b.type in NUMERIC:
        a, b = _numbers(op, a, b, bounded=False)
        if a.type != b.type:
            a, b = to_number(a), to_number(b)
        return a, b
    raise _refuse(
        op, f"{_say(a)} is {_kind(a)} and {_say(b)} is {_kind(b)}; compare like with like."
    )


def _dated(a: Node, other: Node) -> Node:
    """Text beside a date is read as a date."""
    if a.op == "literal" and a.type == "text" and other.type == "date":
        try:
            return literal(datetime.date.fromisoformat(a.value))
        except ValueError:
            raise _refuse("date", f"{a.value!r} is not a date such as '2020-01-31'.") from None
    return a


def _compare(op: str, a: Node, b: Node, *, ordered: bool = True) -> Node:
    args = _pair(op, a, b, ordered=ordered)
    return _node(op, args, "boolean", 0, 1, _any_null(args))


@_function("a = b; missing if either is.")
def eq(a: Node, b: Node) -> Node:
    """Equal."""
    return _compare("eq", a, b, ordered=False)


@_function("a <> b; missing if either is.")
def ne(a: Node, b: Node) -> Node:
    """Not equal."""
    return _compare("ne", a, b, ordered=False)


@_function("a < b; missing if either is. Not for text.")
def lt(a: Node, b: Node) -> Node:
    """Below."""
    return _compare("lt", a, b)


@_function("a <= b; missing if either is. Not for text.")
def le(a: Node, b: Node) -> Node:
    """Not above."""
    return _compare("le", a, b)


@_function("True or false, never missing.")
def is_null(a: Node) -> Node:
    """Is it missing?"""
    if not a.nullable:
        return literal(False)
    return _node("is_null", (a,), "boolean", 0, 1, False)


def _logic(op: str, args: tuple[Node, ...]) -> Node:
    """AND and OR, flattened and without repeats: both are associative, missing included."""
    flat: dict[str, Node] = {}
    for a in args:
        a = _boolean(op, a)
        for part in a.args if a.op == op else (a,):
            flat[part.text] = part
    neutral = f"b:{int(op == 'and')}"  # true changes no AND, false no OR
    parts = tuple(p for t, p in flat.items() if t != neutral or len(flat) == 1)
    if len(parts) == 1:
        return parts[0]
    return _node(op, parts, "boolean", 0, 1, _any_null(parts))


@_function("False if any is false, else missing if any is missing, else true.")
def and_(*args: Node) -> Node:
    """All of them."""
    return _logic("and", args)


@_function("True if any is true, else missing if any is missing, else false.")
def or_(*args: Node) -> Node:
    """Any of them."""
    return _logic("or", args)


@_function("Missing stays missing.")
def not_(a: Node) -> Node:
    """Negation."""
    a = _boolean("not", a)
    if a.op == "not":
        return a.args[0]
    if a.op == "literal" and a.value is not None:
        return literal(not a.value)
    return _node("not", (a,), "boolean", 0, 1, a.nullable)


@_function("True where exactly one is true; missing if either is.")
def xor(a: Node, b: Node) -> Node:
    """Exclusive or."""
    args = (_boolean("xor", a), _boolean("xor", b))
    return _node("xor", args, "boolean", 0, 1, _any_null(args))


@_function("a IN (constants); missing if a is.")
def in_(a: Node, *items: Node) -> Node:
    """One of some constants."""
    if not items or any(i.op != "literal" for i in items):
        raise _refuse("in", "wants a list of constants.")
    known = tuple(i for i in items if i.value is not None)
    if len(known) != len(items):
        raise _refuse("in", "NULL in the list matches nothing; use IS NULL.")
    pairs = [_pair("in", a, i, ordered=False) for i in known]
    kinds = {p[0].type for p in pairs}
    if len(kinds) > 1:  # 1 and 2.5: all as numbers
        pairs = [(to_number(x), to_number(y)) for x, y in pairs]
    unique = {p[1].text: p[1] for p in pairs}
    args = (pairs[0][0], *(unique[t] for t in sorted(unique)))
    return _node("in", args, "boolean", 0, 1, args[0].nullable)


@_function("Text like a constant pattern: % any run, _ one character; case matters.")
def like(a: Node, pattern: Node) -> Node:
    """Match a pattern."""
    if a.type == "null":
        return _typed_null("boolean")
    if a.type != "text":
        raise _refuse("like", f"wants text, {_say(a)} is {_kind(a)}.")
    if pattern.op != "literal" or pattern.type != "text" or len(pattern.value) > 200:
        raise _refuse("like", "the pattern is a constant text of at most 200 characters.")
    if "\\" in pattern.value:
        raise _refuse("like", "a backslash in the pattern means different things to engines.")
    return _node("like", (a, pattern), "boolean", 0, 1, a.nullable)


# --- choice -----------------------------------------------------------------------------


def _unify(op: str, args: tuple[Node, ...]) -> tuple[str, tuple[Node, ...]]:
    """One type for all branches."""
    kinds = {a.type for a in args} - {"null"}
    if not kinds:
        kinds = {"integer"}
    if len(kinds) > 1 and kinds <= set(NUMERIC):
        target = "number" if "number" in kinds else "integer"
        cast = to_number if target == "number" else to_integer
        args = tuple(a if a.type in (target, "null") else cast(a) for a in args)
        kinds = {target}
    if len(kinds) > 1:
        raise _refuse(op, f"its branches mix {' and '.join(sorted(kinds))}; give them one type.")
    kind = kinds.pop()
    return kind, tuple(_typed_null(kind) if a.type == "null" else a for a in args)


def _hull(args: tuple[Node, ...]) -> tuple[float, float]:
    known = [a for a in args if not (a.op == "literal" and a.value is None)]
    if not known:
        return 0, 0
    return min(a.low for a in known), max(a.high for a in known)


@_function("The first branch whose condition is true, else the last; missing without ELSE.")
def case(*args: Node) -> Node:
    """Conditions and results in turn, then the ELSE."""
    conditions = tuple(_boolean("case", a) for a in args[:-1:2])
    kind, results = _unify("case", (*args[1:-1:2], args[-1]))
    flat: list[Node] = []
    for condition, result in zip(conditions, results[:-1], strict=True):
        flat += [condition, result]
    return _node("case", (*flat, results[-1]), kind, *_hull(results), _any_null(results))


@_function("The first argument that is not missing.")
def coalesce(*args: Node) -> Node:
    """First known value."""
    kind, args = _unify("coalesce", args)
    keep: list[Node] = []
    for a in args:
        keep.append(a)
        if not a.nullable:
            break
    if len(keep) == 1:
        return keep[0]
    return _node("coalesce", tuple(keep), kind, *_hull(tuple(keep)), all(a.nullable for a in keep))


# --- text and dates ---------------------------------------------------------------------


def _text(op: str, a: Node) -> Node:
    if a.type != "text":
        raise _refuse(op, f"wants text, {_say(a)} is {_kind(a)}.")
    return a


@_function("Number of characters (code points); beyond 10,000 counts as 10,000.")
def length(a: Node) -> Node:
    """Length of a text."""
    return _node("length", (_text("length", a),), "integer", 0, MAX_LENGTH, a.nullable)


@_function("Letters A to Z made small; every other character is kept.")
def lower(a: Node) -> Node:
    """Small letters."""
    return _node("lower", (_text("lower", a),), "text", -INF, INF, a.nullable)


@_function("Letters a to z made capital; every other character is kept.")
def upper(a: Node) -> Node:
    """Capital letters."""
    return _node("upper", (_text("upper", a),), "text", -INF, INF, a.nullable)


PARTS = {
    "year": (1, 9999),
    "quarter": (1, 4),
    "month": (1, 12),
    "day": (1, 31),
    "dayofweek": (0, 6),
    "dayofyear": (1, 366),
}


@_function("A part of a date: year, quarter, month, day, dayofweek (Sunday 0), dayofyear.")
def part(a: Node, name: Node) -> Node:
    """Part of a date."""
    if a.type != "date":
        raise _refuse("extract", f"wants a date, {_say(a)} is {_kind(a)}.")
    if name.value not in PARTS:
        raise _refuse("extract", f"{name.value!r} is not one of {', '.join(PARTS)}.")
    low, high = PARTS[name.value]
    if name.value == "year" and a.bounded:
        low, high = ((EPOCH + datetime.timedelta(days=int(end))).year for end in (a.low, a.high))
    return _node("part", (a,), "integer", low, high, a.nullable, value=name.value)


UNITS = ("day", "week", "month", "quarter", "year")


def truncated(date: datetime.date, unit: str) -> datetime.date:
    """The first day of the unit a date is in; weeks begin on Monday."""
    if unit == "week":
        return date - datetime.timedelta(days=min(date.weekday(), days(date) - days(EARLIEST)))
    month = {"year": 1, "quarter": (date.month - 1) // 3 * 3 + 1}.get(unit, date.month)
    return date if unit == "day" else date.replace(month=month, day=1)


@_function("The first day of a date's year, quarter, month, week (from Monday) or day.")
def trunc(a: Node, unit: Node) -> Node:
    """Date cut to a unit."""
    if a.type != "date" or not a.bounded:
        raise _refuse("date_trunc", f"wants a date with declared low and high, not {_say(a)}.")
    if unit.value not in UNITS:
        raise _refuse("date_trunc", f"{unit.value!r} is not one of {', '.join(UNITS)}.")
    ends = (truncated(EPOCH + datetime.timedelta(days=int(e)), unit.value) for e in (a.low, a.high))
    low, high = (days(e) for e in ends)
    return _node("trunc", (a,), "date", low, high, a.nullable, value=unit.value)


@_function("1 to n for n equal buckets of [low, high), 0 below and n + 1 from high on.")
def width_bucket(a: Node, low: Node, high: Node, count: Node) -> Node:
    """Number of the bucket."""
    ends = [x.value for x in (low, high, count)]
    if any(x.op != "literal" for x in (low, high, count)) or not isinstance(ends[2], int):
        raise _refuse("width_bucket", "wants width_bucket(x, low, high, n) with constants.")
    (a,) = _numbers("width_bucket", a, bounded=False)
    if not ends[0] < ends[1] or not 1 <= ends[2] <= 400:
        raise _refuse(
            "width_bucket", "wants low < high and 1 to 400 buckets; sulq.Bins takes more edges."
        )
    edges = [ends[0] + (ends[1] - ends[0]) * i / ends[2] for i in range(ends[2])] + [ends[1]]
    parts: list[Node] = []
    for number, edge in enumerate(edges):
        parts += [lt(a, literal(float(edge))), literal(number)]
    blank = (is_null(a), _typed_null("integer")) if a.nullable else ()
    return case(*blank, *parts, literal(len(edges)))


# Nodes that only other functions make, with what they do.
MADE = {
    "column": "A column, clamped to its declared range; NaN, undeclared values are missing.",
    "literal": "A constant.",
    "days": "Whole days between two dates.",
    "shift": "A date moved by whole days.",
}

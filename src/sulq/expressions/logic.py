"""Comparisons, true, false or missing as in SQL, and choices between values."""

from __future__ import annotations

import datetime
import math

from sulq.errors import QueryNotAllowed
from sulq.expressions.arithmetic import numbers, to_integer, to_number
from sulq.expressions.node import (
    NUMERIC,
    Functions,
    Node,
    any_null,
    kind_of,
    literal,
    node_of,
    refuse,
    shown,
    typed_null,
)
from sulq.expressions.timestamps import as_moment, constant_moment

LOGIC = Functions()


def boolean(op: str, node: Node) -> Node:
    """An argument that must be true or false."""
    if node.type == "null":
        return typed_null("boolean")
    if node.type != "boolean":
        raise refuse(op, f"wants true or false, {shown(node)} is {kind_of(node)}; compare it.")
    return node


def _pair(op: str, a: Node, b: Node, *, ordered: bool) -> tuple[Node, Node]:
    """Two sides of one type."""
    a, b = _dated(a, b), _dated(b, a)
    if a.type == "null" or b.type == "null":
        kind = b.type if a.type == "null" else a.type
        kind = "integer" if kind == "null" else kind
        return tuple(typed_null(kind) if x.type == "null" else x for x in (a, b))  # type: ignore[return-value]
    if a.type == b.type:
        if ordered and a.type == "text":
            raise refuse(
                op,
                "text can be compared by =, <>, IN and LIKE only, and a column with listed values "
                "with a constant by <, <=, > and >= too.",
            )
        if a.type == "boolean" and ordered:
            return to_integer(a), to_integer(b)
        return a, b
    if a.type in NUMERIC and b.type in NUMERIC:
        a, b = numbers(op, a, b, bounded=False)
        if a.type != b.type:
            a, b = to_number(a), to_number(b)
        return a, b
    raise QueryNotAllowed(_unlike(a, b))


def _unlike(a: Node, b: Node) -> str:
    """Why two sides cannot be compared, and how they could."""
    said = f"{shown(a)} is {kind_of(a)} and {shown(b)} is {kind_of(b)};"
    words, other = (a, b) if a.type == "text" else (b, a)
    if words.op == "literal" and other.type in ("integer", "number") and _is_number(words.value):
        return f"{said} write the number without quotes: {words.value.strip()}."
    if words.op == "literal" and words.type == "text" and other.type == "boolean":
        return f"{said} compare it with true or false, without quotes."
    return f"{said} compare like with like."


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _dated(a: Node, other: Node) -> Node:
    """Text beside a date or a moment is read as one; a date beside a moment is its first second."""
    if other.moment and a.op == "literal" and a.type == "text":
        return constant_moment(a.value)
    if other.moment and a.type == "date":
        return as_moment(a)
    if a.op == "literal" and a.type == "text" and other.type == "date":
        try:
            return literal(datetime.date.fromisoformat(a.value))
        except ValueError:
            raise refuse("date", f"{a.value!r} is not a date such as '2020-01-31'.") from None
    return a


def _compare(op: str, a: Node, b: Node) -> Node:
    args = _pair(op, a, b, ordered=op in ("lt", "le"))
    return node_of(op, args, "boolean", 0, 1, any_null(args))


LOGIC.several(
    _compare,
    {
        "eq": "a = b; missing if either is.",
        "ne": "a <> b; missing if either is.",
        "lt": "a < b; missing if either is. Of texts a column with listed values, "
        "and a constant, by code points.",
        "le": "a <= b; missing if either is. Of texts a column with listed values, "
        "and a constant, by code points.",
    },
)


@LOGIC("True where the number is not 0. Text is not cast.")
def _to_boolean(a: Node) -> Node:
    return a if a.type == "boolean" else _compare("ne", a, literal(0))


@LOGIC("True or false, never missing.")
def _is_null(a: Node) -> Node:
    if not a.nullable:
        return literal(False)
    return node_of("is_null", (a,), "boolean", 0, 1, False)


def _logic(op: str, *args: Node) -> Node:
    """AND and OR, flattened and without repeats: both are associative, missing included."""
    flat: dict[str, Node] = {}
    for a in args:
        a = boolean(op, a)
        for part in a.args if a.op == op else (a,):
            flat[part.text] = part
    neutral = f"b:{int(op == 'and')}"  # true changes no AND, false no OR
    parts = tuple(p for t, p in flat.items() if t != neutral or len(flat) == 1)
    if len(parts) == 1:
        return parts[0]
    return node_of(op, parts, "boolean", 0, 1, any_null(parts))


LOGIC.several(
    _logic,
    {
        "and": "False if any is false, else missing if any is missing, else true.",
        "or": "True if any is true, else missing if any is missing, else false.",
    },
)


@LOGIC("Missing stays missing.")
def _not(a: Node) -> Node:
    a = boolean("not", a)
    if a.op == "not":
        return a.args[0]
    if a.op == "literal" and a.value is not None:
        return literal(not a.value)
    return node_of("not", (a,), "boolean", 0, 1, a.nullable)


@LOGIC("True where exactly one is true; missing if either is.")
def _xor(a: Node, b: Node) -> Node:
    args = (boolean("xor", a), boolean("xor", b))
    return node_of("xor", args, "boolean", 0, 1, any_null(args))


@LOGIC("a IN (constants); missing if a is.")
def _in(a: Node, *items: Node) -> Node:
    if not items or any(i.op != "literal" for i in items):
        raise refuse("in", "wants a list of constants.")
    known = tuple(i for i in items if i.value is not None)
    if len(known) != len(items):
        raise refuse("in", "NULL in the list matches nothing; use IS NULL.")
    pairs = [_pair("in", a, i, ordered=False) for i in known]
    kinds = {p[0].type for p in pairs}
    if len(kinds) > 1:  # 1 and 2.5: all as numbers
        pairs = [(to_number(x), to_number(y)) for x, y in pairs]
    unique = {p[1].text: p[1] for p in pairs}
    args = (pairs[0][0], *(unique[t] for t in sorted(unique)))
    return node_of("in", args, "boolean", 0, 1, args[0].nullable)


# ---- choices: one type for all branches ---------------------------------------------------


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
        raise refuse(op, f"its branches mix {' and '.join(sorted(kinds))}; give them one type.")
    kind = kinds.pop()
    return kind, tuple(typed_null(kind) if a.type == "null" else a for a in args)


def _hull(args: tuple[Node, ...]) -> tuple[float, float]:
    known = [a for a in args if not (a.op == "literal" and a.value is None)]
    if not known:
        return 0, 0
    return min(a.low for a in known), max(a.high for a in known)


@LOGIC("The first branch whose condition is true, else the last; missing without ELSE.")
def _case(*args: Node) -> Node:
    """Conditions and results in turn, then the ELSE."""
    conditions = tuple(boolean("case", a) for a in args[:-1:2])
    kind, results = _unify("case", (*args[1:-1:2], args[-1]))
    flat = [x for pair in zip(conditions, results[:-1], strict=True) for x in pair]
    return node_of("case", (*flat, results[-1]), kind, *_hull(results), any_null(results))


@LOGIC("The first argument that is not missing.")
def _coalesce(*args: Node) -> Node:
    kind, args = _unify("coalesce", args)
    sure = next((i for i, a in enumerate(args) if not a.nullable), len(args))
    args = args[: sure + 1]
    if len(args) == 1:
        return args[0]
    return node_of("coalesce", args, kind, *_hull(args), all(a.nullable for a in args))


@LOGIC("1 to n for n equal buckets of [low, high), 0 below and n + 1 from high on.")
def _width_bucket(a: Node, low: Node, high: Node, count: Node) -> Node:
    ends = [x.value for x in (low, high, count)]
    if any(x.op != "literal" for x in (low, high, count)) or not isinstance(ends[2], int):
        raise refuse("width_bucket", "wants width_bucket(x, low, high, n) with constants.")
    (a,) = numbers("width_bucket", a, bounded=False)
    if not ends[0] < ends[1] or not 1 <= ends[2] <= 400:
        raise refuse(
            "width_bucket", "wants low < high and 1 to 400 buckets; sulq.Bins takes more edges."
        )
    edges = [ends[0] + (ends[1] - ends[0]) * i / ends[2] for i in range(ends[2])] + [ends[1]]
    parts: list[Node] = []
    for number, edge in enumerate(edges):
        parts += [_compare("lt", a, literal(float(edge))), literal(number)]
    blank = (_is_null(a), typed_null("integer")) if a.nullable else ()
    return _case(*blank, *parts, literal(len(edges)))

"""A row function as it is stored -> the SQL a person reads: "age > 40 and smoker"."""

from __future__ import annotations

import datetime
import re
from typing import Any

from sulq.expressions.quoting import quote, text

LONGEST = 80  # letters of an expression in a message
INFIX = {"or": 1, "and": 2, "eq": 4, "ne": 4, "lt": 4, "le": 4, "add": 5, "sub": 5, "days": 5,
         "shift": 5, "mul": 6, "div": 6, "mod": 6}  # fmt: skip
SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "add": "+", "sub": "-", "mul": "*",
         "div": "/", "mod": "%", "days": "-", "shift": "+"}  # fmt: skip
FLIPPED = {"lt": ">", "le": ">="}
NOT, LOOSE, TIGHT = 3, 4, 9  # how tightly the rest binds
PLAIN = ("abs", "sign", "floor", "ceil", "round", "sqrt", "ln", "exp", "power", "least",
         "greatest", "coalesce", "length", "lower", "upper", "xor", "starts_with",
         "ends_with", "contains", "regexp_matches", "substr", "split_part")  # fmt: skip
RESERVED = frozenset({
    "all", "and", "any", "as", "between", "by", "case", "cast", "date", "else", "end", "exists",
    "false", "from", "group", "in", "is", "like", "not", "null", "on", "or", "order", "select",
    "table", "then", "true", "union", "user", "when", "where", "xor",
})  # fmt: skip


def message_sql(tree: Any) -> str:
    """The SQL of an expression in at most 80 letters."""
    said = sql_of(tree, short=True)
    return said if len(said) <= LONGEST else said[: LONGEST - 3] + "..."


def sql_of(tree: Any, outer: int = 0, short: bool = False) -> str:
    """The SQL of an expression, in brackets where what stands around it binds tighter.

    `short` writes 2.0 as 2, for people; SQL itself tells them apart.
    """
    written, tightness = _written(tree, short)
    return f"({written})" if tightness < outer else written


def _op(tree: Any) -> str:
    if isinstance(tree, list):
        return str(tree[0])
    return "column" if isinstance(tree, dict) and "column" in tree else "literal"


def _written(tree: Any, short: bool) -> tuple[str, int]:
    op = _op(tree)
    if op == "column":
        return _name(tree["column"]), TIGHT
    if op == "literal":
        said = _constant(tree, short)
        return said, 6 if said.startswith("-") else TIGHT
    args = tree[1:]
    if op in INFIX:
        return _infix(op, args, short), INFIX[op]
    if op in ("to_number", "to_integer"):  # SQL does these by itself where they are needed
        return _written(args[0], short)

    def sql(part: Any, outer: int = 0) -> str:
        return sql_of(part, outer, short)

    if op == "not" and _op(args[0]) == "is_null":
        return f"{sql(args[0][1], LOOSE + 1)} is not null", LOOSE
    if op == "not":
        return f"not {sql(args[0], NOT)}", NOT
    if op == "neg":
        return f"-{sql(args[0], 7)}", 6
    if op == "is_null":
        return f"{sql(args[0], LOOSE + 1)} is null", LOOSE
    if op == "in":
        return f"{sql(args[0], LOOSE + 1)} in ({', '.join(map(sql, args[1:]))})", LOOSE
    if op == "like":
        return f"{sql(args[0], LOOSE + 1)} like {sql(args[1])}", LOOSE
    if op == "case":
        pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
        branches = " ".join(f"when {sql(a)} then {sql(b)}" for a, b in pairs)
        return f"case {branches} else {sql(args[-1])} end", TIGHT
    if op == "part":
        return f"extract({args[0]} from {sql(args[1])})", TIGHT
    if op == "trunc":
        return f"date_trunc('{args[0]}', {sql(args[1])})", TIGHT
    if op == "program":
        return _program(args, short), TIGHT
    if op in PLAIN:
        return f"{op}({', '.join(map(sql, args))})", TIGHT
    raise ValueError(op)


def _program(args: list[Any], short: bool) -> str:
    """In full as it is asked again; for people its name and the beginning of its hash."""
    (hash, name, *rest), *given = args
    inside = [sql_of(a, 0, short) for a in given]
    if short:
        return f"{name}[{hash[:8]}]({', '.join(inside)})"
    constants = [_constant(value, False) for value in (hash, name, *rest)]
    return f"program({', '.join([*constants, *inside])})"


def _infix(op: str, args: list[Any], short: bool) -> str:
    level = INFIX[op]
    if op in ("and", "or"):
        parts = sorted(args, key=lambda a: _op(a) in ("column", "not"))  # simple ones last
        return f" {op} ".join(sql_of(a, level + 1, short) for a in parts)
    a, b = args
    sign = SIGNS[op]
    if _op(a) == "literal" and op in (*FLIPPED, "eq", "ne"):
        a, b, sign = b, a, FLIPPED.get(op, sign)
    # a - (b - c) keeps its brackets; comparisons do not chain.
    return f"{sql_of(a, level + (level == LOOSE), short)} {sign} {sql_of(b, level + 1, short)}"


def _constant(value: Any, short: bool) -> str:
    if isinstance(value, dict):
        ((kind, day),) = value.items()
        value = datetime.date.fromisoformat(day) if kind == "date" else None
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, datetime.date):
        return f"date '{value.isoformat()}'"
    return re.sub(r"^(-?\d+)\.0$", r"\1", repr(value)) if short else repr(value)


def _name(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", name) and name.lower() not in RESERVED
    return name if plain else quote(name)

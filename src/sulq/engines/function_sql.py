"""How each function of the tree is written in DuckDB's SQL; other engines change what differs."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase, ascii_uppercase

from sulq.expressions.columns import ends
from sulq.expressions.node import MAX_LENGTH, Node
from sulq.values.schema import LARGEST, Column


def _infix(sign: str) -> Callable[..., str]:
    return lambda node, *args: "(" + f" {sign} ".join(args) + ")"


def _prefix(name: str) -> Callable[..., str]:
    return lambda node, *args: f"{name}({', '.join(args)})"


def _whole(name: str) -> Callable[..., str]:
    """Rounding: a BIGINT where the node is whole."""
    return lambda node, a: (
        f"CAST({name}({a}) AS BIGINT)" if node.type == "integer" else f"{name}({a})"
    )


def _case(node: Node, *args: str) -> str:
    tests = " ".join(f"WHEN {c} THEN {r}" for c, r in zip(args[:-1:2], args[1:-1:2], strict=True))
    return f"(CASE {tests} ELSE {args[-1]} END)"


def _sqrt(node: Node, a: str) -> str:
    if node.args[0].low >= 0:
        return f"sqrt({a})"
    return f"sqrt(CASE WHEN {a} >= 0 THEN {a} END)"


def _length(node: Node, a: str) -> str:
    return (
        f"CAST(CASE WHEN length({a}) > {MAX_LENGTH} THEN {MAX_LENGTH} ELSE length({a}) END "
        "AS BIGINT)"
    )


def lean(node: Node) -> Node:
    """The same function, computed in fewer steps where its ranges allow.

    (x % m + m) % m, as Python has the remainder, is x % m where x is not below 0.
    """
    if node.op != "mod" or node.args[0].op != "add" or node.args[1].op != "literal":
        return node
    inner, m = node.args[0].args[0], node.args[1]
    same = inner.op == "mod" and node.args[0].args[1] == m == inner.args[1]
    return inner if same and inner.args[0].low >= 0 and m.value > 0 else node


def _divisor(node: Node, b: str) -> str:
    """What is divided by: a constant is known not to be 0."""
    given = node.args[1]
    return b if given.op == "literal" and given.value else f"nullif({b}, 0)"


SPELLING: dict[str, Callable[..., str]] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "div": lambda node, a, b: f"({a} / {_divisor(node, b)})",
    "mod": lambda node, a, b: f"({a} % {_divisor(node, b)})",
    "neg": lambda node, a: f"(-({a}))",
    "abs": _prefix("abs"),
    "sign": lambda node, a: f"CAST(sign({a}) AS BIGINT)",
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "round": _whole("round"),
    "sqrt": _sqrt,
    "least": _prefix("least"),
    "greatest": _prefix("greatest"),
    "to_integer": lambda node, a: f"CAST({a} AS BIGINT)",
    "to_number": lambda node, a: f"CAST({a} AS DOUBLE)",
    "eq": _infix("="),
    "ne": _infix("<>"),
    "lt": _infix("<"),
    "le": _infix("<="),
    "is_null": lambda node, a: f"({a} IS NULL)",
    "and": _infix("AND"),
    "or": _infix("OR"),
    "not": lambda node, a: f"(NOT {a})",
    "xor": _infix("<>"),
    "in": lambda node, a, *items: f"({a} IN ({', '.join(items)}))",
    "like": lambda node, a, pattern: f"({a} LIKE {pattern})",
    "case": _case,
    "coalesce": _prefix("coalesce"),
    "length": _length,
    "starts_with": _prefix("starts_with"),
    "ends_with": _prefix("ends_with"),
    "contains": _prefix("contains"),
    "substr": lambda n, a, *_: f"substring({a}, {n.args[1].value}, {n.args[2].value})",
    "split_part": lambda n, a, mark, _: f"split_part({a}, {mark}, {n.args[2].value})",
    "lower": lambda node, a: f"translate({a}, '{ascii_uppercase}', '{ascii_lowercase}')",
    "upper": lambda node, a: f"translate({a}, '{ascii_lowercase}', '{ascii_uppercase}')",
    "part": lambda node, a: f"CAST(date_part('{node.value}', {a}) AS BIGINT)",
    "trunc": lambda node, a: f"CAST(date_trunc('{node.value}', {a}) AS DATE)",
    "days": lambda node, a, b: f"CAST({a} - {b} AS BIGINT)",
    "shift": lambda node, a, b: f"({a} + CAST({b} AS INTEGER))",
}


def seconds_since_1970(name: str, kind: str) -> str:
    """A moment in whole seconds, down, as DuckDB has it; an endless one is far out."""
    if kind in ("TIMESTAMP_S", "TIMESTAMP_MS"):  # beyond any date they are missing
        name = f"TRY_CAST({name} AS TIMESTAMP)"
    fine, each = ("epoch_ns", 10**9) if kind == "TIMESTAMP_NS" else ("epoch_us", 10**6)
    parts = f"{fine}({name})"
    whole = f"({parts} - ({parts} % {each} + {each}) % {each}) // {each}"
    far = f"WHEN {name} > TIMESTAMP '1970-01-01' THEN {LARGEST} WHEN {name} IS NOT NULL"
    return f"(CASE WHEN isfinite({name}) THEN {whole} {far} THEN -{LARGEST} END)"


def moments_known(sql: str, c: Column) -> str:
    """Of a column without declared ends only the years 1 to 9999 are moments."""
    low, high = ends(c)
    return sql if c.bounded else f"(CASE WHEN {sql} BETWEEN {low} AND {high} THEN {sql} END)"

"""Node: one step of a row function, which knows its type, its interval and if it may be missing.

No node can fail on any row: columns are read clamped to their declared range, arithmetic is
allowed only where the interval is finite, and what has no value (a division by zero, the root
of a negative number) is missing, as NULL is.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.wording import message_sql
from sulq.values.schema import LARGEST, Column

INF = math.inf
MAX_NODES = 2_000  # of one expression
HUGE = 1e300  # numbers beyond count as this
MAX_LENGTH = 10_000  # of a text, as LENGTH counts it
EPOCH = datetime.date(1970, 1, 1)
NUMERIC = ("boolean", "integer", "number")
COMMUTATIVE = frozenset({"add", "mul", "and", "or", "eq", "ne", "xor", "least", "greatest"})


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
    moment: bool = False  # is it a timestamp, in whole seconds since 1970-01-01?

    def __hash__(self) -> int:
        return hash(self.text)  # kept by Python, where those of all nodes below would not be

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

    @property
    def unfolded(self) -> int:
        """How many parts a database may make of it: some write out a divisor three times."""
        total, todo = 0, [(self, 1)]
        while todo:
            node, times = todo.pop()
            total += times
            for i, arg in enumerate(node.args):
                again = i == 1 and node.op in ("div", "mod") and arg.op != "literal"
                todo.append((arg, 3 * times if again else times))
        return total

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
        low, high = number_of(c.low), number_of(c.high)
    moment = c.type == "timestamp"
    kind = "integer" if moment else kind
    filled = c.bounded or c.type == "boolean"  # a stray NULL then has a value to count as
    nullable = c.nullable or c.type == "category" or not filled
    text = f"c:{c.name!r}"
    return Node("column", (), c.name, kind, low, high, nullable, text, moment=moment)


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


def seconds(moment: datetime.datetime) -> int:
    """Seconds since 1970-01-01, the number a timestamp is worth."""
    past = moment - datetime.datetime.combine(EPOCH, datetime.time())
    return past.days * 86_400 + past.seconds


def number_of(end: Any) -> Any:
    """The number that an end of a declared range is worth."""
    if isinstance(end, datetime.datetime):
        return seconds(end)
    return days(end) if isinstance(end, datetime.date) else end


def tree_of(node: Node) -> Any:
    """The JSON of a row function, as stored_tree.py says."""
    if node.op == "column":
        return {"column": node.value}
    if node.op != "literal":
        unit = [node.value] if node.op in ("part", "trunc") else []  # stands before its date
        unit = [node.value.spec.tree] if node.op == "program" else unit
        return [node.op, *unit, *[tree_of(a) for a in node.args]]
    if node.value is None:
        return None if node.type == "null" else {"null": node.type}
    if isinstance(node.value, datetime.date):
        return {"date": node.value.isoformat()}
    return node.value


def kind_of(node: Node) -> str:
    """What a node's values are, in words."""
    return {"boolean": "true or false", "text": "text", "date": "a date", "null": "missing",
            "integer": "a whole number", "number": "a number"}[node.type]  # fmt: skip


def node_of(
    op: str, args: tuple[Node, ...], kind: str, low: float, high: float, nullable: bool,
    value: Any = None,
) -> Node:  # fmt: skip
    """An operation on nodes, in the one order that its text has."""
    if op in COMMUTATIVE:
        args = tuple(sorted(args, key=lambda a: a.text))
    size = 1 + sum([a.size for a in args])
    if size > MAX_NODES:
        raise QueryNotAllowed(f"the expression has more than {MAX_NODES:,} parts; split it.")
    extra = "" if value is None else f" {value!r}"
    text = f"({op}{extra} {' '.join([a.text for a in args])})"
    return Node(op, args, value, kind, low, high, nullable, text, size)


def typed_null(kind: str) -> Node:
    """A missing value of a type."""
    return Node("literal", (), None, kind, 0, 0, True, f"null:{kind}")


def any_null(args: tuple[Node, ...]) -> bool:
    """May one of them be missing?"""
    return any(a.nullable for a in args)


def refuse(op: str, problem: str) -> QueryNotAllowed:
    """What is wrong with an operation, as an error to raise."""
    return QueryNotAllowed(f"{op}: {problem}")


def shown(node: Node) -> str:
    """A node as a message names it."""
    plain = node.op in ("column", "literal")
    return f"'{node.value}'" if plain else f"'{message_sql(tree_of(node))}'"


@dataclass(frozen=True, slots=True)
class Function:
    """One allowed function: how a node of it is built and what it does at its edges."""

    build: Callable[..., Node]
    edges: str


class Functions(dict[str, Function]):
    """Some of the allowed functions, by name; a decorator adds one, with what it does."""

    def __call__(self, edges: str) -> Callable[[Callable[..., Node]], Callable[..., Node]]:
        """Add a builder under its own name."""

        def add(build: Callable[..., Node]) -> Callable[..., Node]:
            self[build.__name__.strip("_")] = Function(build, edges)
            return build

        return add

    def several(self, build: Callable[..., Node], edges: dict[str, str]) -> None:
        """Add functions that one builder makes, which is told their names."""
        for name, text in edges.items():
            self[name] = Function(partial(build, name), text)

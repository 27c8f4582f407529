"""A canonical text -> the row function it came from, exactly.

The ledger keeps questions as text, and an auditor that is opened again must know them to the last
detail. Every node is built anew by the function that built it first, and must have the same text.
"""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Callable, Sequence
from typing import Any

from sulq.errors import SulqError
from sulq.schema import Schema
from sulq.tree import FUNCTIONS, Node, call, column, literal

WORD = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))
    |(?P<kind>[cbifdt]):(?P<value>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\s()]+)
    |(?P<text>'(?:\\.|[^'\\])*')
    |(?P<word>[^\s()]+))""",
    re.VERBOSE,
)
NULL = "null"


def read_node(text: str, schema: Schema) -> Node:
    """The node with this canonical text; ValueError if there is none."""
    stack: list[list[Any]] = [[]]
    at = 0
    while at < len(text):
        found = WORD.match(text, at)
        if found is None:
            raise ValueError(text)
        at = found.end()
        if found["open"]:
            stack.append([])
        elif found["close"]:
            op, *args = stack.pop()
            stack[-1].append(_built(op, args))
        else:
            stack[-1].append(_atom(found, schema))
    ((node,),) = stack
    if not isinstance(node, Node) or node.text != text:
        raise ValueError(text)
    return node


def _atom(found: re.Match[str], schema: Schema) -> Node | str:
    if found["text"]:
        return str(ast.literal_eval(found["text"]))
    if found["word"]:
        word = found["word"]
        if word == NULL:
            return literal(None)
        return _typed_null(word.partition(":")[2]) if word.startswith(f"{NULL}:") else word
    kind, value = found["kind"], found["value"]
    if kind == "c":
        return column(schema[ast.literal_eval(value)])
    readers: dict[str, Callable[[str], Any]] = {
        "b": lambda v: v == "1",
        "i": int,
        "f": float,
        "d": datetime.date.fromisoformat,
        "t": ast.literal_eval,
    }
    return literal(readers[kind](value))


def _typed_null(kind: str) -> Node:
    """NULL where a value of this type stands."""
    return Node("literal", (), None, kind, 0, 0, True, f"{NULL}:{kind}")


def _built(op: Any, args: Sequence[Any]) -> Node:
    """A call by its canonical name; a part or truncation carries its unit in front."""
    try:
        if op in ("days", "shift"):
            return call("sub" if op == "days" else "add", *args)
        if op in ("part", "trunc"):
            unit, date = args
            return call(op, date, literal(unit))
        if op not in FUNCTIONS:
            raise ValueError(op)
        return call(op, *args)
    except (SulqError, TypeError) as error:
        raise ValueError(op) from error

"""The same question with other numbers, to time what one more of its kind adds to a scan."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

from sulq.expressions.node import Node
from sulq.questions.check import CheckedQuery


def alike(query: CheckedQuery, number: int) -> CheckedQuery | None:
    """One with other numbers in its private predicate; None if there are none in it."""
    where = None if query.where is None else _nudged(query.where, number)
    if where is None or where is query.where:
        return None
    return replace(query, where=where, text=f"{query.text} alike {number}")


def _nudged(node: Node, by: int) -> Node:
    """A row function whose constants are a little larger; the same object if it has none."""
    if node.op == "literal":
        value = _larger(node.value, by)
        return node if value is node.value else replace(node, value=value, text=_named(node, by))
    args = tuple(_nudged(arg, by) for arg in node.args)
    if all(new is old for new, old in zip(args, node.args, strict=True)):
        return node
    return replace(node, args=args, text=_named(node, by))


def _named(node: Node, by: int) -> str:
    return f"{node.text} alike {by}"


def _larger(value: Any, by: int) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value + by
    if isinstance(value, float):
        return value + by * max(abs(value), 1.0) * 1e-6
    if isinstance(value, datetime.date) and value.year < datetime.MAXYEAR:
        return value + datetime.timedelta(days=by)
    return value

"""A row function as JSON: how the ledger keeps expressions, and how it reads them back.

A constant is itself, a column is {"column": name}, a date is {"date": day}, a missing value of a
known type is {"null": type}, and a call is a list: its name, then its arguments. Equal functions
have equal JSON. Every node is built anew by the function that built it first, and must have the
same JSON.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from sulq.errors import SulqError
from sulq.expressions.functions import FUNCTIONS, call
from sulq.expressions.node import Node, column, literal, tree_of, typed_null
from sulq.expressions.program_node import program_node, spec_of
from sulq.values.schema import Schema


def dumps(tree: Any) -> str:
    """Write JSON in the one form that is stored: sorted keys, no spaces, ASCII."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":"))


def node_of(tree: Any, schema: Schema) -> Node:
    """The node with this JSON; ValueError if there is none."""
    try:
        node = _built(tree, schema)
    except (SulqError, TypeError, KeyError) as error:
        raise ValueError(tree) from error
    if dumps(tree_of(node)) != dumps(tree):  # as text: 1, 1.0 and true are equal values
        raise ValueError(tree)
    return node


def _built(tree: Any, schema: Schema) -> Node:
    if isinstance(tree, dict):
        ((kind, value),) = tree.items()
        if kind == "column":
            return column(schema[value])
        if kind == "date":
            return literal(datetime.date.fromisoformat(value))
        if kind != "null":
            raise ValueError(kind)
        return typed_null(value)
    if not isinstance(tree, list):
        return literal(tree)
    op, *parts = tree
    if op in ("part", "trunc"):  # the unit is a constant, but the last argument
        unit, date = parts
        return call(op, _built(date, schema), literal(unit))
    if op == "program":
        spec, *rest = parts
        return program_node(spec_of(*spec), [_built(part, schema) for part in rest], schema)
    args = [_built(part, schema) for part in parts]
    if op in ("days", "shift"):
        return call("sub" if op == "days" else "add", *args)
    if op not in FUNCTIONS:
        raise ValueError(op)
    return call(op, *args)

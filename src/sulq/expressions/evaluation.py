"""Expressions evaluated over named columns, in numpy: what every engine must agree with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.columns import Vector, constant, read
from sulq.expressions.node import Node
from sulq.expressions.operations import OPERATIONS
from sulq.values.schema import Schema


class Evaluator:
    """Some rows: raw columns by name, read on demand as the schema declares them."""

    def __init__(
        self,
        columns: Mapping[str, Any],
        rows: int,
        schema: Schema,
        known: Mapping[str, Vector] | None = None,
    ) -> None:
        self.raw = columns
        self.rows = rows
        self.schema = schema
        self._read: dict[str, Vector] = {}
        self._known = dict(known or {})  # by the text of an expression

    def column(self, name: str) -> Vector:
        """A declared column: clamped, undeclared and NaN missing."""
        if name not in self._read:
            self._read[name] = read(self.raw[name], self.schema[name])
        return self._read[name]

    def evaluate(self, node: Node) -> Vector:
        """The value of a row function on every row; equal parts are computed once."""
        with np.errstate(all="ignore"):
            return self._evaluate(node)

    def _evaluate(self, node: Node) -> Vector:
        if node.op == "literal":
            return constant(node, self.rows)
        found = self._known.get(node.text)
        if found is None:
            if node.op == "column":
                found = self.column(node.value)
            else:
                found = OPERATIONS[node.op](node, *[self._evaluate(a) for a in node.args])
            self._known[node.text] = found
        return found

    def true(self, node: Node | None) -> NDArray[np.bool_]:
        """Where a predicate holds; missing is not true."""
        if node is None:
            return np.ones(self.rows, dtype=bool)
        found = self.evaluate(node)
        return found.data.astype(bool) & found.valid

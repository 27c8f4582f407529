"""db.define: functions of a row as columns beside the table's own.

A question about such a column is written again with its expression before it is checked, as with a
projection: one price, one charge and one promise, here and over any wire.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.node import Node
from sulq.expressions.parse import parse
from sulq.expressions.row_function import Expansion, RowFunction
from sulq.questions.projection import Projection
from sulq.values.query import Query
from sulq.values.schema import Column, Schema

MAX_LISTED = 50  # whole numbers that a column may have to be one of listed values, too


@dataclass(frozen=True)
class Defined(Projection):
    """Functions by name; where one is called with other arguments it is written out, too."""

    functions: tuple[RowFunction, ...] = ()

    def written_out(self, query: Query) -> Query:
        """The same question in terms of the stored columns."""
        calls = Expansion(self.functions)
        return _Writing(self.formulas, self.schema, self.hidden, calls).written_out(query)


@dataclass(frozen=True)
class _Writing(Projection):
    """Queries being written out, with at most so many calls in all of them."""

    calls: Expansion = field(default_factory=lambda: Expansion(()))

    def _text(self, text: str) -> str:
        return super()._text(self.calls.written(text) if self.schema.get(text) is None else text)


@dataclass(frozen=True)
class Stacked(Projection):
    """A view of a table with defined columns: written out twice."""

    below: Defined | None = None

    def written_out(self, query: Query) -> Query:
        """The same question in terms of the stored columns."""
        assert self.below is not None
        return self.below.written_out(super().written_out(query))


def stacked(make: Callable[[], Any], below: Any) -> Stacked:
    """A projection of a table with defined columns; of other views there is none."""
    above = make() if isinstance(below, Defined) else None
    if type(above) is not Projection:
        raise QueryNotAllowed("this is a view already; make another one of the table itself.")
    return Stacked(above.formulas, above.schema, above.hidden, below)


def defined(given: Sequence[Any], named: Mapping[str, Any], schema: Schema) -> Defined:
    """The table's columns and these: functions by their name, expressions by the one given."""
    for one in given:
        if not isinstance(one, RowFunction):
            raise QueryNotAllowed(
                f"define({one!r}): want functions of a row, or an expression with its name, as in "
                "define(old='age > 65')."
            )
    formulas = {f.name: str(f) for f in given} | {n: _checked(n, e) for n, e in named.items()}
    if not formulas:
        raise QueryNotAllowed("define: want at least one function of a row.")
    names = [*(f.name for f in given), *named]
    taken = {name.lower() for name in schema.names}
    for name in names:
        if name.lower() in taken:
            raise QueryNotAllowed(f"define: there is a column called {name!r} already.")
        taken.add(name.lower())
    made = [_column(name, parse(text, schema)) for name, text in formulas.items()]
    functions = tuple(f for f in (*given, *named.values()) if isinstance(f, RowFunction))
    whole = replace(schema, columns=(*schema.columns, *made))
    return Defined(formulas, whole, frozenset(), functions)


def all_written_out(queries: Sequence[Query], functions: Sequence[RowFunction]) -> list[Query]:
    """Queries of a table's own columns in which the calls of functions are written out."""
    writing = _Writing({}, Schema(()), frozenset(), Expansion(functions))
    return [writing.written_out(query) for query in queries]


def _checked(name: str, expression: Any) -> str:
    if not isinstance(expression, str) or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise QueryNotAllowed(f"define({name}={expression!r}): want an expression.")
    return str(expression)


def _column(name: str, node: Node) -> Column:
    """What is known of an expression, as a declaration says it."""
    if node.type == "boolean":
        return Column(name, "boolean", nullable=node.nullable)
    if node.type not in ("integer", "number") or not _finite(node):
        raise QueryNotAllowed(
            f"define: {name} is not a condition or a number with a known range. Clamp it, as in "
            "max(0, min(100, x))."
        )
    if node.type == "number":
        return Column(name, "number", float(node.low), float(node.high), nullable=node.nullable)
    low, high = int(node.low), int(node.high)
    values = tuple(range(low, high + 1)) if high - low < MAX_LISTED else None
    return Column(name, "integer", low, high, values, nullable=node.nullable)


def _finite(node: Node) -> bool:
    return math.isfinite(node.low) and math.isfinite(node.high) and node.low < node.high

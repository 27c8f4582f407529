"""SQL for many questions over one table: each declared column is read once, below all of them.

Reading a column clamps it to its range. A database that finds equal parts of expressions does not
look inside AND and CASE, so that sixteen counts over one column would clamp every row of it
sixteen times. And where only the rows count for which a predicate is true, missing values are
filled with one for which it is false: vectors without NULL are several times as quick to compare
and to combine, and no row's being missing takes time.
"""

from __future__ import annotations

from collections.abc import Sequence

from sulq.engines.cubes import spare
from sulq.engines.writer import Writer
from sulq.expressions.node import Node, column
from sulq.expressions.quoting import quote
from sulq.questions.check import CheckedQuery
from sulq.values.schema import Column, Schema

SEVERAL = 2  # questions, from which on it is quicker
# A column with what stands for a missing value, below and above all constants: whole ones end at
# 2**53, others at 1e300.
ENDS = {
    "integer": (f"COALESCE({{}}, CAST({1 - 2**63} AS BIGINT))",
                f"COALESCE({{}}, CAST({2**63 - 1} AS BIGINT))"),
    "number": ("COALESCE({}, CAST('-inf' AS DOUBLE))", "COALESCE({}, CAST('inf' AS DOUBLE))"),
    "boolean": ("({} IS TRUE)", "({} IS NOT FALSE)"),
}  # fmt: skip


def reads_again(queries: Sequence[CheckedQuery]) -> bool:
    """Does a function of some rows' values name a column of numbers twice?"""
    for query in queries:
        for value in query.values if isinstance(query.values, tuple) else ():
            named = [n.value for n in value.node.walk() if n.op == "column" and n.type in ENDS]
            if len(named) > len(set(named)):
                return True
    return False


class ReadOnce(Writer):
    """Writes SQL over rows whose columns are read already, beside what is stored."""

    def __init__(self, schema: Schema, physical: dict[str, str]) -> None:
        super().__init__(schema, physical)
        names = schema.names
        self._read, self._low, self._high, self._place = (
            {name: quote(spare(f"{kind}_{i}", names)) for i, name in enumerate(names)}
            for kind in ("read", "low", "high", "place")
        )
        for name in (c.name for c in schema.columns if not column(c).nullable):
            self._low[name] = self._high[name] = self._read[name]  # nothing is missing

    def read(self, c: Column) -> str:
        """A column as declared, by the name it has below."""
        return self._read[c.name]

    def _word(self, c: Column) -> str:
        """A text as a small number, by the name it has below."""
        return self._place[c.name]

    def over(self, source: str) -> str:
        """The rows, each column as stored, as declared, and filled at either end.

        A database reads of it what is needed.
        """
        chosen = [quote(name) for name in self.schema.names]
        for c in self.schema.columns:
            read, ends = super().read(c), ENDS.get(column(c).type)
            chosen.append(f"{read} AS {self._read[c.name]}")
            if ends is not None and column(c).nullable:
                chosen.append(f"{ends[0].format(read)} AS {self._low[c.name]}")
                chosen.append(f"{ends[1].format(read)} AS {self._high[c.name]}")
            if self._words(column(c)) is not None:
                chosen.append(f"{super()._word(c)} AS {self._place[c.name]}")
        return f"(SELECT {', '.join(chosen)} FROM {source}) AS read_once"

    def truth(self, node: Node) -> str:
        """Where a predicate is true; FALSE elsewhere, so nowhere missing."""
        if node.op in ("and", "or"):
            return self.spelled(node, *(self.truth(arg) for arg in node.args))
        if node.op == "column":
            return self._low[node.value]
        if node.op == "not" and node.args[0].op == "column":
            return self.spelled(node, self._high[node.args[0].value])
        if node.op in ("lt", "le", "eq") and _comparable(*node.args):
            left, right = node.args  # a missing left side is too high, a missing right side too low
            return self.spelled(node, self._side(left, self._high), self._side(right, self._low))
        written = self.node(node)
        return f"(({written}) IS TRUE)" if node.nullable else written

    def _side(self, node: Node, filled: dict[str, str]) -> str:
        return filled[node.value] if node.op == "column" else self.literal(node)


def _comparable(left: Node, right: Node) -> bool:
    """Are these a column and a constant of one type, which no end can be equal to?"""
    ops = {left.op, right.op}
    return ops == {"column", "literal"} and left.type == right.type in ("integer", "number")

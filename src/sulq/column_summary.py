"""Median, standard deviation, correlation, means by groups: the SELECT that each one is.

They are asked as SQL, so that `db.median("age")` and `select median(age) from people` are one
question to the ledger: the second of the two is free, whichever it is.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.parse import parse, predicate
from sulq.expressions.quoting import quote
from sulq.values.price import Price
from sulq.values.schema import Schema
from sulq.values.table import Table
from sulq.values.uncertain import Linked, Uncertain, normal

SUMMARY = {
    "mean": "avg({0})",
    "std": "stddev({0})",
    "q25": "percentile_cont(0.25) within group (order by {0})",
    "median": "median({0})",
    "q75": "percentile_cont(0.75) within group (order by {0})",
}


class Select:
    """The SELECT of one aggregate, or several, over a table of this schema."""

    def __init__(self, schema: Schema, table: str) -> None:
        self._schema = schema
        self._table = quote(table)

    def text(
        self, outputs: dict[str, str], where: str | None = None, by: Any = None,
    ) -> str:  # fmt: skip
        """The statement: outputs by name, over the rows of a predicate, by some columns."""
        keys = [self._key(key) for key in _listed(by)]
        shown = [*keys, *(f"{said} as {quote(name)}" for name, said in outputs.items())]
        parts = [f"select {', '.join(shown)} from {self._table}"]
        if where is not None:
            predicate(where, self._schema)  # refused as what it is, not as a part of a statement
            parts.append(f"where {where}")
        return " ".join(parts + ([f"group by {', '.join(keys)}"] if keys else []))

    def expression(self, said: Any) -> str:
        """One SQL expression, which is checked to be one."""
        if not isinstance(said, str):
            raise QueryNotAllowed(f"{said!r}: want a SQL expression as text, such as 'income'.")
        parse(said, self._schema)
        return said

    def _key(self, said: Any) -> str:
        if said in self._schema.names:
            return quote(said)
        return self.expression(said)

    def summaries(self) -> dict[str, str]:
        """For each number whose ends are declared, the statement that describes it."""
        found = {}
        for column in self._schema.columns:
            numeric = column.type in ("integer", "number") and not column.key
            if numeric and column.low is not None and column.high is not None:
                name = quote(column.name)
                found[column.name] = self.text({n: s.format(name) for n, s in SUMMARY.items()})
        if not found:
            raise QueryNotAllowed(
                "describe: no column is a number with declared ends. db.profile() looks at "
                "columns of every kind. Nothing was charged."
            )
        return found


def _listed(by: Any) -> Sequence[Any]:
    if by is None:
        return ()
    if isinstance(by, str):
        return (by,)
    if not isinstance(by, Sequence) or not by:
        raise QueryNotAllowed(f"by={by!r}: want a column, or a list of them.")
    return by


def only_number(table: Table) -> Uncertain:
    """The single number of a table, with its interval."""
    (name,) = table.numbers
    value, low, high = (table.columns[f"{name}{end}"][0] for end in ("", "_low", "_high"))
    std = (high - low) / 2 / normal(0.95)
    vague = table.is_vague(0, name) or not math.isfinite(std)
    errors: dict[Hashable, float] = {Linked(): math.inf if vague else std} if std or vague else {}
    ends = None if vague or not std else (low, high)
    return Uncertain(
        value, errors, ends=ends, price=table.price, remaining=table.remaining, note=table.note
    )


def stacked(tables: dict[str, Table]) -> Table:
    """One row for each column that was described."""
    found = list(tables.values())
    names = list(found[0].columns)
    columns: dict[str, list[Any]] = {"column": list(tables)}
    columns |= {name: [t.columns[name][0] for t in found] for name in names}
    vague = {n: [t.is_vague(0, n) for t in found] for n in found[0].numbers}
    return Table(
        columns, ("column",), sum((t.price for t in found), Price(0)),
        min(t.remaining for t in found), "; ".join(dict.fromkeys(t.note for t in found if t.note)),
        too_noisy=vague, too_few=tuple(any(t.too_few) for t in found),
    )  # fmt: skip

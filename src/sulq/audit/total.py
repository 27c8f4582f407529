"""Query -> Total: one number, in the one form that an auditor judges and the ledger keeps.

What was asked before is read back from the ledger when it is opened again, so a question that
could not be read back is refused before it is paid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from sulq.errors import QueryNotAllowed
from sulq.expressions.functions import call
from sulq.expressions.node import Node
from sulq.expressions.parse import shorten
from sulq.expressions.stored_tree import dumps, node_of
from sulq.privacy.geometry import NOTHING, Release
from sulq.questions.check import CheckedQuery, check
from sulq.questions.grid import Value, gridded
from sulq.values.query import Products, Query, Sums, Terms
from sulq.values.schema import Schema

TERMS = ("gaussian", "beliefs")  # the noise and guarantee whose grid and ranges are used


@dataclass(frozen=True, slots=True)
class Total:
    """One number: the sum of `node` over the rows where `rows` and `where` are true."""

    text: str  # canonical: equal texts are equal questions
    rows: Node | None  # the public part of the predicate
    where: Node | None  # the rest of it
    node: Node  # how much a row counts
    modulus: int | None = None  # multiples of it are taken away; judged as if they were not

    @property
    def member(self) -> Node | None:
        """Who counts; None is everybody."""
        parts = [n for n in (self.rows, self.where) if n is not None]
        return call("and", *parts) if parts else None

    @property
    def value(self) -> Value:
        """How much a row counts, in whole steps of a grid."""
        return gridded(self.node)

    @property
    def step(self) -> Fraction:
        """What one step of the grid is worth, in the number's own units."""
        return 1 / Fraction(2) ** self.value.scale

    @property
    def unit(self) -> Fraction:
        """How many steps one row can move the sum, at most."""
        value = self.value
        low, high = value.low, value.high
        if self.where is not None or self.node.nullable or low == high:
            low, high = min(low, 0), max(high, 0)
        return Fraction(high - low)

    @property
    def boolean(self) -> bool:
        """Does every row count as 0 or 1?"""
        whole = self.node.type == "integer" and self.node.low >= 0 and self.node.high <= 1
        return whole or self.node.type == "boolean"

    def columns(self) -> frozenset[str]:
        """Every column it reads."""
        nodes = (self.rows, self.where, self.node)
        return frozenset().union(*(n.columns() for n in nodes if n is not None))

    def is_public(self, schema: Schema) -> bool:
        """Does it read public columns alone? Then everyone knows it."""
        return not self.named(schema, public=False)

    def named(self, schema: Schema, *, public: bool) -> tuple[str, ...]:
        """The public columns it reads, or the private ones, by name."""
        return tuple(sorted(n for n in self.columns() if schema[n].public is public))


def of_own_rows() -> QueryNotAllowed:
    """Why questions about people are not audited."""
    return QueryNotAllowed(
        "per_person: an audited table answers about its own rows only. Nothing was charged."
    )


def total_of(query: Query, schema: Schema, older: bool = False) -> tuple[Total, CheckedQuery]:
    """Check one query: a single number, without cells, that the ledger can keep."""
    if query.per_person is not None:
        raise of_own_rows()
    # Every question is one of m for everybody, whichever public rows it is about.
    checked = replace(check(_one_number(query), schema, *TERMS, older), ledger_cells=None)
    if checked.sample is not None:  # which rows those are, no truth table and no product says
        raise QueryNotAllowed(
            "rows: audited questions take a predicate, db.count(where) or Rows.where(...), not a "
            "sample, shards, keys or blocks. Nothing was charged."
        )
    assert isinstance(checked.values, tuple)
    total = Total(checked.text, checked.rows, checked.where, checked.values[0].node)
    try:
        kept = restore(total.text, schema) == total
    except QueryNotAllowed:
        kept = False
    if not kept:
        raise QueryNotAllowed(
            "this question has a part that the auditor could not read back from its ledger. Write "
            "it in another way. Nothing was charged."
        )
    return total, checked


@lru_cache(maxsize=1024)
def restore(text: str, schema: Schema) -> Total:
    """A question as the ledger kept it."""
    try:
        body = json.loads(text)
        (value,) = body["values"]
        rows, where = (
            node_of(body[part], schema) if part in body else None for part in ("rows", "where")
        )
        return Total(text, rows, where, node_of(value, schema), body.get("modulo"))
    except (KeyError, TypeError, ValueError):
        raise QueryNotAllowed(
            f"{shorten(text)!r} in the ledger is not a question of this schema."
        ) from None


def restored(text: str, schema: Schema) -> list[Total]:
    """Every number of a question as the ledger kept it."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    each = [dumps(part) for part in body] if isinstance(body, list) else [text]
    return [restore(one, schema) for one in each]


def restore_all(text: str, schema: Schema) -> list[Total]:
    """What an auditor judges of a charge: its numbers that read a private column."""
    return [total for total in restored(text, schema) if not total.is_public(schema)]


def engine_query(
    values: Sequence[Value], rows: Node | None = None, where: Node | None = None
) -> CheckedQuery:
    """What an engine needs to sum these values; it has no price."""
    releases = tuple(Release("total", Fraction(1), Fraction(1)) for _ in values)
    return CheckedQuery(
        "", rows, None, where, (), tuple(values), None, None, releases=releases, geometry=NOTHING
    )


def without_noise(query: Query) -> Query:
    """The question without what only noise has a use for; asked for by name, that is refused."""
    if not isinstance(query, Query):
        raise QueryNotAllowed(f"{shorten(repr(query))}: want a sulq.Query, or a list of them.")
    if isinstance(query.values, Terms) and not query.values.groups:
        query = replace(query, values=query.values.sums)
    rows = query.rows
    if rows is not None and (rows.seed is not None or rows.rate is not None or rows.count):
        raise QueryNotAllowed(
            "rows: audited questions take a predicate, db.count(where) or Rows.where(...), not a "
            "sample or blocks."
        )
    dense = isinstance(query.values, Sums | Products)
    if query.error is not None or (query.weights is not None and not dense):
        raise QueryNotAllowed(
            "error, weights: audited answers have one dither, whatever is paid. Leave them out."
        )
    return replace(query, weights=None)


def _one_number(query: Query) -> Query:
    """The query as a list of one value; what has more parts is refused, each with its reason."""
    query = without_noise(query)
    if not isinstance(query.values, tuple) or len(query.values) != 1:
        raise QueryNotAllowed(
            "an audited question is one number: a count, or one sum. Ask each number by itself."
        )
    if query.by is not None:
        raise QueryNotAllowed(
            "by: an audited question is one number. Ask db.count(...) for each value by itself."
        )
    return query

"""What a question asks that is public: counted exactly, and nobody pays for it.

Who is in the table and what its public columns hold is no secret. So a number over public rows, by
public cells, of public columns alone has no noise and no price. A question may ask such numbers
beside private ones; only the private ones are priced, charged and stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sulq.errors import QueryNotAllowed
from sulq.expressions.stored_tree import dumps
from sulq.questions.check import CheckedQuery
from sulq.questions.contributions import Dense
from sulq.questions.discovery import Discovery
from sulq.questions.percentile_choice import Choice
from sulq.values.answer import Answer
from sulq.values.price import Price
from sulq.values.query import Query, Terms
from sulq.values.schema import Schema

T = TypeVar("T")
MAX_COUNTS = 1_000_000  # in one answer


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """How many rows there are, how many have no key, and how many have a key seen before."""

    rows: int
    missing: int
    repeated: int


@dataclass(frozen=True, slots=True)
class Fact:
    """A query about public columns alone."""

    query: Query  # as it was asked, for the way over a wire
    checked: CheckedQuery

    @property
    def price(self) -> Price:
        """Nothing, for numbers without error."""
        return Price(0, (0.0,) * len(self.checked.releases))


def schema_of(checked: CheckedQuery, schema: Schema) -> Schema:
    """The columns that its functions read: the table's, or those of a row per person."""
    return schema if checked.people is None else checked.people.schema


def is_public(checked: CheckedQuery, schema: Schema) -> bool:
    """Does it read public columns alone, or no row whatever the rows are?"""
    if of_nobody(checked):
        return True
    schema = schema_of(checked, schema)
    if not public_cells(checked):
        return False
    if isinstance(checked.values, Dense):
        names = frozenset(checked.values.columns)
    else:
        names = frozenset[str]().union(*(v.node.columns() for v in checked.values))
    if checked.rows is not None:
        names |= checked.rows.columns()
    return all(schema[name].public for name in names)


def of_nobody(checked: CheckedQuery) -> bool:
    """True for sums over no row, whatever the rows are: all of them are 0.

    Then nothing can move them: they are exact and free. What is chosen or discovered is no sum.
    """
    nobody = checked.rows is not None and checked.rows.op == "literal" and not checked.rows.value
    return nobody and not isinstance(checked.measurement, Choice | Discovery)


def check_public(every: Sequence[CheckedQuery], schema: Schema) -> None:
    """Refuse to count what is not public, whoever asks: such a count would be exact and unpaid."""
    if not all(is_public(checked, schema) for checked in every):
        raise QueryNotAllowed(
            "only public columns are counted exactly and free. Nothing was charged.\nAsk for it "
            "as a question, which has a price."
        )


def public_part(checked: CheckedQuery) -> CheckedQuery:
    """A count of the rows that it is about by public columns alone, in one cell."""
    body = json.loads(checked.text)
    text = dumps({k: v for k, v in body.items() if k not in ("where", "by")})
    return replace(checked, text=text, where=None, axes=(), private_cells=False)


def public_cells(checked: CheckedQuery) -> bool:
    """Is it public which rows it is about, and which cell each is in?"""
    return checked.where is None and not checked.private_cells


def merged(public: Sequence[bool], private: Answer | None, fact: Answer | None) -> Answer:
    """One answer of both; the private one has the price and says what is left.

    `public` says of each number that the query releases which of the two it comes from.
    """
    if private is None or fact is None:
        found = private or fact
        assert found is not None
        return found

    def row(paid: Sequence[T], free: Sequence[T]) -> tuple[T, ...]:
        rest, known = iter(paid), iter(free)
        return tuple(next(known if is_public else rest) for is_public in public)

    none = (0.0,) * len(private.factors[0]) if private.factors else ()
    rows = [[none] * len(fact.names)] * len(private.factors)
    return replace(
        private,
        factors=tuple(map(row, private.factors, rows)),
        exact=tuple(map(row, private.exact, fact.exact)),
        stds=tuple(map(row, private.stds, fact.stds)),
        names=row(private.names, fact.names),
    )


def divided(query: Query, public: Sequence[bool]) -> tuple[Query, Query]:
    """A list of sums as two: the private ones, with what else is asked, and the public ones."""
    texts = query.values.sums if isinstance(query.values, Terms) else query.values
    assert isinstance(texts, tuple)
    kept, known = (
        [i for i, p in enumerate(public[: len(texts)]) if p is wanted] for wanted in (False, True)
    )
    weights = query.weights if isinstance(query.values, tuple) else None
    sums = tuple(texts[i] for i in kept)
    private = replace(query.values, sums=sums) if isinstance(query.values, Terms) else sums
    if weights:
        query = replace(query, weights=tuple(weights[i] for i in kept))
    free = replace(query, values=tuple(texts[i] for i in known), weights=None, error=None)
    return replace(query, values=private), free


def public_values(query: Query, checked: CheckedQuery, schema: Schema) -> tuple[bool, ...]:
    """Which of the released numbers are public, where only some may be."""
    none = (False,) * len(checked.releases)
    plain = query.values.sums if isinstance(query.values, Terms) else query.values
    if not isinstance(plain, tuple) or isinstance(checked.values, Dense):
        return none
    if not public_cells(checked):
        return none
    schema = schema_of(checked, schema)
    known = tuple(
        all(schema[n].public for n in v.node.columns()) for v in checked.values[: len(plain)]
    )
    return known + none[len(plain) :]

"""What a learner learns from: a database, some columns of it, a label and a budget.

Rows with a missing value in a column that a model uses are left out of it, and counted. What such
a row adds to an answer is what no row adds. Where the owner declared that no value is missing
(nullable = false) nothing is left out, and nothing is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import sulq
from sulq.expressions.quoting import quote, text
from sulq.learn.arrays import Array

MICRO = 1_000_000  # micro-queries in one query
EXACT = "audited"  # how a database counts that answers exactly or refuses


@dataclass(frozen=True, slots=True)
class Task:
    """One fit: a database, what of it to learn from, and the queries that may be spent."""

    db: sulq.Queryable
    columns: tuple[str, ...]
    label: str | None
    budget: Any  # None: the price of the questions at the database's own noise

    @property
    def classes(self) -> Any:
        """What the owner declared that the label can be."""
        column = self.db.schema.get(self.label) if self.label is not None else None
        if column is None or column.listed is None or len(column.listed) < 2:
            raise sulq.QueryNotAllowed(
                f"label={self.label!r}: want a Boolean column, or one with two or more listed "
                "values."
            )
        return np.array(column.listed)

    @property
    def complete(self) -> str | None:
        """The predicate of rows that have all columns; None: every row has."""
        names = lacking(self.db.schema, self.columns)
        return conjoined(*(f"{quote(name)} IS NOT NULL" for name in names))

    @property
    def labelled(self) -> str | None:
        """The predicate of rows whose label is one of the classes; None: every row's is."""
        column = self.db.schema.get(self.label) if self.label is not None else None
        if column is None or (column.type != "category" and not column.nullable):
            return None
        return f"{quote(column.name)} IS NOT NULL"

    @property
    def known(self) -> str | None:
        """The predicate of rows that have all columns and a class; None: every row has."""
        return conjoined(self.complete, self.labelled)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Low ends and widths of the columns."""
        return bounds_of(self.db.schema, self.columns)

    def finest(self, queries: Sequence[sulq.Query]) -> list[sulq.Query]:
        """The queries, asked together as exactly as the budget allows."""
        return all_within(self.db, queries, self.budget)

    def most(self, natural: sulq.Price, first: Sequence[sulq.Query], share: Fraction) -> sulq.Price:
        """The budget, or without one `natural`; refused if `first` cannot be had for its share."""
        if self.budget is None:
            return natural
        all_within(self.db, first, Fraction(self.budget) * share)
        return sulq.Price(int(Fraction(self.budget) * MICRO))

    def check(self, price: sulq.Price) -> None:
        """Refuse before the first query what the budget cannot pay to the end."""
        remaining = int(self.db.budget.of_all * MICRO)
        if price.micro > remaining:
            raise sulq.BudgetExceeded(price.micro, remaining, self.db.name)


def with_functions(
    db: sulq.Queryable, columns: Sequence[str] | None, label: str | None
) -> tuple[sulq.Queryable, Sequence[str] | None, str | None]:
    """The database with the functions of a row that stand among these as columns of it."""
    given = [f for f in (*(columns or ()), label) if isinstance(f, sulq.RowFunction)]
    if not given:
        return db, columns, label
    names = None if columns is None else [_name(c) for c in columns]
    functions = {id(f): f for f in given}.values()
    return db.define(*functions), names, None if label is None else _name(label)


def _name(column: str) -> str:
    return column.name if isinstance(column, sulq.RowFunction) else column


def declared(schema: Any, name: str) -> Any:
    """A column, or a refusal."""
    column = schema.get(name)
    if column is None:
        raise sulq.QueryNotAllowed(f"columns: there is no column {name!r}.")
    return column


def bounded(column: Any) -> bool:
    """Is it Boolean, or a number with declared low and high?"""
    number = column.type in ("integer", "number") and column.bounded
    return bool(number or column.type == "boolean")


def bounds_of(schema: Any, columns: Sequence[str]) -> tuple[Array, Array]:
    """Low ends and widths; a Boolean is 0 or 1."""
    low, width = [], []
    for name in columns:
        column = declared(schema, name)
        if not bounded(column):
            raise sulq.QueryNotAllowed(
                f"columns: {name!r} is not a number with declared low and high."
            )
        a, b = (0.0, 1.0) if column.type == "boolean" else (float(column.low), float(column.high))
        low.append(a)
        width.append(b - a)
    return np.array(low), np.array(width)


def within(db: sulq.Queryable, query: sulq.Query, queries: Any) -> sulq.Query:
    """The query, asked as exactly as so many queries allow; None: at the database's own noise."""
    return all_within(db, [query], queries)[0]


def is_exact(db: sulq.Queryable) -> bool:
    """Does it answer exactly or refuse, at one price whatever is wanted?"""
    return db.pricing == EXACT


def all_within(db: sulq.Queryable, asked: Sequence[sulq.Query], queries: Any) -> list[sulq.Query]:
    """The same for several: each with the same part more or less noise than it has by itself."""
    if queries is None or is_exact(db):
        return list(asked)
    if isinstance(queries, bool) or not MICRO * queries >= 1:
        raise sulq.Refused(f"budget={queries!r}, want at least a millionth of a query a step.")
    natural = [db.price(query) for query in asked]
    rounded = min(Fraction(len(asked), MICRO), Fraction(queries) / 2)  # micro-queries, up
    ratio = float(sum(price.queries for price in natural) / (Fraction(queries) - rounded))
    # Price goes as 1/error^2 for gaussian noise, as 1/error for laplace.
    wider, more = ratio ** (1.0 if db.promise.noise == "laplace" else 0.5), 1e-12
    while True:
        out = [
            replace(query, error=Fraction(max(price.half_widths) * wider)) if price.micro else query
            for query, price in zip(asked, natural, strict=True)
        ]
        if sum(db.price(query).queries for query in out) <= queries:
            return out
        wider, more = wider * (1 + more), 4 * more  # by a last digit


# --- missing values -----------------------------------------------------------------------


class LeftOut(NamedTuple):
    """How many rows were left out, and the standard deviation of that number's noise."""

    rows: float = 0.0
    std: float = 0.0

    @classmethod
    def of(cls, n: int, counts: Any, std: float) -> LeftOut:
        """Those of n rows that are in none of these counts, each with noise of this size."""
        return cls(n - float(np.sum(counts)), float(std * math.sqrt(len(counts))))

    def __str__(self) -> str:
        said = f"{self.rows:,.0f} +/- {1.96 * self.std:,.0f} rows (95%)"
        return f"left out: {said}, for a missing value"


NOBODY = LeftOut()


def equals(column: str, value: Any, equal: bool = True) -> str:
    """The predicate column = value, or column <> value."""
    name = quote(column)
    if isinstance(value, bool):
        return name if value == equal else f"NOT {name}"
    constant = text(value) if isinstance(value, str) else repr(value)
    return f"{name} {'=' if equal else '<>'} {constant}"


def lacking(schema: Any, columns: Sequence[str]) -> list[str]:
    """Those of some columns that may have missing values, as declared."""
    found = map(schema.get, columns)
    return [column.name for column in found if column is not None and column.nullable]


def conjoined(*predicates: str | None) -> str | None:
    """All of them; None says nothing."""
    return " AND ".join(p for p in predicates if p is not None) or None


def balanced(parts: list[str]) -> str:
    """A sum bracketed evenly, so that it is not deep."""
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [f"({' + '.join(pair)})" if len(pair) > 1 else pair[0] for pair in pairs]
    return parts[0]


def noise_std(db: sulq.Queryable, price: sulq.Price) -> float:
    """The standard deviation of a query's noise, from the half-widths that come with its price."""
    widest = db.promise.half_width(0.95)
    return float(max(price.half_widths) * db.promise.std / widest) if widest else 0.0

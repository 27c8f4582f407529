"""What each database will be asked, and its price, before anything is asked.

A plan is made from public things only: the question, the schemas, the promises, the number of
rows and the keys. Running it asks every database once. Those that cannot pay are asked first:
they answer from what they gave before, free, or refuse while nothing has been charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

import sulq
from sulq.answer import with_error
from sulq.learn.base import all_within

from .people import named

Made = TypeVar("Made")
MICRO = 1_000_000  # micro-queries in one query
ROUGH = 0.2  # an error of a probability that tells next to nothing


@dataclass(frozen=True, slots=True)
class Part:
    """One database and all it is asked, as one batch."""

    db: Any
    queries: tuple[sulq.Query, ...]

    @property
    def price(self) -> sulq.Price:
        """What the batch costs; equal questions cost once."""
        return sum(map(self.db.price, dict.fromkeys(self.queries)), sulq.Price(0))

    def ask(self) -> list[sulq.Answer]:
        """Pay and ask, all or none."""
        answers: list[sulq.Answer] = self.db.ask(list(self.queries), share=False)
        return answers


@dataclass(frozen=True)
class Plan(Generic[Made]):
    """Questions and what will be made of their answers.

    `prices` has one price for each database, `blocks` the number of blocks (0: none), `error`
    the 95% half-width to expect of what is estimated, said in `of_what`.
    """

    parts: tuple[Part, ...]
    make: Callable[[list[list[sulq.Answer]], tuple[sulq.Price, ...]], Made]
    blocks: int = 0
    error: float | None = None
    of_what: str = ""

    @property
    def prices(self) -> tuple[sulq.Price, ...]:
        """One price for each database. Nothing is spent."""
        return tuple(part.price for part in self.parts)

    def run(self) -> Made:
        """Ask every database and make the result."""
        prices = self.prices
        return self.make(ask_all(self.parts, prices), prices)

    def __str__(self) -> str:
        said = [f"{p} in {named(part.db, i)}" for i, (part, p) in enumerate(self._priced())]
        if self.blocks:
            said.append(f"{self.blocks:,} blocks")
        if self.error is not None:
            reach = with_error(0.0, self.error).split("+/- ")[1]
            rough = "; that says little: spend more, or ask about more people"
            said.append(f"expected within +/- {reach} (95%){self.of_what}")
            said[-1] += rough if self.error > ROUGH else ""
        return "; ".join(said)

    __repr__ = __str__

    def _priced(self) -> list[tuple[Part, sulq.Price]]:
        return list(zip(self.parts, self.prices, strict=True))


def ask_all(parts: Sequence[Part], prices: Sequence[sulq.Price]) -> list[list[sulq.Answer]]:
    """The answers of every database, in order; whoever cannot pay is asked first."""
    short = [not affordable(part.db, price) for part, price in zip(parts, prices, strict=True)]
    order = sorted(range(len(parts)), key=lambda i: not short[i])
    found = {i: parts[i].ask() for i in order}
    return [found[i] for i in range(len(parts))]


def affordable(db: Any, price: sulq.Price) -> bool:
    """Is enough left for it?"""
    return price.micro <= int(db.budget.remaining * MICRO)


def parts_of(asked: Sequence[tuple[Any, sulq.Query]], budgets: Sequence[Any]) -> tuple[Part, ...]:
    """Questions gathered by database, each batch within its budget."""
    dbs: list[Any] = []
    for db, _ in asked:
        if not any(db is other for other in dbs):
            dbs.append(db)
    out = []
    for db, budget in zip(dbs, spread(budgets, len(dbs)), strict=True):
        queries = [query for other, query in asked if other is db]
        out.append(Part(db, tuple(priced(db, queries, budget))))
    return tuple(out)


def priced(db: Any, queries: list[sulq.Query], budget: Any) -> list[sulq.Query]:
    """The questions, as exact as the budget allows; None, or just their price: as they are."""
    if budget is None or sum(db.price(q).queries for q in queries) == as_fraction(budget):
        return queries
    return all_within(db, queries, as_fraction(budget))


def as_fraction(budget: Any) -> Fraction:
    """A budget in queries, exactly."""
    try:
        if isinstance(budget, bool | str):
            raise ValueError
        exact = Fraction(budget)
    except (TypeError, ValueError, OverflowError):
        raise sulq.Refused(f"budget={budget!r}, want a number of queries, such as 1.") from None
    if exact <= 0:
        raise sulq.Refused(f"budget={budget!r}, want more than 0 queries.")
    return exact


def spread(budgets: Any, count: int) -> list[Any]:
    """One budget for each database: None, one number for all, or one each."""
    if budgets is None or isinstance(budgets, int | float | Fraction):
        return [budgets] * count
    if not isinstance(budgets, Sequence) or isinstance(budgets, str) or len(budgets) != count:
        raise sulq.Refused(f"budget={budgets!r}, want one number, or one for each of {count}.")
    return list(budgets)

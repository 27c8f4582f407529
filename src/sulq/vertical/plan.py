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
from sulq.learn.parameters import checked_share
from sulq.learn.task import MICRO, all_within
from sulq.stepwise import in_steps
from sulq.values.number_text import with_error
from sulq.vertical.common_people import named, one_database

Made = TypeVar("Made")
Other = TypeVar("Other")
ROUGH = 0.2  # an error of a probability that tells next to nothing


@dataclass(frozen=True, slots=True)
class Part:
    """One database and all it is asked, as one batch."""

    db: sulq.Queryable
    queries: tuple[sulq.Query, ...]

    @property
    def price(self) -> sulq.Price:
        """The price of the batch; equal questions are paid once."""
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
        """Ask every database, first those that cannot pay, and make the result."""
        prices = self.prices
        short = [not affordable(p.db, price) for p, price in zip(self.parts, prices, strict=True)]
        order = sorted(range(len(prices)), key=lambda i: not short[i])
        with in_steps(*(part.db for part in self.parts)):
            found = {i: self.parts[i].ask() for i in order}
        return self.make([found[i] for i in range(len(prices))], prices)

    def then(self, f: Callable[[Made], Other]) -> Plan[Other]:
        """The same questions, and f of what is made of their answers."""
        made = self.make
        return Plan(
            self.parts, lambda answers, prices: f(made(answers, prices)),
            self.blocks, self.error, self.of_what,
        )  # fmt: skip

    def __str__(self) -> str:
        said = [f"{part.price} in {named(part.db, i)}" for i, part in enumerate(self.parts)]
        if self.blocks:
            said.append(f"{self.blocks:,} blocks")
        if self.error is not None:
            reach = with_error(0.0, self.error).split("+/- ")[1]
            rough = "; that says little: spend more, or ask about more people"
            said.append(f"expected within +/- {reach} (95%){self.of_what}")
            said[-1] += rough if self.error > ROUGH else ""
        return "; ".join(said)

    __repr__ = __str__


def affordable(db: sulq.Queryable, price: sulq.Price) -> bool:
    """Is enough left for it?"""
    return price.micro <= int(db.budget.of_all * MICRO)


def parts_of(asked: Sequence[tuple[Any, sulq.Query]], budgets: Sequence[Any]) -> tuple[Part, ...]:
    """Questions gathered by database, each batch within its budget."""
    dbs = {id(db): db for db, _ in asked}.values()
    out = []
    for db, budget in zip(dbs, spread(budgets, len(dbs)), strict=True):
        queries = [query for other, query in asked if other is db]
        out.append(Part(db, tuple(priced(db, queries, budget))))
    return tuple(out)


def priced(db: sulq.Queryable, queries: list[sulq.Query], budget: Any) -> list[sulq.Query]:
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


# --- what may be asked -------------------------------------------------------------------


def checked_pairs(pairs: Any, such_as: str) -> list[tuple[Any, Any]]:
    """Two or more pairs of a database and what is asked of it."""
    try:
        found = [(db, asked) for db, asked in pairs]
    except (TypeError, ValueError):
        found = []
    if len(found) < 2 or not all(hasattr(db, "ask") for db, _ in found):
        raise sulq.Refused(f"want at least two pairs {such_as}.")
    return found


def checked_sides(sides: Any) -> list[tuple[Any, str]]:
    """Pairs of a database and a property."""
    found = checked_pairs(sides, "(database, property), such as (db, 'smoker')")
    for db, text in found:
        if not isinstance(text, str):
            raise sulq.QueryNotAllowed(f"{text!r}: want a predicate as text, such as 'age > 40'.")
        db.price(sulq.Query(("1",), where=text))  # it can be asked
    if len({id(db) for db, _ in found}) < 2:
        raise one_database()
    return found


def checked_expected(expected: Any, count: int) -> list[float]:
    """Guesses of the probabilities, which choose the number of blocks and nothing else."""
    many = isinstance(expected, Sequence) and not isinstance(expected, str)
    given = list(expected) if many else [expected] * count
    if len(given) != count:
        raise sulq.Refused(f"expected={expected!r}, want one probability, or {count}.")
    return [checked_share("expected", p) for p in given]


def same_answers() -> sulq.SulqError:
    """Two handles of one database give one stored answer, noise and all."""
    return sulq.QueryNotAllowed(
        "both sides gave the same noisy sums: they are one database, asked one question. Its noise "
        "would count as agreement. Asking again is free."
    )

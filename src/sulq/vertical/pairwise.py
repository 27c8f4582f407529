"""Asking two or more databases about properties of the same people, each of them once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

import sulq

from .blocks import (
    HALF_WIDTH,
    MOST,
    BlockSums,
    block_count,
    block_sums,
    checked_blocks,
    checked_seed,
    expected_std,
    noise_variance,
)
from .joint import Joint, joint_of
from .people import Shared, check_keys, people_of, shared_by_all
from .plan import Plan, parts_of


@dataclass(frozen=True)
class Pairwise:
    """Properties of several databases, each asked once, and the table of any two."""

    properties: tuple[str, ...]
    owners: tuple[int, ...]  # which database each property is in
    sums: tuple[BlockSums, ...]
    shared: dict[frozenset[int], Shared]  # how many people two databases share
    price: tuple[sulq.Price, ...]  # one for each database

    def joint(self, i: int, j: int) -> Joint:
        """The table of the i-th property (as a) and the j-th (as b), counted from 0."""
        for k in (i, j):
            if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k < len(self.sums):
                raise sulq.Refused(f"{k!r}: want two of 0 to {len(self.sums) - 1}.")
        owners = frozenset((self.owners[i], self.owners[j]))
        if len(owners) < 2:
            raise one_database()
        a, b = self.sums[i], self.sums[j]
        if np.array_equal(a.sums, b.sums):
            raise same_answers()
        return joint_of(a, b, self.shared[owners], self.price)

    def __iter__(self) -> Iterator[tuple[int, int, Joint]]:
        for i, j in itertools.combinations(range(len(self.sums)), 2):
            if self.owners[i] != self.owners[j]:
                yield i, j, self.joint(i, j)


def planned_pairs(
    sides: Sequence[tuple[Any, str]],
    *,
    budget: Any = None,
    blocks: int | None = None,
    seed: int = 0,
    expected: Any = 0.5,
    overlap: bool = False,
) -> Plan[Pairwise]:
    """One question for each property, over the same blocks of people."""
    sides = checked_sides(sides)
    checked_seed(seed)
    dbs = list({id(db): db for db, _ in sides}.values())
    check_keys(dbs)
    spreads = [math.sqrt(p * (1 - p)) for p in checked_expected(expected, len(sides))]
    trial = parts_of([(db, counted(text, seed, FEW)) for db, text in sides], budget)
    variances = [noise_variance(part.db.price(q)) for part in trial for q in part.queries]
    rows = math.exp(np.mean([math.log(max(db.rows, 1)) for db in dbs]))
    count = checked_blocks(blocks, MOST) or block_count(rows, spreads, variances, MOST)
    parts = parts_of([(db, counted(text, seed, count)) for db, text in sides], budget)
    everybody = people_of(dbs, seed, count)
    shared = shared_by_all(dbs, everybody, seed, overlap)  # refused before it is paid
    owners = tuple(next(k for k, d in enumerate(dbs) if d is db) for db, _ in sides)

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> Pairwise:
        given = [iter(found) for found in answers]
        sums = tuple(block_sums(next(given[at]), everybody[at]) for at in owners)
        return Pairwise(tuple(text for _, text in sides), owners, sums, shared, prices)

    error = HALF_WIDTH * expected_std(rows, spreads[:2], variances[:2], count)
    return Plan(parts, make, count, error, ", of a covariance")


FEW = 2  # blocks of a trial question, to learn its price


def counted(text: str, seed: int, blocks: int) -> sulq.Query:
    """How many people of each block have the property."""
    return sulq.Query(("1",), by=sulq.Blocks(seed, blocks), where=text)


def checked_sides(sides: Any) -> list[tuple[Any, str]]:
    """Pairs of a database and a property."""
    try:
        found = [(db, text) for db, text in sides]
    except (TypeError, ValueError):
        found = []
    if len(found) < 2 or not all(hasattr(db, "ask") for db, _ in found):
        raise sulq.Refused("want at least two pairs (database, property), such as (db, 'smoker').")
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
    good = all(isinstance(p, int | float) and 0 < p < 1 for p in given)
    if not good or len(given) != count:
        raise sulq.Refused(f"expected={expected!r}, want probabilities between 0 and 1.")
    return [float(p) for p in given]


def one_database() -> sulq.SulqError:
    """Why two properties of one table are not mined across."""
    return sulq.QueryNotAllowed(
        "both properties are in one database. Ask it directly: db.count('(a) and (b)') is more "
        "exact by far."
    )


def same_answers() -> sulq.SulqError:
    """Two handles of one database give one stored answer, noise and all."""
    return sulq.QueryNotAllowed(
        "both sides gave the same noisy sums: they are one database, asked one question. Its noise "
        "would count as agreement. Asking again is free."
    )


class Options(TypedDict, total=False):
    """What may be said beside the question; see `joint`."""

    budget: Any
    blocks: int | None
    seed: int
    expected: Any
    overlap: bool


def pairwise(sides: Sequence[tuple[Any, str]], **options: Unpack[Options]) -> Pairwise:
    """Ask several databases once each, then take any two together."""
    return planned_pairs(sides, **options).run()


def planned_joint(a_db: Any, a: str, b_db: Any, b: str, **options: Unpack[Options]) -> Plan[Joint]:
    """One question a side."""
    plan = planned_pairs([(a_db, a), (b_db, b)], **options)
    return Plan(
        plan.parts, lambda answers, prices: plan.make(answers, prices).joint(0, 1),
        plan.blocks, plan.error, plan.of_what,
    )  # fmt: skip


def joint(a_db: Any, a: str, b_db: Any, b: str, **options: Unpack[Options]) -> Joint:
    """The 2x2 table of property a in one database and b in another.

    budget: queries each side may spend (a number, or one each); None is one query's price.
    blocks, seed: how people are put together; expected: guesses of P[a] and P[b], which only
    choose the number of blocks; overlap=True estimates on people who are in both.
    """
    return planned_joint(a_db, a, b_db, b, **options).run()

"""Asking two or more databases about properties of the same people, each of them once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np

import sulq
from sulq.vertical.blocks import BlockSums, block_sums, laid_out, spread_of
from sulq.vertical.common_people import Shared, check_keys, one_database, shared_by_all
from sulq.vertical.joint import Implication, Joint, joint_of
from sulq.vertical.plan import Part, Plan, checked_expected, checked_sides, parts_of, same_answers
from sulq.vertical.subsets import SubsetPlan, planned_test

METHODS = ("blocks", "test")


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
    dbs = list({id(db): db for db, _ in sides}.values())
    check_keys(dbs, seed)
    guesses = checked_expected(expected, len(sides))

    def asked(count: int) -> tuple[Part, ...]:
        """How many people of each block have each property."""
        by = sulq.Blocks(seed, count)
        queries = [(db, sulq.Query(("1",), by=by, where=text)) for db, text in sides]
        return parts_of(queries, budget)

    laid = laid_out(dbs, asked, seed, [*map(spread_of, guesses)], blocks)
    shared = shared_by_all(dbs, laid.people, seed, overlap)  # refused before it is paid
    owners = tuple(next(k for k, d in enumerate(dbs) if d is db) for db, _ in sides)

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> Pairwise:
        given = [iter(found) for found in answers]
        sums = tuple(block_sums(next(given[at]), laid.people[at]) for at in owners)
        return Pairwise(tuple(text for _, text in sides), owners, sums, shared, prices)

    return Plan(laid.parts, make, laid.blocks, laid.error, ", of a covariance")


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


def planned_joint(
    a_db: sulq.Queryable, a: str, b_db: sulq.Queryable, b: str, **options: Unpack[Options]
) -> Plan[Joint]:
    """One question a side."""
    return planned_pairs([(a_db, a), (b_db, b)], **options).then(lambda found: found.joint(0, 1))


def joint(
    a_db: sulq.Queryable, a: str, b_db: sulq.Queryable, b: str, **options: Unpack[Options]
) -> Joint:
    """The 2x2 table of property a in one database and b in another.

    budget: queries each side may spend (a number, or one each); None is one query's price.
    blocks, seed: how people are put together; expected: guesses of P[a] and P[b], which only
    choose the number of blocks; overlap=True estimates on people who are in both.
    """
    return planned_joint(a_db, a, b_db, b, **options).run()


def planned_implication(
    a_db: sulq.Queryable, a: str, b_db: sulq.Queryable, b: str, *, method: str = "blocks",
    **options: Any,
) -> Plan[Implication] | SubsetPlan:  # fmt: skip
    """What either method will ask."""
    if method not in METHODS:
        raise sulq.Refused(f"method={method!r}, want one of {', '.join(METHODS)}.")
    if method == "test":
        return planned_test(a_db, a, b_db, b, **options)
    plan = planned_joint(a_db, a, b_db, b, **options)
    p_a = checked_expected(options.get("expected", 0.5), 2)[0]
    error, of_what = (plan.error or 0.0) / p_a, f", of delta if P[a] is {p_a:g}"
    return replace(plan.then(Joint.implication), error=error, of_what=of_what)


def implication(
    a_db: sulq.Queryable, a: str, b_db: sulq.Queryable, b: str, *, method: str = "blocks",
    **options: Any,
) -> Implication:  # fmt: skip
    """Delta in P[b|a] = P[b] + Delta, for a in one database and b in another.

    method="blocks" asks one question a side, with the options of `joint`. method="test" is the
    paper's procedure on `subsets` random halves, or as many as its Theorem 3 wants for an
    `accuracy` with `confidence`.
    """
    return planned_implication(a_db, a, b_db, b, method=method, **options).run()

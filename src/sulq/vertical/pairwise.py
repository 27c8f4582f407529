"""Asking two or more databases about properties of the same people, each of them once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np

import sulq
from sulq.vertical.blocks import BlockSums, added_up, block_sums, freedom_of, laid_out, spread_of
from sulq.vertical.common_people import SharedPeople, check_keys, one_database, shared_by_all
from sulq.vertical.estimate import Array, Estimate, quotient, smooth
from sulq.vertical.joint import Implication, Joint, joint_of, receipt, weights_given, weights_of
from sulq.vertical.plan import Part, Plan, checked_expected, checked_sides, parts_of, same_answers
from sulq.vertical.publisher import conjunctions
from sulq.vertical.subsets import SubsetPlan, planned_test

METHODS = ("blocks", "test")


@dataclass(frozen=True)
class Pairwise:
    """Properties of several databases, each asked once, and the table of any two."""

    properties: tuple[str, ...]
    owners: tuple[int, ...]  # which database each property is in
    sums: tuple[BlockSums, ...]
    shared: dict[frozenset[int], SharedPeople]  # how many people two databases share
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
    paper's procedure on `subsets` random halves, or on the fewest that reach an `accuracy` with
    `confidence`, the noise counted in; an accuracy that no number of them reaches is refused.
    """
    return planned_implication(a_db, a, b_db, b, method=method, **options).run()


# ---- three databases ------------------------------------------------------------------------
# The database that holds two tells how many of each block have each of their four conjunctions u, a
# histogram; the other how many have c. P[u and c] = P[u] P[c] + cov(u, c) gives the 2x2x2 table, so
# implications whose premise or conclusion lies in both databases, such as P[b | a and c]. Where all
# three lie apart CRYPTO 04 (section 7) leaves the question open.

NAMES = ("a", "b", "c")  # a and b in the first database, c in the other
CELLS = 4  # of a and b


@dataclass(frozen=True)
class ThreeWay:
    """The 2x2x2 table of properties a and b here and c there.

    `point` is P[u] of the four conjunctions of a and b, P[c], and the four cov(u, c); `errors`
    their covariance matrix.
    """

    point: Array
    errors: Array
    freedom: float
    price: tuple[sulq.Price, ...]
    people: float

    def probability(self, function: str) -> Estimate:
        """P[f(a, b, c)] for any Boolean function, such as "a and c and not b"."""
        weights = weights_of(function, NAMES)
        return smooth(_sum_of(weights), self.point, self.errors, (0.0, 1.0), self.freedom)

    def conditional(self, function: str, *, given: str) -> Estimate:
        """P[f | g] for Boolean functions of a, b and c, such as P[b | a and c]."""
        both, condition = weights_given(function, given, NAMES)
        return quotient(
            _sum_of(both), _sum_of(condition), self.point, self.errors, (0.0, 1.0), self.freedom
        )

    def to_json(self) -> dict[str, Any]:
        """P of each of the eight conjunctions, with 95% intervals."""
        body: dict[str, Any] = {f: self.probability(f).to_json() for f in conjuncts()}
        return body | {"price_micro": [p.micro for p in self.price], "people": self.people}

    def __str__(self) -> str:
        lines = [f"P[{f}]".ljust(30) + str(self.probability(f)) for f in conjuncts()]
        return "\n".join([*lines, receipt(self.price)])

    __repr__ = __str__


def conjuncts() -> list[str]:
    """All eight, such as "a and not b and c"."""
    signs = np.ndindex(2, 2, 2)
    return [
        " and ".join(name if sign else f"not {name}" for name, sign in zip(NAMES, s, strict=True))
        for s in signs
    ]


def _sum_of(weights: Array) -> Callable[[Array], float]:
    """P of some cells at a point: with c, P[u] P[c] + cov; without, what is left of P[u]."""
    without, within = weights.reshape(CELLS, 2).T

    def f(x: Array) -> float:
        p, c, covariance = x[:CELLS], x[CELLS], x[CELLS + 1 :]
        both = p * c + covariance
        return float(within @ both + without @ (p - both))

    return f


def three_of(u: BlockSums, c: BlockSums, price: tuple[sulq.Price, ...]) -> ThreeWay:
    """Probabilities and covariances from sums over the same blocks of the same people."""
    blocks, n = len(u.sums), u.people.count
    products = u.centred * c.centred
    scale = blocks / (blocks - 1) / n
    errors = np.zeros((2 * CELLS + 1, 2 * CELLS + 1))
    # Cells that were made to add up have noise that does: -1/4 of one's in each other.
    own = float(u.mean_variance[0]) / (1 - 1 / CELLS)
    errors[:CELLS, :CELLS] = own * (np.eye(CELLS) - 1 / CELLS)
    errors[CELLS, CELLS] = c.mean_variance[0]
    errors[CELLS + 1 :, CELLS + 1 :] = np.cov(products, rowvar=False) * blocks * scale**2
    point = np.concatenate([u.mean, c.mean, products.sum(axis=0) * scale])
    return ThreeWay(point, errors, freedom_of(blocks), price, n)


def planned_three(
    db: sulq.Queryable, properties: Sequence[str], other: sulq.Queryable, c: str,
    **options: Unpack[Options],
) -> Plan[ThreeWay]:  # fmt: skip
    """A histogram of the two by block, and a count of the third by block."""
    if isinstance(properties, str) or len(properties) != 2:
        raise sulq.Refused("properties: want two of one database, such as ['smoker', 'age > 64'].")
    if options.get("overlap"):
        raise sulq.Refused("overlap: three properties are estimated on the same people only.")
    a, b = properties
    checked_sides([(db, a), (db, b), (other, c)])
    dbs, seed = [db, other], options.get("seed", 0)
    check_keys(dbs, seed)

    def asked(count: int) -> tuple[Part, ...]:
        here = conjunctions([a, b], seed, count)
        there = sulq.Query(("1",), by=sulq.Blocks(seed, count), where=c)
        budget: Any = options.get("budget")
        return parts_of([(db, here), (other, there)], budget)

    spreads = [spread_of(0.25), spread_of(0.5)]
    laid = laid_out(dbs, asked, seed, spreads, options.get("blocks"))
    shared_by_all(dbs, laid.people, seed)  # refused before it is paid

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> ThreeWay:
        here = added_up(block_sums(answers[0][0], laid.people[0], CELLS))
        return three_of(here, block_sums(answers[1][0], laid.people[1]), prices)

    return Plan(laid.parts, make, laid.blocks, laid.error, ", of a conjunction of all three")


def three(
    db: sulq.Queryable, properties: Sequence[str], other: sulq.Queryable, c: str,
    **options: Unpack[Options],
) -> ThreeWay:  # fmt: skip
    """The 2x2x2 table of two properties of one database, a and b, and c of another.

    Options are those of `joint`, without expected= and overlap=.
    """
    return planned_three(db, properties, other, c, **options).run()

"""crosstab: two categories in two databases, every pair of labels with its share of the people.

Each database is asked once for the counts of its own column by block and label. Everybody is
in one cell, so the price of a whole table is that of a histogram.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import sulq
from sulq.expressions.parse import shorten
from sulq.vertical.blocks import (
    MOST,
    BlockSums,
    added_up,
    block_sums,
    freedom_of,
    laid_out,
    spread_of,
    together,
)
from sulq.vertical.common_people import check_keys, shared_by_all
from sulq.vertical.estimate import Array, Estimate, plain, reach
from sulq.vertical.joint import receipt
from sulq.vertical.plan import Part, Plan, checked_expected, parts_of, same_answers


@dataclass(frozen=True)
class Crosstab:
    """The share of people with each pair of labels, labels of a by labels of b."""

    columns: tuple[str, str]
    labels: tuple[tuple[Any, ...], tuple[Any, ...]]  # None is '(other)'
    shares: Array
    stds: Array
    freedom: float
    price: tuple[sulq.Price, ...]
    people: float
    remaining: int  # micro-queries, of the database that has less left

    def share(self, a: Any, b: Any) -> Estimate:
        """The share of one pair of labels."""
        try:
            i, j = self.labels[0].index(a), self.labels[1].index(b)
        except ValueError:
            raise sulq.Refused(
                f"({a!r}, {b!r}): {self.columns[0]} has {list(self.labels[0])}, "
                f"{self.columns[1]} has {list(self.labels[1])}."
            ) from None
        return plain(float(self.shares[i, j]), float(self.stds[i, j]), (0.0, 1.0), self.freedom)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Low and high ends of every share."""
        width = reach(level, self.freedom) * self.stds
        return np.maximum(self.shares - width, 0.0), np.minimum(self.shares + width, 1.0)

    def table(self) -> sulq.Table:
        """As rows: two labels, the share of people, a low and a high end beside it (95%).

        Ends go below 0 and above 1 where the error does: cutting them off would hide it.
        """
        width = reach(0.95, self.freedom) * self.stds
        low, high = self.shares - width, self.shares + width
        names = _apart(self.columns)
        pairs = [(i, j) for i in range(len(self.labels[0])) for j in range(len(self.labels[1]))]
        columns: dict[str, list[Any]] = {
            names[0]: [_word(self.labels[0][i]) for i, _ in pairs],
            names[1]: [_word(self.labels[1][j]) for _, j in pairs],
        }
        for name, matrix in (("share", self.shares), ("share_low", low), ("share_high", high)):
            columns[name] = [float(matrix[at]) for at in pairs]
        price = sum(self.price, sulq.Price(0))
        return sulq.Table(columns, names, price, self.remaining, receipt(self.price))

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__


def _apart(columns: tuple[str, str]) -> tuple[str, str]:
    a, b = columns
    return (a, b) if a != b else (f"{a} (a)", f"{b} (b)")


def _word(label: Any) -> str:
    if label is None:
        return "(other)"
    return str(label).lower() if isinstance(label, bool) else str(label)


def planned_crosstab(
    a_db: sulq.Queryable, a: str, b_db: sulq.Queryable, b: str, *, budget: Any = None,
    blocks: int | None = None, seed: int = 0, expected: Any = None,
) -> Plan[Crosstab]:  # fmt: skip
    """One histogram by block a side."""
    dbs = [a_db, b_db]
    check_keys(dbs, seed)
    labels = [labels_of(a_db, a), labels_of(b_db, b)]
    even = [1 / max(len(found), 2) for found in labels]
    shares = even if expected is None else checked_expected(expected, 2)

    def asked(count: int) -> tuple[Part, ...]:
        """How many people of each block have each label."""
        by, sides = sulq.Blocks(seed, count), ((a_db, a), (b_db, b))
        return parts_of([(db, sulq.Query(("1",), by=(by, c))) for db, c in sides], budget)

    most = MOST // max(map(len, labels))
    laid = laid_out(dbs, asked, seed, [*map(spread_of, shares)], blocks, most)
    shared_by_all(dbs, laid.people, seed)

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> Crosstab:
        (x,), (y,) = answers
        sums = [
            added_up(block_sums(answer, p, len(found)))
            for answer, p, found in zip((x, y), laid.people, labels, strict=True)
        ]
        remaining = min(x.remaining, y.remaining)
        return crosstab_of(sums, (a, b), labels, prices, remaining)

    return Plan(laid.parts, make, laid.blocks, laid.error, ", of a share")


def labels_of(db: sulq.Queryable, column: str) -> tuple[Any, ...]:
    """The labels of a category or Boolean, from the schema."""
    if not isinstance(column, str):
        raise sulq.QueryNotAllowed(f"{column!r}: want a column's name.")
    found = db.schema.get(column)
    if found is None or found.listed is None:
        raise sulq.QueryNotAllowed(
            f"{shorten(column)!r} is no declared category or Boolean. Declare its values, or use "
            "joint with a predicate."
        )
    other = (None,) if found.type == "category" or found.nullable else ()
    return (*found.listed, *other)


def crosstab_of(
    sums: list[BlockSums], columns: tuple[str, str], labels: list[tuple[Any, ...]],
    price: tuple[sulq.Price, ...], remaining: int,
) -> Crosstab:  # fmt: skip
    """P[u and v] = P[u] P[v] + cov(u, v), kept between none and the rarer of the two."""
    a, b = sums
    if np.array_equal(a.sums, b.sums):
        raise same_answers()
    cov, variance = together(a, b)
    p, q = a.mean, b.mean
    shares = np.outer(p, q) + cov
    most = np.minimum.outer(np.clip(p, 0, 1), np.clip(q, 0, 1))
    by_mean = np.outer(a.mean_variance, q**2) + np.outer(p**2, b.mean_variance)
    # What was moved to the rarer of the two has the error of that one, if it is larger.
    moved = np.where(shares > most, np.maximum.outer(a.mean_variance, b.mean_variance), 0.0)
    return Crosstab(
        columns, (labels[0], labels[1]), np.clip(shares, 0.0, most),
        np.sqrt(np.maximum(variance + by_mean, moved)),
        freedom_of(len(a.sums)), price, a.people.count, remaining,
    )  # fmt: skip


def crosstab(
    a_db: sulq.Queryable, a: str, b_db: sulq.Queryable, b: str, **options: Any
) -> Crosstab:
    """Every pair of labels of a column here and a column there, with its share of people.

    budget, blocks and seed as in `joint`; expected: guesses of the share of a label.
    """
    return planned_crosstab(a_db, a, b_db, b, **options).run()

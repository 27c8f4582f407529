"""Covariances, correlations and principal components of columns in different databases.

Within a database a noisy matrix of products gives them almost exactly; across databases they
come from sums over blocks of people (PODS 05, 4.1, last remark). Columns are scaled to [0, 1]
by their bounds and centred at 1/2; a missing value counts as the middle of its range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from sulq.learn.base import bounds_of
from sulq.learn.moments import Moments, moments_query, read_moments
from sulq.learn.pca import PCA as OnePCA

from .blocks import (
    HALF_WIDTH,
    MOST,
    BlockSums,
    block_count,
    block_sums,
    checked_blocks,
    checked_seed,
    expected_std,
    freedom_of,
    noise_variance,
    together,
)
from .estimate import Array, Estimate, checked_level, plain, reach
from .joint import receipt
from .pairwise import FEW, one_database, same_answers
from .people import check_keys, people_of, same_people
from .plan import Part, Plan, as_fraction, priced, spread

WITHIN = Fraction(1, 10)  # of a budget, for the columns of one database among themselves
MOST_NUMBERS = 200_000  # in one answer
MEAN_LENGTH = 1 / 3  # |m|^2 over B^2, as for a mean anywhere in the box
SPREAD = 1 / math.sqrt(12)  # of a column that fills its range evenly
LEAST = Fraction(1, 10**6)  # the weight of a count that is known already
CENTRE = 0.5


@dataclass(frozen=True)
class Covariance:
    """A matrix of covariances or correlations, with the standard deviation of each entry."""

    names: tuple[str, ...]
    values: Array
    stds: Array
    mean: Array  # in own units
    mean_stds: Array
    price: tuple[sulq.Price, ...]
    people: float
    bounds: tuple[float, float] = (-math.inf, math.inf)
    freedom: float = math.inf  # degrees of freedom behind the errors

    def __getitem__(self, pair: tuple[str, str]) -> Estimate:
        i, j = (self._at(name) for name in pair)
        return plain(float(self.values[i, j]), float(self.stds[i, j]), self.bounds, self.freedom)

    def _at(self, name: str) -> int:
        if name not in self.names:
            raise sulq.Refused(f"{name!r}: want one of {', '.join(self.names)}.")
        return self.names.index(name)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Low and high ends of every entry."""
        width = reach(checked_level(level), self.freedom) * self.stds
        low, high = self.bounds
        return np.maximum(self.values - width, low), np.minimum(self.values + width, high)

    def correlation(self) -> Covariance:
        """Each covariance over both standard deviations."""
        variances = np.diag(self.values)
        if not np.all(variances > 4 * np.diag(self.stds)):
            weak = [n for n, v, s in zip(self.names, variances, np.diag(self.stds), strict=True)
                    if not v > 4 * s]  # fmt: skip
            raise sulq.Refused(
                f"the variance of {', '.join(weak)} is lost in the noise, so it has no "
                "correlations. Spend more, or declare narrower bounds."
            )
        scale = np.sqrt(np.outer(variances, variances))
        r = np.clip(self.values / scale, -1.0, 1.0)
        own = (np.diag(self.stds) / variances) ** 2
        spread = (self.stds / scale) ** 2 + r**2 * np.add.outer(own, own) / 4
        np.fill_diagonal(spread, 0.0)
        np.fill_diagonal(r, 1.0)
        return Covariance(
            self.names, r, np.sqrt(spread), self.mean, self.mean_stds, self.price, self.people,
            (-1.0, 1.0), self.freedom,
        )  # fmt: skip

    def __str__(self) -> str:
        width = max(10, *(len(n) for n in self.names)) + 2
        head = " " * width + "".join(n.rjust(width) for n in self.names)
        rows = [
            name.ljust(width) + "".join(f"{x:.4g}".rjust(width) for x in row)
            for name, row in zip(self.names, self.values, strict=True)
        ]
        return "\n".join([head, *rows, receipt(self.price)])

    __repr__ = __str__


@dataclass(frozen=True)
class Scaled:
    """Means and covariances of columns scaled to [0, 1] about their middle."""

    mean: Array
    mean_std: Array
    covariance: Array
    variance: Array  # of each entry
    people: float


def planned_moments(
    sources: Sequence[tuple[Any, Sequence[str]]],
    *,
    budget: Any = None,
    blocks: int | None = None,
    seed: int = 0,
) -> Plan[tuple[Scaled, tuple[sulq.Price, ...]]]:
    """Two questions a database: its own products, and its sums by block."""
    sources = checked_sources(sources)
    dbs = [db for db, _ in sources]
    checked_seed(seed)
    check_keys(dbs)
    budgets = spread(budget, len(dbs))
    widest = 1 + max(len(columns) for _, columns in sources)
    most = min(MOST, MOST_NUMBERS // widest)
    trial = [part_of(db, c, seed, FEW, b) for (db, c), b in zip(sources, budgets, strict=True)]
    variances = [noise_variance(part.db.price(part.queries[1]), 1) for part in trial]
    spreads = [SPREAD] * len(dbs)
    rows = math.exp(np.mean([math.log(max(db.rows, 1)) for db in dbs]))
    count = checked_blocks(blocks, most) or block_count(rows, spreads, variances, most)
    parts = tuple(
        part_of(db, c, seed, count, b) for (db, c), b in zip(sources, budgets, strict=True)
    )
    people = people_of(dbs, seed, count)
    same_people(dbs, people, seed)

    def make(
        answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]
    ) -> tuple[Scaled, tuple[sulq.Price, ...]]:
        own, sums = [], []
        for (db, columns), (products, by_block), everybody in zip(
            sources, answers, people, strict=True
        ):
            own.append(read_moments(products, len(columns), db.rows, means=True))
            whole = block_sums(by_block, everybody)
            sums.append(BlockSums(whole.sums[:, 1:], whole.noise[1:], everybody))
        return scaled_of(own, sums), prices

    error = HALF_WIDTH * expected_std(rows, spreads, variances, count)
    return Plan(parts, make, count, error, ", of a covariance of columns scaled to [0, 1]")


def part_of(db: Any, columns: tuple[str, ...], seed: int, blocks: int, budget: Any) -> Part:
    """A tenth of the budget for products within, the rest for sums by block."""
    own = moments_query(columns, db.promise.guarantee, None, MEAN_LENGTH)
    by_block = sulq.Query(
        sulq.Sums(columns, CENTRE), by=sulq.Blocks(seed, blocks), weights=(LEAST, Fraction(1))
    )
    if budget is None:  # the sums at the database's own noise
        (first,) = priced(db, [own], db.price(by_block).queries * WITHIN / (1 - WITHIN))
        return Part(db, (first, by_block))
    whole = as_fraction(budget)
    (first,) = priced(db, [own], whole * WITHIN)
    (second,) = priced(db, [by_block], whole - db.price(first).queries)
    return Part(db, (first, second))


def scaled_of(own: list[Moments], sums: list[BlockSums]) -> Scaled:
    """One matrix: databases on the diagonal, pairs of databases off it."""
    ends = np.cumsum([0, *(len(m.mean) for m in own)])
    size = int(ends[-1])
    covariance, variance = np.zeros((size, size)), np.zeros((size, size))
    at = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
    for here, m in zip(at, own, strict=True):
        covariance[here, here] = m.covariance
        # m_i e_j + m_j e_i, and 2 m_i e_i on the diagonal.
        by_mean = np.add.outer(m.mean**2, m.mean**2) + np.diag(2 * m.mean**2)
        variance[here, here] = m.second_std**2 + by_mean * m.mean_std**2
    for i, j in itertools.combinations(range(len(sums)), 2):
        if np.array_equal(sums[i].sums, sums[j].sums):
            raise same_answers()
        cov, spread2 = together(sums[i], sums[j])
        covariance[at[i], at[j]], covariance[at[j], at[i]] = cov, cov.T
        variance[at[i], at[j]], variance[at[j], at[i]] = spread2, spread2.T
    mean = np.concatenate([m.mean for m in own])
    mean_std = np.concatenate([np.full(len(m.mean), m.mean_std) for m in own])
    return Scaled(mean, mean_std, covariance, variance, sums[0].people.count)


def checked_sources(sources: Any) -> list[tuple[Any, tuple[str, ...]]]:
    """Pairs of a database and its columns."""
    try:
        found = [(db, columns) for db, columns in sources]
    except (TypeError, ValueError):
        found = []
    if len(found) < 2 or not all(hasattr(db, "ask") for db, _ in found):
        raise sulq.Refused("want at least two pairs (database, columns): (db, ['age', 'income']).")
    if len({id(db) for db, _ in found}) < len(found):
        raise one_database()
    out = []
    for db, columns in found:
        if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
            raise sulq.Refused(f"columns={columns!r}, want a list such as ['age', 'income'].")
        bounds_of(db.schema, columns)
        out.append((db, tuple(columns)))
    return out


def names_of(sources: list[tuple[Any, tuple[str, ...]]]) -> tuple[str, ...]:
    """The columns' names, with their database's where two are alike."""
    bare = [c for _, columns in sources for c in columns]
    if len(set(bare)) == len(bare):
        return tuple(bare)
    return tuple(
        f"{getattr(db, 'name', '') or 'database'} {i + 1}.{c}"
        for i, (db, columns) in enumerate(sources)
        for c in columns
    )


def bounds_of_all(sources: list[tuple[Any, tuple[str, ...]]]) -> tuple[Array, Array]:
    """Low ends and widths of all columns."""
    ends = [bounds_of(db.schema, columns) for db, columns in sources]
    low, width = (np.concatenate([pair[k] for pair in ends]) for k in (0, 1))
    return low, width


def planned_covariance(
    sources: Sequence[tuple[Any, Sequence[str]]], **options: Any
) -> Plan[Covariance]:
    """The questions of covariance and correlation."""
    plan = planned_moments(sources, **options)
    checked = checked_sources(sources)
    names, (low, width) = names_of(checked), bounds_of_all(checked)

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> Covariance:
        found, _ = plan.make(answers, prices)
        units = np.outer(width, width)
        return Covariance(
            names, found.covariance * units, np.sqrt(found.variance) * units,
            low + (CENTRE + found.mean) * width, found.mean_std * width, prices, found.people,
            freedom=freedom_of(plan.blocks),
        )  # fmt: skip

    return Plan(plan.parts, make, plan.blocks, plan.error, plan.of_what)


def covariance(sources: Sequence[tuple[Any, Sequence[str]]], **options: Any) -> Covariance:
    """Covariances of columns in different databases, in their own units.

    sources: pairs (database, columns). budget, blocks and seed as in `joint`.
    """
    return planned_covariance(sources, **options).run()


def correlation(sources: Sequence[tuple[Any, Sequence[str]]], **options: Any) -> Covariance:
    """Correlations of columns in different databases."""
    return covariance(sources, **options).correlation()


class PCA(OnePCA):
    """Principal components of columns in different databases, in the shape of sulq.learn's.

    fit takes pairs (database, columns). component_angles_ say how far noise and the luck of
    blocks may have turned each component.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        scaled: bool = True,
        budget: Any = None,
        blocks: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_components, scaled=scaled, budget=budget)
        self.blocks = blocks
        self.seed = seed

    def plan(
        self, sources: Sequence[tuple[Any, Sequence[str]]]
    ) -> Plan[tuple[Scaled, tuple[sulq.Price, ...]]]:
        """What fit will ask, and its price in each database."""
        plan = planned_moments(sources, budget=self.budget, blocks=self.blocks, seed=self.seed)
        count, k = sum(len(c) for _, c in checked_sources(sources)), self.n_components
        if k is not None and (isinstance(k, bool) or not 1 <= k <= count):
            raise sulq.Refused(f"n_components={k!r}, want 1 to {count}.")
        return plan

    def price(self, sources: Any) -> tuple[sulq.Price, ...]:  # type: ignore[override]
        """What fit will charge, one price for each database. Nothing is spent."""
        return self.plan(sources).prices

    def fit(self, sources: Any, y: Any = None) -> PCA:  # type: ignore[override]
        """Learn from pairs (database, columns)."""
        found, prices = self.plan(sources).run()
        self.price_ = tuple(float(price) for price in prices)  # queries, one for each database
        checked = checked_sources(sources)
        self.columns_ = names_of(checked)
        self.low_, self.width_ = bounds_of_all(checked)
        self.n_features_in_ = len(self.columns_)
        second = found.covariance + np.outer(found.mean, found.mean)
        moments = Moments(found.mean, second, 0.0, np.sqrt(found.variance))
        self._learn(moments, round(found.people))
        return self

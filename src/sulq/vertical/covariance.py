"""Covariances, correlations, components and singular vectors of columns in different databases.

Within a database a noisy matrix of products gives them almost exactly; across databases they
come from sums over blocks of people (PODS 05, 4.1, last remark). Columns are scaled to [0, 1]
by their bounds and centred at 1/2. People with a missing value in one of a database's columns are
left out of what it is asked, and covariances across two databases are those of people whom
neither leaves out: see `across`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

import sulq
from sulq.learn.parameters import checked_whole
from sulq.learn.pca import PCA as OnePCA
from sulq.learn.pca import SVD as OneSVD
from sulq.learn.second_moments import Moments, count_and_sum_weights, moments_query, read_moments
from sulq.learn.task import NOBODY, LeftOut, bounds_of, lacking
from sulq.vertical.blocks import (
    BlockSums,
    block_sums,
    freedom_of,
    laid_out,
    noise_variance,
    together,
)
from sulq.vertical.common_people import check_keys, shared_by_all
from sulq.vertical.estimate import Array, Estimate, plain, reach
from sulq.vertical.joint import receipt
from sulq.vertical.plan import Part, Plan, as_fraction, checked_pairs, priced, same_answers, spread

WITHIN = Fraction(1, 10)  # of a budget, for the columns of one database among themselves
MAX_NUMBERS = 200_000  # in one answer
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
    left_out: tuple[LeftOut, ...] = ()  # people whom each database left out for a missing value

    def __getitem__(self, pair: tuple[str, str]) -> Estimate:
        i, j = (self._at(name) for name in pair)
        return plain(float(self.values[i, j]), float(self.stds[i, j]), self.bounds, self.freedom)

    def _at(self, name: str) -> int:
        if name not in self.names:
            raise sulq.Refused(f"{name!r}: want one of {', '.join(self.names)}.")
        return self.names.index(name)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Low and high ends of every entry."""
        width = reach(level, self.freedom) * self.stds
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
            (-1.0, 1.0), self.freedom, self.left_out,
        )  # fmt: skip

    def __str__(self) -> str:
        width = max(10, *(len(n) for n in self.names)) + 2
        head = " " * width + "".join(n.rjust(width) for n in self.names)
        rows = [
            name.ljust(width) + "".join(f"{x:.4g}".rjust(width) for x in row)
            for name, row in zip(self.names, self.values, strict=True)
        ]
        return "\n".join([head, *rows, receipt(self.price)]) + left_out_lines(self.left_out)

    __repr__ = __str__


@dataclass(frozen=True)
class Scaled:
    """Means and covariances of columns scaled to [0, 1] about their middle."""

    mean: Array
    mean_std: Array
    covariance: Array
    variance: Array  # of each entry
    people: float
    left_out: tuple[LeftOut, ...] = ()  # of each database
    price: tuple[sulq.Price, ...] = ()


def planned_moments(
    sources: Sequence[tuple[Any, Sequence[str]]],
    *,
    budget: Any = None,
    blocks: int | None = None,
    seed: int = 0,
) -> Plan[Scaled]:
    """Two questions a database: its own products, and its sums by block."""
    sources = checked_sources(sources)
    dbs = [db for db, _ in sources]
    check_keys(dbs, seed)
    budgets = spread(budget, len(dbs))

    def asked(count: int) -> tuple[Part, ...]:
        pairs = zip(sources, budgets, strict=True)
        return tuple(part_of(db, columns, seed, count, b) for (db, columns), b in pairs)

    def noisy(part: Part) -> list[float]:
        return [noise_variance(part.db.price(part.queries[1]), 1)]

    most = MAX_NUMBERS // (1 + max(len(columns) for _, columns in sources))
    laid = laid_out(dbs, asked, seed, [SPREAD] * len(dbs), blocks, most, noisy)
    shared_by_all(dbs, laid.people, seed)

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> Scaled:
        own, sums = [], []
        for (db, columns), part, (products, by_block), everybody in zip(
            sources, laid.parts, answers, laid.people, strict=True
        ):
            own.append(read_moments(products, part.queries[0], db.rows))
            whole = block_sums(by_block, everybody)
            sums.append(whole if lacking(db.schema, columns) else whole.counted_by_key())
        return replace(scaled_of(own, sums), price=prices)

    what = ", of a covariance of columns scaled to [0, 1]"
    return Plan(laid.parts, make, laid.blocks, laid.error, what)


def part_of(
    db: sulq.Queryable, columns: tuple[str, ...], seed: int, blocks: int, budget: Any
) -> Part:
    """A tenth of the budget for products within, the rest for sums by block."""
    own = moments_query(db, columns, None, MEAN_LENGTH)
    weights = (LEAST, Fraction(1))
    if lacking(db.schema, columns):
        weights = count_and_sum_weights(len(columns), db.promise.guarantee)
    by_block = sulq.Query(sulq.Sums(columns, CENTRE), by=sulq.Blocks(seed, blocks), weights=weights)
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
        by_count = (m.covariance - np.outer(m.mean, m.mean)) * m.rows_off
        variance[here, here] = m.second_std**2 + by_mean * m.mean_std**2 + by_count**2
    for i, j in itertools.combinations(range(len(sums)), 2):
        if np.array_equal(sums[i].sums, sums[j].sums):
            raise same_answers()
        cov, spread2 = across(sums[i], sums[j])
        covariance[at[i], at[j]], covariance[at[j], at[i]] = cov, cov.T
        variance[at[i], at[j]], variance[at[j], at[i]] = spread2, spread2.T
    mean = np.concatenate([m.mean for m in own])
    mean_std = np.concatenate([np.hypot(m.mean_std, m.mean * m.rows_off) for m in own])
    left_out = tuple(m.left_out for m in own)
    return Scaled(mean, mean_std, covariance, variance, sums[0].people.count, left_out)


def across(a: BlockSums, b: BlockSums) -> tuple[Array, Array]:
    """Covariances of every column of a with every one of b, and the variance of each.

    Each database gives by block the count of people it does not leave out, u, and the sums of u y.
    Let y be taken from its mean over the u of its database, so that u y has mean 0. Sums by block
    give the covariances over everybody of u_a y and u_b z, and with them, for the people in both,

        P = E[u_a u_b],  cov(y, z) = E[u_a y u_b z] / P - E[u_a y u_b] E[u_a u_b z] / P^2.

    The variance is that of block products combined as the derivative combines them.
    """
    a, b = a.about_the_mean(), b.about_the_mean()
    least = max(a.mean[0] + b.mean[0] - 1, 1 / max(a.people.count, 1.0))
    moments = together(a, b)[0]
    both = max(float(moments[0, 0] + a.mean[0] * b.mean[0]), float(least))
    moments = moments / both
    first, second = moments[1:, 0], moments[0, 1:]
    cov = moments[1:, 1:] - np.outer(first, second)
    x, y, blocks = a.centred, b.centred, len(a.sums)
    spread = np.empty_like(cov)
    for j, z in enumerate(y[:, 1:].T):
        parts = x[:, 1:] * (z - second[j] * y[:, 0])[:, None] - np.outer(x[:, 0] * z, first)
        parts -= np.outer(x[:, 0] * y[:, 0], moments[1:, 1 + j] - 2 * first * second[j])
        spread[:, j] = blocks * parts.var(axis=0, ddof=1)
    return cov, spread * (blocks / (blocks - 1) / a.people.count / both) ** 2


def checked_sources(sources: Any) -> list[tuple[Any, tuple[str, ...]]]:
    """Pairs of a database and its columns."""
    found = checked_pairs(sources, "(database, columns): (db, ['age', 'income'])")
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
        f"{db.name or 'database'} {i + 1}.{c}"
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

    def in_own_units(found: Scaled) -> Covariance:
        units = np.outer(width, width)
        return Covariance(
            names, found.covariance * units, np.sqrt(found.variance) * units,
            low + (CENTRE + found.mean) * width, found.mean_std * width, found.price, found.people,
            freedom=freedom_of(plan.blocks), left_out=found.left_out,
        )  # fmt: skip

    return plan.then(in_own_units)


def covariance(sources: Sequence[tuple[Any, Sequence[str]]], **options: Any) -> Covariance:
    """Covariances of columns in different databases, in their own units.

    sources: pairs (database, columns). budget, blocks and seed as in `joint`.
    """
    return planned_covariance(sources, **options).run()


def planned_correlation(
    sources: Sequence[tuple[Any, Sequence[str]]], **options: Any
) -> Plan[Covariance]:
    """The questions of covariance, and correlations of their answers."""
    return planned_covariance(sources, **options).then(Covariance.correlation)


def correlation(sources: Sequence[tuple[Any, Sequence[str]]], **options: Any) -> Covariance:
    """Correlations of columns in different databases."""
    return planned_correlation(sources, **options).run()


class Across(OneSVD):
    """A model of columns in different databases: fit takes pairs (database, columns)."""

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

    def plan(self, sources: Sequence[tuple[Any, Sequence[str]]]) -> Plan[Scaled]:
        """What fit will ask, and its price in each database."""
        plan = planned_moments(sources, budget=self.budget, blocks=self.blocks, seed=self.seed)
        if self.n_components is not None:
            count = sum(len(columns) for _, columns in checked_sources(sources))
            checked_whole("n_components", self.n_components, 1, count)
        return plan

    def price(self, sources: Any) -> tuple[sulq.Price, ...]:  # type: ignore[override]
        """What fit will charge, one price for each database. Nothing is spent."""
        return self.plan(sources).prices

    def fit(self, sources: Any, y: Any = None) -> Self:  # type: ignore[override]
        """Learn from pairs (database, columns)."""
        found = self.plan(sources).run()
        self.price_ = tuple(float(price) for price in found.price)  # queries, for each database
        checked = checked_sources(sources)
        self.columns_ = names_of(checked)
        self.low_, self.width_ = bounds_of_all(checked)
        self.n_features_in_ = len(self.columns_)
        second = found.covariance + np.outer(found.mean, found.mean)
        # A covariance has the error of the means in its own; a second moment has it once more.
        mean_std = 0.0 if self._centred else float(np.max(found.mean_std))
        moments = Moments(found.mean, second, mean_std, np.sqrt(found.variance), found.people)
        self._learn(moments)
        self.left_out_, self.left_out_std_ = zip(*found.left_out, strict=True)
        return self

    def _left_out_line(self) -> str:
        return left_out_lines(tuple(map(LeftOut, self.left_out_, self.left_out_std_)))


class SVD(Across):
    """Singular vectors of rows whose parts lie in different databases, as sulq.learn's.

    fit takes pairs (database, columns). component_angles_ say how far noise and the luck of blocks
    may have turned each vector.
    """


class PCA(Across, OnePCA):
    """Principal components of columns in different databases, in the shape of sulq.learn's.

    fit takes pairs (database, columns). component_angles_ say how far noise and the luck of
    blocks may have turned each component, left_out_ and left_out_std_ how many people each
    database left out for a missing value.
    """


def left_out_lines(each: tuple[LeftOut, ...]) -> str:
    """A line for each database that may have left people out."""
    told = [(i, found) for i, found in enumerate(each) if found != NOBODY]
    return "".join(f"\n{found}, in database {i + 1}" for i, found in told)

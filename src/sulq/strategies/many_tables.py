"""Tables of counts that are asked together: which parts to ask, and the tables from them.

residual_planner.py has the mathematics. Here checked queries become a workload, the workload
becomes queries for its parts, and their answers become the tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from sulq.errors import MICRO, QueryNotAllowed
from sulq.privacy.residuals import Part, diameter2, radius2
from sulq.questions.check import CheckedQuery
from sulq.questions.question import Bundle, public_answer
from sulq.questions.residual import KINDS, cells_of, folded
from sulq.strategies.residual_planner import (
    Array,
    Axes,
    Workload,
    best_weights,
    centred,
    rounded,
    share,
    subsets,
    table_of,
    unprojected,
)
from sulq.values.answer import Answer
from sulq.values.price import Price
from sulq.values.query import Partition, Query, Residual, Terms

BIASED = "biased: moved to where no cell is below zero"
MAX_PARTS = 2_000


@dataclass(frozen=True)
class Crosstabs:
    """Tables, the parts that they are put together from, and a query for each part."""

    tables: tuple[CheckedQuery, ...]
    axes: tuple[Axes, ...]  # of each table, as places in the workload
    workload: Workload
    parts: tuple[Axes, ...]
    queries: tuple[Query, ...]
    consistent: bool = False  # without negative cells, though biased

    def answers(self, found: list[Answer]) -> list[Answer]:
        """All tables, each cell with its own error."""
        sizes = self.workload.sizes
        parts: dict[Axes, Array] = {}
        variances: dict[Axes, float] = {}
        for part, query, answer in zip(self.parts, self.queries, found, strict=True):
            numbers = answer.values[:, 0]
            if isinstance(query.values, Residual):
                parts[part] = unprojected(numbers, [sizes[i] for i in part])
                variances[part] = answer.stds[0][0] ** 2 / 2 ** len(part)
            else:  # public: exact counts
                parts[part] = centred(self._folded(numbers, part))
                variances[part] = 0.0
        raw = [table_of(t, parts, sizes) for t in self.axes]
        fixed = {p: x for p, x in parts.items() if not variances[p]} | {(): parts[()]}
        cells = nonnegative(self.axes, raw, sizes, fixed) if self.consistent else raw
        price = sum((a.price for a in found), Price(0))
        stds = [math.sqrt(self._variance(t, variances)) for t in self.axes]
        shares = iter(price_shares(price.micro, sum(map(bool, stds))))
        out = []
        for table, seen, shown, std in zip(self.tables, raw, cells, stds, strict=True):
            # What was moved has an interval that holds its 95% interval from before.
            errors = std + np.abs(shown - seen) / normal_reach(0.95)
            paid = Price(next(shares) if std else 0, (std * normal_reach(0.95),))
            answer = self._answer(table, shown, errors, found[0].remaining)
            out.append(replace(answer, price=paid, note=self._note(price) if std else ""))
        return out

    def half_widths(self, bundle: Bundle) -> tuple[float, ...]:
        """How exact a cell of each table will be (95%), by the noise that is paid for."""
        stds = [float(t.steps[0]) * t.laws[0].std for _, t in bundle.parts]
        variances = dict.fromkeys(self.parts, 0.0)
        variances |= {p: s * s for p, s in zip(self.workload.measured, stds, strict=True)}
        return tuple(
            math.sqrt(self._variance(t, variances)) * normal_reach(0.95) for t in self.axes
        )

    def _variance(self, table: Axes, variances: dict[Axes, float]) -> float:
        """The variance of every cell of a table."""
        return sum(variances[part] * share(self.workload, part, table) for part in subsets(table))

    def _note(self, price: Price) -> str:
        note = f"one of {len(self.tables):,} tables asked together, {price} in all"
        return f"{note}; {BIASED}" if self.consistent else note

    def _folded(self, numbers: Array, part: Axes) -> Array:
        """Public counts by the cells of the workload."""
        cells = numbers.reshape([self._axis(i) for i in part])
        return folded(cells, [self.workload.sizes[i] for i in part])

    def _axis(self, i: int) -> int:
        """All labels of an axis, the one that the schema rules out too."""
        for table, axes in zip(self.tables, self.axes, strict=True):
            if i in axes:
                return len(table.axes[axes.index(i)].labels)
        raise KeyError(i)

    def _answer(self, query: CheckedQuery, cells: Array, std: Array, remaining: int) -> Answer:
        """One table, with a cell for every label: those that the schema rules out are empty."""
        wide = [(0, len(a.labels) - m) for a, m in zip(query.axes, cells.shape, strict=True)]
        shown, errors = (np.pad(x, wide).ravel() if wide else x.ravel() for x in (cells, std))
        answer = public_answer(query, [[Fraction(x)] for x in shown.tolist()], remaining)
        return replace(answer, stds=tuple((s,) for s in errors.tolist()), spread=normal_reach)


def price_shares(micro: int, count: int) -> list[int]:
    """A price as equal parts of whole micro-queries; the first bears what is left over."""
    each = micro // max(count, 1)
    return [micro - each * (count - 1), *[each] * (count - 1)] if count else []


def normal_reach(level: float) -> float:
    """A sum of many discrete Gaussians on a fine grid is normal."""
    return NormalDist().inv_cdf((1 + level) / 2)


def crosstabs(
    asked: Sequence[tuple[Query, CheckedQuery]], guarantee: str, *,
    weight: Callable[[int, int], float], budget: Fraction | None = None, consistent: bool = False,
) -> Crosstabs | None:  # fmt: skip
    """How to ask these tables together; None if they are not tables of the same rows.

    `weight` says, for a table's place in the list and its cells, how much one cell counts.
    Without a budget the weighted mean variance of a cell is R.
    """
    tables = [checked for _, checked in asked]
    if not any(t.axes for t in tables) or not all(is_crosstab(t) for t in tables):
        return None
    if not all(is_said_in_where(query) for query, _ in asked):
        return None
    if len({(t.about, t.rows, t.where, t.sample) for t in tables}) != 1:
        return None
    every = {a.text: (a, part) for q, t in asked for a, part in zip(t.axes, _by(q), strict=True)}
    names = list(every)
    sizes = tuple(cells_of(a) for a, _ in every.values())
    if any(m < 2 for m in sizes):
        return None
    axes = tuple(tuple(names.index(a.text) for a in t.axes) for t in tables)
    known = frozenset(i for i, (a, _) in enumerate(every.values()) if a.public)
    counted = tables[0].where is None
    weights = tuple(
        0.0 if counted and known.issuperset(t) else weight(i, math.prod(sizes[k] for k in t))
        for i, t in enumerate(axes)
    )  # what is public is exact whatever the others are
    workload = Workload(sizes, axes, weights, known, counted)
    if not workload.measured or len(workload.parts) > MAX_PARTS:
        return None
    scaled = _scaled(workload, guarantee, budget, tables[0].squared_each)
    partitions = [part for _, part in every.values()]
    like = replace(asked[0][0], by=None, values=("1",))
    queries = tuple(_query(like, part, partitions, scaled.get(part)) for part in workload.parts)
    return Crosstabs(tuple(tables), axes, workload, tuple(workload.parts), queries, consistent)


def each_table(i: int, cells: int) -> float:
    """Every table counts alike, however many cells it has."""
    return 1 / cells


def is_crosstab(q: CheckedQuery) -> bool:
    """Is it a table of plain counts, at the usual error?"""
    one = isinstance(q.values, tuple) and len(q.values) == 1 and q.mix is None
    return (
        one
        and q.measurement is None
        and all(a.kind in KINDS for a in q.axes)
        and q.error is None
        and q.values[0].node.text == "i:1"  # type: ignore[index]
        and q.releases[0].weight2 == 1
    )


def is_said_in_where(query: Query) -> bool:
    """Does it count every row of its conditions? A sum of 0s and 1s has one more in its values."""
    values = query.values.sums if isinstance(query.values, Terms) else query.values
    return values == ("1",)


def _by(query: Query) -> tuple[str | Partition, ...]:
    if query.by is None:
        return ()
    return query.by if isinstance(query.by, tuple) else (query.by,)


def _query(
    like: Query, part: Axes, partitions: Sequence[str | Partition], weight: Fraction | None
) -> Query:
    """The query for one part: its residual, or the exact counts where it is public."""
    by = tuple(partitions[i] for i in part) or None
    if weight is None:
        return replace(like, by=by)
    return replace(like, by=by, values=Residual(), weights=(weight,))


def _scaled(
    workload: Workload, guarantee: str, budget: Fraction | None, squared_each: int
) -> dict[Axes, Fraction]:
    """The weights of the parts; with a budget, as large as it allows."""
    best = best_weights(workload, guarantee)
    weights = {part: rounded(weight2) for part, weight2 in best.items()}
    if budget is None:
        return weights
    budget = Fraction(math.floor(budget * MICRO), MICRO)  # prices are rounded up to these
    if not budget:
        raise QueryNotAllowed("budget: want at least one micro-query, 0.000001.")
    scale = float(budget / (_price(workload, weights, guarantee) * squared_each))
    for attempt in itertools.count():
        less = scale * (1 - 1e-4 * attempt)
        weights = {part: rounded(weight2, less) for part, weight2 in best.items()}
        if _price(workload, weights, guarantee) * squared_each <= budget:
            return weights
    raise AssertionError("a lower scale has a lower price")


def _price(workload: Workload, weights: dict[Axes, Fraction], guarantee: str) -> Fraction:
    """The price of the parts together, in queries."""
    parts = [Part(part, weight**2) for part, weight in weights.items()]
    if guarantee == "dp":
        return radius2(parts, workload.sizes)
    return diameter2(parts, workload.sizes, workload.known)


# ---- never below zero -----------------------------------------------------------------------
# Dykstra's algorithm between two convex sets: tables that agree (a subspace: the parts of
# residual_planner.py, averaged over the tables that have them) and tables without negative cells.
# The nearest point is biased: small cells come out too high on average, since none is below zero.

ROUNDS = 200
CLOSE = 1e-4  # of an even cell: how far below zero the last round may leave one


def nonnegative(
    tables: Sequence[Axes], cells: Sequence[Array], sizes: Sequence[int],
    fixed: Mapping[Axes, Array],
) -> list[Array]:  # fmt: skip
    """The tables that agree, have the `fixed` parts and no cell below zero, nearest to these.

    The part over no axes, the total, is among the fixed ones.
    """
    total = float(fixed[()])
    if total <= 0:
        return [np.zeros_like(c) for c in cells]
    now = [np.array(c) for c in cells]
    kept = [np.zeros_like(c) for c in cells]  # what clipping took away, given back before the next
    for _ in range(ROUNDS):
        clipped = [np.maximum(c + k, 0.0) for c, k in zip(now, kept, strict=True)]
        kept = [c + k - x for c, k, x in zip(now, kept, clipped, strict=True)]
        now = agreed(tables, clipped, sizes, fixed)
        if all(float(c.min()) > -CLOSE * total / c.size for c in now):
            break
    return _lifted(now, [_even(t, sizes, fixed) for t in tables])


def agreed(
    tables: Sequence[Axes], cells: Sequence[Array], sizes: Sequence[int],
    fixed: Mapping[Axes, Array],
) -> list[Array]:  # fmt: skip
    """The nearest tables that agree with each other and have these parts."""
    sums: dict[Axes, Array] = {}
    counts: dict[Axes, float] = {}
    for table, found in zip(tables, cells, strict=True):
        inside = sorted(table)
        ordered = found.transpose([table.index(i) for i in inside])
        for part in subsets(table):
            others = tuple(k for k, i in enumerate(inside) if i not in part)
            weight = 1 / math.prod(sizes[inside[k]] for k in others)
            seen = weight * centred(ordered.sum(axis=others))
            sums[part] = sums[part] + seen if part in sums else seen
            counts[part] = counts.get(part, 0.0) + weight
    parts = {part: seen / counts[part] for part, seen in sums.items()} | dict(fixed)
    return [table_of(table, parts, sizes) for table in tables]


def _even(table: Axes, sizes: Sequence[int], fixed: Mapping[Axes, Array]) -> Array:
    """The table that has the fixed parts and says nothing else."""
    parts = {part: np.zeros([sizes[i] for i in part]) for part in subsets(table)}
    return table_of(table, parts | {p: x for p, x in fixed.items() if p in parts}, sizes)


def _lifted(cells: list[Array], even: list[Array]) -> list[Array]:
    """Moved towards the even tables, which agree too, until no cell is below zero."""
    share = 0.0
    for c, e in zip(cells, even, strict=True):
        low = (c < 0) & (e > 0)
        share = max(share, float(np.max(-c[low] / (e[low] - c[low]), initial=0.0)))
    return [np.maximum(c + share * (e - c), 0.0) for c, e in zip(cells, even, strict=True)]

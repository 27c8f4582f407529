"""Many counts over the same few-valued columns, answered from fewer sums.

A batch of counts is a matrix W over the cells of its columns. Instead of one sum per count,
ask histograms of the cells at several widths (a tree over the widest column) with weights
that make the mean variance of W's answers smallest for the price (least squares, A-optimal
weights found by multiplicative updates). The counts are then W times the best estimate of the
cells, so they agree with each other. Used when it costs less for the same mean error.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.answer import Answer
from sulq.check import CheckedQuery
from sulq.kernel import Batch, cell_numbers, domain_batch
from sulq.price import Price
from sulq.query import Bins, Query
from sulq.schema import Column, Schema

FEWEST = 4  # a smaller batch is asked as it is
MOST_CELLS = 1_500
ROUNDS = 2
NEGLIGIBLE = 0.004  # a histogram with less of the weight than this is left out

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shared:
    """What to ask instead, and how to get the counts back."""

    queries: tuple[Query, ...]
    work: Array  # counts x cells
    levels: tuple[NDArray[np.int64], ...]  # for each query, the answer cell of every cell
    weights: tuple[float, ...]
    columns: tuple[str, ...]

    def answers(self, found: list[Answer]) -> list[Answer]:
        """The counts, each with its own error."""
        inverse = _inverse(self.weights, self.levels)
        heard = np.zeros(self.work.shape[1])
        for weight, level, answer in zip(self.weights, self.levels, found, strict=True):
            heard += weight * answer.values[:, 0][level]
        counts = self.work @ (inverse @ heard)
        unit = found[0].stds[0][0] * math.sqrt(self.weights[0])  # std of weight 1
        stds = unit * np.sqrt(((self.work @ inverse) * self.work).sum(axis=1))
        price = sum((a.price for a in found), Price(0))
        share = Price(math.ceil(price.micro / len(counts)))
        names = " x ".join(self.columns)
        note = (
            f"one of {len(counts):,} counts from {len(found)} histograms of {names}, {price} in all"
        )
        return [
            replace(
                found[0],
                exact=((Fraction(float(c)),),),
                stds=((float(s),),),
                cells=("all",),
                names=("1",),
                price=share,
                note=note,
            )
            for c, s in zip(counts, stds, strict=True)
        ]


def share(
    queries: list[CheckedQuery], schema: Schema, check: Callable[[Query], CheckedQuery]
) -> Shared | None:
    """A cheaper way to ask these counts with the same mean error, if there is one to try."""
    if len({q.text for q in queries}) < FEWEST or not all(_is_count(q) for q in queries):
        return None
    if any(q.error is not None for q in queries):
        return None  # each names the error it wants
    names = tuple(sorted(set().union(*(q.where.columns() for q in queries if q.where is not None))))
    batch = domain_batch(names, schema, MOST_CELLS)
    if batch is None:
        return None
    work = np.array([batch.true(q.where) for q in queries], dtype=float)
    asked = [Query(("1",), by=by) for by in _widths(names, schema)]
    levels = [_cells(check(q), batch) for q in asked]
    used = _used(work, levels[-1])
    if not used.any():
        return None  # nothing declared can satisfy any of them
    work, levels = work[:, used], [level[used] for level in levels]
    weights = _best_weights(work, levels)
    weights[0] = max(weights[0], NEGLIGIBLE)  # the finest one stays: it keeps it solvable
    keep = [i for i, w in enumerate(weights) if w > NEGLIGIBLE or i == 0]
    levels = [levels[i] for i in keep]
    weights = np.array([weights[i] for i in keep])
    weights *= _mean_variance(work, weights, levels)  # now the mean variance is R
    exact = [Fraction(max(math.floor(math.sqrt(w) * 2**20), 1), 2**20) for w in weights]
    return Shared(
        tuple(replace(asked[i], weights=(w,)) for i, w in zip(keep, exact, strict=True)),
        work,
        tuple(levels),
        tuple(float(w * w) for w in exact),
        names,
    )


def _is_count(q: CheckedQuery) -> bool:
    """One count over private rows, everybody's."""
    one = isinstance(q.values, tuple) and len(q.values) == 1 and q.mix is None
    return (
        one
        and not q.axes
        and q.everyone
        and q.where is not None
        and q.values[0].node.text == "i:1"  # type: ignore[index]
        and q.releases[0].weight2 == 1
    )


def _widths(names: tuple[str, ...], schema: Schema) -> list[Any]:
    """The partition by all columns, then by ever wider bins of the widest whole number."""
    columns = [schema[n] for n in names]
    whole = [c for c in columns if c.type == "integer" and c.bounded and c.values is None]
    finest = tuple(_axis(c) for c in columns)
    if not whole:
        return [finest]
    widest = max(whole, key=lambda c: c.high - c.low)
    out, step = [finest], 2
    while step < widest.high - widest.low + 1:
        edges = (*range(widest.low, widest.high, step), widest.high)
        wide = Bins(widest.name, edges if len(edges) > 1 else (widest.low, widest.high))
        out.append(tuple(wide if c is widest else _axis(c) for c in columns))
        step *= 2
    return out


def _axis(c: Column) -> str | Bins:
    if c.type == "date":
        days = range((c.high - c.low).days + 2)
        return Bins(c.name, tuple(c.low + datetime.timedelta(days=d) for d in days))
    if c.type == "integer" and c.values is None:  # every value, whatever bins are declared
        return Bins(c.name, tuple(range(c.low, c.high + 2)))
    return '"' + c.name.replace('"', '""') + '"'


def _used(work: Array, coarsest: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The cells that matter: no count needs the others, and no histogram mixes them in."""
    return np.isin(coarsest, coarsest[work.any(axis=0)])


def _cells(query: CheckedQuery, batch: Batch) -> NDArray[np.int64]:
    cells = np.zeros(batch.rows, dtype=np.int64)
    for axis in query.axes:
        cells = cells * len(axis.labels) + cell_numbers(axis, batch)
    return cells


def _inverse(weights: Any, levels: Any) -> Array:
    """The inverse of the Gram matrix, one answer cell after the other.

    The histograms are nested, so adding a cell is a rank-one update within it
    (Sherman-Morrison), and the whole costs about as much as writing the result down.
    """
    size = len(levels[0])
    inverse = np.diag(np.full(size, 1.0 / weights[0]))  # every cell is its own in the finest
    for weight, level in zip(weights[1:], levels[1:], strict=True):
        order = np.argsort(level, kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
            first, last = int(members[0]), int(members[-1]) + 1
            together = last - first == len(members)  # neighbours, as mostly: no copy is made
            where = np.s_[first:last, first:last] if together else np.ix_(members, members)
            u = inverse[where].sum(axis=1)
            inverse[where] -= u[:, None] * (u * (weight / (1.0 + weight * u.sum())))
    return inverse


def _mean_variance(work: Array, weights: Array, levels: Any) -> float:
    """Mean variance of the counts, in units of R, at a total weight of 1."""
    inverse = _inverse(weights, levels)
    return float(((work @ inverse) * work).sum(axis=1).mean())


def _best_weights(work: Array, levels: Any) -> Array:
    """Weights adding to 1 with the least mean variance: w_l <- w_l * sqrt(gain of level l)."""
    together = work.T @ work / len(work)
    weights = np.ones(len(levels))
    weights[0] = max(len(levels) / 2, 1.0)  # near the best for ranges; equalities end at 1
    weights = weights / weights.sum()
    members = [np.equal.outer(level, np.unique(level)).astype(float) for level in levels]
    for _ in range(ROUNDS):
        inverse = _inverse(weights, levels)
        pull = inverse @ together @ inverse
        gains = np.array([((pull @ m) * m).sum() for m in members])
        weights = weights * np.sqrt(np.maximum(gains, 0.0))
        weights = weights / weights.sum()
        weights[0] = max(weights[0], 1e-6)  # the finest one keeps it solvable
    alone = np.eye(len(levels))[0]
    finest = float((work * work).sum(axis=1).mean())
    return np.asarray(weights if _mean_variance(work, weights, levels) < finest else alone)

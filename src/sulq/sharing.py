"""Many counts over the same few-valued columns, answered from fewer sums.

A batch of counts is a matrix W over the cells of its columns. Instead of one sum per count,
ask histograms of the cells at several widths (a tree over the widest column) with weights
that make the mean variance of W's answers smallest for the price (least squares, A-optimal
weights found by multiplicative updates). The counts are then W times the best estimate of the
cells, so they agree with each other. Used when it costs less for the same mean error.
"""

from __future__ import annotations

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
ROUNDS = 12
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
        gram = _gram(self.weights, self.levels)
        heard = np.zeros(self.work.shape[1])
        for weight, level, answer in zip(self.weights, self.levels, found, strict=True):
            heard += weight * answer.values[:, 0][level]
        inverse = np.linalg.inv(gram)
        counts = self.work @ (inverse @ heard)
        unit = found[0].stds[0][0] * math.sqrt(self.weights[0])  # std of weight 1
        stds = unit * np.sqrt(np.einsum("ij,jk,ik->i", self.work, inverse, self.work))
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
    work, levels = work[:, used], [level[used] for level in levels]
    weights = _best_weights(work, levels)
    keep = [i for i, w in enumerate(weights) if w > NEGLIGIBLE]
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
    if c.bins is not None and c.type == "integer":  # every value, not the declared bins
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


def _gram(weights: Any, levels: Any) -> Array:
    """Sum over the histograms of weight * A^T A: which cells share an answer cell."""
    size = len(levels[0])
    total = np.zeros((size, size))
    for weight, level in zip(weights, levels, strict=True):
        total += weight * (level[:, None] == level[None, :])
    return total


def _mean_variance(work: Array, weights: Array, levels: Any) -> float:
    """Mean variance of the counts, in units of R, at a total weight of 1."""
    inverse = np.linalg.inv(_gram(weights, levels))
    return float(np.einsum("ij,jk,ik->i", work, inverse, work).mean())


def _best_weights(work: Array, levels: Any) -> Array:
    """Weights adding to 1 with the least mean variance: w_l <- w_l * sqrt(gain of level l)."""
    together = work.T @ work / len(work)
    weights = np.full(len(levels), 1.0 / len(levels))
    members = [np.equal.outer(level, np.unique(level)).astype(float) for level in levels]
    for _ in range(ROUNDS):
        inverse = np.linalg.inv(_gram(weights, levels))
        pull = inverse @ together @ inverse
        gains = np.array([((pull @ m) * m).sum() for m in members])
        weights = weights * np.sqrt(np.maximum(gains, 0.0))
        weights = weights / weights.sum()
        weights[0] = max(weights[0], 1e-6)  # the finest one keeps it solvable
    return weights

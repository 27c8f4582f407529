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
from sulq.domains import domain_batch
from sulq.expressions import predicate
from sulq.kernel import Batch, cell_numbers
from sulq.price import Price
from sulq.query import Bins, Query
from sulq.schema import Column, Schema

FEWEST = 4  # a smaller batch is asked as it is
MOST_CELLS = 1_500
WIDER = 2  # each histogram has cells this many times as wide as the one before
ROUNDS = 2
NEGLIGIBLE = 1e-5  # a histogram with less of the weight than this is left out

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
        reach = _through(self.work, self.weights, self.levels)
        heard = np.zeros(self.work.shape[1])
        for weight, level, answer in zip(self.weights, self.levels, found, strict=True):
            heard += weight * answer.values[:, 0][level]
        counts = reach @ heard
        unit = found[0].stds[0][0] * math.sqrt(self.weights[0])  # std of weight 1
        stds = unit * np.sqrt((reach * self.work).sum(axis=1))
        price = sum((a.price for a in found), Price(0))
        share = Price(math.ceil(price.micro / len(counts)))
        names = " x ".join(self.columns) or "all rows"
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
    fixed = _fixed(names, batch, np.asarray(work.any(axis=0)))
    if fixed and len(fixed) < len(names):  # all of them ask about smokers only: so do we
        same = np.logical_and.reduce([batch.true(predicate(t, schema)) for t in fixed.values()])
        work, names = work[:, same], tuple(n for n in names if n not in fixed)
        batch = domain_batch(names, schema, MOST_CELLS)
        assert batch is not None
    else:
        fixed = {}
    where = " AND ".join(fixed.values()) or None
    asked = [Query(("1",), by=by, where=where) for by in _widths(names, schema)]
    levels = [_cells(check(q), batch) for q in asked]
    used = _used(work, levels[-1])
    if not used.any():
        return None  # nothing declared can satisfy any of them
    order = np.lexsort(levels)  # by the coarsest cell first: every cell's parts stand together
    order = order[used[order]]
    work, levels = work[:, order], [level[order] for level in levels]
    best, variance = _best_weights(work, levels)
    best[0] = max(best[0], 2 * NEGLIGIBLE)  # the finest one stays: it keeps it solvable
    keep = [i for i, w in enumerate(best) if w > NEGLIGIBLE]
    levels = [levels[i] for i in keep]
    weights = best[keep] * variance  # now the mean variance is R
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


def _fixed(names: tuple[str, ...], batch: Batch, active: NDArray[np.bool_]) -> dict[str, str]:
    """Columns that have one value wherever any count looks, as predicates."""
    found: dict[str, str] = {}
    for name in names:
        column, data = batch.schema[name], batch.column(name)
        there = data.valid[active]
        values = set(data.data[active][there].tolist())
        if column.listed is None or len(values) != 1 or not there.all():
            continue
        (value,) = values
        quoted = '"' + name.replace('"', '""') + '"'
        if isinstance(value, bool):
            found[name] = quoted if value else f"NOT {quoted}"
        else:
            written = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else value
            found[name] = f"{quoted} = {written}"
    return found


def _widths(names: tuple[str, ...], schema: Schema) -> list[Any]:
    """The partition by all columns, then by ever wider bins of the widest whole number."""
    columns = [schema[n] for n in names]
    whole = [c for c in columns if c.type == "integer" and c.bounded and c.values is None]
    finest = tuple(_axis(c) for c in columns)
    if not whole:
        return [finest]
    widest = max(whole, key=lambda c: c.high - c.low)
    out, step = [finest], WIDER
    while step < widest.high - widest.low + 1:
        edges = (*range(widest.low, widest.high, step), widest.high)
        wide = Bins(widest.name, edges if len(edges) > 1 else (widest.low, widest.high))
        out.append(tuple(wide if c is widest else _axis(c) for c in columns))
        step *= WIDER
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


def _steps(weights: Any, levels: Any) -> list[tuple[Array, Array, NDArray[np.intp]]]:
    """The inverse of the Gram matrix, written as one correction per coarser histogram.

    The cells stand in an order that keeps every answer cell together. Adding histogram l is a
    rank-one update within each of its cells (Sherman-Morrison), and the histograms are nested,
    so with u the row sums of the inverse so far, x G^-1 loses c u (u . x) in each cell, and
    the row sums become u / (1 + w sum u).
    """
    u = np.full(len(levels[0]), 1.0 / weights[0])  # every cell is its own in the finest
    out = []
    for weight, level in zip(weights[1:], levels[1:], strict=True):
        first = np.diff(level, prepend=-1) != 0
        starts, cell = np.flatnonzero(first), np.cumsum(first) - 1
        grown = (1.0 + weight * np.add.reduceat(u, starts))[cell]
        out.append((u, u * (weight / grown), starts))
        u = u / grown
    return out


def _through(work: Array, weights: Any, levels: Any) -> Array:
    """work G^-1, row by row, without writing G^-1 down."""
    out: Array = work * (1.0 / weights[0])
    for u, scaled, starts in _steps(weights, levels):
        sizes = np.diff(starts, append=work.shape[1])
        out -= np.repeat(np.add.reduceat(work * u, starts, axis=1), sizes, axis=1) * scaled
    return out


def _best_weights(work: Array, levels: Any) -> tuple[Array, float]:
    """Weights adding to 1 with the least mean variance of the counts, and that, in units of R.

    w_l <- w_l * sqrt(gain_l), where gain_l is how much the mean variance falls with w_l: the
    squared length of W G^-1 summed over the cells of histogram l.
    """
    weights = np.ones(len(levels))
    weights[0] = max(len(levels) / 2, 1.0)  # near the best for ranges
    weights = weights / weights.sum()
    starts = [np.flatnonzero(np.diff(level, prepend=-1)) for level in levels]
    for _ in range(ROUNDS):
        reach = _through(work, weights, levels)
        gains = [(np.add.reduceat(reach, s, axis=1) ** 2).sum() for s in starts]
        weights = weights * np.sqrt(gains)
        weights = weights / weights.sum()
        weights[0] = max(weights[0], 1e-6)  # the finest one keeps it solvable
    found = float((_through(work, weights, levels) * work).sum(axis=1).mean())
    finest = float((work * work).sum(axis=1).mean())
    if found < finest:
        return np.asarray(weights), found
    return np.asarray(np.eye(len(levels))[0]), finest

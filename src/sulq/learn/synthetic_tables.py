"""Rows made to have given tables: a tree of pairs draws them, then they move until all pairs fit.

Everything here is codes and noisy numbers. A row holds a code for each column; the codes of column
c are c's first place onwards among all D places, so that a D x D matrix holds every table of two
columns as a block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.learn.arrays import Array

Codes = NDArray[np.int64]
EXPECTED = math.sqrt(2 / math.pi)  # |x| of a normal x, in standard deviations
SURE = 0.5  # of a row: what a table without noise is taken to be off by
SWEEPS, TOGETHER = 12, 250  # over all columns; rows that are looked at together
BEGIN, SLOWER = 0.1, 0.8  # the share of those who gain by moving that moves; by sweep
EVEN = 1e-9  # a value that a cell has at least, so that a conditional distribution exists


@dataclass(frozen=True, slots=True)
class Tables:
    """Noisy shares of rows by every measured pair of columns."""

    first: Codes  # the first place of each column, and D at the end
    shares: Array  # D x D; a pair that was not measured is 0
    weights: Array  # columns x columns: 1 over the variance of a share; 0: not measured

    @classmethod
    def of(
        cls, sizes: Sequence[int], counts: dict[tuple[int, int], Array],
        stds: dict[tuple[int, int], float], rows: float,
    ) -> Tables:  # fmt: skip
        """From noisy counts by pairs of columns, their standard deviations and how many rows."""
        first = np.concatenate([[0], np.cumsum(sizes)])
        shares, weights = np.zeros((first[-1], first[-1])), np.zeros((len(sizes), len(sizes)))
        for (i, j), table in counts.items():
            a, b = slice(first[i], first[i + 1]), slice(first[j], first[j + 1])
            shares[a, b] = table / rows
            shares[b, a] = shares[a, b].T
            weights[i, j] = weights[j, i] = (rows / max(stds[i, j], SURE)) ** 2
        return cls(first, shares, weights)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs that were measured."""
        each = itertools.combinations(range(len(self.weights)), 2)
        return [(i, j) for i, j in each if self.weights[i, j]]

    def places(self, column: int) -> slice:
        """Where the codes of a column are."""
        return slice(int(self.first[column]), int(self.first[column + 1]))

    def block(self, matrix: Array, i: int, j: int) -> Array:
        """The table of two columns within a D x D matrix."""
        return matrix[self.places(i), self.places(j)]

    def alone(self, column: int) -> Array:
        """The distribution of one column, as all tables that have it say."""
        known = np.flatnonzero(self.weights[column])
        seen = sum(self.block(self.shares, column, int(j)).sum(axis=1) for j in known)
        return shares_of(np.asarray(seen))

    def noise(self, i: int, j: int) -> float:
        """The total variation that noise alone is expected to give to a table."""
        cells = self.block(self.shares, i, j).size
        return float(0.5 * EXPECTED * cells / np.sqrt(self.weights[i, j]))


def shares_of(counts: Array) -> Array:
    """A distribution from noisy numbers: what is below zero is none."""
    kept = np.maximum(counts, 0.0)
    total = kept.sum(axis=-1, keepdims=True)
    even = np.full_like(kept, 1 / kept.shape[-1])
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), even)


# --- a tree of pairs ----------------------------------------------------------------------


def dependence(tables: Tables) -> Array:
    """How far each pair is from independent, in total variation, less what noise alone gives.

    A pair that was not measured has minus infinity.
    """
    out = np.full_like(tables.weights, -np.inf)
    alone = [tables.alone(c) for c in range(len(out))]
    for i, j in tables.pairs:
        apart = np.abs(tables.block(tables.shares, i, j) - np.outer(alone[i], alone[j]))
        out[i, j] = out[j, i] = 0.5 * float(apart.sum()) - tables.noise(i, j)
    return out


def spanning_tree(strength: Array) -> list[tuple[int, int]]:
    """The strongest tree over all columns, as (known, new) from the first column on (Prim).

    A column that no measured pair joins to the others begins a tree of its own: (new, new).
    """
    reached, edges = [0], [(0, 0)]
    while len(reached) < len(strength):
        rest = [c for c in range(len(strength)) if c not in reached]
        a, b = max(itertools.product(reached, rest), key=lambda e: strength[e])
        edges.append((a, b) if strength[a, b] > -np.inf else (b, b))
        reached.append(b)
    return edges


def drawn(tables: Tables, edges: Sequence[tuple[int, int]], rows: int, rng: Any) -> Codes:
    """Rows from a tree: each column from its distribution given the one before it."""
    out = np.zeros((rows, len(tables.weights)), dtype=np.int64)
    for known, new in edges:
        alone = tables.alone(new)
        if known == new:
            out[:, new] = pick(np.broadcast_to(alone, (rows, len(alone))), rng)
            continue
        table = np.maximum(tables.block(tables.shares, known, new), 0.0) + EVEN * alone
        out[:, new] = pick(shares_of(table)[out[:, known]], rng)
    return out


def pick(shares: Array, rng: Any) -> Codes:
    """One code for each row of distributions."""
    below = shares.cumsum(axis=1)
    found = (rng.random((len(shares), 1)) * below[:, -1:] > below).sum(axis=1)
    return np.asarray(np.minimum(found, shares.shape[1] - 1), dtype=np.int64)


# --- all pairs ----------------------------------------------------------------------------


def counted(tables: Tables, codes: Codes) -> Array:
    """How many rows are in each cell of each measured pair, as a D x D matrix."""
    out = np.zeros_like(tables.shares)
    for i, j in tables.pairs:
        block = tables.block(out, i, j)
        flat = codes[:, i] * block.shape[1] + codes[:, j]
        block[:] = np.bincount(flat, minlength=block.size).reshape(block.shape)
        tables.block(out, j, i)[:] = block.T
    return out


def settled(tables: Tables, codes: Codes, rng: Any) -> Codes:
    """The rows, moved until their tables are as near to the noisy ones as they get.

    Near is weighted squares, as noise has it. One value of one row at a time would do; here those
    who gain most move together, ever fewer of them, so that they do not all move the same way.
    """
    places = codes + tables.first[:-1]
    counts, rate = counted(tables, codes), BEGIN
    scale, parts = tables.weights / tables.weights.max(), math.ceil(len(codes) / TOGETHER)
    for _ in range(SWEEPS):
        for column in rng.permutation(len(tables.weights)):
            for part in np.array_split(rng.permutation(len(codes)), parts):
                _move(tables, places, counts, scale[column], int(column), part, rate)
        rate *= SLOWER
    return places - tables.first[:-1]


def _move(
    tables: Tables, places: Codes, counts: Array, scale: Array, column: int, part: Codes,
    rate: float,
) -> None:  # fmt: skip
    """Give some rows the value of one column that the tables lack most, and count them there.

    A row that goes from value a to b changes the squares by twice the weighted sum, over its
    other values x, of over(x, b) - over(x, a) + 1; over is what a cell has too many.
    """
    mine, others = tables.places(column), np.flatnonzero(scale)
    if not len(others):
        return
    near = np.repeat(scale, np.diff(tables.first))[:, None]
    over = near * (counts[:, mine] - len(places) * tables.shares[:, mine])
    worth = np.zeros((len(part), over.shape[1]))
    for other in others:
        worth += over[places[part, other]]
    rows, now = np.arange(len(part)), places[part, column] - mine.start
    best = worth.argmin(axis=1)
    gain = worth[rows, now] - worth[rows, best] - scale[others].sum()
    willing = np.flatnonzero(gain > 0)
    if not len(willing):
        return
    most = max(1, int(rate * len(willing)))
    chosen = willing[np.argsort(-gain[willing])[:most]]
    width, went = over.shape[1], part[chosen]
    for sign, values in ((-1, now[chosen]), (1, best[chosen])):
        flat = (places[np.ix_(went, others)] * width + values[:, None]).ravel()
        change = sign * np.bincount(flat, minlength=over.size).reshape(over.shape)
        counts[:, mine] += change
        counts[mine, :] += change.T
    places[went, column] = best[chosen] + mine.start


def off(tables: Tables, codes: Codes) -> list[float]:
    """The total variation between the rows' table of each measured pair and the noisy one."""
    shares = counted(tables, codes) / max(len(codes), 1)
    apart = np.abs(shares - tables.shares)
    return [0.5 * float(tables.block(apart, i, j).sum()) for i, j in tables.pairs]

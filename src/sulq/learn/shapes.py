"""Shape functions of an additive model: their cells, how noise is told from shape, one step.

A term is a column, or a pair of columns, cut into cells. Its shape has one value per cell; a group
is some cells that share one, because a single one has too few rows for the noise. A step moves all
terms at once by what their cells' sums are off, each by itself. Terms that say the same would then
move too far together, so the next step is as long as this one turned out to be right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import sulq
from sulq.expressions.quoting import quote, text
from sulq.learn.arrays import Array
from sulq.learn.cuts import Cut
from sulq.learn.task import balanced

Numbers = NDArray[np.int64]
ENOUGH = 8.0  # standard deviations of a count that a group of cells should have
LONGEST = 0.5  # of a step
SHORTEST = 0.05
MAX_SQL, MAX_BRANCHES = 9_000, 400  # of an expression, within what a database reads
FINEST = 2.0**-10  # grid of a shape's values, as they are written


@dataclass(frozen=True, slots=True)
class Term:
    """A column, or a pair of columns, and how they are cut."""

    cuts: tuple[Cut, ...]

    @property
    def name(self) -> str:
        """What it is called: a column, or both with an x between."""
        return " x ".join(cut.column for cut in self.cuts)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells along each column; a missing value is in none of them."""
        return tuple(cut.size - cut.other for cut in self.cuts)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.sizes)

    @property
    def ordered(self) -> bool:
        """Do neighbours tell about each other?"""
        return len(self.cuts) == 1 and bool(self.cuts[0].edges)

    @property
    def by(self) -> tuple[Any, ...]:
        """The partition of a query."""
        return tuple(cut.by for cut in self.cuts)

    @property
    def labels(self) -> list[str]:
        """Each cell in words."""
        first, *more = [cut.labels[:n] for cut, n in zip(self.cuts, self.sizes, strict=True)]
        for names in more:
            first = [f"{a}, {b}" for a in first for b in names]
        return first

    def read(self, values: Array) -> Array:
        """One number per cell from an answer's; what is missing or undeclared is left away."""
        table = values.reshape([cut.cells for cut in self.cuts])
        return np.asarray(table[tuple(slice(n) for n in self.sizes)]).reshape(-1)

    def codes(self, rows: Any, columns: Sequence[str]) -> Numbers:
        """The cell of each row that the analyst holds; -1: it is in none."""
        code: Numbers = np.zeros(len(rows), dtype=np.int64)
        there = np.ones(len(rows), dtype=bool)
        for cut, size in zip(self.cuts, self.sizes, strict=True):
            mine = replace(cut, other=True).codes(rows[:, columns.index(cut.column)])
            there &= mine < size
            code = code * size + mine
        return np.where(there, code, -1)

    def sql(self, shape: Array) -> str:
        """The shape as a SQL expression."""
        return _case(self.cuts, self.sizes, [repr(float(v) + 0.0) for v in shape])

    def coarse(self, found: Seen) -> tuple[Any, ...]:
        """The partition of a query that asks for groups, where they are stretches of a number."""
        if not self.ordered:
            return self.by
        cut, last = self.cuts[0], self.sizes[0] - 1
        inner = [i + 1 for i in range(last) if found.group[i] != found.group[i + 1]]
        edges = [cut.edges[0], *(cut.edges[i] for i in inner), cut.edges[-1]]
        return (sulq.Bins(cut.column, tuple(edges)),)

    def grouped(self, values: Array, std: float, found: Seen) -> tuple[Array, Array]:
        """A number per group from an answer to `coarse`, and the variance of each."""
        many = len(found.rows)
        if self.ordered:
            return values[:many], np.full(many, std**2)
        size = np.bincount(found.group, minlength=many)
        return summed(found.group, self.read(values)), np.asarray(size * std**2, dtype=np.float64)


def _case(cuts: Sequence[Cut], sizes: Sequence[int], values: list[str]) -> str:
    """CASE over the cells of the first cut; neighbours of one value are one branch."""
    if not cuts:
        return values[0]
    cut, width = cuts[0], len(values) // sizes[0]
    below = [
        _case(cuts[1:], sizes[1:], values[i * width : (i + 1) * width]) for i in range(sizes[0])
    ]
    if len(set(below)) == 1:
        return below[0]
    name = quote(cut.column)
    if cut.edges:
        ends = [i for i in range(sizes[0] - 1) if below[i] != below[i + 1]]
        tests = [(f"{name} < {cut.edges[i + 1]!r}", below[i]) for i in ends]
        last = below[-1]
    else:
        tests, last = _branches(name, cut.values, below)
    whens = " ".join(f"WHEN {test} THEN {value}" for test, value in tests)
    return f"CASE {whens} ELSE {last} END"


def _branches(
    name: str, values: Sequence[Any], below: list[str]
) -> tuple[list[tuple[str, str]], str]:
    """A test for each different value of a shape but the commonest, which is what is else."""
    common = max(set(below), key=lambda v: (below.count(v), v))
    tests = []
    for value in dict.fromkeys(v for v in below if v != common):
        mine = [v for v, b in zip(values, below, strict=True) if b == value]
        if isinstance(mine[0], bool):
            test = name if mine[0] else f"NOT {name}"
        else:
            said = ", ".join(text(v) if isinstance(v, str) else repr(v) for v in mine)
            test = f"{name} IN ({said})"
        tests.append((test, value))
    return tests, common


def total_sql(start: float, terms: Sequence[Term], shapes: Sequence[Array]) -> str:
    """The sum of all shapes as a SQL expression."""
    parts = [term.sql(shape) for term, shape in zip(terms, shapes, strict=True)]
    return balanced([repr(float(start)), *(part for part in parts if part != "0.0")])


def written(
    start: float, terms: Sequence[Term], shapes: Sequence[Array]
) -> tuple[str, float, list[Array]]:
    """The sum as an expression that is not too long, and the values that it has then.

    Values are rounded to a grid, coarser until what is equal makes the expression short enough.
    """
    grid = FINEST
    while True:
        level = round(start / grid) * grid
        coarse = [np.round(shape / grid) * grid for shape in shapes]
        sql = total_sql(level, terms, coarse)
        if len(sql) <= MAX_SQL and sql.count("WHEN") + sql.count(",") <= MAX_BRANCHES:
            return sql, level, coarse
        grid *= 2


# --- what a first question says -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """A term's groups: rows and sum of y in each, y in [-1/2, 1/2], and the noise of the sums."""

    group: Numbers  # of each cell
    rows: Array
    sums: Array
    variance: Array  # of the noise of each sum

    @property
    def share(self) -> Array:
        """Each group's part of the rows."""
        return np.asarray(self.rows / self.rows.sum())

    def centred(self, shape: Array) -> Array:
        """A shape whose mean over the rows is 0."""
        return np.asarray(shape - self.share @ shape)


def seen(term: Term, counts: Array, sums: Array, count_std: float, sum_std: float) -> Seen:
    """Cells put together until each group has rows enough for the noise."""
    group = groups_of(counts, ENOUGH * count_std, term.ordered)
    many = int(group.max()) + 1
    rows, size = summed(group, counts), np.bincount(group, minlength=many)
    return Seen(
        group, np.maximum(rows, max(count_std, 1.0)), summed(group, sums),
        np.asarray(size * sum_std**2, dtype=np.float64),
    )  # fmt: skip


def summed(group: Numbers, values: Array) -> Array:
    """The sum of the values of each group."""
    return np.asarray(np.bincount(group, values), dtype=np.float64)


def groups_of(counts: Array, least: float, ordered: bool) -> Numbers:
    """Neighbours together until they have `least` rows; of names, all that have fewer."""
    if not ordered:
        small = counts < least
        group = np.where(small, len(counts), np.arange(len(counts)))
        return np.asarray(np.unique(group, return_inverse=True)[1], dtype=np.int64)
    group, number, rows = np.zeros(len(counts), dtype=np.int64), 0, 0.0
    for i, count in enumerate(counts):
        if rows >= least and i:
            number, rows = number + 1, 0.0
        group[i], rows = number, rows + count
    if rows < least and number:
        group[group == number] = number - 1
    return group


def prior(raw: Array, variance: Array, found: Seen, ordered: bool) -> Array:
    """The precision of a shape before it is seen, from a noisy shape `raw`: empirical Bayes.

    Its values vary by what `raw` varies by beyond its own variance; those of neighbours differ by
    what they differ by beyond theirs.
    """
    share = found.share
    beyond = float(share @ ((raw - share @ raw) ** 2 - variance))
    spread = max(beyond, 0.02 * float(share @ variance) + 1e-4)
    precision = np.eye(len(raw)) / spread
    if not ordered or len(raw) < 3:
        return precision
    D = np.diff(np.eye(len(raw)), axis=0)
    noise = variance[1:] + variance[:-1]
    step = float(((np.diff(raw) ** 2 - noise) / noise).sum() / (1 / noise).sum())
    return np.asarray(0.25 * precision + D.T @ D / max(step, 0.02 * spread / len(raw)))


# --- a step ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pull:
    """Where a term's sums pull its shape, how stiff it is, and what that would move it by."""

    force: Array
    stiffness: Array
    move: Array


def pull(found: Seen, precision: Array, shape: Array, off: Array, curve: Array, v: Array) -> Pull:
    """What sums that are `off` say of a shape; `curve` is what they change by, v their noise.

    Sums with noise of variance v beside that of the sample, `curve`, say less: the prior weighs as
    much more, (curve + v) / curve.
    """
    more = np.sqrt((curve + found.variance + v) / curve)
    held = more[:, None] * precision * more
    force = off - found.share * off.sum() - held @ shape
    stiffness = np.diag(curve) + held
    move = np.linalg.solve(stiffness, force)
    return Pull(force, stiffness, found.centred(move))


def rightness(moves: Sequence[Array], before: Sequence[Pull], now: Sequence[Pull]) -> float:
    """How long a step should have been, over what each term by itself would have it: 1/lambda.

    The sums changed by H move, where each term by itself expected D move: lambda is
    move H move / move D move.
    """
    pairs = list(zip(moves, before, now, strict=True))
    changed = sum(float(m @ (a.force - b.force)) for m, a, b in pairs)
    expected = sum(float(m @ a.stiffness @ m) for m, a, _ in pairs)
    if changed <= 0 or expected <= 0:
        return LONGEST
    return min(max(expected / changed, SHORTEST), LONGEST)


def noise_of(steps: Sequence[float], heard: Sequence[Array], pulled: Pull, found: Seen) -> Array:
    """The standard deviation that noise gives a shape: of the first sums, and of every step's.

    A step of length s keeps 1 - s of what was there, so what a step hears counts s times the
    product of 1 - s of those after it; the first sums are heard by all. `heard` are variances.
    """
    kept = np.cumprod([1.0, *(1 - s for s in reversed(steps[1:]))])[::-1]
    parts = zip(steps, kept, heard, strict=True)
    variance = found.variance + sum((s * k) ** 2 * v for s, k, v in parts)
    inverse = np.linalg.inv(pulled.stiffness)
    return np.asarray(np.sqrt(np.diag(inverse @ np.diag(variance) @ inverse)))


def rescaled(found: Seen, n: float) -> Seen:
    """The same rows, n together."""
    return replace(found, rows=found.rows * (n / found.rows.sum()))


# ---- what a sum of shapes says of a label ---------------------------------------------------
# Everything is in units in which a sum over rows changes by its own variance when a shape changes
# by 1, as in logistic regression. Numbers have a variance of their own, which is taken to be
# SPREAD.

WITHIN = 0.7  # the variance of p within a group's rows, over that of their mean p
NEAR = 0.02  # a mean p is no nearer to 0 or 1 than this where its variance is taken
SPREAD = 1 / 32  # the variance of a number about its mean, in a range of 1


class Link(Protocol):
    """How a sum of shapes becomes a mean label."""

    @property
    def unit(self) -> float:
        """What a sum of labels is divided by."""
        ...

    def sql(self, total: str) -> str:
        """The mean label as a SQL expression, in [-1/2, 1/2]."""
        ...

    def level(self, mean: float) -> float:
        """The sum of shapes that has this mean label."""
        ...

    def raw(self, found: Seen, level: float) -> tuple[Array, Array]:
        """A shape from its own groups' sums alone, and the variance of each value."""
        ...

    def curve(self, found: Seen, sums: Array) -> Array:
        """What the groups' sums change by when their values change by 1."""
        ...

    def mean(self, total: Array) -> Array:
        """The mean label, in [-1/2, 1/2]."""
        ...


@dataclass(frozen=True, slots=True)
class Logistic:
    """The label is +1/2 with probability 1 / (1 + exp(-total)), else -1/2."""

    unit: float = 1.0

    def sql(self, total: str) -> str:
        """p - 1/2."""
        return f"1 / (1 + EXP(-({total}))) - 0.5"

    def level(self, mean: float) -> float:
        """The log odds."""
        p = min(max(0.5 + mean, NEAR / 4), 1 - NEAR / 4)
        return math.log(p / (1 - p))

    def raw(self, found: Seen, level: float) -> tuple[Array, Array]:
        """Log odds of each group beyond those of all rows: naive Bayes."""
        near = np.clip(0.5 / np.sqrt(found.rows), NEAR / 4, 0.5)
        p = np.clip(0.5 + found.sums / found.rows, near, 1 - near)
        curve = found.rows * p * (1 - p)
        return np.log(p / (1 - p)) - level, (found.variance + curve) / curve**2

    def curve(self, found: Seen, sums: Array) -> Array:
        """rows p (1 - p), as the groups' mean p gives it, less what p varies within a group."""
        p = np.clip(0.5 + sums / found.rows, NEAR, 1 - NEAR)
        return np.asarray(found.rows * p * (1 - p) * WITHIN)

    def mean(self, total: Array) -> Array:
        """p - 1/2."""
        return np.asarray(0.5 * np.tanh(np.asarray(total) / 2))


@dataclass(frozen=True, slots=True)
class Identity:
    """The label is the total, within its range, and varies about it by SPREAD."""

    unit: float = SPREAD

    def sql(self, total: str) -> str:
        """The total within [-1/2, 1/2]."""
        return f"GREATEST(-0.5, LEAST(0.5, {total}))"

    def level(self, mean: float) -> float:
        """The mean itself."""
        return min(max(mean, -0.5), 0.5)

    def raw(self, found: Seen, level: float) -> tuple[Array, Array]:
        """The mean of each group beyond that of all rows."""
        curve = found.rows / self.unit
        return np.clip(found.sums / curve, -0.5, 0.5) - level, (found.variance + curve) / curve**2

    def curve(self, found: Seen, sums: Array) -> Array:
        """Every row changes by what the shape changes by."""
        return np.asarray(found.rows / self.unit)

    def mean(self, total: Array) -> Array:
        """The total within [-1/2, 1/2]."""
        return np.clip(np.asarray(total), -0.5, 0.5)


def label_sql(label: str, low: Any, width: Any) -> str:
    """A number as it is asked about: its place in [-1/2, 1/2]."""
    return f"({label} - {float(low + width / 2)!r}) / {float(width)!r}"

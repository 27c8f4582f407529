"""MEDIAN and PERCENTILE_CONT, from one noisy distribution function over the declared range.

The range is cut into up to 256 cells. Combinations of their counts made for prefixes are measured
(Gaussian noise), or two histograms of 16 and 16 x 16 cells (other noise). Least squares gives how
many rows lie below each edge, off by about three standard deviations of one count, wherever it is.
Where it is public how many rows there are, the combinations are made for that, and n is exact.

Intervals. With B(e) rows below an edge e, n rows in all (both noisy) and D(e) = B(e) - q n: if
the quantile lies in the cell [e, f), then D(e) <= 1 - q and D(f) >= -q, ties or not. A cell is
ruled out when the noisy D contradicts either by more than z standard deviations of its own
noise: the true cell is so with probability at most 4%. D rises, so a cell is also ruled out when
one of 16 posts before or behind it contradicts by what no post's noise exceeds but for 1%: of far
cells chance alone would leave some. The interval is everything from the first cell left to the last
one, whole cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.expressions.node import Node
from sulq.expressions.parse import parse, shorten
from sulq.questions.partitions import MAX_LABELS, axes_of
from sulq.questions.percentile_choice import ENDS
from sulq.values.answer import Answer
from sulq.values.number_text import Spread
from sulq.values.price import Price
from sulq.values.query import MAX_DENOMINATOR, Bins, Percentile, Query, Rows, Strategy
from sulq.values.schema import Schema
from sulq.values.table import Table

CELLS = 256
BRANCH = 16  # fine cells in a coarse one
LEVEL = 0.95  # of the intervals in a table
AT_POSTS = 0.01  # of what may be wrong at a post, in all
POSTS = 16
ZERO = 1e-9  # nothing but rounding

Array = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True)
class Located:
    """A quantile in every group: its best estimate, and the ends that hold it at LEVEL."""

    value: Array
    low: Array
    high: Array
    source: int  # which distribution: quantiles of one share their noise


@dataclass(frozen=True)
class Counts:
    """How many rows lie below each edge, in every group, and how noise moves that."""

    sums: Array  # groups x edges
    moved: Array  # edges x released numbers: by noise of 1 in each
    std: float  # of a released number
    spread: Spread  # half an interval at a level, in standard deviations

    @property
    def total(self) -> Array:
        """How many rows each group has, noisy."""
        return self.sums[:, -1]

    def few(self) -> NDArray[np.bool_]:
        """Groups whose size is within the noise: a third of it may be on the wrong side."""
        return np.asarray(~(self.total > 3 * self.noise(0.0).max()))

    def below(self) -> Array:
        """The sums, rising: midway between the two envelopes."""
        up = np.maximum.accumulate(self.sums, axis=1)
        down = np.minimum.accumulate(self.sums[:, ::-1], axis=1)[:, ::-1]
        return np.asarray((up + down) / 2)

    def noise(self, share: float) -> Array:
        """The standard deviation of B - share * n at each edge."""
        moved = self.moved - share * self.moved[-1]
        return np.asarray(self.std * np.sqrt((moved**2).sum(axis=1)))

    def cells(self, share: float) -> tuple[Places, Places]:
        """The first and the last cell in which a quantile may lie, in every group."""
        apart, noise = self.sums - share * self.sums[:, -1:], self.noise(share)
        reach = self.spread(LEVEL + AT_POSTS) * noise
        least, most = apart - reach, apart + reach
        posts = np.unique(np.linspace(0, len(noise) - 1, POSTS + 1).round().astype(int))[1:]
        wide = self.spread(1 - AT_POSTS / POSTS) * noise[posts]
        for post, far in zip(posts, wide, strict=True):
            at = apart[:, post : post + 1]
            least[:, post:] = np.maximum(least[:, post:], at - far)
            most[:, : post + 1] = np.minimum(most[:, : post + 1], at + far)
        early = least[:, :-1] - (1 - share)  # above 0: too many lie before the cell
        late = -share - most[:, 1:]  # above 0: too few lie before its end
        wrong = np.maximum(early, late)
        left = wrong <= np.maximum(wrong.min(axis=1, keepdims=True), 0.0)
        return left.argmax(axis=1), left.shape[1] - 1 - left[:, ::-1].argmax(axis=1)

    def shares(self) -> tuple[Array, Array, Array]:
        """The share of one group's rows below each edge but the first, with its ends."""
        total = max(float(self.total[0]), 1.0)
        found = np.clip(self.sums[0] / total, 0.0, 1.0)
        moved = self.moved - found[:, None] * self.moved[-1]
        error = self.spread(LEVEL) * self.std * np.sqrt((moved**2).sum(axis=1)) / total
        low, high = np.clip(self.sums[0] / total + np.array([[-1.0], [1.0]]) * error, 0.0, 1.0)
        rising = np.clip(self.below()[0] / total, low, high)
        return rising[1:], low[1:], high[1:]


def bounded_number(x: str, schema: Schema, what: str) -> Node:
    """An expression that a percentile is asked of, or a refusal."""
    node = parse(x, schema)
    if node.type not in ("integer", "number") or not node.bounded:
        raise QueryNotAllowed(f"{what}({shorten(x)}): want a number with declared low and high.")
    return node


class Distribution:
    """The cells of one expression's range, and what is asked about them."""

    def __init__(
        self, x: str, schema: Schema, combined: bool, known: bool, what: str = "MEDIAN"
    ) -> None:
        node = bounded_number(x, schema, what)
        self.x = x
        self.combined = combined  # not two histograms
        self.whole = node.type == "integer"
        low, high = self.low, self.high = float(node.low), float(node.high)
        if self.whole:
            low, high = low - 0.5, high + 0.5  # a whole number is the middle of its cell
            self.step = float(max(1, math.ceil((high - low) / CELLS)))
        else:
            self.step = (high - low) / CELLS
        every = [low + self.step * i for i in range(CELLS)]
        every += [low + self.step * CELLS if self.whole else high]
        used = sum(edge <= self.high for edge in every[:-1])  # cells that can hold a row
        self.edges = every[: used + 1]
        self.known = combined and known and used > 1  # how many rows there are is public
        self.cuts = (every[: used + 1],) if combined else (every[::BRANCH], every)

    @property
    def levels(self) -> int:
        """How many queries it asks."""
        return len(self.cuts) + self.known

    def queries(
        self, keys: tuple[str, ...], where: str | None, rows: Rows | None = None
    ) -> list[Query]:
        """What is asked, within every group."""
        prefixes = Strategy(("cdf" if self.known else "prefixes",))
        values = prefixes if self.combined else ("1",)
        found = [
            Query(values, by=(*keys, Bins(self.x, tuple(cut))), where=where, rows=rows)
            for cut in self.cuts
        ]
        every = Query(by=keys or None, where=where, rows=rows)
        return [*found, every] if self.known else found

    def counts(self, answers: list[Answer], groups: int) -> Counts:
        """How many rows lie below each edge: least squares of what was measured."""
        first = answers[0]
        if self.known:
            return self._of_known(first, answers[1].values[:, 0], groups)
        if self.combined:
            assert first.matrix is not None
            read = np.linalg.inv(first.matrix)
        else:
            read = _of_two_histograms(len(self.edges) - 1)
        released = np.concatenate(
            [a.values.reshape(groups, -1) for a in answers]
            if self.combined
            else [  # without what is missing
                a.values.reshape(groups, -1)[:, : len(cut) - 1]
                for a, cut in zip(answers, self.cuts, strict=True)
            ],
            axis=1,
        )
        moved = np.concatenate([np.zeros((1, read.shape[1])), read.cumsum(axis=0)])
        return Counts(released @ moved.T, moved, first.stds[0][0], first.spread)

    def _of_known(self, answer: Answer, totals: Array, groups: int) -> Counts:
        """The same where the rows of every group are counted exactly; those without a value too."""
        assert answer.matrix is not None
        all_cells = np.ones((1, answer.matrix.shape[1]))
        read = np.linalg.inv(np.concatenate([answer.matrix, all_cells]))
        below = np.pad(read.cumsum(axis=0)[: len(self.edges) - 1], [(1, 0), (0, 0)])
        below = np.where(np.abs(below) > ZERO, below, 0.0)  # all rows: nothing but their number
        moved, of_total = below[:, :-1], below[:, -1]
        sums = answer.values.reshape(groups, -1) @ moved.T + np.outer(totals, of_total)
        return Counts(sums, moved, answer.stds[0][0], answer.spread)

    def table(self, answers: list[Answer], name: str) -> Table:
        """The share of rows up to the end of each cell."""
        counts = self.counts(answers, 1)
        shares = dict(zip(("share", "share_low", "share_high"), counts.shares(), strict=True))
        ends = np.array(self.edges[1:])
        ends = np.minimum(np.floor(ends) if self.whole else ends, self.high)
        labels: list[Any] = ends.astype(int).tolist() if self.whole else ends.tolist()
        few = bool(counts.few()[0])
        return Table(
            {name: labels} | {k: v.tolist() for k, v in shares.items()},
            (name,),
            sum((a.price for a in answers), Price(0)),
            min(a.remaining for a in answers),
            "too few rows for the noise" if few else "",
            too_few=(few,) * len(labels),
        )


class Quantile(Distribution):
    """The quantiles asked of one expression over the rows of one condition."""

    def __init__(self, x: str, condition: str, schema: Schema, combined: bool, known: bool) -> None:
        super().__init__(x, schema, combined, known)
        self.condition = condition
        self.asked: list[float] = []

    def add(self, share: float) -> int:
        """Ask for one more quantile; gives its place."""
        if share not in self.asked:
            self.asked.append(share)
        return self.asked.index(share)

    def within(self, keys: tuple[str, ...], condition: str | None) -> list[Query]:
        """What is asked of the rows of a statement."""
        parts = [c for c in (condition, self.condition) if c not in (None, "true")]
        return self.queries(keys, " AND ".join(f"({c})" for c in parts) or None)

    def located(
        self, answers: list[Answer], groups: int, source: int
    ) -> tuple[list[Located], NDArray[np.bool_]]:
        """Each quantile in every group, and the groups that are too small for one."""
        counts = self.counts(answers, groups)
        return list(self.read(counts, source)), counts.few()

    def read(self, counts: Counts, source: int) -> Iterator[Located]:
        """Each quantile in every group, within the ends of its interval."""
        below = counts.below()
        for share in self.asked:
            low, high = self.ends(*counts.cells(share))
            found = np.clip(self.inverted(below, share * counts.total), low, high)
            yield Located(np.where(counts.total > 0, found, np.nan), low, high, source)

    def ends(self, first: Places, last: Places) -> tuple[Array, Array]:
        """Where these cells begin and end; of whole numbers, the first and the last of them."""
        edges = np.array(self.edges)
        low, high = edges[first], edges[last + 1]
        if self.whole:
            low, high = np.ceil(low), np.floor(high)
        return np.clip(low, self.low, self.high), np.clip(high, self.low, self.high)

    def inverted(self, below: Array, target: Array) -> Array:
        """Where each group's curve reaches its target."""
        edges = np.array(self.edges)
        out = np.empty(len(below))
        for i, (curve, t) in enumerate(zip(below, target, strict=True)):
            j = int(np.clip(np.searchsorted(curve, t) - 1, 0, len(edges) - 2))
            rise = curve[j + 1] - curve[j]
            share = 0.5 if rise <= 0 else float(np.clip((t - curve[j]) / rise, 0, 1))
            out[i] = edges[j] + share * (edges[j + 1] - edges[j])
            if self.whole:
                out[i] = round((edges[j] + edges[j + 1]) / 2 if self.step == 1.0 else out[i])
        return out


def groups_of(answer: Answer, depth: int) -> list[tuple[Any, ...]]:
    """The groups of an answer whose labels begin with as many keys."""
    if not depth:
        return [("all",)]
    return list(dict.fromkeys(cell[:depth] for cell in answer.cells))


@cache
def _of_two_histograms(used: int) -> Array:
    """How the fine cells that can hold a row are read off both: least squares."""
    fine = np.eye(CELLS)
    asked = np.concatenate([fine.reshape(BRANCH, BRANCH, CELLS).sum(axis=1), fine])[:, :used]
    return np.asarray(np.linalg.solve(asked.T @ asked, asked.T))


# ---- percentiles that are chosen ------------------------------------------------------------
# The declared range is cut into 8,192 cells; whole numbers, up to 32,768 of them, have cells of
# their own. A cell is chosen by the rows below it, closer than a distribution function of all
# cells could say it, and two more for the ends of its interval (questions/percentile_choice.py).
# MEDIAN and PERCENTILE_CONT give all percentiles of a column for one price; a choice gives one.

MAX_CELLS = 2**13  # of one group
MAX_WHOLE = 2**15  # of one group, where each is one whole number
FINE = 256  # cells in one of the first axis
FEWEST = 4


class ChosenPercentile:
    """One percentile of one expression over the rows of one condition."""

    levels = 1  # queries

    def __init__(
        self, x: str, condition: str, share: float, schema: Schema, keys: tuple[str, ...]
    ) -> None:
        node = bounded_number(x, schema, "PERCENTILE_DISC")
        self.x = x
        self.condition = condition
        self.asked = [share]
        self.share = Fraction(str(share)).limit_denominator(MAX_DENOMINATOR)
        if not 0 < self.share < 1:
            raise QueryNotAllowed(f"PERCENTILE_DISC({share:g}): want 0.0001 to 0.9999.")
        self.whole = node.type == "integer"
        self.low, self.high = float(node.low), float(node.high)
        groups = math.prod(len(a.labels) for a in axes_of(keys, schema))
        cells = min(MAX_WHOLE if self.whole else MAX_CELLS, MAX_LABELS // groups - 2 * FINE)
        if cells < FEWEST * FINE:
            raise QueryNotAllowed(
                f"PERCENTILE_DISC: {groups:,} groups are too many to choose a value in each. "
                "PERCENTILE_CONT is answered."
            )
        span = self.high - self.low
        self.step = float(math.ceil((span + 1) / cells)) if self.whole else (span or 1.0) / cells

    def within(self, keys: tuple[str, ...], condition: str | None) -> list[Query]:
        """What is asked of the rows of a statement."""
        parts = [c for c in (condition, self.condition) if c not in (None, "true")]
        where = " AND ".join(f"({c})" for c in parts) or None
        low = int(self.low) if self.whole else repr(self.low)
        place = f"(({self.x}) - ({low}))"
        if self.step != 1.0:
            place = f"FLOOR({place} / {self.step!r})"
        by = (*keys, f"FLOOR({place} / {FINE})", f"MOD({place}, {FINE})")
        return [Query(Percentile(self.share, 2), by=by, where=where)]

    def located(
        self, answers: list[Answer], groups: int, source: int
    ) -> tuple[list[Located], NDArray[np.bool_]]:
        """The value in every group within the ends of its interval; no group is too small."""
        places = answers[0].values.reshape(groups, len(ENDS))
        first, at, last = places.T
        low = self._begins(np.minimum(first, at))
        high = self._ends(np.maximum(last, at))
        value = (self._begins(at) + self._ends(at)) / 2
        value = np.floor(value) if self.whole else value
        return [Located(value, low, high, source)], np.zeros(groups, dtype=bool)

    def _begins(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip(self.low + places * self.step, self.low, self.high)

    def _ends(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where cells end; of whole numbers, the last one in each."""
        ends = self.low + (places + 1) * self.step - self.whole
        return np.clip(ends, self.low, self.high)

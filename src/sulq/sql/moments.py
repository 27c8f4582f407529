"""Aggregates -> the sums a statement asks for, and each aggregate back from them.

COUNT and SUM alone are plain sums. What divides by a count (AVG, VAR, CORR, ...) asks for
sums about the middle of the declared range, beside one count of the rows where everything is
known: at the least price. Aggregates over the same rows share one count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions.node import NUMERIC
from sulq.expressions.parse import parse
from sulq.questions.grid import gridded
from sulq.questions.moment_blocks import middle, product
from sulq.sql.noisy import Noisy
from sulq.values.query import Terms
from sulq.values.schema import Schema

Read = Callable[["Released"], Noisy]


@dataclass
class Group:
    """Rows where `condition` holds and all of `known` are there; sums of `members` over them."""

    condition: str
    known: tuple[str, ...]
    size: str | None = None  # what counts these rows, if how many there are is public
    members: list[str] = field(default_factory=list)

    def add(self, member: str) -> None:
        """Sum one more expression over these rows."""
        if member not in self.members:
            self.members.append(member)


@dataclass(frozen=True)
class Released:
    """The answer to a statement's Terms, by name."""

    sums: dict[str, Noisy]
    counts: dict[int, Noisy]
    centred: dict[tuple[int, str], Noisy]


class Moments:
    """Collects what the aggregates of one statement need."""

    def __init__(
        self, schema: Schema, above_low: bool = False, public: bool = False, combined: bool = False
    ) -> None:
        self.schema = schema
        self.combined = combined  # products are weighted together with their means
        self.public = public  # it is no secret how many rows there are in each group
        self.sizes: list[str] = []  # public counts that something is divided by
        self.above_low = above_low  # sums come counted from low, where noise wants [0, 1]
        self.sums: list[str] = []
        self.groups: list[Group] = []
        self.counted = False
        self._late: list[Callable[[], None]] = []  # COUNT and SUM look for a group to share

    def terms(self) -> Terms:
        """The values of the statement's query."""
        for settle in self._late:
            settle()
        self._late.clear()
        groups = tuple((_all(g.condition, g.known), *g.members) for g in self.groups)
        known = tuple(i for i, g in enumerate(self.groups) if g.size is not None)
        return Terms(tuple(self.sums), groups, self.counted, known)

    @property
    def numbers(self) -> int:
        """How many numbers that asks for."""
        return len(self.sums) + sum((g.size is None) + len(g.members) for g in self.groups)

    def released(self, columns: list[Noisy]) -> Released:
        """Name the released numbers, in the order Terms lays them out."""
        numbers = iter(columns)
        sums = {text: next(numbers) for text in self.sums}
        counts, centred = {}, {}
        for i, group in enumerate(self.groups):
            counts[i] = next(numbers) if group.size is None else sums[group.size]
            for member in group.members:
                centred[i, member] = next(numbers)
                if self.above_low:
                    centred[i, member] = centred[i, member] - self.half(member) * counts[i]
        return Released(sums, counts, centred)

    # --- what aggregates ask for --------------------------------------------------------

    def count(self, condition: str, argument: str | None = None) -> Read:
        """COUNT(*), COUNT(x) or COUNT_IF(p), over the rows of a FILTER."""
        known = (argument,) if argument is not None and self._nullable(argument) else ()
        size = None if known else self._size(condition)
        if size is not None:
            self._sum(size)
            return lambda r: r.sums[size]
        slot: list[Any] = []
        self.counted = True

        def settle() -> None:
            group = self._find(condition, known)
            if group is not None:
                slot.append(group)
                return
            text = _counting(_all(condition, known))
            self._sum(text)
            slot.append(text)

        self._late.append(settle)
        return lambda r: r.counts[slot[0]] if isinstance(slot[0], int) else r.sums[slot[0]]

    def sum(self, condition: str, x: str) -> Read:
        """SUM(x); from a centred sum if the statement has one of the same x."""
        self._number(x)
        known = (x,) if self._nullable(x) else ()
        slot: list[Any] = []

        def settle() -> None:
            number = self._find(condition, known)
            if number is not None and x in self.groups[number].members:
                slot.append(number)
                return
            text = _summing(condition, x)
            self._sum(text)
            slot.append(text)

        self._late.append(settle)
        middle = self.middle(x)

        def read(r: Released) -> Noisy:
            if isinstance(slot[0], int):
                return r.centred[slot[0], x] + middle * r.counts[slot[0]]
            return r.sums[slot[0]]

        return read

    def mean_parts(
        self, condition: str, *xs: str, products: bool = False
    ) -> tuple[Read, Callable[[str], Read]]:
        """The count of rows where all xs are known, and the mean about mid-range of a member."""
        for x in xs:
            self._number(x)
        size = None if any(map(self._nullable, xs)) else self._size(condition)
        if size is not None:
            self._sum(size)
            if size not in self.sizes:
                self.sizes.append(size)
            if not (products and self.combined):
                return self._public_parts(condition, size)
        number = self._group(condition, tuple(x for x in xs if self._nullable(x)), size)
        group = self.groups[number]

        def mean_of(member: str) -> Read:
            group.add(member)
            return lambda r: r.centred[number, member] / r.counts[number]

        return (lambda r: r.counts[number]), mean_of

    def _public_parts(self, condition: str, size: str) -> tuple[Read, Callable[[str], Read]]:
        """The same where the count is public: plain sums over it, or those of a group."""

        def mean_of(member: str) -> Read:
            total, middle = _summing(condition, member), self.middle(member)
            slot: list[int] = []

            def settle() -> None:
                number = self._find(condition, ())
                if number is not None and member in self.groups[number].members:
                    slot.append(number)
                else:
                    self._sum(total)

            self._late.append(settle)

            def read(r: Released) -> Noisy:
                if slot:
                    return r.centred[slot[0], member] / r.sums[size]
                return r.sums[total] / r.sums[size] - middle

            return read

        return (lambda r: r.sums[size]), mean_of

    def is_counted(self, condition: str) -> bool:
        """Is it public how many rows of a FILTER there are?"""
        return self._size(condition) is not None

    def _size(self, condition: str) -> str | None:
        """What counts the rows of a FILTER, if how many there are is public."""
        names = parse(condition, self.schema).columns()
        if not self.public or not all(self.schema[n].public for n in names):
            return None
        return _counting(_all(condition, ()))

    def middle(self, x: str) -> float:
        """The middle of an expression's range, on its grid."""
        return middle(x, self.schema)

    def half(self, x: str) -> float:
        """From the low end of an expression's range to its middle."""
        value = gridded(parse(x, self.schema))
        return float((value.high - value.low) / 2 * 2.0**-value.scale)

    def product(self, x: str, y: str) -> str:
        """The product of two deviations from mid-range, as an expression."""
        return product(x, y, self.schema)

    # --- helpers ------------------------------------------------------------------------

    def _number(self, x: str) -> None:
        node = parse(x, self.schema)
        if node.type not in NUMERIC:
            raise QueryNotAllowed(
                f"{x!r} is {node.type}; only numbers can be summed. COUNT({x}) counts where it is "
                "known, COUNT_IF(...) where a comparison holds."
            )
        if not node.bounded:
            raise QueryNotAllowed(
                f"the range of {x!r} is not known, so its sum has no price. Declare low and high "
                "in the schema, or clamp it: least(greatest(x, low), high)."
            )

    def _nullable(self, x: str) -> bool:
        return parse(x, self.schema).nullable

    def _sum(self, text: str) -> None:
        if text not in self.sums:
            self.sums.append(text)

    def _find(self, condition: str, known: tuple[str, ...]) -> int | None:
        for i, group in enumerate(self.groups):
            if group.condition == condition and set(group.known) == set(known):
                return i
        return None

    def _group(self, condition: str, known: tuple[str, ...], size: str | None) -> int:
        found = self._find(condition, known)
        if found is not None:
            return found
        self.groups.append(Group(condition, tuple(sorted(set(known))), size))
        return len(self.groups) - 1


def _all(condition: str, known: tuple[str, ...]) -> str:
    """A predicate that is true or false, never missing."""
    parts = [] if condition == "true" else [f"COALESCE({condition}, false)"]
    parts += [f"({x}) IS NOT NULL" for x in known]
    return " AND ".join(parts) or "true"


def _counting(test: str) -> str:
    """What counts the rows where a test holds."""
    return "1" if test == "true" else f"CASE WHEN {test} THEN 1 ELSE 0 END"


def _summing(condition: str, x: str) -> str:
    """What sums x over the rows of a FILTER."""
    return x if condition == "true" else f"CASE WHEN {condition} THEN {x} END"


# --- aggregates from moments --------------------------------------------------------------


def average(m: Moments, condition: str, x: str) -> Read:
    """AVG(x) = mid + mean(x - mid)."""
    _, mean_of = m.mean_parts(condition, x)
    mean, middle = mean_of(x), m.middle(x)
    node = parse(x, m.schema)
    # A mean lies within the declared range, whatever the noise says of a small group.
    return lambda r: (mean(r) + middle).within(float(node.low), float(node.high))


def variance(m: Moments, condition: str, x: str, *, sample: bool) -> Read:
    """VAR(x) = mean(y^2) - mean(y)^2 with y = x - mid."""
    return covariance(m, condition, x, x, sample=sample)


def covariance(m: Moments, condition: str, x: str, y: str, *, sample: bool) -> Read:
    """COVAR(x, y) over the rows where both are known."""
    xs = (x,) if x == y else (x, y)
    count, mean_of = m.mean_parts(condition, *xs, products=True)
    both = m.product(x, y)
    mean_x, mean_y, mean_xy = mean_of(x), mean_of(y), mean_of(both)
    middle = m.middle(both)

    def read(r: Released) -> Noisy:
        found = mean_xy(r) + middle - mean_x(r) * mean_y(r)
        if not sample:
            return found
        n = count(r)
        return (found * (n / (n - 1.0))).where(n.value > 1)

    return read


def root(read: Read) -> Read:
    """The square root; a variance the noise made negative counts as 0."""

    def slope(v: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.where(v > 0, 0.5 / np.sqrt(np.where(v > 0, v, 1.0)), np.inf)

    return lambda r: read(r).through(lambda v: np.sqrt(np.maximum(v, 0.0)), slope)


def correlation(m: Moments, condition: str, x: str, y: str) -> Read:
    """CORR(x, y) over the rows where both are known."""
    cov = covariance(m, condition, x, y, sample=False)
    var_x, var_y = (variance_within(m, condition, t, (x, y)) for t in (x, y))
    spread = root(lambda r: var_x(r) * var_y(r))

    def read(r: Released) -> Noisy:
        x, y = var_x(r).value, var_y(r).value
        return (cov(r) / spread(r)).within(-1.0, 1.0).where((x > 0) & (y > 0))

    return read


def variance_within(m: Moments, condition: str, x: str, among: tuple[str, str]) -> Read:
    """VAR_POP(x) over the rows where all of `among` are known, sharing their count."""
    _, mean_of = m.mean_parts(condition, *among, products=True)
    square = m.product(x, x)
    mean, mean_square, middle = mean_of(x), mean_of(square), m.middle(square)
    return lambda r: mean_square(r) + middle - mean(r) * mean(r)


def regression(m: Moments, condition: str, y: str, x: str) -> tuple[Read, Read]:
    """REGR_SLOPE(y, x) as what is divided and by what: COVAR_POP(x, y) and VAR_POP(x), over the
    rows where both are known.
    """
    over = covariance(m, condition, x, y, sample=False)
    return over, variance_within(m, condition, x, (x, y))


def intercept(m: Moments, condition: str, y: str, x: str) -> tuple[Read, Read]:
    """REGR_INTERCEPT(y, x) = AVG(y) - slope * AVG(x), the same way."""
    over, by = regression(m, condition, y, x)
    _, mean_of = m.mean_parts(condition, x, y, products=True)
    means = [(mean_of(t), m.middle(t)) for t in (y, x)]

    def read(r: Released) -> Noisy:
        mean_y, mean_x = (mean(r) + middle for mean, middle in means)
        return mean_y * by(r) - mean_x * over(r)

    return read, by

"""How a property in one database goes with a property in another (CRYPTO 04, section 5).

P[b|a] = P[b] + Delta, with Delta = cov(a, b) / P[a]. Two probabilities and a covariance give
the 2x2 table, so every Boolean function of a and b, with an interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import sulq
from sulq.expressions.parse import shorten
from sulq.vertical.blocks import HALF_WIDTH, BlockSums, freedom_of
from sulq.vertical.common_people import People, SharedPeople
from sulq.vertical.estimate import Array, Estimate, quotient, reach, smooth
from sulq.vertical.truth import truth_table

P_A, P_B, C = 0, 1, 2  # of a point: P[a], P[b] and cov(a, b)


@dataclass(frozen=True)
class Implication:
    """What a says about b: P[b|a] = P[b] + delta, each an `Estimate`, and the prices paid."""

    delta: Estimate
    p_a: Estimate
    p_b: Estimate
    p_b_given_a: Estimate
    price: tuple[sulq.Price, ...]  # of the side that knows a, of the side that knows b
    people: float
    note: str = ""

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of delta."""
        return self.delta.interval(level)

    def to_json(self) -> dict[str, Any]:
        """Plain values, with 95% intervals."""
        numbers = ("delta", "p_a", "p_b", "p_b_given_a")
        body: dict[str, Any] = {name: getattr(self, name).to_json() for name in numbers}
        body |= {"price_micro": [p.micro for p in self.price], "people": self.people}
        return body | ({"note": self.note} if self.note else {})

    def __str__(self) -> str:
        lines = [
            f"delta    {self.delta}", f"P[a]     {self.p_a}", f"P[b]     {self.p_b}",
            f"P[b|a]   {self.p_b_given_a}", receipt(self.price, self.note),
        ]  # fmt: skip
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True)
class Joint:
    """The 2x2 table of a property here and a property there.

    `point` is P[a], P[b] and cov(a, b), `errors` their covariance matrix.
    """

    point: Array
    errors: Array
    freedom: float  # degrees of freedom behind the errors
    price: tuple[sulq.Price, ...]
    people: float
    note: str = ""

    @property
    def p_a(self) -> Estimate:
        """P[a]."""
        return self.probability("a")

    @property
    def p_b(self) -> Estimate:
        """P[b]."""
        return self.probability("b")

    @property
    def delta(self) -> Estimate:
        """P[b|a] - P[b]."""
        return self._ratio(lambda x: float(x[C]), lambda x: float(x[P_A]), (-1.0, 1.0))

    @property
    def p_b_given_a(self) -> Estimate:
        """P[b|a]."""
        return self.conditional("b", given="a")

    @property
    def correlation(self) -> Estimate:
        """cov(a, b) over both standard deviations.

        Its ends are as far as it goes with each of the three, one at a time, squared and added.
        """
        at, stds = self.feasible, np.sqrt(self._errors.diagonal())
        value = self._correlation(at)

        def ends(level: float) -> tuple[float, float]:
            steps = np.diag(reach(level, self.freedom) * stds)
            moved = np.array([self._correlation(at + way * s) for s in steps for way in (-1, 1)])
            low, high = (np.maximum(way * (moved - value), 0.0).reshape(3, 2) for way in (-1, 1))
            return (
                max(value - math.hypot(*low.max(axis=1)), -1.0),
                min(value + math.hypot(*high.max(axis=1)), 1.0),
            )

        return self._unless_rare(Estimate(min(max(value, -1.0), 1.0), ends), (-1.0, 1.0))

    @property
    def odds_ratio(self) -> Estimate:
        """P[ab] P[neither] / (P[a only] P[b only]); it grows with the covariance."""
        p_a, p_b, cov = (float(x) for x in self.feasible)
        own = self.errors.diagonal()
        std = math.sqrt(float(own[C] + own[:C].max()))

        def ends(level: float) -> tuple[float, float]:
            width = reach(level, self.freedom) * std
            return at(cov - width), at(cov + width)

        def at(c: float) -> float:
            return odds(feasible(p_a, p_b, c))

        return self._unless_rare(Estimate(at(cov), ends), (0.0, math.inf))

    def probability(self, function: str) -> Estimate:
        """P[f(a, b)] for any Boolean function, such as "a and not b"."""
        weights = weights_of(function)
        return self._of(lambda x: float(cells(x) @ weights), (0.0, 1.0))

    def conditional(self, function: str, *, given: str) -> Estimate:
        """P[f | g] for Boolean functions of a and b."""
        both, condition = weights_given(function, given)
        return self._ratio(
            lambda x: float(cells(x) @ both), lambda x: float(cells(x) @ condition), (0.0, 1.0)
        )

    def implication(self) -> Implication:
        """The same, seen as a saying something about b."""
        return Implication(
            self.delta, self.p_a, self.p_b, self.p_b_given_a, self.price, self.people, self.note
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of delta."""
        return self.delta.interval(level)

    def to_json(self) -> dict[str, Any]:
        """Plain values, with 95% intervals."""
        functions = ("a and b", "a and not b", "not a and b", "not a and not b")
        body: dict[str, Any] = {f: self.probability(f).to_json() for f in functions}
        body |= {"delta": self.delta.to_json(), "odds_ratio": self.odds_ratio.to_json()}
        return body | {"price_micro": [p.micro for p in self.price], "people": self.people}

    def __str__(self) -> str:
        functions = ("a and b", "a and not b", "not a and b", "not a and not b")
        lines = [f"P[{f}]".ljust(20) + str(self.probability(f)) for f in functions]
        lines += [f"{'odds ratio':20}{self.odds_ratio}", receipt(self.price, self.note)]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def feasible(self) -> Array:
        """The point, moved to where no cell of the table is below zero."""
        return feasible(*(float(x) for x in self.point))

    @property
    def _errors(self) -> Array:
        """The errors of the moved point: it was moved to P[a] or P[b], which have their own."""
        if abs(self.feasible[C] - self.point[C]) < 1e-15:
            return self.errors
        own = self.errors.diagonal()
        return self.errors + np.diag([0.0, 0.0, max(own.max() - own[C], 0.0)])

    def _of(self, f: Any, bounds: tuple[float, float]) -> Estimate:
        return smooth(f, self.feasible, self._errors, bounds, self.freedom)

    def _ratio(self, over: Any, under: Any, bounds: tuple[float, float]) -> Estimate:
        return quotient(over, under, self.feasible, self._errors, bounds, self.freedom)

    def _unless_rare(self, found: Estimate, bounds: tuple[float, float]) -> Estimate:
        """What is divided by a spread may be anything where the spread may as well be 0."""
        least = smooth(rarest, self.feasible, self._errors, freedom=self.freedom)

        def ends(level: float) -> tuple[float, float]:
            return found.interval(level) if least.interval(level)[0] > 0 else bounds

        return Estimate(float(found), ends)

    def _correlation(self, x: Array) -> float:
        least = max(float(self.errors.diagonal()[:C].max()), 1e-12)
        spread = np.maximum(x[:C] * (1 - x[:C]), least)
        return float(x[C] / math.sqrt(spread.prod()))


def feasible(p_a: float, p_b: float, cov: float) -> Array:
    """The nearest point at which all four cells are probabilities."""
    p_a, p_b = min(max(p_a, 0.0), 1.0), min(max(p_b, 0.0), 1.0)
    low, high = max(0.0, p_a + p_b - 1), min(p_a, p_b)
    return np.array([p_a, p_b, min(max(p_a * p_b + cov, low), high) - p_a * p_b])


def cells(x: Array) -> Array:
    """P of neither, b only, a only, both."""
    both = x[P_A] * x[P_B] + x[C]
    return np.array([1 - x[P_A] - x[P_B] + both, x[P_B] - both, x[P_A] - both, both])


def rarest(x: Array) -> float:
    """The least of P[a], P[not a], P[b] and P[not b]."""
    return float(min(x[P_A], 1 - x[P_A], x[P_B], 1 - x[P_B]))


def odds(x: Array) -> float:
    """The odds ratio, from 0 to infinity; 1 where nobody or everybody has a property."""
    neither, b_only, a_only, both = np.maximum(cells(x), 0.0)
    over, under = both * neither, a_only * b_only
    if over <= 0 and under <= 0:
        return 1.0
    return float(over / under) if under > 0 else math.inf


def weights_of(function: str, names: tuple[str, ...] = ("a", "b")) -> Array:
    """A Boolean function of these as the sum of some of their cells."""
    used, table = truth_table(function, names)
    shape = tuple(2 if name in used else 1 for name in names)
    return np.broadcast_to(table.reshape(shape), (2,) * len(names)).astype(np.float64).ravel()


def weights_given(
    function: str, given: str, names: tuple[str, ...] = ("a", "b")
) -> tuple[Array, Array]:
    """The same of a function where another is true, and of the other."""
    both = weights_of(f"({function}) and ({given})", names)
    condition = weights_of(given, names)
    if not condition.any():
        raise sulq.QueryNotAllowed(f"given={shorten(given)!r} is never true.")
    return both, condition


def receipt(price: Sequence[sulq.Price], note: str = "") -> str:
    """What was paid, in words."""
    said = ", ".join(f"{p}" for p in price)
    return f"price {said}, one for each database" + (f" ({note})" if note else "")


# --- from block sums ----------------------------------------------------------------------


def joint_of(
    a: BlockSums, b: BlockSums, shared: SharedPeople, price: tuple[sulq.Price, ...]
) -> Joint:
    """Two probabilities and a covariance, on everybody or on those in both databases."""
    blocks = len(a.sums)
    x, y = a.centred[:, 0], b.centred[:, 0]
    means = np.array([a.mean[0], b.mean[0]])
    noise = np.diag([a.mean_variance[0], b.mean_variance[0], 0.0])
    m = shared.count
    tilts = [tilted(b.people, a.people, m), tilted(a.people, b.people, m)]
    products = np.column_stack([x * tilts[0], y * tilts[1], x * y])
    scale = blocks / (blocks - 1) / m
    off_a, off_b, both = products.sum(axis=0) * scale
    spread = np.cov(products, rowvar=False) * blocks * scale**2
    change = np.array([[1, 0, 0], [0, 1, 0], [-off_b, -off_a, 1]])
    point = np.array([means[0] + off_a, means[1] + off_b, both - off_a * off_b])
    errors = change @ spread @ change.T + noise
    by_count = np.array([off_a, off_b, point[C]]) * shared.std / m
    errors = errors + np.outer(by_count, by_count)
    return Joint(point, errors, freedom_of(blocks), price, m, note_of(shared))


def tilted(other: People, own: People, m: float) -> Array:
    """By how much each block has more of the other database's people than its own tell.

    A sum over those in both is the sum over blocks of (own centred sum) x (this), on average.
    The own people taken off add nothing on average and much of the variance; where both
    databases have the same people nothing is left, and no error with it.
    """
    return np.asarray(other.uneven - m / max(own.count, 1.0) * own.uneven)


def note_of(shared: SharedPeople) -> str:
    """What the estimate is about, where that is not everybody."""
    if shared.whole:
        return ""
    reach = HALF_WIDTH * shared.std
    return f"on about {shared.count:,.0f} +/- {reach:,.0f} people who are in both"

"""The paper's own procedure: a Test on heavy random subsets, and binary search (section 5.1).

    Test(Delta_1): find a random subset q of the people, N of them, in which property a is
    heavy, a_q >= N p_a + sigma_a with sigma_a^2 = N p_a (1 - p_a). Let bias = a_q - N p_a.
    Say 1 if b_q >= N p_b + bias * Delta_1 / (1 - p_a), else 0.

If Delta = Delta_1 the Test says 1 half of the time, if Delta is larger more often, if smaller
less often (Theorem 2); so binary search on Delta_1 finds Delta (Theorem 3). The same subsets
serve for every Delta_1. How many of the Tests say 1 is then a sign test, whose interval assumes
nothing about noise but that it is even.

Three things the paper leaves out matter in practice. A subset of the table itself varies less
than one drawn from outside, by the factor 1 - N/n: heavy halves are 8 in 100, not 16. a_q is
noisy: a subset looks heavier than it is, so the bias is taken times s^2 / (s^2 + V), s^2 being
the variance of a_q and V that of its noise. And p_a and p_b are noisy, in all Tests alike: the
interval is that of all P[b] they may be off by. How many subsets an accuracy needs is planned with
all of this; one that no number reaches is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import sulq
from sulq.learn.parameters import checked_share, checked_whole
from sulq.learn.task import all_within, within
from sulq.stepwise import in_steps
from sulq.vertical.blocks import noise_variance
from sulq.vertical.common_people import check_keys, people_of, shared_by_all
from sulq.vertical.estimate import Array, Estimate, plain
from sulq.vertical.joint import Implication
from sulq.vertical.plan import (
    Part,
    affordable,
    as_fraction,
    checked_expected,
    checked_sides,
    same_answers,
    spread,
)

RATE = Fraction(1, 2)  # of the people, in each subset
TOTALS = Fraction(1, 11)  # of a budget, for P[a] and P[b]
FINEST = 1e-9  # where binary search stops
MAX_SUBSETS = 2_000  # subsets
PEOPLE_BLOCKS = 1_000  # by which keys are compared

NORMAL = NormalDist()


# --- the paper, on sums alone -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heavy:
    """Heavy subsets: their sizes, the bias of a in each, and the count of b."""

    sizes: Array
    bias: Array
    b_counts: Array
    p_a: float
    p_b: float
    p_a_std: float = 0.0  # of the noise in p_a and p_b, which every Test shares
    p_b_std: float = 0.0

    def votes(self, delta_1: float, shift: float = 0.0) -> int:
        """How many Tests say that Delta is at least Delta_1, if P[b] is larger by `shift`."""
        wanted = self.sizes * (self.p_b + shift) + self.bias * delta_1 / (1 - self.p_a)
        return int((self.b_counts >= wanted).sum())

    def crossing(self, votes: int, shift: float = 0.0) -> float:
        """By binary search, the largest Delta_1 for which so many Tests say 1."""
        low, high = possible(self.p_a, self.p_b)
        while high - low > FINEST:
            middle = (low + high) / 2
            low, high = (middle, high) if self.votes(middle, shift) >= votes else (low, middle)
        return (low + high) / 2

    @property
    def common(self) -> float:
        """The standard deviation of what is wrong in all Tests alike, as a part of P[b]."""
        steepest = max(map(abs, possible(self.p_a, self.p_b))) / (1 - self.p_a)
        return math.hypot(self.p_b_std, self.p_a_std * steepest)

    @property
    def delta(self) -> Estimate:
        """Where half of the Tests say 1, with the interval of the sign test."""
        count = len(self.sizes)
        bounds = possible(self.p_a, self.p_b)
        if count == 0:
            return Estimate(min(max(0.0, bounds[0]), bounds[1]), lambda level: bounds)
        middle = (self.crossing((count + 1) // 2) + self.crossing(count // 2 + 1)) / 2

        def ends(level: float) -> tuple[float, float]:
            # Half of what may go wrong is for the Tests, half for what they have in common.
            wrong = (1 - level) / 2 if self.common else 1 - level
            shift = self.common * NORMAL.inv_cdf(1 - wrong / 2)
            # The r-th from either end of `count` is beyond the median with P[Bin(count, 1/2) < r].
            r = int(binom.ppf(wrong / 2, count, 0.5))
            if r < 1 or 2 * binom.cdf(r - 1, count, 0.5) > wrong:
                return bounds
            low, high = self.crossing(count - r + 1, shift), self.crossing(r, -shift)
            return (low, high) if high - low > 2 * FINEST else bounds  # beyond all that can be

        return Estimate(middle, ends)


def heavy_subsets(
    a_counts: Array, sizes: Array, p_a: float, rows: int, noise: float = 0.0
) -> tuple[NDArray[np.intp], Array]:
    """Which subsets are heavy in a (their numbers), and the bias of each, noise taken out."""
    spread2 = sizes * p_a * (1 - p_a)
    beyond = a_counts - sizes * p_a
    heavy = np.flatnonzero(beyond >= np.sqrt(spread2))
    varies = spread2[heavy] * (1 - sizes[heavy] / rows)
    return heavy, beyond[heavy] * varies / np.maximum(varies + noise, 1e-300)


def possible(p_a: float, p_b: float) -> tuple[float, float]:
    """The least and the largest Delta that P[a] and P[b] allow."""
    both = max(0.0, p_a + p_b - 1), min(p_a, p_b)
    return both[0] / p_a - p_b, both[1] / p_a - p_b


@dataclass(frozen=True, slots=True)
class SubsetNoise:
    """The noise of a plan: variances of the counts of one subset, deviations of P[a] and P[b]."""

    a: float = 0.0
    b: float = 0.0
    p_a_std: float = 0.0  # every Test shares these two
    p_b_std: float = 0.0


@dataclass(frozen=True, slots=True)
class SubsetPower:
    """How well Tests on heavy subsets of `size` people tell one Delta from another.

    Theorem 2 with the noise in it. A heavy subset has a bias of at least sigma_a, of which
    s^2 / (s^2 + V_a) is no noise. The rest of b_q has the variance of the paper, which is
    (1 - rate) N p_b (1 - p_b), and V_b more. What is wrong with P[b] is wrong in every Test.
    """

    p_a: float
    p_b: float
    size: float = 1.0
    noise: SubsetNoise = SubsetNoise()
    rate: float = float(RATE)

    @property
    def _spread2(self) -> float:
        return self.size * self.p_a * (1 - self.p_a)

    @property
    def _varies(self) -> float:
        return (1 - self.rate) * self._spread2

    @property
    def _slope(self) -> float:
        """What a wrong Delta moves b_q by, in a subset that is just heavy."""
        known = self._varies / (self._varies + self.noise.a)
        return math.sqrt(self._spread2) * known / (1 - self.p_a)

    @property
    def _std(self) -> float:
        return math.sqrt((1 - self.rate) * self.size * self.p_b * (1 - self.p_b) + self.noise.b)

    @property
    def share(self) -> float:
        """The number of random subsets that look heavy."""
        return NORMAL.cdf(-math.sqrt(self._spread2 / (self._varies + self.noise.a)))

    @property
    def _common(self) -> float:
        steepest = max(map(abs, possible(self.p_a, self.p_b))) / (1 - self.p_a)
        return math.hypot(self.noise.p_b_std, self.noise.p_a_std * steepest)

    def advantage(self, epsilon: float) -> float:
        """Gamma: how far from 1/2 the Test is when Delta is epsilon away from Delta_1."""
        return NORMAL.cdf(epsilon * self._slope / self._std) - 0.5

    def accuracy(self, tests: float, failure: float) -> float:
        """Within how much of Delta the search ends after so many Tests, but for `failure`.

        Both neighbours of Delta, this far away, must be told from it: by Hoeffding's bound
        2 exp(-2 t gamma^2). Half of `failure` is for what all Tests have in common, if they do.
        """
        common = self._common
        wrong = failure / 2 if common else failure
        shift = common * NORMAL.inv_cdf(1 - wrong / 2) if common else 0.0
        gamma = math.sqrt(math.log(2 / wrong) / (2 * tests)) if tests >= 1 else 1.0
        if gamma >= 0.5:
            return math.inf
        return (NORMAL.inv_cdf(0.5 + gamma) * self._std + self.size * shift) / self._slope


def advantage(p_a: float, p_b: float, epsilon: float, rate: float = float(RATE)) -> float:
    """Gamma of Theorem 2, without noise."""
    return SubsetPower(p_a, p_b, rate=rate).advantage(epsilon)


def heavy_share() -> float:
    """How many random subsets are heavy."""
    return SubsetPower(0.5, 0.5).share


def enough_tests(p_a: float, p_b: float, epsilon: float, failure: float) -> int:
    """Tests after which binary search ends within epsilon but with probability `failure`.

    Without noise: by Hoeffding's bound 2 exp(-2 t gamma^2) <= failure.
    """
    return math.ceil(math.log(2 / failure) / (2 * advantage(p_a, p_b, epsilon) ** 2))


# --- on two databases -------------------------------------------------------------------


@dataclass(frozen=True)
class SubsetPlan:
    """Questions about everybody and about random subsets; b is asked about the heavy ones."""

    a: Part
    b: Part  # as if every subset were heavy
    rows: tuple[sulq.Rows, ...]
    blocks: int = 0

    @property
    def prices(self) -> tuple[sulq.Price, ...]:
        """The most each database will charge."""
        return self.a.price, self.b.price

    def run(self) -> Implication:
        """Ask about a, then ask about b where a is heavy."""
        with in_steps(self.a.db, self.b.db):
            return self._run()

    def _run(self) -> Implication:
        most = self.prices[1]
        if not affordable(self.b.db, most) and affordable(self.a.db, self.a.price):
            remaining = int(self.b.db.budget.of_all * 1_000_000)
            raise sulq.BudgetExceeded(most.micro, remaining, self.b.db.name)
        total, *counted = self.a.ask()
        n = self.a.db.rows
        sizes = np.array([found[0] for found in self.a.db.sizes(*self.rows)], dtype=np.float64)
        p_a, a_noise = self._share(total, n), counted[0].std ** 2
        counts = np.array([float(answer) for answer in counted])
        heavy, bias = heavy_subsets(counts, sizes, p_a, n, a_noise)
        everyone, *queries = self.b.queries
        asked = Part(self.b.db, (everyone, *(queries[i] for i in heavy.tolist())))
        b_total, *b_counted = asked.ask()
        b_counts = np.array([float(answer) for answer in b_counted])
        if float(b_total) == float(total) and np.array_equal(b_counts, counts[heavy]):
            raise same_answers()
        p_b, stds = self._share(b_total, n), (total.std / n, b_total.std / n)
        found = Heavy(sizes[heavy], bias, b_counts, p_a, p_b, *stds)
        note = f"{len(heavy)} of {len(self.rows)} subsets are heavy"
        return _implication(found, total, b_total, n, (self.a.price, asked.price), note)

    @staticmethod
    def _share(total: sulq.Answer, n: int) -> float:
        """A probability with room on both sides, to divide by."""
        least = max(total.std / n, 1e-9)
        return min(max(float(total) / n, least), 1 - least)

    def __str__(self) -> str:
        a, b = self.prices
        return f"at most {a} and {b}; {len(self.rows):,} random subsets"

    __repr__ = __str__


def _implication(
    found: Heavy, total: sulq.Answer, b_total: sulq.Answer, n: int,
    price: tuple[sulq.Price, ...], note: str,
) -> Implication:  # fmt: skip
    delta = found.delta
    p_a, p_b = (plain(float(t) / n, t.std / n, (0.0, 1.0)) for t in (total, b_total))

    def ends(level: float) -> tuple[float, float]:
        (low, high), (below, above) = delta.interval(level), p_b.interval(level)
        down, up = math.hypot(delta - low, p_b - below), math.hypot(high - delta, above - p_b)
        return max(p_b + delta - down, 0.0), min(p_b + delta + up, 1.0)

    given = Estimate(min(max(p_b + delta, 0.0), 1.0), ends)
    return Implication(delta, p_a, p_b, given, price, float(n), note)


def planned_test(
    a_db: sulq.Queryable, a: str, b_db: sulq.Queryable, b: str, *, budget: Any = None,
    subsets: int | None = None, accuracy: float | None = None, confidence: float = 0.95,
    seed: int = 0, expected: Any = 0.5,
) -> SubsetPlan:  # fmt: skip
    """So many random halves; or the fewest that reach an accuracy, with the noise counted in.

    Without `budget` each question has its usual price, but that of the two totals grows with
    the number of subsets, because their errors are in every Test.
    """
    sides, dbs = checked_sides([(a_db, a), (b_db, b)]), [a_db, b_db]
    check_keys(dbs, seed)
    shared_by_all(dbs, people_of(dbs, seed, PEOPLE_BLOCKS), seed)
    p_a, p_b = checked_expected(expected, 2)
    if accuracy is not None:
        wanted = checked_share("accuracy", accuracy), 1 - checked_share("confidence", confidence)
        count = _enough(*wanted, [SubsetSide(*side, each) for side, each in zip(
            sides, spread(budget, 2), strict=True)], p_a, p_b)  # fmt: skip
    else:
        count = checked_whole("subsets", 100 if subsets is None else subsets, 1, MAX_SUBSETS)
    rows = tuple(sulq.Rows.sample(seed + i, RATE) for i in range(count))
    first, second = (
        Part(db, tuple(_questions(db, text, rows, each)))
        for (db, text), each in zip(sides, spread(budget, 2), strict=True)
    )
    return SubsetPlan(first, second, rows)


def _questions(
    db: sulq.Queryable, text: str, rows: tuple[sulq.Rows, ...], budget: Any
) -> list[sulq.Query]:
    """Everybody with the property, then how many of each subset."""
    total = sulq.Query(("1",), where=text)
    each = [replace(total, rows=r) for r in rows]
    if budget is None:
        more = max(1.0, len(rows) / 10)
        finer = more > 1 and db.promise.noise in ("gaussian", "laplace")  # the others have one
        return [within(db, total, more) if finer else total, *each]
    whole = as_fraction(budget)
    first = within(db, total, whole * TOTALS)
    return [first, *all_within(db, each, whole - db.price(first).queries)]


@dataclass(frozen=True, slots=True)
class SubsetSide:
    """One database's part of a plan whose number of subsets is still to be found."""

    db: sulq.Queryable
    text: str
    budget: Any  # queries for all of it; None: each question has its usual price

    def power(self) -> tuple[float, float]:
        """The price in queries of one count, and the variance of its noise at that price."""
        price = self.db.price(sulq.Query(("1",), where=self.text, rows=sulq.Rows.sample(0, RATE)))
        noisy = bool(price.half_widths) and price.half_widths[0] > 0
        return float(price), noise_variance(price) if noisy else 0.0

    def noise_of(self, price: float, variance: float, count: int) -> tuple[float, float]:
        """The variances of one subset's count and of the total, if there are so many subsets."""
        more = max(1.0, count / 10)
        if self.budget is None:
            falls = self.db.promise.noise in ("gaussian", "laplace")
            return variance, self._at(variance, more) if falls else variance
        whole = float(as_fraction(self.budget)) / price
        share = float(TOTALS)
        return self._at(variance, whole * (1 - share) / count), self._at(variance, whole * share)

    def _at(self, variance: float, times: float) -> float:
        """The variance at so many times the price."""
        return variance / times ** (2 if self.db.promise.noise == "laplace" else 1)

    def most(self, price: float) -> int:
        """The most subsets that what is left can pay."""
        if self.budget is not None or not price:
            return MAX_SUBSETS
        left = float(self.db.budget.of_all) / price
        return max(int(min(MAX_SUBSETS, left - 1, left / 1.1)), 0)


def _enough(
    accuracy: float, failure: float, sides: list[SubsetSide], p_a: float, p_b: float
) -> int:
    """The fewest subsets that reach an accuracy, the noise of both sides counted in, or a refusal.

    More subsets mean more Tests, and with a budget more noise in each: from some number on they
    tell less.
    """
    n = sides[0].db.rows
    powers = [side.power() for side in sides]
    most = min(side.most(price) for side, (price, _) in zip(sides, powers, strict=True))

    def reached(count: int) -> float:
        (a, a_total), (b, b_total) = (
            side.noise_of(*power, count) for side, power in zip(sides, powers, strict=True)
        )
        noise = SubsetNoise(a, b, math.sqrt(a_total) / n, math.sqrt(b_total) / n)
        power = SubsetPower(p_a, p_b, float(RATE) * n, noise)
        return power.accuracy(math.floor(count * power.share + 1e-9), failure)

    best = (math.inf, 0)
    for count in range(1, most + 1):
        found = reached(count)
        if found <= accuracy:
            return count
        best = min(best, (found, count))
    raise _unreachable(accuracy, *best, most)


def _unreachable(accuracy: float, best: float, count: int, most: int) -> sulq.Refused:
    reach = "none of them tells anything here" if best >= 1 else (
        f"the best is {plain_digits(best)}, by {count:,} of them"
    )  # fmt: skip
    return sulq.Refused(
        f"accuracy={accuracy}: no number of random halves reaches it with this noise and what is "
        f"left (at most {most:,}); {reach}. Nothing was charged.\nSpend more, ask about more "
        "people, or use method='blocks', which needs one question a side."
    )


def plain_digits(accuracy: float) -> str:
    """Three digits, rounded up, so that asking for so much is not refused again."""
    scale = 10 ** (2 - math.floor(math.log10(accuracy)))
    return f"{math.ceil(accuracy * scale) / scale:.6g}"

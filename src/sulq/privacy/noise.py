"""Noise: the only module with randomness.

Each law is a frozen value with exact parameters and gives integers: steps of the grid that
the sums live on. The discrete Gaussian and the discrete Laplace are OpenDP's; the coins are
bits of the operating system; the stitched law is ours, and is exact too. There is no seed.
Proofs: docs/proofs/gaussian.md, laplace.md, binomial.md, stitched.md
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Protocol

LARGEST_STD = 2**55  # steps; beyond 256 of these an answer would not fit OpenDP's 64 bits
LARGEST_COINS = 2**32
FINE = 30.0  # a standard deviation of this many steps makes continuous formulas good enough


class Source(Protocol):
    """Where random bits come from. The seeded one lives in tests/."""

    def bits(self, count: int) -> int:
        """Return `count` independent fair bits as an integer in [0, 2**count)."""
        ...


class SystemSource:
    """The operating system's generator."""

    def bits(self, count: int) -> int:
        """Return `count` independent fair bits as an integer in [0, 2**count)."""
        spare = -count % 8
        return int.from_bytes(os.urandom((count + spare) // 8), "big") >> spare


class Law:
    """A distribution over the integers, symmetric about 0."""

    __slots__ = ()

    @property
    def std(self) -> float:
        """The standard deviation, in steps."""
        raise NotImplementedError

    def pmf(self, k: int) -> float:
        """Return the probability of k."""
        raise NotImplementedError

    def draw(self, count: int) -> list[int]:
        """Return `count` independent draws."""
        raise NotImplementedError

    def half_width(self, level: float) -> float:
        """Return h such that |noise| <= h with probability `level`; a whole one, by adding."""
        if not 0 < level < 1:
            raise ValueError(f"level={level!r}: between 0 and 1")
        if self.std >= FINE:
            return self._continuous_half_width(level)
        inside, h = self.pmf(0), 0
        while inside < level - 1e-12:
            h += 1
            inside += 2 * self.pmf(h)
        return float(h)

    def _continuous_half_width(self, level: float) -> float:
        raise NotImplementedError


class Noise(Protocol):
    """What a database takes its noise from; tests pass a silent one."""

    def draw(self, law: Law, count: int) -> list[int]:
        """Return `count` independent draws of `law`."""
        ...


class SystemNoise:
    """The noise of the product: fresh from the operating system at every draw."""

    def draw(self, law: Law, count: int) -> list[int]:
        """Return `count` independent draws of `law`."""
        return law.draw(count)


@dataclass(frozen=True, slots=True)
class Gaussian(Law):
    """The discrete Gaussian: P(k) proportional to exp(-k**2 / (2 * variance)).

    Canonne, Kamath, Steinke (2020), drawn by OpenDP. Its scale is a float there, so the
    root is rounded up: the law drawn has at least the variance asked for.
    """

    variance: Fraction

    def __post_init__(self) -> None:
        _check(self, variance=self.variance, std_squared=self.variance)

    @property
    def std(self) -> float:
        """The standard deviation, in steps."""
        return math.sqrt(self.variance)

    def pmf(self, k: int) -> float:
        """Return the probability of k."""
        variance = float(self.variance)
        return math.exp(-k * k / (2 * variance)) / _gaussian_total(variance)

    def _continuous_half_width(self, level: float) -> float:
        return _normal_half_width(self.std, level)

    def draw(self, count: int) -> list[int]:
        """Return `count` independent draws."""
        return list(map(int, _opendp("gaussian", root_up(self.variance))([0] * count)))


@dataclass(frozen=True, slots=True)
class Laplace(Law):
    """The discrete Laplace: P(k) proportional to exp(-|k| / scale).

    Drawn by OpenDP, whose scale is a float: it is rounded up.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        _check(self, scale=self.scale, std_squared=2 * self.scale * self.scale)

    @property
    def std(self) -> float:
        """The standard deviation, in steps."""
        half = float(1 / (2 * self.scale))
        return 1 / (math.sqrt(2) * math.sinh(half)) if half < 700 else 0.0

    def pmf(self, k: int) -> float:
        """Return the probability of k."""
        scale = float(self.scale)
        return math.tanh(1 / (2 * scale)) * math.exp(-abs(k) / scale)

    def _continuous_half_width(self, level: float) -> float:
        return -float(self.scale) * math.log1p(-level)

    def draw(self, count: int) -> list[int]:
        """Return `count` independent draws."""
        return list(map(int, _opendp("laplace", float_up(self.scale))([0] * count)))


@dataclass(frozen=True, slots=True)
class Binomial(Law):
    """`coins` fair coins minus their mean: heads - coins/2, `coins` even.

    The standard deviation is sqrt(coins)/2 (CRYPTO 04 says sqrt(coins)).
    """

    coins: int

    def __post_init__(self) -> None:
        coins = self.coins
        if type(coins) is not int or not 2 <= coins <= LARGEST_COINS or coins % 2:
            raise ValueError(f"coins={coins!r}: an even number from 2 to {LARGEST_COINS}")

    @property
    def std(self) -> float:
        """The standard deviation, in steps."""
        return math.sqrt(self.coins) / 2

    def pmf(self, k: int) -> float:
        """Return the probability of k."""
        n, heads = self.coins, self.coins // 2 + k
        if not 0 <= heads <= n:
            return 0.0
        ways = math.lgamma(n + 1) - math.lgamma(heads + 1) - math.lgamma(n - heads + 1)
        return math.exp(ways - n * math.log(2))

    def _continuous_half_width(self, level: float) -> float:
        return _normal_half_width(self.std, level) + 0.5

    def draw(self, count: int) -> list[int]:
        """Return `count` independent draws."""
        source = SystemSource()
        return [heads(self.coins, source) - self.coins // 2 for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Stitched(Law):
    """Gaussian in the middle, exponential beyond: P(k) proportional to exp(-h(k)).

    h(k) = k**2 / (2 * variance) for |k| <= bend, and its tangent beyond,
    h(k) = bend * |k| / variance - bend**2 / (2 * variance).
    One step changes h by at most bend/variance, whatever k: the loss is always bounded.
    Left open in PODS 05, 5.4. Exact: no float is formed. Proof: docs/proofs/stitched.md
    """

    variance: int
    bend: int

    def __post_init__(self) -> None:
        for name, value in (("variance", self.variance), ("bend", self.bend)):
            if type(value) is not int or value < 1:
                raise ValueError(f"{name}={value!r}: a positive integer")
        _check(self, variance=self.variance, std_squared=Fraction(self.variance))
        if self.bend * self._scale < self.variance:
            raise ValueError(
                f"bend={self.bend}: at least variance/isqrt(variance), about one standard deviation"
            )

    @property
    def _scale(self) -> int:
        """The proposal's scale: near sqrt(variance), and exact as a float."""
        return int(float(math.isqrt(self.variance)))

    @property
    def std(self) -> float:
        """The standard deviation, in steps."""
        return math.sqrt(_stitched_second_moment(self.variance, self.bend))

    def pmf(self, k: int) -> float:
        """Return the probability of k."""
        return math.exp(-self.h(k)) / _stitched_total(self.variance, self.bend)

    def h(self, k: int) -> float:
        """Return -log of the unnormalised probability of k."""
        near = min(abs(k), self.bend)
        return float(Fraction(near * (2 * abs(k) - near), 2 * self.variance))

    def _continuous_half_width(self, level: float) -> float:
        outside = 1 - level
        low, high = 0.0, self.bend + self.variance / self.bend * -math.log(outside) + self.std
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            beyond, total = _stitched_parts(self.variance, self.bend, middle)
            if beyond > outside * total:
                low = middle
            else:
                high = middle
        return high

    def draw(self, count: int) -> list[int]:
        """Return `count` independent draws."""
        propose, source = _opendp("laplace", float(self._scale)), SystemSource()
        kept: list[int] = []
        while len(kept) < count:
            proposals = map(int, propose([0] * (count - len(kept))))
            kept += [k for k in proposals if self.keeps(k, source)]
        return kept

    def keeps(self, k: int, source: Source) -> bool:
        """Keep a proposal k of the discrete Laplace with probability exp(-x(k)).

        With b the proposal's scale, x(k) = h(k) - |k|/b + variance/(2 b**2), never negative.
        """
        return bernoulli_exp(self.excess(k), source)

    def excess(self, k: int) -> Fraction:
        """Return x(k), exactly."""
        k, v, b, c = abs(k), self.variance, self._scale, self.bend
        if k <= c:
            return Fraction((k * b - v) ** 2, 2 * v * b * b)
        return Fraction(2 * c * k * b * b - c * c * b * b - 2 * k * v * b + v * v, 2 * v * b * b)


def heads(coins: int, source: Source) -> int:
    """Return how many of `coins` fair coins fall heads: the ones among as many random bits."""
    chunk = 2**20
    whole, rest = divmod(coins, chunk)
    return sum(source.bits(n).bit_count() for n in [chunk] * whole + [rest])


def bernoulli_exp(x: Fraction, source: Source) -> bool:
    """Return True with probability exp(-x), exactly, for rational x >= 0 (CKS20, Algorithm 1)."""
    whole, part = divmod(x, 1)
    return all(_bernoulli_exp_unit(Fraction(1), source) for _ in range(whole)) and (
        _bernoulli_exp_unit(part, source)
    )


def _bernoulli_exp_unit(x: Fraction, source: Source) -> bool:
    """Return True with probability exp(-x), exactly, for x in [0, 1].

    The first k with Bernoulli(x/k) false is odd with probability 1 - x + x**2/2! - ...
    """
    k = 1
    while below(x.denominator * k, source) < x.numerator:
        k += 1
    return k % 2 == 1


def below(n: int, source: Source) -> int:
    """Return a uniform integer in [0, n), exactly, by rejection."""
    length = (n - 1).bit_length()
    while (value := source.bits(length)) >= n:
        pass
    return value


def float_up(x: Fraction) -> float:
    """Return the smallest float that is at least x."""
    nearest = float(x)
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def root_up(x: Fraction) -> float:
    """Return a float whose square is at least x, within two steps of the root."""
    scaled = x * 4**600  # so that no float underflows on the way
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    root = float(Fraction(whole, 2**600))
    while Fraction(root) ** 2 < x:
        root = math.nextafter(root, math.inf)
    return root


def _check(law: object, std_squared: Fraction, **parameter: object) -> None:
    [(name, value)] = parameter.items()
    if not isinstance(value, (int, Fraction)) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{type(law).__name__}: {name}={value!r}, a positive int or Fraction")
    if not Fraction(1, 2**100) <= std_squared <= LARGEST_STD**2:
        raise ValueError(
            f"{type(law).__name__}: {name}={float_up(Fraction(value)):g}, "
            "a standard deviation from 2**-50 to 2**55 steps"
        )


def _normal_half_width(std: float, level: float) -> float:
    return -std * NormalDist().inv_cdf((1 - level) / 2)


@lru_cache(maxsize=1024)
def _gaussian_total(variance: float) -> float:
    """Return the sum of exp(-k**2 / (2 variance)) over all integers."""
    if variance >= 1:  # Poisson summation: the next term is below 1e-34
        return math.sqrt(2 * math.pi * variance) * (1 + 2 * math.exp(-2 * math.pi**2 * variance))
    return 1 + 2 * sum(math.exp(-k * k / (2 * variance)) for k in range(1, 40))


@lru_cache(maxsize=256)
def _stitched_total(variance: int, bend: int) -> float:
    """Return the sum of exp(-h(k)) over all integers."""
    if bend > 100_000:
        return _stitched_parts(variance, bend, 0.0)[1]
    middle = 1 + 2 * math.fsum(math.exp(-k * k / (2 * variance)) for k in range(1, bend + 1))
    return middle + 2 * math.exp(-bend * bend / (2 * variance)) / math.expm1(bend / variance)


def _stitched_parts(v: float, c: float, t: float) -> tuple[float, float]:
    """Return the integrals of exp(-h) outside [-t, t] and over the line."""
    root = math.sqrt(2 * v)
    tails = 2 * math.exp(-c * c / (2 * v)) * v / c
    middle = math.sqrt(math.pi) * root * math.erf(c / root)
    if t >= c:
        return tails * math.exp(-c * (t - c) / v), middle + tails
    return tails + math.sqrt(math.pi) * root * (math.erf(c / root) - math.erf(t / root)), (
        middle + tails
    )


@lru_cache(maxsize=256)
def _stitched_second_moment(v: int, c: int) -> float:
    """Return the second moment of the density exp(-h) on the line, h as in Stitched."""
    root, edge, slope = math.sqrt(2 * v), math.exp(-c * c / (2 * v)), c / v
    middle = v * (math.sqrt(math.pi) * root * math.erf(c / root) - 2 * c * edge)
    tails = 2 * edge * (c * c / slope + 2 * c / slope**2 + 2 / slope**3)
    return (middle + tails) / _stitched_parts(v, c, 0.0)[1]


@lru_cache(maxsize=1024)
def _opendp(law: str, scale: float) -> Callable[[list[int]], list[int]]:
    """Return OpenDP's discrete Gaussian or Laplace: adds noise of this scale to each integer."""
    from opendp import measurements

    made = measurements.make_gaussian if law == "gaussian" else measurements.make_laplace
    measurement: Callable[[list[int]], list[int]] = made(*_space(law), scale=scale)
    return measurement


@lru_cache(maxsize=2)
def _space(law: str) -> tuple[object, object]:
    """Return what OpenDP adds noise to: whole numbers, and how far apart they are."""
    load()
    from opendp import metrics
    from opendp.domains import atom_domain, vector_domain

    distance = metrics.l2_distance(T="f64") if law == "gaussian" else metrics.l1_distance(T="i64")
    return vector_domain(atom_domain(T="i64")), distance


@lru_cache(maxsize=1)
def load() -> None:
    """Load OpenDP when a table is opened or noise is drawn, not when sulq is imported.

    Its parts, not its prelude: that imports scikit-learn wherever it is installed.
    """
    from opendp.mod import enable_features

    enable_features("contrib")

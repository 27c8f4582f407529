"""How much binomial or stitched noise a promise needs, by privacy loss distributions.

Both kinds promise P[loss > epsilon] <= delta for two alternatives of a row, after T queries
that each shift the noise by at most one unit. With delta_T(e) the hockey-stick divergence
after T queries, P[loss > epsilon] <= delta_T(e) / (1 - exp(e - epsilon)) for every
e < epsilon. Every approximation here errs towards more noise.
Proofs: docs/proofs/binomial.md, stitched.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft, ifft, next_fast_len
from scipy.special import gammaln, ndtr

from sulq.errors import PromiseError
from sulq.privacy.noise import LARGEST_COINS

Array = NDArray[np.float64]

CELLS = 12  # grid cells of the loss in one standard deviation of one query's loss
FEWEST_CELLS = 2048  # and at least so many in the window of the composition
CLOSE = 5e-4  # how near to the smallest sufficient noise the search stops, relative
ROUNDING = 1e-13  # what T-fold powers of a discrete Fourier transform may lose, per query
OUTSIDE = math.log(1e-15)  # mass left outside the window


@dataclass(frozen=True, slots=True)
class Losses:
    """The privacy loss of one query, on a grid: P[loss = (first + i) * step] = mass[i]."""

    step: float
    first: int
    mass: Array
    infinite: float = 0.0  # P[loss = infinity]

    @property
    def values(self) -> Array:
        """The losses on the grid."""
        return self.step * (self.first + np.arange(len(self.mass), dtype=float))


@lru_cache(maxsize=256)
def binomial_coins(epsilon: float, delta: float, queries: int) -> int:
    """Return the coins N (even) with which T answers keep the promise.

    More coins are the sum of fewer and others, so every hockey-stick divergence falls as N
    grows. The N returned has itself been checked.
    """

    def enough(coins: int) -> bool:
        losses = binomial_losses(coins, _step(1 / (math.sqrt(coins) / 2), queries))
        return log_excess(losses, queries, epsilon) <= math.log(delta)

    start = 2 * math.ceil(2 * _gaussian_guess(epsilon, delta, queries))
    start = max(start, 2 * math.ceil(-math.log2(delta) / 2))
    if start > LARGEST_COINS // 2:
        raise PromiseError(
            f"epsilon={epsilon:g}, delta={delta:g}, queries={queries} need {start:,} coins per "
            f"answer, and at most {LARGEST_COINS:,} are tossed. Use noise='gaussian'."
        )
    return 2 * _least(lambda half: enough(2 * half), start // 2)


@lru_cache(maxsize=256)
def stitched_variance(epsilon: float, delta: float, queries: int, bend: int, steps: int) -> float:
    """Return R with which T stitched answers keep the promise, with `steps` or more in a unit.

    The law on the integers differs from its density rounded to integers by a factor of at
    most exp(5/(12 V)), V its variance in steps, so T answers shift epsilon by 2 T 5/(12 V)
    and delta by a factor exp(T 5/(12 V)). R is at least (1/(2 bend))**2: beyond that (epsilon
    above 2 bend**2 a query) there is more noise than the promise asks for.
    """

    def enough(scaled: int) -> bool:
        root = scaled / scale
        grid = queries * 5 / (12 * (root * steps) ** 2)
        if epsilon <= 2 * grid:
            return False
        losses = stitched_losses(root, bend, _step(1 / root, queries))
        return log_excess(losses, queries, epsilon - 2 * grid) <= math.log(delta) - grid

    guess = max(math.sqrt(_gaussian_guess(epsilon, delta, queries)), 1 / (2 * bend))
    scale = 2**16 / guess
    least = _least(enough, 2**16, floor=math.ceil(scale / (2 * bend)))
    return (least / scale) ** 2 * (1 + 1e-12)


def _gaussian_guess(epsilon: float, delta: float, queries: int) -> float:
    """Return R with which Gaussian noise would keep P[loss > epsilon] <= delta."""
    z = -NormalDist().inv_cdf(delta)
    root = math.sqrt(z * z + 2 * epsilon)
    mu = root - z if z < 0 else 2 * epsilon / (z + root)  # epsilon/mu - mu/2 = z
    return queries / mu**2


def _least(enough: Callable[[int], bool], start: int, floor: int = 1) -> int:
    """Return an n >= floor that is enough, within CLOSE of one below it that is not."""
    high, width = max(start, floor), 16
    while not enough(high):
        floor, high, width = high + 1, high + max(high // width, 1), max(width // 2, 1)
    low, width = max(floor, high - max(high // 32, 1)), 16
    while low > floor and enough(low):
        low, high, width = max(floor, low - max(low // width, 1)), low, max(width // 2, 2)
    while high - low > max(CLOSE * high, 1):
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return low if high > low and enough(low) else high


def _step(loss_std: float, queries: int) -> float:
    """Return the grid of the loss: fine beside one query, and beside all of them."""
    return min(loss_std / CELLS, 20 * loss_std * math.sqrt(queries) / FEWEST_CELLS)


def binomial_losses(coins: int, step: float) -> Losses:
    """Return the loss of `coins` coins against the same shifted by one, pessimistically.

    loss(k) = ln(C(N, k) / C(N, k-1)) = ln((N - k + 1) / k) has probability C(N, k) / 2**N;
    k = 0 cannot be reached from the other side. Heads beyond 38 standard deviations have
    probability below 1e-300 and are left out.
    """
    middle, reach = coins // 2, math.ceil(19 * math.sqrt(coins))
    heads = np.arange(max(0, middle - reach), min(coins, middle + reach) + 1, dtype=float)
    logs = -gammaln(heads + 1) - gammaln(coins - heads + 1)
    weights = np.exp(logs - logs.max())
    p = weights / weights.sum()
    infinite = float(p[0])  # all tails; otherwise nothing
    heads, p = heads[1:], p[1:]
    return spread(np.log1p((coins + 1 - 2 * heads) / heads), p, step, infinite)


def spread(loss: Array, p: Array, step: float, infinite: float = 0.0) -> Losses:
    """Put atoms of loss on a grid without lowering any hockey-stick divergence.

    Each is split between its two neighbours so that its mass under both alternatives, p and
    p * exp(-loss), is kept ("connecting the dots", Doroshenko et al. 2022).
    """
    cell = np.floor(loss / step).astype(int)
    upper = p * np.expm1(cell * step - loss) / math.expm1(-step)
    return _on_grid(cell, p - upper, upper, step, infinite)


def _on_grid(
    cell: NDArray[np.int_], lower: Array, upper: Array, step: float, infinite: float = 0.0
) -> Losses:
    first = int(cell.min())
    mass = np.zeros(int(cell.max()) - first + 2)
    np.add.at(mass, cell - first, np.maximum(lower, 0))
    np.add.at(mass, cell - first + 1, np.maximum(upper, 0))
    return Losses(step, first, mass, infinite)


def stitched_losses(root: float, bend: int, step: float) -> Losses:
    """Return the loss of stitched noise with R = root**2 shifted by one unit, pessimistically.

    loss(x) = h(x - 1) - h(x) never increases with x, so {loss > e} = {x < x(e)}; between two
    points of the grid the loss has mass p under one alternative and q under the other, and
    is split so that both are kept.
    """
    reach = math.ceil(bend / root / step)
    step = bend / root / reach  # the largest loss is a point of the grid
    cell = np.arange(-reach, reach)
    edges = np.append(cell, reach) * step
    x = _where_loss_is(edges, root, bend)
    x[0], x[-1] = np.inf, -np.inf
    p = _between(x[1:], x[:-1], root, bend)
    q = _between(x[1:] - 1, x[:-1] - 1, root, bend)
    upper = np.clip((p - q * np.exp(edges[:-1])) / -math.expm1(-step), 0, p)
    return _on_grid(cell, p - upper, upper, step)


def _where_loss_is(e: Array, root: float, bend: int) -> Array:
    """Return x(e) with {x: loss(x) > e} = {x < x(e)}.

    With c = bend * root and R = root**2, for e >= 0 (else x(e) = 1 - x(-e)):
    both x and x-1 in the middle: loss = (1 - 2x) / 2R; only x: (2c - (x + c)**2) / 2R;
    neither: c/R, the largest there is. This needs c >= 1/2.
    """
    c, r, e_abs = bend * root, root**2, np.abs(e)
    one_out = np.sqrt(np.maximum(2 * c - 2 * r * e_abs, 0)) - c
    x = np.where(e_abs <= (c - 0.5) / r, 0.5 - r * e_abs, one_out)
    return np.where(e >= 0, x, 1 - x)


def _between(low: Array, high: Array, root: float, bend: int) -> Array:
    """Return the probability that stitched noise is in (low, high], without cancelling."""
    left = high <= 0.5
    a, b = np.where(left, high, -low), np.where(left, low, -high)
    return np.maximum(_below(a, root, bend) - _below(b, root, bend), 0)


def _below(x: Array, root: float, bend: int) -> Array:
    """Return the distribution function of stitched noise with R = root**2."""
    tail = math.exp(-(bend**2) / 2) / bend
    middle = math.sqrt(2 * math.pi) * (ndtr(bend) - ndtr(-bend))
    y = x / root
    left_tail = tail * np.exp(np.minimum(bend * (y + bend), 0))
    right_tail = tail * -np.expm1(-bend * np.maximum(y - bend, 0))
    inside = math.sqrt(2 * math.pi) * (ndtr(np.clip(y, -bend, bend)) - ndtr(-bend))
    return np.asarray((left_tail + inside + right_tail) / (2 * tail + middle), dtype=float)


def log_excess(losses: Losses, queries: int, epsilon: float) -> float:
    """Return ln of an upper bound on P[loss of `queries` queries > epsilon].

    The distribution is tilted by exp(s * loss) so that epsilon is in its middle, composed by
    a Fourier transform, and tilted back: small probabilities keep their relative accuracy.
    Where no finite loss can reach epsilon, only infinite ones count.
    """
    infinite = -math.expm1(queries * math.log1p(-losses.infinite))
    log_infinite = math.log(infinite) if infinite else -math.inf
    if queries * losses.values[-1] <= epsilon:
        return log_infinite
    tilt = _best_tilt(losses, queries, epsilon)
    values, composed = _compose(losses, queries, tilt)
    x = values - epsilon
    near = x > -600 / (tilt + 1)
    x, composed = x[near], composed[near]
    # In units of exp(T K(s) - s epsilon), Chernoff's bound: mass above e, and its other side.
    upper = _sum_above(composed * np.exp(-tilt * x))
    lower = _sum_above(composed * np.exp(-(tilt + 1) * x)) * np.exp(np.minimum(x, 0))
    outside = 2 * math.exp(OUTSIDE) * np.exp(-tilt * x)
    below = x < -1e-9 * epsilon
    if not below.any():  # the whole window is above epsilon
        return 0.0
    chernoff = queries * _log_moment(losses, tilt) - tilt * epsilon
    finite = chernoff + np.log((np.maximum(upper - lower, 0) + outside)[below])
    return float(np.min(np.logaddexp(finite, log_infinite) - np.log(-np.expm1(x[below]))))


def _sum_above(terms: Array) -> Array:
    """Return the sums over all strictly later terms."""
    return np.append(np.cumsum(terms[::-1])[::-1][1:], 0.0)


def _log_moment(losses: Losses, s: float) -> float:
    """Return K(s) = ln of the sum of mass * exp(s * loss), infinite loss left out."""
    terms = _log_terms(losses, s)
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top).sum()))


def _log_terms(losses: Losses, s: float) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(losses.mass) + s * losses.values)


def _tilted(losses: Losses, s: float) -> tuple[Array, float, float]:
    """Return the tilted masses, their mean and their variance."""
    terms, values = _log_terms(losses, s), losses.values
    mass = np.exp(terms - terms.max())
    mass /= mass.sum()
    mean = float(np.dot(mass, values))
    return mass, mean, float(np.dot(mass, (values - mean) ** 2))


def _best_tilt(losses: Losses, queries: int, epsilon: float) -> float:
    """Return s >= 0 with T K'(s) near epsilon, and short of the largest loss there is."""
    target = min(epsilon / queries, 0.98 * float(losses.values[-1]))
    low, high = 0.0, 600 / float(np.abs(losses.values).max())
    for _ in range(40):
        middle = (low + high) / 2
        if _tilted(losses, middle)[1] < target:
            low = middle
        else:
            high = middle
    return low


def _compose(losses: Losses, queries: int, tilt: float) -> tuple[Array, Array]:
    """Return the grid and the tilted masses of the sum of T losses, never too little.

    The transform is periodic: what falls outside the window lands inside it, and is at most
    exp(OUTSIDE) on either side by Chernoff's bound. Each mass is raised by what rounding may
    have taken.
    """
    mass, mean, variance = _tilted(losses, tilt)
    low = max(queries * losses.first, _edge(losses, queries, tilt, mean, variance, -1))
    last = losses.first + len(mass) - 1
    high = min(queries * last, _edge(losses, queries, tilt, mean, variance, 1))
    length = next_fast_len(high - low + 1)
    folded = np.zeros(length)
    np.add.at(folded, np.arange(len(mass)) % length, mass)
    composed = np.real(ifft(fft(folded) ** queries))
    composed = np.roll(composed, queries * losses.first - low)
    composed = np.maximum(composed, 0) + ROUNDING * queries * composed.max()
    return losses.step * (low + np.arange(length, dtype=float)), composed


def _edge(
    losses: Losses, queries: int, tilt: float, mean: float, variance: float, side: int
) -> int:
    """Return a grid point beyond which the tilted sum has mass at most exp(OUTSIDE)."""
    centre, std = queries * mean, math.sqrt(queries * variance) + losses.step
    here, reach = _log_moment(losses, tilt), 8.0
    furthest = float(np.abs(losses.values).max()) * 2 * queries + abs(centre)
    while reach * std < furthest:
        edge = centre + side * reach * std
        for u in (side * reach / std * f for f in (0.25, 0.5, 1.0)):
            moment = queries * (_log_moment(losses, tilt + u) - here)
            if moment - u * edge <= OUTSIDE:
                return round(edge / losses.step) + side
        reach *= 1.25
    return round((centre + side * furthest) / losses.step) + side

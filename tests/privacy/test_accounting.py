"""The published noise keeps the promise, and hardly more: an accountant of our own.

Nothing here uses the code under test but for the noise it publishes. The masses of the laws
are written out again, losses are put on their nearest grid point (the calibration rounds them
up) and composed by plain convolution. For every kind, noise with a standard deviation 5% low
must fail the same accountant.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.signal import fftconvolve
from scipy.special import gammaln, logsumexp, ndtr

from sulq.privacy.noise import float_up, root_up
from sulq.privacy.promise import Promise

EPSILONS = (0.1, 1.0, 3.0, 8.0)
DELTAS = (1e-3, 1e-6, 1e-9)
QUERIES = (1, 30, 1000)
GRID = list(itertools.product(EPSILONS, DELTAS, QUERIES))
UNIT = 2**10


# The accountant: losses of one query -> chance that the losses of T queries exceed epsilon.


def composed(loss, p, queries, cell):
    """The sum of `queries` independent losses, rounded to whole cells: first cell, masses."""
    if queries == 1:
        return loss, p
    index = np.rint(loss / cell).astype(int)
    # Rounding to the nearest cell moves the mean a little: mend it, or T queries add it up.
    drift = queries * (np.dot(index * cell - loss, p) / p.sum())
    base = np.bincount(index - index.min(), p)
    first, masses, power, start = 0, np.ones(1), base, int(index.min())
    while queries:
        if queries & 1:
            masses, first = trimmed(fftconvolve(masses, power), first + start)
        queries >>= 1
        if queries:
            power, start = trimmed(fftconvolve(power, power), 2 * start)
    return (first + np.arange(len(masses))) * cell - drift, np.maximum(masses, 0)


def trimmed(masses, first):
    """Drop tails whose every mass is lost in rounding anyway."""
    kept = np.flatnonzero(masses > 1e-19)
    return masses[kept[0] : kept[-1] + 1], first + int(kept[0])


def hockey_stick(values, masses, e):
    above = values > e
    return float(np.dot(masses[above], -np.expm1(e - values[above])))


def excess(loss, p, queries, epsilon, cell, infinite=0.0):
    """The stated formula: the least over e < epsilon of delta(e) / (1 - exp(e - epsilon))."""
    if queries * loss.max() <= epsilon:
        return queries * infinite
    values, masses = composed(loss, p, queries, cell)
    values, masses = values[order := np.argsort(values)], masses[order]
    gaps = np.geomspace(1e-3, 10, 800) * min(epsilon, 1)
    first = np.searchsorted(values, epsilon - gaps, side="right")
    with np.errstate(over="ignore"):
        other = np.where(values < epsilon - gaps[-1], 0, masses * np.exp(epsilon - values))
    above, others = (np.append(np.cumsum(m[::-1])[::-1], 0)[first] for m in (masses, other))
    sticks = above - others * np.exp(-gaps) + queries * infinite
    return float(np.min(sticks / -np.expm1(-gaps)))


def coin_losses(coins):
    reach = math.ceil(7 * math.sqrt(coins))  # 14 standard deviations
    heads = np.arange(max(1, coins // 2 - reach), min(coins, coins // 2 + reach) + 1, dtype=float)
    logs = gammaln(coins + 1) - gammaln(heads + 1) - gammaln(coins - heads + 1)
    p = np.exp(logs - coins * math.log(2))
    return np.log((coins - heads + 1) / heads), p


def stitched_losses(root, unit):
    """The stitched law on the integers against itself `unit` steps away."""
    k = np.arange(-math.ceil(18 * root), math.ceil(18 * root) + 1, dtype=float)

    def h(k):
        k = np.abs(k) / root
        return np.where(k <= 3, k * k / 2, 3 * k - 4.5)

    p = np.exp(-h(k))
    return h(k - unit) - h(k), p / p.sum()


# Beliefs: Definition 1 by the moment bound.


def log_moment_bound(variance, epsilon, queries, shift=1.0):
    """ln of the bound on P[confidence gain > epsilon], over orders s >= 1 on a fine grid."""
    best = epsilon * variance / queries
    orders = 1 + np.append(0, np.geomspace(1e-3, 1, 4000) * max(best, 1) * 2)
    terms = queries * (orders**2 + orders) * shift**2 / (2 * variance) - orders * epsilon
    return float(terms.min())


@pytest.mark.parametrize(("epsilon", "delta", "queries"), GRID)
def test_gaussian_keeps_the_beliefs_promise(epsilon, delta, queries):
    """The moment bound meets delta with the variance drawn, and 0.1% less would not do."""
    law = Promise(epsilon, delta, queries).law(UNIT)
    variance = float(Fraction(root_up(law.variance)) ** 2 / UNIT**2)
    target = math.log(delta)
    assert log_moment_bound(variance, epsilon, queries) <= target + 1e-5 * abs(target)
    assert log_moment_bound(variance * 0.999, epsilon, queries) > target
    assert log_moment_bound(variance * 0.95**2, epsilon, queries) > target  # control: 5% low


@pytest.mark.parametrize("variance", [0.3, 1.0, 7.5, 900.0])
def test_discrete_gaussian_moments_are_below_the_normal_ones(variance):
    """ln E exp(t k) <= t^2 V/2 for every real t, on the coarsest grid too."""
    k = np.arange(-400, 401)
    log_mass = -(k**2) / (2 * variance)
    log_mass = log_mass - logsumexp(log_mass)
    for t in np.linspace(-3, 3, 61) / max(1, math.sqrt(variance)):
        assert logsumexp(log_mass + t * k) <= t * t * variance / 2 + 1e-9


def gain_above(beliefs, fact, truth, variance, epsilon):
    """P[confidence in `fact` grows by more than epsilon] after one query, by summing.

    beliefs: (value of the row's function, probability) pairs; the true value is `truth`.
    """
    values, weights = np.array(beliefs).T
    scale = 64
    std = math.sqrt(variance)
    a = np.arange(-9 * std, 9 * std + 1, 1 / scale)
    likelihood = -((a[:, None] + truth - values) ** 2) / (2 * variance)

    def log_odds(mask):
        return logsumexp(likelihood[:, mask], axis=1, b=weights[mask] / weights[mask].sum())

    gain = log_odds(fact) - log_odds(~fact)
    mass = np.exp(-(a**2) / (2 * variance))
    return mass[gain > epsilon].sum() / mass.sum()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_no_mixture_of_beliefs_gains_more_than_promised(epsilon):
    """Random mixtures of beliefs, facts and truths after one query: never above delta.

    Control: with a quarter of the noise two-point beliefs are above it.
    """
    delta, random = 1e-3, np.random.default_rng(11)
    variance = Promise(epsilon, delta, 1).variance
    two_points = ([(1.0, 0.5), (0.0, 0.5)], np.array([True, False]), 1.0)
    cases = [two_points]
    for _ in range(60):
        size = int(random.integers(2, 7))
        values = random.choice([0, 0.5, 1, random.random()], size)
        fact = np.arange(size) < random.integers(1, size)
        beliefs = list(zip(values, random.dirichlet(np.full(size, 0.4)) + 1e-12, strict=True))
        cases.append((beliefs, fact, float(random.choice([0, 1, random.random()]))))
    worst = max(gain_above(*case, variance, epsilon) for case in cases)
    assert 0 < worst <= delta
    assert gain_above(*two_points, variance / 4, epsilon) > delta


# dp: the true hockey stick on the grid.


def discrete_gaussian_stick(variance, shift, epsilon):
    """The exact divergence of two discrete Gaussians `shift` steps apart: two tails."""
    std = math.sqrt(variance)
    least = math.floor(epsilon * variance / shift - shift / 2) + 1  # first k with loss > epsilon
    k = np.arange(least, least + math.ceil(40 * std), dtype=float)
    total = math.log(math.sqrt(2 * math.pi * variance)) + math.log1p(
        2 * math.exp(-2 * math.pi**2 * variance)
    )
    upper = logsumexp(-(k**2) / (2 * variance)) - total
    lower = logsumexp(-((k + shift) ** 2) / (2 * variance)) - total
    return math.exp(upper) - math.exp(lower + epsilon)


@pytest.mark.parametrize(("epsilon", "delta", "queries"), GRID)
def test_gaussian_keeps_the_dp_promise_on_the_grid(epsilon, delta, queries):
    """The whole budget in one answer, at 2^10 steps a unit: delta is met, and nearly used up.

    One answer with variance R/T is the coarsest grid that a budget of T can be spent on.
    """
    law = Promise(epsilon, delta, queries, guarantee="dp").law(UNIT, Fraction(1, queries))
    for shift in (UNIT, UNIT - 1, UNIT // 2, 1):
        assert discrete_gaussian_stick(float(law.variance), shift, epsilon) <= delta
    assert discrete_gaussian_stick(float(law.variance) * 0.999, UNIT, epsilon) > delta
    assert discrete_gaussian_stick(float(law.variance) * 0.95**2, UNIT, epsilon) > delta


@pytest.mark.parametrize("epsilon", [30.0, 200.0])
def test_dp_holds_at_large_epsilon_too(epsilon):
    """Where 1e-5 alone would not cover the grid (control, epsilon 200), 3 steps squared do."""
    with pytest.warns(UserWarning, match="says little"):
        promise = Promise(epsilon, 1e-6, 1, guarantee="dp")
    laws = {unit: float(promise.law(unit).variance) for unit in range(UNIT, UNIT + 60)}
    sticks = [discrete_gaussian_stick(v, unit, epsilon) for unit, v in laws.items()]
    bare = [discrete_gaussian_stick(v - 3, unit, epsilon) for unit, v in laws.items()]
    assert max(sticks) <= 1e-6
    assert (max(bare) > 1e-6) == (epsilon == 200)


def test_whole_numbers_would_break_the_dp_promise():
    """Control: the same R on whole numbers exceeds delta, up to threefold."""
    worst = 0.0
    for epsilon, delta in itertools.product(np.linspace(0.5, 8, 60), DELTAS):
        variance = Promise(float(epsilon), delta, 1, guarantee="dp").variance
        worst = max(worst, discrete_gaussian_stick(variance, 1, epsilon) / delta)
    assert worst > 2.9


@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 1e-6), (8.0, 1e-3), (8.0, 1e-6)])
@pytest.mark.parametrize("queries", [2, 7])
def test_gaussian_answers_compose_on_the_grid(epsilon, delta, queries):
    """The sum of several discrete Gaussians, convolved exactly, keeps dp as well."""
    law = Promise(epsilon, delta, queries, guarantee="dp").law(UNIT)
    std, variance = law.std, float(law.variance)
    k = np.arange(-math.ceil(9 * std), math.ceil(9 * std) + 1, dtype=float)
    p = np.exp(-(k**2) / (2 * variance))
    loss = UNIT / variance * (k + UNIT / 2)
    values, masses = composed(loss - loss[0], p / p.sum(), queries, UNIT / variance)
    values = values + queries * loss[0]
    assert hockey_stick(values, masses, epsilon) <= delta * (1 + 1e-9)
    assert hockey_stick(values, masses, epsilon) > delta * 0.999


def test_dp_accounting_agrees_about_the_gaussian():
    """Google's accountant, an independent one, brackets delta for T Gaussian answers."""
    for epsilon, queries in ((1.0, 100), (3.0, 1000)):
        std = Promise(epsilon, 1e-6, queries, guarantee="dp").std
        for pessimistic, limit in ((False, 1.0), (True, 1.02)):
            one = pld.from_gaussian_mechanism(
                std, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
            )
            assert one.self_compose(queries).get_delta_for_epsilon(epsilon) <= 1e-6 * limit
        low = pld.from_gaussian_mechanism(
            std * 0.95, pessimistic_estimate=False, value_discretization_interval=1e-4
        )
        assert low.self_compose(queries).get_delta_for_epsilon(epsilon) > 1e-6  # control


# Laplace: the loss is bounded.


@pytest.mark.parametrize(("epsilon", "delta", "queries"), GRID)
def test_laplace_loss_never_exceeds_epsilon(epsilon, delta, queries):
    """T answers lose at most T unit / scale, exactly at most epsilon, with the scale drawn."""
    for unit in (1, UNIT, Fraction(2**20, 7)):
        scale = Fraction(float_up(Promise(epsilon, delta, queries, "laplace").law(unit).scale))
        most = queries * Fraction(unit) / scale
        assert Fraction(epsilon) * (1 - Fraction(1, 10**12)) < most <= Fraction(epsilon)
        assert most / Fraction(95, 100) > Fraction(epsilon)  # control: 5% low


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_laplace_half_the_budget_on_one_answer(epsilon):
    """Variance R d costs 1/sqrt(d) of a query: four times the price at a sixteenth."""
    promise = Promise(epsilon, 0, 4, "laplace")
    scale = Fraction(float_up(promise.law(UNIT, Fraction(1, 16)).scale))
    assert UNIT / scale <= Fraction(epsilon)


# Binomial and stitched: two alternatives.


@pytest.mark.parametrize(("epsilon", "delta", "queries"), GRID)
def test_coins_keep_the_promise(epsilon, delta, queries):
    """N coins meet delta; 1.5% less standard deviation would not, where N is not tiny."""
    coins = Promise(epsilon, delta, queries, "binomial").coins

    def chance(coins):
        loss, p = coin_losses(coins)
        return excess(loss, p, queries, epsilon, 0.02 / math.sqrt(coins), 2.0**-coins)

    assert chance(coins) <= delta * (1 + 1e-3)
    fewer = 2 * math.floor(coins * 0.985**2 / 2)
    assert chance(fewer) > delta or coins < 50
    assert chance(2 * math.floor(coins * 0.95**2 / 2)) > delta  # control: 5% low


@pytest.mark.parametrize(
    ("epsilon", "delta", "queries"), [case for case in GRID if case[2] < 1000 or case[0] >= 1]
)
def test_stitched_noise_keeps_the_promise(epsilon, delta, queries):
    """On the integers with 2^10 steps a unit; 1.5% less standard deviation would not do.

    Where that is too many steps to sum here, a coarser copy of the same law stands in: from
    8000 steps a standard deviation on its grid changes nothing that shows.
    """
    law = Promise(epsilon, delta, queries, "stitched").law(UNIT)
    root = math.isqrt(law.variance)
    unit, root = UNIT * min(1, 8000 / root), min(root, 8000)

    def chance(root):
        loss, p = stitched_losses(root, unit)
        return excess(loss, p, queries, epsilon, 0.02 * unit / root)

    assert chance(root) <= delta * (1 + 1e-3)
    assert chance(root * 0.985) > delta
    assert chance(root * 0.95) > delta  # control: 5% low


@pytest.mark.parametrize("queries", [1, 30])
def test_smaller_shifts_lose_less(queries):
    """Coins and stitched noise are log-concave: a smaller shift has a smaller hockey stick."""
    root = 400.0
    for e in (0.05, 0.3, 1.0):
        sticks = []
        for unit in (40, 80, 120):
            loss, p = stitched_losses(root, unit)
            sticks.append(hockey_stick(*composed(loss, p, queries, 1e-3), e))
        assert sticks == sorted(sticks)


def test_stitched_loss_is_bounded_always():
    """No answer, however unlikely, loses more than 3 unit / root."""
    law = Promise(1.0, 1e-6, 100, "stitched").law(UNIT)
    most = UNIT * law.bend / law.variance
    for k in (0, law.bend, -law.bend, law.bend + 5000, 10**9, -(10**12)):
        assert abs(law.h(k - UNIT) - law.h(k)) <= most * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "queries"), [(1.0, 10), (3.0, 30)])
def test_dp_accounting_agrees_about_the_coins(epsilon, queries):
    """Google's accountant on the same two mass functions brackets delta; 5% low fails.

    It rounds losses up or down to a grid, which must be very fine to stay within 2%.
    """

    def chance(coins, pessimistic):
        ways = [math.comb(coins, k) for k in range(coins + 1)]
        upper = {k: math.log(w) - coins * math.log(2) for k, w in enumerate(ways)}
        one = pld.from_two_probability_mass_functions(
            {k + 1: log for k, log in upper.items()},
            upper,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=2e-5,
            log_mass_truncation_bound=-60,
        )
        all_of_them = one.self_compose(queries)
        gaps = np.geomspace(0.01, 3, 40)
        sticks = np.array([all_of_them.get_delta_for_epsilon(epsilon - gap) for gap in gaps])
        return float(np.min(sticks / -np.expm1(-gaps)))

    coins = Promise(epsilon, 1e-6, queries, "binomial").coins
    assert chance(coins, False) <= 1e-6
    assert chance(coins, True) <= 1e-6 * 1.02
    assert chance(2 * math.floor(coins * 0.95**2 / 2), False) > 1e-6  # control


def test_a_gaussian_guess_is_what_the_oracle_assumes():
    """The best guess of an even-prior bit is Phi(mu/2): 0.537 under beliefs, 0.547 under dp."""
    for guarantee, chance in (("beliefs", 0.537), ("dp", 0.547)):
        mu = math.sqrt(100 / Promise(1.0, 1e-6, 100, guarantee=guarantee).variance)
        assert float(ndtr(mu / 2)) == pytest.approx(chance, abs=5e-4)

"""Covariances from sums over blocks: right on average, with the error that is announced."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, chi2
from vertical.data import hashed, properties, sums_of

from sulq.questions.partitions import PRIME
from sulq.vertical.blocks import (
    BlockSums,
    added_up,
    block_count,
    expected_std,
    freedom_of,
    together,
)
from sulq.vertical.common_people import People, SharedPeople
from sulq.vertical.estimate import reach
from sulq.vertical.joint import joint_of

N, BLOCKS, NOISE = 20_000, 400, 6.0
RUNS = 300


def estimates(a, b, runs=RUNS, noise=NOISE, blocks=BLOCKS):
    """One covariance a seed, with the variance that is claimed for it."""
    rng = np.random.default_rng(0)
    for seed in range(runs):
        sides = (sums_of(x.astype(float), blocks, seed, noise, rng) for x in (a, b))
        cov, variance = together(*sides)
        yield cov[0, 0], variance[0, 0]


def cov_of(a, b):
    return float(np.mean(a * 1.0 * b) - a.mean() * b.mean())


def is_right(found, true):
    """Unbiased, with errors of the claimed size: two tests, each with false alarm 1e-9."""
    values, variances = np.array(found).T
    z = (values - true) / np.sqrt(variances)
    unbiased = abs(z.mean()) * math.sqrt(len(z)) < 6.1
    size = chi2.cdf((z**2).sum(), len(z))
    return unbiased and 0.5e-9 < size < 1 - 0.5e-9


@pytest.mark.parametrize("order", ["random", "by a", "by a and b"])
def test_blocks_find_the_covariance_whatever_the_order_of_keys(order):
    """Keys that follow a column change nothing: blocks are independent of it.

    False alarm 2e-9 a case.
    """
    a, b = properties(N)
    if order != "random":
        turn = np.lexsort((b, a)) if order == "by a and b" else np.argsort(a, kind="stable")
        a, b = a[turn], b[turn]
    found = list(estimates(a, b))
    assert is_right(found, cov_of(a, b))
    assert not is_right([(v + 0.012, s) for v, s in found], cov_of(a, b))
    assert not is_right([(v, 0.4 * s) for v, s in found], cov_of(a, b))
    assert not is_right([(v, 2.4 * s) for v, s in found], cov_of(a, b))


def test_a_line_would_not_do():
    """With (c1*k + c0) mod p, blocks of ordered keys are even and the covariance is lost."""
    a = np.arange(N) < N // 2
    keys, rng = np.arange(N), np.random.default_rng(1)
    lost = []
    for _ in range(20):
        c1, c0 = (int(x) for x in rng.integers(1, PRIME, 2))
        cell = (c1 * keys + c0) % PRIME % BLOCKS
        x = np.bincount(cell, weights=a - 0.5, minlength=BLOCKS)
        lost.append(float(x @ x) / N)
    cubic = [np.bincount(hashed(keys, s) % BLOCKS, weights=a - 0.5) for s in range(20)]
    assert np.median(lost) < 0.05
    assert all(abs(float(x @ x) / N - 0.25) < 0.12 for x in cubic)


@pytest.mark.parametrize("delta", [-0.2, 0.05])
def test_intervals_cover_as_often_as_they_say(delta):
    """95% intervals of delta, P[a], P[a and b] and the odds ratio cover in 88% to 99% of 300 runs.

    True 95% leaves that range once in 10,000 draws of seeds, which are fixed; half the width fails.
    """
    a, b = properties(N, delta=delta)
    true = {
        "delta": b[a].mean() - b.mean(),
        "p_a": a.mean(),
        "both": (a & b).mean(),
        "odds": (a & b).mean() * (~a & ~b).mean() / ((a & ~b).mean() * (~a & b).mean()),
    }
    hits, half = dict.fromkeys(true, 0), 0
    rng = np.random.default_rng(2)
    for seed in range(RUNS):
        sides = [sums_of(x.astype(float), BLOCKS, seed, NOISE, rng) for x in (a, b)]
        found = joint_of(*sides, SharedPeople(N, 0.0), ())
        made = {"delta": found.delta, "p_a": found.p_a, "both": found.probability("a and b"),
                "odds": found.odds_ratio}  # fmt: skip
        for name, estimate in made.items():
            low, high = estimate.interval()
            hits[name] += low <= true[name] <= high
        low, high = found.delta.interval()
        half += abs(true["delta"] - found.delta) <= (high - low) / 4
    assert all(0.88 * RUNS <= count <= 0.99 * RUNS for count in hits.values()), hits
    assert half < 0.88 * RUNS


def test_few_blocks_cover_too():
    """16 blocks of normal sums with correlation 1/2: 95% intervals cover in 93% of 4,000 draws.

    They do in 94.9%. As if 16 products were 16 normal numbers they did in 89.7%, 7 standard
    deviations below.
    """
    rng, people, hits, narrow = np.random.default_rng(4), People(np.full(16, 1000.0)), 0, 0
    for _ in range(4000):
        x, e = rng.normal(size=(2, 16, 1)) * 15
        y = (x + math.sqrt(3) * e) / 2
        cov, variance = together(*(BlockSums(z, np.zeros(1), people) for z in (x, y)))
        off = abs(cov[0, 0] - 16 * 15**2 / 2 / 16_000) / math.sqrt(variance[0, 0])
        hits += off <= reach(0.95, freedom_of(16))
        narrow += off <= reach(0.95, 15)
    assert narrow < 0.93 * 4000 <= hits


def test_totals_are_as_exact_as_their_noise():
    """P[a] has the noise of B numbers and nothing of the luck of blocks."""
    a, b = properties(N)
    sides = [sums_of(x.astype(float), BLOCKS, 1) for x in (a, b)]
    found = joint_of(*sides, SharedPeople(N, 0.0), ())
    assert float(found.p_a) == pytest.approx(a.mean(), abs=1e-12)
    assert found.p_a.interval() == pytest.approx((a.mean(), a.mean()), abs=1e-12)


def test_the_number_of_blocks_is_the_best_one():
    """n s_a s_b / V, within the limits; the announced error is least there."""
    best = block_count(1e6, [0.5, 0.5], [28.6, 28.6], 100_000)
    assert best == pytest.approx(1e6 * 0.25 / 28.6, rel=1e-3)
    errors = [expected_std(1e6, [0.5, 0.5], [28.6, 28.6], int(best * f)) for f in (0.7, 1, 1.4)]
    assert errors[1] == min(errors)
    assert block_count(100, [0.5], [28.6], 100_000) == 16
    assert block_count(1e9, [0.5], [1.0], 100_000) == 100_000


def test_cells_that_add_up_lose_noise():
    """What everybody is in once adds up to the block's size, and each cell gains by that."""
    a, _ = properties(N)
    rng = np.random.default_rng(3)
    sides = [sums_of(x.astype(float), BLOCKS, 1, NOISE, rng) for x in (a, ~a)]
    both = sides[0].__class__(
        np.hstack([s.sums for s in sides]), np.full(2, NOISE), sides[0].people
    )
    even = added_up(both)
    assert np.allclose(even.sums.sum(axis=1), even.people.sizes)
    exact = sums_of(a.astype(float), BLOCKS, 1).sums[:, 0]
    left = np.square(even.sums[:, 0] - exact).sum() / (NOISE / 2)
    assert 1e-9 < chi2.cdf(left, BLOCKS) < 1 - 1e-9
    assert even.noise == pytest.approx([NOISE / 2] * 2)


def test_the_coverage_bounds_have_the_stated_luck():
    """The bounds fail less than once in 10,000 runs."""
    assert binom.cdf(0.88 * RUNS - 1, RUNS, 0.95) + binom.sf(0.99 * RUNS, RUNS, 0.95) < 1e-4

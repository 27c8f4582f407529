"""What is drawn is what is declared, for every kind of noise.

160,000 draws a kind. Every test of a true law has a false alarm of 1e-9 or less a run
(|z| <= 6.11, or the stated quantile), and has a control that it must reject: a standard
deviation 5% low, a repeated draw, a coarse grid. The controls miss with less than 1e-9.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from sulq.privacy.noise import (
    Binomial,
    Gaussian,
    Laplace,
    Stitched,
    SystemNoise,
    SystemSource,
    below,
    bernoulli_exp,
    float_up,
    heads,
    root_up,
)

pytestmark = pytest.mark.real_noise

DRAWS = 160_000
Z = 6.11  # two-sided normal quantile of 1e-9
CHI_SQUARE = 81.6  # the 1 - 1e-9 quantile for 19 degrees of freedom

LAWS = {
    "gaussian": Gaussian(Fraction(1000**2)),
    "laplace": Laplace(Fraction(700)),
    "binomial": Binomial(100**2),
    "stitched": Stitched(1000**2, 3000),
}
LOW = {  # the same with a standard deviation 5% low
    "gaussian": Gaussian(Fraction(950**2)),
    "laplace": Laplace(Fraction(665)),
    "binomial": Binomial(95**2 - 1),
    "stitched": Stitched(950**2, 2850),
}


@pytest.fixture(scope="module", params=list(LAWS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def draws(kind):
    return np.array(SystemNoise().draw(LAWS[kind], DRAWS))


@pytest.fixture(scope="module")
def low(kind):
    return np.array(LOW[kind].draw(DRAWS))


@lru_cache(maxsize=8)
def masses(law):
    """All values within 45 standard deviations, and their probabilities."""
    reach = math.ceil(45 * law.std)
    half = np.array([law.pmf(k) for k in range(reach + 1)])
    return np.arange(-reach, reach + 1), np.concatenate([half[:0:-1], half])


def moment(law, order):
    """The exact absolute moment, summed over the mass function."""
    values, p = masses(law)
    return float(np.dot(np.abs(values.astype(float)) ** order, p))


def spread_z(sample, law):
    """z of the mean of |k| against the law: nearly sufficient for every scale here."""
    mean = moment(law, 1)
    return (np.abs(sample).mean() - mean) / math.sqrt((moment(law, 2) - mean**2) / len(sample))


def variance_z(sample, law):
    variance = moment(law, 2)
    wobble = math.sqrt((moment(law, 4) - variance**2) / len(sample))
    return ((sample.astype(float) ** 2).mean() - variance) / wobble


def chi_square(sample, law):
    """Pearson's statistic over about twenty cells of equal probability."""
    values, p = masses(law)
    reach = values[-1]
    cell = np.minimum((np.cumsum(p) * 20).astype(int), 19)
    expected = np.bincount(cell, p, 20) * len(sample)
    seen = np.bincount(cell[np.clip(sample, -reach, reach) + reach], minlength=20)
    return float(((seen - expected) ** 2 / expected).sum())


def test_masses_add_up_to_one_and_std_is_their_spread(kind):
    """pmf is a distribution, and std is its standard deviation."""
    law = LAWS[kind]
    assert moment(law, 0) == pytest.approx(1, abs=1e-9)
    assert law.pmf(-7) == law.pmf(7)
    assert math.sqrt(moment(law, 2)) == pytest.approx(law.std, rel=1e-6)


def test_variance(kind, draws, low):
    """Draws fit the declared variance, not one of a standard deviation 5% low."""
    assert abs(variance_z(draws, LAWS[kind])) < Z
    assert abs(spread_z(draws, LAWS[kind])) < Z
    assert spread_z(low, LAWS[kind]) < -Z


def test_mean_is_zero(kind, draws):
    """Draws have mean 0; shifted by a twentieth of a standard deviation they have not."""
    wobble = LAWS[kind].std / math.sqrt(DRAWS)
    assert abs(draws.mean()) < Z * wobble
    assert abs((draws + LAWS[kind].std / 20).mean()) > Z * wobble


def test_shape(kind, draws, low):
    """Chi-square over twenty cells accepts the law and rejects one 5% low."""
    assert chi_square(draws, LAWS[kind]) < CHI_SQUARE
    assert chi_square(low, LAWS[kind]) > CHI_SQUARE


def test_kolmogorov_smirnov(kind, draws):
    """The distribution function is never off by more than chance (2 exp(-2 x^2) = 1e-9)."""
    law = LAWS[kind]
    values, p = masses(law)
    reach, expected = values[-1], np.cumsum(p)
    seen = np.cumsum(np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1))
    limit = 3.28 * math.sqrt(DRAWS)
    assert np.abs(seen - expected * DRAWS).max() < limit
    assert np.abs(np.roll(seen, round(law.std / 20)) - expected * DRAWS)[200:-200].max() > limit


def test_neighbouring_draws_are_uncorrelated(kind, draws):
    """Lag-1 correlation is chance; of draws that share a tenth it is not."""

    def lag(sample):
        return float(np.dot(sample[1:], sample[:-1]) / np.dot(sample, sample))

    assert abs(lag(draws.astype(float))) < Z / math.sqrt(DRAWS)
    assert abs(lag(draws[1:] + 0.1 * draws[:-1])) > Z / math.sqrt(DRAWS)


def test_low_order_bits_are_fair(kind, draws):
    """Each of the five lowest bits of a draw is fair, and each pair; even draws are caught."""

    def worst(sample):
        bits = [(sample >> i) & 1 for i in range(5)]
        pairs = [a ^ b for i, a in enumerate(bits) for b in bits[:i]]
        return max(abs(int(b.sum()) * 2 - DRAWS) / math.sqrt(DRAWS) for b in bits + pairs)

    assert worst(draws) < Z + 0.5  # fifteen statistics at once
    assert worst(2 * (draws // 2)) > Z + 0.5


def test_tails_are_not_clipped(kind, draws):
    """Some draw is beyond 3.5 standard deviations (missing: below 1e-9), on both sides."""
    law = LAWS[kind]
    assert draws.max() > 3.5 * law.std
    assert draws.min() < -3.5 * law.std


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_half_width_covers_its_level(kind, draws, level):
    """|noise| <= half_width(level) as often as it says."""
    law = LAWS[kind]
    inside = int((np.abs(draws) <= law.half_width(level)).sum())
    slack = Z * math.sqrt(DRAWS * level * (1 - level)) + DRAWS * law.pmf(0) * 2
    assert abs(inside - DRAWS * level) < slack


@pytest.mark.parametrize(
    "law",
    [Gaussian(Fraction(2)), Laplace(Fraction(3, 2)), Binomial(24), Stitched(4, 6)],
    ids=lambda law: type(law).__name__,
)
def test_coarse_laws_fit_point_by_point(law):
    """On a grid as coarse as the noise every single value has its probability, and h is whole."""
    sample = np.array(law.draw(40_000))
    for k in range(-8, 9):
        p = law.pmf(k)
        if p * 40_000 > 100:
            assert abs((sample == k).sum() - 40_000 * p) < 7 * math.sqrt(40_000 * p * (1 - p))
    h = law.half_width(0.95)
    assert h == int(h)
    inside = [sum(law.pmf(k) for k in range(-w, w + 1)) for w in (int(h) - 1, int(h))]
    assert inside[0] < 0.95 <= inside[1]


def test_coins_have_half_the_root():
    """N coins have standard deviation sqrt(N)/2, not sqrt(N); N = 2 gives -1, 0, 1."""
    assert Binomial(400).std == 10
    assert set(Binomial(2).draw(200)) == {-1, 0, 1}
    assert heads(2**20 + 7, Ones()) == 2**20 + 7


def test_gaussian_scale_is_never_below_what_was_asked():
    """The float handed to OpenDP has a square of at least the variance, and hardly more."""
    random.seed(1)
    for _ in range(200):
        x = Fraction(random.getrandbits(90) + 1, random.getrandbits(60) + 1)
        assert x <= Fraction(root_up(x)) ** 2 <= x * (1 + Fraction(1, 2**50))
        assert x <= Fraction(float_up(x)) <= x * (1 + Fraction(1, 2**52))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Gaussian(Fraction(2**111)),
        lambda: Gaussian(0),
        lambda: Gaussian(2.0),
        lambda: Laplace(Fraction(2**55)),
        lambda: Laplace(Fraction(-1)),
        lambda: Binomial(3),
        lambda: Binomial(0),
        lambda: Binomial(2.0),
        lambda: Binomial(2**33),
        lambda: Stitched(2**111, 3 * 2**56),
        lambda: Stitched(100, 9),
        lambda: Stitched(Fraction(100), 30),
        lambda: Gaussian(Fraction(4)).half_width(1.0),
    ],
)
def test_laws_that_cannot_be_drawn_are_refused(wrong):
    """Floats, odd coins, a bend inside one deviation and more than 2^55 steps are refused."""
    with pytest.raises(ValueError, match=r"."):
        wrong()


def test_the_widest_laws_still_fit():
    """A standard deviation of nearly 2^55 steps is drawn whole, far from the 64-bit edge."""
    wide = [Gaussian(Fraction(2**110)), Laplace(Fraction(2**54)), Stitched(2**108, 3 * 2**54)]
    for law in wide:
        assert 2**50 < max(map(abs, law.draw(50))) < 2**62


# The stitched sampler, with a seeded source: ours to prove.


class Seeded:
    """A source that repeats itself, for tests only."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def bits(self, count):
        return self.random.getrandbits(count) if count else 0


class Ones:
    """Every bit is one."""

    def bits(self, count):
        return 2**count - 1


@pytest.mark.parametrize("law", [Stitched(4, 6), Stitched(7, 5), Stitched(90, 28)])
def test_proposal_times_acceptance_is_the_stitched_law(law):
    """|k|/b + x(k) - h(k) is one constant for every k, exactly, and x(k) is never negative."""

    def h(k):
        if abs(k) <= law.bend:
            return Fraction(k * k, 2 * law.variance)
        return Fraction(law.bend * abs(k), law.variance) - Fraction(law.bend**2, 2 * law.variance)

    b = law._scale
    gaps = {Fraction(abs(k), b) + law.excess(k) - h(k) for k in range(-200, 201)}
    assert gaps == {Fraction(law.variance, 2 * b * b)}
    assert min(law.excess(k) for k in range(-200, 201)) >= 0
    assert all(float(h(k)) == pytest.approx(law.h(k)) for k in range(-200, 201))


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 3)])
def test_bernoulli_exp_has_its_probability(x):
    """exp(-x), within chance at 1e-9; a rate 5% off is rejected for x > 0."""
    source, p = Seeded(5), math.exp(-x)
    seen = sum(bernoulli_exp(x, source) for _ in range(100_000))
    slack = Z * math.sqrt(100_000 * p * (1 - p))
    assert abs(seen - 100_000 * p) <= slack
    if x:
        assert abs(seen - 95_000 * p) > slack


def test_below_is_uniform():
    """Rejection gives every residue the same chance."""
    seen = np.bincount([below(5, Seeded(i)) for i in range(2000)], minlength=5)
    source = Seeded(9)
    many = np.bincount([below(5, source) for _ in range(50_000)], minlength=5)
    assert len(seen) == len(many) == 5
    assert np.abs(many - 10_000).max() < Z * math.sqrt(50_000 * 0.2 * 0.8)
    assert below(1, source) == 0


def test_stitched_sampler_with_a_seeded_source_fits_its_law():
    """Proposals and acceptances from one seeded source give the stitched law point by point."""
    law, source, kept = Stitched(9, 9), Seeded(2), []
    while len(kept) < 30_000:
        k = seeded_laplace(law._scale, source)
        if law.keeps(k, source):
            kept.append(k)
    kept = np.array(kept)
    for k in range(-14, 15):
        p = law.pmf(k)
        assert abs((kept == k).sum() - 30_000 * p) < Z * math.sqrt(30_000 * p * (1 - p)) + 1


def seeded_laplace(scale, source):
    """A discrete Laplace from geometric coins: sign and length, minus zero thrown away."""
    while True:
        length = 0
        while bernoulli_exp(Fraction(1, scale), source):
            length += 1
        negative = source.bits(1)
        if length or not negative:
            return -length if negative else length


# No seed: nothing repeats.


def four_hundred_of_each():
    wide = [Gaussian(Fraction(2**80)), Laplace(Fraction(2**40)), Stitched(2**80, 3 * 2**40)]
    return [law.draw(4) for law in wide] + [Binomial(1000).draw(100)]


def test_forked_processes_draw_differently():
    """A worker forked after the parent has drawn shares no draw with it or its sibling."""
    four_hundred_of_each()
    seen = [repr(four_hundred_of_each())]
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, repr(four_hundred_of_each()).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            seen.append(pipe.read())
        os.waitpid(child, 0)
    seen.append(repr(four_hundred_of_each()))
    by_kind = zip(*map(eval_list, seen), strict=True)
    assert all(len({repr(one) for one in kind}) == 4 for kind in by_kind)


def eval_list(text):
    import ast

    return ast.literal_eval(text)


def test_two_processes_draw_differently():
    """Two fresh interpreters share no draw."""
    code = (
        "from fractions import Fraction; from sulq.privacy.noise import *; "
        "print(Gaussian(Fraction(2**80)).draw(2), Laplace(Fraction(2**40)).draw(2), "
        "Stitched(2**80, 3 * 2**40).draw(2), SystemSource().bits(64))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = (set(run.stdout.replace("[", "").replace("]", "").split()) for run in runs)
    assert first
    assert not first & second


def test_the_system_source_gives_the_bits_asked_for():
    """Every length is in range, and all bits are used."""
    source = SystemSource()
    for count in (0, 1, 7, 8, 9, 65):
        values = [source.bits(count) for _ in range(300)]
        assert all(0 <= value < 2**count for value in values)
        assert not count or max(values) >= 2 ** (count - 1)

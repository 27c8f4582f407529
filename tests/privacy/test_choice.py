"""Choices: the law is the one that was proved, and no row moves it further than its price."""

import math
import random
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, norm
from soak import times

import sulq
from sulq.privacy.choice import (
    FARTHEST,
    MAX_ROWS,
    UNIFORM,
    UNIT,
    Choosing,
    Weights,
    choose,
    choosing,
)
from sulq.questions.percentile_choice import _distances

pytestmark = pytest.mark.real_noise

SHARES = [Fraction(1, 2), Fraction(9, 10), Fraction(1, 20)]


def promise(noise, guarantee, queries=10):
    return sulq.Promise(1.0, 1e-6, queries, noise=noise, guarantee=guarantee)


def edges(counts, share):
    """The rows below each edge less the share, in parts of one row."""
    below = np.concatenate([[0], np.cumsum(counts)])
    return below * share.denominator - share.numerator * below[-1]


def log_law(counts, share, target, rate):
    """ln of the probability of every cell."""
    score = -float(rate) * _distances(edges(counts, share), target)
    return score - np.logaddexp.reduce(score)


def width_of_range(one, other, share, target, rate):
    """How far apart the log-ratios of two tables' laws are."""
    ratio = log_law(one, share, target, rate) - log_law(other, share, target, rate)
    return ratio.max() - ratio.min()


@pytest.mark.parametrize("share", SHARES)
def test_no_row_moves_a_choice_further_than_the_proof_says(share):
    """Random tables, targets and rows: the range is at most 2 c M, 2 c for a row that moves.

    Both are reached within 1%, so a price 5% low would be seen.
    """
    pick = random.Random(int(1000 * share))
    most, worst = max(share, 1 - share), {"none": 0.0, "other": 0.0}
    for _ in range(times(400, 20_000)):
        size = pick.randint(2, 12)
        counts = np.array([pick.choice([0, 0, 1, 2, 7]) for _ in range(size)])
        a, b = pick.randrange(size), pick.randrange(size)
        more, moved = counts.copy(), counts.copy()
        more[a] += 1
        moved[b] += 1
        rate = Fraction(pick.randint(1, 100), 100 * share.denominator)
        target = pick.choice([0, 0, -1, 1]) * pick.randint(0, 9 * share.denominator)
        per_row = float(rate * share.denominator)
        none = width_of_range(more, counts, share, target, rate) / per_row
        other = width_of_range(more, moved, share, target, rate) / per_row
        worst = {"none": max(worst["none"], none), "other": max(worst["other"], other)}
    assert worst["none"] <= 2 * most + 1e-9
    assert worst["other"] <= 2 + 1e-9
    assert worst["none"] > 0.99 * 2 * float(most)
    assert worst["other"] > 0.99 * 2


def test_a_bounded_range_is_a_normal_answer():
    """Lemma 1: for all ranges and places, the normal laws that it needs are no further apart."""
    for eta in (0.01, 0.3, 1.0, 3.0, 10.0):
        places = np.linspace(-12 - eta, 12, 4001)
        far = norm.ppf(1 / (1 + np.exp(-places - eta))) - norm.ppf(1 / (1 + np.exp(-places)))
        bound = math.sqrt(2 * math.pi) / 4 * eta
        assert far.max() <= bound * (1 + 1e-9)
        assert eta > 1 or far.max() > 0.97 * bound  # 5% less would be seen


def test_beliefs_gain_no_more_than_the_moments_say():
    """Lemma 2: random beliefs about a row, random tables, moments from 1 to 20."""
    pick = np.random.default_rng(8)
    worst = 0.0
    for _ in range(times(300, 5_000)):
        size, rate = pick.integers(2, 9), Fraction(int(pick.integers(1, 60)), 100)
        counts = pick.integers(0, 4, size)
        laws = []
        for cell in range(size):
            table = counts.copy()
            table[cell] += 1
            laws.append(log_law(table, Fraction(1, 2), 0, rate / 2))
        laws = np.exp(np.array(laws))
        on, off = pick.dirichlet(np.full(size, 0.2), 2)
        truth = pick.integers(size)
        gain = np.log(on @ laws) - np.log(off @ laws)
        for s in (1.0, 2.0, 6.0, 20.0):
            moment = math.log(float(laws[truth] @ np.exp(s * gain)))
            bound = (s * s + s) * (2 * float(rate)) ** 2 / 8
            worst = max(worst, moment / bound)
    assert 0.5 < worst <= 1


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
@pytest.mark.parametrize("share", SHARES)
def test_three_choices_cost_one_query(noise, guarantee, share):
    """What the proof says they cost together is at most 1, and above 0.999."""
    made, p = promise(noise, guarantee), choosing(promise(noise, guarantee), share)
    reach = 2 * max(share, 1 - share) if guarantee == "dp" else 2
    ranges = [float(reach * rate) for rate in (p.value, p.ends, p.ends)]
    if noise == "laplace":
        paid = sum(ranges) * made.queries / made.epsilon
    else:
        each = math.pi / 8 if guarantee == "dp" else 1 / 4
        paid = sum(each * r * r for r in ranges) * made.variance
    assert 0.999 < paid <= 1 + 1e-12


RATES = [Fraction(32), Fraction(7, 2), Fraction(1, 3), Fraction(1, 1000), Fraction(3, 10**9),
         Fraction(1, 10**13), Fraction(FARTHEST, MAX_ROWS * 10_000)]  # fmt: skip


@pytest.mark.parametrize("rate", RATES)
def test_weights_are_those_of_the_law(rate):
    """Every weight is exp(-rate k) within a factor 1 +- 2^-96, at every scale of distances.

    A factor that is off by 2^-90 would be seen.
    """
    weights = Weights.of(rate)
    most, pick = weights.farthest, random.Random(3)
    assert most == math.floor(FARTHEST / rate)
    some = {0, 1, 17, 255, 256, 257, 65_535, 65_536, most - 1, most, most + 1, 2 * most}
    some |= {pick.randrange(most + 1) for _ in range(200)}
    some |= {int(most ** pick.random()) for _ in range(200)}
    distances = [k for k in sorted(some) if k >= 0]
    exact = Context(prec=140)
    for k, weight in zip(distances, weights.at(np.array(distances)), strict=True):
        at = rate * min(k, most)
        ratio = exact.divide(Decimal(at.numerator), Decimal(at.denominator))
        power = exact.exp(ratio.copy_negate())
        off = exact.subtract(exact.divide(Decimal(weight), exact.multiply(power, UNIT)), 1)
        assert off.copy_abs() < Decimal(2) ** -96
        assert weight > 2**99


def test_the_whole_circle_of_uniform_numbers_gives_the_law():
    """Cells have their shares of all uniform numbers, and 0 is the nearest one. No chance."""
    distances, weights = np.array([3, 1, 0, 0, 4, 90]), Weights.of(Fraction(1, 2))
    steps = 5000
    found = [choose(distances, weights, (2**UNIFORM * i) // steps) for i in range(steps)]
    shares = np.bincount(found, minlength=6) / steps
    law = np.exp(-0.5 * distances)
    assert np.abs(shares - law / law.sum()).max() < 2 / steps
    assert found[0] == 2
    assert choose(distances, weights, 2**UNIFORM - 1) == 1  # the last one, going round


def test_draws_fit_the_law_and_no_other():
    """40,000 choices fit their rate and not one 12% off. False alarm: 1e-9."""
    distances, rate, runs = np.array([5, 2, 0, 1, 4, 7]), Fraction(1, 4), 40_000
    uniform = Choosing(rate, rate).draw(runs)
    assert len(set(uniform)) == runs
    assert max(uniform).bit_length() > UNIFORM - 8
    seen = np.bincount([choose(distances, Weights.of(rate), u) for u in uniform], minlength=6)

    def p_value(wanted):
        weights = np.exp(-wanted * distances)
        expected = runs * weights / weights.sum()
        return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)

    assert p_value(0.25) > 1e-9
    assert p_value(0.25 * 1.12) < 1e-9

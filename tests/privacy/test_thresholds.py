"""Thresholds: a value that one alone has is named no more often than was set aside for it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import sulq
from sulq.privacy.noise import Gaussian, Laplace, SystemNoise
from sulq.privacy.promise import beliefs_variance
from sulq.privacy.thresholds import deviations, least_count, reach, threshold, widest
from sulq.questions.discovery import Discovery

UNIT = 1024


def law(std):
    return Gaussian(Fraction(std) ** 2 * UNIT**2)


def laplace(scale):
    return Laplace(Fraction(scale) * UNIT)


def chance_above(gaussian, steps):
    """The exact probability that a discrete Gaussian or Laplace is at least so many steps."""
    if isinstance(gaussian, Laplace):
        each = 1 / float(gaussian.scale)
        tail = math.exp(-each * abs(steps if steps > 0 else 1 - steps)) / (1 + math.exp(-each))
        return tail if steps > 0 else 1 - tail
    reach = math.ceil(12 * gaussian.std) + abs(steps)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(gaussian.variance)))
    return float(weights[steps + reach :].sum() / weights.sum())


@pytest.mark.parametrize("rows_each", [1, 2, 7])
@pytest.mark.parametrize("chance", [1e-9, 1e-4, 0.2])
@pytest.mark.parametrize("std", [Fraction(1, 50), 1, 40])
@pytest.mark.parametrize("law", [law, laplace])
def test_rows_of_one_alone_are_named_with_at_most_the_chance(law, std, chance, rows_each):
    """However m rows fall on values that nobody else has; one row fewer in the way is too many."""
    gaussian, least = law(std), 5
    limit = threshold(gaussian, UNIT, chance, least, rows_each)
    named = [
        chance_above(gaussian, limit - (least - 1 + y) * UNIT) for y in range(1, rows_each + 1)
    ]
    assert all(y * named[rows_each // y - 1] <= chance for y in range(1, rows_each + 1))
    lower = limit - math.ceil(0.4 * gaussian.std) - 2
    worse = [chance_above(gaussian, lower - (least - 1 + y) * UNIT) for y in (1, rows_each)]
    assert max(rows_each * worse[0], worse[1]) > chance


@pytest.mark.real_noise
@pytest.mark.parametrize("law", [law, laplace])
def test_a_single_value_is_named_no_more_often_than_the_share(law):
    """30,000 draws at a share of 1e-3; half the threshold names far more. False alarm: 1e-6."""
    draws, chance = 30_000, 1e-3
    gaussian = law(5)
    limit = threshold(gaussian, UNIT, chance, 1, 1)
    found = [[str(i), 1] for i in range(draws)]
    noise = SystemNoise().draw(gaussian, draws)
    most = binom.ppf(1 - 1e-6, draws, chance)

    def named(steps):
        sought = Discovery("word", 10, threshold=steps)
        return len(sought.named(found, UNIT, iter(noise)))

    assert named(limit) <= most
    assert named(limit // 2) > most  # the control


def test_a_threshold_that_is_asked_for_is_reached():
    """`widest` is the most noise for a threshold: a hundredth more noise is too much."""
    for at_least, chance, least, each in [(2, 0.01, 1, 1), (50, 1e-7, 3, 1), (900, 1e-9, 4, 8)]:
        std = widest(at_least, chance, least, each)
        assert threshold(law(std), UNIT, chance, least, each) <= at_least * UNIT
        assert threshold(law(std * Fraction(103, 100)), UNIT, chance, least, each) > at_least * UNIT
        scale = widest(at_least, chance, least, each, "laplace")
        assert threshold(laplace(scale), UNIT, chance, least, each) <= at_least * UNIT
        more = laplace(scale * Fraction(103, 100))
        assert threshold(more, UNIT, chance, least, each) > at_least * UNIT
    assert widest(1, 0.01, 1, 1) == 0
    assert reach(Fraction(0), 0.1, 3) == 3
    assert deviations(0.5) == 0


def test_few_values_are_looked_at_whatever_there_are():
    """n divided by the least count is at most 65,536, for every n."""
    for rows in (0, 1, 65_536, 65_537, 10**6, 10**9 + 1):
        assert least_count(rows) >= 1
        assert rows // least_count(rows) <= 65_536


def test_noise_is_for_what_is_left_of_the_promise():
    """R is that of epsilon + ln(1 - share) and delta - share, under both guarantees."""
    plain = sulq.Promise(1.0, 1e-3, 10)
    aside = sulq.Promise(1.0, 1e-3, 10, discoveries=4, share=4e-4)
    needed = beliefs_variance(1.0 + math.log1p(-4e-4), 6e-4, 10)
    assert aside.variance == pytest.approx(needed, rel=1e-9)
    assert aside.variance > plain.variance
    dp = [sulq.Promise(1.0, 1e-3, 10, guarantee="dp", discoveries=d).variance for d in (0, 4)]
    assert dp[0] < dp[1] < 1.05 * dp[0]
    assert sulq.Promise(1.0, 1e-3, 10, discoveries=4).share == pytest.approx(1e-4)


def test_laplace_noise_leaves_all_of_delta_to_discoveries():
    """Its scale is that of epsilon + ln(1 - share); without discoveries there is no delta."""
    aside = sulq.Promise(1.0, 1e-3, 10, noise="laplace", discoveries=4)
    assert aside.share == aside.delta == 1e-3
    assert float(aside.scale) == pytest.approx(10 / (1 + math.log1p(-1e-3)), rel=1e-9)
    assert aside.scale * Fraction(1.0 + math.log1p(-1e-3)) >= 10
    assert aside.belief(0.5, facts=10) == aside.belief(0.5)
    assert "1,000" in str(aside)
    assert sulq.Promise.from_json(aside.to_json()) == aside
    plain = sulq.Promise(1.0, 1e-3, 10, noise="laplace")
    assert (plain.delta, plain.scale) == (0.0, 10)


def test_a_promise_without_discoveries_is_what_it_was():
    """Nothing about them is written down, so that ledgers begun before open as they did."""
    assert "discoveries" not in sulq.Promise(1.0).to_json()
    said = sulq.Promise(1.0, discoveries=3).to_json()
    assert said["discoveries"] == 3
    assert sulq.Promise.from_json(said) == sulq.Promise(1.0, discoveries=3)
    assert "named 3 times" in sulq.Promise(1.0, discoveries=3).explain()


@pytest.mark.parametrize(
    "terms",
    [
        {"discoveries": -1},
        {"discoveries": 1.5},
        {"discoveries": 10**6},
        {"share": 1e-7},
        {"discoveries": 1, "share": 1e-6},
        {"discoveries": 1, "share": -1.0},
        {"discoveries": 1, "share": 0.9, "delta": 0.95},
        {"discoveries": 1, "noise": "laplace", "delta": 0.0},
        {"discoveries": 1, "noise": "laplace", "share": 2e-6},
        {"discoveries": 1, "noise": "binomial"},
        {"discoveries": 1, "noise": "stitched"},
        {"discoveries": 1, "group": "patients"},
        {"discoveries": 1, "epsilon": 1e-9, "delta": 0.5},
    ],
)
def test_what_cannot_be_set_aside_is_refused(terms):
    """A share is part of delta, for gaussian noise, in a table of its own."""
    with pytest.raises(sulq.PromiseError):
        sulq.Promise(**({"epsilon": 1.0} | terms)).variance  # noqa: B018


# ---- what a cut-off answer tells ------------------------------------------------------------


def shown(variance, cut, added):
    """The law of what is shown of a count to which the row adds so much: cut off, or a number."""
    at = np.arange(-60, 61)
    weights = np.exp(-((at - added) ** 2) / (2 * variance))
    weights /= weights.sum()
    return np.concatenate([[weights[at < cut].sum()], weights[at >= cut]])


def test_a_censored_answer_moves_beliefs_no_further():
    """E_d[(p(t|y')/p(t|y))^s] stays below exp((s^2 + s) D^2 / 2V), for every truth d.

    Half of that bound is exceeded, so a price of half would be seen.
    """
    worst = 0.0
    for variance in (4.0, 30.0):
        for cut in (-30, -3, 0, 2, 6, 40):
            laws = {added: shown(variance, cut, added) for added in range(4)}
            for d in range(4):
                for other in range(4):
                    for y in range(4):
                        for s in (1, 1.5, 4, 9):
                            ratio = laws[other] / laws[y]
                            grown = math.log(float(np.sum(laws[d] * ratio**s)))
                            d2 = max(abs(d - y), abs(other - y), abs(d - other)) ** 2
                            bound = (s * s + s) * d2 / (2 * variance)
                            assert grown <= bound + 1e-9
                            worst = max(worst, grown / bound if bound else 0)
    assert worst > 0.9

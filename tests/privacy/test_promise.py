"""The promise: its numbers, its words and what it refuses."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulq.errors import PromiseError
from sulq.privacy.chance import one_in, percent
from sulq.privacy.fitting import plan_table
from sulq.privacy.noise import Binomial, Gaussian, Laplace, Stitched
from sulq.privacy.promise import (
    NOISES,
    Promise,
    beliefs_variance,
    dp_variance,
    gdp_log_delta,
)

REFERENCE = {  # R/T at delta = 1e-6, for epsilon 0.1, 1 and 3
    beliefs_variance: (2773.09, 28.6223, 3.3953),
    dp_variance: (1318.03, 17.8479, 2.3835),
}


@pytest.mark.parametrize("formula", REFERENCE, ids=lambda f: f.__name__)
def test_reference_values(formula):
    """Both formulas give the design's numbers to four digits (dp has its 1e-5 margin)."""
    for epsilon, value in zip((0.1, 1.0, 3.0), REFERENCE[formula], strict=True):
        assert formula(epsilon, 1e-6, 1) == pytest.approx(value, rel=2.5e-5)
        assert formula(epsilon, 1e-6, 700) == pytest.approx(700 * value, rel=2.5e-5)


@given(st.floats(1e-4, 80), st.floats(1e-12, 0.5))
def test_beliefs_formula_is_the_least_of_the_moment_bound(epsilon, delta):
    """R makes min over s >= 1 of (s^2 + s) T/2R - s epsilon equal -L, found by brute force."""
    r = beliefs_variance(epsilon, delta, 1)
    best = max(1.0, (epsilon - 1 / (2 * r)) * r)
    grid = [1 + (best - 1) * i / 50 for i in range(101)]
    exponents = [(s * s + s) / (2 * r) - s * epsilon for s in grid]
    assert min(exponents) == pytest.approx(math.log(delta), rel=1e-9)


def test_both_branches_of_the_beliefs_formula_meet_at_three_l():
    """At epsilon = 3L the two branches give the same R."""
    limit = 3 * -math.log(1e-6)
    assert beliefs_variance(limit * (1 - 1e-9), 1e-6, 1) == pytest.approx(
        beliefs_variance(limit * (1 + 1e-9), 1e-6, 1), rel=1e-7
    )


@given(st.floats(1e-6, 200), st.floats(1e-12, 0.4))
def test_dp_needs_no_more_than_beliefs(epsilon, delta):
    """Definition 1 implies differential privacy, so dp never needs more noise."""
    assert dp_variance(epsilon, delta, 1) <= beliefs_variance(epsilon, delta, 1) * 1.00002


@given(st.floats(0.01, 20), st.floats(0.01, 6))
def test_log_delta_agrees_with_mpmath(epsilon, mu):
    """The logarithm of the Gaussian's hockey stick is right to 1e-7 over a wide range."""
    import mpmath

    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        if exact < 1e-300:
            return
        assert gdp_log_delta(mu, epsilon) == pytest.approx(
            float(mpmath.log(exact)), rel=1e-7, abs=1e-7
        )


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 0.5, 20, 100, 1e4, 1e12])
def test_any_positive_epsilon_works(guarantee, epsilon):
    """No epsilon overflows; noise falls as epsilon grows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        promise = Promise(epsilon, 1e-6, 1, guarantee=guarantee)
        more = Promise(epsilon * 2, 1e-6, 1, guarantee=guarantee)
    assert 0 < more.variance <= promise.variance < math.inf
    assert 0.5 <= promise.belief(0.5) <= 1
    assert str(promise)
    assert promise.explain(rows=100)


def test_exact_variance_is_never_below_the_formula():
    """Pricing's R is rounded up, and hardly."""
    for guarantee, formula in (("beliefs", beliefs_variance), ("dp", dp_variance)):
        promise = Promise(0.7, 1e-7, 321, guarantee=guarantee)
        needed = Fraction(formula(0.7, 1e-7, 321))
        assert needed < promise.exact_variance < needed * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": True},
        {"epsilon": "1"},
        {"epsilon": None},
        {"epsilon": 1j},
        {"epsilon": 1e-300},
        {"epsilon": 10**400},
        {"queries": 10**40},
        {"delta": 0},
        {"delta": 1},
        {"delta": 1.5},
        {"delta": -1e-9},
        {"delta": math.nan},
        {"delta": "1e-6"},
        {"delta": False},
        {"queries": 0},
        {"queries": -3},
        {"queries": 2.0},
        {"queries": "1_000"},
        {"queries": True},
        {"queries": math.inf},
        {"noise": "cauchy"},
        {"noise": None},
        {"guarantee": "DP"},
        {"guarantee": ["dp"]},
        {"noise": "laplace", "delta": -0.1},
        {"noise": "binomial", "delta": 0},
        {"noise": "stitched", "delta": 0},
    ],
)
def test_nonsense_is_refused_and_named(wrong):
    """A refused promise says what was given."""
    with pytest.raises(PromiseError) as refused:
        Promise(**{"epsilon": 1.0, "delta": 1e-6, "queries": 10} | wrong)
    assert next(iter(wrong)) in str(refused.value) or next(reversed(wrong)) in str(refused.value)


def test_above_twenty_it_warns_that_it_says_little():
    """epsilon = 20 is silent, 21 warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Promise(20)
    with pytest.warns(UserWarning, match="says little"):
        Promise(21)


def test_beliefs_move_by_epsilon_on_the_log_odds():
    """conf(after) - conf(before) = epsilon; certainty stays certain."""
    promise = Promise(1.0)
    assert promise.belief(0.5) == pytest.approx(0.7310585786)
    for p in (1e-9, 0.1, 0.9, 1 - 1e-9):
        after = promise.belief(p)
        gain = math.log(after / (1 - after)) - math.log(p / (1 - p))
        assert gain == pytest.approx(1, rel=1e-6)
    assert (promise.belief(0), promise.belief(1)) == (0.0, 1.0)
    with pytest.raises(PromiseError):
        promise.belief(1.1)


def test_words():
    """The promise is said in words that fit its kind."""
    plain = str(Promise(1.0, 1e-6, 1000))
    assert "50% sure of a fact about a row can become at most 73.1% sure" in plain
    assert "except with a chance of 1 in a million." in plain
    for word in ("number of rows n", "keys", "who is in the table", "public", "other rows"):
        assert word in plain
    dp = str(Promise(1.0, guarantee="dp"))
    assert "in the table" in dp
    assert "absent" in dp
    assert "a slack of 1 in a million" in dp
    assert "without exception" in str(Promise(1.0, noise="laplace"))
    for noise in ("binomial", "stitched"):
        assert "two alternatives" in str(Promise(1.0, 1e-6, 10, noise=noise))


@pytest.mark.parametrize("noise", NOISES)
def test_two_alternatives_are_named_under_dp_too(noise):
    """Under dp the alternatives are in the table and absent, whatever the noise."""
    text = Promise(1.0, 1e-6, 10, noise=noise, guarantee="dp").explain()
    assert "absent" in text
    assert ("two alternatives" in text) == (noise in ("binomial", "stitched"))


def test_explain_puts_the_sampling_error_beside_the_noise():
    """R < n/4 is where the noise is below the sampling error."""
    promise = Promise(1.0, 1e-6, 100)  # R = 2862
    few, many = promise.explain(rows=11_000), promise.explain(rows=12_000)
    assert "above it" in few
    assert "below it" in many
    assert "96.1%" in few
    with pytest.raises(PromiseError, match="rows"):
        promise.explain(rows=0)


@pytest.mark.parametrize(
    ("p", "text"), [(0.5, "50%"), (0.7310585, "73.1%"), (0.99999, "99.999%"), (0.0004, "0.04%")]
)
def test_percentages_never_round_to_certainty(p, text):
    """A belief below 1 never prints as 100%."""
    assert percent(p) == text
    assert percent(1 - 1e-15).startswith("more than")


@pytest.mark.parametrize(
    ("p", "text"),
    [(1e-6, "1 in a million"), (1e-9, "1 in a billion"), (2.5e-7, "1 in 4 million"),
     (3e-7, "1 in 3.33 million"), (1e-5, "1 in 100,000"), (0.01, "1 in 100"), (0.3, "30%"),
     (0.07, "1 in 14"), (1e-18, "1 in 10^18"), (2e-16, "1 in 10^15"), (5e-324, "1 in 10^323")],
)  # fmt: skip
def test_small_chances_are_one_in_so_many(p, text):
    """A chance is said in words, and never as less than it is."""
    assert one_in(p) == text


def test_percent_of_certainty():
    """Certainty prints as it is."""
    assert (percent(0.0), percent(1.0)) == ("0%", "100%")


def test_json_round_trip():
    """A promise survives JSON, and an unknown field is refused."""
    for noise in NOISES:
        promise = Promise(0.3, 1e-8, 77, noise, "dp")
        assert Promise.from_json(json.loads(json.dumps(promise.to_json()))) == promise
    with pytest.raises(PromiseError):
        Promise.from_json({"epsilon": 1.0, "seed": 7})
    with pytest.raises(PromiseError):
        Promise.from_json({"delta": 1e-6})


def test_laplace_promises_delta_zero():
    """Laplace accepts any delta and promises none; its scale is T/epsilon exactly."""
    assert Promise(0.5, 1e-6, 10, "laplace") == Promise(0.5, 0, 10, "laplace")
    promise = Promise(0.5, 1e-6, 10, "laplace")
    assert promise.delta == 0
    assert promise.law(1) == Laplace(Fraction(20))
    assert promise.law(2**10) == Laplace(Fraction(20 * 2**10))
    assert promise.law(1, Fraction(1, 4)) == Laplace(Fraction(10))
    assert promise.law(1, 2).scale ** 2 >= 20**2 * 2
    assert promise.variance == 800


def test_gaussian_law_is_r_on_the_grid():
    """Variance in steps is R unit^2 dilation, and 3 steps^2 more under dp."""
    beliefs, dp = Promise(1.0), Promise(1.0, guarantee="dp")
    assert beliefs.law(2**10) == Gaussian(beliefs.exact_variance * 2**20)
    assert beliefs.law(1, Fraction(1, 3)) == Gaussian(beliefs.exact_variance / 3)
    assert dp.law(2**12, 5) == Gaussian(dp.exact_variance * 5 * 2**24 + 3)
    with pytest.raises(PromiseError, match="1024"):
        dp.law(1023)


def test_binomial_law_is_coins_on_whole_numbers():
    """Coins live on whole numbers, with one variance: coins/4."""
    promise = Promise(1.0, 1e-6, 10, "binomial")
    assert promise.law(1) == Binomial(promise.coins)
    assert promise.variance == promise.coins / 4
    assert promise.coins % 2 == 0
    with pytest.raises(PromiseError, match="unit"):
        promise.law(2)
    with pytest.raises(PromiseError, match="one variance"):
        promise.law(1, 2)
    with pytest.raises(PromiseError, match="bend"):
        _ = promise.bend


def test_stitched_law_bends_at_exactly_three_roots():
    """V is a square no smaller than R unit^2 and the bend is three times its root."""
    promise = Promise(1.0, 1e-6, 10, "stitched")
    for unit in (2**10, Fraction(10_001, 7)):
        law = promise.law(unit)
        assert isinstance(law, Stitched)
        root = math.isqrt(law.variance)
        assert root**2 == law.variance
        assert law.bend == 3 * root
        needed = promise.exact_variance * Fraction(unit) ** 2
        assert needed <= law.variance <= needed * (1 + Fraction(1, 1000))
    assert promise.bend == pytest.approx(3 * math.sqrt(promise.variance))
    with pytest.raises(PromiseError, match="1024"):
        promise.law(1000)
    with pytest.raises(PromiseError, match="one variance"):
        promise.law(1024, Fraction(1, 2))
    with pytest.raises(PromiseError, match="coins"):
        _ = promise.coins


@pytest.mark.parametrize("unit", [0, -1, 1.0, True, "1"])
def test_unit_and_dilation_are_exact_and_positive(unit):
    """Floats never enter the law's parameters."""
    with pytest.raises(PromiseError, match="unit"):
        Promise(1.0).law(unit)
    with pytest.raises(PromiseError, match="dilation"):
        Promise(1.0).law(1, unit)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_that_does_not_fit_the_grid_is_refused(noise):
    """An absurd error is a refusal, not a crash."""
    with pytest.raises(PromiseError, match="grid"):
        Promise(1.0, noise=noise).law(2**10, 10**80)


def test_plan_table():
    """The plan lists every pair with the noise beside the sampling error."""
    lines = plan_table(10_000, [10, 100], [0.5, 1.0])
    assert [(line["queries"], line["epsilon"]) for line in lines] == [
        (10, 0.5),
        (10, 1.0),
        (100, 0.5),
        (100, 1.0),
    ]
    last = lines[-1]
    assert last["variance"] == pytest.approx(2862.23, rel=1e-4)
    assert last["sampling"] == 50
    assert last["ratio"] == pytest.approx(last["std"] / 50)
    assert last["half_width"] == pytest.approx(1.959964 * last["std"], rel=1e-4)


def test_importing_the_promise_is_light():
    """Neither OpenDP, dp-accounting nor scipy's statistics is loaded by importing the promise."""
    import subprocess
    import sys

    code = (
        "import sys, sulq.privacy.promise; "
        "print([m for m in ('opendp', 'scipy.stats', 'dp_accounting') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

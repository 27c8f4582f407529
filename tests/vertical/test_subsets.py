"""The paper's Test and binary search: Theorems 2 and 3 on exact sums, and on two databases."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from soak import in_soak, times
from vertical.data import two

import sulq
from sulq import vertical
from sulq.vertical.subsets import (
    Heavy,
    SubsetNoise,
    SubsetPower,
    advantage,
    enough_tests,
    heavy_share,
    heavy_subsets,
    possible,
)

N = 100_000


def halves(p_a, p_b, delta, count, rng):
    """Exact sums of a and b over random halves of a fixed table, and its probabilities."""
    both = p_a * (p_b + delta)
    table = np.round(np.array([both, p_a - both, p_b - both, 1 - p_a - p_b + both]) * N)
    table = table.astype(np.int64)
    table[3] += N - table.sum()
    found = rng.multivariate_hypergeometric(table, N // 2, size=count, method="marginals")
    sums = (found[:, 0] + found[:, 1], found[:, 0] + found[:, 2])
    return (*(x.astype(float) for x in sums), (table[0] + table[1]) / N, (table[0] + table[2]) / N)


def heavy_ones(p_a, p_b, delta, count, rng, noise=0.0, total=0.0):
    """`count` heavy halves, with normal noise of this variance on every sum, and on totals."""
    a, b, p_a, p_b = halves(p_a, p_b, delta, 16 * count + 200, rng)
    a, b = (x + rng.normal(size=len(x)) * math.sqrt(noise) for x in (a, b))
    std = math.sqrt(total) / N
    p_a, p_b = (p + rng.normal() * std for p in (p_a, p_b))
    sizes = np.full(len(a), N / 2)
    heavy, bias = heavy_subsets(a, sizes, p_a, N, noise)
    heavy, bias = heavy[:count], bias[:count]
    return Heavy(sizes[heavy], bias, b[heavy], p_a, p_b, std, std)


GRID = list(itertools.product((0.2, 0.5), (0.3, 0.6), (-0.08, 0.0, 0.08)))


@pytest.mark.parametrize(("p_a", "p_b", "delta"), GRID)
def test_theorem_2(p_a, p_b, delta):
    """The Test is on the right side of one half, by the promised advantage; false alarm 1e-9."""
    tests, rng = 4000, np.random.default_rng(1)
    found = heavy_ones(p_a, p_b, delta, tests, rng)
    slack = 6.2 * 0.5 / math.sqrt(tests)
    for gap in (0.0, 0.03, 0.1):
        assert found.votes(delta - gap) / tests >= 0.5 - slack
        assert found.votes(delta + gap) / tests <= 0.5 - advantage(p_a, p_b, gap) + slack
    assert found.votes(delta - 0.1) / tests > 0.5 + slack  # with teeth: it does tell
    assert found.votes(delta + 0.1) / tests < 0.5 - slack


def test_heavy_halves_are_eight_in_a_hundred():
    """The paper's one standard deviation is 1.41 of those of a half of the table itself."""
    a, _, p_a, _ = halves(0.3, 0.4, 0.05, 20_000, np.random.default_rng(2))
    heavy, bias = heavy_subsets(a, np.full(len(a), N / 2), p_a, N)
    count = binom.ppf([1e-9, 1 - 1e-9], len(a), heavy_share())
    assert count[0] <= len(heavy) <= count[1]
    assert heavy_share() == pytest.approx(0.0786, abs=1e-3)
    assert bias.min() >= math.sqrt(N / 2 * p_a * (1 - p_a))


def test_theorem_3():
    """Binary search ends within epsilon but with the stated probability; a tenth of the Tests
    does not do.
    """
    rng, epsilon, failure, searches = np.random.default_rng(3), 0.1, 0.1, 60
    needed = enough_tests(0.3, 0.4, epsilon, failure)

    def missed(tests):
        ends = [heavy_ones(0.3, 0.4, 0.05, tests, rng).delta for _ in range(searches)]
        return sum(abs(end - 0.05) > epsilon for end in ends)

    most = binom.ppf(1 - 1e-9, searches, failure)
    assert missed(needed) <= most
    assert missed(needed // 20) > most


@pytest.mark.parametrize(("noise", "total"), [(0.0, 0.0), (3000.0, 0.0), (3e4, 3e4)])
def test_the_sign_test_covers(noise, total):
    """95% intervals cover at least 90% of 200 times, with noise far above the signal too.

    True 95% falls below once in 500 draws of seeds, which are fixed. Without taking the noise
    out of the bias the middle is too low; without the noise of the totals, which all Tests
    share, intervals are too short.
    """
    rng, runs, covered, raw, short = np.random.default_rng(4), 200, 0, [], 0
    middles = []
    for _ in range(runs):
        found = heavy_ones(0.3, 0.4, 0.2, 40, rng, noise, total)
        middles.append(found.delta)
        low, high = replace(found, p_a_std=0.0, p_b_std=0.0).delta.interval()
        short += low <= 0.2 <= high
        low, high = found.delta.interval()
        covered += low <= 0.2 <= high
        if noise:
            variance = N / 4 * 0.21
            raw.append(replace(found, bias=found.bias * (variance + noise) / variance).delta)
    assert covered >= 0.9 * runs
    if not total:
        assert np.mean(middles) == pytest.approx(0.2, abs=0.02)
    if total:
        assert short < 0.9 * runs
    elif noise:
        assert np.mean(raw) < 0.17


def test_too_few_heavy_subsets_say_nothing():
    """Five Tests have no 95% interval but all that is possible; none has no middle either."""
    rng = np.random.default_rng(5)
    for count in (0, 5):
        found = heavy_ones(0.3, 0.4, 0.05, count, rng).delta
        assert found.interval() == possible(0.3, 0.4)
    assert heavy_ones(0.3, 0.4, 0.05, 6, rng).delta.interval() != possible(0.3, 0.4)


def test_an_answer_beyond_all_that_can_be_is_no_certainty():
    """If even the least possible delta is voted down, the interval is everything, not a point."""
    count = 40
    found = Heavy(np.full(count, 100.0), np.full(count, 5.0), np.full(count, 1.0), 0.3, 0.4)
    assert found.delta.interval() == possible(0.3, 0.4)


def test_the_advantage_is_the_theorems():
    """Phi(epsilon sigma_a / (1 - p_a) / sd) - 1/2, sd^2 = p_b (1 - p_b) (1 - N/n) N."""
    assert advantage(0.3, 0.4, 0.05) == pytest.approx(0.0376405, rel=1e-5)
    assert advantage(0.3, 0.4, 0.05, rate=0.01) == pytest.approx(0.0267696, rel=1e-5)


@pytest.mark.parametrize(("p_a", "p_b"), [(0.3, 0.4), (0.8, 0.7), (0.5, 0.05)])
def test_what_is_possible(p_a, p_b):
    """Delta where the 2x2 table has a cell that is zero."""
    low, high = possible(p_a, p_b)
    assert p_a * (p_b + low) == pytest.approx(max(0, p_a + p_b - 1))
    assert p_a * (p_b + high) == pytest.approx(min(p_a, p_b))


# --- on two databases --------------------------------------------------------------------------


def test_the_procedure_on_two_databases():
    """Through questions and answers: the right delta, b asked about heavy subsets only."""
    hospital, insurer, a, b = two(2000, delta=0.4, epsilon=1e6, queries=1000)
    options = {"method": "test", "subsets": 150}
    plan = vertical.plan(vertical.implication, hospital, "a", insurer, "b", **options)
    assert [p.queries for p in plan.prices] == pytest.approx([165, 165], rel=1e-6)
    found = vertical.implication(hospital, "a", insurer, "b", **options)
    low, high = found.interval(0.9999)
    assert low <= b[a].mean() - b.mean() <= high
    heavy = int(found.note.split()[0])
    assert 1 <= heavy < 60
    assert float(insurer.budget.spent) == pytest.approx(15 + heavy, rel=1e-6)
    assert found.price[1].queries == insurer.budget.spent
    assert found.p_b_given_a == pytest.approx(found.p_b + found.delta)
    again = vertical.implication(hospital, "a", insurer, "b", **options)
    assert again.delta == found.delta
    assert float(hospital.budget.spent) == pytest.approx(165, rel=1e-6)


def test_a_budget_is_kept():
    """Planned prices are within it, and are what is paid."""
    hospital, insurer, _, _ = two(500, quiet=False, queries=10)
    options = {"method": "test", "subsets": 20, "budget": 10}
    plan = vertical.plan(vertical.implication, hospital, "a", insurer, "b", **options)
    assert all(9.99 < float(p) <= 10 for p in plan.prices)
    vertical.implication(hospital, "a", insurer, "b", **options)
    assert hospital.budget.spent <= 10
    assert insurer.budget.spent <= 10


def test_a_side_that_could_not_pay_is_known_before():
    """Neither side is charged."""
    hospital, _, _, _ = two(500, queries=100)
    _, insurer, _, _ = two(500, queries=5)
    with pytest.raises(sulq.BudgetExceeded):
        vertical.implication(hospital, "a", insurer, "b", method="test", subsets=20)
    assert hospital.budget.spent == insurer.budget.spent == 0


def test_accuracy_becomes_a_number_of_subsets():
    """Where there is next to no noise, the plan has as many as the theorem asks for."""
    hospital, insurer, _, _ = two(500, epsilon=1e9, queries=10_000)
    plan = vertical.plan(
        vertical.implication, hospital, "a", insurer, "b", method="test", accuracy=0.5
    )
    tests = enough_tests(0.5, 0.5, 0.5, 0.05)
    assert len(plan.rows) == pytest.approx(tests / heavy_share(), rel=0.2)  # and the totals' share
    for wrong in ({"accuracy": 2}, {"accuracy": 0.1, "confidence": 1}, {"subsets": 0},
                  {"subsets": 10**4}, {"subsets": True}):  # fmt: skip
        with pytest.raises(sulq.Refused):
            vertical.implication(hospital, "a", insurer, "b", method="test", **wrong)
    assert hospital.budget.spent == insurer.budget.spent == 0


def refused(options, *dbs):
    (hospital, insurer), options = dbs, {"method": "test"} | options
    with pytest.raises(sulq.Refused, match="no number of random halves reaches it") as caught:
        vertical.implication(hospital, "a", insurer, "b", **options)
    assert "Nothing was charged" in str(caught.value)
    assert hospital.budget.spent == insurer.budget.spent == 0
    return str(caught.value)


def test_an_accuracy_that_the_noise_forbids_is_refused():
    """1,018 halves were planned for accuracy 0.2, and gave (-0.34, 0.38). The best is named."""
    hospital, insurer, _, _ = two(500, queries=10_000)
    assert "tells anything" in refused({"accuracy": 0.2}, hospital, insurer)
    larger = two(20_000, epsilon=20.0, queries=300)[:2]
    said = refused({"accuracy": 0.05}, *larger)
    best = re.search(r"the best is ([0-9.]+), by ([0-9,]+) of them", said)
    plan = vertical.plan(
        vertical.implication, larger[0], "a", larger[1], "b", method="test",
        accuracy=float(best[1]),
    )  # fmt: skip
    assert len(plan.rows) <= int(best[2].replace(",", ""))
    assert all(p.queries <= 300 for p in plan.prices)
    for budget in (5, 1000):  # with a budget each half is noisier, the more there are
        refused({"accuracy": 0.05, "budget": budget}, *larger)


@pytest.mark.parametrize("noise", [0.0, 3000.0])
@pytest.mark.parametrize("total", [0.0, 10.0])
def test_a_planned_accuracy_is_reached(noise, total):
    """Over 60 searches with the noise planned for, at most a tenth miss; false alarm 1e-9.

    The number that release 2 planned, as if there were no noise, misses more often than that.
    """
    rng, failure, searches, accuracy = np.random.default_rng(6), 0.1, times(60, 300), 0.2
    std = math.sqrt(total) / N
    power = SubsetPower(0.3, 0.4, N / 2, SubsetNoise(noise, noise, std, std))
    tests = next(t for t in range(1, 10**5) if power.accuracy(t, failure) <= accuracy)

    def missed(count):
        found = (heavy_ones(0.3, 0.4, 0.05, count, rng, noise, total) for _ in range(searches))
        return sum(abs(f.delta - 0.05) > accuracy for f in found)

    most = binom.ppf(1 - 1e-9, searches, failure)
    assert missed(tests) <= most
    if noise > 1000:
        assert enough_tests(0.3, 0.4, accuracy, failure) < tests / 2
        assert missed(tests // 80) > most


def test_the_power_is_the_simulations():
    """Share of heavy halves and advantage with noise, against halves that were drawn."""
    rng, noise, gap, tests = np.random.default_rng(7), 20_000.0, 0.3, 4000
    power = SubsetPower(0.3, 0.4, N / 2, SubsetNoise(noise, noise))
    a, _, p_a, _ = halves(0.3, 0.4, 0.05, 20_000, rng)
    a += rng.normal(size=len(a)) * math.sqrt(noise)
    heavy, _ = heavy_subsets(a, np.full(len(a), N / 2), p_a, N, noise)
    low, high = binom.ppf([1e-9, 1 - 1e-9], len(a), power.share)
    assert low <= len(heavy) <= high
    assert not low <= heavy_share() * len(a) <= high  # with teeth: noise makes more look heavy
    found = heavy_ones(0.3, 0.4, 0.05, tests, rng, noise)
    slack = 6.2 * 0.5 / math.sqrt(tests)
    assert found.votes(0.05 + gap) / tests <= 0.5 - power.advantage(gap) + slack
    assert found.votes(0.05 + gap) / tests > 0.5 - advantage(0.3, 0.4, gap) + slack


@in_soak
def test_a_plan_that_is_affordable_reaches_what_it_says():
    """On two databases, with the product's noise; one run in twenty may miss, in fact far fewer."""
    hospital, insurer, a, b = two(20_000, delta=0.1, epsilon=20.0, queries=1500, quiet=False)
    options = {"method": "test", "accuracy": 0.3, "expected": (0.3, 0.4)}
    plan = vertical.plan(vertical.implication, hospital, "a", insurer, "b", **options)
    assert 20 < len(plan.rows) < 1362
    found = vertical.implication(hospital, "a", insurer, "b", **options)
    assert abs(found.delta - (b[a].mean() - b.mean())) <= 0.3

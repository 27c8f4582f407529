"""Three properties of which two lie in one database: every Boolean function, prices, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from vertical.data import database, people_apart

import sulq
from sulq import vertical
from sulq.vertical.blocks import BlockSums, added_up
from sulq.vertical.common_people import People
from sulq.vertical.pairwise import three_of

ALONE, FEW = 4_000, 60
FUNCTIONS = {
    "a and b and c": lambda a, b, c: a & b & c,
    "a and not b and c": lambda a, b, c: a & ~b & c,
    "not a and not b and not c": lambda a, b, c: ~a & ~b & ~c,
    "(a or b) and not c": lambda a, b, c: (a | b) & ~c,
    "a xor b xor c": lambda a, b, c: a ^ b ^ c,
    "a": lambda a, b, c: a,
    "c": lambda a, b, c: c,
    "b and c": lambda a, b, c: b & c,
    "a and b": lambda a, b, c: a & b,
    "a or true": lambda a, b, c: a | ~a,
}


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.random(n) < 0.4, rng.random(n) < 0.5
    return a, b, rng.random(n) < np.where(a & b, 0.8, 0.25)


def databases(n, seed=0, **settings):
    a, b, c = people(n, seed)
    here = database({"a": a, "b": b}, name="hospital", **settings)
    return here, database({"c": c}, name="insurer", **settings), (a, b, c)


@pytest.fixture(scope="module")
def exact():
    """No noise to speak of, everybody in a block of their own."""
    here, there, rows = databases(FEW, epsilon=1e9)
    apart = people_apart(FEW, ALONE)
    return vertical.three(here, ["a", "b"], there, "c", blocks=ALONE, seed=apart), rows


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_are_those_of_the_joined_table(exact, text):
    """Every function of three properties is near its exact share."""
    found, rows = exact
    assert found.probability(text) == pytest.approx(FUNCTIONS[text](*rows).mean(), abs=2e-3)


def test_implications_reach_across(exact):
    """A premise of both databases, and a conclusion of both."""
    found, (a, b, c) = exact
    assert found.conditional("b", given="a and c") == pytest.approx(b[a & c].mean(), abs=0.02)
    assert found.conditional("b and c", given="a") == pytest.approx((b & c)[a].mean(), abs=0.02)
    with pytest.raises(sulq.QueryNotAllowed, match="never true"):
        found.conditional("b", given="a and not a")
    assert len(found.to_json()) == 10
    assert "P[a and not b and c]" in str(found)


def test_intervals_hold_the_truth():
    """400 runs on sums with normal noise, 95% asked: 92% to 98% hold. False alarm: below 1e-6.

    Intervals half as wide hold in less than 80%.
    """
    rng, held, half, runs, blocks = np.random.default_rng(5), 0, 0, 400, 200
    a, b, c = people(4000, 1)
    truth = (a & ~b & c).mean()
    for _ in range(runs):
        cell = rng.integers(0, blocks, len(a))
        everybody = People(np.bincount(cell, minlength=blocks).astype(float))
        each = [np.bincount(cell, u, blocks) for u in (~a & ~b, ~a & b, a & ~b, a & b)]
        noisy = np.column_stack(each) + rng.normal(size=(blocks, 4)) * 3
        here = added_up(BlockSums(noisy, np.full(4, 9.0), everybody))
        there = np.bincount(cell, c, blocks)[:, None] + rng.normal(size=(blocks, 1)) * 3
        found = three_of(here, BlockSums(there, np.array([9.0]), everybody), ())
        estimate = found.probability("a and not b and c")
        low, high = estimate.interval(0.95)
        held += low <= truth <= high
        half += abs(truth - estimate) <= (high - low) / 4
    assert 0.92 * runs <= held <= 0.98 * runs + 6
    assert half < 0.8 * runs


def test_price_before_and_refusals():
    """A histogram here and a count there, as announced; refused before anything is paid."""
    here, there, _ = databases(3000, quiet=False, queries=100)
    plan = vertical.plan(vertical.three, here, ["a", "b"], there, "c", budget=5)
    vertical.three(here, ["a", "b"], there, "c", budget=5)
    assert [here.budget.spent, there.budget.spent] == [p.queries for p in plan.prices]
    spent = here.budget.spent
    for properties, other, options, said in (
        (["a"], there, {}, "want two of one database"), ("ab", there, {}, "want two of one"),
        (["a", "b"], there, {"overlap": True}, "overlap"), (["a", "b"], here, {}, "one database"),
        (["a", "nobody"], there, {}, "nobody"),
    ):  # fmt: skip
        with pytest.raises(sulq.Refused, match=said):
            vertical.three(here, properties, other, "c" if other is there else "a", **options)
    assert here.budget.spent == spent

"""Intervals of quotients: slopes, intercepts, ratios. They hold however small the divisor is."""

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

from sulq.policies import add_noise, drawn
from sulq.sql import noisy
from sulq.sql.noisy import Noisy, quotient_ends

RUNS = 40_000
AWAY = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 20.0]  # the divisor, in its noise


def held(away, ratio, seed=1):
    """How often an interval for a quotient is given, and how many of those hold it."""
    draw = np.random.default_rng(seed)
    ones = np.ones(RUNS)
    a = Noisy.released(ratio * away + draw.normal(size=RUNS), 0)
    b = Noisy.released(away + draw.normal(size=RUNS), 1)
    low, high = quotient_ends(a, b, [ones, ones], 1.96)
    given = np.isfinite(low) & np.isfinite(high) & (b.value > 0)
    inside = (low <= ratio) & (ratio <= high)
    return given.mean(), inside[given].mean() if given.any() else 1.0


@pytest.mark.parametrize("ratio", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("away", AWAY)
def test_an_interval_that_is_given_holds_what_it_says(away, ratio):
    """94% of all runs; 91% of those with ends, where that is 2% of them. The sample is fixed."""
    given, right = held(away, ratio)
    assert given * right + 1 - given > 0.94
    if given > 0.02:
        assert right > 0.91


def test_ends_that_chance_alone_gives_are_seen(monkeypatch):
    """With two standard deviations everywhere every second interval is wrong near 0."""
    monkeypatch.setattr(noisy, "CAREFUL", 2.0)
    given, right = held(0.5, 3.0)
    assert given > 0.02
    assert right < 0.8


@pytest.mark.usefixtures("every_number")
def test_a_variance_that_noise_made_negative_divides_nothing():
    """A slope has no value and no ends where the variance below it came out negative."""
    schema = {c: {"type": "number", "low": 0, "high": 1000} for c in "xy"}
    rows = pa.table({"x": [1.0] * 50, "y": [2.0] * 50})
    db = opened(rows, schema, name="t", quiet=False)
    statement = db._planner.statement("select regr_slope(y, x) as b from t")
    plan = db._planner.plan(list(statement.queries))
    exact = db._pipeline.sums([c for c, _ in plan.bundle.parts])
    ends = set()
    for _ in range(60):
        noise = drawn([plan.bundle], db._pipeline.noise)
        parts = zip(plan.bundle.parts, exact, strict=True)
        noisy_sums = [add_noise(query, tariff, sums, noise) for (query, tariff), sums in parts]
        (found,) = statement.table(plan.answers(plan.bundle.answers(noisy_sums, 0), []))
        if np.isnan(found["b"]):
            ends.add((found["b_low"], found["b_high"]))
    assert ends == {(-np.inf, np.inf)}  # never negative by chance: 2^-60

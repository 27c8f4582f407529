"""Crosstabs across databases: every pair of labels, from one histogram by block a side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2
from vertical.data import BOOLEAN, database, people_apart

import sulq
from sulq import vertical
from sulq.vertical.blocks import BlockSums, added_up
from sulq.vertical.common_people import People
from sulq.vertical.crosstabs import crosstab_of

BLOCKS = 2_000
APART = people_apart(40, BLOCKS)
COLOURS, SIZES = ["red", "green", "blue"], ["small", "large"]
CATEGORY = {"colour": {"values": COLOURS}, "size": {"values": SIZES}}


def labels(n, seed=0):
    rng = np.random.default_rng(seed)
    colour = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    size = (rng.random(n) < np.array([0.2, 0.5, 0.8])[colour]).astype(int)
    return colour, size


def databases(n, seed=0, **settings):
    colour, size = labels(n, seed)
    return (
        database({"colour": np.array(COLOURS)[colour]}, {"colour": CATEGORY["colour"]},
                 name="paint", **settings),
        database({"size": np.array(SIZES)[size]}, {"size": CATEGORY["size"]}, name="shop",
                 **settings),
        colour, size,
    )  # fmt: skip


def test_a_crosstab_is_that_of_the_joined_tables():
    """Few people, each in a block of their own, no noise: exact, 'other' included as none."""
    paint, shop, colour, size = databases(40, epsilon=1e9)
    found = vertical.crosstab(paint, "colour", shop, "size", blocks=BLOCKS, seed=APART)
    assert found.labels == ((*COLOURS, None), (*SIZES, None))
    for i, c in enumerate(COLOURS):
        for j, s in enumerate(SIZES):
            true = ((colour == i) & (size == j)).mean()
            assert found.share(c, s) == pytest.approx(true, abs=0.02)
    assert found.share(None, "small") == pytest.approx(0.0, abs=0.02)
    table = found.table()
    assert table["colour"][:2] == ["red", "red"]
    assert len(table) == 12
    assert all(lo <= x <= hi for lo, x, hi in zip(
        table["share_low"], table["share"], table["share_high"], strict=True))  # fmt: skip
    with pytest.raises(sulq.Refused, match="colour has"):
        found.share("pink", "small")


@pytest.mark.parametrize(("guarantee", "each"), [("beliefs", 2), ("dp", 1)])
def test_a_crosstab_costs_what_a_histogram_costs(guarantee, each):
    """The plan's prices are paid on both sides."""
    paint, shop, _, _ = databases(500, guarantee=guarantee, queries=each)
    plan = vertical.plan(vertical.crosstab, paint, "colour", shop, "size")
    assert [p.queries for p in plan.prices] == [each, each]
    vertical.crosstab(paint, "colour", shop, "size")
    assert paint.budget.spent == shop.budget.spent == each


def test_shares_have_the_announced_errors():
    """Mean and size of errors over 150 seeds, false alarm 1e-9 each; a tenth off fails the mean."""
    n, blocks, noise = 20_000, 300, 4.0
    colour, size = labels(n)
    rng = np.random.default_rng(1)
    true = np.array([[((colour == i) & (size == j)).mean() for j in range(2)] for i in range(3)])
    pulls = []
    for _ in range(150):
        cell = rng.integers(0, blocks, n)
        people = People(np.bincount(cell, minlength=blocks).astype(float))
        sums = []
        for column, count in ((colour, 3), (size, 2)):
            exact = np.stack([np.bincount(cell[column == k], minlength=blocks)
                              for k in range(count)], axis=1)  # fmt: skip
            noisy = exact + rng.normal(size=exact.shape) * math.sqrt(noise)
            sums.append(added_up(BlockSums(noisy, np.full(count, noise), people)))
        found = crosstab_of(sums, ("a", "b"), [tuple(COLOURS), tuple(SIZES)], (), 0)
        pulls.append((found.shares - true) / found.stds)
    z = np.array(pulls)
    assert np.all(np.abs(z.mean(axis=0)) * math.sqrt(len(z)) < 6.4)
    totals = np.square(z).sum(axis=0)
    assert np.all(chi2.cdf(totals, len(z)) < 1 - 1e-10)
    assert np.all(chi2.cdf(totals, len(z)) > 1e-10)
    off = z + 0.1 * true / found.stds
    assert not np.all(np.abs(off.mean(axis=0)) * math.sqrt(len(z)) < 6.4)


def test_a_share_that_was_moved_is_not_certain():
    """Noise says nobody has the label and that all of them go together: no share is sure."""
    sums = np.tile([[3.0, 17.0], [-3.0, 23.0]], (50, 1))
    a, b = (BlockSums(sums + i, np.full(2, 4.0), People(np.full(100, 20.0))) for i in (0, -1e-9))
    found = crosstab_of([a, b], ("x", "y"), [("t", "f"), ("t", "f")], (), 0)
    low, high = found.interval()
    assert found.shares[0, 0] == pytest.approx(0.0, abs=1e-9)
    assert high[0, 0] > 1.96 * 2.0 * math.sqrt(100) / 2000
    assert low[0, 0] == 0.0


def test_booleans_are_categories_too():
    """Two Booleans give a table of their pairs."""
    a = np.arange(39) % 3 == 0
    one, other = (
        database({"p": x}, BOOLEAN, name=n, epsilon=1e9) for x, n in ((a, "x"), (~a, "y"))
    )
    found = vertical.crosstab(one, "p", other, "p", blocks=BLOCKS, seed=APART)
    assert found.table().by == ("p (a)", "p (b)")
    assert found.share(True, True) == pytest.approx(0.0, abs=0.01)
    assert found.share(True, False) == pytest.approx(1 / 3, abs=0.01)


def test_a_column_without_labels_is_refused_free():
    """Neither side is charged."""
    paint, shop, _, _ = databases(300)
    for column in ("id", "nothing", 3):
        with pytest.raises(sulq.QueryNotAllowed):
            vertical.crosstab(paint, column, shop, "size")
    with pytest.raises(sulq.QueryNotAllowed, match="one database"):
        vertical.crosstab(paint, "colour", paint, "colour")
    assert paint.budget.spent == shop.budget.spent == 0

"""The weights of running totals: whole numbers, their sizes, and what is read off with them."""

from fractions import Fraction

import numpy as np
import pytest

from sulq.privacy.toeplitz import (
    FINE,
    UNIT,
    column_size,
    combined,
    deviations,
    difference,
    mean_variance,
    readers,
    totals,
    weights,
)

HORIZONS = [1, 2, 3, 12, 24, 365]


def tree_variance(days):
    """The mean variance of totals by a binary tree: a row is in every level's node."""
    levels = (days - 1).bit_length() + 1
    return Fraction(levels * sum(day.bit_count() for day in range(1, days + 1)), days)


def test_a_year_of_daily_totals_is_within_eight_units():
    """Computed exactly from the whole-number weights; a binary tree has 41."""
    assert 7 < mean_variance(365) <= 8
    assert round(tree_variance(365)) == 41


@pytest.mark.parametrize("horizon", HORIZONS)
def test_no_column_is_longer_than_one(horizon):
    """The first is the longest, and hardly shorter than 1: what rounding leaves unused."""
    sizes = [column_size(horizon, period) for period in range(horizon)]
    assert sizes[0] == max(sizes)
    assert 1 - Fraction(1, 50_000) < sizes[0] <= 1
    assert sizes[-1] == Fraction(weights(horizon)[0] ** 2, UNIT**2)
    up = [c + 2 for c in weights(horizon)]  # rounded up, it would be too long
    assert sum(c * c for c in up) > UNIT**2


@pytest.mark.parametrize("horizon", HORIZONS)
def test_totals_without_noise_are_exact(horizon):
    """Whatever the sums are, far beyond 64 bits too."""
    luck = np.random.default_rng(horizon)
    sums = [int(x) << 40 for x in luck.integers(-(2**60), 2**60, horizon)]
    step = Fraction(1, 2**11)
    answers = [Fraction(y, UNIT) for y in combined(horizon, sums, 0, horizon)]
    found = totals(horizon, answers, step / UNIT)
    assert found == [sum(sums[: t + 1]) for t in range(horizon)]


@pytest.mark.parametrize("horizon", [1, 2, 12, 60])
def test_errors_are_those_of_the_matrix(horizon):
    """Of totals, and of what comes between two of them, whose noise hangs together."""
    b = [x / 2**FINE for x in readers(horizon)]
    matrix = np.array(
        [[b[t - j] if j <= t else 0.0 for j in range(horizon)] for t in range(horizon)]
    )
    covariance = matrix @ matrix.T
    assert np.allclose(np.sqrt(np.diag(covariance)), deviations(horizon))
    for first in range(horizon):
        for last in range(first, horizon):
            pick = np.zeros(horizon)
            pick[last] = 1
            if first:
                pick[first - 1] = -1
            assert np.isclose(np.sqrt(pick @ covariance @ pick), difference(horizon, first, last))


def test_a_stretch_is_the_same_as_all_at_once():
    """Answers drawn later are those of the same rows of the matrix."""
    sums = list(range(1, 13))
    whole = combined(12, sums, 0, 12)
    assert combined(12, sums, 0, 5) + combined(12, sums, 5, 6) + combined(12, sums, 6, 12) == whole
    later = [*sums[:6], *[99] * 6]
    assert combined(12, later, 0, 6) == whole[:6]  # rows to come are in none of them

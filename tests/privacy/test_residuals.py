"""Residuals: no pair of rows moves them further than their price; their noise is smooth."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from soak import times

from sulq.privacy import residuals
from sulq.privacy.residuals import Part, diameter2, furthest, least_variance, radius2, size_of


def vector(row, parts, sizes):
    """What one row adds to every residual, projected and weighted, all in one vector."""
    out = []
    for part in parts:
        cell = np.ones(1)
        for a in part.axes:
            cell = np.kron(cell, np.eye(sizes[a])[row[a]] - 1 / sizes[a])
        out.append(math.sqrt(part.weight2) * cell)
    return np.concatenate(out)


def drawn(pick):
    """Random axes, parts with random weights, and which axes are public."""
    count = pick.randint(1, 5)
    sizes = [pick.choice([2, 2, 3, 4, 6]) for _ in range(count)]
    every = [c for k in range(4) for c in itertools.combinations(range(count), k)]
    chosen = pick.sample(every, pick.randint(1, min(len(every), 9)))
    parts = [Part(c, Fraction(pick.randint(1, 999), pick.randint(1, 64))) for c in chosen]
    return parts, sizes, frozenset(pick.sample(range(count), pick.randint(0, count - 1)))


def farthest(parts, sizes, known, pick):
    """The largest squared distance of two rows that were tried, and of one from no row."""
    free = [i for i in range(len(sizes)) if i not in known]
    row = [pick.randrange(m) for m in sizes]
    here, far = vector(row, parts, sizes), 0.0
    for k in range(1, len(free) + 1):
        for changed in itertools.combinations(free, k):
            other = list(row)
            for i in changed:
                other[i] = (row[i] + pick.randrange(1, sizes[i])) % sizes[i]
            far = max(far, float(((here - vector(other, parts, sizes)) ** 2).sum()))
    return max(far, float((here**2).sum())), float((here**2).sum())


def test_no_pair_of_rows_is_further_apart_than_the_price():
    """Random residuals, every pattern of agreement: the price is the largest distance, exactly.

    A price 5% low is caught: in every case some pair is as far apart as the price says.
    """
    pick = random.Random(17)
    for _ in range(times(200, 10_000)):
        parts, sizes, known = drawn(pick)
        far, size = farthest(parts, sizes, known, pick)
        price = float(diameter2(parts, sizes, known))
        assert far <= price * (1 + 1e-9)
        assert far > 0.95 * price
        assert size == pytest.approx(float(radius2(parts, sizes)))


def test_a_search_that_is_cut_short_is_above_the_truth(monkeypatch):
    """Too many patterns: the bound is never below the largest distance."""
    pick = random.Random(5)
    cases = [drawn(pick) for _ in range(30)]
    exact = [furthest(*case)[0] for case in cases]
    residuals._furthest.cache_clear()
    monkeypatch.setattr(residuals, "MAX_WORK", 3)
    bounds = [furthest(*case)[0] for case in cases]
    residuals._furthest.cache_clear()
    assert all(bound >= truth for bound, truth in zip(bounds, exact, strict=True))
    assert any(bound > truth for bound, truth in zip(bounds, exact, strict=True))


def test_alike_columns_are_searched_in_no_time():
    """24 Boolean columns have 2^24 patterns, but alike ones leave the same polynomial."""
    sizes = [2] * 24
    parts = [Part(c) for k in (1, 2) for c in itertools.combinations(range(24), k)]
    found, differ = furthest(parts, sizes)
    k = len(differ)  # one column moves by 2, and so does a pair of which one differs
    assert found == 2 * Fraction(2 * k, 2) + 2 * Fraction(2 * k * (24 - k), 4)


def kernel(sizes):
    """The fibres that the differences are blind to: one for each line of cells."""
    out = []
    for i in range(len(sizes)):
        for place in itertools.product(*(range(m) for j, m in enumerate(sizes) if j != i)):
            cells = np.zeros(sizes, dtype=int)
            cells[(*place[:i], slice(None), *place[i:])] = 1
            out.append(cells.ravel())
    return np.array(out)


@pytest.mark.parametrize("sizes", [(2,), (5,), (2, 2), (2, 3)])
def test_what_is_projected_away_is_even(sizes):
    """The sum over a fibre hardly depends on where it begins: within the bound of the proof.

    At a variance of least_variance it is even up to exp(-200), which floats cannot show. So the
    variance is far smaller here, the unevenness is seen, and the bound for it holds.
    """
    fibres, k, widest = kernel(sizes), len(sizes), max(sizes)
    rank = np.linalg.matrix_rank(fibres)
    basis = _basis(fibres, rank)
    reach = range(-8, 9)
    points = np.array(list(itertools.product(reach, repeat=rank))) @ basis
    pick = np.random.default_rng(3)
    seen = False
    for variance in (0.15, 0.3, 0.6):
        sums = []
        for _ in range(20):
            start = pick.integers(-2, 3, size=math.prod(sizes))
            inside = basis.T @ np.linalg.lstsq(basis.T, start.astype(float), rcond=None)[0]
            sums.append(np.exp(-((points + inside) ** 2).sum(axis=1) / (2 * variance)).sum())
        bound = math.expm1(len(fibres) * math.log(_theta(2 * math.pi**2 * variance / (k * widest))))
        spread = max(sums) / min(sums)
        seen = seen or spread > 1.001
        if bound < 1:
            assert spread <= (1 + bound) / (1 - bound) * (1 + 1e-9)
    assert seen


def _theta(b):
    return sum(math.exp(-b * n * n) for n in range(-60, 61))


def _basis(fibres, rank):
    """Whole vectors that generate the fibres' lattice: enough of the fibres do."""
    for chosen in itertools.combinations(range(len(fibres)), int(rank)):
        if np.linalg.matrix_rank(fibres[list(chosen)]) == rank:
            return fibres[list(chosen)]
    raise AssertionError


def test_the_least_variance_has_the_margin_of_the_proof():
    """2.1 N exp(-2 pi^2 s^2 / km) is below exp(-199) at the least variance."""
    for sizes in [(2,), (100,), (100, 100), (2, 3, 4), (100, 100, 100), (2,) * 8]:
        fibres = sum(math.prod(sizes) // m for m in sizes)
        b = 2 * math.pi**2 * float(least_variance(sizes)) / (len(sizes) * max(sizes))
        assert math.log(2.1 * fibres) - b < -199
    assert least_variance(()) == 0


def test_sizes():
    """(m - 1)/m for one column, and the product of these for several."""
    assert size_of([]) == 1
    assert size_of([2]) == Fraction(1, 2)
    assert size_of([2, 100]) == Fraction(99, 200)

"""The plan for many tables: its figures, and tables back from parts."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sulq.privacy.residuals import Part, diameter2, radius2
from sulq.strategies.many_tables import agreed, nonnegative
from sulq.strategies.residual_planner import (
    Workload,
    best_weights,
    centred,
    rounded,
    share,
    subsets,
    table_of,
    unprojected,
)

DOMAINS = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)  # 10^18 combinations


def all_tables(sizes, width, **settings):
    tables = tuple(itertools.combinations(range(len(sizes)), width))
    return Workload(sizes, tables, (1.0,) * len(tables), **settings)


def price_of(workload, weights, guarantee):
    parts = [Part(p, rounded(w) ** 2) for p, w in weights.items()]
    if guarantee == "dp":
        return float(radius2(parts, workload.sizes))
    return float(diameter2(parts, workload.sizes, workload.known))


def mean_variance(workload, weights):
    """Over all cells, in units of R."""
    total = cells = 0.0
    for table in workload.tables:
        size = math.prod(workload.sizes[i] for i in table)
        each = sum(share(workload, p, table) / weights[p] for p in subsets(table) if p in weights)
        total, cells = total + size * each, cells + size
    return total / cells


@pytest.mark.parametrize(("width", "most"), [(2, 6.36), (3, 10.52)])
def test_the_reference_domains_have_the_best_error_that_is_known(width, most):
    """Root mean square error over all cells of all tables at unit price, under dp."""
    workload = all_tables(DOMAINS, width)
    weights = best_weights(workload, "dp")
    assert mean_variance(workload, weights) == pytest.approx(1, rel=1e-9)
    error = math.sqrt(price_of(workload, weights, "dp"))
    assert most - 0.02 < error < most


@pytest.mark.parametrize(("width", "most"), [(2, 9.04), (3, 14.91)])
def test_under_beliefs_the_same_tables_cost_about_twice(width, most):
    """The price is the largest over all patterns in which two rows differ."""
    workload = all_tables(DOMAINS, width)
    weights = best_weights(workload, "beliefs")
    assert mean_variance(workload, weights) == pytest.approx(1, rel=1e-9)
    assert math.sqrt(price_of(workload, weights, "beliefs")) < most


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
def test_no_other_weights_are_much_better(guarantee):
    """Random changes of the best weights never buy the same error for 1% less."""
    workload = all_tables((2, 3, 5, 2, 4), 2, known=frozenset({1}))
    best = best_weights(workload, guarantee)
    price = price_of(workload, best, guarantee)
    pick = np.random.default_rng(1)
    for _ in range(200):
        moved = {p: w * math.exp(pick.normal(0, 0.2)) for p, w in best.items()}
        scale = mean_variance(workload, moved)
        moved = {p: w * scale for p, w in moved.items()}
        assert price_of(workload, moved, guarantee) > 0.99 * price


def test_what_is_public_is_not_measured():
    """The total, and tables of public columns, have no price."""
    workload = all_tables((2, 3, 4), 2, known=frozenset({0, 1}))
    assert workload.measured == [(2,), (0, 2), (1, 2)]
    hidden = all_tables((2, 3, 4), 2, known=frozenset({0, 1}), counted=False)
    assert hidden.measured == [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]


def test_tables_come_back_from_their_differences():
    """Project every marginal as it is released, put the tables together: nothing is lost."""
    sizes = (3, 2, 4)
    cube = np.random.default_rng(0).integers(0, 50, sizes).astype(float)
    parts = {}
    for part in subsets((0, 1, 2)):
        cells = cube.sum(axis=tuple(i for i in range(3) if i not in part))
        for axis in range(len(part)):
            turned = np.moveaxis(cells, axis, 0)
            cells = np.moveaxis(turned[:-1] - turned[-1:], 0, axis)
        parts[part] = unprojected(cells, [sizes[i] for i in part])
    assert np.allclose(table_of((0, 1, 2), parts, sizes), cube)
    assert np.allclose(table_of((2, 0), parts, sizes), cube.sum(axis=1).T)
    assert np.allclose(table_of((), parts, sizes), cube.sum())


def test_weights_are_rounded_down_and_little():
    """16 binary digits, the same on every machine."""
    for weight2 in (1.0, 2.0, 1e-7, 12345.678):
        weight = rounded(weight2)
        assert weight**2 <= Fraction(weight2)
        assert float(weight**2) > weight2 * (1 - 2**-13)
        assert weight.numerator < 2**16


def test_nonnegative_tables_agree_and_are_nearer():
    """No cell below zero, all margins equal, known parts kept, and closer to the truth."""
    pick = np.random.default_rng(2)
    sizes, tables = (5, 4, 3, 6), tuple(itertools.combinations(range(4), 2))
    cube = pick.multinomial(300, pick.dirichlet(np.full(360, 0.2))).reshape(sizes).astype(float)

    def margin(axes):
        return cube.sum(axis=tuple(i for i in range(4) if i not in axes))

    truth = [margin(t) for t in tables]
    fixed = {(): np.array(300.0), (1,): centred(margin((1,)))}
    noisy = agreed(tables, [x + pick.normal(0, 8, x.shape) for x in truth], sizes, fixed)
    found = nonnegative(tables, noisy, sizes, fixed)
    assert min(c.min() for c in noisy) < 0 <= min(c.min() for c in found)
    again = agreed(tables, found, sizes, fixed)
    assert max(np.abs(a - b).max() for a, b in zip(found, again, strict=True)) < 1e-6
    assert np.allclose(found[0].sum(axis=0), margin((1,)))

    def error(cells):
        return sum(float(((a - b) ** 2).sum()) for a, b in zip(cells, truth, strict=True))

    assert error(found) < error(noisy)

"""K: the smallest class in which an exact count tells no row from another."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sulq.audit.class_size import divergence, smallest_crowd


def sticks(one, two, epsilon):
    """The larger hockey-stick divergence of two laws given as {outcome: probability}."""
    grow = math.exp(epsilon)
    keys = {*one, *two}
    return max(
        sum(max(0.0, float(p.get(k, 0)) - grow * float(q.get(k, 0))) for k in keys)
        for p, q in ((one, two), (two, one))
    )


def counts(laws, first):
    """The exact law of how many rows have each value: row 0 has `first`, the others `laws`."""
    found = {tuple(int(v == first) for v in range(3)): Fraction(1)}
    for law in laws:
        found = _added(found, law)
    return found


def _added(found, law):
    out = {}
    for key, p in found.items():
        for v, q in enumerate(law):
            new = tuple(c + (i == v) for i, c in enumerate(key))
            out[new] = out.get(new, 0) + p * q
    return out


@pytest.mark.parametrize(("p", "rows"), [(0.5, 81), (0.1, 346), (0.01, 3408)])
def test_reference_sizes(p, rows):
    """The sizes of the design, at epsilon = 1, delta = 1e-6, m = 1; one row fewer fails."""
    assert smallest_crowd(p, 1 - p, 1.0, 1e-6) == rows
    assert smallest_crowd(1 - p, p, 1.0, 1e-6) == rows
    assert divergence(rows - 1, p, 1 - p, 1.0, 1e-6) > 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_known_laws_are_counted_exactly(epsilon):
    """Three values with known probabilities: the formula is the exact multinomial divergence."""
    law = (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))
    for rows in (1, 2, 5, 9):
        exact = [counts([law] * (rows - 1), v) for v in range(3)]
        for a, b in itertools.combinations(range(3), 2):
            found = divergence(rows, float(law[a]), float(law[b]), epsilon, 1e-9)
            assert found == pytest.approx(sticks(exact[a], exact[b], epsilon), abs=1e-9)


def test_bounds_cover_rows_that_differ():
    """Whatever law each row has above the low ends, it hides no worse than the formula says."""
    rng = np.random.default_rng(4)
    low = (0.15, 0.25)
    worst = 0.0
    for _ in range(60):
        free = rng.dirichlet((0.2, 0.2, 0.2), 6) * 0.6
        laws = [(low[0] + u, low[1] + v, w) for u, v, w in free]
        one, two = counts(laws, 0), counts(laws, 1)
        worst = max(worst, sticks(one, two, 0.5))
    bound = divergence(7, *low, 0.5, 1e-9)
    assert worst <= bound + 1e-12
    assert worst > bound / 2  # it is no wild overestimate
    assert bound > divergence(7, 0.3, 0.4, 0.5, 1e-9)  # larger low ends would not have covered it


def test_more_rows_and_likelier_values_never_hide_worse():
    """The divergence falls with rows; rarer values need more of them."""
    for epsilon in (0.3, 1.0):
        sizes = [divergence(n, 0.2, 0.3, epsilon, 1e-6) for n in range(1, 120)]
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(sizes))
    rarer = [smallest_crowd(p, 0.4, 1.0, 1e-6) for p in (0.4, 0.3, 0.2, 0.1, 0.05, 0.01)]
    assert rarer == sorted(rarer)


def test_what_may_never_happen_hides_nobody():
    """No number of rows is enough, or none that is there."""
    assert smallest_crowd(0.0, 0.5, 1.0, 1e-6) is None
    assert smallest_crowd(1e-15, 0.5, 1.0, 1e-6, 10**6) is None
    assert smallest_crowd(0.5, 0.5, 1.0, 1e-6, 80) is None
    assert smallest_crowd(0.5, 0.5, 1.0, 1e-6, 81) == 81


def test_promises_beyond_what_a_float_holds_are_judged_all_the_same():
    """An auditor that raises answers nothing ever after, so it must not."""
    assert smallest_crowd(0.5, 0.5, 800.0, 1e-6) == smallest_crowd(0.5, 0.5, 700.0, 1e-6)
    assert smallest_crowd(0.3, 0.3, 1.0, 1e-300, 1000) is None

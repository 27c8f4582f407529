"""Choosing the next question by the last answers: what it gains, by a dynamic program.

docs/proofs/audit.md has the lemma. One private Boolean, independent rows of one probability, every
class of at least K rows: the best adaptive attacker is worth no more than the count of K rows.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom
from soak import some

from sulq.audit.class_size import divergence

N = 36


def drawn(k, many, true, some):
    """The chance that k of some rows are true, of many with so many true."""
    ways = math.comb(true, k) * math.comb(many - true, some - k)
    return ways / math.comb(many, some)


def best(n, p, least, epsilon, splits=None):
    """The largest hockey-stick divergence over all ways to split classes after seeing counts.

    State: the class of the target has s rows, c of them true. Weights are those of an even prior
    on the target's bit, so both hypotheses are carried along.
    """
    grow = math.exp(epsilon)
    allowed = splits or (lambda s: range(least, s - least + 1))

    def posterior(s, c):
        one, two = c * (1 - p), (s - c) * p
        return one / (one + two)

    @cache
    def worth(s, c):
        true = posterior(s, c)
        value = max(true - grow * (1 - true), 0.0)
        for small in allowed(s):
            found = 0.0
            for k in range(max(0, small - (s - c)), min(c, small) + 1):
                chance = 0.0
                if c and k:  # the target is one of those that are true
                    chance += true * drawn(k - 1, s - 1, c - 1, small - 1)
                if c < s and k < small:
                    chance += (1 - true) * drawn(k, s - 1, c, small - 1)
                found += chance * worth(small, k) if chance else 0.0
            value = max(value, found)
        return value

    total = 0.0
    for c in range(n + 1):
        one = binom.pmf(c - 1, n - 1, p) if c else 0.0
        two = binom.pmf(c, n - 1, p) if c < n else 0.0
        total += (one + two) * worth(n, c) if one + two else 0.0
    return total


def fixed(rows, p, epsilon):
    """The same divergence, true against false, of the count of a fixed class."""
    grow, k = math.exp(epsilon), np.arange(rows + 1)
    one, two = binom.pmf(k - 1, rows - 1, p), binom.pmf(k, rows - 1, p)
    return float(np.maximum(one - grow * two, 0.0).sum())


@pytest.mark.parametrize(
    ("p", "least", "epsilon"),
    some([(0.5, 9, 0.3), (0.3, 6, 0.7), (0.2, 12, 0.2), (0.5, 5, 1.0), (0.1, 9, 0.5)], 3),
)
def test_adaptivity_gains_nothing_for_one_private_function(p, least, epsilon):
    """On 36 rows the best adaptive attacker has what the count of K rows tells, to nine digits."""
    found, alone = best(N, p, least, epsilon), fixed(least, p, epsilon)
    assert found == pytest.approx(alone, rel=1e-9)
    assert found <= divergence(least, p, 1 - p, epsilon, 1e-9) * (1 + 1e-9)


def test_control_a_smaller_class_is_worth_more():
    """Where classes of three rows are let through, the same program finds the better attack."""
    p, least, epsilon = 0.5, 9, 0.3
    careless = best(N, p, least, epsilon, splits=lambda s: range(3, s))
    assert careless > 1.5 * fixed(least, p, epsilon)
    assert careless == pytest.approx(fixed(3, p, epsilon), rel=1e-9)


# --- sums modulo q ------------------------------------------------------------------------------


def smallest_modular_crowd(q, low, epsilon):
    """K: the fewest rows, the one that changes included, that keep epsilon, with delta = 0.

    Of others that are not known, a share (1 - q low)^(K - 1) of the probability may lie anywhere
    and the rest is even over the q residues: no residue is more than
    (1 - r + q r) / (1 - r) times as likely as before, r = (1 - q low)^(K - 1). None: it never is.
    """
    even = min(q * low, 1.0)
    if q < 2 or even <= 0:
        return None
    if even == 1.0:
        return 2  # the other one is uniform: nothing is told
    # (1 - r + q r) / (1 - r) <= e^epsilon where r <= (e^epsilon - 1) / (e^epsilon - 1 + q)
    grow = math.expm1(min(epsilon, 700.0))
    return 1 + math.ceil(math.log(grow / (grow + q)) / math.log1p(-even) - 1e-12)


def modular_law(q, chances, rows):
    """The law of the sum of so many rows modulo q, each with these chances of a residue."""
    found = np.zeros(q)
    found[0] = 1.0
    for _ in range(rows):
        found = np.array([sum(found[(s - v) % q] * chances[v] for v in range(q)) for s in range(q)])
    return found


@pytest.mark.parametrize(("q", "low", "epsilon"), [(2, 0.1, 0.3), (5, 0.1, 0.5), (7, 0.05, 0.1)])
def test_a_sum_modulo_q_of_k_rows_hides_each(q, low, epsilon):
    """For an uneven law within the bound, K rows keep epsilon, whatever they add up to."""
    rows = smallest_modular_crowd(q, low, epsilon)
    chances = np.full(q, low)
    chances[0] += 1 - q * low
    found = modular_law(q, chances, rows - 1)
    assert found.max() / found.min() <= math.exp(epsilon)
    few = modular_law(q, chances, max(rows // 4, 1))
    assert few.max() / few.min() > math.exp(epsilon)  # and far fewer do not


def test_uniform_rows_hide_each_other_in_pairs():
    """Duan's example: with uniform rows two intact ones suffice, and nothing is told at all."""
    for q in (2, 3, 11):
        assert smallest_modular_crowd(q, 1 / q, 1e-9) == 2
        found = modular_law(q, np.full(q, 1 / q), 1)
        assert found.max() - found.min() < 1e-12
    assert smallest_modular_crowd(3, 0.0, 1.0) is None

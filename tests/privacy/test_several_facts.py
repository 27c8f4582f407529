"""What several beliefs about one row can become at once, against brute force.

No luck is involved: outcomes are added up, or drawn with a fixed seed.
"""

import itertools
import math

import numpy as np
import pytest

from sulq.errors import PromiseError
from sulq.privacy.promise import Promise
from sulq.privacy.promise_terms import growth


def confidence(p):
    return math.log(p / (1 - p))


def grown(promise, **facts):
    return confidence(promise.belief(0.5, **facts))


def one_answer(promise, unit):
    """Every outcome of one count on a grid: the probability of each, for a row worth 0 to unit."""
    law = promise.law(unit)
    span = range(-int(12 * law.std) - unit, int(12 * law.std) + unit + 1)
    noise = np.array([law.pmf(k) for k in range(span.start - unit, span.stop + 1)])
    return lambda value: noise[unit - value : len(noise) - 1 - value]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.2, 1e-3])
def test_no_fact_grows_further_than_is_said(epsilon, delta):
    """One query, a row with five values, every fact, beliefs of many kinds, every true value.

    The probability that one of k facts, or any of all 32, moves by more than is said, either way,
    is added up over every outcome of the noise: never above delta.
    """
    promise, unit, values = Promise(epsilon, delta, 1), 4, range(5)
    likely = one_answer(promise, unit)
    table = np.array([likely(v) for v in values])  # values x outcomes
    facts = [f for f in itertools.product([False, True], repeat=5) if any(f) and not all(f)]
    draw = np.random.default_rng(1)
    for belief in [np.full(5, 0.2), *draw.dirichlet(np.full(5, 0.3), 20) * 0.999 + 0.0002]:
        belief = belief / belief.sum()
        moved = []
        for fact in facts:
            yes = np.array(fact)
            odds = (belief[yes] @ table[yes]) / (belief[~yes] @ table[~yes])
            moved.append(np.abs(np.log(odds) - math.log(belief[yes].sum() / belief[~yes].sum())))
        for true in values:
            for k in (1, 3, len(facts)):
                most = np.max(moved[:k], axis=0)
                assert table[true] @ (most > grown(promise, facts=k) + 1e-9) <= delta
            all_of_them = np.max(moved, axis=0)
            assert table[true] @ (all_of_them > grown(promise, values=5) + 1e-9) <= delta


def test_many_facts_need_more_than_epsilon():
    """A histogram of 256 private cells: with epsilon alone some belief grows too far too often.

    50,000 draws with a fixed seed; without the share of each fact the exception is many times
    delta, with it there is none above delta. So the share is not for nothing.
    """
    delta, cells, draws = 0.01, 256, 50_000
    promise = Promise(1.0, delta, 2)  # a histogram costs two queries
    noise = np.random.default_rng(2).normal(0, math.sqrt(promise.variance), (draws, cells))
    noise[:, 0] += 1  # the row is in the first cell
    # Someone who thinks it is there or in cell j, equally likely, becomes sure of j by this much.
    gains = np.max(noise[:, 1:] - noise[:, :1], axis=1) / promise.variance
    assert np.mean(gains > promise.epsilon) > 3 * delta
    assert np.mean(gains > grown(promise, facts=cells)) <= delta
    assert np.mean(gains > grown(promise, values=cells)) <= delta


def test_one_fact_one_way_is_epsilon():
    """The formula gives the promise back, on both of its branches."""
    for epsilon, delta in [(0.01, 1e-6), (1.0, 1e-6), (3.0, 0.5), (9.0, 0.5), (40.0, 1e-6)]:
        promise = Promise(epsilon, delta, 50, noise="gaussian") if epsilon < 20 else None
        if promise is not None:
            found = growth(promise.queries / promise.variance, delta, 1)
            assert found == pytest.approx(epsilon, rel=1e-9)
            assert promise.belief(0.5) == promise.belief(0.5, values=1)


def test_more_facts_grow_slowly_and_proposition_2_is_weaker():
    """Ten facts, a million, all about ten attributes; the paper's bound for those is larger."""
    promise = Promise(1.0, 1e-6, 1000)
    said = [grown(promise, facts=k) for k in (1, 10, 10**6)]
    assert said == sorted(said)
    assert said == pytest.approx([1.024, 1.101, 1.424], abs=1e-3)
    spent = promise.queries / promise.variance
    proposition = 2 * growth(spent, promise.delta, 2 * 1024)
    assert grown(promise, values=1024) == pytest.approx(1.408, abs=1e-3)
    assert grown(promise, values=1024) < proposition


def test_said_in_words_and_refused_where_not_shown():
    """Both ways and ten facts stand in the promise; other noises say no."""
    text = Promise(1.0, 1e-6, 1000).explain()
    assert (
        "one of the two fails has a chance of 1 in 500,000, and of 1 in 50,000 for one of" in text
    )
    assert "for all ten together, 50% can become at most 75.1%" in text
    for others in ({"noise": "stitched"}, {"guarantee": "dp"}):
        with pytest.raises(PromiseError, match="several facts"):
            Promise(1.0, 1e-6, 10, **others).belief(0.5, facts=2)
        assert "all ten together" not in Promise(1.0, 1e-6, 10, **others).explain()
    laplace = Promise(1.0, 0, 10, noise="laplace")
    assert laplace.belief(0.5, facts=1000) == laplace.belief(0.5)
    for wrong in ({"facts": 0}, {"values": 1.5}, {"facts": True}, {"facts": 1, "values": 2}):
        with pytest.raises(PromiseError, match=r"facts|values"):
            Promise(1.0).belief(0.5, **wrong)

"""A black-box audit at a large epsilon: what the answers prove about the promise.

mu = 2, 4,999 runs a side at once: rows that hold the fact and rows that do not, each a public
cell with noise of its own. Clopper-Pearson at 1 - 1e-6 turns the hits and misses of a threshold
into a lower bound on epsilon, and more than was promised is an alarm. By chance alone that takes
two independent rates 6.7 standard deviations off together: 1e-11. With a standard deviation 20%
too low the alarm is 8 standard deviations away from silence.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest
from attacks.harness import (
    CROWD,
    CROWD_SCHEMA,
    Shrunk,
    at_least,
    at_most,
    by_person,
    crowd,
    opened,
)
from scipy.optimize import brentq
from soak import some

from sulq import Bins, Promise, Query, Strategy
from sulq.privacy.promise import gdp_log_delta

pytestmark = pytest.mark.real_noise

MU, DELTA, ALARM = 2.0, 1e-6, 1e-6
BITS = np.arange(CROWD) % 2


def epsilon_of(mu, guarantee):
    """The epsilon that answers mu standard deviations apart are worth."""
    if guarantee == "beliefs":
        return mu * math.sqrt(-2 * math.log(DELTA)) + mu * mu / 2
    return float(brentq(lambda e: gdp_log_delta(mu, e) - math.log(DELTA), 1e-3, 100))


def rates(noise_from=None, **terms):
    """How often an answer is above the middle, with the fact and without."""
    db = opened(crowd(BITS), CROWD_SCHEMA, noise_from, queries=1, delta=DELTA, **terms)
    seen, _ = by_person(db.ask(Query(by="person", where="secret")), CROWD)
    above = seen[:, 0] > 0.5
    return int(above[BITS == 1].sum()), int(above[BITS == 0].sum())


def rates_of_combinations(noise_from=None, **terms):
    """The same from combinations of 8 cells, read in the direction in which the fact moves them.

    Under beliefs the fact moves a row from the first cell to the last, under dp from none.
    """
    db = opened(crowd(BITS), CROWD_SCHEMA, noise_from, queries=1, delta=DELTA, **terms)
    where = "secret" if terms["guarantee"] == "dp" else None
    cells = Bins("y", [10 * i / 8 for i in range(9)])
    answer = db.ask(Query(Strategy("ranges"), by=["person", cells], where=where))
    seen, _ = by_person(answer, CROWD)
    first, last = answer.matrix[:, 0] * (where is None), answer.matrix[:, -1]
    above = (seen - (first + last) / 2) @ (last - first) > 0
    return int(above[BITS == 1].sum()), int(above[BITS == 0].sum())


def proved(hits, alarms):
    """Bounds on the chances of a hit and of a false alarm."""
    runs = [int((bit == BITS).sum()) for bit in (1, 0)]
    return at_least(hits, runs[0], ALARM), at_most(alarms, runs[1], ALARM)


def proved_epsilon(guarantee, noise_from=None, rates=rates):
    """The epsilon that the answers prove, for Gaussian noise."""
    epsilon = epsilon_of(MU, guarantee)
    hit, alarm = proved(*rates(noise_from, epsilon=epsilon, guarantee=guarantee))
    mu = NormalDist().inv_cdf(hit) - NormalDist().inv_cdf(alarm)
    return epsilon_of(mu, guarantee), epsilon


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
def test_the_audit_proves_no_more_than_was_promised(guarantee):
    """No alarm on the product. False alarm: 1e-11."""
    found, epsilon = proved_epsilon(guarantee)
    print(f"neighbour audit, {guarantee}: proved {found:.2f} of epsilon {epsilon:.2f}")
    assert Promise(epsilon, DELTA, 1, guarantee=guarantee).variance == pytest.approx(
        1 / MU**2, rel=1e-4
    )
    assert found <= epsilon


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
def test_control_a_fifth_too_little_noise_raises_the_alarm(guarantee):
    """The same audit when the standard deviation is 20% low."""
    found, epsilon = proved_epsilon(guarantee, Shrunk("4/5"))
    print(f"neighbour audit, control {guarantee}: proved {found:.2f} of epsilon {epsilon:.2f}")
    assert found > epsilon


@pytest.mark.parametrize("guarantee", some(["dp", "beliefs"], 1))
def test_combinations_of_cells_prove_no_more_than_was_promised(guarantee):
    """A strategy, 8 numbers for each person, read as well as can be. False alarm: 1e-11.

    Control: with a standard deviation 20% low the alarm is raised.
    """
    found, epsilon = proved_epsilon(guarantee, rates=rates_of_combinations)
    print(f"neighbour audit, combinations, {guarantee}: proved {found:.2f} of {epsilon:.2f}")
    assert found <= epsilon
    found, _ = proved_epsilon(guarantee, Shrunk("4/5"), rates_of_combinations)
    assert found > epsilon


def proved_ratio(epsilon, noise_from=None):
    """Laplace: epsilon is the logarithm of a ratio of chances; four tables for more runs.

    With ends that hold but for 1e-7, chance alone is 6.4 standard deviations from an alarm.
    """
    counts = np.zeros(2, int)
    for _ in range(4):
        terms = {"queries": 1, "epsilon": epsilon, "noise": "laplace"}
        db = opened(crowd(BITS), CROWD_SCHEMA, noise_from, **terms)
        seen, _ = by_person(db.ask(Query(by="person", where="secret")), CROWD)
        counts += [int((seen[bit == BITS, 0] > 1).sum()) for bit in (1, 0)]
    runs = [4 * int((bit == BITS).sum()) for bit in (1, 0)]
    return math.log(at_least(counts[0], runs[0], 1e-7) / at_most(counts[1], runs[1], 1e-7))


def test_laplace_noise_proves_no_more_than_epsilon():
    """P[above 1] with the fact is at most e^2 times that without. False alarm: 1e-10."""
    found = proved_ratio(2.0)
    print(f"neighbour audit, laplace: proved {found:.2f} of epsilon 2")
    assert found <= 2


def test_control_a_fifth_too_little_laplace_noise_raises_the_alarm():
    """The same audit when the scale is 20% low."""
    found = proved_ratio(2.0, Shrunk("4/5"))
    print(f"neighbour audit, control laplace: proved {found:.2f} of epsilon 2")
    assert found > 2

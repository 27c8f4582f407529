"""Two counts that differ by Joe alone.

100 tables (200 in `make soak`), Joe's bit an even coin in each. With T = 2 the difference of the
two counts has standard deviation 10.7, so the best guess is right with probability 0.519: more
than 73 of 100 with probability 5e-6, more than 136 of 200 with 2e-6. A second run settles it; both
at once: below 1e-10. Whoever guesses right nine times in ten is missed with 2e-6.
"""

import numpy as np
import pytest
from attacks.harness import Silent, opened, people
from scipy.stats import binom
from soak import SOAK

from sulq import Query, Rows

pytestmark = pytest.mark.real_noise

TABLES, LIMIT = (200, 136) if SOAK else (100, 73)
JOE = 17
WITHOUT_JOE = (
    lambda: Query(where=f"secret and id <> {JOE}"),
    lambda: Query(where="secret", rows=Rows.where(f"id <> {JOE}")),
    lambda: Query(where=f"secret and not (id = {JOE})"),
    lambda: Query(where=f"(secret or age > 200) and (id < {JOE} or id > {JOE})"),
)


def guesses(noise_from=None, tables=TABLES):
    """How many of the Joes are guessed right."""
    rng = np.random.default_rng()
    right = 0
    for i in range(tables):
        bits = rng.integers(0, 2, 40).astype(bool)
        db = opened(people(40, secret=bits), noise_from=noise_from, queries=2)
        everyone, others = db.ask([Query(where="secret"), WITHOUT_JOE[i % 4]()])
        right += bool((everyone.value - others.value > 0.5) == bits[JOE])
    return right


def test_the_difference_of_two_counts_does_not_give_joe_away():
    """At most 73 of 100 right (136 of 200), in one of two runs. False alarm: below 1e-9."""
    assert binom.sf(LIMIT, TABLES, 0.5187) ** 2 < 1e-9
    assert binom.cdf(LIMIT, TABLES, 0.9) < 2e-6
    runs = [guesses()]
    if runs[0] > LIMIT:
        runs.append(guesses())
    print(f"differencing: {runs} of {TABLES}, limit {LIMIT}")
    assert min(runs) <= LIMIT


def test_control_exact_counts_give_joe_away_every_time():
    """The same attack without noise: 40 of 40."""
    assert guesses(Silent(), tables=40) == 40

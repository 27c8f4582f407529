"""Dinur and Nissim: decode a secret column from answers about random halves of the table.

n = 2000 even bits. In budget no decoder gets a bit right with probability above Phi(mu/2) =
0.537, and this one gets about 0.51; 0.592 is more than six standard deviations (0.0112) above
what it gets, a false alarm of 1e-9.
"""

import numpy as np
import pytest
from attacks.harness import Silent, opened, people

from sulq import Query, Rows
from sulq.questions.partitions import PRIME, hash_numbers

pytestmark = pytest.mark.real_noise

N, T, RATE = 2000, 100, 0.5
SECRET = np.random.default_rng(11).integers(0, 2, N).astype(bool)


def subsets(count):
    """Who is in each seeded sample: arithmetic on public keys, so the attacker knows it."""
    keys = np.arange(N, dtype=object)
    threshold = int(RATE * PRIME)
    numbers = (hash_numbers(seed) for seed in range(count))
    hashed = (((c3 * keys + c2) * keys + c1) * keys + c0 for c3, c2, c1, c0 in numbers)
    return np.array([h % PRIME < threshold for h in hashed], np.float32)


def decode(members, answers, variance):
    """Ridge least squares: the likeliest bits if they were Gaussian, rounded."""
    centred = answers - members.sum(axis=1) / 2
    if len(members) <= N:
        gram = members @ members.T / 4 + variance * np.eye(len(members))
        return members.T @ np.linalg.solve(gram, centred) > 0
    gram = members.T @ members + 4 * variance * np.eye(N)
    return np.linalg.solve(gram, members.T @ centred) > 0


def agreement(guess):
    return float((guess == SECRET).mean())


def ask_halves(db):
    """T answers about random halves: the whole budget."""
    questions = [Query(where="secret", rows=Rows.sample(seed, RATE)) for seed in range(T)]
    return np.array([answer.value for answer in db.ask(questions)])


def test_in_budget_the_column_stays_hidden():
    """At most 0.592 of the bits are decoded. False alarm: 1e-9."""
    db = opened(people(N, secret=SECRET), queries=T)
    found = agreement(decode(subsets(T), ask_halves(db), db.promise.variance))
    print(f"reconstruction: {found:.3f} of the bits, limit 0.592")
    assert db.budget.remaining == 0
    assert found <= 0.592


def test_the_decoder_knows_the_samples():
    """Without noise the product's answers are the decoder's own sums."""
    db = opened(people(N, secret=SECRET), noise_from=Silent(), queries=T)
    assert (ask_halves(db) == subsets(T) @ SECRET.astype(float)).all()


def test_controls_exact_and_nearly_exact_answers_give_the_column_away():
    """4n exact answers decode 0.99 of the bits, 4n with noise 0.05 sqrt(n) decode 0.98."""
    members = subsets(4 * N)
    exact = members @ SECRET.astype(np.float32)
    noise = np.random.default_rng(12).normal(0, 0.05 * np.sqrt(N), 4 * N)
    found = [agreement(decode(members, answers, 0.1)) for answers in (exact, exact + noise)]
    print(f"reconstruction, controls: exact {found[0]:.3f}, noise 0.05 sqrt(n) {found[1]:.3f}")
    assert found[0] >= 0.99
    assert found[1] >= 0.98

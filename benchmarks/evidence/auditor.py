"""A black-box auditor: asks about two neighbouring tables, and tells which is which if it can.

From the ideas of DP-Sniper (Bichsel, Steffen, Bogunovic, Vechev, 2021: train a classifier, attack
with the answers it is surest of, bound the chances by fresh samples) and of DP-Auditorium (Kong et
al., 2023: a tester sees answers only). It knows nothing of the noise. What it proves is a lower
bound of epsilon that holds except with a chance of 1e-6; above the promised one is an alarm.

python -m benchmarks.evidence.auditor
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression

import sulq

RUNS = 3000  # answers of each table: half to train on, half to judge by
ROWS = 200
CHANCE = 1e-6  # of a false alarm in one audit
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # of answers that are attacked with
SCHEMA = {"columns": {"x": {"type": "number", "low": 0.0, "high": float(RUNS),
                            "nullable": False}}}  # fmt: skip


def answers(secret: bool, epsilon: float, noise: str) -> np.ndarray:
    """RUNS answers about a table in which one row is at its largest, or all are 0.

    Each counts rows above another limit, so each is another question with noise of its own, and the
    one row moves each by 1. Each keeps `epsilon` by itself.
    """
    rows = np.zeros(ROWS)
    rows[0] = RUNS if secret else 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a ledger in memory; a promise of many
        db = sulq.open(
            pa.table({"x": rows}), SCHEMA, epsilon=epsilon * RUNS, delta=1e-6, queries=RUNS,
            noise=noise, guarantee="dp", ledger=":memory:",
        )  # fmt: skip
        with db:
            asked = [sulq.Query(where=f"x > {i}") for i in range(RUNS)]
            return np.array([float(a) for a in db.ask(asked, share=False)])


def features(x: np.ndarray) -> np.ndarray:
    """What the classifier looks at: size, square, sign, and the digits behind the point."""
    whole = np.stack([x, x**2, np.sign(x - 0.5), np.abs(x - 0.5)], 1)
    bits = [np.mod(np.floor(x * 2.0**k), 2) for k in range(0, 25, 2)]
    return np.concatenate([whole, np.stack(bits, 1)], 1)


def audit(with_row: np.ndarray, without: np.ndarray, delta: float = 0.0) -> float:
    """A lower bound of epsilon, from answers alone; wrong with a chance of CHANCE at most."""
    half = len(without) // 2
    train = features(np.concatenate([with_row[:half], without[:half]]))
    middle, spread = train.mean(0), train.std(0) + 1e-12
    model = LogisticRegression(max_iter=1000)
    model.fit((train - middle) / spread, np.repeat([1, 0], half))

    def sure(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = model.decision_function((features(x) - middle) / spread)
        return found

    best, tries = 0.0, 2 * len(SHARES)
    for sign in (1.0, -1.0):  # attack with what looks like either table
        one, other = (with_row, without) if sign > 0 else (without, with_row)
        for share in SHARES:
            limit = np.quantile(sign * sure(other[:half]), 1 - share)
            hits = [int((sign * sure(x[half:]) > limit).sum()) for x in (one, other)]
            left = len(one) - half
            low = _bound(hits[0], left, CHANCE / tries / 2, upper=False)
            high = _bound(hits[1], left, CHANCE / tries / 2, upper=True)
            if low > delta:
                best = max(best, math.log((low - delta) / high))
    return best


def _bound(hits: int, of: int, chance: float, *, upper: bool) -> float:
    """Clopper and Pearson's bound of a chance, itself wrong with this chance."""
    if upper:
        return 1.0 if hits == of else float(beta.ppf(1 - chance, hits + 1, of - hits))
    return 0.0 if hits == 0 else float(beta.ppf(chance, hits, of - hits + 1))


def a_third_of_the_noise(secret: bool, epsilon: float) -> np.ndarray:
    """Broken: noise for a promise three times as loose."""
    return answers(secret, 3 * epsilon, "laplace")


def low_digits(secret: bool, epsilon: float) -> np.ndarray:
    """Broken: the right noise, and the row in a digit far behind the point."""
    found = answers(secret, epsilon, "laplace")
    return np.floor(found * 2**12) / 2**12 + (2.0**-14 if secret else 0.0)


CASES: dict[str, tuple[Callable[[bool, float], np.ndarray], bool]] = {
    "the product, Laplace noise": (lambda s, e: answers(s, e, "laplace"), False),
    "broken: a third of the noise": (a_third_of_the_noise, True),
    "broken: the row in a low digit": (low_digits, True),
}


def lines(epsilon: float = 1.0) -> Iterator[tuple[str, float, bool, bool]]:
    """Each case: the bound, whether that is an alarm, and whether it should be."""
    for name, (ask, broken) in CASES.items():
        bound = audit(ask(True, epsilon), ask(False, epsilon))
        yield name, bound, bound > epsilon, broken


if __name__ == "__main__":
    for name, bound, alarm, broken in lines():
        right = "as it should be" if alarm == broken else "WRONG"
        print(f"{name}: epsilon at least {bound:.2f}, promised 1: "
              f"{'alarm' if alarm else 'no alarm'}, {right}")  # fmt: skip

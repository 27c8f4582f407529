"""Part 4: mining across databases, held to the errors that were asked for.

    python -m benchmarks.vertical           all of it, about ten minutes
    python -m benchmarks.vertical blocks    one part: blocks, subsets, theorems, published or pca

Lines compare an error with the most it may be; what must lie between two ends has two lines.
Statistical lines say how often they would fail by luck.
"""

from __future__ import annotations

import itertools
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks.measure import Line
from sulq import vertical
from sulq.vertical.subsets import Heavy, advantage, enough_tests, heavy_subsets

MILLION = 1_000_000
P_A, P_B, DELTA = 0.3, 0.4, 0.05
RUNS = 100  # of which the first 30 give the error
POINTS = "points"  # hundredths of a probability


def lines() -> Iterator[Line]:
    for part in PARTS.values():
        yield from part()


# --- the data ----------------------------------------------------------------------------


def two_properties(n: int, seed: int) -> tuple[Any, Any]:
    """P[a], P[b] and Delta as above."""
    rng = np.random.default_rng(seed)
    a = rng.random(n) < P_A
    return a, rng.random(n) < np.where(a, P_B + DELTA, P_B - DELTA * P_A / (1 - P_A))


def opened(columns: dict[str, Any], declared: Any, name: str, **promise: Any) -> Any:
    """A private table in memory, keyed by number."""
    n = len(next(iter(columns.values())))
    schema = {"columns": {"id": {"key": True}, **dict.fromkeys(columns, declared)}}
    settings = {"epsilon": 1.0, "delta": 1e-6, "ledger": ":memory:", "name": name} | promise
    return sulq.open(pa.table({"id": np.arange(n), **columns}), schema, **settings)


BOOLEAN = {"type": "boolean", "nullable": False}
NUMBER = {"type": "number", "low": 0.0, "high": 1.0, "nullable": False}


def two_databases(seed: int, **promise: Any) -> tuple[Any, Any, float]:
    """A hospital that knows a, an insurer that knows b, and the tables' own Delta."""
    a, b = two_properties(MILLION, seed)
    sides = [opened({"a": a}, BOOLEAN, "hospital", **promise),
             opened({"b": b}, BOOLEAN, "insurer", **promise)]  # fmt: skip
    return sides[0], sides[1], float(b[a].mean() - b.mean())


def rms(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


# --- done when 1 and 2 ---------------------------------------------------------------------


def blocks() -> Iterator[Line]:
    """One query a side, the whole of T = 1, epsilon 1, delta 1e-6, beliefs."""
    errors, missed = [], 0
    for run in range(RUNS):
        hospital, insurer, true = two_databases(run, queries=1)
        found = vertical.implication(hospital, "a", insurer, "b")
        low, high = found.interval()
        errors.append(found.delta - true)
        missed += not low <= true <= high
    note = f"all {RUNS} runs: {rms(errors):.4f}"
    yield Line("Delta by blocks, n = 1,000,000, rms of 30 runs", 100 * rms(errors[:30]), 2.2,
               "0.022", 1.0, note, POINTS)  # fmt: skip
    share = 100 * missed / RUNS  # outside 1 to 10 by luck: 1 time in 60
    yield Line("95% intervals that missed", share, 10.0, "10 in 100", 1.0,
               f"covered {100 - share:.0f}%", "in 100")  # fmt: skip
    yield Line("95% intervals that missed, at least", 1.0, max(share, 1e-9), "1 in 100", 1.0, "",
               "in 100")  # fmt: skip


def subsets() -> Iterator[Line]:
    """T = 100 spent on one vector of blocks, or on 100 random halves a side."""
    ours, theirs = [], []
    for run in range(50):  # the true 4.6 would show as less than 3.5 once in 40 times
        hospital, insurer, true = two_databases(run, queries=100)
        found = vertical.implication(hospital, "a", insurer, "b", budget=100)
        ours.append(found.delta - true)
        hospital, insurer, true = two_databases(run, queries=100)
        theirs.append(regression(hospital, insurer, 100) - true)
    note = f"{rms(theirs) / rms(ours):.2f} times closer; theory 4.6"
    yield Line("Delta by blocks at T = 100", 100 * rms(ours), 100 * rms(theirs),
               "100 random halves a side, regression", 1 / 3.5, note, POINTS)  # fmt: skip


def regression(a_db: Any, b_db: Any, count: int) -> float:
    """Delta from counts over random halves: the slope, with the variance of the noise taken out."""
    rows = tuple(sulq.Rows.sample(seed, 0.5) for seed in range(count))
    sizes = sizes_of(a_db, rows)
    shares, deviations, noise = [], [], []
    for db, text in ((a_db, "a"), (b_db, "b")):
        answers = db.ask([sulq.Query(where=text, rows=r) for r in rows], share=False)
        counts = np.array([float(x) for x in answers])
        shares.append(float(counts @ sizes / (sizes @ sizes)))
        deviations.append(counts - sizes * shares[-1])
        noise.append(answers[0].std ** 2)
    x, y = deviations
    return float((x @ y) / (x @ x - count * noise[0]) * (1 - shares[0]))


SIZES: dict[Any, Any] = {}  # of subsets: all tables here have the same keys


def sizes_of(db: Any, rows: Any) -> Any:
    if rows not in SIZES:
        SIZES[rows] = np.array([found[0] for found in db.sizes(*rows)], dtype=float)
    return SIZES[rows]


# --- done when 3 -----------------------------------------------------------------------------


def drawn_subsets(p_a: float, p_b: float, delta: float, count: int, rng: Any) -> Any:
    """Exact sums of a and b over random halves of a table of a million people, without noise."""
    both = p_a * (p_b + delta)
    cells = np.array([both, p_a - both, p_b - both, 1 - p_a - p_b + both])
    table = np.round(cells * MILLION).astype(np.int64)
    table[3] += MILLION - table.sum()
    found = rng.multivariate_hypergeometric(table, MILLION // 2, size=count, method="marginals")
    return found[:, 0] + found[:, 1], found[:, 0] + found[:, 2], table


def heavy_ones(p_a: float, p_b: float, delta: float, count: int, rng: Any) -> Heavy:
    """So many heavy halves."""
    a, b, table = drawn_subsets(p_a, p_b, delta, 14 * count + 100, rng)
    exact_a, exact_b = (table[0] + table[1]) / MILLION, (table[0] + table[2]) / MILLION
    sizes = np.full(len(a), MILLION / 2)
    heavy, bias = heavy_subsets(a.astype(float), sizes, exact_a, MILLION)
    heavy, bias = heavy[:count], bias[:count]
    return Heavy(sizes[heavy], bias, b[heavy].astype(float), exact_a, exact_b)


SURE = 6.5  # standard deviations: 1e-9 over the whole grid


def theorems() -> Iterator[Line]:
    """Theorem 2 on a grid, Theorem 3 by many searches, both on sums without noise."""
    rng = np.random.default_rng(3)
    tests, worst = 10_000, -math.inf
    grid = list(itertools.product((0.1, 0.3, 0.6), (0.2, 0.4), (-0.05, 0.0, 0.05)))
    for p_a, p_b, delta in grid:
        found = heavy_ones(p_a, p_b, delta, tests, rng)
        for gap in (-0.1, -0.05, 0.0, 0.05, 0.1):  # Delta_1 - Delta
            says = found.votes(delta + gap) / len(found.sizes)
            gamma = advantage(p_a, p_b, abs(gap))
            wrong = (0.5 - says) if gap <= 0 else (says - (0.5 - gamma))
            worst = max(worst, wrong / (0.5 / math.sqrt(len(found.sizes))))
    note = f"{len(grid) * 5} pairs of Delta and Delta_1, {tests:,} Tests each; false alarm 1e-9"
    yield Line("Theorem 2: furthest on the wrong side of its bound", max(worst, 1e-9), SURE,
               f"{SURE} standard deviations", 1.0, note, "std")  # fmt: skip
    failure, epsilon, searches = 0.05, 0.05, 400
    needed = enough_tests(P_A, P_B, epsilon, failure)

    def missed_with(tests: int) -> int:
        ends = (heavy_ones(P_A, P_B, DELTA, tests, rng).delta for _ in range(searches))
        return sum(abs(end - DELTA) > epsilon for end in ends)

    missed, few = missed_with(needed), missed_with(needed // 20)
    note = f"{missed} of {searches} searches with {needed:,} Tests; with a twentieth of them {few}"
    yield Line("Theorem 3: binary searches that end further than epsilon", 100 * missed / searches,
               100 * failure, "5 in 100", 1.0, note, "in 100")  # fmt: skip


# --- done when 4 and 5 -----------------------------------------------------------------------


def published() -> Iterator[Line]:
    """8 attributes, width 2, n = 1,000,000, dp epsilon 3, T its own price of 28 tables."""
    rng = np.random.default_rng(4)
    names = [f"x{i}" for i in range(8)]
    X = rng.normal(size=(MILLION, 3)) @ rng.normal(size=(3, 8)) + rng.normal(size=(MILLION, 8))
    X = (X - rng.normal(size=8) * 0.7) > 0
    columns = {name: X[:, i] for i, name in enumerate(names)}
    db = opened(columns, BOOLEAN, "census", epsilon=3.0, guarantee="dp", queries=28)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "census.parquet"
        vertical.publish(db, names, 2, path)
        file = vertical.Publication.load(path)
    shares = np.bincount((X << np.arange(8)).sum(axis=1), minlength=256) / MILLION
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    errors, covered = [], 0
    for four in itertools.combinations(range(8), 4):
        for literals in itertools.product((0, 1), repeat=4):
            words = [
                f"{'' if x else 'not '}{names[i]}" for i, x in zip(four, literals, strict=True)
            ]
            found = file.probability(" and ".join(words))
            true = shares[(bits[:, four] == literals).all(axis=1)].sum()
            low, high = found.interval()
            errors.append(abs(found - true))
            covered += low <= true <= high
    note = (f"worst {max(errors):.4f}, intervals covered {100 * covered / len(errors):.0f}%, "
            f"price {file.price}")  # fmt: skip
    yield Line("1,120 conjunctions of 4 literals, mean absolute error", 100 * np.mean(errors), 1.0,
               "0.01", 1.0, note, POINTS)  # fmt: skip


def pca() -> Iterator[Line]:
    """Four databases of 4 columns each, n = 1,000,000, dp epsilon 3, T = 1 all spent."""
    angles = []
    for run in range(3):
        rng = np.random.default_rng(run)
        loadings = rng.normal(size=(16, 3)) * [1.0, 0.5, 0.3]
        X = rng.normal(size=(MILLION, 3)) @ loadings.T + rng.normal(size=(MILLION, 16)) * 0.7
        X = np.clip(0.5 + 0.12 * X, 0.0, 1.0)
        sources = []
        for i in range(0, 16, 4):
            names = [f"x{j}" for j in range(i, i + 4)]
            columns = {name: np.ascontiguousarray(X[:, j]) for j, name in enumerate(names, i)}
            db = opened(columns, NUMBER, f"part {i}", epsilon=3.0, guarantee="dp", queries=1)
            sources.append((db, names))
        model = vertical.PCA(n_components=1, budget=1).fit(sources)
        first = np.linalg.eigh(np.cov(X.T))[1][:, -1]
        angles.append(math.degrees(math.acos(min(1.0, abs(first @ model.components_[0])))))
    note = "each of 3 runs: " + ", ".join(f"{x:.2f}" for x in angles)
    yield Line("PCA across four databases, angle of the first component", max(angles), 5.0,
               "5 degrees", 1.0, note, "degrees")  # fmt: skip


PARTS: dict[str, Callable[[], Iterator[Line]]] = {
    "blocks": blocks, "subsets": subsets, "theorems": theorems, "published": published, "pca": pca,
}  # fmt: skip


if __name__ == "__main__":
    from benchmarks.__main__ import row

    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or PARTS:
        for line in PARTS[name]():
            print(row(line), flush=True)

"""Ranges, prefixes and distribution functions: mean variance at unit price, against theory.

The bound is the dual of the problem at the best multipliers found: no way to measure sums of cells
with Gaussian noise has less. Of beliefs, differences of cells are bounded as well (in pairs).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from benchmarks.measure import Line
from sulq.privacy.strategy_matrix import UNIT, strategy_matrix
from sulq.strategies.optimum import known_total

ROUNDS = 60
# workload, cells, the most it may be under dp; what a tree of histograms has under dp
CASES = [
    ("ranges", 121, 6.8, 9.18),
    ("prefixes", 121, 5.4, 7.30),
    ("prefixes", 256, 7.5, 20.1),
]


def lines() -> Iterator[Line]:
    for workload, cells, most, tree in CASES:
        for guarantee in ("dp", "beliefs"):
            in_pairs = guarantee == "beliefs"
            wanted, count = gram(workload, cells)
            ours = mean_variance(strategy_matrix((workload,), (cells,), in_pairs), wanted, count)
            what = f"all {workload} over {cells} cells, {guarantee}"
            least = bound(wanted, in_pairs) / count
            yield Line(what, ours, least, "the bound of all strategies", 1.02, unit="R")
            if not in_pairs:
                yield Line(what, ours, most, "the aim", 1.0, unit="R")
            other = tree * (2 if in_pairs else 1)
            yield Line(what, ours, other, "a tree of histograms", 1.0, unit="R")
    yield pricing()
    yield from known_totals()
    yield from batches()


def pricing() -> Line:
    """What a price takes that is looked at again, beside the prices of as many new counts."""
    schema = {"v": {"type": "integer", "low": 0, "high": 1499, "nullable": False}}
    db = sulq.rehearsal(schema, rows=100)
    ends = [sorted((i * 733 % 1500, i * 389 % 1500)) for i in range(1000)]
    wheres = [f"v between {a} and {b}" for a, b in ends]
    asked = [sulq.Query(where=w) for w in wheres]

    def seconds(work: Any) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    first = seconds(lambda: db.price(asked))
    again = seconds(lambda: db.price(asked))
    others = [sulq.Query(where=f"{w} or v = 1499") for w in wheres]
    apart = seconds(lambda: db.question(others, share=False))
    note = f"the first time {first:.2f} s of a processor"
    what = "a price of 1,000 ranges over 1,500 values"
    return Line(what, again, apart, "as many new ones, each by itself", 1.0, note, unit="s")


def known_totals() -> Iterator[Line]:
    """Distribution functions of rows whose number is public."""
    for cells in (121, 256):
        for guarantee in ("dp", "beliefs"):
            in_pairs = guarantee == "beliefs"
            wanted, count = gram("prefixes", cells)
            matrix = strategy_matrix(("cdf",), (cells,), in_pairs)
            inner = known_total(wanted)
            a = (matrix[:, :-1] - matrix[:, -1:]) / UNIT  # the others about the last cell
            ours = float((np.linalg.inv(a.T @ a) * inner).sum() / count)
            what = f"the distribution function of known rows over {cells} cells, {guarantee}"
            least = (bound(inner, True) if in_pairs else bound_centred(inner)) / count
            yield Line(what, ours, least, "the bound of all strategies", 1.02, unit="R")
            named = strategy_matrix(("prefixes",), (cells,), in_pairs)
            other = mean_variance(named, wanted, count)
            yield Line(what, ours, other, "the same without their number", 1.0, unit="R")


def bound_centred(inner: Any) -> float:
    """The same where columns are as long as they are far from a centre; of all cells but one."""
    weights, best = np.full(len(inner) + 1, 1 / (len(inner) + 1)), 0.0
    for _ in range(ROUNDS):
        w = weights[:-1]
        upper = np.linalg.cholesky(np.diag(w) - np.outer(w, w)).T
        values, vectors = np.linalg.eigh(upper @ inner @ upper.T)
        roots = np.sqrt(np.maximum(values, 0.0))
        best = max(best, float(roots.sum() ** 2))
        half = np.linalg.solve(upper, vectors * np.sqrt(roots))
        to_centre = half @ (half.T @ w)
        sizes = np.append((half**2).sum(axis=1) - 2 * to_centre, 0.0) + w @ to_centre
        weights = np.maximum(weights * (sizes / sizes.max()) ** 2, 1e-12)
        weights = weights / weights.sum()
    return best


def gram(workload: str, size: int) -> tuple[Any, float]:
    """W^T W of all ranges, or of all prefixes, and how many there are."""
    i = np.arange(size)
    late = np.maximum.outer(i, i)
    if workload == "prefixes":
        return size - late.astype(float), size
    return (np.minimum.outer(i, i) + 1.0) * (size - late), size * (size + 1) / 2


def mean_variance(matrix: Any, wanted: Any, count: float) -> float:
    """What the sums have, of a matrix whose columns move an answer by at most one unit."""
    a = matrix / UNIT
    return float((np.linalg.inv(a.T @ a) * wanted).sum() / count)


def bound(wanted: Any, in_pairs: bool) -> float:
    """tr(G X^-1) >= (tr (M^1/2 G M^1/2)^1/2)^2 / (sum of multipliers), whatever X is allowed."""
    size, best = len(wanted), 0.0
    lengths, apart = np.ones(size), np.ones((size, size)) * in_pairs
    for _ in range(ROUNDS):
        links = apart - np.diag(np.diagonal(apart))
        upper = np.linalg.cholesky(np.diag(lengths + links.sum(axis=1)) - links).T
        values, vectors = np.linalg.eigh(upper @ wanted @ upper.T)
        roots = np.sqrt(np.maximum(values, 0.0))
        best = max(best, float(roots.sum() ** 2 / (lengths.sum() + links.sum() / 2)))
        half = np.linalg.solve(upper, vectors * np.sqrt(roots))
        products = half @ half.T
        sizes = np.diagonal(products)
        distances = np.add.outer(sizes, sizes) - 2 * products
        most = max(sizes.max(), distances.max() if in_pairs else 0.0)
        lengths = np.maximum(lengths * (sizes / most) ** 2, 1e-12)
        apart = apart * np.maximum(distances / most, 1e-6) ** 2
    return best


def batches() -> Iterator[Line]:
    """What batches of counts cost together, against each by itself."""
    schema = {"age": {"type": "integer", "low": 0, "high": 120}, "smoker": {"type": "boolean"}}
    asked = {
        "70 thresholds": [f"age >= {a}" for a in range(20, 90)],
        "10 decades": [f"age >= {a} and age < {a + 10}" for a in range(0, 100, 10)],
        "100 ranges of smokers": [
            f"age between {i * 7 % 60} and {61 + i * 3 % 38} and smoker" for i in range(100)
        ],
    }
    before = {"70 thresholds": 14.9, "10 decades": 8.82, "100 ranges of smokers": 20.9}
    for guarantee in ("dp", "beliefs"):
        db = sulq.rehearsal(schema, rows=100, guarantee=guarantee)
        for name, wheres in asked.items():
            ours = float(db.price([sulq.Query(where=w) for w in wheres]).queries)
            tree = before[name] / (2 if guarantee == "dp" else 1)
            what = f"{name} in one batch, {guarantee}, of {len(wheres)} queries by themselves"
            yield Line(what, ours, tree, "a tree of histograms", 0.75, unit="queries")
        yield from subtotals(db, guarantee)
        quantile = float(Fraction(db.price("select median(age) from rehearsal").queries))
        other = 4.0 if guarantee == "beliefs" else 2.0
        what = f"all quantiles of a column, {guarantee}"
        yield Line(what, quantile, other, "two histograms", 0.5, unit="queries")


def subtotals(db: Any, guarantee: str) -> Iterator[Line]:
    """Histograms with their subtotals, against each histogram by itself."""
    widths = {"5 and 10 years": (5, 10), "5, 10 and 20 years": (5, 10, 20), "2 to 40": (2, 10, 40)}
    for name, each in widths.items():
        asked = [sulq.Query(by=sulq.Bins("age", tuple(range(0, 121, w)))) for w in each]
        ours = float(db.price(asked).queries)
        apart = len(asked) * (2.0 if guarantee == "beliefs" else 1.0)
        what = f"ages in bins of {name}, {guarantee}"
        yield Line(what, ours, apart, "each histogram by itself", 0.65, unit="queries")
    ends = [(0, 17), (18, 64), (65, 120), (18, 29), (30, 49), (50, 64)]
    asked = [sulq.Query(by=sulq.Bins("age", tuple(range(0, 121, 5))))]
    asked += [sulq.Query(where=f"age between {a} and {b}") for a, b in ends]
    apart = 6 + (2.0 if guarantee == "beliefs" else 1.0)
    what = f"a histogram of ages and six ranges, {guarantee}"
    yield Line(what, float(db.price(asked).queries), apart, "by themselves", 0.65, unit="queries")

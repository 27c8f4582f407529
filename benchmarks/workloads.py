"""Workloads: the error of many questions asked together, beside the best that is known."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks.measure import Line
from sulq.privacy.residuals import Part, diameter2, radius2
from sulq.strategies.residual_planner import Workload, best_weights, rounded

DOMAINS = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)  # 10^18 combinations
NAMES = [f"c{i}" for i in range(len(DOMAINS))]
ROWS = 50_000
# The most that root mean square errors may be, at epsilon 1, delta 1e-6 and one query in all.
MOST = {("dp", 2): 27.5, ("dp", 3): 45.5, ("beliefs", 2): 49.5, ("beliefs", 3): 81.0}


def lines() -> Iterator[Line]:
    for guarantee in ("dp", "beliefs"):
        yield pairs(guarantee)
        yield planned(guarantee, 3)


def apart(guarantee: str, width: int) -> float:
    """The error of every table asked by itself, the one query divided among them."""
    each = 1 if guarantee == "dp" else 2
    count = math.comb(len(DOMAINS), width)
    return sulq.Promise(1.0, 1e-6, 1, guarantee=guarantee).std * math.sqrt(each * count)


def theory(guarantee: str, width: int) -> tuple[float, float]:
    """The error of all tables together by the closed form, and how long the plan takes."""
    start = time.perf_counter()
    tables = tuple(itertools.combinations(range(len(DOMAINS)), width))
    workload = Workload(DOMAINS, tables, (1.0,) * len(tables))
    weights = best_weights(workload, guarantee)
    parts = [Part(part, rounded(weight) ** 2) for part, weight in weights.items()]
    size = (radius2 if guarantee == "dp" else diameter2)(parts, DOMAINS)
    error = sulq.Promise(1.0, 1e-6, 1, guarantee=guarantee).std * math.sqrt(size)
    return error, time.perf_counter() - start


def planned(guarantee: str, width: int) -> Line:
    """Too many numbers to ask for at once, but not to plan."""
    error, seconds = theory(guarantee, width)
    alone = apart(guarantee, width)
    return Line(
        f"error of all tables of {width} of 14 columns, {guarantee}, planned", error, alone,
        "each table by itself", MOST[guarantee, width] / alone,
        f"20.9 million cells, planned in {seconds:.1f} s", "rows",
    )  # fmt: skip


def pairs(guarantee: str) -> Line:
    """All tables of two columns, asked and compared with the exact counts."""
    rows = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        db = sulq.open(
            rows, schema(), epsilon=1.0, delta=1e-6, queries=1, guarantee=guarantee,
            ledger=":memory:",
        )  # fmt: skip
    start = time.perf_counter()
    found = db.marginals(NAMES, 2, budget=1)
    seconds = time.perf_counter() - start
    squares, cells = 0.0, 0
    for (a, b), seen in found.items():
        size = DOMAINS[NAMES.index(a)], DOMAINS[NAMES.index(b)]
        exact = np.zeros(size)
        np.add.at(exact, (rows[a].to_numpy(), rows[b].to_numpy()), 1)
        squares += float(((np.array(seen["count"]).reshape(size) - exact) ** 2).sum())
        cells += exact.size
    best, _ = theory(guarantee, 2)
    alone = apart(guarantee, 2)
    return Line(
        f"error of all pairs of 14 columns, {guarantee}, asked", math.sqrt(squares / cells), alone,
        "each table by itself", MOST[guarantee, 2] / alone,
        f"by theory {best:.2f}; {cells:,} cells of 91 tables asked in {seconds:.1f} s", "rows",
    )  # fmt: skip


def table() -> Any:
    """Rows of 14 columns, each with a few frequent values."""
    pick = np.random.default_rng(7)
    return pa.table(
        {
            name: np.minimum(pick.geometric(min(3 / m, 0.6), ROWS) - 1, m - 1)
            for name, m in zip(NAMES, DOMAINS, strict=True)
        }
    )


def schema() -> dict[str, Any]:
    return {
        "columns": {
            name: {"values": list(range(m)), "nullable": False}
            for name, m in zip(NAMES, DOMAINS, strict=True)
        }
    }

"""Models of rows with missing values, beside those of the complete rows without noise.

Of six columns 0, 10 and 44% of the values are missing, more often where the first is large. Under
dp with epsilon = 1 and delta = 1e-6. How often a 95% interval of the noise holds what the complete
rows have: coefficients of a regression, counts of a tree's root, and of the leaves of random trees.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks.measure import Line
from sulq.learn import ID3, LinearRegression, RandomTrees

ROWS, RUNS, SHARES = 20_000, 200, (0.0, 0.1, 0.44)
LEAST, MOST = 0.93, 0.98  # of intervals that should hold
NUMBER = {"type": "number", "low": 0.0, "high": 50.0}
SCHEMA: dict[str, Any] = {
    "x": NUMBER, "z": NUMBER, "y": NUMBER, "flag": {"type": "boolean"},
    "city": {"values": ["rome", "oslo", "lima"]}, "ill": {"type": "boolean"},
}  # fmt: skip
FOUND: list[str] = []


def lines() -> Iterator[Line]:
    for share in SHARES:
        for what, held, of in (regression(share), tree(share), trees(share)):
            FOUND.append(f"| {what} | {share:.0%} | {held:.3f} | {of:,} |")
            name = f"intervals that miss, {what}, {share:.0%} missing"
            yield Line(name, 1 - held, 1 - LEAST, "7%", 1.0, f"{held:.3f} of {of:,} hold", "")


def notes() -> str:
    """How often the intervals held."""
    head = ["| 95% intervals of | missing | held | of |", "|---|---|---|---|"]
    return "\n".join([*head, *FOUND]) + "\n"


def people(share: float) -> pa.Table:
    rng = np.random.default_rng(0)
    x = np.clip(rng.gamma(2.0, 7.0, ROWS), 0, 50)
    z, flag = np.clip(rng.normal(25, 8, ROWS), 0, 50), rng.random(ROWS) < 0.4
    y = np.clip(0.6 * x + 0.2 * z + 5 + rng.normal(0, 2, ROWS), 0, 50)
    drawn = {
        "x": x, "z": z, "y": y, "flag": flag, "city": rng.choice(["rome", "oslo", "lima"], ROWS),
        "ill": x + 10 * flag + rng.normal(0, 3, ROWS) > 18,
    }  # fmt: skip
    gone = {name: rng.random(ROWS) < share * np.where(x > 12, 1.6, 0.4) for name in drawn}
    return pa.table({name: pa.array(v, mask=gone[name]) for name, v in drawn.items()})


def fitted(table: pa.Table, model: Any, columns: list[str], label: str, epsilon: float) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        db = sulq.open(
            table, {"columns": SCHEMA}, epsilon=epsilon, delta=1e-6, queries=1000, guarantee="dp",
            ledger=":memory:",
        )  # fmt: skip
        return model.fit(db, columns=columns, label=label, progress=False)


def regression(share: float) -> tuple[str, float, int]:
    table, held = people(share), []
    kept = table.select(["x", "z", "y"]).to_pandas().dropna()
    A = np.column_stack([kept["x"], kept["z"], np.ones(len(kept))])
    exact = np.linalg.lstsq(A, kept["y"], rcond=None)[0][:2]
    for _ in range(RUNS):
        model = fitted(table, LinearRegression(budget=300), ["x", "z"], "y", 1.0)
        held += (np.abs(model.coef_ - exact) <= 1.96 * model.coef_std_).tolist()
    return "coefficients of a regression", float(np.mean(held)), len(held)


def tree(share: float) -> tuple[str, float, int]:
    table, held, columns = people(share), [], ["x", "flag", "city"]
    kept = table.select([*columns, "ill"]).to_pandas().dropna()
    exact = np.array([(~kept["ill"].astype(bool)).sum(), kept["ill"].astype(bool).sum()])
    for _ in range(RUNS):
        model = fitted(table, ID3(max_depth=2, budget=300), columns, "ill", 1.0)
        held += (np.abs(model.node_counts_[0] - exact) <= 1.96 * model.node_stds_[0]).tolist()
    return "class counts of a tree", float(np.mean(held)), len(held)


def trees(share: float) -> tuple[str, float, int]:
    table, held, columns = people(share), [], ["x", "flag", "city"]
    made = {"n_estimators": 4, "max_depth": 4, "budget": 300}
    exact = fitted(table, RandomTrees(**made), columns, "ill", 1e9)  # the same splits
    for _ in range(RUNS // 10):
        model = fitted(table, RandomTrees(**made), columns, "ill", 1.0)
        leaves = (model.node_columns_ < 0) & (model.node_stds_ > 0)
        off = np.abs(model.node_counts_ - np.round(exact.node_counts_))[leaves]
        held += (off <= 1.96 * model.node_stds_[leaves][:, None]).ravel().tolist()
    return "leaves of random trees", float(np.mean(held)), len(held)

"""Random trees: each over all rows at a share of the promise, or each over a block of them.

python -m benchmarks forests: the three sets of `models`, which it installs. A block is a table of
its own under the whole promise: a row is in one block, so that together they promise the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.measure import Line
from benchmarks.models import SETS, export, opened, read, table_of_ways
from sulq.learn import RandomTrees

EPSILONS, SPLITS, TREES, DEPTHS = (0.5, 1.0), 2, 32, (4, 6)
FOUND: dict[tuple[str, float], dict[str, float]] = {}  # by set and epsilon: mean AUC of each way


def lines() -> Iterator[Line]:
    export()
    for name, bounds in SETS.items():
        for epsilon in EPSILONS:
            found: dict[str, list[float]] = {}
            for seed in range(SPLITS):
                for way, auc in one(name, bounds, epsilon, seed):
                    found.setdefault(way, []).append(auc)
            means = {way: statistics.mean(each) for way, each in found.items()}
            FOUND[name, epsilon] = means
            ours, other = (
                max(v for way, v in means.items() if way.startswith(which))
                for which in ("all rows", "blocks")
            )
            what = f"1 - AUC of random trees, {name}, epsilon {epsilon}"
            note = f"{ours:.4f} and {other:.4f}"
            yield Line(what, 1 - ours, 1 - other, "the best in blocks", 1.0, note, "")


def notes() -> str:
    """Mean AUC of every way."""
    return table_of_ways(f"mean AUC of {SPLITS} splits", FOUND)


def one(
    name: str, bounds: dict[str, Any], epsilon: float, seed: int
) -> Iterator[tuple[str, float]]:
    """AUC of every way on one split."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split

    columns, label = read(name, bounds)
    X = np.array([column.astype(object) for column in columns.values()]).T
    train, test = train_test_split(
        np.arange(len(label)), test_size=0.25, random_state=seed, stratify=label
    )
    for depth in DEPTHS:
        for way in ("all rows", "blocks"):
            p = fitted((columns, label, bounds), train, epsilon, way, depth, X[test])
            yield f"{way}, {TREES} trees, depth {depth}", roc_auc_score(label[test], p)


def fitted(data: Any, train: Any, epsilon: float, way: str, depth: int, held: Any) -> Any:
    """What trees predict of the rows held; tree i is the same both ways."""
    columns, label, bounds = data
    block = np.random.default_rng(0).integers(0, TREES, len(train))
    found, db = [], None
    for i in range(TREES):
        if way == "blocks" or db is None:
            mine = train[block == i] if way == "blocks" else train
            db = opened({c: v[mine] for c, v in columns.items()}, label[mine], bounds, epsilon)
        budget = 1000 if way == "blocks" else 1000 / TREES
        model = RandomTrees(n_estimators=1, max_depth=depth, random_state=i, budget=budget)
        model.fit(db, columns=list(columns), label="label", progress=False)
        found.append(model.predict_proba(held)[:, 1])
    return np.mean(found, axis=0)

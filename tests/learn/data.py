"""Small made-up data for the learners' tests, and databases that hold it."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from helpers import opened


def columns_of(d):
    return [f"x{i}" for i in range(d)]


def table(X, **more):
    return pa.table({**dict(zip(columns_of(X.shape[1]), X.T, strict=True)), **more})


def schema(d, low=0.0, high=1.0, **more):
    ends = {"type": "number", "low": low, "high": high, "nullable": False}
    return {"columns": {**{name: ends for name in columns_of(d)}, **more}}


def low_rank(n=4000, d=6, k=2, seed=0):
    """Rows near a k-dimensional subspace, inside the box."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(d, k)))[0].T
    z = rng.normal(size=(n, k)) * np.linspace(0.25, 0.12, k)
    X = 0.45 + z @ directions + rng.normal(size=(n, d)) * 0.02
    return np.clip(X, 0, 1)


def blobs(n=4000, d=3, k=3, seed=0):
    """Rows around k centres far apart, and which."""
    rng = np.random.default_rng(seed)
    centres = np.linspace(0.15, 0.85, k)[:, None] * np.ones(d)
    which = rng.integers(0, k, n)
    return np.clip(centres[which] + rng.normal(size=(n, d)) * 0.05, 0, 1), which


def separable(n=4000, d=4, margin=0.08, seed=0):
    """Rows that a plane separates with a margin, and their side."""
    rng = np.random.default_rng(seed)
    X = rng.random((3 * n, d))
    w = rng.normal(size=d)
    reach = (X - 0.5) @ w / np.linalg.norm(w) + 0.03
    keep = np.abs(reach) > margin
    return X[keep][:n], (reach > 0)[keep][:n]


class RandomEngine:
    """A stand-in that knows no rows: it answers random integers."""

    def __init__(self, engine, reach):
        self.schema, self.rows, self.reach = engine.schema, engine.rows, reach
        self.random = random.Random(0)

    def sums(self, queries):
        return [
            [[self.random.randint(-self.reach, self.reach) for _ in range(q.shape[1])]
             for _ in range(q.shape[0])]
            for q in queries
        ]  # fmt: skip

    def close(self):
        pass


def stand_in(source, declared, reach=10**9, **settings):
    db = opened(source, declared, **settings)
    db._pipeline.engine = RandomEngine(db._pipeline.engine, reach)
    return db

"""k-means where no start is given: made mixtures and real rows, beside exact k-means++.

Under dp with epsilon = 1 and delta = 1e-6, all of it spent on the one model. Inertia is over that
of the best of ten exact k-means++ starts (scikit-learn). The figures of diffprivlib 0.6.6, an extra
(`pip install 'sulq[bench]'`), are left out without it, and the photographs without Pillow.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.learning import inertia
from benchmarks.measure import Line
from sulq.learn import KMeans

RUNS = 11
THEIRS = 3  # runs of diffprivlib
MEDIAN, WORST = 1.05, 1.3
EXACT = "the best of ten exact k-means++ starts"

# k, d, n of the made mixtures.
MIXTURES = (
    (3, 2, 20_000), (5, 2, 50_000), (8, 3, 20_000), (5, 4, 200_000), (5, 8, 20_000),
    (10, 6, 100_000), (8, 8, 200_000), (10, 10, 20_000), (8, 16, 20_000), (10, 16, 200_000),
)  # fmt: skip
LEAST = 20_000  # rows; of fewer the figures are reported, and promised nothing
NO_LIMIT = 10.0


@dataclass(frozen=True)
class Rows:
    """Rows within [0, 1] by bounds known beforehand, and how many clusters to find."""

    name: str
    X: Any
    k: int


def lines() -> Iterator[Line]:
    for rows in (*mixtures(), *real(), *small()):
        yield from measured(rows)


# --- the data ----------------------------------------------------------------------------


def mixtures() -> Iterator[Rows]:
    for seed, (k, d, n) in enumerate(MIXTURES):
        yield Rows(f"mixture of {k}, {n:,} x {d}", mixture(k, d, n, 100 + seed), k)


def mixture(k: int, d: int, n: int, seed: int) -> Any:
    """Normal clusters of several sizes and shapes, their centres not too near each other."""
    rng = np.random.default_rng(seed)
    for _ in range(1000):
        centres = rng.uniform(0.15, 0.85, (k, d))
        apart2 = ((centres[:, None] - centres) ** 2).sum(axis=2) + 9 * np.eye(k)
        if apart2.min() > 0.02 * d:
            break
    sizes, spread = rng.dirichlet(np.full(k, 5.0)), rng.uniform(0.03, 0.08, (k, d))
    which = rng.choice(k, n, p=sizes)
    return np.clip(centres[which] + rng.normal(size=(n, d)) * spread[which], 0.0, 1.0)


def real() -> Iterator[Rows]:
    from sklearn import datasets

    pictures = datasets.load_digits().images / 16.0
    tiles = pictures.reshape(-1, 4, 2, 4, 2).swapaxes(2, 3).reshape(-1, 4)
    yield Rows("digits, tiles of 2 x 2, 28,752 x 4", tiles, 6)
    try:
        china = datasets.load_sample_image("china.jpg") / 255.0
        flower = datasets.load_sample_image("flower.jpg") / 255.0
    except ImportError:
        return
    yield Rows("photograph of China, colours, 273,280 x 3", china.reshape(-1, 3), 8)
    yield Rows("photograph of a flower, colours, 273,280 x 3", flower.reshape(-1, 3), 8)
    height, width, _ = china.shape
    y, x = np.mgrid[:height, :width]
    placed = np.column_stack([china.reshape(-1, 3), x.ravel() / width, y.ravel() / height])
    yield Rows("photograph of China, colours and places, 273,280 x 5", placed, 8)


def small() -> Iterator[Rows]:
    """Fewer rows, reported only."""
    from sklearn import datasets

    yield Rows("mixture of 5, 5,000 x 4", mixture(5, 4, 5000, 200), 5)
    yield Rows("mixture of 5, 2,000 x 4", mixture(5, 4, 2000, 200), 5)
    for name, k in (("iris", 3), ("wine", 3), ("breast_cancer", 2), ("digits", 10)):
        X = getattr(datasets, f"load_{name}")().data
        low, high = X.min(axis=0), X.max(axis=0)
        scaled = (X - low) / np.where(high > low, high - low, 1.0)
        yield Rows(f"{name}, {X.shape[0]:,} x {X.shape[1]}", scaled, k)


# --- the measure -------------------------------------------------------------------------


def measured(rows: Rows) -> Iterator[Line]:
    from sklearn.cluster import KMeans as Exact

    X, k = rows.X, rows.k
    exact = float(Exact(k, n_init=10, random_state=0).fit(X).inertia_)
    found = sorted(inertia(X, fitted(X, k, seed)) / exact for seed in range(RUNS))
    middle, worst = statistics.median(found), found[-1]
    enough = len(X) >= LEAST
    note = f"packing {inertia(X, fitted(X, k, 0, 'packing')) / exact:.2f}" + their_note(X, k, exact)
    yield Line(
        f"k-means, {rows.name}, {k} clusters", middle, 1.0, EXACT, MEDIAN if enough else NO_LIMIT,
        note, "",
    )  # fmt: skip
    yield Line(
        f"the same, the worst of {RUNS}", worst, 1.0, EXACT, WORST if enough else NO_LIMIT, "", ""
    )


def fitted(X: Any, k: int, seed: int, init: str = "seeds") -> Any:
    """Our centres; the seed is that of the public points."""
    model = KMeans(
        k, epsilon=1.0, delta=1e-6, guarantee="dp", bounds=(0.0, 1.0), random_state=seed, init=init
    )
    return model.fit(X, progress=False).cluster_centers_


def their_note(X: Any, k: int, exact: float) -> str:
    try:
        from diffprivlib import models
    except ImportError:
        return ""
    theirs = [
        models.KMeans(k, epsilon=1.0, bounds=(0.0, 1.0)).fit(X).cluster_centers_
        for _ in range(THEIRS)
    ]
    return f", diffprivlib {statistics.median(inertia(X, c) / exact for c in theirs):.2f}"

"""Part 3: PCA, k-means and the perceptron against the exact methods, numpy and diffprivlib.

Everything is asked under dp with epsilon = 1 and delta = 1e-6, all of it spent on the one model.
diffprivlib 0.6.6 is an extra (`pip install 'sulq[bench]'`); its lines are left out without it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks.measure import Line, in_turn, seconds
from sulq.learn import PCA, KMeans, LinearRegression, Perceptron

RUNS = 5
MILLION, FEWER, FEWEST = 1_000_000, 20_000, 10_000
ALL = 1000  # queries, the whole budget
TABLES: dict[int, Any] = {}  # made once, by their label
PATIENCE = 20  # seconds for one of diffprivlib's PCAs


def lines() -> Iterator[Line]:
    yield from pca_of_a_million()
    yield from pca_of_few()
    yield from kmeans_of_a_million()
    yield from perceptron_of_a_million()
    yield from against_diffprivlib()


# --- the data ----------------------------------------------------------------------------


def opened(X: Any, y: Any = None, queries: int = ALL) -> Any:
    """A private table of x0, x1, ... in [0, 1], and of a Boolean label."""
    columns: dict[str, Any] = {f"x{i}": np.ascontiguousarray(x) for i, x in enumerate(X.T)}
    number = {"type": "number", "low": 0.0, "high": 1.0, "nullable": False}
    declared: dict[str, Any] = dict.fromkeys(columns, number)
    if y is not None:
        columns["label"] = y
        declared["label"] = {"type": "boolean", "nullable": False}
    return sulq.open(
        pa.table(columns), {"columns": declared}, epsilon=1.0, delta=1e-6, queries=queries,
        guarantee="dp", ledger=":memory:",
    )  # fmt: skip


def strong_directions(n: int, d: int, k: int = 8, length: float = 0.22, seed: int = 0) -> Any:
    """Rows in [0, 1]^d that mostly vary along k directions."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(d, k)))[0].T
    z = rng.normal(size=(n, k)) * np.linspace(2, 1, k) * length
    return np.clip(0.5 + z @ directions + rng.normal(size=(n, d)) * 0.02, 0.0, 1.0)


def short_rows(n: int, d: int) -> Any:
    """The same, no row further than 2 from the middle."""
    y = strong_directions(n, d) - 0.5
    return 0.5 + y * np.minimum(1.0, 2.0 / np.linalg.norm(y, axis=1, keepdims=True))


def clusters(n: int, d: int, k: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Rows around k centres, and points to start from that lie near them."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.2, 0.8, (k, d))
    X = centres[rng.integers(0, k, n)] + rng.normal(size=(n, d)) * 0.08
    return np.clip(X, 0.0, 1.0), np.clip(centres + rng.normal(size=(k, d)) * 0.1, 0.0, 1.0)


def with_a_margin(n: int, d: int, margin: float = 0.1, seed: int = 0) -> tuple[Any, Any]:
    """Rows that a plane separates, none nearer to it than the margin."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.random((2 * n, d))
    reach = (X - 0.5) @ w + 0.02
    kept = np.abs(reach) > margin
    return X[kept][:n], reach[kept][:n] > 0


# --- PCA -----------------------------------------------------------------------------------


def captured(X: Any, components: Any) -> float:
    """The share of the variance along these directions of what exact PCA's have."""
    covariance = np.cov(X.T)
    k = len(components)
    q, _ = np.linalg.qr(np.asarray(components).T)
    best = float(np.linalg.eigvalsh(covariance)[-k:].sum())
    return float(np.trace(q.T @ covariance @ q)) / best


def missed(X: Any, model: Callable[[], Any]) -> float:
    return statistics.median(1 - captured(X, model().components_) for _ in range(RUNS))


def pca_of_a_million() -> Iterator[Line]:
    X = strong_directions(MILLION, 64)
    loss = missed(X, lambda: PCA(8, budget=ALL).fit(opened(X)))
    yield Line(
        "PCA, 1,000,000 x 64, variance missed", loss, 1e-4, "a ten-thousandth of exact PCA's",
        1.0, f"captured {1 - loss:.6f}", "",
    )  # fmt: skip
    db, turn = opened(X, queries=10**9), itertools.count()

    def ours() -> None:
        # Another budget is another question, so that no stored answer helps.
        PCA(8, budget=ALL + next(turn)).fit(db)

    a, b = in_turn(ours, lambda: X.T @ X, rounds=RUNS)
    yield Line("PCA, 1,000,000 x 64", a, b, "numpy, X.T @ X", 4.0)
    yield from arrays_of_a_million(X)


def arrays_of_a_million(X: Any) -> Iterator[Line]:
    """PCA(epsilon=1).fit(X), the opening and the noise included."""

    def fit(rows: Any) -> Callable[[], Any]:
        return lambda: PCA(8, epsilon=1.0, bounds=(0, 1)).fit(rows, progress=False)

    narrow, turned = X.astype(np.float32), np.asfortranarray(X)
    ways = {"C order": X, "Fortran order": turned, "float32, against float64": narrow}
    exact, *ours = in_turn(lambda: X.T @ X, *map(fit, ways.values()), rounds=RUNS)
    for what, took in zip(ways, ours, strict=True):
        yield Line(f"PCA.fit(X), 1,000,000 x 64, {what}", took, exact, "numpy, X.T @ X", 3.0)
    X, settings = np.ascontiguousarray(X[:, :16]), {"epsilon": 1.0, "bounds": (0, 1)}
    y = X @ np.linspace(-1, 1, 16) / 8 + 0.5
    for model, label in (
        (KMeans(8, init=X[:8], max_iter=3, **settings), None),
        (LinearRegression(label_bounds=(0, 1), **settings), y),
    ):
        a, b = in_turn(
            lambda m=model, t=label: m.fit(X, t, progress=False),
            lambda m=model, t=label: as_a_table(m, X, t), rounds=RUNS,
        )  # fmt: skip
        yield Line(
            f"{type(model).__name__}.fit(X), 1,000,000 x 16", a, b, "the same from a table", 1.3
        )


def as_a_table(model: Any, X: Any, y: Any) -> None:
    """The same model of an Arrow table, whose columns are copied beforehand."""
    held = TABLES.get(id(y))
    if held is None:
        columns = {f"x{i}": np.ascontiguousarray(x) for i, x in enumerate(X.T)}
        held = TABLES[id(y)] = pa.table(columns if y is None else {**columns, "label": y})
    number = {"type": "number", "low": 0.0, "high": 1.0}
    db = sulq.open(
        held, {"columns": dict.fromkeys(held.column_names, number)}, epsilon=1.0, queries=ALL,
        ledger=":memory:",
    )  # fmt: skip
    with db:
        names = [f"x{i}" for i in range(X.shape[1])]
        whole = type(model)(**model.get_params() | {"budget": ALL})
        whole.fit(db, columns=names, label=None if y is None else "label", progress=False)


def pca_of_few() -> Iterator[Line]:
    for what, X, norm, most in (
        ("PCA, 10,000 x 64, variance missed", strong_directions(FEWEST, 64), None, 0.2),
        ("PCA, 10,000 x 64, row_norm=2, variance missed", short_rows(FEWEST, 64), 2.0, 0.03),
    ):
        loss = missed(X, lambda X=X, norm=norm: PCA(8, row_norm=norm, budget=ALL).fit(opened(X)))
        note = f"captured {1 - loss:.4f}"
        yield Line(what, loss, most, f"{most:g} of exact PCA's", 1.0, note, "")


# --- k-means -------------------------------------------------------------------------------


def exact_step(X: Any, centres: Any) -> Any:
    """One k-means step in numpy."""
    lengths = (centres**2).sum(axis=1)
    which = (lengths - 2 * X @ centres.T).argmin(axis=1)
    counts = np.bincount(which, minlength=len(centres))
    sums = np.column_stack([np.bincount(which, weights=x, minlength=len(centres)) for x in X.T])
    return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)


def exact_kmeans(X: Any, start: Any, steps: int) -> Any:
    centres = start
    for _ in range(steps):
        centres = exact_step(X, centres)
    return centres


def inertia(X: Any, centres: Any) -> float:
    far = (centres**2).sum(axis=1) - 2 * X @ np.asarray(centres).T
    return float((far.min(axis=1) + (X**2).sum(axis=1)).sum())


def kmeans_of_a_million() -> Iterator[Line]:
    X, start = clusters(MILLION, 16)
    steps = 5
    exact = inertia(X, exact_kmeans(X, start, steps))

    def model(db: Any, **more: Any) -> Any:
        settings = {"init": start, "max_iter": steps, "budget": ALL} | more
        return KMeans(8, **settings).fit(db)

    ours = statistics.median(inertia(X, model(opened(X)).cluster_centers_) for _ in range(RUNS))
    yield Line("k-means, 1,000,000 x 16, inertia", ours, exact, "exact k-means", 1.01, "", "")
    db, turn = opened(X, queries=10**9), itertools.count()

    def step() -> None:
        model(db, max_iter=1, budget=ALL + next(turn))

    columns = np.asfortranarray(X)  # as a column store holds it, kind to the sums
    a, b, c = in_turn(step, lambda: exact_step(X, start), lambda: exact_step(columns, start))
    note = f"against the same on rows held by columns {a / c:.2f}"
    yield Line("k-means, 1,000,000 x 16, one step", a, b, "the same step in numpy", 2.0, note)


# --- the perceptron --------------------------------------------------------------------------


def exact_perceptron(X: Any, y: Any, rounds: int) -> float:
    """The paper's perceptron without noise: the share it gets right in the end."""
    rows = np.column_stack([X - 0.5, np.full(len(X), 0.5)])
    signs = np.where(y, 1.0, -1.0)
    w = np.zeros(rows.shape[1])
    for _ in range(rounds):
        wrong = signs * (rows @ w) <= 0
        if not wrong.any():
            break
        w = w + (signs[wrong, None] * rows[wrong]).sum(axis=0) / wrong.sum()
    return float(np.mean(signs * (rows @ w) > 0))


def perceptron_of_a_million() -> Iterator[Line]:
    margin = 0.1
    X, y = with_a_margin(MILLION, 16, margin)
    bound = Perceptron().rounds_needed(16, margin)
    exact = exact_perceptron(X, y, min(bound, 60))
    models = [Perceptron(max_iter=20, budget=ALL).fit(opened(X, y), label="label")
              for _ in range(RUNS)]  # fmt: skip
    ours = statistics.median(m.score(X, y) for m in models)
    rounds = statistics.median(int(m.n_iter_.max()) for m in models)
    yield Line(
        "perceptron, 1,000,000 x 16, exact accuracy over ours", exact, ours, "ours", 1 / 0.99,
        f"right: {ours:.4f} and {exact:.4f}; {rounds} rounds, the paper's bound is {bound:,}", "",
    )  # fmt: skip


# --- diffprivlib -----------------------------------------------------------------------------


def against_diffprivlib() -> Iterator[Line]:
    try:
        from diffprivlib import models
    except ImportError:
        return
    low, high = 0.0, 1.0
    yield from their_pca(models, low, high)
    yield from their_kmeans(models, low, high)
    yield their_regression(models)


def their_pca(models: Any, low: float, high: float) -> Iterator[Line]:
    for n, d in ((FEWER, 16), (FEWEST, 64)):
        k = min(8, d // 4)
        X = strong_directions(n, d, k)

        def theirs(X: Any = X, k: int = k, d: int = d) -> float:
            model = models.PCA(k, epsilon=1.0, bounds=(low, high), data_norm=float(np.sqrt(d)))
            return 1 - captured(X, model.fit(X).components_)

        found = [x for x in (ended(theirs, PATIENCE) for _ in range(RUNS)) if x is not None]
        ours = missed(X, lambda X=X, k=k: PCA(k, budget=ALL).fit(opened(X)))
        other = statistics.median(found) if found else 1.0
        note = (
            f"captured {1 - ours:.4f} and {1 - other:.4f}; {len(found)} of {RUNS} of theirs ended "
            f"within {PATIENCE} s"
        )
        yield Line(f"PCA, {n:,} x {d}, variance missed", ours, other, "diffprivlib", 1.0, note, "")


def ended(f: Callable[[], float], patience: float) -> float | None:
    """What f gives, or None if it takes too long: their sampler rejects, sometimes for hours."""
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    child = fork.Process(target=lambda: results.put(f()))
    child.start()
    child.join(patience)
    if child.is_alive():
        child.terminate()
        child.join()
        return None
    return float(results.get())


def their_kmeans(models: Any, low: float, high: float) -> Iterator[Line]:
    for n in (FEWER, MILLION):
        X, _ = clusters(n, 16)
        exact = inertia(X, exact_kmeans(X, clusters(n, 16)[1], 20))
        fits: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
        runs = RUNS if n == FEWER else 1

        def ours(X: Any = X) -> Any:
            return KMeans(8, budget=ALL).fit(opened(X)).cluster_centers_

        def theirs(X: Any = X) -> Any:
            return models.KMeans(8, epsilon=1.0, bounds=(low, high)).fit(X).cluster_centers_

        for _ in range(runs):
            for name, way in (("ours", ours), ("theirs", theirs)):
                centres: list[Any] = []
                took = seconds(lambda way=way, centres=centres: centres.append(way()))
                fits[name].append((inertia(X, centres[0]) / exact, took))
        (a, ta), (b, tb) = (
            (statistics.median(x for x, _ in fits[k]), statistics.median(t for _, t in fits[k]))
            for k in ("ours", "theirs")
        )
        note = "inertia over that of exact k-means from near the centres"
        yield Line(f"k-means, {n:,} x 16, no start given", a, b, "diffprivlib", 1.0, note, "")
        if n == MILLION:
            yield Line(f"k-means, {n:,} x 16, time", ta, tb, "diffprivlib", 0.1)


def their_regression(models: Any) -> Line:
    X, y = with_a_margin(FEWER, 16)
    norm = float(np.sqrt(X.shape[1]))
    ours = statistics.median(
        1 - Perceptron(max_iter=10, budget=ALL).fit(opened(X, y), label="label").score(X, y)
        for _ in range(RUNS)
    )
    other = statistics.median(
        1 - models.LogisticRegression(epsilon=1.0, data_norm=norm).fit(X, y).score(X, y)
        for _ in range(RUNS)
    )
    return Line(
        f"perceptron, {FEWER:,} x 16, wrong rows", ours, other, "diffprivlib LogisticRegression",
        1.0, f"right: {1 - ours:.4f} and {1 - other:.4f}", "",
    )  # fmt: skip

"""Part 3: ID3 against exact ID3, plain DuckDB and diffprivlib; naive Bayes against the last.

Everything is asked under dp with epsilon = 1 and delta = 1e-6, all of it spent on the one model.
diffprivlib 0.6.6 is an extra (`pip install 'sulq[bench]'`); its lines are left out without it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sulq
from benchmarks.data import FOLDER
from benchmarks.measure import Line, in_turn
from sulq.learn import ID3, NaiveBayes

WORDS = ("a", "b", "c", "d")
ATTRIBUTES, DEPTH, NOISE = 10, 3, 0.1
RUNS = 5
MILLION, FEWER = 1_000_000, 20_000
ALL = 1000  # queries, the whole budget


def lines() -> Iterator[Line]:
    yield accuracy(MILLION)
    yield time_of_a_tree(MILLION)
    yield accuracy(FEWER)
    yield from against_diffprivlib()


# --- the data ----------------------------------------------------------------------------


def rows(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Attributes 0..3, and labels of a depth-3 tree, one in ten of them flipped.

    A branch leans to one class, one in four of what is below it to the other: so each level
    says something, and exact ID3 finds the tree.
    """
    rng, planted = np.random.default_rng(seed), np.random.default_rng(seed)  # one tree for all n
    X = rng.integers(0, len(WORDS), (n, ATTRIBUTES))
    y = np.empty(n, dtype=bool)

    def label(chosen: Any, used: frozenset[int], depth: int, lean: bool | None) -> None:
        if depth == 0:
            y[chosen] = lean
            return
        attribute = int(planted.choice([a for a in range(ATTRIBUTES) if a not in used]))
        odd = int(planted.integers(0, len(WORDS)))
        for j in range(len(WORDS)):
            below = j % 2 == 0 if lean is None else lean != (j == odd)
            at = chosen[X[chosen, attribute] == j]
            label(at, used | {attribute}, depth - 1, below)

    label(np.arange(n), frozenset(), DEPTH, None)
    return X, y ^ (rng.random(n) < NOISE)


def parquet(n: int, seed: int = 0) -> Path:
    """The same as a file: ten columns of words and a Boolean."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"tree-{n}-{seed}.parquet"
    if not path.exists():
        X, y = rows(n, seed)
        words = {f"a{i}": np.array(WORDS)[X[:, i]] for i in range(ATTRIBUTES)}
        pq.write_table(pa.table({**words, "label": y}), path)
    return path


SCHEMA = {
    "columns": {
        **{f"a{i}": {"values": list(WORDS)} for i in range(ATTRIBUTES)},
        "label": {"type": "boolean", "nullable": False},
    }
}


def opened(path: Path) -> Any:
    return sulq.open(
        path, SCHEMA, epsilon=1.0, delta=1e-6, queries=ALL, guarantee="dp", ledger=":memory:"
    )


# --- exact ID3 -----------------------------------------------------------------------------


def exact_id3(X: Any, y: Any, depth: int = DEPTH) -> Callable[[Any], Any]:
    """Plain ID3 in numpy: the attribute of most gain at each node, the majority in each leaf."""

    def grown(chosen: Any, used: frozenset[int], depth: int) -> Any:
        majority = bool(2 * y[chosen].sum() > len(chosen))
        left = [a for a in range(X.shape[1]) if a not in used]
        if depth == 0 or not left or not len(chosen):
            return majority
        best = max(left, key=lambda a: information(X[chosen, a], y[chosen]))
        parts = [chosen[X[chosen, best] == j] for j in range(len(WORDS))]
        return best, [grown(part, used | {best}, depth - 1) for part in parts]

    def predicted(tree: Any, rows: Any) -> Any:
        out = np.empty(len(rows), dtype=bool)

        def walk(tree: Any, at: Any) -> None:
            if isinstance(tree, bool):
                out[at] = tree
                return
            attribute, below = tree
            for j, part in enumerate(below):
                walk(part, at[rows[at, attribute] == j])

        walk(tree, np.arange(len(rows)))
        return out

    tree = grown(np.arange(len(X)), frozenset(), depth)
    return lambda rows: predicted(tree, rows)


def information(column: Any, y: Any) -> float:
    """-n H(label | column), in bits."""
    table = np.bincount(2 * column + y, minlength=2 * len(WORDS)).reshape(-1, 2).astype(float)
    total = table.sum(axis=1, keepdims=True)
    kept = table > 0
    return float((table[kept] * np.log2((table / np.maximum(total, 1))[kept])).sum())


# --- lines -------------------------------------------------------------------------------


def wrong_rows(n: int) -> float:
    """The share of rows that ID3 classifies wrongly."""
    X, y = rows(n)
    path, words = parquet(n), np.array(WORDS)[X]
    return statistics.median(
        1 - ID3(budget=ALL).fit(opened(path), label="label").score(words, y) for _ in range(RUNS)
    )


def accuracy(n: int) -> Line:
    """Share of rows classified wrongly, against exact ID3's: at most half a point more."""
    X, y = rows(n)
    ours, exact = wrong_rows(n), float(np.mean(exact_id3(X, y)(X) != y))
    return Line(
        f"ID3, {n:,} x {ATTRIBUTES}, wrong rows", ours, exact, "exact ID3, wrong rows",
        (exact + 0.005) / exact, f"right: {1 - ours:.4f} and {1 - exact:.4f}", "",
    )  # fmt: skip


def time_of_a_tree(n: int) -> Line:
    """A whole tree, against the group-bys that plain DuckDB needs for the same counts."""
    path = parquet(n)
    plain = duckdb.connect()
    fresh = iter([opened(path) for _ in range(RUNS + 1)])  # so that no stored answer helps
    model = ID3(budget=ALL).fit(opened(path), label="label")

    def ours() -> None:
        ID3(budget=ALL).fit(next(fresh), label="label")

    def duck() -> None:
        for leaf, attributes in levels(model):
            for a in attributes:
                plain.execute(
                    f"select {leaf} as leaf, {a}, label, count(*) from '{path}' group by all"
                ).fetchall()

    def duck_sets() -> None:
        for leaf, attributes in levels(model):
            sets = ", ".join(f"(leaf, {a}, label)" for a in attributes)
            plain.execute(
                f"select leaf, {', '.join(attributes)}, label, count(*) from (select *, {leaf} as "
                f"leaf from '{path}') group by grouping sets ({sets})"
            ).fetchall()

    a, b, c = in_turn(ours, duck, duck_sets, rounds=RUNS)
    note = f"against one statement a level with grouping sets {a / c:.2f}"
    return Line(
        f"ID3, {n:,} x {ATTRIBUTES}, a whole tree", a, b, "DuckDB, its group-bys", 2.0, note
    )


def levels(model: Any) -> Iterator[tuple[str, list[str]]]:
    """What each level groups by: a CASE for the tree so far, and the attributes left."""
    names = list(model.columns_)
    root = names[model.node_columns_[0]]
    yield "0", names
    left = [name for name in names if name != root]
    first = " ".join(f"when '{w}' then {i}" for i, w in enumerate(WORDS))
    yield f"case {root} {first} end", left
    second = []
    for i, w in enumerate(WORDS):
        below = names[model.node_columns_[model.node_children_[0, i]]]
        cases = " ".join(f"when '{v}' then {len(WORDS) * i + j}" for j, v in enumerate(WORDS))
        second.append(f"when '{w}' then case {below} {cases} end")
    yield f"case {root} {' '.join(second)} end", left


# --- diffprivlib -----------------------------------------------------------------------------


def against_diffprivlib() -> Iterator[Line]:
    try:
        from diffprivlib import models
    except ImportError:
        return
    for n in (FEWER, MILLION):
        yield from their_trees(models, n)
    yield their_bayes(models)


def their_trees(models: Any, n: int) -> Iterator[Line]:
    """Wrong rows, against the depths and numbers of trees that suit them best here."""
    X, y = rows(n)
    ours = wrong_rows(n)
    given = {"epsilon": 1.0, "classes": [False, True],
             "bounds": (np.zeros(ATTRIBUTES), np.full(ATTRIBUTES, 3.0))}  # fmt: skip
    kinds = {
        "DecisionTreeClassifier": {"max_depth": 8},
        "RandomForestClassifier": {"max_depth": 12, "n_estimators": 10},
    }
    for name, settings in kinds.items():
        made = getattr(models, name)
        runs = RUNS if n == FEWER else 1
        wrong = [1 - made(**given, **settings).fit(X, y).score(X, y) for _ in range(runs)]
        other = statistics.median(wrong)
        note = f"right: {1 - ours:.4f} and {1 - other:.4f}"
        what = f"ID3, {n:,} x {ATTRIBUTES}, wrong rows"
        yield Line(what, ours, other, f"diffprivlib {name}", 1.0, note, "")


def their_bayes(models: Any) -> Line:
    """Two classes of 16 numbers that overlap."""
    rng = np.random.default_rng(0)
    y = rng.random(FEWER) < 0.5
    X = np.clip(rng.normal(np.where(y, 0.53, 0.47)[:, None], 0.1, (FEWER, 16)), 0.0, 1.0)
    settings = {"epsilon": 1.0, "delta": 1e-6, "guarantee": "dp", "bounds": (0.0, 1.0)}
    ours = statistics.median(
        1 - NaiveBayes(**settings).fit(X, y).score(X, y)  # type: ignore[arg-type]
        for _ in range(RUNS)
    )
    other = statistics.median(
        1 - models.GaussianNB(epsilon=1.0, bounds=(0.0, 1.0)).fit(X, y).score(X, y)
        for _ in range(RUNS)
    )
    return Line(
        f"naive Bayes, {FEWER:,} x 16, wrong rows", ours, other, "diffprivlib GaussianNB", 1.0,
        f"right: {1 - ours:.4f} and {1 - other:.4f}", "",
    )  # fmt: skip

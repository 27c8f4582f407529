"""LinearSVM from moments, from moments and gradients, and from gradients alone.

python -m benchmarks margins: the numbers of the three sets of `models`, which it installs. What is
compared is the loss that a model minimises, over that of scikit-learn's on the same rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.measure import Line
from benchmarks.models import SETS, export, opened, read, table_of_ways
from sulq.learn import LinearSVM
from sulq.learn.svm import SIGNS
from sulq.learn.task import Task, all_within

EPSILONS, RUNS, ROUNDS = (0.5, 1.0), 3, (0, 1, 2, 4, 8)
GRADIENTS, STEPS = (10, 30), (1.0, 4.0)  # rounds of gradients alone, and how far they go
ALPHA = 0.001
FOUND: dict[tuple[str, float], dict[str, float]] = {}  # by set and epsilon: the mean loss


def lines() -> Iterator[Line]:
    export()
    for name, bounds in SETS.items():
        columns, label = read(name, bounds)
        numbers = {c: v for c, v in columns.items() if c in bounds}
        low, high = np.array([bounds[c] for c in numbers], dtype=float).T
        Y = (np.array(list(numbers.values())).T - low) / (high - low) - 0.5
        exact = exact_loss(Y, label)
        for epsilon in EPSILONS:
            means: dict[str, float] = {}
            for way, fit in ways():
                found = []
                for _ in range(RUNS):
                    db = opened(numbers, label, bounds, epsilon)
                    theta, level = fit(db, tuple(numbers), low, high - low)
                    found.append(loss(theta, level, Y, label))
                means[way] = statistics.mean(found)
            FOUND[name, epsilon] = means | {"scikit-learn's LinearSVC": exact}
            what = f"loss of LinearSVM, {name}, epsilon {epsilon}"
            yield Line(what, means["moments, 2 rounds"], exact, "LinearSVC", 1.02, "", "")


def notes() -> str:
    """The mean loss of every way."""
    return table_of_ways(f"mean loss of {RUNS} fits", FOUND)


def ways() -> Iterator[tuple[str, Callable[..., tuple[Any, float]]]]:
    """Each way by name: of a database and its columns, theta and the level."""
    for rounds in ROUNDS:
        yield f"moments, {rounds} rounds", lambda *given, r=rounds: corrected(*given, rounds=r)
    for rounds in GRADIENTS:
        for step in STEPS:
            name = f"gradients alone, {rounds} rounds of {step:g}"
            yield name, lambda *given, r=rounds, s=step: descended(*given, rounds=r, step=s)


def corrected(db: Any, columns: Any, low: Any, width: Any, rounds: int) -> tuple[Any, float]:
    model = LinearSVM(max_iter=rounds, alpha=ALPHA, budget=1000)
    model.fit(db, columns=list(columns), label="label", progress=False)
    return model.coef_ * width, model.intercept_ + float(model.coef_ @ (low + width / 2))


def descended(
    db: Any, columns: Any, low: Any, width: Any, rounds: int, step: float
) -> tuple[Any, float]:
    """Steps against the gradient from nothing; the mean of the second half."""
    task = Task(db, columns, "label", 1000)
    at, path = np.zeros(len(columns) + 1), []
    for _ in range(rounds):
        query = LinearSVM()._round_query(task, at[:-1], float(at[-1]))
        answer = db.ask(all_within(db, [query], 1000 / rounds)[0])
        pull = sum(s * np.array([*v[1:], v[0]]) for s, v in zip(SIGNS, answer.values, strict=True))
        at = at + step * (pull / db.rows - np.append(ALPHA * at[:-1], 0.0))
        path.append(at)
    mean = np.mean(path[rounds // 2 :], axis=0)
    return mean[:-1], float(mean[-1])


def exact_loss(Y: Any, label: Any) -> float:
    from sklearn.svm import LinearSVC

    made = LinearSVC(loss="hinge", C=1 / (ALPHA * len(Y)), max_iter=20_000, intercept_scaling=30)
    model = made.fit(Y, label)
    return loss(model.coef_[0], float(model.intercept_[0]), Y, label)


def loss(theta: Any, level: float, Y: Any, label: Any) -> float:
    s = np.where(label, 1.0, -1.0)
    return float(ALPHA / 2 * theta @ theta + np.maximum(0, 1 - s * (Y @ theta + level)).mean())

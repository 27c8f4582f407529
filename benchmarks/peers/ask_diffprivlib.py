"""diffprivlib: its tools and models for epsilon 1; many questions have equal parts of it.

Argument: the folder. It has no composition of many that is better than adding their epsilons.
"""

import itertools
import sys
import warnings

import numpy as np
from answering import columns, serve
from diffprivlib import models, tools

warnings.simplefilter("ignore")
folder = sys.argv[1]
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
NUMBERS = ["carat", "depth", "table", "x", "y", "z"]
FEATURES = [*NUMBERS, "cut", "color", "clarity"]
diamonds = columns(f"{folder}/diamonds.csv", "cut")
price = np.array(diamonds["price"])
cut = np.array([CUTS.index(c) for c in diamonds["cut"]])
fair = {c: np.array(v) for c, v in columns(f"{folder}/fair.csv").items()}
train, test = columns(f"{folder}/train.csv"), columns(f"{folder}/test.csv")
bounds = (0, 20_000)


def table(rows, names):
    return np.array([rows[c] for c in names]).T


def box(d):
    return np.zeros(d), np.ones(d)


def pairs(_):
    out = []
    for a, b in itertools.combinations(fair, 2):
        ends = [int(fair[c].max()) + 1 for c in (a, b)]
        found = tools.histogram2d(
            fair[a], fair[b], epsilon=0.1, bins=ends, range=[(0, e) for e in ends]
        )
        out += found[0].ravel().tolist()
    return out


def pca(_):
    model = models.PCA(2, epsilon=1.0, bounds=box(7), data_norm=np.sqrt(7))
    return model.fit(table(train, [*NUMBERS, "price"])).components_.ravel()


def kmeans(_):
    model = models.KMeans(4, epsilon=1.0, bounds=box(7))
    return model.fit(table(train, [*NUMBERS, "price"])).cluster_centers_.ravel()


def forest(_):
    ends = (np.zeros(9), np.array([1, 1, 1, 1, 1, 1, 4, 6, 7]))  # codes of cut, color, clarity
    model = models.RandomForestClassifier(epsilon=1.0, bounds=ends, classes=[0, 1])
    return model.fit(table(train, FEATURES), train["dear"]).predict(table(test, FEATURES))


def linear(names):
    def way(_):
        model = models.LinearRegression(
            epsilon=1.0, bounds_X=box(len(names)), bounds_y=(0, 1)
        )  # fmt: skip
        return model.fit(table(train, names), train["price"]).predict(table(test, names))

    return way


WAYS = {
    "count": lambda _: [tools.count_nonzero(price > 5000, epsilon=1.0)],
    "counts": lambda _: [
        tools.count_nonzero(price >= 198 * i, epsilon=0.01) for i in range(1, 101)
    ],
    "sum": lambda _: [tools.sum(price, epsilon=1.0, bounds=bounds)],
    "mean": lambda _: [tools.mean(price, epsilon=1.0, bounds=bounds)],
    "group": lambda _: tools.histogram(cut, epsilon=1.0, bins=5, range=(0, 5))[0],
    "histogram": lambda _: tools.histogram(price, epsilon=1.0, bins=20, range=bounds)[0],
    "median": lambda _: [tools.median(price, epsilon=1.0, bounds=bounds)],
    "p90": lambda _: [tools.quantile(price, 0.9, epsilon=1.0, bounds=bounds)],
    "pairs": pairs,
    "pca": pca,
    "kmeans": kmeans,
    "tree": forest,
    "line": linear(["carat"]),
    "regression": linear(NUMBERS),
}
serve(WAYS)

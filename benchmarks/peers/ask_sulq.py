"""SuLQ itself, asked as the others are: a fresh table under epsilon 1, delta 1e-6, and its ledger.

Argument: the folder of the CSV files. What is asked alone has Laplace noise, set beforehand: the
default, Gaussian noise, is for promises of many questions.
"""

import itertools
import sys
import tempfile
import warnings

import numpy as np
import pyarrow as pa
from answering import columns, serve

import sulq
from sulq import learn

folder = sys.argv[1]
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
NUMBERS = ["carat", "depth", "table", "x", "y", "z"]
FEATURES = [*NUMBERS, "cut", "color", "clarity"]
diamonds = columns(f"{folder}/diamonds.csv", "cut")
diamonds["price"] = [int(x) for x in diamonds["price"]]
fair = {c: [int(x) for x in v] for c, v in columns(f"{folder}/fair.csv").items()}
train, test = columns(f"{folder}/train.csv"), columns(f"{folder}/test.csv")
unit = {"type": "number", "low": 0.0, "high": 1.0, "nullable": False}
codes = {c: {"values": sorted(set(map(int, train[c])))} for c in ("cut", "color", "clarity")}
DATA = {
    "diamonds": (diamonds, {"price": {"type": "integer", "low": 0, "high": 20_000},
                            "cut": {"values": CUTS}}),
    "fair": (fair, {c: {"values": sorted(set(v))} for c, v in fair.items()}),
    "train": (
        {c: [int(x) for x in v] if c in codes or c == "dear" else v for c, v in train.items()},
        {**dict.fromkeys([*NUMBERS, "price"], unit), **codes, "dear": {"values": [0, 1]}},
    ),
}  # fmt: skip
TABLES = {name: pa.table(held) for name, (held, _) in DATA.items()}
# which table, how many queries the promise is for, with which noise
OPENED = {
    "counts": ("diamonds", 1, "gaussian"),
    "pairs": ("fair", 1, "gaussian"),
    **dict.fromkeys(("pca", "kmeans", "tree", "additive", "line", "regression"),
                    ("train", 1000, "gaussian")),
}  # fmt: skip
warnings.simplefilter("ignore")


def fresh(name):
    table, queries, noise = OPENED.get(name, ("diamonds", 1, "laplace"))
    schema = {c: kind | {"nullable": False} for c, kind in DATA[table][1].items()}
    return sulq.open(
        TABLES[table], {"columns": schema}, epsilon=1.0, delta=1e-6, queries=queries, noise=noise,
        guarantee="dp", ledger=f"{tempfile.mkdtemp()}/ledger.sqlite", name="t",
    )  # fmt: skip


def sql(text):
    return lambda db: db.sql(text)["x"]


def quantile(share):
    return sql(f"select percentile_disc({share}) within group (order by price) as x from t")


def by(what, cells):
    return lambda db: [x for (x,) in db.ask(sulq.Query(by=what)).values][:cells]


def counts(db):
    """One question that 100 counts are read off, free."""
    bins = sulq.Bins("price", (*range(0, 19_801, 198), 20_001))
    db.ask(sulq.Query(sulq.Strategy("cdf"), by=bins))
    return [db.estimate(sulq.Query(where=f"price >= {198 * i}")) for i in range(1, 101)]


def pairs(db):
    found = db.marginals(list(fair), 2, budget=1, consistent=True)
    return [x for pair in itertools.combinations(fair, 2) for x in found[pair]["count"]]


def fitted(model, features, label=None):
    return lambda db: model().fit(db, columns=features, label=label, progress=False)


def predicted(model, features, label, score):
    def way(db):
        held = np.array([test[c] for c in features]).T
        out = np.asarray(getattr(fitted(model, features, label)(db), score)(held), dtype=float)
        return out[:, -1] if out.ndim == 2 else out

    return way


ALL = [*NUMBERS, "price"]
WAYS = {
    "count": sql("select count(*) as x from t where price > 5000"),
    "counts": counts,
    "sum": sql("select sum(price) as x from t"),
    "mean": sql("select avg(price) as x from t"),
    "group": by("cut", 5),
    "histogram": by(sulq.Bins("price", tuple(range(0, 20_001, 1000))), 20),
    "median": quantile(0.5),
    "p90": quantile(0.9),
    "pairs": pairs,
    "pca": lambda db: fitted(lambda: learn.PCA(2, budget=1000), ALL)(db).components_.ravel(),
    "kmeans": lambda db: fitted(lambda: learn.KMeans(4, budget=1000), ALL)(
        db
    ).cluster_centers_.ravel(),
    "tree": predicted(lambda: learn.RandomTrees(budget=1000), FEATURES, "dear", "predict"),
    "additive": predicted(
        lambda: learn.AdditiveClassifier(budget=1000), FEATURES, "dear", "predict_proba"
    ),
    "line": predicted(lambda: learn.LinearRegression(budget=1000), ["carat"], "price", "predict"),
    "regression": predicted(
        lambda: learn.LinearRegression(budget=1000), NUMBERS, "price", "predict"
    ),
}
serve(WAYS, fresh)

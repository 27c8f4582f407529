"""OpenDP: its Context API over Polars, and its PCA and regression. Argument: the folder.

One question has epsilon 1. Many have rho-zCDP, which is (1, 1e-6)-dp, parted evenly. Quantiles are
chosen among candidates 10 apart, which it wants to be given.
"""

import itertools
import sys

import numpy as np
import opendp.prelude as dp
import polars as pl
from answering import columns, rho, serve

dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
folder = sys.argv[1]
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
NUMBERS = ["carat", "depth", "table", "x", "y", "z"]
diamonds = pl.read_csv(f"{folder}/diamonds.csv").lazy()
fair = pl.read_csv(f"{folder}/fair.csv")
sizes = {c: fair[c].max() + 1 for c in fair.columns}
train, test = columns(f"{folder}/train.csv"), columns(f"{folder}/test.csv")
price = pl.col("price").cast(int).fill_null(0)
MANY = {"counts": (diamonds, 53_940, 1), "pairs": (fair.lazy(), 6_366, 10)}


def fresh(name):
    rows, length, parts = MANY.get(name, (diamonds, 53_940, 1))
    loss = dp.loss_of(rho=rho(1, 1e-6)) if name in MANY else dp.loss_of(epsilon=1.0)
    return dp.Context.compositor(
        data=rows, privacy_unit=dp.unit_of(contributions=1), privacy_loss=loss,
        split_evenly_over=parts, margins=[dp.polars.Margin(max_length=length)],
    )  # fmt: skip


def one(query):
    return [query.release().collect().item()]


def by(query, *keys):
    listed = list(itertools.product(*(values for _, values in keys)))
    frame = pl.LazyFrame(listed, schema=[name for name, _ in keys], orient="row")
    out = query.with_keys(frame).release().collect()
    found = {row[:-1]: row[-1] for row in out.select(*frame.collect_schema(), "len").iter_rows()}
    return [found[k] for k in listed]


def counts(context):
    """All in one query: each by itself takes seconds, for it searches for its scale."""
    above = ((pl.col("price") >= 198 * i).cast(pl.Int32).fill_null(0) for i in range(1, 101))
    sums = [x.dp.sum((0, 1)).alias(f"above{i}") for i, x in enumerate(above)]
    return context.query().select(sums).release().collect().row(0)


def pairs(context):
    return [
        x
        for pair in itertools.combinations(sizes, 2)
        for x in by(context.query().group_by(*pair).agg(dp.len()),
                    *((c, list(range(sizes[c]))) for c in pair))
    ]  # fmt: skip


def binned(context):
    bins = (pl.col("price") // 1000).alias("bin")
    query = context.query().with_columns(bins).group_by("bin").agg(dp.len())
    return by(query, ("bin", list(range(20))))


def quantile(share):
    candidates = list(range(0, 20_001, 10))
    return lambda c: one(c.query().select(price.dp.quantile(share, candidates)))


def pca(_):
    rows = np.array([train[c] for c in [*NUMBERS, "price"]]).T
    model = dp.sklearn.decomposition.PCA(
        epsilon=1.0, row_norm=float(np.sqrt(7)), n_samples=len(rows), n_features=7, n_components=2
    )
    return model.fit(rows).components_.ravel()


def line(_):
    """Theil and Sen's line; one run of it chooses two numbers, each for half of epsilon."""
    model = dp.sklearn.linear_model.LinearRegression(
        dp.max_divergence(), x_bounds=[(0, 1)], y_bounds=(0, 1), scale=SCALE
    )
    return model.fit(np.array([train["carat"]]).T, train["price"]).predict(
        np.array([test["carat"]]).T
    )


def epsilon_of(scale):
    line = dp.sklearn.linear_model.LinearRegression(
        dp.max_divergence(), x_bounds=[(0, 1)], y_bounds=(0, 1), scale=scale
    )
    return line.measurement.map(1)


SCALE = dp.binary_search(lambda s: epsilon_of(s) <= 1.0, bounds=(0.01, 100.0))
WAYS = {
    "count": lambda c: one(c.query().filter(pl.col("price") > 5000).select(dp.len())),
    "counts": counts,
    "sum": lambda c: one(c.query().select(price.dp.sum((0, 20_000)))),
    "mean": lambda c: one(c.query().select(price.dp.mean((0, 20_000)))),
    "group": lambda c: by(c.query().group_by("cut").agg(dp.len()), ("cut", CUTS)),
    "histogram": binned,
    "median": quantile(0.5),
    "p90": quantile(0.9),
    "pairs": pairs,
    "pca": pca,
    "line": line,
}
serve(WAYS, fresh)

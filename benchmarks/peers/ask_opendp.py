"""OpenDP: what its Context API releases for epsilon 1. Arguments: diamonds.csv, runs."""

import json
import sys

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
rows, runs = pl.scan_csv(sys.argv[1]), int(sys.argv[2])
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
price = pl.col("price").cast(int)


def asked():
    context = dp.Context.compositor(
        data=rows, privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=53_940)],
    )  # fmt: skip
    return context.query()


def by(query, name, keys):
    frame = query.with_keys(pl.LazyFrame({name: keys})).release().collect()
    found = dict(frame.select(name, "len").iter_rows())
    return [found[k] for k in keys]


def quantile(share):
    candidates = list(range(0, 20_001, 10))
    return asked().select(price.fill_null(0).dp.quantile(share, candidates))


def one(query):
    return [query.release().collect().item()]


bins = (pl.col("price") // 1000).alias("bin")
WAYS = {
    "count": lambda: one(asked().filter(pl.col("price") > 5000).select(dp.len())),
    "sum": lambda: one(asked().select(price.fill_null(0).dp.sum((0, 20_000)))),
    "mean": lambda: one(asked().select(price.fill_null(0).dp.mean((0, 20_000)))),
    "group": lambda: by(asked().group_by("cut").agg(dp.len()), "cut", CUTS),
    "histogram": lambda: by(
        asked().with_columns(bins).group_by("bin").agg(dp.len()), "bin", list(range(20))
    ),
    "median": lambda: one(quantile(0.5)),
    "p90": lambda: one(quantile(0.9)),
}
for name, way in WAYS.items():
    print(json.dumps([name, [way() for _ in range(runs)]]), flush=True)

"""Tumult Analytics: what a session answers. Argument: the folder.

One question has epsilon 1. All pairs have rho-zCDP, which is (1, 1e-6)-dp, in equal parts. 100
counts are 100 queries of several Spark jobs each, minutes in all, and are not asked.
"""

import itertools
import os
import sys

from answering import rho, serve
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    KeySet,
    PureDPBudget,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
folder = sys.argv[1]
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]


def read(name):
    return spark.read.csv(f"{folder}/{name}.csv", header=True, inferSchema=True).cache()


DIAMONDS, FAIR = read("diamonds"), read("fair")
sizes = {c: FAIR.agg({c: "max"}).collect()[0][0] + 1 for c in FAIR.columns}


def fresh(name):
    many = name == "pairs"
    budget = RhoZCDPBudget(rho(1, 1e-6)) if many else PureDPBudget(1)
    rows = FAIR if many else DIAMONDS
    session = Session.from_dataframe(budget, "t", rows, protected_change=AddOneRow())
    each = RhoZCDPBudget(rho(1, 1e-6) / 10) if many else budget
    return lambda query: session.evaluate(query, each).collect()


def by(query, **keys):
    def way(ask):
        counted = ask(query.groupby(KeySet.from_dict(keys)).count())
        found = {tuple(r[c] for c in keys): r["count"] for r in counted}
        return [found[k] for k in itertools.product(*keys.values())]

    return way


def t():
    return QueryBuilder("t")


def pairs(ask):
    both = ({c: list(range(sizes[c])) for c in p} for p in itertools.combinations(sizes, 2))
    return [x for keys in both for x in by(t(), **keys)(ask)]


def binned(ask):
    bins = t().map(lambda r: {"bin": r["price"] // 1000}, new_column_types={"bin": "INTEGER"})
    return by(bins, bin=list(range(20)))(ask)


WAYS = {
    "count": lambda ask: [ask(t().filter("price > 5000").count())[0][0]],
    "sum": lambda ask: [ask(t().sum("price", 0, 20_000))[0][0]],
    "mean": lambda ask: [ask(t().average("price", 0, 20_000))[0][0]],
    "group": by(t(), cut=CUTS),
    "histogram": binned,
    "median": lambda ask: [ask(t().median("price", 0, 20_000))[0][0]],
    "p90": lambda ask: [ask(t().quantile("price", 0.9, 0, 20_000))[0][0]],
    "pairs": pairs,
}
serve(WAYS, fresh)

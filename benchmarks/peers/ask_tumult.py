"""Tumult Analytics: what a session answers for epsilon 1. Arguments: diamonds.csv, runs."""

import json
import os
import sys

from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
rows = spark.read.csv(sys.argv[1], header=True, inferSchema=True).cache()
runs = int(sys.argv[2])
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]


def ask(query):
    session = Session.from_dataframe(PureDPBudget(1), "t", rows, protected_change=AddOneRow())
    return session.evaluate(query, PureDPBudget(1)).collect()


def by(query, name, keys):
    counted = ask(query.groupby(KeySet.from_dict({name: keys})).count())
    found = {r[name]: r["count"] for r in counted}
    return [found[k] for k in keys]


def t():
    return QueryBuilder("t")


def binned():
    return t().map(lambda r: {"bin": r["price"] // 1000}, new_column_types={"bin": "INTEGER"})


WAYS = {
    "count": lambda: [ask(t().filter("price > 5000").count())[0][0]],
    "sum": lambda: [ask(t().sum("price", 0, 20_000))[0][0]],
    "mean": lambda: [ask(t().average("price", 0, 20_000))[0][0]],
    "group": lambda: by(t(), "cut", CUTS),
    "histogram": lambda: by(binned(), "bin", list(range(20))),
    "median": lambda: [ask(t().median("price", 0, 20_000))[0][0]],
    "p90": lambda: [ask(t().quantile("price", 0.9, 0, 20_000))[0][0]],
}
for name, way in WAYS.items():
    print(json.dumps([name, [way() for _ in range(runs)]]), flush=True)

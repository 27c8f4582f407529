"""Qrlew: SELECTs that it rewrites for epsilon 1, delta 1e-6, run in DuckDB. Argument: the folder.

It writes PostgreSQL's SQL, which DuckDB runs too; the schema it reads through SQLAlchemy. Of what
is spent on many questions it gives events for an accountant of one's own, so each is asked alone.
"""

import sys
import warnings

import duckdb
import pandas as pd
import pyqrlew
import sqlalchemy
from answering import serve

warnings.simplefilter("ignore")
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
BINS = [f"from {1000 * i}" for i in range(20)]
rows = pd.read_csv(f"{sys.argv[1]}/diamonds.csv")
rows["id"] = rows.index
rows["bin"] = [BINS[p // 1000] for p in rows.price]
database = duckdb.connect()
database.register("t", rows)
engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
rows.to_sql("t", engine, index=False)
dataset = (
    pyqrlew.Dataset.from_database("d", engine)
    .with_range(None, "t", "price", 0, 20_000)
    .with_possible_values(None, "t", "cut", CUTS)
    .with_possible_values(None, "t", "bin", BINS)
    .with_constraint(None, "t", "id", pyqrlew.Dataset.CONSTRAINT_UNIQUE)
)


def ask(sql):
    private = dataset.relation(sql).rewrite_with_differential_privacy(
        dataset, [("t", [], "id")], {"epsilon": 1.0, "delta": 1e-6}
    )
    return database.execute(private.relation().to_query()).fetchall()


def by(column, keys):
    found = dict(ask(f"select {column}, count(*) as n from t group by {column}"))
    return [found.get(k, 0) for k in keys]


WAYS = {
    "count": lambda _: ask("select count(*) as n from t where price > 5000")[0],
    "sum": lambda _: ask("select sum(price) as x from t")[0],
    "mean": lambda _: ask("select avg(price) as x from t")[0],
    "group": lambda _: by("cut", CUTS),
    "histogram": lambda _: by("bin", BINS),
}
serve(WAYS)

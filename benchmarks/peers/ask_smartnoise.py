"""smartnoise-sql: what its reader answers for epsilon 1, delta 1e-6. diamonds.csv, runs."""

import json
import sys

import pandas as pd
from snsql import Privacy, from_df

rows, runs = pd.read_csv(sys.argv[1]), int(sys.argv[2])
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
rows["bin"] = rows.price // 1000
TABLE = {
    "row_privacy": True, "rows": len(rows), "censor_dims": False,
    "price": {"type": "int", "lower": 0, "upper": 20_000, "nullable": False},
    "cut": {"type": "string"},
    "bin": {"type": "int", "lower": 0, "upper": 19},
}  # fmt: skip
metadata = {"": {"s": {"t": TABLE}}}


def ask(sql):
    reader = from_df(rows, privacy=Privacy(epsilon=1.0, delta=1e-6), metadata=metadata)
    return reader.execute(sql)[1:]


def by(column, keys):
    found = dict(ask(f"select {column}, count(*) as n from s.t group by {column}"))
    return [float(found.get(k, 0)) for k in keys]


WAYS = {
    "count": lambda: [float(ask("select count(*) as n from s.t where price > 5000")[0][0])],
    "sum": lambda: [float(ask("select sum(price) as x from s.t")[0][0])],
    "mean": lambda: [float(ask("select avg(price) as x from s.t")[0][0])],
    "group": lambda: by("cut", CUTS),
    "histogram": lambda: by("bin", range(20)),
}
for name, way in WAYS.items():
    print(json.dumps([name, [way() for _ in range(runs)]]), flush=True)

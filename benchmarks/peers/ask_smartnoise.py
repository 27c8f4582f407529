"""smartnoise-sql: what its reader answers for epsilon 1, delta 1e-6. Argument: the folder.

Many questions have equal parts, as large as its own odometer allows.
"""

import itertools
import sys

import pandas as pd
from answering import serve
from snsql import Privacy, from_df
from snsql.sql.odometer import OdometerHeterogeneous

folder = sys.argv[1]
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
rows = pd.read_csv(f"{folder}/diamonds.csv")
rows["bin"] = rows.price // 1000
fair = pd.read_csv(f"{folder}/fair.csv")
sizes = {c: int(fair[c].max()) + 1 for c in fair}
DIAMONDS = {
    "row_privacy": True, "rows": len(rows), "censor_dims": False,
    "price": {"type": "int", "lower": 0, "upper": 20_000, "nullable": False},
    "cut": {"type": "string"},
    "bin": {"type": "int", "lower": 0, "upper": 19},
}  # fmt: skip
FAIR = {"row_privacy": True, "rows": len(fair), "censor_dims": False} | {
    c: {"type": "int", "lower": 0, "upper": n - 1} for c, n in sizes.items()
}


def part(k):
    """The largest epsilon that each of k may have."""
    low, high = 1.0 / k, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        odometer = OdometerHeterogeneous(Privacy(epsilon=middle, delta=1e-6 / (2 * k)))
        for _ in range(k):
            odometer.spend()
        low, high = (middle, high) if odometer.spent[0] <= 1.0 else (low, middle)
    return Privacy(epsilon=low, delta=1e-6 / (2 * k))


PARTS = {"counts": part(100), "pairs": part(10)}


def fresh(name):
    data, table = (fair, FAIR) if name == "pairs" else (rows, DIAMONDS)
    privacy = PARTS.get(name, Privacy(epsilon=1.0, delta=1e-6))
    return from_df(data, privacy=privacy, metadata={"": {"s": {"t": table}}})


def value(reader, sql):
    return float(reader.execute(sql)[1][0])


def by(reader, **keys):
    names = ", ".join(keys)
    out = reader.execute(f"select {names}, count(*) as n from s.t group by {names}")[1:]
    found = {tuple(row[:-1]): float(row[-1]) for row in out}
    return [found.get(k, 0.0) for k in itertools.product(*keys.values())]


def pairs(reader):
    both = ({c: range(sizes[c]) for c in pair} for pair in itertools.combinations(sizes, 2))
    return [x for keys in both for x in by(reader, **keys)]


COUNT = "select count(*) as n from s.t where price >= {}"
WAYS = {
    "count": lambda r: [value(r, COUNT.format(5001))],
    "counts": lambda r: [value(r, COUNT.format(198 * i)) for i in range(1, 101)],
    "sum": lambda r: [value(r, "select sum(price) as x from s.t")],
    "mean": lambda r: [value(r, "select avg(price) as x from s.t")],
    "group": lambda r: by(r, cut=CUTS),
    "histogram": lambda r: by(r, bin=range(20)),
    "pairs": pairs,
}
serve(WAYS, fresh)

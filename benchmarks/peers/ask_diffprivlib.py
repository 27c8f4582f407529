"""diffprivlib: what its tools return for epsilon 1. Arguments: diamonds.csv, runs."""

import csv
import json
import sys

import numpy as np
from diffprivlib import tools

with open(sys.argv[1]) as file:
    rows = list(csv.DictReader(file))
runs = int(sys.argv[2])
price = np.array([float(r["price"]) for r in rows])
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
cut = np.array([CUTS.index(r["cut"]) for r in rows])
bounds = (0, 20_000)

WAYS = {
    "count": lambda: [tools.count_nonzero(price > 5000, epsilon=1.0)],
    "sum": lambda: [tools.sum(price, epsilon=1.0, bounds=bounds)],
    "mean": lambda: [tools.mean(price, epsilon=1.0, bounds=bounds)],
    "group": lambda: tools.histogram(cut, epsilon=1.0, bins=5, range=(0, 5))[0],
    "histogram": lambda: tools.histogram(price, epsilon=1.0, bins=20, range=bounds)[0],
    "median": lambda: [tools.median(price, epsilon=1.0, bounds=bounds)],
    "p90": lambda: [tools.quantile(price, 0.9, epsilon=1.0, bounds=bounds)],
}
for name, way in WAYS.items():
    print(json.dumps([name, [[float(x) for x in way()] for _ in range(runs)]]), flush=True)

"""mbi (private-pgm): all pairs of columns from noisy pairs. fair.csv, runs, standard deviation.

mbi draws no noise itself: every pair gets Gaussian noise that pays for all of them together.
"""

import csv
import itertools
import json
import sys

import jax

jax.config.update("jax_enable_x64", True)
import numpy as np  # noqa: E402
from mbi import Domain, LinearMeasurement, estimation  # noqa: E402

with open(sys.argv[1]) as file:
    rows = list(csv.DictReader(file))
runs, std = int(sys.argv[2]), float(sys.argv[3])
values = {name: sorted({float(r[name]) for r in rows}) for name in rows[0]}
codes = {name: [values[name].index(float(r[name])) for r in rows] for name in values}
domain = Domain(list(values), [len(v) for v in values.values()])
pairs = list(itertools.combinations(values, 2))


def table(pair):
    found = np.zeros([len(values[name]) for name in pair])
    np.add.at(found, tuple(codes[name] for name in pair), 1)
    return found.ravel()


def estimated():
    noisy = [
        LinearMeasurement(table(pair) + np.random.normal(0, std, table(pair).size), pair, std)
        for pair in pairs
    ]
    model = estimation.MirrorDescent().estimate(
        domain, noisy, known_total=float(len(rows)), iters=1000
    )
    return [float(x) for pair in pairs for x in model.project(pair).datavector()]


print(json.dumps(["pairs", [estimated() for _ in range(runs)]]))

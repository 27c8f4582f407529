"""mbi (private-pgm): all pairs of columns from noisy pairs. Argument: the folder.

mbi draws no noise itself: every pair gets a tenth of the rho-zCDP that is (1, 1e-6)-dp.
"""

import itertools
import sys

import jax

jax.config.update("jax_enable_x64", True)
import numpy as np  # noqa: E402
from answering import columns, rho, serve  # noqa: E402
from mbi import Domain, LinearMeasurement, estimation  # noqa: E402

codes = {c: np.array(v, int) for c, v in columns(f"{sys.argv[1]}/fair.csv").items()}
domain = Domain(list(codes), [int(v.max()) + 1 for v in codes.values()])
pairs = list(itertools.combinations(codes, 2))
std = float(np.sqrt(len(pairs) / (2 * rho(1, 1e-6))))


def table(pair):
    found = np.zeros([domain[c] for c in pair])
    np.add.at(found, tuple(codes[c] for c in pair), 1)
    return found.ravel()


def estimated(_):
    noisy = [
        LinearMeasurement(table(pair) + np.random.normal(0, std, table(pair).size), pair, std)
        for pair in pairs
    ]
    model = estimation.MirrorDescent().estimate(
        domain, noisy, known_total=float(len(next(iter(codes.values())))), iters=1000
    )
    return [float(x) for pair in pairs for x in model.project(pair).datavector()]


serve({"pairs": estimated})

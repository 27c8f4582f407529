"""Words of a Zipf law that nobody listed: how many are named, here and by OpenDP.

20,000 rows with 5,000 words, exponent 1.3; the whole of epsilon 1 and delta 1e-6, under dp, spent
on one, two, three or ten discoveries. OpenDP measures with its Laplace threshold, epsilon/k and
delta/k for each of k.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import opendp.prelude as dp
import pyarrow as pa

import sulq
from benchmarks.measure import Line

ROWS, WORDS, EXPONENT = 20_000, 5_000, 1.3
EPSILON, DELTA = 1.0, 1e-6
TIMES = 20


def counts() -> dict[str, int]:
    """How many rows each word has."""
    weights = 1 / np.arange(1, WORDS + 1) ** EXPONENT
    drawn = np.random.default_rng(0).multinomial(ROWS, weights / weights.sum())
    return {f"w{i}": int(c) for i, c in enumerate(drawn) if c}


def ours(k: int, noise: str) -> float:
    """How many words we name, on the average."""
    words = [word for word, count in counts().items() for _ in range(count)]
    terms = {"noise": noise, "guarantee": "dp", "queries": k, "discoveries": k}
    if noise == "gaussian":
        terms["share"] = DELTA / 2
    found = []
    for _ in range(TIMES):
        with sulq.open(
            pa.table({"word": words}), {"word": {"type": "text"}}, epsilon=EPSILON, delta=DELTA,
            ledger=":memory:", **terms,
        ) as db:  # fmt: skip
            found.append(len(db.discover("word")))
    return float(np.mean(found))


def opendp_laplace(k: int, above: int) -> float:
    """How many words OpenDP names with its Laplace threshold, or one above it.

    At the least threshold for which it states delta, OpenDP 0.16 names a value of one row
    e^(1/scale) times as often: it states P[1 + Z > threshold] and names from the threshold on.
    One more keeps it.
    """
    dp.enable_features("contrib")
    data, scale = counts(), k / EPSILON
    space = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T="i32")), _distance()

    def made(threshold: int) -> dp.Measurement:
        return dp.m.make_laplace_threshold(*space, scale=scale, threshold=threshold)

    def enough(threshold: int) -> bool:
        return bool(made(threshold).map((1, 1, 1))[1] <= DELTA / k)

    least = dp.binary_search(enough, bounds=(1, 10_000))
    return float(np.mean([len(made(least + above)(data)) for _ in range(TIMES)]))


def _distance() -> dp.Metric:
    return dp.l01inf_distance(dp.absolute_distance(T="i32"))


def lines() -> Iterator[Line]:
    for k in (1, 2, 3, 10):
        theirs, stated = opendp_laplace(k, 1), opendp_laplace(k, 0)
        named = {noise: ours(k, noise) for noise in ("gaussian", "laplace")}
        best = max(named.values())
        note = (
            f"gaussian {named['gaussian']:.1f}, laplace {named['laplace']:.1f}; as OpenDP states "
            f"it {stated:.1f}"
        )
        what = f"words OpenDP's Laplace threshold names, {k} discoveries"
        yield Line(what, theirs, best, "here, the better noise", 1.02, note, unit="words")

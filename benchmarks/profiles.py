"""Profiles of real columns: how far quartiles are off, in bins and beside the quartiles' distance.

1,000 rows drawn from five sets that scikit-learn ships, all columns as numbers that nobody
described, epsilon 1, one query for each column. A bin is one of those that the profile says of the
column: 1, 2, 5, 10, 20, ... on both sides of 0, where those nearer to 0 than a fifth of its noisy
quartiles' distance are one. Besides with all of them told apart, down to a millionth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn import datasets

import sulq
from benchmarks.measure import Line

SETS = ("iris", "wine", "breast_cancer", "diabetes", "digits")
SHARES = (0.25, 0.5, 0.75)
ALLOWED = 0.05  # of the quartiles
QUARTILES = 600  # of a set, at least
SIZES = [float(f"{m}e{j}") for j in range(-6, 16) for m in (1, 2, 5)]
ROWS = 1000

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Off:
    """How far one quartile of a column is off."""

    bins: int  # of the profile
    steps: int  # bins merged near 0 by the column's true quartiles, not by noisy ones
    smallest: int  # bins, with all of the small ones near 0
    held: bool  # by its interval
    error: float  # beside the distance between the column's quartiles
    width: float  # of the profile's bin that it lies in, beside the same; 0: in none


def bins_of(values: Array, *, smallest: bool = False) -> Array:
    """The edges of round bins of a column, merged near 0 by its true quartiles or not at all."""
    first, last = np.quantile(values, [0.25, 0.75])
    least = (last - first) / 5 or np.ptp(values) / 20
    sizes = np.array([x for x in SIZES if smallest or x >= least])
    return np.concatenate([-sizes[::-1], [0.0], sizes])


def offs(values: Array, found: sulq.Profile, name: str) -> Iterator[Off]:
    """Each quartile of a column beside what was found; none found is far off."""
    said = [b.low for b in found[name].bins] + [b.high for b in found[name].bins[-1:]]
    kinds = (np.array(said), bins_of(values), bins_of(values, smallest=True))
    apart = np.subtract(*np.quantile(values, [0.75, 0.25])) or np.ptp(values) / 4 or 1.0
    if not found[name].quartiles:
        yield from (Off(99, 99, 99, False, 9.0, 0.0) for _ in SHARES)
    for between, share in zip(found[name].quartiles, SHARES, strict=False):
        true = float(np.quantile(values, share, method="inverted_cdf"))
        pairs = [np.searchsorted(edges, [true, between.value], side="right") for edges in kinds]
        place = int(pairs[0][0])
        wide = said[place] - said[place - 1] if 0 < place < len(said) else 0.0
        held, error = between.low <= true <= between.high, abs(between.value - true) / apart
        yield Off(*(int(abs(a - b)) for a, b in pairs), held, float(error), wide / apart)


def profiled(name: str, seed: int, noise: object = None) -> list[Off]:
    """All quartiles of a set, from one profile of rows drawn from it."""
    data = getattr(datasets, f"load_{name}")().data
    rows = data[np.random.default_rng(seed).integers(0, len(data), ROWS)]
    table = pa.table({f"x{i}": column for i, column in enumerate(rows.T)})
    schema = {n: {"type": "number"} for n in table.column_names}
    terms = {"epsilon": 1.0, "queries": len(schema), "ledger": ":memory:"}
    with sulq.open(table, schema, **terms) as db:
        found = db.profile()
    return [off for n in schema for off in offs(table[n].to_numpy(), found, n)]


def lines() -> Iterator[Line]:
    for name in SETS:
        found = profiled(name, 0)
        for seed in range(1, -(-QUARTILES // len(found))):
            found += profiled(name, seed)
        errors = np.minimum([off.error for off in found], 9.0)
        missed = float(np.mean([off.bins > 1 for off in found]))
        note = (
            f"off by {np.median(errors):.3f} of the quartiles' distance (median; mean "
            f"{np.mean(errors):.3f}), a bin is {np.median([off.width for off in found]):.2f} of it"
            f"; intervals hold {np.mean([off.held for off in found]):.3f}; with all small bins "
            f"told apart {np.mean([off.smallest > 1 for off in found]):.3f}; near 0 merged by "
            f"true quartiles {np.mean([off.steps > 1 for off in found]):.3f}"
        )
        what = f"quartiles of {name} further off than one bin, {len(found):,} of them"
        yield Line(what, missed, ALLOWED, "allowed", 1.0, note, unit="of all")

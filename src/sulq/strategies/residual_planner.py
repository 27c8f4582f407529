"""Many tables of counts over the same columns, from the residuals of all of them.

ResidualPlanner (arXiv 2305.08175). Every table over the columns t is the sum, over the subsets A
of t, of what A says beyond its own margins, spread evenly over the other columns. So each such
part is measured once, for all tables that contain it (privacy/residuals.py), and every table is
put together from the same parts: they agree with each other. With s_A^2 the noise of part A,

    variance of a cell of t = sum over A in t of s_A^2 * size(A) * prod over t without A of 1/m^2,

and the weighted sum of variances is least, for its price, at s_A^2 proportional to the root of
price coefficient over variance coefficient. The product of all columns is never formed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sulq.privacy.residuals import Part, furthest, size_of

DIGITS = 16  # binary digits of a weight: the same on all machines, and close enough to the best
ROUNDS = 8  # of the search for the rows that the best weights guard against
CLOSE = 0.002  # to the best price: no further rounds

Axes = tuple[int, ...]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Workload:
    """Tables over some axes, and how much the squared error of one cell of each counts."""

    sizes: tuple[int, ...]  # cells of each axis
    tables: tuple[Axes, ...]
    weights: tuple[float, ...]
    known: frozenset[int] = frozenset()  # axes that are public
    counted: bool = True  # is it public how many rows the tables are about?

    @property
    def parts(self) -> list[Axes]:
        """Every part of every table, small ones first."""
        found = {part for table in self.tables for part in subsets(table)}
        return sorted(found, key=lambda part: (len(part), part))

    def is_known(self, part: Axes) -> bool:
        """Is this part public, and so exact and free?"""
        return self.counted and self.known.issuperset(part)

    @property
    def measured(self) -> list[Axes]:
        """The parts that have a price."""
        return [part for part in self.parts if not self.is_known(part)]


def subsets(table: Axes) -> list[Axes]:
    """The sets of axes within a table, each in ascending order."""
    axes = sorted(table)
    return [part for k in range(len(axes) + 1) for part in itertools.combinations(axes, k)]


def share(workload: Workload, part: Axes, table: Axes) -> float:
    """The variance that a part of variance 1 adds to every cell of a table."""
    sizes = workload.sizes
    others = math.prod(sizes[i] for i in table if i not in part)
    return float(size_of([sizes[i] for i in part])) / others**2


def best_weights(workload: Workload, guarantee: str) -> dict[Axes, float]:
    """Squared weights of the parts: the weighted mean variance of all cells is R, at least price.

    Under beliefs the price is the largest over the patterns in which two rows differ. The best
    weights answer the mixture of patterns that is worst for them; it is built up pattern by
    pattern, each the worst for the weights before it.
    """
    parts = workload.measured
    cells = [math.prod(workload.sizes[i] for i in t) for t in workload.tables]
    total = sum(w * c for w, c in zip(workload.weights, cells, strict=True))
    variance = dict.fromkeys(parts, 0.0)
    for table, weight, many in zip(workload.tables, workload.weights, cells, strict=True):
        for part in subsets(table):
            if part in variance:
                variance[part] += weight * many / total * share(workload, part, table)
    v = np.array([variance[part] for part in parts])
    size = np.array([float(size_of([workload.sizes[i] for i in part])) for part in parts])
    found = _least_price(v, size)[0] if guarantee == "dp" else _guarded(v, size, parts, workload)
    return dict(zip(parts, found.tolist(), strict=True))


def _least_price(variance: Array, price: Array) -> tuple[Array, float]:
    """Weights w with sum of variance/w = 1 and the least sum of price * w, and that price."""
    root = np.sqrt(variance * price)
    return np.sqrt(variance / np.maximum(price, 1e-300)) * root.sum(), float(root.sum() ** 2)


def _guarded(variance: Array, size: Array, parts: list[Axes], workload: Workload) -> Array:
    """The best weights of all rounds. Each round adds the pattern that is worst for its weights."""
    mixture, best, lowest = 2 * size, np.ones(len(parts)), math.inf
    for i in range(1, ROUNDS + 1):
        weights, bound = _least_price(variance, mixture)
        exact = [Part(p, Fraction(w)) for p, w in zip(parts, weights.tolist(), strict=True)]
        _, differ = furthest(exact, workload.sizes, workload.known)
        worst = _distances(parts, size, workload.sizes, differ)
        if float(worst @ weights) < float(size @ weights):
            worst = size  # of a row from no row
        if float(worst @ weights) < lowest:
            best, lowest = weights, float(worst @ weights)
        if lowest < bound * (1 + CLOSE):
            break
        mixture = mixture + (worst - mixture) / (i + 1)
    return best


def _distances(parts: list[Axes], size: Array, sizes: Axes, differ: frozenset[int]) -> Array:
    """How far two rows that differ on these axes are apart in each part, squared, at weight 1."""
    factors = [math.prod(-1 / (sizes[a] - 1) for a in part if a in differ) for part in parts]
    return np.asarray(2 * size * (1 - np.array(factors)))


def rounded(weight2: float, scale: float = 1.0) -> Fraction:
    """The weight as a short fraction, not above its root."""
    mantissa, exponent = math.frexp(math.sqrt(weight2 * scale))
    return Fraction(math.floor(mantissa * 2**DIGITS)) * Fraction(2) ** (exponent - DIGITS)


# ---- from parts to tables ---------------------------------------------------------------------


def centred(cells: Array) -> Array:
    """What a table says beyond its margins."""
    for axis in range(cells.ndim):
        cells = cells - cells.mean(axis=axis, keepdims=True)
    return cells


def unprojected(released: Array, sizes: Sequence[int]) -> Array:
    """The part that stands for these differences from the last cells."""
    inner = released.reshape([m - 1 for m in sizes])
    return centred(np.pad(inner, [(0, 1)] * len(sizes))) if sizes else inner


def table_of(table: Axes, parts: dict[Axes, Array], sizes: Sequence[int]) -> Array:
    """A table from its parts, its axes in the order named."""
    inside = sorted(table)
    total = np.zeros([sizes[i] for i in inside])
    for part in subsets(table):
        others = math.prod(sizes[i] for i in inside if i not in part)
        shape = [sizes[i] if i in part else 1 for i in inside]
        total += parts[part].reshape(shape) / others
    return np.asarray(total.transpose([inside.index(i) for i in table]))

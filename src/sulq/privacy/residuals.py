"""Residuals: what a table says beyond its margins, and how far one row can move them.

The residual of a table over the axes A is (the tensor product of Sub_i) times its cells, where
Sub_i takes the last cell of axis i off the others: integers in, integers out. Noise of variance s^2
is added to the cells before, and only the product leaves. Let axis i have m_i cells, and z_i be
m_i - 1 where two rows agree on axis i, -1 where they differ. Then one row moves a residual by

    prod of (m_i - 1) / prod of m_i / s^2                          from no row (squared),
    2 * (prod of (m_i - 1) - prod of z_i) / prod of m_i / s^2      from another row,

and several residuals of the same rows add up. Proof: docs/proofs/residuals.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

SMOOTH = 200  # nats: the noise that is projected away is even up to exp(-SMOOTH)
MAX_WORK = 100_000  # terms looked at in the search for the two rows furthest apart

Polynomial = tuple[tuple[tuple[int, ...], int], ...]  # axes -> coefficient of their product


@dataclass(frozen=True, slots=True)
class Part:
    """One residual that is measured: which axes, and its variance R / weight2."""

    axes: tuple[int, ...]
    weight2: Fraction = Fraction(1)


def size_of(sizes: Sequence[int]) -> Fraction:
    """The squared size of what one row adds to a residual: the product of (m - 1)/m."""
    return Fraction(math.prod(m - 1 for m in sizes), math.prod(sizes))


def least_variance(sizes: Sequence[int]) -> Fraction:
    """The variance, in steps, from which on projected noise is as good as Gaussian.

    N fibres of at most m cells in k directions are projected away. The theta sum over them is
    constant up to 1 +- 2.1 N exp(-2 pi^2 s^2 / km); here 2 pi^2 > 19.7 and ln 2 < 0.7.
    """
    if not sizes:
        return Fraction(0)
    fibres = sum(math.prod(sizes) // m for m in sizes)
    nats = SMOOTH + Fraction(7, 10) * fibres.bit_length()
    return nats * len(sizes) * max(sizes) / Fraction(197, 10)


def radius2(parts: Sequence[Part], sizes: Sequence[int]) -> Fraction:
    """The squared distance of a row from no row, in units of R."""
    return sum((p.weight2 * size_of([sizes[a] for a in p.axes]) for p in parts), Fraction(0))


def diameter2(
    parts: Sequence[Part], sizes: Sequence[int], known: frozenset[int] = frozenset()
) -> Fraction:
    """The largest squared distance of two rows, and of one from no row, in units of R.

    Rows agree on the axes that are `known`, because those are public. Exact; where there are too
    many patterns of agreement to look at, a bound above it.
    """
    return max(furthest(parts, sizes, known)[0], radius2(parts, sizes))


def furthest(
    parts: Sequence[Part], sizes: Sequence[int], known: frozenset[int] = frozenset()
) -> tuple[Fraction, frozenset[int]]:
    """The largest squared distance of two rows, and axes on which such rows differ."""
    return _furthest(tuple(parts), tuple(sizes), known)


@lru_cache(maxsize=64)
def _furthest(
    parts: tuple[Part, ...], sizes: tuple[int, ...], known: frozenset[int]
) -> tuple[Fraction, frozenset[int]]:
    unit = math.lcm(*(p.weight2.denominator * math.prod(sizes[a] for a in p.axes) for p in parts))
    terms: dict[tuple[int, ...], int] = {}
    for p in parts:
        fixed = math.prod(sizes[a] - 1 for a in p.axes if a in known)
        coefficient = p.weight2 * unit * fixed / math.prod(sizes[a] for a in p.axes)
        key = tuple(sorted(a for a in p.axes if a not in known))
        terms[key] = terms.get(key, 0) + coefficient.numerator
    polynomial = tuple(sorted(terms.items()))
    agree = _value(polynomial, sizes, frozenset())
    lowest, differ = least(polynomial, sizes)
    return Fraction(2 * (agree - lowest), unit), differ


def least(polynomial: Polynomial, sizes: Sequence[int]) -> tuple[int, frozenset[int]]:
    """The smallest value of the polynomial where each z is m - 1 or -1, and the axes of the -1.

    Axes are fixed one after the other. Of two patterns that leave the same polynomial in the other
    axes the lower is kept, and a pattern that cannot become the lowest is dropped. After MAX_WORK
    the value is a bound below all that are left.
    """
    best, pattern = _descent(polynomial, sizes)
    frontier: dict[Polynomial, tuple[int, frozenset[int]]] = {polynomial: (0, frozenset())}
    work = 0
    for axis in sorted({a for axes, _ in polynomial for a in axes}, key=lambda a: sizes[a]):
        following: dict[Polynomial, tuple[int, frozenset[int]]] = {}
        for rest, (constant, differ) in frontier.items():
            for z, chosen in ((-1, differ | {axis}), (sizes[axis] - 1, differ)):
                left, more = _fixed(rest, axis, z)
                total = constant + more
                if total + _floor(left, sizes) < best and (
                    left not in following or total < following[left][0]
                ):
                    following[left] = total, chosen
            work += len(rest)
        frontier = following
        if work > MAX_WORK:
            break
    for rest, (constant, differ) in frontier.items():
        if constant + _floor(rest, sizes) < best:
            best, pattern = constant + _floor(rest, sizes), differ
    return best, pattern


def _value(polynomial: Polynomial, sizes: Sequence[int], differ: frozenset[int]) -> int:
    return sum(
        c * math.prod(-1 if a in differ else sizes[a] - 1 for a in axes) for axes, c in polynomial
    )


def _fixed(polynomial: Polynomial, axis: int, z: int) -> tuple[Polynomial, int]:
    """The polynomial with one z fixed, and the constant that leaves it."""
    terms: dict[tuple[int, ...], int] = {}
    for axes, c in polynomial:
        if axis in axes:
            axes, c = tuple(a for a in axes if a != axis), c * z
        terms[axes] = terms.get(axes, 0) + c
    constant = terms.pop((), 0)
    return tuple(sorted((axes, c) for axes, c in terms.items() if c)), constant


def _floor(polynomial: Polynomial, sizes: Sequence[int]) -> int:
    """A bound below every value: each product at its own lowest."""
    total = 0
    for axes, c in polynomial:
        highest = math.prod(sizes[a] - 1 for a in axes)
        if c > 0 and axes:  # one axis differs, the one where that takes least off
            total -= c * (highest // min(sizes[a] - 1 for a in axes))
        else:
            total += c * highest
    return total


def _descent(polynomial: Polynomial, sizes: Sequence[int]) -> tuple[int, frozenset[int]]:
    """A low value: from all axes different, change one axis at a time while that lowers it."""
    axes = sorted({a for axes, _ in polynomial for a in axes})
    differ = frozenset(axes)
    best, improved = _value(polynomial, sizes, differ), True
    while improved:
        improved = False
        for a in axes:
            found = _value(polynomial, sizes, differ ^ {a})
            if found < best:
                best, differ, improved = found, differ ^ {a}, True
    return best, differ

"""What each row contributes: integers on a grid, and how far one row can move the answer.

A geometry is the set { 0 and every contribution } seen through its radius and diameter; the
price is taken from it. Formulas: design notes of each kind below, proofs in docs/proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sulq.errors import QueryNotAllowed
from sulq.expressions import parse, shorten
from sulq.partition import DENSE, grid_point, scaled_columns
from sulq.query import Mean, Products, Query, Sums
from sulq.schema import Schema
from sulq.tree import NUMERIC, Node, call

FINE = 30  # a number's range is cut into about 2**FINE steps
EXACT = 51  # grid integers of one row stay below 2**EXACT, exact in a float64


@dataclass(frozen=True, slots=True)
class Value:
    """A row's contribution as an integer: round(node * 2**scale), within [low, high].

    A missing value contributes 0.
    """

    node: Node
    scale: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Dense:
    """The kernel of several columns: sums, or products, of y on the grid 2**-DENSE."""

    kind: str  # sums or products
    columns: tuple[str, ...]
    centre: int  # in steps
    row_norm: int | None  # in steps
    means: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """One number that leaves: engine integer * step, noise of `unit` engine integers."""

    name: str
    step: Fraction  # own units per engine integer
    unit: Fraction  # engine integers in one unit of the geometry
    weight2: Fraction = Fraction(1)  # squared weight: the variance is unit^2 / weight2


@dataclass(frozen=True, slots=True)
class Geometry:
    """How far one row can move an answer within a cell, zero included.

    radius: largest distance from 0; diameter: largest distance between two contributions.
    """

    radius2: Fraction  # squared L2
    diameter2: Fraction
    radius1: Fraction  # L1
    diameter1: Fraction
    coordinates: int


Built = tuple[
    tuple[Value, ...] | Dense, tuple[tuple[int, ...], ...] | None, tuple[Release, ...], Geometry
]


def values_of(query: Query, schema: Schema, noise: str, guarantee: str, loose: bool) -> Built:
    """Check a query's values. `loose`: rows may contribute 0, so ranges must include it."""
    values = query.values
    if isinstance(values, Mean):
        return _mean(values, query, schema, noise, guarantee, loose)
    if isinstance(values, Sums | Products):
        if noise in ("binomial", "stitched"):
            raise QueryNotAllowed(
                f"sums and products of several columns need gaussian noise, this database has "
                f"{noise}."
            )
        if isinstance(values, Sums):
            return _sums(values, query, schema)
        return _products(values, query, schema, noise)
    return _scalars(values, query, schema, noise, guarantee, loose)


def _weights(query: Query, count: int, default: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Squared weights."""
    if query.weights is None:
        return default
    if len(query.weights) != count:
        raise QueryNotAllowed(f"weights: want {count}, got {len(query.weights)}.")
    return tuple(w * w for w in query.weights)


def _scalars(
    texts: tuple[str, ...], query: Query, schema: Schema, noise: str, guarantee: str, loose: bool
) -> Built:
    """A list of expressions: a box, each side one unit."""
    if not texts:
        raise QueryNotAllowed("values: give at least one expression, such as '1' for a count.")
    weights2 = _weights(query, len(texts), (Fraction(1),) * len(texts))
    if noise in ("binomial", "stitched") and set(weights2) != {Fraction(1)}:
        raise QueryNotAllowed(f"weights: {noise} noise has one variance, leave weights out.")
    values, releases = [], []
    radius1 = radius2 = diameter1 = diameter2 = Fraction(0)
    for text, weight2 in zip(texts, weights2, strict=True):
        node = _value_node(text, schema, noise)
        value = gridded(node)
        low, high = Fraction(value.low), Fraction(value.high)
        if loose or node.nullable or low == high:
            low, high = min(low, Fraction(0)), max(high, Fraction(0))
        else:
            low, high = Fraction(0), high - low  # counted from its public low end
        unit = max(-low, high) if guarantee == "dp" else high - low
        if unit == 0:
            raise QueryNotAllowed(f"{shorten(text)!r} is always 0.")
        radius, width = max(-low, high) / unit, (high - low) / unit
        weight = exact_root(weight2)
        radius2 += weight2 * radius**2
        diameter2 += weight2 * width**2
        radius1 += weight * radius
        diameter1 += weight * width
        values.append(value)
        releases.append(Release(text, Fraction(1, 2**value.scale) if value.scale >= 0
                                else Fraction(2**-value.scale), unit, weight2))  # fmt: skip
    geometry = Geometry(radius2, diameter2, radius1, diameter1, len(values))
    return tuple(values), None, tuple(releases), geometry


def _value_node(text: str, schema: Schema, noise: str) -> Node:
    """An expression that can be summed: numeric, with a finite range."""
    node = parse(text, schema)
    if node.type not in NUMERIC:
        raise QueryNotAllowed(f"{shorten(text)!r} is {node.type}; only numbers can be summed.")
    if not node.bounded:
        raise QueryNotAllowed(
            f"the range of {shorten(text)!r} is not known, so its sum has no price. Declare low "
            "and high in the schema, or clamp it: least(greatest(x, low), high)."
        )
    if noise == "binomial" and not (node.type != "number" and node.low >= 0 and node.high <= 1):
        raise QueryNotAllowed(
            f"{shorten(text)!r}: binomial noise is for counts. Ask for a predicate, or open with "
            "noise='gaussian'."
        )
    return node


def gridded(node: Node) -> Value:
    """Put a bounded node on its grid: whole numbers as they are, others on 2**-scale."""
    if node.type != "number":
        return Value(node, 0, int(node.low), int(node.high))
    reach = max(abs(node.low), abs(node.high)) or 1.0
    width = (node.high - node.low) or reach
    scale = min(FINE - math.frexp(width)[1] + 1, EXACT - math.frexp(reach)[1])
    factor = Fraction(2) ** scale
    low, high = Fraction(node.low) * factor, Fraction(node.high) * factor
    return Value(node, scale, math.ceil(low), max(math.floor(high), math.ceil(low)))


def exact_root(x: Fraction) -> Fraction:
    """The square root, exact if rational, else rounded up at 2**-60."""
    a, b = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if Fraction(a, b) ** 2 == x:
        return Fraction(a, b)
    return Fraction(math.isqrt(math.ceil(x * 4**60)) + 1, 2**60)


def _mean(
    mean: Mean, query: Query, schema: Schema, noise: str, guarantee: str, loose: bool
) -> Built:
    """(a, b*(g - 1/2)) from two plain sums: the count of known values and their total."""
    node = _value_node(mean.expression, schema, noise)
    value = gridded(node)
    width = Fraction(value.high - value.low)
    if width == 0:
        raise QueryNotAllowed(f"{shorten(mean.expression)!r} always has the same value.")
    known = Value(call("not", call("is_null", node)), 0, 0, 1)
    step = 1 / Fraction(2) ** value.scale
    if noise in ("binomial", "stitched"):
        low = value.low  # sum of (x - low), in [0, width]
        mix = ((1, 0), (-low, 1))
        releases = (Release("count", Fraction(1), Fraction(1)), Release("sum", step, width))
        box = Fraction(2)
        return (known, value), mix, releases, Geometry(box, box, box, box, 2)
    a2, b2 = _weights(query, 2, _mean_weights(noise, guarantee))
    a, b = exact_root(a2), exact_root(b2)
    mix = ((1, 0), (-(value.low + value.high), 2))  # twice the sum about mid-range
    releases = (
        Release("count", Fraction(1), Fraction(1), a2),
        Release("sum", step / 2, 2 * width, b2),
    )
    return (
        (known, value),
        mix,
        releases,
        Geometry(a2 + b2 / 4, max(b2, a2 + b2 / 4), a + b / 2, max(b, a + b / 2), 2),
    )


def _mean_weights(noise: str, guarantee: str) -> tuple[Fraction, Fraction]:
    """Squared weights of count and sum that make a mean most exact at price 1."""
    if noise == "laplace":
        return Fraction(1, 4), Fraction(1)
    return (Fraction(1, 2), Fraction(2)) if guarantee == "dp" else (Fraction(3, 4), Fraction(1))


def _ball(
    values: Sums | Products, columns: tuple[str, ...]
) -> tuple[int, int | None, Fraction, Fraction]:
    """Centre and norm in steps; the squared bound B^2 and the L1 bound in units."""
    what = type(values).__name__
    centre = grid_point(values.centre, what)
    one = 2**DENSE
    reach = Fraction(max(centre, one - centre, 0), one)
    bound2, bound1 = len(columns) * reach**2, len(columns) * reach
    if not 0 <= centre <= one:
        raise QueryNotAllowed(f"{what}: centre={values.centre}, want 0 to 1.")
    if values.row_norm is None:
        return centre, None, bound2, bound1
    norm = grid_point(values.row_norm, what, 1024)
    if norm < 1:
        raise QueryNotAllowed(f"{what}: row_norm={values.row_norm}, want a positive number.")
    exact = Fraction(norm, one)
    if exact**2 >= bound2:
        return centre, None, bound2, bound1
    root = Fraction(math.isqrt(len(columns) * 4**40) + 1, 2**40)
    return centre, norm, exact**2, min(bound1, exact * root)


def _sums(sums: Sums, query: Query, schema: Schema) -> Built:
    columns = scaled_columns(sums.columns, schema, "Sums")
    centre, norm, bound2, bound1 = _ball(sums, columns)
    a2, b2 = _weights(query, 2, (Fraction(1), Fraction(1)))
    a, b = exact_root(a2), exact_root(b2)
    one = Fraction(2**DENSE)
    releases = (
        Release("count", Fraction(1), Fraction(1), a2),
        *(Release(c, 1 / one, one, b2) for c in columns),
    )
    radius2, radius1 = a2 + b2 * bound2, a + b * bound1
    geometry = Geometry(
        radius2, max(4 * b2 * bound2, radius2), radius1, max(2 * b * bound1, radius1),
        1 + len(columns),
    )  # fmt: skip
    return Dense("sums", columns, centre, norm), None, releases, geometry


def _products(products: Products, query: Query, schema: Schema, noise: str) -> Built:
    columns = scaled_columns(products.columns, schema, "Products")
    if query.weights is not None:
        raise QueryNotAllowed("Products: use mean_weight= instead of weights=.")
    centre, norm, bound2, bound1 = _ball(products, columns)
    if isinstance(products.mean_weight, bool) or not 0 <= products.mean_weight <= 1e6:
        raise QueryNotAllowed(f"Products: mean_weight={products.mean_weight!r}, want 0 or more.")
    w = Fraction(products.mean_weight)
    one = Fraction(2**DENSE)
    # Under L2 an off-diagonal product stands for two entries of the symmetric matrix.
    twice = Fraction(2) if noise == "gaussian" else Fraction(1)
    means = tuple(Release(c, 1 / one, one, w * w) for c in columns) if w else ()
    pairs = tuple(
        Release(f"{a}*{b}", 1 / one**2, one**2, Fraction(1) if i == j else twice)
        for i, a in enumerate(columns)
        for j, b in enumerate(columns[i:], i)
    )
    radius2 = w * w * bound2 + bound2**2
    diameter2 = 2 * (bound2 + w * w / 2) ** 2 if w * w <= 2 * bound2 else 4 * w * w * bound2
    radius1 = w * bound1 + (bound1**2 + bound2) / 2
    geometry = Geometry(
        radius2, max(diameter2, radius2), radius1, 2 * radius1, len(means) + len(pairs)
    )
    dense = Dense("products", columns, centre, norm, means=bool(w))
    return dense, None, means + pairs, geometry

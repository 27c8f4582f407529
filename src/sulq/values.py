"""What each row contributes: integers on a grid, and how far one row can move the answer.

A geometry is the set { 0 and every contribution } seen through its radius and diameter; the
price is taken from it. Formulas: design notes of each kind below, proofs in docs/proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from sulq.errors import QueryNotAllowed
from sulq.expressions import parse, predicate, shorten
from sulq.partition import DENSE, coordinates, grid_point, used_columns
from sulq.query import Mean, People, Products, Query, Sums, Terms
from sulq.schema import Schema
from sulq.tree import NUMERIC, Node, call, literal

MAX_RELEASES = 200_000  # numbers in one answer
FINE = 30  # a number's range is cut into about 2**FINE steps
FINEST = 1000  # no step is below 2**-FINEST, so that a float64 can hold it
WIDEST = 40  # grid integers of one row stay below 2**WIDEST, so that noise fits beside them


@dataclass(frozen=True, slots=True)
class Value:
    """A row's contribution as an integer: round(node * 2**scale), within [low, high].

    A missing value contributes 0, or the end nearest to it where none may be missing.
    """

    node: Node
    scale: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Dense:
    """The kernel of several columns: sums, or products, of y on the grid 2**-DENSE."""

    kind: str  # sums, products or people
    columns: tuple[str, ...]  # that are read
    centre: int  # in steps
    row_norm: int | None  # in steps
    means: bool = False
    points: tuple[Node, ...] = ()  # the coordinates of y

    @property
    def text(self) -> str:
        """Canonical: equal texts are equal functions."""
        points = [p.text for p in self.points] or [f"c:{c!r}" for c in self.columns]
        return f"({self.kind} {points} {self.centre} {self.row_norm} {self.means})"


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
        values = Terms((), (("true", values.expression),), counted=False)
    if isinstance(values, People):
        return _people(query, schema)
    if isinstance(values, Terms):
        return _terms(values, query, schema, noise, guarantee, loose)
    if isinstance(values, Sums | Products):
        if noise in ("binomial", "stitched"):
            raise QueryNotAllowed(
                f"sums and products of several columns need gaussian noise, this database has "
                f"{noise}."
            )
        if isinstance(values, Sums):
            return _sums(values, query, schema)
        return _products(values, query, schema, noise)
    return _scalars(values, query.weights, schema, noise, guarantee, loose)


Weights = tuple[Fraction, ...] | None


def _weights(given: Weights, count: int, default: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Squared weights."""
    if given is None:
        return default
    if len(given) != count:
        raise QueryNotAllowed(f"weights: want {count}, got {len(given)}.")
    if any(not Fraction(1, 10**6) <= w <= 10**6 for w in given):
        raise QueryNotAllowed("weights: want numbers from 0.000001 to 1,000,000.")
    return tuple(w * w for w in given)


@lru_cache(maxsize=1024)
def _scalars(
    texts: tuple[str, ...],
    weights: Weights,
    schema: Schema,
    noise: str,
    guarantee: str,
    loose: bool,
) -> Built:
    """A list of expressions: a box, each side one unit."""
    if not texts:
        raise QueryNotAllowed("values: give at least one expression, such as '1' for a count.")
    weights2 = _weights(weights, len(texts), (Fraction(1),) * len(texts))
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
        releases.append(Release(text, 1 / Fraction(2) ** value.scale, unit, weight2))
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
    """Put a bounded node on its grid: whole numbers as they are, wide and others on 2**-scale."""
    if node.type == "integer" and max(-node.low, node.high) > 2**WIDEST:
        node = call("to_number", node)
    if node.type != "number":
        return Value(node, 0, int(node.low), int(node.high))
    reach = max(abs(node.low), abs(node.high)) or 1.0
    width = (node.high - node.low) or reach
    scale = min(FINE - math.frexp(width)[1] + 1, WIDEST - math.frexp(reach)[1], FINEST)
    factor = Fraction(2) ** scale
    low, high = Fraction(node.low) * factor, Fraction(node.high) * factor
    return Value(node, scale, math.ceil(low), max(math.floor(high), math.ceil(low)))


def exact_root(x: Fraction) -> Fraction:
    """The square root, exact if rational, else rounded up at 2**-60."""
    a, b = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if Fraction(a, b) ** 2 == x:
        return Fraction(a, b)
    return Fraction(math.isqrt(math.ceil(x * 4**60)) + 1, 2**60)


def _terms(
    terms: Terms, query: Query, schema: Schema, noise: str, guarantee: str, loose: bool
) -> Built:
    """Plain sums beside groups (a, b*(g1 - 1/2), b*(g2 - 1/2), ...) of one count each.

    A row is in a group only where all its expressions are known, so that (count, centred
    values) is either 0 or a point of {a} x [-b/2, b/2]^k: squared radius a^2 + k b^2/4,
    squared diameter max(k b^2, a^2 + k b^2/4). Different groups and sums add.
    """
    if not terms.sums and not terms.groups:
        raise QueryNotAllowed("values: give at least one sum or group.")
    if terms.sums:
        values, _, releases, g = _scalars(terms.sums, None, schema, noise, guarantee, loose)
        assert isinstance(values, tuple)
    else:
        values, releases, g = (), (), Geometry(*(Fraction(0),) * 4, 0)
    mix = [[int(i == j) for j in range(len(values))] for i in range(len(values))]
    for group in terms.groups:
        default = _group_weights(len(group) - 1, terms.counted, noise, guarantee, loose)
        a2, b2 = _weights(query.weights, 2, default)
        more, rows, named, extra = _group(group, schema, noise, a2, b2)
        width = len(values)
        values += more
        mix = [row + [0] * len(more) for row in mix] + [[0] * width + row for row in rows]
        releases += named
        g = Geometry(
            g.radius2 + extra.radius2, g.diameter2 + extra.diameter2,
            g.radius1 + extra.radius1, g.diameter1 + extra.diameter1,
            g.coordinates + extra.coordinates,
        )  # fmt: skip
    return values, tuple(tuple(row) for row in mix), releases, g


def _group(
    group: tuple[str, ...], schema: Schema, noise: str, a2: Fraction, b2: Fraction
) -> tuple[tuple[Value, ...], list[list[int]], tuple[Release, ...], Geometry]:
    """One count and its centred sums; engine values are the count and the plain sums."""
    condition, *texts = group
    nodes = [_value_node(text, schema, noise) for text in texts]
    member = call("and", predicate(condition, schema), *(_known(n) for n in nodes))
    sure = member.op == "literal" and member.value is True
    if member.nullable:
        member = call("coalesce", member, literal(False))
    values = [Value(member, 0, 0, 1)]
    mix, releases = [[1] + [0] * len(nodes)], [Release("count", Fraction(1), Fraction(1), a2)]
    binary = noise in ("binomial", "stitched")
    for i, (text, node) in enumerate(zip(texts, nodes, strict=True)):
        value = gridded(node)
        width = Fraction(value.high - value.low)
        if width == 0:
            raise QueryNotAllowed(f"{shorten(text)!r} always has the same value.")
        alone = sure or member.text == _known(node).text  # it is missing where it must be
        gated = value.node if alone else call("case", member, value.node, literal(None))
        values.append(replace(value, node=gated))
        row = [0] * (len(nodes) + 1)
        # The sum above low, or twice the sum about mid-range, from plain sums.
        row[0], row[i + 1] = (-value.low, 1) if binary else (-(value.low + value.high), 2)
        step, unit = 1 / Fraction(2) ** value.scale, width
        mix.append(row)
        releases.append(
            Release(text, step, unit) if binary else Release(text, step / 2, 2 * unit, b2)
        )
    k = len(nodes)
    if binary:
        box = Fraction(k + 1)
        return tuple(values), mix, tuple(releases), Geometry(box, box, box, box, k + 1)
    a, b = exact_root(a2), exact_root(b2)
    radius2, radius1 = a2 + k * b2 / 4, a + k * b / 2
    geometry = Geometry(radius2, max(k * b2, radius2), radius1, max(k * b, radius1), k + 1)
    return tuple(values), mix, tuple(releases), geometry


def _people(query: Query, schema: Schema) -> Built:
    """A person counts once per cell, in as many cells as they have rows."""
    if schema.unit is None:
        raise QueryNotAllowed(
            "people: the schema declares no [unit], so each row is a person: use COUNT(*)."
        )
    cells = Fraction(schema.unit.max_rows if query.by is not None or query.rows is not None else 1)
    dense = Dense("people", (schema.unit.column,), 0, None)
    geometry = Geometry(cells, cells, cells, cells, int(cells))
    return dense, None, (Release("people", Fraction(1), Fraction(1)),), geometry


def _known(node: Node) -> Node:
    return call("not", call("is_null", node))


def _group_weights(
    k: int, counted: bool, noise: str, guarantee: str, loose: bool
) -> tuple[Fraction, Fraction]:
    """Squared weights of a group's count and sums: a count somebody wants keeps variance R."""
    if noise in ("binomial", "stitched") or counted:
        return Fraction(1), Fraction(1)
    a2, b2 = _mean_weights(noise, guarantee)
    return a2 * max(k, 1), b2


def _mean_weights(noise: str, guarantee: str) -> tuple[Fraction, Fraction]:
    """Squared weights of count and sum that make a mean most exact at price 1."""
    if noise == "laplace":
        return Fraction(1, 4), Fraction(1)
    return (Fraction(1, 2), Fraction(2)) if guarantee == "dp" else (Fraction(3, 4), Fraction(1))


def _names(points: tuple[Node, ...]) -> tuple[str, ...]:
    """What each coordinate's number is called: its column, or its place."""
    return tuple(
        p.value if p.op == "column" else f"coordinate {i + 1}" for i, p in enumerate(points)
    )


def _ball(values: Sums | Products, size: int) -> tuple[int, int | None, Fraction, Fraction]:
    """Centre and norm in steps; the squared bound B^2 and the L1 bound in units."""
    what = type(values).__name__
    centre = grid_point(values.centre, what)
    one = 2**DENSE
    reach = Fraction(max(centre, one - centre, 0), one)
    bound2, bound1 = size * reach**2, size * reach
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
    root = Fraction(math.isqrt(size * 4**40) + 1, 2**40)
    return centre, norm, exact**2, min(bound1, exact * root)


def _sums(sums: Sums, query: Query, schema: Schema) -> Built:
    points = coordinates(sums.columns, schema, "Sums")
    centre, norm, bound2, bound1 = _ball(sums, len(points))
    a2, b2 = _weights(query.weights, 2, (Fraction(1), Fraction(1)))
    a, b = exact_root(a2), exact_root(b2)
    one = Fraction(2**DENSE)
    releases = (
        Release("count", Fraction(1), Fraction(1), a2),
        *(Release(c, 1 / one, one, b2) for c in _names(points)),
    )
    radius2, radius1 = a2 + b2 * bound2, a + b * bound1
    geometry = Geometry(
        radius2, max(4 * b2 * bound2, radius2), radius1, max(2 * b * bound1, radius1),
        1 + len(points),
    )  # fmt: skip
    dense = Dense("sums", used_columns(points), centre, norm, points=points)
    return dense, None, releases, geometry


def _products(products: Products, query: Query, schema: Schema, noise: str) -> Built:
    points = coordinates(products.columns, schema, "Products")
    columns = _names(points)
    if query.weights is not None:
        raise QueryNotAllowed("Products: use mean_weight= instead of weights=.")
    centre, norm, bound2, bound1 = _ball(products, len(points))
    weight = products.mean_weight
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not number or not (weight == 0 or 1e-6 <= weight <= 1e6):
        raise QueryNotAllowed(
            f"Products: mean_weight={weight!r}, want 0 or a number from 0.000001 to 1,000,000."
        )
    if len(columns) * (len(columns) + 1) // 2 > MAX_RELEASES:
        raise QueryNotAllowed(
            f"Products: {len(columns):,} columns have too many products; at most "
            f"{MAX_RELEASES:,} numbers in one answer."
        )
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
    dense = Dense("products", used_columns(points), centre, norm, bool(w), points)
    return dense, None, means + pairs, geometry

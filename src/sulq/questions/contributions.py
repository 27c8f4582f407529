"""What each row contributes: integers on a grid, and how far one row can move the answer.

A geometry is the set { 0 and every contribution } seen through its radius and diameter; the
price is taken from it. Formulas: design notes of each kind below, proofs in docs/proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions import normal_form as normal
from sulq.expressions.functions import call
from sulq.expressions.node import NUMERIC, Node, literal, tree_of
from sulq.expressions.parse import SHORT, parse, predicate, shorten
from sulq.privacy.geometry import NOTHING, Geometry, Release
from sulq.questions.grid import Value, gridded
from sulq.questions.moment_blocks import Block, blocks_of
from sulq.questions.partitions import DENSE, complete_word, coordinates, grid_point, used_columns
from sulq.values.query import (
    Discover,
    Mean,
    People,
    Percentile,
    Products,
    Query,
    Residual,
    Strategy,
    Sums,
    Terms,
)
from sulq.values.schema import Schema

MAX_RELEASES = 200_000  # numbers in one answer
MAX_TERMS = 1_000  # sums and counts of a question that has groups


@dataclass(frozen=True, slots=True)
class Dense:
    """The kernel of several columns: sums, or products, of y on the grid 2**-DENSE."""

    kind: str  # sums, products or people
    columns: tuple[str, ...]  # that are read
    centre: int  # in steps
    row_norm: int | None  # in steps
    means: bool = False
    points: tuple[Node, ...] = ()  # the coordinates of y
    counted: bool = False  # products beside the count of their rows

    @property
    def tree(self) -> dict[str, Any]:
        """As JSON: equal where the functions are."""
        points = [tree_of(p) for p in self.points] or [{"column": c} for c in self.columns]
        said = {"columns": points, "centre": self.centre, "row_norm": self.row_norm}
        counted = {"counted": True} if self.counted else {}
        return said | {"means": self.means} | complete_word(self.points) | counted


Built = tuple[
    tuple[Value, ...] | Dense, tuple[tuple[int, ...], ...] | None, tuple[Release, ...], Geometry
]


def values_of(
    query: Query, schema: Schema, noise: str, guarantee: str, loose: bool,
    summed: Node | None = None, older: bool = False,
) -> Built:  # fmt: skip
    """Check a query's values. `loose`: rows may contribute 0, so ranges must include it.

    `summed` is what a lone expression adds up where it was read as a sum over fewer rows.
    """
    values = query.values
    if isinstance(values, Mean):
        values = Terms((), (("true", values.expression),), counted=False)
    if isinstance(values, People):
        return _people(query, schema)
    if isinstance(values, Terms):
        short = sum(len(t) for part in (values.sums, *values.groups) for t in part) <= SHORT
        return (_short_terms if short else _terms)(
            values, query.weights, schema, noise, guarantee, loose, older
        )
    if isinstance(values, Sums | Products):
        if noise in ("binomial", "stitched"):
            raise QueryNotAllowed(
                f"sums and products of several columns need gaussian noise, this database has "
                f"{noise}."
            )
        if isinstance(values, Sums):
            return _sums(values, query, schema)
        return _products(values, query, schema, noise)
    if isinstance(values, Strategy | Residual | Percentile | Discover):
        values = ("1",)
    return _scalars(values, query.weights, schema, noise, guarantee, loose, summed, older)


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
    summed: Node | None = None,
    older: bool = False,
) -> Built:
    """A list of expressions: a box, each side one unit."""
    if not texts:
        raise QueryNotAllowed("values: give at least one expression, such as '1' for a count.")
    weights2 = _weights(weights, len(texts), (Fraction(1),) * len(texts))
    if noise in ("binomial", "stitched") and set(weights2) != {Fraction(1)}:
        raise QueryNotAllowed(f"weights: {noise} noise has one variance, leave weights out.")
    values, releases = [], []
    geometry = NOTHING
    for text, weight2 in zip(texts, weights2, strict=True):
        node = _value_node(text, schema, noise)
        if not older:
            node = normal.value(node if summed is None else summed, schema)
        value = gridded(node)
        low, high = Fraction(value.low), Fraction(value.high)
        if loose or node.nullable or low == high:
            low, high = min(low, Fraction(0)), max(high, Fraction(0))
        else:
            low, high = Fraction(0), high - low  # counted from its public low end
        unit = max(-low, high) if guarantee == "dp" else high - low
        if unit == 0:
            raise QueryNotAllowed(
                f"{shorten(text)!r}: by the schema it is 0 for every row, so there is nothing to "
                "sum: it is always 0."
            )
        radius, width = max(-low, high) / unit, (high - low) / unit
        weight = exact_root(weight2)
        geometry += Geometry(
            weight2 * radius**2, weight2 * width**2, weight * radius, weight * width, 1
        )
        values.append(value)
        releases.append(Release(text, 1 / Fraction(2) ** value.scale, unit, weight2))
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


def exact_root(x: Fraction) -> Fraction:
    """The square root, exact if rational, else rounded up at 2**-60."""
    a, b = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if Fraction(a, b) ** 2 == x:
        return Fraction(a, b)
    return Fraction(math.isqrt(math.ceil(x * 4**60)) + 1, 2**60)


def _terms(
    terms: Terms, weights: Weights, schema: Schema, noise: str, guarantee: str, loose: bool,
    older: bool,
) -> Built:  # fmt: skip
    """Plain sums beside groups (a, b*(g1 - 1/2), b*(g2 - 1/2), ...) of one count each.

    A row is in a group only where all its expressions are known, so that (count, centred
    values) is either 0 or a point of {a} x [-b/2, b/2]^k: squared radius a^2 + k b^2/4,
    squared diameter max(k b^2, a^2 + k b^2/4). Different groups and sums add.
    """
    if not terms.sums and not terms.groups:
        raise QueryNotAllowed("values: give at least one sum or group.")
    numbers = len(terms.sums) + sum(map(len, terms.groups))
    if numbers > MAX_TERMS:  # what is stored grows with the square of it
        raise QueryNotAllowed(
            f"values: {numbers:,} sums and counts in one question, at most {MAX_TERMS:,}. Ask for "
            "fewer at a time."
        )
    if terms.sums:
        values, _, releases, g = _scalars(
            terms.sums, None, schema, noise, guarantee, loose, None, older
        )
        assert isinstance(values, tuple)
    else:
        values, releases, g = (), (), NOTHING
    # Each row of the mix: where what is not 0 begins, and that.
    mixes: list[tuple[int, list[int]]] = [(i, [1]) for i in range(len(values))]
    for i, group in enumerate(terms.groups):
        counted = i not in terms.uncounted
        blocks = None
        if noise == "gaussian" and weights is None and not older:
            blocks = blocks_of(list(group[1:]), schema)
        if blocks is None:
            default = _group_weights(len(group) - 1, terms.counted, noise, guarantee)
            a2, b2 = _weights(weights, 2, default)
            weights2 = (a2 if counted else Fraction(0), *(b2,) * (len(group) - 1))
        else:
            weights2 = _block_weights(blocks, terms.counted, counted, guarantee)
        more, rows, named, extra = _group(group, schema, noise, weights2, older)
        if blocks is not None:
            apart = Fraction(sum(b.price for b in blocks))
            extra = replace(extra, diameter2=max(apart, extra.radius2))
        mixes += [(len(values), row) for row in rows]
        values += more
        releases += named
        g += extra
    width = len(values)
    mix = ((*(0,) * at, *row, *(0,) * (width - at - len(row))) for at, row in mixes)
    return values, tuple(mix), releases, g


_short_terms = lru_cache(maxsize=256)(_terms)  # statements often want the same few


def _group(
    group: tuple[str, ...], schema: Schema, noise: str, weights2: tuple[Fraction, ...], older: bool
) -> tuple[tuple[Value, ...], list[list[int]], tuple[Release, ...], Geometry]:
    """One count and its centred sums; engine values are the count and the plain sums.

    A count of weight 0 does not leave.
    """
    condition, *texts = group
    a2, *b2s = weights2
    nodes = [_value_node(text, schema, noise) for text in texts]
    if not older:
        nodes = [normal.exactly(n, schema) for n in nodes]
    member = call("and", predicate(condition, schema), *(_known(n) for n in nodes))
    if not older:
        member = normal.truth(member, schema)
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
            Release(text, step, unit) if binary else Release(text, step / 2, 2 * unit, b2s[i])
        )
    if not a2:
        mix, releases = mix[1:], releases[1:]
    if binary:
        box = Fraction(len(releases))
        return tuple(values), mix, tuple(releases), Geometry(box, box, box, box, len(releases))
    added2, added1 = sum(b2s, Fraction(0)), sum(map(exact_root, b2s), Fraction(0))
    radius2, radius1 = a2 + added2 / 4, exact_root(a2) + added1 / 2
    geometry = Geometry(radius2, max(added2, radius2), radius1, max(added1, radius1), len(releases))
    return tuple(values), mix, tuple(releases), geometry


def _block_weights(
    blocks: list[Block], wanted: bool, counted: bool, guarantee: str
) -> tuple[Fraction, ...]:
    """Squared weights of the count of a group, if it leaves, and of its sums."""
    found = [b.weights2(guarantee, counted, wanted) for b in blocks]
    count = sum((part for part, _ in found), Fraction(0))
    if counted and wanted:
        count = Fraction(1) if guarantee == "dp" else max(count, Fraction(1))
    each = {place: w for _, weights in found for place, w in weights.items()}
    return (count, *(each[place] for place in sorted(each)))


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


def _group_weights(k: int, counted: bool, noise: str, guarantee: str) -> tuple[Fraction, Fraction]:
    """Squared weights of a group's count and sums: a count somebody wants keeps variance R."""
    if noise in ("binomial", "stitched") or counted:
        return Fraction(1), Fraction(1)
    # Those that make a mean most exact at price 1.
    if noise == "laplace":
        a2, b2 = Fraction(1, 4), Fraction(1)
    elif guarantee == "dp":
        a2, b2 = Fraction(1, 2), Fraction(2)
    else:
        a2, b2 = Fraction(3, 4), Fraction(1)
    return a2 * max(k, 1), b2


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
    """(c, w*y, sym(y y^T)), or 0 where a coordinate is missing.

    Two rows that are there differ by nothing in c, so it is only in the distance from 0.
    """
    points = coordinates(products.columns, schema, "Products")
    columns = _names(points)
    if query.weights is not None:
        raise QueryNotAllowed("Products: use mean_weight= and count_weight= instead of weights=.")
    centre, norm, bound2, bound1 = _ball(products, len(points))
    w, c = (_product_weight(products, name) for name in ("mean_weight", "count_weight"))
    if len(columns) * (len(columns) + 1) // 2 > MAX_RELEASES:
        raise QueryNotAllowed(
            f"Products: {len(columns):,} columns have too many products; at most "
            f"{MAX_RELEASES:,} numbers in one answer."
        )
    one, inverse = Fraction(2**DENSE), Fraction(1, 2**DENSE)
    # Under L2 an off-diagonal product stands for two entries of the symmetric matrix.
    twice = Fraction(2) if noise == "gaussian" else Fraction(1)
    counts = (Release("count", Fraction(1), Fraction(1), c * c),) if c else ()
    means = tuple(Release(name, inverse, one, w * w) for name in columns) if w else ()
    pairs = _pairs(tuple(columns), twice)
    apart2 = 2 * (bound2 + w * w / 2) ** 2 if w * w <= 2 * bound2 else 4 * w * w * bound2
    reach1 = w * bound1 + (bound1**2 + bound2) / 2
    radius2, radius1 = c * c + w * w * bound2 + bound2**2, c + reach1
    releases = counts + means + pairs
    geometry = Geometry(
        radius2, max(apart2, radius2), radius1, max(2 * reach1, radius1), len(releases)
    )
    dense = Dense("products", used_columns(points), centre, norm, bool(w), points, bool(c))
    return dense, None, releases, geometry


@lru_cache(maxsize=4)  # one fit looks several times
def _pairs(columns: tuple[str, ...], twice: Fraction) -> tuple[Release, ...]:
    """The products of columns, the upper triangle row by row."""
    own, square = Fraction(1), Fraction(2 ** (2 * DENSE))
    step = 1 / square
    return tuple(
        Release(f"{a}*{b}", step, square, own if i == j else twice)
        for i, a in enumerate(columns)
        for j, b in enumerate(columns[i:], i)
    )


def _product_weight(products: Products, name: str) -> Fraction:
    weight = getattr(products, name)
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not number or not (weight == 0 or 1e-6 <= weight <= 1e6):
        raise QueryNotAllowed(
            f"Products: {name}={weight!r}, want 0 or a number from 0.000001 to 1,000,000."
        )
    return Fraction(weight)

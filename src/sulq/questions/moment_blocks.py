"""Means, squares and products of the same expressions: their weights, and how far a row moves them.

A group of sums may hold expressions x, y and products of their deviations from mid-range, as VAR,
COVAR and CORR need them. Scaled to a range of 1, the sums of a block {x}, {x, xx}, {x, y, xy} or
{x, y, xy, xx, yy} have squared weights that make the aggregate most exact for a price of one query
per sum (docs/proofs/moments.md).

From 0 a row is at most a^2 + (sum of b^2)/4 away: every sum is within b/2 of its middle, and in a
corner all are. Two rows cannot differ in all sums at once: where x and y change sign, xy does not.
With b^2 = w for x and y, at most w for xy and at most w/2 for the squares, two rows are at most 2 w
apart, squared; with x and xx alone, and at most 11/16 w for xx, at most w.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

from sulq.expressions.parse import parse
from sulq.questions.grid import gridded
from sulq.values.schema import Schema

MOST = 12  # sums of a group that are looked at
FINE_ENOUGH = 2**26  # steps of a range, so that a product of two is one to a part in 2^22
ROUNDING = 1 + Fraction(1, 2**20)  # and what that may add to a squared distance


def middle(x: str, schema: Schema) -> float:
    """The middle of an expression's range, on its grid."""
    value = gridded(parse(x, schema))
    return float((value.low + value.high) / 2 * 2.0**-value.scale)


def deviation(x: str, schema: Schema) -> str:
    """x about its middle, as an expression."""
    return f"(({x}) - {middle(x, schema)!r})"


def product(x: str, y: str, schema: Schema) -> str:
    """The product of two deviations, as an expression."""
    return f"{deviation(x, schema)} * {deviation(y, schema)}"


@dataclass(frozen=True, slots=True)
class Block:
    """Sums of a group, by their places, that are weighted together."""

    means: tuple[int, ...]
    product: int | None = None
    squares: tuple[int, ...] = ()

    @property
    def price(self) -> int:
        """In queries: one for each sum. Two rows are no further apart under beliefs."""
        return len(self.means) + (self.product is not None) + len(self.squares)

    def weights2(
        self, guarantee: str, counted: bool, wanted: bool
    ) -> tuple[Fraction, dict[int, Fraction]]:
        """Its part of the squared weight of the group's count, and those of its sums.

        Where the count is `wanted` for itself it has weight 1, and under dp the sums have less.
        """
        price = Fraction(self.price)
        if guarantee == "dp":
            count = Fraction(1, 2) if counted else Fraction(0)
            parts = self._parts()
            rest = price / 4 if counted and wanted else price - count
            each = 4 * rest / sum(parts.values())
            return count, {place: each * part for place, part in parts.items()}
        mean = price / len(self.means) / (ROUNDING if self.price > 1 else 1)
        square = mean * (Fraction(1, 2) if self.product is not None else Fraction(11, 16))
        found = dict.fromkeys(self.means, mean) | dict.fromkeys(self.squares, square)
        if self.product is not None:
            found[self.product] = mean
        count = price - sum(found.values(), Fraction(0)) / 4
        return count if counted else Fraction(0), found

    def _parts(self) -> dict[int, Fraction]:
        """How much of the price each sum is worth under dp: the root of its share of the error.

        With means a quarter of the range off the middle and a correlation of a half: a product 8,
        each mean beside it 4, each square 1; of a variance the mean 2, the square 1.
        """
        if self.product is None:
            alone = dict.fromkeys(self.means, Fraction(2))
            return alone | dict.fromkeys(self.squares, Fraction(1))
        found = {self.product: Fraction(8)} | dict.fromkeys(self.means, Fraction(4))
        return found | dict.fromkeys(self.squares, Fraction(1))


def blocks_of(texts: list[str], schema: Schema) -> list[Block] | None:
    """The sums of a group in blocks; None where one is no product, or of more than two."""
    if len(texts) > MOST:
        return None
    nodes = {parse(text, schema).text: i for i, text in enumerate(texts)}
    products: dict[int, tuple[int, int]] = {}
    for i, j in itertools.product(range(len(texts)), repeat=2):
        made = _text(texts[i], texts[j], schema)
        if made in nodes:
            products.setdefault(nodes[made], (i, j))
    means = [i for i in range(len(texts)) if i not in products]
    linked: dict[int, tuple[int | None, int]] = {}
    for place, (i, j) in products.items():
        if not {i, j} <= set(means) or (i != j and (i in linked or j in linked)):
            return None
        if i != j:
            linked |= {i: (place, j), j: (place, i)}
    found = []
    for i in means:
        shared, other = linked.get(i, (None, i))
        if other < i:
            continue  # with the other one
        both = tuple(dict.fromkeys((i, other)))
        squares = tuple(p for p, pair in products.items() if pair in {(m, m) for m in both})
        found.append(Block(both, shared, squares))
    return found if any(b.price > 1 for b in found) else None


def _text(x: str, y: str, schema: Schema) -> str | None:
    """The product of two deviations in its one form; None for what has no such."""
    nodes = [parse(t, schema) for t in (x, y)]
    if any(not n.bounded or n.low == n.high for n in nodes):
        return None
    if any(n.type == "number" and (v := gridded(n)).high - v.low < FINE_ENOUGH for n in nodes):
        return None
    return parse(product(x, y, schema), schema).text

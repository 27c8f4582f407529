"""What a predicate can tell apart of one column: a few pieces of its values, and sets of them.

A piece is a stretch of numbers or dates between two of the constants a predicate speaks of, one
value, every other value, or "missing". Two predicates that are true of the same pieces are the same
question; `Line.node` writes any set of pieces in one way only.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sulq.expressions.columns import Vector, ends, vector_of
from sulq.expressions.functions import call
from sulq.expressions.node import EPOCH, Node, days, literal
from sulq.values.schema import Column, Schema

MAX_VALUES = 1_000  # of a column, to look at each

Bound = tuple[float, int]  # (v, 0) is just before v, (v, 1) just behind it
FIRST, LAST = (-math.inf, 0), (math.inf, 1)


@dataclass(frozen=True, slots=True)
class Line:
    """One column, or a yes/no fact that is not looked into, cut into pieces."""

    base: Node
    public: bool
    pieces: tuple[Any, ...]  # values, or (Bound, Bound) of ordered ones; OTHERS
    missing: bool  # is there one more piece, where it is missing?
    ordered: bool = False
    whole: bool = False  # no value lies between v and v + 1

    def __len__(self) -> int:
        return len(self.pieces) + self.missing

    def vector(self, at: Any) -> Vector:
        """A value out of each of these pieces, as raw data."""
        values = [self.value(p) for p in self.pieces]
        data, valid = vector_of([*values, None][: len(self)])
        return Vector(data[at], valid[at])

    def value(self, piece: Any) -> Any:
        """A value out of this piece, before it is clamped to what the column can hold."""
        if piece is OTHERS:
            return "\x01" * (1 + max((len(p) for p in self.pieces if p is not OTHERS), default=0))
        if not self.ordered:
            return piece
        (low, behind), (high, _) = piece
        if self.whole:
            return int(low if low > -math.inf else high - 1 if high < math.inf else 0)
        if low > -math.inf:
            return math.nextafter(low, math.inf) if behind else low
        return math.nextafter(high, -math.inf) if high < math.inf else 0.0

    # ---- writing --------------------------------------------------------------------------

    def node(self, chosen: Iterable[int]) -> Node:
        """The one predicate that is true exactly on these pieces."""
        at = sorted(chosen)
        blank = [call("is_null", self.base)] if self.missing and len(self) - 1 in at else []
        kept = [self.pieces[i] for i in at if i < len(self.pieces)]
        if len(kept) == len(self.pieces):
            known = [call("not", call("is_null", self.base))] if self.missing else [literal(True)]
            return literal(True) if blank or not self.missing else known[0]
        terms = self._stretches(kept) if self.ordered else self._values(kept)
        return call("or", *blank, *terms) if blank or terms else literal(False)

    def _values(self, kept: list[Any]) -> list[Node]:
        if not kept:
            return []
        if self.base.type == "boolean":
            return [self.base if kept[0] else call("not", self.base)]
        if OTHERS in kept:  # all but some
            left_out = [p for p in self.pieces if p not in kept]
            return [_none_of(self.base, left_out)]
        return [_one_of(self.base, kept)]

    def _stretches(self, kept: list[Any]) -> list[Node]:
        merged: list[tuple[Bound, Bound]] = []
        for low, high in kept:
            if merged and merged[-1][1] == low:
                merged[-1] = (merged[-1][0], high)
            else:
                merged.append((low, high))
        holes = self._holes(merged)
        if holes:
            return [_none_of(self.base, holes)]
        points = [self._number(low[0]) for low, high in merged if self._is_point(low, high)]
        rest = [self._stretch(*m) for m in merged if not self._is_point(*m)]
        return [*rest, *([_one_of(self.base, points)] if points else [])]

    def _holes(self, merged: list[tuple[Bound, Bound]]) -> list[Any]:
        """The few values left out, if everything else is in; none otherwise."""
        if not merged or merged[0][0] != FIRST or merged[-1][1] != LAST:
            return []
        gaps = [(a[1], b[0]) for a, b in itertools.pairwise(merged)]
        single = all(self._is_point(*gap) for gap in gaps)
        return [self._number(low[0]) for low, _ in gaps] if single else []

    def _is_point(self, low: Bound, high: Bound) -> bool:
        if low == FIRST or high == LAST:
            return False
        return high == ((low[0] + 1, 0) if self.whole else (low[0], 1)) and low[1] == 0

    def _stretch(self, low: Bound, high: Bound) -> Node:
        x, terms = self.base, []
        if low != FIRST:
            v, behind = low
            if self.whole and self._round(v - 1) > self._round(v):
                v, behind = v - 1, 1
            terms.append(call("lt" if behind else "le", literal(self._number(v)), x))
        if high != LAST:
            v, behind = high
            if self.whole and self._round(v - 1) >= self._round(v):
                v, behind = v - 1, 1
            terms.append(call("le" if behind else "lt", x, literal(self._number(v))))
        return call("and", *terms)

    def _number(self, v: float) -> Any:
        if self.base.type == "date":
            return EPOCH + datetime.timedelta(days=int(v))
        return int(v) if self.whole else float(v) + 0.0  # never -0.0

    def _round(self, v: float) -> int:
        """How round an end looks: people write age > 40, not age >= 41."""
        number = self._number(v)
        if isinstance(number, datetime.date):
            return (number.day == 1) + (number.timetuple().tm_yday == 1)
        zeros = len(str(number)) - len(str(number).rstrip("0"))
        return 2 * zeros + (number % 5 == 0) if number else 99


class _Others:
    """Every value that no predicate names."""


OTHERS = _Others()


def _one_of(base: Node, values: list[Any]) -> Node:
    if len(values) == 1:
        return call("eq", base, literal(values[0]))
    return call("in", base, *(literal(v) for v in values))


def _none_of(base: Node, values: list[Any]) -> Node:
    if len(values) == 1:
        return call("ne", base, literal(values[0]))
    return call("not", _one_of(base, values))


# ---- making lines ---------------------------------------------------------------------------


def fact(atom: Node, public: bool) -> Line:
    """A yes/no expression that is not looked into."""
    return Line(atom, public, (False, True), atom.nullable)


def line(base: Node, column: Column, constants: list[Any], every: bool) -> Line | None:
    """A column cut at these constants, or into `every` value; None if it has too many."""
    listed = column.listed
    if listed is not None:
        few = len(listed) <= MAX_VALUES
        return Line(base, column.public, _sorted(listed), base.nullable) if few else None
    if base.type == "text" and not every:
        named = sorted({c for c in constants if isinstance(c, str)})
        return Line(base, column.public, (*named, OTHERS), base.nullable)
    if base.type not in ("integer", "number", "date"):
        return None
    whole = base.type != "number"
    cuts = _every(column) if every else {_place(c) for c in constants}
    if cuts is None:
        return None
    return Line(base, column.public, _pieces(base, column, cuts), base.nullable, True, whole)


def between(node: Node, schema: Schema) -> tuple[Line, list[bool]] | None:
    """The pieces of a column of numbers, and in which of them it is between constants.

    None unless that is all the predicate says: comparisons, all of which must hold, of one column.
    """
    column = None
    tests: list[tuple[bool, bool, Any]] = []  # may it be equal, is it above, the constant
    for term in node.args if node.op == "and" else (node,):
        if term.op not in ("lt", "le"):
            return None
        left, right = term.args
        x, end = (right, left) if left.op == "literal" else (left, right)
        if x.op != "column" or x != (column or x):
            return None
        column = x
        tests.append((term.op == "le", end is left, end.value))
    if column is None or any(type(c) is not KINDS.get(column.type) for _, _, c in tests):
        return None
    declared = schema[column.value]
    if declared.type != column.type:
        return None
    cut = line(column, declared, sorted({c for _, _, c in tests}, key=str), every=False)
    if cut is None or not cut.ordered:
        return None
    low, high = ends(declared) if cut.whole else (column.low, column.high)
    values = [min(max(cut.value(p), low), high) for p in cut.pieces]
    inside = [all(_meets(v, *test) for test in tests) for v in values]
    return cut, [*inside, *[False] * cut.missing]


KINDS = {"integer": int, "number": float}


def _meets(value: float, equal: bool, above: bool, constant: float) -> bool:
    return (equal and value == constant) or (value > constant if above else value < constant)


def small(column: Column) -> bool:
    """Has it few enough values to look at each?"""
    if column.listed is not None:
        return len(column.listed) <= MAX_VALUES
    return column.type in ("integer", "date") and _every(column) is not None


def _every(column: Column) -> set[float] | None:
    if not column.bounded or column.type not in ("integer", "date"):
        return None
    low, high = ends(column)
    return set(map(float, range(low, high + 1))) if high - low < MAX_VALUES else None


def _sorted(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(values, key=lambda v: (isinstance(v, str), v)))


def _place(constant: Any) -> float:
    return float(days(constant)) if isinstance(constant, datetime.date) else float(constant)


def _pieces(base: Node, column: Column, cuts: set[float]) -> tuple[tuple[Bound, Bound], ...]:
    """Stretches between the cuts and the cuts themselves, within what the column can hold."""
    if base.type == "number":
        low, high = base.low, base.high
        bounds = {b for c in cuts for b in ((c, 0), (c, 1)) if low <= c <= high}
        bounds -= {(low, 0), (high, 1)}
        inner = sorted(bounds)
    else:
        low, high = ends(column)
        starts = {s for c in cuts for s in (math.ceil(c), math.floor(c) + 1)}
        inner = [(float(s), 0) for s in sorted(starts) if low < s <= high]
    marks = [FIRST, *inner, LAST]
    return tuple(p for p in itertools.pairwise(marks) if not _empty(p))


def _empty(piece: tuple[Bound, Bound]) -> bool:
    """Is there no number between two that follow each other?"""
    (low, behind), (high, before) = piece
    return behind == 1 and before == 0 and high < math.inf and math.nextafter(low, math.inf) >= high

"""A question of several numbers -> the questions of one number that it is made of.

Cells of one table are not independent: those of a partition add up to all rows, and two tables by
the same column share its margin. An auditor of the paper's kind refuses whatever follows from the
rest, so what it is given is a basis: of every partition one cell is left out (the base), and the
sums over all combinations of the other cells, of some of the partitions or none, are asked. Every
number of the table is a whole combination of those. Equal ones of several tables are asked once.

Sums and products of columns, which k-means and PCA ask for, are made of sums of x in [0, 1] and of
x_i x_j; of Boolean columns those are counts, which both rules can judge.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sulq.audit.total import TERMS, without_noise
from sulq.errors import MICRO, QueryNotAllowed
from sulq.expressions.node import EPOCH, Node, tree_of
from sulq.expressions.parse import parse
from sulq.expressions.quoting import quote, text
from sulq.expressions.wording import sql_of
from sulq.questions.check import CheckedQuery, check
from sulq.questions.partitions import DENSE, Axis
from sulq.questions.question import Bundle, released_answer, spread_of
from sulq.values.answer import Answer
from sulq.values.price import Price
from sulq.values.query import Bins, Leaf, NearestCentre, Products, Query, Sums
from sulq.values.schema import Schema

MAX_CELLS = 2_000  # numbers of one table
Weights = Mapping[Query, Fraction]  # a number as a combination of questions of one number


@dataclass(frozen=True, slots=True)
class Cells:
    """One partition: the predicate of each cell, None where no row can be."""

    predicates: tuple[str | None, ...]
    base: int | None  # the cell that is left out; None: the cells do not cover all rows

    def ways(self, cell: int) -> list[tuple[str, int]]:
        """The cell as a combination of predicates of the basis; '' is all rows."""
        if self.predicates[cell] is None:
            return []
        if cell != self.base:
            return [(self.predicates[cell] or "", 1)]
        others = [p for i, p in enumerate(self.predicates) if p is not None and i != cell]
        return [("", 1), *((p, -1) for p in others)]


@dataclass(frozen=True)
class CountTable:
    """A question as it was asked, and each of its numbers as a combination of others."""

    checked: CheckedQuery
    numbers: tuple[tuple[Weights, ...], ...]  # cells x values


def table_of(query: Query, schema: Schema, older: bool = False) -> CountTable:
    """What a question of several numbers is made of; refused if no auditor can judge that."""
    query = _summed(query)
    checked = check(query, schema, *TERMS, older)
    if checked.released * len(checked.releases) > MAX_CELLS:
        raise QueryNotAllowed(
            f"the answer would have {checked.numbers:,} numbers, and an audited question at most "
            f"{MAX_CELLS:,}. Ask for fewer cells. Nothing was charged."
        )
    by = () if query.by is None else query.by if isinstance(query.by, tuple) else (query.by,)
    axes = [_cells(part, axis, schema) for part, axis in zip(by, checked.axes, strict=True)]
    bare = replace(query, values=("1",), by=None, weights=None)
    values = _values(query, schema)
    numbers = []
    for cell in itertools.product(*(range(len(axis.predicates)) for axis in axes)):
        ways = [axis.ways(c) for axis, c in zip(axes, cell, strict=True)]
        numbers.append(tuple(_number(bare, ways, value) for value in values))
    return CountTable(checked, tuple(numbers))


def _summed(query: Query) -> Query:
    """The question, of sums and products of columns alone."""
    query = without_noise(query)
    dense = isinstance(query.values, Sums | Products)
    if not dense and not isinstance(query.values, tuple):
        raise QueryNotAllowed(
            "an audited question is a count, sums, or sums and products of columns, by cells or "
            "not. Ask for those. Nothing was charged."
        )
    if isinstance(query.values, Sums | Products) and query.values.row_norm is not None:
        raise QueryNotAllowed("row_norm: an audited sum clips no rows. Leave it out.")
    return query


# --- cells ------------------------------------------------------------------------------


def _cells(part: Any, axis: Axis, schema: Schema) -> Cells:
    """The predicate of each cell of a partition."""
    if isinstance(part, NearestCentre):
        return _nearest(part, axis)
    if isinstance(part, Leaf):
        paths = ["" if path is None else _sql(path) for path in axis.detail]
        return Cells(tuple(paths), len(paths) - 1)
    if isinstance(part, str | Bins) and axis.node is not None:
        said = part if isinstance(part, str) else part.column
        name = f"({said})" if schema.get(said) is None else quote(schema[said].name)
        edged = axis.kind == "bins"
        found = _binned(name, axis) if edged else _listed(name, axis)
        if axis.complete and axis.labels[0] is False:
            return Cells(tuple(found), 0)  # counted are those where it is true
        return Cells(tuple(found), found.index(None) - 1 if None in found else len(found) - 1)
    raise QueryNotAllowed(
        "by: an audited question takes columns, bins, sulq.NearestCentre or sulq.Leaf. Nothing was "
        "charged."
    )


def _sql(node: Node) -> str:
    return sql_of(tree_of(node))


def _listed(name: str, axis: Axis) -> list[str | None]:
    """One predicate for each label; '(other)' comes last, None if no row is in it."""
    found: list[str | None] = []
    for label in axis.labels:
        if label is None:
            found.append(None if axis.complete else f"{name} is null")
        elif isinstance(label, bool):
            found.append(name if label else f"not {name}")
        else:
            found.append(f"{name} = {_constant(label)}")
    return found


def _constant(label: Any) -> str:
    if isinstance(label, str):
        return text(label)
    return f"date '{label.isoformat()}'" if hasattr(label, "isoformat") else repr(label)


def _binned(name: str, axis: Axis) -> list[str | None]:
    """From an edge up to the next, the last one included; then what is in none of them."""
    assert axis.node is not None
    ends = [_edge(e, axis.node) for e in axis.detail]
    pairs = list(itertools.pairwise(ends))
    found: list[str | None] = [f"{name} >= {a} and {name} < {b}" for a, b in pairs[:-1]]
    found.append(f"{name} >= {ends[-2]} and {name} <= {ends[-1]}")
    outside = f"{name} is null or {name} < {ends[0]} or {name} > {ends[-1]}"
    return [*found, None if axis.complete else outside]


def _edge(edge: float, node: Node) -> str:
    if node.type == "date":
        return f"date '{(EPOCH + datetime.timedelta(days=int(edge))).isoformat()}'"
    return repr(int(edge)) if edge == int(edge) and abs(edge) < 2**53 else repr(edge)


def _nearest(part: NearestCentre, axis: Axis) -> Cells:
    """A row is nearer to one centre than to another on one side of a line: of equals the first.

    |x - c_j|^2 < |x - c_i|^2 where sum_k 2 (c_ik - c_jk) x_k < |c_i|^2 - |c_j|^2, x in [0, 1].
    """
    centres = [[Fraction(x, 2**DENSE) for x in centre] for centre in axis.detail]
    found: list[str | None] = []
    for j, here in enumerate(centres):
        conditions: list[str] = []
        impossible = False
        for i, there in enumerate(centres):
            steps = [2 * (a - b) for a, b in zip(there, here, strict=True)]
            if i == j or not any(steps):
                impossible = impossible or (i < j and here == there)
                continue
            far = sum((a * a - b * b for a, b in zip(there, here, strict=True)), Fraction(0))
            conditions.append(_line(part.columns, axis.points, steps, far, "<" if i < j else "<="))
        everyone = " and ".join(f"{_unit(c, p)} is not null" for c, p in
                                zip(part.columns, axis.points, strict=True))  # fmt: skip
        found.append(None if impossible else " and ".join(conditions) or everyone)
    covered = not any(p.nullable for p in axis.points)
    last = max(i for i, p in enumerate(found) if p is not None)
    return Cells(tuple(found), last if covered else None)


def _line(
    names: Sequence[str], points: Sequence[Node], steps: Sequence[Fraction], far: Fraction,
    sign: str,
) -> str:  # fmt: skip
    parts = zip(names, points, steps, strict=True)
    terms = [f"{float(step)!r} * {_unit(name, p)}" for name, p, step in parts]
    return f"{' + '.join(terms)} {sign} {float(far)!r}"


def _unit(name: str, point: Node) -> str:
    """A column scaled to [0, 1] by its known bounds."""
    said = _sql(point) if point.op != "column" else quote(name)
    if point.type == "boolean":
        return f"(case when {said} then 1.0 when not {said} then 0.0 end)"
    low, width = float(point.low), float(point.high - point.low)
    return f"(({said} - {low!r}) / {width!r})"


# --- values -----------------------------------------------------------------------------

Piece = tuple[str, str, Fraction]  # what is summed, for which rows beside the cell's, how often


def _values(query: Query, schema: Schema) -> list[list[Piece]]:
    """Each released value as a combination of sums over some of the cell's rows."""
    values, one = query.values, Fraction(1)
    if isinstance(values, tuple):
        return [[(value, "", one)] for value in values]
    assert isinstance(values, Sums | Products)
    points = [parse(quote(c) if schema.get(c) else c, schema) for c in values.columns]
    known = [_sql(p) for p in points if p.nullable]
    there = " and ".join(f"{said} is not null" for said in known)
    centre = Fraction(round(Fraction(values.centre) * 2**DENSE), 2**DENSE)
    count: list[Piece] = [("1", there, one)]
    sums = [[_sum([(c, p)], there)] for c, p in zip(values.columns, points, strict=True)]
    centred = [[*s, ("1", there, -centre)] for s in sums]
    if isinstance(values, Sums):
        return [count, *centred]
    out = [count] if values.count_weight else []
    out += centred if values.mean_weight else []
    both = list(zip(values.columns, points, strict=True))
    for i, j in itertools.combinations_with_replacement(range(len(both)), 2):
        beside = [(v, w, -centre * times) for v, w, times in (*sums[i], *sums[j])]
        out.append([_sum([both[i], both[j]], there), *beside, ("1", there, centre**2)])
    return out


def _sum(factors: Sequence[tuple[str, Node]], there: str) -> Piece:
    """The sum of a product of columns in [0, 1]; Booleans choose rows."""
    chosen = dict.fromkeys(_sql(p) for _, p in factors if p.type == "boolean")
    numbers = [_unit(name, p) for name, p in factors if p.type != "boolean"]
    where = " and ".join(part for part in (there, *chosen) if part)
    return " * ".join(numbers) or "1", where, Fraction(1)


def _number(bare: Query, ways: Sequence[list[tuple[str, int]]], value: Sequence[Piece]) -> Weights:
    """One released number, from every way to combine what its cell and its value are made of."""
    found: dict[Query, Fraction] = {}
    for pick in itertools.product(*ways):
        sign = 1
        for _, each in pick:
            sign *= each
        for summed, where, times in value:
            terms = [t for t in (bare.where, where, *(p for p, _ in pick)) if t]
            asked = replace(
                bare, values=(summed,), where=" and ".join(f"({t})" for t in terms) or None
            )
            found[asked] = found.get(asked, Fraction(0)) + sign * times
    return found


def asked_in(tables: Sequence[CountTable]) -> Iterator[Query]:
    """Every question of one number that the tables need, each once, in order."""
    every = (q for t in tables for row in t.numbers for number in row for q in number)
    yield from dict.fromkeys(every)


# ---- the tables as one question -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableBundle(Bundle):
    """Questions of one number each, from which the numbers of the tables are read."""

    tables: tuple[CountTable, ...] = ()
    places: Mapping[Query, int] = field(default_factory=dict)  # of a question among the parts

    @property
    def price(self) -> Price:
        """One query for each number that is judged; the half-widths of what is laid out."""
        micro = sum(tariff.price.micro for _, tariff in self.parts)
        stds = self._stds()
        spread = spread_of(tariff.laws[0] for _, tariff in self.parts)(0.95)
        each = (max(row[i] for row in table) for table in stds for i in range(len(table[0])))
        return Price(micro, tuple(spread * std for std in each))

    def answers(self, noisy: list[list[list[int]]], remaining: int) -> list[Answer]:
        """Each table, from the sums of the parts on their grids."""
        exact = [
            x[0][0] * tariff.steps[0] for x, (_, tariff) in zip(noisy, self.parts, strict=True)
        ]
        read = [
            [[self._read(number, exact) for number in row] for row in table.numbers]
            for table in self.tables
        ]
        return self.laid_out(read, remaining)

    def laid_out(self, exact: Sequence[list[list[Fraction]]], remaining: int) -> list[Answer]:
        """Each table with its numbers, their errors and its part of the price."""
        spread = spread_of(tariff.laws[0] for _, tariff in self.parts)
        out = []
        for table, numbers, stds, micro in zip(
            self.tables, exact, self._stds(), self._prices(), strict=True
        ):
            made = released_answer(table.checked, numbers, stds, spread)
            widest = tuple(spread(0.95) * max(row[i] for row in stds) for i in range(len(stds[0])))
            out.append(replace(made, price=Price(micro, widest), remaining=remaining))
        return out

    def _read(self, number: Weights, exact: Sequence[Fraction]) -> Fraction:
        return sum((w * exact[self.places[q]] for q, w in number.items()), Fraction(0))

    def _stds(self) -> list[list[list[float]]]:
        """How far dithers can move each number: what is read off several has more."""
        each = [tariff.laws[0].std * float(tariff.steps[0]) for _, tariff in self.parts]

        def of(number: Weights) -> float:
            found: dict[int, Fraction] = {}
            for query, weight in number.items():
                place = self.places[query]
                found[place] = found.get(place, Fraction(0)) + weight
            return math.sqrt(sum((float(w) * each[i]) ** 2 for i, w in found.items()))

        return [[[of(number) for number in row] for row in t.numbers] for t in self.tables]

    def _prices(self) -> list[int]:
        """What each table adds to the price: what no table before it needs."""
        seen: set[int] = set()
        out = []
        for table in self.tables:
            new = {self.places[q] for row in table.numbers for n in row for q in n} - seen
            seen |= new
            out.append(sum(self.parts[i][1].price.micro for i in new))
        assert sum(out) % MICRO == 0
        return out

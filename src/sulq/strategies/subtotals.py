"""Histograms with their subtotals: tables and counts over the same cells, from one strategy.

Bins within wider bins, ranges of a histogram, a rollup of one column, counts over columns with
too many values to look at each: every number adds up some cells that all of them tell apart.
Whole-number combinations of those cells are measured that make the mean variance of all tables,
each counting alike, smallest for the price (optimum.py). All numbers are read off the same
combinations, so they agree. Where it is public how many rows there are in all, tables use it: it
is free, and the cells add up to it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.node import EPOCH
from sulq.expressions.pieces import Line
from sulq.expressions.quoting import quote
from sulq.kernel.sums import member_cells
from sulq.privacy.one_thread import one_thread
from sulq.privacy.pricing import Tariff
from sulq.questions.check import CheckedQuery
from sulq.questions.question import Bundle, released_answer
from sulq.strategies.linear_form import Cells, form_of
from sulq.strategies.many_tables import is_crosstab, is_said_in_where, normal_reach, price_shares
from sulq.strategies.optimum import best_centred, best_matrix, known_total
from sulq.strategies.sharing import (
    MAX_COLUMNS,
    distinct_columns,
    named_queries,
    read_off,
    weight_of_equal_error,
    widest_last,
)
from sulq.values.answer import Answer
from sulq.values.price import Price
from sulq.values.query import Bins, Query, Strategy
from sulq.values.schema import Schema

MAX_CELLS = 8_000  # before those that all numbers treat alike become one
MAX_ENTRIES = 2**22  # numbers of all tables times cells
ZERO = 1e-12  # nothing but rounding

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Asked = Sequence[tuple[Query, CheckedQuery, Tariff]]
Check = Callable[[Query], CheckedQuery]


@dataclass(frozen=True)
class Subtotals:
    """What to ask instead, and how to get every table back."""

    tables: tuple[CheckedQuery, ...]  # each once
    places: tuple[int, ...]  # which of them each question is
    queries: tuple[Query, ...]  # the combinations, and how many rows there are if that is public
    reach: Array  # numbers of all tables x combinations: how each number is read off them
    of_total: Array  # and how much of all rows it has

    @property
    def _variances(self) -> Array:
        """Of all numbers, where that of a combination is 1."""
        return np.asarray((self.reach**2).sum(axis=1))

    def answers(self, found: list[Answer]) -> list[Answer]:
        """Every table, each number with its own error."""
        first = found[0]
        numbers = self.reach @ first.values[:, 0]
        if len(found) > 1:
            numbers = numbers + self.of_total * float(found[1].exact[0][0])
        stds = first.stds[0][0] * np.sqrt(self._variances)
        each = list(zip(_split(numbers, self.tables), _split(stds, self.tables), strict=True))
        paid = [bool(each[place][1].any()) for place in self.places]
        shares = iter(price_shares(first.price.micro, sum(paid)))
        note = f"one of {sum(paid):,} asked together, {first.price} in all"
        out = []
        for place, is_paid in zip(self.places, paid, strict=True):
            shown, errors = each[place]
            exact = [[Fraction(x)] for x in shown.tolist()]
            made = released_answer(
                self.tables[place], exact, [[s] for s in errors.tolist()], normal_reach
            )
            widest = (float(errors.max(initial=0.0)) * normal_reach(0.95),)
            price = Price(next(shares) if is_paid else 0, widest)
            made = replace(made, price=price, remaining=first.remaining)
            out.append(replace(made, note=note) if is_paid else made)
        return out

    def half_widths(self, bundle: Bundle) -> tuple[float, ...]:
        """How exact the widest number of each table will be (95%)."""
        ((_, tariff),) = bundle.parts
        std = float(tariff.steps[0]) * tariff.laws[0].std
        each = _split(np.sqrt(self._variances), self.tables)
        widest = [float(x.max(initial=0.0)) * std * normal_reach(0.95) for x in each]
        return tuple(widest[place] for place in self.places)


def subtotals(
    asked: Asked, schema: Schema, check: Check, is_public: Callable[[CheckedQuery], bool],
    guarantee: str,
) -> list[Subtotals]:  # fmt: skip
    """Ways to ask these tables and counts together; none if they have no few cells in common."""
    each = {t.text: (q, t, tariff) for q, t, tariff in asked}
    each = {text: each[text] for text in sorted(each)}  # in another order it is the same question
    numbers = {text: i for i, text in enumerate(each)}
    places = tuple(numbers[t.text] for _, t, _ in asked)
    asked = list(each.values())
    tables = tuple(checked for _, checked, _ in asked)
    if not _of_the_same_rows(asked):
        return []
    alike = len({t.where for t in tables}) == 1
    like = replace(asked[0][0], by=None, values=("1",)) if alike else Query()
    total = check(like)
    public = is_public(total) and any(t.axes for t in tables)  # counts alone are about no centre
    free = [is_public(t) for t in tables]
    if any(f and not (public and t.text == total.text) for f, t in zip(free, tables, strict=True)):
        return []  # what is public of the columns is exact, and no sum of these cells
    found = _common(asked, alike, schema)
    by = None if found is None else _partition(found[0].lines or (), found[1], schema)
    if found is None or by is None:
        return []
    cells, work = found
    counts = _each_alike(tables, work, free)
    patterns, columns = _patterns(work, cells, check(Query(by=by)), public)
    if patterns.shape[1] > MAX_COLUMNS and not any(free):
        ways = _named(work, cells, replace(like, by=by), check)
    elif 1 < patterns.shape[1] <= MAX_COLUMNS:
        ways = [_made(patterns, columns, counts, replace(like, by=by), guarantee, public)]
    else:
        return []
    out = []
    for query, reach, of_total in ways:
        weight = weight_of_equal_error(float((counts @ (reach**2)).sum()))
        queries = (replace(query, weights=(weight,)), *((like,) if of_total.any() else ()))
        out.append(Subtotals(tables, places, queries, reach, of_total))
    return out


def _common(asked: Asked, alike: bool, schema: Schema) -> tuple[Cells, Array] | None:
    """The cells that all of them tell apart, and each number as a sum of some."""
    looked = (replace(t, rows=None, where=None if alike else t.where) for _, t, _ in asked)
    tariffs = (tariff for _, _, tariff in asked)
    forms = [form_of(t, tariff, schema) for t, tariff in zip(looked, tariffs, strict=True)]
    known = [f for f in forms if f is not None and not f.sums]
    cells = Cells(schema, frozenset())
    if len(known) < len(forms) or not cells.fits(*known, most=MAX_CELLS):
        return None
    if cells.batch.rows * sum(t.shape[0] for _, t, _ in asked) > MAX_ENTRIES:
        return None
    return cells, np.concatenate([cells.weights(f).floats.toarray() for f in known])


def _made(
    patterns: Array, columns: Whole, counts: Array, like: Query, guarantee: str, public: bool
) -> tuple[Query, Array, Array]:
    """Combinations made for these tables, how each number is read off them, and its part of n."""
    matrix, rest = _matrix(patterns, counts, guarantee == "beliefs", public)
    made = Strategy(matrix=tuple(map(tuple, matrix.tolist())), columns=columns.tolist())
    read = np.linalg.solve(np.concatenate([matrix.astype(float), rest]).T, patterns.T).T
    reach, of_total = np.split(np.where(np.abs(read) > ZERO, read, 0.0), [len(matrix)], axis=1)
    return replace(like, values=made), reach, of_total.sum(axis=1)


def _named(
    work: Array, cells: Cells, like: Query, check: Check
) -> list[tuple[Query, Array, Array]]:
    """Where too many cells differ: strategies for the columns with most pieces, or the cells."""
    assert isinstance(like.by, tuple)
    by = widest_last(like.by)  # type: ignore[arg-type]
    partition = check(Query(by=by))
    _, places = member_cells(partition, cells.batch)
    spread = np.zeros((len(work), partition.shape[0]))
    spread[:, places] = work
    out = []
    for query in named_queries(replace(like, by=by)):
        reach = spread if query.values == ("1",) else read_off(check(query), spread)
        if reach is not None:
            out.append((query, reach, np.zeros(len(work))))
    return out


def is_nested(tables: Sequence[CheckedQuery]) -> bool:
    """Do two of their partitions speak of the same column, so that one may be within the other?"""
    nodes = {a.text: a.node for t in tables for a in t.axes if a.node is not None}
    names = [n for node in nodes.values() for n in node.columns()]
    return len(set(names)) < len(names)


def _of_the_same_rows(asked: Asked) -> bool:
    """Plain counts of one set of rows; conditions may differ where it is everybody's."""
    tables = [checked for _, checked, _ in asked]
    if not all(is_crosstab(t) and is_said_in_where(q) for q, t, _ in asked):
        return False
    if any(t.sample is not None for t in tables) or len({t.about for t in tables}) != 1:
        return False
    alike = len({(t.rows, t.where) for t in tables}) == 1
    return alike or all(t.rows is None for t in tables)


def _partition(lines: Sequence[Line], work: Array, schema: Schema) -> tuple[str | Bins, ...] | None:
    """A partition that tells apart what the numbers do; None if there is none."""
    cube = work.reshape(len(work), *(len(n) for n in lines))
    parts = []
    for i, line in enumerate(lines):
        pieces = np.moveaxis(cube, i + 1, 0)[: len(line.pieces)]
        cut = (pieces[1:] != pieces[:-1]).any(axis=tuple(range(1, pieces.ndim)))
        parts.append(_axis(line, cut.tolist(), schema))
    return tuple(p for p in parts if p is not None) if parts and None not in parts else None


def _axis(line: Line, cut: list[bool], schema: Schema) -> str | Bins | None:
    """A column in its pieces; those between which nothing is cut are one."""
    if line.base.op != "column":
        return None
    column = schema[line.base.value]
    if column.listed is not None:
        return quote(column.name)
    if not line.ordered or not column.bounded:
        return None
    starts = [low for (low, _), here in zip(line.pieces[1:], cut, strict=True) if here]
    if line.whole:
        first, last = (
            (x - EPOCH).days if isinstance(x, datetime.date) else x
            for x in (column.low, column.high)
        )
        edges = [first, *(int(v) for v, _ in starts), last + 1]
        if line.base.type == "date":
            return Bins(column.name, tuple(EPOCH + datetime.timedelta(days=e) for e in edges))
        return Bins(column.name, tuple(edges))
    inner = [math.nextafter(v, math.inf) if behind else v for v, behind in starts]
    high = float(column.high)
    end = high if not inner or inner[-1] < high else math.nextafter(high, math.inf)
    return Bins(column.name, (float(column.low), *inner, end))


def _patterns(
    work: Array, cells: Cells, partition: CheckedQuery, public: bool
) -> tuple[Array, Whole]:
    """The different columns of the workload, and which one each cell of the partition has.

    Cells that no number speaks of are left out, or are one more column where all rows are known.
    """
    used = work.any(axis=0) | public
    kept, group = distinct_columns(work[:, used])
    columns = np.full(partition.shape[0], -1)
    _, places = member_cells(partition, cells.batch)
    columns[places[used]] = group
    if not np.array_equal(columns[places[used]], group):
        return np.zeros((len(work), 0)), columns  # a cell is in two pieces
    return kept, columns[_folded(partition)] if public else columns


def _folded(partition: CheckedQuery) -> Whole:
    """The cell that each cell counts in: what the schema rules out is with its axis's last one."""
    shape = [len(a.labels) for a in partition.axes]
    at = np.indices(shape).reshape(len(shape), -1)
    most = [len(a.labels) - 1 - (a.complete and a.labels[-1] is None) for a in partition.axes]
    return np.asarray(np.ravel_multi_index(np.minimum(at, np.array(most)[:, None]), shape))


def _each_alike(tables: Sequence[CheckedQuery], work: Array, free: Sequence[bool]) -> Array:
    """How much the variance of each number counts: every table alike, within it every cell."""
    parts = zip(_split(work, tables), free, strict=True)
    some = [part.any(axis=1).astype(float) * (not known) for part, known in parts]
    each = np.concatenate([part / max(part.sum(), 1.0) for part in some])
    return np.asarray(each / max(each.sum(), 1e-300))


def _split(numbers: Array, tables: Sequence[CheckedQuery]) -> list[Array]:
    """The part of each table."""
    return np.split(numbers, np.cumsum([t.shape[0] for t in tables])[:-1])


@one_thread()
def _matrix(patterns: Array, weights: Array, in_pairs: bool, public: bool) -> tuple[Whole, Array]:
    """Combinations of the columns, and the row of all cells where that sum is known."""
    gram = (patterns * weights[:, None]).T @ patterns
    if not public:
        return best_matrix(gram, in_pairs), np.zeros((0, len(gram)))
    inner = known_total(gram)
    every = np.ones((1, len(gram)))
    if in_pairs:  # distances alone count: the last cell is the origin
        return np.pad(best_matrix(inner, True), [(0, 0), (0, 1)]), every
    return best_centred(inner), every

"""Questions as linear forms: what each released number adds up, over cells that rows fall into.

Some questions together tell a few pieces of each column apart. Every combination of pieces is a
cell, and a row is in exactly one. The unknowns are, of each cell, the number of its rows and the
sum of every row function that the cells do not decide; each released number is a weighted sum of
unknowns. Found from the declarations alone: no row is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.expressions.distinctions import Looking
from sulq.expressions.node import Node
from sulq.expressions.normal_form import plain
from sulq.expressions.pieces import Line
from sulq.expressions.program_node import has_program
from sulq.kernel.batch import Batch
from sulq.kernel.sums import grid, member_cells
from sulq.privacy.pricing import Tariff
from sulq.questions.check import CheckedQuery
from sulq.questions.grid import Value
from sulq.questions.measurements import Combined
from sulq.questions.partitions import Axis
from sulq.questions.residual import Projected
from sulq.strategies.exact_matrix import Array, ExactMatrix, Sparse, Whole
from sulq.values.counted_rows import RowCount, StoredRows, TableRows
from sulq.values.schema import Schema
from sulq.values.star import TABLE

COUNT = ""  # the row function 1
MAX_ENTRIES = 2**22  # of the matrix of a residual


@dataclass(frozen=True)
class Weights:
    """The exact weight of each unknown in released numbers.

    Of a residual also as floats, for combinations whose noise is independent: these tell the same.
    """

    exact: ExactMatrix
    rotated: Sparse | None

    @property
    def floats(self) -> Sparse:
        """The weights of numbers with noise of their own each."""
        return self.exact.floats() if self.rotated is None else self.rotated


@dataclass(frozen=True)
class Form:
    """A question that can be written as a linear form, with its functions in their plain form."""

    query: CheckedQuery
    tariff: Tariff
    columns: frozenset[str]  # that say which cell a row is in, and facts not looked into
    wide: frozenset[str]  # columns whose every value would have to be told apart for its sums
    sums: frozenset[str]  # row functions that would be unknown where those are not told apart
    never: frozenset[str] = frozenset()  # those that no cells can decide


def form_of(query: CheckedQuery, tariff: Tariff, schema: Schema) -> Form | None:
    """The question as a form; None if what it adds up is no function of a row's cell."""
    if query.sample is not None or not isinstance(query.values, tuple):
        return None
    if isinstance(query.measurement, Projected):
        if query.measurement.numbers * query.shape[0] > MAX_ENTRIES:
            return None
    elif query.measurement is not None and not isinstance(query.measurement, Combined):
        return None
    try:
        simple = _simple(query)
    except QueryNotAllowed:  # too many parts
        return None
    looking = Looking(schema)
    if not _look(simple, looking, frozenset()):
        return None
    values = [v for v in simple.values if _is_sum(v)]  # type: ignore[union-attr]
    inner = [_gated(v.node)[1] for v in values]
    never = frozenset(n.text for n in inner if not Looking(schema).look_into(n))
    wide = frozenset[str]() if never else frozenset(c for n in inner for c in n.columns())
    sums = frozenset(n.text for n in inner)
    columns = frozenset((*looking.nodes, *looking.facts))
    return Form(simple, tariff, columns, wide, sums, never)


def _simple(query: CheckedQuery) -> CheckedQuery:
    """The same question; equal parts of its functions have equal texts."""
    values = tuple(replace(v, node=plain(v.node)) for v in query.values)  # type: ignore[union-attr]
    return replace(
        query, values=values, axes=tuple(map(_plain_axis, query.axes)),
        rows=None if query.rows is None else plain(query.rows),
        where=None if query.where is None else plain(query.where),
    )  # fmt: skip


def _plain_axis(axis: Axis) -> Axis:
    if axis.kind == "leaf":
        return replace(axis, detail=tuple(p if p is None else plain(p) for p in axis.detail))
    return axis if axis.node is None else replace(axis, node=plain(axis.node))


def _is_sum(value: Value) -> bool:
    """Is it more than a count of some rows?"""
    return value.node.type != "boolean" and bool(value.node.columns())


def _gated(node: Node) -> tuple[Node | None, Node]:
    """A condition, and what is added up where it holds: CASE WHEN p THEN x END."""
    if node.op == "case" and len(node.args) == 3:
        condition, then, last = node.args
        if last.op == "literal" and last.value is None:
            return condition, then
    return None, node


def _look(query: CheckedQuery, looking: Looking, told: frozenset[str]) -> bool:
    """Find what the question tells apart; False where its cells are none of few columns'."""
    for node in (query.rows, query.where):
        if node is not None:
            looking.look(node)
    for value in query.values:  # type: ignore[union-attr]
        condition, inner = _gated(value.node)
        if value.node.type == "boolean":
            looking.look(value.node)
        elif inner.columns() and inner.columns() <= told:
            looking.look_into(value.node)
        elif condition is not None:
            looking.look(condition)
    return all(_look_at(axis, looking) for axis in query.axes)


def _look_at(axis: Axis, looking: Looking) -> bool:
    if axis.kind == "leaf":
        for path in axis.detail:
            if path is not None:
                looking.look(path)
        return True
    if axis.kind == "bins" and axis.node is not None and axis.node.op == "column":
        looking.cut(axis.node, axis.detail)
        return True
    if axis.kind not in ("expression", "bins") or axis.node is None:
        return False
    if axis.node.type == "boolean":
        looking.look(axis.node)
        return True
    return looking.look_into(axis.node)


# ---- cells ----------------------------------------------------------------------------------


class Cells:
    """The cells that some questions tell apart, and each question's weights over them."""

    def __init__(self, schema: Schema, told: frozenset[str]) -> None:
        self.schema = schema
        self.told = told  # columns whose every value is told apart
        self.functions: dict[str, int] = {COUNT: 0}  # those that cells do not decide, numbered
        self._largest: dict[int, float] = {}  # the most that each of them is of a row
        self._looking = Looking(schema)
        self._batch: Batch | None = None

    def fits(self, *forms: Form, most: int) -> bool:
        """Tell apart what these questions do too, unless there would be more cells."""
        tried = self._looking.copy()
        for form in forms:
            _look(form.query, tried, self.told)
        lines = _declared(tried)
        if lines is None or math.prod(len(n) for n in lines) > most:
            return False
        self._looking = tried
        return True

    @property
    def columns(self) -> frozenset[str]:
        """What tells them apart."""
        return frozenset((*self._looking.nodes, *self._looking.facts))

    @property
    def lines(self) -> tuple[Line, ...] | None:
        """The pieces of each column."""
        return _declared(self._looking)

    def counted(self, rows: RowCount) -> ExactMatrix | None:
        """The form of a public number of rows; None if these cells do not tell those rows."""
        size = self.batch.rows
        if isinstance(rows.of, StoredRows):
            return ExactMatrix.of_ones(size)
        if not isinstance(rows.of, TableRows) or TABLE not in self._looking.nodes:
            return None
        place = self.batch.evaluate(self._looking.nodes[TABLE])
        used = np.flatnonzero(place.valid & (place.data == rows.of.name))
        return ExactMatrix.of_ones(len(used)).at_columns(used, size)

    @property
    def batch(self) -> Batch:
        """A row of each cell, once all questions are looked at."""
        if self._batch is None:
            lines = _declared(self._looking)
            assert lines is not None
            shape = tuple(len(n) for n in lines)
            size = math.prod(shape)
            places = np.unravel_index(np.arange(size), shape) if shape else ()
            vectors = {n.base.text: n.vector(at) for n, at in zip(lines, places, strict=True)}
            raw = {n.base.value: vectors[n.base.text] for n in lines if n.base.op == "column"}
            known = {t: v for t, v in vectors.items() if not t.startswith("c:")}
            self._batch = Batch(raw, size, self.schema, known)
        return self._batch

    def weights(self, form: Form) -> Weights:
        """Of each released number, row by row, those of all unknowns so far."""
        query, batch = form.query, self.batch
        member, cells = member_cells(query, batch)
        parts = [self._added(v) for v in query.values]  # type: ignore[union-attr]
        mix = query.mix or np.eye(len(parts), dtype=int).tolist()
        rows, columns, entries, units = [], [], [], []
        for j, (shares, release) in enumerate(zip(mix, query.releases, strict=True)):
            for share, (function, whole, unit) in zip(shares, parts, strict=True):
                if not share:
                    continue
                # Strategies say their own unit; their counts are whole.
                step = release.step if query.measurement is None else Fraction(1)
                used = np.flatnonzero(member & (whole != 0))
                rows.append(cells[used] * len(query.releases) + j)
                columns.append(used + function * batch.rows)
                entries.append(whole[used])
                units.append(Fraction(share) * step * unit)
        size = (query.shape[0] * len(query.releases), len(self.functions) * batch.rows)
        each = [np.full(len(x), i) for i, x in enumerate(entries)]
        places = (np.concatenate(rows), np.concatenate(columns))
        exact = ExactMatrix(
            size, *places, np.concatenate(entries), np.concatenate(each), tuple(units)
        )
        if isinstance(query.measurement, Combined):
            found = query.measurement
            exact = exact.times(_combinations(found), Fraction(1, found.unit))
        if isinstance(query.measurement, Projected):
            roots, differences = _differences(query.measurement)
            floats = sparse_of(roots @ (differences @ exact.floats()))
            return Weights(exact.times(differences, Fraction(1)), floats)
        return Weights(exact, None)

    def _added(self, value: Value) -> tuple[int, Whole, Fraction]:
        """A number for the row function that is added up, and its weight in every cell.

        The weight is a whole number times a unit.
        """
        condition, inner = _gated(value.node)
        decided = self._looking.every | {n for n in self._looking.nodes if self.schema[n].listed}
        known = inner.columns() <= decided and not has_program(inner)
        if value.node.type == "boolean" or known:
            return 0, grid(value, self.batch.evaluate(value.node)), Fraction(1)
        number = self.functions.setdefault(inner.text, len(self.functions))
        unit = Fraction(2) ** value.scale
        largest = float(max(abs(value.low), abs(value.high)) / unit)
        self._largest[number] = max(largest, self._largest.get(number, 0.0))
        return number, self.batch.true(condition).astype(np.int64), unit

    def largest(self) -> Array:
        """The most that one row can add to each unknown, in absolute value."""
        each = [1.0, *(self._largest[i] for i in range(1, len(self.functions)))]
        return np.repeat(np.array(each), self.batch.rows)


def _declared(looking: Looking) -> tuple[Line, ...] | None:
    """What is told apart, for rows that are as the owner declared them."""
    lines = looking.lines()
    if lines is None:
        return None
    never = {n for n in looking.nodes if not looking.schema[n].nullable}
    return tuple(
        replace(n, missing=False) if n.base.op == "column" and n.base.value in never else n
        for n in lines
    )


def _combinations(found: Combined) -> Sparse:
    """The matrix of a strategy over all cells of its question, in its own units."""
    from scipy import sparse

    used = np.flatnonzero(found.columns >= 0)
    inner = np.zeros((len(found.matrix), len(found.columns)), dtype=np.int64)
    inner[:, used] = found.matrix[:, found.columns[used]]
    outer = sparse.eye_array(found.blocks, dtype=np.int64)
    return sparse.csr_array(sparse.kron(outer, sparse.coo_array(inner)))


def _differences(found: Projected) -> tuple[Array, Sparse]:
    """The matrix of a residual over all cells of its question; and what makes its noise
    independent, which is to stand before it.
    """
    roots: Array = np.ones((1, 1))
    made = np.ones((1, 1), dtype=np.int64)
    for axis, size in zip(found.over, found.sizes, strict=True):
        folded = np.eye(size, len(axis.labels), dtype=np.int64)
        folded[-1, size:] = 1  # what the schema rules out counts in the last cell
        last = -np.ones((size - 1, 1), dtype=np.int64)
        differences = np.hstack([np.eye(size - 1, dtype=np.int64), last])
        made = np.kron(made, differences @ folded)
        roots = np.asarray(np.kron(roots, _root(size)), dtype=np.float64)
    return roots, sparse_of(made)


def _root(size: int) -> Array:
    """(D D^T)^(-1/2) for the differences D from the last of so many cells: D D^T = I + 1 1^T."""
    return np.asarray(np.eye(size - 1) - (1 - 1 / math.sqrt(size)) / (size - 1))


def independent(form: Form, numbers: Array) -> Array:
    """Released numbers as combinations with noise of their own each."""
    if not isinstance(form.query.measurement, Projected):
        return numbers
    sizes = form.query.measurement.sizes
    cube = numbers.reshape([m - 1 for m in sizes])
    for i, size in enumerate(sizes):
        cube = np.moveaxis(np.tensordot(_root(size), cube, axes=(1, i)), 0, i)
    return np.asarray(cube.ravel())


def sparse_of(matrix: NDArray[Any]) -> Sparse:
    """A matrix as a sparse one."""
    from scipy import sparse

    return sparse.csr_array(matrix)

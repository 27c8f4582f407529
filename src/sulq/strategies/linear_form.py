"""Questions as linear forms: what each released number adds up, over cells that rows fall into.

Some questions together tell a few pieces of each column apart. Every combination of pieces is a
cell, and a row is in exactly one. The unknowns are, of each cell, the number of its rows and the
sum of every row function that the cells do not decide; each released number is a weighted sum of
unknowns. Found from the declarations alone: no row is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from sulq.values.schema import Schema

COUNT = ""  # the row function 1
MAX_ENTRIES = 2**22  # of the matrix of a residual

Array = NDArray[np.float64]
Sparse = Any  # scipy.sparse.csr_array; scipy is loaded when it is needed


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

    def everyone(self) -> Sparse:
        """The form of n: all rows of all cells."""
        from scipy import sparse

        size = self.batch.rows
        return sparse.csr_array(np.ones((1, size)))

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

    def weights(self, form: Form) -> Sparse:
        """Of each released number, row by row, those of all unknowns so far."""
        from scipy import sparse

        query, batch = form.query, self.batch
        member, cells = member_cells(query, batch)
        parts = [self._added(v) for v in query.values]  # type: ignore[union-attr]
        mix = query.mix or np.eye(len(parts), dtype=int).tolist()
        rows, columns, entries = [], [], []
        for j, (shares, release) in enumerate(zip(mix, query.releases, strict=True)):
            for share, value, (function, weight) in zip(shares, query.values, parts, strict=True):  # type: ignore[arg-type]
                if not share:
                    continue
                # Strategies say their own unit; their counts are whole.
                step = release.step if query.measurement is None else 1
                factor = float(share * step * 2**value.scale)
                used = np.flatnonzero(member & (weight != 0.0))
                rows.append(cells[used] * len(query.releases) + j)
                columns.append(used + function * batch.rows)
                entries.append(weight[used] * factor)
        size = (query.shape[0] * len(query.releases), len(self.functions) * batch.rows)
        at = (np.concatenate(rows), np.concatenate(columns))
        found = sparse.csr_array(sparse.coo_array((np.concatenate(entries), at), shape=size))
        if isinstance(query.measurement, Combined):
            return sparse.csr_array(_combinations(query.measurement) @ found)
        if isinstance(query.measurement, Projected):
            return sparse.csr_array(_differences(query.measurement) @ found)
        return found

    def _added(self, value: Value) -> tuple[int, Array]:
        """A number for the row function that is added up, and its weight in every cell."""
        condition, inner = _gated(value.node)
        decided = self._looking.every | {n for n in self._looking.nodes if self.schema[n].listed}
        known = inner.columns() <= decided and not has_program(inner)
        if value.node.type == "boolean" or known:
            on_grid = grid(value, self.batch.evaluate(value.node))
            return 0, on_grid / 2.0**value.scale
        number = self.functions.setdefault(inner.text, len(self.functions))
        return number, self.batch.true(condition).astype(float)


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
    """The matrix of a strategy over all cells of its question."""
    from scipy import sparse

    used = np.flatnonzero(found.columns >= 0)
    inner = sparse.lil_array((len(found.matrix), len(found.columns)))
    inner[:, used] = found.matrix[:, found.columns[used]] / found.unit
    return sparse.csr_array(sparse.kron(sparse.eye_array(found.blocks), inner))


def _differences(found: Projected) -> Array:
    """The matrix of a residual over all cells of its question, its noise made independent."""
    made: Array = np.ones((1, 1))
    for axis, size in zip(found.over, found.sizes, strict=True):
        folded = np.eye(size, len(axis.labels))
        folded[-1, size:] = 1.0  # what the schema rules out counts in the last cell
        differences = np.hstack([np.eye(size - 1), -np.ones((size - 1, 1))])
        made = np.asarray(np.kron(made, _root(size) @ differences @ folded), dtype=np.float64)
    return made


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


def stacked(parts: Sequence[Sparse], unknowns: int) -> Sparse:
    """All rows below each other; what came before a row function was known has none of it."""
    from scipy import sparse

    for part in parts:
        part.resize((part.shape[0], unknowns))
    if not parts:
        return sparse.csr_array((0, unknowns))
    return sparse.csr_array(sparse.vstack(parts))

"""What stored answers say about a question that was not asked, by least squares.

Every stored number is a linear form of the unknowns (linear_form.py) with noise of a known
variance; n and counts of public columns are forms without noise. Of all unbiased combinations of
the stored numbers the one with the least variance is the estimate (generalised least squares). No
prior is used, so its variance is exact whatever the rows are. Where no combination is unbiased the
answers do not tell: then there is no estimate. Numbers only: no row is read, nothing is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sulq.questions.check import CheckedQuery
from sulq.questions.question import released_answer, spread_of
from sulq.strategies.exact_matrix import Array, ExactMatrix, Sparse, stacked
from sulq.strategies.exact_span import independent_rows, is_spanned
from sulq.strategies.linear_form import Cells, Form
from sulq.values.answer import Answer
from sulq.values.counted_rows import RowCount
from sulq.values.schema import Schema

MAX_CELLS = 20_000  # before those that all questions treat alike become one
MAX_UNKNOWNS = 2_000  # afterwards
MAX_EXACT = 1_000  # forms without noise
MAX_NUMBERS = 2_000  # in one estimate
DENSE = 0.05  # share of entries from which on a plain matrix is quicker
BLOCK = 64  # of triangular equations
RIDGE = 1e-12  # of the largest diagonal entry, so that there is an inverse
STEPS = 12  # at most, of refinement, which take the ridge out again
FINE = (
    1e-6  # of its standard deviation: what rounding moves an estimate, then there is no more step
)
BIAS = 1e-3  # the most that it may
ROUNDING = 1e-9  # of what a form can be at most: the same for one without noise


@dataclass(frozen=True)
class Measured:
    """A stored answer: a question and its noisy numbers in their own units, cell by cell."""

    form: Form
    numbers: tuple[float, ...]
    stds: tuple[float, ...]  # of each number of a cell; () : it is public and exact

    @property
    def weights(self) -> Array:
        """One over the standard deviation of every number."""
        each = 1 / np.array(self.stds)
        return np.tile(each, len(self.numbers) // len(self.stds))


@dataclass(frozen=True)
class _System:
    """Forms over the unknowns that are left: with noise, without noise, and those asked for."""

    noisy: Sparse  # divided by the standard deviations
    about: NDArray[np.int64]  # which of all stored numbers these are of
    scale: Array  # one over their standard deviations
    exact: Array
    totals: Array
    wanted: Array
    limits: Array  # the most that each unknown can be, in absolute value


def estimate(
    asked: Form, known: Sequence[Measured], public: Sequence[Measured],
    counts: Sequence[RowCount], schema: Schema,
) -> Answer | None:  # fmt: skip
    """The answer to a question as the stored ones tell it, if they do. Its price is nothing.

    `counts` are public; the first is of all stored rows.
    """
    if asked.query.released * len(asked.query.releases) > MAX_NUMBERS:
        return None
    if asked.never - {text for m in known for text in m.form.sums}:
        return None  # nothing says anything of what it adds up
    # What is summed may be decided by a row's cell, or be one more unknown of each cell.
    ways = [asked.wide, frozenset[str]()] if asked.wide else [frozenset[str]()]
    best: tuple[float, Array, Array, Sequence[Measured]] | None = None
    for told in ways:
        used = _related(asked, known, told, schema)
        found = _solved(asked, used, public, counts, told, schema) if used is not None else None
        if found is not None:
            numbers, covariance, kept = found
            error = float(np.trace(covariance, axis1=1, axis2=2).sum())
            if best is None or error < best[0]:
                best = error, numbers, covariance, kept
    return None if best is None else _answer(asked.query, *best[1:])


def _answer(
    query: CheckedQuery, numbers: Array, covariance: Array, used: Sequence[Measured]
) -> Answer:
    stds = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))
    steps = [release.step for release in query.releases]
    exact = [
        [_on_grid(float(x), s, step) for x, s, step in zip(row, each, steps, strict=True)]
        for row, each in zip(numbers, stds.tolist(), strict=True)
    ]
    laws = [law for m in used for law in m.form.tariff.laws]
    found = released_answer(query, exact, stds.tolist(), spread_of(laws))
    if numbers.shape[1] == 1:
        return found
    sizes, axes = np.linalg.eigh(covariance)
    factors = axes * np.sqrt(np.maximum(sizes, 0.0))[:, None, :]
    nested = tuple(tuple(map(tuple, cell)) for cell in factors.tolist())
    return replace(found, factors=nested)


def _on_grid(number: float, std: float, step: Fraction) -> Fraction:
    """The number; one without noise as the multiple of its step that it is but for rounding."""
    found = Fraction(number)
    return round(found / step) * step if std < FINE * step else found


def _related(
    asked: Form, known: Sequence[Measured], told: frozenset[str], schema: Schema
) -> list[Measured] | None:
    """The stored answers that can say something, nearest first, as many as fit."""
    names = asked.columns | told
    cells = Cells(schema, told)
    if not cells.fits(asked, most=MAX_CELLS):
        return None
    near = [m for m in known if m.form.columns & names or m.form.sums & asked.sums]
    near.sort(key=lambda m: len(m.form.columns - names))  # the newest first among equals
    used = [m for m in near if cells.fits(m.form, most=MAX_CELLS)]
    taken = set(map(id, near))
    rest = [m for m in known if id(m) not in taken and m.form.columns <= cells.columns]
    return used + [m for m in rest if cells.fits(m.form, most=MAX_CELLS)]


def _solved(
    asked: Form, used: list[Measured], public: Sequence[Measured], counts: Sequence[RowCount],
    told: frozenset[str], schema: Schema,
) -> tuple[Array, Array, Sequence[Measured]] | None:  # fmt: skip
    """Numbers and their covariance, cell by cell; fewer answers are used if all are too many."""
    while (forms := _forms(asked, used, public, counts, told, schema)) is None:
        if not used:
            return None
        used = used[: len(used) // 2]
    if not is_spanned(stacked([forms.noisy, forms.exact], forms.width), forms.wanted):
        return None
    system = _system(forms, used)
    stored = np.array([x for m in used for x in m.numbers])[system.about] * system.scale
    found = least_squares(
        system.noisy, stored, system.exact, system.totals, system.wanted, system.limits
    )
    if found is None:
        return None
    numbers, reach = found
    each = len(asked.query.releases)
    blocks = reach.reshape(len(reach), len(numbers) // each, each).transpose(1, 2, 0)
    return numbers.reshape(-1, each), blocks @ blocks.transpose(0, 2, 1), used


@dataclass(frozen=True)
class _Forms:
    """Exact forms over the unknowns that some of them tell apart."""

    noisy: ExactMatrix
    rotated: Sparse | None  # as floats, where noise is independent only after a rotation
    about: NDArray[np.int64]
    exact: ExactMatrix
    totals: Array
    wanted: ExactMatrix
    limits: Array

    @property
    def width(self) -> int:
        """The number of unknowns."""
        return len(self.limits)


def _forms(
    asked: Form, used: Sequence[Measured], public: Sequence[Measured], counts: Sequence[RowCount],
    told: frozenset[str], schema: Schema,
) -> _Forms | None:  # fmt: skip
    """The forms over the unknowns that some of them tell apart; None if those are too many."""
    cells = Cells(schema, told)
    for form in (asked, *(m.form for m in used)):
        cells.fits(form, most=MAX_CELLS)
    facts = [m for m in public if m.form.columns <= cells.columns and _adds_nothing(m, cells)]
    wanted = cells.weights(asked).exact
    unknowns = cells.batch.rows * len(cells.functions)  # what others sum says little about this
    weights = [cells.weights(m.form) for m in used]
    width = cells.batch.rows * len(cells.functions)
    noisy = stacked([w.exact for w in weights], width)
    about = noisy.rows_within(unknowns)
    counted = [(count.n, cells.counted(count)) for count in counts]
    known = [(float(n), form) for n, form in counted if form is not None]
    totals = np.array([*(n for n, _ in known), *(x for m in facts for x in m.numbers)])
    forms = [*(form for _, form in known), *(cells.weights(m.form).exact for m in facts)]
    exact = stacked(forms, width)
    different = exact.turned().distinct_columns()[:MAX_EXACT]
    parts = [noisy.with_rows(about), exact.with_rows(different), wanted]
    parts = [part.with_width(unknowns) for part in parts]
    kept = stacked(parts, unknowns).distinct_columns()
    if len(kept) > MAX_UNKNOWNS:
        return None
    noisy, exact, wanted = (part.with_columns(kept) for part in parts)
    rotated = None
    if any(w.rotated is not None for w in weights):
        rotated = _below_each_other([w.floats for w in weights], width)[about][:, kept]
    limits = float(counts[0].n) * cells.largest()[kept]
    return _Forms(noisy, rotated, about, exact, totals[different], wanted, limits)


def _below_each_other(parts: Sequence[Sparse], width: int) -> Sparse:
    from scipy import sparse

    for part in parts:
        part.resize((part.shape[0], width))
    return sparse.csr_array(sparse.vstack(parts))


def _system(forms: _Forms, used: Sequence[Measured]) -> _System:
    """The forms in floats, for the weights of the least variance."""
    from scipy import sparse

    scale = np.array([x for m in used for x in m.weights])[forms.about]
    noisy = forms.noisy.floats() if forms.rotated is None else forms.rotated
    independent = independent_rows(forms.exact)
    return _System(
        sparse.csr_array(sparse.diags_array(scale) @ noisy), forms.about, scale,
        forms.exact.with_rows(independent).floats().toarray(), forms.totals[independent],
        forms.wanted.floats().toarray(), forms.limits,
    )  # fmt: skip


def _adds_nothing(fact: Measured, cells: Cells) -> bool:
    """Can a public fact be told without more cells?"""
    return not fact.form.sums and cells.fits(fact.form, most=MAX_CELLS)


def least_squares(
    noisy: Sparse, numbers: Array, exact: Array, totals: Array, wanted: Array,
    limits: Array | float = 1.0,
) -> tuple[Array, Array] | None:  # fmt: skip
    """The wanted forms of x where noisy x = numbers but for noise of variance 1, exact x = totals.

    Gives the estimates and, for each, how it is read off the numbers (numbers x wanted), whose
    squares add up to its variance. The rows of `exact` are independent. None: rounding might move
    an estimate by more than BIAS of its standard deviation, |x| being within the limits.
    """
    from scipy import sparse

    squares = np.asarray(noisy.multiply(noisy).sum(axis=0)).ravel()
    scale = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
    a = sparse.csr_array(noisy @ sparse.diags_array(scale))
    if a.nnz > DENSE * a.shape[0] * a.shape[1]:
        a = a.toarray()
    known = _Known.of(exact * scale, totals)
    w, most = wanted * scale, limits / scale + np.abs(known.start)
    gram = a.T @ a
    gram = known.within(known.within(gram if isinstance(gram, np.ndarray) else gram.toarray()).T)
    left = known.within(w.T)
    try:
        solve = _solver(gram + RIDGE * max(float(np.trace(gram)), 1.0) * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        return None
    x = known.within(solve(left))
    size = ROUNDING * (np.abs(w) @ most)
    for step in range(1, STEPS + 1):
        x = x + known.within(solve(left - gram @ x))
        reach = np.asarray(a @ x)
        over = w.T - a.T @ reach  # of x, what the combination does not reproduce
        moved = np.abs(known.within(over)).T @ most + known.error(over)
        std = np.linalg.norm(reach, axis=0)
        if (moved <= np.maximum((BIAS if step == STEPS else FINE) * std, size)).all():
            return w @ known.start + reach.T @ (numbers - a @ known.start), reach
    return None


@dataclass(frozen=True)
class _Known:
    """One solution of the forms without noise, and the space that they leave open."""

    basis: Array  # orthonormal rows
    start: Array
    missed: Array  # by which the solution misses, along the basis

    @classmethod
    def of(cls, forms: Array, totals: Array) -> _Known:
        """Independent forms, and their values."""
        lengths = np.linalg.norm(forms, axis=1)
        forms, totals = forms / lengths[:, None], totals / lengths
        u, sizes, basis = np.linalg.svd(forms, full_matrices=False)
        start = basis.T @ ((u.T @ totals) / sizes)
        return cls(basis, start, (u.T @ (totals - forms @ start)) / sizes)

    def within(self, x: Array) -> Array:
        """The part of each column that the forms leave open."""
        return np.asarray(x - self.basis.T @ (self.basis @ x))

    def error(self, x: Array) -> Array:
        """The most that the misses of the solution add to each column of x."""
        return np.asarray(np.abs(self.basis @ x).T @ np.abs(self.missed))


def _solver(matrix: Array) -> Callable[[Array], Array]:
    """Return a function that solves equations with a positive matrix, block by block.

    Not by scipy.linalg, which lets no other thread of Python go on meanwhile.
    """
    lower = np.linalg.cholesky(matrix)
    n = len(lower)
    starts = range(0, n, BLOCK)
    inverse = [np.linalg.inv(lower[i : i + BLOCK, i : i + BLOCK]) for i in starts]

    def solve(right: Array) -> Array:
        x = np.array(right)
        for i, own in zip(starts, inverse, strict=True):
            x[i : i + BLOCK] = own @ (x[i : i + BLOCK] - lower[i : i + BLOCK, :i] @ x[:i])
        for i, own in zip(reversed(starts), reversed(inverse), strict=True):
            end = min(i + BLOCK, n)
            x[i:end] = own.T @ (x[i:end] - lower[end:, i:end].T @ x[end:])
        return x

    return solve

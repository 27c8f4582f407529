"""What stored answers say about a question that was not asked, by least squares.

Every stored number is a linear form of the unknowns (linear_form.py) with noise of a known
variance; n and counts of public columns are forms without noise. Of all unbiased combinations of
the stored numbers the one with the least variance is the estimate (generalised least squares). No
prior is used, so its variance is exact whatever the rows are. Where no combination is unbiased the
answers do not tell: then there is no estimate. Numbers only: no row is read, nothing is charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.questions.check import CheckedQuery
from sulq.questions.question import released_answer, spread_of
from sulq.strategies.linear_form import Cells, Form, stacked
from sulq.values.answer import Answer
from sulq.values.schema import Schema

MAX_CELLS = 20_000  # before those that all questions treat alike become one
MAX_UNKNOWNS = 2_000  # afterwards
MAX_EXACT = 1_000  # forms without noise
MAX_NUMBERS = 2_000  # in one estimate
DENSE = 0.05  # share of entries from which on a plain matrix is quicker
RIDGE = 1e-12  # of the largest diagonal entry, so that there is an inverse
STEPS = 3  # of refinement, which take the ridge out again
TOLERANCE = 1e-6  # how much of a form may be left over: none but for rounding

Array = NDArray[np.float64]
Sparse = Any  # scipy.sparse.csr_array; scipy is loaded when it is needed


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


def estimate(
    asked: Form, known: Sequence[Measured], public: Sequence[Measured], rows: int, schema: Schema
) -> Answer | None:
    """The answer to a question as the stored ones tell it, if they do. Its price is nothing."""
    if asked.query.released * len(asked.query.releases) > MAX_NUMBERS:
        return None
    if asked.never - {text for m in known for text in m.form.sums}:
        return None  # nothing says anything of what it adds up
    # What is summed may be decided by a row's cell, or be one more unknown of each cell.
    ways = [asked.wide, frozenset[str]()] if asked.wide else [frozenset[str]()]
    best: tuple[float, Array, Array, Sequence[Measured]] | None = None
    for told in ways:
        used = _related(asked, known, told, schema)
        found = _solved(asked, used, public, rows, told, schema) if used is not None else None
        if found is not None:
            numbers, covariance, kept = found
            error = float(np.trace(covariance, axis1=1, axis2=2).sum())
            if best is None or error < best[0]:
                best = error, numbers, covariance, kept
    return None if best is None else _answer(asked.query, *best[1:])


def _answer(
    query: CheckedQuery, numbers: Array, covariance: Array, used: Sequence[Measured]
) -> Answer:
    exact = [[Fraction(float(x)) for x in row] for row in numbers]
    stds = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))
    laws = [law for m in used for law in m.form.tariff.laws]
    found = released_answer(query, exact, stds.tolist(), spread_of(laws))
    if numbers.shape[1] == 1:
        return found
    sizes, axes = np.linalg.eigh(covariance)
    factors = axes * np.sqrt(np.maximum(sizes, 0.0))[:, None, :]
    nested = tuple(tuple(map(tuple, cell)) for cell in factors.tolist())
    return replace(found, factors=nested)


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
    asked: Form, used: list[Measured], public: Sequence[Measured], rows: int,
    told: frozenset[str], schema: Schema,
) -> tuple[Array, Array, Sequence[Measured]] | None:  # fmt: skip
    """Numbers and their covariance, cell by cell; fewer answers are used if all are too many."""
    while True:
        system = _system(asked, used, public, rows, told, schema)
        if system.noisy.shape[1] <= MAX_UNKNOWNS:
            break
        if not used:
            return None
        used = used[: len(used) // 2]
    stored = np.array([x for m in used for x in m.numbers])[system.about] * system.scale
    found = least_squares(system.noisy, stored, system.exact, system.totals, system.wanted)
    if found is None:
        return None
    numbers, reach = found
    each = len(asked.query.releases)
    blocks = reach.reshape(len(reach), len(numbers) // each, each).transpose(1, 2, 0)
    return numbers.reshape(-1, each), blocks @ blocks.transpose(0, 2, 1), used


def _system(
    asked: Form, used: Sequence[Measured], public: Sequence[Measured], rows: int,
    told: frozenset[str], schema: Schema,
) -> _System:  # fmt: skip
    from scipy import sparse

    cells = Cells(schema, told)
    for form in (asked, *(m.form for m in used)):
        cells.fits(form, most=MAX_CELLS)
    facts = [m for m in public if m.form.columns <= cells.columns and _adds_nothing(m, cells)]
    wanted = cells.weights(asked)
    unknowns = cells.batch.rows * len(cells.functions)  # what others sum says little about this
    noisy = stacked([cells.weights(m.form) for m in used], cells.batch.rows * len(cells.functions))
    about = np.flatnonzero(np.diff(noisy[:, unknowns:].indptr) == 0)
    exact = [cells.everyone(), *(cells.weights(m.form) for m in facts)]
    parts = [stacked([wanted], unknowns), noisy[about][:, :unknowns], stacked(exact, unknowns)]
    kept = _different(sparse.csr_array(sparse.vstack(parts)))
    w, a, c = (part[:, kept] for part in parts)
    scale = np.array([x for m in used for x in m.weights])[about]
    totals = np.array([float(rows), *(x for m in facts for x in m.numbers)])
    each, first = np.unique(np.round(c.toarray(), 12), axis=0, return_index=True)
    return _System(
        sparse.csr_array(sparse.diags_array(scale) @ a), about, scale, each[:MAX_EXACT],
        totals[first][:MAX_EXACT], w.toarray(),
    )  # fmt: skip


def _adds_nothing(fact: Measured, cells: Cells) -> bool:
    """Can a public fact be told without more cells?"""
    return not fact.form.sums and cells.fits(fact.form, most=MAX_CELLS)


def _different(forms: Sparse) -> NDArray[np.int64]:
    """One of all columns that are alike: what no form tells apart is one unknown."""
    place = np.arange(1, forms.shape[0] + 1)
    marks = np.array([np.cos(place**1.5), np.sin(place**1.7)])
    keys = (forms.T @ marks.T).view(np.complex128).ravel()
    return np.unique(keys, return_index=True)[1]


def least_squares(
    noisy: Sparse, numbers: Array, exact: Array, totals: Array, wanted: Array
) -> tuple[Array, Array] | None:
    """The wanted forms of x where noisy x = numbers but for noise of variance 1, exact x = totals.

    Gives the estimates and, for each, how it is read off the numbers (numbers x wanted), whose
    squares add up to its variance. None: some wanted form is not told.
    """
    from scipy import sparse

    squares = np.asarray(noisy.multiply(noisy).sum(axis=0)).ravel()
    scale = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
    a = sparse.csr_array(noisy @ sparse.diags_array(scale))
    if a.nnz > DENSE * a.shape[0] * a.shape[1]:
        a = a.toarray()
    c, w = exact * scale, wanted * scale
    u, sizes, basis = np.linalg.svd(c, full_matrices=False)
    kept = sizes > 1e-9 * sizes.max(initial=0.0)
    basis = basis[kept]
    start = basis.T @ ((u[:, kept].T @ totals) / sizes[kept])

    def within(x: Array) -> Array:
        """What the exact forms leave open."""
        return np.asarray(x - basis.T @ (basis @ x))

    gram = a.T @ a
    gram = within(within(gram if isinstance(gram, np.ndarray) else gram.toarray()).T)
    left = within(w.T)
    ridge = RIDGE * max(float(np.trace(gram)), 1.0) * np.eye(len(gram))
    try:  # not by scipy.linalg, which lets no other thread of Python go on meanwhile
        inverse = np.linalg.inv(gram + ridge)
    except np.linalg.LinAlgError:
        return None
    x = np.zeros_like(left)
    for _ in range(STEPS):
        x = x + within(inverse @ (left - gram @ x))
    over = np.linalg.norm(left - gram @ x, axis=0)
    if (over > TOLERANCE * np.linalg.norm(w, axis=1)).any():
        return None
    reach = a @ x
    return w @ start + reach.T @ (numbers - a @ start), np.asarray(reach)

"""Decide whether a linear form is a combination of others: a question of rank, in whole numbers.

Floats cannot decide it: 1 beside 10^7 looks like a rounding, and is not. So elimination is done
modulo two primes from 2^23 to 2^24, drawn at random in every process. A form that is a combination
stays one unless a prime divides a certain minor of the forms; then it counts as not told, which is
safe. A form that is none passes for one only if both primes divide certain minors (a minor of b
bits has at most b/23 such primes, of 513,708). The solver in estimates.py then checks that the
combination reproduces the form, so there is no wrong number then. docs/proofs/estimates.md

Where the forms have full rank modulo one prime they have it exactly, and every form is told.
"""

from __future__ import annotations

import secrets
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sulq.strategies.exact_matrix import Array, ExactMatrix, Sparse, Whole

LOWEST, HIGHEST = 2**23, 2**24  # of the primes
WIDTH = 32  # columns at once: 32 * (2^23)^2 and what is added to it stay below 2^53
ROUNDS = 64  # of what is read off rows and columns with one entry
SPARE = 32  # more random combinations than unknowns
MANY = 128  # columns from which on floats may show that they are independent
DENSE = 0.05  # share of entries from which on a plain matrix is quicker
MOST = 2**17  # rows and columns, for
SURE = 1e-9  # of the trace, more than rounding can be
SMALL = 512  # the largest factor of such a combination: sums of 2^20 entries stay below 2^53


@lru_cache(maxsize=1)
def primes() -> tuple[int, int]:
    """Two primes, drawn once in each process."""
    first = _prime()
    return first, next(p for p in iter(_prime, 0) if p != first)


def _prime() -> int:
    divisors = np.arange(3, 4096, 2)
    while True:
        candidate = LOWEST + 1 + 2 * secrets.randbelow((HIGHEST - LOWEST) // 2)
        if (candidate % divisors).all():
            return candidate


def is_spanned(forms: ExactMatrix, wanted: ExactMatrix) -> bool:
    """True if every wanted row is a combination of the rows of `forms`."""
    for prime in primes():
        try:
            a, w = forms.modulo(prime), wanted.modulo(prime)
        except ValueError:  # it divides a denominator
            return False
        factors = np.array([secrets.randbelow(prime) for _ in range(w.shape[0])])
        if w.shape[0] == 1:
            factors = np.ones(1, dtype=np.int64)
        row = _combination(w, factors, prime)  # of all, which is spanned only if each is
        spanned, full_rank = _Elimination(forms, a, row, prime).run()
        if not spanned or full_rank:
            return spanned
    return True


def independent_rows(forms: ExactMatrix) -> Whole:
    """The places of rows that are independent of those before them."""
    prime = primes()[0]
    m = _centred(forms.modulo(prime).toarray().T.astype(np.float64), prime)
    return np.array(_Dense(np.vstack([m, np.zeros((1, m.shape[1]))]), prime).pivots(), dtype=int)


def _combination(rows: Sparse, factors: Whole, prime: int) -> Whole:
    """The sum of these rows, each times a factor."""
    each = np.repeat(factors, np.diff(rows.indptr))
    found = np.bincount(rows.indices, weights=rows.data * each % prime, minlength=rows.shape[1])
    return np.asarray(found.astype(np.int64) % prime)


def _centred(x: Array, prime: int) -> Array:
    """Whole numbers modulo a prime, in place, from about -p/2 to p/2."""
    x -= np.rint(x * (1 / prime)) * prime
    return x


class _Elimination:
    """Elimination of one row by others: sparse as long as that is free, then dense."""

    def __init__(self, forms: ExactMatrix, rows: Sparse, row: Whole, prime: int) -> None:
        self._forms = forms
        self._floats: Sparse | None = None
        self._rows = rows
        self._row = row
        self._prime = prime
        self._pattern = rows.astype(bool).astype(np.int64)
        self._turned = self._pattern.T.tocsr()
        self._columns = self._pattern.copy()  # each entry says its column,
        self._columns.data = rows.indices.astype(np.int64)
        self._places = self._turned.copy()  # and its row
        self._places.data = self._turned.indices.astype(np.int64)
        self._open_rows = np.ones(rows.shape[0], dtype=np.int64)
        self._open = np.ones(rows.shape[1], dtype=np.int64)  # columns that are not eliminated

    def run(self) -> tuple[bool, bool]:
        """True if the row becomes 0; and true if the rows have full rank."""
        empty = False
        for _ in range(ROUNDS):
            if not self._row[self._open > 0].any():
                return True, not empty and not self._open.any()
            changed = self._single_rows()
            held = self._turned @ self._open_rows
            bare = (held == 0) & (self._open > 0)
            if (self._row[bare] != 0).any():
                return False, False
            empty = empty or bool(bare.any())
            self._open[bare] = 0
            changed |= self._single_columns((held == 1) & (self._open > 0))
            if not changed:
                break
        if not self._row[self._open > 0].any():
            return True, not empty and not self._open.any()
        spanned, full_rank = self._dense()
        return spanned, full_rank and not empty

    def _single_rows(self) -> bool:
        """Rows with one entry tell that unknown."""
        count = self._pattern @ self._open
        single = (count == 1) & (self._open_rows > 0)
        told = (self._columns @ self._open)[single]
        self._open[told] = 0
        self._open_rows[count <= 1] = 0
        return bool(single.any())

    def _single_columns(self, single: NDArray[np.bool_]) -> bool:
        """An unknown in one row takes that row along: it tells nothing else."""
        if not single.any():
            return False
        columns = np.flatnonzero(single)
        rows, first = np.unique((self._places @ self._open_rows)[columns], return_index=True)
        columns = columns[first]
        used = self._rows[rows]
        owner = np.repeat(np.arange(len(rows)), np.diff(used.indptr))
        pivots = np.zeros(len(rows), dtype=np.int64)
        at = used.indices == columns[owner]
        pivots[owner[at]] = used.data[at]
        inverse = np.array([pow(x, -1, self._prime) for x in pivots.tolist()], dtype=np.int64)
        factors = self._row[columns] * inverse % self._prime
        self._row = (self._row - _combination(used, factors, self._prime)) % self._prime
        self._open[columns] = 0
        self._open_rows[rows] = 0
        return True

    def _dense(self) -> tuple[bool, bool]:
        columns = np.flatnonzero(self._open)
        rows = np.flatnonzero(self._open_rows)
        if len(rows) >= len(columns) > MANY and self._is_surely_full(rows, columns):
            return True, True
        core = self._rows[rows][:, columns].astype(np.float64)
        most = len(columns) + SPARE
        _centred(core.data, self._prime)
        if len(rows) > most + len(columns) // 2:
            m = _combined(core, most, self._prime)
        else:
            m = core.toarray()
        row = _centred(self._row[columns].astype(np.float64), self._prime)
        return _Dense(np.vstack([m, row]), self._prime).run()

    def _is_surely_full(self, rows: Whole, columns: Whole) -> bool:
        """True only if these columns are independent, by floats with their errors bounded.

        Where Cholesky's method gets through A'A less SURE of its trace, A'A is positive: rounding
        moves its eigenvalues by less than (rows + columns) 2^-50 of the trace (Rump, BIT 46, 2006).
        """
        if self._floats is None:
            self._floats = self._forms.floats()
        if self._floats.nnz < len(self._forms.whole) or len(rows) + len(columns) > MOST:
            return False  # sums of entries may have lost digits
        a = self._floats[rows][:, columns]
        lengths = np.sqrt(np.asarray((a * a).sum(axis=0)).ravel())
        a = a.multiply(1 / lengths).tocsr()
        if a.nnz > DENSE * a.shape[0] * a.shape[1]:
            a = a.toarray()
        gram = a.T @ a
        gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
        gram[np.diag_indices_from(gram)] -= SURE * len(gram)
        try:
            np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return False
        return True


def _combined(core: Sparse, count: int, prime: int) -> Array:
    """Return random combinations of the rows: almost surely they span what the rows span."""
    pick = np.random.default_rng()
    turned = core.T.tocsr()
    out = np.empty((count, core.shape[1]))
    for i in range(0, count, WIDTH):  # a little at a time, for other threads
        some = pick.integers(-SMALL, SMALL + 1, (core.shape[0], min(WIDTH, count - i)))
        out[i : i + WIDTH] = _centred(turned @ some.astype(np.float64), prime).T
    return out


class _Dense:
    """Gaussian elimination of all rows but the last, which is only reduced by them.

    Products of floats below 2^23 are exact, so the work is BLAS's.
    """

    def __init__(self, m: Array, prime: int) -> None:
        self._m = m
        self._prime = prime
        self._last = len(m) - 1
        self._rank = 0
        self._pivot_columns: list[int] = []

    def run(self) -> tuple[bool, bool]:
        """True if the last row becomes 0; and true if the others have full rank."""
        width, row = self._m.shape[1], self._m[self._last]
        for start in range(0, width, WIDTH):
            if not self._panel(start, min(start + WIDTH, width)):
                return False, False
            if not row[start + WIDTH :].any():
                return True, self._rank == width
            if self._rank == self._last:
                return False, False
        return True, self._rank == width

    def pivots(self) -> list[int]:
        """The columns that are independent of those before them."""
        width = self._m.shape[1]
        for start in range(0, width, WIDTH):
            self._panel(start, min(start + WIDTH, width))
        return self._pivot_columns

    def _panel(self, start: int, end: int) -> bool:
        """Eliminate some columns; False if the last row cannot become 0 in one of them."""
        m, prime, first = self._m, self._prime, self._rank
        lower = np.zeros((len(m), end - start))
        for j in range(start, end):
            t = self._rank
            _centred(m[t:, j], prime)
            found = np.flatnonzero(m[t : self._last, j])
            if not len(found):
                if m[self._last, j] != 0:
                    return False
                continue
            pivot = t + int(found[0])
            if pivot != t:
                m[[t, pivot]], lower[[t, pivot]] = m[[pivot, t]], lower[[pivot, t]]
            _centred(m[t, j:end], prime)
            inverse = pow(int(m[t, j]) % prime, -1, prime)
            inverse -= prime * (inverse > prime // 2)
            factors = _centred(m[t + 1 :, j] * inverse, prime)
            m[t + 1 :, j + 1 : end] -= np.outer(factors, m[t, j + 1 : end])
            lower[t + 1 :, t - first] = factors
            self._pivot_columns.append(j)
            self._rank += 1
        self._rest(lower, first, end)
        return True

    def _rest(self, lower: Array, first: int, end: int) -> None:
        """Apply the elimination of some columns to the columns behind them."""
        m, t = self._m, self._rank
        if t == first or end == m.shape[1]:
            return
        for i in range(first + 1, t):
            m[i, end:] -= lower[i, : i - first] @ m[first:i, end:]
            _centred(m[i, end:], self._prime)
        m[t:, end:] -= lower[t:, : t - first] @ m[first:t, end:]
        _centred(m[t:, end:], self._prime)

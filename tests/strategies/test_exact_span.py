"""Is a form told by others? Decided as fractions decide it, at every size and scale."""

from fractions import Fraction

import numpy as np
import pytest
from soak import times

from sulq.strategies import exact_span
from sulq.strategies.exact_matrix import ExactMatrix
from sulq.strategies.exact_span import independent_rows, is_spanned


def exact(rows):
    """An exact matrix of rows of fractions."""
    places = [(i, j, x) for i, row in enumerate(rows) for j, x in enumerate(row) if x]
    units = tuple(dict.fromkeys(Fraction(1, x.denominator) for _, _, x in places))
    at = {u: k for k, u in enumerate(units)}
    columns = [
        np.array(found, dtype=np.int64)
        for found in (
            [i for i, _, _ in places],
            [j for _, j, _ in places],
            [x.numerator for _, _, x in places],
            [at[Fraction(1, x.denominator)] for _, _, x in places],
        )
    ]
    return ExactMatrix((len(rows), len(rows[0]) if rows else 0), *columns, units)


def whole(a):
    """An exact matrix of whole numbers."""
    rows, columns = (x.astype(np.int64) for x in np.nonzero(a))
    entries = np.asarray(a)[rows, columns].astype(np.int64)
    return ExactMatrix(a.shape, rows, columns, entries, np.zeros_like(entries), (Fraction(1),))


def rank(rows):
    """The rank, by elimination of fractions."""
    rows, found = [list(r) for r in rows], 0
    for j in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(found, len(rows)) if rows[i][j]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        for i in range(found + 1, len(rows)):
            factor = rows[i][j] / rows[found][j]
            if factor:
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[found], strict=True)]
        found += 1
    return found


def system(pick):
    """Forms of many scales and a wanted one, which they tell or do not, or almost do."""
    rows, columns = pick.integers(1, 9), pick.integers(1, 9)
    scales = [Fraction(10) ** int(e) for e in pick.integers(-6, 13, columns)]
    forms = [
        [Fraction(int(x)) * s for x, s in zip(line, scales, strict=True)]
        for line in pick.integers(-2, 3, (rows, columns)) * (pick.random((rows, columns)) < 0.5)
    ]
    factors = [Fraction(int(x)) for x in pick.integers(-3, 4, rows)]
    wanted = [sum((f * r[j] for f, r in zip(factors, forms, strict=True)), Fraction(0))
              for j in range(columns)]  # fmt: skip
    if pick.random() < 0.5:
        wanted[int(pick.integers(columns))] += pick.choice([Fraction(1), Fraction(1, 10**6)])
    return forms, wanted


def test_it_is_what_fractions_say():
    """Random systems of entries from a millionth to a million millions; floats err on some."""
    pick = np.random.default_rng(1)
    floats_err = 0
    for _ in range(times(300, 20_000)):
        forms, wanted = system(pick)
        told = rank([*forms, wanted]) == rank(forms)
        assert is_spanned(exact(forms), exact([wanted])) == told, (forms, wanted)
        ours = np.array([*forms, wanted], dtype=float)
        by_floats = np.linalg.matrix_rank(ours) == np.linalg.matrix_rank(ours[:-1])
        floats_err += by_floats != told
    assert floats_err > 10


def test_rows_that_are_independent():
    """The first of each that depend on each other, as many as the rank."""
    pick = np.random.default_rng(2)
    for _ in range(100):
        forms, _ = system(pick)
        found = independent_rows(exact(forms)).tolist()
        chosen = [rank(forms[: i + 1]) > rank(forms[:i]) for i in range(len(forms))]
        assert found == [i for i, new in enumerate(chosen) if new]


LARGE = {
    "full rank": (200, 200, 200),
    "one form less": (150, 150, 149),
    "more forms than unknowns": (700, 150, 140),
    "fewer forms": (90, 200, 90),
}


@pytest.mark.parametrize("case", LARGE)
def test_large_systems(case):
    """A combination is told, and one unknown more is not, unless the rank is full."""
    rows, columns, full = LARGE[case]
    pick = np.random.default_rng(3)
    a = pick.integers(-3, 4, (rows, full)) @ pick.integers(-1, 2, (full, columns))
    if full == rows == columns:
        a = np.eye(rows, dtype=int) * 50 + pick.integers(0, 2, (rows, columns))
    forms = whole(a)
    within = pick.integers(-3, 4, (2, rows)) @ a
    beyond = within.copy()
    beyond[1, 7] += 1
    assert is_spanned(forms, whole(within))
    assert is_spanned(forms, whole(beyond)) == (full == columns)


def test_every_way_is_taken(monkeypatch):
    """Sparse systems, dense ones, many rows, and floats that are sure: each has its own code."""
    taken = set()
    for name in ("_single_columns", "_dense", "_is_surely_full"):
        plain = getattr(exact_span._Elimination, name)

        def noted(self, *args, name=name, plain=plain):
            found = plain(self, *args)
            taken.add((name, found) if name == "_is_surely_full" else name)
            return found

        monkeypatch.setattr(exact_span._Elimination, name, noted)
    plain = exact_span._combined
    monkeypatch.setattr(exact_span, "_combined", lambda *a: taken.add("_combined") or plain(*a))
    pick = np.random.default_rng(4)
    for forms, wanted in (system(pick) for _ in range(100)):
        is_spanned(exact(forms), exact([wanted]))
    for case in LARGE:
        test_large_systems(case)
    ways = {"_single_columns", "_dense", "_combined"}
    assert taken == ways | {("_is_surely_full", True), ("_is_surely_full", False)}


def test_columns_that_are_alike_become_one():
    """Equal entry by entry, not only by their hash; empty ones vanish."""
    rows = [[1, 1, 0, 2, 1], [0, 0, 0, 5, 10**12], [7, 7, 0, 7, 7]]
    made = exact([[Fraction(x) for x in row] for row in rows])
    assert made.distinct_columns().tolist() == [0, 3, 4]
    plain, ExactMatrix._mixed = ExactMatrix._mixed, lambda self: np.zeros_like(self.whole)
    try:
        assert made.distinct_columns().tolist() == [0, 3, 4]
    finally:
        ExactMatrix._mixed = plain


def test_primes_are_primes():
    """Two different ones of the declared size."""
    first, second = exact_span.primes()
    assert first != second
    for p in (first, second):
        assert 2**23 < p < 2**24
        assert all(p % d for d in range(2, 4097))

"""Rows that are nearly nothing, or as far out as rows can be: no question fails by them.

A short run of the fuzz in `degenerate.py`; `make soak` runs tens of thousands of batches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from attacks import degenerate
from attacks.degenerate_questions import CALLS, GENEROUS, LEARNERS, STATEMENTS
from attacks.degenerate_rows import DECLARED, STORED, array_of
from helpers import ENGINES, opened

import sulq
from sulq.kernel import matrix

PLACES = [p for p in degenerate.PLACES if p in degenerate.LOCAL or p in ENGINES]


@pytest.mark.parametrize("cells", [1, 64, 65])
def test_no_failure_tells_a_private_bit(cells):
    """The attack that read release 1: sums by block of one row, or of none by its bit."""
    secret = np.arange(40) % 3 == 0
    table = pa.table({"id": np.arange(40), "s": secret, "x": np.linspace(0, 1, 40)})
    schema = {
        "id": {"type": "integer", "key": True},
        "s": {"type": "boolean"},
        "x": {"type": "number", "low": 0, "high": 1},
    }
    db = opened(table, schema)
    for row in range(12):
        query = sulq.Query(sulq.Sums(["x"]), by=sulq.Blocks(0, cells), error=100_000,
                           where=f"id = {row} and s")  # fmt: skip
        answer = db.ask(query)
        assert answer.values[:, 0].sum() == secret[row]


@pytest.mark.parametrize("place", PLACES)
def test_no_question_fails_and_all_engines_agree(place):
    """Every kind of question on degenerate tables: no exception, no warning, the same integers."""
    tally = degenerate.run(32, [place], each=8)
    assert tally.failures == []
    assert tally.batches[place] >= 32


def test_the_fuzz_finds_the_old_failure(monkeypatch):
    """Control: with release 1's line put back, the same fuzz fails."""
    mended = matrix._sums_by_cell

    def old(y, cells, size):
        if size <= matrix.FEW_CELLS:
            return mended(y, cells, size)
        return np.column_stack([np.bincount(cells, weights=row, minlength=size) for row in y])

    monkeypatch.setattr(matrix, "_sums_by_cell", old)
    found = degenerate.run(1000, ["arrow"], most_failures=1)
    assert "Cannot cast ufunc 'subtract'" in found.failures[0]


def test_the_fuzz_finds_a_sum_that_is_wrong(monkeypatch):
    """Control: an engine that forgets one edge, a missing value's, disagrees with the reference."""
    from sulq.engines.writer import SPELLING

    monkeypatch.setitem(SPELLING, "is_null", lambda node, a: f"({a} IS NOT NULL)")
    found = degenerate.run(1000, ["arrow"], most_failures=1)
    assert "differs from the reference" in found.failures[0]


def hardly(rows):
    """Tables without rows, with one, all NULL, all equal, and equal but for one gap."""
    numbers = {"b": True, "c": 1, "i": 9, "s": 1, "m": 8, "e": 0, "f": 0, "id": 7}
    words = {"g": "a", "k": "a", "t": "a"}
    kinds = {name: kinds[0] for name, kinds in STORED.items()}
    return pa.table({
        name: array_of([rows(numbers.get(name, words.get(name, 1)), i) for i in range(12)], kind)
        for name, kind in kinds.items()
    })  # fmt: skip


HARDLY = {
    "no rows": hardly(lambda x, i: x).slice(0, 0),
    "one row": hardly(lambda x, i: x).slice(0, 1),
    "all NULL": hardly(lambda x, i: None),
    "all equal": hardly(lambda x, i: x),
    "one gap": hardly(lambda x, i: None if i == 3 else x),
}


@pytest.mark.parametrize("rows", HARDLY)
def test_learners_statements_and_calls_on_hardly_any_rows(rows):
    """Each is answered, or refused by a public rule; none fails after its charge."""
    tally = degenerate.Tally()
    db = opened(HARDLY[rows], DECLARED, quiet=False, name="people", **GENEROUS)
    for name, call in (LEARNERS | CALLS).items():
        degenerate.call_once(call, db, f"{name} on {rows}", tally)
    for text in STATEMENTS:
        degenerate.call_once(lambda db, text=text: db.sql(text), db, f"{text} on {rows}", tally)
    assert tally.failures == []

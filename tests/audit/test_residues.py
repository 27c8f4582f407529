"""Sums modulo q as questions: judged as the sum is, kept and told as the rest alone."""

import json

import pyarrow.parquet as pq
import pytest
from audit.harness import PRIORS, audited, duan, opened_noisy, outcome, people

import sulq
from sulq.report import answer_parts, markdown, report

TABLE = people(4000)
ONES = sum(TABLE["a"].to_pylist())
AGES = sum(TABLE["age"].to_pylist())
DUAN = {"epsilon": 3.0, "queries": 4}
RULES = {"classes": lambda **more: audited(TABLE, **more), "duan": lambda: duan(TABLE, **DUAN)}


@pytest.mark.parametrize("rule", RULES)
def test_a_residue_is_the_sum_modulo_q(rule):
    """It is exact, one of the m questions, and all that the ledger keeps of the sum."""
    db = RULES[rule]()
    answer = db.modulo("a", 7)
    assert (answer.value, answer.std) == (ONES % 7, 0)
    assert answer.names == ("modulo 7",)
    assert db.budget.spent == 1
    (charge,) = db.history()
    assert json.loads(db._ledger.find(charge.query)[1]) == {"sum": ONES % 7}


def test_a_residue_is_another_question_than_its_sum():
    """Each has its own charge, each is free when asked again; classes are no finer for it."""
    db = audited(TABLE)
    first = db.modulo("a", 2, request_id="one")
    assert db.modulo(sulq.Query(where="a"), 2).value == first.value == ONES % 2
    assert db.modulo("a", 2, request_id="one").remaining == first.remaining
    assert db.budget.spent == 1
    assert (db.modulo("a", 3).value, db.count("a").value) == (ONES % 3, ONES)
    assert db.budget.spent == 3
    assert len({charge.query for charge in db.history()}) == 3


def test_duan_tells_a_sum_once_whole_or_as_one_residue():
    """X has its row after the residue, so the sum and other residues are refused, and count."""
    db = duan(TABLE, **DUAN)
    assert db.modulo("a", 2).value == ONES % 2
    for again in (lambda: db.count("a"), lambda: db.modulo("a", 3)):
        with pytest.raises(sulq.AuditRefused, match="smallest singular value"):
            again()
    assert db.budget.spent == 3
    with pytest.raises(sulq.AuditRefused, match="Nothing was charged"):
        db.modulo("a", 2)
    assert db.budget.spent == 3


def test_duan_sums_whole_numbers_modulo_q():
    """A sum of a column, missing values as 0."""
    assert duan(TABLE, **DUAN).modulo(sulq.Query(("age",)), 10).value == AGES % 10


@pytest.mark.parametrize("rule", RULES)
def test_a_residue_is_judged_as_its_sum(rule):
    """Where the sum would be refused so is every residue, however it was told before."""
    asked = {
        "sum, sum": lambda db: (db.count("a"), db.count("a and id <> 17")),
        "sum, residue": lambda db: (db.count("a"), db.modulo("a and id <> 17", 2)),
        "residue, sum": lambda db: (db.modulo("a", 2), db.count("a and id <> 17")),
        "residues": lambda db: (db.modulo("a", 2), db.modulo("a and id <> 17", 2)),
    }
    said = set()
    for ask in asked.values():
        db = RULES[rule]()
        with pytest.raises(sulq.AuditRefused) as refusal:
            ask(db)
        said.add(str(refusal.value))
        assert refusal.value.charged
        assert db.budget.spent == 2
    assert len(said) == 1


def test_a_few_rows_are_refused_though_their_parity_alone_would_hide_them():
    """The K of one residue by itself is 2 for a fair bit; what counts is the K of the sum."""
    db = audited(TABLE, priors=PRIORS)
    with pytest.raises(sulq.AuditRefused, match="rows must be asked alike"):
        db.modulo("c and id < 40", 2)


def test_a_reopened_ledger_knows_its_residues(tmp_path):
    """The stored rest is given again, free, and judged beside as its sum."""
    path = tmp_path / "people.parquet"
    pq.write_table(TABLE, path)
    with audited(path, ledger=None) as db:
        db.modulo("a", 5)
    with audited(path, ledger=None) as db:
        assert db.modulo("a", 5).value == ONES % 5
        assert db.budget.spent == 1
        assert outcome(db, "a and id <> 17") == "refused"


@pytest.mark.parametrize("q", [1, 0, -3, 2.0, True, "2", None, 2**31 + 1])
def test_q_is_a_whole_number_from_two(q):
    """Anything else is refused, and nothing is charged."""
    db = audited(TABLE)
    with pytest.raises(sulq.QueryNotAllowed, match="want a whole number from 2"):
        db.modulo("a", q)
    assert db.budget.spent == 0


def test_what_has_no_residue_is_refused_free():
    """Dithered sums, sums under rule='classes', fractions, tables, no question at all."""
    cases = [
        (audited(TABLE, dither=2), "a", "noise alone"),
        (audited(TABLE), sulq.Query(("age",)), "counts only"),
        (audited(TABLE), "age > 50", "declared categories only"),
        (duan(TABLE), sulq.Query(("x",)), "whole numbers"),
        (duan(TABLE), sulq.Query(by="region", where="a"), "one number"),
        (duan(TABLE), 7, "want a predicate or a sulq.Query"),
    ]
    for db, asked, said in cases:
        with pytest.raises(sulq.QueryNotAllowed, match=said):
            db.modulo(asked, 2)
        assert db.budget.spent == 0


def test_noise_has_no_residues():
    """A table that answers with noise says what it takes."""
    with pytest.raises(sulq.Refused, match="mode='audited', dither=0"):
        opened_noisy(TABLE).modulo("a", 2)


def test_what_is_public_is_free():
    """A residue of public rows costs nothing."""
    db = audited(TABLE)
    answer = db.modulo("id < 25", 10)
    assert (answer.value, answer.price.micro, db.budget.spent) == (5, 0, 0)


def test_residues_in_words():
    """History, report and stored answers say the modulus; none takes the rest for the sum."""
    db = audited(TABLE)
    db.modulo("a", 7)
    (part,) = answer_parts(db, db.history()[0].query)
    assert (part["names"], part["values"]) == (["count modulo 7"], [[ONES % 7]])
    assert "count modulo 7 where a" in markdown(report(db._ledger, answers=True))

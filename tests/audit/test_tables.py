"""Tables of an audited database: exact, all or nothing, one question of the ledger."""

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest
from audit.harness import PRIORS, SCHEMA, audited, duan, flipped, outcome, people

import sulq
from sulq.audit.tables import asked_in, table_of
from sulq.report import report

TABLE = people(6000)
FREE = {"epsilon": 1000.0, "queries": 60}  # the paper's rule answers almost anything
LOOSE = {"priors": PRIORS | {"city": {"rome": 0.25, "oslo": 0.25, "lima": 0.25}}, "queries": 60}


def frame(table=TABLE):
    return table.to_pandas()


def counts(db, by, **more):
    answer = db.ask(sulq.Query(by=by, **more))
    return dict(zip(answer.cells, [int(row[0]) for row in answer.exact], strict=True))


# --- exact --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["classes", "duan"])
def test_a_histogram_is_exact(rule):
    """Every cell, '(other)' too; what a partition adds up to is public, so one cell is free."""
    db = audited(TABLE, **LOOSE) if rule == "classes" else duan(TABLE, **FREE)
    data = frame()
    found = counts(db, "city")
    assert found == {c: (data.city == c).sum() for c in ("rome", "oslo", "lima")} | {
        None: (data.city == "bonn").sum()
    }
    assert db.budget.spent == 3
    assert counts(db, "a") == {False: (~data.a).sum(), True: data.a.sum()}
    assert db.budget.spent == 4


@pytest.mark.parametrize("rule", ["classes", "duan"])
def test_a_crosstab_is_exact_and_asks_a_basis(rule):
    """Two columns of 2 and 4 cells: 1 + 3 + 3 numbers are judged, and eight are told."""
    db = audited(TABLE, **LOOSE) if rule == "classes" else duan(TABLE, **FREE)
    data = frame()
    found = counts(db, ("a", "city"))
    for a, city in itertools.product((False, True), ("rome", "oslo", "lima")):
        assert found[a, city] == ((data.a == a) & (data.city == city)).sum()
    assert found[True, None] == (data.a & (data.city == "bonn")).sum()
    assert db.budget.spent == 7
    if rule == "duan":
        return  # the paper refuses what it has answered
    again = db.sql("select a, city, count(*) as n from frame group by a, city")
    assert db.budget.spent == 7  # the same question, in other words
    assert sum(again["n"]) == len(data)


def test_public_and_private_cells_and_sql():
    """By a public column with a private predicate; every declared group is there."""
    db = audited(TABLE, queries=60)
    data = frame()
    found = db.sql("select region, count_if(a) as n from frame group by region")
    shown = dict(zip(found["region"], found["n"], strict=True))
    for region in ("north", "south", "east", "west"):
        assert shown[region] == (data.a & (data.region == region)).sum()
    assert db.histogram("a", where="region = 'north' and b")["count"] == [
        ((data.region == "north") & data.b & (data.a == a)).sum() for a in (False, True)
    ]


def test_sums_by_cells_under_duan():
    """Sums of numbers by bins and by a category; several values at once."""
    db, data = duan(TABLE, **FREE), frame()
    answer = db.ask(sulq.Query(("1", "age"), by=sulq.Bins("x", (0, 0.5, 1))))
    low = data.x < 0.5
    assert [int(v) for v in answer.exact[0]] == [low.sum(), data.age[low].sum()]
    assert [int(v) for v in answer.exact[1]] == [(~low).sum(), data.age[~low].sum()]
    assert db.budget.spent == 3  # how many, the ages below, the ages in all


# --- all or nothing -----------------------------------------------------------------------------


def test_all_of_a_table_or_nothing():
    """One cell that would single out a row refuses the whole; nothing of it is admitted."""
    db = audited(TABLE, queries=60)
    with pytest.raises(sulq.AuditRefused, match="single out 1 row by id"):
        db.ask(sulq.Query(by="a", where="id = 7 or c"))
    spent = db.budget.spent
    assert spent == 2
    assert outcome(db, "c and id <> 8") != "refused"  # no trace of it
    db = audited(TABLE, queries=60)
    with pytest.raises(sulq.AuditRefused):
        db.ask([sulq.Query(where="b"), sulq.Query(where="b and id <> 9")], together=True)
    assert outcome(db, "b and id <> 10") != "refused"


def test_a_table_that_cannot_be_paid_is_refused_before_a_charge():
    """A table costs its cells, all or nothing."""
    db = audited(TABLE, queries=2, **{k: v for k, v in LOOSE.items() if k != "queries"})
    with pytest.raises(sulq.BudgetExceeded):
        db.histogram("city")
    assert db.budget.spent == 0
    assert outcome(db, "a") != "refused"


def test_control_cells_one_by_one_would_be_refused_by_the_paper():
    """All cells of a partition depend on each other: X would be singular; the basis is not."""
    db = duan(TABLE, **FREE)
    for city in ("rome", "oslo", "lima"):
        assert outcome(db, f"city = '{city}'") != "refused"
    assert outcome(db, "city is null") == "refused"


def test_twins_see_the_same():
    """Tables that differ in one private bit: the same refusals and charges for tables, too."""
    seen = []
    for twin in (TABLE, flipped(TABLE, 99)):
        db = audited(twin, queries=30)
        words = []
        for query in (sulq.Query(by="a"), sulq.Query(by=("a", "b")), sulq.Query(by="c", where=
                      "id <> 99"), sulq.Query(by=("region", "c"))):  # fmt: skip
            try:
                answer = db.ask(query)
                words.append((answer.cells, answer.stds, answer.price, answer.remaining))
            except sulq.Refused as refusal:
                words.append((type(refusal).__name__, str(refusal)))
        seen.append((words, [(c.query, c.price) for c in db.history()]))
    assert seen[0] == seen[1]
    assert "AuditRefused" in {w[0] for w in seen[0][0]}


# --- kept ---------------------------------------------------------------------------------------


def test_tables_outlive_the_program(tmp_path):
    """Opened again, a table is free and admitted; what singles a row out of it is refused."""
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLE, path)
    with audited(path, ledger=None) as db:
        first = counts(db, ("a", "b"))
        stored = db.verify()
    with audited(path, ledger=None) as db:
        assert outcome(db, "a and b and id <> 7") == "refused"
        assert counts(db, ("a", "b")) == first
        assert db.budget.spent == 4
        assert db.verify() > stored
        parts, _ = dict(report(db._ledger, answers=True)["answers"]).values()
    assert parts[0]["cells"] == ["count", "count where b", "count where a", "count where a and b"]
    assert parts[0]["values"][0] == [len(TABLE)]


def test_the_dither_of_what_is_read_off():
    """Without dither the error is 0; with it, the cell that is left out has the others' too."""
    db = audited(TABLE, dither=2, **LOOSE)
    answer = db.ask(sulq.Query(by="city"))
    assert np.allclose([row[0] for row in answer.stds], [2, 2, 2, 2 * np.sqrt(3)])
    assert sum(row[0] for row in answer.exact) == len(TABLE)
    assert db.price(sulq.Query(by="city")).half_widths == (answer.price.half_widths[0],)


def test_a_cell_that_priors_rule_out_refuses_the_table():
    """With priors that add up to 1 nobody should be in '(other)': whoever is stands out."""
    even = {"city": {"rome": 0.3, "oslo": 0.4, "lima": 0.3}}
    with pytest.raises(sulq.AuditRefused, match="too rare to hide"):
        audited(TABLE, priors=even, queries=30).histogram("city")


def test_a_basis_has_every_number_once():
    """Two tables by one column share its margin; numbers are whole combinations of the basis."""
    schema = sulq.Schema.load(SCHEMA)
    tables = [table_of(sulq.Query(by=by), schema) for by in (("a", "b"), ("a", "c"))]
    asked = list(asked_in(tables))
    assert len({q.where for q in asked}) == len(asked) == 1 + 3 + 2
    weights = {w for t in tables for row in t.numbers for n in row for w in n.values()}
    assert weights == {1, -1}
    with pytest.raises(sulq.QueryNotAllowed, match="at most 2,000"):
        table_of(sulq.Query(by=("age", "city", "a", "b", "c")), schema)


def test_review_takes_tables():
    """A table of a list is judged whole, beside those before it."""
    db = audited(TABLE, queries=30)
    found = db.review([sulq.Query(by=("a", "b")), "select a, count(*) from frame group by a",
                       "a and id <> 7", "id < 20"])  # fmt: skip
    assert [f.ok for f in found] == [True, True, False, True]
    assert [f.rows for f in found] == [3, 1, 0, 0]
    assert db.budget.spent == 0

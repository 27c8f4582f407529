"""Datasets about the same people have one T: what is spent on any counts for all.

No luck is involved.
"""

import itertools
import random
import shutil
import sqlite3
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from soak import some

import sulq
from sulq.errors import MICRO, BudgetExceeded, LedgerDamaged, PromiseError, Refused, SchemaError
from sulq.ledger import Ledger, Request
from sulq.ledger.group_ledger import GroupLedger
from sulq.ledger.location import sealed
from sulq.open_database import refresh
from sulq.report import markdown, report

SCHEMA = {
    "columns": {
        "id": {"key": True},
        "region": {"values": ["north", "south"], "public": True},
        "sick": {"type": "boolean", "nullable": False},
    }
}
PROMISE = {"epsilon": 1.0, "queries": 10}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three tables about the same people."""
    for i, name in enumerate(("people", "visits", "tests")):
        sick = [key % (i + 2) == 0 for key in range(40)]
        rows = {"id": range(40), "region": ["north", "south"] * 20, "sick": sick}
        pd.DataFrame(rows).to_parquet(tmp_path / f"{name}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opened(name, *, group="patients", schema=SCHEMA, **changes):
    return sulq.open(f"{name}.parquet", schema, group=group, **PROMISE | changes)


# ---- one T ----------------------------------------------------------------------------------


def test_what_is_spent_on_one_counts_for_all(folder):
    """Ten queries in all, over two datasets, and not one more from either."""
    a, b = opened("people"), opened("visits")
    for i in range(5):
        a.count(f"sick and id > {i}")
        b.count(f"sick and id > {i}")
    assert a.budget.remaining == b.budget.remaining == 0
    assert a.budget.group == "patients"
    assert (a.budget.spent, a.budget.elsewhere) == (10, 5)
    for db in (a, b):
        with pytest.raises(BudgetExceeded, match="of the group 'patients'"):
            db.count("sick and id > 30", error=1000)
    assert a.count("sick and id > 1").price.micro == 1_000_000  # stored: free, as before
    assert a.verify() == 12  # open, join, five charges, five answers


def test_the_ledger_may_be_named_and_shared(folder):
    """ledger= is the group's, the same for all; each dataset keeps its own beside it."""
    a, b = (opened(n, ledger="clinic.ledger") for n in ("people", "visits"))
    a.count("sick")
    assert b.budget.remaining == 9
    assert {p.name for p in folder.glob("clinic*.ledger")} == {
        "clinic.ledger", "clinic.people.ledger", "clinic.visits.ledger",
    }  # fmt: skip
    a.close()
    again = sulq.open("people.parquet", SCHEMA, ledger="clinic.people.ledger")
    assert again.group == "patients"
    assert again.count("sick").remaining == 9_000_000


def test_a_member_brings_what_it_spent(folder):
    """It had a ledger of its own: its answers stay free, and its spending counts for all."""
    alone = opened("visits", group=None)
    first = alone.count("sick and region = 'north'")
    alone.count("sick and region = 'south'")
    alone.close()
    people, visits = opened("people"), opened("visits")
    # Nobody is in the north and the south of visits: one query was spent on each of them.
    assert people.budget.spent == visits.budget.spent == 1
    assert visits.count("sick and region = 'north'").value == first.value
    assert visits.budget.spent == 1


def test_the_highest_spending_of_any_cell_counts_in_the_others(folder):
    """Someone in the others may be in any one cell here, and in no more than one."""
    a, b = opened("people"), opened("visits")
    a.count("sick and region = 'north'")
    a.count("sick and id > 3 and region = 'south'")
    assert b.budget.spent == 1
    assert [cell["spent"] for cell in b.budget_by_cell()] == [1, 1, 1]
    assert a.budget.spent == 1
    b.count("sick")
    assert a.budget.spent == b.budget.spent == 2
    assert [cell["spent"] for cell in a.budget_by_cell()] == [2, 2, 1]  # the south, north, neither


def test_nobody_is_said_to_have_spent_more_than_anybody_met(folder):
    """All, the north and the south asked here, all there: three for one person, not four."""
    a, b = opened("people"), opened("visits")
    a.count("sick")
    a.count("sick and region = 'north'")
    a.count("not sick and region = 'south'")
    b.count("sick")
    assert a.budget.spent == b.budget.spent == 3
    assert [cell["spent"] for cell in a.budget_by_cell()] == [3, 3, 2]
    assert (a.budget.elsewhere, b.budget.elsewhere) == (1, 2)
    told = report(a._ledger)["budget"]["group"]
    assert [m["spent_micro"] for m in told["members"]] == [2 * MICRO, MICRO]


@pytest.mark.parametrize("seed", some(range(100), 1))
def test_spending_is_what_brute_force_says(tmp_path, seed):
    """500 random charges to three ledgers: nobody above T, and refused only if somebody were.

    Whoever is in one cell of each dataset, or in none of it, has spent what was charged to these
    cells: all such people are looked at, and what the group says it spent is the most of them.
    """
    draw, total, cells = random.Random(seed), 60, (1, 3, 4)
    books = _three(tmp_path, cells, total)
    people = list(itertools.product(*map(range, cells)))
    met = dict.fromkeys(people, 0)
    for number in range(500):
        which = draw.randrange(len(books))
        chosen = draw.sample(range(cells[which]), draw.randint(1, cells[which]))
        price = draw.randint(1, 3)
        after = {p: spent + price * (p[which] in chosen) for p, spent in met.items()}
        concerned = [spent for p, spent in after.items() if p[which] in chosen]
        try:
            charge = books[which].charge([Request(f"q{number}", price, tuple(chosen))])[0]
            assert max(concerned) <= total
            met = after
            assert charge.remaining == total - max(concerned)  # for the same rows
        except BudgetExceeded:
            assert max(concerned) > total
        if draw.random() < 0.02:  # rows changed: nobody's spending is known better than the most
            books[which].renew(books[which].terms, {"reason": "moved"})
            most = [max(s for p, s in met.items() if p[:which] + p[which + 1 :] == rest)
                    for rest in (p[:which] + p[which + 1 :] for p in people)]  # fmt: skip
            met = dict(zip(people, most, strict=True))
        left = [book.spent_by_cell() for book in books]
        assert left == [
            {c: max(s for p, s in met.items() if p[i] == c) for c in range(count)}
            for i, count in enumerate(cells)
        ]
    assert books[0].budget()[2] == 0
    for book in books:
        book.verify()
        book.close()


def _three(folder, cells, total):
    """Three ledgers of a group."""
    books = []
    for i, count in enumerate(cells):
        place = folder / f"{i}.ledger"
        book = Ledger.open(place, terms={"promise": {}, "schema": {}}, cells=count, total=total,
                           name=str(i), seal=sealed(place))  # fmt: skip
        group = GroupLedger.open(folder / "g", "g", {"promise": {}, "unit": None}, total)
        book.join(group)
        books.append(book)
    return books


@pytest.mark.parametrize("seed", some(range(100), 1))
def test_people_who_move_between_cells_stay_within_t(tmp_path, seed):
    """Lives of people in three datasets who move at each refresh: what each met is at most T."""
    draw, total, cells = random.Random(seed), 60, (1, 3, 4)
    books = _three(tmp_path, cells, total)
    where = [[draw.randrange(count) for count in cells] for _ in range(30)]
    met = [0] * len(where)
    for number in range(300):
        which = draw.randrange(len(books))
        if draw.random() < 0.05:
            books[which].renew(books[which].terms, {"reason": "moved"})
            for person in draw.sample(where, 10):
                person[which] = draw.randrange(cells[which])
        chosen = draw.sample(range(cells[which]), draw.randint(1, cells[which]))
        price = draw.randint(1, 3)
        with suppress(BudgetExceeded):
            books[which].charge([Request(f"q{number}", price, tuple(chosen))])
            for i, person in enumerate(where):
                met[i] += price * (person[which] in chosen)
        assert max(met) <= books[0].budget()[1] <= total
    assert max(met) > total / 2
    for book in books:
        book.close()


def test_a_refresh_carries_the_highest_spending_into_the_group(folder):
    """Rows of one dataset changed: all its cells carry the most of any, in the group too."""
    a, b = opened("people"), opened("visits")
    a.count("sick and region = 'north'")
    a.count("sick and id > 3 and region = 'south'")
    a.close()
    pd.read_parquet("people.parquet").assign(sick=True).to_parquet("people.parquet")
    again = refresh("people.parquet", SCHEMA, group="patients", reason="corrected")
    assert again.group == "patients"
    again.count("sick")  # a new question, about new rows
    assert again.budget.spent == b.budget.spent == 2
    again.verify()


# ---- refusals -------------------------------------------------------------------------------


def test_members_have_one_promise_one_unit_one_ledger(folder):
    """What does not fit is refused in words, charges nothing and begins nothing."""
    opened("people").close()
    with pytest.raises(PromiseError, match="queries=11 but the group has queries=10"):
        opened("visits", queries=11)
    with pytest.raises(PromiseError, match="guarantee='dp' but the group has guarantee='beliefs'"):
        opened("visits", guarantee="dp")
    unit = SCHEMA | {"unit": {"column": "id", "max_rows": 1}}
    with pytest.raises(PromiseError, match="subject"):
        opened("visits", schema=unit)
    with pytest.raises(Refused, match="cannot leave"):
        opened("people", ledger="elsewhere.ledger")
    with pytest.raises(PromiseError, match="audited table cannot join"):
        opened("visits", mode="audited", independent_rows=True)
    with pytest.raises(Refused, match="want a name"):
        opened("visits", group="a/b")
    with pytest.raises(Refused, match="say where"):
        sulq.open(pd.read_parquet("visits.parquet"), SCHEMA, group="patients", **PROMISE)
    assert not (folder / "visits.parquet.ledger").exists()
    assert not (folder / "elsewhere.ledger").exists()


def test_units_are_the_same_column(tmp_path):
    """Two names for a person cannot be told to be the same people."""
    terms = {"promise": {"epsilon": 1.0}, "unit": "person"}
    GroupLedger.open(tmp_path / "g", "patients", terms, 10).close()
    with pytest.raises(SchemaError, match="unit='patient' but the group has unit='person'"):
        GroupLedger.open(tmp_path / "g", "patients", terms | {"unit": "patient"}, 10)
    with pytest.raises(Refused, match="this is the ledger of the group 'patients'"):
        GroupLedger.open(tmp_path / "g", "others", terms, 10)


def test_none_leaves(folder):
    """Opened without its group it is still in it; another group is refused."""
    a, b = opened("people"), opened("visits")
    a.close()
    alone = opened("people", group=None)
    alone.count("sick")
    assert b.budget.remaining == 9
    with pytest.raises(Refused, match="cannot leave"):
        opened("people", group="others")
    assert not (folder / "others.ledger").exists()


def test_spent_together_above_t_cannot_join(folder):
    """Two datasets that spent 6 of 10 each, apart, have broken what a group of 10 would promise."""
    for name in ("people", "visits"):
        alone = opened(name, group=None)
        for i in range(6):
            alone.count(f"sick and id > {i}")
        alone.close()
    opened("people").close()
    with pytest.raises(Refused, match="more than its T together"):
        opened("visits")
    still = opened("visits", group=None)
    assert still.group == ""
    assert still.budget.remaining == 4


def test_a_dataset_open_elsewhere_pays_nothing_beside_its_group(folder):
    """A process that opened it before it joined must open it again."""
    before, members = opened("people", group=None), opened("people")
    with pytest.raises(Refused, match="taken into a group"):
        before.count("sick")
    assert members.budget.spent == 0


def test_a_group_ledger_is_no_dataset_ledger(folder):
    """And the other way round; both are said."""
    opened("people", ledger="clinic.ledger").close()
    with pytest.raises(Refused, match="ledger of the group 'patients'"):
        opened("visits", group=None, ledger="clinic.ledger")
    with pytest.raises(Refused, match="ledger of the dataset 'people'"):
        opened("visits", ledger="clinic.people.ledger")


# ---- damage ---------------------------------------------------------------------------------


def test_an_older_group_ledger_is_noticed(folder):
    """Restored alone, with its mark or without, it has counted less than its datasets charged."""
    a = opened("people")
    a.close()
    for name in ("patients.ledger", ".sulq/patients.ledger.mark"):
        shutil.copy(name, f"{name}.kept")
    a = opened("people")
    a.count("sick")
    a.close()
    for end in ("-wal", "-shm"):
        Path(f"patients.ledger{end}").unlink(missing_ok=True)
    shutil.copy("patients.ledger.kept", "patients.ledger")
    with pytest.raises(LedgerDamaged, match="ends at entry"):
        opened("people")
    shutil.copy(".sulq/patients.ledger.mark.kept", ".sulq/patients.ledger.mark")
    with pytest.raises(LedgerDamaged, match="has counted less"):
        opened("people")


def test_a_group_ledger_that_is_gone_or_changed_stops_its_datasets(folder):
    """Nothing is answered, from a new opening or by a number written over."""
    a = opened("people")
    a.count("sick")
    a.close()
    with sqlite3.connect("patients.ledger") as file:
        file.execute("UPDATE members SET base = 0")
    file.close()
    with pytest.raises(LedgerDamaged, match="table 'members'"):
        opened("people")
    for path in Path().glob("patients.ledger*"):
        path.unlink()
    with pytest.raises(LedgerDamaged, match="gone"):
        opened("people", group=None)


def test_joining_that_a_crash_cut_short_is_finished(folder, monkeypatch):
    """The dataset's chain says it is in; the group hears of it when it is next opened."""
    opened("people").close()
    with monkeypatch.context() as patch:
        patch.setattr(GroupLedger, "join", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            opened("visits")
    visits = sulq.open("visits.parquet", SCHEMA, **PROMISE)  # without the group's name
    assert visits.group == "patients"
    visits.count("sick")
    assert opened("people").budget.spent == 1


def test_older_versions_refuse_a_ledger_in_a_group(folder):
    """Its tables have a version that they do not know: they would not count for the group."""
    a = opened("people")
    a.count("sick")
    with sqlite3.connect("people.parquet.ledger") as file:
        assert file.execute("SELECT version FROM layout").fetchone()[0] > 1000
    file.close()


# ---- said -----------------------------------------------------------------------------------


def test_promise_report_and_budget_say_so(folder):
    """Everyone who reads about one dataset reads that others count too."""
    a, b = opened("people"), opened("visits")
    b.count("sick")
    assert "to the datasets of the group 'patients' together" in str(a.promise)
    assert "a person has at most one row in each" in " ".join(a.promise.explain().split())
    assert "in the group 'patients' (1 in other datasets)" in str(a.budget)
    page = markdown(report(a._ledger))
    assert "All of this is counted over the group 'patients'" in page
    assert "| visits | 1 |" in page
    assert "it joins the group 'patients'" in page
    assert sulq.Promise.from_json(a.promise.to_json()) == a.promise
    assert a.budget.elsewhere == Fraction(1)


def test_new_periods_are_refused_before_rows_are_written(folder):
    """Otherwise the source has rows that the ledger does not know, and nothing is answered."""
    months = {"month": {"values": ["jan", "feb"], "public": True}, "sick": {"type": "boolean"}}
    declared = {"columns": months, "period": {"column": "month"}}
    pd.DataFrame({"month": ["jan"] * 9, "sick": True}).to_parquet("monthly.parquet")
    with opened("monthly", schema=declared) as db:
        with pytest.raises(sulq.Refused, match="a dataset of a group takes no new periods"):
            db.append(pd.DataFrame({"month": ["feb"], "sick": True}))
        db.count("sick")
    assert len(pd.read_parquet("monthly.parquet")) == 9

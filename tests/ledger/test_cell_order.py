"""Cells are numbered by public columns in their declared order, however a ledger sorts names."""

import pandas as pd
import pytest

import sulq
from sulq.ledger import claims
from sulq.open_database import append, refresh
from sulq.report import budget_of

pytestmark = pytest.mark.filterwarnings("ignore:queries=.*one count is off by")
MONTHS, REGIONS = ["jan", "feb", "mar"], ["south", "north"]


def schema(*public, period=True):
    columns = {"id": {"key": True}, "sick": {"type": "boolean"}}
    columns |= {
        name: {"values": MONTHS if name == "month" else REGIONS, "public": True} for name in public
    }
    return {"columns": columns} | ({"period": {"column": "month"}} if period else {})


def rows(month):
    at = 10 * MONTHS.index(month)
    return pd.DataFrame({"id": range(at, at + 2), "month": month, "area": REGIONS, "sick": True})


@pytest.fixture
def source(tmp_path):
    rows("jan").to_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def opened(source, declared):
    return sulq.open(
        source, declared, epsilon=5.0, queries=4, ledger=source.with_name("t.ledger")
    )  # fmt: skip


def spent(db):
    """By month and area, in whole queries, where there is something."""
    cells = db.budget_by_cell()
    return {(c["month"], c["area"]): int(c["spent"]) for c in cells if c["spent"]}


def everybody(month, much):
    return {(month, area): much for area in (*REGIONS, None)}


NOBODY = everybody(None, 1)  # rows of no declared month pay for what is asked of all


@pytest.mark.parametrize("public", [("month", "area"), ("area", "month")])
def test_every_row_of_an_open_period_pays(source, public):
    """A question of all rows is charged to each area of the open months, also after an append."""
    with opened(source, schema(*public)) as db:
        db.count("sick")
        assert spent(db) == everybody("jan", 1) | NOBODY
        db.running("count(*)", "sick")
        assert spent(db) == everybody("jan", 2) | NOBODY
    with append(source, rows("feb"), ledger=source.with_name("t.ledger")) as db:
        reserved = {(c["month"], c["area"]): c["spent"] for c in db.budget_by_cell()}
        assert all(0 < reserved["feb", area] < 1 for area in (*REGIONS, None))
        db.count("sick and month = 'feb' and area = 'north'")
        told = {tuple(c["cell"][n] for n in ("month", "area")): c["spent_micro"]
                for c in budget_of(db._ledger)["cells"]}  # fmt: skip
        assert [told["jan", a] for a in REGIONS] == [2_000_000] * 2
        assert told["feb", "north"] == told["feb", "south"] + 1_000_000
    with opened(source, schema(*public)) as db:
        db.count("sick and month = 'jan'")
        db.count("not sick and month = 'jan'")
        for area in REGIONS:
            with pytest.raises(sulq.BudgetExceeded):
                db.count(f"sick is null and month = 'jan' and area = '{area}'")


def test_another_order_of_columns_is_refused(source):
    """What was spent on one cell would become another's."""
    with opened(source, schema("month", "area", period=False)) as db:
        db.count("sick and month = 'jan' and area = 'north'")
    with pytest.raises(sulq.errors.SchemaError, match="spent by month, area"):
        opened(source, schema("area", "month", period=False))
    with opened(source, schema("month", "area", period=False)) as db:
        assert spent(db) == {("jan", "north"): 1}


def test_a_refresh_keeps_the_order(source):
    """With the schema or without it; the same rows keep their cells."""
    declared = schema("month", "area", period=False)
    with opened(source, declared) as db:
        db.count("sick and month = 'jan' and area = 'north'")
    for given in (declared, None):
        with refresh(source, given, ledger=source.with_name("t.ledger")) as db:
            assert spent(db) == {("jan", "north"): 1}
    with opened(source, declared) as db:
        assert spent(db) == {("jan", "north"): 1}


def test_an_older_ledger_does_not_say_and_everybody_carries_the_highest(source, monkeypatch):
    """Whether the same rows kept their cells is not known then."""
    declared = schema("month", "area", period=False)
    with monkeypatch.context() as older:
        older.setattr(claims, "cell_order", lambda schema: [])
        with opened(source, declared) as db:
            db.count("sick and month = 'jan' and area = 'north'")
    with opened(source, declared) as db:
        assert spent(db) == {("jan", "north"): 1}
    for given in (None, declared):
        with refresh(source, given, ledger=source.with_name("t.ledger")) as db:
            assert len(spent(db)) == 12
        opened(source, declared).close()
    with pytest.raises(sulq.errors.SchemaError, match="List them in that order"):
        opened(source, schema("area", "month", period=False))

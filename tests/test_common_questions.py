"""Median, std, corr, means by groups, describe: the SELECT that each one is, here and remote."""

import csv
import io

import pyarrow as pa
import pytest
from helpers import opened

import sulq

SCHEMA = {
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 100, "nullable": False},
        "income": {"type": "number", "low": 0, "high": 200},
        "smoker": {"type": "boolean", "nullable": False},
        "region": {"values": ["north", "south"], "public": True},
    }
}
ROWS = pa.table(
    {
        "age": list(range(10, 90)) * 50,
        "income": [2.0 * x for x in range(10, 90)] * 50,
        "smoker": [True, False] * 2000,
        "region": ["north"] * 1000 + ["south"] * 3000,
    }
)


@pytest.fixture(scope="module")
def db():
    return opened(ROWS, SCHEMA, name="people", queries=100)


@pytest.mark.parametrize(
    ("ask", "sql"),
    [
        (lambda db: db.median("age"), "select median(age) from people"),
        (lambda db: db.std("age", "smoker"), "select stddev(age) from people where smoker"),
        (lambda db: db.corr("age", "income"), "select corr(age, income) from people"),
        (
            lambda db: db.mean("income", by="region"),
            "select region, avg(income) from people group by region",
        ),
        (
            lambda db: db.median("age", "smoker", by=["region"]),
            "select region, median(age) from people where smoker group by region",
        ),
        (lambda db: db.mean("age"), "select avg(age) from people"),
    ],
)
def test_each_is_the_question_that_its_select_is(db, ask, sql):
    """Asked one way it is free the other way."""
    ask(db)
    spent = db.budget.spent
    assert db.unpaid(db.question(sql)) == 0
    db.sql(sql)
    assert db.budget.spent == spent


def test_without_noise_they_are_right(db):
    """To what a grid and a histogram leave."""
    assert float(db.median("age")) == pytest.approx(49.5, abs=1)
    assert float(db.std("age")) == pytest.approx(23.09, abs=0.05)
    assert float(db.corr("age", "income")) == pytest.approx(1.0, abs=0.01)
    by = {row["region"]: row["mean"] for row in db.mean("age", by="region")}
    assert by["north"] == pytest.approx(sum(ROWS["age"].to_pylist()[:1000]) / 1000)
    low, high = db.median("age").interval()
    assert low <= db.median("age").value <= high
    assert "price 1 query" in str(db.median("age"))


def test_what_is_no_expression_is_refused_before_it_is_paid(db):
    """Nothing can be put beside an aggregate through its name."""
    before = db.budget.spent
    wrong = [
        lambda: db.median("age), sum(income"),
        lambda: db.median("nothing"),
        lambda: db.std(5),
        lambda: db.corr("age", "income) from people --"),
        lambda: db.mean("age", by="region, smoker"),
        lambda: db.mean("age", by=[]),
        lambda: db.mean("age", "smoker group by region", by="region"),
        lambda: db.mean("age", by="region", error=5),
        lambda: db.median("smoker"),
    ]
    for ask in wrong:
        with pytest.raises(sulq.QueryNotAllowed):
            ask()
    assert db.budget.spent == before


def test_describe_has_every_number(db):
    """One row each, for the price that was named; asked again it is free."""
    price, before = db.describe_price(), db.budget.spent
    table = db.describe()
    assert table["column"] == ["age", "income"]
    assert table["mean"][0] == pytest.approx(49.5)
    assert table["std"][1] == pytest.approx(46.2, abs=0.5)
    assert [n for n in table.columns if "_" not in n] == [
        "column", "mean", "std", "q25", "median", "q75",
    ]  # fmt: skip
    assert table.price.micro == price.micro
    assert db.budget.spent - before <= price.queries
    spent = db.budget.spent
    db.describe()
    assert db.budget.spent == spent


def test_describe_is_asked_whole_or_not_at_all():
    """Where its price is more than what is left nothing is charged."""
    db = opened(ROWS, SCHEMA, queries=4, epsilon=3.0)
    assert db.describe_price().queries > 4
    with pytest.raises(sulq.BudgetExceeded):
        db.describe()
    assert db.budget.spent == 0
    nothing = opened(ROWS.select(["smoker"]), {"columns": {"smoker": {"type": "boolean"}}})
    with pytest.raises(sulq.QueryNotAllowed, match="profile"):
        nothing.describe()


def test_a_table_is_written_as_csv(db, tmp_path):
    """With all digits, a header, and empty where nothing is known."""
    table = db.mean("age", by="region")
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["region"] for row in rows] == table["region"]
    assert [float(row["mean"]) for row in rows[:2]] == table["mean"][:2]
    assert rows[2]["mean"] == ""  # nobody is in that group
    assert table.to_csv(tmp_path / "t.csv") is None
    assert (tmp_path / "t.csv").read_text() == table.to_csv()
    odd = opened(pa.table({"t": ["a,b", 'c"d']}), {"columns": {"t": {"values": ["a,b", 'c"d']}}})
    again = list(csv.DictReader(io.StringIO(odd.histogram("t").to_csv())))
    assert [row["t"] for row in again][:2] == ["a,b", 'c"d']


def test_a_rehearsal_says_so_everywhere():
    """Whatever it is asked."""
    tried = sulq.rehearsal(SCHEMA, rows=4000)
    found = [tried.median("age"), tried.describe(), tried.mean("age", by="region"), tried.count()]
    assert all(each.note.startswith("rehearsal") for each in found)

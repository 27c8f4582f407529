"""CUBE, ROLLUP and GROUPING SETS: every grouping's rows in one table, counts asked together."""

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq

SCHEMA = {
    "columns": {
        "kind": {"values": ["x", "y"], "nullable": False},
        "flag": {"type": "boolean"},
        "age": {"type": "integer", "low": 0, "high": 9, "nullable": False},
        "region": {"values": ["north", "south"], "public": True},
    }
}


def rows(n=300):
    pick = np.random.default_rng(4)
    return pa.table(
        {
            "kind": pick.choice(["x", "y"], n),
            "flag": pick.random(n) < 0.4,
            "age": pick.integers(0, 10, n),
            "region": pick.choice(["north", "south"], n),
        }
    )


@pytest.fixture(params=["beliefs", "dp"])
def db(request):
    with opened(rows(), SCHEMA, guarantee=request.param, name="t") as found:
        yield found


def groups(table, *numbers):
    """A row's keys -> its numbers."""
    return {
        tuple(row[k] for k in table.by): tuple(round(row[n], 6) for n in numbers) for row in table
    }


@pytest.mark.parametrize(
    ("several", "sets"),
    [
        ("cube (kind, flag)", [("kind", "flag"), ("kind",), ("flag",), ()]),
        ("rollup (kind, flag)", [("kind", "flag"), ("kind",), ()]),
        ("grouping sets ((kind, flag), flag, ())", [("kind", "flag"), ("flag",), ()]),
        ("kind, rollup (2)", [("kind", "flag"), ("kind",)]),
        ("rollup ((kind, flag))", [("kind", "flag"), ()]),
        ("grouping sets (cube (kind), flag, flag)", [("kind",), (), ("flag",)]),
    ],
)
def test_every_grouping_has_the_rows_it_has_alone(db, several, sets):
    """Without noise: the rows of each GROUP BY, '(all)' for keys it has not."""
    table = db.sql(f"select kind, flag, count(*) as n from t group by {several}")
    expected = {}
    for keys in sets:
        listed = ", ".join([*keys, "count(*) as n"])
        group = f" group by {', '.join(keys)}" if keys else ""
        for row in db.sql(f"select {listed} from t{group}"):
            place = tuple(row.get(k, "(all)") for k in ("kind", "flag"))
            expected[place] = (round(row["n"], 6),)
    assert table.by == ("kind", "flag")
    assert groups(table, "n") == expected


def test_counts_cost_less_than_each_grouping(db):
    """A cube is one question, priced together; one charge."""
    asked = "select kind, flag, age, count(*) from t group by cube (kind, flag, age)"
    alone = [
        f"select {', '.join(keys)}, count(*) from t group by {', '.join(keys)}"
        for keys in (["kind"], ["flag"], ["age"], ["kind", "flag"], ["kind", "age"],
                     ["flag", "age"], ["kind", "flag", "age"])
    ]  # fmt: skip
    price = db.price(asked)
    assert price.queries < 0.6 * sum(db.price(s).queries for s in alone)
    table = db.sql(asked)
    assert db.budget.spent == price.queries == table.price.queries
    assert len(db.history()) == 1


@pytest.mark.usefixtures("every_number")
def test_other_aggregates_are_asked_grouping_by_grouping(db):
    """Means have no residuals; the rows are those of each statement, and so is the price."""
    asked = "select kind, count(*) as n, avg(age) as age from t group by rollup (kind)"
    parts = ["select kind, count(*), avg(age) from t group by kind", "select avg(age) from t"]
    assert db.price(asked).queries == sum(db.price(s).queries for s in parts)
    found = groups(db.sql(asked), "n", "age")
    assert found["(all)",][0] == 300
    assert found["x",][0] + found["y",][0] == 300


def test_private_rows_and_public_keys(db):
    """With a private WHERE the grand total has noise too; public keys are keys like others."""
    table = db.sql("select region, kind, count(*) as n from t where flag group by cube (1, 2)")
    found = groups(table, "n")
    assert found["(all)", "(all)"] == (round(db.count("flag").value, 6),)
    assert found["north", "(all)"] == (round(db.count("flag and region = 'north'").value, 6),)
    assert "n" not in table.exact


def test_having_order_and_limit_work_on_all_rows(db):
    """They see the rows of every grouping."""
    asked = "select kind, age, count(*) as n from t group by cube (kind, age)"
    everything = db.sql(asked)
    largest = db.sql(f"{asked} order by n desc, kind limit 3")
    assert largest["n"] == sorted(everything["n"], reverse=True)[:3]
    assert largest["kind"][0] == largest["age"][0] == "(all)"
    many = db.sql(f"{asked} having count(*) > 100 order by kind desc")
    assert len(many) == sum(x > 100 for x in everything["n"])
    assert many["kind"][-1] == "(all)"
    assert db.sql(f"{asked} order by count(*)")["n"] == sorted(everything["n"])
    assert len(db.history()) == 1


def test_a_value_that_looks_like_all_is_refused():
    """'(all)' would mean two things."""
    schema = {"columns": {"kind": {"values": ["x", "(all)"]}}}
    with opened(pa.table({"kind": ["x"] * 5}), schema, name="t") as db:
        with pytest.raises(sulq.QueryNotAllowed, match="another name"):
            db.sql("select kind, count(*) from t group by rollup (kind)")
        with pytest.raises(sulq.QueryNotAllowed, match="256"):
            db.price(f"select count(*) from t group by cube ({', '.join(['kind'] * 9)})")

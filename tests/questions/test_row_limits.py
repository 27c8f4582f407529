"""Rows and values of a person that do not count: said beside every number, by public facts."""

import warnings

import psycopg
import pyarrow as pa
import pytest
from scripted_agent import over
from server.console.page_client import PageClient, hidden, plain
from server.pgwire.wired import wired

import sulq
from sulq.mcp.local_databases import LocalDatabases
from sulq.spending_limit import SpendingLimit

COLUMNS = {
    "visit": {"key": True},
    "person": {"type": "integer"},
    "cost": {"type": "number", "low": 0, "high": 300, "nullable": False},
    "change": {"type": "integer", "low": -2, "high": 2, "nullable": False},
    "ward": {"values": ["a", "b", "c"], "public": True},
    "severe": {"type": "boolean"},
}
SCHEMA = {"columns": COLUMNS, "unit": {"column": "person", "max_rows": 8}}
ROWS_LEFT_OUT = "each person counts with at most 8 rows"
MOVED = "count(*) of a person: values outside [0, 8] are moved to the nearest end"
VISITS = "select avg(n) as n from (select person, count(*) as n from people group by person)"


def visits(each=25):
    """Forty people with as many rows each."""
    return pa.Table.from_pylist([
        {"visit": i, "person": i % 40, "cost": i % 9.0, "change": i % 5 - 2, "ward": "abc"[i % 3],
         "severe": i % 2 == 0}
        for i in range(40 * each)
    ])  # fmt: skip


@pytest.fixture(scope="module")
def db():
    return opened(visits())


def opened(rows, schema=SCHEMA):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sulq.open(rows, schema, name="people", epsilon=1.0, queries=100_000)


def of_people(feature, where=""):
    return f"select avg(n) as n from (select person, {feature} as n from people {where} group by 1)"


@pytest.mark.parametrize(
    "text",
    [
        "select count(*) from people",  # public and exact: of the rows that count
        "select count(*) as n from people where severe",
        "select avg(cost) as n from people",
        "select ward, count(*) from people group by ward",
        "select median(cost) as n from people",
        "select count(distinct person) as n from people where severe",
    ],
)
def test_rows_beyond_the_limit_are_said_to_be_left_out(db, text):
    """Of every number about rows, in print and as JSON."""
    found = db.sql(text)
    assert ROWS_LEFT_OUT in found.note
    assert ROWS_LEFT_OUT in str(found)
    assert ROWS_LEFT_OUT in found.to_json()["note"]


@pytest.mark.parametrize(
    ("feature", "moved"),
    [
        ("count(*)", MOVED),
        ("least(count(*), 8)", MOVED),  # the same question
        ("sum(cost)", "sum(cost) of a person: values outside [0, 2,400] are"),
        ("sum(change)", "sum(change) of a person: values outside [-16, 16] are"),
        ("greatest(sum(change), -3)", "sum(change) of a person: values outside [-3, 16] are"),
        ("sum(cost) / count(*)", MOVED),
    ],
)
def test_a_range_that_the_limit_sets_is_said(db, feature, moved):
    """It is narrower than what the rows of a person may come to."""
    assert moved in db.sql(of_people(feature)).note


@pytest.mark.parametrize(
    "feature",
    [
        "least(count(*), 40)", "least(greatest(sum(change), -3), 3)", "least(sum(cost), 900)",
        "max(cost)", "avg(cost)", "count(distinct ward)", "first(cost order by visit)",
    ],
)  # fmt: skip
def test_nothing_is_said_where_a_plain_database_says_the_same(db, feature):
    """A range that the statement says itself, and aggregates that cannot leave theirs."""
    note = db.sql(of_people(feature)).note
    assert "of a person" not in note
    assert ROWS_LEFT_OUT not in note


def test_people_are_all_counted(db):
    """A question about people is of all their rows."""
    assert db.sql("select count(distinct person) as n from people").note == ""
    people = "(select person from people where ward = 'a' group by person)"
    assert db.sql(f"select count(*) as n from {people}").note == ""
    assert db.per_person({"worst": "max(cost)"}).count("worst > 3").note == ""


def test_the_calls_of_the_library_say_it_too(db):
    """Answers, lists of them, and tables by name."""
    people = db.per_person({"n": "count(*)", "worst": "max(cost)"})
    assert MOVED in people.mean("n").note
    assert MOVED in people.mean("n").to_json()["note"]
    assert MOVED not in people.mean("worst").note  # a feature that this question does not use
    assert ROWS_LEFT_OUT in str(db.mean("cost"))
    assert ROWS_LEFT_OUT in str(db.count("severe"))
    assert all(ROWS_LEFT_OUT in each.note for each in db.ask([sulq.Query(), sulq.Query(by="ward")]))
    tables = db.ask(sulq.Marginals(["ward", "severe"], 1))
    assert [t.note.count(ROWS_LEFT_OUT) for t in tables.values()] == [1, 1]


def test_without_a_limit_nothing_is_said():
    """Each row a person of its own."""
    db = opened(visits(2), {"columns": COLUMNS})
    assert db.count("severe").note == ""
    assert "each person" not in db.sql("select avg(cost) as n from people").note


def test_the_note_is_the_same_whatever_the_rows_are():
    """People with one row each, and with many."""
    for text in (VISITS, "select count(*) as n from people where severe"):
        few, many = (opened(visits(each)).sql(text).note for each in (1, 30))
        assert few == many != ""


def test_tables_and_periods_each_have_their_limit():
    """The events of the tables that a question is about; rows a period, in the first of them."""
    tables = {
        "patients": pa.table({"person": list(range(50)), "age": [i % 90 for i in range(50)]}),
        "events": pa.table({"event": list(range(200)), "person": [i % 50 for i in range(200)]}),
        "labs": pa.table({"lab": list(range(90)), "person": [i % 50 for i in range(90)]}),
    }
    age = {"type": "integer", "low": 0, "high": 99, "nullable": False}
    star = {
        "unit": {"column": "person"},
        "tables": {
            "patients": {"columns": {"age": age}},
            "events": {"max_rows": 3, "columns": {"event": {"key": True}}},
            "labs": {"max_rows": 1, "columns": {"lab": {"key": True}}},
        },
    }
    clinic = opened(tables, star)
    assert clinic.sql("select count(*) from patients where age > 40").note == ""
    joined = "join patients using (person) where age > 40"
    found = [clinic.sql(f"select count(*) from {t} {joined}").note for t in ("events", "labs")]
    assert found == [
        f"each person counts with at most {n}" for n in ("3 rows of events", "1 row of labs")
    ]
    assert "[0, 3]" in clinic.per_person({"n": "count(event)"}).mean("n").note
    own = "sum(age) filter (where sulq_table = 'patients')"
    assert "of a person" not in clinic.per_person({"n": own}).mean("n").note

    month = {"values": [*range(1, 10)], "public": True}
    months = [i % 6 + 1 for i in range(1000)]
    schema = {
        "columns": COLUMNS | {"month": month},
        "unit": {"column": "person", "max_rows": 2, "max_periods": 3},
        "period": {"column": "month"},
    }
    noted = opened(visits().append_column("month", pa.array(months)), schema).count("severe").note
    assert noted == "each person counts with at most 2 rows a period, in their first 3 periods"


def test_every_door_says_it(tmp_path):
    """Over HTTP, in the console, as a notice of PostgreSQL, and to an agent."""
    terms = {"table": visits(), "schema": SCHEMA, "queries": 100_000}
    with wired(tmp_path / "instance", **terms) as served:
        remote = sulq.connect(served.url, served.keys["bob"], "people")
        assert MOVED in str(remote.sql(VISITS))
        assert ROWS_LEFT_OUT in remote.mean("cost").note
        body = {"sql": VISITS}
        table = served.call("POST", "/v1/datasets/people/sql", body).json["table"]
        assert MOVED in table["note"]

        bob, home = PageClient(served, "bob"), "/console/datasets/people"
        fields = {"kind": "sql", "sql": VISITS}
        seen = bob.post(f"{home}/preview", fields)
        fields |= {"request": hidden(seen, "request"), "price": hidden(seen, "price")}
        page = bob.get(bob.post(f"{home}/pay", fields).headers["location"])
        assert "values outside [0, 8] are moved to the nearest end" in plain(page)

        heard = []
        with served.connect() as connection:
            connection.add_notice_handler(lambda said: heard.append(said.message_primary))
            connection.execute("set sulq.spend = 900")
            connection.execute("select count(*) from people where not severe")
            with pytest.raises(psycopg.Error):
                connection.execute("select person from people")  # the connection lives on
        assert any(ROWS_LEFT_OUT in said for said in heard)

    local = LocalDatabases({"people": opened(visits())}, SpendingLimit(900, ""))
    agent = over(local)
    agent.request("initialize", protocolVersion="2025-06-18", capabilities={})
    token = agent.call("price", dataset="people", sql=VISITS)["price_token"]
    assert MOVED in agent.call("ask", dataset="people", sql=VISITS, price_token=token)["note"]

"""One row for each person: every engine's integers, and what plain DuckDB says of the same rows."""

from __future__ import annotations

import datetime
import math
import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from engines.people_statements import EVERY_KIND, MOST, SCHEMA, event, events, statements, table_of
from engines.test_unit import furthest, sources
from helpers import ENGINES, opened
from soak import times

import sulq
from sulq.planner import Planner
from sulq.values.schema import Schema

PEOPLE = "select person, count(*) as visits, max(sev) as worst from events group by person"


def planner(guarantee="beliefs", noise="gaussian"):
    promise = sulq.Promise(1.0, queries=100, guarantee=guarantee, noise=noise)
    return Planner(Schema.load(SCHEMA), promise, "geometry", "events", None)


def checked_all(asked, **promise):
    """Every query that these statements ask, public ones too."""
    made = planner(**promise)
    return [c for text in asked for c in made.question(text).checked]


@pytest.mark.parametrize("engine", ENGINES)
def test_statements_say_what_plain_duckdb_says(engine):
    """Random features, conditions and groups: without noise, the numbers of plain SQL."""
    some = events(1)
    db = opened(table_of(some), SCHEMA, name="events", engine=engine, queries=10**9)
    rows = table_of(some)
    connection = duckdb.connect()
    connection.register("events", rows)
    for (ours, plain), group in statements(7, times(40, 300)):
        found = db.sql(ours)
        right = connection.sql(plain).to_arrow_table().to_pylist()
        names = [n for n in found.columns if not n.endswith(("_low", "_high"))]
        wanted = {row.get(group): row for row in right}
        labels = found[group] if group else [None]
        for i, label in enumerate(labels):
            row = wanted.pop(None if label == "(other)" else label, {})
            for name in names:
                if name == group:
                    continue
                exact = row.get(name) or 0
                assert found[name][i] == pytest.approx(float(exact), rel=1e-6, abs=1e-5), ours
        assert not any(row["n"] for row in wanted.values()), ours


def test_engines_agree_to_the_last_integer():
    """The same matrices from numpy, DuckDB and PostgreSQL, asked all at once."""
    rows = table_of(events(2))
    asked = checked_all([*EVERY_KIND, *(ours for (ours, _), _ in statements(8, times(60, 300)))])
    found = {name: make(rows, SCHEMA).sums(asked) for name, make in ENGINES.items()}
    for name, matrices in found.items():
        for query, one, right in zip(asked, matrices, found["reference"], strict=True):
            assert one == right, (name, query.text)


def test_people_are_the_same_wherever_their_rows_lie(tmp_path):
    """Parquet, also held in memory, CSV, a DuckDB file, frames, the encoded store."""
    rows = table_of(events(5, 15))
    asked = checked_all([*EVERY_KIND, *(ours for (ours, _), _ in statements(3, 8))])
    places = sources(tmp_path, rows)
    store = sulq.encode(places["parquet"], SCHEMA, tmp_path / "rows.sulq")
    made = {name: ENGINES["duckdb"](place, SCHEMA) for name, place in places.items()}
    made |= {"store": ENGINES["duckdb"](store, SCHEMA), "beside": made["arrow"].beside()}
    made["held"] = ENGINES["duckdb"](places["parquet"], SCHEMA)
    assert made["held"].hold(True)
    wanted = ENGINES["reference"](rows, SCHEMA).sums(asked)
    for name, engine in made.items():
        assert engine.sums(asked) == wanted, name


def test_a_view_joins_people_to_their_events(tmp_path):
    """The owner joins private tables in a DuckDB file; rows of a view are told apart by a key."""
    rows = table_of(events(5, 15))
    with duckdb.connect(str(tmp_path / "star.duckdb")) as connection:
        connection.register("given", rows)
        connection.execute("create table people as select distinct person from given")
        connection.execute("create table visits as select * from given")
        connection.execute(
            "create view joined as select v.* from visits v join people p on v.person is not "
            "distinct from p.person"
        )
        connection.execute("create view keyless as select * exclude (id), 1 as id from visits")
    asked = checked_all(EVERY_KIND)
    view = ENGINES["duckdb"](tmp_path / "star.duckdb", SCHEMA, "joined")
    assert view.sums(asked) == ENGINES["reference"](rows, SCHEMA).sums(asked)
    with pytest.raises(sulq.SchemaError, match="missing or repeated"):
        ENGINES["duckdb"](tmp_path / "star.duckdb", SCHEMA, "keyless")


@pytest.mark.parametrize(
    ("noise", "guarantee"), [("gaussian", "beliefs"), ("gaussian", "dp"), ("laplace", "beliefs")]
)
def test_one_person_moves_an_answer_no_further_than_is_paid(noise, guarantee):
    """All rows of one person change, in number too: below the noise at most what the price says."""
    pick = random.Random(3)
    others = [r for r in events(4, 12) if r["person"] != 0]
    promise = sulq.Promise(1.0, queries=100, noise=noise, guarantee=guarantee)
    texts = [ours for (ours, _), _ in statements(9, times(25, 150))]
    # The person is there before and after in every month, since that is public.
    base = [event(pick, 10_000 + i, 0) | {"month": m} for i, m in enumerate(["jan", "feb", "mar"])]

    def own():
        some = [r | event(pick, r["id"], 0) | {"month": r["month"]} for r in base]
        size = pick.choice([0, 1, 5, 40])
        return some + [event(pick, 20_000 + i, 0) for i in range(size)]

    asked = checked_all(texts, noise=noise, guarantee=guarantee)
    make = ENGINES["duckdb"]
    answers = [make(table_of(others + own()), SCHEMA).sums(asked) for _ in range(times(8, 20))]
    furthest(asked, answers, promise)


def test_a_person_costs_what_a_row_costs():
    """One query for a mean over people, whatever max_rows is; 16 for one over rows with 4 each."""
    db = opened(table_of(events(1)), SCHEMA, name="events")
    assert db.price(f"select avg(visits) from ({PEOPLE})").queries == 1
    assert db.price("select sum(sure) from events").queries == MOST**2
    assert db.price(f"select count(*) from ({PEOPLE})").queries == 0  # who is there is public
    private = "select person, count(*) as n from events where sev > 2 group by person"
    assert db.price(f"select count(*) from ({private})").queries == 1
    view = db.per_person({"visits": "count(*)"})
    assert view.price(sulq.Query(["visits"])).queries == 1
    assert view.price(sulq.Query(by="visits")).queries == 2


def test_python_sql_and_other_names_are_one_question():
    """The same aggregate of the same rows is one question of one ledger, whatever it is called."""
    db = opened(table_of(events(1)), SCHEMA, name="events", quiet=False)
    first = db.per_person({"visits": "count(*)", "worst": "max(sev)"}).sum("visits")
    again = db.per_person({"n": "least(count(*), 4)"}).sum("n")
    assert again.value == first.value
    statements_ = [
        f"select sum(visits) as s from ({PEOPLE})",
        f"with p as ({PEOPLE}) select sum(visits) as s from p",
        "select sum(v) as s from (select person, least(greatest(count(*), 0), 4) as v from events "
        "group by 1) as t",
        "select sum(v) as s from (select person, sum(1) as v from events group by 1) as t",
    ]
    for text in statements_:
        assert db.sql(text)["s"] == [pytest.approx(first.value)]
    assert db.budget.spent == 1
    assert len(db.history()) == 1


def test_who_is_there_is_public_and_how_many_rows_they_have_is_not():
    """n of a view is exact and free; a person's number of rows costs like any other column."""
    some = events(1)
    db = opened(table_of(some), SCHEMA, name="events")
    view = db.per_person({"visits": "count(*)"})
    assert view.rows == len({r["person"] for r in some})
    january = db.per_person({"visits": "count(*)"}, where="month = 'jan'")
    assert january.rows == len({r["person"] for r in some if r["month"] == "jan"})
    assert view.count().price.micro == 0
    assert view.count("visits > 3").price.queries == 1
    assert db.budget.spent == 1


def test_rows_beyond_max_rows_count_inside():
    """max_rows is the default range of a count, not a limit on the rows that features are of."""
    rows = [event(random.Random(i), i, 0) | {"sure": 9 if i == 7 else 1} for i in range(8)]
    db = opened(table_of(rows), SCHEMA, name="events")
    assert db.rows == MOST
    view = db.per_person({"most": "max(sure)", "n": "count(*)", "all": "least(count(*), 100)"})
    assert [view.sum(name).value for name in ("most", "n", "all")] == [9, MOST, 8]


REFUSED = {
    "select ward, count(*) as x from events group by ward": "grouped by 'person' alone",
    "select person, ward, count(*) as x from events group by person, ward": "'person' alone",
    "select person, sev as x from events group by person": "use max(sev)",
    "select person, median(sev) as x from events group by person": "There are count",
    "select person, min(ward) as x from events group by person": "different ways",
    "select person, first(sev) as x from events group by person": "no order of their own",
    "select person, count(distinct cost) as x from events group by person": "declared category",
    "select person, sum(exp(sev)) as x from events group by person": "outside",
    "select person, count(*) as x from events group by person limit 3": "outer SELECT",
    "select person, count(*) from events group by person": "give it a name",
    "select person, least(greatest(count(*), 5), 2) as x from events group by 1": "empty",
    "select p, count(*) as x from (select person as p, count(*) as y from events group by 1) "
    "group by p": "one for each person already",
}


@pytest.mark.parametrize(("inner", "said"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_no_person_can_have_is_refused(inner, said):
    """Each refusal says why, and what is nearest. Nothing is charged."""
    db = opened(table_of(events(1)), SCHEMA, name="events")
    with pytest.raises(sulq.QueryNotAllowed) as refusal:
        db.sql(f"select avg(x) from ({inner})")
    assert said in str(refusal.value)
    assert db.budget.spent == 0


def test_a_table_without_a_unit_has_no_people():
    """Each of its rows is a person, and it says so."""
    plain = {"columns": SCHEMA["columns"]}
    db = opened(table_of(events(1)), plain, name="events")
    with pytest.raises(sulq.QueryNotAllowed, match=r"declares no \[unit\]"):
        db.per_person({"n": "count(*)"})


def test_the_report_reads_such_questions_back():
    """A stored question about people is said in words, and its answer with its error."""
    from sulq.questions.describe import readable
    from sulq.report import answer_parts

    db = opened(table_of(events(1)), SCHEMA, name="events")
    view = db.per_person({"visits": "count(*)"}, where="sev > 2 and month = 'jan'")
    view.count("visits > 1")
    db.sql(f"select avg(worst) from ({PEOPLE})")
    first, second = db.history()
    assert "of people with rows where month = 'jan'" in readable(first.query)
    assert answer_parts(db, first.query) is not None
    assert answer_parts(db, second.query) is not None


def spread_over(mean_rows, people=10_000):
    """Costs of people, some with eight rows and the others with one; and each person's average."""
    luck = np.random.default_rng(6)
    many = round(people * (mean_rows - 1) / 7)
    owners = np.repeat(np.arange(people), np.where(np.arange(people) < many, 8, 1))
    costs = np.minimum(luck.exponential(30, len(owners)), 300)
    rows = pa.table({"id": np.arange(len(owners)), "person": owners, "x": costs})
    return rows, np.bincount(owners, costs) / np.bincount(owners)


def errors_of_means(mean_rows, low=0, top=300):
    """The root mean square errors of a mean over rows and of one over people, for one query each:
    with the declared range, and with one from `low` to `top`.

    No luck: the noise's standard deviation is known, and what a range cuts off is computed.
    """
    rows, own = spread_over(mean_rows)
    declared = {
        "columns": {
            "id": {"key": True}, "person": {"type": "integer"},
            "x": {"type": "number", "low": 0, "high": 300, "nullable": False},
        },
        "unit": {"column": "person", "max_rows": 8},
    }  # fmt: skip
    db, x, found = opened(rows, declared, name="events"), rows["x"].to_numpy(), []
    for a, b in ((0, 300), (low, top)):
        clamped = f"greatest(least(x, {b}), {a})"
        wide = 8 * db.price(sulq.Query([clamped])).half_widths[0]
        today = db.ask(sulq.Query([clamped], error=wide))
        mine = db.per_person({"own": f"greatest(least(avg(x), {b}), {a})"}).mean("own")
        assert [float(a.price.queries) for a in (today, mine)] == pytest.approx([1, 1])
        found += [
            math.hypot(today.std / len(x), x.clip(a, b).mean() - x.mean()),
            math.hypot(mine.std, own.clip(a, b).mean() - own.mean()),
        ]
    return found


@pytest.mark.parametrize(("mean_rows", "gain"), [(1.2, 6.66), (2, 4), (4, 2), (8, 1)])
def test_a_mean_over_people_is_closer_by_the_rows_that_they_lack(mean_rows, gain):
    """max_rows / mean rows, so six times and more where most have one row, and none where
    everybody has eight: docs/howto/people.md has the same figures."""
    through_rows, over_people, *_ = errors_of_means(mean_rows)
    assert through_rows / over_people == pytest.approx(gain, abs=0.01)


def test_averages_have_a_narrower_range_than_rows():
    """Everybody has eight rows: averages from 10 to 50 are more than six times closer than rows
    up to 300, and more than twice as close as rows with whatever range suits them best."""
    through_rows, _, _, over_people = errors_of_means(8, 10, 50)
    assert through_rows / over_people == pytest.approx(6.76, abs=0.01)
    assert min(errors_of_means(8, 0, top)[2] for top in (60, 100, 140)) / over_people > 2.5


BLANK = dict.fromkeys(("month", "sev", "cost", "ward", "day", "urgent", "sure"))
FAR = [
    {"cost": math.inf, "sev": 2**62, "day": datetime.date(9999, 12, 31), "ward": "x" * 999},
    {"cost": -math.inf, "sev": -(2**62), "day": datetime.date(1, 1, 1), "ward": ""},
    {"cost": math.nan, "sev": 0, "sure": 2**62, "month": "nowhere"},
    {"cost": 5e-324, "sev": 3, "urgent": True, "ward": "a"},
]
HARDLY_THERE = {
    "none": [],
    "one": [{"id": 1, "person": 7} | BLANK],
    "nobody's": [{"id": i, "person": None} | BLANK for i in range(3)],
    "all missing": [{"id": i, "person": i % 2} | BLANK for i in range(9)],
    "extremes": [{"id": i, "person": i // 3} | BLANK | FAR[i % 4] for i in range(24)],
    "one person": [{"id": i, "person": 1} | BLANK | FAR[i % 4] for i in range(200)],
}


@pytest.mark.parametrize("rows", HARDLY_THERE.values(), ids=HARDLY_THERE)
def test_rows_that_are_hardly_there(rows):
    """No row, nothing known, values far outside: nothing fails, and engines give one matrix."""
    asked = checked_all([*EVERY_KIND, *(ours for (ours, _), _ in statements(4, times(12, 100)))])
    found = {name: make(table_of(rows), SCHEMA).sums(asked) for name, make in ENGINES.items()}
    for name, matrices in found.items():
        for query, one, right in zip(asked, matrices, found["reference"], strict=True):
            assert one == right, (name, query.text)

"""People joined to their events: every engine's integers, and what plain DuckDB says."""

from __future__ import annotations

import copy
import math
import random
import tomllib
import warnings
from fractions import Fraction

import duckdb
import postgres
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from engines import star_statements as star
from engines.test_unit import furthest
from helpers import ENGINES, SilentNoise
from soak import times

import sulq
from sulq.engines.open_engine import open_engine
from sulq.open_database import refresh
from sulq.planner import Planner
from sulq.sources.source import open_source
from sulq.sources.star_source import star_source
from sulq.values.schema import Schema


def in_postgres(tables, schema=star.SCHEMA):
    """The tables in PostgreSQL, and the schema with what they are called there."""
    named = {}
    for name, body in schema["tables"].items():
        columns = {"columns": body["columns"] | {}}
        stored = postgres.load(tables[body.get("source", name)], Schema.load(columns))
        named[name] = body | {"source": stored}
    return postgres.shared().url("reader"), schema | {"tables": named}


def source_on(engine, tables, schema=star.SCHEMA):
    return in_postgres(tables, schema) if engine == "postgres" else (tables, schema)


def star_database(engine, tables, schema=star.SCHEMA, **settings):
    source, said = source_on(engine, tables, schema)
    how = None if engine == "postgres" else engine
    settings = {"epsilon": 1.0, "queries": 10**9, "ledger": ":memory:"} | settings
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the ledger is in memory")
        warnings.filterwarnings("ignore", message="queries=.*one count is off by")
        db = sulq.open(source, said, engine=how, name="star", **settings)
    db._pipeline.noise = SilentNoise()
    return db


def star_engine(engine, tables, schema=star.SCHEMA):
    source, said = source_on(engine, tables, schema)
    declared = Schema.load(said)
    found = star_source(open_source(source), declared)
    return open_engine(found, declared, None if engine == "postgres" else engine)


def checked_all(texts, schema, noise="gaussian", guarantee="beliefs"):
    promise = sulq.Promise(1.0, queries=100, guarantee=guarantee, noise=noise)
    made = Planner(schema, promise, "geometry", "star", None)
    return [c for text in texts for c in made.question(text).checked]


def compare(db, connection, pairs):
    for (ours, plain), group in pairs:
        found = db.sql(ours)
        wanted = {row.get(group): row for row in connection.sql(plain).to_arrow_table().to_pylist()}
        labels = found[group] if group else [None]
        names = [n for n in found.columns if not n.endswith(("_low", "_high")) and n != group]
        for i, label in enumerate(labels):
            row = wanted.pop(None if label == "(other)" else label, {})
            for name in names:
                exact = float(row.get(name) or 0)
                assert found[name][i] == pytest.approx(exact, rel=1e-6, abs=1e-5), (ours, label)
        assert not any(row["n"] for row in wanted.values()), ours


@pytest.mark.parametrize("engine", ENGINES)
def test_statements_say_what_plain_duckdb_says(engine):
    """Events beside their people, people beside aggregates of events: the numbers of plain SQL."""
    tables = star.tables_of(star.rows_of(1))
    db = star_database(engine, tables)
    compare(db, star.plain_duckdb(tables), star.statements(7, times(40, 300)))


def test_engines_agree_to_the_last_integer():
    """The same matrices from numpy, DuckDB and PostgreSQL."""
    tables = star.tables_of(star.rows_of(2))
    engines = {name: star_engine(name, tables) for name in ENGINES}
    asked = [ours for (ours, _), _ in star.statements(8, times(40, 300))]
    found = {n: e.sums(checked_all(asked, e.schema)) for n, e in engines.items()}
    for name, matrices in found.items():
        assert matrices == found["reference"], name


@pytest.mark.parametrize(
    ("noise", "guarantee"), [("gaussian", "beliefs"), ("gaussian", "dp"), ("laplace", "beliefs")]
)
def test_one_person_moves_an_answer_no_further_than_is_paid(noise, guarantee):
    """A person's row and all their events change, in number too: at most what the price says."""
    pick = random.Random(3)
    rows = star.rows_of(4, 10)
    rows["visits"] = [r for r in rows["visits"] if r["patient"] != 5000]
    promise = sulq.Promise(1.0, queries=100, noise=noise, guarantee=guarantee)

    def twin():
        home = {"home": "n"}  # public, as are the months of the first visits, and who has any
        own = {"people": [star.person_row(pick, 5000) | home]}
        first = [star.visit_row(pick, 90_000 + i, 5000) | {"month": m}
                 for i, m in enumerate(["jan", "feb", "jan"])]  # fmt: skip
        more = pick.choice([0, 1, 20])
        own["visits"] = first + [star.visit_row(pick, 91_000 + i, 5000) for i in range(more)]
        own["orders"] = [star.order_row(pick, 92_000 + i, 5000) for i in range(2 + more)]
        return star.tables_of({name: rows[name] + own[name] for name in rows})

    texts = [ours for (ours, _), _ in star.statements(9, times(30, 300))]
    engines = [star_engine("duckdb", twin()) for _ in range(times(6, 16))]
    asked = checked_all(texts, engines[0].schema, noise, guarantee)
    answers = [engine.sums(asked) for engine in engines]
    worst = furthest(asked, answers, promise)
    assert worst > Fraction(1, 4)  # so the price of half as many rows would not do


def test_a_person_with_two_rows_in_the_table_of_people_is_refused():
    """Their events would count twice; so would people and events without a name of their own."""
    good = star.rows_of(5, 6)
    again = good | {"people": [*good["people"], good["people"][0]]}
    unnamed = good | {"people": [*good["people"], good["people"][0] | {"person": None}]}
    same_key = good | {"orders": [*good["orders"], good["orders"][0]]}
    for engine in ENGINES:
        star_engine(engine, star.tables_of(good))
        for rows in (again, unnamed, same_key):
            with pytest.raises(sulq.SchemaError, match="missing or repeated"):
                star_engine(engine, star.tables_of(rows))


def put(tables, folder):
    """The same tables as CSV, Parquet, and tables of a DuckDB file."""
    for kind in ("csv", "parquet"):
        (folder / kind).mkdir()
    with duckdb.connect(str(folder / "star.duckdb")) as connection:
        for name, table in tables.items():
            pa.csv.write_csv(table, folder / "csv" / f"{name}.csv")
            pa.parquet.write_table(table, folder / "parquet" / f"{name}.parquet")
            connection.register("given", table)
            connection.execute(f"create table {name} as from given")
            connection.unregister("given")
    return [folder / "csv", folder / "parquet", folder / "star.duckdb"]


def test_tables_are_the_same_wherever_they_lie(tmp_path):
    """A folder of CSV or Parquet files, a DuckDB file, frames: the same integers."""
    tables = star.tables_of(star.rows_of(3))
    columns = {"visit": {"type": "integer", "key": True}}
    schema = copy.deepcopy(star.SCHEMA)
    schema["tables"]["visits"]["columns"] |= columns
    schema["tables"]["orders"]["columns"]["number"] = {"type": "integer", "key": True}
    wanted = star_engine("reference", tables, schema)
    texts = [ours for (ours, _), _ in star.statements(5, 12)]
    right = wanted.sums(checked_all(texts, wanted.schema))
    for place in put(tables, tmp_path):
        engine = star_engine("duckdb", place, schema)
        assert engine.sums(checked_all(texts, engine.schema)) == right, place.name
        assert Schema.load(engine.schema.to_json()).digest == engine.schema.digest
        fits = sulq.check_data(place, schema)
        assert {c.name for c in fits.columns} >= {"people.age", "visits.patient", "orders.paid"}
        assert not fits.bad


def test_a_ledger_knows_all_tables(tmp_path):
    """What was spent stays spent; a change of one table stops it until it is refreshed."""
    tables = star.tables_of(star.rows_of(3, 400))
    _, place, _ = put(tables, tmp_path)
    with sulq.open(place, star.SCHEMA, epsilon=9.0, queries=10) as db:
        db.count("age > 40")
        db.sql("select count(*) from visits v join people p on v.patient = p.person where sev > 1")
    with sulq.open(place, star.SCHEMA) as db:
        assert db.budget.spent == 10
        with pytest.raises(sulq.BudgetExceeded):
            db.count("age > 41")
    pa.parquet.write_table(tables["visits"].slice(1), place / "visits.parquet")
    with pytest.raises(sulq.SourceChanged):
        sulq.open(place, star.SCHEMA)
    other = copy.deepcopy(star.SCHEMA)
    other["tables"]["visits"]["column"] = "sev"
    with pytest.raises(sulq.SchemaError, match="whose rows are whose"):
        refresh(place, other)
    with refresh(place, star.SCHEMA, reason="a visit was withdrawn") as db:
        assert db.budget.remaining == 0


@pytest.mark.skipif(not postgres.here(), reason="there is no PostgreSQL")
def test_a_written_table_of_a_server_stops_the_database():
    """An event that appears in one of several tables is a change of them all."""
    rows = star.rows_of(3, 8)
    db = star_database("postgres", star.tables_of(rows))
    db.count("age > 40")
    orders, person = db.schema.star.table("orders").source, rows["people"][0]["person"]
    with postgres.shared().connect("postgres") as connection:
        connection.execute(f"INSERT INTO {orders} VALUES (77777, {person}, 3, true)")
    with pytest.raises(sulq.SourceChanged):
        db.count("age > 41")


def test_a_view_of_a_table_has_the_columns_of_people_too():
    """db.table: its own names, those of people beside them; db itself is about people."""
    rows = star.rows_of(6)
    db = star_database("duckdb", star.tables_of(rows))
    assert db.rows == len(rows["people"])
    visits = db.table("visits")
    names = {r["person"]: r for r in rows["people"]}
    first = sorted((r for r in rows["visits"] if r["patient"] in names), key=lambda r: r["visit"])
    kept = [r for i, r in enumerate(first)
            if sum(o["patient"] == r["patient"] for o in first[:i]) < 3]  # fmt: skip
    assert visits.rows == len(kept)
    old = [r for r in kept if names[r["patient"]]["age"] > 40]
    assert visits.count("age > 40").value == len(old)
    assert visits.mean("score").value == pytest.approx(sum(r["score"] for r in kept) / len(kept))
    text = "select count(*) as n from visits where age > 40"
    spent = db.budget.spent
    assert db.sql(text)["n"] == [len(old)]
    assert db.budget.spent == spent  # one question, whichever way it is asked
    people = db.per_person(
        {"visits": "least(count(visit), 50)", "age": "age", "urgent": "any(urgent)"}
    )
    assert people.rows == db.rows
    assert people.sum("visits").value == len(first)
    inside = visits.per_person({"n": "count(*)", "best": "max(score)"}, where="month = 'jan'")
    assert inside.rows == len({r["patient"] for r in first if r["month"] == "jan"})
    with pytest.raises(sulq.QueryNotAllowed, match=r"Ask db.table\('visits'\)"):
        db.mean("sev")
    with pytest.raises(sulq.QueryNotAllowed, match="there is no such table here, but people"):
        db.table("nothing")
    with pytest.raises(sulq.QueryNotAllowed, match="of which table"):
        db.per_person({"n": "count(*)"})


def test_a_profile_looks_at_every_table():
    """Shares of each table's own rows, and how many rows people have; its draft can be loaded."""
    db = star_database("duckdb", star.tables_of(star.rows_of(6, 300)), queries=4, epsilon=20.0)
    found = db.profile(budget=4)
    assert set(found.rows_each) == {"visits", "orders"}
    assert found["sex"].shares["f"].value == pytest.approx(1 / 3, abs=0.1)
    assert found.rows_each["visits"].range[0] == 1
    draft = Schema.load(tomllib.loads(found.draft()))
    assert draft.star.tables[1].max_rows == 3
    assert [c.name for c in draft.columns] == [c.name for c in db.schema.columns]


BROKEN = [
    (lambda s: s["tables"].pop("visits") and s["tables"].pop("orders"), "want a table of people"),
    (lambda s: s["tables"]["visits"].pop("max_rows"), "one of them is of people"),
    (lambda s: s["tables"]["people"].update(max_rows=3), "fixed by a key"),
    (lambda s: s["tables"]["visits"]["columns"].pop("visit"), "with key = true"),
    (lambda s: s["tables"]["visits"].update(max_rows=0), "from 1 to 1000"),
    (lambda s: s["unit"].update(max_rows=3), r"stands in each of \[tables\]"),
    (lambda s: s.update(columns={}), "each has columns of its own"),
    (lambda s: s["tables"]["visits"].update(other=3), "want a plain name"),
    (lambda s: s.pop("unit"), "want column"),
]


@pytest.mark.parametrize(("broken", "said"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_declaration_is_refused(broken, said):
    """With what is wrong, and how to mend it."""
    schema = copy.deepcopy(star.SCHEMA)
    broken(schema)
    with pytest.raises(sulq.SchemaError, match=said):
        Schema.load(schema)


REFUSED = {
    "select count(*) from visits v join visits w on v.patient = w.patient": "joined to itself",
    "select count(*) from visits v join orders o on v.patient = o.person": "side by side",
    "select count(*) from visits v join people p on v.sev = p.age": "ON v.patient = p.person",
    "select count(*) from people p left join visits v on p.person = v.patient": "rows of their own",
    "select count(*) from visits where patient in (select person from orders)": "has several",
    "select count(*) from people where age in (select sev from visits)": "the person is in it",
    "select count(*) from people p where exists (select 1 from orders)": "the person is in it",
    "select count(*) from people cross join visits": "beside every row",
    "select count(*) from people p full join visits v on p.person = v.patient": "without one here",
    "select count(*) from visits where sulq_key = 3": "no column 'sulq_key'",
    "select count(*) from nowhere": "there are people, visits, orders",
    "select sum(s) from (select p.person, sum(age) as s from people p left join visits v on "
    "p.person = v.patient group by p.person)": "of which table",
    "select sum(s) from (select p.person, count(*) as s from people p left join visits v on "
    "p.person = v.patient group by p.person)": "of which table",
    "select sum(s) from (select p.person, max(sev) as s from people p left join visits v on "
    "p.person = v.patient where sev > 1 group by p.person)": "leave out people",
    "select avg(x) from (select patient, any_value(sev) as x from visits group by 1)": "not said",
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=range(len(REFUSED)))
def test_joins_that_would_multiply_rows_are_refused(text, said):
    """Each refusal says why; nothing is charged."""
    db = star_database("duckdb", star.tables_of(star.rows_of(1, 6)))
    with pytest.raises(sulq.QueryNotAllowed) as refusal:
        db.sql(text)
    assert said in str(refusal.value)
    assert db.budget.spent == 0


def nothing(rows):
    return {name: [] for name in rows}


def only_people(rows):
    return rows | {"visits": [], "orders": []}


def only_events(rows):
    return rows | {"people": []}


def all_missing(rows):
    keep = ("person", "patient", "visit", "number")
    return {
        name: [{k: v if k in keep else None for k, v in r.items()} for r in some]
        for name, some in rows.items()
    }


def one_person(rows):
    own = rows["people"][0]["person"]
    return {
        "people": rows["people"][:1],
        "visits": [r | {"patient": own, "sev": 2**62, "score": math.nan} for r in rows["visits"]],
        "orders": [r | {"person": own, "paid": -math.inf} for r in rows["orders"]],
    }


@pytest.mark.parametrize("made", [nothing, only_people, only_events, all_missing, one_person])
def test_rows_that_are_hardly_there(made):
    """No people, no events, nothing known, values far outside: nothing fails, one matrix."""
    tables = star.tables_of(made(star.rows_of(2, 6)))
    engines = {name: star_engine(name, tables) for name in ENGINES}
    asked = [ours for (ours, _), _ in star.statements(12, times(15, 100))]
    found = {n: e.sums(checked_all(asked, e.schema)) for n, e in engines.items()}
    for name, matrices in found.items():
        assert matrices == found["reference"], name


def test_twins_are_told_apart_by_nothing_but_numbers():
    """Prices, groups, n and refusals are the same whatever one person's rows hold."""
    rows = star.rows_of(8, 12)
    own = rows["people"][0]["person"]
    keep = [r for r in rows["visits"] if r["patient"] != own]
    more = [{"visit": 50_000 + i, "patient": own, "sev": i, "ward": "a", "month": "jan",
             "score": 1.0} for i in range(3)]  # fmt: skip
    twins = [rows | {"visits": keep + [r | {"sev": sev, "ward": ward} for r in more]}
             for sev, ward in ((None, "b"), (5, "never declared"))]  # fmt: skip
    texts = [ours for (ours, _), _ in star.statements(13, 25)]
    texts += ["select sev from visits", "select count(*) from visits join orders using (person)"]

    def seen(some):
        db = star_database("duckdb", star.tables_of(some))
        out = [db.rows, db.table("visits").rows, db.schema.digest]
        for text in texts:
            try:
                table = db.sql(text)
                out.append((table.price, [table[k] for k in table.by], table.exact, db.budget))
            except sulq.Refused as refusal:
                out.append(str(refusal))
        return out

    assert seen(twins[0]) == seen(twins[1])


NAMES = [
    "a", "A", "a ", " a", "", "x" * 5000, "x" * 5000 + "y", "\u00e9", "e\u0301", "ss", "\u00df",
    "0", "00", "nan",
]  # fmt: skip
NAMED = [
    "select count(*) as n from visits v join people p on v.patient = p.person where p.age > 30",
    "select count(*) as n, sum(p.age) as s from people p where p.person in (select patient from "
    "visits where sev > 1)",
    "select sum(c) as s, count(*) as n from (select patient, count(*) as c from visits where sev > "
    "1 group by patient)",
    "select count(*) as n from people p join (select patient, count(*) as c from visits group by "
    "patient having count(*) = 2) t on p.person = t.patient where age > 30",
]


@pytest.mark.parametrize("engine", ENGINES)
def test_names_are_equal_letter_by_letter(engine):
    """Case, spaces, accents and length tell people apart on every engine; two events each."""
    pick = random.Random(1)
    rows = {
        "people": [star.person_row(pick, p) | {"age": 30 + i} for i, p in enumerate(NAMES)],
        "visits": [star.visit_row(pick, i, p) | {"sev": 3}
                   for i, p in enumerate([*NAMES, *NAMES, "nobody", None])],
        "orders": [star.order_row(pick, i, p) for i, p in enumerate(NAMES)],
    }  # fmt: skip
    kinds = copy.deepcopy(star.TYPES)
    kinds["people"]["person"] = kinds["visits"]["patient"] = kinds["orders"]["person"] = pa.string()
    tables = {
        name: pa.table({n: pa.array([r[n] for r in rows[name]], kind) for n, kind in own.items()})
        for name, own in kinds.items()
    }
    schema = star.SCHEMA | {"unit": {"column": "person", "type": "text"}}
    found = star_engine(engine, tables, schema)
    many, ages = len(NAMES), sum(30 + i for i in range(len(NAMES)))
    sums = found.sums(checked_all(NAMED, found.schema))
    flat = sorted(x for matrix in sums for row in matrix for x in row)
    assert flat == sorted([2 * (many - 1), many, ages, many, 2 * many, many - 1])

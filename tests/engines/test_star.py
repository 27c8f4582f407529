"""People joined to their events: every engine's integers, and what plain DuckDB says."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import postgres
import pytest
from engines import star_statements as star
from engines.test_unit import distance
from helpers import ENGINES, SilentNoise
from soak import times

import sulq
from sulq.engines.open_engine import open_engine
from sulq.planner import Planner
from sulq.privacy.pricing import tariff_of
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
    with pytest.warns(UserWarning, match="the ledger is in memory"):
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
    worst = Fraction(0)
    for a, b in itertools.combinations(answers, 2):
        for query, one, other in zip(asked, a, b, strict=True):
            moved = distance(query, (one, other), noise)
            price = tariff_of(query, promise).price.queries
            if guarantee == "dp":  # two rows are each so far from no row
                price *= 4 if noise == "gaussian" else 2
            public = query.where is None and not query.private_cells and moved == 0
            assert public or moved <= price + Fraction(1, 10**6), query.text
            worst = max(worst, moved / price)
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

"""[unit]: one person, many rows. At most max_rows of them count, and all are protected."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from helpers import ENGINES, LOCAL, checked, opened
from soak import SOAK

import sulq
from sulq.privacy.pricing import tariff_of
from sulq.questions.check import check
from sulq.questions.contributions import exact_root
from sulq.sql import compile_statement
from sulq.values.query import People
from sulq.values.schema import Schema

MOST = 3
COLUMNS = {
    "id": {"type": "integer", "key": True},
    "person": {"type": "text"},
    "ward": {"values": ["a", "b", "c"], "public": True},
    "slot": {"type": "integer", "low": 0, "high": 999, "nullable": False},
    "urgent": {"type": "boolean"},
    "days": {"type": "integer", "low": 0, "high": 30},
    "cost": {"type": "number", "low": -5, "high": 10},
}


def schema(most=MOST, *, key=True, **changed):
    columns = {n: d for n, d in (COLUMNS | changed).items() if key or n != "id"}
    return {"columns": columns, "unit": {"column": "person", "max_rows": most}}


def rows(count=200, seed=2):
    """Some people have one row, some many, some rows belong to nobody."""
    pick = random.Random(seed)
    ids = pick.sample(range(10 * count), count)
    return [
        {
            "id": ids[i],
            "person": pick.choice(
                [None, "p0", "p1", *(f"p{pick.randrange(70)}" for _ in range(9))]
            ),
            "ward": pick.choice(["a", "a", "b", None]),
            "slot": i,
            "urgent": pick.choice([True, False, None]),
            "days": pick.choice([None, 0, 30, pick.randint(0, 30)]),
            "cost": pick.choice([None, -5.0, 10.0, pick.uniform(-5, 10)]),
        }
        for i in range(count)
    ]


TYPES = {
    "id": pa.int64(), "person": pa.string(), "ward": pa.string(), "slot": pa.int64(),
    "urgent": pa.bool_(), "days": pa.int64(), "cost": pa.float64(),
}  # fmt: skip


def table_of(some):
    return pa.table({n: pa.array([r[n] for r in some], kind) for n, kind in TYPES.items()})


def kept(some, most=MOST, order="id"):
    """The rows that count, by plain Python: the first of each person, by key or by place."""
    out, seen = [], {}
    for row in sorted(some, key=lambda r: r[order]):
        seen[row["person"]] = seen.get(row["person"], 0) + 1
        if seen[row["person"]] <= most:
            out.append(row)
    return out


def slots(engine):
    """Which rows count: slot numbers them by place."""
    (found,) = engine.sums(checked([sulq.Query(by="slot")], engine))
    return [i for i, (count,) in enumerate(found) if count]


# --- which rows count ---------------------------------------------------------------------


def refused_without_key(make_engine, key):
    """A table on a server has no order but a key's, and says so."""
    if key or make_engine.engine != "postgres":
        return False
    with pytest.raises(sulq.SchemaError, match="fixed by a key, and a table's rows have no other"):
        make_engine(table_of(rows()), schema(key=False))
    return True


@pytest.mark.parametrize("most", [1, 2, 5, 1000])
@pytest.mark.parametrize("key", [True, False])
def test_at_most_max_rows_of_a_person_count(make_engine, most, key):
    """The first of each person by key, or by place where there is none; n counts only them."""
    some = rows()
    if refused_without_key(make_engine, key):
        return
    engine = make_engine(table_of(some), schema(most, key=key))
    wanted = sorted(r["slot"] for r in kept(some, most, "id" if key else "slot"))
    assert slots(engine) == wanted
    assert engine.rows == len(wanted)
    (count,) = engine.sums(checked([sulq.Query()], engine))
    assert count == [[len(wanted)]]


@pytest.mark.parametrize("key", [True, False])
def test_the_choice_does_not_depend_on_values(make_engine, key):
    """Whatever the other columns hold, shuffled or constant, the same rows count."""
    some = rows()
    if refused_without_key(make_engine, key):
        return
    wanted = slots(make_engine(table_of(some), schema(key=key)))
    pick = random.Random(1)
    for _ in range(4):
        for name in ("ward", "urgent", "days", "cost"):
            values = [r[name] for r in some]
            pick.shuffle(values)
            some = [r | {name: v} for r, v in zip(some, values, strict=True)]
        assert slots(make_engine(table_of(some), schema(key=key))) == wanted
    blank = [r | {"ward": None, "urgent": None, "days": None, "cost": None} for r in some]
    assert slots(make_engine(table_of(blank), schema(key=key))) == wanted


def sources(folder, table):
    """The same rows in every kind of place."""
    pyarrow.parquet.write_table(table, folder / "rows.parquet", row_group_size=37)
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.register("given", table)
        connection.execute("create table rows as select * from given")
    return {
        "arrow": table,
        "pandas": table.to_pandas(),
        "parquet": folder / "rows.parquet",
        "csv": folder / "rows.csv",
        "duckdb": folder / "rows.duckdb",
    }


QUESTIONS = [
    sulq.Query(by="slot"),
    sulq.Query(["1", "days", "cost"], by="ward"),
    sulq.Query(["days"], where="urgent"),
    sulq.Query(People(), by="urgent"),
    sulq.Query(People(), where="days > 10"),
    sulq.Query(People(), by=("ward", "urgent"), where="cost is not null"),
]


@pytest.mark.parametrize("key", [True, False])
def test_the_same_rows_count_wherever_they_lie(tmp_path, key):
    """Parquet, CSV, DuckDB file, frames, the encoded store, both engines: equal integers."""
    declared = schema(key=key)
    places = sources(tmp_path, table_of(rows()))
    if not key:
        del places["csv"]
    made = sulq.encode(places["parquet"], declared, tmp_path / "rows.sulq")
    found = {
        (name, engine): ENGINES[engine](place, declared)
        for name, place in places.items()
        for engine in (ENGINES if key else LOCAL)
    }
    found |= {("store", engine): LOCAL[engine](made, declared) for engine in LOCAL}
    first, *others = (e.sums(checked(QUESTIONS, e)) for e in found.values())
    assert first[0] != [[1]] * 200 + [[0]] * 800  # somebody is limited
    for name, other in zip(list(found)[1:], others, strict=True):
        assert other == first, name


def test_equal_keys_are_told_apart_by_place(make_engine):
    """A key that repeats still gives a fixed choice, the first in the file; a table refuses it."""
    some = [r | {"id": 7} for r in rows()]
    if make_engine.engine == "postgres":
        with pytest.raises(sulq.SchemaError, match="missing or repeated in some rows"):
            make_engine(table_of(some), schema())
        return
    wanted = sorted(r["slot"] for r in kept(some, MOST, "slot"))
    assert all(slots(make_engine(table_of(some), schema())) == wanted for _ in range(3))


def test_a_csv_needs_a_key_for_it(tmp_path):
    """The lines of a CSV have no number: without a key, or with a poor one, it is refused."""
    places = sources(tmp_path, table_of(rows()))
    with pytest.raises(sulq.SchemaError, match="fixed by a key, and csv rows have no other order"):
        ENGINES["duckdb"](places["csv"], schema(key=False))
    poor = table_of([r | {"id": r["id"] // 2 * 2} for r in rows()])
    pyarrow.csv.write_csv(poor, tmp_path / "poor.csv")
    with pytest.raises(sulq.SchemaError, match="missing or repeated"):
        ENGINES["duckdb"](tmp_path / "poor.csv", schema())


# --- people -------------------------------------------------------------------------------


def distinct(some, keep=lambda r: True):
    return len({r["person"] for r in some if r["person"] is not None and keep(r)})


@pytest.mark.parametrize("engine", ENGINES)
def test_people_are_counted_once(engine):
    """COUNT(DISTINCT person) is exact, in groups and under conditions; nobody is no person."""
    some = rows()
    db = opened(table_of(some), schema(), name="visits", engine=engine)
    few = kept(some)
    alone = "select count(distinct person) as n, count(distinct person) filter (where urgent) as u"
    found = db.sql(f"{alone} from visits where days >= 3 or days is null")
    chosen = [r for r in few if r["days"] is None or r["days"] >= 3]
    assert found["n"] == [distinct(chosen)]
    assert found["u"] == [distinct(chosen, lambda r: r["urgent"])]
    for by, labels in (("ward", ["a", "b", "c", None]), ("urgent", [False, True, None])):
        grouped = db.sql(f"select {by}, count(distinct person) as n from visits group by {by}")
        assert grouped["n"] == [distinct(few, lambda r, x=x, by=by: r[by] == x) for x in labels]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.int8()])
def test_people_of_every_type(make_engine, kind, tmp_path):
    """Names are compared as they are stored, huge and close ones too; NaN is nobody."""
    names = {
        pa.int64(): [2**60, 2**60 + 1, 2**60, None, -5, -5],
        pa.uint64(): [2**63, 2**63 + 1, 2**64 - 1, None, 2**63, 0],
        pa.float64(): [1.0, math.nan, math.nan, None, 2.0, 1.0],
        pa.string(): ["a", "A", "a ", None, "", "a"],
        pa.int8(): [1, 2, 3, None, 1, -128],
    }[kind]
    table = pa.table({"person": pa.array(names, kind), "slot": list(range(6))})
    typed = {"type": "text" if kind == pa.string() else "integer"}
    declared = {
        "columns": {"person": typed, "slot": {"key": True}},
        "unit": {"column": "person", "max_rows": 1},
    }
    wanted = len({n for n in names if n is not None and n == n})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    made = sulq.encode(tmp_path / "rows.parquet", declared, tmp_path / "rows.sulq")
    groups = len({"nan" if n != n else n for n in names})
    for source in (table, made) if make_engine.engine in LOCAL else (table,):
        engine = make_engine(source, declared)
        assert engine.sums(checked([sulq.Query(People())], engine)) == [[[wanted]]]
        assert engine.rows == groups  # one row of each, and one of nobody


# --- the price ----------------------------------------------------------------------------


def price(declared, query, **promise):
    settings = {"epsilon": 1.0, "queries": 100} | promise
    made = sulq.Promise(**settings)
    return tariff_of(
        check(query, Schema.load(declared).with_types({}), made.noise, made.guarantee), made
    ).price.queries


PRICED = [
    sulq.Query(),
    sulq.Query(where="urgent"),
    sulq.Query(["days", "cost"], where="urgent"),
    sulq.Query(by="ward"),
    sulq.Query(["1", "cost"], by="urgent"),
    sulq.Query(sulq.Mean("cost")),
    sulq.Query(sulq.Sums(["days", "cost"])),
    sulq.Query(where="urgent", error=1000),
]


@pytest.mark.parametrize("query", PRICED, ids=lambda q: str(q)[:50])
@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
@pytest.mark.parametrize("most", [1, 3, 10])
def test_the_price_grows_with_max_rows(query, guarantee, most):
    """By max_rows^2 for gaussian, by max_rows for laplace noise; error= asks for the same."""
    plain = {"columns": COLUMNS}
    for noise, factor in (("gaussian", most**2), ("laplace", most)):
        if noise == "laplace" and query.error is not None:
            continue
        settings = {"noise": noise, "guarantee": guarantee}
        one, many = price(plain, query, **settings), price(schema(most), query, **settings)
        assert abs(many - one * factor) <= Fraction(factor, 10**6)  # prices round up


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
def test_the_price_of_counting_people(guarantee):
    """1 alone; in public groups a person is in as many as they have rows; in private ones a
    change moves them out of all those and into as many others (beliefs)."""
    people = {"guarantee": guarantee}
    private = 2 * MOST if guarantee == "beliefs" else MOST
    assert price(schema(), sulq.Query(People()), **people) == 1
    assert price(schema(), sulq.Query(People(), where="urgent and ward = 'a'"), **people) == 1
    assert price(schema(), sulq.Query(People(), by="ward"), **people) == MOST
    assert price(schema(), sulq.Query(People(), by="urgent"), **people) == private
    assert price(schema(), sulq.Query(People(), by=("ward", "urgent")), **people) == private


def test_coordinate_noise_is_for_one_row_per_person():
    """m rows may move one number by m, which m queries of one unit do not cover: refused."""
    for noise in ("binomial", "stitched"):
        with pytest.raises(sulq.PromiseError, match="one row per person"):
            opened(table_of(rows()), schema(), noise=noise, queries=10)
        db = opened(table_of(rows()), schema(1), noise=noise, queries=10)
        assert db.price(sulq.Query(where="urgent")).queries == 1


# --- neighbours: all rows of one person change --------------------------------------------

MOVED = [
    sulq.Query(where="urgent"),
    sulq.Query(by="urgent"),
    sulq.Query(["days", "cost"]),
    sulq.Query(["days", "cost"], where="urgent"),
    sulq.Query(["1", "cost"], by="urgent"),
    sulq.Query(["cost"], by="ward"),
    sulq.Query(sulq.Mean("cost")),
    sulq.Query(sulq.Mean("days"), by="urgent", where="cost > 0"),
    sulq.Query(by=sulq.Bins("days", [0, 5, 10, 30])),
    sulq.Query(by=("urgent", sulq.Bins("cost", [-5, 0, 10]))),
    sulq.Query(People()),
    sulq.Query(People(), where="urgent"),
    sulq.Query(People(), by="urgent"),
    sulq.Query(People(), by="ward", where="urgent"),
    sulq.Query(People(), by=sulq.Bins("days", [0, 5, 10, 30])),
    sulq.Query(sulq.Sums(["days", "cost"])),
]
STATEMENTS = [
    "select avg(cost), var_pop(days), corr(days, cost) from visits",
    "select count(*), avg(cost), sum(days) from visits where urgent",
    "select urgent, avg(cost) filter (where days > 3), median(days) from visits group by urgent",
    "select ward, sum(cost), count(distinct person) from visits where urgent group by ward",
]


def moved(noise):
    """The queries, and those of the statements as they are asked under this noise."""
    made = [compile_statement(sql, Schema.load(schema()), "visits", noise) for sql in STATEMENTS]
    return MOVED + [query for statement in made for query in statement.queries]


EXTREMES = [
    {"urgent": u, "days": d, "cost": c}
    for u, d, c in itertools.product((True, False, None), (0, 7, 30, None), (-5.0, 10.0, None))
]


def distance(query, matrices, noise):
    """How far two answers are apart, in the unit the price counts: squared L2, or L1."""
    total = Fraction(0)
    if query.measurement is not None:
        matrices = [query.measurement.of(matrix) for matrix in matrices]
    for a, b in zip(*matrices, strict=True):
        if a == b:
            continue
        steps = [x - y for x, y in zip(a, b, strict=True)]
        if query.mix is not None:
            steps = [sum(x * y for x, y in zip(m, steps, strict=True)) for m in query.mix]
        for x, release in zip(steps, query.releases, strict=True):
            step, weight2 = Fraction(abs(x)) / release.unit, release.weight2
            total += step**2 * weight2 if noise == "gaussian" else step * exact_root(weight2)
    return total


def furthest(asked, answers, promise):
    """How far two of these answers are apart at most, as a share of the price that holds there."""
    noise, worst = promise.noise, Fraction(0)
    for a, b in itertools.combinations(answers, 2):
        for query, one, other in zip(asked, a, b, strict=True):
            moved = distance(query, (one, other), noise)
            price = tariff_of(query, promise).price.queries
            if promise.guarantee == "dp":  # two rows are each so far from no row
                price *= 4 if noise == "gaussian" else 2
            public = query.where is None and not query.private_cells and moved == 0
            assert public or moved <= price + Fraction(1, 10**6), query.text
            worst = max(worst, moved / price) if price else worst
    return worst


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("engine", ENGINES)
def test_one_person_moves_an_answer_no_further_than_is_paid(engine, noise):
    """All rows of one person change, to random and to the worst values; more rows than count
    change nothing more. Some pair of each plain count reaches the price exactly."""
    pick = random.Random(5)
    others = [r for r in rows(60) if r["person"] != "p0"]
    owned = [
        {"id": 10_000 + i, "person": "p0", "ward": "abc"[i % 3], "slot": 500 + i} for i in range(5)
    ]
    promise, asked = sulq.Promise(1.0, queries=100, noise=noise), moved(noise)

    def answers(values):
        some = others + [r | v for r, v in zip(owned, values, strict=True)]
        made = ENGINES[engine](table_of(some), schema())
        queries = checked(asked, made, noise=noise)
        return queries, made.sums(queries)

    worst = [[e] * 5 for e in EXTREMES[:: 1 if SOAK and engine == "reference" else 5]]
    mixed = [[pick.choice(EXTREMES) for _ in range(5)] for _ in range(10)]
    spread = [[EXTREMES[(7 * i + j) % len(EXTREMES)] for i in range(5)] for j in range(6)]
    found = [answers(v) for v in (*worst, *mixed, *spread)]
    most = [Fraction(0)] * len(asked)
    for (queries, a), (_, b) in itertools.combinations(found, 2):
        for i, query in enumerate(queries):
            most[i] = max(most[i], distance(query, (a[i], b[i]), noise))
    for i, query in enumerate(found[0][0]):
        size = tariff_of(query, promise).price.queries
        assert most[i] <= size + Fraction(1, 10**6), asked[i]
    if engine == "reference":
        factor = MOST**2 if noise == "gaussian" else MOST
        assert most[0] == factor  # a count of urgent rows
        assert most[1] == 2 * factor  # a histogram: out of one cell and into another
        assert most[11] == 1  # a person is there or not


# --- what is said -------------------------------------------------------------------------


def test_the_promise_speaks_of_a_person():
    """In words, in .subject and in the ledger's terms; without a unit it speaks of a row."""
    db = opened(table_of(rows()), schema())
    assert db.promise.subject == "person"
    assert "person" in str(db.promise)
    plain = opened(table_of(rows()), {"columns": COLUMNS})
    assert plain.promise.subject == "row"
    assert "person" not in str(plain.promise).split("\n")[0]
    assert db.promise.variance == plain.promise.variance


def test_the_ledger_keeps_one_cell():
    """A person's rows may lie in several public cells, so everybody pays for every question."""
    db = opened(table_of(rows()), schema())
    assert db.schema.cell_count == 1
    db.count("ward = 'a' and urgent")
    assert db.budget.spent == MOST**2
    assert opened(table_of(rows()), {"columns": COLUMNS}).schema.cell_count == 4


def test_whose_row_it_is_is_public():
    """The person's column may choose rows and form groups, charged to everyone."""
    loaded = Schema.load(schema())
    assert loaded["person"].public
    assert price(schema(), sulq.Query(rows=sulq.Rows.where("person = 'p1'"), where="urgent")) == 9
    assert Schema.load(loaded.to_json()).unit == loaded.unit


BROKEN = [
    ({"column": "who", "max_rows": 3}, "'who' is not declared"),
    ({"column": "person"}, "max_rows = 5, with [period] also max_periods = 12, nothing else"),
    ({"column": "person", "max_rows": 3, "by": "id"}, "nothing else"),
    ({"column": "person", "max_rows": 0}, "from 1 to 1000"),
    ({"column": "person", "max_rows": 1001}, "from 1 to 1000"),
    ({"column": "person", "max_rows": 2.5}, "from 1 to 1000"),
    ({"column": "person", "max_rows": True}, "from 1 to 1000"),
    ({"column": "person", "max_rows": "3"}, "from 1 to 1000"),
    ("person", "max_rows = 5, with [period] also max_periods = 12, nothing else"),
]


@pytest.mark.parametrize(("unit", "message"), BROKEN, ids=str)
def test_a_broken_unit_is_refused(unit, message):
    """Each refusal says what is wrong with the unit."""
    with pytest.raises(sulq.SchemaError, match="unit") as refusal:
        Schema.load({"columns": COLUMNS, "unit": unit})
    assert message in str(refusal.value)


def test_people_need_a_unit():
    """Without one, COUNT(DISTINCT ...) and People are refused and say what is nearest."""
    db = opened(table_of(rows()), {"columns": COLUMNS}, name="visits")
    with pytest.raises(sulq.QueryNotAllowed, match="each row is a person"):
        db.ask(sulq.Query(People()))
    with pytest.raises(sulq.QueryNotAllowed, match=r"where \[unit\] declares"):
        db.sql("select count(distinct person) from visits")


def test_a_unit_may_come_from_toml(tmp_path):
    """[unit] of a schema file limits rows per person."""
    (tmp_path / "visits.toml").write_text(
        '[unit]\ncolumn = "person"\nmax_rows = 2\n[columns.person]\ntype = "text"\n'
        '[columns.slot]\ntype = "integer"\nlow = 0\nhigh = 999\n'
    )
    db = opened(table_of(rows()), tmp_path / "visits.toml")
    assert db.rows == len(kept(rows(), 2, "slot"))
    assert np.isclose(db.count().value, db.rows)

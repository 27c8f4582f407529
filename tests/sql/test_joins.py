"""Joins: with public lookup tables answered as plain DuckDB answers them, the others refused."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from engines.test_star import star_database
from helpers import ENGINES, opened
from sql.fifty_joins import HOSPITAL, SHOP
from sql.joined_tables import TPCH, arrow, hospital, shop, tpch

import sulq
from sulq.values.schema import Schema

DOCS = Path(__file__).parents[2] / "docs/howto/people.md"


def cases(listed):
    """Each statement that is answered; each refusal, what it says is nearest, and such a one."""
    answered = [c[0] for c in listed if c[1] is None]
    return answered, [c for c in listed if c[1] is not None]


def both(made, engine="duckdb"):
    """The private tables here, and all tables in plain DuckDB."""
    private, schema = made
    tables = {name: arrow(rows) for name, rows in private.items()}
    db = star_database(engine, tables, schema)
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    for table, body in schema["lookups"].items():
        connection.register(table, pa.Table.from_pylist(body["rows"]))
    return db, connection


def check_answered(text, db, connection):
    """Every number is what plain SQL says."""
    found = db.sql(text)
    plain = connection.sql(text.replace(" any(", " bool_or(")).to_arrow_table().to_pylist()
    keys = [n for n in found.by if n in found.columns]
    wanted = {tuple(row[k] for k in keys): row for row in plain}
    for i in range(len(found)):
        label = tuple(None if found[k][i] == "(other)" else found[k][i] for k in keys)
        row = wanted.pop(label, {})
        for name in found.columns:
            if name not in keys and not name.endswith(("_low", "_high")):
                exact = float(row.get(name) or 0)
                assert found[name][i] == pytest.approx(exact, rel=1e-5, abs=1e-3), (text, label)
    assert not wanted, text


@pytest.mark.parametrize(("made", "listed"), [(hospital, HOSPITAL), (shop, SHOP)])
@pytest.mark.parametrize("engine", ENGINES)
def test_fifty_joins(engine, made, listed):
    """Answered as plain DuckDB does, or refused with the reason and something near that works."""
    db, connection = both(made(), engine)
    answered, refused = cases(listed)
    for text in answered:
        check_answered(text, db, connection)
    for text, why, hint, near in refused:
        before = db.budget.spent
        with pytest.raises(sulq.QueryNotAllowed) as refusal:
            db.sql(text)
        assert why in str(refusal.value), text
        assert hint in str(refusal.value), text
        assert db.budget.spent == before
        check_answered(near, db, connection)


def test_tpch():
    """The questions over orders, line items and customers, line items beside their orders."""
    db, connection = both(tpch())
    for _, text, said, near in TPCH:
        if near is None:
            check_answered(text, db, connection)
            continue
        with pytest.raises(sulq.QueryNotAllowed) as refusal:
            db.sql(text)
        assert said in str(refusal.value), text
        check_answered(near, db, connection)


def test_the_docs_count_them():
    """How many are answered and how many refused stands in the docs."""
    page = " ".join(DOCS.read_text().split())
    answered, refused = cases(HOSPITAL + SHOP)
    assert len(answered) + len(refused) == 50
    assert f"Of fifty joins {len(answered)} are answered as they are" in page
    plain = sum(near is None for *_, near in TPCH)
    assert f"of {len(TPCH)} questions of TPC-H {plain}" in page


def test_a_lookup_column_is_a_function_of_the_rows_column():
    """It needs no JOIN; it is public where that column is; one question however it is written."""
    db, _ = both(shop())
    lines = db.table("lines")
    assert lines.count("stores.region = 'east'").price.micro == 0  # store is public
    first = lines.count("products.category = 'toys'")
    spent = db.budget.spent
    join = "join products on lines.sku = products.sku"
    again = db.sql(f"select count(*) as n from lines {join} where category = 'toys'")
    assert again["n"] == [first.value]
    assert db.budget.spent == spent


BROKEN = [
    ({"on": "no", "rows": [{"no": 1}]}, "is not declared"),
    ({"on": "store", "rows": [{"store": "a", "x": 1}, {"store": "a", "x": 2}]}, "of its own"),
    ({"on": "store", "rows": [{"store": None, "x": 1}]}, "of its own"),
    ({"on": "store", "rows": []}, "want rows"),
    ({"on": "store", "file": "nowhere.csv"}, "cannot be read"),
    ({"on": "store"}, "either file or rows"),
    ({"on": "store", "rows": [{"store": "a", "x": [1]}]}, "is no number"),
    ({"on": "store", "rows": [{"store": "a", "x": float("nan")}]}, "is no number"),
    ({"on": "store", "rows": [{"store": "a"}], "more": 1}, "lookups.t"),
]


@pytest.mark.parametrize(("spec", "said"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_lookup_is_refused(spec, said):
    """With what is wrong; a key that repeats would count rows several times."""
    schema = shop()[1] | {"lookups": {"t": spec}}
    with pytest.raises(sulq.SchemaError, match=re.escape(said)):
        Schema.load(schema)


RENAMED = "select count(*) as n from (select item as store, q from t) as f"
NO_JOINS = {
    "select count(*) as n from t left join stores": "which columns are equal",
    "select count(*) as n from t natural join stores on stores.city = 'oslo'": "NATURAL",
    "select count(*) as n from t natural join stores using (store)": "NATURAL",
    f"{RENAMED} join stores using (store)": "joined on that",
    f"{RENAMED} natural join stores": "NATURAL",
    "select count(*) as n from (select 'store' as store from t) as f natural join stores":
    "NATURAL",
    "select count(*) as n from (select q from t) as f join stores using (store)": "joined on that",
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), NO_JOINS.items(), ids=range(len(NO_JOINS)))
def test_what_a_join_says_is_never_left_out(text, why):
    """Nor is a column taken that has that name elsewhere; nothing is charged."""
    stores = {"on": "store", "key": "store", "rows": [{"store": "a", "city": "oslo"}]}
    columns = {"store": {"values": ["a", "b"]}, "item": {"values": ["a", "b"]}}
    columns |= {"q": {"type": "number", "low": 0, "high": 1}}
    rows = pa.table({"store": ["a", "b"], "item": ["b", "b"], "q": [1.0, 0.0]})
    db = opened(rows, {"columns": columns, "lookups": {"stores": stores}}, name="t")
    assert db.sql("select count(*) as n from t join stores using (store)")["n"] == [1]
    with pytest.raises(sulq.QueryNotAllowed) as refusal:
        db.sql(text)
    assert why in str(refusal.value)
    assert db.budget.spent == 1


def test_lookups_come_from_files_beside_the_schema(tmp_path):
    """CSV and Parquet, read when the schema is; the schema keeps what they held."""
    (tmp_path / "stores.csv").write_text("store,region,open\nzh1,east,true\nge1,west,\n")
    pa.parquet.write_table(pa.table({"m": [1, 2], "quarter": [1, 1]}), tmp_path / "m.parquet")
    (tmp_path / "lines.toml").write_text(
        '[columns.store]\nvalues = ["zh1", "ge1"]\n[columns.month]\ntype = "integer"\nlow = 1\n'
        'high = 12\n[lookups.stores]\non = "store"\nfile = "stores.csv"\n[lookups.months]\n'
        'on = "month"\nkey = "m"\nfile = "m.parquet"\n'
    )
    loaded = Schema.load(tmp_path / "lines.toml")
    assert dict(loaded.lookups[0].entries) == {"zh1": ("east", True), "ge1": ("west", None)}
    assert Schema.load(loaded.to_json()) == loaded
    assert Schema.load(loaded.to_json()).digest == loaded.digest
    rows = pa.table({"store": ["zh1", "ge1", None], "month": [1, 2, 3]})
    db = opened(rows, tmp_path / "lines.toml", name="lines")
    assert db.count("stores.open and months.quarter = 1").value == 1


def test_a_lookup_too_large_for_a_question_says_so():
    """Keys in runs count once; thousands of different values do not fit."""
    runs = [{"k": i, "x": i // 1000} for i in range(9000)]
    many = [{"k": i, "x": (i * 7919) % 5003} for i in range(9000)]
    for rows, fits in ((runs, True), (many, False)):
        schema = {
            "columns": {"k": {"type": "integer", "low": 0, "high": 9000}},
            "lookups": {"t": {"on": "k", "rows": rows}},
        }
        db = opened(pa.table({"k": [1, 2500, 8999]}), schema)
        if fits:
            assert db.sum("t.x").value == 0 + 2 + 8
        else:
            with pytest.raises(sulq.QueryNotAllowed, match="too many to be part of a question"):
                db.sum("t.x")

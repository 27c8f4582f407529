"""Every engine, and everything that stands in for one, is the whole interface.

Above 20,000 rows previews and rehearsals ask few rows that stand for many. That stand-in once
lacked two methods, and every price of a table with [period] failed at three doors.
"""

import importlib
import inspect
import pkgutil

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers import LOCAL, enlarged_engine, opened, sums
from scripted_agent import over
from server.api.test_agents import agent_of
from server.console.page_client import PageClient, plain
from server.pgwire.wired import wired

import sulq
import sulq.engines
from sulq.dbapi import connect
from sulq.engines.base import Engine, EngineInMemory
from sulq.engines.enlarged import Enlarged
from sulq.mcp.local_databases import LocalDatabases
from sulq.preview import MAX_MADE, KeptRehearsals, Previews
from sulq.rehearsal_database import NOTE
from sulq.spending_limit import SpendingLimit

# ---- the interface --------------------------------------------------------------------------

HELD_TO_THE_CONTRACT = {
    "ReferenceEngine": "engines.test_contract",
    "DuckDBEngine": "engines.test_contract",
    "PostgresEngine": "engines.test_contract",
    "Enlarged": "engines.test_contract",
    "SparkEngine": "engines.test_spark",
    "ArrayEngine": "engines.test_array_engine",
}


def every_class():
    for found in pkgutil.walk_packages(sulq.__path__, "sulq."):
        if not found.name.startswith(("sulq.cli.__main__", "sulq.__main__")):
            module = importlib.import_module(found.name)
            for _, each in inspect.getmembers(module, inspect.isclass):
                if each.__module__ == found.name:
                    yield each


def test_every_engine_is_held_to_the_contract():
    """A new engine, or a new stand-in for one, fails here until its contract is tested."""
    concrete = {
        c.__name__ for c in every_class() if issubclass(c, Engine) and not inspect.isabstract(c)
    }
    assert concrete - {"SqlEngine"} == set(HELD_TO_THE_CONTRACT)
    for name, file in HELD_TO_THE_CONTRACT.items():
        text = inspect.getsource(importlib.import_module(file))
        helpers = inspect.getsource(importlib.import_module("helpers"))
        assert name in text + helpers, name


def test_what_is_asked_as_an_engine_is_one():
    """No class has an engine's methods without being one: mypy and ABC see what it lacks."""
    for each in every_class():
        if {"sums", "beside", "hold"} <= set(vars(each)) - {"__annotations__"}:
            assert issubclass(each, Engine), each


def test_control_a_stand_in_that_lacks_a_method_cannot_be_made():
    """The stand-in of release 2, as a class of today: Python refuses it."""

    class Lacking(Engine):
        sums = beside = hold = probe = interrupt = close = lambda self: None

    with pytest.raises(TypeError, match="groups"):
        Lacking()
    public = {n for n, f in vars(Engine).items() if getattr(f, "__isabstractmethod__", False)}
    assert {"sums", "groups", "every_group", "contents_by", "read_through"} <= public
    assert public <= set(vars(Enlarged)), "a stand-in passes on every method by itself"
    assert not issubclass(Enlarged, EngineInMemory)


SCHEMA = {
    "columns": {
        "id": {"key": True},
        "person": {"type": "integer", "low": 0, "high": 99},
        "region": {"values": ["n", "s"], "public": True},
        "age": {"type": "integer", "low": 0, "high": 99},
        "city": {"type": "text"},
    },
    "unit": {"column": "person", "max_rows": 2},
}
TABLE = pa.table(
    {
        "id": list(range(12)), "person": [i // 4 for i in range(12)],
        "region": ["n", "n", "s", None] * 3, "age": list(range(12)), "city": ["x"] * 12,
    }
)  # fmt: skip


@pytest.mark.parametrize("make", [*LOCAL.values(), enlarged_engine])
def test_the_other_methods_too(make):
    """Public counts of the rows that count and of all, and what threads and servers call."""
    engine = make(TABLE, SCHEMA)

    def counts(found):
        return dict(zip(*(found.column(i).to_pylist() for i in (0, 1)), strict=True))

    assert counts(engine.groups(["region"])) == {"n": 6}  # the first two of each person
    assert counts(engine.every_group(["region"])) == {"n": 6, "s": 3, None: 3}
    assert engine.rows == 6
    assert engine.read_through() is not None
    engine.probe()
    other = engine.beside()
    engine.hold(True)
    assert sums(engine, sulq.Query(["age"])) == sums(other, sulq.Query(["age"]))
    engine.interrupt()
    assert isinstance(engine.title, str)
    assert engine.table_name is None
    other.close()
    engine.close()


def test_few_rows_stand_for_many():
    """Sums, public counts and discovered values, each times the same."""
    few = LOCAL["reference"](TABLE, SCHEMA)
    many = Enlarged(few, 600)
    assert sums(many, sulq.Query(["age"]))[0][0][0] == 100 * sums(few, sulq.Query(["age"]))[0][0][0]
    assert many.groups(["region"]).column(1).to_pylist() == [600]
    assert sum(many.every_group(["region"]).column(1).to_pylist()) == 1200
    assert many.beside().rows == 600
    assert sums(Enlarged(LOCAL["reference"](TABLE[:0], SCHEMA), 9), sulq.Query()) == [[[0]]]


# ---- every door, below and above the size at which the stand-in takes over ------------------

MONTHS = [f"2026-{m:02}" for m in range(1, 13)]
SIZES = (MAX_MADE - 1, MAX_MADE + 1)
assert SIZES == (19_999, 20_001)
PLAIN = {
    "columns": {
        "id": {"key": True},
        "person": {"type": "integer", "low": 0, "high": 10**6},
        "month": {"values": MONTHS, "public": True},
        "sick": {"type": "boolean"},
        "age": {"type": "integer", "low": 0, "high": 99},
    },
    "period": {"column": "month"},
}
STAR = {
    "unit": {"column": "person"},
    "tables": {
        "people": {"columns": {
            "age": {"type": "integer", "low": 0, "high": 99, "nullable": False},
            "home": {"values": ["n", "s"], "public": True},
        }},
        "visits": {"max_rows": 3, "columns": {
            "visit": {"key": True}, "sev": {"type": "integer", "low": 0, "high": 5},
        }},
    },
}  # fmt: skip
ASKED = {
    "periods": [
        "select count(*), avg(age) from t where sick",
        "select month, avg(age) from t group by month",
        "select median(age), percentile_disc(0.5) within group (order by age) from t",
    ],
    "people": [
        "select month, count(*), avg(age) from t where sick group by month",
        "select avg(v) from (select person, count(*) as v from t group by person)",
        "select count(distinct person) from t where sick",
    ],
    "tables": [
        "select count(*), avg(age) from people where age > 30",
        "select home, avg(sev) from visits v join people p on v.person = p.person group by home",
        "select avg(v) from (select person, count(*) as v from visits group by person)",
    ],
}


def table(kind, rows):
    """A table of so many rows that count: each person has one in each of their first months."""
    number = np.arange(rows)
    return pd.DataFrame(
        {
            "id": number, "person": number // (2 if kind == "people" else 1),
            "month": [MONTHS[i % 2] for i in range(rows)], "sick": number % 3 == 0,
            "age": number % 100,
        }
    )  # fmt: skip


def declared(kind):
    if kind == "tables":
        return STAR
    unit = {"column": "person", "max_rows": 1, "max_periods": 2}
    return PLAIN | ({"unit": unit} if kind == "people" else {})


def star_file(path, rows):
    with duckdb.connect(str(path)) as file:
        file.execute(
            "CREATE TABLE people AS SELECT range AS person, range % 100 AS age, "
            f"CASE WHEN range % 2 = 0 THEN 'n' ELSE 's' END AS home FROM range({rows})"
        )
        file.execute(
            "CREATE TABLE visits AS SELECT range AS visit, range // 2 AS person, "
            f"range % 6 AS sev FROM range({rows})"
        )
    return path


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind", ASKED)
def test_a_price_and_a_rehearsal_at_every_size(kind, rows, tmp_path):
    """Library, prompt, DB-API and MCP: widths, made-up answers, prices; all free."""
    source = star_file(tmp_path / "t.duckdb", rows) if kind == "tables" else table(kind, rows)
    db = opened(source, declared(kind), name="t")
    assert db.rows == rows
    agent = over(LocalDatabases({"t": db}, SpendingLimit(9, "")))
    cursor = connect(db).cursor()
    for text in ASKED[kind]:
        preview = Previews(db).look(text)
        assert all(w.usual >= 0 for w in preview.widths.values()), preview
        assert KeptRehearsals().table(db, text).note.startswith(NOTE)
        cursor.execute(f"EXPLAIN {text}")
        assert cursor.fetchall()
        priced = agent.call("price", dataset="t", sql=text)
        assert not priced["is_error"], priced
        assert NOTE in agent.call("rehearse", dataset="t", sql=text)["note"]
    assert db.budget.spent == 0


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind", ["periods", "people"])
def test_a_price_and_a_rehearsal_on_a_server(kind, rows, tmp_path):
    """EXPLAIN of PostgreSQL's protocol, /mcp, price, preview and rehearse of the console."""
    rows_of = pa.Table.from_pandas(table(kind, rows), preserve_index=False)
    pages = "/console/datasets/people"
    with wired(tmp_path / "instance", table=rows_of, schema=declared(kind)) as pg:
        bob = PageClient(pg, "bob")
        for text in (sql.replace("from t", "from people") for sql in ASKED[kind][:2]):
            with pg.connect() as connection:
                lines = [line for (line,) in connection.execute(f"explain {text}")]
            assert any("95%" in line for line in lines), lines
            form = {"kind": "sql", "sql": text}
            shown = bob.post(f"{pages}/preview", form)
            assert (shown.status, "Price:" in plain(shown)) == (200, True), plain(shown)
            made_up = bob.post(f"{pages}/rehearse", form)
            assert (made_up.status, "rows are made up" in plain(made_up)) == (200, True)
            agent = agent_of(pg, "bob")
            for tool in ("price", "rehearse"):
                found = agent.call(tool, dataset="people", sql=text)
                assert not found["is_error"], found
        assert pg.spent() == 0

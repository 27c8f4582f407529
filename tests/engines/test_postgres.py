"""What only PostgreSQL can do to a question: its errors, its types, its roles, its other users."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
import threading
import uuid
import warnings
import weakref
from decimal import Decimal
from pathlib import Path

import numpy as np
import postgres
import pyarrow as pa
import pytest
from audit.harness import SCHEMA as AUDITED
from audit.harness import audited, outcome
from audit.harness import people as audited_people
from helpers import (
    SilentNoise,
    checked,
    duckdb_engine,
    in_postgres,
    opened,
    postgres_engine,
    sums,
)

import sulq
from sulq.engines.postgres import engine as engines_postgres
from sulq.engines.postgres import stream as postgres_stream
from sulq.engines.postgres.engine import PostgresEngine
from sulq.expressions.columns import arrow_vector
from sulq.sources.postgres import PINNED
from sulq.sources.source import open_source
from sulq.values.schema import Schema

psycopg = postgres.driver()
DAY = datetime.date
PEOPLE = {
    "id": {"key": True},
    "age": {"type": "integer", "low": 0, "high": 120},
    "income": {"type": "number", "low": 0, "high": 1000},
    "region": {"values": ["north", "south"], "public": True},
    "smoker": {"type": "boolean"},
}


def people(count=200, seed=1):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count),
            "age": rng.integers(0, 121, count),
            "income": rng.random(count) * 1100 - 50,
            "region": rng.choice(["north", "south", "moon"], count),
            "smoker": rng.integers(0, 2, count).astype(bool),
        }
    )


QUESTIONS = [
    sulq.Query(),
    sulq.Query(["age", "income"], by="region", where="smoker"),
    sulq.Query(by=["region", "smoker"]),
    sulq.Query(["exp(income / 1000)"], by="region"),
    sulq.Query(sulq.Products(["age", "income"])),
    sulq.Query(by=sulq.NearestCentre(["age", "income"], [(0, 0), (1, 1)])),
    sulq.Query(by=sulq.Blocks(3, 5)),
    sulq.Query(rows=sulq.Rows.sample(1, 0.5), where="age > 40"),
]


@pytest.fixture
def admin():
    with postgres.shared().connect() as connection:
        yield connection


@pytest.fixture
def role(admin):
    """A role of this test's own, which may connect and no more."""
    name = postgres.fresh_name("role")
    admin.execute(f"CREATE ROLE {name} LOGIN".encode())
    yield name
    admin.execute(f"DROP OWNED BY {name}".encode())
    admin.execute(f"DROP ROLE {name}".encode())


def engine_of(table, schema, role="reader"):
    source = open_source(postgres.shared().url(role), table)
    return PostgresEngine(source, Schema.load(schema))


def run(connection, *statements):
    for statement in statements:
        connection.execute(statement.encode())


def flushed(connection, *statements):
    """Write, and let the server's counters say so at once instead of within seconds."""
    run(connection, *statements, "SELECT pg_stat_force_next_flush()")


# --- arithmetic that PostgreSQL would refuse ------------------------------------------------


def extremes():
    """Pairs of numbers of every size there is, and of sizes that just do or do not fit."""
    rng = np.random.default_rng(7)
    sizes = 2.0 ** rng.integers(-1074, 490, 3000)
    some = sizes * rng.integers(1, 2**20, 3000) / 2**20
    edges = [0.0, -0.0, 5e-324, 2.0**-500, 2.0**-537, 2.0**-1022, 1.0, 2.0**400, 2.0**497, 3e-324]
    x = np.concatenate([some, np.repeat(edges, len(edges))])
    y = np.concatenate([rng.permutation(some), np.tile(edges, len(edges))])
    return x * rng.choice([-1, 1], len(x)), y


def test_products_and_quotients_of_every_size_are_the_same_bits():
    """Too small, too large and by zero: PostgreSQL's own operators stop there, ours do not."""
    x, y = extremes()
    with np.errstate(all="ignore"):
        product, quotient = x * y, np.where(y == 0, np.nan, x / np.where(y == 0, 1, y))
    table = pa.table({"x": x, "y": y, "p": product, "q": quotient})
    wide = {"type": "number", "low": -1e150, "high": 1e150}
    schema = {"x": wide, "y": wide, "p": {"type": "number"}, "q": {"type": "number"}}
    engine = postgres_engine(table, schema)
    asked = [
        "x * y = p",
        "(x / y = q) is true",
        "x / y is null",
        "x / 3e-320 > 1e299",
        "y * 0.3 > 0",
    ]
    wanted = duckdb_engine(table, schema)
    assert sums(engine, sulq.Query(asked)) == sums(wanted, sulq.Query(asked))
    assert sums(engine, sulq.Query(asked[:2])) == [[[len(x), int((y != 0).sum())]]]
    with pytest.raises(psycopg.errors.NumericValueOutOfRange), postgres.shared().connect() as c:
        c.execute("SELECT 1e-200::float8 * 1e-200::float8")  # control: what it would do


def test_a_row_that_would_raise_counts_like_any_other():
    """Zeros, huge and tiny numbers, the end of time: no exception, the reference's integers."""
    table = pa.table(
        {
            "x": [0.0, 5e-324, 1e300, -1e300, np.inf, np.nan, None],
            "k": pa.array([0, 2**63 - 1, -(2**63), 1, None, 7, -7]),
            "t": ["", "%", "\\", "'", "a\nb", "日本", None],
        }
    )
    schema = {
        "x": {"type": "number", "low": -1e149, "high": 1e149},
        "k": {"type": "integer", "low": -(2**53), "high": 2**53},
        "t": {"type": "text"},
    }
    texts = [
        "x * x * 1e-300", "1 / x", "x / k", "k % 0", "sqrt(x)", "sqrt(-x)", "round(x / 1e140, 3)",
        "k * 0.5", "length(t) * x", "least(x, 1 / (k - k))", "cast(x / 1e140 as bigint)",
        "(t like '%\n%')", "x * 1e-320 * 1e150", "sign(x * 5e-324)",
    ]  # fmt: skip
    bounded = [f"least(greatest({t}, -9), 9)" for t in texts]
    engines = [make(table, schema) for make in (postgres_engine, duckdb_engine)]
    ours, theirs = (sums(e, sulq.Query(bounded)) for e in engines)
    assert ours == theirs


ENDS = {"i": (-5, 9), "n": (-2.5, 7.0), "d": (DAY(2000, 1, 1), DAY(2001, 1, 1)), "c": (0, 4)}
STORED = {  # what lies in, at and beyond the ends
    "i": (pa.int32(), [None, -99, -6, -5, -4, 0, 8, 9, 10, 99]),
    "n": (pa.float64(), [None, np.nan, -np.inf, np.inf, -2.5, -2.4, 0.0, 6.9, 7.0, 7.1]),
    "d": (pa.date32(), [None, DAY(1, 1, 1), DAY(1999, 12, 31), DAY(2000, 1, 1), DAY(2000, 1, 2),
                        DAY(2000, 12, 31), DAY(2001, 1, 1), DAY(2001, 1, 2), DAY(9999, 12, 31),
                        DAY(2000, 6, 1)]),
    "c": (pa.decimal128(8, 2), [None, *(Decimal(x) for x in ("-1", "0", "0.5", "1", "3.99", "4",
                                                             "4.01", "99", "2"))]),
}  # fmt: skip


def _refusal(predicate, engine):
    """Why a predicate is no value to sum, by its declaration alone; empty where it is one."""
    try:
        checked([sulq.Query([predicate])], engine)
    except sulq.QueryNotAllowed as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("sure", [False, True], ids=["may be missing", "never missing"])
def test_comparisons_at_the_ends_of_a_range(sure):
    """With constants in, at and beyond the ends; true, not true and missing, as the kernel says."""
    kinds = {"i": "integer", "n": "number", "d": "date", "c": "number"}
    schema = {
        n: {"type": kinds[n], "low": low, "high": high, "nullable": not sure}
        for n, (low, high) in ENDS.items()
    } | {"w": {"values": ["a", "b"]}}
    table = pa.table(
        {n: pa.array(values, kind) for n, (kind, values) in STORED.items()}
        | {"w": ["a", "b", "z", None, "A", "", "a", "b", "a", "a "]}
    )
    engines = [make(table, schema) for make in (postgres_engine, duckdb_engine)]
    asked = [f"w {t}" for t in ("= 'a'", "<> 'a'", "= 'b'", "in ('a', 'b')", "not in ('b')")]
    for name, (_, values) in STORED.items():
        for x in values[1:]:
            if x != x or x in (np.inf, -np.inf):
                continue
            shown = f"date '{x}'" if name == "d" else str(x)
            asked += [f"{name} {op} {shown}" for op in ("<", "<=", "=", "<>", ">", ">=")]
            asked += [f"{shown} < {name}", f"{name} between {shown} and {shown}"]
    beyond = {p for p in asked if "so it is never" in _refusal(p, engines[0])}
    assert all(re.search(" (=|<>|between) ", p) for p in beyond)
    asked = [p for p in asked if p not in beyond]
    every = [f"({p}) {is_}" for p in asked for is_ in ("is true", "is not true", "= false")]
    never = {p for p in every if _refusal(p, engines[0]).endswith("is always 0.")}
    zeros = sums(engines[0], *(sulq.Query(where=p) for p in sorted(never)))
    assert zeros == [[[0]]] * len(never)
    every = [p for p in every if p not in never]
    ours, theirs = (sums(e, sulq.Query(every))[0][0] for e in engines)
    wrong = [(p, a, b) for p, a, b in zip(every, ours, theirs, strict=True) if a != b]
    assert not wrong
    gates = [sulq.Query(where=p) for p in asked]
    assert sums(engines[0], *gates) == sums(engines[1], *gates)
    assert all(a + b == len(table) for a, b in zip(ours[::3], ours[1::3], strict=True))


# --- types, views, partitions, names --------------------------------------------------------


def test_types_that_only_postgresql_has(admin):
    """Domains, enums, char(n), uuid, numeric of every kind, real, names in any collation."""
    table = postgres.fresh_name("types")
    mood, small = postgres.fresh_name("mood"), postgres.fresh_name("small")
    run(
        admin,
        f"CREATE TYPE {mood} AS ENUM ('sad', 'ok')",
        f"CREATE DOMAIN {small} AS numeric(6, 2) CHECK (value < 5000)",
        f"""CREATE TABLE {table} (e {mood}, c char(5), u uuid, d {small}, n numeric,
            w numeric(30, 0), r real, a text COLLATE "C", b text COLLATE ucs_basic,
            m timestamptz, v varchar(3))""",
        f"""INSERT INTO {table} VALUES
            ('sad', 'ab', '{uuid.UUID(int=7)}', 12.34, 'NaN', 1e25, 0.1, 'x', 'x',
             '2020-06-15 23:30-05', 'a'),
            ('ok', 'ab   ', NULL, NULL, 'Infinity', 'NaN', 'NaN', 'x', 'y', 'infinity', 'a  '),
            (NULL, '', '{uuid.UUID(int=8)}', -1, 1e-400, 3, -1, NULL, NULL, NULL, NULL),
            (NULL, NULL, NULL, 0.07, 1e400, -1e25, 1e10, 'y', 'x', '-infinity', 'b')""",
        f"GRANT SELECT ON {table} TO reader",
    )
    whole = {"type": "integer", "low": -9, "high": 9}
    schema = {
        "e": {"values": ["ok", "great"]}, "c": {"type": "text"}, "u": {"key": True},
        "d": {"type": "number", "low": -100, "high": 100},
        "n": {"type": "number", "low": -5, "high": 5}, "w": whole,
        "r": {"type": "number", "low": 0, "high": 1}, "a": {"type": "text"}, "b": {"type": "text"},
        "m": {"type": "date", "low": DAY(2000, 1, 1), "high": DAY(2030, 1, 1)},
        "v": {"values": ["a", "a  "]},
    }  # fmt: skip
    engine = engine_of(table, schema)
    values = [
        "d = 12.34", "d", "c = 'ab'", "length(c)", "n", "n is null", "w", "w is null", "r is null",
        "a = b", "year(m)", "m = '2020-06-16'", "m is null",
    ]  # fmt: skip
    (plain, by_e, by_v, blocks) = sums(
        engine, sulq.Query(values), sulq.Query(by="e"), sulq.Query(by="v"),
        sulq.Query(by=sulq.Blocks(1, 7)),
    )  # fmt: skip
    slow = sums(engine, sulq.Query([*values, "exp(r)"]))[0][0][: len(values)]
    scale = 2 ** checked([sulq.Query(["d"])], engine)[0].values[0].scale
    total = sum(round(Decimal(d) * scale) for d in ("12.34", "-1", "0.07"))
    five = 2 ** checked([sulq.Query(["n"])], engine)[0].values[0].scale * 5
    assert plain[0] == slow
    assert plain[0] == [1, total, 2, 4, 2 * five, 1, 3, 1, 1, 1, 2020 + 2030 + 2000, 1, 1]
    assert (by_e, by_v) == ([[1], [0], [3]], [[1], [1], [2]])
    assert sum(n for (n,) in blocks) == 4


@pytest.mark.parametrize("kind", ["partitioned", "view", "view of a view", "materialized"])
def test_views_and_partitioned_tables(admin, kind):
    """Whatever the rows lie behind, the same integers by every path."""
    base = postgres.load(people(), Schema.load(PEOPLE))
    name = postgres.fresh_name("behind")
    columns = "id, age, income, region, smoker"
    if kind == "partitioned":
        run(
            admin,
            f"CREATE TABLE {name} (LIKE {base}) PARTITION BY HASH (id)",
            *(f"CREATE TABLE {name}_{i} PARTITION OF {name} FOR VALUES WITH "
              f"(MODULUS 3, REMAINDER {i})" for i in range(3)),
            f"INSERT INTO {name} SELECT * FROM {base}",
        )  # fmt: skip
    elif kind == "materialized":
        run(admin, f"CREATE MATERIALIZED VIEW {name} AS SELECT {columns} FROM {base}")
    else:
        run(admin, f"CREATE VIEW {name}_1 AS SELECT {columns}, 1 AS more FROM {base}")
        below = f"{name}_1" if kind == "view of a view" else base
        run(admin, f"CREATE VIEW {name} AS SELECT {columns} FROM {below} WHERE id >= 0")
    run(admin, f"GRANT SELECT ON {name} TO reader")
    wanted = duckdb_engine(people(), PEOPLE)
    assert sums(engine_of(name, PEOPLE), *QUESTIONS) == sums(wanted, *QUESTIONS)


def test_names_of_tables_and_schemas(admin):
    """Quotes, dots, capitals and key words; one name in two schemas must be said in full."""
    spaces = [postgres.fresh_name('Sp "a".ce'), postgres.fresh_name("other")]
    for i, space in enumerate(spaces):
        quoted = '"' + space.replace('"', '""') + '"'
        run(
            admin,
            f"CREATE SCHEMA {quoted}",
            f'CREATE TABLE {quoted}."Select; --" ("x" int)',
            f'INSERT INTO {quoted}."Select; --" SELECT generate_series(1, {i + 3})',
            f"GRANT USAGE ON SCHEMA {quoted} TO reader",
            f'GRANT SELECT ON {quoted}."Select; --" TO reader',
        )
    schema = {"x": {"type": "integer", "low": 0, "high": 9}}
    assert [engine_of(f"{s}.Select; --", schema).rows for s in spaces] == [3, 4]
    with pytest.raises(sulq.SchemaError, match="names several"):
        engine_of("Select; --", schema)
    with pytest.raises(sulq.SchemaError, match="is not there"):
        engine_of("select; --", schema)


def test_a_column_may_be_all_that_is_granted(admin, role):
    """Rights on some columns are enough; the others might as well not be there."""
    table = postgres.load(people(), Schema.load(PEOPLE))
    run(admin, f"GRANT SELECT (id, age) ON {table} TO {role}")
    schema = {n: PEOPLE[n] for n in ("id", "age")}
    engine = engine_of(table, schema, role)
    assert sums(engine, sulq.Query(["age"]))[0][0] == [sum(people().column("age").to_pylist())]
    assert engine.contents() != engine_of(table, schema).contents()  # more columns, more contents
    turned = engine_of(table, dict(reversed(schema.items())), role)
    assert turned.contents() == engine.contents()  # in whatever order they are declared
    with pytest.raises(sulq.SchemaError, match="'income' is declared but not in the source"):
        engine_of(table, PEOPLE, role)


# --- roles, settings, statements -------------------------------------------------------------

HOSTILE = {
    "TimeZone": "Asia/Tokyo", "DateStyle": "SQL, DMY",
    "extra_float_digits": "-15", "transform_null_equals": "on", "bytea_output": "escape",
    "IntervalStyle": "iso_8601", "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "off", "statement_timeout": "1d", "array_nulls": "off",
    "client_encoding": "LATIN1",
}  # fmt: skip


def test_a_role_with_hostile_settings_gives_the_same_integers(admin, role):
    """Settings, and functions of the same names earlier in the path, change nothing."""
    evil = postgres.fresh_name("evil")
    path = {"search_path": f"{evil}, public, pg_catalog"}
    run(
        admin,
        f"CREATE SCHEMA {evil}",
        f"GRANT USAGE ON SCHEMA {evil} TO {role}",
        *(
            f"CREATE FUNCTION {evil}.{name}({kind}) RETURNS {kind} LANGUAGE sql AS 'SELECT $1 * 2'"
            for name in ("abs", "round", "trunc", "sign", "floor")
            for kind in ("float8", "int8", "numeric")
        ),
        f"CREATE FUNCTION {evil}.md5(text) RETURNS text LANGUAGE sql AS $$SELECT 'ffffffff'$$",
        *(
            f"ALTER ROLE {role} SET {name} = {value}"
            for name, value in ({n: repr(v) for n, v in HOSTILE.items()} | path).items()
        ),
    )  # fmt: skip
    rows = people().append_column("name", pa.array([f"né {i}" for i in range(200)]))
    rows = rows.append_column("day", pa.array([DAY(2020, 2, 1 + i % 28) for i in range(200)]))
    schema = {k: v for k, v in PEOPLE.items() if k != "id"} | {
        "name": {"key": True},
        "day": {"type": "date", "low": DAY(2000, 1, 1), "high": DAY(2030, 1, 1)},
    }
    table = postgres.load(rows, Schema.load(schema), role=role)
    questions = [
        *QUESTIONS,
        sulq.Query(["abs(income - 500)", "round(income, 1)", "length(name)"]),
        sulq.Query(by="date_trunc('month', day)"),
        sulq.Query(where="region = null or name like '%é%'"),
        sulq.Query(["day = '2020-02-03'", "exp(day is null)"]),
    ]
    engine = engine_of(table, schema, role)
    assert sums(engine, *questions) == sums(duckdb_engine(rows, schema), *questions)
    with engine._snapshot():
        said = dict(engine._ask("SELECT name, setting FROM pg_settings"))
    assert said["search_path"] == PINNED["search_path"]
    assert said["transaction_read_only"] == "on"


def test_a_setting_that_will_not_hold_stops_the_question(monkeypatch):
    """What is pinned is also asked for; a server that says otherwise is not read."""
    engine = postgres_engine(people(), PEOPLE)
    monkeypatch.setitem(PINNED, "DateStyle", "ISO, MDY ")  # control: said back without the space
    with pytest.raises(sulq.Refused, match="the server says DateStyle"):
        sums(engine, sulq.Query())


def test_only_reading_statements_ever_reach_the_server(admin, role):
    """The server's own log of a session with every kind of question: BEGIN, pins, SELECT, COPY."""
    run(admin, f"ALTER ROLE {role} SET log_statement = 'all'")
    hostile = "'; DROP TABLE x; --"
    declared = PEOPLE | {"region": {"values": ["north", "south", hostile], "public": True}}
    table = postgres.load(people(), Schema.load(declared), role=role)
    log = postgres.shared().folder / "run" / "log"
    before = len(log.read_text(errors="replace"))
    engine = engine_of(table, declared, role)
    sums(
        engine,
        *QUESTIONS,
        sulq.Query(where=f"coalesce(region, '') = '{hostile.replace(chr(39), chr(39) * 2)}'"),
    )
    engine.version(), engine.contents()
    text = log.read_text(errors="replace")[before:]
    entries = re.split(r"\n(?=\d{4}-\d\d-\d\d )", text)
    logged = re.compile(r"LOG:  (?:statement|execute [^:]*):(.*)", re.DOTALL)
    found = [s[1].strip() for e in entries if (s := logged.search(e))]
    heads = {s.split()[0] for s in found}
    assert heads <= {"BEGIN", "SELECT", "COPY", "ROLLBACK", "WITH"}, heads
    assert any(s.startswith("COPY (SELECT ") and " TO STDOUT " in s for s in found)
    assert any("DROP TABLE" in s for s in found)  # control: only ever inside quotes
    assert all("''; DROP TABLE x" in s for s in found if "DROP TABLE" in s)
    pins = {p.split()[0] for s in found if s.startswith("BEGIN") for p in s.split("; ")}
    assert pins == {"BEGIN", "SET", "SELECT"}
    words = ("pg_sleep", "set_config", "query_to_xml", "pg_advisory", "pg_read", "lo_import")
    assert not any(w in text for w in words)


def test_even_our_own_session_cannot_write(admin, role):
    """A role that may write is warned about, and its transactions still are read-only."""
    table = postgres.load(people(), Schema.load(PEOPLE), role=role)
    run(admin, f"GRANT ALL ON {table} TO {role}")
    with pytest.warns(UserWarning, match="may also write there"):
        engine = engine_of(table, PEOPLE, role)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), engine._snapshot():
        engine._connection.execute(f"DELETE FROM public.{table}".encode())
    with pytest.raises(psycopg.errors.SyntaxError), engine._snapshot():
        engine._ask("SELECT 1; SELECT 2")  # one statement at a time
    assert engine.rows == 200


def test_what_grant_prints_is_what_is_needed(admin, tmp_path):
    """The SQL runs; the role reads the declared columns of one table, and nothing else."""
    from typer.testing import CliRunner

    from sulq.cli import app

    other = postgres.load(people(), Schema.load(PEOPLE), role="postgres")
    table = postgres.load(people(), Schema.load(PEOPLE), role="postgres")
    name = postgres.fresh_name("Re'ad\"er")
    (tmp_path / "p.toml").write_text(
        "[columns.id]\nkey = true\n[columns.smoker]\ntype = 'boolean'\n"
    )
    words = ["postgres", "grant", "--table", table, "--role", name]
    printed = CliRunner().invoke(app, [*words, "--schema", str(tmp_path / "p.toml")])
    assert printed.exit_code == 0, printed.output
    admin.execute(printed.output.encode())
    quoted = '"' + name.replace('"', '""') + '"'
    try:
        address = postgres.shared().url("x").replace("x@", name.replace('"', "%22") + "@")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine = PostgresEngine(open_source(address, table), Schema.load(tmp_path / "p.toml"))
        assert sums(engine, sulq.Query(["smoker"]))[0][0][0] == sum(people()["smoker"].to_pylist())
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"SELECT id, xmin FROM public.{table}".encode())
            for refused in (
                f"SELECT age FROM {table}", f"SELECT * FROM {other}", f"DELETE FROM {table}",
                "CREATE TABLE public.mine (x int)", "CREATE TEMP TABLE mine (x int)",
            ):  # fmt: skip
                with pytest.raises((psycopg.errors.InsufficientPrivilege,
                                    psycopg.errors.ReadOnlySqlTransaction,
                                    psycopg.errors.UndefinedTable)):  # fmt: skip
                    connection.execute(refused.encode())
    finally:
        engine.close()
        run(admin, f"DROP OWNED BY {quoted}", f"DROP ROLE {quoted}")


def test_rows_hidden_by_a_policy_are_refused(admin, role):
    """Row security would leave rows out without a word; then it is not the table."""
    table = postgres.load(people(), Schema.load(PEOPLE), role=role)
    run(
        admin,
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY few ON {table} USING (id > 5)",
    )
    with pytest.raises(sulq.SchemaError, match="row security policy"):
        engine_of(table, PEOPLE, role)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("postgresql://who:hunter2@/postgres?host={}", "cannot be reached"),
        ("postgresql://reader:hunter2@/nowhere?host={}", "cannot be reached"),
        ("postgresql://reader:hunter2@/postgres?host={}/nothing", "cannot be reached"),
        ("postgresql://reader:hunter2@/postgres?host={}&nonsense=1", "cannot be reached"),
    ],
)
def test_an_address_that_does_not_work_is_explained_without_its_password(address, why):
    """Which server and why, never the password; nor does anything else show it."""
    source = open_source(address.format(postgres.shared().folder / "run"), "people")
    assert "hunter2" not in repr(source)
    with pytest.raises(sulq.SchemaError, match=why) as error:
        PostgresEngine(source, Schema.load(PEOPLE))
    assert "hunter2" not in str(error.value)


PUBLIC = {
    "region": {"values": ["north", "south"], "public": True},
    "ward": {"values": [1, 2], "public": True},
    "day": {"type": "date", "low": "2000-01-01", "high": "2000-01-03", "public": True},
    "age": {"type": "integer", "low": 0, "high": 9, "public": True},
    "x": {"type": "number", "low": 0, "high": 1, "public": True},
    "b": {"type": "boolean", "public": True},
    "t": {"type": "text", "public": True},
    "nothing": {"type": "text", "public": True},
    "secret": {"type": "boolean"},
}


def public_rows():
    """Every type, within bounds and beyond, and rows where all of it is missing."""
    days = [DAY(2000, 1, 2), DAY(1999, 1, 1), DAY(2020, 1, 1), None]
    return pa.table({
        "region": ["north", "moon", "south", None] * 3, "ward": [1, 2, 7, None] * 3,
        "day": days * 3, "age": [-5, 3, 99, None] * 3, "x": [0.25, -1.0, 2.0, None] * 3,
        "b": [True, False, True, None] * 3, "t": ["a", "", "\u00e9", None] * 3,
        "nothing": pa.array([None] * 12, pa.string()), "secret": [True] * 12,
    })  # fmt: skip


def counted(engine):
    """How many rows have each combination of all public columns, and of each one alone."""
    names = [n for n, c in PUBLIC.items() if c.get("public")]
    found = [engine.groups(n) for n in (names, *([name] for name in names))]
    assert all(len(arrow_vector(c).data) == t.num_rows for t in found for c in t.columns)
    return [sorted(str(list(row.values())) for row in table.to_pylist()) for table in found]


def test_rows_are_counted_by_public_columns():
    """What is public costs nothing: the combinations that DuckDB finds, and no private column."""
    ours, theirs = (make(public_rows(), PUBLIC) for make in (postgres_engine, duckdb_engine))
    assert counted(ours) == counted(theirs)
    with pytest.raises(sulq.QueryNotAllowed, match="'secret' is not public"):
        ours.groups(["secret"])


ASKED = ["a", "a and region = 'north'", "a and id <> 17", "a and b", "b and id < 20", "c or a"]


def test_the_auditor_decides_as_on_duckdb():
    """rule="classes": the same questions answered, with the same sums, and the same refused."""
    rows = audited_people(6000)
    address, name = in_postgres(rows, AUDITED)
    found = [[outcome(db, q) for q in ASKED]
             for db in (audited(rows), audited(address, table=name))]  # fmt: skip
    assert found[0] == found[1]
    assert found[0].count("refused") == 2


# --- others who write, servers that go away ----------------------------------------------------


def own_table():
    return postgres.load(people(), Schema.load(PEOPLE))


def database(table, folder, **settings):
    settings = {"epsilon": 1.0, "queries": 100, "ledger": folder / "people.ledger"} | settings
    db = sulq.open(postgres.shared().url("reader"), PEOPLE, table=table, **settings)
    db._pipeline.noise = SilentNoise()
    return db


CHANGES = {
    "a row added": "INSERT INTO {} VALUES (999, 1, 1, 'north', true)",
    "a row changed": "UPDATE {} SET age = age + 1 WHERE id = 7",
    "a row removed": "DELETE FROM {} WHERE id = 7",
    "all removed": "TRUNCATE {}",
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_rows_stop_the_database(admin, tmp_path, change):
    """Running and at the next start; a refresh is logged, and spending goes on."""
    table = own_table()
    db = database(table, tmp_path)
    db.count("smoker")
    flushed(admin, CHANGES[change].format(table))
    with pytest.raises(sulq.SourceChanged, match="Nothing was charged"):
        db.count("age > 3")
    assert len(db.history()) == 1
    with pytest.raises(sulq.SourceChanged):
        database(table, tmp_path)
    from sulq.open_database import refresh

    address = postgres.shared().url("reader")
    with refresh(address, ledger=tmp_path / "people.ledger", table=table, reason="new rows") as new:
        assert new.budget.spent == 1
        assert new.rows == {"a row added": 201, "a row removed": 199, "all removed": 0}.get(
            change, 200
        )
        new.count("smoker")
        assert new.budget.spent == 2
    assert database(table, tmp_path).budget.spent == 2


SAME = {
    "written in another order": "CREATE TABLE {0}_x AS SELECT * FROM {0} ORDER BY age; "
    "TRUNCATE {0}; INSERT INTO {0} SELECT * FROM {0}_x",
    "packed": "VACUUM FULL {0}",
    "changed and changed back": "UPDATE {0} SET age = age + 1; UPDATE {0} SET age = age - 1",
    "changed and rolled back": "BEGIN; DELETE FROM {0}; ROLLBACK",
    "another column": "ALTER TABLE {0} ADD COLUMN more int DEFAULT 5; UPDATE {0} SET more = id",
}


@pytest.mark.parametrize("change", SAME)
def test_the_same_rows_go_on(admin, tmp_path, change):
    """What moves the files and counters but no value is no change."""
    table = own_table()
    db = database(table, tmp_path)
    db.count("smoker")
    for statement in SAME[change].format(table).split("; "):
        flushed(admin, statement)
    db.count("age > 3")
    assert database(table, tmp_path).budget.spent == 2


def test_one_table_has_one_ledger(admin, tmp_path):
    """A copy of it, a view of it, or itself with a row more: no new budget in this folder."""
    table = own_table()
    database(table, tmp_path).close()
    other = {"ledger": tmp_path / "other.ledger"}
    with pytest.raises(sulq.Refused, match=r"already have a ledger .* 'people.ledger'"):
        database(table, tmp_path, **other)
    run(admin, f"CREATE TABLE {table}_copy AS SELECT * FROM {table} ORDER BY income",
        f"CREATE VIEW {table}_view AS SELECT * FROM {table}",
        f"GRANT SELECT ON {table}_copy, {table}_view TO reader")  # fmt: skip
    for name in (f"{table}_copy", f"{table}_view"):
        with pytest.raises(sulq.Refused, match="already have a ledger"):
            database(name, tmp_path, **other)
    flushed(admin, CHANGES["a row added"].format(table))
    with pytest.raises(sulq.Refused, match="already have a ledger"):
        database(table, tmp_path, **other)


def test_nothing_kept_beside_the_ledger_tells_of_rows(admin, tmp_path):
    """The hash of all rows is keyed before it is written anywhere."""
    table = own_table()
    db = database(table, tmp_path)
    db.count("smoker")
    plain = " ".join(db._pipeline.engine.contents())
    db.close()
    numbers = re.findall(r"-?\d{6,}", plain)
    assert numbers
    files = [f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()]
    assert not any(n.encode() in body for n in numbers for body in files)
    assert not any(b"reader@" in body for body in files)


def test_a_question_sees_one_state_of_the_rows(admin, monkeypatch):
    """A row written while a batch is under way is in none of its sums, or in all."""
    table = own_table()
    engine = engine_of(table, PEOPLE)
    real = postgres_stream._copied

    def meanwhile(connection, sql, step):
        run(admin, f"DELETE FROM {table} WHERE smoker")
        return real(connection, sql, step)

    monkeypatch.setattr(postgres_stream, "_copied", meanwhile)
    late = sulq.Query(["smoker", "exp(income * 0)"])
    assert sums(engine, sulq.Query(where="smoker"), late)[1][0][0] == sum(
        people()["smoker"].to_pylist()
    )
    assert sums(engine, late)[0][0][0] == 0  # the next question sees the next state


def test_a_failing_row_is_charged_and_not_described(admin, tmp_path):
    """A view that divides by zero for one row: no sum, no word of the row, and it stops.

    Once the owner has gone on, asking again is free.
    """
    table = own_table()
    run(admin, f"CREATE VIEW {table}_v AS SELECT id, 100 / (age - 500) AS age, income, region, "
        f"smoker FROM {table}", f"GRANT SELECT ON {table}_v TO reader")  # fmt: skip
    db = database(f"{table}_v", tmp_path)
    run(admin, f"UPDATE {table} SET age = 500 WHERE id = 7")
    db._pipeline.guard.check = lambda: None  # it happens between the look and the scan
    with pytest.raises(sulq.EngineFailed, match="The charge stands") as error:
        db.sum("age")
    assert error.value.__cause__ is error.value.__context__ is None
    assert "zero" not in str(error.value)
    assert db.budget.spent == 1
    run(admin, f"UPDATE {table} SET age = 40 WHERE id = 7")
    with pytest.raises(sulq.Frozen, match="Nothing was charged"):
        db.sum("age")
    assert (db.frozen.engine, db.frozen.error) == ("PostgreSQL", "DivisionByZero")
    db.resume("the view was mended")
    db.sum("age")
    assert db.budget.spent == 1


def kick(admin, engine):
    admin.execute("SELECT pg_terminate_backend(%s)", [engine._connection.info.backend_pid])


def test_a_lost_connection_is_made_again(admin, tmp_path):
    """Between questions nobody notices; in the middle of one it is charged, and free after."""
    db = database(own_table(), tmp_path)
    kick(admin, db._pipeline.engine)
    assert float(db.count("smoker")) == sum(people()["smoker"].to_pylist())
    real = db._pipeline.engine._by_sql

    def cut(queries):
        kick(admin, db._pipeline.engine)
        return real(queries)

    db._pipeline.engine._by_sql = cut
    with pytest.raises(sulq.EngineFailed, match="does not pay again"):
        db.count("age > 3")
    db._pipeline.engine._by_sql = real
    assert db.budget.spent == 2
    db.count("age > 3")
    assert db.budget.spent == 2


def test_a_question_can_be_interrupted(admin):
    """A scan that somebody stops raises EngineFailed, and the next one works."""
    table = own_table()
    engine = engine_of(table, PEOPLE)
    with psycopg.connect(postgres.shared().url()) as blocker:
        blocker.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        pid = engine._connection.info.backend_pid
        waiting = "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted"

        def stop():
            while not admin.execute(waiting, [pid]).fetchone()[0]:
                pass
            engine.interrupt()

        thread = threading.Thread(target=stop)
        thread.start()
        with pytest.raises(sulq.EngineFailed):
            sums(engine, sulq.Query())
        thread.join()
    assert sums(engine, sulq.Query()) == [[[200]]]


def test_a_forked_child_has_a_connection_of_its_own():
    """Parent and child ask at the same time, and neither hears the other's answer."""
    engine = postgres_engine(people(), PEOPLE)
    wanted = sums(engine, *QUESTIONS)
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if all(sums(engine, *QUESTIONS) == wanted for _ in range(5)) else 1)
        finally:
            os._exit(2)
    assert all(sums(engine, *QUESTIONS) == wanted for _ in range(5))
    assert os.waitpid(pid, 0)[1] == 0


def test_memory_does_not_grow_with_the_table(admin, monkeypatch):
    """Of a stream of 20 batches no more than the one being read and the next are ever here."""
    table = postgres.fresh_name("long")
    run(admin, f"CREATE UNLOGGED TABLE {table} AS SELECT g AS id, g % 97 AS age, 'word ' || g AS t "
        "FROM generate_series(1, 20000) g", f"GRANT SELECT ON {table} TO reader")  # fmt: skip
    engine = engine_of(table, {"id": {"key": True}, "age": PEOPLE["age"], "t": {"type": "text"}})
    made, alive = [], []

    class Watched(postgres_stream.Batch):
        def __init__(self, columns, rows, schema):
            super().__init__(columns, rows, schema)
            made.append(weakref.ref(self))
            alive.append(sum(seen() is not None for seen in made))
            assert rows <= 1000

    monkeypatch.setattr(postgres_stream, "Batch", Watched)
    monkeypatch.setattr(engines_postgres, "BATCH", (1000, 1000))
    (found,) = sums(engine, sulq.Query(["exp(age * 0)"], where="t like '%7'"))
    assert found[0][0] > 0
    assert len(made) == 20
    assert max(alive) <= 2


# --- the product over it ------------------------------------------------------------------------


def both(rows, schema, **settings):
    """The same rows in DuckDB and in PostgreSQL, without noise; `given` is every exact sum."""
    made = [opened(rows, schema, engine=e, name="people", **settings) for e in (None, "postgres")]
    for db in made:
        db.given = []
        db._pipeline.engine.sums = recorded(db._pipeline.engine.sums, db.given)
    return made


def recorded(sums_of, given):
    def recording(queries):
        found = sums_of(queries)
        given.append(found)
        return found

    return recording


STATEMENTS = [
    "select region, count(*), avg(income) from people group by region",
    "select region, smoker, count(*), sum(age), stddev(income) from people group by region, smoker",
    "select median(age), corr(age, income), count(distinct region) from people where smoker",
    "select floor(age / 10) as decade, count(*) filter (where income > 500) from people "
    "group by floor(age / 10) having count(*) > 3 order by 2 desc limit 5",
    "with old as (select * from people where age >= 65) select count(*), avg(income) from old",
    "select sum(income * age / 100), max(age) from people",
]


def ask_both(ours, theirs):
    """Both say the same to every statement, an answer or a refusal."""
    for statement in STATEMENTS:
        found = []
        for db in (ours, theirs):
            try:
                found.append(str(db.sql(statement).to_arrow().to_pylist()))
            except sulq.QueryNotAllowed as refused:
                found.append(str(refused))
        assert found[0] == found[1]


def test_statements_are_those_of_duckdb():
    """Every number of a SELECT, without noise, to the last bit; and every exact sum below it."""
    ours, theirs = both(people(), PEOPLE)
    ask_both(ours, theirs)
    assert ours.given == theirs.given
    assert len(ours.given) >= len(STATEMENTS) - 2


def test_learning_is_that_of_duckdb():
    """PCA, k-means, the perceptron and ID3 take the same steps on the same exact sums."""
    from sulq.learn import ID3, PCA, KMeans, Perceptron

    rng = np.random.default_rng(3)
    centres = rng.choice([0.2, 0.8], (600, 1))
    points = np.clip(centres + rng.normal(0, 0.1, (600, 3)), 0, 1)
    rows = pa.table({f"x{i}": points[:, i] for i in range(3)} | {
        "y": centres[:, 0] > 0.5, "z": rng.choice(["a", "b"], 600)})  # fmt: skip
    unit = {"type": "number", "low": 0, "high": 1, "nullable": False, "bins": [0, 0.5, 1]}
    schema = {f"x{i}": unit for i in range(3)} | {
        "y": {"type": "boolean", "nullable": False}, "z": {"values": ["a", "b"]}}  # fmt: skip
    names, found = ["x0", "x1", "x2"], []
    ours, theirs = both(rows, schema, queries=100_000)
    for db in (ours, theirs):
        pca = PCA(n_components=2).fit(db, columns=names)
        means = KMeans(n_clusters=2, max_iter=3).fit(db, columns=names)
        plane = Perceptron(max_iter=5).fit(db, columns=names, label="y")
        tree = ID3(max_depth=2).fit(db, columns=["x0", "z"], label="y")
        view = db.project(pca)
        view._pipeline.noise = SilentNoise()
        found.append([str(x) for x in (
            pca.components_, pca.explained_variance_, means.cluster_centers_, plane.coef_, tree,
            view.sum("pc1").value,
        )])  # fmt: skip
    assert found[0] == found[1]
    assert ours.given == theirs.given
    assert len(ours.given) > 6


def test_mining_across_databases_is_that_of_duckdb():
    """Blocks of shared keys: a hospital in PostgreSQL, an insurer in DuckDB, the same estimate."""
    from vertical.data import BOOLEAN, properties

    from sulq import vertical

    a, b = properties(4000)
    keys, declared = np.arange(4000), {"id": {"key": True}}
    hospitals = both(pa.table({"id": keys, "a": a}), declared | {"a": BOOLEAN})
    insurer = opened(pa.table({"id": keys, "b": b}), declared | {"b": BOOLEAN}, name="insurer")
    found = [vertical.implication(h, "a", insurer, "b", seed=1) for h in hospitals]
    assert str(found[0]) == str(found[1])
    ours, theirs = (h.given for h in hospitals)
    assert ours == theirs
    assert ours


KEYS = {
    "integer": pa.int32(), "bigint": pa.int64(), "numeric": pa.decimal128(20, 0),
    "text": pa.string(),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_questions_that_hash_the_key_are_those_of_duckdb(kind, tmp_path):
    """Blocks, samples and a publication through the front door, whatever the key is stored as."""
    from sulq import vertical

    table = people(60)
    key = table["id"].cast(KEYS[kind])
    name = postgres.load(table.set_column(0, "id", key), Schema.load(PEOPLE))
    ours = opened(postgres.shared().url("reader"), PEOPLE, table=name)
    whole = pa.int64() if kind == "numeric" else KEYS[kind]  # what a frame can key rows by
    theirs = opened(table.set_column(0, "id", table["id"].cast(whole)), PEOPLE)
    values = (["age"], ["exp(income / 1000)"], sulq.Sums(["age", "income"]), sulq.Products(["age"]))
    asked = [sulq.Query(v, by=by, rows=rows, where="smoker") for v in values for by, rows in (
        (sulq.Blocks(3, 70), None), ("region", sulq.Rows.sample(1, 0.5)),
    )]  # fmt: skip
    found = [[a.values for a in db.ask(asked)] for db in (ours, theirs)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    told = []
    for number, db in enumerate((ours, theirs)):
        made = vertical.publish(db, {"old": "exp(age) > 9", "rich": "income > 500"}, 2,
                                tmp_path / f"{number}.parquet", blocks=16)  # fmt: skip
        told.append(made.probability("old and rich").value)
    assert told[0] == told[1]


# --- without it -----------------------------------------------------------------------------------

CHILD = """
import sys, sulq, numpy
db = sulq.open(numpy.zeros((3, 2)), epsilon=1.0, queries=9, ledger=sys.argv[1] + "/a.ledger")
db.count("x0 > 0.5")
assert not [m for m in sys.modules if m.split(".")[0] == "psycopg"], "loaded without need"
sys.modules["psycopg"] = None
for source, ledger in ((sys.argv[2], None), (numpy.zeros((3, 2)), sys.argv[2])):
    try:
        schema = {"x": {"type": "boolean"}} if ledger is None else None
        sulq.open(source, schema, table="t", epsilon=1.0, queries=9, ledger=ledger)
    except sulq.MissingExtra as missing:
        print(missing)
"""


def test_psycopg_is_loaded_on_demand_and_named_when_missing(tmp_path):
    """import sulq does without it; an address says what to install, as source and as ledger."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), "postgresql://somewhere/db"],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"SULQ_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == ["PostgreSQL needs: pip install 'sulq[postgres]'"] * 2, (
        done.stderr
    )


def test_where_the_tests_find_their_server():
    """One folder for all workers of a run, and it is not the working directory."""
    assert Path(os.environ[postgres.FOLDER].rpartition(":")[0]).is_dir()

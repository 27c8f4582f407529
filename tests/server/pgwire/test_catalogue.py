"""Browsing: from schemas alone, free, and with no way out of the catalogues."""

import time
from contextlib import suppress

import psycopg
import pytest
from server.pgwire.wired import wired

from sulq.server.pgwire import catalogue
from sulq.server.pgwire.catalogue import Catalogue, Offered, Unanswerable
from sulq.server.pgwire.catalogue_sql import NoSuch, NotSql, SessionFacts, parsed, written
from sulq.values.schema import Schema

SCHEMA = Schema.load({"columns": {"age": {"type": "integer", "low": 0, "high": 120}}})
FACTS = SessionFacts("me", "sulq", 7, "PostgreSQL 15.0", {}.get, lambda name, value: value)


@pytest.fixture(scope="module")
def made():
    found = Catalogue("sulq", "me", [Offered("people", "Some people.", SCHEMA)])
    yield found
    found.close()


def asked(made, text):
    return made.run(written(parsed(text), FACTS))[1]


def test_a_dataset_is_a_table_with_what_its_schema_says(made):
    """Name, types, ranges; the rows have no part in it."""
    assert asked(made, "select relname, relkind from pg_catalog.pg_class") == [("people", "r")]
    described = asked(
        made,
        "select a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), "
        "col_description(a.attrelid, a.attnum) from pg_attribute a "
        "where a.attrelid = 'public.people'::regclass",
    )
    assert described == [("age", "bigint", "0 to 120; private")]
    assert asked(made, "select table_name from information_schema.tables") == [("people",)]
    assert asked(made, "select 'people'::regclass, 'people'::regclass::oid") == [("people", 16384)]


@pytest.mark.parametrize("text", [
    "select * from read_csv('/etc/passwd')", "select * from '/etc/passwd'",
    "select getenv('HOME')", "select * from duckdb_settings()", "select * from people",
    "select * from pg.pg_class", "select * from main.pg_class", "select * from glob('*')",
    "copy pg_class to '/tmp/x'", "attach '/tmp/x' as y", "install httpfs", "pragma version",
    "select * into x from pg_class", "create table x (a int)", "select * from pg_class for update",
    "select read_text('/etc/passwd')", "set memory_limit = '1TB'", "select sulq_type(1)",
    "select * from sqlite_master", "select * from memory.pg.pg_class", "call pragma_version()",
    "with x as (delete from pg_class returning *) select * from x", "select 1; select 2",
])  # fmt: skip
def test_nothing_but_selects_over_catalogues_is_written(text):
    """What is not on the lists never reaches DuckDB."""
    with pytest.raises((NoSuch, NotSql)):
        written(parsed(text), FACTS)


def test_what_is_written_reaches_no_file_even_if_it_were_not_refused(made, tmp_path):
    """DuckDB itself is closed, and stays so."""
    (tmp_path / "x.csv").write_text("a\n1\n")
    for text in (f"select * from '{tmp_path}/x.csv'", "set enable_external_access = true",
                 f"copy (select 1) to '{tmp_path}/y.csv'", f"attach '{tmp_path}/z.db' as z",
                 "install httpfs", "set memory_limit = '1TB'"):  # fmt: skip
        with pytest.raises(Unanswerable):
            made.run(text)
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]


def test_a_statement_that_does_not_end_is_stopped(made, monkeypatch):
    """After a time that nobody can choose, and the next one is answered."""
    monkeypatch.setattr(catalogue, "MAX_SECONDS", 0.3)
    many = ", ".join(f"pg_type t{i}" for i in range(8))
    begun = time.monotonic()
    with pytest.raises(Unanswerable):
        asked(made, f"select count(*) from {many} where t0.typname || t7.typname = 'x'")
    assert time.monotonic() - begun < 60  # endless is longer than any load
    assert asked(made, "select 1") == [(1,)]


def test_browsing_costs_nothing_and_reads_no_row(pg):
    """Catalogues and a look at a table's columns: not a micro-query, and no allowance is needed."""
    before = pg.spent()
    with pg.connect() as connection:
        for text in ("select * from pg_class", "select * from information_schema.columns",
                     "select * from people limit 0", "select age, city from people where 1 = 0",
                     "select version(), current_schema(), pg_backend_pid()"):  # fmt: skip
            assert connection.execute(text).description
        empty = connection.execute("select * from people limit 0")
        names = [d.name for d in empty.description]
        assert names == ["id", "region", "secret", "age", "income", "city"]
        assert empty.fetchall() == []
    assert pg.spent() == before


def test_a_question_that_duckdb_cannot_run_gives_no_rows(pg):
    """Tools ask for much that has no meaning here; its columns are there, and they go on."""
    with pg.connect() as connection:
        found = connection.execute(
            "select c.relname as name, (information_schema._pg_expandarray(i.indkey)).n as place "
            "from pg_index i join pg_class c on c.oid = i.indrelid"
        )
        assert [d.name for d in found.description] == ["name", "place"]
        assert found.fetchall() == []
        with pytest.raises(psycopg.errors.UndefinedFunction):
            connection.execute("select pg_read_file('x')")


def test_twins_look_alike_when_they_are_browsed(tmp_path):
    """Two tables that differ in a row: every catalogue is the same, byte for byte."""
    from attacks.harness import people

    seen = []
    for table in (people(), people(200, seed=1, city=["lima"] * 200)):
        with wired(tmp_path / str(len(seen)), table=table) as pg, pg.connect() as connection:
            seen.append([
                connection.execute(f"select * from {name}").fetchall()
                for name in ("pg_attribute", "information_schema.columns", "pg_description",
                             "pg_stats", "pg_stat_user_tables", "pg_tables")
            ])  # fmt: skip
    owner = [[row[:2] + row[3:] for row in found[-1]] for found in seen]
    assert seen[0][:-1] == seen[1][:-1]
    assert owner[0] == owner[1]


def test_no_statement_fills_the_memory(made, monkeypatch):
    """Long series, texts that are doubled, lists of everything: short, missing or stopped."""
    import psutil

    monkeypatch.setattr(catalogue, "MAX_SECONDS", 0.5)
    doubled = "select 'xxxxxxxxxx' as x"
    for i in range(32):
        doubled = f"select x || x as x from ({doubled}) q{i}"
    many = ", ".join(f"pg_type t{i}" for i in range(6))
    process = psutil.Process()
    before = process.memory_info().rss
    for text in ("select generate_series(1, 100000000)", doubled,
                 "select count(*) from generate_series(1, 1000000000000) g",
                 f"select array_agg(t0.typname) from {many}",
                 f"select string_agg(t0.typname || t1.typname, ',') from {many}",
                 f"select t0.typname from {many} order by t3.typname, t4.typname",
                 "with recursive r as (select 1 as n union all select n + 1 from r) "
                 "select count(*) from r"):  # fmt: skip
        with suppress(Unanswerable):
            assert len(asked(made, text)) <= catalogue.MAX_ROWS
    assert process.memory_info().rss - before < 200_000_000

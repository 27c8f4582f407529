"""Rows in PostgreSQL that change behind a database's back, in whatever way the server allows.

Nobody may be counted in more than T answers because a change went unnoticed. No luck is involved.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import postgres
import pytest
from helpers import SilentNoise
from sqlalchemy import text

import sulq
from sulq.engines.postgres.engine import PostgresEngine
from sulq.ledger import postgres as ledger_server
from sulq.sources import postgres_catalog as catalog
from sulq.sources.source import open_source
from sulq.values.schema import Schema

psycopg = postgres.driver()
REGIONS = ["north", "south", "east", "west"]
PEOPLE = {
    "id": {"key": True},
    "region": {"values": REGIONS, "public": True},
    "ill": {"type": "boolean"},
}
PLAIN = "SELECT id, region, ill FROM {0}"


@pytest.fixture
def admin():
    with postgres.shared().connect() as connection:
        yield connection


def run(connection, *statements):
    for statement in statements:
        connection.execute(statement.encode())


def table(admin):
    """400 people, a quarter in each region, half of them ill."""
    name = postgres.fresh_name("people")
    run(admin, f"CREATE TABLE {name} (id int, region text, ill boolean)",
        f"INSERT INTO {name} SELECT i, (ARRAY['north', 'south', 'east', 'west'])[1 + i % 4], "
        f"i % 8 < 4 FROM generate_series(1, 400) i",
        f"GRANT SELECT ON {name} TO reader", "SELECT pg_stat_force_next_flush()")  # fmt: skip
    return name


def view(admin, query):
    name = postgres.fresh_name("view")
    run(admin, f"CREATE VIEW {name} AS {query}", f"GRANT SELECT ON {name} TO reader")
    return name


def database(name, folder, server=None, place="postgres", **settings):
    settings = {"epsilon": 1.0, "queries": 10, "ledger": folder / "people.ledger"} | settings
    address = (server or postgres.shared()).url("reader", place)
    db = sulq.open(address, PEOPLE, table=name, **settings)
    db._pipeline.noise = SilentNoise()
    return db


def engine_of(name, server=None):
    address = (server or postgres.shared()).url("reader")
    return PostgresEngine(open_source(address, name), Schema.load(PEOPLE))


def check_noticed(db, reopen):
    """Stopped while it runs, and at the next start; nothing was charged for it."""
    spent = db.budget.spent
    with pytest.raises(sulq.SourceChanged, match="Nothing was charged"):
        db.count("ill and id > 1")
    assert db.budget.spent == spent
    with pytest.raises(sulq.SourceChanged):
        reopen()


# ---- what moves rows --------------------------------------------------------------------------

TURNED = "SELECT id, region, NOT ill AS ill FROM {0}"
# Each is told by three names: the table below, what is opened, and a name nobody has.
WAYS = {
    "another view": (PLAIN, "CREATE OR REPLACE VIEW {1} AS " + TURNED),
    "another view below": (
        "SELECT * FROM {0}_below", f"CREATE OR REPLACE VIEW {{0}}_below AS {TURNED}",
    ),
    "a table behind a function": ("SELECT * FROM {0}_read()", "UPDATE {0} SET ill = NOT ill"),
    "another function": (
        "SELECT id, region, {0}_turn(ill) AS ill FROM {0}",
        "CREATE OR REPLACE FUNCTION {0}_turn(x boolean) RETURNS boolean LANGUAGE sql IMMUTABLE "
        "AS 'SELECT NOT x'",
    ),
    "names of columns": (
        None,
        "ALTER TABLE {0} NO INHERIT {0}_parent; ALTER TABLE {0} RENAME ill TO {2}; "
        "ALTER TABLE {0} RENAME well TO ill; ALTER TABLE {0} RENAME {2} TO well",
    ),
    "names of tables": (
        None, "ALTER TABLE {0} RENAME TO {2}; ALTER TABLE {0}_other RENAME TO {0}",
    ),
    "a partition for another": (
        None,
        "ALTER TABLE {0} NO INHERIT {0}_parent; ALTER TABLE {0}_other INHERIT {0}_parent",
    ),
    "a label of an enum": (
        "SELECT id, kind AS region, ill FROM {0}_kinds",
        "ALTER TYPE {0}_enum RENAME VALUE 'north' TO '{2}'; "
        "ALTER TYPE {0}_enum RENAME VALUE 'south' TO 'north'; "
        "ALTER TYPE {0}_enum RENAME VALUE '{2}' TO 'south'",
    ),
    "a setting that a view reads": (
        "SELECT id, region, ill <> (current_setting('sulq.turn', true) = '1') AS ill FROM {0}",
        "ALTER ROLE reader SET sulq.turn = '1'",
    ),
    "a sequence that a view reads": (
        "SELECT id, region, id < (SELECT 100 + 50 * last_value FROM {0}_seq) AS ill FROM {0}",
        "SELECT nextval('{0}_seq'); SELECT nextval('{0}_seq')",
    ),
}  # fmt: skip


def surroundings(admin, base):
    run(admin, f"ALTER TABLE {base} ADD well boolean", f"UPDATE {base} SET well = NOT ill",
        f"CREATE TABLE {base}_other AS SELECT id, region, NOT ill AS ill, ill AS well FROM {base}",
        f"CREATE TABLE {base}_parent (LIKE {base})",
        f"ALTER TABLE {base} INHERIT {base}_parent",
        f"GRANT SELECT ON {base}_parent, {base}_other TO reader",
        f"CREATE VIEW {base}_below AS {PLAIN.format(base)}",
        f"CREATE TYPE {base}_enum AS ENUM ('north', 'south', 'east', 'west')",
        f"CREATE TABLE {base}_kinds AS SELECT id, region::{base}_enum AS kind, ill FROM {base}",
        f"CREATE SEQUENCE {base}_seq",
        f"SELECT nextval('{base}_seq')",
        f"CREATE FUNCTION {base}_read() RETURNS TABLE (id int, region text, ill boolean) "
        f"LANGUAGE sql STABLE SECURITY DEFINER AS 'SELECT id, region, ill FROM public.{base}'",
        f"CREATE FUNCTION {base}_turn(x boolean) RETURNS boolean LANGUAGE sql IMMUTABLE "
        "AS 'SELECT x'")  # fmt: skip


def write_elsewhere(admin):
    run(admin, f"CREATE TABLE {postgres.fresh_name('other')} (x int)")


@pytest.mark.parametrize("hashed", [False, True], ids=["opened", "hashed"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_move_rows_is_noticed(admin, tmp_path, way, hashed):
    """Whatever the rows come from, and with no counter of rows written anywhere moved.

    Also where rows were hashed before, so that new ones are looked for first.
    """
    query, change = WAYS[way]
    base = table(admin)
    surroundings(admin, base)
    name = view(admin, query.format(base)) if query else base
    name = f"{base}_parent" if way == "a partition for another" else name
    db = database(name, tmp_path)
    db.count("ill")
    if hashed:
        write_elsewhere(admin)
        db.count("ill and id > 0")
    try:
        run(admin, *change.format(base, name, postgres.fresh_name("x")).split("; "))
        if "ALTER ROLE" in change:  # said to each new session
            db._pipeline.engine._drop()
        check_noticed(db, lambda: database(name, tmp_path))
    finally:
        run(admin, "ALTER ROLE reader RESET ALL")


def test_nobody_is_counted_more_often_than_is_promised(admin, tmp_path):
    """Joe moves through four public cells by CREATE OR REPLACE VIEW: at T = 3, three answers."""
    base, name = table(admin), postgres.fresh_name("view")
    part = 0
    for where in REGIONS:
        run(admin, f"CREATE OR REPLACE VIEW {name} AS SELECT id, CASE WHEN id = 17 THEN '{where}' "
            f"ELSE region END AS region, ill OR id = 17 AS ill FROM {base}",
            f"GRANT SELECT ON {name} TO reader")  # fmt: skip
        with (
            pytest.MonkeyPatch.context() if where == "north" else pytest.raises(sulq.SourceChanged)
        ):
            db = database(name, tmp_path, queries=3)
            for i in range(3):
                db.count(f"region = '{where}' and ill and id > {-i}")
                part += 1
    assert part == 3


def test_a_session_that_keeps_its_counters_back_is_noticed(admin, tmp_path):
    """It wrote, committed, and stays in its next transaction, as pools do."""
    name = table(admin)
    with postgres.shared().connect() as writer:
        db = database(name, tmp_path)
        db.count("ill")
        run(writer, "SELECT pg_stat_force_next_flush()")  # the next is not due for a second
        run(writer, f"UPDATE {name} SET ill = NOT ill WHERE id = 17", "BEGIN", "SELECT 1")
        check_noticed(db, lambda: database(name, tmp_path))


def test_a_transaction_that_was_under_way_is_noticed(admin, tmp_path):
    """Begun before the first look, also in two phases or below a savepoint, and ended after."""
    name = table(admin)
    with postgres.shared().connect() as writer, postgres.shared().connect() as later:
        run(writer, "BEGIN", "SAVEPOINT a", f"UPDATE {name} SET ill = NOT ill WHERE id = 17")
        run(later, "BEGIN", f"INSERT INTO {name} VALUES (401, 'north', true)", "COMMIT")
        db = database(name, tmp_path)
        db.count("ill")
        run(writer, "RELEASE a", "COMMIT")
        check_noticed(db, lambda: database(name, tmp_path))


# ---- rows that are hashed -----------------------------------------------------------------------


def test_values_that_change_places_are_noticed(admin):
    """Two people swap one value: all sums of a column stay, the hash of all rows does not.

    Control: the sum of PostgreSQL's own hashes of records, which older ledgers have, is often
    the same.
    """
    name = table(admin)
    engine = engine_of(name)
    before, missed = engine.contents(), 0
    swap = (
        f"UPDATE {name} a SET {{0}} = b.{{0}} FROM {name} b "
        "WHERE (a.id, b.id) IN (({1}, {2}), ({2}, {1}))"
    )
    for first in range(1, 25):
        what, second = ("region", first + 1) if first % 2 else ("ill", first + 4)
        run(admin, swap.format(what, first, second))
        now = engine.contents()
        assert now[-1] == engine.declared_contents()[0] != before[-1]
        missed += now[1] == before[1]
        run(admin, swap.format(what, first, second))
        assert engine.contents() == before
    assert missed > 0
    engine.close()


def test_a_ledger_of_before_goes_on(admin, tmp_path, monkeypatch):
    """It knows the rows by the older hash, and from its next opening on by the newer one too."""
    name = table(admin)
    real = PostgresEngine.contents
    with monkeypatch.context() as older:
        older.setattr(PostgresEngine, "contents", lambda self: real(self)[:2])
        older.setattr(PostgresEngine, "declared_contents", lambda self: (real(self)[1], None))
        database(name, tmp_path).count("ill")
    copied = postgres.fresh_name("copy")
    run(admin, f"CREATE TABLE {copied} AS SELECT * FROM {name}",
        f"GRANT SELECT ON {copied} TO reader")  # fmt: skip
    with pytest.raises(sulq.Refused, match="already have a ledger"):
        database(copied, tmp_path, ledger=tmp_path / "other.ledger")
    db = database(name, tmp_path)
    db.count("ill and id > 0")
    assert db.budget.spent == 2
    run(admin, f"UPDATE {name} SET ill = NOT ill")
    check_noticed(db, lambda: database(name, tmp_path))


# ---- servers that crash -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own():
    """A server on which nobody else writes, and which may crash."""
    with tempfile.TemporaryDirectory(prefix="sulq-rows-") as folder:
        os.chmod(folder, 0o755)
        server = postgres.Server.make(Path(folder) / "server")
        server.start()
        try:
            with server.connect() as admin:
                run(admin, "CREATE ROLE reader LOGIN")
            yield server
        finally:
            server.stop()


def crash(server, witness):
    """Kill one backend: the server ends all others and recovers, and was never restarted."""
    victim = server.connect()
    os.kill(victim.info.backend_pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    ended = False
    while time.monotonic() < deadline:
        try:
            if ended:
                return server.connect()
            witness.execute("SELECT 1")
        except psycopg.OperationalError:
            ended = True
        time.sleep(0.02)
    raise AssertionError("the server did not come back")


def test_what_a_crash_forgets_is_noticed(own, tmp_path):
    """Counters begin anew, and what was changed in between has the same ones as before."""
    admin = own.connect()
    name = table(admin)
    run(admin, f"VACUUM {name}", f"UPDATE {name} SET ill = ill WHERE id = 17", f"VACUUM {name}")
    admin = crash(own, admin)
    db = database(name, tmp_path, own)
    db.count("ill")
    run(admin, f"UPDATE {name} SET ill = NOT ill WHERE id = 17")
    admin = crash(own, admin)
    check_noticed(db, lambda: database(name, tmp_path, own))
    admin.close()


def test_a_crash_alone_is_looked_into(own, tmp_path):
    """A commit that was not on disk may be gone, and its number be given to another."""
    admin = own.connect()
    name = table(admin)
    engine = engine_of(name, own)
    before = engine.version()
    assert engine.version() == before
    crash(own, admin).close()
    assert engine.version() != before
    engine.close()


# ---- what may be trusted ------------------------------------------------------------------------

FIXED = {
    "a table": None,
    "a view": PLAIN,
    "a view of a view": "SELECT * FROM {0}_below",
    "arithmetic": "SELECT id + 1 AS id, upper(lower(region)) AS region, NOT ill AS ill FROM {0}",
    "a sub-select": "SELECT * FROM (SELECT id, region, ill FROM {0} ORDER BY id) AS x",
    "groups": "SELECT count(*) AS id, min(region) AS region, ill FROM {0} GROUP BY ill",
    "numbers read from text": "SELECT CAST(CAST(id AS text) AS int) AS id, region, ill FROM {0}",
}
LOOSE = {
    "now": "SELECT id, region, now() > '2020-01-01' AS ill FROM {0}",
    "today": "SELECT id, region, current_date > '2020-01-01' AS ill FROM {0}",
    "today as text": "SELECT id, region, CAST('to' || substr('xday', 1 + length(region) / 9) "
    "AS date) IS NULL AS ill FROM {0} WHERE false",
    "who asks": "SELECT id, region, current_user = 'reader' AS ill FROM {0}",
    "chance": "SELECT id, region, random() < 2 AS ill FROM {0}",
    "a sample": "SELECT * FROM {0} TABLESAMPLE BERNOULLI (100)",
    "a sequence": "SELECT id, region, ill FROM {0} WHERE id > (SELECT last_value FROM {0}_seq)",
    "a catalog": "SELECT id, region, EXISTS (SELECT FROM pg_class) AS ill FROM {0}",
    "what the server does": "SELECT id, region, pg_backend_pid() > 0 AS ill FROM {0}",
    "below": "SELECT * FROM {0}_loose",
    "a function": "SELECT * FROM {0}_read()",
    "a function in a condition": "SELECT * FROM {0} WHERE {0}_turn(ill) OR NOT ill",
}


@pytest.mark.parametrize("what", [*FIXED, *LOOSE])
def test_only_what_follows_from_transactions_is_trusted(admin, what):
    """What else a view may read is hashed before every question."""
    base = table(admin)
    surroundings(admin, base)
    run(admin, f"CREATE VIEW {base}_loose AS SELECT id, region, random() < 2 AS ill FROM {base}")
    query = (FIXED | LOOSE)[what]
    name = base if query is None else view(admin, query.format(base))
    engine = engine_of(name)
    assert (engine.version() is not None) == (what in FIXED)
    engine.close()


def test_nothing_is_hashed_again_while_nothing_is_written(own, tmp_path, monkeypatch):
    """Neither running nor at the next start; a write anywhere on the server is looked into."""
    with own.connect() as admin:
        name = table(admin)
        database(name, tmp_path, own).close()
        hashed = []
        for way in ("contents", "declared_contents"):
            real = getattr(PostgresEngine, way)
            counted = lambda self, real=real: hashed.append(1) or real(self)  # noqa: E731
            monkeypatch.setattr(PostgresEngine, way, counted)
        db = database(name, tmp_path, own)
        db.count("ill")
        db.count("ill and id > 3")
        assert not hashed
        run(admin, "CREATE TABLE other (x int)")
        db.count("ill and id > 4")
        db.count("ill and id > 5")
        assert hashed == [1]


# ---- new rows are looked for before all are hashed ----------------------------------------------

# What is done to a table of 400 people, 100 in each region.
TOUCHES = {
    "an update": "UPDATE {0} SET ill = NOT ill WHERE id = 17",
    "one for another": "DELETE FROM {0} WHERE id = 17; INSERT INTO {0} VALUES (17, 'south', false)",
    "frozen": "UPDATE {0} SET ill = NOT ill WHERE id = 17; VACUUM FREEZE {0}",
    "one less": "DELETE FROM {0} WHERE id = 17",
    "one more": "INSERT INTO {0} VALUES (401, 'north', true)",
    "below a savepoint": "BEGIN; SAVEPOINT a; UPDATE {0} SET ill = NOT ill WHERE id = 17; "
    "RELEASE a; COMMIT",
    "written anew": "CREATE TABLE {0}_new AS SELECT id, region, NOT ill AS ill FROM {0}; "
    "TRUNCATE {0}; INSERT INTO {0} SELECT * FROM {0}_new",
    "a column computed anew": "ALTER TABLE {0} ALTER ill TYPE boolean USING NOT ill",
    "a default of a column that rows lack": "ALTER TABLE {0} DROP well; "
    "ALTER TABLE {0} ADD well boolean DEFAULT false",
    "another table of its name": "ALTER TABLE {0} RENAME TO {0}_old; "
    "ALTER TABLE {0}_other RENAME TO {0}",
    "columns that change names": "ALTER TABLE {0} RENAME ill TO x; ALTER TABLE {0} RENAME well TO "
    "ill; ALTER TABLE {0} RENAME x TO well",
    "another child": "ALTER TABLE {0}_other INHERIT {0}",
}


@pytest.fixture
def hashed_table(own, tmp_path):
    """A database whose rows were hashed once, one that reads `well` too, and its table."""
    with own.connect() as admin:
        name = table(admin)
        run(admin, f"CREATE TABLE {name}_other AS SELECT id, region, NOT ill AS ill, ill AS well "
            f"FROM {name}", f"ALTER TABLE {name} ADD well boolean DEFAULT true",
            f"GRANT SELECT ON {name}, {name}_other TO reader")  # fmt: skip
        schema = PEOPLE | {"well": {"type": "boolean"}}
        db = sulq.open(own.url("reader"), schema, table=name, epsilon=1.0, queries=100,
                       ledger=tmp_path / "people.ledger")  # fmt: skip
        write_elsewhere(admin)
        db.count("ill")
        assert db._pipeline.guard._hashed is not None
        yield admin, name, db
        db.close()


def rows_of(admin, name):
    return admin.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()[0]


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_touched_table_is_hashed(hashed_table, touch):
    """No row may be new, none may be gone, and all must be stored as they were."""
    admin, name, db = hashed_table
    run(admin, *TOUCHES[touch].format(name).split("; "))
    with pytest.raises(sulq.SourceChanged):
        db.count("ill and id > 1")


def test_control_neither_how_many_nor_new_rows_alone_would_tell(hashed_table, monkeypatch):
    """One row for another leaves as many; a default for rows that lack a column writes none."""
    admin, name, db = hashed_table
    look = db._pipeline.guard._hashed
    monkeypatch.setattr(catalog, "_layout", lambda *_: look.layout)
    run(admin, *TOUCHES["a default of a column that rows lack"].format(name).split("; "))
    db.count("well and id > 1")
    monkeypatch.setattr(PostgresEngine, "untouched", lambda *_: rows_of(admin, name) == look.rows)
    run(admin, *TOUCHES["one for another"].format(name).split("; "))
    db.count("well and id > 2")


def test_who_was_under_way_when_rows_were_hashed_is_found(own, hashed_table):
    """It began before the hash and ended after a look that found nothing."""
    admin, name, db = hashed_table
    with own.connect() as writer:
        run(writer, "BEGIN", "SAVEPOINT a", f"UPDATE {name} SET ill = NOT ill WHERE id = 17")
        for i in range(3):
            write_elsewhere(admin)
            db.count(f"ill and id > {i}")
        run(writer, "RELEASE a", "COMMIT")
    with pytest.raises(sulq.SourceChanged):
        db.count("ill and id > 7")


def test_writes_elsewhere_hash_nothing(own, hashed_table, monkeypatch):
    """The same rows written once more are hashed, and are the same; a checkpoint hashes once."""
    admin, name, db = hashed_table
    hashed = counting_hashes(monkeypatch)
    for i in range(3):
        write_elsewhere(admin)
        db.count(f"ill and id > {i}")
    assert not hashed
    run(admin, f"UPDATE {name} SET ill = ill WHERE id = 17")
    db.count("ill and id > 4")
    assert hashed == [1]
    run(admin, "CHECKPOINT")
    write_elsewhere(admin)
    db.count("ill and id > 5")
    db.count("ill and id > 6")
    assert hashed == [1, 1]


@pytest.mark.parametrize(
    "column", ["kind {0}_enum", "kind regclass", "kind text GENERATED ALWAYS AS (region) VIRTUAL"]
)
def test_columns_that_change_without_a_write_are_always_hashed(own, tmp_path, monkeypatch, column):
    """Labels of enums, names of tables, and what is computed when it is read."""
    if "VIRTUAL" in column and postgres.VERSION < 18:
        column = "kind {0}_enum[]"
    with own.connect() as admin:
        name = table(admin)
        run(admin, f"CREATE TYPE {name}_enum AS ENUM ('a')",
            f"ALTER TABLE {name} ADD {column.format(name)}")  # fmt: skip
        db = database(name, tmp_path, own)
        hashed = counting_hashes(monkeypatch)
        for i in range(3):
            write_elsewhere(admin)
            db.count(f"ill and id > {i}")
        assert len(hashed) == 3
        db.close()


@pytest.mark.parametrize(("more", "hashes"), [("", 3), (", xmin", 1)])
def test_a_role_that_may_read_some_columns_is_answered(own, tmp_path, monkeypatch, more, hashes):
    """Without a right to the numbers of its rows, all are hashed each time."""
    with own.connect() as admin:
        name = table(admin)
        run(admin, f"REVOKE ALL ON {name} FROM reader",
            f"GRANT SELECT (id, region, ill{more}) ON {name} TO reader")  # fmt: skip
        db = database(name, tmp_path, own)
        hashed = counting_hashes(monkeypatch)
        for i in range(3):
            write_elsewhere(admin)
            db.count(f"ill and id > {i}")
        assert len(hashed) == hashes
        run(admin, f"REVOKE SELECT (xmin) ON {name} FROM reader")
        db.count("ill and id > 4")
        run(admin, f"UPDATE {name} SET ill = NOT ill WHERE id = 17")
        with pytest.raises(sulq.SourceChanged):
            db.count("ill and id > 5")
        db.close()


@pytest.mark.parametrize("hashed", [False, True])
def test_what_takes_a_tables_name_is_always_hashed(own, tmp_path, hashed):
    """A view with the same rows, for now: they hang on a lock, which no transaction tells of."""
    with own.connect() as admin, own.connect() as other:
        name = table(admin)
        db = database(name, tmp_path, own)
        if hashed:
            write_elsewhere(admin)
        db.count("ill")
        run(admin, f"ALTER TABLE {name} RENAME TO {name}_old",
            f"CREATE VIEW {name} AS SELECT id, region, ill <> EXISTS (SELECT FROM pg_locks "
            f"WHERE locktype = 'advisory') AS ill FROM {name}_old",
            f"GRANT SELECT ON {name} TO reader")  # fmt: skip
        db.count("ill and id > 1")
        run(other, "SELECT pg_advisory_lock(7)")
        with pytest.raises(sulq.SourceChanged):
            db.count("ill and id > 2")
        db.close()


def just_before(monkeypatch, words, act):
    """Do something once, when a statement with these words is on its way."""
    real, left = catalog._rows, [act]

    def wrapped(connection, sql, *rest):
        if words in sql and left:
            left.pop()()
        return real(connection, sql, *rest)

    monkeypatch.setattr(catalog, "_rows", wrapped)
    return left


def test_columns_that_change_names_while_rows_are_hashed_are_noticed(hashed_table, monkeypatch):
    """Other names before the look, the old ones just for the hash, the others again behind it."""
    admin, name, db = hashed_table
    swap = TOUCHES["columns that change names"].format(name).split("; ")
    run(admin, *swap)
    left = just_before(monkeypatch, "sum(hash", lambda: run(admin, *swap))
    db.count("ill and id > 1")
    assert not left
    run(admin, *swap)
    with pytest.raises(sulq.SourceChanged):
        db.count("ill and id > 2")


def test_a_partition_that_stands_in_while_rows_are_counted_is_noticed(own, tmp_path, monkeypatch):
    """A row is written, and a copy of before takes the partition's place for the count alone."""
    with own.connect() as admin:
        part, name = table(admin), postgres.fresh_name("parent")
        run(admin, f"CREATE TABLE {part}_copy AS SELECT * FROM {part}",
            f"CREATE TABLE {name} (LIKE {part}) PARTITION BY LIST (region)",
            f"ALTER TABLE {name} ATTACH PARTITION {part} DEFAULT",
            f"GRANT SELECT ON {name} TO reader")  # fmt: skip
        db = database(name, tmp_path, own)
        write_elsewhere(admin)
        db.count("ill")
        swap = (f"ALTER TABLE {name} DETACH PARTITION {{}}; "
                f"ALTER TABLE {name} ATTACH PARTITION {{}} DEFAULT")  # fmt: skip
        out, back = (
            swap.format(part + a, part + b).split("; ") for a, b in (("", "_copy"), ("_copy", ""))
        )
        run(admin, f"UPDATE {part} SET ill = NOT ill WHERE id = 17")
        left = just_before(monkeypatch, "count(*) FILTER", lambda: run(admin, *out))
        db.count("ill and id > 1")  # rows of before
        assert not left
        run(admin, *back)
        with pytest.raises(sulq.SourceChanged):
            db.count("ill and id > 2")
        db.close()


def test_a_schema_that_stands_in_while_rows_are_counted_is_noticed(own, tmp_path, monkeypatch):
    """A schema's name changes without a wait for who reads its tables."""
    with own.connect() as admin:
        name, place = table(admin), postgres.fresh_name("place")
        run(admin, f"CREATE SCHEMA {place}", f"CREATE SCHEMA {place}_copy",
            f"CREATE TABLE {place}_copy.{name} AS SELECT * FROM {name}",
            f"ALTER TABLE {name} SET SCHEMA {place}",
            f"GRANT USAGE ON SCHEMA {place}, {place}_copy TO reader",
            f"GRANT SELECT ON {place}_copy.{name} TO reader")  # fmt: skip
        db = database(f"{place}.{name}", tmp_path, own)
        write_elsewhere(admin)
        db.count("ill")
        swap = (f"ALTER SCHEMA {place} RENAME TO {place}_x",
                f"ALTER SCHEMA {place}_copy RENAME TO {place}",
                f"ALTER SCHEMA {place}_x RENAME TO {place}_copy")  # fmt: skip
        run(admin, f"UPDATE {place}.{name} SET ill = NOT ill WHERE id = 17")
        just_before(monkeypatch, "count(*) FILTER", lambda: run(admin, *swap))
        just_before(monkeypatch, "relfilenode", lambda: run(admin, *swap))
        with pytest.raises(sulq.SourceChanged):
            db.count("ill and id > 1")
        db.close()


def test_more_transactions_than_expected_while_rows_are_counted_are_hashed(
    hashed_table, monkeypatch
):
    """A row is written just before it is counted, by a number that is not looked for."""
    admin, name, db = hashed_table
    monkeypatch.setattr(catalog, "MEANWHILE", 0)
    write_elsewhere(admin)
    change = f"UPDATE {name} SET ill = NOT ill WHERE id = 17"
    left = just_before(monkeypatch, "count(*) FILTER", lambda: run(admin, change))
    with pytest.raises(sulq.SourceChanged):
        db.count("ill and id > 1")
    assert not left


def test_a_name_may_look_like_a_placeholder(own, tmp_path):
    """It is written as it is, in every statement of a look."""
    with own.connect() as admin:
        name = f"{table(admin)}$1$2"
        run(admin, f'ALTER TABLE {name.removesuffix("$1$2")} RENAME TO "{name}"')
        db = database(name, tmp_path, own)
        for i in range(3):
            write_elsewhere(admin)
            db.count(f"ill and id > {i}")
        db.close()


# ---- a ledger on the server of the rows ---------------------------------------------------------


def counting_hashes(monkeypatch):
    """A list that grows by one with every hash of all rows."""
    hashed = []
    for way in ("contents", "declared_contents"):
        real = getattr(PostgresEngine, way)
        counted = lambda self, real=real: hashed.append(1) or real(self)  # noqa: E731
        monkeypatch.setattr(PostgresEngine, way, counted)
    return hashed


def on_the_same_server(own, books, tmp_path, monkeypatch, place="postgres"):
    """A table, a database whose ledger is on the server of its rows, and that ledger's name."""
    monkeypatch.setenv("SULQ_HOME", str(tmp_path))
    with own.connect(place) as admin:
        name, book = table(admin), postgres.fresh_name("ledger")
    db = database(name, tmp_path, own, place, ledger=f"{own.url(database=books)}&ledger={book}")
    db.count("ill")
    return name, db, book


def ask(db, times):
    for i in range(times):
        db.count(f"ill and id > {i}")


@pytest.fixture
def books(own):
    """A database of its own for ledgers: none begins beside those of other tests' secrets."""
    name = postgres.fresh_name("books")
    with own.connect() as admin:
        run(admin, f"CREATE DATABASE {name}")
    return name


def test_the_ledgers_own_commits_hash_nothing(own, books, tmp_path, monkeypatch):
    """Each charge ends a transaction where the rows are; any other one is looked into, once."""
    _, db, _ = on_the_same_server(own, books, tmp_path, monkeypatch)
    hashed = counting_hashes(monkeypatch)
    ask(db, 5)
    assert not hashed
    with own.connect() as admin:
        run(admin, f"CREATE TABLE {postgres.fresh_name('other')} (x int)")
    for i in range(5, 8):
        db.count(f"ill and id > {i}")
    assert hashed == [1]
    db.close()


def test_a_transaction_among_the_ledgers_own_is_noticed(own, books, tmp_path, monkeypatch):
    """Begun before some charges and ended after them, or between two."""
    name, db, _ = on_the_same_server(own, books, tmp_path, monkeypatch)
    with own.connect() as writer, own.connect() as other:
        run(writer, "BEGIN", f"UPDATE {name} SET ill = NOT ill WHERE id = 17")
        for i in range(3):
            db.count(f"ill and id > {i}")
            run(other, "BEGIN", "CREATE TEMP TABLE few (x int) ON COMMIT DROP", "ROLLBACK")
        run(writer, "COMMIT")
    with pytest.raises(sulq.SourceChanged):
        db.count("ill and id > 7")
    db.close()


CURE = "UPDATE public.{0} SET ill = false WHERE id = 17"
WRITES_ELSEWHERE = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON {1}.entries EXECUTE FUNCTION {1}_turn()",
    "a rule": f"CREATE RULE r AS ON INSERT TO {{1}}.entries DO ALSO {CURE}",
    "a constraint": "ALTER TABLE {1}.entries ADD CHECK ({1}_turned(number)) NOT VALID",
    "a default": "ALTER TABLE {1}.entries ADD x int DEFAULT {1}_turned(1)::int",
    "an operator": "CREATE OPERATOR {1}.= (LEFTARG = varchar, RIGHTARG = text, "
    "FUNCTION = {1}_same)",
    "an index": "CREATE INDEX ON {1}.entries (({1}_steady(number)))",
}


def with_a_ledger_that_writes(own, books, tmp_path, monkeypatch, way):
    """A database whose every charge changes a row, in the charge's own transaction."""
    name, db, book = on_the_same_server(own, books, tmp_path, monkeypatch, books)
    with own.connect(books) as admin:
        cure = CURE.format(name)
        run(admin,
            f"CREATE FUNCTION {book}_turn() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {cure}; RETURN NULL; END $$",
            f"CREATE FUNCTION {book}_turned(x bigint) RETURNS boolean LANGUAGE plpgsql AS "
            f"$$ BEGIN IF pg_backend_pid() <> {admin.info.backend_pid} THEN {cure}; END IF; "
            "RETURN true; END $$",
            f"CREATE FUNCTION {book}_steady(x bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE "
            f"AS $$ BEGIN RETURN public.{book}_turned(x); END $$",
            f"CREATE FUNCTION {book}_same(x varchar, y text) RETURNS boolean LANGUAGE plpgsql AS "
            f"$$ BEGIN IF current_setting('transaction_read_only') = 'off' THEN {cure}; END IF; "
            "RETURN pg_catalog.texteq(x, y); END $$",
            WRITES_ELSEWHERE[way].format(name, book))  # fmt: skip
    return db


@pytest.mark.parametrize("way", WRITES_ELSEWHERE)
def test_a_ledger_that_writes_to_the_rows_is_noticed(own, books, tmp_path, monkeypatch, way):
    """Whatever was added to its tables: such transactions are not taken to be its own."""
    db = with_a_ledger_that_writes(own, books, tmp_path, monkeypatch, way)
    with pytest.raises(sulq.SourceChanged):
        ask(db, 3)
    db.close()


def test_control_without_a_look_at_its_tables_it_would_not_be(own, books, tmp_path, monkeypatch):
    """If every transaction of a ledger were trusted, a trigger's writes would pass unseen."""
    easy = text("SELECT pg_current_xact_id_if_assigned()::text AS number, TRUE AS alone, "
                "extract(epoch FROM pg_postmaster_start_time())::text AS life")  # fmt: skip
    monkeypatch.setattr(ledger_server, "_OWN", easy)
    db = with_a_ledger_that_writes(own, books, tmp_path, monkeypatch, "a trigger")
    ask(db, 1)  # the trigger itself is looked into
    ask(db, 3)
    db.close()


@pytest.mark.parametrize(
    "more",
    [
        "CREATE FUNCTION {0}.max(x bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
        "CREATE CAST (bigint AS timestamp) WITHOUT FUNCTION",
    ],
)
def test_a_ledger_whose_words_may_mean_more_is_not_trusted(own, books, tmp_path, monkeypatch, more):
    """What could be taken for a function or a cast of PostgreSQL's own may write anywhere."""
    _, db, book = on_the_same_server(own, books, tmp_path, monkeypatch, books)
    looks, real = [], PostgresEngine.untouched
    monkeypatch.setattr(PostgresEngine, "untouched", lambda *a: looks.append(1) or real(*a))
    with own.connect(books) as admin:
        run(admin, more.format(book))
    ask(db, 3)
    assert len(looks) == 2  # once for each charge since all rows were hashed
    db.close()


def test_rows_in_the_schema_of_a_ledger_are_always_looked_at(own, books, tmp_path, monkeypatch):
    """They may be the ledger's own, so its commits are not taken to leave them alone."""
    monkeypatch.setenv("SULQ_HOME", str(tmp_path))
    book = postgres.fresh_name("ledger")
    with own.connect(books) as admin:
        name = table(admin)
        run(admin, f"CREATE SCHEMA {book}", f"ALTER TABLE {name} SET SCHEMA {book}",
            f"GRANT USAGE ON SCHEMA {book} TO reader")  # fmt: skip
    address = f"{own.url(database=books)}&ledger={book}"
    db = database(f"{book}.{name}", tmp_path, own, books, ledger=address)
    hashed = counting_hashes(monkeypatch)
    ask(db, 3)
    assert len(hashed) == 3
    db.close()


# ---- rights that end ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["SCHEMA {1}", "TABLE {1}.{0}"])
def test_a_role_that_lost_its_rights_is_not_charged(admin, tmp_path, where):
    """The look before the charge reads the rows, so that it is refused and free."""
    name, place = table(admin), postgres.fresh_name("place")
    run(admin, f"CREATE SCHEMA {place}", f"ALTER TABLE {name} SET SCHEMA {place}",
        f"GRANT USAGE ON SCHEMA {place} TO reader")  # fmt: skip
    db = database(f"{place}.{name}", tmp_path)
    db.count("ill")
    run(admin, f"REVOKE ALL ON {where.format(name, place)} FROM reader")
    with pytest.raises(sulq.Refused, match="Nothing was charged"):
        db.count("ill and id > 3")
    assert db.budget.spent == 1
    run(admin, f"GRANT USAGE ON SCHEMA {place} TO reader",
        f"GRANT SELECT ON TABLE {place}.{name} TO reader")  # fmt: skip
    db.count("ill and id > 3")
    assert db.budget.spent == 2

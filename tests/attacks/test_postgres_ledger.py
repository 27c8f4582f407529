"""A ledger on a server: many processes and machines, a server that is killed, a cable that is cut.

Never an answer that was not paid, never more than the total, one charge for one question.
No luck is involved.
"""

import os
import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import postgres
import pyarrow as pa
import pytest
from attacks.children import PROCESS, at_once, codes_of_children
from attacks.harness import SCHEMA, people
from attacks.postgres_children import (
    PROCESSES,
    REQUESTS,
    SETTINGS,
    TOTAL,
    Cable,
    ask_at_home,
    opened,
    shares,
    spend,
    spend_naively,
)
from attacks.test_ledger_tampering import EDITS
from soak import SOAK

import sulq
from sulq.errors import EngineFailed, LedgerDamaged, Refused
from sulq.ledger import Ledger, Request
from sulq.ledger import postgres as server
from sulq.ledger import retry as patience
from sulq.ledger.location import sealed
from sulq.ledger.postgres_seal import ServerSeal
from sulq.open_database import refresh
from sulq.values.schema import Schema

psycopg = postgres.driver()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """This machine's folder, of this test's own."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("SULQ_HOME", str(place))
    return place


@pytest.fixture
def where():
    return postgres.ledger()


@pytest.fixture
def admin():
    with postgres.shared().connect() as connection:
        yield connection


@pytest.fixture
def books():
    """A database without any ledger."""
    return postgres.own_database()


@pytest.fixture
def alone(books):
    """A ledger that is the first of its database."""
    return postgres.ledger(books)


def dropped(where, books):
    with postgres.shared().connect(books) as admin:
        admin.execute(f"DROP SCHEMA {name_of(where)} CASCADE".encode())


def name_of(where):
    return where.rpartition("ledger=")[2]


def pay(ledger, query, price=1, **more):
    return ledger.charge([Request(query, price, None, **more)])[0]


def answer(ledger, query, text="5"):
    return ledger.record([(pay(ledger, query, id=query).number, text)])[0]


# ---- many processes -------------------------------------------------------------------------


def check_delivered(where, reports):
    """Every answer delivered is paid, stored and the only one; nothing beyond the total."""
    assert not [r for r in reports if isinstance(r, str)], reports
    delivered = [pair for report in reports for pair in report]
    ledger = opened(where)
    assert ledger.verify() > 0
    assert len(dict(delivered)) == len(delivered) <= TOTAL
    assert all(ledger.find(query)[1] == text for query, text in delivered)
    assert len(ledger.history()) >= len(delivered)
    assert ledger.budget()[1] == len(ledger.history()) <= TOTAL
    return len(delivered)


def test_eight_processes_get_exactly_the_total(where, home):
    """Four times as many requests as the total, at READ COMMITTED: the total. Opening races too."""
    reports = at_once(spend, [(where, str(home), numbers) for numbers in shares()])
    assert check_delivered(where, reports) == TOTAL


def test_control_looking_before_charging_is_caught(admin):
    """At READ COMMITTED a ledger that looks first pays more than the total in the same race."""
    admin.execute("DROP TABLE IF EXISTS naive; CREATE TABLE naive (number int)")
    races = 0
    for _ in range(20):  # one race may, with luck, come out even
        admin.execute("TRUNCATE naive")
        address = postgres.shared().url()
        paid = at_once(spend_naively, [(address, numbers) for numbers in shares()])
        races = max(races, sum(paid))
        if races > TOTAL:
            break
    assert races > TOTAL


def test_a_server_killed_in_the_middle_gives_nothing_away(home):
    """Killed and started again, twice: the total, and charges at least as many as answers."""
    with tempfile.TemporaryDirectory(prefix="sulq-killed-") as folder:
        os.chmod(folder, 0o755)
        own = postgres.Server.make(Path(folder) / "server")
        own.start()
        try:
            where = f"{own.url()}&ledger=killed"
            opened(where).close()
            stop = threading.Thread(target=kill_twice, args=(own, where))
            stop.start()
            reports = at_once(spend, [(where, str(home), numbers) for numbers in shares()])
            stop.join()
            assert check_delivered(where, reports) == TOTAL
        finally:
            own.stop()


def kill_twice(own, where):
    """Cut the power when a third and when two thirds are spent."""
    for mark in (TOTAL // 3, 2 * TOTAL // 3):
        while True:
            try:
                with own.connect() as connection:
                    while connection.execute("SELECT base FROM killed.head").fetchone()[0] < mark:
                        pass
                break
            except psycopg.OperationalError:
                continue
        own.kill()
        own.start()


def test_databases_on_one_budget(alone, home, tmp_path):
    """Four processes, rows and ledger in PostgreSQL, ask until refused: T answers in all."""
    table = postgres.load(people(), Schema.load(SCHEMA))
    terms = {"table": table, "queries": 20, "ledger": alone}
    source = postgres.shared().url("reader")
    groups = [(i,) for i in range(4)]
    reports = at_once(ask_at_home, [(str(home), source, terms, group) for group in groups])
    assert not [r for r in reports if isinstance(r, str)], reports
    assert sum(len(r) for r in reports) == 20, reports


def test_threads_and_forks_share_one_ledger(where):
    """Eight threads charge while children are forked; each charges once, nothing is lost."""
    ledger = opened(where)
    done = threading.Event()
    counts = [0] * 8

    def busy(k):
        while not done.is_set() and counts[k] < 20:
            pay(ledger, f"thread {k} {counts[k]}")
            counts[k] += 1

    threads = [threading.Thread(target=busy, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    codes = codes_of_children(lambda i: pay(ledger, f"child {i}"), 4)
    done.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * 4
    assert ledger.budget()[1] == sum(counts) + 4
    assert opened(where).verify() == sum(counts) + 5


# ---- a cut cable ----------------------------------------------------------------------------


@pytest.fixture
def cable(monkeypatch):
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.005)
    folder = Path(tempfile.mkdtemp(prefix="sulq-cable-"))
    made = Cable(folder, postgres.shared().folder / "run")
    yield made, f"postgresql://postgres@/postgres?host={folder}"
    made.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize("forward", [False, True], ids=["message lost", "reply lost"])
def test_a_cable_cut_at_any_message(cable, forward):
    """For every k, the k-th message or its reply is lost: one charge, one answer, all the same."""
    wire, address = cable
    where = f"{address}&ledger={postgres.fresh_name('cut')}"
    ledger = opened(where, total=1000)
    wire.plan(0, False)
    answer(ledger, "how many messages")
    messages, met = wire.seen, 0
    assert messages > 8
    for k in range(1, messages + 1):
        wire.plan(k, forward)
        kept = answer(ledger, f"q{k}", f"first {k}")
        assert kept == f"first {k}"
        assert answer(ledger, f"q{k}", "second") == kept
        met += wire.seen > k
    assert met >= messages - 1, "the cut is met, and what follows goes through another connection"
    assert ledger.budget()[1] == messages + 1
    assert ledger.verify() == 1 + 2 * (messages + 1)


@pytest.mark.parametrize("forward", [False, True], ids=["message lost", "reply lost"])
def test_a_server_that_does_not_come_back(cable, forward, monkeypatch):
    """What is said is true: nothing was charged, or it counts as charged and is found later."""
    wire, address = cable
    where = f"{address}&ledger={postgres.fresh_name('gone')}"
    ledger = opened(where, total=1000)
    wire.plan(0, False)
    pay(ledger, "how many messages", id="x")
    messages, said = wire.seen, []
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.02)
    for k in range(1, messages + 1):
        wire.plan(k, forward, stays_down=True)
        before = None
        with pytest.raises((Refused, EngineFailed)) as error:
            pay(ledger, f"q{k}", id=f"q{k}")
        wire.plan(0, False)
        before = ledger.find(f"q{k}")
        said.append(error.type)
        if error.type is EngineFailed:
            assert "counts as charged" in str(error.value)
            assert (before is not None) == forward
        else:
            assert "Nothing was charged" in str(error.value)
            assert before is None
        assert pay(ledger, f"q{k}", id=f"q{k}").price == 1  # paid once, whatever happened
    assert said.count(EngineFailed) == 1  # only the commit is ever in doubt
    assert ledger.budget()[1] == messages + 1


def test_one_request_sent_again_after_a_cut_is_one_charge(cable):
    """From other processes too: the same charge, the same answer."""
    wire, address = cable
    where = f"{address}&ledger={postgres.fresh_name('again')}"
    ledger = opened(where)
    wire.plan(0, False)
    answer(ledger, "first")
    wire.plan(wire.seen // 2, True)
    kept = answer(ledger, "count")
    others = [opened(where) for _ in range(3)]
    assert {answer(other, "count", "another") for other in others} == {kept}
    assert ledger.budget()[1] == 2


def test_a_frozen_client_does_not_hold_the_ledger_for_ever(where, admin, monkeypatch):
    """Who holds the head and says nothing is waited for, then refused, then ended by the server."""
    ledger, frozen = opened(where), opened(where)
    pay(ledger, "before")
    short = server.WRITING.replace("'30s'", "'50ms'")
    assert short != server.WRITING
    monkeypatch.setattr(server, "WRITING", short)

    def freeze():
        with frozen._disk.writing() as connection:
            connection.exec_driver_sql("SELECT 1 FROM head FOR UPDATE")
            limit = "SHOW idle_in_transaction_session_timeout"
            assert connection.exec_driver_sql(limit).scalar() == "1min"
            with pytest.raises(Refused, match=r"has held it for 30 seconds\. Nothing was charged"):
                pay(ledger, "meanwhile")
            pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])  # as the server will
            assert pay(ledger, "meanwhile").price == 1
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(patience.Lost):
        freeze()
    assert ledger.budget()[1] == 2


# ---- what a commit means --------------------------------------------------------------------


def test_commits_are_durable_whatever_a_role_says(where, admin):
    """synchronous_commit, isolation and path are each transaction's own."""
    role = postgres.fresh_name("careless")
    admin.execute(
        f"CREATE ROLE {role} SUPERUSER LOGIN; ALTER ROLE {role} SET synchronous_commit = off; "
        f"ALTER ROLE {role} SET default_transaction_isolation = 'serializable'; "
        f"ALTER ROLE {role} SET default_transaction_read_only = on; "
        f"ALTER ROLE {role} SET search_path = 'public'".encode()
    )
    ledger = opened(where.replace("postgres@", f"{role}@"))
    with ledger._disk.writing() as connection:
        says = [
            connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in ("synchronous_commit", "transaction_isolation", "transaction_read_only")
        ]
    assert says == ["on", "read committed", "off"]
    with ledger._disk.reading() as connection:
        assert (
            connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "repeatable read"
        )
    pay(ledger, "q")
    ledger.close()
    admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_a_server_that_may_forget_is_refused(where, monkeypatch):
    """Without fsync a charge may be lost with the power; such a server keeps no ledger."""
    opened(where).close()
    monkeypatch.setattr(server, "_SAFE", server.text("SELECT 180000, 'off', 'UTF8'"))
    for place in (where, postgres.ledger()):
        with pytest.raises(Refused, match="needs fsync = on"):
            opened(place)
    monkeypatch.setattr(server, "_SAFE", server.text("SELECT 120000, 'on', 'UTF8'"))
    with pytest.raises(Refused, match="PostgreSQL 12 is too old"):
        opened(where)


@pytest.mark.parametrize(
    "change",
    [
        ("postgres@", "who:hunter2@", "role .* does not exist"),
        ("/postgres?", "/nowhere?", "does not exist"),
    ],
)
def test_an_address_that_will_never_work_is_refused_at_once(where, change):
    """Nobody waits half a minute for a role or a database that is not there."""
    old, new, why = change
    with pytest.raises(Refused, match=why) as error:
        opened(where.replace(old, new))
    assert "hunter2" not in str(error.value)
    with pytest.raises(Refused, match="names one schema"):
        opened(f"{where}&ledger=two")


def test_a_role_without_rights_is_told_what_to_run(where):
    """The reader of the table may not keep a ledger, and nothing is half made."""
    with pytest.raises(Refused, match="sulq postgres grant --ledger"):
        opened(where.replace("postgres@", "reader@"))
    assert opened(where).verify() == 1


def test_the_role_that_grant_prints_can_keep_a_ledger(admin):
    """It owns one schema, and that is enough."""
    from typer.testing import CliRunner

    from sulq.cli import app

    role, name = postgres.fresh_name("keeper"), postgres.fresh_name("books")
    printed = CliRunner().invoke(app, ["postgres", "grant", "--ledger", name, "--role", role])
    assert printed.exit_code == 0, printed.output
    admin.execute(printed.output.encode())
    ledger = opened(f"{postgres.shared().url(role)}&ledger={name}")
    assert answer(ledger, "q") == "5"
    ledger.close()


# ---- tampering ------------------------------------------------------------------------------


def fill(where, first, last):
    ledger = Ledger.open(where, seal=sealed(where), **SETTINGS | {"total": 100})
    for i in range(first, last):
        charge = ledger.charge([Request(f"q{i}", 2, (i % 2,), id=f"r{i}", analyst="ann")])[0]
        ledger.record([(charge.number, f'{{"value":{i}}}')])
    return ledger


def edit(admin, where, *statements):
    """As someone who may write anything, and whom no foreign key holds up."""
    with admin.transaction():
        admin.execute(f"SET LOCAL search_path = {name_of(where)}".encode())
        admin.execute("SET LOCAL session_replication_role = replica")
        for statement in statements:
            admin.execute(statement.encode())


TABLES = ("entries", "charges", "requests", "cells", "head", "analysts")


@pytest.fixture(scope="module")
def filled():
    """A ledger of twenty charges and answers, for copies of it to be edited."""
    where = postgres.ledger()
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SULQ_HOME", home)
        fill(where, 0, 20).close()
    return name_of(where)


def copied(admin, name, where):
    admin.execute(f"CREATE SCHEMA {name_of(where)}".encode())
    for table in (*TABLES, "layout"):
        copy, old = f"{name_of(where)}.{table}", f"{name}.{table}"
        admin.execute(f"CREATE TABLE {copy} (LIKE {old} INCLUDING ALL)".encode())
        admin.execute(f"INSERT INTO {copy} SELECT * FROM {old}".encode())


def test_control_an_untouched_copy_starts(where, admin, filled):
    """A copy that nobody changed opens and verifies."""
    copied(admin, filled, where)
    assert fill(where, 0, 0).verify() == 41


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_noticed(where, admin, filled, name):
    """Each single edit is found and named at the next start, as in a file."""
    copied(admin, filled, where)
    statement, what = EDITS[name]
    edit(admin, where, statement)
    with pytest.raises(LedgerDamaged, match=what):
        fill(where, 0, 0)


def test_a_ledger_set_back_is_noticed_running_and_at_start(where, admin):
    """An older copy of every table restored together: the mark outside, and who is running."""
    ledger = fill(where, 0, 5)
    edit(admin, where, *(f"CREATE TABLE old_{t} AS SELECT * FROM {t}" for t in TABLES))
    for i in range(5, 8):
        pay(ledger, f"q{i}")
    edit(admin, where, *(f"DELETE FROM {t}" for t in TABLES),
         *(f"INSERT INTO {t} SELECT * FROM old_{t}" for t in TABLES))  # fmt: skip
    with pytest.raises(LedgerDamaged, match="changed behind this process"):
        pay(ledger, "q9")
    with pytest.raises(LedgerDamaged, match="an older copy was restored"):
        fill(where, 0, 0)


def test_the_mark_is_known_under_any_address(where, admin):
    """localhost by another name is the same ledger: its own id is what the mark goes by."""
    ledger = fill(where, 0, 5)
    edit(admin, where, *(f"CREATE TABLE old_{t} AS SELECT * FROM {t}" for t in TABLES))
    pay(ledger, "one more")
    edit(admin, where, *(f"DELETE FROM {t}" for t in TABLES),
         *(f"INSERT INTO {t} SELECT * FROM old_{t}" for t in TABLES))  # fmt: skip
    with pytest.raises(LedgerDamaged, match="an older copy was restored"):
        fill(where.replace("/run&", "/run/../run&"), 0, 0)


# ---- the same rows, several machines ----------------------------------------------------------

PAIR = {"x": {"type": "number", "low": 0, "high": 1}}


def rows(seed=1):
    return pa.table({"x": np.random.default_rng(seed).random(50)})


def database(where, source=None, **terms):
    source = rows() if source is None else source
    return sulq.open(source, PAIR, **{"epsilon": 1.0, "queries": 5, "ledger": where} | terms)


def test_rows_have_one_ledger_on_a_server(alone, books):
    """Another ledger of the same database is refused, also after the first was dropped."""
    database(alone).count("x > 0.5")
    other = postgres.ledger(books)
    with pytest.raises(Refused, match="already have a ledger"):
        database(other)
    assert database(alone, name="another").budget.spent == 1
    dropped(alone, books)
    with pytest.raises(Refused, match="already have a ledger"):
        database(alone)


def test_other_rows_under_the_same_ledger_are_refused(alone):
    """A ledger is about its rows until a refresh says otherwise."""
    database(alone).count("x > 0.5")
    with pytest.raises(sulq.SourceChanged):
        database(alone, rows(2))
    with refresh(rows(2), ledger=alone, reason="new rows") as db:
        assert db.budget.spent == 1
    assert database(alone, rows(2)).budget.spent == 1
    with pytest.raises(sulq.SourceChanged):
        database(alone)


def test_another_machine_needs_the_same_secret(alone, books, tmp_path, monkeypatch, home):
    """With it, the machine goes on with the ledger; without, it is told what to copy."""
    database(alone).count("x > 0.5")
    other = tmp_path / "machine"
    other.mkdir()
    monkeypatch.setenv("SULQ_HOME", str(other))
    with pytest.raises(Refused, match="begun with another secret"):
        database(alone)
    shutil.copy(home / ".sulq" / "secret", other / ".sulq" / "secret")
    with pytest.raises(Refused, match=f"already have a ledger .*ledger={name_of(alone)}"):
        database(postgres.ledger(books))  # known on the server, though this machine never saw them
    with database(alone) as db:
        assert db.budget.spent == 1
        db.count("x > 0.6")
    monkeypatch.setenv("SULQ_HOME", str(home))
    assert database(alone).budget.spent == 2


def asked_for_all(where, source=None):
    """How many answers these rows give under this ledger."""
    with database(where, source) as db:
        for i in range(6):
            try:
                db.count(f"x > 0.5 and x < {0.9 + i / 100}")
            except sulq.BudgetExceeded:
                return i
    raise AssertionError("more than all")


def moved(monkeypatch, place, secret=None):
    """On another machine from now on, with that secret or one of its own."""
    (place / ".sulq").mkdir(parents=True)
    if secret is not None:
        shutil.copy(secret, place / ".sulq" / "secret")
    monkeypatch.setenv("SULQ_HOME", str(place))


def test_no_ledger_begins_beside_one_with_another_secret(alone, books, tmp_path, monkeypatch, home):
    """A new machine, or one that lost its folder: whose rows they are cannot be told."""
    assert asked_for_all(alone) == 5
    moved(monkeypatch, tmp_path / "new")
    second = postgres.ledger(books)
    with pytest.raises(Refused, match=rf"'{name_of(alone)}'.* another secret"):
        asked_for_all(second)
    with pytest.raises(Refused, match=r"Copy .*secret"):
        asked_for_all(second, rows(2))  # also for other rows: who can tell?
    shutil.rmtree(home / ".sulq")
    monkeypatch.setenv("SULQ_HOME", str(home))
    with pytest.raises(Refused, match="another secret"):
        asked_for_all(postgres.ledger(books))
    moved(monkeypatch, tmp_path / "elsewhere")
    assert asked_for_all(postgres.ledger(postgres.own_database()), rows(2)) == 5


def test_no_ledger_begins_beside_one_that_may_not_be_read(alone, books, home):
    """Another role with the same secret is told what to grant; then the rows are recognised."""
    assert asked_for_all(alone) == 5
    role, schema = postgres.fresh_name("books"), name_of(alone)
    second = f"{postgres.shared().url(role, books)}&ledger={postgres.fresh_name('ledger')}"
    with postgres.shared().connect(books) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        admin.execute(f"GRANT CREATE ON DATABASE {books} TO {role}".encode())
        for path in (home / ".sulq").glob("*.mark"):
            path.unlink()  # a machine with the same secret that saw nothing of it
        with pytest.raises(Refused, match=rf"GRANT SELECT ON {schema}.sources"):
            asked_for_all(second)
        admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
        with pytest.raises(Refused, match="may not read them"):
            asked_for_all(second)
        admin.execute(f"GRANT SELECT ON {schema}.sources TO {role}".encode())
        with pytest.raises(Refused, match=f"already have a ledger .*ledger={schema}"):
            asked_for_all(second)
    assert asked_for_all(second, rows(2)) == 5


def test_no_ledger_begins_beside_one_whose_sources_are_gone(alone, books, home):
    """Charges without a word about which rows; without charges it stops nobody."""
    assert asked_for_all(alone) == 5
    empty = postgres.ledger(books)
    opened(empty).close()
    for path in (home / ".sulq").glob("*.mark"):
        path.unlink()
    with postgres.shared().connect(books) as admin:
        admin.execute(f"DROP TABLE {name_of(alone)}.sources".encode())
    for place in (postgres.ledger(books), empty):
        with pytest.raises(Refused, match=rf"ledgers, '{name_of(alone)}',"):
            asked_for_all(place)


def test_no_refresh_takes_rows_that_may_be_another_ledgers(
    alone, books, tmp_path, monkeypatch, home
):
    """Two ledgers of two secrets, begun before this was looked at: both open, neither swallows."""
    second = postgres.ledger(books)
    with monkeypatch.context() as before:
        before.setattr(ServerSeal, "strangers", lambda self: [])
        moved(before, tmp_path / "new")
        database(second, rows(2)).count("x > 0.5")
        before.setenv("SULQ_HOME", str(home))
        assert asked_for_all(alone) == 5
    monkeypatch.setenv("SULQ_HOME", str(tmp_path / "new"))
    assert database(second, rows(2)).budget.spent == 1
    with pytest.raises(Refused, match="another secret"):
        refresh(rows(), ledger=second, reason="these, please")
    assert database(second, rows(2)).budget.spent == 1


def test_nothing_of_the_rows_is_on_the_server(alone, books):
    """Fingerprints are keyed; neither an exact sum nor a plain hash is in any table."""
    with database(alone) as db:
        noisy = db.count("x > 0.5").exact[0][0]
        exact = int((rows()["x"].to_numpy() > 0.5).sum())
    everything = ""
    with postgres.shared().connect(books) as admin:
        for table in (*TABLES, "sources"):
            found = admin.execute(f"SELECT * FROM {name_of(alone)}.{table}".encode()).fetchall()
            everything += str(found)
    assert '"answer":' in everything
    on_some_grid = any(f"[[[{exact * 2**k}]]]" in everything for k in range(20))
    assert noisy == exact or not on_some_grid
    assert not any(str(x) in everything for x in rows()["x"].to_pylist())


def test_the_owner_looks_and_decides_from_the_command_line(alone, books, tmp_path):
    """budget, history, verify, report; and override, once the ledger is gone."""
    import pyarrow.parquet
    from typer.testing import CliRunner

    from sulq.cli import app

    pyarrow.parquet.write_table(rows(), tmp_path / "p.parquet")
    (tmp_path / "p.toml").write_text("[columns.x]\ntype = 'number'\nlow = 0\nhigh = 1\n")
    common = ["--data", str(tmp_path / "p.parquet"), "--schema", str(tmp_path / "p.toml"),
              "--ledger", alone, "--epsilon", "1", "--queries", "5"]  # fmt: skip

    def sulq_(*words):
        return CliRunner().invoke(app, [*words, *common])

    first = sulq_("count", "x > 0.5")
    assert first.exit_code == 0, first.output
    assert "begins. Fixed from now on" in first.output
    for words in (["budget"], ["history"], ["verify"], ["report"], ["price", "count", "x > 0.1"]):
        assert sulq_(*words).exit_code == 0, words
    assert "1 of 5 queries spent" in sulq_("budget").output
    dropped(alone, books)
    assert sulq_("count", "x > 0.5").exit_code == 2
    lost = sulq_("override", "--reason", "server lost", "--yes")
    assert lost.exit_code == 0, lost.output
    again = sulq_("count", "x > 0.5")
    assert again.exit_code == 0, again.output
    assert "server lost" in sulq_("report").output


def test_there_are_as_many_requests_as_the_issue_says():
    """8 processes, 360 requests, 90 answers, in soak 1,200 and 300; children start clean."""
    assert ((8, 1200, 300) if SOAK else (8, 360, 90)) == (PROCESSES, REQUESTS, TOTAL)
    assert sum(len(s) for s in shares()) == REQUESTS
    assert PROCESS.get_start_method() == "forkserver"

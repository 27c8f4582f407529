"""A failure is an answer: an engine whose scans fail by rows is put in, and read as an oracle."""

import errno
import json
import os
import threading
import time
import traceback

import duckdb
import postgres
import pyarrow.parquet as pq
import pytest
from attacks.harness import SCHEMA, opened, people

import sulq
from sulq import Query
from sulq.engines.failures import TooLate
from sulq.learn import KMeans
from sulq.ledger import Ledger
from sulq.pipeline import Order

BITS = 200
PLANTED = "joe@example.org"
ROUGH = 100_000  # so that a question costs next to nothing


class FailsOnNobody:
    """Fails exactly when a question selects nobody, in words that quote a row."""

    title = "Oracle"

    def __init__(self, engine):
        self._engine = engine
        self.schema, self.rows = engine.schema, engine.rows
        self.probe, self.close = engine.probe, engine.close
        self.scans, self.always = 0, False

    def sums(self, queries):
        self.scans += 1
        found = self._engine.sums(queries)
        if self.always or any(not any(map(any, matrix)) for matrix in found):
            row = {"email": PLANTED}
            try:
                raise KeyError(f"no such text: {row['email']}")
            except KeyError as error:
                raise ValueError(f"Could not convert {PLANTED!r}") from error
        return found


def oracle(db):
    db._pipeline.engine = FailsOnNobody(db._pipeline.engine)
    return db


def asked(db, row):
    """What an attacker sees of one row's secret: 'yes', 'no', or nothing."""
    try:
        db.count(f"id = {row} and secret", error=ROUGH)
    except sulq.EngineFailed:
        return "no"
    except sulq.Refused:
        return None
    return "yes"


@pytest.fixture
def source(tmp_path):
    """A table whose first row's secret is false."""
    secret = [i % 3 == 1 for i in range(BITS)]
    path = tmp_path / "people.parquet"
    pq.write_table(people(BITS, secret=secret), path)
    return path, secret


def owned(source, **terms):
    return opened(source[0], ledger=None, queries=4, **terms)


# ---- the oracle -----------------------------------------------------------------------------


def test_two_hundred_questions_tell_one_bit(source):
    """The first failure stops it: nothing is charged or scanned after, also when opened again."""
    db = oracle(owned(source))
    seen = [asked(db, row) for row in range(BITS)]
    assert seen == ["no"] + [None] * (BITS - 1)
    assert len(db.history()) == db._pipeline.engine.scans == 1
    db.close()
    again = oracle(owned(source))
    assert {asked(again, row) for row in range(BITS)} == {None}
    assert (len(again.history()), again._pipeline.engine.scans) == (1, 0)
    assert again.verify() == 3  # opened, charged, stopped


def test_control_without_the_stop_every_bit_is_read(source, monkeypatch):
    """The same attack on the same engine, with the ledger's stop taken out."""
    monkeypatch.setattr(Ledger, "freeze", lambda self, *what: None)
    db = oracle(owned(source))
    assert [asked(db, row) == "yes" for row in range(BITS)] == source[1]
    assert db.budget.spent < 1


def test_questions_in_one_batch_tell_one_bit(source):
    """Of a server's batch, which scans each alone when all together fail: up to the first."""
    db = oracle(owned(source))
    some = [(f"a{row}", db.question(Query(where=f"id = {row} and secret", error=ROUGH)))
            for row in range(1, 40)]  # fmt: skip
    found = db.answer_all([Order(question, None, who) for who, question in some])
    assert {type(each) for each in found} == {sulq.EngineFailed}
    assert len({str(each) for each in found}) == 1
    assert (
        db._pipeline.engine.scans == 1 + 2
    )  # all, then row 1, which is true, and row 2, which is not
    later = db.answer_all([Order(question, None, "eve") for _, question in some])
    assert {type(each) for each in later} == {sulq.Frozen}
    assert db._pipeline.engine.scans == 3
    db.resume("mended")
    db._pipeline.engine = db._pipeline.engine._engine
    assert not any(isinstance(each, Exception) for each in db.answer_all(
        [Order(question, None, "eve") for _, question in some]))  # fmt: skip


def test_who_had_paid_when_it_stopped_hears_the_same(source):
    """Threads in flight: whether one's own scan failed or not, the same words; nothing is kept."""
    db, ready, stopped = owned(source), threading.Barrier(4), threading.Event()
    honest, first = (
        db._pipeline.engine.sums,
        db._planner.check(Query(where="id = 0 and secret", error=ROUGH)),
    )

    def sums(queries):
        ready.wait(30)  # all have paid
        if queries[0].text == first.text:
            raise ValueError(PLANTED)
        stopped.wait(30)
        return honest(queries)

    db._pipeline.engine.sums = sums
    freeze = db._ledger.freeze
    db._ledger.freeze = lambda *what: (freeze(*what), stopped.set())
    heard = {}

    def ask(row):
        with pytest.raises(sulq.EngineFailed) as caught:
            db.count(f"id = {row} and secret", error=ROUGH)
        heard[row] = str(caught.value)

    threads = [threading.Thread(target=ask, args=(row,)) for row in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(heard) == {0, 1, 2, 3}
    assert len(set(heard.values())) == 1
    assert [e.kind for e in db.entries()].count("answer") == 0


def test_another_process_sees_the_stop_and_its_end(source):
    """A ledger file shared by two: each refuses what the other's failure stopped."""
    one, other = oracle(owned(source)), owned(source)
    stored = other.count("secret")
    assert asked(one, 0) == "no"
    with pytest.raises(sulq.Frozen, match="Nothing was charged"):
        other.count("age > 30")
    assert other.count("secret").exact == stored.exact
    assert other.ask(Query(where="secret"), request_id="again").exact == stored.exact
    other.resume("looked at it")
    one._pipeline.engine = one._pipeline.engine._engine
    assert asked(one, 0) == "yes"  # paid before
    assert len(one.history()) == 2
    assert [e.kind for e in one.decisions()] == ["open", "freeze", "resume"]


@pytest.mark.skipif(not postgres.here(), reason="no PostgreSQL on this machine")
def test_a_stop_in_a_ledger_on_a_server(source, tmp_path, monkeypatch):
    """The same through PostgreSQL: durable, seen by others, ended by the owner alone."""
    monkeypatch.setenv("SULQ_HOME", str(tmp_path))
    where = postgres.ledger(postgres.own_database())
    one, other = (opened(source[0], ledger=where, queries=4) for _ in range(2))
    assert asked(oracle(one), 0) == "no"
    assert asked(other, 1) is None
    assert other.frozen.engine == "Oracle"
    other.resume("looked at it")
    assert one.frozen is None
    assert asked(other, 1) == "yes"
    one.verify()


def test_a_stop_that_cannot_be_written_stops_this_process(source, monkeypatch):
    """The ledger fails at the very moment: nothing more is scanned here."""
    db = oracle(owned(source))

    def away(page, failed):
        raise sulq.Refused("the ledger cannot be written")

    monkeypatch.setattr("sulq.ledger.ledger.freeze", away)
    assert [asked(db, row) for row in range(20)] == ["no"] + [None] * 19
    assert db._pipeline.engine.scans == 1


def test_public_counts_stop_too(source):
    """Free counts go through the same scans: a failure stops, and while stopped none is made."""
    db = oracle(owned(source))
    nobody = sulq.Rows.where("id < 0")
    with pytest.raises(sulq.Frozen, match="Nothing was charged"):
        db.sizes(nobody)
    for call in (lambda: db.sizes(nobody), lambda: db.rows_of(Query(rows=nobody)), db.key_counts):
        with pytest.raises(sulq.Frozen):
            call()
    assert db._pipeline.engine.scans == 1
    assert db.history() == []


@pytest.mark.parametrize("rule", ["classes", "duan"])
def test_an_audited_database_stops_too(source, rule):
    """Exact sums, and under Duan's rule the verdict itself, come from scans that may fail."""
    terms = {"mode": "audited", "rule": rule, "independent_rows": True, "epsilon": 4.0}
    terms |= {"priors": {"secret": 0.5}} if rule == "classes" else {}
    schema = {n: SCHEMA[n] for n in ("id", "region", "secret")}
    db = opened(people(BITS), schema, queries=20, **terms)
    db._pipeline.engine.sums = lambda queries: 1 / 0
    with pytest.raises(sulq.EngineFailed, match="The charge stands") as caught:
        db.count("secret")
    assert chain(caught.value) == [caught.value]
    with pytest.raises(sulq.Frozen):
        db.count("not secret")
    assert (db.budget.spent, db.frozen.error) == (1, "ZeroDivisionError")


# ---- the owner ------------------------------------------------------------------------------


def test_the_owner_sees_what_failed_and_nothing_of_the_rows(source):
    """The question, the engine and the class of the error; a reason to go on is asked for."""
    db = oracle(owned(source))
    asked(db, 0)
    found = db.frozen
    assert (found.engine, found.error) == ("Oracle", "ValueError")
    assert found.questions == (db.history()[0].query,)
    written = json.dumps([e.body for e in db.entries()])
    assert PLANTED not in written
    with pytest.raises(sulq.NotPermitted):
        db.as_analyst("bob").resume("let me")
    for reason in ("", "  ", None, "x" * 1001):
        with pytest.raises(sulq.Refused, match="reason"):
            db.resume(reason)
    db.resume("mended in 1.1")
    assert db.frozen is None
    assert db.decisions()[-1].body["reason"] == "mended in 1.1"
    with pytest.raises(sulq.Refused, match="nothing is frozen"):
        db.resume("again")


def test_each_failure_wants_its_own_resume(source):
    """Going on does not allow the next failure: it stops again."""
    db = oracle(owned(source))
    assert asked(db, 0) == "no"
    db.resume("go on")
    assert [asked(db, 2), asked(db, 3)] == ["no", None]


# ---- what does not stop ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        duckdb.InterruptException("INTERRUPT Error: Interrupted!"),
        OSError("INTERRUPT Error: Interrupted!"),
    ],
    ids=["cancelled", "cancelled stream"],
)
def test_what_comes_from_outside_stops_nothing(source, monkeypatch, error):
    """A question cancelled, a stream cancelled: charged, and the next is answered."""
    db, honest = owned(source), None

    def fail(statement):
        nonlocal honest
        honest, db._pipeline.engine._ask = (
            db._pipeline.engine._ask,
            type(db._pipeline.engine)._ask.__get__(db._pipeline.engine),
        )
        raise error

    db._pipeline.engine._ask = fail
    with pytest.raises(sulq.EngineFailed, match="The charge stands"):
        db.count("secret")
    assert db.frozen is None
    assert db.count("secret").value is not None
    assert db.budget.spent == 1


def test_a_full_disk_stops_it_once(source):
    """How much a scan spills depends on rows: no room for it is an answer, and may be one once."""
    db = owned(source)

    def fail(statement):
        raise duckdb.IOException(f"IO Error: Could not write file: {os.strerror(errno.ENOSPC)}")

    db._pipeline.engine._by_statement = fail
    with pytest.raises(sulq.EngineFailed):
        db.count("secret")
    assert db.frozen is not None
    with pytest.raises(sulq.Frozen):
        db.count("secret and not secret")


def test_control_a_row_that_quotes_a_cancellation_stops_it(source):
    """Only the engine's own class counts, not what it quotes of a row."""
    db = owned(source)

    def fail(statement):
        raise duckdb.ConversionException("Conversion Error: 'INTERRUPT Error'")

    db._pipeline.engine._ask = fail
    with pytest.raises(sulq.EngineFailed):
        db.count("secret")
    del db._pipeline.engine._ask
    assert db.frozen is None  # the probe failed too: the engine was away
    db._pipeline.engine._by_statement = fail
    with pytest.raises(sulq.EngineFailed):
        db.count("age > 30")
    assert db.frozen.error == "ConversionException"


def test_a_file_that_is_gone_stops_nothing(source):
    """The engine is away: the fixed public scan fails as well."""
    db = owned(source)
    db._pipeline.guard.check = lambda: None  # or it would be refused before the charge
    aside = source[0].with_suffix(".aside")
    source[0].rename(aside)
    with pytest.raises(sulq.EngineFailed, match="The charge stands"):
        db.count("income > 3")
    aside.rename(source[0])
    assert db.frozen is None
    assert db.count("income > 3").value is not None


def test_an_interrupt_stops_nothing(source):
    """Ctrl-C in the middle of a statement, told by DuckDB as a RuntimeError, is an interrupt."""
    db = owned(source)

    def interrupted(queries):
        raise RuntimeError("Query interrupted")

    db._pipeline.engine._by_statement = interrupted
    with pytest.raises(KeyboardInterrupt):
        db.count("secret")
    del db._pipeline.engine._by_statement
    assert (db.frozen, db.budget.spent) == (None, 1)
    assert db.count("secret").value is not None


@pytest.mark.parametrize("query", [Query(["income"]), Query(["exp(income / 1000)"])],
                         ids=["statement", "stream"])  # fmt: skip
def test_a_deadline_is_known_as_one_on_every_way(source, query):
    """Stopped while a statement or a stream runs: too late, which is no failure."""
    db = owned(source)
    inner = db._pipeline.engine
    endless = "SELECT a.range % 100 AS income FROM range(100000) a, range(1000000) b"

    class Connection:
        """DuckDB's own, with more rows than can be read in time."""

        def __init__(self, real):
            self._real = real

        def __getattr__(self, name):
            return getattr(self._real, name)

        def execute(self, statement):
            return self._real.execute(f"SELECT sum(income) FROM ({endless})")

        def sql(self, statement):
            return self._real.sql(endless)

    inner._connection = Connection(inner._connection)
    (found,) = db.answer_all([Order(db.question(query))], until=time.monotonic() + 0.5)
    assert isinstance(found, TooLate)
    assert chain(found) == [found]
    assert db.frozen is None


# ---- words ----------------------------------------------------------------------------------


def chain(error):
    """An error and everything that hangs on it."""
    found, waiting = [], [error]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in found:
            found.append(each)
            waiting += [each.__cause__, each.__context__]
    return found


def quoted(error):
    """Everything that can be read from an error: words, arguments, frames and their locals."""
    text = []
    for each in chain(error):
        text += [str(each), repr(each.args), repr(vars(each))]
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if "/src/sulq/" in frame.f_code.co_filename:
                text.append(repr({k: v for k, v in frame.f_locals.items() if k != "self"}))
    return "\n".join(text)


def raised(found):
    raise found[0]


WAYS = {
    "count": lambda db: db.count("id = 0 and secret"),
    "batch": lambda db: db.ask([Query(where="id = 0 and secret"), Query(["income"])]),
    "sql": lambda db: db.sql("select count(*) from people where id = 0 and secret"),
    "mean": lambda db: db.mean("income", where="id = 0 and secret"),
    "sizes": lambda db: db.sizes(sulq.Rows.where("id < 0")),
    "rows_of": lambda db: db.rows_of(Query(rows=sulq.Rows.where("id < 0"))),
    "view": lambda db: db.as_analyst("bob").count("id = 0 and secret"),
    "deadline": lambda db: raised(
        db.answer_all(
            [Order(db.question(Query(where="id = 0 and secret")))], until=time.monotonic() + 60
        )
    ),
    "learner": lambda db: KMeans(2, max_iter=1).fit(db, ["income", "age"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_error_carries_what_the_engine_said(source, way):
    """No cause, no context, no frame behind it holds the engine's words, on any way."""
    db = oracle(owned(source))
    db._pipeline.engine.always = way == "learner"
    with pytest.raises(sulq.SulqError) as caught:
        WAYS[way](db)
    assert chain(caught.value) == [caught.value]
    assert PLANTED not in quoted(caught.value)


def test_no_error_of_a_batch_carries_what_the_engine_said(source):
    """The same for a server's batch, whose errors are given, not raised."""
    db = oracle(owned(source))
    some = [db.question(Query(where=f"id = {i} and secret")) for i in (0, 1)]
    for error in db.answer_all([Order(question) for question in some]):
        assert chain(error) == [error]
        assert PLANTED not in quoted(error)


def test_control_the_walk_finds_what_an_engine_said(source):
    """The engine's own error has it, in its words, its context and its frames."""
    db = oracle(owned(source))
    with pytest.raises(ValueError, match="convert") as caught:
        db._pipeline.engine.sums([db._planner.check(Query(where="id < 0"))])
    assert len(chain(caught.value)) == 2
    assert PLANTED in quoted(caught.value)

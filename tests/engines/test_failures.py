"""What an engine's system says of a failure stops at the engine, words, causes and frames."""

import threading
from types import SimpleNamespace

import duckdb
import postgres
import pytest
from attacks.harness import SCHEMA, people
from attacks.test_failing import PLANTED, chain, quoted
from helpers import checked, duckdb_engine, postgres_engine

import sulq
from sulq.engines.failures import ScanStopped


def fail(error):
    def call(*_, **__):
        email = PLANTED
        try:
            raise KeyError(email)
        except KeyError as inner:
            raise error(f"Could not convert {email!r}") from inner

    return call


def failing_duckdb():
    engine = duckdb_engine(people(), SCHEMA)
    engine._ask = engine._cubes._table = fail(duckdb.ConversionException)
    return engine


def failing_postgres(error=None):
    import psycopg

    engine = postgres_engine(people(), SCHEMA)
    engine._ask = engine._cubes._table = fail(error or psycopg.errors.InvalidTextRepresentation)
    return engine


def failing_spark(words=""):
    """Spark's engine without Spark: only what happens to its errors is of interest."""
    pytest.importorskip("pyspark")
    from pyspark.errors import PySparkException

    from sulq.engines.spark.engine import SparkEngine

    engine = SparkEngine.__new__(SparkEngine)
    engine.schema, engine._lock, engine._tag = sulq.Schema.load(SCHEMA), threading.RLock(), "t"
    context = SimpleNamespace(_jsc=1, addJobTag=lambda t: None, removeJobTag=lambda t: None)
    failing = fail(lambda said: PySparkException(message=f"{words}{said}"))
    engine._session = SimpleNamespace(sparkContext=context, sql=failing)
    engine._cubes = SimpleNamespace(combinations=failing)
    engine._source, engine._by_sql, engine._ask = "rows", failing, failing
    return engine


ENGINES = {"duckdb": failing_duckdb, "spark": failing_spark} | (
    {"postgres": failing_postgres} if postgres.here() else {}
)
CALLS = {
    "sums": lambda engine: engine.sums(checked([sulq.Query(where="secret")], engine)),
    "groups": lambda engine: engine.groups(["region"]),
    "probe": lambda engine: engine.probe(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_s_error_has_nothing_behind_it(name, call):
    """No cause, no context and no frame of the system underneath; the class of the error stays."""
    with pytest.raises(sulq.EngineFailed) as caught:
        CALLS[call](ENGINES[name]())
    assert chain(caught.value) == [caught.value]
    assert PLANTED not in quoted(caught.value)
    assert caught.value.kind in (
        "ConversionException", "InvalidTextRepresentation", "PySparkException"
    )  # fmt: skip


@pytest.mark.skipif(not postgres.here(), reason="no PostgreSQL on this machine")
@pytest.mark.parametrize("error", ["QueryCanceled", "AdminShutdown", "LockNotAvailable"])
def test_what_a_server_says_from_outside_stops_nothing(error):
    """Cancelled, shut down, a lock: rows have no part in it."""
    import psycopg

    with pytest.raises(ScanStopped) as caught:
        CALLS["sums"](failing_postgres(getattr(psycopg.errors, error)))
    assert chain(caught.value) == [caught.value]


def test_what_spark_says_from_outside_stops_nothing():
    """A job cancelled; but not a row that quotes such words, and not a full disk."""
    with pytest.raises(ScanStopped):
        CALLS["sums"](failing_spark("[SPARK_JOB_CANCELLED] Job 3 cancelled. "))
    full = "\nCaused by: java.io.IOException: No space left on device\n"
    for words in ("[CAST_INVALID_INPUT] The value '[SPARK_JOB_CANCELLED]' ", full):
        with pytest.raises(sulq.EngineFailed) as caught:
            CALLS["sums"](failing_spark(words))
        assert not isinstance(caught.value, ScanStopped)


@pytest.mark.skipif(not postgres.here(), reason="no PostgreSQL on this machine")
def test_a_full_disk_of_a_server_is_a_failure():
    """How much a scan spills depends on rows."""
    import psycopg

    with pytest.raises(sulq.EngineFailed) as caught:
        CALLS["sums"](failing_postgres(psycopg.errors.DiskFull))
    assert not isinstance(caught.value, ScanStopped)


@pytest.mark.skipif(not postgres.here(), reason="no PostgreSQL on this machine")
def test_a_server_that_is_away_stops_nothing(tmp_path, monkeypatch):
    """Its address leads nowhere after the charge: the fixed public scan fails too."""
    from helpers import opened

    db = opened(people(), SCHEMA, engine="postgres", queries=10)
    db._pipeline.guard.check = lambda: None  # or it would be refused before the charge
    engine = db._pipeline.engine
    address = engine._address
    engine._address = type(address).read("postgresql://127.0.0.1:1/nowhere")
    engine._drop()
    with pytest.raises(sulq.EngineFailed, match="The charge stands"):
        db.count("secret")
    assert (db.frozen, db.budget.spent) == (None, 1)
    engine._address = address
    assert db.count("secret").value is not None
    assert db.budget.spent == 1

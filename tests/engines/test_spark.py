"""Spark gives the integers of the contract, whatever its settings and whoever dies.

One question to Spark takes a tenth of a second, whatever it is. So the functions of the contract
run with an engine that gives the reference's integers and notes each question; Spark is then
asked all of them at once, by SQL and by the kernel in its workers, and must give the same.
"""

from __future__ import annotations

import inspect
import itertools
import math
import os
import random
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import spark
from attacks import degenerate
from audit.harness import SCHEMA as AUDITED
from audit.harness import audited, outcome
from audit.harness import people as audited_people
from engines import people_statements, star_statements, test_people, test_star
from engines import test_contract as contract
from engines import test_fuzz as fuzz
from engines import test_programs as programs
from engines import test_statistics as statistics
from engines import test_unit as unit
from engines.test_postgres import (
    ASKED,
    PEOPLE,
    PUBLIC,
    QUESTIONS,
    ask_both,
    counted,
    people,
    public_rows,
)
from expressions import test_row_function as row_functions
from expressions import test_timestamps as timestamps
from helpers import SilentNoise, checked, duckdb_engine, opened, reference_engine, sums
from learn import test_engines as learners
from soak import in_soak, some, times

import sulq
from sulq.cli import demo_data
from sulq.engines.open_engine import open_engine
from sulq.engines.spark.engine import SparkEngine
from sulq.engines.spark.writer import LONGEST, SparkWriter, called
from sulq.expressions.parse import predicate
from sulq.open_database import refresh
from sulq.sources.source import open_source
from sulq.sources.spark import PINNED, SparkRows, find_rows
from sulq.sources.star_source import star_source
from sulq.values.query import People
from sulq.values.schema import Schema


@pytest.fixture(scope="module")
def session():
    with spark.cluster() as made:
        yield made


class Noted:
    """The reference's integers, and a note of everything asked."""

    def __init__(self, source, schema, table=None):
        declared = None if schema is None else Schema.load(schema)
        every = declared and replace(declared, unit=None)  # also those beyond max_rows
        self.rows_of = duckdb_engine(source, every, table).arrow()
        self._reference = reference_engine(source, declared, table)
        self.schema, self.rows = self._reference.schema, self._reference.rows
        self.answers = {}

    def sums(self, queries):
        found = self._reference.sums(queries)
        for query, matrix in zip(queries, found, strict=True):
            self.answers[query.text, str(query.values)] = query, matrix
        return found

    def close(self):
        pass


def spark_engine(session, table, schema, few=False):
    """An engine over a table; with few=True, one task does for a small one."""
    declared = Schema.load(schema)
    frame = spark.frame(session, table, declared)
    small = few and table.num_rows < 1000
    return SparkEngine(open_source(frame.coalesce(1) if small else frame), declared)


def compare(engine, noted, *ways):
    """Spark's integers are those that were noted: by SQL, and all of them by the kernel."""
    queries = [q for q, _ in noted.answers.values()]
    wanted = [m for _, m in noted.answers.values()]
    assert engine.rows == noted.rows
    for way in ways or (engine.sums, engine._by_kernel):
        given = way(queries)
        for query, found, right in zip(queries, given, wanted, strict=True):
            assert found == right, (way.__name__, query.text)
    return {q.text: m for q, m in zip(queries, given, strict=True)}


def cases(function):
    """Every way a test function is called, as its marks say."""
    choices = []
    for mark in getattr(function, "pytestmark", ()):
        names, values = mark.args
        names = [n.strip() for n in names.split(",")] if isinstance(names, str) else names
        choices.append([dict(zip(names, v if len(names) > 1 else (v,), strict=True))
                        for v in values])  # fmt: skip
    for chosen in itertools.product(*choices):
        yield {k: v for one in chosen for k, v in one.items()}


def functions(module, fixture):
    return {
        name: f for name, f in vars(module).items()
        if name.startswith("test_") and fixture in inspect.signature(f).parameters
    }  # fmt: skip


# --- the contract -------------------------------------------------------------------------


def test_partitions_values_and_rows(session):
    """Every question of the contract about its table of edges, and every kernel of learning."""
    rows = list(contract._rows())
    noted = Noted(contract._table(rows), contract.SCHEMA)
    for function in functions(contract, "engine").values():
        for case in cases(function):
            given = {"engine": noted, "rows": rows} | case
            function(**{n: given[n] for n in inspect.signature(function).parameters})
    every = noted.answers
    assert len(every) > 100
    noted.answers = dict(some(every.items(), 50))
    engine = spark_engine(session, noted.rows_of, noted.schema)
    compare(engine, noted)
    for query in some(contract.EVERY_KIND[::3], 3):  # one at a time goes other ways
        (made,) = checked([query], engine)
        assert engine.sums([made]) == [every[made.text, str(made.values)][1]]


def test_programs_run_in_the_executors(session):
    """Every question of test_programs.py, by the same module in other processes."""
    noted = Noted(programs.table(), programs.SCHEMA)
    for function in functions(programs, "engine").values():
        for case in cases(function):
            function(**{"engine": noted} | case)
    engine = spark_engine(session, noted.rows_of, noted.schema)
    engine.check_programs()
    compare(engine, noted, engine.sums)


def test_programs_want_workers_that_run_them(session, monkeypatch):
    """Without wasmtime there, opening refuses: nothing is charged that could not be answered."""

    def has_nothing(batches):
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array(["no"])], names=["version"])

    monkeypatch.setattr("sulq.engines.spark.engine.runs_programs_here", has_nothing)
    engine = spark_engine(session, programs.table(), Schema.load(programs.SCHEMA))
    with pytest.raises(sulq.SchemaError, match="workers' Python does not have wasmtime"):
        engine.check_programs()


def test_every_expression_in_every_mode(session):
    """Each expression of expressions.sql; ANSI mode changes nothing, pinned or not."""
    table = pa.table({n: pa.array([v], kind) for n, (_, kind, v) in contract.ONE_ROW.items()})
    noted = Noted(table, {n: d for n, (d, _, _) in contract.ONE_ROW.items()})
    for expression, expected in contract._cases():
        contract.test_expression_has_its_documented_value(noted, expression, expected)
    engine = spark_engine(session, noted.rows_of, noted.schema)
    compare(engine, noted)
    engine = spark_engine(session, noted.rows_of, noted.schema)  # which has kept nothing
    engine._session.conf.set("spark.sql.ansi.enabled", "true")
    noted.answers = dict(some(noted.answers.items(), 20))
    compare(engine, noted, engine.sums)


OTHERS = {  # how a file is read is not Spark's to say; the rest is asked below, all at once
    "test_csv_in_all_its_spellings", "test_csv_values_with_quotes_and_line_breaks",
    "test_odd_column_names", "test_blocks_of_hugeint_keys",
    "test_a_bare_array_has_columns_in_the_unit_interval",
}  # fmt: skip


def noting(module, fixture, made, tmp_path, skip=OTHERS):
    """Run a module's functions with engines that note what they are asked."""

    def make(source, schema, table=None):
        made.append(Noted(source, schema, table))
        return made[-1]

    make.engine = "noted"
    for name, function in functions(module, fixture).items():
        for i, case in enumerate(cases(function) if name not in skip else ()):
            folder = tmp_path / f"{name}{i}"
            folder.mkdir()
            with pytest.MonkeyPatch.context() as patch:
                given = {fixture: make, "tmp_path": folder, "monkeypatch": patch} | case
                function(**{n: given[n] for n in inspect.signature(function).parameters})


def test_every_kind_of_table(session, tmp_path):
    """Keys, types, moments, names, few rows, many: each fourth table of the contract, or all."""
    made = []
    noting(contract, "make_engine", made, tmp_path)
    for count in (0, 1, 2):
        made.append(Noted(contract._table(list(contract._rows())[:count]), contract.SCHEMA))
        sums(made[-1], *contract.EVERY_KIND)
    assert len(made) >= 40
    sharded = [noted for noted in made if noted.schema.shards is not None]
    assert len(sharded) == 1
    for noted in [*sharded, *some(made, len(made) // 8)]:
        compare(spark_engine(session, noted.rows_of, noted.schema, few=True), noted)


def test_row_functions_are_what_python_says(session):
    """Random Python functions of a row, compared row by row."""
    engine = spark_engine(session, row_functions.table(), row_functions.SCHEMA, few=True)
    for first in range(0, times(5, 320), 5):
        found = list(row_functions.programs(first, 5))
        assert row_functions.differing(engine, found) == []


def test_timestamps_are_what_python_says(session):
    """Parts, differences and comparisons of moments, before 1970 and between seconds too."""
    rows = timestamps.table()
    schema = sulq.Schema.load({"columns": timestamps.COLUMNS})
    asked = dict(some(timestamps.EXPRESSIONS.items(), 4))
    queries = [timestamps.checked(text) for text in asked]
    found = spark_engine(session, rows, schema, few=True).sums(queries)
    for (text, f), ((sum_,),) in zip(asked.items(), found, strict=True):
        assert sum_ == timestamps.plain(rows, f, text), text


def test_rows_that_are_hardly_there(session):
    """Degenerate tables crossed with every kind of question: nothing fails, the same integers."""
    tally = degenerate.run(times(8, 24), ["spark"], each=8)
    assert tally.failures == []
    assert tally.batches["spark"] >= times(8, 24)


def test_rows_of_people(session):
    """Features of each person, by SQL, and by the kernel where SQL does not say what is asked.

    The rows and statements of which the reference's numbers are compared with plain DuckDB's.
    """
    rows = people_statements.table_of(people_statements.events(1))
    texts = [ours for (ours, _), _ in people_statements.statements(7, times(12, 300))]
    asked = test_people.checked_all([*people_statements.EVERY_KIND, *texts])
    wanted = reference_engine(rows, people_statements.SCHEMA).sums(asked)
    engine = spark_engine(session, rows, people_statements.SCHEMA, few=True)
    for query, found, right in zip(asked, engine.sums(asked), wanted, strict=True):
        assert found == right, query.text


def test_people_joined_to_their_events(session):
    """Several frames as one: the integers of the reference, for events and for people.

    Those tables and statements, too, that the reference is compared with plain DuckDB by.
    """
    tables = star_statements.tables_of(star_statements.rows_of(1))
    wanted = test_star.star_engine("reference", tables)
    frames = {name: spark.frame(session, t, None).coalesce(1) for name, t in tables.items()}
    declared = Schema.load(star_statements.SCHEMA)
    engine = open_engine(star_source(open_source(frames), declared), declared)
    texts = [ours for (ours, _), _ in star_statements.statements(7, times(5, 300))]
    asked = test_star.checked_all(texts, wanted.schema)
    for query, found, right in zip(asked, engine.sums(asked), wanted.sums(asked), strict=True):
        assert found == right, query.text
    again = {**frames, "people": frames["people"].union(frames["people"])}
    with pytest.raises(sulq.SchemaError, match="missing or repeated"):
        open_engine(star_source(open_source(again), declared), declared)


def test_discover(session):
    """Values that enough rows have: those of the reference, by SQL and where the kernel reads."""
    words = ["often"] * 400 + ["seldom"] * 9 + ["once"] + [None] * 50 + ["x" * 1200] * 300
    rows = pa.table({"word": words, "n": list(range(len(words)))})
    schema = {"word": {"type": "text"}, "n": {"type": "integer", "low": 0, "high": 999}}
    terms = {"epsilon": 8.0, "queries": 8, "discoveries": 4, "ledger": ":memory:", "delta": 1e-3}
    found = []
    for source in (rows, spark.frame(session, rows, Schema.load(schema))):
        db = opened(source, schema, name="words", **terms)
        statement = "select word, count(*) as n from words group by word(discover => true)"
        asked = [db.discover("word"), db.discover("word", where="n < 380"),
                 db.discover("word", where="exp(n) > 1"), db.sql(statement)]  # fmt: skip
        found.append([table.columns for table in asked])
        assert db.frozen is None
    assert found[0] == found[1]
    assert found[0][0]["word"][0] == "often"
    assert "once" not in found[0][0]["word"]


def test_text_that_is_not_utf8_is_missing(session):
    """As a text, a key and a person, in SQL and in the kernel; as a category it is undeclared."""
    session.sql(
        "SELECT * FROM VALUES (1, X'61'), (2, X'FFFE'), (3, X'61FF'), (4, NULL) AS t(n, raw)"
    ).createOrReplaceTempView("bad_text")
    frame = session.sql("SELECT n, CAST(raw AS STRING) AS t, CAST(raw AS STRING) AS k, "
                        "CAST(raw AS STRING) AS c FROM bad_text")  # fmt: skip
    schema = {
        "n": {"type": "integer", "low": 0, "high": 9},
        "t": {"type": "text"},
        "k": {"key": True},
        "c": {"values": ["a", "\ufffd\ufffd", "?"]},
    }
    engine = SparkEngine(open_source(frame), Schema.load(schema))
    asked = [
        sulq.Query(where="t is null"), sulq.Query(where="c is null"), sulq.Query(by="c"),
        sulq.Query(["length(t)"]), sulq.Query(where="t like '%a%'"),
        sulq.Query(by=sulq.Blocks(1, 5)),
    ]  # fmt: skip
    queries = checked(asked, engine)
    good = pa.table({"n": [1, 2, 3, 4], **{x: ["a", None, None, None] for x in "tkc"}})
    wanted = reference_engine(good, schema).sums(queries)
    assert engine.sums(queries) == wanted
    assert engine._by_kernel(queries) == wanted


def test_every_way_to_store_a_number(session):
    """Narrow and wide, whole and not: one column for each type and declaration."""
    longest = max(len(values) for _, values, _ in contract.NARROW)
    columns, schema = {}, {}
    for i, (kind, values, declared) in enumerate(contract.NARROW):
        columns[f"x{i}"] = pa.array([*values, *[None] * (longest - len(values))], kind)
        schema[f"x{i}"] = declared
    noted = Noted(pa.table(columns), schema)
    for x, declared in schema.items():
        tests = [x, f"{x} > 3", *([f"{x} is null"] if declared.get("nullable", True) else [])]
        sums(noted, sulq.Query(tests), sulq.Query([f"exp(least(greatest({x}, 0), 1))"]))
    engine = spark_engine(session, noted.rows_of, noted.schema)
    compare(engine, noted)


def test_whole_numbers_of_38_digits(session):
    """Keys are not rounded, and stay in their blocks when the kernel gets them."""
    keys = [10**37 + 1, 10**37 + 2, -(10**36), 3, None, 2**62, -(2**63)]
    kind = pa.decimal128(38, 0)
    table = pa.table({"id": pa.array([k and Decimal(k) for k in keys], kind)})
    engine = spark_engine(session, table, {"id": {"key": True}})
    wanted = [[0] for _ in range(97)]
    for key in keys:
        wanted[contract._block(key, 1, 97)][0] += 1
    queries = checked([sulq.Query(by=sulq.Blocks(1, 97))], engine)
    assert engine.sums(queries) == engine._by_kernel(queries) == [wanted]


EXPRESSIONS, PREDICATES = times(60, 300), times(12, 40)


def test_generated_expressions(session):
    """The reference's integers row by row; a predicate, its negation and its absence are all."""
    table = fuzz._table(1)
    noted = Noted(table, fuzz.SCHEMA)
    pick, read = random.Random(7), []
    while len(read) < EXPRESSIONS:
        read += fuzz.accepted(pick, noted.schema, ["integer", "number", "boolean"], 20)
    sums(noted, *(sulq.Query([text], by="row") for text in read[:EXPRESSIONS]))
    grammar, tested = fuzz.Grammar(pick), []
    while len(tested) < PREDICATES:
        p = grammar.text("boolean", pick.randint(1, 5))
        try:
            predicate(p, noted.schema)
        except sulq.QueryNotAllowed:
            continue
        tested.append([sulq.Query(where=w) for w in (f"({p})", f"not ({p})", f"({p}) is null")])
    sums(noted, *(q for three in tested for q in three))
    engine = spark_engine(session, noted.rows_of, noted.schema)
    found = compare(engine, noted)
    for three in tested:
        texts = [q.text for q in checked(three, engine)]
        assert sum(found[text][0][0] for text in texts) == fuzz.ROWS


def test_one_person_many_rows(session, tmp_path):
    """The same rows of each person count, and people are counted once, by every path."""
    visits = unit.rows()
    noted = [Noted(unit.table_of(visits), unit.schema(most)) for most in (1, 3, 1000)]
    kernel = sulq.Query(People(), where="exp(days) > 9", by=("ward", "urgent"))
    for one in noted:
        sums(one, *unit.QUESTIONS, kernel)
    for kind in (pa.uint64(), pa.float64(), pa.string()):
        noting_one = []
        make = lambda *args, made=noting_one: made.append(Noted(*args)) or made[-1]  # noqa: E731
        make.engine = "noted"
        unit.test_people_of_every_type(make, kind, tmp_path)
        (tmp_path / "rows.sulq").unlink()
        noted += noting_one
    for one in some(noted, 4):
        engine = spark_engine(session, one.rows_of, one.schema)
        compare(engine, one)
    for broken, why in ((unit.schema(key=False), "fixed by a key"), (unit.schema(), "repeated")):
        rows = unit.table_of([r | {"id": 7} for r in visits])
        with pytest.raises(sulq.SchemaError, match=why):
            spark_engine(session, rows, broken)


# --- what only Spark can do to a question ---------------------------------------------------

HOSTILE = {
    "spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.caseSensitive": "false", "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true", "spark.sql.groupByOrdinal": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false", "spark.sql.codegen.wholeStage":
    "false", "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    "spark.sql.optimizer.inSetConversionThreshold": "0", "spark.sql.retainGroupColumns": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "true", "spark.sql.legacy.timeParserPolicy":
    "LEGACY", "spark.sql.sources.useV1SourceList": "avro",
}  # fmt: skip
THEIRS = {"fs.sulq.key": "a credential", "spark.sql.catalog.lake": "a.catalog"}


def test_settings_and_functions_of_the_owners_session(session, monkeypatch):
    """Modes, time zones and functions of the same names change no integer; ours change nothing."""
    monkeypatch.setenv("SULQ_CANARY", "north")
    owner = session.newSession()
    for name, value in (HOSTILE | THEIRS).items():
        owner.conf.set(name, value)
    for name in ("abs", "md5", "rint"):
        owner.udf.register(name, lambda x: x, "string")
    odd = "${env:SULQ_CANARY}"
    rows = people().append_column(odd, pa.array([odd, "north", "\\n'", "A"] * 50))
    rows = rows.append_column("AGE", pa.array([1] * 200))
    moments = np.arange(200).astype("datetime64[h]") + np.timedelta64(50 * 365, "D")
    rows = rows.append_column("day", pa.array(moments.astype("datetime64[us]")).cast(
        pa.timestamp("us", "UTC")))  # fmt: skip
    schema = PEOPLE | {
        odd: {"values": ["north", odd, "\\n'", "a"]},
        "day": {"type": "date", "low": "2019-01-01", "high": "2021-01-01"},
    }  # fmt: skip
    quoted = f'"{odd}"'
    questions = [
        *QUESTIONS, sulq.Query(["abs(income - 500)", "age"]), sulq.Query(by=odd),
        sulq.Query(where=f"{quoted} = '{odd}'"), sulq.Query(where=f"{quoted} = 'north'"),
        sulq.Query(where=f"{quoted} in ('\\n''', 'a')"), sulq.Query(["dayofyear(day)"]),
    ]  # fmt: skip
    engine = spark_engine(owner, rows, schema)
    assert sums(engine, *questions) == sums(duckdb_engine(rows, schema), *questions)
    assert {n: owner.conf.get(n) for n in HOSTILE} == HOSTILE
    assert {n: engine._session.conf.get(n) for n in PINNED | THEIRS} == PINNED | THEIRS
    assert not [n for n in engine._session.conf.getAll if "legacy" in n]


def test_sums_beyond_64_bits(session):
    """Where so many rows could fill a BIGINT, sums are DECIMALs: the same integers, no limit."""
    noted = Noted(people(), PEOPLE)
    sums(noted, *QUESTIONS)
    engine = spark_engine(session, noted.rows_of, noted.schema)
    (value,) = checked([sulq.Query(["income"])], engine)[0].values
    reach = max(abs(value.low), abs(value.high))
    engine._writer.rows = LONGEST // reach
    assert "DECIMAL" not in engine._writer.value(value)
    engine._writer.rows += 1
    assert "DECIMAL" in engine._writer.value(value)
    engine._writer.rows = 10**30
    compare(engine, noted, engine.sums)
    two = "FROM VALUES (9223372036854775807L), (1L) AS rows(x)"
    wide = engine._ask(f"SELECT sum(CAST(x AS DECIMAL(28, 0))) {two}")
    assert wide == [(Decimal(2**63),)]
    assert engine._ask(f"SELECT sum(x) {two}") == [(-(2**63),)], "control: a BIGINT does wrap"


def test_a_predicate_that_is_one_column(session):
    """`FROM rows WHERE (c0)` would be rows under the name WHERE, and everybody would count."""
    table = pa.table({"b": [True, False, None, True, False]})
    engine = spark_engine(session, table, {"b": {"type": "boolean"}})
    assert sums(engine, sulq.Query(where="b")) == [[[2]]]
    assert sums(engine, *[sulq.Query(["1", "b"], where="b")] * 3) == [[[2, 2]]] * 3
    everybody = engine._session.sql("SELECT count(*) FROM sulq_rows WHERE (c0)").collect()
    assert everybody[0][0] == 5, "control: they do"


def test_brackets_are_read_as_they_come():
    """Spark's parser looks ahead to the end of every bare bracket, so there are none of them."""
    sql = (
        "SELECT ((c0 + 1) * 2), (c1 IN (1, 2)), sum(v0) FILTER (WHERE g0) FROM (SELECT (-(c0)) AS "
        "v0 FROM rows WHERE (c0) AND (c1)) AS named GROUP BY GROUPING SETS ((k0), ())"
    )
    assert called(sql) == (
        "SELECT coalesce(coalesce(c0 + 1) * 2), coalesce(c1 IN (1, 2)), sum(v0) FILTER (WHERE g0) "
        "FROM (SELECT coalesce(-coalesce(c0)) AS v0 FROM rows WHERE coalesce(c0) AND coalesce(c1)) "
        "AS named GROUP BY GROUPING SETS ((k0), ())"
    )


def test_several_ways_to_group_at_once(session):
    """Too many cells for one finer grouping: grouping sets, with the same integers."""
    noted = Noted(people(), PEOPLE)
    ways = [sulq.Bins("income", list(range(0, 1001, 10))), sulq.Blocks(3, 97), "region", None]
    sums(noted, *(sulq.Query(["1", "(age + 1) * 2"], by=by) for by in ways))
    engine = spark_engine(session, noted.rows_of, noted.schema)
    compare(engine, noted, engine.sums)


def test_dates_before_and_after_all_calendars(session):
    """A year of six digits is beyond what Python can hold; it counts as the nearest bound."""
    days = "DATE'2000-01-02', date_add(DATE'2000-01-01', 100000000), DATE'-0005-01-01', NULL"
    frame = session.sql(f"SELECT explode(array({days})) AS d")
    span = {"type": "date", "low": "2000-01-01", "high": "2001-01-01", "public": True}
    engine = SparkEngine(open_source(frame), Schema.load({"d": span}))
    queries = checked([sulq.Query(["year(d)", "day(d)"]), sulq.Query(by="month(d)"),
                       sulq.Query(by="d = date '2001-01-01'")], engine)  # fmt: skip
    found = engine.sums(queries)
    assert found == engine._by_kernel(queries)
    assert found[0] == [[6001, 4]]
    assert [sum(row) for row in found[2]] == [2, 1, 1]
    assert {str(r["d"]) for r in engine.groups(["d"]).to_pylist()} == {
        "2000-01-01", "2000-01-02", "2001-01-01", "None",
    }  # fmt: skip
    open_ended = SparkEngine(open_source(frame), Schema.load({"d": {"type": "date"}}))
    assert sums(open_ended, sulq.Query(["day(d)"], where="d is not null")) == [[[2]]]


def test_text_in_all_its_forms(session):
    """Collations, char(n); bytes that are no characters are missing."""
    frame = session.sql(
        "SELECT id, collate(t, 'UTF8_LCASE') AS t, CAST(t AS CHAR(6)) AS c, t AS p, "
        "decode_bad AS bad FROM (SELECT id, CASE id % 3 WHEN 0 THEN 'Ab' WHEN 1 THEN 'ab' END AS t,"
        " CAST(CASE id % 2 WHEN 0 THEN X'41ff42' ELSE X'414243' END AS STRING) AS decode_bad "
        "FROM range(12))"
    )
    text = {"type": "text"}
    schema = {"id": {"key": True}, "t": text, "c": text, "p": {"values": ["ab", "Ab"]}, "bad": text}
    engine = SparkEngine(open_source(frame), Schema.load(schema))
    values = ["t = 'ab'", "c like 'a%'", "length(bad)", "bad = 'ABC'", "bad like 'A_B'"]
    queries = checked([sulq.Query(values), sulq.Query(by="p"), sulq.Query(by="t = 'AB'")], engine)
    wanted = [[[4, 4, 18, 6, 0]], [[4], [4], [4]], [[8], [0], [4]]]
    assert engine.sums(queries) == engine._by_kernel(queries) == wanted


def test_a_pattern_does_not_search_for_ever(session):
    """Ten wildcards over ten thousand equal letters: Spark's own LIKE would try for years."""
    table = pa.table({"t": ["a" * 10_000, "a" * 50 + "b", "x.y*z\n", None]})
    engine = spark_engine(session, table, {"t": {"type": "text"}})
    many = "%" + "a%" * 10 + "b"
    values = [f"t like '{many}'", "t like 'x._*%'", "t like '%.y%\n'", "t like 'aa%'", "t like '%'"]
    queries = checked([sulq.Query(values)], engine)
    assert engine.sums(queries) == engine._by_kernel(queries) == [[[1, 1, 1, 2, 3]]]


def test_a_zero_with_a_sign_is_zero(session):
    """Also in a long list, which Spark looks up by bits."""
    table = pa.table({"x": [0.0, -0.0, 1.0, None]})
    listed = ", ".join(map(str, range(20)))
    schema = {"x": {"type": "number", "low": -1, "high": 20}}
    query = sulq.Query([f"x in ({listed}, 0.5)", "-x in (0.0, 0.5)", "1 / x is null"])
    engine = spark_engine(session, table, schema)
    category = spark_engine(session, table, {"x": {"values": list(range(20))}})
    assert sums(engine, query) == [[[3, 2, 3]]]
    assert sums(category, sulq.Query(by="x"))[0][:2] == [[2], [1]]


@pytest.mark.parametrize("made", [statistics.not_a_number, statistics.far_out])
def test_a_file_is_not_believed_about_its_own_rows(session, tmp_path, made):
    """The least and largest values in a footer drop no clamp and no row."""
    path = made(tmp_path / "x.parquet")
    engine = SparkEngine(open_source(path, engine="spark"), Schema.load(statistics.SCHEMA))
    wanted = sums(reference_engine(path, statistics.SCHEMA), *statistics.QUERIES)
    assert sums(engine, *statistics.QUERIES) == wanted


# --- the product over it --------------------------------------------------------------------


class Spy:
    """An engine that remembers every exact sum it gave."""

    def __init__(self, engine):
        self._engine, self.given = engine, []

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def sums(self, queries):
        self.given.append(self._engine.sums(queries))
        return self.given[-1]


def both(session, rows, schema, **settings):
    """The same rows in DuckDB and in Spark, without noise, and their sums on record."""
    found = []
    for source in (rows, spark.frame(session, rows, Schema.load(schema))):
        db = opened(source, schema, name="people", queries=100_000, **settings)
        db._pipeline.engine = Spy(db._pipeline.engine)
        found.append(db)
    return found


def test_statements_are_those_of_duckdb(session):
    """Every number of a SELECT, and every exact sum below it."""
    ours, theirs = both(session, people(), PEOPLE)
    ask_both(ours, theirs)
    assert ours._pipeline.engine.given == theirs._pipeline.engine.given


def test_learning_is_that_of_duckdb(session):
    """PCA, k-means and ID3 take the same steps, on the same exact sums, to the same places."""
    from sulq.learn import ID3, PCA, KMeans

    rng = np.random.default_rng(3)
    centres = rng.choice([0.2, 0.8], (600, 1))
    points = np.clip(centres + rng.normal(0, 0.1, (600, 3)), 0, 1)
    rows = pa.table({f"x{i}": points[:, i] for i in range(3)} | {
        "y": centres[:, 0] > 0.5, "z": rng.choice(["a", "b"], 600)})  # fmt: skip
    one = {"type": "number", "low": 0, "high": 1, "nullable": False}
    schema = {f"x{i}": one | {"bins": [0, 0.5, 1]} for i in range(3)} | {
        "y": {"type": "boolean", "nullable": False}, "z": {"values": ["a", "b"]}}  # fmt: skip
    names, found = ["x0", "x1", "x2"], []
    ours, theirs = both(session, rows, schema)
    for db in (ours, theirs):
        pca = PCA(n_components=2).fit(db, columns=names)
        means = KMeans(n_clusters=2, max_iter=2).fit(db, columns=names)
        tree = ID3(max_depth=2).fit(db, columns=["x0", "z"], label="y")
        view = db.project(pca)
        view._pipeline.noise = SilentNoise()
        found.append([str(x) for x in (
            pca.components_, pca.explained_variance_, means.cluster_centers_, tree,
            view.sum("pc1").value,
        )])  # fmt: skip
    assert found[0] == found[1]
    assert ours._pipeline.engine.given == theirs._pipeline.engine.given


def test_mining_across_databases_is_that_of_duckdb(session):
    """Blocks of shared keys: a hospital on Spark, an insurer on DuckDB, the same estimate."""
    from vertical.data import BOOLEAN, properties

    from sulq import vertical

    a, b = properties(4000)
    keys, declared = np.arange(4000), {"id": {"key": True}}
    hospitals = both(session, pa.table({"id": keys, "a": a}), declared | {"a": BOOLEAN})
    insurer = opened(pa.table({"id": keys, "b": b}), declared | {"b": BOOLEAN}, name="insurer")
    found = [vertical.implication(h, "a", insurer, "b", seed=1) for h in hospitals]
    assert str(found[0]) == str(found[1])
    ours, theirs = (h._pipeline.engine.given for h in hospitals)
    assert ours == theirs
    assert ours


def test_rows_are_counted_by_public_columns(session):
    """What is public costs nothing: the combinations that DuckDB finds, and no private column."""
    ours = spark_engine(session, public_rows(), PUBLIC)
    assert counted(ours) == counted(duckdb_engine(public_rows(), PUBLIC))
    with pytest.raises(sulq.QueryNotAllowed, match="'secret' is not public"):
        ours.groups(["secret"])


def test_the_auditor_decides_as_on_duckdb(session):
    """rule="classes": the same questions answered, with the same sums, and the same refused."""
    rows = audited_people(6000)
    frame = spark.frame(session, rows, Schema.load(AUDITED))
    found = [[outcome(db, q) for q in ASKED] for db in (audited(rows), audited(frame))]
    assert found[0] == found[1]
    assert found[0].count("refused") == 2


# --- workers that die, questions that fail --------------------------------------------------

# A frame computed on the workers, by a function of the test's own: it can wait, fail or say
# which executor it is on. What it gives does not depend on any of that.
PEOPLE_TYPES = "id LONG, age LONG, income DOUBLE, region STRING, smoker BOOLEAN"


class Worker:
    """Passes rows on; where a file says so, it notes its executor and waits, or fails."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, batches):
        import time

        first = True
        for batch in batches:
            own = batch.column(0)[0].as_py() == 0  # the task that has the first row
            if first and own and os.path.exists(f"{self.folder}/fail"):
                raise ValueError("row 0 is a secret")
            if first and os.path.exists(f"{self.folder}/wait"):
                self.note("first" if own else "other")
                while own and os.path.exists(f"{self.folder}/wait"):
                    time.sleep(0.01)
            first = False
            yield batch

    def note(self, which):
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        executor = daemon.rpartition(")")[2].split()[1]
        place = Path(self.folder)
        (place / f"{which}.new").write_text(executor)
        (place / f"{which}.new").rename(place / which)


def on_workers(session, folder):
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spread = spark.frame(session, people()).repartition(2, "id").sortWithinPartitions("id")
    return spread.mapInArrow(Worker(folder), PEOPLE_TYPES)


def wait_for(path):
    limit = threading.Event()
    for _ in range(6000):
        if path.exists():
            return int(path.read_text())
        limit.wait(0.01)
    raise AssertionError(f"{path.name} never came")


@pytest.mark.parametrize(
    ("who", "kind"), [pytest.param("first", "kernel", marks=in_soak), ("other", "sql")]
)
def test_an_executor_killed_during_a_question(session, tmp_path, who, kind):
    """Same integers, one charge: its task is run again, also one that was done already."""
    db = opened(on_workers(session, tmp_path), PEOPLE, ledger=tmp_path / "p.ledger")
    query = sulq.Query(["age", "income"] if kind == "sql" else ["exp(age / 120)"], by="region")
    wanted = opened(people(), PEOPLE).ask(query).values.tolist()
    db._pipeline.guard.check = lambda: None  # it would scan the rows of a computed frame first
    (tmp_path / "wait").touch()

    def kill():
        wait_for(tmp_path / "first")
        os.kill(wait_for(tmp_path / who), signal.SIGKILL)
        (tmp_path / "wait").unlink()

    killer = threading.Thread(target=kill)
    killer.start()
    answer = db.ask(query)
    killer.join()
    assert answer.values.tolist() == wanted
    assert len(db.history()) == 1
    assert db.budget.spent == db.price(query).queries


def test_a_failing_task_is_charged_and_not_described(session, tmp_path):
    """No sum and no word of the row; asking again is free."""
    db = opened(on_workers(session, tmp_path), PEOPLE, ledger=tmp_path / "p.ledger")
    db._pipeline.guard.check = lambda: None
    (tmp_path / "fail").touch()
    with pytest.raises(sulq.EngineFailed, match="The charge stands") as error:
        db.sum("age")
    assert error.value.__cause__ is None
    assert "secret" not in str(error.value)
    (tmp_path / "fail").unlink()
    assert float(db.sum("age")) == sum(people()["age"].to_pylist())
    assert len(db.history()) == 1


def test_a_question_can_be_interrupted(session, tmp_path):
    """A scan that somebody stops raises EngineFailed, and the next one works."""
    engine = SparkEngine(open_source(on_workers(session, tmp_path)), Schema.load(PEOPLE))
    (tmp_path / "wait").touch()
    stopped = threading.Event()

    def stop():
        wait_for(tmp_path / "first")
        engine.interrupt()
        stopped.wait(60)
        (tmp_path / "wait").unlink()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(sulq.EngineFailed):
        sums(engine, sulq.Query(["income"]))
    stopped.set()
    stopper.join()
    assert sums(engine, sulq.Query()) == [[[200]]]


# --- are the rows still the same? -----------------------------------------------------------


def database(source, folder, ledger="people.ledger", **settings):
    settings = {"epsilon": 1.0, "queries": 100, "ledger": folder / ledger} | settings
    db = sulq.open(source, PEOPLE, **settings)
    db._pipeline.noise = SilentNoise()
    return db


def test_files_are_one_table_to_every_engine(session, tmp_path):
    """One ledger, whoever reads the file; its rows in other files, or in a frame, are known."""
    path = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(people(), path)
    promise = {"epsilon": 1.0, "queries": 100}
    with sulq.open(path, PEOPLE, **promise) as db:
        db.count("smoker")
    for source in (path, session.read.parquet(str(path))):
        db = sulq.open(source, PEOPLE, engine="spark", **promise)
        db.count("age > 3", error=1000)
        assert (db.name, db.budget.spent > 1) == ("people", True)
    copied = session.read.parquet(str(path)).repartition(3)
    copied.write.parquet(str(tmp_path / "copied"))
    chosen = session.read.parquet(str(path)).select("smoker", "age", "id", "region", "income")
    for source in (tmp_path / "copied", copied, chosen):
        with pytest.raises(sulq.Refused, match=r"already have a ledger .* 'people.parquet.ledger'"):
            database(source, tmp_path, "other.ledger", engine="spark")


def test_changed_files_stop_the_database(session, tmp_path):
    """A file added to a folder, running and at the next start; a refresh goes on."""
    folder = tmp_path / "people"
    folder.mkdir()
    pyarrow.parquet.write_table(people(), folder / "a.parquet")
    db = database(folder, tmp_path, engine="spark")
    db.count("smoker")
    pyarrow.parquet.write_table(people(50, 2), folder / "b.parquet")
    with pytest.raises(sulq.SourceChanged, match="Nothing was charged"):
        db.count("age > 3")
    with pytest.raises(sulq.SourceChanged):
        database(folder, tmp_path, engine="spark")
    ledger = tmp_path / "people.ledger"
    with refresh(folder, ledger=ledger, engine="spark", reason="more rows") as new:
        assert (new.rows, new.budget.spent) == (250, 1)


def test_tables_views_and_sessions(session, tmp_path, monkeypatch):
    """By name, with or without the session; a view that changes is another table."""
    monkeypatch.chdir(tmp_path)
    session.sql("CREATE DATABASE db")
    rows = spark.frame(session, people())
    rows.write.saveAsTable("db.people")
    rows.where("age > 50").createOrReplaceTempView("old")
    promise = {"epsilon": 1.0, "queries": 100}
    with sulq.open(engine="spark", schema=PEOPLE, table="db.people", **promise) as db:
        db.count("smoker")
        assert (db.name, db.rows) == ("people", 200)
        assert Path("people.ledger").exists()
        session.sql("INSERT INTO db.people VALUES (999, 1, 1, 'north', true)")
        with pytest.raises(sulq.SourceChanged):
            db.count("age > 3")
    with sulq.open(session, PEOPLE, table="old", **promise) as db:
        db.count("smoker")
        assert db.rows == sum(a > 50 for a in people()["age"].to_pylist())
        assert Path("old.ledger").exists()
    rows.where("age > 60").createOrReplaceTempView("old")
    with pytest.raises(sulq.SourceChanged):
        sulq.open(session, PEOPLE, table="old", **promise)
    session.sql("DROP DATABASE db CASCADE")


def test_a_computed_frame_is_looked_at_again(session, tmp_path):
    """Nothing would tell of a change but its rows: these are hashed before each question."""
    pyarrow.parquet.write_table(people(), tmp_path / "p.parquet")
    frame = session.read.parquet(str(tmp_path / "p.parquet")).where("age >= 0").cache()
    frame.count()
    db = database(frame, tmp_path)
    db.count("smoker")
    assert frame.storageLevel.useMemory, "the owner's cache is left alone"
    frame.unpersist()
    pyarrow.parquet.write_table(people(seed=2), tmp_path / "p.parquet")
    session.catalog.refreshByPath(str(tmp_path / "p.parquet"))
    with pytest.raises(sulq.Refused, match="Nothing was charged"):
        db.count("age > 3")
    assert len(db.history()) == 1


def test_what_is_far_away_is_listed_by_spark(session, tmp_path):
    """Files of another system move the version as those of this machine do."""
    pyarrow.parquet.write_table(people(), tmp_path / "a.parquet")
    rows = find_rows(str(tmp_path), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sulq.sources.spark.local", lambda root: None)
        before = rows.listing()
        assert before == rows.listing()
        pyarrow.parquet.write_table(people(seed=2), tmp_path / "b.parquet")
        assert before != rows.listing()
        assert rows.path is None
    assert SparkRows(rows.frame, ("s3a://bucket/x",), whole=True).path is None


def test_a_function_that_lies_about_itself(session, tmp_path):
    """Other rows each time, though Spark was told otherwise: stopped before anything is paid."""
    from pyspark.sql.functions import udf

    count = itertools.count()
    drawn = udf(lambda x: int(random.SystemRandom().random() * 100) + 0 * next(count), "int")
    db = sulq.open(session.range(50).select(drawn("id").alias("age")), {"age": PEOPLE["age"]},
                   epsilon=1.0, queries=10, ledger=tmp_path / "a.ledger")  # fmt: skip
    with pytest.raises(sulq.SourceChanged, match="Nothing was charged"):
        db.count("age > 3")
    assert db.history() == []


def test_folders_by_column_and_names_with_signs(session, tmp_path):
    """A column that is only in the names of folders is like any other; no name is a pattern."""
    folder = tmp_path / "[a]{b},c*? d%20"
    regions = "CASE id % 3 WHEN 0 THEN 'no/rth' WHEN 1 THEN 'south' END AS region"
    rows = session.sql(f"SELECT CAST(id AS INT) AS age, {regions} FROM range(9)")
    rows.write.partitionBy("region").parquet(str(folder))
    (tmp_path / "[a]{b},c*? d%20 other").mkdir()
    schema = {"age": PEOPLE["age"], "region": {"values": ["no/rth", "south"], "public": True}}
    db = sulq.open(folder, schema, epsilon=1.0, queries=100, engine="spark")
    db._pipeline.noise = SilentNoise()
    assert db.histogram("region").to_arrow()["count"].to_pylist() == [3, 3, 3]
    assert float(db.sum("exp(age * 0)", where="region = 'south'")) == 3
    assert (tmp_path / f"{folder.name}.ledger").exists()


def test_a_session_that_was_stopped(session, tmp_path, monkeypatch):
    """It is said before anything is paid."""
    db = opened(spark.frame(session, people()), PEOPLE, ledger=tmp_path / "p.ledger")
    monkeypatch.setattr(session.sparkContext, "_jsc", None)  # as stop() leaves it
    with pytest.raises(sulq.Refused, match="Nothing was charged"):
        db.count("smoker")
    assert db.history() == []


REFUSED = {
    "SELECT rand() AS age": "other rows every time",
    "SELECT CAST((SELECT rand()) AS INT) AS age": "other rows every time",
    "SELECT id AS age FROM range(9) WHERE id IN (SELECT uuid())": "other rows every time",
    "SELECT 1 AS age, 2 AS age": "two columns of the frame have one name",
    "SELECT map('a', 1) AS age": "stores it as MAP",
    "SELECT 'x' AS age": "stores it as VARCHAR",
    "SELECT 1 AS Age": "names are matched exactly",
}


def test_frames_that_cannot_be_opened(session, tmp_path, monkeypatch):
    """Each says why; a frame needs a ledger; a session that loses rows is refused."""
    schema = {"age": PEOPLE["age"]}
    promise = {"epsilon": 1.0, "queries": 10, "ledger": tmp_path / "a.ledger"}
    for sql, why in REFUSED.items():
        with pytest.raises(sulq.SchemaError, match=why):
            sulq.open(session.sql(sql), schema, **promise)
    frame = session.sql("SELECT id AS age FROM range(9) WHERE id > 2")
    with pytest.raises(sulq.Refused, match="say where a Spark frame's spending is kept"):
        sulq.open(frame, schema, epsilon=1.0, queries=10)
    with pytest.raises(sulq.SchemaError, match="a stream has no fixed rows"):
        sulq.open(session.readStream.format("rate").load(), schema, **promise)
    for other in (frame.rdd, frame.age):
        with pytest.raises(sulq.SchemaError, match=rf"{type(other).__name__} is not known"):
            sulq.open(other, schema, **promise)
    (tmp_path / "x.csv").write_text("age\n1\nx\n")
    for how in ({"mode": "DROPMALFORMED"}, {"ignoreMissingFiles": "true"}):
        losing = session.read.options(**how).schema("age INT").csv(str(tmp_path / "x.csv"))
        with pytest.raises(sulq.SchemaError, match="rows would go missing"):
            sulq.open(losing.where("age > 0"), schema, **promise)
    with pytest.raises(sulq.SchemaError, match="read by 'spark'"):
        sulq.open(frame, schema, engine="duckdb", **promise)
    with pytest.raises(sulq.SchemaError, match="name the table"):
        sulq.open(engine="spark", schema=schema, **promise)
    with pytest.raises(sulq.SchemaError, match="cannot be opened by Spark"):
        sulq.open("/nowhere/at/all", schema, engine="spark", **promise)
    with pytest.raises(sulq.SchemaError, match="cannot be opened by Spark"):
        sulq.open(engine="spark", schema=schema, table="no.where", **promise)
    monkeypatch.setattr("sulq.__version__", "0.0")
    monkeypatch.setattr("sulq.engines.spark.engine._checked_workers", set())
    with pytest.raises(sulq.SchemaError, match=r"workers' Python does not have sulq 0\.0"):
        sulq.open(frame, schema, **promise)
    monkeypatch.undo()
    losing = session.newSession()
    losing.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    with pytest.raises(sulq.SchemaError, match="rows would go missing"):
        sulq.open(losing.sql("SELECT 1 AS age"), schema, **promise)
    assert not (tmp_path / "a.ledger").exists()


def test_the_page_about_it(session, tmp_path, monkeypatch):
    """Its example runs as it stands."""
    from system import test_docs

    monkeypatch.chdir(tmp_path)
    pyarrow.parquet.write_table(demo_data.people(1000), "people.parquet")
    Path("people.toml").write_text(demo_data.SCHEMA)
    test_docs.run_page(test_docs.read("docs/howto/spark.md"), "spark.md")


# --- without it -----------------------------------------------------------------------------

CHILD = """
import sys, sulq, numpy
db = sulq.open(numpy.zeros((3, 2)), epsilon=1.0, queries=9, ledger=sys.argv[1] + "/a.ledger")
db.count("x0 > 0.5")
assert not [m for m in sys.modules if m.split(".")[0] == "pyspark"], "loaded without need"
sys.modules["pyspark"] = None
try:
    sulq.open(engine="spark", table="t", schema={"x": {"type": "boolean"}}, epsilon=1.0, queries=9)
except sulq.MissingExtra as missing:
    print(missing)
"""


def test_without_java_the_tests_say_so(monkeypatch):
    """They are skipped with one line, and fail where everything must be there."""
    monkeypatch.setattr(spark, "here", lambda: False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install"):
        spark.need()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="apt-get install"):
        spark.need()


def test_pyspark_is_loaded_on_demand_and_named_when_missing(tmp_path):
    """import sulq does without it; engine="spark" says what to install."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)],
                          capture_output=True, text=True, cwd=tmp_path)  # fmt: skip
    assert done.stdout.strip() == "Spark needs: pip install 'sulq[spark]'", done.stderr


def test_every_operation_is_written():
    """What SQL may say on DuckDB it says on Spark: nothing falls to the kernel unnoticed."""
    from sulq.engines.writer import SPELLING
    from sulq.expressions.functions import KERNEL_ONLY
    from sulq.expressions.operations import OPERATIONS

    writer = SparkWriter(Schema.load({"x": {"type": "boolean"}}), {}, {}, 1)
    assert set(OPERATIONS) - set(SPELLING) == KERNEL_ONLY
    assert set(writer.spelling) == set(SPELLING)
    assert not math.isnan(writer.longest)


# --- learners ------------------------------------------------------------------------------


def test_every_learner_gets_the_same_integers(session):
    """All their questions at once, to the last digit."""
    queries, wanted = learners.noted()
    engine = spark_engine(session, learners.table(), {"columns": learners.COLUMNS}, few=True)
    for query, found, right in zip(queries, engine.sums(queries), wanted, strict=True):
        assert found == right, query.text


@pytest.mark.parametrize("remote", [False, True])
def test_files_that_a_log_decides_about_are_not_read_as_parquet(
    session, remote, tmp_path, monkeypatch
):
    """A folder with the log of another reader, or below one, by path and as a frame; a control."""
    below = tmp_path / "lake" / "year=2024"
    session.range(2).write.parquet(str(below))
    schema = {"columns": {"id": {"type": "integer", "low": 0, "high": 9}}}
    if remote:  # as if Spark's own file system had to be asked
        monkeypatch.setattr(sulq.sources.spark, "local", lambda root: None)
    else:
        assert find_rows(below, None).frame.count() == 2
    for log in ("_delta_log", "metadata/v1.metadata.json", ".hoodie"):
        (below.parent / log).mkdir(parents=True)
        # Delta's own folder is read by Delta's reader.
        for path in [below] if log == "_delta_log" else [below, below.parent]:
            with pytest.raises(sulq.SchemaError, match="log says which of them count"):
                find_rows(path, None)
        (below.parent / log).rmdir()
    (below.parent / ".hoodie").mkdir()
    with pytest.raises(sulq.SchemaError, match="log says which of them count"):
        sulq.open(session.read.parquet(str(below)), schema, epsilon=8.0, queries=8)

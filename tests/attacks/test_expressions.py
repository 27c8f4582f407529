"""Escapes from a row function, and twins: what the analyst writes never reaches anything else.

The corpus is tests/fixtures/escapes.txt. Canaries (a file, a table, a Python variable, an
environment variable) hold a word that must never be seen.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from helpers import opened
from soak import SOAK, some

import sulq
from sulq.expressions.parse import check_size, parse, syntax
from sulq.privacy.pricing import tariff_of
from sulq.values.schema import Schema

CANARY = "xyzzy7391"
canary_variable = pa.table({"secret": [CANARY]})
FIXTURES = Path(__file__).parents[1] / "fixtures"

SCHEMA = {
    "id": {"type": "integer", "key": True},
    "region": {"values": ["north", "south"], "public": True},
    "age": {"type": "integer", "low": 0, "high": 120},
    "income": {"type": "number", "low": 0, "high": 1000},
    "smoker": {"type": "boolean"},
    "born": {"type": "date", "low": "1900-01-01", "high": "2020-12-31"},
    "note": {"type": "text"},
}


def _corpus(folder="/nowhere"):
    names = {
        "file": f"{folder}/canary.txt",
        "table": "canary_table",
        "python": "canary_variable",
        "env": "CANARY_ENV",
    }
    for line in (FIXTURES / "escapes.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") or not line:
            continue
        for name, value in names.items():
            line = line.replace("{" + name + "}", value)
        yield _unescape(line)


def _unescape(line):
    for written, meant in (
        ("\\\\", "\x01"),
        ("\\n", "\n"),
        ("\\t", "\t"),
        ("\\0", "\0"),
        ("\x01", "\\"),
    ):
        line = line.replace(written, meant)
    return line


MADE = [
    "(" * 10_000 + "age" + ")" * 10_000,
    "(" * 60 + "age" + ")" * 60,
    "not " * 5000 + "smoker",
    "not " * 2400 + "smoker",
    "- " * 4000 + "age",
    "age" + " + age" * 1600,
    "smoker" + " or smoker" * 900,
    "case when smoker then " * 400 + "1",
    "sqrt(" * 45 + "age" + ")" * 45,
    "age in (" + ", ".join(map(str, range(100_000))) + ")",
    "age in (" + ", ".join(map(str, range(1900))) + ")",
    "'" + "x" * 9_000 + "' = note",
    "[" * 5000,
    "{" * 5000,
    "coalesce(" + "age, " * 1900 + "1)",
    "1" + "0" * 5000,
    "1." + "1" * 5000,
    "a" * 9_999,
    "\u202e" * 100,
    "\ud800",
]


class Spy:
    """Stands before an engine and notes whether it was asked."""

    def __init__(self, engine):
        self.engine, self.asked = engine, 0
        self.schema, self.rows = engine.schema, engine.rows

    def sums(self, queries):
        self.asked += 1
        return self.engine.sums(queries)

    def __getattr__(self, name):
        return getattr(self.engine, name)


def _people(count=20):
    return pa.table(
        {
            "id": range(count),
            "region": ["north", "south"] * (count // 2),
            "age": [i % 100 for i in range(count)],
            "income": [float(i) for i in range(count)],
            "smoker": [i % 3 == 0 for i in range(count)],
            "born": pa.array([f"19{50 + i % 40}-01-01" for i in range(count)]).cast(pa.date32()),
            "note": [f"{CANARY} {i}" for i in range(count)],
        }
    )


@pytest.fixture
def db(tmp_path, monkeypatch):
    """A database beside every canary, in a DuckDB file that also holds another table."""
    (tmp_path / "canary.txt").write_text(CANARY, encoding="utf-8")
    monkeypatch.setenv("CANARY_ENV", CANARY)
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", _people())
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
        connection.execute(f"CREATE TABLE canary_table AS SELECT '{CANARY}' AS secret")
    db = opened(path, SCHEMA, table="people", queries=10**6)
    db._pipeline.engine = Spy(db._pipeline.engine)
    return db


def outcome(call):
    """All that the caller can see of a call."""
    try:
        found = call()
    except sulq.SulqError as error:
        return f"{type(error).__name__}: {error}"
    if hasattr(found, "to_json"):
        return json.dumps(found.to_json(), default=str) + str(found) + repr(found)
    return repr(found)


def _ways(db, text):
    """Every place an analyst's text can go."""
    yield lambda: db.sum(text)
    yield lambda: db.mean(text)
    yield lambda: db.count(text)
    yield lambda: db.count(f"age > 3 and ({text})")
    yield lambda: db.histogram(text)
    yield lambda: db.histogram(text, bins=[0, 1])
    yield lambda: db.crosstab([text, "region"])
    yield lambda: db.ask(sulq.Query([text, "age"], by=text, where=text))
    yield lambda: db.count(rows=sulq.Rows.where(text))
    yield lambda: db.ask(sulq.Query(by=sulq.Bins(text, [0, 1])))
    yield lambda: db.ask(sulq.Query(by=sulq.Side([text], [1])))
    yield lambda: db.ask(sulq.Query(sulq.Sums([text])))
    yield lambda: db.ask(sulq.Query(by=sulq.Leaf({"column": text, "threshold": 1})))
    yield lambda: db.ask(sulq.Query(by=sulq.Leaf({"column": "note", "branches": [[text, None]]})))
    yield lambda: db.price(sulq.Query([text]))
    yield lambda: db.sql(text)
    yield lambda: db.sql(f"select count(*) from people where {text}")
    yield lambda: db.sql(f"select {text}, count(*) from people group by {text}")
    yield lambda: db.sql(f"select count(*) from {text}")


def test_escapes_are_refused_or_harmless(db, tmp_path):
    """Nothing but SulqError comes out, quickly, and no canary is ever seen."""
    harmless = 0
    for i, text in enumerate([*_corpus(tmp_path), *MADE]):
        ways = list(_ways(db, text))
        for way in ways if SOAK else ways[i % 3 :: 3]:  # a third of the ways for each text
            began = time.process_time()
            seen = outcome(way)
            assert CANARY not in seen, text[:100]
            assert time.process_time() - began < 5, text[:100]  # of work, whatever else runs
            harmless += not seen.startswith(("QueryNotAllowed", "Refused"))
    assert harmless > 20, "some of the corpus is plain arithmetic and must be answered"
    assert [c for c in db.history() if CANARY in str(c)] == []
    assert (tmp_path / "canary.txt").read_text(encoding="utf-8") == CANARY
    assert db._pipeline.engine.rows == 20
    assert db.count().value == 20


def test_the_canary_would_be_seen(db, monkeypatch):
    """Control: an engine that lets its own words through shows the canary."""
    monkeypatch.setattr(
        db._pipeline.engine.engine,
        "sums",
        lambda queries: db._pipeline.engine._connection.execute(
            "SELECT note::INT FROM source"
        ).fetchall(),
    )
    with pytest.raises(duckdb.Error, match=CANARY):
        db._pipeline.engine.engine.sums([])
    assert "EngineFailed" in outcome(lambda: db.count("age > 7"))
    assert CANARY not in outcome(lambda: db.count("smoker"))


def test_text_constants_are_only_text(db, tmp_path):
    """Each escape as a text constant is compared as it is, and matches exactly itself."""
    texts = [t for t in dict.fromkeys(_corpus(tmp_path)) if "\0" not in t and len(t) < 150]
    table = pa.table({"id": range(len(texts)), "note": texts})
    fresh = opened(table, {"id": {"key": True}, "note": {"type": "text"}}, queries=10**6)
    quoted = ["'" + t.replace("'", "''") + "'" for t in texts]
    queries = [sulq.Query(where=f"note = {q}") for q in quoted]
    assert [a.value for a in fresh.ask(queries)] == [1] * len(texts)
    assert fresh.count(f"note in ({', '.join(quoted[:80])})").value == 80


def test_names_are_only_names(tmp_path):
    """Each escape as the name of a column, a category, a table and a dataset."""
    texts = [t for t in dict.fromkeys(_corpus(tmp_path)) if t.isprintable() and t.strip()]
    texts = list({t.lower(): t for t in texts}.values())
    whole = {"type": "integer", "low": 0, "high": 9}
    table = pa.table({t: [1, 2] for t in texts})
    db = opened(table, {t: whole for t in texts}, queries=10**6)
    quoted = ['"' + t.replace('"', '""') + '"' for t in texts]
    assert all(a.values.tolist() == [[3.0]] for a in db.ask([sulq.Query([q]) for q in quoted]))
    category = opened(pa.table({"c": texts}), {"c": {"values": texts}})
    assert category.histogram("c")["count"] == [1] * len(texts) + [0]
    for text in some(texts[:40], 10):
        path = tmp_path / "names.duckdb"
        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as connection:
            connection.execute(
                f'CREATE TABLE "{text.replace(chr(34), chr(34) * 2)}" AS SELECT 1 AS a'
            )
        named = opened(path, {"a": whole}, table=text, name=text)
        assert named.sum("a").value == 1
        assert repr(named)
        named.close()


# --- refused before the engine, before the charge ------------------------------------------


@pytest.mark.parametrize("text", MADE, ids=lambda t: f"{t[:12]!a} {len(t)}")
def test_what_is_too_deep_or_long_never_reaches_the_engine(db, text):
    """Refused by size alone, with little work: nothing asked of the engine, nothing charged."""
    began = time.process_time()
    refused = 0
    for way in (lambda: db.sum(text), lambda: db.count(text)):
        before = (db._pipeline.engine.asked, db.budget.spent, len(db.history()))
        seen = outcome(way)
        if seen.startswith("QueryNotAllowed"):
            refused += 1
            assert (db._pipeline.engine.asked, db.budget.spent, len(db.history())) == before
    assert refused >= 1 or "1899" in text or text.startswith(("'", "coalesce"))
    assert time.process_time() - began < 5  # of work, whatever else runs


def test_the_spy_sees_what_is_asked(db):
    """Control: an allowed question does reach the engine and is charged."""
    db.count("age > 3")
    assert db._pipeline.engine.asked == 1
    assert db.budget.spent == 1


def test_random_nonsense_is_refused_in_words():
    """Tokens in any order: QueryNotAllowed or an expression, no other exception."""
    import random

    pick, schema = random.Random(7), Schema.load(SCHEMA)
    words = [w for line in itertools.islice(_corpus(), 400) for w in line.split()]
    for _ in range(4000):
        text = " ".join(pick.choice(words) for _ in range(pick.randint(1, 8)))
        with contextlib.suppress(sulq.QueryNotAllowed):
            parse(text, schema)


def test_no_part_of_the_syntax_is_silently_dropped():
    """What would change the meaning is read or refused: NOT LIKE, SYMMETRIC, digits of FLOOR."""
    schema = Schema.load(SCHEMA)
    assert parse("note not like 'x'", schema).op == "not"
    for text in ("age between symmetric 9 and 1", "floor(income, 2)", "round(income, 1, 1)"):
        with pytest.raises(sulq.QueryNotAllowed):
            parse(text, schema)
    assert syntax("floor(income, 2)").args["decimals"] is not None, "control: it was there"


def test_size_is_checked_before_the_parser(monkeypatch):
    """Ten thousand brackets never reach sqlglot."""
    import sqlglot

    monkeypatch.setattr(sqlglot, "parse", lambda *_, **__: pytest.fail("parsed"))
    for text in ("(" * 10_000, "x" * 10_001, "a\0b", "", "  ", None, 5):
        with pytest.raises(sulq.QueryNotAllowed):
            syntax(text)
    with pytest.raises(sulq.QueryNotAllowed):
        check_size("[" * 51 + "]" * 51)


# --- the locked connection -----------------------------------------------------------------

FORBIDDEN = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM canary_variable",
    "SELECT getenv('CANARY_ENV')",
    "SET memory_limit = '1MB'",
    "SET lock_configuration = false",
    "SET enable_external_access = true",
    "SET python_enable_replacements = true",
    "SET allowed_paths = ['/etc/passwd']",
    "RESET enable_external_access",
    "PRAGMA enable_external_access",
    "INSTALL httpfs",
    "LOAD httpfs",
    "ATTACH '{file}' AS other",
    "ATTACH '/tmp/other.duckdb' AS other",
    "COPY (SELECT 1) TO '/tmp/sulq_canary_copy.csv'",
    "COPY (SELECT 1) TO '{file}'",
    "EXPORT DATABASE '/tmp/sulq_canary_export'",
    "IMPORT DATABASE '/tmp'",
]


@pytest.mark.parametrize("kind", ["parquet", "csv", "duckdb", "arrow"])
def test_the_connection_is_locked(tmp_path, kind, monkeypatch):
    """No other file, no setting, no extension, no Python variable, even in plain SQL."""
    (tmp_path / "canary.txt").write_text(CANARY, encoding="utf-8")
    monkeypatch.setenv("CANARY_ENV", CANARY)
    source = _people()
    if kind == "parquet":
        source = tmp_path / "t.parquet"
        pyarrow.parquet.write_table(_people(), source)
    elif kind == "csv":
        source = tmp_path / "t.csv"
        source.write_text("id,region,age,income,smoker,born,note\n1,north,3,4,true,2000-01-01,x\n")
    elif kind == "duckdb":
        source = tmp_path / "t.duckdb"
        with duckdb.connect(str(source)) as connection:
            connection.register("frame", _people())
            connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    connection = opened(source, SCHEMA)._pipeline.engine._connection
    assert connection.execute("SELECT count(*) FROM source").fetchall()[0][0] > 0
    for statement in FORBIDDEN:
        with pytest.raises(duckdb.Error) as caught:
            connection.execute(statement.replace("{file}", str(tmp_path / "canary.txt"))).fetchall()
        assert CANARY not in str(caught.value)
    assert not Path("/tmp/sulq_canary_copy.csv").exists()
    if kind == "duckdb":
        with pytest.raises(duckdb.Error):
            connection.execute("INSERT INTO owner.t SELECT * FROM owner.t")


def test_an_unlocked_connection_would_read_files(tmp_path):
    """Control: the same statement succeeds on a plain connection."""
    (tmp_path / "canary.txt").write_text(CANARY, encoding="utf-8")
    path = str(tmp_path / "canary.txt")
    assert CANARY in str(
        duckdb.connect().execute(f"SELECT content FROM read_text('{path}')").fetchall()
    )


# --- twins ---------------------------------------------------------------------------------

HEADER = "id,region,age,income,smoker,born,note"
ROW = "7,north,41,500,true,1970-05-05,hello"
# The same row otherwise: its public part (id, region) and the number of rows stay.
OTHERS = {
    "another value": "7,north,42,1,false,1999-01-01,bye",
    "casts that fail": "7,north,forty,1e,maybe,yesterday,hello",
    "casts that fail for others": "7,north,0x10,0x,2,2020-02-31,hello",
    "an overflow": f"7,north,{10**30},1e400,true,99999-01-01,{'x' * 5000}",
    "nan": "7,north,nan,nan,nan,nan,nan",
    "infinity": "7,north,inf,inf,t,infinity,inf",
    "nothing": "7,north,,,,,",
    "too short": "7,north",
    "too long": "7,north,41,500,true,1970-05-05,hello,more,and,more",
    "quotes inside": '7,north,4"1,5""00,true,1970-05-05,he"llo',
    "quoted": '7,north,"41","500","true","1970-05-05","a, ""b""\nc"',
    "other delimiters": "7,north,4;1,5|00,true,1970\t05,a;b;c;d;e;f;g",
    "a comment": "7,north,#41,#,#,#,#comment",
    "blanks": "7,north, 41 , 500 , true , 1970-05-05 , ",
    "unicode": "7,north,４１,٥,ｔｒｕｅ,１９７０-05-05,\u202e\u200b",
    "a NUL": "7,north,4\x001,5\x00,true,1970-05-05,\x00",
}


def _csv(path, row, first):
    others = [
        f"{100 + i},{'south' if i % 2 else 'north'},{i},{i * 7},{i % 2 == 0},19{50 + i}-01-01,n{i}"
        for i in range(30)
    ]
    lines = [row, *others] if first else [*others, row]
    path.write_bytes("\n".join([HEADER, *lines, ""]).encode())
    return path


def _requests():
    columns = ["age", "income", "smoker", "born", "note", "region"]
    yield from (lambda db, c=c: db.count(f"{c} is null") for c in columns)
    yield from (lambda db, c=c: db.histogram(c) for c in columns)
    yield from (lambda db, c=c: db.sum(c) for c in columns)
    yield from (lambda db, c=c: db.mean(c, "smoker") for c in ("age", "income", "missing"))
    yield lambda db: db.crosstab(["region", "smoker"])
    yield lambda db: db.histogram("income", [0, 10, 500])
    yield lambda db: db.histogram("income", bins=3)
    yield lambda db: db.histogram("age", "x")
    yield lambda db: db.count("age / (income - 500) > 1")
    yield lambda db: db.sum("1 / age")
    yield lambda db: db.sum("least(greatest(1 / age, 0), 1)")
    yield lambda db: db.sum("least(greatest(ln(income), 0), 9)")
    yield lambda db: db.sum("exp(age / 100)")
    yield lambda db: db.count("note like '%hello%'")
    yield lambda db: db.sum("length(note)")
    yield lambda db: db.count("cast(note as integer) = 1")
    yield lambda db: db.count("year(born) = 1970")
    yield lambda db: db.count(rows=sulq.Rows.where("region = 'north'"))
    yield lambda db: db.count(rows=sulq.Rows.where("age > 3"))
    yield lambda db: db.mean("age", rows=sulq.Rows.where("region = 'nowhere'"))
    yield lambda db: db.count(rows=sulq.Rows.sample(1, 0.5))
    yield lambda db: db.ask(sulq.Query(rows=sulq.Rows.blocks(1, 4)))
    yield lambda db: db.ask(sulq.Query(["age", "income"], by=["region", "smoker"]))
    yield lambda db: db.ask(sulq.Query(sulq.Mean("income"), by="region"))
    yield lambda db: db.ask(sulq.Query(sulq.Sums(["age", "income"], row_norm=0.5)))
    yield lambda db: db.ask(sulq.Query(sulq.Products(["age", "income"])))
    yield lambda db: db.ask(sulq.Query(by=sulq.NearestCentre(["age", "income"], [(0, 0), (1, 1)])))
    yield lambda db: db.ask(sulq.Query(by=sulq.Side(["age"], [1], -0.3)))
    yield lambda db: db.ask(sulq.Query(by=sulq.Leaf({"column": "age", "threshold": 30})))
    yield lambda db: db.ask(
        [sulq.Query(["age"]), sulq.Query(by="age"), sulq.Query(["income"], by="smoker")]
    )
    yield lambda db: db.count(error=3)
    yield lambda db: db.count(error=1e-3)
    yield lambda db: db.ask(sulq.Query(["age"] * 400 + ["income"]))
    yield lambda db: db.price(sulq.Query(["age", "income"], by="region"))
    yield lambda db: db.count("select")
    yield lambda db: db.count("(" * 100)
    yield lambda db: db.ask("age")
    yield lambda db: db.ask(sulq.Query(by="income"))
    yield lambda db: db.sql("select region, count(*), avg(income) from people group by region")
    yield lambda db: db.sql("select age, count(*) from people group by age having count(*) > 3")
    yield lambda db: db.sql("select note from people")
    yield lambda db: db.columns
    yield lambda db: db.rows
    yield lambda db: db.budget
    yield lambda db: db.promise
    yield lambda db: db.budget_by_cell()
    yield lambda db: [(c.number, c.query, c.price, c.remaining) for c in db.history()]
    yield lambda db: db.verify()


class Flat(Spy):
    """Gives 0 for every sum and keeps the exact ones aside: what is left is what is not noisy.

    How many rows a public set has is no secret and passes.
    """

    def __init__(self, engine):
        super().__init__(engine)
        self.kept = []

    def sums(self, queries):
        found = super().sums(queries)
        self.kept += zip(queries, found, strict=True)
        return [
            m if self._public(q) else [[0] * len(r) for r in m]
            for q, m in zip(queries, found, strict=True)
        ]

    @staticmethod
    def _public(query):
        return (
            query.where is None
            and not query.axes
            and isinstance(query.values, tuple)
            and {v.node.op for v in query.values} == {"literal"}
        )


def _flatten(db):
    db._pipeline.engine = Flat(db._pipeline.engine)
    return db._pipeline.engine.kept


def moved(query, left, right):
    """How far the answer moved, squared, in the units the price is measured in."""
    total = 0.0
    for x, y in zip(left, right, strict=True):
        if query.mix is not None:
            x, y = (
                [sum(m * v for m, v in zip(line, row, strict=True)) for line in query.mix]
                for row in (x, y)
            )
        total += sum(
            float((a - b) / r.unit) ** 2 * float(r.weight2)
            for a, b, r in zip(x, y, query.releases, strict=True)
        )
    return total


def _seen(db):
    return [outcome(lambda r=r: r(db)) for r in _requests()]


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """What the first twin shows, with the differing row first and last."""
    found = {}
    for first in (True, False):
        path = _csv(tmp_path_factory.mktemp("usual") / "people.csv", ROW, first)
        db = opened(path, SCHEMA, queries=500)
        kept = _flatten(db)
        found[first] = (_seen(db), kept)
    return found


@pytest.mark.parametrize("first", [True, False], ids=["first row", "last row"])
@pytest.mark.parametrize("other", OTHERS)
def test_twins_show_the_same(usual, tmp_path, other, first):
    """All that is visible is byte-identical; below it, sums move by what was priced at most."""
    db = opened(_csv(tmp_path / "people.csv", OTHERS[other], first), SCHEMA, queries=500)
    kept = _flatten(db)
    seen, usually = _seen(db), usual[first]
    assert seen == usually[0]
    assert len(kept) == len(usually[1])
    for (query, left), (_, right) in zip(kept, usually[1], strict=True):
        if query.error is None:
            price = tariff_of(query, db.promise).price
            assert moved(query, left, right) <= float(price) * (1 + 1e-9), query.text


def test_twins_are_asked_much(usual):
    """Control of the control: enough requests, answered and refused, and sums that do differ."""
    seen, kept = usual[True]
    refused = [
        s for s in seen if s.startswith(("QueryNotAllowed", "BudgetExceeded", "EngineFailed"))
    ]
    assert len(seen) >= 60
    assert 10 <= len(refused) <= len(seen) - 30
    assert len(kept) > 25


def test_twins_would_be_told_apart(tmp_path, usual):
    """Control: one row more or less, or an engine that quotes a row, is noticed."""
    path = _csv(tmp_path / "people.csv", ROW + "\n" + ROW, True)
    db = opened(path, SCHEMA, queries=500)
    _flatten(db)
    assert _seen(db) != usual[True][0]


def test_a_quote_left_open_is_refused_at_the_start(tmp_path):
    """It would swallow the rows after it; the message names the line, not the text."""
    for row in (
        f'7,north,41,500,true,1970-05-05,"{CANARY}',
        f'7,north,"41"{CANARY},5,true,1970-05-05,x',
    ):
        path = _csv(tmp_path / "people.csv", row, True)
        with pytest.raises(sulq.SchemaError, match="line") as caught:
            opened(path, SCHEMA)
        assert CANARY not in str(caught.value)
    bad = tmp_path / "bytes.csv"
    bad.write_bytes(f"{HEADER}\n7,north,41,500,true,1970-05-05,{CANARY}\xff\n".encode("latin-1"))
    with pytest.raises(sulq.SchemaError, match="UTF-8") as caught:
        opened(bad, SCHEMA)
    assert CANARY not in str(caught.value)


def test_engine_errors_never_quote_rows(tmp_path, monkeypatch):
    """Whatever an engine says when it fails stays inside."""
    db = opened(_people(), SCHEMA)
    for error in (
        duckdb.Error(CANARY),
        ValueError(CANARY),
        pa.ArrowInvalid(CANARY),
        MemoryError(CANARY),
    ):

        def fail(queries, error=error):
            raise error

        monkeypatch.setattr(db._pipeline.engine, "sums", fail)
        with pytest.raises(sulq.EngineFailed) as caught:
            db.count(f"age > {len(db.history())}")
        assert CANARY not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        db.resume("looked at what failed")
    assert db.budget.spent == 4, "charged, and not refunded"


def test_a_file_that_breaks_later_fails_without_words(tmp_path):
    """A Parquet file damaged under the open database: no row in the message."""
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(_people(), path)
    db = opened(path, SCHEMA)
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + CANARY.encode() + whole[60:])
    seen = outcome(lambda: db.sum("income"))
    assert seen.startswith(("SourceChanged", "EngineFailed"))
    assert CANARY not in seen

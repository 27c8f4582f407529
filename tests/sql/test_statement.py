"""db.sql: what a statement costs and answers, against plain DuckDB and the reference engine.

With silent noise an answer is exact up to the grid: a number column is cut into about 2^30
steps of its range, so a mean is off by at most 2^-30 of the range, a variance by 2^-29 of its
square. Everything below allows 1e-6 of the value or of the scale of what it was made from.
"""

from __future__ import annotations

import datetime
import math
import random
import re
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from helpers import ENGINES, opened
from soak import some

import sulq
from sulq.cli import demo_data
from sulq.expressions.parse import parse
from sulq.values.schema import Schema

FIXTURES = Path(__file__).parents[1] / "fixtures"
DAY = datetime.date
SURE = {"nullable": False}

PEOPLE = {
    "id": {"type": "integer", "key": True},
    "region": {"values": ["north", "south", "east", "west"], "public": True},
    "smoker": {"type": "boolean"},
    "age": {"type": "integer", "low": 0, "high": 120} | SURE,
    "hours": {"type": "integer", "low": 0, "high": 80},
    "income": {"type": "number", "low": 0, "high": 1000},
    "score": {"type": "number", "low": -1, "high": 1} | SURE,
    "level": {"values": [3, 1, -2]},
    "born": {"type": "date", "low": DAY(1990, 1, 1), "high": DAY(2019, 12, 31)},
    "household size": {"type": "integer", "low": 1, "high": 8} | SURE,
    "select": {"type": "boolean"} | SURE,
    "note": {"type": "text"},
}
TYPES = {
    "id": pa.int64(), "region": pa.string(), "smoker": pa.bool_(), "age": pa.int64(),
    "hours": pa.int16(), "income": pa.float64(), "score": pa.float64(), "level": pa.int64(),
    "born": pa.date32(), "household size": pa.int8(), "select": pa.bool_(), "note": pa.string(),
}  # fmt: skip
VISITS = {
    "columns": {
        "person": {"type": "integer"},
        "ward": {"values": ["a", "b"], "public": True},
        "urgent": {"type": "boolean"},
        "days": {"type": "integer", "low": 0, "high": 30} | SURE,
    },
    "unit": {"column": "person", "max_rows": 3},
}


def people(count=400, seed=5):
    """Rows inside the declared bounds, one value in eight missing; nobody lives in the west."""
    pick = random.Random(seed)

    def maybe(value):
        return None if pick.random() < 1 / 8 else value

    rows = [
        {
            "id": i,
            "region": maybe(pick.choice(["north", "south", "south", "east"])),
            "smoker": maybe(pick.random() < 0.3),
            "age": pick.choice([0, 17, 18, 64, 65, 120, *(pick.randint(0, 120) for _ in range(9))]),
            "hours": maybe(pick.randint(0, 80)),
            "income": maybe(pick.choice([0.0, 1000.0, pick.uniform(0, 1000), pick.uniform(0, 99)])),
            "score": pick.uniform(-1, 1),
            "level": maybe(pick.choice([3, 1, 1])),
            "born": maybe(DAY(1990, 1, 1) + datetime.timedelta(days=pick.randrange(10957))),
            "household size": pick.choice([1, 2, 2, 3, 8]),
            "select": pick.random() < 0.5,
            "note": maybe(pick.choice(["x", "Ünï", "a'b", ""])),
        }
        for i in range(count)
    ]
    return pa.table({n: pa.array([r[n] for r in rows], kind) for n, kind in TYPES.items()})


def visits():
    return pa.table(
        {
            "person": [1, 1, 1, 2, 2, None, 3],
            "ward": ["a", "a", "b", "b", "b", "a", None],
            "urgent": [True, False, True, None, True, True, False],
            "days": [1, 2, 3, 4, 5, 6, 7],
        }
    )


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def databases(table):
    """Both tables, without noise, with a budget that no test here ends."""
    return {
        "people": opened(table, PEOPLE, name="people", queries=10**6),
        "visits": opened(visits(), VISITS, name="visits", queries=10**6),
    }


@pytest.fixture(scope="module")
def db(databases):
    return databases["people"]


@pytest.fixture(scope="module")
def plain(table):
    """Plain DuckDB over the same rows."""
    connection = duckdb.connect()
    connection.register("people", table)
    connection.execute(
        "create macro width_bucket(x, low, high, n) as case when x is null then null when x < low "
        "then 0 when x >= high then n + 1 else floor((x - low) / (high - low) * n)::int + 1 end"
    )
    return connection


# --- the corpus ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A statement of statements.sql and what is expected of it."""

    sql: str
    expected: tuple[tuple[str, str], ...]

    @property
    def table(self):
        return "visits" if re.search(r"\bfrom visits\b", self.sql) else "people"

    def __str__(self):
        return self.sql[:60]


def corpus():
    """Each statement with the expectations right below it."""
    cases, statement = [], []
    for line in (FIXTURES / "statements.sql").read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(r"-- (price|columns|refused): (.*)", line)
        if found and not statement:
            cases[-1] = Case(cases[-1].sql, (*cases[-1].expected, (found[1], found[2])))
        elif statement or (line and not line.startswith("--")):
            statement.append(line)
            if line.rstrip().endswith(";"):
                cases.append(Case("\n".join(statement).rstrip()[:-1], ()))
                statement = []
    assert not statement
    return cases


CASES = corpus()
SUPPORTED = [c for c in CASES if c.expected[0][0] == "price"]
REFUSED = [c for c in CASES if c.expected[0][0] == "refused"]


def test_the_corpus_is_a_corpus():
    """Every statement has an expectation, and there are enough of both kinds."""
    assert all(c.expected for c in CASES)
    assert len(CASES) == len(SUPPORTED) + len(REFUSED)
    assert len(SUPPORTED) >= 70
    assert len(REFUSED) >= 70
    assert len({c.sql for c in CASES}) == len(CASES)


@pytest.mark.parametrize("case", SUPPORTED, ids=str)
def test_a_statement_has_its_price(databases, case):
    """The price stands beside the statement, exactly; asking charges it once, as one entry."""
    db = databases[case.table]
    expected = dict(case.expected)
    wanted = Fraction(expected["price"])
    assert db.price(case.sql).queries == wanted
    before, spent = len(db.history()), db.budget.spent
    table = db.sql(case.sql)
    assert table.price.queries == wanted
    grown = len(db.history()) - before
    assert grown in (0, 1)  # another spelling of the same question was asked before
    assert not (grown and wanted == 0)  # what is public is free, and no charge
    if grown:
        assert db.history()[-1].price == wanted * 10**6
        assert db.budget.spent - spent in (0, wanted)  # 0: others have spent more
    if "columns" in expected:
        names = [n for n in table.columns if n.removesuffix("_low") == n.removesuffix("_high")]
        assert ", ".join(names) == expected["columns"]
    again = db.sql(case.sql)
    assert repr(again.columns) == repr(table.columns)
    assert len(db.history()) == before + grown
    assert isinstance(str(table), str)
    table.to_arrow()


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_statement_is_refused_with_a_reason(databases, case):
    """A refusal says why and what is nearest; nothing is charged, also by db.price."""
    db = databases[case.table]
    before = len(db.history())
    for ask in (db.price, db.sql):
        with pytest.raises(sulq.QueryNotAllowed) as refusal:
            ask(case.sql)
        assert dict(case.expected)["refused"] in str(refusal.value)
    assert len(db.history()) == before


def test_deep_and_long_statements_are_refused(db):
    """Whatever the depth, the refusal comes before anything is paid, and is ours."""
    before = len(db.history())
    for text in (
        "select " + " + ".join(["count(*)"] * 1500) + " from people",
        "select count(*) from people where " + " or ".join(["age = 1"] * 1800),
        "select " + "case when true then " * 400 + "1" + " end" * 400 + " from people",
        "select count(*) from " + "(select * from " * 60 + "people" + ")" * 60,
        "select count(*) from people where " + "not " * 200 + "smoker",
        "select count(*) from people where " + "-" * 9000 + "age > 1",
        "select count(*) from people where note = '" + "x" * 30_000 + "'",
        "select count(*) \x00 from people",
        "",
        "   ",
        ";",
        "--",
    ):
        with pytest.raises(sulq.QueryNotAllowed):
            db.sql(text)
    with pytest.raises(sulq.QueryNotAllowed):
        db.sql(None)
    assert len(db.history()) == before


def test_the_price_table_of_the_docs_is_exact():
    """Each statement of docs/howto/sql.md has the price that stands beside it."""
    page = (FIXTURES.parents[1] / "docs/howto/sql.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `(select .*?)` \| ([\d.]+) \|$", page, re.MULTILINE)
    assert len(lines) >= 15
    demo = sulq.rehearsal(Schema.load(tomllib.loads(demo_data.SCHEMA)), rows=10, name="people")
    for sql, price in lines:
        assert demo.price(sql).queries == Fraction(price), sql


# --- silent noise: plain DuckDB's answer --------------------------------------------------

NUMBERS = [
    "age", "hours", "income", "score", '"household size"', "age + hours", "income * 2 - age",
    "age * score", "abs(score)", "coalesce(hours, 0)", "least(age, 65)", "greatest(hours, 20)",
    "income / \"household size\"", "case when smoker then income else 0 end", "age % 7",
    "case when age >= 18 then income end", "sqrt(income)", "score * score",
    "cast(smoker as integer)", "cast(\"select\" as integer)", "floor(income / 100)",
    "year(born) - 1990", "hours - 40",
    "least(greatest(hours / nullif(age - 60, 0), -3), 3)", "cast(age >= 65 as integer)",
    "nullif(hours, 40)", "-income",
]  # fmt: skip
TESTS = [
    "smoker", '"select"', "age > 40", "age between 18 and 64", "income < 100", "hours is null",
    "region = 'north'", "region in ('south', 'west')", "level = 1", "born >= '2000-01-01'",
    "note = 'x'", "not smoker", "income > age * 5", "level is not null", "score < 0",
    "month(born) = 2", "region <> 'south'", "smoker is null", "note like '%b'", "age % 2 = 1",
    "region = 'west'", "true", "length(note) > 1",
]  # fmt: skip
KEYS = [
    "region", "smoker", '"select"', "level", '"household size"', "age >= 18", "age",
    "floor(age / 10) * 10", "width_bucket(age, 0, 120, 6)", "width_bucket(income, 0, 1000, 4)",
    "date_trunc('year', born)", "year(born)", "extract(month from born)", "age % 5 - 2",
    "case when age < 18 then 'minor' when age < 65 then 'adult' else 'old' end", "smoker is null",
    "floor(income / 100)", "hours > 40", "coalesce(level, 0)", "date_trunc('quarter', born)",
]  # fmt: skip


@dataclass(frozen=True)
class Formula:
    """An output as db.sql and as plain DuckDB are asked for it, and how far apart they may be."""

    ours: str
    theirs: str
    apart: float

    def within(self, form, other, apart):
        parts = {"a": self.ours, "b": other.ours}, {"a": self.theirs, "b": other.theirs}
        return Formula(*(form.format(**p) for p in parts), apart)


class Maker:
    """Draws statements from the supported grammar."""

    def __init__(self, seed, schema, rows):
        self.pick = random.Random(seed)
        self.schema = schema
        self.rows = rows

    def test(self):
        kind = self.pick.random()
        a, b = (self.pick.choice(TESTS) for _ in range(2))
        if kind < 0.6:
            return a
        return f"({a}) {'and' if kind < 0.8 else 'or'} ({b})" if kind < 0.95 else f"not ({a})"

    def number(self):
        if self.pick.random() < 0.8:
            return self.pick.choice(NUMBERS)
        return f"case when {self.test()} then {self.pick.choice(NUMBERS)} end"

    def range(self, x):
        node = parse(x, self.schema)
        return max(abs(node.low), abs(node.high), node.high - node.low)

    def count(self):
        return self.pick.choice(["count(*)", f"count({self.number()})", f"count_if({self.test()})"])

    def aggregate(self):
        """One aggregate. SUM and COUNT_IF of no rows are NULL in DuckDB and 0 here."""
        kind = self.pick.choice(["count", "count", "sum", "avg", "mean", "var", "std", "covar"])
        x, y = self.number(), self.number()
        s = self.range(x)
        made, apart = {
            "count": (self.count(), 0.0),
            "sum": (f"sum({x})", s * self.rows / STEPS),
            "avg": (f"avg({x})", s / STEPS),
            "mean": (f"mean({x})", s / STEPS),
            "var": (
                f"{self.pick.choice(['var_pop', 'var_samp', 'variance'])}({x})",
                s**2 / SQUARES,
            ),
            "std": (
                f"{self.pick.choice(['stddev', 'stddev_pop', 'stddev_samp'])}({x})",
                s / math.sqrt(SQUARES),
            ),
            "covar": (
                f"{self.pick.choice(['covar_pop', 'covar_samp'])}({x}, {y})",
                s * self.range(y) / SQUARES,
            ),
        }[kind]
        if self.pick.random() < 0.25:
            made += f" filter (where {self.test()})"
        zero = made.startswith(("sum", "count_if"))
        return Formula(made, f"coalesce({made}, 0)" if zero else made, apart)

    def output(self):
        a, b = self.aggregate(), self.aggregate()
        per = self.count()
        one = Formula(per, f"coalesce({per}, 0)", 0.0)
        together = max(a.apart, b.apart)
        return self.pick.choice([
            a, a, a,
            a.within("{a} + {b}", b, a.apart + b.apart),
            a.within("{a} - 2 * {b}", b, a.apart + 2 * b.apart),
            a.within("100.0 * {a}", b, 100 * a.apart),
            a.within("coalesce({a}, 0)", b, a.apart),
            a.within("{a} / nullif({b}, 0)", one, a.apart),
            a.within("case when count(*) > 20 then {a} else {b} end", b, together),
            a.within("abs({a})", b, a.apart),
            a.within("least({a}, {b})", b, together),
            a.within("greatest({a}, {b}, 3)", b, together),
            a.within("cast({a} as double)", b, a.apart),
            a.within("-({a})", b, a.apart),
            a.within("if(count(*) >= 30, {a}, 0)", b, a.apart),
        ])  # fmt: skip

    def statement(self):
        """The statement for both, its number of keys (k0, k1) and its outputs (v0, ...)."""
        keys = self.pick.sample(KEYS, self.pick.choice([0, 1, 1, 1, 2]))
        outputs = [self.output() for _ in range(self.pick.randint(1, 3))]
        where = f" where {self.test()}" if self.pick.random() < 0.5 else ""
        source, before, form = "people", "", self.pick.random()
        if form < 0.15:
            source = f"(select * from people where {self.test()}) as t"
        elif form < 0.3:
            source, before = "kept", f"with kept as (select * from people where {self.test()}) "
        by = ", ".join(self.pick.choice([k, f"k{i}", str(i + 1)]) for i, k in enumerate(keys))
        by = f" group by {by}" if keys else ""
        texts = []
        for side in ("ours", "theirs"):
            listed = [f"{k} as k{i}" for i, k in enumerate(keys)]
            listed += [f"{getattr(o, side)} as v{i}" for i, o in enumerate(outputs)]
            texts.append(f"{before}select {', '.join(listed)} from {source}{where}{by}")
        return texts, len(keys), outputs


STEPS, SQUARES = 2.0**29, 2.0**27  # of a range, and of a product of two


def shown(key):
    """A key of DuckDB's as a Table shows it."""
    if key is None:
        return "(other)"
    if isinstance(key, datetime.datetime):
        return key.date()
    return int(key) if isinstance(key, float) else key


def cells_of(plain, sql, keys):
    """DuckDB's numbers by group."""
    return {
        tuple(shown(k) for k in row[:keys]): [None if x is None else float(x) for x in row[keys:]]
        for row in plain.execute(sql).fetchall()
    }


def agree(ours, theirs, apart):
    """Equal up to the grid; what is NULL there is NaN here."""
    if theirs is None or math.isnan(theirs):
        return math.isnan(ours)
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=apart + 1e-9)


def compare(db, plain, texts, keys, outputs):
    """The Table of a statement beside DuckDB's rows, cell by cell."""
    table, theirs = db.sql(texts[0]), cells_of(plain, texts[1], keys)
    found = {}
    for row in table:
        cell = tuple(row[f"k{i}"] for i in range(keys))
        assert cell not in found, f"{texts[0]}: {cell} twice"
        found[cell] = [row[f"v{i}"] for i in range(len(outputs))]
    missing = theirs.keys() - found.keys()
    assert not missing, f"{texts[0]}: no group {missing}"
    for cell, values in found.items():
        for i, (ours, o) in enumerate(zip(values, outputs, strict=True)):
            if cell not in theirs:  # nobody is in it
                assert math.isnan(ours) or ours in (0, 3), texts[0]
                continue
            their = theirs[cell][i]
            assert agree(ours, their, o.apart), f"{texts[0]}\n{o} in {cell}: {ours}, not {their}"


class Recorder:
    """An engine that keeps the integers it gave."""

    def __init__(self, engine):
        self.engine = engine
        self.schema, self.rows = engine.schema, engine.rows

    def sums(self, queries):
        self.asked, self.given = queries, self.engine.sums(queries)
        return self.given


STATEMENTS = 504


@pytest.mark.parametrize("seed", some(range(12), 4))
@pytest.mark.usefixtures("every_number")
def test_random_statements_equal_duckdb(table, plain, seed):
    """168 statements from a generator (504 in soak): DuckDB's numbers in every group, and equal
    integers from both engines. Groups that DuckDB leaves out are there, as 0 or NaN."""
    db = opened(table, PEOPLE, name="people", queries=10**6)
    db._pipeline.engine = Recorder(db._pipeline.engine)
    reference = ENGINES["reference"](table, PEOPLE)
    make = Maker(seed, db.schema, len(table))
    for _ in range(STATEMENTS // 12):
        texts, keys, outputs = make.statement()
        db._pipeline.engine.asked = None
        compare(db, plain, texts, keys, outputs)
        if db._pipeline.engine.asked is not None:  # None: the same question, asked before
            assert reference.sums(db._pipeline.engine.asked) == db._pipeline.engine.given, texts[0]


def test_a_wrong_answer_would_be_seen(db, plain):
    """The comparison has teeth: another WHERE, another group, a lost one are noticed."""
    good = "select region as k0, count(*) as v0 from people group by region"
    outputs = [Formula("", "", 0.0)]
    compare(db, plain, [good, good], 1, outputs)
    for other in (
        good.replace("people ", "people where age > 3 "),
        good.replace("region", "smoker"),
    ):
        with pytest.raises(AssertionError):
            compare(db, plain, [good, other], 1, outputs)
    with pytest.raises(AssertionError):
        compare(db, plain, [f"{good} limit 1", good], 1, outputs)


@pytest.mark.usefixtures("every_number")
def test_correlations_equal_duckdb(db, plain):
    """CORR and regressions, where there is anything to correlate."""
    outputs = (
        "corr(age, income) as v0, corr(hours, score) as v1, "
        "covar_pop(hours, age) / var_pop(age) as v2, regr_slope(income, age) as v3, "
        "regr_intercept(income, age) as v4, "
        "regr_slope(score, hours) filter (where age > 40) as v5"
    )
    for by in ("region", "smoker", '"select"', "1 > 0"):
        sql = f"select {by} as k0, {outputs} from people group by 1"
        theirs = cells_of(plain, sql, 1)
        for row in db.sql(sql):
            wanted = theirs.get((row["k0"],), [None] * 6)
            for i in range(6):
                assert agree(row[f"v{i}"], wanted[i], 1e-6), (sql, row, i)


@pytest.mark.usefixtures("every_number")
def test_truth_counts_as_one(db, plain):
    """AVG and SUM of a Boolean are a share and a count; DuckDB wants a cast for that."""
    ours = db.sql(
        "select 100.0 * avg(smoker) as v0, sum(smoker) as v1, avg(age > 40) as v2 from people"
    )
    (theirs,) = plain.execute(
        "select 100.0 * avg(smoker::int), sum(smoker::int), avg((age > 40)::int) from people"
    ).fetchall()
    for i, x in enumerate(theirs):
        assert agree(ours[f"v{i}"][0], float(x), 1e-9)


SHARES = (0.01, 0.25, 0.5, 0.9)


@pytest.mark.parametrize("x", ["age", "income", "score", '"household size"', "age * 10", "hours"])
@pytest.mark.parametrize("by", ["1 > 0", "region", "smoker"])
@pytest.mark.usefixtures("every_number")
def test_quantiles_equal_duckdb(db, plain, x, by):
    """MEDIAN and PERCENTILE_CONT lie between DuckDB's neighbouring values, to one fine cell."""
    parts = [
        f"percentile_cont({p}) within group (order by {x}) as v{i}" for i, p in enumerate(SHARES)
    ]
    table = db.sql(
        f"select {by} as k0, {', '.join(parts)}, median({x}) as v4 from people group by 1"
    )
    node = parse(x, db.schema)
    cell = (node.high - node.low + 1) / 256
    cell = math.ceil(cell) if node.type == "integer" else cell
    for row in table:
        label = "is null" if row["k0"] == "(other)" else f"= {row['k0']!r}"
        where = f"{x} is not null and ({by}) {label}"
        (n,) = plain.execute(f"select count({x}) from people where {where}").fetchone()
        for i, share in enumerate((*SHARES, 0.5)):
            if n == 0:
                assert math.isnan(row[f"v{i}"])
                continue
            ends = (max(share - 1 / n, 0), min(share + 1 / n, 1))
            low, high = plain.execute(
                f"select quantile_disc({x}, {ends[0]}), quantile_disc({x}, {ends[1]}) from people "
                f"where {where}"
            ).fetchone()
            assert low - cell <= row[f"v{i}"] <= high + cell, (x, by, row, share)


# --- HAVING, ORDER BY, LIMIT --------------------------------------------------------------

ORDERED = [
    "select region, count(*) as n from people where region is not null group by region having "
    "count(*) > 0 order by n desc",
    "select level, avg(age) as a from people group by level having count(*) > 0 order by a desc",
    'select "household size" as h, count(*) as n from people group by h having n > 60 order by 1 '
    "desc",
    "select smoker, count(*) as n from people group by smoker order by smoker",
    "select smoker, count(*) as n from people group by smoker order by smoker desc",
    "select smoker, count(*) as n from people group by smoker order by smoker desc nulls first",
    "select smoker, count(*) as n from people group by smoker order by smoker nulls first limit 2",
    "select region, avg(income) as a from people group by region having count(*) between 20 and "
    "130 and not (region = 'south') order by avg(income) + 1 limit 2",
    "select year(born) as y, count(*) as n from people group by y having n >= 15 order by n "
    "desc, y",
    "select age % 3 as k, sum(hours) as s from people group by k order by -sum(hours), k limit 2",
    "select age >= 65 as old, count(*) as n from people group by old having old order by n",
    "select age >= 65 as old, count(*) as n from people group by old having old is not true",
    "select region, count(*) as n from people group by region having region in ('north', 'south') "
    "or region is null order by region",
    "select count(*) as n, region from people group by region having n > 0 order by 2 desc limit 3",
    "select region, count(*) as n from people group by region having n > 0 order by n limit 0",
    "select region, smoker, count(*) as n from people group by all having n > 9 order by region "
    "desc, smoker, n",
]  # fmt: skip


@pytest.mark.parametrize("sql", ORDERED)
@pytest.mark.usefixtures("every_number")
def test_having_order_and_limit_equal_duckdb(db, plain, sql):
    """On the same exact values the same rows come in the same order."""
    theirs = plain.execute(sql).fetchall()
    table = db.sql(sql)
    names = [n for n in table.columns if not n.endswith(("_low", "_high"))]
    found = [tuple(row[n] for n in names) for row in table]
    assert len(found) == len(theirs)
    for ours, wanted in zip(found, theirs, strict=True):
        for a, b in zip(ours, wanted, strict=True):
            if isinstance(a, float):
                assert agree(a, None if b is None else float(b), 1e-5)
            else:
                assert a == shown(b)


def test_unknown_is_not_true(db):
    """A comparison with nothing is unknown, also under NOT: empty groups are not kept by it."""
    asked = "select region, avg(age) as a from people group by region having "
    assert "west" not in db.sql(asked + "avg(age) > 1")["region"]
    assert "west" not in db.sql(asked + "not avg(age) > 1")["region"]
    assert "west" not in db.sql(asked + "avg(age) <> 1")["region"]
    assert db.sql(asked + "avg(age) is null")["region"] == ["west"]
    assert "west" in db.sql(asked + "avg(age) > 1 or true")["region"]
    assert "west" not in db.sql(asked + "coalesce(avg(age), 0) > 0")["region"]


# --- groups -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        ("region", ["north", "south", "east", "west", "(other)"]),
        ("smoker", [False, True, "(other)"]),
        ('"select"', [False, True]),
        ("level", [3, 1, -2, "(other)"]),
        ('"household size"', [*range(1, 9)]),
        ("floor(age / 50) * 50", [0, 50, 100]),
        ("width_bucket(hours, 0, 80, 2)", [1, 2, 3, "(other)"]),
        ("date_trunc('year', born)", [*(DAY(y, 1, 1) for y in range(1990, 2020)), "(other)"]),
        ("case when age < 18 then 'a' when age > 200 then 'never' else 'b' end", ["a", "b"]),
    ],
)
def test_every_declared_group_appears(db, by, labels):
    """Empty groups too, and one '(other)' where something may be missing or undeclared."""
    assert db.sql(f"select {by} as k, count(*) as n from people group by k")["k"] == labels
    nobody = db.sql(f"select {by} as k, count(*) as n from people where age > 120 group by k")
    assert nobody["k"] == labels
    assert set(nobody["n"]) == {0.0}


def test_subtotals_add_up(db):
    """Groups of one result, and crosstabs, sum to their totals: with noise as well."""
    loud = opened(people(), PEOPLE, name="people", quiet=False, queries=100, epsilon=20.0)
    for database in (db, loud):
        table = database.sql(
            "select region, smoker, count(*) as n, sum(age) as a from people group by all"
        )
        crossed = database.crosstab(["region", "smoker"])
        for numbers in (table["n"], table["a"], crossed["count"]):
            rows = np.array(numbers).reshape(5, 3)
            assert math.isclose(rows.sum(axis=0).sum(), rows.sum(axis=1).sum(), rel_tol=1e-9)
    one = loud.sql("select count(*) as n, sum(age) as s, avg(age) as a from people")
    assert math.isclose(one["s"][0] / one["n"][0], one["a"][0], rel_tol=1e-6)  # one count for all


def test_a_group_too_small_for_the_noise_is_marked(table):
    """It is there, with its interval, and named in the note; so is what is divided by noise."""
    db = opened(table, PEOPLE, name="people", queries=100, epsilon=8.0)
    marked = "too few rows for the noise"
    assert db.sql("select region, avg(age) from people group by region").note == f"{marked}: west"
    note = db.sql("select region, median(age) from people group by region").note
    assert note == f"{marked}: west; (other)"
    assert db.sql("select avg(age) from people").note == ""
    assert db.sql("select avg(age) from people where age > 120").note == marked
    assert db.sql("select sum(age) / sum(score) as r from people").note == marked
    assert db.sql("select sum(age) / count(*) as r from people").note == ""
    assert db.sql("select region, count(*) from people group by region").note == ""


# --- one statement, one charge ------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from people where smoker",
        "select region, count(*), avg(income), median(age), median(income) from people group by 1",
        "select median(age), MEDIAN(AGE) as b, percentile_cont(0.5) within group (order by age) "
        "as c from people",
        "select count(*), COUNT(*) as m, avg(age + hours) as a, avg(hours + age) as b from people",
    ],
)
def test_a_statement_is_one_charge(table, sql):
    """One entry, one price, known before; the same statement again is free and the same."""
    db = opened(table, PEOPLE, name="people", quiet=False)
    price = db.price(sql)
    first = db.sql(sql)
    assert [c.price for c in db.history()] == [price.micro]
    assert first.price.micro == price.micro
    assert db.budget.spent == price.queries
    spelled = "  " + sql.replace("select", "SELECT").replace("from people", "FROM  people /* x */")
    assert repr(db.sql(spelled).columns) == repr(first.columns)
    assert len(db.history()) == 1


def test_the_same_in_other_words_costs_once(db):
    """Repeated and differently spelled aggregates ask for no second sum."""
    for text in (
        "median(age), MEDIAN(AGE) as b",
        'median(age), percentile_cont(0.9) within group (order by "age") as b',
        "median(age) filter (where smoker and age > 3), median(age) filter (where age > 3 and "
        "smoker) as b",
    ):
        assert db.price(f"select {text} from people").queries == 1
    assert db.price("select avg(age + hours) as a, avg(hours + age) as b from people").queries == 1
    assert db.price("select sum(age), sum(AGE) as b, sum((age)) as c from people").queries == 1


def test_too_little_budget_charges_nothing(table):
    """A statement is paid whole or not at all, its quantiles included."""
    db = opened(table, PEOPLE, name="people", queries=1)
    with pytest.raises(sulq.BudgetExceeded):
        db.sql("select sum(age), median(age) from people")
    assert db.history() == []
    db.sql("select median(age) from people")
    assert db.budget.remaining == 0


def test_price_reads_no_rows(table):
    """db.price(sql) is known from the schema: an engine that gives nothing is enough."""
    db = opened(table, PEOPLE, name="people")
    db._pipeline.engine = None
    assert db.price("select region, count(*), avg(income) from people group by region").queries


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "stitched", "binomial"])
@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
@pytest.mark.usefixtures("every_number")
def test_every_kind_of_noise_answers_sql(table, noise, guarantee):
    """Exact under silent noise with each promise; binomial noise counts only."""
    db = opened(table, PEOPLE, name="people", noise=noise, guarantee=guarantee, queries=100)
    counted = db.sql("select smoker, count(*) as n, count_if(age > 40) as o from people group by 1")
    smoker = table.column("smoker").to_pylist()
    assert counted["n"] == [smoker.count(False), smoker.count(True), smoker.count(None)]
    if noise == "binomial":
        with pytest.raises(sulq.QueryNotAllowed, match="binomial noise is for counts"):
            db.sql("select avg(age) from people")
        return
    ages = table.column("age").to_pylist()
    old = [a for a in ages if a > 40]
    found = db.sql(
        "select avg(age) as a, sum(age) as s, var_pop(age) as v, corr(age, age * 2) as c, count(*) "
        "as n from people where age > 40"
    )
    wanted = {"a": np.mean(old), "s": sum(old), "v": np.var(old), "c": 1.0, "n": len(old)}
    for name, x in wanted.items():
        assert math.isclose(found[name][0], x, rel_tol=1e-6), name


# --- batches ------------------------------------------------------------------------------


def ranges(count, seed, high=120):
    pick = random.Random(seed)
    for _ in range(count):
        low, top = sorted(pick.sample(range(high + 2), 2))
        yield low, top


def between(low, top):
    return sulq.Query(where=f"age >= {low} and age < {top}")


BATCHES = {
    "ranges": [f"age >= {a} and age < {b}" for a, b in ranges(30, 1)],
    "aligned": ["age < 8", "age < 16", "age < 32", "age < 64", "age >= 64"] * 2
    + ["age < 8 or age > 90"],
    "points": [f"age = {k}" for k in range(50)],
    "two columns": [f"age < {k} and smoker" for k in range(10, 90, 4)] + ["smoker is null"],
    "Booleans": ["smoker", "not smoker", "smoker is null", "smoker is not null", "smoker or true"],
    "categories": [f"level = {k} or region in ('east') and age < 0" for k in (3, 1, -2)]
    + ["level is null", "level = 1"],
    "never": ["age < 0", "age > 120", "age > 121", "age > 122"],
    "wide": [f"born < '{y}-01-01'" for y in range(1991, 2019)],
    "missing": [f"hours > {k}" for k in range(0, 80, 5)] + ["hours is null"],
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_exact_and_never_dearer(db, table, name):
    """Shared or not, the counts are the same, for at most the price of each by itself."""
    queries = [sulq.Query(where=w) for w in BATCHES[name]]
    together, apart = db.ask(queries), db.ask(queries, share=False)
    alone = sum(db.price(q).micro for q in {q.where: q for q in queries}.values())
    assert db.price(queries).micro <= alone
    for a, b in zip(together, apart, strict=True):
        assert math.isclose(a.value, b.value, abs_tol=1e-6)
    if together[0].note:
        assert "counts of" in together[0].note or "asked together" in together[0].note
        assert "in all" in together[0].note


def test_shared_counts_agree_with_each_other(table):
    """With noise: disjoint ranges add up, their union is their sum, in one batch."""
    db = opened(table, PEOPLE, name="people", quiet=False, queries=10**4)
    pairs = [(0, 30, 70), (10, 11, 121), (5, 64, 65), (1, 60, 121)]
    queries = [between(*p) for a, b, c in pairs for p in ((a, b), (b, c), (a, c))]
    queries += [between(a, b) for a, b in ranges(40, 3)]
    found = [a.value for a in db.ask(queries)]
    assert db.price(queries).queries < len(queries)
    for i in range(len(pairs)):
        a, b, both = found[3 * i : 3 * i + 3]
        assert math.isclose(a + b, both, abs_tol=1e-6)


def test_a_batch_with_named_errors_is_asked_as_it_is(db):
    """Each count names the error it wants; share=False keeps the rest apart too."""
    queries = [sulq.Query(where=f"age < {k}", error=50) for k in range(20, 60, 5)]
    assert all(a.note == "" for a in db.ask(queries))
    assert all(a.note == "" for a in db.ask([between(0, k) for k in range(20, 60)], share=False))

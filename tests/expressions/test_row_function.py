"""@sulq.row: what Python says of a row is what every engine says of it."""

from __future__ import annotations

import datetime
import math
import random
import re

import pyarrow as pa
import pytest
from expressions.row_programs import KINDS, ROWS, SCHEMA, Program, rows, table
from helpers import ENGINES, opened, sums
from soak import times

import sulq
from sulq.errors import QueryNotAllowed
from sulq.expressions import python_calls, python_expressions
from sulq.questions.check import check
from sulq.values.schema import Schema

HEAD = "import math\nimport re\nimport datetime\nWEIGHTS = (2, 4, 9)\n"
LIMITS = (18, 30, 45, 65)
BATCH = 25


def programs(first, count):
    """Functions that are short enough and not the same for all rows, and their Python."""
    declared = Schema.load(SCHEMA)
    for seed in range(first, first + count):
        source = HEAD + Program(random.Random(seed), "f").text()
        try:
            (function,) = sulq.row_functions(source).values()
            check(sulq.Query([function]), declared, "gaussian", "beliefs")
        except QueryNotAllowed:
            continue
        space = {}
        exec(compile(source, "f", "exec"), space)
        yield function, space["f"]


def by_hand(function):
    """What Python says of each row."""
    return [function(**{k: v for k, v in r.items() if k != "row"}) for r in rows()]


def differing(engine, found):
    """The functions of which an engine says something else than Python on some row."""
    asked = [sulq.Query([text], by="row") for text, _ in found]
    pairs = zip(found, sums(engine, *asked), strict=True)
    return [text for (text, plain), told in pairs if [x for (x,) in told] != by_hand(plain)]


@pytest.mark.parametrize("name", ENGINES)
def test_random_functions_are_what_python_says(name):
    """Every row of every function, on every engine: the same whole numbers."""
    engine, total = ENGINES[name](table(), SCHEMA), times(50, 3_200)
    seen = 0
    for first in range(0, total, BATCH):
        found = list(programs(first, BATCH))
        assert differing(engine, found) == []
        seen += len(found)
    assert seen >= 0.9 * total


def test_a_slip_in_the_language_is_seen(monkeypatch):
    """Control: with SQL's sign of % instead of Python's, the comparison above fails."""
    wrong = {
        **python_expressions.OPERATORS,
        python_expressions.ast.Mod: (lambda a, b: a % b, lambda a, b: python_calls.both(
            a, "%", b, python_calls.PRODUCT)),
    }  # fmt: skip
    monkeypatch.setattr(python_expressions, "OPERATORS", wrong)
    assert differing(ENGINES["reference"](table(), SCHEMA), list(programs(0, BATCH)))


# ---- how it is used ------------------------------------------------------------------------


@sulq.row
def risk(age, bmi=30):
    """A docstring is not read."""
    if age > 65 or bmi > 35:
        return 1
    return 0.5 if bmi > 30 else 0


@sulq.row
def bracket(age):
    found = 0
    for limit in LIMITS:
        if age >= limit:
            found += 1
    return found


@sulq.row
def heavy(bmi):
    return bmi > 30


@pytest.fixture
def db():
    return opened(table(), SCHEMA, epsilon=1.0, queries=100)


def test_it_is_its_expression():
    """A row function is the text of its expression, for other names too."""
    assert risk == "case when age > 65 or 30 > 35 then 1 when 30 > 30 then 0.5 else 0 end"
    assert bracket.count("case") == len(LIMITS)
    assert risk("years", "weight") == (
        "case when years > 65 or weight > 35 then 1 when weight > 30 then 0.5 else 0 end"
    )
    assert risk("least(age, 90)", bmi=20).startswith("case when (least(age, 90)) > 65 or 20 > 35")
    assert risk.function(70) == 1
    assert repr(bracket).startswith("<row function bracket(age): case")


def test_it_stands_where_an_expression_can(db):
    """In values, predicates, groups, SQL, and prices."""
    ages = [r["age"] for r in rows()]
    brackets = [sum(a >= limit for limit in LIMITS) for a in ages]
    assert db.sum(bracket).value == pytest.approx(sum(brackets))
    assert db.count(heavy).value == sum(r["bmi"] > 30 for r in rows())
    text = "select sum(bracket(age)) as b, sum(risk(age, bmi)) as r from frame where heavy(bmi)"
    found = db.sql(text, define=[bracket, risk, heavy])
    both = [(b, r) for b, r in zip(brackets, rows(), strict=True) if r["bmi"] > 30]
    assert found.to_arrow().to_pylist()[0]["b"] == pytest.approx(sum(b for b, _ in both))
    assert db.price(text, define=[bracket, risk, heavy]).micro > 0
    assert db.sum(bracket).value == db.sum(str(bracket)).value  # the same question


def test_functions_call_each_other():
    """A called function is written out in the caller."""

    @sulq.row
    def twice(age):
        return risk(age, bmi=40) + bracket(age)

    assert "case when age > 65 or 40 > 35" in twice


def test_calls_are_written_out_in_sql():
    """sulq.expand replaces calls, and nothing within texts."""
    text = "select avg(heavy(least(bmi, 3))), 'heavy(x)', heavy(heavy(1)) from t"
    assert sulq.expand(text, heavy) == (
        "select avg(((least(bmi, 3)) > 30)), 'heavy(x)', (((1 > 30)) > 30) from t"
    )
    assert sulq.expand("heavy", heavy) == "bmi > 30"
    assert sulq.expand("select heavy from t", heavy) == "select heavy from t"  # a column
    with pytest.raises(QueryNotAllowed, match="does not take"):
        sulq.expand("heavy(1, 2)", heavy)
    with pytest.raises(QueryNotAllowed, match="wants age too"):
        sulq.expand("bracket()", bracket)


def test_edges_mean_what_python_means(db):
    """Rounding to even, towards zero, the sign of %, chained comparisons, dicts."""

    @sulq.row
    def mixed(steps, region, born):
        table = {"north": 3, "south": 5}
        near = round(steps / 4) + int(steps / 3) + steps % -7 + steps // 8
        if region is None:
            return None
        return max(-500, min(500, near + table.get(region, 0))) if 0 < born.month <= 12 else 0

    def plain(r):
        return mixed.function(r["steps"], r["region"], r["born"])

    expected = sum(plain(r) for r in rows() if plain(r) is not None)
    assert db.sum(mixed).value == pytest.approx(expected)


def test_texts_and_dates_are_cut_as_python_cuts_them():
    """Slices, parts of a text, patterns, the first day of a month, full days between moments."""

    @sulq.row
    def code(word, born, seen, gone):
        found = re.search("^[a-z]+-", word)
        if found is None:
            return 1 if word[0] == "A" or word[1:3] == "ab" else 2
        if word.split("-")[1] == "1" and not re.fullmatch("[a-z-]+", word):
            return (gone - seen).days
        return (gone - seen).total_seconds() + (born - born.replace(day=1)).days

    assert "not regexp_matches(word, '^[a-z]+-')" in code
    assert "substr(word, 1, 1) = 'A' or substr(word, 2, 2) = 'ab'" in code
    assert "split_part(word, '-', 2) = '1' and not regexp_matches(word, '^([a-z-]+)$')" in code
    assert "date_diff('full_day', seen, gone)" in code
    assert "date_diff('second', seen, gone)" in code
    assert "date_diff('full_day', date_trunc('month', born), born)" in code


def test_a_match_that_was_not_sought_is_none():
    """None and a match may meet in an if; a match and a number may not."""
    text = "def f(word, age):\n    m = None\n    if age > 3:\n        m = re.match('a', word)\n"
    (found,) = sulq.row_functions(f"import re\n{text}    return m is None").values()
    assert found == "not case when age > 3 then regexp_matches(word, '^(a)') else false end"
    with pytest.raises(QueryNotAllowed, match="'m' has no one value"):
        sulq.row_functions(f"import re\n{text.replace('None', '7')}    return m is None")


CUTS = """import re
def a(word): return len(word[2:5]) + len(word.split('-')[1])
def b(word): return 1 if re.search('^a.*-[0-9]$', word) is not None else 0
def c(born): return (born - born.replace(month=1, day=1)).days
def d(seen, gone): return (gone - seen).days
def e(seen, gone): return (gone - seen).total_seconds()
def f(seen, age): return seen.hour + 10 // age + seen.minute % age
def g(seen): return (seen.date() - seen.replace(day=1)).days
"""
ODD = [
    {"word": "", "born": datetime.date(1, 1, 1), "seen": datetime.datetime(1, 1, 1), "age": 0},
    {"word": "-" * 500, "gone": datetime.datetime(9999, 12, 31, 23, 59, 59), "age": -7},
    {"word": "\u65e5\u672c" * 3000, "gone": datetime.datetime(1677, 1, 1), "born": None},
    {"word": None, "seen": None, "born": datetime.date(9999, 12, 31), "age": None},
]


@pytest.mark.parametrize("name", ENGINES)
def test_one_odd_row_moves_a_sum_by_its_range_at_most(name):
    """Twins that differ in one row, of values that no row should have: no scan fails."""
    declared, plain = Schema.load(SCHEMA), table()
    asked = [sulq.Query([f]) for f in sulq.row_functions(CUTS).values()]
    values = [check(q, declared, "gaussian", "beliefs").values[0] for q in asked]
    most = [(v.node.high - v.node.low) * 2**v.scale for v in values]
    first, *told = [
        [cell[0][0] for cell in sums(ENGINES[name](twin, SCHEMA), *asked)]
        for twin in (plain, *(with_row(plain, odd) for odd in ODD))
    ]
    for found in told:
        assert all(abs(a - b) <= m for a, b, m in zip(first, found, most, strict=True))
    assert len({tuple(found) for found in told}) == len(told)  # they do differ


def with_row(plain, odd):
    """The table with other values in its first row."""
    for column, value in odd.items():
        cells = pa.array([value, *plain[column].to_pylist()[1:]], KINDS[column])
        plain = plain.set_column(plain.column_names.index(column), column, cells)
    return plain


# ---- what is refused -----------------------------------------------------------------------

REFUSED = {
    "def f(a):\n    while a > 0:\n        a -= 1": "line 2, column 5: `while` may never end",
    "def f(a):\n    return b": "line 2, column 12: 'b' is no argument",
    "def f(a):\n    if a > 1:\n        x = 1\n    return x": "line 4, column 12: 'x' has no one",
    "def f(a):\n    return open('x')": "'open' is no argument",
    "def f(a):\n    return a.strip()": "the method 'strip' is not known",
    "def f(a):\n    return 2 ** 100": "the power is too large|up to 2\\*\\*53",
    "def f(a):\n    for i in range(9 ** 9):\n        a += i\n    return a": "more than 1,000 steps",
    "def f(a): return a in range(10 ** 9)": "ranges have more than 1,000 steps",
    "def f(a): return a + sum(range(10 ** 9))": "ranges have more than 1,000 steps",
    "def f(a): return max(range(10 ** 15))": "ranges have more than 1,000 steps",
    f"def f(a):\n    a, b = range({10**30})\n    return a": "too large",
    "def f(a):\n    for i in a:\n        pass": "a loop runs over range",
    "def f(a):\n    for i in range(40):\n        a = a * a\n    return a": "more than 10,000 char",
    "def f(*a): return 1": "name each argument",
    "def f(a): return (a, 1)": "one value here, not several",
    "def f(a): return a & 1": "want one of",
    "def f(a): return lambda x: x": "define it outside",
    "def f(a): raise ValueError": "a row function cannot fail",
    "def f(a):\n    a, b = 1\n    return a": "wants 2 values",
    "def f(a): return math.log10(a)": r"Write math.log\(x\) / math.log\(10\)",
    "def f(a): return a[-2:]": "for the end of a text there is endswith",
    "def f(a, b): return a[b]": "constant places from the first on",
    "def f(a): return a.split()[0]": "split takes a constant text",
    "def f(a): return a.split('-')": "one value here, not several",
    "def f(a): return a.split('-')[-1]": "from the first on",
    "import re\ndef f(a): return re.search(a, 'x')": "a constant pattern and then a text",
    "import re\ndef f(a): return re.search('x', a, 2)": "Flags are not read",
    "import re\ndef f(a): return re.sub('x', a, 'b')": "'sub' is not known here",
    "def f(a): return a.replace(day=2)": "Of replace, these are read",
    "def f(a): return a.days": "asked of a difference",
    "import datetime\ndef f(a): return a + datetime.timedelta(7)": "Compare \\(d - e\\).days",
    "def f(a): return f'{a}'": "compared, not built",
    "def f(a, b): return a.startswith(b)": "takes a constant text",
    "def f(a): return float('inf')": "not a number|allowed",
    "import os\ndef f(a): return 1": "of other modules",
    "def f(a, b): return a == '\\x001\\x00'": "a text with a NUL",
    "x = __import__('os')": "'__import__' is no argument",
    "@cached\ndef f(a): return a": "the one decorator",
    "x = 3": "there is no function",
    "def f(a) return a": "line 1, column",
    "def f(a): return " + "(" * 60 + "a" + ")" * 60: "nested",
    "def f(a): return " + "-" * 3000 + "a": "nested|too many",
    "def f(a): return max(" + ", ".join(["a"] * 9000) + ")": "characters",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_is_not_in_the_language_is_refused(source):
    """With line and column, and what to write instead."""
    with pytest.raises(QueryNotAllowed, match=REFUSED[source]):
        sulq.row_functions(source)


def test_texts_are_read_and_never_run(tmp_path):
    """A definition that would write a file when run writes none."""
    path = tmp_path / "written"
    hostile = f"def f(a, b=open({str(path)!r}, 'w')): return a"
    with pytest.raises(QueryNotAllowed):
        sulq.row_functions(hostile)
    assert not path.exists()


def test_a_text_that_grows_is_stopped_soon():
    """Functions that double each other, names that hold long terms, and nested loops."""
    lines = ["def f0(a): return a + a"]
    lines += [f"def f{i}(a): return f{i - 1}(a) + f{i - 1}(a)" for i in range(1, 40)]
    with pytest.raises(QueryNotAllowed, match="characters"):
        sulq.row_functions("\n".join(lines))
    body = "\n".join(f"        x{i} = a * {i}" for i in range(500))
    nested = f"def f(a):\n    for i in range(900):\n{body}\n    return x1"
    with pytest.raises(QueryNotAllowed, match="too many steps, more than 100,000"):
        sulq.row_functions(nested)


def test_a_long_sum_says_how_long_it_may_be(db):
    """A hundred operations within one another; parts of their own go further."""
    loop = "def f(age):\n    n = 0\n    for i in range({}):\n        n += age\n    return n"
    (long,) = sulq.row_functions(loop.format(101)).values()
    with pytest.raises(QueryNotAllowed, match="more than 100 operations within one another"):
        db.price(sulq.Query([long]))
    (short,) = sulq.row_functions(loop.format(60)).values()
    both = f"({short('age')}) + ({short('age + steps')})"
    assert db.sum(both).value == sum(120 * r["age"] + 60 * r["steps"] for r in rows())


def test_a_function_without_source_says_what_to_do():
    """A function that cannot be read is refused."""
    space = {}
    exec("def f(a): return a", space)
    with pytest.raises(QueryNotAllowed, match="Define it in a file or a notebook"):
        sulq.row(space["f"])
    with pytest.raises(QueryNotAllowed, match="takes a function"):
        sulq.row("age")


def test_lines_are_those_of_the_file():
    """A refusal names the line that its author sees."""

    def wrong(age):
        while age:
            age = 0

    line = wrong.__code__.co_firstlineno + 1
    with pytest.raises(QueryNotAllowed, match=f"wrong, line {line}, column"):
        sulq.row(wrong)


def test_constants_come_from_around_the_function():
    """Numbers and dates of the enclosing scope are written in."""
    cut, when = 40, datetime.date(2000, 1, 1)

    @sulq.row
    def old(age, born):
        return age > cut or born < when or age > math.pi

    assert old == "age > 40 or born < date '2000-01-01' or age > 3.141592653589793"
    assert len(rows()) == ROWS

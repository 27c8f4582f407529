"""Every function that sqlglot or the allow-list knows, with every wrong number of arguments.

What an analyst writes is answered, priced or refused in words; it never trips the parser, the
writer or our own reading into an error of Python's own.
"""

from __future__ import annotations

import itertools
import logging
import random
from datetime import date

import pyarrow as pa
import pytest
import sqlglot
from helpers import opened
from sqlglot.parser import Parser

import sulq
from sulq.expressions.functions import FUNCTIONS

SCHEMA = {
    "id": {"key": True},
    "region": {"values": ["north", "south"], "public": True},
    "s": {"type": "boolean"},
    "age": {"type": "integer", "low": 0, "high": 100},
    "x": {"type": "number", "low": 0, "high": 1},
    "born": {"type": "date", "low": "1900-01-01", "high": "2020-12-31"},
    "note": {"type": "text"},
}
ROWS = {
    "id": [1, 2], "region": ["north", "south"], "s": [True, False], "age": [1, 2], "x": [0.1, 0.2],
    "born": [date(1950, 1, 1), date(1960, 1, 1)], "note": ["a", "b"],
}  # fmt: skip
ARGUMENTS = (
    "x", "age", "s", "region", "note", "born", "nothing", "1", "-1", "1e400", "'a'", "null", "*",
    "distinct x", "(1, 2)", "[1]", "{'a': 1}", "interval '1' day", "x order by x", "x := 1",
    "x as y", "y -> y", "region || 'a'", "x is null", "count(*)", "(select 1)", "date '2020-01-01'",
)  # fmt: skip
FORMS = (
    "select {} from people",
    "select sum({}) from people",
    "select count(*) from people where {}",
    "select region, count(*) from people group by region having {}",
    "select {}, count(*) from people group by 1",
    "select count(*) as n from people order by {}",
)
NAMES = sorted(
    {n.upper() for n in FUNCTIONS}
    | set(Parser.FUNCTIONS)
    | set(Parser.FUNCTION_PARSERS)
    | {n for d in sqlglot.Dialect.classes.values() for n in d.parser_class.FUNCTIONS}
)


@pytest.fixture(scope="module")
def db():
    logging.disable(logging.CRITICAL)
    yield opened(pa.table(ROWS), SCHEMA, queries=100, name="people")
    logging.disable(logging.NOTSET)


def tripped(db, name, seed):
    """The texts with this function that end neither in a price nor in a refusal."""
    choose, out = random.Random(f"{name} {seed}"), []
    for number in range(5):
        inside = ", ".join(choose.choice(ARGUMENTS) for _ in range(number))
        text = f"{name}({inside})"
        asked = [choose.choice(FORMS).format(text), sulq.Query(values=[text])]
        for question in asked if number else [f.format(text) for f in FORMS] + asked[1:]:
            try:
                db.price(question)
            except sulq.Refused:
                continue
            except Exception as error:
                out.append((question, repr(error)))
    return out


@pytest.mark.parametrize("some", range(8))
def test_wrong_arguments_are_refused_in_words(db, some):
    """All functions with 0 to 4 arguments of odd kinds: Refused or a price, nothing else."""
    names = NAMES[some::8]
    assert len(names) > 100
    assert not list(itertools.chain(*(tripped(db, name, 0) for name in names)))


def test_control_the_writer_still_trips(db):
    """What is guarded is real: sqlglot itself fails to write what it has read."""
    from sulq.expressions.dialect import written

    found = sqlglot.parse_one("select time()", read="duckdb").expressions[0]
    with pytest.raises(TypeError):
        found.sql(dialect="duckdb")
    with pytest.raises(sulq.QueryNotAllowed, match="the number or kind of its arguments"):
        written(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select floor() from people", "floor: an argument is missing"),
        ("select sum(width_bucket(x)) from people", "width_bucket: wrong number of arguments, 1"),
        ("select sum(nullif(x)) from people", "not a SQL statement"),
        ("select time() from people", "time"),
    ],
)
def test_the_refusal_names_the_function(db, text, said):
    """Whoever mistyped sees what to look up, and that it was free."""
    with pytest.raises(sulq.QueryNotAllowed, match=said) as refused:
        db.sql(text)
    assert refused.value.charged is False
    assert db.budget.spent == 0

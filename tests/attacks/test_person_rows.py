"""Questions about people that stopped a database, or took for ever: none does now."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from helpers import ENGINES, opened

import sulq
from sulq.engines.people_rows import each_of_its_rows
from sulq.engines.select import needs_kernel
from sulq.questions.check import check
from sulq.values.per_person import MAX_FEATURES
from sulq.values.schema import Schema

SCHEMA = {
    "columns": {
        "id": {"type": "integer", "key": True},
        "person": {"type": "text"},
        "day": {"type": "integer", "low": 1, "high": 9, "public": True},
        "x": {"type": "number", "low": 1, "high": 10},
    },
    "unit": {"column": "person", "max_rows": 3},
}
ROWS = pa.table(
    {"id": range(4), "person": ["a", "a", "b", None], "day": [1, 2, 3, 4], "x": [1.0, 2, 3, 4]}
)
DAY, HOUR = datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 5)
NAMES = {
    "number": pa.array([1.5, 1.5, float("inf"), float("nan")]),
    "boolean": pa.array([True, True, False, None]),
    "date": pa.array([DAY, DAY, datetime.date(9999, 1, 1), None]),
    "timestamp": pa.array([HOUR, HOUR, datetime.datetime(9999, 1, 1), None]),
}


def checked(queries):
    return [check(query, Schema.load(SCHEMA), "gaussian", "beliefs") for query in queries]


def divided(depth):
    """1/(1/(1/...x))."""
    return "1 / (" * depth + "x" + ")" * depth


@pytest.mark.parametrize("where", ["exp(day) > 3", "regexp_matches(person, 'a')", "ln(day) > 1"])
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
def test_a_public_condition_that_no_database_says_is_refused(engine, where):
    """Which rows of a person are looked at is said in SQL: elsewhere it is refused, uncharged.

    For a day such a count, free because all of it is public, stopped the database.
    """
    db = opened(ROWS, SCHEMA, engine=engine)
    with pytest.raises(sulq.QueryNotAllowed, match="compute it differently"):
        db.per_person({"n": "count(*)"}, where=where).count()
    assert db.per_person({"n": "count(*)"}).count().value == 3  # it goes on
    assert db.budget.spent == 0


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
def test_people_whose_names_are_no_keys_form_no_samples(engine, kind):
    """Only texts and whole numbers are hashed; by other names a sample failed, or did by rows."""
    schema = SCHEMA | {"columns": SCHEMA["columns"] | {"person": {"type": kind}}}
    people = opened(ROWS.set_column(1, "person", NAMES[kind]), schema, engine=engine).per_person(
        {"n": "count(*)"}
    )
    for rows, by in ((sulq.Rows.sample(1, 0.5), None), (None, sulq.Blocks(1, 3))):
        with pytest.raises(sulq.QueryNotAllowed, match="formed by the key"):
            people.ask(sulq.Query(["n"], rows=rows, by=by))
    assert people.sum("n").value == 4


def test_one_scan_reads_few_features_of_each_person():
    """A SELECT of 1,664 columns is too wide for PostgreSQL, whoever asked for which of them."""
    asked = [
        {f"f{i}": f"count_if(x > {part}.{i:03})" for i in range(size)}
        for part, size in ((1, 90), (2, 90), (3, 90), (4, MAX_FEATURES), (5, 1))
    ]
    queries = [sulq.Query(list(f), per_person=sulq.PerPerson(f)) for f in asked]
    scans = []

    def of_people(people, some):
        scans.append(len(people.features))
        return [[[query.shape[1]]] for query in some]

    found = each_of_its_rows(checked(queries), lambda own: [], of_people)
    assert scans == [180, 90, MAX_FEATURES, 1]
    assert found == [[[90]], [[90]], [[90]], [[MAX_FEATURES]], [[1]]]


def test_one_question_has_few_features():
    """However many are in one formula: counted before the charge."""
    many = " + ".join(f"count_if(x > 1.{i:03})" for i in range(MAX_FEATURES + 1))
    db = opened(ROWS, SCHEMA)
    with pytest.raises(sulq.QueryNotAllowed, match="201 different aggregates"):
        db.per_person({"n": many})


def test_division_by_divisions_is_not_left_to_a_planner():
    """DuckDB writes a divisor out three times: 14 levels took half a minute, 24 would take days."""
    db = opened(ROWS, {"columns": SCHEMA["columns"]})
    few, many = checked([sulq.Query([divided(n)]) for n in (3, 24)])
    assert [needs_kernel(few), needs_kernel(many)] == [False, True]
    assert db.sum(divided(24)).value == pytest.approx(10, abs=1e-4)
    assert db.count(f"{divided(24)} > 2.5").value == 2
    with pytest.raises(sulq.QueryNotAllowed, match="divides by what divides"):
        opened(ROWS, SCHEMA).per_person({"n": f"max({divided(24)})"})

"""People in several periods: whatever their rows are, what is measured of them is paid for.

Twins differ in all private values of one person's rows; which rows there are, in which periods, is
public. What is measured is read off below the noise and held against what the periods that the
person counts in are charged together. Exact, without luck.
"""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from attacks.test_strategy_prices import measured
from helpers import opened
from soak import some, times

import sulq
from sulq import Bins, Query
from sulq.column_profile import ProfilePlan
from sulq.errors import MICRO
from sulq.questions.running_rows import summed
from sulq.values.query import Running

YEARS = [2020, 2021, 2022, 2023]
SCHEMA = {
    "id": {"key": True},
    "person": {"type": "integer", "low": 0, "high": 99},
    "year": {"values": YEARS, "public": True},
    "sick": {"type": "boolean"},
    "age": {"type": "integer", "low": 0, "high": 9},
    "pay": {"type": "number", "low": -5, "high": 15, "nullable": False},
    "c": {"values": ["x", "y"]},
}
TYPES = pa.schema({
    "id": pa.int64(), "person": pa.int64(), "year": pa.int64(), "sick": pa.bool_(),
    "age": pa.int64(), "pay": pa.float64(), "c": pa.string(),
})  # fmt: skip
ODD = {"sick": [None, True, False], "age": [None, 0, 9, 12], "pay": [None, -5, 15, 2.25],
       "c": [None, "x", "y", "z"]}  # fmt: skip
ENDS = [
    {"sick": True, "age": 9, "pay": 15.0, "c": "x"}, {"sick": False, "age": 0, "pay": -5.0},
    {"sick": None, "age": 9, "pay": 15.0, "c": "y"}, {"sick": True, "pay": -5.0, "c": "x"},
]  # fmt: skip
OTHERS = [
    {"id": 3 + i, "person": 5 + i, "year": year, "sick": True, "age": 3, "pay": 1.0, "c": "x"}
    for i, year in enumerate(YEARS)
]
OLDEST = sulq.PerPerson((("oldest", "max(age)"),))


def running(text, **more):
    where = more.pop("where", "sick")
    return lambda db: db.question(Query(Running(summed(text), **more), where=where))


def selected(text):
    return lambda db: db.question(f"select {text}")


ASKED = {
    "a bin of years": lambda db: db.question(Query(by=Bins("year", [2019, 2025]), where="sick")),
    "bins of years": lambda db: db.question(Query(["pay"], by=Bins("year", [2019, 2022, 2025]))),
    "rows beside people": lambda db: db.question(
        [Query(where="sick"), Query(where="oldest > 3", per_person=OLDEST)], together=True),
    "a profile": lambda db: ProfilePlan(db).question,
    "totals": running("count(*)"),
    "totals of sums": running("sum(pay)", where=None),
    "totals of two years": running("count(age)", start=2021, horizon=2),
    "ranges": lambda db: db.question(
        [Query(where=f"age between {a} and {a + w}") for a in range(6) for w in range(3)]),
    "counts of years": lambda db: db.question(
        [Query(where=f"year = {y} and age > {a}") for y in YEARS for a in range(4)]),
    "tables": lambda db: db.question(
        [Query(by=("year", "sick")), Query(by="sick"), Query(by=("year", "c"))], together=True),
    **{text: selected(text) for text in (
        "count(*) from frame where sick", "year, count(*) from frame where sick group by year",
        "count(*) from frame group by cube(sick, c)", "avg(pay), sum(age) from frame where c = 'x'",
        "c, count(distinct person) from frame group by c", "median(age) from frame",
        "count(*) from frame where sick group by rollup(year, c)",
        "count_if(sick and year = 2020), count_if(sick and year > 2020) from frame",
    )},
}  # fmt: skip


def twins(seed, many):
    """The rows of one person, as they may be; and in which cells they count, of so many."""
    pick = random.Random(seed)
    years = [pick.choice([*YEARS, None]) for _ in range(6)]
    rows = [{"id": 100 + i, "person": 1, "year": year} for i, year in enumerate(years)]
    each = [[end] * 6 for end in ENDS]
    for _ in range(times(2, 20)):
        each.append([{n: pick.choice(v) for n, v in ODD.items()} for _ in rows])
    first = sorted({0 if y is None else 1 + YEARS.index(y) for y in years})[:many]
    counts = {len(YEARS) if place == 0 else place - 1 for place in first}
    return [[r | v for r, v in zip(rows, values, strict=True)] for values in each], counts


def paid(db, question, counts):
    """What the cells that somebody counts in are charged once it is answered, in queries."""
    db.answer(question)
    everybody, spent = db._ledger.base(), db._ledger.spent_by_cell()
    return (everybody + sum(spent[cell] - everybody for cell in counts)) / MICRO


def reached(asked, guarantee, unit, seed):
    """The furthest that twins are apart, squared, as a share of what was paid for."""
    declared = {"columns": SCHEMA, "period": {"column": "year"}}
    declared["unit"] = {"column": "person", "max_rows": unit[0], "max_periods": unit[1]}
    rows, counts = twins(seed, unit[1])
    question, seen = None, []
    for own in [*rows, *([[]] if guarantee == "dp" else [])]:
        table = pa.Table.from_pylist([*own, *OTHERS], schema=TYPES)
        with opened(table, declared, guarantee=guarantee, queries=500) as db:
            question = question or ASKED[asked](db)
            seen.append(measured(db, question, "gaussian"))
            variance = db.promise.variance
            if own is rows[0]:
                allowed = paid(db, question, counts) / variance
    pairs = itertools.combinations(seen, 2)
    apart = [v - seen[-1] for v in seen[:-1]] if guarantee == "dp" else [a - b for a, b in pairs]
    return max(np.square(d).sum() for d in apart) / allowed if allowed else 0.0


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
@pytest.mark.parametrize("asked", some(ASKED, 4))
def test_what_somebody_in_several_periods_moves_is_paid_for(asked, guarantee):
    """For one and several rows in each of two or three periods, some of them undeclared."""
    for seed, unit in enumerate([(1, 3), (2, 2)]):
        assert reached(asked, guarantee, unit, seed) <= 1 + 1e-4


def test_periods_that_are_not_all_charged_are_found(monkeypatch):
    """Control: charged to everybody once, as what is about people, a count of rows is not."""
    monkeypatch.setattr("sulq.questions.question.Bundle.of_people", True)
    assert reached("count(*) from frame where sick", "beliefs", (1, 3), 0) > 2

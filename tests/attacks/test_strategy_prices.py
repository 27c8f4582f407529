"""Many questions for one price: no two values of a row are further apart than it pays for.

Profiles, histograms with subtotals, cubes, ranges and quantiles are measured by strategies. What is
measured is read off below the noise, for rows with extremes, gaps and values outside of what was
declared, and its distance in standard deviations is held against the price. Exact, without luck.
"""

import itertools
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from soak import some, times

from sulq import Bins, Query
from sulq.column_profile import ProfilePlan
from sulq.policies import dot
from sulq.questions.residual import Projected

SCHEMA = {
    "age": {"type": "integer", "low": 0, "high": 20},
    "pay": {"type": "number", "low": -5, "high": 15},
    "share": {"type": "number", "low": 0, "high": 1, "nullable": False},
    "s": {"type": "boolean"},
    "t": {"type": "boolean", "nullable": False},
    "region": {"values": ["n", "e", "w"], "public": True},
    "c": {"values": ["x", "y"]},
}
TYPES = pa.schema(
    {"age": pa.int64(), "pay": pa.float64(), "share": pa.float64(), "s": pa.bool_(),
     "t": pa.bool_(), "region": pa.string(), "c": pa.string()}
)  # fmt: skip
ODD = {
    "age": [None, 0, 20, 7, 12, -3, 99], "pay": [None, -5, 15, 0, 1e9, math.nan, 2.25],
    "share": [None, 0, 1, 0.5, 7], "s": [None, True, False], "t": [None, True, False],
    "c": [None, "x", "y", "zz"],
}  # fmt: skip
ROWS = times(6, 40)


def rows(seed):
    """Rows of one public cell, odd in every column."""
    pick = random.Random(seed)
    found = [{n: pick.choice(v) for n, v in ODD.items()} | {"region": "n"} for _ in range(ROWS)]
    ends = [{n: v[i] for n, v in ODD.items()} | {"region": "n"} for i in (0, 1, 2)]
    return ends + found


def bins(*widths, where=None):
    return [Query(["1"], by=Bins("age", list(range(0, 21, w))), where=where) for w in widths]


def ranges(seed, many):
    pick = random.Random(seed)
    starts = [pick.randrange(20) for _ in range(many)]
    return [Query(where=f"age between {a} and {a + pick.randint(0, 9)}") for a in starts]


STATEMENTS = [
    "select count(*) from frame group by cube(s, c, t)",
    "select count(*), avg(pay) from frame group by grouping sets ((s), (c), (s, c), ())",
    "select sum(pay) from frame where t group by rollup(c, s)",
    "select count_if(s) from frame group by cube(c, age)",
    "select median(age) from frame where s",
    "select percentile_cont(0.9) within group (order by pay) from frame group by s",
    "select variance(pay), avg(age) from frame where c = 'x'",
    "select corr(age, pay), regr_slope(pay, age) from frame",
]
ASKED = {
    "a profile": lambda db: ProfilePlan(db).question,
    "a dear profile": lambda db: ProfilePlan(db, 40).question,
    "subtotals": lambda db: db.question(bins(1, 2, 4, 10), together=True),
    "subtotals of some": lambda db: db.question(bins(2, 4, 20, where="s and c = 'x'"),
                                                together=True),
    "ranges": lambda db: db.question(ranges(1, 25), together=True),
    "ranges and a histogram": lambda db: db.question(
        [*ranges(2, 12), Query(by="s"), Query(["pay"], by="c")], together=True),
    **{text: lambda db, text=text: db.question(text) for text in STATEMENTS},
}  # fmt: skip


def left_over(measurement, sums):
    """Of a residual only differences along each axis leave: what all cells share does not."""
    if not isinstance(measurement, Projected):
        return sums
    cells = np.array(sums, dtype=float).reshape(measurement.sizes)
    for i in range(cells.ndim):
        cells = cells - cells.mean(axis=i, keepdims=True)
    return [[x] for x in cells.ravel()]


def measured(db, question, noise):
    """What is measured of the rows, in standard deviations of the noise, or in its scales."""
    parts = [part for bundle in question.bundles for part in bundle.parts]
    found = []
    for (checked, tariff), sums in zip(
        parts, db._pipeline.engine.sums([checked for checked, _ in parts]), strict=True
    ):
        if checked.mix is not None:
            sums = [[dot(m, row) for m in checked.mix] for row in sums]
        if checked.measurement is not None:
            sums = left_over(checked.measurement, checked.measurement.before_noise(sums))
        widths = [law.std / (math.sqrt(2) if noise == "laplace" else 1) for law in tariff.laws]
        found += [
            float(x * m) / width
            for row in sums
            for x, m, width in zip(row, tariff.multiples, widths, strict=True)
        ]
    return np.array(found)


def reached(asked, guarantee, noise, paid=1):
    """The furthest that two values of a row are apart, as a share of what the price allows."""
    terms = {"guarantee": guarantee, "noise": noise, "queries": 50}
    others = [] if guarantee == "dp" else [row | {"region": "e"} for row in rows(9)[:1]]
    seen = []
    for row in rows(3):
        with opened(pa.Table.from_pylist([row, *others], schema=TYPES), SCHEMA, **terms) as db:
            question = ASKED[asked](db)
            seen.append(measured(db, question, noise))
            promise = db.promise
    sizes = seen if guarantee == "dp" else [a - b for a, b in itertools.combinations(seen, 2)]
    price = float(question.price.queries) * paid
    if noise == "laplace":
        most, allowed = max(np.abs(d).sum() for d in sizes), price * promise.epsilon / 50
    else:
        most, allowed = max((d**2).sum() for d in sizes), price / promise.variance
    return most / allowed


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
@pytest.mark.parametrize("asked", some(ASKED, 4))
def test_what_a_strategy_measures_is_paid_for(asked, guarantee):
    """Gaussian noise: the squared distance is at most the price's share of T/R."""
    assert reached(asked, guarantee, "gaussian") <= 1 + 1e-4


@pytest.mark.parametrize("asked", some(["subtotals", STATEMENTS[4], "a profile", STATEMENTS[0]], 2))
def test_what_is_measured_with_laplace_noise_is_paid_for(asked):
    """All moves together are at most the price's share of epsilon."""
    assert reached(asked, "beliefs", "laplace") <= 1 + 1e-4


def test_control_a_tenth_less_would_not_pay_for_it():
    """The same measure finds prices that are too low."""
    assert reached("subtotals", "dp", "gaussian", 0.9) > 1 + 1e-4

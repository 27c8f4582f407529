"""Error bars are honest: intervals cover, standard deviations are those of a simulation.

Real noise, drawn as the product draws it; what is skipped is only the ledger and the scan,
which are the same in every run. Each test says how often it fails by chance.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from scipy.stats import binom, chi2, norm

import sulq
from sulq.database import add_noise

RUNS = 3000
LEVEL, LEAST, MOST = 0.95, 0.92, 0.98
ROWS = 20_000

SCHEMA = {
    "age": {"type": "integer", "low": 0, "high": 120},
    "income": {"type": "number", "low": 0, "high": 1000},
    "hours": {"type": "integer", "low": 0, "high": 80, "nullable": False},
    "smoker": {"type": "boolean"},
    "region": {"values": ["north", "south"]},
}


def people(rows=ROWS):
    """Correlated columns, some of it missing; the same rows in every run."""
    draw = np.random.default_rng(11)
    age = np.clip(draw.normal(45, 20, rows), 0, 120).round().astype(int)
    income = np.clip(3 * age + draw.normal(200, 90, rows), 0, 1000)
    return pa.table(
        {
            "age": pa.array(age, mask=draw.random(rows) < 0.05),
            "income": pa.array(income, mask=draw.random(rows) < 0.1),
            "hours": np.clip(draw.normal(35, 12, rows), 0, 80).round().astype(int),
            "smoker": draw.random(rows) < 0.4,
            "region": np.where(draw.random(rows) < 0.6, "north", "south"),
        }
    )


class Repeated:
    """One statement answered again and again, with fresh noise over the same exact sums."""

    def __init__(self, db, sql):
        self.db = db
        self.statement = db._statement(sql)
        self.bundle = db._priced(list(self.statement.queries))
        self.exact = db._sums([c for c, _ in self.bundle.parts])

    def answers(self):
        noise = self.db._drawn([self.bundle])
        noisy = [
            add_noise(query, tariff, sums, noise)
            for (query, tariff), sums in zip(self.bundle.parts, self.exact, strict=True)
        ]
        return self.bundle.answers(noisy, 0)

    def table(self):
        return self.statement.table(self.answers())


def loud(table, schema=SCHEMA, **promise):
    return opened(table, schema, quiet=False, name="people", **promise)


NAMES = ("n", "s", "a", "v", "c", "r")
ASKED = """
    select count(*) as n, sum(income) as s, avg(income) as a, var_pop(income) as v,
           corr(age, income) as c, sum(income) / sum(hours) as r
    from people where smoker
"""


@pytest.fixture(scope="module")
def simulated():
    """Values, half-widths and the truth of every number of ASKED."""
    table = people()
    truth = opened(table, SCHEMA, name="people").sql(ASKED)
    repeated = Repeated(loud(table, epsilon=2.0, queries=100), ASKED)
    values = {n: np.empty(RUNS) for n in NAMES}
    widths = {n: np.empty(RUNS) for n in NAMES}
    for i in range(RUNS):
        found = repeated.table()
        for n in NAMES:
            values[n][i] = found[n][0]
            widths[n][i] = (found[f"{n}_high"][0] - found[f"{n}_low"][0]) / 2
    return values, widths, {n: truth[n][0] for n in NAMES}


def false_alarm(level=LEVEL, runs=RUNS):
    """How often a share of runs between LEAST and MOST is missed by chance."""
    return binom.cdf(math.ceil(LEAST * runs) - 1, runs, level) + binom.sf(
        math.floor(MOST * runs), runs, level
    )


def covered(values, widths, truth, factor=1.0):
    return float(np.mean(np.abs(values - truth) <= factor * widths))


def test_the_truth_is_what_numpy_says(simulated):
    """The exact numbers behind the simulation, computed apart."""
    frame = people().to_pandas()
    frame = frame[frame.smoker]
    both = frame.dropna()
    known = frame.income.dropna()
    wanted = (
        len(frame), known.sum(), known.mean(), known.var(ddof=0), both.age.corr(both.income),
        known.sum() / frame.hours.sum(),
    )  # fmt: skip
    for name, x in zip(NAMES, wanted, strict=True):
        assert math.isclose(simulated[2][name], x, rel_tol=1e-6), name


@pytest.mark.parametrize("name", NAMES)
def test_intervals_cover_the_truth(simulated, name):
    """95% intervals cover in 92% to 98% of 3,000 runs. False alarm: below 1e-9 a number."""
    values, widths, truth = (part[name] for part in simulated)
    assert false_alarm() < 1e-9
    assert LEAST <= covered(values, widths, truth) <= MOST


@pytest.mark.parametrize("name", NAMES)
def test_narrow_intervals_are_noticed(simulated, name):
    """The same check fails with standard deviations 20% low. Missed: below 1e-6 a number."""
    values, widths, truth = (part[name] for part in simulated)
    reached = 2 * norm.cdf(0.8 * norm.ppf(0.975)) - 1
    assert binom.sf(math.ceil(LEAST * RUNS) - 1, RUNS, reached) < 1e-6
    assert covered(values, widths, truth, 0.8) < LEAST


@pytest.mark.parametrize("name", NAMES)
def test_standard_deviations_are_those_of_a_simulation(simulated, name):
    """Propagated and simulated agree to 8%, centre included. False alarm: about 1e-9 a number."""
    values, widths, truth = (part[name] for part in simulated)
    said, seen = np.median(widths) / norm.ppf(0.975), values.std()
    assert abs(said / seen - 1) < 0.08
    assert abs(values.mean() - truth) < 7 * seen / math.sqrt(RUNS)  # 0.13 of a std
    assert seen > 1e-4 * abs(truth)  # the noise is visible: this tests something


def test_small_groups_are_marked_and_hold_less():
    """Where a group is within the noise its name stands in the note. No chance involved."""
    table = people(400)
    repeated = Repeated(
        loud(table, epsilon=1.0, queries=1000),
        "select region, avg(income) from people group by region",
    )
    assert all("too few rows" in repeated.table().note for _ in range(5))


# --- quantiles ----------------------------------------------------------------------------

MANY = 100_000
RANGES = {"income": (0, 1000, 400.0, 120.0), "age": (0, 120, 45.0, 18.0)}


@pytest.mark.parametrize("x", RANGES)
def test_a_median_lands_within_one_percent_of_the_range(x):
    """100,000 rows, epsilon 1, T = 1000, 20 runs, all of them. False alarm: below 1e-6.

    The position is off by at most 2.8 standard deviations of a count (471 rows), and near the
    middle of a bell curve that wide a percent of the range holds 3,000 rows.
    """
    low, high, middle, spread = RANGES[x]
    column = np.clip(np.random.default_rng(3).normal(middle, spread, MANY), low, high)
    column = column.round().astype(int) if x == "age" else column
    schema = {x: SCHEMA[x] | {"nullable": False}}
    repeated = Repeated(loud(pa.table({x: column}), schema), f"select median({x}) as m from people")
    truth = float(np.median(column))
    found = [repeated.table()["m"][0] for _ in range(20)]
    assert max(abs(m - truth) for m in found) <= 0.01 * (high - low)
    assert repeated.bundle.price.queries == 4


def test_quantile_intervals_cover_the_truth():
    """They are wide on purpose: at least 92% of 400 runs. False alarm: below 1e-6 if 97% do."""
    column = np.clip(np.random.default_rng(3).normal(400, 150, MANY), 0, 1000)
    schema = {"income": SCHEMA["income"] | {"nullable": False}}
    shares = (0.1, 0.25, 0.5, 0.8)
    listed = ", ".join(
        f"percentile_cont({p}) within group (order by income) as q{i}" for i, p in enumerate(shares)
    )
    repeated = Repeated(loud(pa.table({"income": column}), schema), f"select {listed} from people")
    inside = np.zeros(len(shares))
    for _ in range(400):
        found = repeated.table()
        for i, p in enumerate(shares):
            truth = np.quantile(column, p)
            inside[i] += found[f"q{i}_low"][0] <= truth <= found[f"q{i}_high"][0]
    assert binom.cdf(math.ceil(0.92 * 400) - 1, 400, 0.97) < 1e-6
    assert (inside / 400 >= 0.92).all(), inside / 400


# --- batches ------------------------------------------------------------------------------


def ranges(count, seed=1):
    pick = random.Random(seed)
    for _ in range(count):
        low, top = sorted(pick.sample(range(122), 2))
        yield sulq.Query(where=f"age >= {low} and age < {top}")


def test_a_thousand_ranges_cost_twenty_queries():
    """1,000 random range counts over age: at most 20 queries as one batch, and a smaller error
    than each by itself at the same price. No chance involved: these are announced errors."""
    db = opened(people(), SCHEMA, name="people")
    queries = list(ranges(1000))
    price = db.price(queries)
    assert price.queries <= 20
    before = db.budget.spent
    together = db.ask(queries)
    assert db.budget.spent - before == price.queries
    assert len(db.history()) == 1
    shared = math.sqrt(np.mean([a.std**2 for a in together]))
    each = db.promise.std * math.sqrt(len(queries) / price.queries)  # the same price, split evenly
    assert shared < each / 5
    assert shared < 1.01 * db.promise.std
    cheap = sulq.Query(where="age >= 3 and age < 50", error=Fraction(1.959964 * each))
    assert abs(float(db.price(cheap).queries) * len(queries) / float(price.queries) - 1) < 0.01


def test_shared_counts_are_unbiased_with_honest_stds():
    """40 ranges from shared histograms, 400 times. False alarm: 2e-9 for the whole table.

    Each count's mean error, and its variance over the announced one, against their laws.
    """
    table = people()
    queries = list(ranges(40, seed=8))
    truth = np.array([a.value for a in opened(table, SCHEMA).ask(queries, share=False)])
    db = loud(table, epsilon=2.0, queries=100)
    shared = db._shared(queries)
    assert shared is not None
    plan, bundle = shared
    exact = db._sums([c for c, _ in bundle.parts])
    runs, errors = 400, []
    for _ in range(runs):
        noise = db._drawn([bundle])
        noisy = [
            add_noise(q, t, sums, noise) for (q, t), sums in zip(bundle.parts, exact, strict=True)
        ]
        answers = plan.answers(bundle.answers(noisy, 0))
        stds = np.array([a.std for a in answers])
        errors.append((np.array([a.value for a in answers]) - truth) / stds)
    z = np.array(errors)
    alarm = 1e-9 / len(queries)
    assert np.abs(z.mean(axis=0) * math.sqrt(runs)).max() < norm.isf(alarm / 2)
    low, high = chi2.ppf(alarm / 2, runs), chi2.isf(alarm / 2, runs)
    squares = (z**2).sum(axis=0)
    assert squares.min() > low
    assert squares.max() < high
    assert ((1.25 * z) ** 2).sum(axis=0).max() > high  # stds 20% low would be seen

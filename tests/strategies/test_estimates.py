"""What stored answers say about questions that were not asked, with an honest interval."""

import datetime
import itertools

import numpy as np
import pandas as pd
import pytest
from helpers import opened
from scipy import sparse, stats

import sulq
from sulq import NotKnown, Query
from sulq.open_database import refresh
from sulq.strategies.estimates import least_squares

SCHEMA = {
    "columns": {
        "id": {"key": True},
        "age": {"type": "integer", "low": 0, "high": 99, "nullable": False},
        "smoker": {"type": "boolean"},
        "region": {"values": ["north", "south", "east"]},
        "sex": {"values": ["f", "m"], "public": True, "nullable": False},
        "income": {"type": "number", "low": 0, "high": 100_000, "nullable": False},
        "born": {"type": "date", "low": datetime.date(1920, 1, 1),
                 "high": datetime.date(2020, 1, 1), "nullable": False},
    }
}  # fmt: skip


def people(rows=2_000):
    rng = np.random.default_rng(5)
    days = rng.integers(0, 36_000, rows)
    return pd.DataFrame({
        "id": np.arange(rows),
        "age": rng.integers(0, 100, rows),
        "smoker": rng.choice([True, False, None], rows, p=[0.3, 0.6, 0.1]),
        "region": rng.choice(["north", "south", "east", "elsewhere"], rows),
        "sex": rng.choice(["f", "m"], rows),
        "income": np.round(rng.gamma(2, 20_000, rows).clip(0, 100_000), 2),
        "born": [datetime.date(1920, 1, 1) + datetime.timedelta(days=int(d)) for d in days],
    })  # fmt: skip


ROWS = people()


def database(**settings):
    return opened(ROWS, SCHEMA, name="people", **({"guarantee": "dp"} | settings))


def truth(question):
    """What a database without noise answers."""
    return database().ask(question)


def same(found, wanted):
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-7, atol=1e-4)


AGES = Query(by=sulq.Bins("age", (*tuple(range(100)), 99.5)))
TOLD = {  # what is asked, and what that tells
    "a histogram tells ranges": (
        [Query(by=sulq.Bins("age", (0, 10, 20, 30, 40, 99)))],
        [Query(where="age < 30"), Query(where="age between 10 and 39"), Query(where="age >= 40")],
    ),
    "a histogram tells coarser bins": (
        [Query(by=sulq.Bins("income", (0, 1e4, 2e4, 3e4, 6e4, 1e5)))],
        [Query(by=sulq.Bins("income", (0, 3e4, 1e5))), Query(where="income >= 20000")],
    ),
    "a histogram of dates tells years": (
        [Query(by=sulq.Bins("born", tuple(f"{y}-01-01" for y in range(1920, 2021, 10))))],
        [Query(where="born < '1980-01-01'")],
    ),
    "counts of listed values tell sums of them": (
        [AGES], [Query(("age",)), Query(("age * age",), where="age > 30"), Query(where="age = 7")],
    ),
    "a table tells its margins": (
        [Query(by=("region", "smoker"))],
        [Query(by="region"), Query(where="smoker"), Query(where="smoker is null"),
         Query(where="region in ('north', 'south') and not smoker")],
    ),
    "the total is known": ([Query(where="smoker")], [Query(where="smoker is not true")]),
    "a mean tells the sum": (
        [Query(sulq.Mean("income"), where="smoker")], [Query(("income",), where="smoker")],
    ),
    "sums by groups tell the whole": (
        [Query(("income",), by="region")],
        [Query(("income",)), Query(("income",), where="region = 'north'")],
    ),
    "two overlapping counts tell the rest": (
        [Query(where="smoker or age < 20"), Query(where="smoker and age < 20"),
         Query(where="smoker")],
        [Query(where="age < 20")],
    ),
    "a strategy tells its ranges": (
        [Query(sulq.Strategy("ranges"), by="age")], [Query(where="age between 3 and 17")],
    ),
    "weights and wanted errors are read": (
        [Query(("1", "income"), by="region", weights=(2, 1)), Query(by="smoker", error=30)],
        [Query(where="region = 'east'"), Query(where="smoker")],
    ),
    "what is not looked into is a fact": (
        [Query(by="smoker", where="income > 1000 * age")],
        [Query(where="income > 1000 * age and smoker"), Query(where="income > 1000 * age")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD)
def test_without_noise_the_estimate_is_exact(case):
    """What stored answers tell is what the rows say, where the answers have no noise."""
    asked, told = TOLD[case]
    db = database()
    for query in asked:
        db.ask(query)
    spent = db.budget
    for query in told:
        found = db.estimate(query)
        same(found, truth(query))
        assert found.price.micro == 0
        assert max(map(max, found.stds)) > 0
    assert db.budget == spent


def test_what_is_not_measured_is_not_known():
    """No answer, one that does not tell it, a finer one, another's sum: there is no estimate."""
    db = database()
    for query in (Query(where="smoker"), Query(("income",)), Query(where="age < 10")):
        with pytest.raises(NotKnown, match="Nothing was charged"):
            db.estimate(query)
        assert db.price(query).estimate is None
    db.histogram("age", bins=[0, 50, 99])
    db.ask(Query(by="region"))
    for where in ("age < 49", "age < 50 and region = 'north'", "smoker"):
        with pytest.raises(NotKnown):
            db.estimate(Query(where=where))
    assert "already" not in str(db.price(Query(where="smoker")))


def test_a_batch_that_was_shared_tells_its_counts_and_their_differences():
    """Combinations made for a batch are measurements like any other."""
    db = database()
    db.ask([Query(where=f"age < {a}") for a in range(10, 90, 10)])
    assert len(db.history()) == 1
    same(db.estimate(Query(where="age >= 20 and age < 70")),
         truth(Query(where="age >= 20 and age < 70")))  # fmt: skip


def test_marginals_tell_every_table_within_them():
    """Residuals are measurements too, with the noise of the tables that are made of them."""
    db = database()
    tables = db.marginals(["region", "smoker", "sex"], 2)
    assert len(db.history()) == 1
    same(db.estimate(Query(by=("region", "smoker"))), truth(Query(by=("region", "smoker"))))
    same(db.estimate(Query(where="smoker")), truth(Query(where="smoker")))
    found = db.estimate(sulq.Marginals(["region", "smoker", "sex"], 2))
    for name, table in tables.items():
        ends = zip(found[name]["count_high"], table["count_high"], strict=True)
        assert all(a <= b + 1e-6 for a, b in ends)
    with pytest.raises(NotKnown):
        db.estimate(Query(by=("region", "smoker", "sex")))


def test_select_and_lists_are_estimated_as_they_would_be_answered():
    """A Table for SQL, a list for a list; count and avg tell the sum."""
    db = database()
    db.sql("select region, count(*), avg(income) from people where smoker group by region")
    text = "select sum(income) as total from people where smoker and region = 'north'"
    found, wanted = db.sql(text, free=True), database().sql(text)
    assert found["total"][0] == pytest.approx(wanted["total"][0], rel=1e-7)
    assert found["total_low"][0] < found["total"][0] < found["total_high"][0]
    assert "estimated from stored answers, free" in str(found)
    one, two = db.estimate([Query(where="smoker"), Query(("income",), where="smoker")])
    same(one, truth(Query(where="smoker")))
    same(two, truth(Query(("income",), where="smoker")))


def test_a_price_says_what_is_known_already():
    """Beside the price stands the estimate, in the words that a person reads."""
    db = database()
    db.crosstab(["region", "smoker"])
    assert str(db.price(Query(where="smoker"))).startswith("1 query; you already know this: ")
    assert str(db.price(Query(by="smoker"))) == "1 query; you already know this, free"
    assert db.price(Query(where="smoker")).estimate.std > 0
    assert db.price(Query(where="smoker")) == db.question(Query(where="smoker")).price


def test_a_count_of_nobody_is_known_before_anything_was_asked():
    """No stored answer is needed for what no row can satisfy, in a table neither."""
    found = database().estimate(Query(by="region", where="1 = 0"))
    assert not found.values.any()


def test_a_quantile_is_known_if_it_was_asked():
    """Its interval needs more than single cells, so only the same question tells it."""
    db = database()
    db.ask(AGES)
    with pytest.raises(NotKnown):
        db.estimate("select median(age) from people")
    asked = db.sql("select median(age) as m from people")
    assert db.estimate("select median(age) as m from people")["m"] == asked["m"]


def test_what_is_no_form_of_cells_is_known_if_it_was_asked():
    """Blocks, centres and products: the stored answer itself, for nothing."""
    db = database(quiet=False)
    query = Query(("1",), by=sulq.NearestCentre(("age", "income"), ((0.1, 0.1), (0.9, 0.9))))
    with pytest.raises(NotKnown):
        db.estimate(query)
    asked = db.ask(query)
    assert db.estimate(query).exact == asked.exact
    assert db.estimate(query).price.micro == 0


# ---- what it may use ------------------------------------------------------------------------


class NoRows:
    """An engine that must not be asked."""

    def __init__(self, engine):
        self.schema, self.rows = engine.schema, engine.rows

    def sums(self, *_):
        raise AssertionError("a row was read")

    def close(self):
        """Nothing to close."""


def test_no_row_is_read_and_nothing_is_charged():
    """Estimates come from the ledger alone, also when nothing is left to spend."""
    db = database(queries=2, guarantee="dp")
    db.crosstab(["region", "smoker"])
    db.ask(Query(("income",), by="region"))
    entries = db.verify()
    db._pipeline.engine = NoRows(db._pipeline.engine)
    same(db.estimate(Query(where="smoker")), truth(Query(where="smoker")))
    assert db.price("select count(*) from people where smoker").estimate is not None
    assert db.estimate("select avg(smoker) from people where region = 'north'")
    assert db.verify() == entries
    assert db.budget.remaining == 0
    with pytest.raises(sulq.BudgetExceeded):
        db.ask(Query(where="smoker"))


def test_a_stopped_database_still_estimates():
    """Nothing new is answered after a failed scan; what is known stays known."""
    db = database()
    db.crosstab(["region", "smoker"])
    db._ledger.freeze(["{}"], "test", "Failure")
    with pytest.raises(sulq.Frozen):
        db.count("age < 10")
    same(db.estimate(Query(where="smoker")), truth(Query(where="smoker")))


def test_answers_about_earlier_rows_are_not_used(tmp_path):
    """A refresh begins a new version of the rows, of which nothing is known yet."""
    path = tmp_path / "people.parquet"
    ROWS.to_parquet(path)
    where = {"ledger": str(tmp_path / "people.ledger"), "name": "people"}
    with database_of(path, where) as db:
        db.ask(Query(by="region"))
        assert db.estimate(Query(where="region = 'north'"))
    people(1_500).to_parquet(path)
    with refresh(str(path), SCHEMA, reason="new rows", **where) as db:
        with pytest.raises(NotKnown):
            db.estimate(Query(where="region = 'north'"))
        db.ask(Query(by="region"))
        found = db.estimate(Query(where="region = 'north'"))
        assert found.std > 0
        assert "already" in str(db.price(Query(where="region = 'north'")))


def database_of(path, where):
    return sulq.open(str(path), SCHEMA, epsilon=10.0, queries=50, delta=1e-6, **where)


def test_only_one_analysts_answers_where_that_is_wanted():
    """An estimate can show what others asked; it need not."""
    db = database()
    db.as_analyst("ann").ask(Query(by="region"))
    question = db.question(Query(where="region = 'north'"))
    assert db.estimated(question, analyst="ann").std > 0
    with pytest.raises(NotKnown):
        db.estimated(question, analyst="bob")


def test_an_audited_table_has_no_estimates():
    """Its answers are exact sums; what they tell together is what the auditor watches over."""
    db = sulq.open(
        ROWS[["id", "smoker"]], {"columns": {"id": {"key": True}, "smoker": {"type": "boolean"}}},
        epsilon=1.0, delta=1e-6, queries=10, mode="audited", rule="duan", independent_rows=True,
        ledger=":memory:",
    )  # fmt: skip
    with pytest.raises(sulq.QueryNotAllowed, match="audited table"):
        db.estimate(Query(where="smoker"))


# ---- combining ------------------------------------------------------------------------------


def test_a_combined_answer_is_nearer_for_the_same_price():
    """Its variance is that of least squares, its price that of the question alone."""
    db, alone = database(), database()
    db.crosstab(["region", "smoker"])
    plain = alone.count("smoker")
    both = db.count("smoker", combine=True)
    margin = 4 * plain.std**2  # of four cells, where the total does not help
    assert both.price == plain.price
    assert both.value == pytest.approx(plain.value)
    assert 1 / both.std**2 > 1 / plain.std**2 + 0.99 / margin
    assert "combined" in both.note
    assert db.count("smoker").std == plain.std  # what is stored is the answer itself


def test_everything_that_asks_can_combine():
    """Sums, means, tables and SELECTs; a list is asked as it is."""
    db = database()
    db.crosstab(["region", "smoker"])
    db.ask(Query(("income",), by="region"))
    for combined, plain in (
        (db.sum("income", combine=True), db.sum("income")),
        (db.mean("income", "smoker", combine=True), db.mean("income", "smoker")),
        (db.mean("income", combine=True), db.mean("income")),
    ):
        assert combined.value == pytest.approx(plain.value, rel=1e-6)
        assert combined.std <= plain.std * (1 + 1e-9)
        assert combined.price == plain.price
    together, alone = db.histogram("region", combine=True), db.histogram("region")
    assert (
        together["count_high"][0] - together["count"][0]
        < alone["count_high"][0] - alone["count"][0]
    )
    text = "select count(*) as c, avg(income) as a from people where region = 'north'"
    together, alone = db.sql(text, combine=True), db.sql(text)
    assert together["c_high"][0] < alone["c_high"][0]
    assert together.price == alone.price
    with pytest.raises(sulq.QueryNotAllowed, match="one query"):
        db.ask([Query()], combine=True)


def test_combined_answers_are_never_measurements():
    """Combining twice counts no answer twice."""
    db = database()
    first = db.count("smoker", combine=True)
    assert db.count("smoker", combine=True).std == pytest.approx(first.std)
    assert db.estimate(Query(where="smoker")).std == pytest.approx(first.std)


# ---- honest intervals -----------------------------------------------------------------------


RUNS = 40
FEW = SCHEMA | {"columns": SCHEMA["columns"] | {"age": {"type": "integer", "low": 0, "high": 9}}}
QUESTIONS = (
    Query(where="smoker"), Query(by="region"), Query(where="age < 4"),
    Query(("age",), where="smoker"), Query(where="age < 4 and smoker"),
)  # fmt: skip


def pulls():
    """Errors of estimates in their own standard deviations, over databases with real noise."""
    rows = ROWS.assign(age=ROWS.age // 10)
    silent = opened(rows, FEW, guarantee="dp")
    exact = [silent.ask(q).values for q in QUESTIONS]
    found = [[] for _ in QUESTIONS]
    for _ in range(RUNS):
        db = opened(rows, FEW, guarantee="dp", quiet=False)
        db.crosstab(["region", "smoker"])
        db.ask(Query(by=("smoker", sulq.Bins("age", (0, 2, 4, 6, 9)))))
        db.marginals(["region", "smoker"], 1)
        db.ask(Query(("age", "1"), by="smoker"))
        db.count("smoker or age < 4")
        for at, (query, wanted) in enumerate(zip(QUESTIONS, exact, strict=True)):
            answer = db.estimate(query)
            found[at].append((answer.values - wanted)[0, 0] / answer.stds[0][0])
    return found


def fits(each):
    """Are they of the size of a standard normal? Sums of squares, each end at 1e-7 a question."""
    squares = [float(np.square(p).sum()) for p in each]
    tails = [min(stats.chi2.sf(s, RUNS), stats.chi2.cdf(s, RUNS)) for s in squares]
    return min(tails) > 1e-7


def test_intervals_are_as_wide_as_the_errors():
    """Errors are of the size that an estimate says. False alarm: 1e-6 a run.

    The same check rejects standard deviations of half and of three times the size.
    """
    found = pulls()
    assert fits(found)
    assert not fits([[2 * p for p in each] for each in found])
    assert not fits([[p / 3 for p in each] for each in found])


def test_the_ratio_of_two_numbers_knows_how_their_errors_hang_together():
    """avg(smoker) from a table: its interval is that of the delta method, from the covariance."""
    db = database()
    db.crosstab(["region", "smoker"])
    found = db.estimate("select avg(smoker) as a from people where region = 'north'")
    answer = db.ask(Query(by=("region", "smoker")))
    cells = {c: v for c, v in zip(answer.cells, answer.values[:, 0], strict=True)}
    yes, no = cells["north", True], cells["north", False]
    # The number of rows adds one more form, which takes a twelfth of each cell's variance away.
    share, n = yes / (yes + no), yes + no
    slopes = np.array([1 - share, -share]) / n
    variance = answer.stds[0][0] ** 2 * (slopes @ slopes - slopes.sum() ** 2 / 12)
    half = (found["a_high"][0] - found["a_low"][0]) / 2
    assert half == pytest.approx(1.96 * np.sqrt(variance), rel=1e-3)


def test_least_squares_is_what_the_textbook_says():
    """Estimates and variances of random systems, against a dense pseudo-inverse."""
    rng = np.random.default_rng(3)
    for rows, unknowns, exact in itertools.product((4, 12), (3, 8), (1, 2)):
        a = rng.integers(0, 2, (rows, unknowns)).astype(float)
        c = np.array([[1.0] * unknowns, [*[0.0] * (unknowns - 1), 1.0]])[:exact]  # independent
        x, noise = rng.normal(size=unknowns), rng.normal(size=rows)
        w = rng.normal(size=(2, rows)) @ a + rng.normal(size=(2, exact)) @ c  # which is told
        numbers, reach = least_squares(sparse.csr_array(a), a @ x + noise, c, c @ x, w)
        free = np.eye(unknowns) - np.linalg.pinv(c) @ c
        start = np.linalg.pinv(c) @ (c @ x)
        within = a @ free
        solved = start + free @ np.linalg.pinv(within, 1e-10) @ (a @ (x - start) + noise)
        np.testing.assert_allclose(numbers, w @ solved, atol=1e-6)
        covariance = w @ free @ np.linalg.pinv(within.T @ within, 1e-10) @ free @ w.T
        np.testing.assert_allclose(reach.T @ reach, covariance, atol=1e-6)


def test_what_is_almost_told_is_not_told():
    """A form that leaves the rows' span by one unknown has no estimate."""
    a = sparse.csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
    none, total = np.zeros((0, 3)), np.zeros(0)
    assert least_squares(a, np.zeros(2), none, total, np.array([[1.0, 0.0, 0.0]])) is None
    assert least_squares(a, np.zeros(2), none, total, np.array([[1.0, 0.0, -1.0]])) is not None

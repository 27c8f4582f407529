"""Prices, exact to the micro-query, and what they are charged to."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
from helpers import opened

import sulq

MICRO = 1_000_000
SCHEMA = {
    "id": {"type": "integer", "key": True},
    "region": {"values": ["north", "south", "east"], "public": True},
    "smoker": {"type": "boolean"},
    "age": {"type": "integer", "low": 0, "high": 120},
    "income": {"type": "number", "low": 0, "high": 1000},
    "score": {"type": "number", "low": -2, "high": 6, "nullable": False},
    "loss": {"type": "number", "low": -3, "high": -1, "nullable": False},
    **{f"x{i}": {"type": "number", "low": 0, "high": 1, "nullable": False} for i in range(6)},
}
TABLE = pa.table(
    {
        "id": range(6),
        "region": ["north", "south", "east"] * 2,
        "smoker": [True, False] * 3,
        "age": range(6),
        "income": [1.0] * 6,
        "score": [0.5] * 6,
        "loss": [-2.0] * 6,
    }
    | {f"x{i}": [i / 6] * 6 for i in range(6)}
)
PROMISES = {
    "beliefs": {},
    "dp": {"guarantee": "dp"},
    "laplace": {"noise": "laplace", "delta": 0},
    "binomial": {"noise": "binomial"},
    "stitched": {"noise": "stitched"},
}
COLUMNS = [f"x{i}" for i in range(6)]


@pytest.fixture(scope="module")
def databases():
    return {name: opened(TABLE, SCHEMA, queries=100, **terms) for name, terms in PROMISES.items()}


def _table():
    q, ten = sulq.Query, [f"age > {i}" for i in range(10)]
    every = ("beliefs", "dp", "laplace", "binomial", "stitched")
    both = ("beliefs", "dp", "laplace", "stitched")
    return [
        # the question, and its price under each promise
        (q(), dict.fromkeys(every, 0)),  # public
        (q(["smoker"]), dict.fromkeys(every, 1)),
        (q(where="smoker"), dict.fromkeys(every, 1)),
        (q(["age"]), dict.fromkeys(both, 1)),
        (q(["score"]), dict.fromkeys(both, 1)),
        (q(["score"], where="smoker"), dict.fromkeys(both, 1)),
        (q(["loss"], where="smoker"), dict.fromkeys(both, 1)),
        (q(by="smoker"), {"beliefs": 2, "dp": 1, "laplace": 2, "binomial": 2, "stitched": 2}),
        (q(by="age"), {"beliefs": 2, "dp": 1, "laplace": 2, "binomial": 2, "stitched": 2}),
        (q(by=["smoker", "age"]), {"beliefs": 2, "dp": 1, "laplace": 2}),
        (q(by=sulq.Bins("income", range(0, 1001, 10))), {"beliefs": 2, "dp": 1, "laplace": 2}),
        (q(by="region"), dict.fromkeys(every, 0)),
        (q(by="region", where="smoker"), dict.fromkeys(every, 1)),
        (q(by=["region", "smoker"]), {"beliefs": 2, "dp": 1, "laplace": 2}),
        (q(by=sulq.Blocks(1, 50)), dict.fromkeys(every, 0)),
        (q(["smoker"], by=sulq.Blocks(1, 50)), dict.fromkeys(every, 1)),
        (q(["smoker"], rows=sulq.Rows.blocks(1, 50)), dict.fromkeys(every, 1)),
        (q(rows=sulq.Rows.sample(1, 0.1)), dict.fromkeys(every, 0)),
        (q(["smoker"], rows=sulq.Rows.sample(1, 0.1)), dict.fromkeys(every, 1)),
        (q(ten), dict.fromkeys(every, 10)),
        (
            q(ten, by="smoker"),
            {"beliefs": 20, "dp": 10, "laplace": 20, "binomial": 20, "stitched": 20},
        ),
        (q(ten, by="region"), dict.fromkeys(every, 10)),
        (
            q(["age", "income"], weights=[2, Fraction(1, 2)]),
            {"beliefs": Fraction(17, 4), "dp": Fraction(17, 4), "laplace": Fraction(5, 2)},
        ),
        (q(sulq.Mean("income")), {"beliefs": 1, "dp": 1, "laplace": 1, "stitched": 2}),
        (
            q(sulq.Mean("score"), where="smoker"),
            {"beliefs": 1, "dp": 1, "laplace": 1, "stitched": 2},
        ),
        (
            q(sulq.Mean("smoker"), where="age > 3"),
            {"beliefs": 1, "dp": 1, "laplace": 1, "binomial": 2, "stitched": 2},
        ),
        # d columns about 1/2: B^2 = d/4, so (a, b*y) costs a^2 + b^2 d/4, or b^2 d between rows
        (q(sulq.Sums(COLUMNS)), {"beliefs": 6, "dp": Fraction(5, 2), "laplace": 6}),
        (q(sulq.Sums(COLUMNS), by="smoker"), {"beliefs": 6, "dp": Fraction(5, 2), "laplace": 8}),
        (q(sulq.Sums(COLUMNS, row_norm=0.5)), {"beliefs": Fraction(5, 4), "dp": Fraction(5, 4)}),
        (q(sulq.Sums(COLUMNS, row_norm=0.5), weights=[1, 4]), {"beliefs": 16, "dp": 5}),
        (
            q(sulq.Sums(["x0", "x1"]), by=sulq.NearestCentre(["x0"], [(0,), (1,)])),
            {"beliefs": 3, "dp": Fraction(3, 2)},
        ),
        # d^2/16 and d^2/8
        (q(sulq.Products(COLUMNS)), {"beliefs": Fraction(36, 8), "dp": Fraction(36, 16)}),
        (q(sulq.Products(COLUMNS[:4])), {"beliefs": 2, "dp": 1}),
        (q(sulq.Products(COLUMNS, row_norm=1)), {"beliefs": 2, "dp": 1}),
        # with means: B^2 = 1, w^2 = 1: 2 (1 + 1/2)^2 and 1 + 1; w^2 = 4 > 2 B^2: 4 w^2 B^2
        (q(sulq.Products(COLUMNS[:4], mean_weight=1)), {"beliefs": Fraction(9, 2), "dp": 2}),
        (q(sulq.Products(COLUMNS[:4], mean_weight=2)), {"beliefs": 16, "dp": 5}),
        (q(sulq.Products(COLUMNS[:4]), by="smoker"), {"beliefs": 2, "dp": 1}),
    ]


CASES = [(q, name, p) for q, prices in _table() for name, p in prices.items()]


@pytest.mark.parametrize(("query", "promise", "price"), CASES, ids=lambda x: str(x)[:50])
def test_price_is_exact(databases, query, promise, price):
    """To the micro-query, as design section 4 states it."""
    found = databases[promise].price(query)
    assert found.micro == price * MICRO
    assert found.queries == price


@pytest.mark.parametrize("promise", PROMISES)
def test_what_is_asked_is_what_was_priced(databases, promise):
    """Asking charges exactly the price; asking again is free."""
    db = opened(TABLE, SCHEMA, queries=100, **PROMISES[promise])
    for query in (sulq.Query(by="smoker"), sulq.Query(["smoker", "age > 3"]), sulq.Query()):
        before = db.budget.spent
        price = db.price(query)
        answer = db.ask(query)
        assert answer.price == price
        assert db.budget.spent - before == price.queries
        db.ask(query)
        assert db.budget.spent - before == price.queries
    assert db.budget.spent + db.budget.remaining == db.budget.total == 100


@pytest.mark.parametrize(("promise", "share"), [("beliefs", 4), ("dp", 4), ("laplace", 2)])
@pytest.mark.parametrize("by", [None, "smoker"])
def test_twice_the_error_costs_a_quarter_or_a_half(databases, promise, share, by):
    """Variance over R for gaussian, its root for laplace; below one query if rough will do."""
    db = databases[promise]
    narrow, wide = (db.price(sulq.Query(by=by, where="smoker", error=e)).micro for e in (50, 100))
    assert abs(narrow - share * wide) <= share
    answer = opened(TABLE, SCHEMA, queries=100, **PROMISES[promise]).count("smoker", error=500)
    assert answer.price.queries < 1
    low, high = answer.interval()
    assert (high - low) / 2 == pytest.approx(500, rel=1e-3)


def test_a_price_rounds_up(databases):
    """Never a micro-query too little."""
    db = databases["beliefs"]
    exact = Fraction(db.promise.exact_variance)
    for error in (33, 77, 1234):
        wanted = db.price(sulq.Query(where="smoker", error=error)).queries
        variance = (Fraction(error) / Fraction(1.959963984540054)) ** 2
        assert wanted >= exact / variance * (1 - Fraction(1, 1000))


@pytest.mark.parametrize("noise", ["binomial", "stitched"])
def test_error_is_refused_where_the_variance_is_fixed(databases, noise):
    """Binomial and stitched noise have one variance for the life of the database."""
    db = databases[noise]
    for way in (lambda: db.price(sulq.Query(error=5)), lambda: db.count(error=5)):
        with pytest.raises(sulq.QueryNotAllowed, match="one variance"):
            way()
    assert db.budget.spent == 0


@pytest.mark.parametrize(
    "query",
    [
        sulq.Query(["age"]),
        sulq.Query(["score"]),
        sulq.Query(sulq.Sums(COLUMNS)),
        sulq.Query(sulq.Products(COLUMNS)),
        sulq.Query(["smoker", "smoker"], weights=[1, 2]),
    ],
)
def test_binomial_noise_is_for_counts(databases, query):
    """Coins hide whole steps of 0 and 1 only."""
    with pytest.raises(sulq.QueryNotAllowed, match="noise"):
        databases["binomial"].price(query)


def test_paper_pricing_charges_each_number():
    """pricing='paper': one query per released number, as the papers do."""
    db = opened(TABLE, SCHEMA, queries=1000, pricing="paper")
    assert db.price(sulq.Query()).queries == 0
    assert db.price(sulq.Query(["smoker"])).queries == 1
    assert db.price(sulq.Query(by="smoker")).queries == 3
    assert db.price(sulq.Query(["age", "income"], by="region")).queries == 8
    assert db.price(sulq.Query(sulq.Products(COLUMNS))).queries == 21
    db.histogram("age")
    assert db.budget.spent == db.price(sulq.Query(by=db.histogram_axis("age", None))).queries > 10


def test_a_query_on_one_region_leaves_the_others_untouched():
    """Rows outside S pay nothing: the ledger keeps spending per public cell."""
    db = opened(TABLE, SCHEMA, queries=10)

    def spent():
        return {c["region"]: c["spent"] for c in db.budget_by_cell()}

    db.count("smoker and region = 'north'")
    assert spent() == {"north": 1, "south": 0, "east": 0, None: 0}
    db.count("smoker", rows=sulq.Rows.where("region in ('south', 'north')"))
    assert spent() == {"north": 2, "south": 1, "east": 0, None: 0}
    db.count("smoker and (region = 'east' or age > 3)")  # not a term of its own: everybody
    assert spent() == {"north": 3, "south": 2, "east": 1, None: 1}
    db.count("smoker", rows=sulq.Rows.where("id < 3"))  # a key forms no cells: everybody
    assert spent() == {"north": 4, "south": 3, "east": 2, None: 2}
    db.count("region is null and smoker")
    assert spent() == {"north": 4, "south": 3, "east": 2, None: 3}
    assert db.budget.spent == 4
    assert db.budget.remaining == 6


def test_no_cell_may_exceed_the_total():
    """A region that is spent refuses; the others go on."""
    db = opened(TABLE, SCHEMA, queries=2)
    for i in range(2):
        db.count(f"region = 'north' and age > {i}")
    with pytest.raises(sulq.BudgetExceeded) as caught:
        db.count("region = 'north' and age > 2")
    assert (caught.value.price, caught.value.remaining) == (1, 0)
    db.count("region = 'south' and age > 2")
    with pytest.raises(sulq.BudgetExceeded):
        db.count("age > 2")
    assert db.budget_by_cell()[1]["spent"] == 1


def test_a_batch_costs_the_sum_and_a_repeat_nothing():
    """Equal questions in one batch are one question."""
    db = opened(TABLE, SCHEMA, queries=100)
    batch = [sulq.Query(["income"]), sulq.Query(by="smoker"), sulq.Query(["income"])]
    assert db.price(batch).queries == 3
    first, _, third = db.ask(batch)
    assert first.exact == third.exact
    assert db.budget.spent == 3


def test_looking_costs_nothing(databases):
    """price, budget, promise and history charge nothing."""
    db = opened(TABLE, SCHEMA, queries=100)
    db.price(sulq.Query()), db.budget, db.promise, db.history(), db.columns, repr(db)
    assert db.budget.spent == 0
    assert db.history() == []


def test_prices_add_and_print():
    """Exact fractions, whole micro-queries, words."""
    one, half = sulq.Price(MICRO), sulq.Price(MICRO // 2)
    assert (one + half).queries == Fraction(3, 2)
    assert str(one) == "1 query"
    assert str(half) == "0.5 queries"
    assert float(half) == 0.5

"""Two tables that differ in one row: all that can be seen is the same, but for the noise.

Prices, shapes, labels, their order, refusals, the budget and the ledger. No luck is involved.
"""

import datetime

import pytest
from attacks.harness import Silent, opened, people, replaced, visible

import sulq
from sulq import Bins, Blocks, Leaf, Mean, NearestCentre, Products, Query, Rows, Side, Sums

SCHEMA = {
    "id": {"key": True},
    "region": {"values": ["north", "south"], "public": True},
    "secret": {"type": "boolean"},
    "age": {"type": "integer", "low": 0, "high": 100},
    "income": {"type": "number", "low": 0, "high": 1000},
    "city": {"values": ["rome", "oslo"]},
    "born": {"type": "date", "low": "1900-01-01", "high": "2020-01-01"},
    "note": {"type": "text"},
}
OTHERS = {
    "an undeclared city": {"city": "atlantis"},
    "a city nobody else has": {"city": "oslo"},
    "nothing at all": {
        "secret": None, "age": None, "income": None, "city": None, "born": None, "note": None,
    },
    "far outside": {"age": 10**15, "income": 1e308, "born": datetime.date(9999, 12, 31)},
    "far below": {"age": -(10**15), "income": -1e308, "born": datetime.date(1, 1, 1)},
    "no number": {"income": float("nan")},
    "infinite": {"income": float("inf")},
    "long words": {"city": "x" * 100_000, "note": "'\"; DROP TABLE people; --"},
    "an empty text": {"city": "", "note": ""},
}  # fmt: skip


def table():
    """Everybody lives in Rome, so that one row can be the only one of its kind."""
    made = people(60, city=["rome"] * 60)
    born = [datetime.date(1950, 1, 1) + datetime.timedelta(days=i) for i in range(60)]
    return made.append_column("born", [born]).append_column("note", [["hello"] * 60])


REQUESTS = [
    lambda db: db.count(),
    lambda db: db.count("secret"),
    lambda db: db.count("secret is null"),
    lambda db: db.count("city = 'atlantis'"),
    lambda db: db.count("note like '%DROP%'"),
    lambda db: db.sum("income"),
    lambda db: db.sum("income / (age - 50)"),
    lambda db: db.sum("sqrt(income) + ln(age)"),
    lambda db: db.sum("age / income"),
    lambda db: db.sum("least(greatest(1 / income, 0), 1)"),
    lambda db: db.sum("age", "city = 'oslo' and region = 'north'"),
    lambda db: db.histogram("city"),
    lambda db: db.histogram("age"),
    lambda db: db.histogram("income", bins=[0, 10, 500]),
    lambda db: db.histogram("born"),
    lambda db: db.crosstab(["city", "region", "secret"]),
    lambda db: db.ask(Query(by=Bins("income", [0, 5, 10]), values=["age", "1"])),
    lambda db: db.ask(Query(by=NearestCentre(["age", "income"], [[0, 0], [1, 1]]))),
    lambda db: db.ask(Query(by=Side(["age"], [1.0], -0.5), values=Sums(["age", "income"]))),
    lambda db: db.ask(Query(by=Leaf({"column": "age", "threshold": 50}))),
    lambda db: db.ask(Query(by=Blocks(1, 7), where="secret")),
    lambda db: db.ask(Query(Products(["age", "income"]))),
    lambda db: db.ask(Query(Mean("income"), by="city")),
    lambda db: db.ask([Query(by="city"), Query(by="secret"), Query(by=["city", "secret"])]),
    lambda db: db.sum("year(born) - 1900"),
    lambda db: db.sum("length(note)"),
    lambda db: db.count("born > '1950-01-20'", rows=Rows.sample(3, 0.5)),
    lambda db: db.sum("length(note) * 1e300"),
    lambda db: db.sum("income + "),
    lambda db: db.sum("note"),
    lambda db: db.histogram("note"),
    lambda db: db.count("nobody > 3"),
    lambda db: db.ask(Query(by="city"), request_id="r"),
    lambda db: db.ask(Query(by="region"), request_id="r"),
    lambda db: db.sql("select city, count(*), avg(income) from frame group by city"),
    lambda db: db.sql("select city, secret, count(*) from frame group by cube (city, secret)"),
    lambda db: db.marginals(["city", "secret", "age"], 2)["city", "age"],
    lambda db: db.marginals(["city", "secret"], 1, where="age > 50", consistent=True)["city",],
    lambda db: db.sql("select city from frame"),
    lambda db: db.price(Query(by="city")),
    lambda db: db.budget,
    lambda db: db.budget_by_cell(),
    lambda db: db.rows,
    lambda db: db.columns,
    lambda db: repr(db),
    lambda db: [(c.number, c.query, c.price, c.remaining, c.request) for c in db.history()],
    lambda db: [e.kind for e in db._ledger.entries()],
    lambda db: [db.count(f"secret and id <> {i}") for i in range(200)],
    lambda db: db.count("secret"),
]


def everything(rows):
    db = opened(rows, SCHEMA, queries=60)
    return [visible(lambda r=request: r(db)) for request in REQUESTS]


@pytest.mark.parametrize("other", OTHERS)
def test_twins_look_alike(other):
    """Everything visible but the noisy numbers is the same for any two values of a row."""
    one, two = everything(table()), everything(replaced(table(), 17, **OTHERS[other]))
    for i, (a, b) in enumerate(zip(one, two, strict=True)):
        assert a == b, f"request {i}"
    answered = sum(not (isinstance(a, tuple) and isinstance(a[0], str)) for a in one)
    assert answered > len(REQUESTS) // 2


def test_control_group_keys_from_the_rows_are_caught():
    """A database that shows only groups with a row in them tells who is alone in one."""

    def leaky(rows):
        db = opened(rows, SCHEMA, Silent())
        found = db.histogram("city")
        return [label for label, count in zip(found["city"], found["count"], strict=True) if count]

    assert leaky(table()) != leaky(replaced(table(), 17, city="atlantis"))


def test_the_other_cell_is_always_there():
    """Undeclared and missing values have one place, shown whether or not anyone is in it."""
    for rows in (table(), replaced(table(), 17, city="atlantis")):
        assert opened(rows, SCHEMA).histogram("city")["city"] == ["rome", "oslo", "(other)"]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
def test_below_the_noise_twins_differ_by_no_more_than_was_paid(other, guarantee):
    """Exact sums differ by at most what the price says, in units of the noise. Exact."""
    rows = table(), replaced(table(), 17, **OTHERS[other])
    one, two = (opened(r, SCHEMA, Silent(), queries=10**6, guarantee=guarantee) for r in rows)
    unit = one.promise.std
    for i, request in enumerate(REQUESTS[:28]):
        try:
            a, b = request(one), request(two)
        except sulq.Refused:
            continue
        if isinstance(a, sulq.Answer) and a.public:
            assert a.exact == b.exact, f"request {i}"
        elif isinstance(a, sulq.Answer):
            moved = ((a.values - b.values) / a.stds * unit).ravel() @ (
                (a.values - b.values) / a.stds * unit
            ).ravel()
            # Under dp the price is that of one row against none: two rows, at most four times.
            most = float(a.price.queries) * (4 if guarantee == "dp" else 1)
            assert moved <= most * (1 + 1e-6), f"request {i}"

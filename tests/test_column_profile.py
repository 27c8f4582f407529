"""What each column looks like, for one stated price."""

import datetime
import itertools
import tomllib

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from sklearn import datasets
from soak import times

from sulq.errors import QueryNotAllowed
from sulq.values.schema import Schema

N = 20_000
RANDOM = np.random.default_rng(5)
GAPS = RANDOM.random(N) < 0.25
ROWS = pa.table(
    {
        "id": np.arange(N),
        "wage": RANDOM.lognormal(7, 1, N),
        "debt": -RANDOM.lognormal(3, 2, N),
        "visits": RANDOM.integers(0, 40, N),
        "born": [datetime.date(1950 + i % 50, 6, 1) for i in range(N)],
        "age": pa.array(np.where(GAPS, np.nan, RANDOM.integers(18, 90, N)), from_pandas=True),
        "smoker": RANDOM.random(N) < 0.3,
        "city": RANDOM.choice(["a", "b", "x"], N),
        "note": ["word"] * (N // 2) + [None] * (N // 2),
        "none": pa.nulls(N, pa.float64()),
    }
)
SCHEMA = {
    "id": {"key": True}, "wage": {"type": "number"}, "debt": {"type": "number"},
    "visits": {"type": "integer"}, "born": {"type": "date"},
    "age": {"type": "number", "low": 0, "high": 128}, "smoker": {"type": "boolean"},
    "city": {"values": ["a", "b"]}, "note": {"type": "text"}, "none": {"type": "number"},
}  # fmt: skip
FEW = {"queries": 40}
PROMISES = [
    FEW, FEW | {"guarantee": "dp"}, FEW | {"noise": "laplace"}, FEW | {"noise": "stitched"},
]  # fmt: skip


@pytest.mark.parametrize("terms", PROMISES)
def test_without_noise_it_is_what_the_rows_say(terms):
    """Every share, quartile and range; numbers and dates need no declared ends."""
    db = opened(ROWS, SCHEMA, **terms)
    found = db.profile()
    for name in ("wage", "debt", "visits", "age"):
        values = ROWS[name].drop_null().to_numpy()
        low, high = found[name].range
        assert np.mean((values >= low) & (values <= high)) > 0.9  # a tail below the noise is not
        for between, share in zip(found[name].quartiles, (0.25, 0.5, 0.75), strict=True):
            assert between.low <= np.quantile(values, share) <= between.high
    assert found["age"].missing.value == pytest.approx(GAPS.mean())
    assert found["smoker"].shares[True].value == pytest.approx(np.mean(ROWS["smoker"]))
    assert found["city"].missing.value == pytest.approx(np.mean(ROWS["city"].to_numpy() == "x"))
    assert found["note"].missing.value == 0.5
    assert found["none"].missing.value == 1.0
    assert found["none"].range is None
    low, high = found["born"].range
    assert low <= datetime.date(1953, 6, 1)
    assert high >= datetime.date(1996, 6, 1)


@pytest.mark.parametrize("terms", PROMISES[:3])
@pytest.mark.parametrize("budget", [None, 2.5, 30])
def test_the_price_is_stated_and_is_what_is_spent(terms, budget):
    """At most the budget, within a hundredth of it; one question of the ledger; then free."""
    db = opened(ROWS, SCHEMA, **terms)
    price = db.profile_price(budget=budget)
    assert db.budget.spent == 0
    wanted = len(SCHEMA) - 1 if budget is None else budget
    assert 0.99 * wanted <= float(price.queries) <= wanted
    found = db.profile(budget=budget)
    assert db.budget.spent == price.queries == found.price.queries
    assert len(db.history()) == 1
    assert db.profile(budget=budget) == found
    assert db.budget.spent == price.queries


def test_two_hundred_columns_are_one_scan(monkeypatch):
    """However many columns there are."""
    many = pa.table({f"c{i}": RANDOM.lognormal(i % 7, 1, 5000) for i in range(200)})
    db = opened(many, {name: {"type": "number"} for name in many.column_names}, queries=20)
    scans = []
    read = db._pipeline.engine.sums
    monkeypatch.setattr(db._pipeline.engine, "sums", lambda q: scans.append(len(q)) or read(q))
    found = db.profile(budget=20)
    assert scans == [200]
    assert found["c3"].range[0] <= 20 <= found["c3"].range[1]


@pytest.mark.parametrize("terms", PROMISES[:2])
def test_bins_say_how_many_values_lie_between_their_ends(terms):
    """Between the ends of the range, side by side; numbers, dates, declared ranges; in JSON too."""
    found = opened(ROWS, SCHEMA, **terms).profile()
    for name in ("wage", "debt", "visits", "age"):
        bins, values = found[name].bins, ROWS[name].drop_null().to_numpy()
        assert (bins[0].low, bins[-1].high) == found[name].range
        assert all(a.high == b.low for a, b in itertools.pairwise(bins))
        for each in bins:
            last = each.high + (each.high == SCHEMA[name].get("high"))
            right = np.mean((values >= each.low) & (values < last))
            assert each.share.value == pytest.approx(right, abs=0.01)
            assert each.share.low - 1e-3 <= right <= each.share.high + 1e-3
    assert sum(each.share.value for each in found["born"].bins) == pytest.approx(1, abs=0.02)
    said = found["born"].to_json()["bins"][0]
    assert set(said) == {"low", "high", "share", "low_share", "high_share"}
    assert said["low"] == found["born"].range[0].isoformat()
    assert "bins " in str(found["wage"])
    assert found["note"].bins == found["smoker"].bins == found["none"].bins == ()


def test_a_profile_is_drawn(tmp_path):
    """Bins, or the shares of declared values, with their intervals; a text has neither."""
    found = opened(ROWS, SCHEMA, **FEW).profile()
    assert "1,000 to 2,000" in found["wage"].plot(tmp_path / "wage.svg").svg
    assert (tmp_path / "wage.svg").exists()
    assert ">true<" in found["smoker"].plot().svg
    with pytest.raises(QueryNotAllowed, match="no bins"):
        found["note"].plot()


def test_a_draft_is_a_schema_with_what_was_found():
    """What was declared stays; ends that were found say so; the same rows open with it."""
    db = opened(ROWS, SCHEMA, queries=9)
    text = db.profile().draft()
    assert text.count("# found") == 8
    schema = Schema.load(tomllib.loads(text))
    assert schema["age"] == Schema.load(SCHEMA)["age"]
    assert 0 < schema["wage"].low < 500 < 5000 < schema["wage"].high
    exact = float(np.sum(ROWS["visits"].to_numpy()))
    assert opened(ROWS, schema).sum("visits").value == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("budget", [0, -1, "x", float("nan"), True, []])
def test_a_budget_is_a_number_above_0(budget):
    """Refused before anything is charged."""
    db = opened(ROWS, SCHEMA)
    with pytest.raises(QueryNotAllowed, match="budget"):
        db.profile(budget=budget)
    assert db.history() == []


def test_a_table_of_a_key_alone_has_nothing_to_tell():
    """Refused in words."""
    with pytest.raises(QueryNotAllowed, match="but the key"):
        opened(ROWS.select(["id"]), {"id": {"key": True}}).profile()


REAL = ("load_diabetes", "load_breast_cancer", "load_wine", "load_iris", "load_digits")


@pytest.mark.parametrize("name", REAL[: times(2, 5)])
def test_quartiles_of_real_columns_lie_in_what_is_said(name):
    """1,000 rows drawn from real sets, epsilon 1, one query a column: 95% hold, and are near.

    Up to 60 quartiles of 95% each: fewer than 80% held has chance 1e-5.
    """
    X = getattr(datasets, name)().data
    X = X[np.random.default_rng(0).integers(0, len(X), 1000)][:, : times(6, 20)]
    table = pa.table({f"x{i}": column for i, column in enumerate(X.T)})
    schema = {n: {"type": "number"} for n in table.column_names}
    db = opened(table, schema, quiet=False, queries=len(schema))
    held = [
        between.low <= np.quantile(table[c.name].to_numpy(), share, method="inverted_cdf")
        <= between.high
        for c in db.profile().columns
        for between, share in zip(c.quartiles, (0.25, 0.5, 0.75), strict=False)
    ]  # fmt: skip
    assert np.mean(held) >= 0.8


def test_how_many_rows_people_have():
    """Where a [unit] says whose rows are whose: its quartiles, and a comment in the draft."""
    owners = [p for p in range(4000) for _ in range(1 + p % 4)]
    rows = pa.table({"id": range(len(owners)), "who": owners, "x": [1.5] * len(owners)})
    schema = {
        "columns": {"id": {"key": True}, "who": {"type": "integer"}, "x": {"type": "number"}},
        "unit": {"column": "who", "max_rows": 3},
    }
    db = opened(rows, schema, **FEW)
    assert db.profile_price().queries <= 2  # x, and rows per person
    found = db.profile()
    assert [c.name for c in found.columns] == ["x"]
    assert found.rows_per_person.range == (1, 6)
    for between, right in zip(found.rows_per_person.quartiles, (1, 2, 3), strict=True):
        assert between.low <= right < between.high
    assert "nearly all at most 6" in found.draft()
    assert Schema.load(tomllib.loads(found.draft())).unit == Schema.load(schema).unit
    people = db.per_person({"n": "count(*)"})
    assert people.profile(budget=1).rows_per_person is None


@pytest.mark.parametrize("days", [1, 2, 60, 255, 256, 257, 12_000])
def test_dates_of_any_range_have_a_profile(days):
    """Short ranges too: their cells rise, from the first day to the last."""
    first = datetime.date(2020, 1, 1)
    last = first + datetime.timedelta(days)
    table = pa.table({"d": [first, last] * 200})
    with opened(table, {"d": {"type": "date", "low": first, "high": last}}, epsilon=9.0) as db:
        found = db.profile(budget=200)["d"]
    assert found.range == (first, last)

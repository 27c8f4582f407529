"""People in several periods: in how many they count, who pays how much, and that T holds."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from helpers import SilentNoise
from soak import times
from test_append_rows import KilledError, killed_at, ledger

import sulq
from sulq.errors import MICRO
from sulq.open_database import append, refresh
from sulq.privacy.toeplitz import weights
from sulq.values.query import Running

MONTHS = [f"{year}-{month:02}" for year in (2026, 2027) for month in range(1, 13)]
PEOPLE = 12


def schema(periods=2, max_rows=1, months=MONTHS):
    return {
        "columns": {
            "id": {"key": True},
            "person": {"type": "integer", "low": 0, "high": 99},
            "month": {"values": months, "public": True},
            "sick": {"type": "boolean"},
            "age": {"type": "integer", "low": 0, "high": 99},
        },
        "period": {"column": "month"},
        "unit": {"column": "person", "max_rows": max_rows, "max_periods": periods},
    }


def rows(month, each=1, people=PEOPLE):
    """Everybody is there every month, with so many rows; all sick."""
    at, person = MONTHS.index(month), np.repeat(np.arange(people), each)
    key = at * 1000 + np.arange(len(person))
    return pd.DataFrame({"id": key, "person": person, "month": month, "sick": True, "age": at})


def opened(path, declared, queries=30):
    db = sulq.open(path, declared, epsilon=1.0, queries=queries, ledger=ledger(path))
    return silent(db)


def silent(db):
    db._pipeline.noise = SilentNoise()
    return db


def spent(db):
    return {c["month"]: int(c["spent"] * MICRO) for c in db.budget_by_cell() if c["month"]}


@pytest.fixture
def source(tmp_path):
    rows(MONTHS[0]).to_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def month(number):
    return f"month = '{MONTHS[number]}'"


def test_rows_beyond_are_left_out_by_a_public_rule(source):
    """Of a person's months the first two count, of the rows in each the first by key."""
    db = opened(source, schema())
    for at in (1, 2):
        db = silent(db.append(rows(MONTHS[at], each=3)))
    assert [db.count(f"sick and {month(i)}").value for i in range(3)] == [12, 12, 0]
    new = pd.concat([rows(MONTHS[3]), rows(MONTHS[3], people=20).iloc[12:]])
    new["id"] = 5000 + np.arange(len(new))
    db = silent(db.append(new))
    assert db.count(f"sick and {month(3)}").value == 8  # those who were not there before
    assert db.periods == MONTHS[:4]  # all months that have rows, whoever counts in them
    assert db.rows == 12 + 12 + 8


def test_a_question_over_several_periods_costs_each_so_many_times(source):
    """One period: its own price. Two: twice, in each. By period: its own price, in each."""
    db = opened(source, schema(periods=3))
    for at in (1, 2, 3):
        db = silent(db.append(rows(MONTHS[at])))
    asked = {
        f"sick and {month(0)}": 1,
        f"sick and ({month(0)} or {month(1)})": 2,
        f"sick and month in ('{MONTHS[0]}', '{MONTHS[1]}', '{MONTHS[2]}', '{MONTHS[3]}')": 3,
        "sick": 3,
    }
    for where, price in asked.items():
        assert db.price(sulq.Query(where=where)).queries == price
    assert db.price(sulq.Query(by="month", where="sick")).queries == 1
    assert db.price(sulq.Query(by=("month", "sick"))).queries == 2
    assert db.price(sulq.Query(by="sick")).queries == 6
    assert db.price("select count(distinct person) from t where sick").queries == 1
    assert db.running_price("count(*)", "sick").queries == 3
    loud = sulq.open(
        pd.read_parquet(source), schema(periods=3), epsilon=1.0, queries=9, noise="laplace"
    )
    assert loud.price(sulq.Query(where="sick")).queries == 1  # what adds up is not squared
    with pytest.raises(sulq.PromiseError, match="one row per person"):
        sulq.open(pd.read_parquet(source), schema(), epsilon=1.0, queries=9, noise="binomial")


def test_a_bin_of_several_periods_costs_as_their_sum_does():
    """Somebody in three years moves the count of a bin that has them all by three."""
    years = [2020, 2021, 2022, 2023]
    declared = schema(periods=3)
    declared["columns"]["month"]["values"] = years
    table = pd.concat([rows(MONTHS[0])] * 4)
    table["id"], table["month"] = np.arange(len(table)), np.repeat(years, PEOPLE)
    with sulq.open(table, declared, epsilon=1.0, queries=9, ledger=":memory:") as db:
        for edges in ([2019, 2025], [2020, 2022, 2024]):
            asked = sulq.Query(by=sulq.Bins("month", edges), where="sick")
            assert db.price(asked).queries == 3
        assert db.price(sulq.Query(by="month", where="sick")).queries == 1


def test_the_sum_of_the_largest_periods_is_within_the_total(source):
    """T = 5, two periods: 3 and 2 fill it; a third month has what beside 3 is left."""
    db = opened(source, schema(), queries=5)
    for at in (1, 2):
        db = silent(db.append(rows(MONTHS[at])))
    for i in range(3):
        db.count(f"sick and age > {i} and {month(0)}")
    for i in range(2):
        db.count(f"sick and age > {i} and {month(1)}")
    assert db.budget.remaining == 0
    left = {c["month"]: c["remaining"] for c in db.budget_by_cell()}
    assert [left[m] for m in MONTHS[:3]] == [0, 0, 2]
    with pytest.raises(sulq.BudgetExceeded) as refused:
        db.count(f"sick and age > 9 and {month(1)}")
    assert (refused.value.price, refused.value.remaining) == (1, 0)
    for i in range(2):
        db.count(f"sick and age > {i} and {month(2)}")
    with pytest.raises(sulq.BudgetExceeded):
        db.count(f"sick and age > 2 and {month(2)}")
    assert db.verify()


def test_a_question_about_people_is_charged_once(source):
    """Each has one row whatever the months: it costs one, not one for every month."""
    db = opened(source, schema())
    db = silent(db.append(rows(MONTHS[1])))
    view = db.per_person({"visits": "count(*)", "oldest": "max(age)"})
    assert view.count("visits >= 2 and oldest >= 1").value == 12
    assert db.budget.spent == 1
    assert set(spent(db).values()) == {MICRO}
    db.count(f"sick and {month(0)}")
    assert db.budget.spent == 2


def test_a_refresh_carries_what_anybody_may_have_spent(source):
    """A person may be in other months then: all carry the sum of the two that spent most."""
    db = opened(source, schema(), queries=9)
    db = silent(db.append(rows(MONTHS[1])))
    for i in range(3):
        db.count(f"sick and age > {i} and {month(0)}")
    db.count(f"sick and {month(1)}")
    db.close()
    table = pd.read_parquet(source)
    table["month"] = table["month"].replace({MONTHS[0]: MONTHS[1], MONTHS[1]: MONTHS[0]})
    table.to_parquet(source)
    with refresh(source, ledger=ledger(source), reason="swapped") as db:
        assert db.budget.spent == 4
        assert set(spent(db).values()) == {4 * MICRO}
        with pytest.raises(sulq.SchemaError, match="max_periods"):
            refresh(source, schema(periods=3), ledger=ledger(source), reason="more")


def test_months_open_in_their_order(source):
    """An earlier one would take the place of one that has counted."""
    db = opened(source, schema())
    db = db.append(rows(MONTHS[2]))
    with pytest.raises(sulq.Refused, match="would open behind"):
        db.append(rows(MONTHS[1]))
    rows(MONTHS[1]).assign(id=np.arange(12) + 9000).to_parquet(source.with_name("b.parquet"))
    table = pd.concat([pd.read_parquet(source), pd.read_parquet(source.with_name("b.parquet"))])
    db.close()
    table.to_parquet(source)
    with pytest.raises(sulq.Refused, match="would open behind"):
        append(source, ledger=ledger(source))


def test_what_must_be_declared_says_so(tmp_path, source):
    """max_periods with [unit] and [period], and only then; not in a group."""
    plain = schema()
    with pytest.raises(sulq.SchemaError, match="add \\[period\\]"):
        sulq.Schema.load({k: v for k, v in plain.items() if k != "period"})
    with pytest.raises(sulq.SchemaError, match="max_periods = 12"):
        sulq.Schema.load(plain | {"unit": {"column": "person", "max_rows": 1}})
    with pytest.raises(sulq.SchemaError, match="max_periods = 0"):
        sulq.Schema.load(schema(periods=0))
    with pytest.raises(sulq.Refused, match="cannot be in one"):
        sulq.open(source, plain, epsilon=1.0, queries=5, group="g")
    assert sulq.Schema.load(sulq.Schema.load(plain).to_json()) == sulq.Schema.load(plain)


# ---- a life, replayed for every person ------------------------------------------------------


class Replay:
    """What each person took part in: how far they moved every answer, squared and added up."""

    def __init__(self, periods, total):
        self.moved = dict.fromkeys(range(PEOPLE), Fraction(0))
        self.seen = {person: [] for person in range(PEOPLE)}  # the months a person counts in
        self.periods, self.total = periods, total
        self.running = {}  # the places of months, by stream

    def came(self, table):
        for person, when in zip(table["person"], table["month"], strict=True):
            known = self.seen[person]
            if when not in known and len(known) < self.periods:
                known.append(when)

    def counted(self, months, by=False):
        """A count of the sick over these months: everybody is sick, and so moves it by 1 each."""
        for person, known in self.seen.items():
            took = len(set(known) & set(months))
            self.moved[person] += took if by else took**2

    def totals(self, horizon, opened):
        """All strategy answers of a stream: a sum of columns, as far as periods have come."""
        c = weights(horizon)
        for person, known in self.seen.items():
            own = [MONTHS.index(m) for m in known if MONTHS.index(m) < horizon]
            last = min(horizon, opened)
            answers = (sum(c[t - j] for j in own if j <= t) for t in range(last))
            self.running[person] = sum(Fraction(y, 2**20) ** 2 for y in answers)

    def check(self):
        for person, moved in self.moved.items():
            assert moved + self.running.get(person, 0) <= self.total


def visits(luck, at):
    """The people of one month: some come often, some once."""
    there = np.flatnonzero(luck.random(PEOPLE) < np.linspace(0.15, 0.95, PEOPLE))
    if not len(there):
        there = np.array([PEOPLE - 1])
    key = at * 1000 + np.arange(len(there))
    return pd.DataFrame({"id": key, "person": there, "month": MONTHS[at], "sick": True, "age": at})


@pytest.mark.parametrize("periods", [1, 3])
def test_two_years_of_appends_with_kills_and_people(tmp_path, monkeypatch, periods):
    """Nobody outspends T: each person's part in every answer is replayed; spending is exact.

    Killed at every step of an append in turn. Totals run all the while.
    """
    luck, total = np.random.default_rng(7), 4 * periods**2
    path = tmp_path / "t.parquet"
    first = visits(luck, 0)
    first.to_parquet(path)
    db = opened(path, schema(periods), queries=total)
    replay, paid = Replay(periods, total), dict.fromkeys(MONTHS, 0)
    replay.came(first)
    stream = db.question(sulq.Query(Running("1", horizon=24), where="sick"))
    db.running("count(*)", "sick", horizon=24)
    paid[MONTHS[0]] += stream.price.micro
    points, refused = ["write", "ledger", "remember", "end"], 0
    for at in range(times(6, 24)):
        if at:
            new = visits(luck, at)
            with monkeypatch.context() as patch:
                killed_at(patch, points[at % 4])
                with pytest.raises(KilledError):
                    db.append(new)
            db.close()
            written = points[at % 4] != "write"
            db = silent(append(path, None if written else new, ledger=ledger(path)))
            replay.came(new)
            paid[MONTHS[at]] += db.history()[-1].price  # what the totals took when it opened
        opened_now = MONTHS[: at + 1]
        replay.totals(24, at + 1)
        assert len(db.running("count(*)", "sick", horizon=24).exact) == at + 1
        number = itertools.count(30)  # no age is that: everybody is counted, in other words
        for months in (opened_now[-1:], opened_now[-2:], opened_now[-1:], opened_now):
            where = f"sick and age <> {next(number)} and month in {(*months, months[0])}"
            price = db.price(sulq.Query(where=where)).micro
            assert price == min(periods, len(months)) * MICRO
            try:
                db.count(where)
            except sulq.BudgetExceeded:
                refused += 1
                continue
            replay.counted(months)
            for m in months:
                paid[m] += price
        assert spent(db) == paid
        top = sum(sorted(paid.values())[-periods:])
        assert db.budget.spent * MICRO == top <= total * MICRO
        replay.check()
    assert refused  # T was reached
    assert db.verify()


def test_the_replay_notices_a_price_that_is_too_low():
    """Were each period charged its own price only, people in three would outspend T."""
    replay = Replay(3, 3)
    for m in MONTHS[:3]:
        replay.came(rows(m))
    replay.counted(MONTHS[:3])  # moves by 3, so 9: 3 for each period is just enough
    with pytest.raises(AssertionError):
        replay.check()


def test_rows_beside_people_are_paid_in_every_period(source):
    """Of one question about both, the rows of each period pay: somebody in two moves it by two."""
    db = opened(source, schema(), queries=90)
    db = silent(db.append(rows(MONTHS[1])))
    old = sulq.Query(where="oldest > 1", per_person=sulq.PerPerson((("oldest", "max(age)"),)))
    db.ask([sulq.Query(where="sick"), old], together=True)
    assert set(spent(db).values()) == {0, 3 * MICRO}  # 2 and 1, in each of the two that are open
    assert db.budget.spent == 6
    price = db.profile_price().micro
    db.profile()
    assert db.budget.spent == 6 + Fraction(2 * price, MICRO)


def test_the_last_period_that_opens_makes_nothing_cheaper(source):
    """All cells are open then, which is not everybody once: people pay in each of their periods."""
    db = opened(source, schema(months=MONTHS[:2]), queries=9)
    db.count("sick")
    assert db.budget.spent == 2 * 2  # in the first month, and in none that is declared
    db = silent(db.append(rows(MONTHS[1])))
    db.count("sick")
    assert db.budget.spent == 2 * (2 + 2)
    with pytest.raises(sulq.BudgetExceeded) as refused:
        db.count("sick and age > 1")
    assert refused.value.remaining == Fraction(1, 2)
    assert db.verify()

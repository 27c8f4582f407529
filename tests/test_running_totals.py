"""Totals so far at every period: who pays for them, what stays, and what they are read off."""

import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers import SilentNoise
from seeded_noise import SeededNoise
from test_append_rows import MONTHS, SCHEMA, ledger, opened, rows, spent
from typer.testing import CliRunner

import sulq
from sulq.cli import app
from sulq.errors import MICRO
from sulq.ledger.ledger import Ledger
from sulq.open_database import append, refresh
from sulq.privacy.toeplitz import column_size, deviations
from sulq.questions.describe import readable
from sulq.values.query import Running

TRUE = [7, 13, 20, 27, 33, 40]  # of `rows`, month by month


@pytest.fixture
def source(tmp_path):
    rows(MONTHS[0]).to_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def silent(db):
    db._pipeline.noise = SilentNoise()
    return db


def numbers(found):
    return [float(row[0]) for row in found.exact]


def paid(period, horizon=24, whole=MICRO):
    """What a period pays that opens after the first: its own column."""
    return math.ceil(whole * column_size(horizon, period) / column_size(horizon, 0))


def test_every_period_pays_once_and_totals_go_on(source):
    """Asked again they are free; a month that opens pays for its column, no other pays again."""
    db = opened(source)
    assert db.running_price("count(*)", "sick").queries == 1
    assert numbers(db.running("count(*)", "sick", over="month")) == TRUE[:1]
    for at in (1, 2):
        db = silent(db.append(rows(MONTHS[at])))
        owed = {MONTHS[0]: MICRO} | {MONTHS[i]: paid(i) for i in range(1, at + 1)}
        assert spent(db) == dict.fromkeys(MONTHS, 0) | owed  # reserved when it opened
        assert numbers(db.running("count(*)", where="sick")) == TRUE[: at + 1]
        assert spent(db) == dict.fromkeys(MONTHS, 0) | owed
    assert db.running("count(*)", "sick").cells == tuple(MONTHS[:3])
    assert db.verify()
    assert readable(db.history()[0].query) == (
        "running totals of count by month where sick, answers of periods 1"
    )


def test_what_was_said_of_a_period_stays(source):
    """No fresh noise for old periods: their totals are the same to the last digit."""
    db = opened(source)
    db._pipeline.noise = SeededNoise(1)
    before = db.running("count(*)", "sick").exact
    for at in (1, 2, 3):
        db = db.append(rows(MONTHS[at]))
        db._pipeline.noise = SeededNoise(at + 1)
        after = db.running("count(*)", "sick").exact
        assert after[: len(before)] == before
        assert after == db.running("COUNT( * )", "not not sick", horizon=24).exact
        before = after


def test_a_sum_has_its_own_units_and_what_is_public_is_free(source):
    """sum(age) and count(age) are paid for; count(*) by month is no secret."""
    db = opened(source).append(rows(MONTHS[1]))
    silent(db)
    assert numbers(db.running("sum(age)")) == [190, 400]
    assert numbers(db.running("count(nullif(age, 5))", "sick")) == [7, 13]
    left = db.budget.remaining
    free = db.running("count(*)")
    assert numbers(free) == [20, 40]
    assert free.public
    assert db.budget.remaining == left


def test_errors_are_as_said(source):
    """A total's, and that of what came in between: narrower than two totals taken apart."""
    db = opened(source)
    for month in MONTHS[1:6]:
        db = db.append(rows(month))
    found = silent(db).running("count(*)", "sick")
    alone = db.promise.std
    assert [s for (s,) in found.stds] == pytest.approx([alone * d for d in deviations(24)[:6]])
    between = found.between(MONTHS[2], MONTHS[4])
    assert between.value == TRUE[4] - TRUE[1]
    assert between.std < math.hypot(found.stds[4][0], found.stds[1][0])
    assert found.between(MONTHS[0], MONTHS[4]).std == pytest.approx(found.stds[4][0])
    narrow = db.running(
        "count(*)", "sick", error=found.spread(0.95) * alone * deviations(24)[-1] / 2
    )
    assert narrow.stds[0][0] == pytest.approx(found.stds[0][0] / 2, rel=1e-4)
    assert narrow.price.queries == pytest.approx(4, rel=1e-4)
    table = found.table(names=("sick so far",))
    assert table["month"] == MONTHS[:6]
    assert table["sick so far"] == TRUE


def test_a_year_of_days_costs_one_query(tmp_path):
    """365 totals, mean variance at most 8 units, for the price of one count."""
    days = [f"{day:03}" for day in range(365)]
    schema = SCHEMA | {"columns": SCHEMA["columns"] | {"month": {"values": days, "public": True}}}
    frame = pd.concat([rows(MONTHS[0], 2).assign(month=day) for day in days])
    frame.to_parquet(tmp_path / "d.parquet")
    db = sulq.open(tmp_path / "d.parquet", schema, epsilon=1.0, queries=5)
    found = silent(db).running("count(*)", "sick")
    assert numbers(found) == list(range(1, 366))
    assert found.price.queries == 1
    mean = sum(s * s for (s,) in found.stds) / 365
    assert mean / float(db.promise.variance) <= 8


def test_gaps_and_starts(source):
    """A month without rows adds nothing; totals may begin later and end sooner."""
    db = opened(source).append(rows(MONTHS[2]))
    assert numbers(silent(db).running("count(*)", "sick")) == [7, 7, 14]
    later = db.running("count(*)", "sick", start=MONTHS[2], horizon=2)
    assert later.cells == (MONTHS[2],)
    assert numbers(later) == [7]
    with pytest.raises(sulq.Refused, match="would open behind"):
        db.append(rows(MONTHS[1]))  # it was said that nothing was there
    db = silent(db.append(rows(MONTHS[3])))
    assert numbers(db.running("count(*)", "sick", start=MONTHS[2], horizon=2)) == [7, 14]
    before = spent(db)[MONTHS[3]]
    db = silent(db.append(rows(MONTHS[4])))
    assert spent(db)[MONTHS[4]] == paid(4)  # the other stream has ended
    assert before == paid(3) + math.ceil(MICRO * column_size(2, 1) / column_size(2, 0))
    assert len(db.running("count(*)", "sick", start=MONTHS[2], horizon=2).exact) == 2


def test_what_cannot_be_asked_says_so(source):
    """Nothing is charged for it."""
    db = opened(source)
    wrong = [
        (("avg(age)",), {}, "want 'count"),
        (("count(*)", "sick and month = '2026-01'"), {}, "may not choose"),
        (("count(*)", "sick"), {"over": "age"}, "want the column of"),
        (("count(*)", "sick"), {"start": "2025-01"}, "none of the declared"),
        (("count(*)", "sick"), {"start": MONTHS[1]}, "has no rows"),
        (("count(*)", "sick"), {"horizon": 25}, "want 1 to 24"),
        (("count(*)", "sick"), {"horizon": "x"}, "want a number"),
    ]
    for said, more, why in wrong:
        with pytest.raises(sulq.QueryNotAllowed, match=why):
            db.running(*said, **more)
    asked = sulq.Query(Running("1"), where="sick")
    for several in ([asked, asked], [asked, sulq.Query(where="sick")]):
        with pytest.raises(sulq.QueryNotAllowed, match="by itself"):
            db.ask(several)
    with pytest.raises(sulq.QueryNotAllowed, match="no by="):
        db.ask(sulq.Query(Running("1"), by="sick"))
    plain = sulq.open(rows(MONTHS[0]), {"columns": SCHEMA["columns"]}, epsilon=1.0, queries=5)
    with pytest.raises(sulq.QueryNotAllowed, match="declares none"):
        plain.running("count(*)", "sick")
    loud = sulq.open(rows(MONTHS[0]), SCHEMA, epsilon=1.0, queries=5, noise="laplace")
    with pytest.raises(sulq.QueryNotAllowed, match="gaussian"):
        loud.running("count(*)", "sick")
    assert db.budget.spent == 0


def test_a_span_from_outside_is_not_believed(source):
    """Which answers are asked for is the ledger's to say: later ones would be free otherwise."""
    db = silent(opened(source)).append(rows(MONTHS[1]))
    asked = sulq.Query(Running("1", span=(1, 2)), where="sick")
    found = silent(db).ask(sulq.Query.from_json(json.loads(json.dumps(asked.to_json()))))
    assert numbers(found) == TRUE[:2]
    assert spent(db)[MONTHS[0]] == MICRO


def test_the_ledger_refuses_a_stretch_out_of_place(source):
    """Even if a program asked it to: rows before it have not paid for it."""
    db = opened(source)
    db.running("count(*)", "sick")
    text = db.history()[0].query
    ahead = text.replace('"from":0,"to":1', '"from":2,"to":3')
    again = text.replace('"from":0,"to":1', '"from":0,"to":2')
    for wrong in (ahead, again):
        with pytest.raises(sulq.QueryNotAllowed, match="gone on meanwhile"):
            db._ledger.charge([sulq.ledger.Request(wrong, 1, (0,))])


def test_a_refresh_ends_totals(source):
    """The rows they went on from may be others: they begin anew, and are paid anew."""
    db = opened(source)
    db.running("count(*)", "sick")
    db.close()
    rows(MONTHS[0]).assign(sick=True).to_parquet(source)
    with refresh(source, ledger=ledger(source), reason="wrong labels") as db:
        assert numbers(silent(db).running("count(*)", "sick")) == [20]
        assert spent(db)[MONTHS[0]] == 2 * MICRO
        db = db.append(rows(MONTHS[1]))
    assert spent(db)[MONTHS[1]] == MICRO + paid(1)  # what a refresh left to every month, and this


def test_totals_outspend_nobody(source):
    """Streams are begun until T is spent; months that open then pay for all of them, within T."""
    db = opened(source, queries=2)
    for where in ("sick", "age > 5"):
        db.running("count(*)", where)
    with pytest.raises(sulq.BudgetExceeded):
        db.running("count(*)", "age > 7")
    for month in MONTHS[1:4]:
        db = silent(db.append(rows(month)))
    assert spent(db)[MONTHS[3]] == 2 * paid(3) < 2 * MICRO
    assert numbers(db.running("count(*)", "sick")) == TRUE[:4]
    assert db.verify()


def test_a_month_that_could_not_pay_pays_before_totals_go_on(source, monkeypatch):
    """Its rows would be in the answers of later months: one of these does not pay alone."""
    db = opened(source)
    db.running("count(*)", "sick")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_reserve", lambda *_: None)
        db = db.append(rows(MONTHS[1]))
    assert spent(db)[MONTHS[1]] == 0
    db = silent(db.append(rows(MONTHS[2])))
    assert spent(db)[MONTHS[1]] == spent(db)[MONTHS[2]] == paid(1)
    assert numbers(db.running("count(*)", "sick")) == TRUE[:3]


def test_totals_paid_and_not_answered_are_answered_later(source, monkeypatch):
    """Killed between charge and answer, with an append in between: one charge, all totals."""

    class KilledError(BaseException):
        pass

    def end(*_, **__):
        raise KilledError

    db = opened(source)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", end)
        with pytest.raises(KilledError):
            db.running("count(*)", "sick")
    db.close()
    db = opened(source).append(rows(MONTHS[1]))
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", end)
        with pytest.raises(KilledError):
            silent(db).running("count(*)", "sick")
    db.close()
    db = append(source, None, ledger=ledger(source))
    assert numbers(silent(db).running("count(*)", "sick")) == TRUE[:2]
    assert spent(db) == dict.fromkeys(MONTHS, 0) | {MONTHS[0]: MICRO, MONTHS[1]: paid(1)}


def test_what_a_row_moves_is_what_its_period_paid(source):
    """Twins that differ in one row: all answers together differ by at most the price, squared."""
    db = opened(source).append(rows(MONTHS[1]))
    horizon = 4
    for at in (2, 3):
        db = db.append(rows(MONTHS[at]))

    def strategy(frame):
        twin = sulq.open(frame, SCHEMA, epsilon=1.0, queries=5, ledger=":memory:")
        twin._pipeline.noise = SilentNoise()
        twin.running("count(*)", "sick", horizon=horizon)
        (charge,) = twin.history()
        ((noisy,),) = [json.loads(twin._ledger.answers_to([charge.number])[charge.number])]
        step = twin.question(sulq.Query(Running("1", horizon=horizon), where="sick"))
        return [Fraction(y) * step.bundles[0].parts[0][1].steps[0] for (y,) in noisy]

    whole = pd.concat([rows(m) for m in MONTHS[:horizon]], ignore_index=True)
    plain = strategy(whole)
    for at in range(horizon):
        place = 20 * at  # the first row of the month
        twin = whole.assign(sick=whole["sick"].where(whole.index != place, ~whole["sick"]))
        moved = sum((a - b) ** 2 for a, b in zip(plain, strategy(twin), strict=True))
        assert moved == column_size(horizon, at)
        assert moved <= Fraction(paid(at, horizon), MICRO)


OVER = "sum({}) over (order by month)"
ALIKE = [  # one question, however a SELECT says it
    f"select month, {OVER.format('count(*)')} as total from t where sick group by month",
    f"select month as m, {OVER.format('count(*)')} from t where sick is true group by m order by 1",
    f"select month, {OVER.format('count(*) filter (where sick)')} as n from t group by 1",
    f"select {OVER.format('count_if(sick)')} as n, t.month from t group by t.month",
    "select month, sum(count(*)) over (order by month rows between unbounded preceding and current "
    "row) as n from (select * from t where sick) as t where month >= '2026-01' group by month",
]


def test_a_select_with_a_window_is_the_same_question(source):
    """sum(count(*)) over (order by month): paid once, a row for each month that has rows."""
    db = silent(opened(source))
    for month in MONTHS[1:3]:
        db = silent(db.append(rows(month)))
    for text in ALIKE:
        assert db.price(text).queries == 1
        found = db.sql(text)
        total = next(
            n for n in found.columns if n not in found.by and n[-4:] not in ("_low", "high")
        )
        assert found[total] == TRUE[:3]
        assert found[found.by[0]] == MONTHS[:3]
    assert len(db.history()) == 1
    assert numbers(db.running("count(*)", "sick")) == TRUE[:3]
    assert db.budget.spent == 1
    top = db.sql(f"{ALIKE[0]} order by total desc limit 2")
    assert (top["month"], top["total"]) == ([MONTHS[2], MONTHS[1]], TRUE[2:0:-1])
    assert list(db.sql(ALIKE[3]).columns) == ["n", "n_low", "n_high", "month"]
    part = "month between '2026-02' and '2026-04'"
    later = db.sql(f"select month, {OVER.format('sum(age)')} as s from t where {part} group by 1")
    assert later["s"] == numbers(db.running("sum(age)", start=MONTHS[1], horizon=3)) == [210, 440]
    free = db.sql(f"select month, {OVER.format('count(*)')} as n from t group by month")
    assert (free["n"], free.price.micro) == ([20, 40, 60], 0)
    assert db.budget.spent == 2


NOT_SO_FAR = {
    "select month, sum(count(*)) over (order by month desc) as n from t group by month": "ORDER BY",
    "select month, sum(count(*)) over (partition by sick order by month) as n from t group by 1":
    "nothing else",
    "select month, sum(count(*)) over (order by month rows between 1 preceding and current row) as "
    "n from t group by month": "nothing else",
    "select sick, sum(count(*)) over (order by sick) as n from t group by sick": "rows arrive by",
    "select month, sum(count(*)) over (order by month) as n from t group by month, sick": "alone",
    "select sum(count(*)) over (order by month) as n from t group by month": "month and one total",
    "select month, sum(avg(age)) over (order by month) as n from t group by month": "sum(sum(x))",
    "select month, sum(count(*)) over (order by month) as n from t group by month having n > 3":
    "no HAVING",
    "select month, sum(count(*)) over (order by month) as n from t where month in ('2026-01', "
    "'2026-03') group by month": "without a gap",
    "select month, sum(count(*)) over (order by month) as n from t where sick group by month order "
    "by age": "name an output",
    "select month, sum(count(*)) over (order by month) as month from t group by 1": "two outputs",
    "select month as n_low, sum(count(*)) over (order by month) as n from t group by month":
    "two outputs",
    "select sum(count(*)) over (order by month) as a, sum(sum(age)) over (order by month) as b "
    "from t group by month": "one total",
    "select month, sum(sick) over (order by month) as n from t group by month": "window functions",
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), NOT_SO_FAR.items(), ids=range(len(NOT_SO_FAR)))
def test_other_windows_are_refused(source, text, why):
    """With what is wanted; nothing is charged."""
    db = opened(source)
    with pytest.raises(sulq.QueryNotAllowed) as refusal:
        db.sql(text)
    assert why in str(refusal.value)
    assert db.budget.spent == 0


def test_windows_want_periods():
    """A table without [period] says so."""
    plain = sulq.open(
        rows(MONTHS[0]), {"columns": SCHEMA["columns"]}, epsilon=1.0, queries=5, name="t"
    )
    with pytest.raises(sulq.QueryNotAllowed, match=r"declares the \[period\]"):
        plain.sql(ALIKE[0])


def test_over_http_too(tmp_path):
    """The client gets the same totals, prices and intervals; repeats are free."""
    from server.instance import made

    table = pa.Table.from_pandas(pd.concat([rows(m) for m in MONTHS[:3]]), preserve_index=False)
    with (
        made(tmp_path / "i", table, SCHEMA, queries=1_000_000).serving() as served,
        sulq.connect(served.url, served.keys["bob"], "people") as db,
    ):
        assert db.periods == MONTHS[:3]
        assert db.running_price("count(*)", "sick").queries == 1
        found = db.running("count(*)", "sick")
        assert found.cells == tuple(MONTHS[:3])
        assert db.running("count(*)", "sick").exact == found.exact
        assert found.stds[0][0] == pytest.approx(db.promise.std * deviations(24)[0])
        assert found.between(MONTHS[1], MONTHS[2]).std > 0
        assert numbers(db.running("count(*)")) == [20, 40, 60]
        assert db.sql(ALIKE[0].replace("from t", "from people"))["total"] == numbers(found)
        assert db.budget.spent == 1


def test_at_postgresqls_door_too(tmp_path):
    """The total before the period, with and without the ends of its interval."""
    from server.pgwire.wired import wired

    table = pa.Table.from_pandas(pd.concat([rows(m) for m in MONTHS[:2]]), preserve_index=False)
    text = ALIKE[3].replace("t.month", "people.month").replace("from t", "from people")
    with (
        wired(tmp_path / "i", table=table, schema=SCHEMA, queries=1000) as served,
        served.connect() as connection,
    ):
        connection.execute("set sulq.spend = 1")
        found = connection.execute(text)
        assert [c.name for c in found.description] == ["n", "month"]
        first = found.fetchall()
        assert [month for _, month in first] == MONTHS[:2]
        connection.execute("set sulq.intervals = on")
        again = connection.execute(text)
        assert [c.name for c in again.description] == ["n", "n_low", "n_high", "month"]
        assert [(row[0], row[3]) for row in again.fetchall()] == first


def test_from_a_terminal(source):
    """sulq running, its price first; a second time it is free."""
    toml = source.with_name("t.toml")
    toml.write_text(
        f'[period]\ncolumn = "month"\n[columns.month]\npublic = true\nvalues = {MONTHS}\n'
        '[columns.sick]\ntype = "boolean"\n[columns.age]\ntype = "integer"\nlow = 0\nhigh = 99\n'
    )
    settings = source.with_name("sulq.toml")
    settings.write_text(
        'source = "t.parquet"\nschema = "t.toml"\nepsilon = 1.0\nqueries = 5\nledger = "t.ledger"\n'
    )

    def run(*said):
        where = ["--where", "sick", "--config", str(settings), "--json"]
        found = CliRunner().invoke(app, ["running", "count(*)", *said, *where])
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    assert run("--price") == {"price_micro": MICRO}
    first = run()
    assert [row["month"] for row in first["rows"]] == MONTHS[:1]
    assert run()["rows"] == first["rows"]


def test_sums_of_fractions_and_of_wide_numbers(tmp_path):
    """On a grid of 2^-24 of the largest value, so that noise fits beside them whatever T is."""
    table = pd.concat([rows(month) for month in MONTHS[:3]])
    table["pay"], table["far"] = np.linspace(-4, 9.99, len(table)), 10**11 + np.arange(len(table))
    table.to_parquet(tmp_path / "t.parquet")
    declared = SCHEMA | {"columns": SCHEMA["columns"] | {
        "pay": {"type": "number", "low": -5, "high": 10},
        "far": {"type": "integer", "low": 0, "high": 10**12},
    }}  # fmt: skip
    with silent(sulq.open(tmp_path / "t.parquet", declared, epsilon=1.0, queries=2000)) as db:
        for name, reach in (("pay", 10), ("far", 10**12)):
            exact = table.groupby("month")[name].sum().cumsum().to_numpy()
            found = np.array(numbers(db.running(f"sum({name})")), dtype=float)
            assert np.abs(found - exact).max() <= len(table) * reach * 2.0**-24
            assert db.running_price(f"sum({name})").queries == 1
        assert db.budget.spent == 2

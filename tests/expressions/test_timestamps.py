"""Timestamps: hours and minutes on every engine alike, as plain Python has them row by row."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from helpers import ENGINES, opened

import sulq
from sulq.questions.check import check

FIRST, LAST = dt.datetime(1965, 1, 1), dt.datetime(2030, 6, 1, 12)
EPOCH = dt.datetime(1970, 1, 1)
COLUMNS = {
    "seen": {"type": "timestamp", "low": "1965-01-01T00:00:00", "high": "2030-06-01 12:00:00"},
    "gone": {"type": "timestamp", "low": FIRST, "high": LAST},
    "sure": {"type": "timestamp", "low": "1965-01-01", "high": LAST, "nullable": False},
}


def table(n=400, seed=0, unit="us", zone=None):
    """Moments within the declared range and some beyond it, before 1970 too, some missing."""
    rng = np.random.default_rng(seed)
    ends = [int((end - EPOCH).total_seconds()) for end in (FIRST, LAST)]
    micro = rng.integers(ends[0] * 10**6 - 10**13, ends[1] * 10**6 + 10**13, n)
    if unit in ("s", "ms"):
        step = {"s": 10**6, "ms": 1000}[unit]
        micro = micro // step * step
    seen = [EPOCH + dt.timedelta(microseconds=int(m)) for m in micro]
    gone = [
        x + dt.timedelta(seconds=int(s))
        for x, s in zip(seen, rng.integers(0, 10**6, n), strict=True)
    ]
    kind, some = pa.timestamp(unit, zone), rng.random((3, n)) < 0.1
    return pa.table({
        name: pa.array(values, kind, mask=mask)
        for name, values, mask in zip(COLUMNS, (seen, gone, seen), some, strict=True)
    })  # fmt: skip


def read(value):
    """A moment as the database reads it: whole seconds, within the range, UTC."""
    if value is None:
        return None
    return min(max(value.replace(tzinfo=None, microsecond=0), FIRST), LAST)


def since(x, each):
    return int((x - EPOCH).total_seconds()) // each


EXPRESSIONS = {
    "extract(hour from seen)": lambda a, b, c: a.hour,
    "minute(seen)": lambda a, b, c: a.minute,
    "extract(second from seen)": lambda a, b, c: a.second,
    "extract(year from seen)": lambda a, b, c: a.year,
    "dayofweek(seen)": lambda a, b, c: (a.weekday() + 1) % 7,
    "hour(sure)": lambda a, b, c: c.hour,
    "date_diff('hour', seen, gone)": lambda a, b, c: since(b, 3600) - since(a, 3600),
    "date_diff('minute', seen, gone)": lambda a, b, c: since(b, 60) - since(a, 60),
    "date_diff('second', seen, gone)": lambda a, b, c: since(b, 1) - since(a, 1),
    "date_diff('full_day', seen, gone)": lambda a, b, c: (b - a).days,
    "date_diff('hour', date '2000-01-01', cast(seen as date))": lambda a, b, c: 24
    * (a.date() - dt.date(2000, 1, 1)).days,
    "date_diff('day', seen, gone)": lambda a, b, c: (b.date() - a.date()).days,
    "date_diff('month', seen, date '2000-01-15')": lambda a, b, c: 24_000 - 12 * a.year + 1
    - a.month,
    "date_diff('hour', date '2000-01-01', seen)": lambda a, b, c: since(a, 3600) - 262_968,
    "date_diff('second', date_trunc('hour', seen), seen)": lambda a, b, c: 60 * a.minute
    + a.second,
    "date_diff('minute', date_trunc('day', seen), seen)": lambda a, b, c: 60 * a.hour + a.minute,
    "case when seen >= '2000-01-01 12:30' then 1 else 0 end": lambda a, b, c: int(
        a >= dt.datetime(2000, 1, 1, 12, 30)
    ),
    "case when seen < '2000-01-01T12:30:00+02:00' then 1 else 0 end": lambda a, b, c: int(
        a < dt.datetime(2000, 1, 1, 10, 30)
    ),
    "case when date '1999-05-01' > seen then 1 else 0 end": lambda a, b, c: int(
        a < dt.datetime(1999, 5, 1)
    ),
    "case when seen between timestamp '1968-01-01 00:00:00' and gone then 1 else 0 end": lambda a,
    b, c: int(dt.datetime(1968, 1, 1) <= a <= b),
    "case when hour(seen) >= 22 or hour(seen) < 6 then 1 else 0 end": lambda a, b, c: int(
        a.hour >= 22 or a.hour < 6
    ),
    "case when cast(seen as date) = date '1965-01-01' then 1 else 0 end": lambda a, b, c: int(
        a.date() == dt.date(1965, 1, 1)
    ),
}  # fmt: skip


def checked(text, declared=COLUMNS):
    schema = sulq.Schema.load({"columns": declared})
    return check(sulq.Query([text]), schema, "gaussian", "beliefs")


def plain(rows, f, text):
    """The sum row by row, in plain Python; what is missing adds nothing."""
    total = 0
    for row in rows.to_pylist():
        a, b = read(row["seen"]), read(row["gone"])
        c = read(row["sure"]) or FIRST
        if ("seen" in text and a is None) or ("gone" in text and b is None):
            continue
        total += f(a, b, c)
    return total


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_as_python_on_every_engine(engine):
    """Parts, differences, truncation and comparisons, before 1970 and between seconds too."""
    rows = table()
    queries = [checked(text) for text in EXPRESSIONS]
    found = ENGINES[engine](rows, {"columns": COLUMNS}).sums(queries)
    for (text, f), ((sum_,),) in zip(EXPRESSIONS.items(), found, strict=True):
        assert sum_ == plain(rows, f, text), text


@pytest.mark.parametrize(("unit", "zone"), [("s", None), ("ms", None), ("ns", None), ("us", "UTC"),
                                            ("us", "Europe/Oslo")])  # fmt: skip
@pytest.mark.parametrize("engine", ["duckdb", "reference"])
def test_however_they_are_stored(engine, unit, zone):
    """Of every precision, with a zone or without: what counts is UTC."""
    if unit == "ns":
        rows = table(unit="us").cast(pa.schema([(n, pa.timestamp("ns")) for n in COLUMNS]))
    else:
        rows = table(unit=unit, zone=zone)
    texts = ["dayofweek(seen)", "date_diff('second', seen, gone)", "extract(second from seen)"]
    found = ENGINES[engine](rows, {"columns": COLUMNS}).sums([checked(t) for t in texts])
    utc = rows.cast(pa.schema([(n, pa.timestamp("us", "UTC")) for n in COLUMNS]), safe=False)
    for text, ((sum_,),) in zip(texts, found, strict=True):
        assert sum_ == plain(utc, EXPRESSIONS[text], text), text


@pytest.mark.parametrize("engine", ["duckdb", "reference"])
def test_endless_and_far_moments_are_no_error(engine):
    """What lies beyond is at the end of the range; what no clock knows is missing."""
    far = pa.array([2**63 - 1, -(2**63 - 1), None, 0, 2**62], pa.int64())
    for unit in ("us", "ns", "ms", "s"):
        rows = pa.table({"seen": far.cast(pa.timestamp(unit))})
        declared = {"seen": COLUMNS["seen"]}
        texts = ["case when seen is null then 1 else 0 end",
                 "case when seen = timestamp '2030-06-01 12:00:00' then 1 else 0 end"]  # fmt: skip
        queries = [checked(t, declared) for t in texts]
        ((missing,),), ((last,),) = ENGINES[engine](rows, {"columns": declared}).sums(queries)
        beyond = unit in ("ms", "s")
        assert (missing, last) == ((2, 1) if beyond else (1, 2)), unit


def test_questions_of_every_kind():
    """SQL, a histogram, bins, a Python function, a file of texts, a profile, a rehearsal."""
    rows = table()
    db = opened(rows, COLUMNS, epsilon=20.0, queries=10**6)
    nights = [read(x).hour for x in rows["seen"].to_pylist() if x is not None]
    by_hour = db.sql(f'select hour(seen) as h, count(*) as n from "{db.name}" group by h')
    assert {r["h"]: r["n"] for r in by_hour if isinstance(r["h"], int)} == {
        h: nights.count(h) for h in range(24)
    }
    assert db.mean("hour(seen)").value == pytest.approx(np.mean(nights), abs=0.01)

    @sulq.row
    def at_night(seen):
        return seen.hour >= 22 or seen.hour < 6

    assert db.count(at_night).value == sum(h >= 22 or h < 6 for h in nights)
    edges = ["1965-01-01", "1990-01-01 12:00", LAST]
    found = db.ask(sulq.Query(by=sulq.Bins("seen", tuple(edges))))
    before = sum(read(x) < dt.datetime(1990, 1, 1, 12) for x in rows["seen"].to_pylist() if x)
    assert found.values[0, 0] == before
    assert found.cells[0] == (dt.datetime(1965, 1, 1), dt.datetime(1990, 1, 1, 12))
    assert sum(db.histogram("seen", bins=10)["count"]) == 400
    assert "seen (timestamp)" in str(db.profile())
    again = sulq.Schema.load(db.schema.to_json())
    assert again.columns == db.schema.columns
    with sulq.rehearsal({"columns": COLUMNS}, 500) as made:
        assert made.mean("hour(seen)").value == pytest.approx(11.5, abs=60)


def test_a_file_of_texts(tmp_path):
    """ISO texts, or as date_format says; what is no moment is missing."""
    path = tmp_path / "visits.csv"
    path.write_text(
        "seen,late\n2020-01-31 14:30:00,31.01.2020 23:05\nno,\n1969-12-31T23:59:59.5,x\n"
    )
    ends = {"type": "timestamp", "low": "1960-01-01", "high": "2030-01-01"}
    declared = {"seen": ends, "late": ends | {"date_format": "%d.%m.%Y %H:%M"}}
    db = opened(path, {"columns": declared}, queries=1000)
    assert db.sum("hour(seen)").value == pytest.approx(14 + 23)
    assert db.count("seen is null").value == 1
    assert db.sum("minute(late)").value == pytest.approx(5)


@pytest.mark.parametrize(("text", "said"), [
    ("hour(born)", "'hour' wants a timestamp, 'born' is a date"),
    ("hour(whenever)", "declare its low and high"),
    ("seen > 'yesterday'", "'yesterday' is not a moment such as '2020-01-31 14:30:00'"),
    ("seen = '2020-01-31 14:30:00.5'", "is not a moment"),
    ("date_diff('week', born, born)", "'week' is not one of"),
])  # fmt: skip
def test_refusals(text, said):
    """Each refusal says what is wrong with a moment."""
    declared = COLUMNS | {
        "born": {"type": "date", "low": "1900-01-01", "high": "2020-01-01"},
        "whenever": {"type": "timestamp"},
    }
    with pytest.raises(sulq.QueryNotAllowed, match=said):
        checked(text, declared)


def test_declarations():
    """Ends of a timestamp are moments in whole seconds."""
    for wrong in ("soon", 3, "2020-01-31 14:30:00.5"):
        with pytest.raises(sulq.SchemaError, match="want a moment such as"):
            sulq.Schema.load({"columns": {"t": {"type": "timestamp", "low": wrong, "high": LAST}}})
    with pytest.raises(sulq.SchemaError, match="bins do not apply"):
        sulq.Schema.load({"columns": {"t": COLUMNS["seen"] | {"bins": [FIRST, LAST]}}})


@pytest.mark.parametrize("engine", ENGINES)
def test_without_declared_ends(engine):
    """They are compared, by SQL and by the kernel alike."""
    rows, declared = table(), {name: {"type": "timestamp"} for name in COLUMNS}
    texts = [
        f"case when seen >= '2000-01-01 12:30' then {one} else 0 end" for one in ("1", "exp(0)")
    ]
    queries = [checked(text, declared) for text in texts]
    found = ENGINES[engine](rows, {"columns": declared}).sums(queries)
    exact = sum(x >= dt.datetime(2000, 1, 1, 12, 30) for x in rows["seen"].to_pylist() if x)
    for query, ((sum_,),) in zip(queries, found, strict=True):
        assert sum_ == exact * 2 ** query.values[0].scale

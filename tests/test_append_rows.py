"""Rows that arrive by periods: each has its own T, and an append moves nothing that was spent."""

import errno
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import SilentNoise
from soak import in_soak, times

import sulq
from sulq.errors import MICRO
from sulq.ledger import claims, period_rows
from sulq.ledger.ledger import Ledger
from sulq.open_database import append, refresh
from sulq.pipeline import Order

MONTHS = [f"{year}-{month:02}" for year in (2026, 2027) for month in range(1, 13)]
SCHEMA = {
    "columns": {
        "month": {"values": MONTHS, "public": True},
        "sick": {"type": "boolean"},
        "age": {"type": "integer", "low": 0, "high": 99},
    },
    "period": {"column": "month"},
}


class KilledError(BaseException):
    """A process that ends here."""


def rows(month, count=20):
    at = np.arange(count) + MONTHS.index(month)
    return pd.DataFrame({"month": month, "sick": at % 3 == 0, "age": at % 100})


def opened(path, **more):
    db = sulq.open(path, SCHEMA, **({"epsilon": 1.0, "queries": 5, "ledger": ledger(path)} | more))
    db._pipeline.noise = SilentNoise()
    return db


def ledger(path):
    return Path(path).with_name("t.ledger")


def spent(db):
    return {c["month"]: int(c["spent"] * MICRO) for c in db.budget_by_cell() if c["month"]}


@pytest.fixture(params=["file", "folder"])
def source(request, tmp_path):
    """One Parquet file, or a folder of them, with the first month."""
    path = tmp_path / ("t.parquet" if request.param == "file" else "t")
    if request.param == "folder":
        path.mkdir()
    rows(MONTHS[0]).to_parquet(path / "a.parquet" if path.is_dir() else path)
    return path


def test_a_new_period_begins_with_nothing_spent(source):
    """Older ones keep what was spent on them; a question over all charges each by its own cells."""
    db = opened(source)
    assert db.count("sick").value == 7
    db = db.append(rows(MONTHS[1]), reason="February")
    db._pipeline.noise = SilentNoise()
    assert db.periods == MONTHS[:2]
    assert spent(db) == dict.fromkeys(MONTHS, 0) | {MONTHS[0]: MICRO}
    assert db.count("sick").value == 13  # other rows, so it is asked anew
    assert db.count(f"sick and month = '{MONTHS[1]}'").value == 6
    assert spent(db) == dict.fromkeys(MONTHS, 0) | {MONTHS[0]: 2 * MICRO, MONTHS[1]: 2 * MICRO}
    with pytest.raises(sulq.QueryNotAllowed, match="no rows yet"):
        db.count(f"sick and month = '{MONTHS[5]}'")
    assert [e.kind for e in db.decisions()] == ["open", "append"]
    assert db.verify()


def test_older_rows_may_not_change(source):
    """A row more, fewer, another value or another month in an old period is a refresh."""
    opened(source).close()
    changes = [
        lambda t: t.iloc[1:],
        lambda t: pd.concat([t, t.iloc[:1]]),
        lambda t: t.assign(age=t["age"] + 1),
        lambda t: t.assign(month=np.where(t.index == 3, MONTHS[1], t["month"])),
        lambda t: t.assign(month=np.where(t.index == 3, "never", t["month"])),
    ]
    place = source / "a.parquet" if source.is_dir() else source
    for change in changes:
        changed = change(rows(MONTHS[0]))
        pd.concat([changed, rows(MONTHS[1])]).to_parquet(place)
        with pytest.raises(sulq.Refused, match="older periods changed"):
            append(source, ledger=ledger(source))
        with pytest.raises(sulq.SourceChanged):
            opened(source)
    pd.concat([rows(MONTHS[1]), rows(MONTHS[0])]).to_parquet(place)  # the order is no change
    with append(source, ledger=ledger(source)) as db:
        assert db.periods == MONTHS[:2]


def test_a_period_called_none_is_not_none(tmp_path):
    """Rows of no declared period and of one called None have fingerprints of their own."""
    path = tmp_path / "t.parquet"
    named = {"values": ["None", "'None'", "later"], "public": True}
    schema = SCHEMA | {"columns": SCHEMA["columns"] | {"month": named}}

    def table(none, other, more=()):
        parts = [("None", none), ("never", other), ("'None'", 3), *((m, 4) for m in more)]
        frames = [rows(MONTHS[0]).assign(month=m, age=age) for m, age in parts]
        return pd.concat(frames)

    table(1, 2).to_parquet(path)
    sulq.open(path, schema, epsilon=1.0, queries=5, ledger=ledger(path)).close()
    for changed in (table(9, 2, ["later"]), table(1, 9, ["later"])):
        changed.to_parquet(path)
        with pytest.raises(sulq.Refused, match="older periods changed"):
            append(path, ledger=ledger(path))
    table(1, 2, ["later"]).to_parquet(path)
    with append(path, ledger=ledger(path)) as db:
        assert db.periods == ["None", "'None'", "later"]


def test_only_new_periods_may_be_written(source):
    """Nothing is written of rows whose period is open, or is none that was declared."""
    db = opened(source)
    for wrong in (rows(MONTHS[0]), rows(MONTHS[1]).assign(month="never")):
        with pytest.raises(sulq.Refused, match="cannot open now"):
            db.append(wrong)
    assert db.count("sick").value == 7  # it goes on
    with pytest.raises(sulq.NotPermitted):
        db.as_analyst("eve").append(rows(MONTHS[1]))


def test_rows_that_cannot_be_written_are_refused_in_words(source, monkeypatch):
    """Where rows are read-only: nothing is written or charged, and it goes on."""
    db, before = opened(source), sorted(source.parent.rglob("*"))
    kept = {
        path: path.read_bytes() for path in before if path.suffix == ".parquet" and path.is_file()
    }

    def refused(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refused)
        with pytest.raises(sulq.Refused, match="cannot be written: Read-only file system"):
            db.append(rows(MONTHS[1]))
    assert {path: path.read_bytes() for path in kept} == kept
    assert not [path for path in source.parent.rglob("*") if path.name.startswith(".t.parquet")]
    assert db.count("sick").value == 7


def test_a_refresh_levels_periods_and_later_appends_go_on(source):
    """Somebody moved to another month takes along what was spent on them: all carry the highest."""
    db = opened(source)
    db.count("sick")
    db = db.append(rows(MONTHS[1]))
    db.close()
    place = source / "a.parquet" if source.is_dir() else source
    table = pd.concat([rows(MONTHS[0]), rows(MONTHS[1])], ignore_index=True)
    for path in source.glob("*.parquet") if source.is_dir() else ():
        path.unlink()
    table["month"] = table["month"].where(table.index != 3, MONTHS[1])
    table.to_parquet(place)
    with refresh(source, ledger=ledger(source), reason="moved") as db:
        assert set(spent(db).values()) == {MICRO}
        moved = db.append(rows(MONTHS[2]))
    assert spent(moved)[MONTHS[2]] == MICRO  # a refresh cannot tell who is who in what comes later
    moved.close()
    place.write_bytes(b"")
    for path in source.glob("*.parquet") if source.is_dir() else ():
        path.unlink()
    back = [rows(MONTHS[0]), rows(MONTHS[1]), rows(MONTHS[2]), rows(MONTHS[3])]
    pd.concat(back).to_parquet(place)  # as it was before the refresh
    with pytest.raises(sulq.Refused, match="older periods changed"):
        append(source, ledger=ledger(source))


def test_what_needs_a_period_says_so(tmp_path):
    """A schema without one, with [unit], with a column that is no cell; a ledger in memory."""
    rows(MONTHS[0]).to_parquet(tmp_path / "p.parquet")
    plain = {"columns": SCHEMA["columns"]}
    db = sulq.open(tmp_path / "p.parquet", plain, epsilon=1.0, queries=5)
    with pytest.raises(sulq.SchemaError, match=r"no \[period\]"):
        db.append(rows(MONTHS[1]))
    with pytest.raises(sulq.SchemaError, match="unit"):
        sulq.Schema.load(SCHEMA | {"unit": {"column": "age", "max_rows": 2}})
    for name in ("age", "nobody"):
        with pytest.raises(sulq.SchemaError, match="public = true"):
            sulq.Schema.load(SCHEMA | {"period": {"column": name}})
    trial = sulq.open(rows(MONTHS[0]), SCHEMA, epsilon=1.0, queries=5, ledger=":memory:")
    with pytest.raises(sulq.Refused, match="lasts"):
        trial.append(rows(MONTHS[1]))


# ---- two years with kills -------------------------------------------------------------------


def killed_at(monkeypatch, point):
    """End the process before this step of an append."""

    def end(*_, **__):
        raise KilledError

    where, name = {
        "write": (os, "replace"),
        "ledger": (Ledger, "renew"),
        "remember": (claims, "remember"),
        "end": (period_rows.PeriodRows, "end"),
    }[point]
    monkeypatch.setattr(where, name, end)


def test_two_years_of_appends_with_kills(source, monkeypatch):
    """Every month is asked about until its T is spent; each row's part in every answer is replayed.

    Killed at every step of an append in turn: going on, or appending again, makes it whole.
    """
    part = dict.fromkeys(MONTHS, 0)  # what the rows of each month took part in, by hand
    db, points = opened(source, queries=3), ["write", "ledger", "remember", "end"]
    for at, month in enumerate(MONTHS[: times(5, 24)]):
        if at:
            with monkeypatch.context() as patch:
                killed_at(patch, points[at % 4])
                with pytest.raises(KilledError):
                    db.append(rows(month))
            db.close()
            written = points[at % 4] != "write"
            db = append(source, None if written else rows(month), ledger=ledger(source))
            db._pipeline.noise = SilentNoise()
        open_now, number = MONTHS[: at + 1], itertools.count(5)
        for _ in range(4):  # more than T
            recent = open_now[-2:]
            asked = [recent, [month]] if at % 2 else [recent]
            for months in asked:
                new = next(number)  # no question is asked twice
                where = f"sick and age % {new} < 3 and month in {(*months, months[0])}"
                price = db.price(sulq.Query(where=where)).micro
                if any(part[m] + price > 3 * MICRO for m in months):
                    with pytest.raises(sulq.BudgetExceeded):
                        db.count(where)
                    continue
                db.count(where)
                for m in months:
                    part[m] += price
        assert spent(db) == part
    assert max(part.values()) == 3 * MICRO  # T was reached, and never exceeded
    assert db.rows == 20 * len(open_now)
    assert db.verify()


CHILD = """
import sys, pandas as pd
from sulq.open_database import append
print("ready", flush=True)
append(sys.argv[1], sys.argv[2] or None, ledger=sys.argv[3]).close()
"""


@in_soak
def test_appends_killed_at_any_moment(source, tmp_path):
    """SIGKILL at random moments of an append: afterwards it is whole, or is made so by another."""
    luck = np.random.default_rng()
    opened(source).close()
    for month in MONTHS[1:]:
        new = tmp_path / "new.parquet"
        rows(month).to_parquet(new)
        command = [sys.executable, "-c", CHILD, str(source), str(new), str(ledger(source))]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        time.sleep(luck.uniform(0, 0.6))
        child.send_signal(signal.SIGKILL)
        child.wait()
        months = MONTHS[: MONTHS.index(month) + 1]
        try:
            db = opened(source)
            if db.periods != months:  # nothing was written
                db = db.append(rows(month))
        except sulq.SourceChanged:
            db = append(source, ledger=ledger(source))
        assert db.periods == months
        assert db.rows == 20 * len(months)
        assert db.verify()
        db.close()


def test_rows_are_written_by_one_at_a_time(source, monkeypatch):
    """Of two appends at once none writes over the other's: the folder is held meanwhile."""
    opened(source).close()
    replace, held = os.replace, []

    def watched(new, old):
        if Path(old).suffix == ".parquet":
            handle = os.open(ledger(source).with_name(".sulq"), os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(handle)
            held.append(old)
        replace(new, old)

    monkeypatch.setattr(os, "replace", watched)
    append(source, rows(MONTHS[1]), ledger=ledger(source)).close()
    assert len(held) == 1


def test_a_question_about_no_rows_is_refused_alone(source):
    """In one batch with another's, which is answered; nothing is charged for it."""
    with opened(source) as db:
        asked = [f"sick and month = '{MONTHS[i]}'" for i in (0, 5)]
        orders = [Order(db.question(sulq.Query(where=where)), analyst=where[-2]) for where in asked]
        answer, refused = db._pipeline.answer(orders)
        assert answer.value == 7
        assert isinstance(refused, sulq.QueryNotAllowed)
        assert "have no rows yet. Nothing was charged" in str(refused)
        assert spent(db)[MONTHS[0]] == MICRO
        with pytest.raises(sulq.QueryNotAllowed, match="have no rows yet"):
            db.count(asked[1])


def test_a_file_keeps_its_types_and_rights_and_is_on_disk(tmp_path, monkeypatch):
    """The old rows are copied batch by batch; all is on disk before the ledger knows of it."""
    path, synced = tmp_path / "t.parquet", []
    table = pa.Table.from_pandas(rows(MONTHS[0])).cast(
        pa.schema([("month", pa.large_string()), ("sick", pa.bool_()), ("age", pa.int16())])
    )
    pq.write_table(table, path, row_group_size=7)
    path.chmod(0o640)
    plain = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), plain(handle)))
    monkeypatch.setattr(pq, "read_table", None)  # the file is never whole in memory
    with opened(path) as db, db.append(rows(MONTHS[1])):
        pass
    found = pq.ParquetFile(path)
    assert found.schema_arrow.field("month").type == pa.large_string()
    assert found.metadata.num_rows == 40
    assert path.stat().st_mode & 0o777 == 0o640
    assert len(synced) >= 2


def test_periods_that_have_not_opened_are_not_listed(tmp_path):
    """Groups by month are the months with rows, in SQL, histograms and tables of two columns."""
    path = tmp_path / "t.parquet"
    pd.concat([rows(m) for m in MONTHS[:3]]).to_parquet(path)
    with opened(path, queries=100) as db:
        by_month = "select month, count(*) as n, avg(age) as a from t {} group by month"
        assert db.sql(by_month.format(""))["month"] == [*MONTHS[:3], "(other)"]
        assert db.sql(by_month.format("where sick"))["month"] == [*MONTHS[:3], "(other)"]
        assert len(db.histogram("month")) == 4
        assert set(db.crosstab(["month", "sick"])["month"]) == {*MONTHS[:3], "(other)"}
        with db.append(rows(MONTHS[3])) as more:
            assert more.sql(by_month.format(""))["month"] == [*MONTHS[:4], "(other)"]


def table_of(month, ages, kind=None):
    ages = pa.array(ages, kind or pa.int64())
    return pa.table({"month": [month] * len(ages), "sick": [True] * len(ages), "age": ages})


def test_new_rows_take_the_types_of_the_old_ones(source):
    """As pandas writes them, whole numbers with gaps are floats, and categories dictionaries."""
    old = table_of(MONTHS[0], [1, 2], pa.int16())
    old = old.set_column(0, "month", old["month"].combine_chunks().dictionary_encode())
    pq.write_table(old, source / "a.parquet" if source.is_dir() else source)
    new = table_of(MONTHS[1], [3, None, 70], pa.float64())
    with opened(source) as db, db.append(new) as more:
        more._pipeline.noise = SilentNoise()
        assert more.periods == MONTHS[:2]
        assert more.sum("age", "sick").value == 76
    with opened(source) as db:
        assert db.periods == MONTHS[:2]


def test_rows_that_do_not_fit_are_refused_and_the_older_ones_stay_readable(source):
    """A type that would change how older rows are read is none that rows may bring along."""
    pq.write_table(table_of(MONTHS[0], [1, 2]), source / "a.parquet" if source.is_dir() else source)
    before = sorted(source.parent.rglob("*.parquet"))
    for ages, kind in ([1.5, None], pa.float64()), ([2**63, 1], pa.uint64()):
        with opened(source) as db, pytest.raises(sulq.Refused, match="'age' is stored as int64"):
            db.append(table_of(MONTHS[1], ages, kind))
    assert sorted(source.parent.rglob("*.parquet")) == before
    with opened(source) as db:
        assert db.sum("age", "sick").value == 3


def test_a_folder_takes_no_wider_numbers_and_a_file_becomes_wider(source):
    """The first file of a folder says how all are read; a single file is written anew."""
    path = source / "a.parquet" if source.is_dir() else source
    pq.write_table(table_of(MONTHS[0], [1, 2], pa.int8()), path)
    new = table_of(MONTHS[1], [1_000, 2])
    with opened(source) as db:
        if source.is_dir():
            with pytest.raises(sulq.Refused, match="'age' is stored as int8"):
                db.append(new)
        else:
            db.append(new).close()
    with opened(source) as db:
        assert len(db.periods) == 1 + source.is_file()


def test_rows_are_not_written_beside_folders_whose_names_are_columns(tmp_path):
    """The file would lack a column that the others have, and none could be read any more."""
    schema = SCHEMA | {"file": {"hive_partitions": True}}

    def write(month):
        folder = tmp_path / "t" / f"month={month}"
        folder.mkdir(parents=True)
        rows(month).drop(columns="month").to_parquet(folder / "a.parquet")

    def reopened():
        return sulq.open(tmp_path / "t", schema, epsilon=1.0, queries=5)

    write(MONTHS[0])
    with reopened() as db, pytest.raises(sulq.Refused, match="names of folders are columns"):
        db.append(rows(MONTHS[1]))
    write(MONTHS[1])
    append(tmp_path / "t", reason="in a folder of its own").close()
    with reopened() as db:
        assert db.periods == MONTHS[:2]

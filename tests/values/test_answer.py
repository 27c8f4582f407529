"""Numbers that the noise drowns are marked: in text, frames, files and charts; by a public rule."""

import csv
import io

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

from sulq.server.console.result_view import body_of, csv_of, shown

SCHEMA = {
    "region": {"values": ["north", "west"], "nullable": False},
    "income": {"type": "number", "low": 0, "high": 200_000},
}
ROWS = 50_000
SQL = """select region, count(*) as n, avg(income) as a, 2 * avg(income) as b
         from people group by region"""


@pytest.fixture(scope="module")
def table():
    """Nearly everybody lives in the north; noise as at epsilon 1, T = 1000 (none is drawn)."""
    draw = np.random.default_rng(1)
    rows = pa.table(
        {"region": ["west"] * 3 + ["north"] * (ROWS - 3), "income": draw.uniform(0, 2e5, ROWS)}
    )
    with opened(rows, SCHEMA, name="people", epsilon=1.0, queries=1000) as db:
        yield db.sql(SQL)


def test_only_what_says_nothing_is_marked(table):
    """An average of 3 rows is wider than its whole range; the count beside it says something."""
    assert table["region"] == ["north", "west"]
    assert not any(table.is_vague(0, name) for name in table.numbers)
    assert [table.is_vague(1, name) for name in ("n", "a", "b")] == [False, True, True]


def test_text_says_so_and_keeps_the_interval(table):
    """No number stands where there is none to say; value and ends are still there."""
    north, west = str(table).splitlines()[2:4]
    assert "too noisy" not in north
    assert west.count("too noisy to say (+/- ") == 2
    assert table["a_high"][1] - table["a_low"][1] > 200_000


def test_frames_and_files_carry_a_note(table):
    """Too few rows, and which numbers say nothing: a column in frames and downloads."""
    said = ["", "too few rows; too noisy to say: a, b"]
    assert table.to_arrow()["note"].to_pylist() == said
    assert list(table.to_pandas()["note"]) == said
    assert table.to_polars()["note"].to_list() == said
    assert table.to_json()["notes"] == said
    lines = list(csv.reader(io.StringIO(csv_of(body_of(table)).decode())))
    assert lines[0][-1] == "note"
    assert [line[-1] for line in lines[1:]] == said


def test_a_frame_always_has_a_column_of_notes(table):
    """The columns follow from the question, never from what the noise made of it."""
    import dataclasses

    plain = dataclasses.replace(table, too_few=(), too_noisy={})
    assert plain.to_arrow().column_names == [*table.columns, "note"]
    assert set(plain.to_arrow()["note"].to_pylist()) == {""}


def test_a_number_too_noisy_to_say_is_missing(table):
    """Missing in rows, frames, JSON and CSV, never a 0 that looks like data; its ends stay."""
    name = next(n for n, marks in table.too_noisy.items() if any(marks))
    row = list(table.too_noisy[name]).index(True)
    assert table[name][row] is None
    assert table[f"{name}_low"][row] < table[f"{name}_high"][row]
    assert table.to_json()["rows"][row][name] is None
    assert table.to_pandas()[name].isna()[row]
    assert table.to_arrow()[name].to_pylist()[row] is None
    assert f"{name}" in table.to_pandas()["note"][row]
    assert table.to_csv().splitlines()[1 + row].split(",")[list(table.columns).index(name)] == ""


def test_charts_leave_the_bar_out(table):
    """Neither the library nor the console draws a bar of noise."""
    counts, *averages = table.plot().figures
    assert "north" in counts.words
    assert "west: 3" in counts.words
    assert averages
    assert not any("west" in figure.words for figure in averages)
    page = shown(body_of(table))
    assert "too noisy to say (± " in page.rows[1][1][1].text
    assert "west" in page.charts[0].wide.__html__()
    assert "west" not in page.charts[1].wide.__html__()


def test_a_mean_of_hardly_any_rows_says_so():
    """db.mean prints no number it cannot vouch for; the value is there for who wants it."""
    rows = pa.table({"region": ["north"] * 500, "income": np.full(500, 8000.0)})
    with opened(rows, SCHEMA, name="people", epsilon=1.0, queries=1000) as db:
        answer = db.mean("income", "region = 'west'")
        assert answer.too_noisy
        assert str(answer).startswith("too noisy to say (+/- ")
        assert answer.to_json()["too_noisy"] is True
        assert answer.interval()[1] - answer.interval()[0] > 200_000

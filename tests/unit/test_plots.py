"""Charts say what the table says: every bar, its interval, in the declared order."""

from __future__ import annotations

import sys

import pytest

from sulq.answer import Table
from sulq.errors import MissingExtra, QueryNotAllowed, Refused
from sulq.plots import bars
from sulq.price import Price

LABELS = ["north", "south", "east", "other"]


def table(by=("region",), labels=None, values=None, names=("count",)):
    labels = labels or [(label,) for label in LABELS]
    values = values or [30.0, 20.0, 10.0, -5.0][: len(labels)]
    columns = {name: [label[i] for label in labels] for i, name in enumerate(by)}
    for name in names:
        columns[name] = values
        columns[f"{name}_low"] = [v - 8 for v in values]
        columns[f"{name}_high"] = [v + 8 for v in values]
    return Table(columns, tuple(by), Price(1_000_000), 0)


def layers(chart):
    return chart.to_dict()["layer"]


def test_bars_and_intervals_are_those_of_the_table():
    chart = bars(table()).to_dict()
    rows = next(iter(chart["datasets"].values())) if "datasets" in chart else None
    rows = rows or chart["layer"][0].get("data", chart.get("data"))["values"]
    assert [(r["x"], r["y"], r["low"], r["high"]) for r in rows] == [
        ("north", 30.0, 22.0, 38.0), ("south", 20.0, 12.0, 28.0), ("east", 10.0, 2.0, 18.0),
        ("other", -5.0, -13.0, 3.0),
    ]  # fmt: skip


def test_a_negative_count_is_drawn_below_zero():
    """No clipping of the axis or of the value."""
    for layer in layers(bars(table())):
        assert "domain" not in layer["encoding"].get("y", {}).get("scale", {})


def test_the_order_is_the_declared_one():
    (x, *_) = [layer["encoding"]["x"] for layer in layers(bars(table()))[:1]]
    assert x["sort"] == LABELS
    assert x["title"] == "region"


def test_two_label_columns_are_grouped_and_coloured():
    labels = [(a, b) for a in ("north", "south") for b in ("true", "false")]
    drawn, whiskers, _zero = layers(bars(table(("region", "smoker"), labels)))
    assert drawn["encoding"]["color"]["title"] == "smoker"
    assert drawn["encoding"]["xOffset"]["sort"] == ["true", "false"]
    assert whiskers["encoding"]["xOffset"]["sort"] == ["true", "false"]


def test_several_numbers_are_several_charts():
    chart = bars(table(names=("count", "avg(income)"))).to_dict()
    assert [c["title"] for c in chart["vconcat"]] == ["count by region", "avg(income) by region"]


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<svg"), ("a.PNG", b"\x89PNG")])
def test_saved_by_its_ending(tmp_path, name, start):
    bars(table(), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_picture_holds_the_words(tmp_path):
    """Names of columns and labels are in it, whatever characters they have."""
    odd = table(("re.gion[0]",), [("a:b",), ("<c>",), ("0 to 5",), ("other",)])
    bars(odd, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for word in ("re.gion[0]", "a:b", "&lt;c&gt;", "0 to 5", "other", "95% interval"):
        assert word in text


@pytest.mark.parametrize("name", ["a.pdf", "a", "missing/a.svg"])
def test_other_endings_and_folders_are_refused(tmp_path, name):
    with pytest.raises(Refused, match="plot="):
        bars(table(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_three_label_columns_are_refused():
    labels = [("a", "b", "c")]
    with pytest.raises(QueryNotAllowed, match="3 label columns"):
        bars(table(("x", "y", "z"), labels, [1.0]))


def test_a_missing_extra_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sulq\[plot\]'"):
        bars(table())


def test_table_plot_is_the_same_chart(tmp_path):
    assert table().plot(tmp_path / "a.svg") is not None
    assert (tmp_path / "a.svg").exists()

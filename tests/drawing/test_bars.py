"""Bars say what the table says: every number, its interval, in the declared order."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest
from drawing.reading import bars, elements, marks, texts, whiskers

import sulq
from sulq.errors import MissingExtra, QueryNotAllowed, Refused
from sulq.values.price import Price
from sulq.values.table import Table

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


def ends(pairs):
    return [tuple(round(x, 2) + 0.0 for x in pair) for pair in pairs]


def test_bars_and_intervals_are_those_of_the_table():
    """Read off the axis, bars begin at 0 and end at the numbers; one below zero lies below."""
    svg = table().plot().svg
    assert ends(bars(svg)) == [(0, 30), (0, 20), (0, 10), (-5, 0)]
    assert ends(whiskers(svg)) == [(22, 38), (12, 28), (2, 18), (-13, 3)]


def test_the_order_is_the_declared_one():
    """Labels stand one below the other as the table has them."""
    labels = [(float(a["y"]), text) for name, _, a, text in elements(table().plot().svg)
              if name == "text" and text in LABELS]  # fmt: skip
    assert [text for _, text in sorted(labels)] == LABELS


def test_two_label_columns_are_grouped_and_coloured():
    """The second label has a colour and a line in the legend; bars of one label stand together."""
    labels = [(a, b) for a in ("north", "south") for b in ("true", "false")]
    svg = table(("region", "smoker"), labels).plot().svg
    assert ends(bars(svg, "bar")) == [(0, 30), (0, 10)]  # true
    assert ends(bars(svg, "bar-2")) == [(0, 20), (-5, 0)]  # false
    assert [text for text in texts(svg) if text in ("true", "false")] == ["true", "false"]
    places = sorted(
        (float(a["y"]), kind) for kind in ("bar", "bar-2") for a in marks(svg, kind)
        if "key" not in a["class"]
    )  # fmt: skip
    assert [kind for _, kind in places] == ["bar", "bar-2"] * 2


def test_several_numbers_are_several_figures():
    """One below the other, each with its own title."""
    picture = table(names=("count", "avg(income)")).plot()
    assert [f.title for f in picture.figures] == ["count by region", "avg(income) by region"]
    assert {"count by region", "avg(income) by region"} <= set(texts(picture.svg))


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<svg"), ("a.PNG", b"\x89PNG")])
def test_saved_by_its_ending(tmp_path, name, start):
    """.svg and .png, in any case."""
    table().plot(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_png_has_letters(tmp_path):
    """Words are drawn, not left out: other labels give other pixels."""
    for name, labels in (("a.png", "abcd"), ("b.png", "wxyz")):
        table(labels=[(x,) for x in labels]).plot(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()


def test_the_picture_holds_the_words(tmp_path):
    """Names of columns and labels are in it, whatever characters they have."""
    odd = table(("re.gion[0]",), [("a:b",), ("<c>",), ("0\x07to 5",), ("other",)])
    odd.plot(tmp_path / "a.svg")
    odd.plot(tmp_path / "a.png")  # what is no XML would not be read
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    words = " ".join(root.itertext())
    for word in ("re.gion[0]", "a:b", "<c>", "0\ufffdto 5", "other", "95% intervals"):
        assert word in words
    assert root.find("{*}desc").text.replace("\ufffd", "\x07") == str(odd)


def test_a_file_has_its_colours_in_it():
    """Light and dark, so that it needs no page around it; a PNG is light."""
    svg = table().plot().svg
    assert "prefers-color-scheme: dark" in svg
    assert "var(--" not in svg


@pytest.mark.parametrize("name", ["a.pdf", "a", "missing/a.svg"])
def test_other_endings_and_folders_are_refused(tmp_path, name):
    """Before anything is written."""
    with pytest.raises(Refused, match="plot="):
        table().plot(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_three_label_columns_are_refused():
    """There is no third way to tell bars apart."""
    labels = [("a", "b", "c")]
    with pytest.raises(QueryNotAllowed, match="3 label columns"):
        table(("x", "y", "z"), labels, [1.0]).plot()


def test_a_missing_extra_says_how_to_get_it(monkeypatch, tmp_path):
    """PNG needs one; SVG and notebooks do not."""
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sulq\[plot\]'"):
        table().plot(tmp_path / "a.png")
    table().plot(tmp_path / "a.svg")
    assert set(table().plot()._repr_mimebundle_()) == {"image/svg+xml", "text/plain"}


def test_drawing_needs_neither_a_server_nor_a_chart_library():
    """Nothing but Python is loaded for an SVG, and `import sulq` does not load drawing."""
    code = (
        "import sys, sulq\n"
        "assert not any(name.startswith('sulq.drawing') for name in sys.modules)\n"
        "from sulq.drawing.bars import Bar, bars\n"
        "sulq.Picture('x', [bars('k', 't', [Bar('a', 1.0, 0.5, 1.5)])]).svg\n"
        "loaded = {'altair', 'markupsafe', 'jinja2', 'numpy', 'resvg_py'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_picture_of_ones_own():
    """Figures and words of one's own make a picture."""
    from sulq.drawing.bars import Bar
    from sulq.drawing.bars import bars as drawn

    picture = sulq.Picture("one bar", [drawn("k", "A title", [Bar("a", 2.0, 1.0, 4.0)])])
    assert str(picture) == picture.text == "one bar"
    assert ends(whiskers(picture.svg)) == [(1, 4)]

"""Lines, heat maps, points and trees lie where their numbers say."""

from __future__ import annotations

import re

import pytest
from drawing.reading import across, bars, elements, marks, number, texts, whiskers

from sulq.drawing.bars import Bar, dots
from sulq.drawing.bars import bars as drawn_bars
from sulq.drawing.column_charts import ColumnBar, columns, line_over, over_names, stretches
from sulq.drawing.heat import Point, heat, scatter
from sulq.drawing.lines import Axis, Line, lines
from sulq.drawing.scale import Scale
from sulq.drawing.style import COLOURS, RULES, for_files, for_pages
from sulq.drawing.svg import Svg, tag
from sulq.drawing.tree import Node, tree


def page(figure):
    return figure.__html__()


def test_every_text_is_escaped():
    """Text is text, in elements and in attributes; only what is SVG stays as it is."""
    made = tag("text", "<b>&", Svg("<i/>"), class_='"x', data_y=1.23456789)
    assert made == '<text class="&quot;x" data-y="1.23457">&lt;b&gt;&amp;<i/></text>'
    assert made.__html__() is made


@pytest.mark.parametrize(("low", "high"), [(0, 3), (-7, 120_000), (0.001, 0.0017), (5, 5)])
def test_ticks_are_round_and_within(low, high):
    """Two to six, each where it says."""
    scale = Scale.of([low, high], 10, 110)
    ticks = [tick for tick, _ in scale.ticks()]
    assert 2 <= len(ticks) <= 6
    assert all(10 - 1e-9 <= scale.at(tick) <= 110 + 1e-9 for tick in ticks)


def test_an_interval_far_wider_than_most_does_not_squeeze_the_rest():
    """It ends at the edge without the mark of an end; beyond both edges it is only named."""
    found = [Bar(str(i), 10.0, 9.0, 11.0) for i in range(5)]
    found += [Bar("far", 10.0, 8.0, 900.0), Bar("hopeless", 10.0, -900.0, 900.0)]
    figure = drawn_bars("k", "t", found, caption="Counts.")
    svg = page(figure)
    low, high = whiskers(svg)[-1]
    assert (low, high) == (pytest.approx(8, abs=0.1), pytest.approx(11, abs=0.1))
    assert [a["d"].count("v8") for a in marks(svg, "whisker")] == [2, 2, 2, 2, 2, 1]
    assert figure.caption == "Counts. Too noisy to draw: hopeless."
    assert "hopeless" not in svg


def test_every_bar_says_its_number_to_whoever_points_at_it():
    """As people read it, where that is given; the area that says so is the whole line."""
    found = [Bar("a", 3.0, 1.0, 5.0, said="3 ± 2"), Bar("b", 2.0, 2.0, 2.0)]
    svg = page(drawn_bars("k", "t", found))
    assert [text for name, _, _, text in elements(svg) if name == "title"][1:] == [
        "a: 3 ± 2", "b: 2"
    ]  # fmt: skip
    assert len(marks(svg, "hit")) == 2


@pytest.mark.parametrize("width", [340.0, 1040.0])
def test_long_labels_are_wrapped_or_lose_their_middle(width):
    """Never their end, by which names of a kind differ; what is cut is said on pointing."""
    names = [f"a rather long name of a class that ends in {i}" for i in range(3)]
    names += ["Zwischenablage" * 8 + str(i) for i in range(3)]
    svg = page(drawn_bars("k", "t", [Bar(n, 1.0, 0.5, 1.5) for n in names], width=width))
    written = [t for t in texts(svg) if number(t) is None]
    assert all(len(t) * 8 * 0.84 <= 0.38 * width for t in written)
    assert [t[-1] for t in written if t[-1] in "012"].count("2") == 2
    said = [text for name, _, _, text in elements(svg) if name == "title"]
    assert {n for n in names if n not in written} <= set(said)


# ---- columns over an axis --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "ends"),
    [
        (["0 to 9", "10 to 19", "20 to 29", "(other)"], [(0, 10), (10, 20), (20, 30), None]),
        (["0 to 2.5", "2.5 to 5"], [(0, 2.5), (2.5, 5)]),
        (["-1,000 to 0", "0 to 1,000"], [(-1000, 0), (0, 1000)]),
        ([1, 2, 3, 4, 6], [(0.5, 1.5), (1.5, 2.5), (2.5, 3.5), (3.5, 4.5), (5.5, 6.5)]),
    ],
)
def test_numeric_labels_lie_on_an_axis(labels, ends):
    """Bins of whole numbers reach up to the next; single numbers half-way to it."""
    found = stretches(labels)
    assert list(found.ends) == ends
    assert not found.days


def test_days_lie_on_an_axis_of_days():
    """Written as dates, as many as there is room for."""
    found = stretches(["2026-01-01 to 2026-01-31", "2026-02-01 to 2026-02-28"])
    assert found.days
    assert [high - low for low, high in found.ends] == [31, 28]
    assert [text for _, text in found.marks(9)] == ["2026-01-01", "2026-02-01"]
    assert len(found.marks(1)) == 1


@pytest.mark.parametrize(
    "labels",
    [["north", "south"], ["1", "2", "3"], ["9 to 0", "0 to 9"], ["2 to 1", "x"],
     ["true", "false"], ["(other)"], ["1 to 2 to 3", "4 to 5"], ["0 to 10", "5 to 15"]],
)  # fmt: skip
def test_names_have_no_axis(labels):
    """Nor have numbers that are out of order, overlap or are too few."""
    assert stretches(labels) is None


@pytest.mark.parametrize("drawn", [columns, line_over])
def test_columns_stand_where_their_numbers_are(drawn):
    """Read off both axes: each from 0 to its number, over its own stretch."""
    found = [ColumnBar(10.0 * i, 10.0 * i + 10, Bar(f"{i}", 5.0 * i, 5.0 * i - 3, 5.0 * i + 3))
             for i in range(5)]  # fmt: skip
    figure = drawn("k", "t", found, across="age", up="people", width=500.0)
    svg = page(figure)
    assert {"age", "people", "0", "20", "40"} <= set(texts(svg))
    if drawn is columns:
        wide = across(svg)
        tops = [(float(a["y"]), float(a["height"])) for a in marks(svg, "bar")]
        zero = max(y + h for y, h in tops[1:])
        assert [h / tops[1][1] for _, h in tops][1:] == pytest.approx([1, 2, 3, 4], rel=0.01)
        assert all(y + h == pytest.approx(zero, rel=1e-3) for y, h in tops[1:])
        places = [wide(float(a["x"]) + float(a["width"]) / 2) for a in marks(svg, "bar")]
        assert places == pytest.approx([5, 15, 25, 35, 45], abs=0.1)
    assert len(marks(svg, "whisker")) == 5 * (drawn is columns)
    assert "4: 20 (17 to 23)" in svg


def test_names_below_columns_turn_where_they_do_not_fit():
    """Whole, at an angle; short ones stay level."""
    bars_ = [Bar(f"category {i}", 1.0, 0.0, 2.0) for i in range(20)]
    placed, written = over_names(bars_)
    svg = page(columns("k", "t", placed, marks=written, width=340.0))
    assert svg.count("rotate(-45)") == 20
    assert "category 19" in texts(svg)
    placed, written = over_names(bars_[:2])
    assert "rotate" not in page(columns("k", "t", placed, marks=written, width=340.0))


def test_numbers_that_are_none_are_left_out():
    """NaN and infinity have no place; what is left out for room is said."""
    found = [Bar("nan", float("nan"), 0, 1), *(Bar(f"b{i}", 1.0, 0.5, 2.0) for i in range(70))]
    figure = drawn_bars("k", "t", found)
    assert len(bars(page(figure))) == 60
    assert "more are in the table" in figure.words


def test_dots_lie_at_their_numbers():
    """Read off the axis."""
    svg = page(dots("k", "t", [Bar("a", 3.0, 1.0, 5.0), Bar("b", -2.0, -4.0, 0.5)]))
    assert [tuple(round(x, 2) for x in pair) for pair in whiskers(svg)] == [(1, 5), (-4, 0.5)]
    assert len(marks(svg, "dot")) == 2


def test_lines_have_steps_bands_levels_and_names():
    """By powers of ten, equal factors are equal steps."""
    found = [
        Line(
            [(1, 10), (10, 100), (100, 1000)], name="grows", band=[(5, 20), (50, 200), (500, 2000)]
        ),
        Line([(1, 1000), (100, 10)], name="falls", dots=True),
    ]
    figure = lines("k", "t", "words", found, Axis(1, 100, log=True), Axis(1, 10_000, log=True),
                   level=100, dot=(10, 100))  # fmt: skip
    svg = page(figure)
    (path,) = (a["d"] for a in marks(svg, "line"))
    xs, ys = zip(
        *((float(x), float(y)) for x, y in re.findall(r"[ML](\S+?) ([\d.]+)", path)), strict=False
    )
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], rel=0.01)
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], rel=0.01)
    assert {"grows", "falls", "1", "10", "100", "1,000"} <= set(texts(svg))
    (level,) = (a["d"] for a in marks(svg, "dashed"))
    assert float(level.split()[1].split("H")[0]) == pytest.approx(ys[1], abs=0.1)
    (dot,) = marks(svg, "dot")
    assert (float(dot["cx"]), float(dot["cy"])) == pytest.approx((xs[1], ys[1]), abs=0.1)
    assert len(marks(svg, "area")) == 1


def test_steps_are_flat_until_the_next_point():
    """Spending does not grow between charges."""
    made = lines("k", "t", "w", [Line([(0, 1), (1, 2)], steps=True)], Axis(0, 1), Axis(0, 2))
    (path,) = (a["d"] for a in marks(page(made), "line"))
    assert re.fullmatch(r"M\S+ \S+?H\S+?L\S+ \S+", path)


def test_heat_is_strong_where_numbers_are_large_and_coloured_by_sign():
    """Each number is written in its cell."""
    svg = page(heat("k", "t", ["a", "b"], ["pc1", "pc2"], [[1.0, -0.5], [0.25, 0.0]]))
    strengths = [float(a["fill-opacity"]) for a in marks(svg, "bar")]
    assert strengths == [0.6, pytest.approx(0.15), 0.0]
    assert [float(a["fill-opacity"]) for a in marks(svg, "bar-2")] == [pytest.approx(0.3)]
    assert [t for t in texts(svg) if t[0] in "+-"] == ["+1.00", "-0.50", "+0.25", "+0.00"]


def test_points_lie_over_the_cells():
    """In the middle of a cell where they are in its middle; up is up."""
    cells = [((0, 10), (0, 5), 4.0), ((10, 20), (5, 10), 8.0)]
    svg = page(scatter("k", "t", [Point("0", 15, 7.5, 5, 2.5)], cells, ("x", "y")))
    _, upper = marks(svg, "bar")
    (dot,) = marks(svg, "dot")
    assert float(dot["cx"]) == pytest.approx(float(upper["x"]) + float(upper["width"]) / 2, abs=1)
    assert float(dot["cy"]) == pytest.approx(float(upper["y"]) + float(upper["height"]) / 2, abs=1)
    assert float(upper["fill-opacity"]) == 2 * float(marks(svg, "bar")[0]["fill-opacity"])


def test_points_lie_over_the_part_of_the_plane_that_is_not_empty():
    """Cells beyond the last one with something in it are left out; the axes end there."""
    cells = [((10.0 * i, 10.0 * i + 10), (0.0, 5.0), 100.0 if i < 3 else 1.0) for i in range(12)]
    svg = page(scatter("k", "t", [Point("0", 15, 2, 1, 1)], cells, ("x", "y")))
    assert svg.count('class="bar"') == 3
    assert ">20</text>" in svg
    assert ">100</text>" not in svg
    far = page(scatter("k", "t", [Point("0", 75, 2, 1, 1)], cells, ("x", "y")))
    assert far.count('class="bar"') == 8  # as far as the point
    empty = [(*cell[:2], 0.0) for cell in cells]
    assert page(scatter("k", "t", [], empty, ("x", "y"))).count('class="bar"') == 12


def test_a_tree_has_a_bar_of_shares_for_each_leaf():
    """Shares of a leaf fill its bar; each class has its colour in the legend."""
    leaves = (
        Node("< 5", "no", "90% of 10", (0.9, 0.1)),
        Node(">= 5", "yes", "60% of 5", (0.4, 0.6)),
    )
    figure = tree("k", Node("", "age", below=leaves), ["no", "yes"], "words")
    svg = page(figure)
    _, first, second = marks(svg, "bar")  # the first is the legend's
    _, other, more = marks(svg, "bar-2")
    assert float(first["width"]) == pytest.approx(9 * float(other["width"]))
    assert float(second["width"]) / float(more["width"]) == pytest.approx(2 / 3, rel=1e-4)
    assert figure.title == "A tree with 1 splits and 2 leaves"


def test_every_colour_that_marks_use_is_there():
    """In pages by name, in files by value, light and dark."""
    named = set(re.findall(r"var\(--([\w-]+)\)", RULES))
    assert named <= set(COLOURS)
    assert "var(" not in for_files()
    for name in named - {"ink", "soft", "card"}:
        assert for_pages().count(f"--{name}: ") == 2


def test_a_tree_without_room_is_drawn_in_lines():
    """Every node on a line of its own, within the room there is; nothing to scroll."""
    leaves = tuple(Node(b, "yes", "80% of 1,000 +/- 20", (0.2, 0.8)) for b in ("low", "high"))
    root = Node("", "age", below=(Node("old", "smoker", below=leaves), *leaves))
    figure = tree("k", root, ["no", "yes"], "words", 320.0)
    assert (figure.width, figure.wide) == (320.0, False)
    places = [float(y) for y in re.findall(r'<text[^>]* y="([0-9.]+)"', figure.__html__())]
    assert len(set(places)) == len(places) - 1  # the legend's two are on one line
    assert max(map(float, re.findall(r' x="([0-9.]+)"', figure.__html__()))) < 320
    assert tree("k", root, ["no", "yes"], "words", 1040.0).wide

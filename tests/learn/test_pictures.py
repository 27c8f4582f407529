"""Pictures show what was learned, say it in words too, and cost what they say."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from drawing.reading import bars, marks, texts, whiskers
from helpers import opened
from learn.data import blobs, columns_of, low_rank, schema, table

import sulq
from sulq.learn import PCA, SVD, KMeans, LinearRegression
from sulq.learn.model_pictures import give_or_take, in_rows


@pytest.fixture(scope="module")
def pca():
    return PCA(2, epsilon=20.0, bounds=(0, 1)).fit(low_rank(2000, 5))


@pytest.fixture(scope="module")
def line():
    X = low_rank(2000, 3)
    y = np.clip(X @ [0.5, 0.1, 0.2], 0, 1)
    return LinearRegression(epsilon=20.0, bounds=(0, 4), label_bounds=(0, 1)).fit(4 * X, y)


def clusters(**settings):
    X, _ = blobs(2000)
    db = opened(table(X), schema(3), epsilon=20.0, **settings)
    return KMeans(3, budget=100).fit(db, columns=columns_of(3)), db


def test_an_intercept_is_where_a_line_starts(line):
    """Not a change for one more of anything: it stands in the caption, columns in the rows."""
    found = in_rows(line)
    assert [row[0] for row in found.rows] == list(line.columns_)
    assert re.search(r"; starts from -?[\d.,]+ ± [\d.,]+ where every column is 0", found.caption)


# --- what they show -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PCA, SVD])
def test_scree_and_loadings(kind):
    """Bars end at the shares of variance; every loading is written in its cell."""
    model = kind(2, epsilon=20.0, bounds=(0, 1)).fit(low_rank(2000, 5))
    picture = model.plot()
    scree, loadings = picture.figures
    shares = model.explained_variance_ratio_.tolist()
    assert [end for _, end in bars(scree.__html__())] == pytest.approx(shares, rel=1e-3)
    written = [text for text in texts(loadings.__html__()) if text[0] in "+-"]
    assert written == [f"{round(x, 2) + 0.0:+.2f}" for row in model.components_ for x in row]
    assert f"{shares[0]:.1%}" in str(picture)
    assert model.summary().startswith(f"{picture.text}\nleft out: ")


def test_a_component_that_may_be_noise_says_so():
    """A right angle is noise; what was turned less is drawn in full, with its angle."""
    model = PCA(2, epsilon=20.0, bounds=(0, 1)).fit(low_rank(2000, 5))
    model.component_angles_ = np.array([np.radians(3.0), np.pi / 2])
    picture = model.plot()
    svg = picture.figures[0].__html__()
    assert "may be noise" in str(picture)
    assert (
        len(marks(svg, "faint"))
        == texts(svg).count("may be noise")
        == texts(svg).count("±3.0°")
        == 1
    )


def test_centres_lie_over_the_counts():
    """Each centre lies where its numbers say, among cells shaded by the noisy counts."""
    model, db = clusters()
    figure = model.plot(db, ["x2", "x0"], bins=4).figures[0]
    svg = figure.__html__()
    cells = marks(svg, "bar")
    left, top = (min(float(c[name]) for c in cells) for name in "xy")
    step = (max(float(c["x"]) for c in cells) - left) * 4 / 3 / 4  # of a quarter of [0, 1]
    down = (max(float(c["y"]) for c in cells) - top) / 3
    for dot, centre in zip(marks(svg, "dot"), model.cluster_centers_, strict=True):
        assert (float(dot["cx"]) - left) / (4 * step) == pytest.approx(centre[2], abs=0.005)
        assert 1 - (float(dot["cy"]) - top) / (4 * down) == pytest.approx(centre[0], abs=0.005)
    strengths = [float(c["fill-opacity"]) for c in cells]
    corner = db.count("x0 < 0.25 and x2 < 0.25").value
    assert len(cells) == 16
    assert strengths[0] / sum(strengths) == pytest.approx(corner / 2000, abs=1e-4)
    x, reach = model.cluster_centers_[0, 2], 1.96 * model.center_stds_[0, 2]
    assert f"group 0: x2 {x:,.4g} ± {reach:,.2g}, x0 " in figure.words


def test_whole_numbers_fill_their_bins():
    """0 to 24 and 25 to 49 touch: half of the drawing each."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 50, 500) for name in ("a", "b")}
    ends = {"type": "integer", "low": 0, "high": 49, "nullable": False}
    db = opened(pa.table(columns), {"columns": dict.fromkeys(columns, ends)})
    svg = KMeans(2).fit(db).plot(db, bins=2).figures[0].__html__()
    places = {(float(c["x"]), round(float(c["width"]))) for c in marks(svg, "bar")}
    (left, wide), (right, same) = sorted(places)
    assert wide == same == pytest.approx(right - left, abs=1)


def test_coefficients_have_their_intervals(line):
    """Over the declared range of each column, at the level that was asked for."""
    svg = line.plot(level=0.5).figures[0].__html__()
    reach = 0.67449 * line.coef_std_ * line.width_
    effects = line.coef_ * line.width_
    for (low, high), x, r in zip(whiskers(svg), effects, reach, strict=True):
        assert (low, high) == pytest.approx((x - r, x + r), rel=1e-2)
    assert "intercept" in line.summary()
    assert "50% interval" in str(line.plot(level=0.5))
    with pytest.raises(sulq.Refused, match="level=1"):
        line.plot(level=1)


@pytest.mark.parametrize(
    ("value", "reach", "said"),
    [
        (40261.3, 231.0, "40,260 +/- 230"), (0.123456, 0.00123, "0.1235 +/- 0.0012"),
        (39.03, 0.0, "39.03"), (5.0, float("inf"), "5"), (812.7, 33.3, "813 +/- 33"),
    ],
)  # fmt: skip
def test_numbers_have_the_digits_of_their_error(value, reach, said):
    """A number is rounded as its interval allows."""
    assert give_or_take(value, reach) == said


# --- what they cost -----------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "want"), [(None, 2.0), (9, 9.0)])
def test_the_histogram_is_priced_paid_and_said(budget, want, tmp_path):
    """A picture of k-means costs what it announced, and says so."""
    model, db = clusters()
    before = db.budget.spent
    price = model.plot_price(db, budget=budget)
    picture = model.plot(db, budget=budget, path=tmp_path / "k.svg")
    assert float(price) == pytest.approx(want, rel=1e-5)
    assert db.budget.spent - before == price.queries
    assert f"price {price}" in str(picture)
    assert f"each +/- {price.half_widths[0]:,.0f} (95%)" in str(picture)
    model.plot(db, budget=budget)
    assert db.budget.spent - before == price.queries  # asked before


def test_its_price_is_known_before_the_fit():
    """plot_price needs no fitted model."""
    _, db = clusters()
    assert KMeans(3).plot_price(db, ["x0", "x1"]).queries == 2


@pytest.mark.parametrize("bad", ["k.pdf", "nowhere/k.svg"])
def test_what_cannot_be_saved_is_not_paid_for(bad, tmp_path):
    """A bad path is refused before the question."""
    model, db = clusters()
    before = db.budget.spent
    with pytest.raises(sulq.Refused, match="plot="):
        model.plot(db, path=tmp_path / bad)
    assert db.budget.spent == before


def test_what_cannot_be_drawn_is_not_paid_for(monkeypatch, tmp_path):
    """A PNG without the extra is refused before the histogram is asked."""
    model, db = clusters()
    before = db.budget.spent
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(sulq.MissingExtra, match="sulq\\[plot\\]"):
        model.plot(db, path=tmp_path / "k.png")
    assert db.budget.spent == before


@pytest.mark.parametrize("columns", [["x0"], ["x0", "x0"], ["x0", "nope"], ["x0", "x1", "x2"]])
def test_two_of_the_models_columns_are_drawn(columns):
    """Other columns are refused before the question."""
    model, db = clusters()
    before = db.budget.spent
    with pytest.raises(sulq.Refused, match="two of the model's: x0, x1, x2"):
        model.plot(db, columns)
    assert db.budget.spent == before


def test_pictures_of_nothing_are_refused():
    """A model that is not fitted has no picture."""
    for model in (PCA(), LinearRegression()):
        with pytest.raises(sulq.Refused, match="call fit"):
            model.plot()
    with pytest.raises(sulq.Refused, match="call fit"):
        KMeans().plot(clusters()[1])


# --- how they leave -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "start"), [("p.svg", b"<svg"), ("p.PNG", b"\x89PNG")])
def test_saved_by_its_ending(pca, tmp_path, name, start):
    """The ending of the path decides the format."""
    assert isinstance(pca.plot(tmp_path / name), sulq.Picture)
    assert (tmp_path / name).read_bytes().startswith(start)
    pca.plot().save(tmp_path / f"2{name}")
    assert (tmp_path / f"2{name}").read_bytes().startswith(start)


def test_an_svg_says_the_words_and_is_whole(tmp_path):
    """Whatever characters a column's name has."""
    X = low_rank(500, 2)
    odd = {"a<b>&c": X[:, 0], 'q"u\\1': X[:, 1]}
    ends = {"type": "number", "low": 0, "high": 1}
    db = opened(pa.table(odd), {"columns": dict.fromkeys(odd, ends)}, epsilon=20.0)
    picture = PCA().fit(db).plot(tmp_path / "p.svg")
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    assert root.find("{*}desc").text == str(picture)
    words = " ".join(root.itertext())
    for name in odd:
        assert name in words
    assert "±" in words


def test_a_notebook_shows_the_chart(line):
    """A picture is SVG, and text where there is none."""
    shown = line.plot()._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert shown["text/plain"] == str(line.plot())

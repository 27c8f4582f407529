"""Pictures show what was learned, say it in words too, and cost what they say."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from learn.data import blobs, columns_of, low_rank, schema, table

import sulq
from sulq.learn import PCA, SVD, KMeans, LinearRegression
from sulq.learn.pictures import give_or_take


def drawn(picture):
    """The rows that each part of a chart is drawn from, in order."""
    found = []

    def walk(part):
        if isinstance(part, dict):
            data = part.get("data", {})
            if "values" in data:
                found.append(data["values"])
            elif "name" in data:
                found.append(whole["datasets"][data["name"]])
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    whole = picture.chart.to_dict()
    walk({k: v for k, v in whole.items() if k != "datasets"})
    return found


def with_field(picture, field):
    return next(rows for rows in drawn(picture) if rows and field in rows[0])


@pytest.fixture(scope="module")
def pca():
    return PCA(2, epsilon=20.0).fit(low_rank(2000, 5))


@pytest.fixture(scope="module")
def line():
    X = low_rank(2000, 3)
    y = np.clip(X @ [0.5, 0.1, 0.2], 0, 1)
    return LinearRegression(epsilon=20.0, bounds=(0, 4)).fit(4 * X, y)


def clusters(**settings):
    X, _ = blobs(2000)
    db = opened(table(X), schema(3), epsilon=20.0, **settings)
    return KMeans(3, budget=100).fit(db, columns=columns_of(3)), db


# --- what they show -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PCA, SVD])
def test_scree_and_loadings(kind):
    model = kind(2, epsilon=20.0).fit(low_rank(2000, 5))
    picture = model.plot()
    shares = [r["share"] for r in with_field(picture, "share")]
    assert shares == pytest.approx(model.explained_variance_ratio_.tolist())
    loadings = {(r["component"], r["column"]): r["loading"] for r in with_field(picture, "loading")}
    assert loadings["pc2", "x3"] == pytest.approx(model.components_[1, 3])
    assert len(loadings) == 10
    assert f"{shares[0]:.1%}" in str(picture)
    assert model.summary() == picture.text


def test_a_component_that_may_be_noise_says_so():
    """Few rows and little budget: the angles are right ones."""
    model = PCA(2, epsilon=0.1).fit(low_rank(100, 5))
    assert "may be noise" in str(model.plot())
    assert {r["kind"] for r in with_field(model.plot(), "kind")} == {"noise"}


def test_centres_lie_over_the_counts():
    model, db = clusters()
    picture = model.plot(db, ["x2", "x0"], bins=4)
    points = with_field(picture, "cluster")
    assert [(p["x"], p["y"]) for p in points] == [(c[2], c[0]) for c in model.cluster_centers_]
    assert points[0]["x_high"] - points[0]["x"] == pytest.approx(2 * model.center_stds_[0, 2])
    counts = {(c["x"], c["y"]): c["count"] for c in with_field(picture, "count")}
    assert len(counts) == 16
    assert sum(counts.values()) == 2000
    assert counts[0.0, 0.0] == db.count("x0 < 0.25 and x2 < 0.25").value


def test_whole_numbers_fill_their_bins():
    """0 to 24 and 25 to 49 touch."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 50, 500) for name in ("a", "b")}
    ends = {"type": "integer", "low": 0, "high": 49, "nullable": False}
    db = opened(pa.table(columns), {"columns": dict.fromkeys(columns, ends)})
    picture = KMeans(2).fit(db).plot(db, bins=2)
    cells = with_field(picture, "count")
    assert {(c["x"], c["x2"]) for c in cells} == {(0, 25), (25, 50)}


def test_coefficients_have_their_intervals(line):
    rows = with_field(line.plot(level=0.5), "effect")
    assert [r["coef"] for r in rows] == pytest.approx(line.coef_.tolist())
    assert [r["effect"] for r in rows] == pytest.approx((4 * line.coef_).tolist())
    reach = [r["high"] - r["effect"] for r in rows]
    assert reach == pytest.approx((0.67449 * line.coef_std_ * line.width_).tolist(), rel=1e-4)
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
    assert give_or_take(value, reach) == said


# --- what they cost -----------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "want"), [(None, 2.0), (9, 9.0)])
def test_the_histogram_is_priced_paid_and_said(budget, want, tmp_path):
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
    _, db = clusters()
    assert KMeans(3).plot_price(db, ["x0", "x1"]).queries == 2


@pytest.mark.parametrize("bad", ["k.pdf", "nowhere/k.svg"])
def test_what_cannot_be_saved_is_not_paid_for(bad, tmp_path):
    model, db = clusters()
    before = db.budget.spent
    with pytest.raises(sulq.Refused, match="plot="):
        model.plot(db, path=tmp_path / bad)
    assert db.budget.spent == before


def test_what_cannot_be_drawn_is_not_paid_for(monkeypatch):
    model, db = clusters()
    before = db.budget.spent
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(sulq.MissingExtra, match="sulq\\[plot\\]"):
        model.plot(db)
    assert db.budget.spent == before


@pytest.mark.parametrize("columns", [["x0"], ["x0", "x0"], ["x0", "nope"], ["x0", "x1", "x2"]])
def test_two_of_the_models_columns_are_drawn(columns):
    model, db = clusters()
    before = db.budget.spent
    with pytest.raises(sulq.Refused, match="two of the model's: x0, x1, x2"):
        model.plot(db, columns)
    assert db.budget.spent == before


def test_pictures_of_nothing_are_refused():
    for model in (PCA(), LinearRegression()):
        with pytest.raises(sulq.Refused, match="call fit"):
            model.plot()
    with pytest.raises(sulq.Refused, match="call fit"):
        KMeans().plot(clusters()[1])


# --- how they leave -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "start"), [("p.svg", b"<svg"), ("p.PNG", b"\x89PNG")])
def test_saved_by_its_ending(pca, tmp_path, name, start):
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


def test_words_need_no_altair(pca, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    picture = pca.plot()
    assert re.search(r"pc1 +\d", str(picture))
    assert picture._repr_mimebundle_() == {"text/plain": picture.text}
    with pytest.raises(sulq.MissingExtra):
        _ = picture.chart


def test_a_notebook_shows_the_chart(line):
    shown = line.plot()._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert shown["text/plain"] == str(line.plot())

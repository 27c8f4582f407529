"""Models through the console: priced, learned step by step, drawn, downloaded, used."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from attacks.harness import SCHEMA, people
from playwright.sync_api import expect
from server.console.page_client import PageClient, hidden, plain, text
from server.instance import made

from sulq import learn

M = "/console/datasets/people/models"
KINDS = {
    "PCA": (["age", "income"], ""),
    "KMeans": (["age", "income"], ""),
    "ID3": (["age", "city"], "secret"),
    "NaiveBayes": (["age", "city"], "secret"),
    "Perceptron": (["age", "income"], "secret"),
    "LinearRegression": (["age", "secret"], "income"),
    "LogisticRegression": (["age", "income"], "secret"),
    "AdditiveClassifier": (["age", "city"], "secret"),
    "AdditiveRegressor": (["age", "city"], "income"),
    "RandomTrees": (["age", "city"], "secret"),
    "LinearSVM": (["age", "income"], "secret"),
    "GaussianMixture": (["age", "income"], ""),
    "LocallyWeightedRegression": (["age"], "income"),
    "LSI": (["age", "income"], ""),
    "SpectralClustering": (["age", "income"], ""),
    "AssociationRules": (["city", "secret"], ""),
    "Synthesizer": (["age", "city", "secret"], ""),
}


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """Enough rows, a small R, and a secret that depends on age: there is something to learn."""
    n = 5000
    table = people(n, seed=4)
    age = np.asarray(table["age"])
    table = table.set_column(3, "age", pa.array(age)).set_column(2, "secret", pa.array(age > 50))
    folder = tmp_path_factory.mktemp("models") / "instance"
    with made(folder, table, SCHEMA, epsilon=10.0, queries=1000).serving() as served:
        yield served


def wanted(kind, **more):
    columns, label = KINDS[kind]
    said = {"kind": kind, "label": label} | more
    return [*said.items(), *(("columns", name) for name in columns)]


def learned(bob, kind, **more):
    """Price, pay, wait for it; where the model is."""
    fields = wanted(kind, **more)
    found = bob.post(f"{M}/preview", fields)
    assert found.status == 200, plain(found)
    fields += [("request", hidden(found, "request")), ("price", hidden(found, "price"))]
    place = bob.post(f"{M}/learn", fields).headers["location"]
    wait(bob, place)
    return place, fields


def wait(bob, place):
    """Until it is learned: asking how far it is is what takes the time."""
    while bob.get(f"{place}/progress").json["state"] == "running":
        pass


def spent(instance, who="bob"):
    return instance.call("GET", "/v1/datasets/people/budget", None, who).json["spent_micro"]


def test_a_tree_and_components_in_a_browser_with_progress(sit, instance):
    """Choose, see the price, go, watch the steps, see the picture, predict."""
    page = sit("bob", path=M)
    page.get_by_role("link", name="Principal components").click()
    page.get_by_label("age", exact=True).check()
    page.get_by_label("income", exact=True).check()
    page.get_by_role("button", name="See the price").click()
    page.get_by_role("button", name=re.compile("Learn and pay at most")).click()
    page.get_by_role("heading", name="What it learned").wait_for()
    expect(page.get_by_role("img", name="Share of variance along each component")).to_be_visible()
    expect(page.get_by_role("img", name="What each component is made of")).to_be_visible()

    page.goto(f"{M}/new/ID3")
    page.get_by_label("Predict").select_option("secret")
    page.get_by_label("age", exact=True).check()
    page.get_by_role("button", name="See the price").click()
    before = spent(instance)
    page.get_by_role("button", name=re.compile("Learn and pay at most")).click()
    page.get_by_role("heading", name="What it learned").wait_for()
    expect(page.get_by_role("img", name=re.compile("A tree with"))).to_be_visible()
    assert spent(instance) > before
    page.get_by_label("Rows, one a line").fill("age\n10\n95")
    page.get_by_role("button", name="Predict").click()
    page.get_by_text("What the model says of your rows").wait_for()
    rows = page.get_by_role("row").all_inner_texts()
    assert [row.split()[1] for row in rows[1:]] == ["False", "True"]
    with page.expect_download() as found:
        page.get_by_role("link", name="JSON model").click()
    model = learn.load(found.value.path())
    assert list(model.predict([[10], [95]])) == [False, True]


@pytest.mark.parametrize("kind", ["PCA", "LinearRegression"])
def test_what_a_model_learned_stands_on_a_phone_without_scrolling_sideways(sit, instance, kind):
    """Each number beside its name, one below the other."""
    place, _ = learned(PageClient(instance, "bob"), kind)
    page = sit("bob", path=place, width=390)
    beyond = "all => all.filter(x => x.scrollWidth > x.clientWidth).length"
    assert page.locator(".scroll").count() >= 1
    assert page.locator(".scroll").evaluate_all(beyond) == 0
    label = page.locator("table td").first.evaluate("x => getComputedStyle(x, '::before').content")
    assert label != "none"


def test_progress_is_shown_live_and_without_a_script(sit, instance, monkeypatch):
    """Step after step, with what is left; a page without a script loads itself again."""
    import threading

    from sulq.server.console.model_jobs import Jobs

    go, honest = threading.Event(), Jobs._step

    def held(self, id, steps):
        honest(self, id, steps)
        if steps.done == 2:
            go.wait(30)

    monkeypatch.setattr(Jobs, "_step", held)
    page = sit("bob", path=f"{M}/new/KMeans")
    for name in ("age", "income"):
        page.get_by_label(name, exact=True).check()
    page.get_by_role("button", name="See the price").click()
    page.get_by_role("button", name=re.compile("Learn and pay at most")).click()
    try:
        page.get_by_text(re.compile(r"2 of \d+ steps")).wait_for()
        page.get_by_text(re.compile("queries left")).wait_for()
        bar = page.get_by_role("progressbar")
        steps = bar.get_attribute("max")
        assert bar.evaluate("b => b.value") == 2
        plain_page = PageClient(instance, "bob").get(page.url.removeprefix(instance.url))
        assert '<noscript><meta http-equiv="refresh"' in text(plain_page)
        assert f"2 of {steps} steps" in plain(plain_page)
    finally:
        go.set()
    page.get_by_role("heading", name="What it learned").wait_for()
    expect(page.get_by_role("img", name=re.compile("Centres by age"))).to_be_visible()
    expect(
        page.get_by_role("img", name=re.compile("Centres by age")).locator(".dot")
    ).to_have_count(3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_learned_drawn_and_used(instance, kind):
    """The price shown is the most that is paid; the JSON is the model; rows may be pasted."""
    bob = PageClient(instance, "bob")
    before = spent(instance)
    place, fields = learned(bob, kind, budget="20")
    assert spent(instance) - before <= int(dict(fields)["price"])
    page = bob.get(place)
    assert "What it learned" in plain(page), plain(page)
    assert 'role="img"' in text(page)
    assert "Not promised" in plain(page)
    body = json.loads(bob.get(f"{place}/json").body)
    model = learn.from_json(body)
    assert type(model).__name__ == kind
    if not hasattr(model, "predict") and not hasattr(model, "transform"):
        assert "Use it on rows of yours" not in plain(page)
        return
    sample = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", text(page), re.DOTALL)[1]
    used = bob.post(f"{place}/predict", {"rows": sample})
    assert "What the model says of your rows" in plain(used)


def test_synthetic_rows_are_drawn_and_marked(instance):
    """As many as the table has, in a file that says what it is; other models draw none."""
    import io

    import pyarrow.parquet as pq

    bob = PageClient(instance, "bob")
    place, _ = learned(bob, "Synthesizer", budget="20")
    rows = pq.read_table(io.BytesIO(bob.get(f"{place}/rows").body))
    assert rows.num_rows == 5000
    assert rows.schema.metadata[b"sulq_synthetic"].startswith(b"SYNTHETIC")
    other, _ = learned(bob, "LinearRegression", budget="11")
    assert bob.get(f"{other}/rows").status == 404


def test_a_model_is_the_same_as_over_http(instance):
    """The console learns through the same routes: the same questions, so the second is free."""
    import sulq

    bob = PageClient(instance, "bob")
    place, _ = learned(bob, "LinearRegression", budget="11")
    before = spent(instance)
    db = sulq.connect(instance.url, instance.keys["bob"], "people")
    model = learn.LinearRegression(budget=11.0).fit(db, columns=["age", "secret"], label="income")
    assert spent(instance) == before
    kept = learn.from_json(bob.get(f"{place}/json").json)
    assert np.array_equal(kept.coef_, model.coef_)


def test_a_second_click_learns_nothing_more(instance):
    """A form sent twice learns and pays once."""
    bob = PageClient(instance, "bob")
    place, fields = learned(bob, "NaiveBayes", budget="3")
    before = spent(instance)
    assert bob.post(f"{M}/learn", fields).headers["location"] == place
    wait(bob, place)
    assert spent(instance) == before


def test_what_cannot_be_learned_says_why(instance):
    """A model that cannot be learned is refused with the reason."""
    bob = PageClient(instance, "bob")
    before = spent(instance)
    for fields, said in (
        ([("kind", "PCA")], "choose the columns"),
        (wanted("ID3", label=""), "choose what is to be predicted"),
        (wanted("ID3", label="age"), "choose what is to be predicted"),
        ([*wanted("ID3"), ("columns", "secret")], "cannot be learned from"),
        ([*wanted("PCA"), ("columns", "nosuch")], "no column to learn from"),
        ([*wanted("PCA"), ("columns", "city")], "no column to learn from"),
        (wanted("KMeans", n_clusters="0"), "want a whole number"),
        (wanted("KMeans", n_clusters="many"), "want a whole number"),
        (wanted("KMeans", n_clusters="000009999999"), "want a whole number"),
        (wanted("KMeans", n_clusters="9" * 5000), "want a whole number"),
        (wanted("PCA", budget="-1"), "no number of queries"),
        (wanted("PCA", budget="nan"), "no number of queries"),
    ):
        found = bob.post(f"{M}/preview", fields)
        assert found.status == 422, fields
        assert said in plain(found).lower()
    assert bob.post(f"{M}/preview", [("kind", "Pickle")]).status == 422
    assert bob.get(f"{M}/new/Pickle").status == 404
    assert bob.post(f"{M}/learn", [*wanted("PCA"), ("request", "x")]).status == 422
    assert spent(instance) == before


def test_more_than_is_left_is_refused_before_the_first_step(instance):
    """A model that costs more than is left is not begun."""
    bob = PageClient(instance, "bob")
    before = spent(instance)
    found = bob.post(f"{M}/preview", wanted("PCA", budget="900000"))
    pairs = [("request", hidden(found, "request")), ("price", hidden(found, "price"))]
    refused = bob.post(f"{M}/learn", wanted("PCA", budget="900000") + pairs)
    assert refused.status == 402
    assert "Say a smaller amount" in plain(refused)
    assert spent(instance) == before


def test_rows_that_cannot_be_read_say_why(instance):
    """Pasted rows that do not fit are named with what is wrong."""
    bob = PageClient(instance, "bob")
    place, _ = learned(bob, "NaiveBayes", budget="4")
    for rows, said in (
        ("", "paste rows first"),
        ("age,city", "no row below it"),
        ("1,2,3", "want 2: age, city"),
        ("old,rome", "row 1, age: want a number"),
        ("1,rome\n" * 501, "want at most 500"),
    ):
        found = bob.post(f"{place}/predict", {"rows": rows})
        assert found.status == 422
        assert said in plain(found).lower()
    good = bob.post(f"{place}/predict", {"rows": "city;age\nrome;3\n;4\nnowhere;5"})
    assert good.status == 200


def test_models_are_their_makers_own(instance):
    """Nobody sees the models of someone else."""
    bob, anna, eve = (PageClient(instance, who) for who in ("bob", "anna", "eve"))
    place, _ = learned(bob, "NaiveBayes", budget="5")
    for end in ("", "/json", "/progress"):
        there, missing = anna.get(place + end), anna.get(place[:-32] + "0" * 32 + end)
        assert there.status == missing.status == 404
        assert plain(there) == plain(missing)
        assert eve.get(place + end).status == 404
    assert anna.post(f"{place}/predict", {"rows": "1,rome"}).status == 404


def test_a_revoked_key_stops_a_model_on_its_way(instance, monkeypatch):
    """Each step is asked as whoever holds the key then."""
    from sulq.server.console.model_jobs import Jobs

    key = instance.call("POST", "/v1/keys", {"analyst": "bob"}, "anna").json
    instance.keys["spare"] = key["key"]
    honest = Jobs._step

    def revoking(self, id, steps):
        honest(self, id, steps)
        instance.call("DELETE", f"/v1/keys/{key['id']}", None, "anna")

    monkeypatch.setattr(Jobs, "_step", revoking)
    spare, bob = PageClient(instance, "spare"), PageClient(instance, "bob")
    fields = wanted("KMeans", max_iter="5", n_clusters="4")
    found = spare.post(f"{M}/preview", fields)
    fields += [("request", hidden(found, "request")), ("price", hidden(found, "price"))]
    place = spare.post(f"{M}/learn", fields).headers["location"]
    wait(bob, place)  # the same person with another key
    assert "The key is missing, malformed, unknown, expired or revoked" in plain(bob.get(place))


def test_a_model_of_a_frozen_dataset_is_not_learned_and_costs_nothing(instance):
    """Learning from a frozen dataset is refused before anything is paid."""
    bob = PageClient(instance, "bob")
    fields = wanted("NaiveBayes", budget="6")
    found = bob.post(f"{M}/preview", fields)
    fields += [("request", hidden(found, "request")), ("price", hidden(found, "price"))]
    instance.call("PATCH", "/v1/datasets/people", {"state": "frozen"}, "anna")
    try:
        place = bob.post(f"{M}/learn", fields).headers["location"]
        wait(bob, place)
        assert "is frozen" in plain(bob.get(place))
        assert "Nothing was charged." in plain(bob.get(place))
    finally:
        instance.call("PATCH", "/v1/datasets/people", {"state": "open"}, "anna")


def test_a_server_that_stopped_says_so(tmp_path):
    """A model that was on its way when the server ended is not on its way for ever."""
    instance = made(tmp_path / "instance")
    with instance.services() as services, services.registry.writing() as run:
        run(
            "INSERT INTO models SELECT ?, d.id, p.id, ?, '2026-01-01', 'running', "
            "'2999-01-01', '{}', NULL FROM datasets d, people p "
            "WHERE d.name = 'people' AND p.name = 'bob'",
            "a" * 32,
            json.dumps({"kind": "PCA", "columns": ["age"], "label": "", "params": [], "budget": "",
                        "drawn": False}),
        )  # fmt: skip
    with instance.serving():
        found = PageClient(instance, "bob").get(f"{M}/{'a' * 32}")
        assert "The server ended before this was learned" in plain(found)

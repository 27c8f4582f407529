"""What a page says is what it means: bars, names, marks, and what comes first."""

import re

import pytest
from playwright.sync_api import expect
from server.console.page_client import hidden, plain, text
from server.console.test_analyst import SQL, D, paid, sql

from sulq import Bins, Query
from sulq.server.console.question_form import FilledForm
from sulq.server.console.result_view import shown
from sulq.server.console.schema_form import declared, said

NEW = {"columns": "1", "n0": "secret", "t0": "boolean", "name": "reading", "onward": "yes"}


def test_a_bar_shows_what_its_words_say(visit, instance):
    """What is left fills it: the rest of the budget, in micro-queries."""
    instance.call("PUT", "/v1/datasets/people/allotments/bob", {"queries": 50_000}, "anna")
    bob, anna = visit("bob"), visit("anna")
    paid(bob, sql("select count(*) from people where age = 71"))
    left = instance.call("GET", "/v1/datasets/people/budget", None, "bob").json["remaining_micro"]
    found = text(bob.get("/console/"))
    assert f'max="50000000000" value="{left}"' in found
    assert left > 0.9 * 50_000_000_000
    assert "Their allotment" in plain(anna.get(f"{D}/people"))


def test_what_one_query_buys_is_said(visit):
    """Below the budget, to the digits that answers have."""
    found = plain(visit("bob").get(f"{D}/ask"))
    assert re.search(r"1 query buys one count within ± [\d,]+ rows \(95%\)\.", found)


def test_an_answer_comes_before_its_question(visit):
    """In the page itself, so with a script and without; My answers are on the way to it."""
    bob = visit("bob")
    page = text(bob.get(paid(bob, sql(SQL + " having count(*) > -2e6"))))
    assert page.index('id="answer"') < page.index("One SELECT")
    assert f'<a href="{D}/answers">My answers</a></li>' in page


def test_rows_of_another_dataset_are_a_problem_before_the_promise(visit):
    """The refusal is said at once, and nothing on the page would make it."""
    anna = visit("anna")
    for found in (
        anna.post("/console/new/columns", NEW | {"source": "people.parquet"}),
        anna.post("/console/new/promise", NEW | {"source": "people.parquet", "make": "yes"}),
    ):
        assert found.status == 409
        page = plain(found)
        assert "Not made These rows are in another dataset of this server already" in page
        assert "You may go on all the same" not in page
        assert "Make the dataset" not in page
        assert "Back to the columns" in page


def test_n_begins_with_what_metadata_says(visit, instance):
    """Parquet's, without a row read; a CSV has none. It is kept from step to step."""
    (instance.folder / "data" / "few.csv").write_text("secret\ntrue\n")
    anna, drafts = visit("anna"), {}
    for file in ("people.parquet", "few.csv"):
        body = {"source": file, "guess": True}
        drafts[file] = instance.call("POST", "/v1/draft", body, "anna").json["rows"]
    assert drafts == {"people.parquet": 200, "few.csv": None}
    page = anna.get("/console/new/columns?source=people.parquet")
    assert hidden(page, "rows") == "200"
    known = NEW | {"source": "few.csv"}
    assert 'name="rows" value="400"' in text(
        anna.post("/console/new/columns", known | {"rows": "400"})
    )
    back = {"rows": "1,234", "back": "yes"}
    assert hidden(anna.post("/console/new/promise", known | back), "rows") == "1,234"
    assert 'name="rows" value="20,000"' in text(anna.post("/console/new/columns", known))


def test_steps_that_are_done_have_a_mark(visit):
    """Those before the one that is open."""
    page = text(visit("anna").get("/console/new/columns?source=people.parquet"))
    assert page.count('<li class="done">Rows') == 1
    assert page.count('class="done"') == 1


@pytest.mark.parametrize(
    ("path", "current"),
    [("/console/", ("Datasets", "page")), (f"{D}/timeline", ("Datasets", "true")),
     ("/console/new", ("Datasets", "true")), ("/console/analysts/bob", ("Analysts", "true")),
     ("/console/audit-log", ("Server", "true")), ("/console/account", ("Account", "page"))],
)  # fmt: skip
def test_the_menu_says_where_one_is(visit, path, current):
    """Also on pages below those that it names."""
    page = text(visit("anna").get(path)).split("</nav>")[0]
    assert re.findall(r'aria-current="(\w+)">(\w+)', page) == [current[::-1]]


@pytest.mark.parametrize(
    ("page", "title"),
    [("owner", "Settings of people"), ("people", "Access to people"),
     ("schema", "Schema of people"), ("timeline", "Timeline of people"),
     ("report", "Privacy report: people")],
)  # fmt: skip
def test_an_owners_pages_are_titled_above_their_tabs(visit, page, title):
    """Each says which page it is, in one place."""
    found = text(visit("anna").get(f"{D}/{page}"))
    (heading,) = re.findall(r"<h1>(.*?)</h1>", found)
    assert re.sub(r"\s*<.*", "", heading) == title
    assert found.index("<h1>") < found.index('class="tabs"')


# ---- names ------------------------------------------------------------------------------------


def test_a_charge_is_drawn_by_the_name_of_its_groups(visit, instance):
    """One column, one with bins, two together; never by a word of ours."""
    bob = visit("bob")
    for query, name in (
        (Query(by="city", where="secret"), "city"),
        (Query(by=Bins("age", [0, 40, 100]), where="secret"), "age"),
        (Query(by=("city", "region"), where="secret"), "city, region"),
    ):
        asked = instance.call("POST", "/v1/datasets/people/ask", {"query": query.to_json()}, "bob")
        assert asked.status == 200, asked.body
        listed = instance.call(
            "GET", "/v1/datasets/people/answers?newest=true&limit=1", None, "bob"
        )
        number = listed.json["answers"][0]["number"]
        page = plain(bob.get(f"{D}/answers/{number}"))
        assert f"count by {name} " in page
        assert f"(95%) {name} count" in page


def test_a_column_called_as_its_number_is_a_group():
    """A name that both would have goes to the number."""
    from sulq.server.console.dataset_pages import _table

    part = {"cells": ["a", "b"], "names": ["count"], "values": [[1], [2]],
            "half_widths_95": [3]}  # fmt: skip
    charge = {"price": 1, "remaining": 1}
    assert _table(part, "count", charge)["by"] == ["group"]
    assert _table(part, "", charge)["by"] == ["group"]
    assert _table(part, "city", charge)["by"] == ["city"]


def test_functions_tell_two_answers_of_one_title_apart(visit):
    """The same SELECT with other functions is another question, and looks like one."""
    bob = visit("bob")
    for age in (43, 44):
        asked = sql("select count(*) from people where risky(age)")
        paid(bob, asked | {"define": f"def risky(age):\n    return age >= {age}\n"})
    page = plain(bob.get(f"{D}/answers"))
    for age in (43, 44):
        assert f"count(*) where risky(age) def risky(age): return age >= {age} " in page


def test_a_table_of_two_columns_is_called_so_and_names_both(visit):
    """In its title, in its corner, and among the ways to show it."""
    bob = visit("bob")
    place = paid(bob, {"kind": "crosstab", "column": "city", "other": "region"})
    page = plain(bob.get(place))
    assert "Table of city and region" in page
    assert "city \\ region" in page
    assert "Table Bars List" in page
    assert FilledForm((("kind", "crosstab"), ("column", "a"), ("other", "b"))).title() == (
        "Table of a and b"
    )


def body(numbers, label="x", name="count"):
    """An answer with a group for each number."""
    rows = [{"g": f"{label}{i or ''}", name: n, f"{name}_low": n - 148.3, f"{name}_high": n + 148.3}
            for i, n in enumerate(numbers)]  # fmt: skip
    return {"columns": ["g", name, f"{name}_low", f"{name}_high"], "by": ["g"], "rows": rows,
            "price_micro": 1, "remaining_micro": 1}  # fmt: skip


def test_what_looks_odd_is_explained_where_it_occurs():
    """(other), and a count below 0; a mean below 0 may be what it is."""
    other = "(other): missing, or a value that was not declared."
    below = "Noise can take a small number below 0."
    assert shown(body([7292.4, 500])).explained == []
    assert shown(body([7292.4, 500], label="(other)")).explained == [other]
    assert shown(body([7292.4, -86])).explained == [below]
    assert shown(body([7292.4, -86], name="avg(t)")).explained == []


def test_the_ends_of_an_interval_are_as_far_away_as_is_said():
    """7,292 ± 148 is 7,144 to 7,440, however the ends would be rounded by themselves."""
    number = shown(body([7292.4, 500])).rows[0][1][0]
    assert (number.text, number.low, number.high) == ("7,292 ± 148", "7,144", "7,440")


def test_bounds_have_thousands_and_read_back_the_same():
    """From ten thousand on; a year stays a year."""
    spec = {"columns": {"income": {"type": "number", "low": 0, "high": 500_000.0},
                        "year": {"type": "integer", "low": 1900, "high": 2100}}}  # fmt: skip
    filled = declared(spec)
    assert [(f.low, f.high) for f in filled.fields] == [("0", "500,000"), ("1900", "2100")]
    assert said(filled) == spec


# ---- in a browser -------------------------------------------------------------------------------


def test_a_new_board_wants_a_name_and_another_does_not(sit, visit):
    """The field for it is there only while a new board is chosen."""
    bob = visit("bob")
    place = paid(bob, sql("select city, count(*) from people where age >= 47 group by city"))
    bob.post(f"{place}/board", {"title": "Cities", "new": "Forty-seven"})
    page = sit("bob", path=place)
    page.get_by_text("Add to board", exact=True).click()
    name = page.get_by_label("Name of a new board")
    page.get_by_label("Board", exact=True).select_option("Forty-seven")
    expect(name).to_be_hidden()
    page.get_by_label("Board", exact=True).select_option("a new board")
    expect(name).to_be_visible()


def test_on_a_phone_a_promise_is_made_after_its_verdict(sit, instance):
    """Numbers with their hints, what they come to, and then what to do."""
    (instance.folder / "data" / "phone.csv").write_text("secret\ntrue\nfalse\n")
    page = sit("anna", width=390, path="/console/new/columns?source=phone.csv&name=phone")
    page.locator("select[name=t0]").select_option("boolean")
    page.get_by_role("button", name="On to the promise").click()
    button = page.get_by_role("button", name="Make the dataset")
    tops = [
        found.bounding_box()["y"]
        for found in (
            page.get_by_label("epsilon").first,
            page.get_by_label("What it comes to"),
            button,
        )
    ]
    assert tops == sorted(tops)
    expect(page.get_by_text("How far a belief about one row may move")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_fields_of_one_line_begin_at_one_height(sit, width):
    """Of the plan's numbers; and boxes to tick stand beside the middle of their words."""
    page = sit("anna", width=width, path="/console/plan")
    epsilon, delta = (page.locator(f"#f-{n}").bounding_box() for n in ("epsilon", "delta"))
    assert epsilon["y"] == delta["y"] or epsilon["x"] == delta["x"]
    page.goto("/console/analysts")
    tick = page.locator(".tick").first
    box, words = (tick.locator(part).bounding_box() for part in ("input", "span"))
    middle = [found["y"] + found["height"] / 2 for found in (box, words)]
    assert abs(middle[0] - middle[1]) <= 1


def test_a_bar_that_knows_no_end_moves(sit):
    """Unless its reader wants nothing to move: then it is there all the same."""
    for motion, running in (("no-preference", 1), ("reduce", 0)):
        page = sit("anna", path="/console/new", reduced_motion=motion)
        bar = page.locator("[data-sent] progress")
        page.evaluate("document.querySelector('[data-sent]').hidden = false")
        expect(bar).to_be_visible()
        assert bar.evaluate("(e) => e.getAnimations().length") == running
        assert "gradient" in bar.evaluate("(e) => getComputedStyle(e).backgroundImage")

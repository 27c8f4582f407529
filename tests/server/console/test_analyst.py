"""The analyst's way: look, price, ask, open again, rehearse; with a script and without."""

import csv
import io
import json
import re

import pytest
from playwright.sync_api import expect
from server.console.page_client import hidden, plain, text

from sulq.server.console.result_view import shown

D = "/console/datasets/people"
SQL = "select region, count(*) from people where secret group by region"


def priced(bob, fields, **said):
    """The page with the price, and the fields that pay."""
    found = bob.post(f"{D}/preview", fields, **said)
    assert found.status == 200, plain(found)
    return fields | {"request": hidden(found, "request"), "price": hidden(found, "price")}


def paid(bob, fields):
    """Ask and pay; the page of the answer."""
    found = bob.post(f"{D}/pay", priced(bob, fields))
    assert found.status == 303, plain(found)
    return found.headers["location"]


def spent(instance, who="bob"):
    return instance.call("GET", "/v1/datasets/people/budget", None, who).json["spent_micro"]


def sql(statement):
    return {"kind": "sql", "sql": statement}


# ---- in a browser ---------------------------------------------------------------------------


def test_an_analyst_prices_asks_and_sees_chart_and_interval(sit, instance):
    """The whole way with a script: the price comes while one types."""
    page = sit("bob")
    page.get_by_role("link", name="people").click()
    expect(
        page.get_by_text("can become at most 73.1% sure")
    ).to_be_visible()  # the promise in words
    expect(page.get_by_role("meter")).to_have_count(2)  # mine, everyone's
    page.get_by_role("link", name="Ask in SQL").click()
    page.get_by_role("link", name="How many of each").click()
    box, price = page.locator("[data-price-box]"), page.locator("[data-price-here]")
    price.get_by_role("heading", name="Price: 0 queries").wait_for()  # by region: public
    before = spent(instance)
    page.get_by_label("One SELECT").fill("select * from people")
    box.get_by_text("would return rows").wait_for()  # a refusal, in words
    page.get_by_label("One SELECT").fill(SQL + " having count(*) > -1e6")
    price.get_by_role("heading", name="Price: 1 query").wait_for()
    assert price.get_by_role("row").nth(1).inner_text().startswith("count(*)\t±")
    assert spent(instance) == before
    page.get_by_role("button", name="Ask and pay 1 query").click()  # one press
    page.wait_for_url("**/asked/*")
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("count(*) by region where secret having count(*) > -1e6")
    expect(page.get_by_role("img", name="count(*) by region")).to_be_visible()
    expect(page.locator(".only-wide svg.chart .whisker")).to_have_count(
        3
    )  # an interval for each bar
    expect(page.get_by_role("row")).to_have_count(4)
    expect(page.get_by_text("Not promised:")).to_be_visible()
    assert spent(instance) == before + 1_000_000
    page.reload()
    assert spent(instance) == before + 1_000_000
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as found:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(found.value.path().open()))
    assert [row["region"] for row in rows] == ["north", "south", "(other)"]


def test_columns_and_words_are_put_in_and_ctrl_enter_pays(sit, instance):
    """A click inserts a column, Tab completes, Ctrl+Enter pays what is priced, in place."""
    page = sit("bob", path=f"{D}/ask")
    box, offers = page.get_by_label("One SELECT"), page.get_by_role("listbox")
    box.click()
    page.keyboard.type("sel")
    expect(offers.get_by_role("option")).to_have_text(["select"])
    page.keyboard.press("Tab")
    page.keyboard.type(" count(*) fr")
    page.keyboard.press("Tab")
    page.keyboard.type(" people where ci")
    expect(offers).to_contain_text("city")
    page.keyboard.press("Escape")
    expect(offers).to_be_hidden()
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.get_by_role("button", name="age", exact=True).click()
    page.keyboard.type(" = 57 and 'a")  # no words are offered inside a text
    expect(offers).to_be_hidden()
    box.fill(box.input_value().removesuffix(" and 'a"))
    assert box.input_value() == "select count(*) from people where age = 57"
    page.get_by_role("button", name="Ask and pay 1 query").wait_for()
    before = spent(instance)
    box.press("Control+Enter")
    page.wait_for_url("**/asked/*")
    assert spent(instance) == before + 1_000_000
    expect(box).to_have_value("select count(*) from people where age = 57")  # to edit in place
    expect(page.get_by_role("heading", level=1)).to_have_text("count(*) where age = 57")
    box.press("End")
    page.keyboard.type(" and secret")
    page.get_by_role("button", name="Ask and pay 1 query").wait_for()
    expect(page.get_by_text("95% interval of the noise")).to_be_visible()  # the old one stays
    assert spent(instance) == before + 1_000_000


def test_values_are_offered_for_the_chosen_column_only(sit):
    """Not those of every column at once; numbers show their range."""
    page = sit("bob", path=f"{D}/guided?kind=mean")
    offered = "(e) => [...(e.list ? e.list.options : [])].map((o) => o.value)"
    value = page.get_by_label("Value", exact=True)
    assert value.evaluate(offered) == []
    page.get_by_label("Column", exact=True).select_option("secret")
    assert value.evaluate(offered) == ["no", "yes"]
    page.get_by_label("Column", exact=True).select_option("region")
    assert value.evaluate(offered) == ["north", "south"]
    page.get_by_label("Column", exact=True).select_option("age")
    assert value.evaluate(offered) == []
    assert value.get_attribute("placeholder") == "0 to 100"


def test_everything_works_without_a_script(sit, instance):
    """Two forms, two pages: price, then answer."""
    page = sit("bob", java_script_enabled=False, path=f"{D}/guided?kind=histogram")
    page.get_by_label("Counts by").select_option("age")
    page.get_by_label("Bins").fill("4")
    page.get_by_role("button", name="See the price").click()
    expect(page.get_by_role("heading", name="Price: 2 queries")).to_be_visible()
    page.get_by_role("button", name="Ask and pay 2 queries").click()
    expect(page.get_by_role("img", name="count by age")).to_be_visible()
    page.get_by_role("link", name="My answers").first.click()  # the way to it, and a tab
    page.get_by_role("link", name="histogram of age").click()
    expect(page.get_by_text("Looking at it again is free.")).to_be_visible()


def test_two_clicks_at_once_pay_once(sit, instance):
    """Even where the script did not stop the second one."""
    page = sit("bob", path=f"{D}/ask")
    page.get_by_label("One SELECT").fill("select count(*) from people where age = 17")
    page.get_by_role("button", name="See the price").click()
    page.get_by_role("button", name="Ask and pay 1 query").wait_for()
    before = spent(instance)
    sent = page.evaluate(
        """async () => {
          const form = document.querySelector("form.once");
          const send = () => fetch(form.action,
            {method: "POST", body: new URLSearchParams(new FormData(form))});
          return (await Promise.all([send(), send(), send()])).map((r) => r.url);
        }"""
    )
    assert len(set(sent)) == 1
    assert "/asked/" in sent[0]
    assert spent(instance) == before + 1_000_000


def test_the_last_query_is_spent_and_the_next_refused_kindly(sit, instance):
    """A spent budget has pages that help; what was paid stays open."""
    for name, queries in (("eve", 1),):
        instance.call("PUT", f"/v1/datasets/people/analysts/{name}", None, "anna")
        instance.call("PUT", f"/v1/datasets/people/allotments/{name}", {"queries": queries}, "anna")
    try:
        page = sit("eve", path=f"{D}/ask")
        for age in (31, 32):
            page.goto(f"{D}/ask")
            asked = f"select count(*) from people where age = {age}"
            page.get_by_label("One SELECT").fill(asked)
            page.get_by_role("button", name="See the price").click()
            page.get_by_role("button", name="Ask and pay 1 query").click()
            if age == 31:
                page.wait_for_url("**/asked/*")
        expect(page.get_by_role("alert").get_by_text("The budget does not reach")).to_be_visible()
        expect(page.get_by_text("You have 0 queries left.")).to_be_visible()
        page.goto(D)
        expect(page.get_by_text("The budget is spent.")).to_be_visible()
        page.goto(f"{D}/answers")
        page.get_by_role("link", name="count(*) where age = 31").click()
        expect(page.get_by_text("95% interval of the noise")).to_be_visible()
    finally:
        instance.call("DELETE", "/v1/datasets/people/analysts/eve", None, "anna")


# ---- the price ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "price"),
    [
        (sql(SQL), 1),
        (sql("select avg(income) from people where secret"), 1),
        ({"kind": "count", "c0": "secret", "o0": "eq", "v0": "yes"}, 1),
        ({"kind": "mean", "column": "income"}, 1),
        ({"kind": "mean", "column": "income", "group": "city"}, 2),
        ({"kind": "sum", "column": "income", "group": "region"}, 1),
        ({"kind": "median", "column": "age"}, 1),
        ({"kind": "histogram", "column": "city"}, 2),
        ({"kind": "crosstab", "column": "region", "other": "city"}, 2),
    ],
)
def test_the_price_shown_is_the_price_paid(visit, instance, fields, price):
    """What the page showed is what the ledger charges."""
    bob = visit("bob")
    before = spent(instance)
    form = priced(bob, fields)
    said = bob.post(f"{D}/price", fields).json
    assert said["problem"] == ""
    assert int(form["price"]) == price * 1_000_000
    assert spent(instance) == before
    fields = fields if "sql" not in fields else sql(fields["sql"] + " -- once more")
    bob.get(paid(bob, fields))
    assert spent(instance) - before in (0, price * 1_000_000)  # 0 where someone asked before


def test_the_page_with_the_price_says_what_is_known_already(visit):
    """What earlier answers tell stands beside the price, free."""
    bob = visit("bob")
    bob.get(paid(bob, sql("select age >= 63, city, count(*) from people group by 1, 2")))
    asked = sql("select count(*) from people where age >= 63")
    assert "You already know this: " in plain(bob.post(f"{D}/preview", asked))
    assert any("already know" in line for line in bob.post(f"{D}/price", asked).json["lines"])
    unknown = bob.post(f"{D}/price", sql("select count(*) from people where income > 17.25")).json
    assert not any("already know" in line for line in unknown["lines"])


def test_another_price_than_was_shown_is_not_paid(visit, instance):
    """What was agreed to is what is charged."""
    bob = visit("bob")
    form = priced(bob, sql("select count(*) from people where age = 71"))
    before = spent(instance)
    for change in ({"price": "1"}, {"sql": "select city, count(*) from people group by city"}):
        found = bob.post(f"{D}/pay", form | change)
        assert found.status == 200
        assert "no longer what was shown" in plain(found)
    assert spent(instance) == before


def test_a_request_id_is_for_one_question(visit, instance):
    """The same id with another question is the first answer, and costs nothing."""
    bob = visit("bob")
    form = priced(bob, sql("select count(*) from people where age = 61"))
    first = bob.post(f"{D}/pay", form)
    before = spent(instance)
    other = form | sql("select count(*) from people where age = 62")
    again = bob.post(f"{D}/pay", other)
    assert again.headers["location"] == first.headers["location"]
    assert spent(instance) == before
    for wrong in ("", "x", "../../x", "0" * 31, "G" * 32):
        assert bob.post(f"{D}/pay", form | {"request": wrong}).status == 422


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (sql(""), "write a SELECT first"),
        (sql("select * from people"), "would return rows"),
        (sql("drop table people"), "only SELECT"),
        ({"kind": "nonsense"}, "want one of"),
        ({"kind": "mean"}, "choose a column"),
        ({"kind": "mean", "column": "nosuch"}, "no column"),
        ({"kind": "histogram", "column": "age", "bins": "many"}, "want a whole number"),
        ({"kind": "count", "error": "near"}, "no number"),
        ({"kind": "count", "c0": "age", "o0": "ge", "v0": "old"}, "want a number"),
        ({"kind": "count", "c0": "secret", "o0": "eq", "v0": "maybe"}, "want yes or no"),
        ({"kind": "count", "v0": "40"}, "compared with no column. Choose the column it belongs"),
        ({"kind": "count", "c0": "age", "o0": "like", "v0": "1"}, "no way to compare"),
    ],
)
def test_what_cannot_be_asked_says_why(visit, instance, fields, said):
    """A question that cannot be asked is refused with the reason."""
    bob = visit("bob")
    found = bob.post(f"{D}/preview", fields)
    assert found.status == 422
    assert said.lower() in plain(found).lower()


def test_guided_values_stay_values(visit, instance):
    """Whatever is typed as a value is a value in the question, never a part of it."""
    from sulq.server.console.question_form import FilledForm
    from sulq.values.schema import Schema

    bob = visit("bob")
    for value in ("rome", "rome' or '1'='1", "'; drop table people; --", '" or ""="'):
        fields = {"kind": "count", "c0": "city", "o0": "eq", "v0": value}
        where = '"city" = \'' + value.replace("'", "''") + "'"
        assert (
            FilledForm(tuple(fields.items())).where(Schema.load({"city": {"type": "text"}}))
            == where
        )
        if value == "rome":
            found = bob.get(paid(bob, fields))
            assert eval(re.search(r"db\.count\(where=(.*)\)\)\n", html_of(found))[1]) == where
            continue
        found = bob.post(f"{D}/preview", fields)  # whole, and no declared city
        assert found.status == 422
        assert f"'{value}' is not a declared value of city" in html_of(found)


def html_of(reply):
    import html

    return html.unescape(text(reply))


def test_numbers_dates_and_missing_values_in_conditions():
    """Each type of column writes its values its own way."""
    from sulq.server.console.question_form import FilledForm, written
    from sulq.values.schema import Schema

    schema = Schema.load(
        {"n": {"type": "number", "low": 0, "high": 9}, "d": {"type": "date"},
         "s": {"type": "boolean"}, "t": {"type": "text"}, 'o"dd': {"type": "integer"}}
    )  # fmt: skip
    assert written(schema.get("n"), "1,000.5") == "1000.5"
    assert written(schema.get("d"), "2026-01-31") == "date '2026-01-31'"
    assert written(schema.get("s"), "No") == "false"
    assert written(schema.get("t"), "O'Hara") == "'O''Hara'"
    fields = {"kind": "count", "c0": 'o"dd', "o0": "known", "c1": "d", "o1": "lt",
              "v1": "2026-02-01"}  # fmt: skip
    asked = FilledForm(tuple(fields.items()))
    assert asked.where(schema) == '"o""dd" is not null and "d" < date \'2026-02-01\''
    for bad in ("nan", "inf", "1e999", "1_0", "0x10", "²", ""):
        with pytest.raises(Exception, match="want a number"):
            written(schema.get("n"), bad)


# ---- answers --------------------------------------------------------------------------------


def test_an_answer_comes_as_csv_json_and_python(visit, instance):
    """The same noisy numbers in all of them, and the same as over HTTP, to the last digit."""
    bob = visit("bob")
    place = paid(bob, sql(SQL))
    body = bob.get(f"{place}/json").json
    rows = list(csv.DictReader(io.StringIO(bob.get(f"{place}/csv").body.decode())))
    assert [float(r["count(*)"]) for r in rows] == [r["count(*)"] for r in body["rows"]]
    heard = instance.call("POST", "/v1/datasets/people/sql", {"sql": SQL}).json["table"]
    assert heard["rows"] == body["rows"]
    found = bob.get(f"{place}/python")
    assert found.headers["content-disposition"].startswith("attachment")
    code = found.body.decode()
    assert "import sulq" in code
    compile(code, "answer.py", "exec")
    assert f"print(db.sql({SQL!r}))" in code


def test_python_of_every_kind_asks_the_same(instance):
    """What the page shows as Python is the question that was paid: asked again, it is free."""
    import sulq
    from sulq.server.console.question_form import FilledForm

    db = sulq.connect(instance.url, instance.keys["bob"], "people")
    kinds = (
        {"kind": "sql", "sql": "select city,\n  count(*)\nfrom people group by city"},
        {"kind": "count", "c0": "secret", "o0": "eq", "v0": "no", "error": "5,000"},
        {"kind": "mean", "column": "income", "c0": "age", "o0": "ge", "v0": "18"},
        {"kind": "sum", "column": "income", "group": "city"},
        {"kind": "median", "column": "age", "group": "region", "c0": "secret", "v0": "yes"},
        {"kind": "histogram", "column": "age", "bins": "3"},
        {"kind": "crosstab", "column": "city", "other": "secret"},
    )
    for fields in kinds:
        asked = FilledForm(tuple(fields.items()))
        db.answer(db.question(asked.question(db)))
        before = db.budget.spent
        code = asked.python(instance.url, "people", db.schema)
        exec(code.replace("key=...", f"key={instance.keys['bob']!r}"), {"print": repr})
        assert db.budget.spent == before, fields


def test_spreadsheets_run_nothing():
    """A label that a spreadsheet would take for a formula is told apart by an apostrophe."""
    from sulq.server.console.result_view import csv_of

    rows = [{"g": g, "n": -1.5} for g in ("=1+1", "@x", "+a", "-b", "-5 to 3", "plain")]
    found = csv_of({"columns": ["g", "n"], "by": ["g"], "rows": rows}).decode().splitlines()
    assert [line.split(",")[0] for line in found[1:]] == [
        "'=1+1", "'@x", "'+a", "'-b", "-5 to 3", "plain"
    ]  # fmt: skip
    assert all(line.endswith(",-1.5") for line in found[1:])


def test_answers_are_their_askers_own(visit, instance):
    """Another person's answer looks like a missing one, and so does another dataset's."""
    bob, anna, dan = visit("bob"), visit("anna"), visit("dan")
    place = paid(bob, sql("select count(*) from people where age = 41"))
    missing = place.replace(place[-32:], "0" * 32)
    assert bob.get(place).status == 200
    there, not_there = anna.get(place), anna.get(missing)
    assert there.status == not_there.status == 404
    assert plain(there) == plain(not_there)
    for end in ("", "/csv", "/json", "/python"):
        assert dan.get(place + end).status == 404


def test_every_charge_can_be_opened_again(visit, instance):
    """Also those that other tools made; looking is free."""
    instance.ask("age > 90")
    bob = visit("bob")
    before = spent(instance)
    found = bob.get(f"{D}/answers")
    number = re.search(rf'{D}/answers/(\d+)">[^<]*age &gt; 90', text(found))[1]
    shown = bob.get(f"{D}/answers/{number}")
    assert shown.status == 200
    assert "95% interval of the noise" in plain(shown)
    assert spent(instance) == before
    for wrong in ("0", "999999", "x", "-1", "1e3", "9" * 30):
        assert bob.get(f"{D}/answers/{wrong}").status == 404


def test_files_are_called_after_their_question(visit, instance):
    """The dataset, then the question, in letters that every disk takes."""
    from sulq.server.console.result_view import file_name

    bob = visit("bob")
    place = paid(bob, {"kind": "mean", "column": "income", "group": "city"})
    said = bob.get(f"{place}/csv").headers["content-disposition"]
    assert said.endswith("people-mean-of-income-for-each-city.csv")
    assert file_name("d", "select a, count(*) from d", "csv") == "d-a-count-from-d.csv"
    assert file_name("d", "../../etc/passwd", "svg") == "d-etc-passwd.svg"
    assert file_name("d", "***", "json") == "d.json"
    assert len(file_name("d", "x" * 500, "csv")) < 100


def test_charts_are_chosen_and_saved(visit, instance):
    """As SVG and PNG; a number alone has none."""
    bob = visit("bob")
    place = paid(bob, {"kind": "histogram", "column": "age", "bins": "5"})
    for chart, marks in (("columns", 2), ("line", 0), ("bars", 2), ("table", 0), ("nonsense", 2)):
        page = text(bob.get(f"{place}?chart={chart}"))
        assert page.count("<svg") == (0 if chart == "table" else 2)  # for a desk and for a phone
        assert bool(page.count('class="whisker"')) == bool(marks), chart
    drawn = {chart: bob.get(f"{place}/svg?chart={chart}").body for chart in ("columns", "bars")}
    assert all(body.startswith(b"<svg") for body in drawn.values())
    assert drawn["columns"] != drawn["bars"]
    assert bob.get(f"{place}/png").body.startswith(b"\x89PNG")
    alone = paid(bob, sql("select count(*) from people where age = 64"))
    assert bob.get(f"{alone}/svg").status == 404
    assert bob.get(f"{place}/exe").status == 404


def test_a_crosstab_is_a_matrix(visit, instance):
    """One line for each first label, one column for each second; shades follow the numbers."""
    from sulq.server.console.result_view import shown

    bob = visit("bob")
    place = paid(bob, {"kind": "crosstab", "column": "city", "other": "region"})
    body = bob.get(f"{place}/json").json
    (matrix,) = shown(body).matrices
    numbers = {(row["city"], row["region"]): row["count"] for row in body["rows"]}
    shades = {}
    for label, cells in matrix.rows:
        for head, (number, shade) in zip(matrix.heads, cells, strict=True):
            assert number.text.split(" ±")[0] == f"{round(numbers[label, head]) + 0:,}"
            shades[numbers[label, head]] = shade
    assert [shade for _, shade in sorted(shades.items())] == sorted(shades.values())
    assert max(shades.values()) == 8
    page = bob.get(place)
    assert '<table class="matrix' in text(page)
    assert "<svg" not in text(page).split('id="answer"')[1]
    assert "<svg" in text(bob.get(f"{place}?chart=bars"))


def test_a_large_matrix_stays_a_page():
    """Its first lines are shown, all of them are in the files."""
    from sulq.server.console.result_view import MAX_CELLS, shown

    rows = [{"a": f"a{i}", "b": f"b{j}", "n": float(i), "n_low": i - 9.0, "n_high": i + 9.0}
            for i in range(60) for j in range(60)]  # fmt: skip
    body = {"columns": ["a", "b", "n", "n_low", "n_high"], "by": ["a", "b"], "rows": rows,
            "price_micro": 1, "remaining_micro": 1}  # fmt: skip
    (matrix,) = shown(body).matrices
    assert len(matrix.heads) == 60
    assert len(matrix.rows) == MAX_CELLS // 60
    assert matrix.more == 40


def test_each_question_stands_once_and_steps_of_models_are_folded():
    """What was asked in the console is not listed again as a charge; the rest once."""
    from sulq.server.console.dataset_pages import folded, once
    from sulq.server.console.model_jobs import Job
    from sulq.server.console.question_form import FilledForm
    from sulq.server.console.saved_results import Kept

    asked = [FilledForm((("kind", "count"), ("c0", name))) for name in ("x", "x", "y")]
    kept = [Kept(str(i), "t", each, {}) for i, each in enumerate(asked)]
    assert [(k.id, often) for k, often in once(kept)] == [("0", 2), ("2", 1)]
    job = Job("j", "2026-01-02", None, "ready", 1, 1, None, {}, "2026-01-04")
    said = [("0", "2026-01-03", "of the console"), ("s1", "2026-01-02", "a"),
            (None, "2026-01-04", "b"), ("e1", "2026-01-05", "once"),
            ("e2", "2026-01-01", "once")]  # fmt: skip
    charges = [{"request": r, "time": t, "question": q, "price": 1} for r, t, q in said]
    steps, elsewhere = folded(charges, kept, [job])
    assert [(found.id, [c["question"] for c in some]) for found, some in steps] == [
        ("j", ["a", "b"])
    ]
    assert [c["request"] for c in elsewhere] == ["e1"]


def test_my_answers_say_each_charge_once(visit, instance):
    """A question of the console is under its own words, and not among other charges."""
    bob = visit("bob")
    paid(bob, sql("select count(*) from people where age = 66"))
    found = plain(bob.get(f"{D}/answers"))
    asked, others = found.split("Other charges of yours")
    assert "count(*) where age = 66" in asked
    assert "count where age = 66" not in others


def test_large_numbers_are_read_to_the_third_figure_of_their_error():
    """On the page; the files have every digit. Small errors and exact numbers stay as they are."""
    body = {"columns": ["n", "n_low", "n_high"], "by": [], "price_micro": 0, "remaining_micro": 0}

    def said(value, low, high):
        row = {"n": value, "n_low": low, "n_high": high}
        return shown(body | {"rows": [row]}).rows[0][1][0].text

    assert said(2_759_140_124, 2_684_994_546, 2_833_285_702) == "2,759,100,000 ± 74,100,000"
    assert said(90_629, 79_387, 101_871) == "90,600 ± 11,200"
    assert said(12_268, 12_120, 12_416) == "12,268 ± 148"
    assert said(123_456_789, 123_456_789, 123_456_789) == "123,456,789"
    assert said(500_123, 480_456, 551_789) == "500,100 (480,500 to 551,800)"


# ---- rehearsal ------------------------------------------------------------------------------


def test_a_rehearsal_is_one_click_and_free(sit, instance):
    """A rehearsal answers from synthetic rows and spends nothing."""
    before = spent(instance)
    page = sit("bob", path=f"{D}/ask")
    page.get_by_label("One SELECT").fill("select city, avg(income) from people group by city")
    page.get_by_role("button", name="Rehearse free").click()
    page.get_by_text("These rows are made up.").wait_for()
    expect(page.get_by_role("img", name="avg(income) by city")).to_be_visible()
    assert spent(instance) == before
    page.get_by_role("button", name="See the price of the real answer").click()
    expect(page.get_by_role("button", name=re.compile("Ask and pay"))).to_be_visible()


def test_the_expected_error_is_the_error(visit, instance):
    """What the price page says each number will be within is what its interval is then."""
    bob = visit("bob")
    fields = sql("select secret, count(*) from people where age > 2 group by secret")
    lines = bob.post(f"{D}/price", fields).json["lines"]
    said = dict(line.split(": ± ") for line in lines if ": ± " in line)
    body = bob.get(paid(bob, fields) + "/json").json
    reach = (body["rows"][0]["count(*)_high"] - body["rows"][0]["count(*)_low"]) / 2
    within = float(said["count(*)"].removesuffix(" (95%)").replace(",", ""))
    assert abs(reach - within) <= 1  # it is written without decimals


# ---- states ---------------------------------------------------------------------------------


def test_a_frozen_dataset_has_pages_that_help(visit, instance):
    """The pages of a frozen dataset say that it is frozen and what to do."""
    bob = visit("bob")
    place = paid(bob, sql("select count(*) from people where age = 51"))
    instance.call("PATCH", "/v1/datasets/people", {"state": "frozen"}, "anna")
    try:
        assert "This dataset is frozen." in plain(bob.get(D))
        form = priced(bob, sql("select count(*) from people where age = 52"))
        found = bob.post(f"{D}/pay", form)
        assert found.status == 409
        assert "until its owner thaws it. Nothing was charged." in plain(found)
        assert bob.get(place).status == 200
        assert bob.post(f"{D}/rehearse", sql(SQL)).status == 200
    finally:
        instance.call("PATCH", "/v1/datasets/people", {"state": "open"}, "anna")


def test_nobody_invited_sees_an_empty_page_that_helps(visit, instance):
    """Someone without an invitation is told whom to ask."""
    assert "Ask the owner to invite eve." in plain(visit("eve").get("/console/"))


def test_a_failing_server_says_so_and_no_more(visit, instance, monkeypatch):
    """A page for what nobody thought of, without its words."""
    from sulq.server.console.saved_results import SavedResults

    def broken(*_):
        raise RuntimeError("a secret of the inside")

    bob = visit("bob")
    monkeypatch.setattr(SavedResults, "all", broken)
    found = bob.get(f"{D}/answers")
    assert found.status == 500
    assert "asking the same again does not pay again" in plain(found)
    assert "secret of the inside" not in text(found)


def test_changed_rows_stop_a_dataset_and_the_pages_say_so(tmp_path):
    """The analyst hears that it is blocked, the owner why; old answers stay."""
    from attacks.harness import people as table
    from server.console.page_client import PageClient
    from server.instance import made, rows

    instance = made(tmp_path / "instance")
    with instance.serving():
        bob = PageClient(instance, "bob")
        place = paid(bob, sql(SQL))
    rows(instance.folder / "data" / "people.parquet", table(200, seed=8))
    with instance.serving():
        bob = PageClient(instance, "bob")
        for path in (D, f"{D}/ask"):
            found = bob.get(path)
            assert found.status == 409
            assert "blocked until its owner has looked at it" in plain(found)
        assert "blocked until its owner has looked at it" in plain(bob.get("/console/"))
        assert bob.get(f"{place}/csv").status == 200


def test_two_hundred_columns_and_long_names_fold(tmp_path):
    """A wide table's page stays a page: the rest is folded away, long names may break."""
    import pyarrow as pa
    from server.console.page_client import PageClient
    from server.instance import made

    long = "a_very_long_name_" * 11
    names = [long, *(f"column_{i}" for i in range(199))]
    schema = {n: {"type": "integer", "low": 0, "high": 9} for n in names}
    table = pa.table({n: [1, 2, 3] for n in names})
    with made(tmp_path / "wide", table, schema).serving() as instance:
        bob = PageClient(instance, "bob")
        found = bob.get(D)
        assert "175 more columns" in plain(found)
        assert "<wbr>" in text(found)
        pages = ("", "/ask", "/guided", "/models/new/PCA")
        assert all(len(bob.get(D + page).body) < 200_000 for page in pages)
        fields = [("kind", "PCA"), ("budget", "5"), *(("columns", n) for n in names)]
        found = bob.post(f"{D}/models/preview", fields)
        assert re.search(r"Price: at most (5|4\.99\d*) queries", plain(found))


def test_json_is_what_the_shelf_keeps(visit, instance):
    """Numbers that JSON has not, such as the mean of nobody, are null and shown as such."""
    from sulq.server.console.result_view import shown

    row = {"g": "x", "n": None, "n_low": None, "n_high": None}
    body = {"columns": ["g", "n", "n_low", "n_high"], "by": ["g"], "rows": [row],
            "price_micro": 1, "remaining_micro": 1}  # fmt: skip
    found = shown(json.loads(json.dumps(body)))
    assert found.rows[0][1][0].text.startswith("nan")


def test_a_scan_that_failed_is_told_to_the_analyst_and_decided_by_the_owner(
    visit, instance, monkeypatch
):
    """The analyst hears that the owner must go on; the owner sees what failed and says why."""
    from sulq.engines.duckdb import DuckDBEngine

    bob, anna = visit("bob"), visit("anna")
    form = priced(bob, sql("select count(*) from people where age = 53"))
    with monkeypatch.context() as patch:
        patch.setattr(DuckDBEngine, "sums", lambda self, queries: int("joe@example.org"))
        assert bob.post(f"{D}/pay", form).status == 500
    try:
        said = plain(bob.get(D))
        assert "A scan failed, and whether one fails may depend on rows. Its owner must" in said
        page = plain(anna.get(f"{D}/owner"))
        assert "A scan failed, so it is frozen until you go on" in page
        assert "with ValueError" in page
        assert "count where age = 53" in page
        assert "joe@" not in page + said
        assert "with a reason" in plain(anna.post(f"{D}/owner/thaw", {}))
    finally:
        anna.post(f"{D}/owner/thaw", {"why": "mended"})
    page = plain(anna.get(f"{D}/owner"))
    assert "went on after that" in page
    assert "mended" in page
    assert "frozen" not in plain(bob.get(D))

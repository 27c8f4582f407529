"""The analyst's way: look, price, ask, open again, rehearse; with a script and without."""

import csv
import io
import json
import re

import pytest
from console.visiting import hidden, plain, text

D = "/console/datasets/people"
SQL = "select region, count(*) from people group by region"


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


def spent(house, who="bob"):
    return house.call("GET", "/v1/datasets/people/budget", None, who).json["spent_micro"]


def sql(statement):
    return {"kind": "sql", "sql": statement}


# ---- in a browser ---------------------------------------------------------------------------


def test_an_analyst_prices_asks_and_sees_chart_and_interval(sit, house):
    """The whole way with a script: the price comes while one types."""
    page = sit("bob")
    page.get_by_role("link", name="people").click()
    assert page.get_by_text("can become at most 73.1% sure").is_visible()  # the promise in words
    assert page.get_by_role("meter").count() == 2  # mine, everyone's
    page.get_by_role("link", name="Ask in SQL").click()
    page.get_by_role("link", name="How many of each").click()
    box = page.locator("[data-price-box]")
    box.get_by_text("Price: 1 query.").wait_for()
    assert "count(*): ±" in box.inner_text()
    before = spent(house)
    page.get_by_label("One SELECT").fill("select * from people")
    box.get_by_text("would return rows").wait_for()  # a refusal, in words
    page.get_by_label("One SELECT").fill(SQL + " having count(*) > -1e6")
    box.get_by_text("Price: 1 query.").wait_for()
    page.get_by_role("button", name="See the price").click()
    assert spent(house) == before
    page.get_by_role("button", name="Ask and pay 1 query").click()
    page.wait_for_url("**/asked/*")
    assert page.get_by_role("img", name="count(*) by region").is_visible()
    assert page.locator("svg.chart .whisker").count() == 3  # an interval for each bar
    assert page.get_by_role("row").count() == 4
    assert page.get_by_text("Not promised:").is_visible()
    assert spent(house) == before + 1_000_000
    page.reload()
    assert spent(house) == before + 1_000_000
    with page.expect_download() as found:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(found.value.path().open()))
    assert [row["region"] for row in rows] == ["north", "south", "other"]


def test_everything_works_without_a_script(sit, house):
    """Two forms, two pages: price, then answer."""
    page = sit("bob", java_script_enabled=False, path=f"{D}/guided?kind=histogram")
    page.get_by_label("Counts by").select_option("age")
    page.get_by_label("Bins").fill("4")
    page.get_by_role("button", name="See the price").click()
    assert page.get_by_role("heading", name="Price: 2 queries").is_visible()
    page.get_by_role("button", name="Ask and pay 2 queries").click()
    assert page.get_by_role("img", name="count by age").is_visible()
    page.get_by_role("link", name="My answers").click()
    page.get_by_role("link", name="histogram of age").click()
    assert page.get_by_text("Looking at it again is free.").is_visible()


def test_two_clicks_at_once_pay_once(sit, house):
    """Even where the script did not stop the second one."""
    page = sit("bob", path=f"{D}/ask")
    page.get_by_label("One SELECT").fill("select count(*) from people where age = 17")
    page.get_by_role("button", name="See the price").click()
    page.get_by_role("button", name="Ask and pay 1 query").wait_for()
    before = spent(house)
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
    assert spent(house) == before + 1_000_000


def test_the_last_query_is_spent_and_the_next_refused_kindly(sit, house):
    """A spent budget has pages that help; what was paid stays open."""
    for name, queries in (("eve", 1),):
        house.call("PUT", f"/v1/datasets/people/analysts/{name}", None, "anna")
        house.call("PUT", f"/v1/datasets/people/allotments/{name}", {"queries": queries}, "anna")
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
        assert page.get_by_role("alert").get_by_text("The budget does not reach").is_visible()
        assert page.get_by_text("You have 0 queries left.").is_visible()
        page.goto(D)
        assert page.get_by_text("The budget is spent.").is_visible()
        page.goto(f"{D}/answers")
        page.get_by_role("link", name="select count(*) from people where age = 31").click()
        assert page.get_by_text("95% interval of the noise").is_visible()
    finally:
        house.call("DELETE", "/v1/datasets/people/analysts/eve", None, "anna")


# ---- the price ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "price"),
    [
        (sql(SQL), 1),
        (sql("select avg(income) from people where secret"), 1),
        ({"kind": "count", "c0": "secret", "o0": "eq", "v0": "yes"}, 1),
        ({"kind": "mean", "column": "income"}, 1),
        ({"kind": "histogram", "column": "city"}, 2),
        ({"kind": "crosstab", "column": "region", "other": "city"}, 2),
    ],
)
def test_the_price_shown_is_the_price_paid(visit, house, fields, price):
    bob = visit("bob")
    before = spent(house)
    form = priced(bob, fields)
    said = bob.post(f"{D}/price", fields).json
    assert said["problem"] == ""
    assert int(form["price"]) == price * 1_000_000
    assert spent(house) == before
    fields = fields if "sql" not in fields else sql(fields["sql"] + " -- once more")
    bob.get(paid(bob, fields))
    assert spent(house) - before in (0, price * 1_000_000)  # 0 where someone asked before


def test_another_price_than_was_shown_is_not_paid(visit, house):
    """What was agreed to is what is charged."""
    bob = visit("bob")
    form = priced(bob, sql("select count(*) from people where age = 71"))
    before = spent(house)
    for change in ({"price": "1"}, {"sql": "select city, count(*) from people group by city"}):
        found = bob.post(f"{D}/pay", form | change)
        assert found.status == 200
        assert "no longer what was shown" in plain(found)
    assert spent(house) == before


def test_a_request_id_is_for_one_question(visit, house):
    """The same id with another question is the first answer, and costs nothing."""
    bob = visit("bob")
    form = priced(bob, sql("select count(*) from people where age = 61"))
    first = bob.post(f"{D}/pay", form)
    before = spent(house)
    other = form | sql("select count(*) from people where age = 62")
    again = bob.post(f"{D}/pay", other)
    assert again.headers["location"] == first.headers["location"]
    assert spent(house) == before
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
        ({"kind": "count", "c0": "age", "o0": "like", "v0": "1"}, "no way to compare"),
    ],
)
def test_what_cannot_be_asked_says_why(visit, house, fields, said):
    bob = visit("bob")
    found = bob.post(f"{D}/preview", fields)
    assert found.status == 422
    assert said.lower() in plain(found).lower()


def test_guided_values_stay_values(visit, house):
    """Whatever is typed as a value is a value in the question, never a part of it."""
    bob = visit("bob")
    for value in ("rome", "rome' or '1'='1", "'; drop table people; --", '" or ""="'):
        fields = {"kind": "count", "c0": "city", "o0": "eq", "v0": value}
        found = bob.get(paid(bob, fields))
        code = re.search(r"db\.count\(where=(.*)\)\)\n", html_of(found))[1]
        where = eval(code)
        assert where == '"city" = \'' + value.replace("'", "''") + "'"


def html_of(reply):
    import html

    return html.unescape(text(reply))


def test_numbers_dates_and_missing_values_in_conditions():
    """Each type of column writes its values its own way."""
    from sulq.console.questions import Asked, written
    from sulq.schema import Schema

    schema = Schema.load(
        {"n": {"type": "number", "low": 0, "high": 9}, "d": {"type": "date"},
         "s": {"type": "boolean"}, "t": {"type": "text"}, 'o"dd': {"type": "integer"}}
    )  # fmt: skip
    assert written(schema.get("n"), "1,000.5") == "1000.5"
    assert written(schema.get("d"), "2026-01-31") == "date '2026-01-31'"
    assert written(schema.get("s"), "No") == "false"
    assert written(schema.get("t"), "O'Hara") == "'O''Hara'"
    asked = Asked((("kind", "count"), ("c0", 'o"dd'), ("o0", "known"), ("c1", "d"), ("o1", "lt"),
                   ("v1", "2026-02-01")))  # fmt: skip
    assert asked.where(schema) == '"o""dd" is not null and "d" < date \'2026-02-01\''
    for bad in ("nan", "inf", "1e999", "1_0", "0x10", "²", ""):
        with pytest.raises(Exception, match="want a number"):
            written(schema.get("n"), bad)


# ---- answers --------------------------------------------------------------------------------


def test_an_answer_comes_as_csv_json_and_python(visit, house):
    """The same noisy numbers in all of them, and the same as over HTTP, to the last digit."""
    bob = visit("bob")
    place = paid(bob, sql(SQL))
    body = bob.get(f"{place}/json").json
    rows = list(csv.DictReader(io.StringIO(bob.get(f"{place}/csv").body.decode())))
    assert [float(r["count(*)"]) for r in rows] == [r["count(*)"] for r in body["rows"]]
    heard = house.call("POST", "/v1/datasets/people/sql", {"sql": SQL}).json["table"]
    assert heard["rows"] == body["rows"]
    found = bob.get(f"{place}/python")
    assert found.headers["content-disposition"].startswith("attachment")
    code = found.body.decode()
    assert "import sulq" in code
    compile(code, "answer.py", "exec")
    assert f"print(db.sql({SQL!r}))" in code


def test_python_of_every_kind_asks_the_same(house):
    """What the page shows as Python is the question that was paid: asked again, it is free."""
    import sulq
    from sulq.console.questions import Asked

    db = sulq.connect(house.url, house.keys["bob"], "people")
    kinds = (
        {"kind": "sql", "sql": "select city,\n  count(*)\nfrom people group by city"},
        {"kind": "count", "c0": "secret", "o0": "eq", "v0": "no", "error": "5,000"},
        {"kind": "mean", "column": "income", "c0": "age", "o0": "ge", "v0": "18"},
        {"kind": "histogram", "column": "age", "bins": "3"},
        {"kind": "crosstab", "column": "city", "other": "secret"},
    )
    for fields in kinds:
        asked = Asked(tuple(fields.items()))
        db.answer(db.question(asked.question(db)))
        before = db.budget.spent
        code = asked.python(house.url, "people", db.schema)
        exec(code.replace("key=...", f"key={house.keys['bob']!r}"), {"print": repr})
        assert db.budget.spent == before, fields


def test_spreadsheets_run_nothing():
    """A label that a spreadsheet would take for a formula is told apart by an apostrophe."""
    from sulq.console.showing import csv_of

    rows = [{"g": g, "n": -1.5} for g in ("=1+1", "@x", "+a", "-b", "-5 to 3", "plain")]
    found = csv_of({"columns": ["g", "n"], "by": ["g"], "rows": rows}).decode().splitlines()
    assert [line.split(",")[0] for line in found[1:]] == [
        "'=1+1", "'@x", "'+a", "'-b", "-5 to 3", "plain"
    ]  # fmt: skip
    assert all(line.endswith(",-1.5") for line in found[1:])


def test_answers_are_their_askers_own(visit, house):
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


def test_every_charge_can_be_opened_again(visit, house):
    """Also those that other tools made; looking is free."""
    house.ask("age > 99")
    bob = visit("bob")
    before = spent(house)
    found = bob.get(f"{D}/answers")
    number = re.search(rf'{D}/answers/(\d+)">[^<]*age &gt; 99', text(found))[1]
    shown = bob.get(f"{D}/answers/{number}")
    assert shown.status == 200
    assert "95% interval of the noise" in plain(shown)
    assert spent(house) == before
    for wrong in ("0", "999999", "x", "-1", "1e3", "9" * 30):
        assert bob.get(f"{D}/answers/{wrong}").status == 404


# ---- rehearsal ------------------------------------------------------------------------------


def test_a_rehearsal_is_one_click_and_free(sit, house):
    before = spent(house)
    page = sit("bob", path=f"{D}/ask")
    page.get_by_label("One SELECT").fill("select city, avg(income) from people group by city")
    page.get_by_role("button", name="Rehearse free").click()
    assert page.get_by_text("These rows are made up.").is_visible()
    assert page.get_by_role("img", name="avg(income) by city").is_visible()
    assert spent(house) == before
    page.get_by_role("button", name="See the price of the real answer").click()
    assert page.get_by_role("button", name=re.compile("Ask and pay")).is_visible()


def test_the_expected_error_is_the_error(visit, house):
    """What the price page says each number will be within is what its interval is then."""
    bob = visit("bob")
    fields = sql("select secret, count(*) from people where age > 2 group by secret")
    said = dict(line.split(": ± ") for line in bob.post(f"{D}/price", fields).json["lines"][1:])
    body = bob.get(paid(bob, fields) + "/json").json
    reach = (body["rows"][0]["count(*)_high"] - body["rows"][0]["count(*)_low"]) / 2
    within = float(said["count(*)"].removesuffix(" (95%)").replace(",", ""))
    assert abs(reach - within) <= 1  # it is written without decimals


# ---- states ---------------------------------------------------------------------------------


def test_a_frozen_dataset_has_pages_that_help(visit, house):
    bob = visit("bob")
    place = paid(bob, sql("select count(*) from people where age = 51"))
    house.call("PATCH", "/v1/datasets/people", {"state": "frozen"}, "anna")
    try:
        assert "This dataset is frozen." in plain(bob.get(D))
        form = priced(bob, sql("select count(*) from people where age = 52"))
        found = bob.post(f"{D}/pay", form)
        assert found.status == 409
        assert "until its owner thaws it. Nothing was charged." in plain(found)
        assert bob.get(place).status == 200
        assert bob.post(f"{D}/rehearse", sql(SQL)).status == 200
    finally:
        house.call("PATCH", "/v1/datasets/people", {"state": "open"}, "anna")


def test_nobody_invited_sees_an_empty_page_that_helps(visit, house):
    assert "Ask the owner to invite eve." in plain(visit("eve").get("/console/"))


def test_a_failing_server_says_so_and_no_more(visit, house, monkeypatch):
    """A page for what nobody thought of, without its words."""
    from sulq.console.shelf import Shelf

    def broken(*_):
        raise RuntimeError("a secret of the inside")

    bob = visit("bob")
    monkeypatch.setattr(Shelf, "all", broken)
    found = bob.get(f"{D}/answers")
    assert found.status == 500
    assert "asking the same again does not pay again" in plain(found)
    assert "secret of the inside" not in text(found)


def test_changed_rows_stop_a_dataset_and_the_pages_say_so(tmp_path):
    """The analyst hears that it is stopped, the owner why; old answers stay."""
    from attacks.harness import people as table
    from console.visiting import Visiting
    from server.house import made, rows

    house = made(tmp_path / "house")
    with house.serving():
        bob = Visiting(house, "bob")
        place = paid(bob, sql(SQL))
    rows(house.folder / "data" / "people.parquet", table(200, seed=8))
    with house.serving():
        bob = Visiting(house, "bob")
        for path in (D, f"{D}/ask"):
            found = bob.get(path)
            assert found.status == 409
            assert "stopped until its owner has looked at it" in plain(found)
        assert "stopped until its owner has looked at it" in plain(bob.get("/console/"))
        assert bob.get(f"{place}/csv").status == 200


def test_two_hundred_columns_and_long_names_fold(tmp_path):
    """A wide table's page stays a page: the rest is folded away, long names may break."""
    import pyarrow as pa
    from console.visiting import Visiting
    from server.house import made

    long = "a_very_long_name_" * 11
    names = [long, *(f"column_{i}" for i in range(199))]
    schema = {n: {"type": "integer", "low": 0, "high": 9} for n in names}
    table = pa.table({n: [1, 2, 3] for n in names})
    with made(tmp_path / "wide", table, schema).serving() as house:
        bob = Visiting(house, "bob")
        found = bob.get(D)
        assert "175 more columns" in plain(found)
        assert "<wbr>" in text(found)
        pages = ("", "/ask", "/guided", "/models/new/PCA")
        assert all(len(bob.get(D + page).body) < 200_000 for page in pages)
        fields = [("kind", "PCA"), ("budget", "5"), *(("columns", n) for n in names)]
        found = bob.post(f"{D}/models/preview", fields)
        assert re.search(r"Price: at most (5|4\.99\d*) queries", plain(found))


def test_json_is_what_the_shelf_keeps(visit, house):
    """Numbers that JSON has not, such as the mean of nobody, are null and shown as such."""
    from sulq.console.showing import shown

    row = {"g": "x", "n": None, "n_low": None, "n_high": None}
    body = {"columns": ["g", "n", "n_low", "n_high"], "by": ["g"], "rows": [row],
            "price_micro": 1, "remaining_micro": 1}  # fmt: skip
    found = shown(json.loads(json.dumps(body)))
    assert found.rows[0][1][0].text.startswith("nan")

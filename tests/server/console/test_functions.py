"""Functions of a row beside a SELECT: typed, priced, refused where they stand, kept to be free."""

import ast

import pytest
from playwright.sync_api import expect
from server.console.page_client import hidden, plain, text
from server.console.test_analyst import D, paid, priced, spent, sql

from sulq.server.console.definitions import in_the_box, pointed_at, written_out
from sulq.server.console.question_form import FilledForm
from sulq.server.console.titles import title_of

DEFINE = "LIMIT = {}\n\ndef older(age, by=0):\n    return age >= LIMIT + by\n"
ASKED = "select count(*) from people where older(age, 1)"


def with_functions(limit, statement=ASKED, define=DEFINE):
    return sql(statement) | {"define": define.format(limit)}


def test_a_function_is_typed_priced_and_paid_in_a_browser(sit, instance):
    """The box folds open, an error shows its line as one types, the answer keeps both texts."""
    page, before = sit("bob", path=f"{D}/ask"), spent(instance)
    page.get_by_text("written in Python").click()
    page.get_by_label("One SELECT").fill(ASKED)
    box = page.get_by_label("Functions", exact=True)
    box.fill("def older(age, by):\n    while age:\n        pass\n")
    expect(page.locator("[data-price-box]")).to_contain_text("Functions, line 2, column 5")
    expect(page.locator("[data-price-box] pre.where")).to_contain_text("while age:")
    expect(box).to_have_attribute("aria-invalid", "true")
    box.fill("")
    box.press_sequentially("def older(age, by):\nreturn age >= 20 + by")  # a new line is indented
    expect(box).to_have_value("def older(age, by):\n    return age >= 20 + by")
    page.get_by_role("button", name="Ask and pay 1 query").click()
    page.wait_for_url("**/asked/*")
    expect(page.get_by_role("heading", level=1)).to_have_text("count(*) where older(age, 1)")
    expect(page.get_by_label("Functions", exact=True)).to_have_value(
        "def older(age, by):\n    return age >= 20 + by"
    )
    assert spent(instance) == before + 1_000_000


def test_an_example_fills_in_both_boxes(visit):
    """The example with a function is one that this table can answer, without a script too."""
    bob = visit("bob")
    page = text(bob.get(f"{D}/ask"))
    link = page.split("With a function")[0].rsplit('href="', 1)[1].split('"')[0]
    found = bob.get(link.replace("&amp;", "&"))
    assert '<details class="functions" open>' in text(found)
    define, statement = (text(found).split(f'name="{n}"')[1].split(">\n", 1)[1].split("</textarea>")
                         [0].replace("&gt;", ">") for n in ("define", "sql"))  # fmt: skip
    assert ast.parse(define)
    assert priced(bob, sql(statement) | {"define": define})["price"] == "1000000"


def test_the_same_question_is_free_however_it_is_spelled(visit, instance):
    """Written out in SQL, with other names, or asked again: one question of the ledger."""
    bob, before = visit("bob"), spent(instance)
    place = paid(bob, with_functions(31))
    assert spent(instance) == before + 1_000_000
    other = "def grown(years):\n    return not years < 32"
    called = "select count(*) from people where grown(age)"
    spelled = (
        with_functions(31),
        with_functions(0, called, other),
        sql("select count(*) from people where age >= 32"),
    )
    for again in spelled:
        assert text(bob.get(f"{paid(bob, again)}/json")) != ""
        assert spent(instance) == before + 1_000_000
    paid(bob, with_functions(33))  # another function of the same name is another question
    assert spent(instance) == before + 2_000_000
    assert bob.get(f"{place}/csv").body != b""


def test_a_kept_answer_and_a_board_keep_their_functions(visit, instance):
    """Opened again the boxes are filled; a board asks again free; the program runs as it is."""
    bob = visit("bob")
    place = paid(bob, with_functions(41))
    before = spent(instance)
    assert "LIMIT = 41" in text(bob.get(place))
    made = bob.post(f"{place}/board", {"title": "Older", "new": "Ages"}).headers["location"]
    board = made.split("?")[0]
    price = bob.post(f"{board}/price")
    fields = {n: hidden(price, n) for n in ("request", "price")}
    assert bob.post(f"{board}/pay", fields).status == 303
    assert spent(instance) == before
    program = text(bob.get(f"{place}/python"))
    assert "functions = sulq.row_functions(" in program
    assert "define=functions.values()" in program
    compile(program, "asked.py", "exec")


@pytest.mark.parametrize(
    ("define", "place", "said"),
    [
        ("def f(age):\n    return age +\n", "line 2, column 17", "    return age +"),
        ("\n\ndef f(age):\n    import os\n    return age", "line 4, column 5", "    import os"),
        ("def f(age):\n    return open(age)", "line 2, column 12", "    return open(age)"),
    ],
)
def test_what_is_not_read_is_shown_with_line_and_column(visit, instance, define, place, said):
    """On the page and for the script; nothing of it is run and nothing is spent."""
    bob, before = visit("bob"), spent(instance)
    fields = sql("select avg(f(age)) from people") | {"define": define}
    for found in (bob.post(f"{D}/preview", fields), bob.post(f"{D}/rehearse", fields)):
        assert found.status == 422
        assert f"Functions, {place}" in plain(found)
        assert f"| {said}" in text(found)
        assert 'aria-invalid="true"' in text(found)
    live = bob.post(f"{D}/price", fields).json
    assert f"Functions, {place}" in live["problem"]
    line, mark = live["where"].split("\n")
    assert line.endswith(said)
    assert mark.index("^") - line.index("| ") - 1 == int(place.rsplit(" ", 1)[1])
    assert spent(instance) == before


def test_functions_are_read_by_the_route_first(visit, monkeypatch):
    """Where reading is metered: what it refuses, the console does not read on its own."""

    def unread(self, db):
        raise AssertionError("read outside the meter")

    monkeypatch.setattr(FilledForm, "question", unread)
    fields = sql("select avg(f(age)) from people") | {"define": "def f(age):\n    return open(age)"}
    assert "Functions, line 2" in visit("bob").post(f"{D}/price", fields).json["problem"]


def test_no_more_python_than_the_route_takes(visit):
    """A long text is refused before it is read."""
    found = visit("bob").post(f"{D}/preview", sql(ASKED) | {"define": "#" * 20_001})
    assert found.status == 422
    assert "20,000 letters" in plain(found)


def test_written_out_and_pointed_at():
    """No functions, no change; a message about no line points at none."""
    assert written_out("select 1", " \n") == "select 1"
    assert in_the_box("define, line 3, column 1: no.") == "Functions, line 3, column 1: no."
    assert in_the_box("define it outside.") == "define it outside."
    assert pointed_at("def f(a): pass", "the column b is not declared.") == ""
    assert pointed_at("", "Functions, line 3, column 1: unexpected.") == ""
    assert pointed_at("a\n\tb c", "Functions, line 2, column 4: no.") == "  2 | \tb c\n      \t  ^"


@pytest.mark.parametrize(
    ("statement", "title"),
    [
        ("select region, count(*), avg(age)\nfrom people\nwhere age >= 52\ngroup by region",
         "count(*), avg(age) by region where age >= 52"),
        ('SELECT count(*) FROM "my people";', "count(*)"),
        ("select region, count(*) n from p group by region having count(*) > 5 order by n",
         "count(*) n by region having count(*) > 5 order by n"),
        ("select greatest(avg(a), 1), b from p where c = 'x, from y' group by b",
         "greatest(avg(a), 1) by b where c = 'x, from y'"),
        ("select avg(extract(year from d)) from p", "avg(extract(year from d))"),
        ("select avg(a) from (select a from p)", "select avg(a) from (select a from p)"),
        ("select region from p group by region", "region by region"),
    ],
)  # fmt: skip
def test_a_select_has_a_short_name(statement, title):
    """What is asked, by what, of which rows; a statement that is not that plain keeps its text."""
    assert title_of(statement) == title

"""Boards and sharing in pages: whose, for whom, and what it costs (nothing)."""

import re

import pytest
from playwright.sync_api import expect
from server.console.page_client import hidden, plain, text
from server.console.test_analyst import D, paid, spent, sql
from server.console.test_models import learned

SQL = "select city, count(*) from people where age >= {} group by city"


@pytest.fixture
def eve(visit, instance):
    """eve is invited for one test."""
    instance.call("PUT", "/v1/datasets/people/analysts/eve", None, "anna")
    yield visit("eve")
    instance.call("DELETE", "/v1/datasets/people/analysts/eve", None, "anna")


def put(who, place, **fields):
    """An answer on a board; the page of the board."""
    found = who.post(f"{place}/board", {"title": "Cities", "new": "Places", **fields})
    assert found.status == 303, plain(found)
    return found.headers["location"].split("?")[0]


def test_an_answer_is_shared_read_only_and_taken_back(visit, instance, eve):
    """People of the dataset may look and save; strangers see a missing page, before and after."""
    bob, anna, dan = visit("bob"), visit("anna"), visit("dan")
    place = paid(bob, sql(SQL.format(21)))
    id = place.rsplit("/", 1)[-1]
    assert eve.get(place).status == anna.get(place).status == dan.get(place).status == 404
    before = spent(instance)
    assert bob.post(f"{D}/share/answer/{id}").status == 303
    for who in (eve, anna):
        found = who.get(place)
        assert found.status == 200
        assert "Shared by bob." in plain(found)
        assert "Stop sharing" not in plain(found)
        assert "Add to board" not in plain(found)
        assert who.get(f"{place}/csv").body == bob.get(f"{place}/csv").body
        assert "answer, by bob" in plain(who.get(f"{D}/answers"))
    assert dan.get(place).status == 404
    assert eve.post(f"{D}/share/answer/{id}", {"do": "stop"}).status == 303  # not hers: no effect
    assert anna.get(place).status == 200
    assert "answer, by bob" not in plain(bob.get(f"{D}/answers"))
    assert bob.post(f"{D}/share/answer/{id}", {"do": "stop"}).status == 303
    assert eve.get(place).status == anna.get(place).status == 404
    assert spent(instance) == before


def test_whoever_is_no_longer_invited_no_longer_looks(visit, instance, eve):
    """A share is for people of the dataset, as they are now."""
    bob = visit("bob")
    place = paid(bob, sql(SQL.format(22)))
    bob.post(f"{D}/share/answer/{place.rsplit('/', 1)[-1]}")
    assert eve.get(place).status == 200
    instance.call("DELETE", "/v1/datasets/people/analysts/eve", None, "anna")
    assert eve.get(place).status == 404


def test_a_board_is_made_arranged_shared_and_given_up(visit, instance, eve):
    """Named and ordered by its person; read-only for others; its answers open from it."""
    bob, before = visit("bob"), None
    first, second = (paid(bob, sql(SQL.format(age))) for age in (31, 32))
    before = spent(instance)
    board = put(bob, first)
    id = board.rsplit("/", 1)[-1]
    assert put(bob, second, board=id, title="Older", chart="columns") == board
    assert titles(bob, board) == ["Cities", "Older"]
    asked = second.rsplit("/", 1)[-1]
    bob.post(f"{board}/arrange", {"answer": asked, "do": "up", "title": "Much older"})
    assert titles(bob, board) == ["Much older", "Cities"]
    bob.post(f"{board}/arrange", {"title": "Towns"})
    assert "Towns" in plain(bob.get(f"{D}/boards"))
    assert eve.get(board).status == 404
    assert bob.post(f"{D}/share/board/{id}").status == 303
    seen = eve.get(board)
    assert seen.status == 200
    assert "Shared by bob. You may look at it, and change nothing." in plain(seen)
    assert "Arrange" not in plain(seen)
    assert "Towns" in plain(eve.get(f"{D}/boards"))
    assert eve.get(first).status == 200  # what stands on it may be opened
    for path, fields in (("arrange", {"answer": asked, "do": "away"}), ("arrange", {"title": "x"}),
                         ("remove", {}), ("pay", {"request": "0" * 32, "price": "0"})):  # fmt: skip
        assert eve.post(f"{board}/{path}", fields).status == 404
    bob.post(f"{board}/arrange", {"answer": asked, "do": "away"})
    assert titles(bob, board) == ["Cities"]
    assert eve.get(second).status == 404
    assert bob.post(f"{board}/remove").status == 303
    assert bob.get(board).status == eve.get(board).status == eve.get(first).status == 404
    assert bob.get(first).status == 200
    assert spent(instance) == before


def titles(who, board):
    return re.findall(r'<h2><a href="[^"]*/asked/[^"]*">([^<]*)</a>', text(who.get(board)))


def test_asking_a_board_again_is_priced_first_and_free(visit, instance):
    """The same rows give the same stored answers; sent twice, it is one asking."""
    bob = visit("bob")
    place = paid(bob, sql(SQL.format(41)))
    board, before = put(bob, place), spent(instance)
    page = bob.post(f"{board}/price")
    assert "At most 2 queries" in plain(page)
    form = {"request": hidden(page, "request"), "price": hidden(page, "price")}
    assert bob.post(f"{board}/pay", form | {"price": "1"}).status == 422
    assert bob.post(f"{board}/pay", form | {"request": "x"}).status == 422
    for _ in range(2):
        assert bob.post(f"{board}/pay", form).status == 303
    assert spent(instance) == before
    (new,) = re.findall(r"/asked/([0-9a-f]{32})\?", text(bob.get(board)))
    assert new != place.rsplit("/", 1)[-1]
    again, first = (bob.get(f"{p}/json").json["rows"] for p in (f"{D}/asked/{new}", place))
    assert again == first


def test_a_model_is_shared_read_only(visit, instance, eve):
    """Others look at it and use it; what they paste is kept nowhere."""
    bob = visit("bob")
    place, _ = learned(bob, "PCA")
    id = place.rsplit("/", 1)[-1]
    assert eve.get(place).status == 404
    assert bob.post(f"{D}/share/model/{id}").status == 303
    found = eve.get(place)
    assert "Shared by bob." in plain(found)
    assert "Stop sharing" not in plain(found)
    assert eve.get(f"{place}/json").body == bob.get(f"{place}/json").body
    assert "Principal components" not in plain(eve.get(f"{D}/models")).split("Your models")[1]
    bob.post(f"{D}/share/model/{id}", {"do": "stop"})
    assert eve.get(place).status == 404


def test_only_what_is_there_is_shared(visit):
    """Kinds and ids that nobody has."""
    bob = visit("bob")
    for path in (f"answer/{'0' * 32}", f"model/{'0' * 32}", f"board/{'0' * 32}", "keys/1"):
        assert bob.post(f"{D}/share/{path}").status == 404
    assert bob.get(f"{D}/boards/{'0' * 32}").status == 404


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_analysts_job_from_question_to_board(sit, instance, width, scheme):
    """Ask, choose a chart, edit, ask again, share, put on a board: at a desk and on a phone."""
    page = sit("bob", path=f"{D}/ask", width=width, color_scheme=scheme)
    page.get_by_label("One SELECT").fill(SQL.format(width % 97))
    page.get_by_role("button", name="Ask and pay").click()
    page.wait_for_url("**/asked/*")
    page.get_by_role("navigation", name="Chart").get_by_role("link", name="Columns").click()
    page.wait_for_url("**chart=columns*")
    drawn = page.get_by_role("img", name="count(*) by city")
    expect(drawn).to_have_count(1)  # one of the two that are drawn is shown
    assert drawn.bounding_box()["width"] > 0.7 * width
    assert_fits(page, width)
    if width < 700:
        page.get_by_text("Change the question").click()
    page.get_by_label("One SELECT").fill(SQL.format(width % 89))
    page.get_by_role("button", name="Ask and pay").click()
    page.get_by_role(
        "heading", level=1, name=f"count(*) by city where age >= {width % 89}"
    ).wait_for()
    page.get_by_role("button", name="Share").click()
    page.get_by_text("Shared: everybody who may ask this dataset").wait_for()
    page.get_by_text("Add to board").click()
    page.get_by_label("Called").fill("By town")
    page.get_by_label("Board", exact=True).select_option("")
    page.get_by_label("Name of a new board").fill(f"At {width}")
    page.get_by_role("button", name="Put it there").click()
    page.get_by_role("heading", level=1, name=f"At {width}").wait_for()
    page.get_by_role("link", name="By town").wait_for()
    assert_fits(page, width)


def assert_fits(page, width):
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def body_with(rows, numbers):
    """An answer with many rows: of ages, or of names where there are few."""
    names = [f"sum(column_{i})" for i in range(numbers)]
    columns = [name + end for name in names for end in ("", "_low", "_high")]
    said = [{"age": i} | {c: -12_345.678 * i for c in columns} for i in range(rows)]
    return {"columns": ["age", *columns], "by": ["age"], "rows": said, "price_micro": 1,
            "remaining_micro": 1}  # fmt: skip


@pytest.mark.parametrize(("rows", "numbers"), [(60, 3), (121, 3), (130, 1), (400, 2), (2000, 4)])
def test_large_answers_and_boards_of_them_stay_light(visit, instance, rows, numbers):
    """At most 200 KB with stylesheet and script; what is left out is said."""
    from sulq.server.console.pages import _statics
    from sulq.server.console.question_form import FilledForm
    from sulq.server.console.saved_results import SavedResults
    from sulq.server.services.boards import Item

    bob, assets = visit("bob"), sum(len(x) for x in _statics().values())
    asked = FilledForm((("kind", "sql"), ("sql", "select age from people")))
    with instance.services() as services:
        who = services.access.principal(f"Bearer {instance.keys['bob']}")
        record = services.access.dataset(who, "people")
        saved = SavedResults(services.registry, services.boards)
        ids = [f"{rows:016x}{i:016x}" for i in range(12)]
        for id in ids:
            saved.put(who, record, id, asked, body_with(rows, numbers))
        board = services.boards.make(who, record, "Heavy")
        services.boards.arrange(who, record, board, [Item(id, "t", "") for id in ids])
    for chart in ("", "?chart=bars", "?chart=line", "?chart=table", "?chart=columns"):
        assert len(bob.get(f"{D}/asked/{ids[0]}{chart}").body) + assets < 200_000, chart
    found = bob.get(f"{D}/boards/{board}")
    assert len(found.body) + assets < 200_000
    assert "Open it to see it" in plain(found) or rows < 100

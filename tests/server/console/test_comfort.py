"""What the script adds: menus that close, an upload that moves, colours, times, dragging."""

import re
from datetime import datetime, timedelta, timezone

import pytest
from playwright.sync_api import expect
from server.console.browser import person
from server.console.test_analyst import D, paid, sql

SLOW = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 30_000}
FAST = SLOW | {"uploadThroughput": -1}
NEW = "/console/new"


def file(content, name="sent.csv"):
    return {"name": name, "mimeType": "text/csv", "buffer": content}


@pytest.fixture
def choose(sit):
    """anna's page to upload from, and how fast it sends."""
    page = sit("anna", path=NEW)
    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")

    def chosen(content, speed, name="sent.csv"):
        wire.send("Network.emulateNetworkConditions", speed)
        page.get_by_label("CSV or Parquet").set_input_files(file(content, name))
        page.get_by_role("button", name="Upload").click()

    chosen.page = page
    chosen.at = lambda speed: wire.send("Network.emulateNetworkConditions", speed)
    return chosen


def test_an_upload_shows_how_far_it_is_and_goes_on_to_the_columns(choose):
    """The bar moves while it is sent; then the columns are there, as without a script."""
    page, rows = choose.page, b"age,city\n" + b"41,rome\n" * 200_000
    choose(rows, SLOW, "slow.csv")
    bar = page.get_by_role("progressbar", name="Sent so far")
    expect(page.get_by_text("KB of 1.60 MB")).to_be_visible()
    expect(page.get_by_role("button", name="Upload")).to_be_disabled()
    assert bar.evaluate("(bar) => bar.max") > len(rows)
    choose.at(FAST)
    expect(page.get_by_role("heading", name="Columns of slow")).to_be_visible()


def test_an_upload_can_be_stopped_and_sent_again(choose):
    """Stopped, nothing was kept and the form is as before; refused, it says why in its place."""
    page = choose.page
    held = []  # the first one, on its way for ever
    page.route("**/new/upload", lambda sent: sent.continue_() if held else held.append(sent))
    choose(b"age,city\n41,rome\n", FAST, "stopped.csv")
    expect(page.get_by_text("Sending …")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("progressbar")).to_be_hidden()
    assert page.url.endswith(NEW)
    choose(b"PAR1 and no more", FAST, "broken.parquet")
    expect(page.get_by_role("alert").filter(has_text="Nothing was kept")).to_be_visible()
    choose(b"age,city\n41,rome\n", FAST, "good.csv")
    expect(page.get_by_role("heading", name="Columns of good")).to_be_visible()
    page.goto(NEW)
    expect(page.get_by_role("row").filter(has_text="good.csv")).to_be_visible()
    expect(page.get_by_text("stopped.csv")).to_have_count(0)


def test_downloads_are_one_menu(sit, visit):
    """It opens by a press and closes by Escape or a press elsewhere; only one is open."""
    place = paid(visit("bob"), sql("select city, count(*) from people where age > 3 group by city"))
    page = sit("bob", path=place)
    menu, board = page.get_by_text("Download", exact=True), page.get_by_text("Add to board")
    for ending in ("CSV", "JSON", "Python", "SVG", "PNG"):
        expect(page.get_by_role("link", name=ending)).to_be_hidden()
    menu.click()
    expect(page.get_by_role("link", name="CSV")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="CSV")).to_be_hidden()
    menu.click()
    board.click()
    expect(page.get_by_role("link", name="CSV")).to_be_hidden()
    expect(page.get_by_label("Called")).to_be_visible()
    page.get_by_role("heading", level=1).click()
    expect(page.get_by_label("Called")).to_be_hidden()


def test_the_menu_opens_without_a_script(browser, instance, visit):
    """The browser's own folding does it."""
    place = paid(visit("bob"), sql("select count(*) from people where age > 4"))
    page = person(browser, instance, "bob", path=place, java_script_enabled=False)
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as found:
        page.get_by_role("link", name="CSV").click()
    assert found.value.suggested_filename.endswith(".csv")
    page.context.close()


def test_on_a_phone_the_title_of_an_answer_has_two_lines_at_most(sit, visit):
    """A long question is cut where it stands as a title; its whole text is in the box."""
    long = " or ".join(f"age between {a} and {a + 2}" for a in range(5, 85, 5))
    place = paid(visit("bob"), sql(f"select city, count(*) from people where {long} group by city"))
    page = sit("bob", path=place, width=390)
    title = page.get_by_role("heading", level=1)
    lines = title.evaluate("(h) => h.clientHeight / parseFloat(getComputedStyle(h).lineHeight)")
    assert lines < 2.5
    page.get_by_text("Change the question").click()
    expect(page.get_by_label("One SELECT")).to_have_value(
        f"select city, count(*) from people where {long} group by city"
    )


def test_a_new_key_is_copied_by_a_press(sit):
    """The whole key goes to the clipboard; the page says so."""
    page = sit("anna", path="/console/analysts", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_text("A new key for yourself").click()
    page.get_by_role("button", name="Make a key").click()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#key").inner_text()


def test_ways_around_a_question_are_one_row_of_tabs(visit):
    """Kinds of question without SQL are choices in their card, not more tabs."""
    found = visit("bob").get(f"{D}/guided").body.decode()
    assert found.count('<nav class="tabs"') == 1
    assert 'aria-label="Kinds of question"' in found


def test_a_question_is_shown_with_its_words_in_colours(sit):
    """The coloured copy has the same letters at the same places, and the box stays a box."""
    page = sit("bob", path=f"{D}/ask")
    box, copy = page.get_by_label("One SELECT"), page.locator(".painted pre").first
    text = "select count(*), 'it''s <b>'\nfrom people -- who\nwhere age > 40.5 and \"a b\" < 2"
    box.fill(text)
    expect(copy).to_have_text(text)
    kinds = {
        kind: copy.locator(f".of-{kind}").all_inner_texts()
        for kind in ("word", "call", "text", "note", "number")
    }
    assert kinds == {
        "word": ["select", "from", "where", "and"], "call": ["count"], "text": ["'it''s <b>'"],
        "note": ["-- who"], "number": ["40.5", "2"],
    }  # fmt: skip
    box.fill("\n".join(f"select {i} {'long ' * 40}" for i in range(40)))
    box.evaluate("(b) => { b.scrollTop = b.scrollHeight; }")
    heights = page.evaluate(
        "() => { const b = document.querySelector('[name=sql]'), c = b.previousSibling;"
        " return [b.scrollHeight, c.scrollHeight]; }"
    )
    assert abs(heights[0] - heights[1]) <= 24  # one line at the end


def test_times_are_the_readers_own(sit, visit):
    """In UTC when pointed at, and without a script; a report is in UTC for everybody."""
    place = paid(visit("bob"), sql("select count(*) from people where age > 6"))
    page = sit("bob", path=place, timezone_id="Asia/Kolkata")
    time = page.locator("time").first
    expect(time).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d UTC$"))
    shown, iso = time.inner_text(), time.get_attribute("datetime")
    there = datetime.fromisoformat(iso).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert shown == f"{there:%Y-%m-%d %H:%M}"
    report = sit("anna", path=f"{D}/report", timezone_id="Asia/Kolkata")
    expect(report.locator("time").first).to_have_text(re.compile("UTC$"))


@pytest.mark.parametrize("width", [1280, 390])
def test_answers_on_a_board_change_places_by_dragging(sit, visit, width):
    """What is let go stands there when the page is opened again."""
    bob, board = visit("bob"), ""
    for i in range(3):
        place = paid(bob, sql(f"select count(*) from people where age > {i + width}.5"))
        said = {"title": f"t{i}", "board": board.rsplit("/", 1)[-1], "new": f"dragged {width}"}
        board = bob.post(f"{place}/board", said).headers["location"].split("?")[0]
    page = sit("bob", path=board, width=width)
    tiles = page.locator("[data-answer] h2")
    expect(tiles).to_have_text(["t0", "t1", "t2"])
    grip, target = page.locator(".grip").first.bounding_box(), tiles.nth(2).bounding_box()
    page.mouse.move(grip["x"] + 4, grip["y"] + 4)
    page.mouse.down()
    page.mouse.move(target["x"] + 9, target["y"] + 9, steps=4)
    with page.expect_response("**/arrange"):
        page.mouse.up()
    order = tiles.all_inner_texts()
    assert order != ["t0", "t1", "t2"]
    page.reload()
    expect(tiles).to_have_text(order)


def test_what_an_owner_decides_is_one_group(sit):
    """One tab leads there; the five pages of it are choices below the tabs."""
    page = sit("anna", path=D)
    assert page.locator(".tabs a").count() == 8
    page.get_by_role("link", name="Manage").click()
    group = page.get_by_role("navigation", name="Manage people")
    expect(group.get_by_role("link")).to_have_text(
        ["Settings", "Access", "Timeline", "Schema", "Report"]
    )
    group.get_by_role("link", name="Access").click()
    expect(group.locator("[aria-current]")).to_have_text("Access")

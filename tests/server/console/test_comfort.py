"""What the script adds: menus that close, an upload that moves, keys that are copied."""

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

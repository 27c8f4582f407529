"""Declarations that lose rows: pages tell their owner, once, and nobody else."""

import html
import re

import pytest
from playwright.sync_api import expect
from server.api.test_data_check import DRAFT, HEAD, ROWS, TOLD, WRONG
from server.console.page_client import PageClient, plain, text
from server.instance import call

from sulq.server.console.app import ROUTES
from sulq.server.console.request_context import PREFIX

W = "/console/datasets/wrong"
FIELDS = {
    "name": "later", "source": "later.csv", "columns": "3", "n0": "id", "t0": "integer", "k0": "on",
    "n1": "born", "t1": "date", "l1": "1900-01-01", "h1": "2030-01-01",
    "n2": "weight", "t2": "number", "l2": "0", "h2": "200",
}  # fmt: skip
PROMISE = {"epsilon": "1", "delta": "0.000001", "queries": "9", "rows": "42", "noise": "gaussian",
           "guarantee": "beliefs"}  # fmt: skip


@pytest.fixture(scope="module")
def wrong(instance):
    """anna's CSV, whose dates and numbers cannot be read as declared; bob may ask it."""
    for name, day in (("wrong", "17-"), ("later", "18-")):
        (instance.folder / "data" / f"{name}.csv").write_text(HEAD + ROWS.replace("17-", day))
    assert instance.call("POST", "/v1/datasets", WRONG, "anna").status == 201
    assert instance.call("PUT", "/v1/datasets/wrong/analysts/bob", None, "anna").status == 200
    return instance


def test_the_owner_looks_in_a_browser(sit, wrong):
    """One button; shares, counts and advice by column; gone when the page is opened again."""
    page = sit("anna", path=f"{W}/owner")
    page.get_by_role("button", name="Check the declarations against the data").click()
    found = page.get_by_label("How the rows fit")
    expect(found).to_contain_text("How 42 rows fit what is declared")
    born = found.get_by_role("row", name="born")
    expect(born).to_contain_text("42 (100%)")
    expect(born).to_contain_text("date_format = '%d-%m-%Y'")
    expect(found.get_by_role("row", name="note")).to_contain_text("10 (23.8%)")
    expect(found.get_by_role("alert")).to_have_count(2)
    page.goto(f"{W}/owner")
    expect(page.get_by_role("heading", name="Declarations")).to_be_visible()
    expect(page.get_by_label("How the rows fit")).to_have_count(0)


def test_what_cannot_be_checked_says_why(wrong):
    """Rows that are gone: the page for deciding, with the refusal on it."""
    file = wrong.folder / "data" / "wrong.csv"
    file.unlink()
    try:
        found = PageClient(wrong, "anna").post(f"{W}/owner/check")
    finally:
        file.write_text(HEAD + ROWS)
    assert found.status == 409
    assert "is not where it was" in plain(found)


def test_a_lost_column_is_said_before_the_promise_and_one_may_go_on(wrong):
    """On the way to step 3, and still there after Show; then the dataset is made all the same."""
    anna = PageClient(wrong, "anna")
    lost = []
    for path, button in (("columns", "onward"), ("promise", "show")):
        carried = [("lost", line) for line in lost]
        fields = [*(FIELDS | PROMISE).items(), (button, "yes"), *carried]
        found = anna.post(f"/console/new/{path}", fields)
        assert found.status == 200
        said = plain(found)
        assert "Column 'born': no value can be read as declared" in said
        assert "Column 'weight': no value" in said
        lost = [html.unescape(x) for x in re.findall(r'name="lost" value="(.*?)"', text(found))]
        assert len(lost) == 2
    right = FIELDS | {"t1": "category", "l1": "", "h1": "", "v1": "18-08-1910", "onward": "yes"}
    assert "'born'" not in plain(anna.post("/console/new/columns", right))
    assert anna.post("/console/new/promise", FIELDS | PROMISE | {"make": "yes"}).status == 303


def test_no_page_or_route_tells_an_analyst(wrong):
    """After the owner looked bob walks every page and route: nothing of it is anywhere."""
    anna, bob = PageClient(wrong, "anna"), PageClient(wrong, "bob")
    assert TOLD[0] in anna.post(f"{W}/owner/check").body
    token, seen = bob.token(), []
    for route in ROUTES:
        path = PREFIX + route.path.replace("{name}", "wrong")
        if "sign-out" in path or "/enter/" in path:
            continue
        seen.append(bob.get(path) if "GET" in route.methods else bob.post(path, FIELDS, csrf=token))
    paths = call(wrong.url, "GET", "/v1/openapi.json").json["paths"]
    for path, methods in paths.items():
        for method in methods:
            body = DRAFT if method in ("post", "put", "patch") else None
            seen.append(wrong.call(method.upper(), path.replace("{name}", "wrong"), body, "bob"))
    assert len(seen) > 80
    assert {200, 403, 404} <= {reply.status for reply in seen}
    assert not any(word in reply.body for word in TOLD for reply in seen)
    assert bob.post(f"{W}/owner/check").status == 403
    assert PageClient(wrong, "eve").post(f"{W}/owner/check").status == 404

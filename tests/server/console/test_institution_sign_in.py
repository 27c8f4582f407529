"""Signing in with an institution's account, in a browser: the way back keeps a strict cookie."""

import pytest
from playwright.sync_api import expect
from server.instance import made
from server.issuer import issuing, settings_of


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with issuing() as issuer:
        found = made(tmp_path_factory.mktemp("institution") / "instance")
        with (found.folder / "sulq.toml").open("a") as file:
            file.write(settings_of(issuer))
        with found.serving() as served:
            yield served


def test_the_button_leads_there_and_back(browser, served):
    """From another site to the page one wanted, with a cookie that other sites never send."""
    context = browser.new_context(base_url=served.url)
    page = context.new_page()
    page.goto("/console/account")
    page.get_by_role("link", name="Sign in with your institution's account").click()
    page.wait_for_url("**/console/account")
    expect(page.get_by_role("heading", name="alice, analyst")).to_be_visible()
    cookies = {cookie["name"]: cookie for cookie in context.cookies()}
    assert set(cookies) == {"sulq_session"}
    assert cookies["sulq_session"]["sameSite"] == "Strict"
    context.close()


def test_the_owner_reads_the_audit_log(sit, served):
    """Who signed in and who decided what, newest first, from the page about the server."""
    page = sit("anna", instance=served)
    page.goto("/console/server")
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("heading", name="Audit log")).to_be_visible()
    expect(page.get_by_text("anna signed in, with a key").first).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="The whole log").click()
    lines = saved.value.path().read_text().splitlines()
    assert '"kind":"owner"' in lines[0]

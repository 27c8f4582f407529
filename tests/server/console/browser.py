"""A person at a browser: Debian's Chromium, driven by Playwright."""

import os
import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 30


def chromium():
    """Where a Chromium is; without one these tests are left out, but never in CI."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail("no Chromium: apt-get install chromium")
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    return found


@contextmanager
def launched():
    """One browser for many tests."""
    path = chromium()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * SECONDS)  # as long as a click waits
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def person(browser, instance, who, *, path="/console/", width=1280, **options):
    """A page on which someone of the instance has signed in, in a browser context of its own."""
    context = browser.new_context(
        base_url=instance.url, viewport={"width": width, "height": 900}, **options
    )
    context.set_default_timeout(1000 * SECONDS)
    page = context.new_page()
    page.goto("/console/sign-in")
    page.get_by_label("Your key").fill(instance.keys[who])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/")
    if path != "/console/":
        page.goto(path)
    return page

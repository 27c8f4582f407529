"""Signing in and out: what a session is worth, and when it ends."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect
from server.console.page_client import PageClient, plain, text

from sulq.server.console.sessions import Sessions


def key_of(instance, who):
    return instance.keys[who].split("_")[1]


def test_a_key_signs_in_and_out_in_a_browser(sit, instance):
    """The cookie is out of reach of scripts and of other sites, and gone afterwards."""
    page = sit("bob")
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert cookie["name"] == "sulq_session"
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert cookie["expires"] == -1  # until the browser is closed
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    page.goto("/console/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_signing_in_goes_on_to_where_one_wanted(browser, instance):
    """After signing in one gets the page one asked for."""
    context = browser.new_context(base_url=instance.url)
    page = context.new_page()
    page.goto("/console/account")
    page.get_by_label("Your key").fill(instance.keys["bob"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/account")
    context.close()


@pytest.mark.parametrize(
    "next",
    ["//evil.example/", "https://evil.example/", "/console//evil.example", "/\\evil.example",
     "/console/\\evil", "javascript:alert(1)", "/v1/datasets", "/console/\r\nSet-Cookie: a=b"],
)  # fmt: skip
def test_signing_in_leads_nowhere_else(instance, next):
    """No address of another site is gone to after signing in."""
    stranger = PageClient(instance)
    found = stranger.post(
        "/console/sign-in", {"key": instance.keys["bob"], "next": next}, csrf=None
    )
    assert found.headers["location"] == "/console/"


@pytest.mark.parametrize("key", ["", "x", "sulq_0123456789abcdef_" + "A" * 43, "<b>é</b>"])
def test_what_is_no_key_signs_nobody_in(instance, key):
    """A wrong key gives no session and one message for every reason."""
    found = PageClient(instance).post("/console/sign-in", {"key": key}, csrf=None)
    assert found.status == 401
    assert "set-cookie" not in found.headers
    assert "no key that works" in plain(found)
    assert key not in ("", "x") or "<b>" not in text(found)


def test_cookies_are_secure_behind_tls(instance):
    """A browser that came over https says so, and the cookie stays there."""
    secure = instance.url.replace("http:", "https:")
    found = PageClient(instance).post(
        "/console/sign-in", {"key": instance.keys["bob"]}, csrf=None, Origin=secure
    )
    assert "secure" in found.headers["set-cookie"].lower()


def test_a_session_ends_with_its_key(instance):
    """Revoked, expired, removed: at the next look, nothing is there."""
    made = instance.call("POST", "/v1/keys", {"analyst": "bob"}, "anna").json
    instance.keys["spare"] = made["key"]
    bob = PageClient(instance, "spare")
    assert bob.get("/console/account").status == 200
    instance.call("DELETE", f"/v1/keys/{made['id']}", None, "anna")
    assert bob.get("/console/account").headers["location"].startswith("/console/sign-in")


def test_a_session_ends_by_itself(instance):
    """Idle too long, or however busy too old."""
    for column, span in (("seen", timedelta(minutes=31)), ("begun", timedelta(hours=13))):
        bob = PageClient(instance, "bob")
        assert bob.get("/console/").status == 200
        past = (datetime.now(UTC) - span).isoformat(timespec="seconds")
        with instance.services() as services, services.registry.writing() as run:
            run(f"UPDATE sessions SET {column} = ?", past)
        assert bob.get("/console/").status == 303
    with instance.services() as services, services.registry.writing() as run:
        run("DELETE FROM sessions")


def test_looking_keeps_a_session_going(instance):
    """A session that is used does not end for idleness."""
    bob = PageClient(instance, "bob")
    past = (datetime.now(UTC) - timedelta(minutes=20)).isoformat(timespec="seconds")
    with instance.services() as services:
        with services.registry.writing() as run:
            run("UPDATE sessions SET seen = ?", past)
        assert bob.get("/console/").status == 200
        assert services.registry.one("SELECT max(seen) FROM sessions")[0] > past


def test_signing_out_everywhere_ends_every_session_of_that_person(instance):
    """Everywhere means every session of that person and of nobody else."""
    one, two, anna = (
        PageClient(instance, "bob"),
        PageClient(instance, "bob"),
        PageClient(instance, "anna"),
    )
    assert one.post("/console/sign-out", {"everywhere": "yes"}).status == 303
    assert [v.get("/console/").status for v in (one, two, anna)] == [303, 303, 200]


def test_what_a_cookie_holds_is_kept_as_a_hash_only(instance):
    """The registry has a hash of a session's secret, not the secret."""
    bob = PageClient(instance, "bob")
    secret = bob.cookie.split("=")[1]
    assert len(secret) >= 43  # 256 bits
    assert secret.encode() not in (instance.folder / "server.db").read_bytes()
    assert secret.encode() not in (instance.folder / "server.db-wal").read_bytes()


def test_a_link_signs_in_once(instance, browser):
    """Opening it is not using it; pressing the button is."""
    with instance.services() as services:
        sessions = Sessions(services.registry, services.access)
        path = sessions.link(key_of(instance, "bob"))
        late = sessions.link(key_of(instance, "bob"), timedelta(minutes=-1))  # clocks may differ
    stranger = PageClient(instance)
    assert stranger.get(path).status == stranger.get(path).status == 200
    context = browser.new_context(base_url=instance.url)
    page = context.new_page()
    page.goto(path)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    context.close()
    for used in (path, late, "/console/enter/nonsense"):
        again = stranger.post(used, csrf=None)
        assert again.status == 404
        assert "set-cookie" not in again.headers
        assert "used already, or is too old" in plain(again)


def test_pages_want_a_session_and_say_nothing_without(instance):
    """A stranger sees the same for what is there and what is not."""
    stranger = PageClient(instance)
    for path in ("/console/", "/console/account", "/console/datasets/people"):
        found = stranger.get(path)
        assert found.status == 303
        assert found.headers["location"].startswith("/console/sign-in")
    assert stranger.get("/").headers["location"] == "/console/"


def test_no_key_no_cookie_in_the_log(instance, capfd):
    """Neither a key nor a cookie is logged."""
    bob = PageClient(instance, "bob")
    bob.get("/console/")
    said = "".join(capfd.readouterr())
    assert bob.cookie.split("=")[1] not in said
    assert not re.search(r"sulq_[0-9a-f]{16}_", said)


def test_a_folder_from_before_the_console_opens(tmp_path):
    """Tables that came later are made; a folder of a newer sulq is refused."""
    from server.instance import made, step_back

    from sulq.errors import Refused
    from sulq.server.services.registry import VERSION, Registry

    instance = made(tmp_path / "instance")
    with instance.services() as services, services.registry.writing() as run:
        step_back(run, 1)
    with instance.serving():
        assert PageClient(instance, "bob").get("/console/").status == 200
    with instance.services() as services, services.registry.writing() as run:
        run(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(Refused, match="Install the newer one"):
        Registry.open(instance.folder)

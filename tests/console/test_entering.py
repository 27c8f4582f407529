"""Signing in and out: what a session is worth, and when it ends."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from console.visiting import Visiting, plain, text

from sulq.console.sessions import Sessions


def key_of(house, who):
    return house.keys[who].split("_")[1]


def test_a_key_signs_in_and_out_in_a_browser(sit, house):
    """The cookie is out of reach of scripts and of other sites, and gone afterwards."""
    page = sit("bob")
    assert page.get_by_role("heading", name="Datasets").is_visible()
    (cookie,) = page.context.cookies()
    assert cookie["name"] == "sulq_session"
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert cookie["expires"] == -1  # until the browser is closed
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    assert page.get_by_text("You are signed out.").is_visible()
    page.goto("/console/")
    assert page.get_by_role("heading", name="Sign in").is_visible()


def test_signing_in_goes_on_to_where_one_wanted(browser, house):
    context = browser.new_context(base_url=house.url)
    page = context.new_page()
    page.goto("/console/account")
    page.get_by_label("Your key").fill(house.keys["bob"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/account")
    context.close()


@pytest.mark.parametrize(
    "next",
    ["//evil.example/", "https://evil.example/", "/console//evil.example", "/\\evil.example",
     "/console/\\evil", "javascript:alert(1)", "/v1/datasets", "/console/\r\nSet-Cookie: a=b"],
)  # fmt: skip
def test_signing_in_leads_nowhere_else(house, next):
    stranger = Visiting(house)
    found = stranger.post("/console/sign-in", {"key": house.keys["bob"], "next": next}, csrf=None)
    assert found.headers["location"] == "/console/"


@pytest.mark.parametrize("key", ["", "x", "sulq_0123456789abcdef_" + "A" * 43, "<b>é</b>"])
def test_what_is_no_key_signs_nobody_in(house, key):
    found = Visiting(house).post("/console/sign-in", {"key": key}, csrf=None)
    assert found.status == 401
    assert "set-cookie" not in found.headers
    assert "no key that works" in plain(found)
    assert key not in ("", "x") or "<b>" not in text(found)


def test_cookies_are_secure_behind_tls(house):
    """A browser that came over https says so, and the cookie stays there."""
    secure = house.url.replace("http:", "https:")
    found = Visiting(house).post(
        "/console/sign-in", {"key": house.keys["bob"]}, csrf=None, Origin=secure
    )
    assert "secure" in found.headers["set-cookie"].lower()


def test_a_session_ends_with_its_key(house):
    """Revoked, expired, removed: at the next look, nothing is there."""
    made = house.call("POST", "/v1/keys", {"analyst": "bob"}, "anna").json
    house.keys["spare"] = made["key"]
    bob = Visiting(house, "spare")
    assert bob.get("/console/account").status == 200
    house.call("DELETE", f"/v1/keys/{made['id']}", None, "anna")
    assert bob.get("/console/account").headers["location"].startswith("/console/sign-in")


def test_a_session_ends_by_itself(house):
    """Idle too long, or however busy too old."""
    for column, span in (("seen", timedelta(minutes=31)), ("begun", timedelta(hours=13))):
        bob = Visiting(house, "bob")
        assert bob.get("/console/").status == 200
        past = (datetime.now(UTC) - span).isoformat(timespec="seconds")
        with house.rooms() as rooms, rooms.registry.writing() as run:
            run(f"UPDATE sessions SET {column} = ?", past)
        assert bob.get("/console/").status == 303
    with house.rooms() as rooms, rooms.registry.writing() as run:
        run("DELETE FROM sessions")


def test_looking_keeps_a_session_going(house):
    bob = Visiting(house, "bob")
    past = (datetime.now(UTC) - timedelta(minutes=20)).isoformat(timespec="seconds")
    with house.rooms() as rooms:
        with rooms.registry.writing() as run:
            run("UPDATE sessions SET seen = ?", past)
        assert bob.get("/console/").status == 200
        assert rooms.registry.one("SELECT max(seen) FROM sessions")[0] > past


def test_signing_out_everywhere_ends_every_session_of_that_person(house):
    one, two, anna = Visiting(house, "bob"), Visiting(house, "bob"), Visiting(house, "anna")
    assert one.post("/console/sign-out", {"everywhere": "yes"}).status == 303
    assert [v.get("/console/").status for v in (one, two, anna)] == [303, 303, 200]


def test_what_a_cookie_holds_is_kept_as_a_hash_only(house):
    bob = Visiting(house, "bob")
    secret = bob.cookie.split("=")[1]
    assert len(secret) >= 43  # 256 bits
    assert secret.encode() not in (house.folder / "server.db").read_bytes()
    assert secret.encode() not in (house.folder / "server.db-wal").read_bytes()


def test_a_link_signs_in_once(house, browser):
    """Opening it is not using it; pressing the button is."""
    with house.rooms() as rooms:
        sessions = Sessions(rooms.registry, rooms.access)
        path = sessions.link(key_of(house, "bob"))
        late = sessions.link(key_of(house, "bob"), timedelta(seconds=-5))
    stranger = Visiting(house)
    assert stranger.get(path).status == stranger.get(path).status == 200
    context = browser.new_context(base_url=house.url)
    page = context.new_page()
    page.goto(path)
    page.get_by_role("button", name="Sign in").click()
    assert page.get_by_role("heading", name="Datasets").is_visible()
    context.close()
    for used in (path, late, "/console/enter/nonsense"):
        again = stranger.post(used, csrf=None)
        assert again.status == 404
        assert "set-cookie" not in again.headers
        assert "used already, or is too old" in plain(again)


def test_pages_want_a_session_and_say_nothing_without(house):
    """A stranger sees the same for what is there and what is not."""
    stranger = Visiting(house)
    for path in ("/console/", "/console/account", "/console/datasets/people"):
        found = stranger.get(path)
        assert found.status == 303
        assert found.headers["location"].startswith("/console/sign-in")
    assert stranger.get("/").headers["location"] == "/console/"


def test_no_key_no_cookie_in_the_log(house, capfd):
    bob = Visiting(house, "bob")
    bob.get("/console/")
    said = "".join(capfd.readouterr())
    assert bob.cookie.split("=")[1] not in said
    assert not re.search(r"sulq_[0-9a-f]{16}_", said)


def test_a_folder_from_before_the_console_opens(tmp_path):
    """Tables that came later are made; a folder of a newer sulq is refused."""
    from server.house import made

    from sulq.errors import Refused
    from sulq.server.registry import VERSION, Registry

    house = made(tmp_path / "house")
    with house.rooms() as rooms, rooms.registry.writing() as run:
        for table in ("sessions", "entrances", "asked", "models"):
            run(f"DROP TABLE {table}")
        run("PRAGMA user_version = 1")
    with house.serving():
        assert Visiting(house, "bob").get("/console/").status == 200
    with house.rooms() as rooms, rooms.registry.writing() as run:
        run(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(Refused, match="Install the newer one"):
        Registry.open(house.folder)

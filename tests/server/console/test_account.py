"""Keys in the console: replaced by their holder, revoked after a question, and what each opens."""

import re

from server.console.page_client import PageClient, plain, text

D = "/console/datasets/people"


def a_key(instance, **said):
    """One more key for bob, who then signs in with it."""
    made = instance.call("POST", "/v1/keys", {"analyst": "bob"} | said, "anna").json
    instance.keys[made["id"]] = made["key"]
    return made, PageClient(instance, made["id"])


def test_an_analyst_replaces_their_own_key(instance):
    """The new one is shown once and works; the old one and its other sessions end."""
    made, here = a_key(instance, label="laptop")
    elsewhere = PageClient(instance, made["id"])
    assert f"sulq_{made['id'][:4]}…" in plain(here.get("/console/account/replace"))
    shown = here.post("/console/account/replace")
    new = re.search(r"sulq_[0-9a-f]{16}_[\w-]{43}", text(shown))[0]
    assert "What it opens people" in plain(shown)
    assert instance.call("GET", "/v1/me", None, made["key"]).status == 401
    assert instance.call("GET", "/v1/me", None, new).status == 200
    assert here.get("/console/account").status == 200
    assert elsewhere.get("/console/account").status == 303
    assert new not in text(here.get("/console/account"))
    begins = f"sulq_{new.split('_')[1][:4]}…"
    assert f"laptop {begins} you are signed in with it" in plain(here.get("/console/account"))


def test_a_forged_form_replaces_nothing(instance):
    """From elsewhere or without the token the key stays."""
    made, here = a_key(instance)
    for how in ({"csrf": None}, {"csrf": "0" * 64}, {"Origin": "https://evil.example"}):
        assert here.post("/console/account/replace", **how).status == 403
    assert instance.call("GET", "/v1/me", None, made["key"]).status == 200


def test_revoking_and_taking_back_ask_first(instance, visit):
    """A look changes nothing; the page says whose key it is; the button does it."""
    made, _ = a_key(instance, label="old laptop")
    anna, path = visit("anna"), f"/console/keys/{made['id']}/revoke"
    assert "old laptop" in plain(anna.get(path))
    assert instance.call("GET", "/v1/me", None, made["key"]).status == 200
    assert visit("eve").get(path).status == visit("carl").get(path).status == 404
    assert visit("eve").post(path).status == 404
    assert anna.post(path).headers["location"] == "/console/analysts/bob?done=revoked"
    assert instance.call("GET", "/v1/me", None, made["key"]).status == 401
    assert "It works no longer" in plain(anna.get(path))

    instance.call("PUT", "/v1/datasets/people/analysts/eve", None, "anna")
    back = f"{D}/people/uninvite?analyst=eve"
    assert back.replace("&", "&amp;") in text(anna.get(f"{D}/people"))
    assert "Take back the invitation of eve?" in plain(anna.get(back))
    assert instance.call("GET", "/v1/datasets/people", None, "eve").status == 200
    assert anna.post(f"{D}/people/uninvite", {"analyst": "eve"}).status == 303
    assert instance.call("GET", "/v1/datasets/people", None, "eve").status == 404
    assert anna.get(back).status == 404
    assert visit("bob").get(back).status == 403


def test_an_analyst_revokes_a_key_of_their_own(instance):
    """Their own, from their account, and no other's."""
    _, here = a_key(instance)
    other, _ = a_key(instance)
    assert (
        here.post(f"/console/keys/{other['id']}/revoke")
        .headers["location"]
        .startswith("/console/account")
    )
    assert instance.call("GET", "/v1/me", None, other["key"]).status == 401
    anna = instance.keys["anna"].split("_")[1]
    assert here.post(f"/console/keys/{anna}/revoke").status == 404


def test_a_key_says_what_it_opens(instance, visit):
    """Datasets of its holder within its scope; or that it opens nothing yet."""
    anna = visit("anna")
    found = plain(anna.post("/console/analysts/bob/key", {"days": "3", "dataset": "people"}))
    assert "What it opens people It may ask questions" in found
    assert "invited to later" not in found
    found = plain(anna.post("/console/analysts/eve/key", {"days": "3"}))
    assert "Nothing yet: eve is not invited to a dataset." in found
    found = plain(anna.post("/console/keys", {"days": "3"}))
    assert "make new ones, and add analysts and keys" in found


def test_freezes_invitations_and_keys_stand_in_timeline_and_report(instance, visit):
    """With time and name, for the owner; found by kind; in the page, the JSON and the Markdown."""
    anna = visit("anna")
    instance.call("PUT", "/v1/datasets/people/analysts/eve", None, "anna")
    instance.call("PATCH", "/v1/datasets/people", {"state": "frozen"}, "anna")
    instance.call("PATCH", "/v1/datasets/people", {"state": "open"}, "anna")
    instance.call("DELETE", "/v1/datasets/people/analysts/eve", None, "anna")
    said = ("eve was invited by anna", "frozen by anna", "thawed by anna",
            "the invitation of eve was taken back by anna", "was made for bob")  # fmt: skip
    for page in (anna.get(f"{D}/timeline"), anna.get(f"{D}/report")):
        assert [words for words in said if words not in plain(page)] == []
    markdown = anna.get(f"{D}/report.md").body.decode()
    assert (
        f"[{instance.keys['bob'].split('_')[1]}]" in markdown
    )  # to tell keys apart, in files only
    assert "## Who may ask" in markdown
    assert "frozen by anna" in markdown
    only = plain(anna.get(f"{D}/timeline?kind=freeze"))
    assert "frozen by anna" in only
    assert "was invited" not in only
    assert "eve was invited" in plain(anna.get(f"{D}/timeline?analyst=eve"))
    assert visit("bob").get(f"{D}/timeline").status == 403


def test_events_stand_among_entries_page_by_page(instance):
    """However the timeline is cut into pages, each event is there once."""
    for i in range(5):
        assert instance.ask(f"age > {i}").status == 200
        instance.call("PUT", "/v1/datasets/people/analysts/eve", None, "anna")
        instance.call("DELETE", "/v1/datasets/people/analysts/eve", None, "anna")
    path = "/v1/datasets/people/timeline"
    whole = instance.call("GET", f"{path}?limit=500", None, "anna").json["entries"]
    pages, before = [], ""
    while before is not None:
        found = instance.call("GET", f"{path}?limit=2{before}", None, "anna").json
        pages += found["entries"]
        before = None if found["next"] is None else f"&before={found['next']}"

    def count(entries):
        return sorted((e["number"] or 0, e["time"], e["what"]) for e in entries)

    numbered = [e["number"] for e in pages if e["number"] is not None]
    assert numbered == sorted(numbered, reverse=True)
    assert count(pages) == count(whole)


def test_no_page_shows_the_id_of_a_key(instance, visit):
    """People know keys by their labels and how they begin; only addresses have the whole id."""
    anna, bob = visit("anna"), visit("bob")
    ids = [key.split("_")[1] for key in instance.keys.values()]
    paths = ("/console/analysts", "/console/analysts/bob", "/console/account", f"{D}/timeline",
             f"{D}/report", f"/console/keys/{ids[0]}/revoke")  # fmt: skip
    for page in (bob.get("/console/account"), *(anna.get(path) for path in paths)):
        assert [id for id in ids if id in plain(page)] == []

"""An owner's whole life in a browser, what forged requests change, and who may not look."""

import re
from urllib.parse import quote

import postgres
import pyarrow.parquet as pq
import pytest
from attacks.harness import people
from playwright.sync_api import expect
from server.console.page_client import PageClient, plain, text
from server.instance import Instance, made

from sulq.server.console.sessions import entrance
from sulq.server.services.folder import begin
from sulq.server.services.registry import alarm

D = "/console/datasets/people"
LOOKS = ["owner", "people", "timeline", "schema", "report", "owner/close", "report.json",
         "report.md", "ledger.ndjson"]  # fmt: skip


@pytest.fixture(scope="module")
def survey(instance):
    """Rows that nobody has made a dataset of."""
    file = instance.folder / "data" / "survey.parquet"
    pq.write_table(people(300, seed=5).drop_columns(["income"]), file)
    return file


def box(page, role, name):
    return page.get_by_role(role, name=name, exact=True)


def test_the_whole_life(sit, instance, survey):
    """Make, plan, invite, allot; asked until spent; read, print, freeze, refresh, close, again."""
    anna = sit("anna")
    anna.get_by_role("link", name="New dataset").click()
    anna.get_by_role("link", name="Use survey.parquet").click()
    declare(anna)
    promise(anna)
    expect(anna.get_by_text("The dataset is made")).to_be_visible()

    key = invite(anna)
    zoe = PageClient(instance)
    zoe.instance.keys["zoe"] = key
    assert instance.ask("secret", "zoe", "survey").status == 200
    anna.goto("/console/datasets/survey/people")
    anna.get_by_label("At most, in queries").fill("2")
    anna.get_by_role("button", name="Allot").click()
    expect(anna.get_by_text("Allotted, and written")).to_be_visible()
    expect(anna.get_by_text("1 of 2 queries left")).to_be_visible()
    assert instance.ask("age > 3", "zoe", "survey").status == 200
    assert instance.ask("age > 4", "zoe", "survey").error == "BudgetExceeded"

    read(anna)
    decide(anna, instance)
    close_and_make_again(anna, instance)


def declare(page):
    """Bounds are missing, then wrong, then there; said while one types."""
    found = page.get_by_label("What a check finds")
    expect(found).to_contain_text("age: no low and high")
    box(page, "textbox", "low of age").fill("0")
    expect(found).to_contain_text("high is missing")
    box(page, "textbox", "high of age").fill("100")
    expect(found).not_to_contain_text("age:")
    box(page, "checkbox", "key: id").check()
    box(page, "combobox", "type of region").select_option("category")
    expect(found).to_contain_text("values is missing")
    box(page, "textbox", "values of region").fill("north, south")
    box(page, "checkbox", "public: region").check()
    expect(found).to_contain_text("kept apart in 3 cells, by region")
    box(page, "combobox", "type of city").select_option("leave out")
    expect(found).to_contain_text("1 left out")
    page.get_by_role("button", name="On to the promise").click()


def promise(page):
    """The error follows what one moves."""
    shown = page.get_by_label("What it comes to")
    expect(shown).to_contain_text("± 332 rows")
    expect(shown).to_contain_text("The mean of age, from 0 to 100")
    page.get_by_label("T, queries in all").first.fill("100")
    expect(shown).to_contain_text("± 105 rows")
    page.get_by_label("Move n, rows").fill("5")
    expect(page.get_by_label("n, rows", exact=True)).to_have_value("100,000")
    expect(shown).to_contain_text("Typical questions over 100,000 rows")
    page.get_by_role("button", name="Make the dataset").click()


def invite(page):
    """A new analyst; the key is shown this once."""
    page.get_by_role("link", name="A new analyst, with a key").click()
    page.get_by_label("Name", exact=True).fill("zoe")
    page.get_by_label("survey").first.check()
    page.get_by_role("button", name="Add, with a key").click()
    key = page.locator("#key").inner_text()
    assert re.fullmatch(r"sulq_[0-9a-f]{16}_.{43}", key)
    page.get_by_role("link", name="Done").click()
    page.get_by_role("link", name="zoe").click()
    expect(page.locator("main")).to_contain_text(f"sulq_{key.split('_')[1][:4]}…")
    assert key not in page.content()
    return key


def read(page):
    """The timeline, its chart and search, and the report on paper."""
    if not page.get_by_role("link", name="Timeline").count():
        page.get_by_role("link", name="Manage").click()
    page.get_by_role("link", name="Timeline").click()
    chart = page.get_by_role("img", name="Queries spent over time")
    expect(chart).to_be_visible()
    expect(chart.locator("desc")).to_contain_text("grew to 2 queries of 100 queries")
    expect(page.get_by_text("zoe may spend at most 2 queries")).to_be_visible()
    page.get_by_label("Search").fill("age")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("1 entry that fit")).to_be_visible()
    page.get_by_label("Analyst").select_option("zoe")
    page.get_by_label("Search").fill("no such thing")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("Nothing fits.")).to_be_visible()
    page.get_by_role("link", name="Report").click()
    expect(page.get_by_role("heading", name="Privacy report: survey")).to_be_visible()
    expect(page.get_by_text("count where secret")).to_be_visible()
    page.emulate_media(media="print")
    expect(page.get_by_role("link", name="Timeline")).not_to_be_visible()
    expect(page.get_by_role("heading", name="What was asked")).to_be_visible()
    assert page.pdf().startswith(b"%PDF")
    page.emulate_media(media="screen")


def decide(page, instance):
    """Frozen, nothing is answered; changed rows stop it until they are refreshed."""
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Freeze").click()
    expect(page.get_by_text("Frozen: nothing may be asked")).to_be_visible()
    assert instance.ask("age > 5", "anna", "survey").status == 409
    page.get_by_role("button", name="Thaw").click()
    expect(page.get_by_text("It answers again")).to_be_visible()
    page.get_by_label("Why").fill("rows of March")
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("goes on with its rows as now")).to_be_visible()
    expect(page.get_by_role("cell", name="rows of March")).to_be_visible()


def close_and_make_again(page, instance):
    """The same rows go on with their ledger; giving it up is shown for good."""
    shut(page)
    assert instance.ask("secret", "zoe", "survey").status == 404
    page.get_by_role("link", name="New dataset").click()
    page.get_by_role("link", name="Make again").click()
    again(page, "a test of giving it up")
    expect(page.get_by_text("2 queries")).to_have_count(0)
    page.get_by_role("link", name="Manage").click()
    expect(page.get_by_text("A ledger was given up")).to_be_visible()
    expect(page.get_by_role("cell", name="a test of giving it up")).to_be_visible()


def shut(page):
    page.get_by_role("link", name="Close …").click()
    page.get_by_label("Type the name").fill("wrong")
    page.get_by_role("button", name="Close it").click()
    expect(page.get_by_text("Nothing was closed.")).to_be_visible()
    page.get_by_label("Type the name").fill("survey")
    page.get_by_role("button", name="Close it").click()
    expect(page.get_by_text("Its ledger stays")).to_be_visible()


def again(page, reason):
    """Other terms than the ledger has are refused; what to say then is offered."""
    page.get_by_text("Take a schema from a text").click()
    page.get_by_label("Schema file").fill("[columns.secret]\ntype = 'boolean'")
    page.get_by_role("button", name="Take this text").click()
    page.get_by_role("button", name="On to the promise").click()
    page.get_by_role("button", name="Make the dataset").click()
    expect(page.get_by_role("alert")).to_contain_text("Not made")
    page.get_by_label("Give the old ledger up").fill(reason)
    page.get_by_role("button", name="Make the dataset").click()
    expect(page.get_by_text("The dataset is made")).to_be_visible()


def test_without_script_the_buttons_do_it(sit, survey):
    """Check and Show give what typing gives."""
    anna = sit("anna", path="/console/plan", java_script_enabled=False)
    anna.get_by_label("T, queries in all").fill("100")
    anna.get_by_role("button", name="Show").click()
    expect(anna.get_by_text("± 105 rows").first).to_be_visible()
    anna.get_by_label("epsilon").fill("much")
    anna.get_by_role("button", name="Show").click()
    expect(anna.get_by_text("epsilon='much': want a number.")).to_be_visible()
    anna.goto("/console/new/columns?source=survey.parquet&name=other")
    box(anna, "textbox", "low of age").fill("7")
    anna.get_by_role("button", name="Check").click()
    expect(anna.get_by_text("high is missing")).to_be_visible()
    expect(box(anna, "textbox", "low of age")).to_have_value("7")
    anna.get_by_role("button", name="On to the promise").click()
    expect(anna.get_by_text("high is missing")).to_be_visible()


def test_a_draft_knows_names_and_types_only(visit, instance):
    """A CSV's values, categories and range are nowhere on the page."""
    file = instance.folder / "data" / "private.csv"
    file.write_text("who,weight\nxanthippe,71.375\nyolanda,82.625\n")
    found = visit("anna").post("/console/new/columns", {"source": "private.csv"})
    assert found.status == 200
    assert "weight" in plain(found)
    for value in ("xanthippe", "yolanda", "71.375", "82.625"):
        assert value not in text(found)


def test_too_many_cells_are_said_before_anything_is_made(visit):
    """Public columns with too many combinations are reported while one types."""
    many = ", ".join(map(str, range(150)))
    fields = {"columns": "2", "n0": "a", "t0": "category", "v0": many, "p0": "on",
              "n1": "b", "t1": "category", "v1": many, "p1": "on"}  # fmt: skip
    found = visit("anna").post("/console/schema/live", fields)
    assert "22,801 ledger cells, at most 10,000" in plain(found)


ELSEWHERE = ["../server.db", "/etc/passwd", "no-such-file.parquet", "", "postgresql://elsewhere/x",
             "http://evil.example/x.csv"]  # fmt: skip


@pytest.mark.parametrize("source", ELSEWHERE)
def test_other_sources_are_refused_and_the_form_stays(visit, source):
    """A source that the owner may not name is refused, and the form keeps its fields."""
    found = visit("anna").post("/console/new/columns", {"source": source, "name": "kept"})
    assert found.status in (422, 409)
    assert "These rows cannot be used" in plain(found)
    assert 'value="kept"' in text(found)


def test_a_password_is_not_shown(visit):
    """An address may hold one; the page that goes on with it says only where."""
    fields = {"source": "postgresql://u:hunter2@db.example/x", "table": "t", "columns": "0"}
    found = visit("anna").post("/console/new/columns", fields)
    assert "hunter2" not in plain(found)


def test_files_are_listed_to_their_owner_only(tmp_path):
    """With several owners, a file's name is its owner's to know."""
    instance = made(tmp_path / "instance")
    (instance.folder / "data" / "link.csv").symlink_to("/etc/passwd")
    with instance.serving() as served:
        for who, file in (("anna", "people.parquet"), ("carl", "others.parquet")):
            assert served.call("GET", "/v1/sources", None, who).json["files"] == [file]


def test_whoever_sits_at_the_server_gets_a_link(tmp_path):
    """For the only owner, with a key that works; once."""
    folder = tmp_path / "instance"
    instance = Instance(folder, keys={"anna": begin(folder, "anna").text})
    with instance.serving():
        path = entrance(folder)
        assert PageClient(instance).post(path, csrf=None).headers["location"] == "/console/"
        assert PageClient(instance).post(path, csrf=None).status == 404
    with instance.services() as services:
        services.people.revoke(services.people.owner().tenant, instance.keys["anna"].split("_")[1])
        assert entrance(folder) is None
        services.people.add_owner("carl")
    assert entrance(folder) is None


# ---- blocked, spent, many ----------------------------------------------------------------------


def test_changed_rows_stop_it_and_the_page_says_what_to_do(tmp_path):
    """Other pages refuse; the one for deciding still helps. Then the last query is spent."""
    instance = made(tmp_path / "instance", queries=2)
    pq.write_table(people(210, seed=4), instance.folder / "data" / "people.parquet")
    with instance.serving():
        anna = PageClient(instance, "anna")
        assert anna.get(f"{D}/timeline").status == 409
        found = anna.get(f"{D}/owner")
        assert found.status == 200
        assert "It answers nothing until you have looked at it" in plain(found)
        assert anna.post(f"{D}/owner/refresh", {"reason": "ten more rows"}).status == 303
        assert "ten more rows" in plain(anna.get(f"{D}/owner"))
        assert "It is spent." not in plain(anna.get(f"{D}/owner"))
        for where in ("secret", "age > 3"):
            assert instance.ask(where).status == 200
        assert "It is spent." in plain(anna.get(f"{D}/owner"))


# ---- rights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", LOOKS)
def test_only_the_owner_may_look(visit, instance, look):
    """An invited analyst is refused; for anyone else it is not there, to the byte."""
    assert visit("anna").get(f"{D}/{look}").status == 200
    refused = visit("bob").get(f"{D}/{look}")
    assert refused.status == 403
    for who in ("eve", "carl", "dan"):
        stranger = visit(who)
        there = stranger.get(f"{D}/{look}")
        missing = stranger.get(f"/console/datasets/nobody/{look}")
        assert there.status == missing.status == 404
        assert there.body.replace(b"people", b"nobody") == missing.body


@pytest.mark.parametrize("path", ["/console/analysts", "/console/analysts/bob", "/console/new",
                                  "/console/server"])  # fmt: skip
def test_people_and_keys_are_the_owners(visit, path):
    """The pages of people and keys are for owners."""
    assert visit("anna").get(path).status == 200
    assert visit("bob").get(path).status == 403


DECISIONS = [
    (f"{D}/owner/freeze", {}), (f"{D}/owner/close", {"typed": "people"}), (f"{D}/owner/check", {}),
    (f"{D}/owner/describe", {"description": "forged"}),
    (f"{D}/owner/refresh", {"reason": "forged"}),
    (f"{D}/owner/append", {"why_append": "forged"}),
    (f"{D}/people/invite", {"analyst": "eve"}), (f"{D}/people/uninvite", {"analyst": "bob"}),
    (f"{D}/people/allot", {"analyst": "bob", "queries": "1"}),
    (f"{D}/schema", {"refresh": "yes", "reason": "forged", "columns": "1", "n0": "secret",
                     "t0": "boolean"}),
    ("/console/analysts", {"name": "forged", "days": "1"}),
    ("/console/analysts/bob/key", {"days": "1"}),
    ("/console/analysts/bob/remove", {"typed": "bob"}), ("/console/keys", {"days": "1"}),
    ("/console/server/seen", {}),
    ("/console/new/promise", {"make": "yes", "name": "forged", "source": "survey.parquet",
     "columns": "1", "n0": "secret", "t0": "boolean", "epsilon": "1", "delta": "0.1",
     "queries": "1", "rows": "1", "noise": "gaussian", "guarantee": "beliefs"}),
]  # fmt: skip


def state(instance):
    """All that a decision could have changed."""
    looks = ("/v1/datasets", "/v1/datasets/people", "/v1/analysts", "/v1/keys", "/v1/alarms",
             "/v1/datasets/people/allotments", "/v1/datasets/people/ledger")  # fmt: skip
    return [instance.call("GET", path, None, "anna").body for path in looks]


@pytest.mark.parametrize(("path", "fields"), DECISIONS)
def test_a_forged_form_changes_nothing(visit, instance, survey, path, fields):
    """From elsewhere, without the token, with another's, or by someone who may not."""
    anna, bob = visit("anna"), visit("bob")
    before = state(instance)
    evil = "https://evil.example"
    forged = [
        anna.post(path, fields, csrf=None), anna.post(path, fields, csrf="0" * 64),
        anna.post(path, fields, csrf=bob.token()), anna.post(path, fields, Origin=evil),
        anna.post(path, fields, Origin=None), anna.post(path, fields, Sec_Fetch_Site="cross-site"),
        bob.post(path, fields), visit("eve").post(path, fields),
    ]  # fmt: skip
    assert {reply.status for reply in forged} <= {403, 404}
    assert state(instance) == before


def test_control_the_same_form_from_the_page_works(visit, instance):
    """What is refused above is refused for being forged, not for its fields."""
    before = state(instance)
    assert visit("anna").post(f"{D}/owner/describe", {"description": "true"}).status == 303
    assert state(instance) != before


def test_removing_an_analyst_wants_their_name(visit, instance):
    """An analyst is removed only after their name was typed."""
    made = instance.call("POST", "/v1/analysts", {"name": "gone"}, "anna")
    assert made.status == 201
    anna = visit("anna")
    wrong = anna.post("/console/analysts/gone/remove", {"typed": "bob"})
    assert wrong.status == 422
    assert "Nobody was removed." in plain(wrong)
    assert anna.post("/console/analysts/gone/remove", {"typed": "gone"}).status == 303
    assert anna.get("/console/analysts/gone").status == 404


def test_a_revoked_key_is_gone_and_an_alarm_is_seen(visit, instance):
    """A revoked key ends its sessions, and an alarm can be marked as seen."""
    assert visit("anna").post("/console/server/seen").status == 303  # those of other tests
    with instance.services() as services, services.registry.writing() as run:
        anna_id = services.people.owner("anna").tenant
        alarm(run, anna_id, None, "late", "A reply was late <b>&</b>.")
    anna = visit("anna")
    assert "1 not seen yet" in plain(anna.get("/console/server"))
    assert "<b>&</b>" not in text(anna.get("/console/server"))
    assert anna.post("/console/server/seen").status == 303
    assert "All seen." in plain(anna.get("/console/server"))
    shown = anna.post("/console/analysts/eve/key", {"days": "2", "label": "<i>one</i>"})
    key = re.search(r"sulq_[0-9a-f]{16}_[\w-]{43}", text(shown))[0]
    assert instance.call("GET", "/v1/me", None, key).status == 200
    number = key.split("_")[1]
    assert "Revoke this key?" in plain(anna.get(f"/console/keys/{number}/revoke"))
    assert anna.post(f"/console/keys/{number}/revoke").status == 303
    assert instance.call("GET", "/v1/me", None, key).status == 401
    assert "revoked" in plain(anna.get("/console/analysts/eve"))


@pytest.mark.skipif(not postgres.here(), reason=postgres.MISSING)
def test_a_table_of_a_postgresql_server_that_is_allowed(tmp_path):
    """Drafted from its catalog, made, asked; its address is not shown to anyone again."""
    server = postgres.shared()
    place = f"reader@{quote(f'{server.folder}/run', safe='')}"
    table = f"public.{postgres.load(people(120, seed=8))}"
    address = f"postgresql://{place}/postgres"
    instance = made(tmp_path / "instance")
    with instance.serving(sources=("data", f"postgresql://{place.split('@')[1]}")):
        anna = PageClient(instance, "anna")
        said = {"source": address, "table": table, "name": "rows"}
        drafted = anna.post("/console/new/columns", said)
        assert drafted.status == 200, plain(drafted)
        assert re.search(r'name="t2".*?<option[^>]*selected>boolean', text(drafted), re.DOTALL)
        filled = said | {"columns": "1", "n0": "secret", "t0": "boolean", "make": "yes"}
        promised = {"epsilon": "1", "delta": "0.000001", "queries": "9", "rows": "120"}
        whole = filled | promised | {"noise": "gaussian", "guarantee": "beliefs"}
        onward = {n: v for n, v in filled.items() if n != "make"} | {"onward": "yes"}
        unchecked = plain(anna.post("/console/new/columns", onward))
        assert "not checked against the rows" in unchecked
        assert "not tables of a server" in unchecked
        sent = anna.post("/console/new/promise", whole)
        assert sent.status == 303, plain(sent)
        refused = anna.post("/console/datasets/rows/owner/check")
        assert refused.status == 409
        assert "not tables of a server" in plain(refused)
        assert b"reader@" not in refused.body
        assert instance.ask("secret", "anna", "rows").status == 200
        for look in LOOKS:
            assert b"reader@" not in anna.get(f"/console/datasets/rows/{look}").body
        assert anna.post("/console/datasets/rows/owner/close", {"typed": "rows"}).status == 303
        again = anna.post("/console/new/promise", whole | {"name": "again"})
        assert again.status == 303, plain(again)
        assert "8 of 9 queries left" in plain(anna.get("/console/datasets/again/people"))
        elsewhere = anna.post("/console/new/columns", said | {"source": "postgresql://other/x"})
        assert "not one that the server may open" in plain(elsewhere)


def test_a_plan_says_how_many_queries_would_suit(visit):
    """Whole queries, as many as keep the noise within what chance does; nothing where they do."""
    page = plain(visit("anna").get("/console/plan?queries=1000&rows=20000&epsilon=1"))
    (said,) = re.findall(r"([\d,.]+) queries would suit so many rows", page)
    suits = int(said)
    assert 100 < suits < 1000
    for many, told in ((suits, False), (2 * suits, True)):
        page = plain(visit("anna").get(f"/console/plan?queries={many}&rows=20000&epsilon=1"))
        assert ("would suit" in page) == told

"""Every page: usable by everyone (axe-core), by keyboard, at 360 pixels; light; strict headers."""

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect
from server.console.page_client import PageClient
from server.console.test_analyst import paid, sql
from server.console.test_models import learned

from sulq.server.console.app import ROUTES
from sulq.server.console.pages import POLICY
from sulq.server.console.request_context import PREFIX
from sulq.server.services.registry import alarm

AXE = 4, 14, 0
HEAVIEST = 200_000
D = "/console/datasets/people"
LEARNED = ("PCA", "ID3", "KMeans")
LONG = "Zwischenablage_" * 4  # names as long as they may be

# Where to look, and as whom. {..} are filled in by what the pages of the instance hold.
OPEN = ["/console/sign-in", "/console/enter/some-token", "/console/reference"]
ANALYST = ["/console/", D, f"{D}/ask", f"{D}/guided", f"{D}/rehearse", f"{D}/answers",
           f"{D}/verdicts", f"{D}/review", f"{D}/answers/{{number}}",
           f"{D}/models", f"{D}/models/new/PCA", "/console/account", "/console/account/replace",
           f"{D}/asked/{{asked}}", f"{D}/models/{{pca}}", f"{D}/models/{{id3}}",
           f"{D}/models/{{kmeans}}", f"{D}/models/new/ID3", f"{D}/boards", f"{D}/boards/{{board}}",
           f"{D}/asked/{{asked}}?chart=columns", f"{D}/asked/{{crosstab}}",
           f"{D}/asked/{{histogram}}", f"{D}/guided?kind=median",
           f"{D}/ask?sql=select+avg(f(age))+from+people&define=def+f(age):+return+age"]  # fmt: skip
OWNER = ["/console/", D, "/console/plan", "/console/plan?epsilon=x", "/console/new",
         "/console/new/columns?source=people.parquet",
         "/console/analysts", "/console/analysts/bob", "/console/keys/{key}/revoke",
         "/console/server", f"{D}/owner", f"{D}/people/uninvite?analyst=bob",
         f"{D}/owner/close", f"{D}/people", f"{D}/timeline", f"{D}/timeline?text=nothing",
         f"{D}/schema", f"{D}/report", "/console/audit-log"]  # fmt: skip
WRONG = ["/console/nowhere", "/console/datasets/nobody", f"{D}/owner"]
NO_PAGES = re.compile(
    r"/live$|/\{file\}$|/json$|/progress$|/models/\{id\}/rows$|\.(json|md|ndjson)$|^/oidc"
)


def axe_source():
    """axe-core, as `make test` has put it there; without it this is left out, but never in CI."""
    version = ".".join(map(str, AXE))
    found = Path(__file__).parents[3] / f".venv/axe-{version}/node_modules/axe-core/axe.min.js"
    if found.is_file():
        return found.read_text()
    if os.environ.get("CI") == "true":
        pytest.fail("no axe-core: make axe (wants npm)")
    pytest.skip("no axe-core here: make axe (wants npm)")


@pytest.fixture(scope="module")
def places(instance):
    """Something on every page: a question, a model, an alarm, long names, a wide table."""
    answered = instance.ask("secret")
    assert answered.status == 200
    bob = PageClient(instance, "bob")
    listed = instance.call("GET", "/v1/datasets/people/answers").json["answers"]
    for name in (LONG, "x" * 64):
        instance.call("POST", "/v1/analysts", {"name": name[:64]}, "anna")
        instance.call("PUT", f"/v1/datasets/people/analysts/{name[:64]}", None, "anna")
    instance.call("PUT", "/v1/datasets/people/allotments/bob", {"queries": 50}, "anna")
    with instance.services() as services, services.registry.writing() as run:
        alarm(run, services.people.owner("anna").tenant, None, "late", "A reply was late.")
    key = instance.keys["bob"].split("_")[1]
    return {"number": listed[0]["number"], "key": key, **made_by(bob)}


def made_by(bob):
    """What paying for a question and learning models leave behind."""
    asked = paid(bob, sql("select city, count(*) from people group by city"))
    found = {kind.lower(): learned(bob, kind)[0] for kind in LEARNED}
    fields = {"kind": "crosstab", "column": "city", "other": "region"}
    found |= {"asked": asked, "crosstab": paid(bob, fields)}
    found["histogram"] = paid(bob, {"kind": "histogram", "column": "age"})
    board = bob.post(f"{asked}/board", {"title": LONG, "chart": "columns"}).headers["location"]
    on_it = {"board": board.split("?")[0].rsplit("/", 1)[-1]}
    bob.post(f"{found['crosstab']}/board", {"title": "Both", **on_it})
    return {name: place.rsplit("/", 1)[-1] for name, place in found.items()} | on_it


def filled(paths, places):
    """The paths whose blanks can be filled."""
    blank = re.compile(r"\{(\w+)\}")
    kept = [p for p in paths if all(name in places for name in blank.findall(p))]
    return [blank.sub(lambda m: str(places[m[1]]), p) for p in kept]


# ---- axe-core ----------------------------------------------------------------------------------


def findings(page, source):
    """What axe finds that is serious, in light; and contrast in dark."""
    page.evaluate(source)
    run = "(rules) => axe.run(document, rules).then((found) => found.violations)"
    light = page.evaluate(run, {"resultTypes": ["violations"]})
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(run, {"runOnly": ["color-contrast"], "resultTypes": ["violations"]})
    page.emulate_media(color_scheme="light")
    return [
        (v["id"], v["impact"], [n["html"][:120] for n in v["nodes"][:3]])
        for v in [*light, *dark]
        if v["impact"] in ("serious", "critical")
    ]


def looked_at(page, path, source):
    """Everything about one page that can be seen."""
    page.goto(path)
    wrong = findings(page, source)
    page.set_viewport_size({"width": 360, "height": 740})
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size({"width": 1280, "height": 900})
    return {path: wrong + ([("wider than 360", wide)] if wide > 360 else [])}


@pytest.mark.parametrize(("who", "paths"), [("bob", ANALYST), ("anna", OWNER), ("bob", WRONG)])
def test_pages_can_be_used_by_everyone(sit, places, who, paths):
    """No serious finding of axe-core, in light and dark; nothing to scroll sideways at 360."""
    source, page, found = axe_source(), sit(who), {}
    for path in filled(paths, places):
        found |= looked_at(page, path, source)
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_pages_before_signing_in_too(browser, instance):
    """The pages before signing in pass the same check of accessibility."""
    source, context = axe_source(), browser.new_context(base_url=instance.url)
    page, found = context.new_page(), {}
    for path in OPEN:
        found |= looked_at(page, path, source)
    context.close()
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_forms_on_the_way_to_a_dataset_too(sit, instance):
    """The steps that are only reached by sending a form: columns, wide ones, promise, key."""
    source, anna, found = axe_source(), sit("anna"), {}
    wide = {f"a_rather_long_name_{'x' * 40}_{i}": [0.5] for i in range(60)}
    pq.write_table(pa.table(wide), instance.folder / "data" / "wide.parquet")
    pq.write_table(pa.table({"id": range(30)}), instance.folder / "data" / "free.parquet")
    anna.goto("/console/new/columns?source=wide.parquet&name=wide")
    found["wide"] = findings(anna, source) + too_wide(anna)
    for file, name in (("people.parquet", "refused"), ("free.parquet", "promise")):
        anna.goto(f"/console/new/columns?source={file}&name=narrow")
        found[f"columns of {name}"] = findings(anna, source) + too_wide(anna)
        anna.get_by_role("button", name="On to the promise").click()
        expect(anna.get_by_role("button", name="Make the dataset")).to_have_count(
            int(name == "promise")
        )
        found[name] = findings(anna, source) + too_wide(anna)
    anna.goto("/console/analysts/bob")
    anna.get_by_role("button", name="Make a key").click()
    found["key"] = findings(anna, source) + too_wide(anna)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def too_wide(page):
    page.set_viewport_size({"width": 360, "height": 740})
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size({"width": 1280, "height": 900})
    return [("wider than 360", wide)] if wide > 360 else []


def test_control_a_page_that_cannot_be_used_is_noticed(sit):
    """An unlabelled field, pale text and a wide box are found by the same look."""
    source, page = axe_source(), sit("bob")
    page.evaluate(
        "const box = document.createElement('div'); box.style.cssText = 'width:900px;color:#ddd;"
        "background:#fff'; box.innerHTML = 'pale <input>'; document.body.append(box)"
    )
    assert {name for name, _, _ in findings(page, source)} >= {"label", "color-contrast"}
    assert too_wide(page)


# ---- by keyboard -------------------------------------------------------------------------------

REACHABLE = """() => [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary')]
  .filter((e) => e.type !== 'hidden' && e.checkVisibility({ visibilityProperty: true }))
  .map((e, i) => { e.dataset.reach = i; return i; })"""
FOCUSED = """() => {
  const e = document.activeElement, s = getComputedStyle(e);
  const shown = s.outlineStyle !== 'none' || s.boxShadow !== 'none';
  return [e.dataset.reach ?? null, e === document.body || shown];
}"""


@pytest.mark.parametrize("path", [f"{D}/owner", "/console/plan", f"{D}/people"])
def test_everything_is_reached_by_keyboard_and_seen(sit, places, path):
    """Tab goes through all that can be clicked, in order, and shows where it is."""
    page = sit("anna", path=path)
    wanted = set(map(str, page.evaluate(REACHABLE)))
    reached, order = set(), []
    for _ in range(len(wanted) + 5):
        page.keyboard.press("Tab")
        at, seen = page.evaluate(FOCUSED)
        assert seen, at
        if at is not None and at not in reached:
            order.append(int(at))
            reached.add(at)
    assert reached == wanted
    assert order == sorted(order)


def test_an_owner_decides_by_keyboard_alone(sit, instance):
    """An owner freezes and thaws without a mouse."""
    page = sit("anna", path=f"{D}/owner")
    freeze = page.get_by_role("button", name="Freeze")
    for _ in range(60):
        page.keyboard.press("Tab")
        if freeze.evaluate("(e) => e === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_text("Frozen: nothing may be asked")).to_be_visible()
    page.get_by_role("button", name="Thaw").press("Enter")
    expect(page.get_by_text("It answers again")).to_be_visible()


# ---- headers and weight ------------------------------------------------------------------------


def test_every_page_is_light_and_strict(instance, places):
    """The content policy, and at most 200 KB with stylesheet and script."""
    bob, anna = PageClient(instance, "bob"), PageClient(instance, "anna")
    looks = [(PageClient(instance), p) for p in OPEN]
    looks += [(bob, p) for p in filled(ANALYST + WRONG, places)]
    looks += [(anna, p) for p in filled(OWNER, places)]
    for principal, path in looks:
        page = principal.get(path)
        assert page.headers["content-security-policy"] == POLICY, path
        assert "unsafe" not in POLICY
        for name in ("x-content-type-options", "cache-control", "x-frame-options"):
            assert name in page.headers
        text = page.body.decode()
        weight = len(page.body)
        for asset in set(re.findall(r'(?:href|src)="(/console/static/[^"]+)"', text)):
            weight += len(principal.get(asset).body)
        assert weight <= HEAVIEST, (path, weight)
        assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|javascript:|\sstyle=", text), (
            path
        )
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text), path


def test_every_page_is_looked_at(places):
    """A new page without a line above is noticed."""
    looked = [p.split("?")[0].removeprefix(PREFIX) for p in [*OPEN, *ANALYST, *OWNER, *WRONG]]
    pages = [r for r in ROUTES if "GET" in r.methods and not NO_PAGES.search(r.path)]
    missing = [r.path for r in pages if not any(r.path_regex.match(p) for p in looked)]
    assert missing == []

"""Markup in names, questions, values and errors; forms from elsewhere; other people's things.

Each attack has a control that shows it would be noticed: a page that does not escape, a server
that does not check.
"""

import re
from contextlib import contextmanager
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlencode

import pytest
from attacks.harness import people
from playwright.sync_api import expect
from server.console.browser import person
from server.console.page_client import PageClient, hidden, plain, text
from server.instance import call, made

from sulq.server.console import pages
from sulq.server.services import admission, work_meter
from sulq.values.safe_text import UNSAFE, visible

D = "/console/datasets/people"
# Each would set window.hit or document.title if a browser took it for markup or script.
MARKUP = (
    "<script>window.hit=1</script>",
    "\"><img src=x onerror=window.hit=1>",
    "'><svg onload=window.hit=1>",
    "</textarea><script>window.hit=1</script>",
    "</title><script>window.hit=1</script>",
    "</script><script>window.hit=1</script>",
    "javascript:window.hit=1",
    "\" autofocus onfocus=window.hit=1 x=\"",
    "{{ 7 * 7 }}{% raw %}",
    "<a href=\"javascript:window.hit=1\">x</a>",
    "<meta http-equiv=refresh content=0;url=https://evil.example>",
    "<base href=https://evil.example/>",
    "<form action=https://evil.example><button>",
    "<style>body{display:none}</style>",
    "&lt;script&gt;window.hit=1&lt;/script&gt;",
    "\u2028window.hit=1//",
    "<!--<script>window.hit=1",
    "<math><mtext></mtext><script>window.hit=1</script></math>",
)  # fmt: skip
STRICT = (
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'",
    "frame-ancestors 'none'", "base-uri 'none'",
)  # fmt: skip


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """A dataset whose columns, categories and description are all markup."""
    values = list(MARKUP)
    schema = {
        "id": {"key": True},
        "secret": {"type": "boolean", "nullable": False},
        "age": {"type": "integer", "low": 0, "high": 100},
        values[0]: {"values": values},
        values[1]: {"type": "number", "low": 0, "high": 1},
        values[2]: {"values": values, "public": True},
    }
    n = 60
    table = people(n).select(["id", "secret", "age"])
    import pyarrow as pa

    every = [values[i % len(values)] for i in range(n)]
    for name in (values[0], values[2]):
        table = table.append_column(name, pa.array(every))
    table = table.append_column(values[1], pa.array([i / n for i in range(n)]))
    folder = tmp_path_factory.mktemp("attacks") / "instance"
    with made(folder, table, schema, queries=100_000).serving() as served:
        lines = [line for line in MARKUP if not UNSAFE.search(line)]  # those are refused in words
        said = {"description": "\n".join(lines)}
        assert served.call("PATCH", "/v1/datasets/people", said, "anna").status == 200
        yield served


def watched(page):
    """Note whatever runs or is refused: dialogs, requests elsewhere, violations of the policy."""
    seen = {"dialogs": [], "elsewhere": [], "console": []}
    page.on("dialog", lambda d: (seen["dialogs"].append(d.message), d.dismiss()))
    page.on("console", lambda m: seen["console"].append(m.text))
    page.on(
        "request",
        lambda r: seen["elsewhere"].append(r.url) if "127.0.0.1" not in r.url else None,
    )
    return seen


def unharmed(page, seen):
    """Nothing ran, nothing was fetched from elsewhere, no markup became an element."""
    assert page.evaluate("window.hit") is None
    assert seen["dialogs"] == []
    assert seen["elsewhere"] == []
    expect(page.locator("main :is(script, style, base, meta, iframe, math)")).to_have_count(0)
    expect(page.locator("main [onerror], main [onload], main [onfocus]")).to_have_count(0)
    expect(page.locator("main img")).to_have_count(0)
    expect(page.locator("main a[href^='javascript:']")).to_have_count(0)
    assert not [line for line in seen["console"] if "Content Security Policy" in line]


# ---- markup ---------------------------------------------------------------------------------


def test_markup_in_names_values_and_descriptions_is_text(instance, browser):
    """Every page of a dataset made of markup, in a real browser."""
    page = person(browser, instance, "bob")
    seen = watched(page)
    paths = ["/console/", D, f"{D}/ask", f"{D}/rehearse", f"{D}/answers", f"{D}/models"]
    paths += [f"{D}/guided?kind={kind}" for kind in ("count", "mean", "histogram", "crosstab")]
    paths += [f"{D}/models/new/{kind}" for kind in ("PCA", "ID3", "LinearRegression")]
    for path in paths:
        page.goto(path)
        unharmed(page, seen)
    page.goto(D)
    shown = page.locator("main").inner_text()
    for line in MARKUP[:6]:
        assert line in shown  # it is there, as text
    page.context.close()


def test_markup_in_answers_charts_and_models_is_text(instance, browser):
    """Category values come back in tables, pictures and their text alternatives."""
    page = person(browser, instance, "bob")
    seen = watched(page)
    page.goto(f"{D}/guided?kind=crosstab")
    page.get_by_label("Counts by").select_option(MARKUP[0])
    page.get_by_label("and by").select_option(MARKUP[2])
    page.get_by_label("Value", exact=True).fill(MARKUP[3])
    page.locator("#c0").select_option(MARKUP[0])
    page.get_by_role("button", name="See the price").click()
    unharmed(page, seen)
    page.get_by_role("button", name=re.compile("Ask and pay")).click()
    page.wait_for_url("**/asked/*")
    unharmed(page, seen)
    expect(page.locator("table.matrix td").first).to_be_visible()
    answer = page.url
    for chart in ("bars", "table"):
        page.goto(f"{answer}?chart={chart}")
        unharmed(page, seen)
        expect(page.locator("svg.chart text").first).to_be_visible(visible=chart == "bars")
    page.get_by_text("Add to board").click()
    page.get_by_label("Called").fill(MARKUP[1])
    page.get_by_label("Name of a new board").fill(MARKUP[4])
    page.get_by_role("button", name="Put it there").click()
    page.get_by_role("heading", name=MARKUP[4]).wait_for()
    unharmed(page, seen)
    page.goto(f"{D}/models/new/ID3")
    page.get_by_label("Predict").select_option(MARKUP[0])
    page.get_by_label(MARKUP[2], exact=True).check()
    page.get_by_role("button", name="See the price").click()
    page.get_by_role("button", name=re.compile("Learn and pay")).click()
    page.get_by_role("heading", name="What it learned").wait_for()
    unharmed(page, seen)
    page.context.close()


def test_markup_in_questions_and_refusals_is_text(instance, browser):
    """What was typed comes back in the box, in the refusal, in the price that the script shows."""
    page = person(browser, instance, "bob")
    seen = watched(page)
    for line in MARKUP:
        page.goto(f"{D}/ask?{urlencode({'sql': line})}")
        page.locator("[data-price-box] p").first.wait_for()
        unharmed(page, seen)
        expect(page.get_by_label("One SELECT")).to_have_value(visible(line))
    for line in (MARKUP[0], MARKUP[1], MARKUP[3]):
        page.goto(f"{D}/ask")
        page.get_by_label("One SELECT").fill(line)
        page.get_by_role("button", name="See the price").click()
        page.get_by_role("alert").wait_for()
        unharmed(page, seen)
    page.context.close()


def test_control_the_browser_would_have_run_it(instance, browser, monkeypatch):
    """With escaping off and no policy the same corpus does run: the net has holes for it."""
    page = person(browser, instance, "bob")
    path = f"{D}/ask?{urlencode({'sql': MARKUP[3]})}"
    monkeypatch.setattr(pages.environment(), "autoescape", False)
    pages.environment().cache.clear()
    try:
        page.goto(path)
        assert page.locator("main script").count() > 0
        assert page.evaluate("window.hit") is None  # the policy alone stops it, too
        weak = "default-src * 'unsafe-inline'"
        monkeypatch.setitem(pages.HEADERS, "content-security-policy", weak)
        page.goto(path)
        assert page.evaluate("window.hit") == 1
    finally:
        monkeypatch.undo()
        pages.environment().cache.clear()
        page.context.close()
    assert "<script>window.hit" not in text(PageClient(instance, "bob").get(D))


def test_pages_are_made_once_and_keep_nothing_that_they_showed():
    """Templates are read once; a key that is shown once is not kept, and 1 is not shown as True."""
    assert pages.environment() is pages.environment()
    assert not hasattr(pages.environment().finalize, "cache_info")
    show = pages.environment().from_string("{{ a }} {{ b }} {{ c }}").render
    assert show(a=True, b=1, c=1.0) == "True 1 1.0"


@pytest.mark.parametrize(
    "path",
    [f"/console/{MARKUP[0]}", f"/console/datasets/{MARKUP[1]}", f"{D}/asked/{MARKUP[0]}",
     f"/console/enter/{MARKUP[1]}", f"/console/sign-in?next={MARKUP[1]}",
     f"/console/?done={MARKUP[0]}"],
)  # fmt: skip
def test_markup_in_addresses_is_text(instance, path):
    """Markup in a path or a query string is shown as text."""
    from urllib.parse import quote

    for who in ("bob", None):
        found = PageClient(instance, who).get(quote(path, safe="/?="))
        assert found.status in (200, 303, 404)
        assert "<script>window" not in text(found)
        assert "<img src=x" not in text(found)
        assert "\n" not in found.headers.get("location", "")


# ---- headers --------------------------------------------------------------------------------


def every_page(instance):
    """(who, path) of everything that can be looked at."""
    open_pages = [(None, p) for p in ("/console/sign-in", "/console/enter/x", "/", "/console/x")]
    looks = ("/console/", "/console/account", D, f"{D}/ask", f"{D}/guided", f"{D}/rehearse",
             f"{D}/answers", f"{D}/models", f"{D}/models/new/PCA", f"{D}x", "/console/x",
             "/console/static/style.css", "/console/static/sulq.js")  # fmt: skip
    return open_pages + [("bob", path) for path in looks]


class Inline(HTMLParser):
    """Scripts and styles that stand in a page itself, which the policy would not run."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(tag)
        self.found += [n for n in names if n == "style" or n.startswith("on")]


def test_the_policy_is_strict_everywhere(instance):
    """No unsafe-inline, no other site, nothing kept, nothing sniffed, nobody frames it."""
    principals = {who: PageClient(instance, who) for who in ("bob", None)}
    for who, path in every_page(instance):
        found = principals[who].get(path)
        policy = found.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "*" not in policy
        if "static" not in path or found.status != 200:
            assert all(part in policy for part in STRICT), path
            assert found.headers["cache-control"] == "no-store"
        assert found.headers["x-content-type-options"] == "nosniff"
        if found.status == 200 and "text/html" in found.headers["content-type"]:
            inline = Inline()
            inline.feed(text(found))
            assert inline.found == [], path


def test_no_page_is_left_without_a_check_of_its_form():
    """Every form of every page carries the token, but for those that sign in."""
    from importlib.resources import files

    for template in (files("sulq.server.console") / "templates").iterdir():
        source = template.read_text(encoding="utf-8")
        for form in re.findall(r"<form\b.*?</form>", source, re.DOTALL):
            if 'method="post"' in form:
                assert 'name="csrf"' in form, template.name
        assert "|safe" not in source.replace(" ", ""), template.name
        assert "autoescape" not in source


# ---- forms from elsewhere -------------------------------------------------------------------

COUNT = "select count(*) from people where secret"
CHANGES = (
    ("/console/sign-out", {"everywhere": "yes"}),
    (f"{D}/pay", {"kind": "sql", "sql": COUNT, "price": "1000000",
                  "request": "c" * 32}),
    (f"{D}/models/learn", {"kind": "PCA", "columns": "age", "price": "125000",
                           "request": "d" * 32}),
    (f"{D}/preview", {"kind": "sql", "sql": COUNT}),
    (f"{D}/price", {"kind": "sql", "sql": COUNT}),
    (f"{D}/rehearse", {"kind": "sql", "sql": COUNT}),
)  # fmt: skip


def spent(instance):
    return instance.call("GET", "/v1/datasets/people/budget", None, "bob").json["spent_micro"]


@pytest.mark.parametrize(("path", "fields"), CHANGES)
def test_a_form_without_its_token_changes_nothing(instance, path, fields):
    """A form without its session's token is refused."""
    bob, anna = PageClient(instance, "bob"), PageClient(instance, "anna")
    before = spent(instance)
    for csrf in (None, "", "0" * 64, anna.token(), bob.token()[:-1], bob.token() + "0"):
        found = bob.post(path, fields, csrf=csrf)
        assert found.status == 403
        assert "Nothing was charged or changed" in plain(found)
    evil = {"Origin": "https://evil.example"}
    null, none = {"Origin": "null"}, {"Origin": None}
    broken = {"Origin": "http://["}
    cross = {"Sec_Fetch_Site": "cross-site"}
    same_site = {"Sec_Fetch_Site": "same-site"}
    for headers in (evil, null, none, broken, cross, same_site, {"Origin": instance.url + "0"}):
        assert bob.post(path, fields, **headers).status == 403
    assert spent(instance) == before
    assert bob.get("/console/").status == 200


def test_control_the_right_form_does_change_something(instance):
    """The same requests with token and origin: paid, and signed out."""
    bob = PageClient(instance, "bob")
    before = spent(instance)
    found = bob.post(f"{D}/preview", dict(CHANGES[1][1]))
    fields = CHANGES[1][1] | {"request": hidden(found, "request"), "price": hidden(found, "price")}
    assert bob.post(f"{D}/pay", fields).status == 303
    assert spent(instance) > before
    assert bob.post("/console/sign-out", csrf="own").status == 303
    assert bob.get("/console/").status == 303


def test_signing_someone_in_from_elsewhere_is_refused(instance):
    """Or they would work in the attacker's account without noticing."""
    fields = {"key": instance.keys["dan"]}
    for origin in ("https://evil.example", "null", None):
        found = PageClient(instance).post("/console/sign-in", fields, csrf=None, Origin=origin)
        assert found.status == 403
        assert "set-cookie" not in found.headers


def test_looking_changes_nothing(instance):
    """No GET of a form's address does what the form does."""
    bob = PageClient(instance, "bob")
    before = spent(instance)
    for path, fields in CHANGES:
        found = bob.get(f"{path}?{urlencode(fields | {'csrf': bob.token()})}")
        assert found.status in (200, 404)
    assert spent(instance) == before
    assert bob.get("/console/").status == 200
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
        assert call(instance.url, method, f"{D}/pay", Cookie=bob.cookie).status == 404


@contextmanager
def elsewhere(body):
    """Another site, on another port of this machine."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()


def test_another_sites_page_can_do_nothing_with_a_session(instance, browser):
    """Forms, fetches and frames from elsewhere, in a browser where bob is signed in."""
    page = person(browser, instance, "bob")
    before = spent(instance)
    inputs = "".join(
        f'<input name="{name}" value="{value}">' for name, value in CHANGES[1][1].items()
    )
    forms = f"""
      <form id=pay method=post action="{instance.url}{D}/pay">{inputs}</form>
      <form id=out method=post action="{instance.url}/console/sign-out"><input name=x></form>
      <iframe id=frame src="{instance.url}/console/"></iframe>
      <img src="{instance.url}/console/account">"""
    with elsewhere(forms) as site:
        for form in ("pay", "out"):
            page.goto(site)
            with page.expect_navigation():
                page.evaluate(f"document.getElementById('{form}').submit()")
            refused = re.compile("Not permitted|Sign in")  # the latter where no cookie went along
            expect(page.get_by_role("heading", name=refused).first).to_be_visible()
        page.goto(site)
        read = page.evaluate(
            f"""async () => {{
              const out = [];
              for (const path of ["/console/", "{D}", "/v1/datasets"])
                try {{
                  const r = await fetch("{instance.url}" + path, {{credentials: "include"}});
                  out.push(await r.text());
                }} catch (e) {{ out.push("refused"); }}
              return out;
            }}"""
        )
        assert read == ["refused"] * 3
        frame = page.frame(url=re.compile("console")) or page.frames[-1]
        assert "Datasets" not in (frame.content() if frame.url.startswith("http") else "")
    assert spent(instance) == before
    page.goto(f"{instance.url}/console/")
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()  # still signed in
    page.context.close()


def test_a_cookie_is_no_key_for_the_routes(instance):
    """Pages and programs are apart: /v1 knows keys only."""
    bob = PageClient(instance, "bob")
    found = call(instance.url, "GET", "/v1/datasets", Cookie=bob.cookie)
    assert found.status == 401
    sneaky = {"sulq.principal": "anna", "Sulq_Principal": "anna"}
    assert call(instance.url, "GET", "/v1/datasets", **sneaky).status == 401


# ---- limits ---------------------------------------------------------------------------------


def test_forms_have_limits(instance):
    """Too many fields, too large a form and bytes that are no text are refused."""
    bob = PageClient(instance, "bob")
    token = bob.token()
    many = [("a", "1")] * 6000
    assert bob.post(f"{D}/preview", many, csrf=token).status == 429
    huge = {"kind": "sql", "sql": "x" * 1_100_000}
    assert bob.post(f"{D}/preview", huge, csrf=token).status == 413
    long = {"kind": "sql", "sql": "x" * 30_000}
    assert bob.post(f"{D}/preview", long, csrf=token).status == 422
    raw = {"Cookie": bob.cookie, "Origin": instance.url}
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    for body, headers in ((b"a=%ff%fe&csrf=x", form), (b"a=%00&csrf=x", form),
                          (b"\xff\xfe", form), (b"{}", {})):  # fmt: skip
        found = call(instance.url, "POST", f"{D}/preview", body, **raw, **headers)
        assert found.status == 422
    deep = {"kind": "sql", "sql": "select " + "(" * 9000}
    assert bob.post(f"{D}/preview", deep, csrf=token).status == 422


def test_guessing_keys_is_slowed_down(tmp_path, monkeypatch):
    """A hundred wrong keys from one address, then it must wait."""
    monkeypatch.setattr(work_meter, "STRANGERS", (1e-6, 100))  # however slowly we guess
    with made(tmp_path / "instance").serving() as instance:
        stranger = PageClient(instance)
        heard = [
            stranger.post("/console/sign-in", {"key": f"x{i}"}, csrf=None).status
            for i in range(130)
        ]
        assert heard == [401] * 100 + [429] * 30
        assert PageClient(instance, "bob").get("/console/").status == 200


def test_pages_count_as_requests(tmp_path, monkeypatch):
    """Whoever loads too many pages waits, as with any program; the page says for how long."""
    monkeypatch.setattr(admission, "LONGEST_SECONDS", 0.2)  # that a refusal is held back
    with made(tmp_path / "instance").serving(rate=0.001, burst=6) as instance:
        bob = PageClient(instance, "bob")
        heard = [bob.get(D) for _ in range(8)]
        assert [r.status for r in heard][:2] == [200, 200]
        assert heard[-1].status == 429
        assert "Wait a moment" in plain(heard[-1])


# ---- other people's things ------------------------------------------------------------------


@pytest.mark.parametrize("who", ["eve", "carl", "dan"])
def test_anothers_dataset_looks_like_a_missing_one(instance, who):
    """Every page of it, to the byte but for the name that was asked for."""
    principal = PageClient(instance, who)
    looks = ("", "/ask", "/guided", "/rehearse", "/answers", "/answers/1", "/models",
             "/models/new/PCA", f"/models/{'d' * 32}", f"/asked/{'c' * 32}")  # fmt: skip
    for path in looks:
        place = "/console/datasets/"
        there, missing = (principal.get(f"{place}{n}{path}") for n in ("people", "nobody"))
        assert there.status == missing.status == 404, path
        assert there.body.replace(b"people", b"nobody") == missing.body
    for path, fields in CHANGES[1:]:
        replies = [principal.post(path.replace("people", n), fields) for n in ("people", "nobody")]
        assert [r.status for r in replies] == [404, 404], path
        assert replies[0].body.replace(b"people", b"nobody") == replies[1].body
    assert "people" not in plain(principal.get("/console/")).replace("people in", "")


def test_control_a_forgotten_right_is_noticed(instance, monkeypatch):
    """The check of rights fails if a page forgets one."""
    from sulq.server.services.access import Access, record_of

    def careless(self, principal, name):
        row = self._registry.one("SELECT * FROM datasets WHERE name = ?", name)
        return record_of(row)

    eve = PageClient(instance, "eve")
    monkeypatch.setattr(Access, "dataset", careless)
    assert eve.get(f"{D}/models").status == 200


# ---- odd requests ---------------------------------------------------------------------------


def test_odd_requests_are_answered_without_a_failure(instance):
    """Bytes that are no text, paths that climb, cookies that are none: a page, never a 500."""
    bob = PageClient(instance, "bob")
    odd = ["?a=%ff%fe", "?" + "a&" * 6000, "?done=%00", "?next=//x", "?sql=%ff", "?" + "a" * 9000]
    paths = [f"{place}{more}" for place in ("/console/", f"{D}/ask") for more in odd]
    paths += [
        "/console/static/../app.py", "/console/static/%2e%2e/app.py", "/console/static/",
        "/console/static/style.css%00", "/console//", "/console/datasets//ask", "/console/%ff",
        "/console/datasets/people%2Fask", "/console/datasets/..", "/console/datasets/people/",
        f"{D}/asked/../ask", f"{D}/models/{'a' * 5000}", "/console/sign-in/",
    ]  # fmt: skip
    for path in paths:
        assert bob.get(path).status in (200, 303, 404), path
    for cookie in ("sulq_session=", "sulq_session=\xff\xfe", "sulq_session=" + "a" * 9000,
                   "sulq_session=a; sulq_session=b", "=;;=", "sulq_session=\"x\\"):  # fmt: skip
        assert call(instance.url, "GET", "/console/", Cookie=cookie).status == 303
    head = call(instance.url, "HEAD", "/console/sign-in")
    assert (head.status, head.body) == (200, b"")


def test_an_old_cookie_is_not_taken_over(instance):
    """Signing in makes a new session, whatever the browser held before."""
    planted = PageClient(instance)
    planted.cookie = "sulq_session=" + "a" * 43
    found = planted.post("/console/sign-in", {"key": instance.keys["bob"]}, csrf=None)
    assert "a" * 43 not in found.headers["set-cookie"]
    assert planted.get("/console/").status == 303

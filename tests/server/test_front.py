"""Behind a proxy and among machines: addresses, ids, readiness, counts, compression."""

import gzip
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from server.api.test_rights import OPEN, TABLE
from server.console.page_client import PageClient, text
from server.instance import made
from server.processes import until

from sulq.errors import Refused
from sulq.server.services import logs
from sulq.server.services.settings import Settings

D = "/v1/datasets/people"
TOKEN = "a-token-for-metrics-alone"
BEHIND = {
    "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "stats.example.org",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made(tmp_path_factory.mktemp("front") / "instance", queries=1000)


@pytest.fixture(scope="module")
def behind(folder):
    """An instance that trusts whoever is on this machine, and counts for a token."""
    own = replace(folder)
    with own.serving(trusted_proxies=["127.0.0.0/8"], metrics_token=TOKEN) as served:
        yield served


@pytest.fixture
def lines():
    """Lines of the log."""
    found = []

    class Kept(logging.Handler):
        def emit(self, record):
            found.append(json.loads(logs._Lines().format(record)))

    log, handler = logging.getLogger("sulq.server"), Kept()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield found
    log.removeHandler(handler)
    log.setLevel(before)


# ---- proxies --------------------------------------------------------------------------------


def seen(instance, lines, **headers):
    """The address in the log of one request."""
    reply = instance.call("GET", "/v1/me", None, "bob", **headers)
    return logged(lines, reply)[0]["client"]


def logged(lines, reply, count=1):
    """What the log says of a request; its line may come after its reply."""
    id = reply.headers["x-request-id"]
    assert until(lambda: sum(line.get("request") == id for line in lines) >= count)
    return [line for line in lines if line.get("request") == id]


def test_a_trusted_proxy_says_who_asked(behind, lines):
    """The last address that is not trusted: what stands before it anyone may have written."""
    given = {
        "203.0.113.9": "203.0.113.9",
        "6.6.6.6, 203.0.113.9": "203.0.113.9",
        "6.6.6.6, 203.0.113.9, 127.0.0.2": "203.0.113.9",
        "203.0.113.9:4711": "203.0.113.9",
        "[2001:db8::7]:443": "2001:db8::7",
        "2001:db8::7": "2001:db8::7",
        "127.0.0.2": "127.0.0.2",
        "nonsense": "127.0.0.1",
        '"}, {"event": "x"': "127.0.0.1",
        "": "127.0.0.1",
    }
    found = {said: seen(behind, lines, X_Forwarded_For=said) for said in given}
    assert found == given


def test_nobody_else_says_so(folder, lines):
    """Without `trusted_proxies`, and from elsewhere, the headers mean nothing."""
    for trusted in ([], ["10.0.0.0/8", "::1"]):
        with folder.serving(trusted_proxies=trusted) as served:
            assert seen(served, lines, **BEHIND) == "127.0.0.1"
            page = PageClient(served)
            said = {"key": served.keys["bob"]}
            reply = page.post("/console/sign-in", said, csrf=None, **BEHIND)
            assert "secure" not in reply.headers["set-cookie"].lower()


def test_links_and_cookies_are_https_behind_tls(behind):
    """What a person is sent carries the name and the scheme that the browser has."""
    page = PageClient(behind)
    host = {"Origin": "https://stats.example.org"}
    reply = page.post("/console/sign-in", {"key": behind.keys["anna"]}, csrf=None, **BEHIND | host)
    assert reply.status == 303
    assert "secure" in reply.headers["set-cookie"].lower()
    page.cookie = reply.headers["set-cookie"].split(";")[0]
    asked = {"kind": "sql", "sql": "select count(*) from people"}
    shown = page.post("/console/datasets/people/rehearse", asked, **BEHIND | host)
    assert "https://stats.example.org" in text(shown)
    assert "127.0.0.1" not in text(shown)


def test_strangers_are_counted_by_their_own_address(behind):
    """One who tries keys behind a proxy locks out no other."""
    some, other = ({"X-Forwarded-For": ip} for ip in ("203.0.113.50", "203.0.113.51"))
    with ThreadPoolExecutor(16) as pool:  # faster than what is forgotten meanwhile
        asked = [
            pool.submit(behind.call, "GET", "/v1/me", None, "wrong", **some) for _ in range(400)
        ]
    assert 429 in [one.result().status for one in asked]
    assert behind.call("GET", "/v1/me", None, "wrong", **other).status == 401


@pytest.mark.parametrize("wrong", [["10.0.0.0/33"], ["proxy"], ["10.0.0.1/8"], "10.0.0.1", [7]])
def test_a_wrong_list_of_proxies_is_refused(folder, wrong):
    """A mistyped address is no address to trust."""
    with pytest.raises(Refused, match="trusted_proxies"):
        Settings.load(folder.folder, trusted_proxies=wrong)


def test_proxies_are_read_from_the_environment(folder, monkeypatch):
    """Commas, spaces or JSON; an address keeps its colons."""
    for said in ("10.0.0.0/8,::1", "10.0.0.0/8 ::1", '["10.0.0.0/8", "::1"]'):
        monkeypatch.setenv("SULQ_SERVER_TRUSTED_PROXIES", said)
        assert Settings.load(folder.folder).trusted_proxies == ("10.0.0.0/8", "::1/128")


# ---- ids ------------------------------------------------------------------------------------


def test_every_request_has_an_id_in_its_reply_and_its_log(behind, lines):
    """One that is sane is kept, another is replaced; a page and the routes it asks share it."""
    for said, kept in (("abc-123", True), ("x" * 101, False), ('a"b', False), ("a b", False)):
        reply = behind.call("GET", "/v1/me", None, "bob", **{"X-Request-Id": said})
        assert (reply.headers["x-request-id"] == said) is kept
        assert logged(lines, reply)[0]["person"] == "bob"
    page = PageClient(behind, "bob").get("/console/", **{"X-Request-Id": "of-a-page"})
    assert page.headers["x-request-id"] == "of-a-page"
    assert {"request", "page"} == {line["event"] for line in logged(lines, page, 2)}
    for path, who in (("/nothing", "bob"), ("/v1/me", "wrong"), ("/console/static/style.css", "")):
        assert behind.call("GET", path, None, who).headers["x-request-id"]


# ---- readiness ------------------------------------------------------------------------------


def test_ready_means_that_ledgers_and_sources_are_there(tmp_path, monkeypatch):
    """503 in the one shape while rows or a ledger are away, and no word of which; then 200."""
    monkeypatch.setattr("sulq.server.services.dataset_states.LOOK_SECONDS", 0.02)
    instance = made(tmp_path / "instance")
    rows = instance.folder / "data" / "people.parquet"
    with instance.serving() as served:
        served.until_ready()
        for path in (rows, next((instance.folder / "ledgers").glob("*.people.ledger"))):
            path.rename(tmp_path / "away")
            while (reply := served.call("GET", "/ready", None, None)).status == 200:
                pass
            assert (reply.status, reply.error) == (503, "LimitReached")
            assert b"people" not in reply.body
            assert served.call("GET", "/v1/health", None, None).status == 200
            (tmp_path / "away").rename(path)
            served.until_ready()
        rows.rename(tmp_path / "away")
        served.call("PATCH", D, {"state": "frozen"}, "anna")  # its owner has stopped it
        served.until_ready()


def test_a_registry_that_cannot_be_reached_is_missing(tmp_path, monkeypatch):
    """Nothing can be asked without it; then all is as before."""
    instance = made(tmp_path / "instance")
    with instance.services() as services:
        registry, states = services.registry, services.states
        states.look_at_all()
        services.readiness._serving.set()
        assert services.readiness.ready_for_some

        def away(self, *_):
            raise Refused("no")

        with monkeypatch.context() as patch:
            patch.setattr(type(registry), "one", away)
            states.look_at_all()
            assert not services.readiness.ready_for_some
        states.look_at_all()
        assert services.readiness.ready


# ---- counts ---------------------------------------------------------------------------------


def test_a_token_opens_the_counts_of_all_owners_and_nothing_else(behind):
    """For Prometheus: samples by owner; the token is no key, and a key is no token."""
    behind.until_ready()
    behind.ask("secret")
    page = behind.call("GET", "/metrics", None, TOKEN)
    assert (page.status, page.headers["content-type"][:10]) == (200, "text/plain")
    body = page.body.decode()
    assert "\nsulq_ready 1\n" in body
    assert 'sulq_answers_total{owner="anna",dataset="people"}' in body
    assert 'sulq_spent_micro{owner="carl",dataset="secrets"} 0' in body
    assert body.count("# TYPE sulq_spent_micro ") == 1
    own = behind.call("GET", "/v1/metrics", None, "anna").body.decode()
    assert "owner=" not in own
    assert "secrets" not in own
    for method, path, _, _ in TABLE:
        if path not in (*OPEN, "/v1/metrics"):
            assert behind.call(method, path, None, TOKEN).status == 401
    for wrong in (TOKEN[:-1], TOKEN + "x", "None", None, "bob"):
        assert behind.call("GET", "/metrics", None, wrong).status in (401, 403)


def test_without_a_token_nobody_has_one(folder):
    """An unset token is opened by no word; a short one is refused."""
    with folder.serving() as served:
        for said in ("None", "", "null"):
            assert served.call("GET", "/metrics", None, said).status == 401
    with pytest.raises(Refused, match="metrics_token") as error:
        Settings.load(folder.folder, metrics_token="short")
    assert "short" not in str(error.value)


# ---- methods --------------------------------------------------------------------------------


def test_405_says_what_is_allowed(behind):
    """Every method of the address, over all its routes."""
    found = {
        path: behind.call("PUT", path, {}, "anna").headers.get("allow")
        for path in (D, "/v1/keys", f"{D}/ask", "/v1/health")
    }
    assert found == {
        D: "DELETE, GET, PATCH", "/v1/keys": "GET, POST", f"{D}/ask": "POST", "/v1/health": "GET",
    }  # fmt: skip


# ---- compression ----------------------------------------------------------------------------


def test_large_replies_are_packed_and_small_ones_are_not(behind):
    """The description and files; an answer as short as its head is not."""
    packed = {"Accept-Encoding": "gzip"}
    reply = behind.call("GET", "/v1/openapi.json", None, None, **packed)
    assert reply.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in reply.headers["vary"].lower()
    assert len(reply.body) * 4 < len(gzip.decompress(reply.body))
    assert json.loads(gzip.decompress(reply.body))["info"]["title"] == "SuLQ"
    style = behind.call("GET", "/console/static/style.css", None, None, **packed)
    assert style.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in behind.ask("secret", **packed).headers
    plain = behind.call("GET", "/v1/openapi.json", None, None)
    assert "content-encoding" not in plain.headers


def test_pages_with_secrets_are_never_packed(behind):
    """A page carries its session's token beside what was typed; a key's reply carries the key."""
    page = PageClient(behind, "anna")
    for path in ("/console/", "/console/datasets/people", "/console/people"):
        reply = page.get(path, **{"Accept-Encoding": "gzip"})
        assert "content-encoding" not in reply.headers
    many = {"datasets": [f"d{i:060}" for i in range(1000)]}
    reply = behind.call("POST", "/v1/keys", many, "anna", **{"Accept-Encoding": "gzip"})
    listed = behind.call("GET", "/v1/keys", None, "anna", **{"Accept-Encoding": "gzip"})
    assert len(listed.body) > 50_000
    assert not {"content-encoding"} & (set(reply.headers) | set(listed.headers))


def test_a_proxy_of_one_machine_is_not_the_socket_itself():
    """An address that is none, as of a socket file, is trusted by nobody."""
    from ipaddress import ip_network

    from sulq.server.front import as_sent

    scope = {"headers": [(b"x-forwarded-for", b"1.2.3.4")], "client": None}
    assert as_sent(scope, [ip_network("0.0.0.0/0")]) is scope

"""What an owner shows others and hears of: the audit log, the webhook, spans."""

import hashlib
import hmac
import json
import socket
import threading
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import postgres
import pytest
from server.console.page_client import PageClient, plain
from server.instance import made
from typer.testing import CliRunner

from sulq.cli import app
from sulq.errors import LedgerDamaged, Refused
from sulq.server.services import webhooks
from sulq.server.services.audit_log import verify
from sulq.server.services.registry import Registry, alarm

SECRET = "a secret for the tests only"


def log_of(instance, who="anna"):
    return instance.call("GET", "/v1/audit-log", None, who).json


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A server on which things were decided, through every door."""
    with made(tmp_path_factory.mktemp("oversight") / "instance").serving() as served:
        anna = PageClient(served, "anna")
        key = served.call("POST", "/v1/keys", {"analyst": "bob", "label": "laptop"}, "anna").json
        served.call("POST", "/v1/keys/rotate", None, key["key"])
        served.call("PUT", "/v1/datasets/people/analysts/eve", None, "anna")
        served.call("DELETE", "/v1/datasets/people/analysts/eve", None, "anna")
        served.call("PATCH", "/v1/datasets/people", {"state": "frozen"}, "anna")
        thaw = {"state": "open", "reason": "looked at"}
        served.call("PATCH", "/v1/datasets/people", thaw, "anna")
        served.call("POST", "/v1/datasets/people/refresh", {"reason": "as agreed"}, "anna")
        served.call("DELETE", f"/v1/keys/{served.keys['eve'].split('_')[1]}", None, "anna")
        served.call("POST", "/v1/analysts", {"name": "zoe"}, "anna")
        served.call("DELETE", "/v1/analysts/zoe", None, "anna")
        anna.post("/console/sign-out")
        yield served


# ---- the audit log ----------------------------------------------------------------------------


def test_the_log_has_what_was_decided_and_by_whom(busy):
    """Each decision once, in order, with who made it and with which key."""
    found = log_of(busy)["entries"]
    said = [(e["kind"], e["body"]["about"]) for e in found if e["body"]["by"] == "anna"]
    assert said == [
        ("sign-in", "anna"), ("key", "bob"), ("invite", "eve"), ("uninvite", "eve"),
        ("freeze", ""), ("thaw", ""), ("refresh", ""), ("key-revoked", "eve"), ("analyst", "zoe"),
        ("analyst-removed", "zoe"), ("sign-out", "anna"),
    ]  # fmt: skip
    assert [e["body"]["about"] for e in found if e["body"]["by"] == "bob"] == ["bob"]
    assert [e["kind"] for e in found][:3] == ["owner", "key", "dataset"]
    frozen = next(e for e in found if e["kind"] == "freeze")
    assert frozen["body"]["dataset"] == "people"
    assert frozen["body"]["with"] == busy.keys["anna"].split("_")[1]
    assert next(e for e in found if e["kind"] == "refresh")["body"]["reason"] == "as agreed"


def test_no_secret_is_in_the_log(busy):
    """Neither keys nor what cookies and links hold."""
    text = json.dumps(log_of(busy))
    for key in busy.keys.values():
        assert key.split("_", 2)[2] not in text


def test_each_owner_has_a_log_of_their_own(busy):
    """carl's knows nothing of anna's, and analysts see none."""
    assert {e["body"]["about"] for e in log_of(busy, "carl")["entries"]} == {"carl", "dan", ""}
    for who in ("bob", "eve"):
        assert "entries" not in log_of(busy, who)
        page = PageClient(busy, "bob")
        assert page.get("/console/audit-log").status == 403
        assert page.get("/console/audit-log.ndjson").status == 403


def test_the_log_is_read_in_pages_and_ends_with_its_head(busy):
    """As many as one asks for, after the number one has."""
    whole = log_of(busy)
    path, parts, after = "/v1/audit-log?limit=5&after=", [], -1
    while page := busy.call("GET", f"{path}{after}", None, "anna").json["entries"]:
        parts += page
        after = page[-1]["number"]
    assert parts == whole["entries"]
    assert whole["head"] == {n: parts[-1][n] for n in ("number", "hash")}


def exported(instance, who="anna"):
    """The log as the console's file has it, line by line."""
    page = PageClient(instance, who).get("/console/audit-log.ndjson")
    return page.body.splitlines(keepends=True)


def test_a_changed_log_is_noticed(busy):
    """An entry changed, taken out, added or cut off at the end: each is said by its number."""
    lines, head = exported(busy), log_of(busy)["head"]
    kept = f"{head['number']}:{head['hash']}"
    assert verify(lines, kept) == head
    changed = [*lines[:3], lines[3].replace(b'"by":"', b'"by":"not '), *lines[4:]]
    shifted = lines[5].replace(b'"number":5', b'"number":4')
    for wrong, what in (
        (changed, "Entry 3 .* was changed"),
        (lines[:4] + lines[5:], "Entry 4 .* is missing"),
        ([*lines[:4], shifted, *lines[6:]], "Entry 4 .* does not follow"),
        (lines[:-1], "not the one that was kept"),
    ):
        with pytest.raises(LedgerDamaged, match=what):
            verify(wrong, kept)
    verify(lines[:-1])  # without what was kept elsewhere nobody can tell
    with pytest.raises(Refused, match="NUMBER:HASH"):
        verify(lines, "x")


def test_nothing_is_shown_that_is_not_hashed(busy):
    """Words beside the entry, other fields, another way of writing the same: all refused."""
    lines = exported(busy)
    at = next(i for i, line in enumerate(lines) if b'"what":"people was frozen"' in line)
    entry = json.loads(lines[at])
    for wrong in (
        entry | {"what": "people was thawed"},
        entry | {"body": entry["body"] | {"what": "people was thawed"}},
        entry | {"number": float(entry["number"])},
    ):
        for text in (json.dumps(wrong), json.dumps(wrong, sort_keys=True, separators=(",", ":"))):
            with pytest.raises(LedgerDamaged, match=f"Entry {at} "):
                verify([*lines[:at], text.encode() + b"\n", *lines[at + 1 :]])
    spaced = json.dumps(entry).encode() + b"\n"
    with pytest.raises(LedgerDamaged, match="was changed"):
        verify([*lines[:at], spaced, *lines[at + 1 :]])


def test_the_servers_own_log_is_checked(busy):
    """Over HTTP, and whoever changes the registry by hand is found out."""
    found = busy.call("GET", "/v1/audit-log/verify", None, "anna")
    assert found.json == log_of(busy)["head"]
    assert busy.call("GET", "/v1/audit-log/verify?head=x", None, "anna").status == 409
    with closing(Registry.open(busy.folder)) as registry:
        with registry.writing() as run:
            run("UPDATE audit_log SET kind = 'thaw' WHERE kind = 'freeze'")
        assert busy.call("GET", "/v1/audit-log/verify", None, "anna").status == 503
        with registry.writing() as run:
            run("UPDATE audit_log SET kind = 'freeze' WHERE body LIKE '%people%' AND number = "
                "(SELECT min(number) FROM audit_log WHERE kind = 'thaw')")  # fmt: skip
    assert busy.call("GET", "/v1/audit-log/verify", None, "anna").status == 200


def test_the_command_shows_checks_and_exports(busy, tmp_path):
    """sulq audit-log, and an export that is checked without the server."""
    out = tmp_path / "log.ndjson"
    at = ["--dir", str(busy.folder), "--owner", "anna"]
    shown = CliRunner().invoke(app, ["audit-log", "--json", "--last", "3", *at])
    assert len(json.loads(shown.output)["entries"]) == 3
    assert CliRunner().invoke(app, ["audit-log", "--out", str(out), *at]).exit_code == 0
    head = log_of(busy)["head"]
    kept = ["--head", f"{head['number']}:{head['hash']}"]
    checked = CliRunner().invoke(app, ["audit-log", "--file", str(out), *kept])
    assert checked.exit_code == 0, checked.output
    out.write_text(out.read_text().replace("laptop", "tablet"))
    assert CliRunner().invoke(app, ["audit-log", "--file", str(out), *kept]).exit_code != 0


def test_the_page_shows_it(busy):
    """In words, for the owner."""
    text = plain(PageClient(busy, "anna").get("/console/audit-log"))
    assert "people was thawed: looked at" in text
    assert "a key was made for bob (laptop)" in text


def test_a_log_in_postgresql_is_one_chain_for_many_writers(tmp_path):
    """Writers wait for each other; what is chained there is the same."""
    if not postgres.here():
        pytest.skip(postgres.MISSING)
    from concurrent.futures import ThreadPoolExecutor

    from sulq.server.services.audit_log import AuditLog
    from sulq.server.services.people import People

    database = postgres.fresh_name("log")
    with postgres.shared().connect() as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    with closing(Registry.begin(tmp_path, postgres.shared().url(database=database))) as registry:
        people = People(registry)
        owner = people.add_owner("anna")
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda n: people.add_analyst(owner.tenant, f"a{n}"), range(40)))
        assert AuditLog(registry).verify(owner.tenant)["number"] == 40


# ---- webhooks ---------------------------------------------------------------------------------


class Taker:
    """Takes messages; says `status` to each."""

    def __init__(self):
        self.status, self.took, self.url = 200, [], ""


@contextmanager
def taking():
    taker = Taker()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            taker.took.append((dict(self.headers), body))
            self.send_response(taker.status)
            if taker.status == 302:
                self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *said):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    taker.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield taker
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hooked(tmp_path):
    """Services with a webhook of anna's; messages are sent when the test says so."""
    instance = made(tmp_path / "instance", queries=2)
    on = {"webhook_hosts": ["127.0.0.1"], "webhook_secret": SECRET}
    with taking() as taker, instance.services(**on) as services:
        anna = services.people.owner("anna")
        secret = services.webhooks.set(anna.tenant, taker.url)
        yield services, anna, taker, secret


def kinds(taker):
    return [json.loads(body)["kind"] for _, body in taker.took]


def test_messages_are_signed_and_sent_once(hooked):
    """Whoever takes one can tell whose it is; what arrived is not sent again."""
    services, anna, taker, secret = hooked
    services.webhooks.test(anna.tenant)
    assert services.webhooks.send() == 1
    assert services.webhooks.send() == 0
    ((headers, body),) = taker.took
    said = dict(part.split("=") for part in headers["x-sulq-signature"].split(","))
    mine = hmac.new(secret.encode(), f"{said['t']}.".encode() + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(mine, said["v1"])
    assert json.loads(body)["id"] == headers["x-sulq-delivery"]


def test_a_receiver_that_drips_keeps_nobody_else_waiting(hooked, monkeypatch):
    """A byte at a time, for ever: carl's messages arrive meanwhile, and anna's try ends."""
    services, anna, taker, _ = hooked
    monkeypatch.setattr(webhooks, "SEND_SECONDS", 1.0)
    carl, over = services.people.owner("carl"), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            with suppress(OSError):
                connection, _ = server.accept()
                while not over.wait(0.2):
                    connection.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        where = f"http://127.0.0.1:{server.getsockname()[1]}/slow"
        services.webhooks.set(anna.tenant, where)
        services.webhooks.set(carl.tenant, taker.url)
        services.webhooks.test(anna.tenant)
        (slow,) = services.webhooks.begin()
        services.webhooks.test(carl.tenant)
        assert services.webhooks.send() == 1
        assert kinds(taker) == ["test"]
        assert not slow.done() or slow.result() == 0
        assert slow.result(30) == 0
        over.set()


def test_an_owner_hears_of_freezes_late_batches_low_budgets_and_old_keys(hooked):
    """Each once, with the words of alarms and timeline, and no number that rows decide."""
    services, anna, taker, _ = hooked
    record = services.datasets.find(anna.tenant, "people")
    services.datasets.note_late(record, services.datasets.opened(record).db.schema)
    services.datasets.set_state(record, "frozen")
    services.datasets.set_state(services.datasets.find(anna.tenant, "people"), "open", "why not")
    db = services.datasets.opened(record).db
    services.webhooks.watch()
    services.webhooks.send()
    assert sorted(kinds(taker)) == ["frozen", "late"]  # of one second; nothing was spent yet
    db.count("secret")
    db.count("not secret and region = 'north' or secret")
    services.webhooks.watch()
    services.webhooks.watch()
    services.webhooks.send()
    assert kinds(taker)[2:] == ["budget-low"]
    low = json.loads(taker.took[-1][1])
    assert set(low) == {"id", "kind", "time", "message", "dataset", "remaining_micro",
                        "total_micro"}  # fmt: skip
    soon = services.registry.clock.time() + webhooks.SOON / 2
    with services.registry.writing() as run:
        run("UPDATE keys SET expires = ?, created = '2020-01-01T00:00:00+00:00' WHERE person = "
            "(SELECT id FROM people WHERE name = 'bob')", soon.isoformat())  # fmt: skip
    services.webhooks.watch()
    services.webhooks.watch()
    services.webhooks.send()
    assert kinds(taker)[3:] == ["key-expiring"]
    assert services.webhooks.shown(anna.tenant)["waiting"] == 0


def test_what_does_not_arrive_is_tried_again_and_given_up(hooked, monkeypatch):
    """Further and further apart, six times in all; then the alarms say so. No redirect is taken."""
    services, anna, taker, _ = hooked
    services.webhooks.test(anna.tenant)
    for status in (500, 302, 404, 500, 503):
        taker.status = status
        assert services.webhooks.send() == 0
        assert services.webhooks.send() == 0  # it is not due yet
        assert services.webhooks.shown(anna.tenant)["waiting"] == 1
        with services.registry.writing() as run:
            run("UPDATE outbox SET due = '2020-01-01'")
    services.webhooks.send()
    assert services.webhooks.shown(anna.tenant)["waiting"] == 0
    assert len(taker.took) == 1 + len(webhooks.WAITS)
    assert services.registry.alarms(anna.tenant)[0]["kind"] == "webhook"


@pytest.mark.parametrize(
    "url",
    ["https://elsewhere.example/", "http://127.0.0.1.evil.example/", "ftp://127.0.0.1/",
     "http://user:pass@127.0.0.1/", "http://10.0.0.1/", "", "https://", "https://127.0.0.1@x/",
     "https://[", "https://[::1", "http://127.0.0.1:99999/", "http://127.0.0.1:x/"],
)  # fmt: skip
def test_only_allowed_hosts_are_sent_to(hooked, url):
    """Nobody makes the server ask addresses within its network."""
    services, anna, _, _ = hooked
    with pytest.raises(Refused, match="hosts that whoever"):
        services.webhooks.set(anna.tenant, url)


def test_a_host_that_is_no_longer_allowed_hears_nothing(tmp_path):
    """The list is looked at when a message is sent, too."""
    instance = made(tmp_path / "instance")
    on = {"webhook_secret": SECRET}
    with taking() as taker:
        with instance.services(webhook_hosts=["127.0.0.1"], **on) as services:
            tenant = services.people.owner("anna").tenant
            services.webhooks.set(tenant, taker.url)
        with instance.services(webhook_hosts=["hooks.example.org"], **on) as services:
            services.webhooks.test(tenant)
            assert services.webhooks.send() == 0
        assert taker.took == []


def test_a_running_server_sends_by_itself_and_no_question_waits(tmp_path, monkeypatch):
    """A place that never answers holds nobody up."""
    import socket
    import time

    monkeypatch.setattr(webhooks, "SEND_SECONDS", 100.0)  # longer than any load makes an answer
    instance = made(tmp_path / "instance")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        on = {"webhook_hosts": ["127.0.0.1"], "webhook_secret": SECRET}
        with instance.serving(**on) as served:
            assert served.call("PUT", "/v1/webhook", {"url": url}, "anna").status == 200
            assert served.call("POST", "/v1/webhook/test", None, "anna").json == {"sent": True}
            silent.settimeout(30)
            connection, _ = silent.accept()  # it is being sent, and nobody replies
            begun = time.monotonic()
            assert served.ask("secret").status == 200
            assert time.monotonic() - begun < webhooks.SEND_SECONDS
            connection.close()


def test_without_a_secret_there_are_no_webhooks(busy):
    """Off by default, and it is said who switches them on."""
    found = busy.call("PUT", "/v1/webhook", {"url": "https://a.example/"}, "anna")
    assert "webhook_hosts" in found.json["error"]["message"]


def test_messages_without_a_place_are_not_kept(busy):
    """An owner who named no address has nothing that waits."""
    with closing(Registry.open(busy.folder)) as registry, registry.writing() as run:
        (number,) = run("SELECT id FROM datasets WHERE name = 'people'").fetchone()
        alarm(run, 1, number, "late", "late")
        assert run("SELECT count(*) FROM outbox").fetchone()[0] == 0


# ---- telemetry --------------------------------------------------------------------------------


def test_spans_have_the_route_and_no_name(tmp_path, monkeypatch):
    """One for each request: method, pattern, status, id; never what stands in the path."""
    from opentelemetry import trace

    spans = []

    class Span(trace.NonRecordingSpan):
        def __init__(self, name):
            super().__init__(trace.INVALID_SPAN_CONTEXT)
            self.name, self.said = name, {}
            spans.append(self)

        def set_attribute(self, key, value):
            self.said[key] = value

        def update_name(self, name):
            self.name = name

    class Tracer(trace.NoOpTracer):
        @contextmanager
        def start_as_current_span(self, name, **said):
            yield Span(name)

    monkeypatch.setattr(trace, "get_tracer", lambda *said: Tracer())
    with made(tmp_path / "instance").serving(telemetry=True) as served:
        assert served.ask("secret").status == 200
        PageClient(served, "bob").get("/console/datasets/people")
    names = [span.name for span in spans]
    assert "POST /v1/datasets/{name}/ask" in names
    assert all("people" not in f"{span.name}{span.said}" for span in spans)
    asked = spans[names.index("POST /v1/datasets/{name}/ask")]
    assert asked.said["http.response.status_code"] == 200
    assert asked.said["sulq.request"]

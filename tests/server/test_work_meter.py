"""One meter for all work before a charge: at every route, at both doors, with a key and without.

Judged by counts, never by a clock: what is read, what is parsed, what is refused and who pays. The
same by the clock, with the dearest body for every route: test_dear_bodies.py, in `make soak`.
"""

import asyncio
import json
import threading
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import h11
import psycopg
import pytest
from server.console.page_client import PageClient
from server.dear_bodies import api_routes, filled, repeated
from server.instance import QUICK, call, made
from server.pgwire.wired import wired

from sulq.errors import LimitReached
from sulq.server import strict_json
from sulq.server.api import oversight, request_bodies
from sulq.server.api.app import api
from sulq.server.app import make_app
from sulq.server.body_reader import WITHOUT_KEY_BYTES
from sulq.server.bounded_http import MANY_CHUNKS, MAX_HEADERS, BoundedConnection
from sulq.server.console.app import ROUTES
from sulq.server.pgwire import service_calls
from sulq.server.services import admission, work_meter
from sulq.server.services.settings import Settings
from sulq.server.services.work_meter import (
    UNPAID,
    Account,
    BytesInFlight,
    WorkMeter,
    current,
    timed,
)

ISSUER = """
[oidc]
issuer = "https://issuer.example"
client_id = "sulq"
owner = "anna"
owners = ["heads"]
"""
JSON, FORM = b"application/json", b"application/x-www-form-urlencoded"
OTHERS = ["/", "/console", "/console/nowhere", "/console/static/console.css", "/nowhere"]


# ---- without a key --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A server's folder whose institution signs people in, so that every route is there."""
    instance = made(tmp_path_factory.mktemp("metered") / "instance")
    with open(instance.folder / "sulq.toml", "a") as file:
        file.write(ISSUER)
    return instance


def every_route():
    """Method and path of every route of the API and the console, and some that are none."""
    found = [(method, filled(path)) for method, path, _ in api_routes(api())]
    for route in ROUTES:
        found += [(method, f"/console{filled(route.path)}") for method in route.methods]
    return [*found, *(("POST", path) for path in OTHERS)]


@asynccontextmanager
async def application(instance, **said):
    app = make_app(Settings.load(instance.folder, **QUICK | said))
    async with app.router.lifespan_context(app):
        yield app


async def sent(app, method, path, headers=(), body=b"", chunk=1_000):
    """The status of a reply, its body, and how much of the request was read for it."""
    lines = [(b"host", b"here"), *headers]
    parts = [body[i : i + chunk] for i in range(0, len(body), chunk)] or [b""]
    read, said = [], []

    async def receive():
        read.append(parts[len(read)] if len(read) < len(parts) else b"")
        return {"type": "http.request", "body": read[-1], "more_body": len(read) < len(parts)}

    async def send(message):
        said.append(message)

    await app({
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": lines, "client": ("10.0.0.1", 1), "server": ("here", 80),
        "state": {},
    }, receive, send)  # fmt: skip
    return said[0]["status"], said[1].get("body", b""), sum(map(len, read))


@pytest.fixture(scope="module")
def heard(folder):
    """What every route of one server says to what is sent to it, and how much of that it reads."""
    length = (b"content-length", str(WITHOUT_KEY_BYTES + 1).encode())
    own, json_kind = _key(folder, "anna"), (b"content-type", JSON)
    routes, out = every_route(), SimpleNamespace(chunked={})
    listed = [(m, filled(p), fields) for m, p, fields in api_routes(api()) if "/files/" not in p]
    objects = b"[" + repeated(b"{}", 990_000) + b"]"

    async def main():
        async with application(folder) as app:
            out.large = {r: await sent(app, *r, [length], b"x" * 30_000) for r in routes}
            for method, path in routes:
                if path not in ("/v1/health", "/v1/ready", "/v1/openapi.json"):  # spaced
                    kind = FORM if path.startswith("/console") else JSON
                    out.chunked[method, path] = await sent(
                        app, method, path, _strange(kind), b"x" * 100_000
                    )
            out.small = {
                path: (await sent(app, method, path))[0]
                for method, path in [("POST", "/v1/token"), ("GET", "/console/oidc/back")]
            }
            bodies = (b"x" * 50_000, b'{"query": {"where": "secret"}}', b"[" * 10_000)
            price = "/v1/datasets/people/price"
            out.prices = [
                (await sent(app, "POST", price, [own, json_kind], body))[0] for body in bodies
            ]
            out.bytes = app.state.meter.bytes.total
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(strict_json, "json", None)  # which would be a status of 500
                out.objects = {
                    (m, path): await sent(
                        app, m, path, [own, json_kind], b'{"%s":%s}' % (f[0].encode(), objects),
                        10**6,
                    )
                    for m, path, f in listed
                    if f
                }  # fmt: skip

    asyncio.run(main())
    return out


def _key(instance, who):
    return b"authorization", f"Bearer {instance.keys[who]}".encode()


def _strange(kind):
    """Headers of somebody whose key and session are none."""
    return [
        (b"transfer-encoding", b"chunked"), (b"content-type", kind), (b"origin", b"http://here"),
        (b"sec-fetch-site", b"same-origin"), (b"cookie", b"sulq_session=nothing"),
        (b"authorization", b"Bearer sulq_nothing"),
    ]  # fmt: skip


def test_without_a_key_every_route_refuses_a_large_body_unread(heard):
    """413 in the one shape of an error, whatever the route is for."""
    assert len(heard.large) > 130
    assert {(status, read) for status, _, read in heard.large.values()} == {(413, 0)}
    errors = {body for _, body, _ in heard.large.values()}
    assert len(errors) == 1
    assert json.loads(errors.pop())["error"]["charged"] is False


def test_without_a_key_no_route_reads_a_large_body_bit_by_bit(heard):
    """One that announces no length: refused when it is too much, or not read at all."""
    assert max(read for _, _, read in heard.chunked.values()) <= WITHOUT_KEY_BYTES + 1_000
    assert {status for status, _, read in heard.chunked.values() if read} == {413}
    assert heard.chunked["POST", "/v1/token"][0] == 413
    assert heard.chunked["POST", "/console/sign-in"][0] == 413


def test_what_an_institution_needs_is_there_only_where_one_is(heard, tmp_path):
    """Without [oidc] neither the API nor the console has a route for its tokens."""
    assert heard.small == {"/v1/token": 422, "/console/oidc/back": 401}

    async def main():
        async with application(made(tmp_path / "instance")) as app:
            token, _, _ = await sent(app, "POST", "/v1/token")
            page, _, _ = await sent(app, "GET", "/console/oidc/back")
            return "/v1/token" in app.state.api.openapi()["paths"], token, page

    assert asyncio.run(main()) == (False, 401, 303)  # as what is not there


# ---- with a key -----------------------------------------------------------------------------


def test_with_a_key_no_route_parses_a_body_of_too_many_things(heard):
    """A million bytes of objects are counted, and refused before a parser or a check meets them."""
    assert len(heard.objects) >= 18
    assert {status for status, _, _ in heard.objects.values()} == {413}


def test_a_request_gives_its_bytes_back(heard):
    """Also one that is refused, whatever it was about."""
    assert (heard.prices, heard.bytes) == ([400, 200, 413], 0)


def test_bodies_that_people_send_are_not_too_many_things():
    """A list of a hundred thousand keys, a thousand queries, a text full of commas."""
    keys = json.dumps({"rows": {"keys": list(range(1_000_000, 1_120_000))}}, separators=(",", ":"))
    query = {"values": ["1", "age"], "by": ["region", "smoker"], "where": "age > 3", "error": 4}
    many = json.dumps({"queries": [query] * 1000})
    text = json.dumps({"sql": "select " + "a, [" * 200_000})
    for body in (keys, many, text):
        strict_json.parsed(body.encode(), 40, 1_000_000)
    with pytest.raises(LimitReached):
        strict_json.parsed(b"[" + repeated(b"{}", 100_000) + b"]", 40, 1_000_000)
    with pytest.raises(LimitReached):
        strict_json.parsed(b"[" + repeated(b"1", 400_000) + b"]", 40, 1_000_000)
    strict_json.parsed(b"[" + repeated(b"1", 400_000) + b"]", 40, 10_000_000)


def bodies():
    """Every model of a body."""
    found = [*vars(request_bodies).values(), *vars(oversight).values()]
    return {m for m in found if isinstance(m, type) and issubclass(m, request_bodies.Body)}


def test_a_list_of_wrong_items_is_one_error():
    """However long it is; a list that checks all of its items would build an error for each."""
    lists = 0
    for model in bodies():
        for name, field in model.model_fields.items():
            if "list" in str(field.annotation).lower():
                lists += 1
                said = {field.alias or name: [[1, 2]] * 5_000}
                with pytest.raises(ValueError, match="valid") as refused:
                    model.model_validate(said)
                about = [e for e in refused.value.errors() if len(e["loc"]) > 1]
                assert len(about) <= 4, (model, name)
    assert lists >= 7


def test_a_head_of_many_lines_and_a_body_of_tiny_chunks_are_not_read():
    """h11 makes an object of each, however much there is."""
    begun = b"POST / HTTP/1.1\r\nhost: x\r\n"
    for more in (b"a: b\r\n" * MAX_HEADERS, b"a" * 20_000 + b": b\r\n"):
        connection = BoundedConnection()
        connection.receive_data(begun + more + b"\r\n")
        with pytest.raises(h11.RemoteProtocolError):
            connection.next_event()
    connection, events = BoundedConnection(), 0
    connection.receive_data(begun + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100_000)
    with suppress(h11.RemoteProtocolError):
        while connection.next_event():
            events += 1
    assert events == MANY_CHUNKS + 1
    connection = BoundedConnection()
    large = (b"3e8\r\n" + b"x" * 1000 + b"\r\n") * 600
    connection.receive_data(begun + b"transfer-encoding: chunked\r\n\r\n" + large + b"0\r\n\r\n")
    while type(event := connection.next_event()) is not h11.EndOfMessage:
        assert event is not h11.NEED_DATA


# ---- who pays -------------------------------------------------------------------------------


@pytest.fixture
def ticking(monkeypatch):
    """Each step of work takes a second of processor time; the clock on the wall stands still."""
    own = threading.local()

    def thread_time():
        own.now = getattr(own, "now", 0.0) + 1.0
        return own.now

    monkeypatch.setattr(work_meter, "time", SimpleNamespace(thread_time=thread_time))
    monkeypatch.setattr(admission, "time", SimpleNamespace(monotonic=lambda: 100.0))


def meter_of(tmp_path, **said):
    return WorkMeter(SimpleNamespace(store=None), Settings(tmp_path, **said))


def left(meter, who):
    return meter._seconds._left(who)


def test_every_step_of_a_request_is_counted(tmp_path, ticking):
    """In the event loop and in threads that work for it; for others nothing is."""
    meter = meter_of(tmp_path)
    whole = left(meter, "here")

    async def work():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await asyncio.to_thread(timed, lambda: "done")

    account = Account(meter, "here")
    account.belong_to(1)
    assert asyncio.run(account.run(work())) == "done"
    assert whole - left(meter, 1) == 5.0  # four steps, and the thread's
    assert left(meter, "here") == left(meter, 2) == whole
    assert current.get() is None


def test_control_an_await_is_not_counted_as_one_step(tmp_path, ticking):
    """Others' steps come between: a stopwatch around the whole would count them too."""
    meter = meter_of(tmp_path)
    whole = left(meter, 1)

    async def once():
        return None

    account = Account(meter, 1)
    account.belong_to(1)
    asyncio.run(account.run(once()))
    assert whole - left(meter, 1) == UNPAID


def test_what_an_address_paid_before_a_key_was_proved_its_person_pays(tmp_path):
    """At the rate of a person, and the address has it back."""
    meter = meter_of(tmp_path)
    whole = left(meter, "here")
    account = Account(meter, "here")
    account.spend(0.1)
    assert whole - left(meter, "here") == pytest.approx(0.1 * UNPAID, abs=1e-3)
    account.belong_to(7)
    assert left(meter, "here") == pytest.approx(whole, abs=1e-3)
    assert whole - left(meter, 7) == pytest.approx(0.1, abs=1e-3)


def test_a_step_that_fails_or_is_cancelled_is_counted_and_goes_on(tmp_path):
    """The driver of steps passes on what is thrown in, and what is thrown."""
    account, heard = Account(meter_of(tmp_path), "here"), []

    async def work():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async def main():
        task = asyncio.ensure_future(account.run(work()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        async def fails():
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)

        with pytest.raises(TimeoutError):
            await account.run(fails())

    asyncio.run(main())
    assert heard == ["cancelled"]


def test_bytes_in_flight_are_bounded_for_each_and_in_all():
    """And there is room again when a request is done."""
    held = BytesInFlight(100, 60)
    held.take("a", 50)
    with pytest.raises(LimitReached) as refused:
        held.take("a", 11)
    assert refused.value.retry_after
    held.take("b", 50)
    with pytest.raises(LimitReached):
        held.take("c", 1)
    held.give_back("a", 50)
    held.take("c", 50)
    assert held.total == 100


# ---- both doors -----------------------------------------------------------------------------


def person_of(instance, name):
    """The number by which the meter knows a person."""
    with instance.services() as services:
        return services.access.principal(f"Bearer {instance.keys[name]}").person.id


@pytest.fixture
def metered(tmp_path, monkeypatch):
    """A server with both doors, and its meter; refusals are not held back for long."""
    monkeypatch.setattr(admission, "LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(service_calls, "PATIENT_SECONDS", 0.1)
    kept, real = [], WorkMeter.__init__

    def remembered(self, *said):
        real(self, *said)
        kept.append(self)  # of each server that is opened

    monkeypatch.setattr(WorkMeter, "__init__", remembered)
    with wired(tmp_path / "instance") as pg:
        pg.meter = kept[-1]
        yield pg


def test_who_used_a_share_up_is_refused_at_every_door_and_others_are_not(metered):
    """HTTP, the console and PostgreSQL's protocol, with one meter."""
    page, bob = PageClient(metered, "bob"), person_of(metered, "bob")
    with metered.connect() as connection, metered.connect("anna") as anna:
        assert connection.execute("select 1").fetchone() == (1,)
        metered.meter.spend(bob, 1e9)
        reply = metered.call("POST", "/v1/datasets/people/price", {"query": {"where": "secret"}})
        assert (reply.status, reply.error) == (429, "LimitReached")
        assert int(reply.headers["retry-after"]) >= 1
        shown = page.get("/console/")
        assert shown.status == 429
        assert int(shown.headers["retry-after"]) >= 1
        for statement in ("select 1", "show all"):
            with pytest.raises(psycopg.errors.InsufficientResources, match="took too long"):
                connection.execute(statement)
        assert anna.execute("select 1").fetchone() == (1,)
        assert metered.call("GET", "/v1/me", None, "anna").status == 200


def test_an_address_that_used_its_share_up_signs_nobody_in(metered):
    """Strangers from there wait; who shows a key does not, and health is told to everybody."""
    metered.meter.spend("127.0.0.1", 1e9)
    assert call(metered.url, "GET", "/console/sign-in").status == 429
    with pytest.raises(psycopg.OperationalError, match="took too long"):
        metered.connect()
    assert metered.call("GET", "/v1/me").status == 200
    assert metered.call("GET", "/v1/health", None, None).status == 200
    assert metered.call("GET", "/v1/me", None, "sulq_nothing").status == 401

"""Too large, too deep, too often, too slow, too odd: refused in seconds, others answered."""

import json
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from server.house import made

from sulq.errors import LimitReached, QueryNotAllowed
from sulq.server.admission import AtOnce, Rate, Turnstile
from sulq.server.bodies import check_nesting, parsed

D = "/v1/datasets/people"
ASK = f"{D}/ask"


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """Small limits, so that a test reaches them quickly."""
    house = made(tmp_path_factory.mktemp("strict") / "house", queries=100_000)
    with house.serving(body_bytes=20_000, read_seconds=0.6, connections=60, batch=5) as served:
        yield served


def answered(house):
    """An honest request is answered, whatever else goes on."""
    reply = house.ask("secret")
    assert reply.status == 200, reply.body
    return reply


# ---- strict JSON ----------------------------------------------------------------------------

ODD = {
    "NaN": b'{"query": {"where": "secret", "error": NaN}}',
    "Infinity": b'{"query": {"where": "secret", "error": Infinity}}',
    "a number beyond floats": b'{"query": {"where": "secret", "error": 1e400}}',
    "a name given twice": b'{"query": {"where": "secret", "where": "age > 1"}}',
    "a name given twice at the top": b'{"query": {}, "query": {"where": "secret"}}',
    "a number of 5000 digits": b'{"query": {"error": ' + b"9" * 5000 + b"}}",
    "two documents": b'{"query": {}} {"query": {}}',
    "a trailing comma": b'{"query": {},}',
    "single quotes": b"{'query': {}}",
    "a comment": b'{"query": {} /* all */}',
    "not UTF-8": b'{"query": {"where": "\xff\xfe"}}',
    "half a character": b'{"query": {"where": "\\ud800"}}',
    "a byte order mark": b'\xef\xbb\xbf{"query": {}}',
    "nothing but space": b"   ",
    "cut short": b'{"query": {"where": "secr',
}


@pytest.mark.parametrize("what", ODD)
def test_json_that_two_readers_could_read_differently_is_refused(strict, what):
    reply = strict.call("POST", ASK, ODD[what])
    assert (reply.status, reply.json["error"]["charged"]) == (400, False)


def test_control_python_alone_would_have_read_them():
    """What is refused here, the plain parser takes: the test has teeth."""
    taken = 0
    for body in ODD.values():
        try:
            json.loads(body)
            taken += 1
        except (ValueError, UnicodeDecodeError):
            continue
    assert taken >= 5


@pytest.mark.parametrize("count", [41, 1000, 9_000])
def test_nesting_is_refused_before_a_parser_meets_it(strict, count):
    body = b'{"query": {"by": ' + b"[" * count + b"]" * count + b"}}"
    reply = strict.call("POST", ASK, body)
    assert (reply.status, reply.error) == (413, "LimitReached")
    answered(strict)


def test_brackets_in_texts_are_no_nesting():
    check_nesting(b'{"a": "' + b"[" * 500 + b'", "b": "\\"[[[[[", "c": [1]}', 3)
    with pytest.raises(LimitReached):
        check_nesting(b"[" * 4, 3)


def test_a_hundred_thousand_brackets_cost_nothing(strict):
    """10^5 brackets, also as one unclosed text, are looked at in a moment."""
    for body in (b"[" * 100_000, b'"' + b"[" * 100_000, b"\\" * 100_000, b'["\\' * 30_000):
        with pytest.raises((LimitReached, QueryNotAllowed)):
            parsed(body, 40)


def test_large_bodies_of_small_things_are_refused_in_a_moment(tmp_path):
    """What costs more than its bytes: names given twice, unknown names, lists, expressions."""
    names = b",".join(b'"k%d":1' % i for i in range(60_000))
    heavy = {
        "the last of many names twice": (b"{" + names + b',"k59999":1}', 400),
        "many unknown names": (b"{" + names + b"}", 400),
        "many that are no queries": (b'{"queries":[' + b"1," * 300_000 + b"1]}", 422),
        "many queries": (b'{"queries":[' + b"{}," * 100_000 + b"{}]}", 422),
        "many values": (b'{"query":{"values":[' + b'"1",' * 100_000 + b'"1"]}}', 429),
        "many values in all": (
            b'{"queries":[' + b",".join([b'{"values":[' + b'"1",' * 99 + b'"1"]}'] * 51) + b"]}",
            429,
        ),
    }
    with made(tmp_path / "house").serving() as house:
        start = time.process_time()
        for what, (body, status) in heavy.items():
            assert house.call("POST", ASK, body).status == status, what
        assert time.process_time() - start < 20  # each took minutes, or a quarter of one
        answered(house)


def test_a_large_body_counts_as_several_requests(tmp_path):
    body = json.dumps({"query": {"where": "secret", "weights": ["1" * 300] * 1000}}).encode()
    assert len(body) > 300_000
    with made(tmp_path / "house").serving(rate=0.01, burst=12) as house:
        assert [house.call("POST", ASK, body).status for _ in range(3)] == [422, 429, 429]


@pytest.mark.parametrize("name", ["idempotency-key", "content-type"])
def test_a_header_given_twice_is_refused(strict, name):
    """A proxy that takes the first and a server that takes the last see two requests."""
    lines = [f"{name}: application/json"] * 2
    rest = ["content-length: 2", "connection: close", "", "{}"]
    head = [f"POST {ASK} HTTP/1.1", "host: x", f"authorization: Bearer {strict.keys['bob']}"]
    reply = raw(strict, "\r\n".join([*head, *lines, *rest]).encode())
    assert reply.startswith(b"HTTP/1.1 400"), reply[:200]


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_body_says_that_it_is_json(strict, kind):
    headers = {"Content_Type": kind} if kind is not None else {"Content_Type": "x"}
    reply = strict.call("POST", ASK, b'{"query": {"where": "secret"}}', **headers)
    assert reply.status == 415


# ---- size -----------------------------------------------------------------------------------


def raw(house, data, wait=8.0, then=b""):
    """Send bytes as they are; what comes back until the server hangs up."""
    host, port = house.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as s:
        s.sendall(data)
        if then:
            try:
                while True:
                    s.sendall(then)
            except OSError:
                pass
        out = b""
        try:
            while chunk := s.recv(65536):
                out += chunk
        except OSError:
            pass
        return out


def head(house, *lines, who="bob"):
    fixed = [f"POST {ASK} HTTP/1.1", "host: x", f"authorization: Bearer {house.keys[who]}",
             "content-type: application/json"]  # fmt: skip
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def test_a_body_announced_as_a_gigabyte_is_refused_unread(strict):
    reply = raw(strict, head(strict, "content-length: 1000000000"))
    assert reply.startswith(b"HTTP/1.1 413")
    assert b"LimitReached" in reply
    answered(strict)


def test_endless_chunks_end(strict):
    """Chunk after chunk: refused when it is too much, and the connection is closed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    reply = raw(
        strict, head(strict, "transfer-encoding: chunked"), then=b"400\r\n" + b"x" * 1024 + b"\r\n"
    )
    assert reply == b"" or reply.startswith(b"HTTP/1.1 413")
    assert time.monotonic() - start < 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
    answered(strict)


@pytest.mark.parametrize(
    "lines",
    [
        ("content-length: 5", "content-length: 7"),
        ("content-length: 5", "transfer-encoding: chunked"),
        ("content-length: -1",),
        ("content-length: 1e3",),
        ("content-length: \u0661",),
        ("transfer-encoding: gzip, chunked",),
        ("transfer-encoding : chunked",),
        ("a b: c",),
    ],
)
def test_requests_that_two_proxies_could_cut_differently_are_refused(strict, lines):
    """What smuggles a request past a proxy is no request here."""
    fixed = [f"POST {ASK} HTTP/1.1", "host: x", f"authorization: Bearer {strict.keys['bob']}",
             "content-type: application/json"]  # fmt: skip
    data = "\r\n".join([*fixed, *lines, "", ""]).encode() + b'{"query": {}}'
    reply = raw(strict, data)
    assert reply.split(b" ")[1] in (b"400", b"408", b"411", b"413", b"501"), reply[:200]
    assert b" 200 " not in reply.split(b"\r\n")[0]
    answered(strict)


@pytest.mark.parametrize(
    "data",
    [b"\r\n" * 100, b"\x00" * 500, b"GET\r\n\r\n", b"x" * 70_000,
     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /v1/" + b"a" * 200_000],
)  # fmt: skip
def test_what_is_no_http_gets_the_one_shape_or_nothing(strict, data):
    reply = raw(strict, data)
    if reply:
        assert reply.split(b" ")[1] in (b"400", b"401", b"404", b"408", b"431", b"505")
        assert json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]["charged"] is False
    answered(strict)


def test_a_long_list_is_refused(strict):
    reply = strict.call("POST", ASK, {"queries": [{"where": "secret"}] * 6})
    assert (reply.status, reply.error) == (429, "LimitReached")


def test_a_long_expression_is_refused_before_an_engine_sees_it(strict):
    long = " and ".join(["secret"] * 1500)
    reply = strict.ask(long)
    assert (reply.status, reply.error) == (422, "QueryNotAllowed")
    assert strict.call("POST", f"{D}/sql", {"sql": "select " + "(" * 3000}).status == 422


# ---- slow and many --------------------------------------------------------------------------


def test_a_hundred_slow_connections_are_refused_in_seconds_and_others_answered(strict):
    """Half a head, half a body, nothing at all: 100 of them, each told to go, none in the way."""
    host, port = strict.url.removeprefix("http://").split(":")
    half = [b"", b"POST ", head(strict, "content-length: 500") + b'{"query": ']
    slow = []
    for i in range(100):
        s = socket.create_connection((host, int(port)), timeout=10)
        with suppress(OSError):  # refused already: too many
            s.sendall(half[i % 3])
        slow.append(s)
    start = time.monotonic()
    statuses = []
    for s in slow:
        try:
            reply = s.recv(65536)
        except OSError:
            reply = b""
        statuses.append(reply.split(b" ")[1] if reply else b"")
        s.close()
    assert time.monotonic() - start < 10
    assert set(statuses) <= {b"408", b"503", b"413", b""}
    assert statuses.count(b"408") >= 20
    assert b"503" in statuses  # more than the connections there may be
    answered(strict)


def test_who_does_not_read_is_hung_up_on(tmp_path):
    """As many connections as there may be, each with replies it never takes: they end."""
    asked, deaf = b"GET /v1/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n" * 200, []
    with made(tmp_path / "house").serving(read_seconds=0.5, connections=3) as house:
        host, port = house.url.removeprefix("http://").split(":")
        for _ in range(3):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect((host, int(port)))
            s.sendall(asked)
            deaf.append(s)
        until, status = time.monotonic() + 60, 0
        while status != 200 and time.monotonic() < until:
            with suppress(OSError):
                status = house.ask("secret").status
        for s in deaf:
            s.close()
        assert status == 200


def test_one_byte_at_a_time_is_too_slow(strict):
    """A head that drips in is not waited for, however alive it looks."""
    host, port = strict.url.removeprefix("http://").split(":")
    start = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=10) as s:
        try:
            for byte in head(strict, "content-length: 5"):
                s.sendall(bytes([byte]))
                time.sleep(0.02)
        except OSError:
            pass
        assert time.monotonic() - start < 5
    answered(strict)


def test_a_kept_connection_may_rest_between_requests(strict):
    """The clock is for requests that have begun, not for a client that thinks."""
    import http.client

    connection = http.client.HTTPConnection(strict.url.removeprefix("http://"), timeout=10)
    headers = {"Authorization": f"Bearer {strict.keys['bob']}"}
    for pause in (0.0, 1.0, 0.0):
        time.sleep(pause)
        connection.request("GET", D, headers=headers)
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200
    connection.close()


# ---- often ----------------------------------------------------------------------------------


def test_too_often_is_refused_with_a_time_to_wait(tmp_path):
    with made(tmp_path / "house").serving(rate=0.01, burst=5) as house:
        replies = [house.call("GET", D) for _ in range(8)]
        assert [r.status for r in replies] == [200] * 5 + [429] * 3
        assert int(replies[-1].headers["retry-after"]) >= 1
        assert replies[-1].json["error"]["charged"] is False
        assert house.call("GET", D, None, "anna").status == 200  # others have their own


def test_guessing_keys_is_slowed_down(tmp_path):
    """A stranger's wrong keys cost one address its turns, not anybody's answers."""
    with made(tmp_path / "house").serving() as house:
        guesses = [house.call("GET", D, None, f"sulq_{i:016x}_{'A' * 43}") for i in range(150)]
        assert {g.status for g in guesses} == {401, 429}
        answered(house)


def test_too_many_at_once_is_refused(tmp_path, monkeypatch):
    """One person's requests do not fill the house."""
    from sulq.server.asking import Asking

    go_on, honest = threading.Event(), Asking._replies

    def slow(self, some):
        assert go_on.wait(20)
        return honest(self, some)

    with made(tmp_path / "house").serving(at_once=3, slots=8) as house:
        monkeypatch.setattr(Asking, "_replies", slow)
        with ThreadPoolExecutor(6) as pool:
            sent = [pool.submit(house.ask, f"age > {i}") for i in range(6)]
            while sum(s.done() for s in sent) < 3:
                time.sleep(0.01)
            go_on.set()
        assert sorted(s.result().status for s in sent) == [200] * 3 + [429] * 3


def test_a_full_queue_is_refused_and_waiting_ends(tmp_path, monkeypatch):
    from sulq.server.asking import Asking

    go_on, honest = threading.Event(), Asking._replies

    def slow(self, some):
        assert go_on.wait(20)
        return honest(self, some)

    with made(tmp_path / "house").serving(slots=1, queue=2, wait_seconds=0.3) as house:
        monkeypatch.setattr(Asking, "_replies", slow)
        with ThreadPoolExecutor(5) as pool:
            sent = [pool.submit(house.ask, f"age > {i}") for i in range(5)]
            while sum(s.done() for s in sent) < 4:
                time.sleep(0.01)
            go_on.set()
        replies = [s.result() for s in sent]
        assert sorted(r.status for r in replies) == [200] + [429] * 4
        assert len({r.json["error"]["message"] for r in replies if r.status == 429}) == 2


# ---- rights that end while one waits ------------------------------------------------------


ENDINGS = {
    "frozen": ("PATCH", D, {"state": "frozen"}, 409),
    "closed": ("DELETE", D, None, 404),
    "uninvited": ("DELETE", f"{D}/analysts/bob", None, 404),
    "removed": ("DELETE", "/v1/analysts/bob", None, 401),
    "revoked": ("DELETE", "/v1/keys/{}", None, 401),
}


@pytest.mark.parametrize(("how", "padding"), [*((h, False) for h in ENDINGS), ("frozen", True)])
def test_who_waits_for_a_turn_needs_the_right_when_it_comes(tmp_path, monkeypatch, how, padding):
    """Asked in time, but its turn comes after the end: refused, and not charged."""
    from sulq.engines.duckdb import DuckDBEngine

    scanning, go_on, honest = threading.Event(), threading.Event(), DuckDBEngine.sums

    def slow(self, queries):
        scanning.set()
        assert go_on.wait(60)
        return honest(self, queries)

    method, path, body, status = ENDINGS[how]
    terms = {"padding": True, "deadline_seconds": 3.0} if padding else {}
    with made(tmp_path / "house").serving(slots=1, **terms) as house:
        monkeypatch.setattr(DuckDBEngine, "sums", slow)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(house.ask, "secret", "anna")
            assert scanning.wait(60)
            second = pool.submit(house.ask, "age > 3", "bob")
            while b'sulq_waiting{dataset="people"} 1' not in metrics(house):
                time.sleep(0.005)
            path = path.format(house.keys["bob"].split("_")[1])
            assert house.call(method, path, body, "anna").status == 200
            go_on.set()
            assert first.result().status == 200
            assert second.result().status == status
    (ledger,) = (house.folder / "ledgers").glob("*.people.ledger")
    assert b"age > 3" not in ledger.read_bytes()


def metrics(house):
    return house.call("GET", "/v1/metrics", None, "anna").body


# ---- turns ----------------------------------------------------------------------------------


def test_persons_take_turns_whatever_each_has_sent():
    """Ten of one person's questions do not stand before another's first."""
    import asyncio

    async def main():
        turnstile, order = Turnstile(1, 100, 10), []

        async def ask(who):
            async with turnstile.slot(who):
                order.append(who)

        async with turnstile.slot("a"):
            rest = [asyncio.create_task(ask(who)) for who in ("a", "a", "a", "b", "c", "b")]
            while turnstile.waiting < 6:
                await asyncio.sleep(0)
        await asyncio.gather(*rest)
        return order, turnstile

    order, turnstile = asyncio.run(main())
    assert order == ["a", "b", "c", "a", "b", "a"]
    assert turnstile.waiting == 0


def test_a_waiting_question_that_is_given_up_frees_its_place():
    import asyncio

    async def main():
        turnstile = Turnstile(1, 100, 10)
        async with turnstile.slot("a"):
            waiting = asyncio.create_task(turnstile._enter("b"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert turnstile.waiting == 0
        async with turnstile.slot("c"):
            return True

    assert asyncio.run(main())


def test_buckets_fill_again_and_forget_the_oldest():
    rate = Rate(1000.0, 2)
    refused = 0
    for _ in range(100):
        try:
            rate.take("a")
        except LimitReached as limit:
            refused += 1
            wait = limit.retry_after
    assert refused > 50
    time.sleep(2 * wait)
    rate.take("a")
    once = AtOnce(1)
    with once.one_more("a"), pytest.raises(LimitReached), once.one_more("a"):
        pass
    with once.one_more("a"):
        pass

"""Too large, too deep, too often, too slow, too odd: refused in seconds, others answered."""

import json
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest
from server.instance import made

from sulq.errors import LimitReached, QueryNotAllowed
from sulq.server.services import admission, work_meter
from sulq.server.services.admission import AtOnce, Rate, Seconds
from sulq.server.strict_json import check_nesting, parsed

D = "/v1/datasets/people"
ASK = f"{D}/ask"


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """Small limits, so that a test reaches them quickly."""
    instance = made(tmp_path_factory.mktemp("strict") / "instance", queries=100_000)
    with instance.serving(body_bytes=20_000, read_seconds=0.6, connections=60, batch=5) as served:
        yield served


def answered(instance):
    """An honest request is answered, whatever else goes on."""
    reply = instance.ask("secret")
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
    """Names given twice, NaN and endless numbers are refused."""
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
    """Brackets are counted before the body is parsed."""
    body = b'{"query": {"by": ' + b"[" * count + b"]" * count + b"}}"
    reply = strict.call("POST", ASK, body)
    assert (reply.status, reply.error) == (413, "LimitReached")
    answered(strict)


def test_brackets_in_texts_are_no_nesting():
    """Brackets inside texts do not count."""
    check_nesting(b'{"a": "' + b"[" * 500 + b'", "b": "\\"[[[[[", "c": [1]}', 3)
    with pytest.raises(LimitReached):
        check_nesting(b"[" * 4, 3)


def test_a_hundred_thousand_brackets_cost_nothing(strict):
    """10^5 brackets, also as one unclosed text, are looked at in a moment."""
    for body in (b"[" * 100_000, b'"' + b"[" * 100_000, b"\\" * 100_000, b'["\\' * 30_000):
        with pytest.raises((LimitReached, QueryNotAllowed)):
            parsed(body, 40, 1_000_000)


def test_large_bodies_of_small_things_are_refused_in_a_moment(tmp_path):
    """What costs more than its bytes: names given twice, unknown names, lists, expressions."""
    names = b",".join(b'"k%d":1' % i for i in range(60_000))
    groups = b'{"query":{"values":{"kind":"terms","groups":[%s["1"]]}}}'
    heavy = {
        "the last of many names twice": (b"{" + names + b',"k59999":1}', 400),
        "many unknown names": (b"{" + names + b"}", 400),
        "many that are no queries": (b'{"queries":[' + b"1," * 300_000 + b"1]}", 413),
        "many queries": (b'{"queries":[' + b"{}," * 100_000 + b"{}]}", 413),
        "many values": (b'{"query":{"values":[' + b'"1",' * 100_000 + b'"1"]}}', 429),
        "many groups": (groups % (b'["1"],' * 20_000), 413),
        "more groups than one question has": (groups % (b'["1"],' * 4_000), 422),
        "many values in all": (
            b'{"queries":[' + b",".join([b'{"values":[' + b'"1",' * 99 + b'"1"]}'] * 51) + b"]}",
            429,
        ),
    }
    with made(tmp_path / "instance").serving() as instance:
        start = time.process_time()
        for what, (body, status) in heavy.items():
            assert instance.call("POST", ASK, body).status == status, what
        assert time.process_time() - start < 20  # each took minutes, or a quarter of one
        answered(instance)


def test_a_body_counts_by_the_seconds_that_it_takes(tmp_path, monkeypatch):
    """Reading, parsing and refusing it come out of its sender's share, and of nobody else's."""
    monkeypatch.setattr(work_meter, "AT_ONCE_SECONDS", 0.0)
    monkeypatch.setattr(work_meter, "LEAST_AT_ONCE_SECONDS", 0.2)
    monkeypatch.setattr(admission, "LONGEST_SECONDS", 0.2)  # that a refusal is held back
    body = json.dumps({"query": {"where": "secret", "weights": ["1" * 300] * 1000}}).encode()
    with made(tmp_path / "instance").serving(rate=0.01, burst=10_000) as instance:
        for _ in range(1000):
            reply = instance.call("POST", ASK, body)
            if reply.status != 422:
                break
        assert (reply.status, reply.error) == (429, "LimitReached")
        assert int(reply.headers["retry-after"]) >= 1
        assert instance.call("GET", D, None, "anna").status == 200


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
    """A body of another content type is refused."""
    headers = {"Content_Type": kind} if kind is not None else {"Content_Type": "x"}
    reply = strict.call("POST", ASK, b'{"query": {"where": "secret"}}', **headers)
    assert reply.status == 415


# ---- size -----------------------------------------------------------------------------------


def raw(instance, data, wait=60.0, then=b""):
    """Send bytes as they are; what comes back until the server hangs up."""
    host, port = instance.url.removeprefix("http://").split(":")
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


def head(instance, *lines, who="bob"):
    fixed = [f"POST {ASK} HTTP/1.1", "host: x", f"authorization: Bearer {instance.keys[who]}",
             "content-type: application/json"]  # fmt: skip
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def test_a_body_announced_as_a_gigabyte_is_refused_unread(strict):
    """A body that is announced as too large is not read."""
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
    assert time.monotonic() - start < 60  # endless is longer than any load
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
    """Bytes that are no HTTP get an error of the one shape, or silence."""
    reply = raw(strict, data)
    if reply:
        assert reply.split(b" ")[1] in (b"400", b"401", b"404", b"408", b"431", b"505")
        assert json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]["charged"] is False
    answered(strict)


def test_a_long_list_is_refused(strict):
    """A batch of more queries than the limit is refused."""
    reply = strict.call("POST", ASK, {"queries": [{"where": "secret"}] * 6})
    assert (reply.status, reply.error) == (429, "LimitReached")


def test_a_long_expression_is_refused_before_an_engine_sees_it(strict):
    """An expression that is too long reaches no engine."""
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
    assert time.monotonic() - start < 60
    assert set(statuses) <= {b"408", b"503", b"413", b""}
    assert statuses.count(b"408") >= 20
    assert b"" in statuses  # more than the connections there may be: the oldest made room
    answered(strict)


def test_who_does_not_read_is_hung_up_on(tmp_path):
    """As many connections as there may be, each with replies it never takes: they end."""
    asked, deaf = b"GET /v1/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n" * 200, []
    with made(tmp_path / "instance").serving(read_seconds=0.5, connections=3) as instance:
        host, port = instance.url.removeprefix("http://").split(":")
        for _ in range(3):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect((host, int(port)))
            s.sendall(asked)
            deaf.append(s)
        until, status = time.monotonic() + 60, 0
        while status != 200 and time.monotonic() < until:
            with suppress(OSError):
                status = instance.ask("secret").status
        for s in deaf:
            s.close()
        assert status == 200


def test_one_byte_at_a_time_is_too_slow(strict):
    """A head that drips in is not waited for, however alive it looks."""
    host, port = strict.url.removeprefix("http://").split(":")
    begun = head(strict, "content-length: 5")[:-4] + b"x" * 3000  # and no end of it for a minute
    sent = 0
    with socket.create_connection((host, int(port)), timeout=10) as s, suppress(OSError):
        for byte in begun:
            s.sendall(bytes([byte]))
            sent += 1
            time.sleep(0.02)
    assert sent < len(begun)
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


def test_too_often_is_refused_with_a_time_to_wait(tmp_path, monkeypatch):
    """A request too many is refused with the seconds to wait."""
    monkeypatch.setattr(admission, "LONGEST_SECONDS", 0.2)  # that a refusal is held back
    with made(tmp_path / "instance").serving(rate=0.01, burst=5) as instance:
        replies = [instance.call("GET", D) for _ in range(8)]
        assert [r.status for r in replies] == [200] * 5 + [429] * 3
        assert int(replies[-1].headers["retry-after"]) >= 1
        assert replies[-1].json["error"]["charged"] is False
        assert instance.call("GET", D, None, "anna").status == 200  # others have their own


def test_guessing_keys_is_slowed_down(tmp_path, monkeypatch):
    """A stranger's wrong keys cost one address its turns, not anybody's answers."""
    monkeypatch.setattr(
        work_meter, "STRANGERS", (1e-6, work_meter.STRANGERS[1])
    )  # however slowly we guess
    with made(tmp_path / "instance").serving() as instance:
        guesses = [instance.call("GET", D, None, f"sulq_{i:016x}_{'A' * 43}") for i in range(150)]
        assert [g.status for g in guesses] == [401] * 100 + [429] * 50
        answered(instance)


def while_stuck(instance, monkeypatch, many, refused):
    """The replies to so many questions at once, answered when so many were refused."""
    from sulq.server.services.answers import Answers

    go_on, honest = threading.Event(), Answers._replies

    def slow(self, *batch):
        assert go_on.wait(60)
        return honest(self, *batch)

    monkeypatch.setattr(Answers, "_replies", slow)
    with ThreadPoolExecutor(many) as pool:
        sent = [pool.submit(instance.ask, f"age > {i}") for i in range(many)]
        while sum(s.done() for s in sent) < refused:
            time.sleep(0.01)
        go_on.set()
    return [s.result() for s in sent]


def test_too_many_at_once_is_refused(tmp_path, monkeypatch):
    """One person's requests do not fill the server."""
    with made(tmp_path / "instance").serving(at_once=3) as instance:
        replies = while_stuck(instance, monkeypatch, 6, 3)
    assert sorted(r.status for r in replies) == [200] * 3 + [429] * 3


def test_a_full_queue_is_refused_and_waiting_ends(tmp_path, monkeypatch):
    """A full queue refuses at once, and nobody waits for ever."""
    with made(tmp_path / "instance").serving(queue=2, wait_seconds=3.0) as instance:
        replies = while_stuck(instance, monkeypatch, 5, 4)
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
    terms = {"padding": True, "deadline_seconds": 6.0} if padding else {}
    with made(tmp_path / "instance").serving(**terms) as instance:
        monkeypatch.setattr(DuckDBEngine, "sums", slow)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(instance.ask, "secret", "anna")
            assert scanning.wait(60)
            second = pool.submit(instance.ask, "age > 3", "bob")
            while b'sulq_waiting{dataset="people"} 1' not in metrics(instance):
                time.sleep(0.005)
            path = path.format(instance.keys["bob"].split("_")[1])
            assert instance.call(method, path, body, "anna").status == 200
            go_on.set()
            assert first.result().status == 200
            assert second.result().status == status
    (ledger,) = (instance.folder / "ledgers").glob("*.people.ledger")
    assert b"age > 3" not in ledger.read_bytes()


def metrics(instance):
    return instance.call("GET", "/v1/metrics", None, "anna").body


# ---- buckets --------------------------------------------------------------------------------


def test_buckets_fill_again_and_forget_the_oldest(monkeypatch):
    """Two at once, then one in two seconds, on a clock that moves when told to."""
    now = [100.0]
    monkeypatch.setattr(admission, "REMEMBERED", 2)
    monkeypatch.setattr(admission, "time", SimpleNamespace(monotonic=lambda: now[0]))
    rate = Rate(0.5, 2)

    def taken(who):
        try:
            rate.take(who)
        except LimitReached as limit:
            return limit.retry_after
        return "taken"

    assert [taken("a") for _ in range(4)] == ["taken", "taken", 2.0, 2.0]
    now[0] += 1.5
    assert taken("a") == 0.5
    now[0] += 0.5
    assert [taken("a") for _ in range(2)] == ["taken", 2.0]
    assert [taken(who) for who in "bc"] == ["taken"] * 2
    assert [taken("a") for _ in range(2)] == ["taken"] * 2  # was forgotten


def test_one_person_has_as_many_under_way_as_allowed():
    """One more than that is refused; a place is free again when its request has ended."""
    once = AtOnce(1)
    with once.one_more("a"), pytest.raises(LimitReached), once.one_more("a"):
        pass
    with once.one_more("a"):
        pass


@pytest.mark.parametrize("amount", ["1e999999999", "1e-999999999", "1_000", "nan", "-1", "٣"])
def test_an_amount_of_a_billion_digits_is_refused_at_once(strict, amount):
    """An owner's allotment is a number as questions have them; others are answered meanwhile."""
    for _ in range(2):
        reply = strict.call("PUT", f"{D}/allotments/bob", {"queries": amount}, "anna")
        assert (reply.status, reply.error) == (409, "Refused")
    answered(strict)


def test_a_bound_beyond_floats_is_refused_in_words(strict):
    """10**399 is a JSON number that no float holds."""
    schema = {"secret": {"type": "integer", "low": 0, "high": 10**399}}
    body = {"name": "n", "source": "people.parquet", "schema": schema, "epsilon": 1.0, "queries": 1}
    reply = strict.call("POST", "/v1/datasets", body, "anna")
    assert (reply.status, reply.error) == (422, "SchemaError")


def test_seconds_are_metered_after_they_are_used(monkeypatch):
    """Whoever used up more than there was waits until it is made good; others do not."""
    now = [100.0]
    monkeypatch.setattr(admission, "time", SimpleNamespace(monotonic=lambda: now[0]))
    meter = Seconds(0.5, 2.0)
    meter.check("a")
    meter.spend("a", 3.0)
    with pytest.raises(LimitReached) as refused:
        meter.check("a")
    assert refused.value.retry_after == 2.0
    meter.check("b")
    now[0] += 2.5
    meter.check("a")

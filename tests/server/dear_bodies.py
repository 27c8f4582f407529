"""The dearest bodies for every route and for PostgreSQL's door, and floods of them.

python tests/server/dear_bodies.py HOST PORT MANY SIZE [KEY]     reads SIZE bytes, and sends them on
so many connections at once, again and again, until a line comes; then says what came back. With a
key, on connections to PostgreSQL's door that were let in with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial

SIZES = (1_000, 20_000, 200_000, 1_000_000)
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
MARK = "mark"
# These end the key, the session or the dataset that they are called with, whatever the body.
ENDING = ("/keys/rotate", "/sign-out", "/account/replace", "/owner/close", "/owner/freeze")


@dataclass(frozen=True)
class Dear:
    """One request, which is written when it is sent: a thousand large ones are much."""

    what: str
    size: int
    make: Callable[[], bytes] = field(compare=False)

    def __str__(self):
        return f"{self.what}, {self.size:,} bytes"


def repeated(part, size, between=b","):
    """So many of a part as have about this size in all."""
    return between.join([part] * max(1, size // (len(part) + len(between))))


GENERAL = ("objects", "one text", "names")  # for any field; what else is for fields of a name
FOR = {
    "query": ("a query", "a query of many", "a bad query", "keys", "depth"),
    "queries": ("queries", "bad queries", "numbers", "texts"),
    "rows": ("queries", "numbers"),
    "sql": ("sql", "columns", "brackets", "escapes"),
    "define": ("functions", "brackets"),
    "programs": ("texts", "escapes"),
    "schema": ("toml", "some depth"),
}


@lru_cache(maxsize=4)
def values(size):
    """JSON values that cost more than their bytes."""
    columns = repeated("sum(income)", size, ", ")
    return {
        "objects": b"[" + repeated(b"{}", size) + b"]",
        "numbers": b"[" + repeated(b"1", size) + b"]",
        "texts": b"[" + repeated(b'"a"', size) + b"]",
        "depth": b"[" * (size // 2) + b"]" * (size // 2),
        "some depth": b"[" + repeated(b"[" * 30 + b"]" * 30, size) + b"]",
        "names": b"{" + b",".join(b'"k%d":1' % i for i in range(size // 10)) + b"}",
        "one text": b'"' + b"a" * size + b'"',
        "escapes": b'"' + repeated(b"\\u00e9", size, b"") + b'"',
        "queries": b"[" + repeated(b'{"where":"age > 1"}', size) + b"]",
        "bad queries": b"[" + repeated(b'{"where":[{},{}]}', size) + b"]",
        "a query": b'{"where":' + json.dumps(condition(size)).encode() + b"}",
        "a query of many": b'{"values":[' + repeated(b'"age + 1"', size) + b"]}",
        "a bad query": b'{"where":[' + repeated(b"{}", size) + b"]}",
        "keys": b'{"rows":{"kind":"rows","keys":[' + repeated(b"1234567", size) + b"]}}",
        "sql": json.dumps(f"select count(*) from people where {condition(size)}").encode(),
        "columns": json.dumps(f"select {columns} from people").encode(),
        "toml": json.dumps("[columns.a]\n" + "a.b.c = [1, 2]\n" * (size // 16)).encode(),
        "brackets": json.dumps("select " + "(" * size).encode(),
        "functions": json.dumps("def f(x):\n" + "    y = x + 1\n" * (size // 15)).encode(),
    }


def condition(size):
    """A predicate with many parts."""
    return " or ".join(f"age > {i % 97}.5" for i in range(max(1, size // 14)))


def forms(size, token):
    """Forms of a page; the token proves that they are ours."""
    begun = f"csrf={token}&request={'a' * 32}&".encode()
    text = condition(size).replace(" ", "+").replace(">", "%3E").encode()
    return {
        "fields": begun + repeated(b"a=b", size, b"&"),
        "different fields": begun + b"&".join(b"k%d=v" % i for i in range(size // 8)),
        "a long field": begun + b"a=" + b"x" * size,
        "escapes": begun + b"a=" + repeated(b"%C3%A9", size, b""),
        "a long question": begun + b"kind=sql&sql=select+count(*)+from+people+where+" + text,
        "a long predicate": begun + b"kind=count&where=" + text,
        "columns": begun + b"&".join(
            b"name-%d=c%d&type-%d=integer" % (i, i, i) for i in range(size // 30)),
    }  # fmt: skip


def files(size, token):
    """Forms with files."""

    def part(name, more=""):
        return f'--{MARK}\r\ncontent-disposition: form-data; name="{name}"{more}\r\n\r\n'.encode()

    begun = part("csrf") + token.encode() + b"\r\n"
    return {
        "parts": begun + repeated(part("a") + b"b", size, b"\r\n"),
        "a long head": begun + part("a" * size),
        "a file": begun + part("file", '; filename="x.csv"') + b"1\n" * (size // 2),
    }


def request(method, path, headers, body=b"", chunk=None):
    """A request as bytes; with a body in chunks of so many bytes, or of an announced length."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if chunk is not None:
        lines.append("transfer-encoding: chunked")
        parts = [body[i : i + chunk] for i in range(0, len(body), chunk)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    elif body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


# ---- every route ----------------------------------------------------------------------------


def filled(path, name="people"):
    """A route's path with something in the place of each parameter."""
    known = {"name": name, "id": "d" * 32, "number": "1", "kind": "PCA", "file": "x.csv"}
    parts = [known.get(part[1:-1], "nothing") if part[:1] == "{" else part
             for part in path.split("/")]  # fmt: skip
    return "/".join(parts)


def api_routes(api):
    """Method, path and the fields of the body of each route under /v1."""
    described = api.openapi()
    for route in api.routes:
        for method in sorted(route.methods - {"HEAD"}):
            about = described["paths"].get(route.path, {}).get(method.lower(), {})
            content = about.get("requestBody", {}).get("content", {})
            fields = []
            for kind in content.values():
                schema = kind["schema"]
                name = schema.get("$ref", "").rpartition("/")[2]
                schema = described["components"]["schemas"].get(name, schema)
                fields = list(schema.get("properties", {}))
            yield method, route.path, fields


def page_routes(routes):
    """Method and path of each page; forms with a file are told apart."""
    for route in routes:
        for method in sorted(route.methods - {"HEAD"}):
            yield method, f"/console{route.path}", route.takes_file


def dear_requests(api, pages, key, cookie, token, sizes=SIZES):
    """Every route with the dearest bodies of each size, without a key and with one."""
    known = {"authorization": f"Bearer {key}", "content-type": JSON}
    for size in sizes:
        for method, path, fields in api_routes(api):
            place = filled(path, "nothing" if method == "DELETE" else "people")
            yield _dear(f"no key, {method} {path}, objects", size, method, place,
                        {"content-type": JSON}, "x", "objects")  # fmt: skip
            if path.endswith(ENDING):
                continue
            for name in fields or ["x"]:
                for what in (*GENERAL, *FOR.get(name, ())):
                    yield _dear(f"key, {method} {path}, {name}: {what}", size, method, place,
                                known, name, what)  # fmt: skip
            yield from oddly_sent(method, path, place, known, size)
        for method, path, takes_file in page_routes(pages):
            yield from _page(method, path, takes_file, cookie, token, size)


def _dear(about, size, method, place, headers, name, what):
    def make():
        return request(method, place, headers, b'{"%s":%s}' % (name.encode(), values(size)[what]))

    return Dear(about, size, make)


def oddly_sent(method, path, place, known, size):
    """Bodies and heads that cost more to take than to read."""
    names = {f"a{i}": "b" for i in range(size // 8)}
    packed = known | {"content-encoding": "gzip"}
    ways = {
        "tiny chunks": lambda: request(method, place, known, b"1" * size, 1),
        "headers": lambda: request(method, place, known | names),
        "packed": lambda: request(method, place, packed, b"\x1f\x8b" + b"1" * size),
    }
    for what, make in ways.items():
        yield Dear(f"key, {method} {path}, {what}", size, make)


def _page(method, path, takes_file, cookie, token, size):
    ours = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    ours["content-type"] = f"multipart/form-data; boundary={MARK}" if takes_file else FORM
    form = files if takes_file else forms
    for what in form(0, token) if method == "POST" else ["a body"]:

        def make(headers, what=what):
            body = form(size, token)[what] if method == "POST" else b"x" * size
            return request(method, filled(path), headers, body)

        if what in ("fields", "a body", "parts"):
            yield Dear(f"no key, {method} {path}, {what}", size, partial(make, ours))
        if not path.endswith(ENDING):
            known = ours | {"cookie": cookie}
            yield Dear(f"key, {method} {path}, {what}", size, partial(make, known))


# ---- PostgreSQL's door ----------------------------------------------------------------------


def message(kind, body=b""):
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def startup(**said):
    words = b"".join(f"{name}\0{value}\0".encode() for name, value in said.items())
    body = struct.pack("!i", 196608) + words + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def first_packets(user, size):
    """What a client sends that proves nothing."""
    yield "many settings", startup(user=user, **{f"a{i}": "b" for i in range(size // 8)})
    yield "a long option", startup(user=user, options="-c a=" + "'b' " * (size // 4))
    first = b"SCRAM-SHA-256\0" + struct.pack("!i", size) + b"n,,n=,r=" + b"a" * size
    yield "a long proof", startup(user=user) + message("p", first)
    yield "only a start", startup(user=user)


def statements(size):
    """What a client sends that was let in: each ends with what wants a reply."""
    text = f"select count(*) from people where {condition(size)}".encode()
    array = b"{" + repeated(b"1", size) + b"}"
    bind = b"\0a\0" + struct.pack("!hhi", 0, 1, len(array)) + array + struct.pack("!h", 0)
    typed = b"a\0select count(*) from people where age = any($1)\0" + struct.pack("!hi", 1, 1007)
    yield "a long query", message("Q", text + b"\0")
    yield "a long statement", message("P", b"\0" + text + b"\0\0\0") + message("S")
    yield "brackets", message("Q", b"select " + b"(" * size + b"\0")
    yield "many statements", message("Q", repeated(b"select 1", size, b";") + b"\0")
    yield "spaces", message("Q", b"set a" + b" " * size + b"b\0")
    yield "a long value", message("P", typed) + message("B", bind) + message("S")
    yield "short messages", repeated(message("P", b"\0select 1\0\0\0"), size, b"") + message("S")


# ---- floods ---------------------------------------------------------------------------------


async def _client(host, port, data, counts):
    while True:
        writer = None
        try:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(data)
            head = await asyncio.wait_for(reader.read(65_536), 60)
            is_http = head.startswith(b"HTTP")
            counts[(head[9:12] if is_http else head[:1]).decode() or "hung up"] += 1
            if is_http:
                await asyncio.wait_for(reader.read(), 5)
        except (OSError, TimeoutError, ValueError):
            counts["hung up"] += 1
            await asyncio.sleep(0.02)
        finally:
            if writer is not None:
                writer.transport.abort()


async def _flood(host, port, many, data):
    counts = Counter()
    tasks = [asyncio.ensure_future(_client(host, port, data, counts)) for _ in range(many)]
    print("begun", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for task in tasks:
        task.cancel()
    print(json.dumps(counts), flush=True)


def _let_in(port, key, data, counts):
    """Send this on connections that were let in, each reply's last message awaited."""
    import psycopg

    while True:
        try:
            with psycopg.connect(
                host="127.0.0.1", port=port, user=key[:21], password=key, dbname="sulq",
                autocommit=True, connect_timeout=30,
            ) as connection, socket.socket(fileno=os.dup(connection.fileno())) as own:  # fmt: skip
                own.settimeout(60)
                while True:
                    own.sendall(data)
                    said = b""
                    while not said.endswith(b"Z\0\0\0\5I"):
                        part = own.recv(65_536)
                        if not part:
                            raise OSError
                        said = said[-5:] + part
                    counts["answered"] += 1
        except (OSError, psycopg.Error):
            counts["hung up"] += 1
            time.sleep(0.05)


def _wire_flood(port, many, data, key):
    counts = Counter()
    for _ in range(many):
        threading.Thread(target=_let_in, args=(port, key, data, counts), daemon=True).start()
    print("begun", flush=True)
    sys.stdin.readline()
    print(json.dumps(counts), flush=True)
    os._exit(0)


@contextmanager
def flooding(host, port, data, many, *key):
    """The same request on so many connections at once, in here; gives what came back."""
    counts: dict[str, int] = {}
    child = subprocess.Popen(
        [sys.executable, __file__, host, str(port), str(many), str(len(data)), *key],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        child.stdin.write(data)
        child.stdin.flush()
        assert child.stdout.readline() == b"begun\n"
        yield counts
        counts |= json.loads(child.communicate(b"\n", timeout=60)[0])
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


if __name__ == "__main__":
    host, port, many, size, *key = sys.argv[1:]
    data = sys.stdin.buffer.read(int(size))
    if key:
        _wire_flood(int(port), int(many), data, key[0])
    asyncio.run(_flood(host, int(port), int(many), data))

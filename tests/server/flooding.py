"""One person's floods, from a process of their own, so that they take no time of whoever measures.

python tests/server/flooding.py URL KEY WHAT     until its input ends; then says what came back
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from urllib.parse import urlsplit

D = "/v1/datasets/people"
PRICES_A_SECOND = 1000
OPEN_LOOP = "1,000 prices a second"
HALF_REQUESTS = "300 half requests"
NUMBER = itertools.count(1)


def ask():
    return "POST", f"{D}/ask", {"query": {"where": f"income > {next(NUMBER)}"}}


def price():
    i = next(NUMBER)
    return "POST", f"{D}/price", {"query": {"values": [f"income * {i} + {k}" for k in range(300)]}}


ROUTES = {
    "ask": ask,
    "price": price,
    "sql": lambda: ("POST", f"{D}/sql", {
        "sql": f"select median(age) from people where income < {next(NUMBER)}"}),
    "estimate": lambda: ("POST", f"{D}/estimate", {"query": {"where": f"age > {next(NUMBER)}"}}),
    "sizes": lambda: ("POST", f"{D}/sizes", {"rows": [{"predicate": "region = 'north'"}]}),
    "keys": lambda: ("GET", f"{D}/keys", None),
    "budget": lambda: ("GET", f"{D}/budget", None),
    "answers": lambda: ("GET", f"{D}/answers?limit=1000", None),
    "description": lambda: ("GET", D, None),
    "health": lambda: ("GET", "/v1/health", None),
}  # fmt: skip
# What each flood does: the route, and how many connections ask as fast as they are answered. The
# open loop sends so many a second whatever comes back, each on a connection of its own.
FLOODS = {
    "1,000 questions": ("ask", 1000),
    OPEN_LOOP: ("price", 0),
    **{f"300 connections, {route}": (route, 300) for route in ROUTES},
    HALF_REQUESTS: (None, 300),
}


def written(route, key, host):
    method, path, body = ROUTES[route]()
    said = b"" if body is None else json.dumps(body).encode()
    kind = "content-type: application/json\r\n" if said else ""
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n{kind}"
        f"content-length: {len(said)}\r\n\r\n"
    )
    return head.encode() + said


async def replied(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    await reader.readexactly(size)
    return int(head.split(b" ", 2)[1])


async def client(url, key, flood, counts):
    """Ask on one connection after the other, for ever."""
    route, _ = FLOODS[flood]
    parts = urlsplit(url)
    while True:
        try:
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            while route is None:  # a request that never ends
                writer.write(b"POST /v1/datasets/people/ask HTTP/1.1\r\nhost: x\r\n")
                if not await reader.read(1):
                    break
            while route is not None:
                writer.write(written(route, key, parts.netloc))
                counts[await replied(reader)] += 1
        except (OSError, asyncio.IncompleteReadError):
            counts["hung up"] += 1
            await asyncio.sleep(0.05)


class Sent(asyncio.Protocol):
    """One request on one connection, and what came back."""

    def __init__(self, said, counts):
        self._said, self._counts, self._heard = said, counts, b""

    def connection_made(self, transport):
        transport.write(self._said)
        self._counts["sent"] += 1

    def data_received(self, data):
        self._heard += data

    def connection_lost(self, error):
        words = self._heard.split(b" ", 2)
        self._counts[int(words[1]) if len(words) > 1 else "hung up"] += 1


async def open_loop(url, key, counts):
    """So many prices a second, whether they are answered or not; what is missed is made up for."""
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    said = [closing(written("price", key, parts.netloc)) for _ in range(PRICES_A_SECOND)]
    opening, start, sent = set(), loop.time(), 0

    async def one(request):
        try:
            await loop.create_connection(lambda: Sent(request, counts), parts.hostname, parts.port)
        except OSError:
            counts["hung up"] += 1

    while True:
        due = int((loop.time() - start) * PRICES_A_SECOND)
        for _ in range(max(due - sent, 0)):
            task = asyncio.ensure_future(one(said[sent % len(said)]))
            opening.add(task)
            task.add_done_callback(opening.discard)
            sent += 1
        counts["due"] = due
        await asyncio.sleep(0.005)


def closing(request):
    """The same, with a connection that is not kept."""
    return request.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)


async def flood(url, key, what):
    counts = Counter()
    if what == OPEN_LOOP:
        tasks = [asyncio.ensure_future(open_loop(url, key, counts))]
    else:
        many = range(FLOODS[what][1])
        tasks = [asyncio.ensure_future(client(url, key, what, counts)) for _ in many]
    loop = asyncio.get_running_loop()
    while not counts and what != HALF_REQUESTS:
        await asyncio.sleep(0.01)
    print("begun", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(json.dumps({str(status): count for status, count in counts.items()}), flush=True)


@contextmanager
def flooding(url, key, what):
    """The flood goes on in here; gives what came back, once it is over."""
    counts: dict[str, int] = {}
    child = subprocess.Popen(
        [sys.executable, __file__, url, key, what], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "begun\n"
        yield counts
        counts |= json.loads(child.communicate("", timeout=60)[0])
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


if __name__ == "__main__":
    asyncio.run(flood(*sys.argv[1:]))

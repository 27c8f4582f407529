"""Part 7: the server under load: its rate beside a bare route's, latency, memory.

The bare route is in the same process behind the same gate: key, rate, body, thread, and one
durable commit. Both are asked by the same eight clients in turn, so that a busy moment hits both.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.data import SCHEMA, people
from benchmarks.measure import Line

CLIENTS = 8
SECONDS = 4.0  # of load, for each turn of each route
TURNS = 3
MANY = 50_000  # requests over which memory must stay flat
FLAT = 1.1  # times as much memory after them as after the first fifth

CHILD = """
import json, sqlite3, sys, threading
from pathlib import Path
import uvicorn
from fastapi import Request, Response
from sulq.server.app import make_app
from sulq.server.connections import protocol
from sulq.server.routes.parts import StrictRoute
from sulq.server.settings import Settings

settings = Settings.load(sys.argv[1], port=0)
app = make_app(settings)
lock, bare = threading.Lock(), sqlite3.connect(
    Path(sys.argv[1]) / "bare.db", isolation_level=None, check_same_thread=False
)
bare.execute("pragma journal_mode = wal")
bare.execute("pragma synchronous = full")
bare.execute("create table t (x text)")

def commit():
    with lock:
        bare.execute("begin immediate")
        bare.execute("insert into t values (?)", ("x" * 500,))
        bare.execute("commit")

async def route(request: Request) -> Response:
    await request.json()
    await app._gate._app.state.rooms.asking.run(commit)
    return Response(b'{"done":true}', media_type="application/json")

app._gate._app.router.add_api_route("/v1/bare", route, methods=["POST"])
from sulq.server.running import listening
bound = listening(settings)
print(bound.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, http=protocol(settings), log_config=None, access_log=False,
                              lifespan="on", ws="none")).run([bound])
"""


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=".bench") as folder:
        key = prepared(Path(folder) / "house")
        with_server(Path(folder) / "house", key, found := [])
        yield from found


def prepared(folder: Path) -> str:
    """A server's folder with one dataset of a thousand people, without padding."""
    from sulq.server.folder import begin
    from sulq.server.rooms import Rooms
    from sulq.server.settings import Settings

    key = begin(folder, "owner")
    (folder / "sulq.toml").write_text(
        "[server]\nport = 0\npadding = false\nslots = 16\nqueue = 1000\nat_once = 64\n"
        "rate = 1000000.0\nburst = 1000000\n"
    )
    rooms = Rooms.open(Settings.load(folder))
    arguments = {
        "source": str(people(100_000).resolve()), "schema": SCHEMA, "epsilon": 1.0,
        "queries": 10**7,
    }  # fmt: skip
    rooms.datasets.create(rooms.people.owner(), "people", arguments)
    rooms.close()
    return key.text


def with_server(folder: Path, key: str, found: list[Line]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        port = int(child.stdout.readline())
        load = Load(port, key)
        load.run(lambda _: load.columns(), 0.5)
        load.run(lambda i: load.ask(i), 1.0)
        load.run(lambda _: load.bare(), 1.0)
        ours, bare, latencies = [], [], []
        for _ in range(TURNS):
            bare.append(load.run(lambda _: load.bare(), SECONDS).rate)
            turn = load.run(lambda i: load.ask(i), SECONDS)
            ours.append(turn.rate)
            latencies += turn.latencies
        a, b = statistics.median(ours), statistics.median(bare)
        cuts = statistics.quantiles(latencies, n=1000)
        found.append(
            Line(
                "an answer over HTTP, 8 clients, cached columns", 1 / a, 1 / b,
                "a bare route with one durable commit", 2.5,
                f"{a:,.0f} against {b:,.0f} a second: {a / b:.2f} of the rate; latency under "
                f"load: median {cuts[499] * 1000:.1f} ms, p99 {cuts[989] * 1000:.1f} ms",
            )
        )  # fmt: skip
        found.append(memory(load, child.pid))
    finally:
        child.terminate()
        child.wait(60)


def memory(load: Load, pid: int) -> Line:
    """Resident memory after a fifth of many requests, and after all of them."""
    load.count(MANY // 5)
    early = resident(pid)
    load.count(MANY - MANY // 5)
    late = resident(pid)
    note = f"{early / 2**20:.0f} MiB after {MANY // 5:,}, {late / 2**20:.0f} MiB after {MANY:,}"
    return Line(
        f"memory of the server after {MANY:,} requests", late / 2**30, early / 2**30,
        "after a fifth of them", FLAT, note, "GiB",
    )  # fmt: skip


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Turn:
    def __init__(self, rate: float, latencies: list[float]) -> None:
        self.rate = rate
        self.latencies = latencies


class Load:
    """Eight clients, a thread and a connection each, that send whole requests as bytes."""

    def __init__(self, port: int, key: str) -> None:
        self.port = port
        self.key = key
        self.sent = 0
        self._lock = threading.Lock()

    def number(self) -> int:
        with self._lock:
            self.sent += 1
            return self.sent

    def ask(self, i: int) -> bytes:
        low, high = i % 331, i // 331  # another question each time, over the same two columns
        query = {"where": f"age > {low} and age < {high} and smoker"}
        return self._request("/v1/datasets/people/ask", {"query": query}, f"r{i}")

    def columns(self) -> bytes:
        query = {"by": ["age", "smoker"]}  # what is counted here once is kept
        return self._request("/v1/datasets/people/ask", {"query": query}, "columns")

    def bare(self) -> bytes:
        return self._request("/v1/bare", {"query": {"where": "age > 40 and smoker"}}, "r")

    def _request(self, path: str, body: object, request_id: str) -> bytes:
        said = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(said)}\r\n"
            f"idempotency-key: {request_id}\r\n\r\n"
        )
        return head.encode() + said

    def run(self, make: Callable[[int], bytes], seconds: float) -> Turn:
        """Load for so long."""
        until = time.perf_counter() + seconds
        return self._turn(make, lambda: time.perf_counter() < until)

    def count(self, requests: int) -> None:
        """So many requests, half of them answers, half looking at the budget and history."""
        left = iter(range(requests))
        looks = [
            b"GET /v1/datasets/people/budget HTTP/1.1\r\nhost: x\r\nauthorization: Bearer "
            + self.key.encode() + b"\r\n\r\n",
            b"GET /v1/datasets/people/answers?after=%d&limit=10 HTTP/1.1\r\nhost: x\r\n"
            b"authorization: Bearer " + self.key.encode() + b"\r\n\r\n",
        ]  # fmt: skip

        def make(i: int) -> bytes:
            if i % 2:
                return self.ask(i)
            look = looks[i // 2 % 2]
            return look % i if b"%d" in look else look

        def more() -> bool:
            with self._lock:
                return next(left, None) is not None

        self._turn(make, more)

    def _turn(self, make: Callable[[int], bytes], more: Callable[[], bool]) -> Turn:
        latencies: list[list[float]] = [[] for _ in range(CLIENTS)]

        def client(mine: list[float]) -> None:
            with socket.create_connection(("127.0.0.1", self.port)) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while more():
                    request = make(self.number())
                    start = time.perf_counter()
                    s.sendall(request)
                    replied(s)
                    mine.append(time.perf_counter() - start)

        threads = [threading.Thread(target=client, args=(mine,)) for mine in latencies]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - start
        every = [x for mine in latencies for x in mine]
        return Turn(len(every) / taken, every)


def replied(s: socket.socket) -> bytes:
    """One whole reply; anything but success stops the run."""
    data = s.recv(65536)
    while b"\r\n\r\n" not in data:
        data += s.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(data[:500])
    size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += s.recv(65536)
    return body


if __name__ == "__main__":
    Path(".bench").mkdir(exist_ok=True)
    for line in lines():
        print(f"{line.ratio:.2f} (at most {line.most:g}): {line.what}; {line.note}", flush=True)

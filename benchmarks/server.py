"""Part 7: the server under load, as shipped, beside itself with the protection off.

Everything is as it is by default but for the limits of one person's requests, which sixteen clients
of one person would meet. Two servers run beside each other, one with replies on a beat and one with
`padding = false`, and are asked by the same clients in turn, so that a busy moment hits both.
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
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.data import SCHEMA, people
from benchmarks.measure import Line

CLIENTS = 16
ROWS = 200_000
MANY_ROWS = 10_000_000
SECONDS = 4.0  # of load, for each turn of each server
TURNS = 3
ALONE = 30  # questions one after the other
FULL = 32  # questions of a full batch
MANY = 5_000  # requests over which memory must stay flat
FLAT = 1.1  # times as much memory after them as after the first fifth

CHILD = """
import sys
from sulq.server.process import listening, serve
from sulq.server.services.settings import Settings

settings = Settings.load(sys.argv[1])
bound = listening(settings)
print(bound.getsockname()[1], flush=True)
serve(settings, bound)
"""


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=".bench") as folder, ExitStack() as stack:
        on, off = (
            stack.enter_context(serving(Path(folder) / str(padding), ROWS, padding))
            for padding in (True, False)
        )
        yield from alone(on)
        yield from together(on, off)
        yield memory(on)
    with (
        tempfile.TemporaryDirectory(dir=".bench") as folder,
        serving(Path(folder) / "many", MANY_ROWS, True) as many,
    ):
        yield large(many)


@contextmanager
def serving(folder: Path, rows: int, padding: bool) -> Iterator[Load]:
    """A server in a process of its own."""
    key = prepared(folder, rows, padding)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    try:
        load = Load(int(child.stdout.readline()), key, child.pid)
        for make in (load.count_of, load.median_of):  # until each is measured often enough
            for _ in range(6):
                load.one(make)
        yield load
    finally:
        child.terminate()
        child.wait(60)


def prepared(folder: Path, rows: int, padding: bool) -> str:
    """A server's folder with one dataset of so many people."""
    from sulq.server.services.context import Services
    from sulq.server.services.folder import begin
    from sulq.server.services.settings import Settings

    key = begin(folder, "owner")
    word = "" if padding else "padding = false\n"  # as shipped says nothing
    (folder / "sulq.toml").write_text(
        f"[server]\nport = 0\nat_once = 64\nrate = 1000000.0\nburst = 1000000\n{word}"
    )
    services = Services.open(Settings.load(folder))
    arguments = {
        "source": str(people(rows).resolve()), "schema": SCHEMA, "epsilon": 1.0, "queries": 10**7,
    }  # fmt: skip
    services.datasets.create(services.people.owner(), "people", arguments)
    services.close()
    return key.text


def alone(load: Load) -> Iterator[Line]:
    """New questions of one client, one after the other, beside what is allowed."""
    for what, make, allowed in (
        ("a new count over HTTP, on the beat", load.count_of, 0.1),
        ("a new median(age) over HTTP, on the beat", load.median_of, 0.4),
    ):
        taken = [load.one(make) for _ in range(ALONE)]
        worst = max(taken)
        yield Line(
            what, statistics.median(taken), allowed, "allowed", 1.0,
            f"{ROWS:,} rows, {load.late} late so far, slowest {worst * 1000:.0f} ms",
        )  # fmt: skip


def together(on: Load, off: Load) -> Iterator[Line]:
    """Sixteen clients at once: the beat beside none, and beside what is allowed."""
    beating, free = [], []
    for _ in range(TURNS):
        free.append(off.run(off.count_of, SECONDS))
        beating.append(on.run(on.count_of, SECONDS))
    rates = [statistics.median(turn.rate for turn in turns) for turns in (beating, free)]
    waits = [
        statistics.median(x for turn in turns for x in turn.latencies) for turns in (beating, free)
    ]
    said = f"{rates[0]:,.0f} against {rates[1]:,.0f} a second, {on.late} late so far"
    what = f"{CLIENTS} clients, new counts"
    yield Line(f"latency: {what}", waits[0], waits[1], "without the beat", 2.0, said)
    yield Line(f"an answer: {what}", 1 / rates[0], 1 / rates[1], "without the beat", 2.0, said)
    yield Line(f"an answer: {what}", 1 / rates[0], 1 / 200, "200 a second", 1.0, said)


def large(load: Load) -> Line:
    """A new count of very many rows, beside the bare scan of a full batch of them."""
    import sulq
    from sulq import Query

    taken = statistics.median(load.one(load.count_of) for _ in range(6))
    source = str(people(MANY_ROWS).resolve())
    with sulq.open(source, SCHEMA, epsilon=1.0, queries=10**7, ledger=":memory:") as db:
        questions = [
            db.question(Query(where=f"age > {i} and income < {1000 + i} and smoker"))
            for i in range(FULL)
        ]
        bare = min(db.scan_seconds(questions, 600.0) for _ in range(3))
    return Line(
        f"a new count over HTTP, {MANY_ROWS:,} rows", taken, bare, f"a bare scan for {FULL}", 4.0,
        f"{load.late} late",
    )  # fmt: skip


def memory(load: Load) -> Line:
    """Resident memory after a fifth of many requests, and after all of them."""
    load.count(MANY // 5)
    early = resident(load.pid)
    load.count(MANY - MANY // 5)
    late = resident(load.pid)
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
    """Clients, a thread and a connection each, that send whole requests as bytes."""

    def __init__(self, port: int, key: str, pid: int) -> None:
        self.port = port
        self.key = key
        self.pid = pid
        self.sent = 0
        self.late = 0  # replies that said so; each was asked for again
        self._lock = threading.Lock()

    def number(self) -> int:
        with self._lock:
            self.sent += 1
            return self.sent

    def count_of(self, i: int) -> bytes:
        """A count that was not asked before."""
        query = {"where": f"age > {i % 60} and income < {1000 + i} and smoker"}
        return self._request("/v1/datasets/people/ask", {"query": query}, f"r{i}")

    def median_of(self, i: int) -> bytes:
        """A median that was not asked before."""
        sql = f"select median(age) from people where income < {1000 + i}"
        return self._request("/v1/datasets/people/sql", {"sql": sql}, f"r{i}")

    def _request(self, path: str, body: object, request_id: str) -> bytes:
        said = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(said)}\r\n"
            f"idempotency-key: {request_id}\r\n\r\n"
        )
        return head.encode() + said

    def one(self, make: Callable[[int], bytes]) -> float:
        """The seconds that one question takes by itself."""
        with self._connected() as s:
            return self._asked(s, make(self.number()))

    def _connected(self) -> socket.socket:
        s = socket.create_connection(("127.0.0.1", self.port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def _asked(self, s: socket.socket, request: bytes) -> float:
        """Seconds until the answer; a late one is asked for again, as a client does."""
        start = time.perf_counter()
        while True:
            s.sendall(request)
            status, body = replied(s)
            if status == 200:
                return time.perf_counter() - start
            said = json.loads(body)["error"]
            if said["type"] != "Late":
                raise RuntimeError(body[:500])
            with self._lock:
                self.late += 1
            time.sleep(said["retry_after_seconds"])

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
                return self.count_of(i)
            look = looks[i // 2 % 2]
            return look % i if b"%d" in look else look

        def more() -> bool:
            with self._lock:
                return next(left, None) is not None

        self._turn(make, more)

    def _turn(self, make: Callable[[int], bytes], more: Callable[[], bool]) -> Turn:
        latencies: list[list[float]] = [[] for _ in range(CLIENTS)]

        def client(mine: list[float]) -> None:
            with self._connected() as s:
                while more():
                    mine.append(self._asked(s, make(self.number())))

        threads = [threading.Thread(target=client, args=(mine,)) for mine in latencies]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - start
        every = [x for mine in latencies for x in mine]
        return Turn(len(every) / taken, every)


def replied(s: socket.socket) -> tuple[int, bytes]:
    """One whole reply: its status and body."""
    data = s.recv(65536)
    while b"\r\n\r\n" not in data:
        data += s.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += s.recv(65536)
    return int(head.split(b" ", 2)[1]), body


if __name__ == "__main__":
    Path(".bench").mkdir(exist_ok=True)
    for line in lines():
        print(f"{line.ratio:.2f} (at most {line.most:g}): {line.what}; {line.note}", flush=True)

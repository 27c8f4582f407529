"""Ways around the beat: what an analyst can see besides the reply tells nothing of a scan.

Each attack is played with a slow scan and a quick one, and must not tell them apart; its control,
where answers are given without a beat, must. `test_stopwatch.py` looks at servers by the clock.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pyarrow.parquet as pq
import pytest
from attacks.harness import SCHEMA as PEOPLE
from attacks.harness import people
from server.instance import made

import sulq
from sulq import Query
from sulq.engines.duckdb import DuckDBEngine
from sulq.pipeline import Order
from sulq.server.services.scan_times import MadeUp
from sulq.server.services.slots import Pace

D = "/v1/datasets/people"
HONEST = DuckDBEngine.sums
SLOW = "age > 77"  # the question whose scan takes long, where it does


class Scans:
    """Real scans of one question take as long as told, or until they are let go."""

    def __init__(self):
        self.seconds = 0.0
        self.begun = threading.Event()
        self.held = threading.Event()

    def sums(self, engine, queries):
        if any('77,{"column":"age"}' in q.text or '78,{"column":"age"}' in q.text for q in queries):
            self.begun.set()
            time.sleep(self.seconds)
            while self.held.is_set():
                time.sleep(0.002)
        return HONEST(engine, queries)


@pytest.fixture
def scans(monkeypatch):
    found = Scans()
    monkeypatch.setattr(DuckDBEngine, "sums", lambda self, queries: found.sums(self, queries))
    yield found
    found.held.clear()


@contextmanager
def beating(folder, slot=0.4, **said):
    with made(folder, queries=10_000).serving(
        padding=True, deadline_seconds=slot, most_late=0, **said
    ) as served:
        yield served


def entries(instance, who="bob"):
    """An analyst's own questions as listed: number and words."""
    listed = instance.call("GET", f"{D}/answers?limit=1000", None, who).json["answers"]
    return [(line["number"], line["question"]) for line in listed]


# ---- entry numbers --------------------------------------------------------------------------


def gap(instance, scans, seconds):
    """Ask a slow question, then a cheap one; how far apart are their entries?"""
    scans.seconds = seconds
    scans.begun.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(instance.ask, SLOW)
        assert scans.begun.wait(60)
        second = pool.submit(instance.ask, "age > 12")
        assert {first.result().status, second.result().status} <= {200, 503}
    (one, _), (two, _) = entries(instance)
    return two - one


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.6])
def test_entry_numbers_do_not_tell_how_long_a_scan_took(tmp_path, scans, seconds):
    """The next charge is written when the batch before is over, late or not."""
    with beating(tmp_path / "instance") as served:
        assert gap(served, scans, seconds) == 2  # the charge, its answer, the next charge


def test_control_entry_numbers_tell_where_each_question_goes_its_own_way(scans):
    """Two threads of one library: the second charge is before the first answer if that is slow."""
    found = {}
    for seconds in (0.0, 0.5):
        scans.seconds = seconds
        scans.begun.clear()
        with (
            sulq.open(people(300), PEOPLE, epsilon=1.0, queries=100, ledger=":memory:") as db,
            ThreadPoolExecutor(2) as pool,
        ):
            questions = [db.question(Query(where=where)) for where in (SLOW, "age > 12")]
            first = pool.submit(db.answer_all, [Order(questions[0])])
            assert scans.begun.wait(60)
            if not seconds:
                first.result()
            pool.submit(db.answer_all, [Order(questions[1])]).result()
            first.result()
            one, two = (charge.number for charge in db.history())
            found[seconds] = two - one
    assert found == {0.0: 2, 0.5: 1}


# ---- what is free ---------------------------------------------------------------------------

FREE = {
    "sizes": ("POST", f"{D}/sizes", {"rows": [{"predicate": "region = 'north'"}]}),
    "keys": ("GET", f"{D}/keys", None),
    "price": ("POST", f"{D}/price", {"query": {"where": "age > 30"}}),
    "budget": ("GET", f"{D}/budget", None),
    "answers": ("GET", f"{D}/answers", None),
    "description": ("GET", D, None),
    "health": ("GET", "/v1/health", None),
}


@pytest.mark.parametrize("what", FREE)
def test_what_is_free_waits_for_no_private_scan(tmp_path, scans, what):
    """It is answered while a scan goes on that ends only afterwards."""
    with beating(tmp_path / "instance", 0.1) as served, ThreadPoolExecutor(1) as pool:
        scans.held.set()
        asked = pool.submit(served.ask, SLOW, "anna")
        assert scans.begun.wait(60)
        assert served.call(*FREE[what]).status == 200
        assert scans.held.is_set()
        scans.held.clear()
        assert asked.result().status in (200, 503)


def test_control_a_count_on_the_scans_own_way_waits(scans):
    """The same count of a library, which has one connection, is not there while the scan is."""
    with (
        sulq.open(people(300), PEOPLE, epsilon=1.0, queries=100, ledger=":memory:") as db,
        ThreadPoolExecutor(2) as pool,
    ):
        lock = db._pipeline.engine._lock
        with lock:  # as a scan holds it
            waiting = pool.submit(db.sizes, sulq.Rows.where("region = 'north'"))
            time.sleep(0.1)
            assert not waiting.done()
            db.warm()  # as a server opens it
            assert pool.submit(db.sizes, sulq.Rows.where("region = 'south'")).result(60)
        waiting.result(60)


# ---- polling --------------------------------------------------------------------------------


def shown_after(instance, scans, seconds):
    """Poll one's answers and budget: in which order do charge and answer show, and how late?"""
    scans.seconds = seconds
    scans.begun.clear()
    with ThreadPoolExecutor(1) as pool:
        start = time.monotonic()
        asked = pool.submit(instance.ask, SLOW)
        seen = []
        while not asked.done() or "answered" not in seen:
            lines = instance.call("GET", f"{D}/answers").json["answers"]
            spent = instance.call("GET", f"{D}/budget").json["spent_micro"]
            for what in ["charged"] * bool(spent) + ["answered"] * any(x["answer"] for x in lines):
                if what not in seen:
                    seen.append(what)
                    at = time.monotonic() - start
        return asked.result().error if asked.result().status != 200 else "answer", at


def test_polling_tells_no_more_than_the_beat(tmp_path, scans):
    """An answer shows once the time for its scan is over, not when the scan is."""
    with beating(tmp_path / "quick", 3.0) as served:
        found, at = shown_after(served, scans, 0.0)
        assert (found, at > 2.1) == ("answer", True)  # the scan's share of the slot
    with beating(tmp_path / "late", 0.2) as served:
        found, at = shown_after(served, scans, 0.3)
        assert (found, at > 0.34) == ("Late", True)  # a whole slot more, though it was done


def test_control_without_a_beat_polling_tells(tmp_path, scans):
    """The answer shows as soon as the scan is over."""
    with made(tmp_path / "instance", queries=100).serving() as served:
        found, at = shown_after(served, scans, 0.0)
        assert (found, at < 2.1) == ("answer", True)  # on a busy machine too


# ---- a refresh ------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [True, False], ids=["measured again", "control"])
def test_after_a_refresh_periods_are_those_of_the_new_rows(tmp_path, monkeypatch, again):
    """A hundred times as many rows, which take as much longer: what is asked then is not late.

    With the slots of the rows before, every reply would be.
    """
    few, many = 50, 5000

    def seconds(rows):
        return (rows if again else few) / many / 2

    def pace(self):
        took = seconds(self.rows)
        return Pace(self.rows, took / 2, took, 1e-3, 1e-4, 1e-6)

    def sums(self, queries):
        time.sleep(0.1 * (self.rows >= many))
        return HONEST(self, queries)

    monkeypatch.setattr(MadeUp, "pace", pace)
    monkeypatch.setattr(MadeUp, "seconds", lambda self, *said: seconds(self.rows))
    monkeypatch.setattr(DuckDBEngine, "sums", sums)
    instance = made(tmp_path / "instance", people(few))
    with instance.serving(padding=True, most_late=0) as served:
        pq.write_table(people(many), instance.folder / "data" / "people.parquet")
        assert served.call("POST", f"{D}/refresh", {"reason": "grown"}, "anna").status == 200
        reply = served.ask("secret")
    assert (reply.status, again) in ((200, True), (503, False))


# ---- floods ---------------------------------------------------------------------------------


def test_a_flood_of_prices_and_counts_makes_no_answer_late(tmp_path):
    """One analyst's flood is refused or waits in its own line; another's answers are on time."""
    heavy = {"query": {"values": [f"income * {i}" for i in range(300)]}}
    instance = made(tmp_path / "instance", queries=10_000)
    terms = {"rate": 50.0, "burst": 200, "padding": True, "deadline_seconds": 0.3, "most_late": 0}
    with instance.serving(**terms) as served, ThreadPoolExecutor(12) as pool:
        stop, statuses = threading.Event(), set()

        def flood(i):
            while not stop.is_set():
                path, body = (f"{D}/price", heavy) if i % 2 else FREE["sizes"][1:]
                statuses.add(served.call("POST", path, body).status)

        sent = [pool.submit(flood, i) for i in range(10)]
        while not statuses & {429}:
            time.sleep(0.005)
        answers = [served.ask(f"age > {i}", "anna").status for i in range(8)]
        health = [served.call("GET", "/v1/health", None, None).status for _ in range(3)]
        stop.set()
        for one in sent:
            one.result()
    assert (set(answers), set(health)) == ({200}, {200})
    assert 500 not in statuses


def test_one_analyst_holds_neither_all_places_nor_all_connections(tmp_path):
    """Three hundred open connections and a hundred questions of one; another is answered."""
    import socket

    instance = made(tmp_path / "instance", queries=10_000)
    terms = {"padding": True, "deadline_seconds": 0.5, "most_late": 0, "connections": 200}
    with instance.serving(**terms) as served, ExitStack() as stack:
        host, port = served.url.removeprefix("http://").split(":")
        for _ in range(300):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
        with ThreadPoolExecutor(40) as pool:
            bobs = [pool.submit(served.ask, f"age > {i % 90}", "bob") for i in range(100)]
            annas = [served.ask(f"income > {i}", "anna").status for i in range(3)]
            assert {b.result().status for b in bobs} <= {200, 429, 503}
        assert annas == [200] * 3

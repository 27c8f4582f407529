"""What is late says so and costs nothing more; a slow machine counts as nothing, slow rows do."""

import asyncio
import itertools
import math
import threading
import time

import pytest
from attacks.harness import people
from server.instance import Instance, made

import sulq
from sulq.engines.duckdb import DuckDBEngine
from sulq.errors import Late
from sulq.server.services import lateness, scan_times
from sulq.server.services.scan_times import ScanTimes
from sulq.server.services.windows import Window
from sulq.values.schema import Schema

D = "/v1/datasets/people"
HONEST = DuckDBEngine.sums


class Slowness:
    """While set, all scans wait, or take half a second each; or those of real rows alone do."""

    def __init__(self):
        self.all, self.real = threading.Event(), threading.Event()
        self.machine = threading.Event()

    def sums(self, engine, queries):
        while self.all.is_set():
            time.sleep(0.002)
        if self.machine.is_set():
            time.sleep(0.5)
        if self.real.is_set() and not hasattr(engine, "made_up"):
            time.sleep(0.5)
        return HONEST(engine, queries)


@pytest.fixture
def slowness(monkeypatch):
    found = Slowness()
    monkeypatch.setattr(DuckDBEngine, "sums", lambda self, queries: found.sums(self, queries))
    yield found
    found.all.clear()
    found.real.clear()


@pytest.fixture
def slow(tmp_path, slowness, monkeypatch):
    """An instance of 20,000 people, whose made-up rows can be told apart."""
    honest = scan_times.on_rows

    def marked(*arguments):
        db = honest(*arguments)
        db._pipeline.engine.made_up = True
        return db

    monkeypatch.setattr(scan_times, "on_rows", marked)
    instance = made(tmp_path / "instance", people(20_000), queries=1000)
    with instance.serving(padding=True, deadline_seconds=0.3, most_late=3) as served:
        served.slowness = slowness
        yield served
        slowness.all.clear()
        slowness.real.clear()


def spent(instance):
    return instance.call("GET", f"{D}/budget", None, "anna").json["spent_micro"]


def alarms(instance):
    return [a["kind"] for a in instance.call("GET", "/v1/alarms", None, "anna").json["alarms"]]


def answered(instance, where, **headers):
    """The reply when it is there: a busy machine may be late again, which is free."""
    until = time.monotonic() + 60
    while (reply := instance.ask(where, **headers)).status == 503 and time.monotonic() < until:
        pass
    return reply


def after(seconds, *events):
    def clear():
        for event in events:
            event.clear()

    timer = threading.Timer(seconds, clear)
    timer.start()
    return timer


def test_what_is_late_says_so_is_charged_once_and_is_answered_later(slow):
    """About 10,000 have the secret: no wrong number, and asking again is free."""
    slow.slowness.all.set()
    reply = slow.ask("secret", Idempotency_Key="k")
    assert (reply.status, reply.error) == (503, "Late")
    assert reply.json["error"]["charged"] is True
    assert reply.json["error"]["retry_after_seconds"] == 0.3
    assert reply.headers["retry-after"] == "1"
    assert spent(slow) == 10**6
    slow.slowness.all.clear()
    again = answered(slow, "secret", Idempotency_Key="k")
    assert again.status == 200
    assert abs(again.json["answer"]["value"] - 10_000) < 6.2 * again.json["answer"]["std"] + 500
    assert slow.ask("secret").json["answer"]["exact"] == again.json["answer"]["exact"]
    assert spent(slow) == 10**6


def test_a_slow_machine_lengthens_the_period_publicly_and_counts_as_nothing(slow):
    """Made-up rows take as long: an alarm, no freeze, and the slot is back when it is quick."""
    for i in range(4):
        slow.slowness.machine.set()
        asked = slow.ask(f"age > {i}")
        slow.slowness.machine.clear()
        assert asked.error == "Late" or slow.call("GET", D).json["periods_longer"] > 1
        assert answered(slow, f"age > {i}").status == 200
    assert set(alarms(slow)) == {"slow"}
    assert slow.call("GET", D).json["state"] == "open"
    until = time.monotonic() + 120
    while slow.call("GET", D).json["periods_longer"] > 1:
        assert slow.ask("age > 50").status in (200, 503)
        assert time.monotonic() < until
    assert slow.call("GET", D).json["deadline_seconds_of_a_count"] == 0.3


def test_rows_slower_than_made_up_ones_are_an_alarm_and_too_many_freeze(slow, monkeypatch):
    """Being late may then tell a bit about rows, so it may not go on."""
    monkeypatch.setattr(scan_times, "PAIRS", 2)
    monkeypatch.setattr(ScanTimes, "seconds", lambda self, questions: 0.0)  # whatever else runs
    slow.slowness.real.set()
    for i in range(3):
        assert slow.ask(f"age > {i}").error == "Late"
        assert slow.ask(f"age > {i}").status == (200 if i < 2 else 409)
    slow.slowness.real.clear()
    assert alarms(slow) == ["late"] * 3
    assert slow.ask("age > 9").error == "Frozen"
    assert slow.call("GET", D).json["periods_longer"] == 1
    slow.call("POST", "/v1/alarms/seen", None, "anna")
    slow.call("PATCH", D, {"state": "open"}, "anna")
    assert slow.ask("age > 9").status == 200


@pytest.mark.parametrize("pairs", [1, 2, 3, 4])
def test_rows_that_are_alike_are_blamed_as_rarely_as_is_said(pairs):
    """All orders of the times, and every limit: at most one in comb(2n, n), whatever they are."""
    ranks = range(2 * pairs)
    for limit in range(-1, 2 * pairs):
        blamed = sum(
            lateness.judged(zip(order[::2], order[1::2], strict=True), limit, None)[0]
            is lateness.Verdict.ROWS
            for order in itertools.permutations(ranks)
        )
        assert blamed * math.comb(2 * pairs, pairs) <= math.factorial(2 * pairs)
    assert math.comb(2 * scan_times.PAIRS, scan_times.PAIRS) >= 100_000
    assert math.comb(6, 3) == 20  # control: of three tries in turn, as before, one in twenty


def test_rows_a_little_dearer_than_made_up_ones_are_not_blamed_for_a_slow_machine():
    """A slot has room for them on a quiet machine; where all is slower, they are too."""
    slow = [(1.6, 1.6 * 1.3)] * 10  # a slot of 1.75 times what made-up rows take, which is 1
    assert lateness.judged(slow, 1.75, 1.0)[0] is lateness.Verdict.MOMENT
    assert lateness.judged(slow, 1.75, None)[0] is lateness.Verdict.ROWS  # control: as before
    dearer = [(1.6, 1.6 * 2.0)] * 10
    assert lateness.judged(dearer, 1.75, 1.0)[0] is lateness.Verdict.ROWS
    assert lateness.judged([(1.8, 9.0)], 1.75, 1.0)[0] is lateness.Verdict.MACHINE


def test_the_alarm_speaks_of_texts_only_where_there_are_some():
    """And names those whose length is not declared."""
    from sulq.server.services.datasets import slow_rows

    def schema(**columns):
        return Schema.load({"columns": columns})

    number = {"type": "integer", "low": 0, "high": 9}
    short = {"type": "text", "max_length": 9}
    assert "text" not in slow_rows(schema(age=number))
    assert "text" not in slow_rows(schema(age=number, city=short))
    assert "those of note are" in slow_rows(schema(age=number, city=short, note={"type": "text"}))


def test_what_fails_while_a_miss_is_looked_into_keeps_nobody_from_asking(slow, monkeypatch):
    """Its answers were given by then; it is for the log alone, and the next batch begins."""

    def failing(self, questions):
        raise OSError("the made-up rows are gone")

    monkeypatch.setattr(ScanTimes, "seconds", failing)
    slow.slowness.real.set()
    assert slow.ask("age > 1").error == "Late"
    slow.slowness.real.clear()
    assert answered(slow, "age > 1").status == 200
    assert answered(slow, "age > 2").status == 200
    assert alarms(slow) == []


def test_what_follows_from_rows_that_are_slow_waits_for_a_public_moment(slow, monkeypatch):
    """Who looks at the dataset all the time would else see how long they took, in a freeze."""
    held, conclude = [], Window.conclude
    monkeypatch.setattr(scan_times, "PAIRS", 2)
    monkeypatch.setattr(ScanTimes, "seconds", lambda self, questions: 0.0)
    monkeypatch.setattr(Window, "conclude", lambda window: held.append(window))
    slow.slowness.real.set()
    for i in range(4):
        assert slow.ask(f"age > {i}").error == "Late"
        assert slow.ask(f"age > {i}").status == 200
    slow.slowness.real.clear()
    assert alarms(slow) == []
    for window in held[:3]:
        assert slow.call("GET", D).json["state"] == "open"
        conclude(window)
    assert slow.call("GET", D).json["state"] == "frozen"


def test_a_dataset_that_closed_is_not_looked_into():
    """Nor is it closed while it is."""
    from concurrent.futures import ThreadPoolExecutor
    from types import SimpleNamespace

    from sulq.server.services.datasets import Use

    told = []
    use = Use(SimpleNamespace(close=lambda: told.append("closed")))
    window = SimpleNamespace(look_into=lambda: (use.end(), told.append("looked into")))
    aside = lateness.Lateness(None, None).aside
    with ThreadPoolExecutor(1) as threads:
        for _ in range(2):
            asyncio.run(aside(SimpleNamespace(use=use), threads, window.look_into))
    assert told == ["looked into", "closed"]


def test_a_refusal_and_a_stored_answer_are_heard_of_in_a_late_batch(slow):
    """What no longer depends on rows is said on the beat, whatever the others' rows take."""
    stored = slow.ask("secret").json["answer"]
    slow.slowness.all.set()
    replies = {}
    body = {"query": {"where": "age > 3", "error": 1}}  # dearer than all there is

    def ask(name, function):
        replies[name] = function()

    threads = [
        threading.Thread(target=ask, args=pair)
        for pair in (("late", lambda: slow.ask("age > 1")), ("stored", lambda: slow.ask("secret")),
                     ("dear", lambda: slow.call("POST", f"{D}/ask", body)))
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads[:1]:
        thread.join()
    slow.slowness.all.clear()
    for thread in threads[1:]:
        thread.join()
    assert replies["late"].error == "Late"
    assert replies["stored"].json["answer"]["exact"] == stored["exact"]
    assert replies["dear"].error == "BudgetExceeded"


def test_a_client_waits_and_asks_again_by_itself(slow):
    """The same call as ever, only later; or Late, if it is told not to wait."""
    with sulq.connect(slow.url, key=slow.keys["bob"], name="people") as db:
        slow.slowness.all.set()
        timer = after(0.7, slow.slowness.all)
        assert abs(db.count("secret").value - 10_000) < 2000
        timer.join()
        slow.slowness.all.set()
        db.wait_for_late(0.0)
        with pytest.raises(Late) as late:
            db.count("age > 40")
        assert late.value.charged
        assert 0.3 <= late.value.retry_after < 60  # the slot, or one that was lengthened
        slow.slowness.all.clear()


def test_a_scan_that_does_not_end_is_stopped_and_heard_of_as_late(tmp_path, monkeypatch):
    """Every way a scan can stop is the one `Late`; the question is computed again, free."""
    from sulq.engines.failures import ScanStopped

    switch = {"on": True}

    def sums(self, queries):
        if switch["on"] and len(queries):
            raise ScanStopped
        return HONEST(self, queries)

    monkeypatch.setattr(DuckDBEngine, "sums", sums)
    instance = made(tmp_path / "instance", queries=100)
    with instance.serving(padding=True, deadline_seconds=0.1) as served:
        reply = served.ask("secret")
        assert (reply.status, reply.error) == (503, "Late")
        switch["on"] = False
        assert answered(served, "secret").status == 200
        assert spent(served) == 10**6
        assert served.call("GET", D).json["state"] == "open"


# ---- late = "noise" -------------------------------------------------------------------------


@pytest.fixture
def noisy(tmp_path, slowness):
    """The same where the owner chose noise for what is late."""
    instance = made(tmp_path / "instance", people(20_000), queries=1000)
    terms = {"padding": True, "deadline_seconds": 0.25, "most_late": 3, "late": "noise"}
    with instance.serving(**terms) as served:
        served.slowness = slowness
        yield served
        slowness.all.clear()


def test_late_noise_leaves_on_time_and_is_charged(noisy):
    """A late reply knows nothing of 10,000 (1e-9), is paid, and is never stored."""
    noisy.slowness.all.set()
    start = time.monotonic()
    reply = noisy.ask("secret", Idempotency_Key="k")
    assert 0.25 <= time.monotonic() - start < 60  # not before the end; and it does leave
    std = reply.json["answer"]["std"]
    assert abs(reply.json["answer"]["value"]) < 6.2 * std
    assert spent(noisy) == 10**6
    noisy.slowness.all.clear()
    again = noisy.ask("secret", Idempotency_Key="k")
    assert again.body == reply.body  # one reply for one request id
    many = {"queries": [{"where": "secret"}]}
    assert noisy.call("POST", f"{D}/ask", many, Idempotency_Key="k").status == 422
    with Instance(noisy.folder, keys=noisy.keys).serving() as patient:
        truth = patient.ask("secret", Idempotency_Key="another")
    assert abs(truth.json["answer"]["value"] - 10_000) < 6.2 * std + 500
    assert spent(noisy) == 10**6


def test_late_noise_leaves_although_scans_are_stuck_and_too_much_freezes(noisy):
    """More are stuck than there are threads for; each reply still leaves, and the owner hears.

    Three are too many; on a busy machine one may count twice, as late and as slower than made-up
    rows: it freezes after two, or the third is the one that does.
    """
    noisy.slowness.all.set()
    left = [noisy.ask(f"age > {i}").status for i in range(4)].count(200)
    assert 2 <= left <= 3
    assert [noisy.ask(f"age > {i}").status for i in range(10, 12)] == [409, 409]
    assert alarms(noisy) in (["late"] * 3, ["late"] * 4)
    assert spent(noisy) == left * 10**6


def test_the_threads_of_a_closed_dataset_end(tmp_path):
    """Made, asked and closed many times over, a server has as many threads as before."""
    instance = made(tmp_path / "instance", queries=100)
    with instance.serving(padding=True, deadline_seconds=0.05) as served:

        def threads():
            assert served.ask("secret", "anna").status in (200, 503)
            sizes = {"rows": [{"predicate": "region = 'north'"}]}
            assert served.call("POST", f"{D}/sizes", sizes, "anna").status == 200
            return sum(t.name.startswith("sulq") for t in threading.enumerate())

        before = threads()
        for _ in range(6):
            assert served.call("POST", f"{D}/refresh", {"reason": "again"}, "anna").status == 200
            after = threads()
        assert after <= before + 4

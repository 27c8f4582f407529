"""Replies leave at a public deadline: time tells nothing, and what is late leaves as noise.

The paired test is that of attacks.md: 300 pairs on twins in random order, the median difference
within 1 ms and Wilcoxon's p above 1e-4. A false alarm needs that twice in a row: 1e-8.
"""

import itertools
import json
import random
import statistics
import threading
import time
from contextlib import ExitStack
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from server.house import made

from sulq.engines.duckdb import DuckDBEngine
from sulq.errors import LimitReached
from sulq.promise import Promise
from sulq.question import Work
from sulq.server.deadlines import FACTOR, Pace, pace_of, random_delay, seconds_for
from sulq.server.settings import Settings

D = "/v1/datasets/people"
PAIRS = 300
SECONDS = 1 / 25  # the deadline in these tests
NUMBER = itertools.count()
SCHEMA = {
    "id": {"key": True},
    "secret": {"type": "boolean", "nullable": False},
    "note": {"type": "text"},
}


def table(text):
    """Fifty rows, one of which has this note: its length is all that differs."""
    notes = ["short"] * 49 + [text]
    return pa.table({"id": range(50), "secret": [i % 2 == 0 for i in range(50)], "note": notes})


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two houses on disk; a look at the note of one row takes many times longer in the second."""
    folder = tmp_path_factory.mktemp("clock")
    texts = "short", "ab" * 400_000
    return [made(folder / str(i), table(t), SCHEMA, queries=10**6) for i, t in enumerate(texts)]


def paired(houses, pairs):
    """The differences in seconds between the two servers' replies, asked in random order."""
    order, differences = random.Random(7), []
    for _ in range(pairs):
        body = {"query": {"where": f"note like '%bb%a{next(NUMBER)}%'"}}  # none is stored yet
        taken = {}
        for k in order.sample([0, 1], 2):
            start = time.perf_counter()
            reply = houses[k].call("POST", f"{D}/ask", body)
            taken[k] = time.perf_counter() - start
            assert reply.status == 200
        differences.append(taken[1] - taken[0])
    return differences


def tells_apart(differences):
    """Would a stopwatch know which server it was?"""
    far = abs(statistics.median(differences)) > 0.001
    return far or stats.wilcoxon(differences).pvalue <= 1e-4


def served(stack, houses, **said):
    return [stack.enter_context(house.serving(**said)) for house in houses]


def test_time_does_not_tell_twins_apart(twins):
    with ExitStack() as stack:
        houses = served(stack, twins, padding=True, deadline_seconds=SECONDS, most_late=0)
        assert not (tells_apart(paired(houses, PAIRS)) and tells_apart(paired(houses, PAIRS)))


def test_control_without_padding_it_does(twins):
    with ExitStack() as stack:
        assert tells_apart(paired(served(stack, twins), 40))


# ---- late -----------------------------------------------------------------------------------


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A house of 20,000 people whose engine waits while `stuck` is set."""
    from attacks.harness import people

    stuck, honest = threading.Event(), DuckDBEngine.sums

    def sums(self, queries):
        while stuck.is_set():
            time.sleep(0.005)
        return honest(self, queries)

    monkeypatch.setattr(DuckDBEngine, "sums", sums)
    house = made(tmp_path / "house", people(20_000), queries=1000)
    with house.serving(padding=True, deadline_seconds=0.25, most_late=3, slots=4) as served:
        served.stuck = stuck
        yield served
        stuck.clear()


def value(reply):
    assert reply.status == 200
    return reply.json["answer"]["value"]


def spent(house):
    return house.call("GET", f"{D}/budget", None, "anna").json["spent_micro"]


def test_a_late_reply_leaves_on_time_as_noise_and_is_charged(slow):
    """About 10,000 have the secret; a late reply knows nothing of that (1e-9), and is paid."""
    slow.stuck.set()
    start = time.monotonic()
    reply = slow.ask("secret", Idempotency_Key="k")
    taken = time.monotonic() - start
    std = reply.json["answer"]["std"]
    assert 0.25 <= taken < 5
    assert abs(value(reply)) < 6.2 * std
    assert spent(slow) == 10**6
    slow.stuck.clear()
    again = slow.ask("secret", Idempotency_Key="k")
    assert again.body == reply.body  # one reply for one request id
    truth = slow.ask("secret", Idempotency_Key="another")
    assert abs(value(truth) - 10_000) < 6.2 * std + 500  # never stored as the question's answer
    assert spent(slow) == 10**6


def test_a_late_batch_and_a_late_statement_have_their_shape(slow):
    slow.stuck.set()
    body = {"queries": [{"by": "region"}, {"where": "secret"}]}
    answers = slow.call("POST", f"{D}/ask", body).json["answers"]
    assert [len(a["exact"]) for a in answers] == [3, 1]
    statement = {"sql": "select region, avg(income) from people group by region"}
    rows = slow.call("POST", f"{D}/sql", statement).json["table"]["rows"]
    assert [r["region"] for r in rows] == ["north", "south", "other"]


def test_a_late_reply_under_one_id_has_one_form(slow):
    """The same question as a list or a statement, under the id of noise, is another request."""
    slow.stuck.set()
    first = slow.ask("secret", Idempotency_Key="k")
    slow.stuck.clear()
    many = {"queries": [{"where": "secret"}]}
    assert slow.call("POST", f"{D}/ask", many, Idempotency_Key="k").status == 422
    statement = {"sql": "select count(*) from people where secret"}
    assert slow.call("POST", f"{D}/sql", statement, Idempotency_Key="k").status == 422
    assert slow.ask("secret", Idempotency_Key="k").body == first.body
    assert spent(slow) == 10**6


def test_stuck_scans_hold_up_nobodys_noise(tmp_path, monkeypatch):
    """More scans are stuck than there are slots: each reply still leaves, as noise, on time."""
    go_on, honest = threading.Event(), DuckDBEngine.sums

    def sums(self, queries):
        assert go_on.wait(60)
        return honest(self, queries)

    house = made(tmp_path / "house", queries=100)
    with house.serving(padding=True, deadline_seconds=0.2, most_late=0, slots=1) as served:
        monkeypatch.setattr(DuckDBEngine, "sums", sums)
        try:
            replies = [served.ask(f"age > {i}") for i in range(4)]
        finally:
            go_on.set()
        assert [r.status for r in replies] == [200] * 4
        assert spent(served) == 4 * 10**6
        assert len(served.call("GET", "/v1/alarms", None, "anna").json["alarms"]) == 4


def test_the_owner_hears_of_it_and_too_many_freeze_the_dataset(slow):
    """Being late may tell a bit about rows, so it may not go on."""
    slow.stuck.set()
    assert [slow.ask(f"age > {i}").status for i in range(4)] == [200, 200, 200, 409]
    alarms = slow.call("GET", "/v1/alarms", None, "anna").json["alarms"]
    assert [a["kind"] for a in alarms] == ["late"] * 3
    assert alarms[0]["dataset"] == "people"
    assert slow.call("GET", "/v1/alarms", None, "carl").json["alarms"] == []
    assert b"sulq_late_total" in slow.call("GET", "/v1/metrics", None, "anna").body
    slow.stuck.clear()
    slow.call("POST", "/v1/alarms/seen", None, "anna")
    slow.call("PATCH", D, {"state": "open"}, "anna")
    assert slow.ask("age > 50").status == 200


def test_one_who_asks_again_in_the_meantime_cannot_tell_when_the_sum_was_there(slow):
    """Every reply to a paid question waits for its own deadline, stored or not."""
    slow.ask("secret")
    start = time.monotonic()
    slow.ask("secret")
    assert time.monotonic() - start >= 0.25
    listed = slow.call("GET", f"{D}/answers").json["answers"]
    assert listed[0]["answer"] is None  # until no deadline can have been later


def test_a_slot_is_held_until_the_deadline(tmp_path):
    """Others' turns do not tell how long a scan took."""
    house = made(tmp_path / "house", queries=100)
    with house.serving(padding=True, deadline_seconds=0.2, slots=1) as served:
        ends = []

        def ask(i):
            served.ask(f"age > {i}")
            ends.append(time.monotonic())

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ends)[2] - start >= 0.6


def test_a_refusal_does_not_wait(tmp_path):
    """No row was read for it, so its time tells nothing."""
    house = made(tmp_path / "house", queries=1)
    with house.serving(padding=True, deadline_seconds=3.0) as served:
        start = time.monotonic()
        assert (
            served.call("POST", f"{D}/ask", {"query": {"where": "secret", "error": 1}}).status
            == 402
        )
        assert served.ask("no_such = 1").status == 422
        assert time.monotonic() - start < 3


# ---- deadlines ------------------------------------------------------------------------------


def test_a_deadline_is_ten_times_the_worst_case_on_a_grid_of_powers_of_two(tmp_path):
    settings = Settings(tmp_path)
    pace = Pace(scan=0.02, letter=1e-5, value=1e-3, number=1e-5)
    for work in (Work(100, 1, 1), Work(5000, 20, 20), Work(300, 1, 4000)):
        seconds = seconds_for(work, pace, settings)
        worst = 0.02 + 1e-5 * work.letters + 1e-3 * work.values + 1e-5 * work.numbers
        assert FACTOR * worst <= seconds < 2 * FACTOR * worst
        assert Fraction(seconds).limit_denominator(1024) == Fraction(2) ** round(np.log2(seconds))
    assert seconds_for(Work(1, 1, 1), Pace(0, 0, 0, 0), settings) == 1 / 32
    assert seconds_for(Work(1, 1, 1), pace, Settings(tmp_path, padding=False)) is None
    assert seconds_for(Work(9, 9, 9), pace, Settings(tmp_path, deadline_seconds=0.5)) == 0.5
    with pytest.raises(LimitReached):
        seconds_for(Work(10**6, 1, 1), pace, settings)
    assert pace_of(pace.to_json()) == pace


def test_a_dataset_is_measured_without_looking_at_its_rows(tmp_path, monkeypatch):
    """What is measured comes from made-up rows; the real ones are not scanned."""
    from sulq.server import measuring

    monkeypatch.setattr(measuring, "TURNS", 1)
    house = made(tmp_path / "house")
    with house.rooms(padding=True) as rooms:
        record = rooms.datasets.find(rooms.people.owner("anna").house, "people")
        db = rooms.datasets.opened(record).db
        db._engine.sums = None  # any scan would fail
        pace = measuring.measure(db, "parquet", house.folder, 2)
        assert pace.scan > 0
        assert pace.letter >= 0
        assert db.budget.spent == 0
    assert not list(house.folder.glob(".pace-*"))


def test_the_deadline_of_a_question_is_public(tmp_path):
    house = made(tmp_path / "house")
    with house.serving(padding=True, deadline_seconds=0.125) as served:
        price = served.call("POST", f"{D}/price", {"query": {"where": "secret"}}).json
        assert price["deadline_seconds"] == 0.125
        described = served.call("GET", D).json
        assert (described["padding"], described["deadline_seconds_of_a_count"]) == (True, 0.125)


def test_the_papers_delay_has_its_mean_and_its_deviation():
    """Normal, mean t_max sqrt(R) ln(T/delta), deviation t_max sqrt(R). False alarm 1e-9."""
    promise, rows, seconds = Promise(1.0, 1e-6, 100), 1000, 0.5
    draws = np.array([random_delay(seconds, rows, promise) for _ in range(20_000)])
    std = seconds / FACTOR / rows * promise.std
    mean = std * np.log(100 / 1e-6)
    z = (draws.mean() - mean) / (std / np.sqrt(len(draws)))
    assert abs(z) < 6.2
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], len(draws) - 1) / (len(draws) - 1)
    assert low < draws.var(ddof=1) / std**2 < high
    wrong = (draws.mean() - 1.05 * mean) / (std / np.sqrt(len(draws)))
    assert abs(wrong) > 6.2  # and a mean 5% off would be noticed


def test_the_random_delay_comes_on_top(tmp_path, monkeypatch):
    from sulq.server import asking

    monkeypatch.setattr(asking, "random_delay", lambda *_: 0.3)
    house = made(tmp_path / "house")
    with house.serving(padding=True, deadline_seconds=0.1, random_delay=True) as served:
        start = time.monotonic()
        assert served.ask("secret").status == 200
        assert time.monotonic() - start >= 0.4


def test_noise_drawn_ahead_is_given_once_and_forgotten_in_a_fork():
    """Each number is used once; a copy of the process starts with none."""
    import os

    from sulq.noise import Gaussian
    from sulq.pace import AHEAD, NoiseAhead

    class Counting:
        def __init__(self):
            self.next = 0

        def draw(self, law, count):
            self.next += count
            return list(range(self.next - count, self.next))

    source = Counting()
    ahead = NoiseAhead(source)
    law, other = Gaussian(Fraction(10**6)), Gaussian(Fraction(10**7))
    drawn = [x for _ in range(60) for x in ahead.draw(law, 1) + ahead.draw(other, 2)]
    assert len(set(drawn)) == len(drawn) == 180
    assert len(ahead.draw(law, AHEAD)) == AHEAD
    ahead.draw(law, 1)
    ahead._process = os.getpid() + 1  # as if this were a fork
    before = source.next
    assert ahead.draw(law, 1)[0] >= before
    assert ahead.draw(law, 0) == []


def test_scans_stop_at_their_moment_and_only_their_own():
    """A scan past its moment is interrupted; the next one is not."""
    from sulq.errors import EngineFailed
    from sulq.pace import BoundedEngine, TooLate, until

    class Engine:
        schema, rows = None, 0

        def __init__(self):
            self.stop = threading.Event()

        def interrupt(self):
            self.stop.set()

        def sums(self, queries):
            self.stop.clear()
            if queries == "slow" and self.stop.wait(20):
                raise EngineFailed("interrupted")
            return queries

    engine = BoundedEngine(Engine())
    with until(time.monotonic() + 0.05), pytest.raises(TooLate):
        engine.sums("slow")
    with until(time.monotonic() + 5):
        assert engine.sums("quick") == "quick"
    assert engine.sums("quick") == "quick"
    engine._turn.acquire()  # another scan goes on
    with until(time.monotonic() + 0.05), pytest.raises(TooLate):
        engine.sums("quick")


def test_the_server_stops_gracefully_with_what_is_under_way(tmp_path):
    """Told to stop, it first answers what it has admitted."""
    house = made(tmp_path / "house")
    replies = []
    with house.serving(padding=True, deadline_seconds=0.4) as served:
        thread = threading.Thread(target=lambda: replies.append(served.ask("secret")))
        thread.start()
        while not spent(served):
            time.sleep(0.01)
    thread.join()
    assert replies[0].status == 200
    assert json.loads(replies[0].body)["answer"]["price_micro"] == 10**6

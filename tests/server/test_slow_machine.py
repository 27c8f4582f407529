"""A machine made ten times slower in the middle: what is late says so, and nothing else changes.

The server is a process of its own, stopped nine tenths of the time for a while. No number is wrong,
none is lost or paid twice, the owner hears of a slow machine and of nothing else, and slots are
as they were when it is quick again. In `make test` for a moment, in `make soak` for as long as
slots take to be lengthened and to come back, and with controls: servers in which one thing is
broken (altered.py), where the same test finds what it looks for.
"""

import itertools
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from attacks.harness import people
from server.instance import made
from server.processes import served
from soak import SOAK, in_soak, times

D = "/v1/datasets/people"
ROWS = 200_000
CLIENTS = 4
QUICK_SECONDS = times(1, 4)
SLOW_SECONDS = times(2, 15)
NO_LIMITS = {"RATE": "1e6", "BURST": "1000000"}  # a quick machine answers more than one may ask
RUN, STOP = 0.004, 0.036  # seconds of each 40 ms


def threshold(k):
    """Another for each question; incomes are up to 1,000."""
    return round(k / 50 + 0.001, 3)


class Slowed:
    """A process that runs one tenth of the time, in here."""

    def __init__(self, pid):
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._over.is_set():
            os.kill(self._pid, signal.SIGSTOP)
            time.sleep(STOP)
            os.kill(self._pid, signal.SIGCONT)
            time.sleep(RUN)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        os.kill(self._pid, signal.SIGCONT)


class Asking:
    """Clients that ask new questions and, where they are late, again; and what they heard."""

    def __init__(self, instance, first=0):
        self.instance = instance
        self.heard = {}
        self.replies = []  # when each came, and whether it was late
        self.longest = 1
        self._number = itertools.count(first)
        self._over = threading.Event()

    @property
    def late(self):
        return sum(late for _, late in self.replies)

    def late_share(self):
        """Of the replies in the second half of the time, how many were late."""
        half = (self.replies[0][0] + self.replies[-1][0]) / 2
        later = [late for at, late in self.replies if at >= half]
        return sum(later) / len(later)

    def one(self):
        k = next(self._number)
        where = f"income > {threshold(k)}"
        while True:
            reply = self.instance.ask(where, Idempotency_Key=f"r{k}")
            self.replies.append((time.monotonic(), reply.status != 200))
            if reply.status == 200:
                self.heard[k] = reply.json["answer"]
                return
            assert (reply.status, reply.error) == (503, "Late"), reply.body
            time.sleep(reply.json["error"]["retry_after_seconds"])

    def _client(self):
        while not self._over.is_set():
            self.one()

    def go_on_for(self, seconds, pool):
        """Ask for so long; what was asked by then is answered afterwards."""
        asking = [pool.submit(self._client) for _ in range(CLIENTS)]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            said = self.instance.call("GET", D)
            self.longest = max(self.longest, said.json["periods_longer"])
            time.sleep(0.2)
        self._over.set()
        return asking


@dataclass
class Seen:
    """What came of it."""

    quick: Asking
    slow: Asking
    wrong: list  # questions whose number is none that noise explains
    alarms: set
    state: str
    spent: int
    asked: int
    back_seconds: float

    def __str__(self):
        return (
            f"quick: {len(self.quick.heard)} answers, {self.quick.late} late; slow: "
            f"{len(self.slow.heard)} answers, {self.slow.late} late, {self.slow.late_share():.0%} "
            f"in its second half, slots {self.slow.longest} times as long; "
            f"{len(self.wrong)} wrong; back after {self.back_seconds:.1f} s; "
            f"alarms {sorted(self.alarms)}"
        )


def slowed(folder, capsys, *, recovers=True, altered=None, **settings):
    """A server asked while its machine is quick, slow, and quick again."""
    table = people(ROWS)
    incomes = np.nan_to_num(np.array(table.column("income").to_pylist(), dtype=float), nan=-1.0)
    instance = made(folder, table, queries=20_000)
    said = {"PADDING": "yes"} | NO_LIMITS | settings
    environment = {f"SULQ_SERVER_{name}": value for name, value in said.items()}
    with served(folder, env=environment, altered=altered) as (child, instance.url):
        instance.until_ready()
        with ThreadPoolExecutor(CLIENTS) as pool:
            quick, slow = Asking(instance), Asking(instance, 15_000)
            for done in quick.go_on_for(QUICK_SECONDS, pool):
                done.result()
            with Slowed(child.pid):
                asked = slow.go_on_for(SLOW_SECONDS, pool)
            for done in asked:
                done.result()
        back = back_to_normal(instance, Asking(instance, 30_000)) if recovers else (0.0, 0)
        alarms = instance.call("GET", "/v1/alarms", None, "anna").json["alarms"]
        state = instance.call("GET", D).json["state"]
        spent = instance.call("GET", f"{D}/budget", None, "anna").json["spent_micro"]
    heard = quick.heard | slow.heard
    truth = {k: int((incomes > threshold(k)).sum()) for k in heard}
    wrong = [k for k, one in heard.items() if abs(one["value"] - truth[k]) > 6.2 * one["std"]]
    seen = Seen(quick, slow, wrong, {alarm["kind"] for alarm in alarms}, state, spent,
                len(heard) + back[1], back[0])  # fmt: skip
    with capsys.disabled():
        if SOAK:
            print(f"\n{altered or settings or 'as it is'}: {seen}")
    return seen


def test_a_machine_ten_times_slower_gives_late_replies_and_no_wrong_ones(tmp_path, capsys):
    """False alarm of the noise: 1e-9 for each of at most some thousand numbers.

    Rows are blamed in one late batch of 184,756 at most, also beside other tests.
    """
    seen = slowed(tmp_path / "instance", capsys)
    assert not seen.wrong
    assert seen.spent == seen.asked * 10**6
    assert seen.alarms <= {"slow"}
    assert seen.state == "open"
    if SOAK:
        assert seen.slow.late
        assert seen.slow.longest > 1
        assert seen.alarms == {"slow"}


@in_soak
def test_control_where_periods_stay_as_short_replies_stay_late(tmp_path, capsys):
    """Nobody hears of a slow machine, and more of the replies are late as long as it is slow."""
    as_it_is = slowed(tmp_path / "as it is", capsys)
    seen = slowed(tmp_path / "altered", capsys, recovers=False, altered="never longer",
                  MOST_LATE="0")  # fmt: skip
    assert (seen.slow.longest, "slow" in seen.alarms, seen.wrong) == (1, False, [])
    assert seen.slow.late_share() > as_it_is.slow.late_share()


@in_soak
def test_control_where_nobody_asks_made_up_rows_the_real_ones_are_blamed(tmp_path, capsys):
    """The owner hears that rows are slow, which would freeze the dataset."""
    seen = slowed(tmp_path / "instance", capsys, recovers=False, altered="rows are blamed",
                  MOST_LATE="0")  # fmt: skip
    assert "late" in seen.alarms


@in_soak
def test_control_where_noise_stands_for_what_is_late_numbers_are_wrong(tmp_path, capsys):
    """What an owner may choose, and the same test finds it."""
    seen = slowed(tmp_path / "instance", capsys, recovers=False, LATE="noise", MOST_LATE="0")
    assert seen.wrong


def back_to_normal(instance, asking):
    """Ask until slots are what they were: the seconds, and how many were asked."""
    start = time.monotonic()
    while instance.call("GET", D).json["periods_longer"] > 1:
        asking.one()
        assert time.monotonic() - start < 120
    return time.monotonic() - start, len(asking.heard)

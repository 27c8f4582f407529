"""A machine with four times the work it can do: no alarm about rows, unless rows are dearer.

Clients ask new questions all the time, while so many processes compute for nothing that each
processor has four beside the server. 20 minutes in `make soak`; SULQ_BUSY_SECONDS says otherwise:

SULQ_SOAK=1 SULQ_BUSY_SECONDS=300 python -m pytest tests/server/test_busy_machine.py -s

False alarm: one late batch of 184,756 at most (tests/server/services/test_lateness.py). A late
batch makes slots longer, so some hundreds are late in 20 minutes: less than one run in 300 fails.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
from attacks.harness import people
from server.instance import made
from server.processes import served
from soak import in_soak

D = "/v1/datasets/people"
SECONDS = float(os.environ.get("SULQ_BUSY_SECONDS", "1200"))
LOAD = 4  # busy processes for each processor
CLIENTS = 4
ROWS = 200_000
SETTINGS = {"PADDING": "yes", "RATE": "1e6", "BURST": "1000000", "MOST_LATE": "0"}
TEXTS = {"columns": {"note": {"type": "text"}, "age": {"type": "integer", "low": 0, "high": 100}}}
LETTERS = 4000  # of texts of which made-up ones have 64


@contextmanager
def busy():
    """Processes that compute for nothing."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(LOAD * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for child in running:
            child.kill()
            child.wait()


def asked_for(instance, seconds, predicate, stop=lambda: False):
    """Ask new questions for so long; how many replies there were of each kind."""
    heard, until = Counter(), time.monotonic() + seconds

    def client(number):
        k = number
        while time.monotonic() < until and not stop():
            reply = instance.ask(predicate(k))
            heard["answered" if reply.status == 200 else reply.error] += 1
            if reply.status == 200:
                k += CLIENTS
            else:
                time.sleep(reply.json["error"].get("retry_after_seconds", 0.1))

    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(client, number) for number in range(CLIENTS)]:
            done.result()
    return heard


def under_load(folder, table, predicate, capsys, *, seconds=SECONDS, stop_at=None, **terms):
    """The kinds of alarms that an owner has after so long, and what clients heard."""
    instance = made(folder, table, queries=1_000_000, **terms)
    environment = {f"SULQ_SERVER_{name}": value for name, value in SETTINGS.items()}

    def alarms():
        found = instance.call("GET", "/v1/alarms", None, "anna").json["alarms"]
        return Counter(alarm["kind"] for alarm in found)

    with served(folder, env=environment) as (_, instance.url):
        instance.until_ready()
        instance.ask(predicate(10**6))  # measured while the machine is quiet
        with busy():
            stop = (lambda: False) if stop_at is None else (lambda: stop_at in alarms())
            heard = asked_for(instance, seconds, predicate, stop)
            found = alarms()
        longer = instance.call("GET", D).json["periods_longer"]
    with capsys.disabled():
        print(f"\n{dict(heard)}, alarms {dict(found)}, slots {longer} times as long")
    return found, heard


@in_soak
def test_a_busy_machine_raises_no_alarm_about_rows(tmp_path, capsys):
    """Questions to a table of numbers; what is late counts as nothing."""
    found, heard = under_load(
        tmp_path / "instance", people(ROWS), lambda k: f"income > {k / 50 + 0.001:.3f}", capsys
    )
    assert set(found) <= {"slow"}
    assert heard["answered"]


@in_soak
def test_control_rows_that_are_dearer_raise_one_under_the_same_load(tmp_path, capsys):
    """Texts of 4,000 characters, where none is declared and made-up ones have 64."""
    table = pa.table({"note": ["x" * LETTERS] * 5_000, "age": [k % 100 for k in range(5_000)]})
    found, _ = under_load(
        tmp_path / "instance", table, lambda k: f"regexp_matches(note, 'y{k}z')", capsys,
        seconds=min(SECONDS, 600), stop_at="late", schema=TEXTS,
    )  # fmt: skip
    assert found["late"]

"""Many processes at once: what is paid is exactly what the total allows."""

import os
import sqlite3
import threading
import time
from contextlib import suppress
from multiprocessing import get_context

import pytest
from attacks.children import codes_of_children

from sulq.errors import BudgetExceeded
from sulq.ledger import Ledger, Request
from sulq.ledger.seal import Seal

PROCESSES = 8
TOTAL = 300
REQUESTS = 1200
SETTINGS = {"terms": {"promise": {}, "schema": {}}, "cells": 2, "total": TOTAL, "name": "race"}

# Children are forked so that they start at once; each then opens the ledger for itself.
PROCESS = get_context("fork")


class Naive:
    """Broken on purpose: looks at the budget, then charges, without holding a lock."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        self.connection.execute("CREATE TABLE IF NOT EXISTS charges (query TEXT)")

    def charge(self, requests):
        spent = self.connection.execute("SELECT count(*) FROM charges").fetchone()[0]
        time.sleep(0)  # let another process run here, as a busy machine would
        if spent + len(requests) > TOTAL:
            raise BudgetExceeded(1, 0)
        rows = [(request.query,) for request in requests]
        self.connection.executemany("INSERT INTO charges VALUES (?)", rows)


def sound(path):
    return Ledger.open(path, seal=Seal.open(path), **SETTINGS)


def spend(opener, path, start, numbers, results):
    """Wait for the others, then ask each question; report how many were paid."""
    start.wait()
    ledger, paid = opener(path), 0
    for number in numbers:
        try:
            ledger.charge([Request(f"q{number}", 1, None, id=f"r{number}")])
            paid += 1
        except BudgetExceeded:
            continue
    results.put(paid)


def at_once(target, *arguments):
    """Run the target in eight processes that start together; give what they report."""
    start, results = PROCESS.Barrier(PROCESSES), PROCESS.Queue()
    children = [
        PROCESS.Process(target=reporting, args=(target, *arguments, i, start, results))
        for i in range(PROCESSES)
    ]
    for child in children:
        child.start()
    reports = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
    assert [report for report in reports if isinstance(report, Exception)] == []
    return reports


def reporting(target, *arguments):
    try:
        target(*arguments)
    except Exception as error:
        arguments[-1].put(error)


def spend_share(opener, path, i, start, results):
    spend(opener, path, start, range(i, REQUESTS, PROCESSES), results)


def paid_at_once(opener, path):
    return sum(at_once(spend_share, opener, path))


def test_eight_processes_spend_exactly_the_total(tmp_path):
    """1200 requests, a total of 300: 300 are paid, and the first opening is part of the race."""
    path = tmp_path / "ledger"
    assert paid_at_once(sound, path) == TOTAL
    ledger = sound(path)
    assert ledger.budget() == (TOTAL, TOTAL, 0)
    assert len({charge.query for charge in ledger.history()}) == TOTAL
    assert ledger.verify() == TOTAL + 1


def test_control_reading_before_writing_is_caught(tmp_path):
    """A ledger that looks before it charges pays more than the total in the same race."""
    # Given enough turns: one race may, with luck, come out even.
    races = (paid_at_once(Naive, tmp_path / f"naive{turn}") for turn in range(20))
    assert any(paid > TOTAL for paid in races)


def retry(path, i, start, results):
    """The same request from every process, as a client that never hears back would send it."""
    start.wait()
    ledger = sound(path)
    charge = ledger.charge([Request("count", 5, None, id="r")])[0]
    results.put((charge, ledger.record([(charge.number, os.urandom(8).hex())])[0]))


def test_one_request_sent_eight_times_is_one_charge_and_one_answer(tmp_path):
    """Parallel retries agree on the charge and on the answer."""
    path = tmp_path / "ledger"
    reports = at_once(retry, path)
    assert len(set(reports)) == 1
    ledger = sound(path)
    assert ledger.find("count") == reports[0]
    assert ledger.budget()[1] == 5


def paid_of(ledger, orders):
    """How many of these lists of requests a ledger takes."""
    paid = 0
    for requests in orders:
        with suppress(BudgetExceeded):
            ledger.charge(requests)
            paid += 1
    return paid


def two_cells(path, i, start, results):
    """Half of the processes charge cell 0, the others everybody."""
    start.wait()
    cells = (0,) if i % 2 else None
    each = range(i, 600, PROCESSES)
    results.put(paid_of(sound(path), ([Request(f"q{n}", 1, cells)] for n in each)))


def test_cells_are_counted_exactly_in_a_race(tmp_path):
    """Charges to one cell and to everybody meet in that cell and stop at the total."""
    path = tmp_path / "ledger"
    assert sum(at_once(two_cells, path)) == TOTAL
    ledger = sound(path)
    assert ledger.spent_by_cell()[0] == TOTAL
    ledger.verify()


def test_batches_in_a_race_are_paid_whole(tmp_path):
    """Batches of seven never leave a part of one behind."""
    path = tmp_path / "ledger"
    assert sum(at_once(batches, path)) == TOTAL // 7
    assert sound(path).budget()[1] == TOTAL // 7 * 7


def batches(path, i, start, results):
    start.wait()
    each = range(i, 100, PROCESSES)
    sevens = ([Request(f"{n}.{j}", 1, None) for j in range(7)] for n in each)
    results.put(paid_of(sound(path), sevens))


def test_forks_in_the_middle_of_threads_charging(tmp_path):
    """Children forked while threads charge go on with the same ledger, and nothing is lost."""
    path = tmp_path / "ledger"
    ledger = sound(path)
    done = threading.Event()
    counts = [0, 0]

    def busy(k):
        while not done.is_set() and counts[k] < 100:
            ledger.charge([Request(f"thread {k} {counts[k]}", 1, None)])
            counts[k] += 1

    threads = [threading.Thread(target=busy, args=(k,)) for k in (0, 1)]
    for thread in threads:
        thread.start()
    codes = codes_of_children(lambda i: ledger.charge([Request(f"child {i}", 1, None)]), 10)
    done.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * 10
    assert ledger.budget()[1] == sum(counts) + 10
    ledger.close()
    assert sound(path).verify() == sum(counts) + 11


@pytest.mark.parametrize("turn", range(3))
def test_creation_is_a_race_with_one_winner(tmp_path, turn):
    """Eight processes begin the same ledger: one entry 0, no leftovers."""
    path = tmp_path / "ledger"
    assert len(set(at_once(begin, path))) == 1
    left = {file.name for file in tmp_path.iterdir()}
    assert {name for name in left if name.startswith(".")} == {".sulq"}


def begin(path, i, start, results):
    start.wait()
    results.put(next(sound(path).entries()).hash)

"""Scans that must end by a moment known beforehand."""

import os
import threading
import time

import pytest

from sulq.engines.bounded import Alarms, Turns
from sulq.engines.failures import TooLate
from sulq.errors import EngineFailed


def test_scans_stop_at_their_moment_and_only_their_own():
    """A scan past its moment is interrupted; the next one is not."""

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

    engine, turns = Engine(), Turns()
    with pytest.raises(TooLate):
        turns.sums(engine, "slow", time.monotonic() + 0.05)
    assert turns.sums(engine, "quick", time.monotonic() + 5) == "quick"
    turns._turn.acquire()  # another scan goes on
    with pytest.raises(TooLate):
        turns.sums(engine, "quick", time.monotonic() + 0.05)


def test_an_alarm_acts_at_its_moment_and_not_after_it_was_called_off():
    """The earliest first, whatever order they came in; one thread for all."""
    alarms, done, before = Alarms(), [], threading.active_count()
    last = threading.Event()
    now = time.monotonic()
    with alarms.at(now + 60, lambda: done.append("never")):
        for name, seconds in (("b", 0.04), ("a", 0.02)):
            with alarms.at(now + seconds, lambda name=name: (done.append(name), last.set())):
                assert last.wait(60)
                last.clear()
        with alarms.at(now + 0.05, lambda: done.append("called off")):
            pass
        with alarms.at(time.monotonic() + 0.02, last.set):
            assert last.wait(60)
    assert done == ["b", "a"]
    assert threading.active_count() <= before + 1


def test_an_alarm_that_has_begun_is_waited_for():
    """What comes after it is not disturbed by its end."""
    alarms, begun, go_on, ended = Alarms(), threading.Event(), threading.Event(), []

    def act():
        begun.set()
        go_on.wait(60)
        ended.append(True)

    with alarms.at(time.monotonic(), act):
        assert begun.wait(60)
        threading.Timer(0.02, go_on.set).start()
    assert ended == [True]


def test_a_fork_has_alarms_of_its_own():
    """The thread is not there in a child: the child begins anew, and before it has threads.

    The parent's thread goes on. In the child sixteen threads set alarms at once, and each acts.
    """
    alarms = Alarms()
    with alarms.at(time.monotonic() + 60, lambda: None):
        child = os.fork()
        if child == 0:
            os._exit(0 if all(acted_at_once(alarms, 16)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert all(acted_at_once(alarms, 1))


def acted_at_once(alarms, many):
    """Alarms set by so many threads at once; did each act?"""
    together, acted = threading.Barrier(many), [threading.Event() for _ in range(many)]

    def one(done):
        together.wait()
        with alarms.at(time.monotonic(), done.set):
            done.wait(20)

    threads = [threading.Thread(target=one, args=(done,)) for done in acted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [done.is_set() for done in acted]

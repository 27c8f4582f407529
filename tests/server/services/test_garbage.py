"""Memory is tidied between batches, and what is set aside is not looked through again."""

import gc
import sys
import threading
import time
import weakref

import pytest

from sulq.server.services import garbage
from sulq.server.services.garbage import Garbage


class Ring:
    """What only refers to itself."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def collected():
    """The generations that were looked through, as it happens."""
    seen = []

    def note(phase, about):
        if phase == "stop":
            seen.append(about["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


@pytest.fixture
def begun():
    made = Garbage()
    made.begin()
    yield made
    made.end()


def made_many():
    """As much as makes Python look through everything, once old things are few."""
    return [[Ring()] for _ in range(200_000)]


def test_python_looks_through_everything_no_more_by_itself(begun, collected):
    """Only young things are looked through while a server works."""
    made_many()
    assert set(collected) == {0, 1}


def test_control_left_to_python_it_does(collected):
    """The same work, before a server begins and after it ended."""
    before = gc.get_threshold(), gc.get_freeze_count()
    made = Garbage()
    made.begin()
    made.end()
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
    gc.freeze()  # so that few old things are left
    try:
        gc.collect()
        del collected[:]
        made_many()
    finally:
        gc.unfreeze()
    assert 2 in collected


def test_what_is_new_is_tidied_when_there_is_enough(begun, collected):
    """Not before; and what is left is set aside, since it takes long to look through."""
    gone = weakref.ref(Ring())
    begun.tidy()
    assert not begun.due
    assert 2 not in collected
    kept = made_many()
    aside = gc.get_freeze_count()
    assert begun.due
    begun.tidy()
    assert gone() is None
    assert gc.get_freeze_count() > aside + len(kept)
    assert not begun.due


def test_what_is_under_way_is_not_set_aside(begun, monkeypatch):
    """A connection that is closed later goes the next time, not with everything else."""
    monkeypatch.setattr(garbage, "ENOUGH", 0)
    monkeypatch.setattr(garbage, "MUCH_SECONDS", 60.0)
    begun.tidy()
    aside = gc.get_freeze_count()
    ring = Ring()
    gone = weakref.ref(ring)
    begun.tidy()
    del ring
    begun.tidy()
    assert gone() is None
    assert gc.get_freeze_count() == aside


def test_what_takes_long_is_set_aside_however_much_went_meanwhile(begun, monkeypatch):
    """As many came as went: the memory is the same, and there is more and more to look through."""
    monkeypatch.setattr(garbage, "ENOUGH", 0)
    monkeypatch.setattr(garbage, "MUCH_SECONDS", -1.0)
    kept = made_many()
    begun.tidy()
    aside = gc.get_freeze_count()
    kept[:] = made_many()
    begun.tidy()
    assert gc.get_freeze_count() > aside - len(kept)
    assert len(gc.get_objects(generation=2)) < len(kept)


def test_when_there_is_too_much_everything_is_looked_through(begun, monkeypatch):
    """What was set aside and is of no use any more goes then, and only then."""
    monkeypatch.setattr(garbage, "ENOUGH", 0)
    monkeypatch.setattr(garbage, "MUCH_SECONDS", -1.0)
    ring = Ring()
    gone = weakref.ref(ring)
    begun.tidy()
    del ring
    begun.tidy()
    assert gone() is not None
    monkeypatch.setattr(garbage, "TOO_MUCH", -(10**9))
    begun.tidy()
    assert gone() is None


def test_much_that_came_and_went_is_not_too_much(begun, monkeypatch):
    """What counts is what is there, not how often something was set aside."""
    monkeypatch.setattr(garbage, "TOO_MUCH", 2_000_000)
    whole = begun._whole
    for _ in range(6):
        kept = [[[i]] for i in range(200_000)]
        begun.tidy()
        del kept
    begun.tidy()
    assert begun._whole == whole


def test_what_is_set_aside_is_not_counted_anew(begun, monkeypatch):
    """Python counts it by walking through all of it: tens of milliseconds in a server."""
    monkeypatch.setattr(garbage, "ENOUGH", 0)
    monkeypatch.setattr(gc, "get_freeze_count", None)
    monkeypatch.setattr(garbage, "MUCH_SECONDS", -1.0)
    begun.tidy()


def tuples_beside(tidy, times):
    """What threads hear that make tuples of generators while memory is tidied, over and over."""
    ended, heard, made = threading.Event(), set(), []

    def work():
        while not ended.is_set():
            try:
                made[:] = tuple([i] for i in range(30))
            except SystemError as error:
                heard.add(type(error))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        end = time.monotonic() + 20
        kept = []
        for _ in range(times):
            kept.append([[i] for i in range(3_000)])
            tidy()
            if heard or time.monotonic() > end:
                break
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    return heard


def test_tidying_breaks_nothing_that_other_threads_make(begun, monkeypatch):
    """They made their tuples of the same objects that it looked through: a question failed."""
    monkeypatch.setattr(garbage, "ENOUGH", 0)
    monkeypatch.setattr(garbage, "MUCH_SECONDS", 60.0)
    assert tuples_beside(begun.tidy, 40) == set()


def test_control_a_list_of_all_objects_does():
    """As objects were counted for a day."""
    assert tuples_beside(lambda: len(gc.get_objects(generation=2)), 1000) == {SystemError}

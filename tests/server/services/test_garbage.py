"""Memory is tidied between batches, and what is set aside is not looked through again."""

import gc
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
    """Not before; and what is left is set aside if it is much."""
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
    ring = Ring()
    gone = weakref.ref(ring)
    begun.tidy()
    del ring
    begun.tidy()
    assert gone() is None
    assert begun._aside == 0


def test_when_too_much_was_set_aside_everything_is_looked_through(begun, monkeypatch):
    """What was set aside and is of no use any more goes then, and only then."""
    monkeypatch.setattr(garbage, "ENOUGH", 0)
    monkeypatch.setattr(garbage, "MUCH", 0)
    ring = Ring()
    gone = weakref.ref(ring)
    begun.tidy()
    del ring
    begun.tidy()
    assert gone() is not None
    monkeypatch.setattr(garbage, "TOO_MUCH", -1)
    begun.tidy()
    assert gone() is None


def test_what_is_set_aside_is_not_counted_anew(begun, monkeypatch):
    """Python counts it by walking through all of it: tens of milliseconds in a server."""
    monkeypatch.setattr(garbage, "ENOUGH", 0)
    monkeypatch.setattr(gc, "get_freeze_count", None)
    kept = made_many()
    begun.tidy()
    assert begun._aside >= len(kept)
    monkeypatch.setattr(garbage, "TOO_MUCH", len(kept) - 1)
    begun.tidy()
    assert begun._aside == 0

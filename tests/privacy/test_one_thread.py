"""Linear algebra in one thread for a while: whoever leaves last, the number comes back."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sulq.privacy import one_thread as module
from sulq.privacy.one_thread import one_thread


@pytest.fixture
def threads(monkeypatch):
    """An OpenBLAS that only remembers its number of threads."""
    found = [4]
    monkeypatch.setattr(module, "_openblas", lambda: (lambda: found[-1], found.append))
    return found


def test_the_number_of_threads_comes_back_after_an_error(threads):
    """One inside, what it was outside, however it is left."""

    @one_thread()
    def failing():
        assert threads[-1] == 1
        return 1 // 0

    with pytest.raises(ZeroDivisionError):
        failing()
    assert threads[-1] == 4


def test_those_who_are_inside_at_once_leave_it_as_it_was(threads):
    """Who comes second does not take the one thread of the first for what there was before."""
    inside, leave = threading.Event(), threading.Event()

    def first():
        with one_thread():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    with one_thread():
        leave.set()
        thread.join()
        assert threads[-1] == 1
    assert threads[-1] == 4


def test_numpy_says_how_many_threads_it_has():
    """With numpy's own wheels the library is found; its results stay what they are."""
    get, _ = module._openblas()
    before = get()
    a = np.arange(9.0).reshape(3, 3) + np.eye(3)
    with one_thread():
        assert get() == 1
        inside = np.linalg.inv(a)
    assert get() == before
    assert np.allclose(inside @ a, np.eye(3))

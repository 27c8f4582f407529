"""Steps of long computations: who is told, and what a terminal shows."""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from fractions import Fraction
from functools import cache

import pyarrow as pa
import pytest
from helpers import opened
from learn.data import blobs, columns_of, schema, separable, table

import sulq
from sulq import progress
from sulq.learn import KMeans, Perceptron

GONE = "\x1b[2K"  # the line is cleared


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def terminal(slow_seconds=-1.0):
    """stderr is a terminal; by default nothing counts as quick."""
    screen = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", screen)
        patch.setattr(progress, "SLOW_SECONDS", slow_seconds)
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "120")
        patch.setattr(progress, "_console", cache(progress._console.__wrapped__))
        yield screen


def numbers():
    return opened(pa.table({"x": [0.5] * 10}), {"x": {"type": "number", "low": 0, "high": 1}})


def test_whoever_watches_is_told_of_every_step():
    """Each call has the steps done and what is left of the budget."""
    db, seen = numbers(), []
    with sulq.Steps("counting", 3, db, lambda s: seen.append((s.done, s.remaining))) as steps:
        for i in range(3):
            db.count(f"x > 0.{i}")
            steps.step()
    assert seen == [(1, Fraction(999)), (2, Fraction(998)), (3, Fraction(997))]
    assert str(steps) == "counting: 3 of 3 steps, 997 queries left"


def test_a_terminal_shows_steps_and_budget():
    """The line is taken away at the end."""
    db = numbers()
    with terminal() as screen, sulq.Steps("counting", 2, db) as steps:
        db.count("x > 0")
        steps.step()
        assert "counting: 1 of 2 steps, 999 queries left" in screen.getvalue()
    assert screen.getvalue().endswith(GONE)


def test_nothing_is_shown_elsewhere(capsys):
    """Output that is no terminal stays empty."""
    with sulq.Steps("counting", 2) as steps:
        steps.step(2)
    assert capsys.readouterr() == ("", "")
    assert str(steps) == "counting: 2 of 2 steps"


def test_nothing_is_shown_if_not_wanted_or_quick():
    """watch=False and short work draw no bar."""
    with terminal() as screen, sulq.Steps("counting", 1, watch=False) as steps:
        steps.step()
    assert screen.getvalue() == ""
    with terminal(slow_seconds=60.0) as screen, sulq.Steps("counting", 1) as steps:
        steps.step()
    assert screen.getvalue() == ""


def test_a_bar_is_taken_away_when_the_steps_fail():
    """The error passes, the line goes."""

    def fail():
        with sulq.Steps("counting", 2) as steps:
            steps.step()
            raise KeyError("no such thing")

    with terminal() as screen, pytest.raises(KeyError, match="no such thing"):
        fail()
    assert "counting" in screen.getvalue()
    assert screen.getvalue().endswith(GONE)


def test_a_scan_within_a_step_has_its_bar_below():
    """Both are drawn through one console, or they would overwrite each other."""
    with terminal() as screen, sulq.Steps("counting", 2) as steps:
        steps.step()
        scan = progress.show("scanning")
        scan(0.5)
        steps.step(0)  # drawn again while the scan goes on
        lines = screen.getvalue().rsplit("counting", 1)[1]
        assert "\nscanning" in lines.replace("\r", "")
        scan(1.0)
    assert screen.getvalue().endswith(GONE)


def test_kmeans_tells_its_steps():
    """Each step of Lloyd's is told."""
    X, _ = blobs(1000)
    db, seen = opened(table(X), schema(3)), []
    fitting = KMeans(3, max_iter=4, budget=40)
    fitting.fit(db, columns=columns_of(3), progress=lambda s: seen.append((s.done, s.total)))
    assert seen == [(i + 1, 4) for i in range(fitting.n_iter_)]


def test_perceptron_tells_its_rounds():
    """Each round is told with what is left."""
    X, y = separable(1000)
    flag = {"flag": {"type": "boolean", "nullable": False}}
    db, left = opened(table(X, flag=y), schema(4, **flag)), []
    model = Perceptron(max_iter=3)
    model.fit(
        db, columns=columns_of(4), label="flag", progress=lambda s: left.append(s.remaining)
    )  # fmt: skip
    assert left
    assert left == sorted(left, reverse=True)
    assert left[-1] == db.budget.remaining


def test_a_fit_leaves_no_watcher_behind():
    """The model does not keep who watched."""
    X, _ = blobs(300)
    model = KMeans(2, epsilon=1.0, bounds=(0, 1)).fit(X, progress=False)
    assert "_watch" not in vars(model)

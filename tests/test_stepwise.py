"""Questions paid one after the other: what a refusal of a later one says of the charges before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from audit.harness import audited, people
from helpers import opened

import sulq
from sulq import dbapi, vertical
from sulq.errors import MICRO
from sulq.learn import ID3, KMeans, Perceptron
from sulq.ledger import Request
from sulq.stepwise import in_steps

SCHEMA = {
    "id": {"key": True},
    "x": {"type": "number", "low": 0, "high": 1},
    "y": {"type": "number", "low": 0, "high": 1},
    "s": {"type": "boolean"},
    **{name: {"type": "boolean"} for name in "tuvw"},
}


def table():
    pick = np.random.default_rng(1)
    made = {"id": np.arange(20_000), "x": pick.random(20_000), "y": pick.random(20_000)}
    flags = {name: pick.random(20_000) < 0.5 for name in "stuvw"}
    return pa.table(
        made
        | flags
        | {"w": made["x"] + made["y"] > 1, "s": flags["t"] ^ (pick.random(20_000) < 0.1)}
    )


def poor(queries=3, **said):
    return opened(table(), SCHEMA, queries=queries, **said)


def drain(db):
    """Spend all that is left."""
    db._ledger.charge([Request("all the rest", int(db.budget.remaining * MICRO), None)])


def drained_after(db, monkeypatch, calls=1):
    """Someone else spends all that is left once so many questions were answered."""
    ask, seen = db.ask, []

    def asked(*args, **said):
        found = ask(*args, **said)
        seen.append(1)
        if len(seen) == calls:
            drain(db)
        return found

    monkeypatch.setattr(db, "ask", asked)
    return db


def told(caught):
    """It is not said that nothing was charged, and a program hears that it is not known."""
    error = caught.value
    return error.charged is None and "what was paid before it stands" in str(error)


def test_many_statements():
    """executemany: three of six lists are paid, and the refusal says so."""
    with dbapi.connect(poor()) as connection:
        cursor = connection.cursor()
        lists = [(i / 10,) for i in range(6)]
        with pytest.raises(dbapi.OperationalError, match="what was paid before it stands"):
            cursor.executemany("select sum(x) from frame where y > ?", lists)


def test_the_first_step_says_that_nothing_was_charged():
    """Control: where nothing was paid before, nothing was charged."""
    db = poor()
    with pytest.raises(sulq.BudgetExceeded, match="Nothing was charged") as caught:
        KMeans(3, budget=5, max_iter=2).fit(db, columns=["x", "y"])
    assert caught.value.charged is False
    assert db.budget.spent == 0


def test_a_budget_that_cannot_be_read_says_nothing_of_earlier_steps():
    """A refusal stays as it is where nobody knows what was spent when the steps began."""

    class Away:
        @property
        def budget(self):
            raise sulq.ServerAway("no reply")

    with pytest.raises(sulq.Refused, match="Nothing was charged") as caught, in_steps(Away()):
        raise sulq.Refused("it is closed. Nothing was charged.")
    assert caught.value.charged is False


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (KMeans(3, max_iter=4, init="packing"), {}),
        (Perceptron(max_iter=4), {"label": "w"}),
        (ID3(max_depth=3), {"label": "s"}),
    ],
    ids=["KMeans", "Perceptron", "ID3"],
)
def test_a_learner_whose_later_step_is_refused(model, said, monkeypatch):
    """Its first step was paid; another spent the rest before its second."""
    columns = ["t", "u", "v"] if isinstance(model, ID3) else ["x", "y"]
    db = drained_after(poor(60), monkeypatch)
    with pytest.raises(sulq.BudgetExceeded) as caught:
        model.fit(db, columns=columns, **said)
    assert told(caught)


def test_two_databases_of_which_the_second_is_drained(monkeypatch):
    """The first has paid when the second cannot any more."""
    a, b = poor(1000, name="a"), poor(1000, name="b")
    ask = a.ask

    def asked(*args, **said):
        found = ask(*args, **said)
        drain(b)
        return found

    monkeypatch.setattr(a, "ask", asked)
    with pytest.raises(sulq.BudgetExceeded) as caught:
        vertical.joint(a, "s", b, "t")
    assert told(caught)


def test_an_audited_table_combines_nothing_and_charges_nothing():
    """Refused before it is asked, not after."""
    db = audited(people(60))
    before = db.budget.spent
    with pytest.raises(sulq.QueryNotAllowed, match="Nothing was charged"):
        db.count("a", combine=True)
    assert db.budget.spent == before

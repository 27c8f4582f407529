"""After the charge only the engine can fail: all else has run over zeros before it."""

from __future__ import annotations

import json
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from soak import some

import sulq
from sulq import Bins, Query
from sulq.dry_run import SMALL, DryRuns
from sulq.policies import WithNoise
from sulq.privacy import choice
from sulq.values.marginals import Marginals
from sulq.values.query import Blocks, Discover, Mean, Products, Sums

SCHEMA = {
    "columns": {
        "id": {"type": "integer", "key": True},
        "age": {"type": "integer", "low": 0, "high": 100},
        "income": {"type": "number", "low": 0, "high": 1000},
        "smoker": {"type": "boolean"},
        "kind": {"values": ["a", "b"], "nullable": False},
        "word": {"type": "text"},
        "month": {"values": ["1", "2", "3", "4"], "public": True, "nullable": False},
    },
    "period": {"column": "month"},
}
SQL = [
    "select percentile_disc(0.1234) within group (order by age) from people",
    "select kind, count(*), avg(income), stddev(age) from people group by kind",
    "select median(age), corr(age, income) from people where smoker",
    "select kind, smoker, count(*) from people group by rollup (kind, smoker)",
    "select month, sum(count(*) filter (where smoker)) over (order by month) as n from people "
    "group by month",
]
QUESTIONS = {
    "count": Query(where="smoker"),
    "sums": Query(["age", "income", "1"], where="smoker"),
    "mean": Query(Mean("income"), by="kind"),
    "crosstab": Query(by=["kind", "smoker"], where="age > 3"),
    "products": Query(Products(["age", "income"])),
    "norms": Query(Sums(["age", "income"], 0.5, 0.3), by=Blocks(1, 3)),
    "discover": Query(Discover("word")),
    "list": [Query(where=f"age > {a} and smoker") for a in range(5)],
    "tables": [Query(by=Bins("age", [0, 10, 20])), Query(by=Bins("age", [0, 5, 10, 20]))],
    "marginals": Marginals(["kind", "smoker", "month"], 2),
    **{f"sql {i}": text for i, text in enumerate(SQL)},
}


def database(**terms):
    """200 rows in memory."""
    n = 200
    table = pa.table({
        "id": np.arange(n), "age": np.arange(n) % 90, "income": np.arange(n) * 3.25,
        "smoker": np.arange(n) % 3 == 0, "kind": ["a", "b"] * (n // 2), "word": ["x"] * n,
        "month": [str(1 + i % 4) for i in range(n)],
    })  # fmt: skip
    terms = {"epsilon": 4.0, "queries": 100, "delta": 1e-5, "discoveries": 2} | terms
    return opened(table, SCHEMA, quiet=False, name="people", **terms)


def answered(db, question):
    """The answer, through the doors that an analyst uses."""
    return db.answer(db.question(question))


class Boom(Exception):
    """A planted fault."""


class Watch:
    """Functions of sulq that run before and after the charge; one of them may be made to fail."""

    # The engine and the ledger, with all they call, and the lines of pipeline.py and policies.py
    # between those two.
    ELSEWHERE = ("/sulq/engines/", "/sulq/kernel/", "/sulq/ledger/", "/sulq/lifetime.py")
    SCAN = ("WithNoise.computed", "Policy.prepare", "_noisy", "_at_once")

    def __init__(self, db, failing=None):
        self.before, self.after, self._paid, self._failing = Counter(), Counter(), False, failing
        charge = db._ledger.charge_each

        def charged(requests):
            self._paid = True
            return charge(requests)

        db._ledger.charge_each = charged

    def __call__(self, frame, event, argument):
        code = frame.f_code
        if event != "call" or "/sulq/" not in code.co_filename:
            return
        if self._failing and not self._failing.endswith(code.co_qualname):
            return
        place = "sulq/" + code.co_filename.rpartition("/sulq/")[2]
        scan = place == "sulq/pipeline.py" or code.co_qualname.startswith(self.SCAN)
        if scan or place == "sulq/engines/failures.py" or self._elsewhere(frame):
            return
        name = f"{place} {code.co_qualname}"
        if name == self._failing:
            raise Boom
        (self.after if self._paid else self.before)[name] += 1

    def _elsewhere(self, frame):
        while frame is not None:
            name = frame.f_code.co_filename
            if any(place in name for place in self.ELSEWHERE) and "failures.py" not in name:
                return True
            frame = frame.f_back
        return False

    def run(self, call):
        """What a call gives or raises, watched."""
        sys.setprofile(self)
        try:
            return call()
        except Exception as error:
            return error
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_whatever_runs_after_the_charge_has_run_before_it(kind):
    """Functions that decode, draw and lay out: none runs for the first time once it is paid.

    And a fault in any of them is met before the charge: the ledger stays as it is.
    """
    db = database()
    watch = Watch(db)
    outcome = watch.run(lambda: answered(db, QUESTIONS[kind]))
    assert not isinstance(outcome, Exception), outcome
    assert watch.after
    assert set(watch.after) - set(watch.before) == set()
    db = database()
    for failing in some(sorted(watch.after), 10):
        db._pipeline.dry_runs = DryRuns(db._pipeline.policy)  # which knows nothing yet
        outcome = Watch(db, failing).run(lambda: answered(db, QUESTIONS[kind]))
        assert isinstance(outcome, Boom | sulq.SulqError), failing
        assert (db.history(), db.frozen) == ([], None), failing


def test_control_a_policy_without_a_dry_run_is_caught(monkeypatch):
    """Where nothing is run over zeros, the watch sees what runs for the first time once paid."""
    monkeypatch.setattr("sulq.dry_run.DryRuns._run", lambda dry_runs, question: None)
    db = database()
    watch = Watch(db)
    watch.run(lambda: answered(db, QUESTIONS["crosstab"]))
    assert "sulq/policies.py add_noise" in set(watch.after) - set(watch.before)


def test_a_fault_over_zeros_is_refused_in_words(monkeypatch):
    """What a dry run meets is a refusal, and says that nothing was charged."""
    db = database()

    def fails(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("sulq.policies.add_noise", fails)
    for call in (db.price, db.ask):
        with pytest.raises(sulq.QueryNotAllowed, match=r"met ZeroDivisionError\. Nothing was"):
            call(Query(where="smoker"))
    assert (db.history(), db.frozen) == ([], None)


def test_a_large_question_is_run_before_its_charge_not_when_it_is_priced(monkeypatch):
    """Prices stay quick: what has many numbers is run over zeros only once it is asked."""
    large = Query(by=[Blocks(1, SMALL), "kind"])
    db = database(queries=10)
    runs = []
    own = WithNoise.over_zeros
    monkeypatch.setattr(WithNoise, "over_zeros",
                        lambda *given: runs.append(db.history()) or own(*given))  # fmt: skip
    db.price(large)
    assert runs == []
    db.ask(large)
    assert runs == [[]]
    assert db.ready(db.question(large)).is_ready


def test_counts_that_differ_in_their_rows_are_run_once(monkeypatch):
    """A new price of a plain count runs nothing over zeros but its layout."""
    db = database()
    runs = []
    own = WithNoise.over_zeros
    monkeypatch.setattr(WithNoise, "over_zeros", lambda *given: runs.append(1) or own(*given))
    for age in range(20):
        db.price(Query(where=f"age > {age}"))
        db.price(Query(by="kind", where=f"age > {age}"))
    assert len(runs) == 2


def test_a_failure_to_lay_out_what_is_stored_freezes_nothing(monkeypatch):
    """A fault that only the numbers themselves reach is told to who asked, and stops nobody."""
    db = database()
    question = db.question(Query(where="smoker"))
    own = WithNoise.answers

    def fails(policy, bundle, stored, remaining, paid):
        if remaining:
            raise Boom
        return own(policy, bundle, stored, remaining, paid)

    with monkeypatch.context() as patch:
        patch.setattr(WithNoise, "answers", fails)
        with pytest.raises(Boom):
            db.answer(question)
    assert db.frozen is None
    before = len(db.history())
    json.dumps(db.answer(question).to_json())
    assert len(db.history()) == before == 1


# ---- percentiles ----------------------------------------------------------------------------

TERMS = [("laplace", 1_000, "0.1234"), ("laplace", 100_000, "0.95"), ("gaussian", 10**6, "0.1234"),
         ("laplace", 10**7, "0.0001"), ("gaussian", 10**7, "0.9999")]  # fmt: skip


@pytest.mark.parametrize(("noise", "queries", "share"), TERMS)
def test_percentiles_are_answered_whatever_the_budget(noise, queries, share):
    """Any share under any promise is drawn exactly; in release 2 these froze the table."""
    db = database(noise=noise, queries=queries, epsilon=1.0, discoveries=0)
    table = db.sql(f"select percentile_disc({share}) within group (order by age) as v from people")
    assert 0 <= table["v_low"][0] <= table["v_high"][0] <= 100
    assert db.frozen is None


@pytest.mark.filterwarnings("ignore:epsilon")
def test_a_percentile_that_no_table_could_bear_on_is_refused():
    """Where even 2^48 rows would not matter it is refused in words, unpaid."""
    db = database(noise="laplace", queries=10**7, epsilon=1e-6, discoveries=0)
    text = "select percentile_disc(0.5) within group (order by age) from people"
    for call in (db.price, db.sql):
        with pytest.raises(sulq.QueryNotAllowed, match=r"without regard to the rows.*Nothing was"):
            call(text)
    assert (db.history(), db.frozen) == ([], None)


def test_control_a_table_that_is_built_when_it_is_drawn_from_would_freeze_without_a_dry_run(
    monkeypatch,
):
    """The fault of release 2: a table that cannot be built, met first by the scan's own noise."""

    def too_large(*_):
        raise sulq.PromiseError("leaves nothing to choose by.")

    text = "select percentile_disc(0.5) within group (order by age) from people"
    monkeypatch.setattr(choice.Weights, "at", too_large)
    db = database()
    with pytest.raises(sulq.PromiseError):
        db.sql(text)
    assert (db.history(), db.frozen) == ([], None)
    monkeypatch.setattr("sulq.dry_run.DryRuns._run", lambda dry_runs, question: None)
    with pytest.raises(sulq.EngineFailed):
        db.sql(text)
    assert len(db.history()) == 1
    assert db.frozen.error == "PromiseError"

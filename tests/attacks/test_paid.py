"""Once a question is charged nothing but the engine can fail, under any terms.

A short run of the fuzz in `paid.py`; `make soak` asks 30,000 questions.
"""

from __future__ import annotations

import pytest
from attacks import paid, paid_questions
from soak import times

import sulq
from sulq.privacy import choice


def test_nothing_but_the_engine_fails_after_the_charge():
    """Any epsilon, delta, T, noise, share and size: an answer, or words and no charge."""
    tally = paid.run(times(75, 30_000), each=5)
    assert tally.failures == []
    assert tally.answered > tally.asked / 4


def test_the_fuzz_finds_the_old_failure(monkeypatch):
    """Control: with release 2's table back, which some rates are too low for, the fuzz fails."""
    own = choice.Weights.at

    def old(weights, distances):
        if weights.farthest > 2**32:
            raise sulq.PromiseError("a rate leaves nothing to choose by.")
        return own(weights, distances)

    monkeypatch.setattr(choice.Weights, "at", old)
    monkeypatch.setattr("sulq.dry_run.DryRuns._run", lambda dry_runs, question: None)
    monkeypatch.setattr(paid, "world", only_percentiles)
    found = paid.run(60, most_failures=1, each=3)
    assert "froze while this was being answered" in found.failures[0]


def only_percentiles(pick):
    """A table of people, and percentiles of it alone."""
    rows, schema = paid_questions.plain_rows(40), paid_questions.plain_schema(pick)

    def question(pick):
        call, text = paid_questions._percentile(pick)
        return text, call

    return rows, schema, question


def test_only_an_engine_that_fails_freezes():
    """Control: an engine that raises is the one thing after a charge that stops a table."""
    rows, schema, _ = only_percentiles(paid.random.Random(1))
    db = paid._opened(rows, schema, {"epsilon": 1.0, "queries": 1000})
    db._pipeline.engine.sums = lambda queries: 1 / 0
    tally = paid.Tally()
    fault = paid._fault(db, lambda db: db.count("smoker"), tally)
    assert "froze while this was being answered" in fault
    assert db.frozen.error == "ZeroDivisionError"
    with pytest.raises(sulq.Frozen):
        db.count("sure")

"""Every learner asks the same of every engine, and gets the same integers.

All of them are fitted once with an engine that notes each question and its integers. The others are
asked all these questions at once; Spark's part is in tests/engines/test_spark.py.
"""

from __future__ import annotations

from functools import cache

import pytest
from helpers import ENGINES, opened
from learn.test_missing import COLUMNS, LEARNERS, people

from sulq.learn import KINDS, AssociationRules, ConjunctionLearner, Synthesizer

ROWS = 400
MORE = {
    "Synthesizer": (Synthesizer(), ["x", "flag", "city"], None),
    "ConjunctionLearner": (ConjunctionLearner(max_error=0.4), ["flag", "city"], "ill"),
    "AssociationRules": (AssociationRules(), ["flag", "city", "ill"], None),
}


class Noted:
    """An engine that notes what it is asked and what it says."""

    def __init__(self, engine):
        self.engine, self.schema, self.rows, self.answers = engine, engine.schema, engine.rows, {}

    def sums(self, queries):
        found = self.engine.sums(queries)
        for query, matrix in zip(queries, found, strict=True):
            self.answers[query.text, str(query.values)] = query, matrix
        return found

    def __getattr__(self, name):
        return getattr(self.engine, name)


@cache
def noted():
    """The questions of every learner, each with its integers from DuckDB."""
    answers = {}
    for made, columns, label in (LEARNERS | MORE).values():
        db = opened(table(), COLUMNS, epsilon=10.0, queries=10**6)
        db._pipeline.engine = engine = Noted(db._pipeline.engine)
        type(made)(**made.get_params()).fit(db, columns=columns, label=label)
        assert engine.answers, type(made)
        answers |= engine.answers
    return [q for q, _ in answers.values()], [m for _, m in answers.values()]


def table():
    return people(0.1, n=ROWS)


def test_every_kind_is_among_them():
    """No learner is left out of the comparison of engines."""
    assert {type(made).__name__ for made, _, _ in (LEARNERS | MORE).values()} == set(KINDS)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "duckdb"])
def test_every_learner_gets_the_same_integers(engine):
    """From PostgreSQL and from the reference as from DuckDB, to the last digit."""
    queries, wanted = noted()
    assert len(queries) > 50
    given = ENGINES[engine](table(), {"columns": COLUMNS}).sums(queries)
    for query, found, right in zip(queries, given, wanted, strict=True):
        assert found == right, query.text

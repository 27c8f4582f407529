"""The calls of an audited table that differ from the front door's, here and over HTTP alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sulq.audit.promise import AuditPromise
from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.questions.question import Question
from sulq.values.answer import Answer
from sulq.values.query import Rows


class AuditedCalls(Database):
    """Questions one by one; what an auditor cannot judge is refused before it is asked."""

    promise: AuditPromise  # type: ignore[assignment]  # in place of a promise that rests on noise

    def answer(
        self, question: Question, *, request_id: str | None = None, most: int | None = None
    ) -> Any:
        """Pay for each question of a list and answer it, in order; the first refusal is raised."""
        bundles, answers = question.bundles, []
        ids = [request_id] if len(bundles) == 1 else [
            None if request_id is None else f"{request_id}#{i}" for i in range(len(bundles))
        ]  # fmt: skip
        for bundle, id in zip(bundles, ids, strict=True):
            one = replace(question, bundles=(bundle,), facts=(), lay_out=lambda found, _: found[0])
            own = None if most is None else min(most, self.unpaid(one))
            answers.append(super().answer(one, request_id=id, most=own))
            most = None if most is None or own is None else most - own
        counts: list[Answer] = []
        if question.facts:
            public = replace(question, bundles=(), lay_out=lambda _, known: known)
            counts = super().answer(public)
        return question.lay_out(answers, counts)

    def sum(
        self, expression: str, where: str | None = None, *, rows: Rows | None = None,
        error: Any = None, combine: bool = False,
    ) -> Answer:  # fmt: skip
        """The sum of an expression, in its own units; only under rule="duan"."""
        if self.promise.rule == "classes":
            raise QueryNotAllowed(
                "sum: rule='classes' answers counts only, because the low-order digits of a sum "
                "can carry one row's value. Ask db.count(predicate). Nothing was charged."
            )
        return super().sum(expression, where, rows=rows, error=error, combine=combine)

    def answer_and_estimate(self, question: Question, request_id: str | None) -> tuple[Any, Any]:
        """Refused before anything is asked: there are no estimates here."""
        return self.estimated(question), None

    def estimated(self, question: Question, *, analyst: str | None = None) -> Any:
        """Refused: what exact sums tell together is what the auditor watches over."""
        raise QueryNotAllowed(
            "estimate: an audited table answers what it is asked, one by one. Nothing was charged."
        )

    def define(self, *functions: Any, **expressions: str) -> Database:
        """Refused: the auditor judges questions about the table's own columns."""
        raise QueryNotAllowed(
            "define: an audited table answers about its own columns only; write the function into "
            "the question, as in db.count(old). Nothing was charged."
        )

    def project(self, model: Any, *, clip: float | None = None) -> Database:
        """Refused: the auditor judges questions about the table's own columns."""
        raise QueryNotAllowed(
            "project: an audited table answers about its own columns only. Nothing was charged."
        )

"""A question run over zeros before it is paid, so that after the charge only the engine can fail.

Every law is drawn from, sums of 0 get that noise, and the answers are laid out and written as JSON,
by the code that does so once rows are read. What fails here is refused, and nothing was charged.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sulq.errors import QueryNotAllowed, SulqError
from sulq.policies import Policy, zeros
from sulq.privacy.noise import Law
from sulq.privacy.pricing import Tariff
from sulq.questions.question import Bundle, Question, exact_answer, with_noise_of
from sulq.values.answer import Answer
from sulq.values.column import plain

SMALL = 1_000  # numbers: such a question is run when it is priced, a larger one before its charge
MAX_KNOWN = 50_000  # numbers over zeros that are kept, of sums by cell that differ in their rows
CANNOT_RUN = (
    "this question cannot be answered: a run over zeros, without a row, met {kind}. Nothing was "
    "charged.\nAsk for it in smaller parts or in other words, and report it: the fault is sulq's."
)


class OneDraw:
    """Noise that draws each law once and repeats it: enough to see that it can be drawn."""

    def draw(self, law: Law, count: int) -> list[int]:
        """Return one draw of `law`, `count` times."""
        return law.draw(1) * count


class DryRuns:
    """Runs questions over zeros; sums by cell that differ in their rows alone only once."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._noise = OneDraw()
        # With each kind its tariff, so that the id of that stays its own.
        self._known: dict[Hashable, tuple[Tariff, list[Answer]]] = {}
        self._numbers = 0  # of all that are known

    def priced(self, question: Question) -> Question:
        """The question, run over zeros unless it is large; refused if that fails."""
        return self.ready(question) if question.numbers <= SMALL else question

    def ready(self, question: Question) -> Question:
        """The question, run over zeros unless it was; refused if that fails."""
        if question.is_ready or not question.bundles:
            return question
        try:
            self._run(question)
        except SulqError:
            raise
        except Exception as error:
            raise QueryNotAllowed(CANNOT_RUN.format(kind=type(error).__name__)) from error
        return replace(question, is_ready=True)

    def _run(self, question: Question) -> None:
        answers = [self._answers(bundle) for bundle in question.bundles]
        facts = [exact_answer(f.checked, zeros(f.checked), 0) for f in question.facts]
        written = {id(answer) for each in answers for answer in each}
        for result in _results(question.lay_out(answers, facts)):
            if id(result) not in written:
                _write(result)

    def _answers(self, bundle: Bundle) -> list[Answer]:
        """The answers over zeros, written as JSON."""
        kind = _kind(bundle)
        known = self._known.get(kind) if kind is not None else None
        if known is not None:
            return known[1]
        answers = with_noise_of(self, bundle, self._policy.over_zeros(bundle, self._noise))
        for answer in answers:
            _write(answer)
        if kind is not None:
            self._numbers += bundle.parts[0][0].numbers
            if self._numbers > MAX_KNOWN:
                self._known, self._numbers = {}, 0
            self._known[kind] = bundle.parts[0][1], answers
        return answers


def _kind(bundle: Bundle) -> Hashable | None:
    """Equal for sums by the same cells with the same noise, which are laid out alike."""
    if type(bundle) is not Bundle or len(bundle.parts) != 1:
        return None
    query, tariff = bundle.parts[0]
    if query.mix is not None or query.measurement is not None or query.numbers > SMALL:
        return None
    return id(tariff), len(query.releases), tuple((a.text, a.labels) for a in query.axes)


def _write(result: Any) -> None:
    """Write an answer or a table as JSON; of a long one the labels and the first cells."""
    if isinstance(result, Answer) and len(result.cells) > SMALL:
        json.dumps(plain(result.cells))
        few = {n: getattr(result, n)[:SMALL] for n in ("exact", "stds", "cells", "factors")}
        result = replace(result, **few)
    json.dumps(result.to_json())


def _results(laid_out: Any) -> Iterable[Any]:
    """The answers and tables of what was laid out."""
    if isinstance(laid_out, Mapping):
        return laid_out.values()
    return laid_out if isinstance(laid_out, list) else [laid_out]

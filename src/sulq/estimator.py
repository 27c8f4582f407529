"""What was paid for is known: questions answered from stored answers alone, free.

No row is read and nothing is charged, so a database that is spent or frozen still estimates. Only
raw answers to questions about the present rows are used; an estimate is never stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sulq.errors import NotKnown
from sulq.ledger.known_answers import KnownAnswers
from sulq.policies import zeros
from sulq.questions.facts import of_nobody
from sulq.questions.question import exact_answer
from sulq.strategies.estimates import Measured, estimate
from sulq.strategies.linear_form import form_of
from sulq.values.answer import Answer
from sulq.values.counted_rows import RowCount, StoredRows
from sulq.values.price import Price

if TYPE_CHECKING:
    from sulq.ledger import Ledger
    from sulq.planner import Planner
    from sulq.questions.facts import Fact
    from sulq.questions.question import Bundle, Question
    from sulq.values.schema import Schema

Matrix = list[list[int]]
NOTE = "estimated from stored answers, free"
COMBINED = "combined with earlier answers"
MOST_PUBLIC = 200  # counts of public columns that are looked at, the newest
MAX_PARTS = 500  # queries that one estimate is of
MAX_PAIRS = 20_000  # of a query and a stored answer that are looked at for one estimate


class Estimator:
    """Estimates for one table, from its ledger."""

    def __init__(self, planner: Planner, ledger: Ledger, schema: Schema) -> None:
        self._schema = schema
        self._ledger = ledger
        self._answers = KnownAnswers(ledger, schema, planner.with_tariff)

    def estimate(
        self, question: Question, counts: Sequence[RowCount], public: dict[str, Matrix],
        left: int, *, analyst: str | None = None,
    ) -> Any:  # fmt: skip
        """The estimates of stored answers, laid out as the answers would be; NotKnown if none.

        `counts` says how many rows there are, of all stored rows first, and `public` what is known
        of public columns, both exact. Of one `analyst`'s answers alone, if one is named.
        """
        parts = sum(len(bundle.parts) for bundle in question.bundles)
        if parts > MAX_PARTS:
            raise not_known(f"It is {parts:,} queries; estimate at most {MAX_PARTS:,} at once.")
        known = self._answers.measured(analyst)[: MAX_PAIRS // max(parts, 1)]  # the newest
        answers = []
        for bundle in question.bundles:
            found = [] if question.across else self._parts(bundle, known, counts, public)
            answers.append(found or self._stored(bundle, analyst))
        facts = [self._fact(fact, counts, public) for fact in question.facts]
        paid = [[replace(a, remaining=left) for a in each] for each in answers]
        found = question.lay_out(paid, [replace(f, remaining=left) for f in facts])
        return noted(found, NOTE)

    def _parts(
        self, bundle: Bundle, known: Sequence[Measured], counts: Sequence[RowCount],
        public: dict[str, Matrix],
    ) -> list[Answer]:  # fmt: skip
        """Each part by least squares; none where one of them is no linear form, or not told."""
        exact = self._facts(public)
        answers: list[Answer] = []
        for checked, tariff in bundle.parts:
            if checked.people is not None:  # forms are of the table's own rows
                return []
            form = form_of(checked, tariff, self._schema)
            if form is None or checked.measurement is not None:
                return []
            found = estimate(form, known, exact, counts, self._schema)
            if found is None:
                return []
            answers.append(found)
        return answers

    def _stored(self, bundle: Bundle, analyst: str | None) -> list[Answer]:
        """The answer to this very question, if there is one and it may be used."""
        charge, stored = self._ledger.find(bundle.text) or (None, None)
        if charge is None or stored is None or analyst not in (None, charge.analyst):
            raise not_known()
        return [replace(a, price=Price(0)) for a in bundle.answers(json.loads(stored), 0)]

    def _facts(self, public: dict[str, Matrix]) -> list[Measured]:
        """Counts of public columns that are known already, as forms without noise."""
        found = []
        for text, sums in islice(reversed(public.items()), MOST_PUBLIC):
            form = self._answers.form(json.loads(text))
            if form is not None and not form.sums:
                numbers = exact_answer(form.query, sums, 0).exact
                found.append(Measured(form, tuple(float(x) for row in numbers for x in row), ()))
        return found

    def _fact(self, fact: Fact, counts: Sequence[RowCount], public: dict[str, Matrix]) -> Answer:
        """A public number, if it is known without looking at the rows."""
        sums = zeros(fact.checked) if of_nobody(fact.checked) else public.get(fact.checked.text)
        own = fact.checked.people is None and fact.checked.everyone
        if sums is None and own and fact.checked.shape == (1, 1):
            node = fact.checked.values[0].node if isinstance(fact.checked.values, tuple) else None
            stored = [[count.n] for count in counts if isinstance(count.of, StoredRows)]
            sums = stored if node is not None and node.text == "i:1" else None
        if sums is None:
            raise not_known("Part of it is public: asked, that part is exact and free.")
        return exact_answer(fact.checked, sums, 0)


def not_known(more: str = "") -> NotKnown:
    """No stored answer tells it."""
    said = "the stored answers about these rows do not tell this. Nothing was charged."
    return NotKnown(f"{said}\n{more or 'Ask it: db.price(...) says the price.'}")


def combined(found: Any, estimated: Any) -> Any:
    """A new answer as all answers together tell it; its own where that is no linear form."""
    if estimated is None or _wider(estimated, found):
        return found
    own = replace(estimated, price=found.price, remaining=found.remaining, note=found.note)
    return noted(own, COMBINED)


def noted(found: Any, more: str) -> Any:
    """The same with one more note, unless it is exact."""
    if isinstance(found, list):
        return [noted(each, more) for each in found]
    if isinstance(found, dict):
        return {name: noted(each, more) for name, each in found.items()}
    if isinstance(found, Answer) and found.public:
        return found
    return replace(found, note="; ".join(filter(None, (found.note, more))))


def _wider(estimated: Any, found: Any) -> bool:
    """Has it a wider interval anywhere? Then fewer answers could be used than there are."""
    if not isinstance(found, Answer):
        return False
    pairs = zip(estimated.stds, found.stds, strict=True)
    return any(a > b * (1 + 1e-6) for x, y in pairs for a, b in zip(x, y, strict=True))

"""Stored answers read back as what they measured, for estimates of what was not asked.

Only what the ledger has of the present rows: noisy numbers under the questions they answered. A
question that cannot be read back letter by letter is left out.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sulq.errors import SulqError
from sulq.expressions.node import EPOCH
from sulq.expressions.parse import parse
from sulq.privacy.pricing import Tariff
from sulq.questions.check import CheckedQuery
from sulq.questions.describe import UNREADABLE, parts_of, query_of
from sulq.strategies.estimates import Measured
from sulq.strategies.linear_form import Form, form_of, independent
from sulq.values.query import Bins, Partition, Query
from sulq.values.schema import Schema

if TYPE_CHECKING:
    from sulq.ledger import Ledger

MOST = 1_000  # charges that are read, the newest

Checked = tuple[CheckedQuery, Tariff]


class KnownAnswers:
    """The answers in one ledger, each read once."""

    def __init__(
        self, ledger: Ledger, schema: Schema, check: Callable[[Query, bool], Checked]
    ) -> None:
        self._ledger = ledger
        self._schema = schema
        self._check = check  # a query, and whether as it was checked before
        self._lock = threading.Lock()
        self._read: dict[int, list[Measured]] = {}

    def measured(self, analyst: str | None = None) -> list[Measured]:
        """What they measured, newest first; those to one analyst's questions, if one is named."""
        charges = self._ledger.answered(most=MOST, analyst=analyst)
        with self._lock:
            known = {number: self._read[number] for number in charges if number in self._read}
        new = self._ledger.with_answers([number for number in charges if number not in known])
        known |= {charge.number: self._parts(charge.query, answer) for charge, answer in new}
        with self._lock:
            if len(self._read) > 2 * MOST:
                self._read.clear()
            self._read |= known
        return [m for number in charges for m in known.get(number, ())]

    def _parts(self, question: str, answer: str) -> list[Measured]:
        try:
            texts, stored = parts_of(question), json.loads(answer)
            forms = [self.form(part) for part in texts]
            return [
                _measured(form, numbers)
                for form, numbers in zip(forms, stored, strict=True)
                if form is not None
            ]
        except UNREADABLE:
            return []

    def form(self, part: dict[str, object]) -> Form | None:
        """The question that a stored part is, if it is one that can be read back."""
        if "per_person" in part:  # of other rows than the table's own
            return None
        query = _dated(query_of(part), self._schema)
        text = json.dumps(part, sort_keys=True)
        for older in (False, True) if query is not None else ():
            try:
                checked, tariff = self._check(query, older)  # type: ignore[arg-type]
            except SulqError:
                continue
            if json.dumps(json.loads(checked.text), sort_keys=True) == text:
                return form_of(checked, tariff, self._schema)
        return None


def _dated(query: Query | None, schema: Schema) -> Query | None:
    """The same query; bins of dates are stored as numbers of days."""
    if query is None or not isinstance(query.by, tuple):
        return query

    def dated(part: str | Partition) -> str | Partition:
        if not isinstance(part, Bins) or parse(part.column, schema).type != "date":
            return part
        days = [EPOCH + datetime.timedelta(days=int(e)) for e in part.edges]
        return Bins(part.column, tuple(days))

    try:
        return replace(query, by=tuple(map(dated, query.by)))
    except SulqError:
        return None


def _measured(form: Form, stored: list[list[int]]) -> Measured:
    """Stored integers in their own units, with the noise that was paid for."""
    steps, laws = form.tariff.steps, form.tariff.laws
    found = [float(x * s) for row in stored for x, s in zip(row, steps, strict=True)]
    numbers = tuple(independent(form, np.array(found)).tolist())
    stds = tuple(law.std * float(s) for law, s in zip(laws, steps, strict=True))
    return Measured(form, numbers, stds)

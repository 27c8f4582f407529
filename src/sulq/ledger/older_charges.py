"""Charges made before questions had one form: what was paid for then stays free.

A ledger keeps its bytes, so old charges stand under old texts. A question that is not charged under
its own text is looked for under the text that it would have had, and among the old questions that
mean the same: where several of them became one, the first answer stands.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sulq.errors import SulqError
from sulq.privacy.pricing import Tariff
from sulq.questions.check import OLDER_FORM, CheckedQuery
from sulq.questions.describe import parts_of, query_of
from sulq.questions.question import Bundle, Question
from sulq.values.query import Query

if TYPE_CHECKING:
    from sulq.ledger import Ledger

Checked = tuple[CheckedQuery, Tariff]
OLD = f'"form":{OLDER_FORM},"kind"'


class Upgraded:
    """What a ledger was charged for before questions had one form."""

    def __init__(self, ledger: Ledger, check: Callable[[Query, bool], Checked]) -> None:
        self._ledger = ledger
        self._check = check  # a query, and whether as it was checked before
        self._lock = threading.Lock()
        self._first: bool | None = None
        self._index: dict[str, str] | None = None

    @property
    def any(self) -> bool:
        """Was the first charge made before? All later ones may be of either kind."""
        if not self._ledger.lasting:
            return False
        if self._first is None:
            first = self._ledger.first_charge()
            if first is None:
                return False
            self._first = _is_old(first.query)
        return self._first

    def question(self, made: Question, before: Callable[[], Question]) -> Question:
        """The question as it was paid for, if it was; else as it is."""
        if not made.bundles or not self.any or self._charged(made):
            return made
        known = tuple(self._known(bundle) for bundle in made.bundles)
        found = replace(made, bundles=known)
        if self._charged(found):
            return found
        try:
            older = before()
        except SulqError:
            return found
        return older if older.bundles and self._charged(older) else found

    def _charged(self, question: Question) -> bool:
        texts = {bundle.text for bundle in question.bundles}
        return len(self._ledger.find_all(texts)) == len(texts)

    def _known(self, bundle: Bundle) -> Bundle:
        """The bundle under the text that an old question with the same meaning has."""
        with self._lock:
            if self._index is None:
                self._index = self._indexed()
        if self._ledger.find(bundle.text) is not None:
            return bundle
        return replace(bundle, charged_as=self._index.get(bundle.text))

    def _indexed(self) -> dict[str, str]:
        """Old texts by the texts that the same questions have now, the first of each."""
        index: dict[str, str] = {}
        for charge in self._ledger.history():
            parts = parts_of(charge.query) if _is_old(charge.query) else []
            query = query_of(parts[0]) if len(parts) == 1 else None
            if query is None:
                continue
            try:
                old, new = self._check(query, True), self._check(query, False)
            except SulqError:
                continue
            if old[0].text == charge.query and _alike(old[1], new[1]):
                index.setdefault(new[0].text, charge.query)
        return index


def _alike(a: Tariff, b: Tariff) -> bool:
    """Do stored numbers mean the same under both?"""
    return (a.multiples, a.laws, a.steps) == (b.multiples, b.laws, b.steps)


def _is_old(text: str) -> bool:
    """Is it a question from before? Lists of questions are of the age of their parts."""
    return OLD in text.replace("\\", "")  # a list with an id has them as texts

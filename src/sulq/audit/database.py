"""AuditedDatabase: the same front door, exact sums behind it, answered or refused.

query -> total -> charge -> verdict, in the ledger's order -> exact sum -> dither -> answer
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sulq.answer import Answer
from sulq.audit.dither import dither_law
from sulq.audit.docket import Docket
from sulq.audit.promise import AuditPromise
from sulq.audit.total import TERMS, restore, total_of
from sulq.check import CheckedQuery, check
from sulq.database import Database
from sulq.errors import (
    MICRO,
    AuditRefused,
    BudgetExceeded,
    EngineFailed,
    QueryNotAllowed,
    SulqError,
)
from sulq.noise import Noise
from sulq.price import Price, Tariff
from sulq.query import Query, Rows
from sulq.question import Bundle
from sulq.schema import Schema

if TYPE_CHECKING:
    from sulq.audit.verdict import Auditor
    from sulq.engines.base import Engine
    from sulq.ledger import Charge, Ledger
    from sulq.opening import Guard

PRICING = "audited"  # one query for each question


class AuditedDatabase(Database):
    """A private table that answers counts exactly, up to a dither, or refuses; m times in all."""

    promise: AuditPromise  # type: ignore[assignment]  # in place of a promise that rests on noise

    def __init__(
        self, engine: Engine, promise: AuditPromise, ledger: Ledger, noise: Noise, guard: Guard,
        auditor: Auditor, *, sample: Engine | None = None, name: str = "",
    ) -> None:  # fmt: skip
        super().__init__(engine, promise, ledger, noise, guard, pricing=PRICING, name=name)  # type: ignore[arg-type]
        self._docket = Docket(auditor, ledger, self.schema)
        self._sample = sample  # public rows that decide in place of the private ones

    # --- the corridor -------------------------------------------------------------------

    def _ask(self, asked: list[Bundle], request_id: str | None) -> list[list[Answer]]:
        """Each question by itself, in order; the first refusal is raised."""
        ids: list[str | None] = [request_id]
        if len(asked) != 1:
            ids = [f"{request_id}#{i}" if request_id is not None else None
                   for i in range(len(asked))]  # fmt: skip
        return [[self._one(bundle, id)] for bundle, id in zip(asked, ids, strict=True)]

    def _one(self, bundle: Bundle, request_id: str | None) -> Answer:
        ((checked, tariff),) = bundle.parts
        self._refuse_again(bundle.text, request_id)
        try:
            charges, stored, left = self._charge([bundle], request_id)  # durable from here on
        except BudgetExceeded as spent:
            spent.args = (
                f"no question is left of the {self.promise.queries:,} of {self.name!r}, or of your "
                "share of them. Nothing was charged.\nWhat was asked before is answered, free.",
            )
            raise
        charge, told = charges[bundle.text], stored[bundle.text]
        if told is None:
            told = self._decided(checked, tariff, charge)
        body = json.loads(told)
        if "refused" in body:
            raise AuditRefused(
                f"{body['refused']}\nIt counts as one of the {self.promise.queries:,} questions; "
                "asking the same again costs nothing.",
                charged=left is not None,
            )
        remaining = self._left() if left is None else left
        return bundle.answers([[[body["sum"]]]], remaining)[0]

    def _decided(self, checked: CheckedQuery, tariff: Tariff, charge: Charge) -> str:
        """Refuse it or sum it up, dither it once, and give what is stored: the first one wins."""
        try:
            verdict = self._docket.verdict(charge)
        except SulqError:
            raise
        except Exception:
            raise EngineFailed(
                "the auditor could not decide. The charge stands; asking the same question again "
                "does not pay again."
            ) from None
        if verdict is None:
            return json.dumps(self._docket.stored(charge))
        told: dict[str, Any] = {"refused": verdict.why}
        if verdict.ok:
            exact = verdict.exact
            if exact is None:
                exact = self._sums([checked])[0][0][0]
            told = {"sum": exact + self._noise.draw(tariff.laws[0], 1)[0]}
        return self._ledger.record([(charge.number, json.dumps(told))])[0]

    def _refuse_again(self, text: str, request_id: str | None) -> None:
        """The paper refuses what it has answered: it adds nothing to X. A retry is not that."""
        found = self._ledger.find(text) if self.promise.rule == "duan" else None
        if found is None or found[1] is None or "refused" in json.loads(found[1]):
            return
        if request_id is None or found[0].request != request_id:
            raise AuditRefused(
                f"this was answered in entry {found[0].number} of the ledger. rule='duan' refuses "
                "the same question again, as the paper does. Nothing was charged.",
                charged=False,
            )

    # --- what is asked, and its price ---------------------------------------------------

    def _priced(self, queries: list[Query]) -> Bundle:
        if len(queries) != 1:
            raise QueryNotAllowed("an audited question is one number. Ask each by itself.")
        total, checked = total_of(queries[0], self.schema)
        self._docket.auditor.check(total)
        return Bundle(((checked, self._tariff(checked)),), tuple(queries))

    def _tariff(self, checked: CheckedQuery) -> Tariff:
        """One query, whether it will be answered or refused."""
        (release,) = checked.releases
        law = dither_law(self.promise.dither, release.unit)
        price = Price(MICRO, (law.half_width(0.95) * float(release.step),))
        return Tariff(price, (1,), (law,), (release.step,))

    def _check(self, query: Query) -> CheckedQuery:
        return check(query, self.schema, *TERMS)

    def sum(
        self, expression: str, where: str | None = None, *, rows: Rows | None = None,
        error: Any = None,
    ) -> Answer:  # fmt: skip
        """The sum of an expression, in its own units; only under rule="duan"."""
        if self.promise.rule == "classes":
            raise QueryNotAllowed(
                "sum: rule='classes' answers counts only, because the low-order digits of a sum "
                "can carry one row's value. Ask db.count(predicate). Nothing was charged."
            )
        return super().sum(expression, where, rows=rows, error=error)

    def project(self, model: Any, *, clip: float | None = None) -> Database:
        """Refused: the auditor judges questions about the table's own columns."""
        raise QueryNotAllowed(
            "project: an audited table answers about its own columns only. Nothing was charged."
        )

    def close(self) -> None:
        """Let go of the source, the sample and the ledger."""
        if self._sample is not None:
            self._sample.close()
        super().close()

    def __repr__(self) -> str:
        return f"<sulq.Database {self.name!r}, audited: {self.rows:,} rows, {self.budget}>"


def told(
    text: str, stored: dict[str, Any], schema: Schema, promise: AuditPromise
) -> dict[str, Any]:
    """What the ledger keeps of one question, for the owner's report."""
    total = restore(text, schema)
    name = "count" if total.node.op == "literal" else "sum"
    body: dict[str, Any] = {"cells": ["all"], "names": [name], "values": [], "half_widths_95": []}
    if "refused" in stored:
        return body | stored
    width = dither_law(promise.dither, total.unit).half_width(0.95)
    return body | {
        "values": [[float(stored["sum"] * total.step)]],
        "half_widths_95": [width * float(total.step)],
    }

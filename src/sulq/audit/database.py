"""AuditedDatabase: the same front door; exact sums behind it are answered or refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from sulq.audit.calls import AuditedCalls
from sulq.audit.limits import Limits
from sulq.audit.policy import PRICING, AuditPlanner, AuditPolicy
from sulq.audit.promise import AuditPromise, dither_law
from sulq.audit.review import Review, reviewed
from sulq.audit.rules import auditor_of
from sulq.audit.total import restored
from sulq.errors import BudgetExceeded
from sulq.pipeline import Order, Timing
from sulq.privacy.noise import Noise
from sulq.questions.describe import readable
from sulq.values.query import Query
from sulq.values.schema import Schema

if TYPE_CHECKING:
    from sulq.audit.verdicts import Auditor, CountsByColumns
    from sulq.engines.base import Engine
    from sulq.ledger import Ledger
    from sulq.ledger.guard import Guard
    from sulq.values.answer import Answer


class AuditedDatabase(AuditedCalls):
    """A private table that answers counts exactly, up to a dither, or refuses; m times in all."""

    def __init__(
        self, engine: Engine, promise: AuditPromise, ledger: Ledger, noise: Noise, guard: Guard,
        auditor: Auditor, *, sample: Engine | None = None, name: str = "",
    ) -> None:  # fmt: skip
        self._audited = AuditPlanner(engine.schema, promise, name, ledger, auditor)
        super().__init__(
            engine, promise, ledger, noise, guard, pricing=PRICING, name=name,  # type: ignore[arg-type]
            planner=self._audited,
            policy=AuditPolicy(promise, auditor, ledger, engine.schema),
        )  # fmt: skip
        self._auditor = auditor
        self._sample = sample  # public rows that decide in place of the private ones

    def answer_all(
        self, orders: Sequence[Order], *, until: float | None = None, timing: Timing | None = None
    ) -> list[Any]:
        """What each of several orders gets: its exact answer, or why it has none."""
        found = super().answer_all(orders, until=until, timing=timing)
        for spent in found:
            if isinstance(spent, BudgetExceeded) and spent.remaining < 1:
                spent.args = (
                    f"no question is left of the {self.promise.queries:,} of {self.name!r}, or of "
                    "your share of them. Nothing was charged.\nWhat was asked before is answered, "
                    "free.",
                )
        return found

    def review(self, queries: Iterable[Query | str]) -> Review:
        """Audit a list offline: each question beside those before it that could be answered.

        Nothing is charged and no ledger is touched. Under rule="duan" without a sample the
        findings depend on the rows: they are for the owner.
        """
        engine = self._pipeline.aside or self._pipeline.engine
        auditor = auditor_of(self.promise, engine, self._sample)
        planner = AuditPlanner(self.schema, self.promise, self.name, None, auditor)
        return reviewed(queries, auditor, planner, self.promise, self.rows)

    def modulo(self, query: Query | str, q: int, *, request_id: str | None = None) -> Answer:
        """An exact sum modulo q, or the count of a predicate: a number from 0 to q - 1.

        Answered or refused as the sum itself would be, one of the m questions; for later ones it
        counts as the whole sum. Needs dither=0.
        """
        found: Answer = self.answer(self._audited.residue(query, q), request_id=request_id)
        return found

    def limits(self) -> Limits | None:
        """What rule="duan" takes for granted of what was answered, in numbers; for the owner.

        How near sums are to their Gaussian limit, and with `simulate` how near the sample is.
        None under rule="classes", which rests on no limit, and before a question was answered.
        """
        return self._auditor.limits(self.promise, self.rows)

    def warm(self, hold: bool | None = None) -> bool:
        """As every database, and let the auditor's counts of public columns wait for no scan."""
        held = super().warm(hold)
        self._auditor.look_with(cast("CountsByColumns", self._pipeline.aside))
        return held

    def _let_go(self) -> None:
        if self._sample is not None:
            self._sample.close()
        super()._let_go()

    def __repr__(self) -> str:
        return f"<sulq.Database {self.name!r}, audited: {self.rows:,} rows, {self.budget}>"


def told(
    text: str, stored: dict[str, Any], schema: Schema, promise: AuditPromise
) -> dict[str, Any]:
    """What the ledger keeps of one question, for the owner's report."""
    totals = restored(text, schema)
    counts = all(total.node.op == "literal" for total in totals)
    cells = ["all"] if len(totals) == 1 else [readable(total.text) for total in totals]
    name, modulus = "count" if counts else "sum", totals[0].modulus
    name += f" modulo {modulus}" if modulus is not None else ""
    body: dict[str, Any] = {"cells": cells, "names": [name]}
    body |= {"values": [], "half_widths_95": []}
    if "refused" in stored:
        return body | stored
    sums = stored["sums"] if "sums" in stored else [stored["sum"]]
    widths = [
        dither_law(promise.dither, total.unit).half_width(0.95) * float(total.step)
        for total in totals
        if not total.is_public(schema)
    ]
    return body | {
        "values": [[float(x * total.step)] for x, total in zip(sums, totals, strict=True)],
        "half_widths_95": [max(widths, default=0.0)],
    }

"""The auditor in the pipeline: a paid question is judged, then summed exactly or refused.

charge -> verdict, in the ledger's order -> exact sum -> dither
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from sulq.audit.promise import AuditPromise, Nothing, dither_law
from sulq.audit.tables import TableBundle, asked_in, table_of
from sulq.audit.total import TERMS, Total, of_own_rows, restore, total_of
from sulq.audit.verdicts import Auditor, Verdict, VerdictLog
from sulq.engines.failures import NO_SUM, Failure, attempt
from sulq.errors import (
    MICRO,
    AuditRefused,
    EngineFailed,
    LedgerDamaged,
    QueryNotAllowed,
    SulqError,
)
from sulq.expressions.parse import shorten
from sulq.expressions.stored_tree import dumps
from sulq.planner import Planner
from sulq.policies import Policy, Reader
from sulq.privacy.pricing import Tariff
from sulq.questions.check import CheckedQuery, check
from sulq.questions.programs_used import check_programs
from sulq.questions.question import Bundle, Question
from sulq.values.answer import Answer
from sulq.values.per_person import PerPerson
from sulq.values.price import Price
from sulq.values.query import Query
from sulq.values.schema import Schema

if TYPE_CHECKING:
    from sulq.ledger import Charge, Ledger
    from sulq.privacy.noise import Noise


PRICING = "audited"  # one query for each number that is judged
PUBLIC = Tariff(Price(0, (0.0,)), (1,), (Nothing(),), (Fraction(1),))  # judged by nobody, exact


class AuditPlanner(Planner):
    """Questions of one number at the price of one query, and tables made of those."""

    def __init__(
        self, schema: Schema, promise: AuditPromise, name: str, ledger: Ledger | None,
        auditor: Auditor | None,
    ) -> None:  # fmt: skip
        super().__init__(schema, promise, PRICING, name, ledger)  # type: ignore[arg-type]
        self._dither = promise.dither
        self._auditor = auditor  # None: the server's knows what it can judge

    def per_person(self, asked: PerPerson) -> Planner:
        """Refuse it: an auditor follows the table's own rows."""
        raise of_own_rows()

    def priced(self, queries: list[Query], older: bool = False) -> Bundle:
        """Queries as one question, which the auditor can judge: all of it or nothing."""
        tables = [table_of(query, self.schema, older) for query in queries]
        parts: dict[str, tuple[CheckedQuery, Tariff]] = {}
        places: dict[Query, int] = {}
        for query in asked_in(tables):
            total, checked = total_of(query, self.schema, older)
            check_programs(checked, None)  # exact answers are for what an auditor can follow
            public = total.is_public(self.schema)
            if self._auditor is not None and not public:
                self._auditor.check(total)
            if total.text not in parts:
                parts[total.text] = checked, PUBLIC if public else self.tariff(checked)
            places[query] = list(parts).index(total.text)
        if len(parts) == 1 and [len(t.numbers) * len(t.numbers[0]) for t in tables] == [1]:
            return Bundle(tuple(parts.values()), tuple(queries))
        return TableBundle(
            tuple(parts.values()), tuple(queries), tables=tuple(tables), places=places
        )

    def residue(self, asked: Query | str, q: int) -> Question:
        """A sum, or the count of a predicate, modulo q: priced and judged as the sum is."""
        query = Query(where=asked) if isinstance(asked, str) else asked
        if not isinstance(query, Query):
            raise QueryNotAllowed(f"{shorten(repr(query))}: want a predicate or a sulq.Query.")
        total, checked = residue_of(query, q, self.schema, self._dither)
        if total.is_public(self.schema):  # free, as the sum is
            known = self.question(query)
            return replace(known, lay_out=lambda _, facts: as_residue(known.lay_out([], facts), q))
        check_programs(checked, None)
        if self._auditor is not None:
            self._auditor.check(total)
        bundle = ResidueBundle(((checked, self.tariff(checked)),), (query,), modulus=q)
        return Question((bundle,), lambda found, _: as_residue(found[0][0], q))

    def _bundle(self, asked: list[tuple[Query, CheckedQuery]]) -> Bundle:
        """However queries come here: no question goes past the auditor."""
        return self.priced([query for query, _ in asked])

    def tariff(self, checked: CheckedQuery) -> Tariff:
        """One query, whether it will be answered or refused."""
        (release,) = checked.releases
        law = dither_law(self._dither, release.unit)
        price = Price(MICRO, (law.half_width(0.95) * float(release.step),))
        return Tariff(price, (1,), (law,), (release.step,))

    def checked(self, query: Query, older: bool = False) -> CheckedQuery:
        """A query of the table's columns, checked."""
        if isinstance(query, Query) and query.per_person is not None:
            raise of_own_rows()
        found = check(query, self.schema, *TERMS, older)
        check_programs(found, None)
        return found


class AuditPolicy(Policy):
    """Judges each paid question; what may be told is summed exactly and dithered once."""

    def __init__(
        self, promise: AuditPromise, auditor: Auditor, ledger: Ledger, schema: Schema
    ) -> None:
        self._promise = promise
        self._verdicts = VerdictLog(auditor, ledger, schema)

    def admit(
        self, bundle: Bundle, found: tuple[Charge, str | None] | None, request_id: str | None
    ) -> None:
        """The paper refuses what it has answered: it adds nothing to X. A retry is not that."""
        if self._promise.rule != "duan" or found is None or found[1] is None:
            return
        if "refused" not in json.loads(found[1]) and (
            request_id is None or found[0].request != request_id
        ):
            raise AuditRefused(
                f"this was answered in entry {found[0].number} of the ledger. rule='duan' refuses "
                "the same question again, as the paper does. Nothing was charged.",
                charged=False,
            )

    def computed(
        self, reader: Reader, groups: Sequence[Sequence[Bundle]], charges: dict[str, Charge],
        until: float | None,
    ) -> dict[str, str]:  # fmt: skip
        """The sum, dithered, or why it is refused."""
        bundles = [bundle for group in groups for bundle in group]
        verdicts = {b.text: self._judged(reader, charges[b.text]) for b in bundles}
        told = [b for b in bundles if _is_to_sum(b, verdicts[b.text])]
        exact = _sums(reader, told, until)
        found: dict[str, Any] = {}
        for bundle in bundles:
            verdict = verdicts[bundle.text]
            if verdict is None:
                found[bundle.text] = self._verdicts.stored(charges[bundle.text])
            elif not verdict.ok:
                found[bundle.text] = {"refused": verdict.why}
            else:
                sums = exact.get(bundle.text) or [verdict.exact or 0]
                found[bundle.text] = _stored(bundle, sums, reader.noise)
        return {text: json.dumps(body) for text, body in found.items()}

    def prepare(
        self, reader: Reader, groups: Sequence[Sequence[Bundle]], charges: dict[str, Charge]
    ) -> None:
        """Judge, where nothing private is read for it: how long that takes tells nothing."""
        if not self._verdicts.auditor.reads_rows:
            for bundle in (bundle for group in groups for bundle in group):
                self._judged(reader, charges[bundle.text])

    def _judged(self, reader: Reader, charge: Charge) -> Verdict | None:
        """What the auditor says of a charge, once; None: its answer is stored."""
        verdict = reader.scanned(lambda: self._verdict(charge), [charge.query])
        if isinstance(verdict, SulqError):
            raise verdict
        return verdict

    def _verdict(self, charge: Charge) -> Verdict | SulqError | None:
        """The auditor's; what is wrong with the ledger is no failure of the engine."""
        try:
            return self._verdicts.verdict(charge)
        except EngineFailed:
            raise
        except LedgerDamaged as damaged:
            return damaged
        except SulqError:
            return EngineFailed(NO_SUM)

    def answers(self, bundle: Bundle, stored: str, remaining: int, paid: bool) -> list[Answer]:
        """The number that is stored, or the refusal."""
        body = json.loads(stored)
        if "refused" in body:
            raise AuditRefused(
                f"{body['refused']}\nIt counts as one of the {self._promise.queries:,} questions; "
                "asking the same again costs nothing.",
                charged=paid,
            )
        sums = body["sums"] if "sums" in body else [body["sum"]]
        return bundle.answers([[[x]] for x in sums], remaining)

    def over_zeros(self, bundle: Bundle, noise: Noise) -> list[Answer]:
        """The answers if every sum were 0 and told."""
        stored = json.dumps(_stored(bundle, [0] * len(bundle.parts), noise))
        return self.answers(bundle, stored, 0, True)


def _stored(bundle: Bundle, sums: Sequence[int], noise: Noise) -> dict[str, Any]:
    """Exact sums, each with its dither; of a residue nothing else is kept."""
    laws = [tariff.laws[0] for _, tariff in bundle.parts]
    dithered = [x + noise.draw(law, 1)[0] for x, law in zip(sums, laws, strict=True)]
    if isinstance(bundle, ResidueBundle):
        dithered = [x % bundle.modulus for x in dithered]
    return {"sum": dithered[0]} if len(dithered) == 1 else {"sums": dithered}


def _is_to_sum(bundle: Bundle, verdict: Verdict | None) -> bool:
    """May it be answered, and are its sums not known yet?"""
    known = verdict is not None and verdict.exact is not None and len(bundle.parts) == 1
    return verdict is not None and verdict.ok and not known


def _sums(reader: Reader, bundles: Sequence[Bundle], until: float | None) -> dict[str, list[int]]:
    """The exact sums of each, from one scan; if that fails, from one each, up to the first."""

    def of(some: Sequence[Bundle]) -> dict[str, list[int]]:
        found = iter(reader.sums([checked for b in some for checked, _ in b.parts], until))
        return {b.text: [next(found)[0][0] for _ in b.parts] for b in some}

    if len(bundles) > 1:
        found = attempt(lambda: of(bundles))
        if not isinstance(found, Failure):
            return found
        if found.stopped is not None:
            raise found.stopped
    each: dict[str, list[int]] = {}
    for bundle in bundles:
        each |= reader.scanned(partial(of, [bundle]), [bundle.text])
    return each


# ---- sums modulo q (Duan, 4.1) --------------------------------------------------------------
# A residue is a function of its sum, so it is judged as that sum by either rule, and counts as the
# whole of it from then on: a residue is never answered where its sum would not be. That fewer rows
# hide one another in one residue by itself (modulo.py) is not used: other answers stand beside it.
#
# Where sums have a dither there are no residues. Residues without a dither would tell, for several
# q, the sum that the dither hides; a residue with one would, for small q, be noise alone.

LARGEST = 2**31  # of q


@dataclass(frozen=True, slots=True)
class ResidueBundle(Bundle):
    """A question of one number, of which only the rest by `modulus` is stored and told."""

    modulus: int = LARGEST


def residue_of(
    query: Query, q: Any, schema: Schema, dither: Fraction
) -> tuple[Total, CheckedQuery]:
    """Check a sum and its modulus. The canonical form is the sum's, with "modulo" beside it."""
    if not isinstance(q, int) or isinstance(q, bool) or not 2 <= q <= LARGEST:
        raise QueryNotAllowed(
            f"modulo: q={shorten(repr(q))}, want a whole number from 2 to {LARGEST:,}. Nothing was "
            "charged."
        )
    if dither:
        raise QueryNotAllowed(
            f"modulo: sums have a dither of {float(dither):g} here. A residue without it would "
            "tell what it hides, and with it a small one would be noise alone. Ask for the sum; "
            "residues need dither=0. Nothing was charged."
        )
    total, checked = total_of(query, schema)
    if total.value.node.type == "number":
        raise QueryNotAllowed(
            "modulo: want a count, or a sum of whole numbers; round what is summed, as in "
            "floor(x). Nothing was charged."
        )
    text = dumps(json.loads(checked.text) | {"modulo": q})
    return restore(text, schema), replace(checked, text=text)


def as_residue(answer: Answer, q: int) -> Answer:
    """The answer to a sum, or to its residue, as a residue."""
    return replace(
        answer,
        exact=tuple(tuple(x % q for x in row) for row in answer.exact),
        names=(f"modulo {q}",),
    )

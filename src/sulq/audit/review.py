"""A list of questions: which could be answered together, which break it, and why.

For the owner. Nothing is charged and no ledger is touched. Under rule="duan" without a sample the
findings depend on the rows, so they are not for those who may only ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sulq.audit.opening import auditor_of
from sulq.audit.total import total_of
from sulq.errors import QueryNotAllowed, Refused, SulqError
from sulq.query import Query
from sulq.wording import readable

if TYPE_CHECKING:
    from sulq.audit.verdict import Auditor
    from sulq.database import Database

NOT_ALLOWED = "not allowed"
STATEMENT = re.compile(r"\s*(select|with)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One question of a list: can it be answered beside those before it, and if not, why not."""

    number: int  # from 1
    question: str  # in words
    ok: bool
    kind: str = ""  # low variation, correlated, too few alike, too many values, not allowed
    why: str = ""

    def __str__(self) -> str:
        verdict = "answered" if self.ok else f"refused, {self.kind}: {self.why}"
        return f"#{self.number} {self.question}: {verdict}"


@dataclass(frozen=True, slots=True)
class Review:
    """What was found of a list of questions, in its order."""

    findings: tuple[Finding, ...]
    rule: str

    @property
    def together(self) -> list[Finding]:
        """Those that could all be answered."""
        return [f for f in self.findings if f.ok]

    @property
    def broken(self) -> list[Finding]:
        """Those that would tell too much beside the ones before them."""
        return [f for f in self.findings if not f.ok]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        count = f"{len(self.together):,} of {len(self):,} questions could be answered together"
        ending = f"{count} under rule={self.rule!r}, if rows are independent."
        return "\n".join([*map(str, self.findings), ending])

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "rule": self.rule,
            "together": len(self.together),
            "findings": [asdict(f) for f in self.findings],
        }


def review(queries: Iterable[Query | str], db: Database) -> Review:
    """Audit a list offline: each question beside those before it that could be answered.

    A question is a sulq.Query, a SELECT of one number, or a predicate to count. `db` is opened
    with mode="audited"; its terms are used, its ledger is not.
    """
    from sulq.audit.database import AuditedDatabase

    if not isinstance(db, AuditedDatabase):
        raise Refused(
            "db: a review needs the terms of mode='audited': sulq.open(..., mode='audited', "
            "queries=m, independent_rows=True, priors={...} or rule='duan')."
        )
    if isinstance(queries, str | Query):
        raise Refused("queries: want a list of them, even of one.")
    auditor = auditor_of(db.promise, db._engine, db._sample)
    found: list[Finding] = []
    for query in queries:
        found.append(_finding(found, query, db, auditor))
    return Review(tuple(found), db.promise.rule)


def _finding(before: list[Finding], query: Query | str, db: Database, auditor: Auditor) -> Finding:
    number = len(before) + 1
    try:
        total, _ = total_of(_query(query, db), db.schema)
        auditor.check(total)
    except SulqError as refusal:
        asked = query if isinstance(query, str) else repr(query)
        return Finding(number, asked.strip(), False, NOT_ALLOWED, str(refusal))
    verdict = auditor.judge(total)
    if verdict.ok:
        auditor.admit([total])
    why = verdict.told([f.number for f in before if f.ok])
    return Finding(number, readable(total.text), verdict.ok, verdict.kind, why)


def _query(query: Query | str, db: Database) -> Query:
    if not isinstance(query, str):
        return query
    if not STATEMENT.match(query):
        return Query(where=query)
    statement = db._statement(query)
    if len(statement.queries) != 1 or len(statement.outputs) != 1:
        raise QueryNotAllowed("an audited question is one number: one SELECT of one count or sum.")
    return statement.queries[0]

"""A list of questions: which could be answered together, which break it, and why.

For the owner. Nothing is charged and no ledger is touched. Under rule="duan" without a sample the
findings depend on the rows, so they are not for those who may only ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sulq.audit.limits import Limits
from sulq.audit.promise import AuditPromise
from sulq.audit.total import restore_all
from sulq.errors import Refused, SulqError
from sulq.questions.describe import readable
from sulq.values.query import Query

if TYPE_CHECKING:
    from sulq.audit.verdicts import Auditor
    from sulq.database import Database
    from sulq.planner import Planner

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
    rows: int = 0  # of the paper's matrix, if it is answered: the numbers that were judged

    def __str__(self) -> str:
        verdict = "answered" if self.ok else f"refused, {self.kind}: {self.why}"
        return f"#{self.number} {self.question}: {verdict}"


@dataclass(frozen=True, slots=True)
class Review:
    """What was found of a list of questions, in its order."""

    findings: tuple[Finding, ...]
    rule: str
    limits: Limits | None = None  # what rule="duan" takes for granted of those answered

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
        more = [] if self.limits is None else [str(self.limits)]
        return "\n".join([*map(str, self.findings), ending, *more])

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "rule": self.rule,
            "together": len(self.together),
            "findings": [asdict(f) for f in self.findings],
            "limits": None if self.limits is None else self.limits.to_json(),
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Review:
        """What `to_json` wrote."""
        limits = body.get("limits")
        found = tuple(Finding(**finding) for finding in body["findings"])
        return cls(found, body["rule"], None if limits is None else Limits(**limits))


def review(queries: Iterable[Query | str], db: Database) -> Review:
    """Audit a list offline: each question beside those before it that could be answered.

    A question is a sulq.Query, a SELECT, or a predicate to count. `db` is opened
    with mode="audited", here or on a server; its terms are used, its ledger is not.
    """
    found: Review = db.review(queries)
    return found


def reviewed(
    queries: Iterable[Query | str], auditor: Auditor, planner: Planner, promise: AuditPromise,
    n: int,
) -> Review:  # fmt: skip
    """A list audited by an auditor that has admitted nothing yet; the planner asks it, too."""
    found: list[Finding] = []
    for query in a_list(queries):
        found.append(_finding(found, query, planner, auditor))
    return Review(tuple(found), promise.rule, auditor.limits(promise, n))


def a_list(queries: Iterable[Query | str]) -> list[Query | str]:
    """The questions of a review; one alone is no list."""
    if isinstance(queries, str | Query):
        raise Refused("queries: want a list of them, even of one.")
    return list(queries)


def _finding(
    before: list[Finding], query: Query | str, planner: Planner, auditor: Auditor
) -> Finding:
    number = len(before) + 1
    predicate = isinstance(query, str) and not STATEMENT.match(query)
    try:
        question = planner.question(Query(where=str(query)) if predicate else query)
    except SulqError as refusal:
        asked = query if isinstance(query, str) else repr(query)
        return Finding(number, asked.strip(), False, NOT_ALLOWED, str(refusal))
    texts = [bundle.text for bundle in question.bundles]
    totals = [total for text in texts for total in restore_all(text, planner.schema)]
    said = readable(texts[0]) if texts else readable(question.facts[0].checked.text)
    if not totals:
        return Finding(number, said, True, why="public")
    verdict = auditor.judge(totals)
    if verdict.ok:
        auditor.admit(totals)
    why = verdict.told([f.number for f in before for _ in range(f.rows)])
    return Finding(number, said, verdict.ok, verdict.kind, why, verdict.added if verdict.ok else 0)

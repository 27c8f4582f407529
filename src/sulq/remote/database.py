"""The front door over HTTP: questions travel, prices are worked out here.

Everything a question costs and how its answer is laid out follows from the schema and the
promise, which the server gives at the start. So only two things travel: the queries of a
question, and the noisy numbers that come back, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

from sulq.answer import Answer
from sulq.database import Budget, Database
from sulq.errors import MICRO, LedgerDamaged, Refused, SulqError
from sulq.keys import KeyCounts
from sulq.ledger import Allotment, Charge, Entry, link_hash
from sulq.ledger.chain import canonical
from sulq.noise import SystemNoise
from sulq.promise import Promise
from sulq.query import Query, Rows
from sulq.question import Bundle
from sulq.remote.wire import Wire, at
from sulq.schema import Schema

PROMISE = ("epsilon", "delta", "queries", "noise", "guarantee", "subject")
PAGE = 1000


class _Elsewhere:
    """Stands where an embedded database has its engine, ledger and guard: those are far away."""

    def __init__(self, schema: Schema, rows: int) -> None:
        self.schema = schema
        self.rows = rows

    def __getattr__(self, name: str) -> Any:
        raise Refused(f"{name}: this is done on the server's side.")

    def close(self) -> None:
        """Nothing to let go of."""


class RemoteDatabase(Database):
    """A dataset of a server, asked with one key."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire = wire
        facts = wire.get(at(name))
        schema = Schema.load(facts["schema"])
        promise = Promise.from_json({k: v for k, v in facts["promise"].items() if k in PROMISE})
        away: Any = _Elsewhere(schema, facts["rows"])
        super().__init__(
            away, promise, away, SystemNoise(), away, pricing=facts["pricing"], name=facts["name"]
        )
        self.url = wire.base

    # ---- the corridor, over the wire ------------------------------------------------------

    def _ask(self, asked: list[Bundle], request_id: str | None) -> list[list[Answer]]:
        """Send the queries of every bundle; the numbers that come back fill the answers."""
        if not asked:
            return []
        queries = [query.to_json() for bundle in asked for query in bundle.queries]
        body: dict[str, Any] = {"queries": queries, "share": False}
        if len(asked) == 1 and len(queries) == 1:
            body = {"query": queries[0]}
        elif len(asked) == 1:
            body["together"] = True
        found = self._wire.post(at(self.name, "ask"), body, request_id)
        answers = iter([found["answer"]] if "answer" in found else found["answers"])
        return [_filled(bundle, [next(answers) for _ in bundle.parts]) for bundle in asked]

    # ---- what is public -------------------------------------------------------------------

    def rows_of(self, query: Query) -> int:
        """How many rows a query is about, by public columns alone. Free."""
        if self._check(query).everyone:
            return self.rows
        return int(self._sizes({"queries": [self._written(query).to_json()]})[0][0])

    def sizes(self, *rows: Rows) -> list[tuple[int, ...]]:
        """How many rows each public set has, or each of its blocks. Free."""
        found = self._sizes({"rows": [r.to_json() for r in rows]}) if rows else []
        return [tuple(int(n) for n in counts) for counts in found]

    def _sizes(self, body: dict[str, Any]) -> Any:
        return self._wire.post(at(self.name, "sizes"), body)["sizes"]

    def key_counts(self) -> KeyCounts:
        """Whether every row has a key of its own. Free."""
        found = self._wire.get(at(self.name, "keys"))
        return KeyCounts(found["rows"], found["missing"], found["repeated"])

    # ---- looking --------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """What you may spend, have spent and have left, in queries."""
        found = self._wire.get(at(self.name, "budget"))
        total, spent, left = (found[f"{k}_micro"] for k in ("total", "spent", "remaining"))
        return Budget(*(Fraction(x, MICRO) for x in (total, spent, left)))

    def budget_by_cell(self) -> list[dict[str, Any]]:
        """The table's budget by each combination of public values, in queries."""
        cells = self._wire.get(at(self.name, "budget"))["cells"]
        return [
            dict(zip((c.name for c in self._stored.cell_columns), values, strict=True))
            | {k: Fraction(cell[f"{k}_micro"], MICRO) for k in ("spent", "remaining")}
            for cell, values in zip(cells, self._stored.cells, strict=True)
        ]

    def history(self) -> list[Charge]:
        """Every charge of yours, oldest first."""
        kept = {f.name for f in fields(Charge)}
        return [Charge(**{k: v for k, v in line.items() if k in kept}) for line in self._answers()]

    def _answers(self) -> Iterator[dict[str, Any]]:
        after: int | None = 0
        while after is not None:
            page = self._wire.get(f"{at(self.name, 'answers')}?after={after}&limit={PAGE}")
            yield from page["answers"]
            after = page["next"]

    # ---- for owners -----------------------------------------------------------------------

    def entries(self, first: int = 0) -> Iterator[Entry]:
        """Every entry of the ledger from this one on; for its owner."""
        for line in self._wire.lines(at(self.name, "ledger")):
            if line["number"] >= first:
                yield Entry(**line)

    def decisions(self) -> list[Entry]:
        """What the owner decided, oldest first; for the owner."""
        return [e for e in self.entries() if e.kind not in ("charge", "answer", "retry")]

    def verify(self) -> int:
        """Fetch the ledger and follow its hashes here; the number of entries. For its owner."""
        previous, count = "0" * 64, 0
        for entry in self.entries():
            made = link_hash(previous, entry.number, entry.kind, canonical(entry.body))
            if (entry.number, entry.previous, entry.hash) != (count, previous, made):
                raise LedgerDamaged(f"Ledger entry {count} does not follow from the one before.")
            previous, count = entry.hash, count + 1
        return count

    def allot(self, analyst: str, queries: Any) -> None:
        """Let an analyst spend at most so many queries in all; for the owner."""
        said = queries if queries is None or isinstance(queries, int | str) else str(queries)
        self._wire.send("PUT", at(self.name, "allotments", analyst), {"queries": said})

    def allotments(self) -> dict[str, Allotment]:
        """What every analyst has spent and may spend, in micro-queries; for the owner."""
        found = self._wire.get(at(self.name, "allotments"))["allotments"]
        return {n: Allotment(a["spent_micro"], a["allotted_micro"]) for n, a in found.items()}

    def as_analyst(self, name: str) -> Database:
        """Refused: a key says who asks."""
        raise Refused("as_analyst: over HTTP the key says who asks. Connect with another key.")

    def close(self) -> None:
        """Hang up."""
        self._wire.close()

    def __repr__(self) -> str:
        return f"<sulq.Database {self.name!r} at {self.url}: {self.rows:,} rows, {self.budget}>"


def _filled(bundle: Bundle, answers: Sequence[dict[str, Any]]) -> list[Answer]:
    """The bundle's answers from the numbers that came; both sides must agree what was asked."""
    noisy, prices = [], 0
    for (_, tariff), answer in zip(bundle.parts, answers, strict=True):
        prices += answer["price_micro"]
        rows = [[Fraction(x) / s for x, s in zip(row, tariff.steps, strict=True)]
                for row in answer["exact"]]  # fmt: skip
        noisy.append([[int(x) for x in row] for row in rows])
        if any(x.denominator != 1 for row in rows for x in row):
            raise _differ()
    if prices != bundle.price.micro:
        raise _differ()
    return bundle.answers(noisy, min(answer["remaining_micro"] for answer in answers))


def _differ() -> SulqError:
    return SulqError(
        "the server works out this question otherwise than this program: they are of different "
        "versions of sulq. If a charge was made, asking again does not pay again."
    )

"""The front door over HTTP: questions travel, prices are computed here.

The price of a question and how its answer is laid out follows from the schema and the
promise, which the server gives at the start. So only two things travel: the queries of a
question, and the noisy numbers that come back, exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from os import PathLike
from typing import Any

from sulq.audit.calls import AuditedCalls
from sulq.audit.policy import AuditPlanner
from sulq.audit.promise import AuditPromise
from sulq.audit.review import Review, a_list
from sulq.audit.tables import TableBundle
from sulq.client.wire import Wire, at, stranger
from sulq.database import Database
from sulq.errors import MICRO, Refused, SulqError
from sulq.estimator import NOTE, not_known, noted
from sulq.expressions.program import sent_along
from sulq.expressions.quoting import quote
from sulq.ledger import Allotment, Charge, Entry, Freeze
from sulq.ledger.chain import ASKED, EMPTY, canonical, checked_link
from sulq.ledger.kept_beside import DISCOVER, PROGRAM
from sulq.planner import Planner
from sulq.privacy.noise import SystemNoise
from sulq.privacy.pricing import Tariff
from sulq.privacy.promise import Promise
from sulq.programs.library import MAX_FUEL
from sulq.questions.check import CheckedQuery
from sulq.questions.discovery import Discovery
from sulq.questions.facts import Fact, KeyCounts
from sulq.questions.question import (
    Bundle,
    Question,
    public_answer,
    released_answer,
    spread_of,
    with_noise_of,
)
from sulq.questions.running_answer import received
from sulq.questions.running_rows import RunningRows
from sulq.values.answer import Answer
from sulq.values.column import plain
from sulq.values.marginals import Marginals
from sulq.values.price import Budget
from sulq.values.query import Query, Rows
from sulq.values.schema import Schema

PROMISE = (
    "epsilon", "delta", "queries", "noise", "guarantee", "subject", "group", "discoveries", "share"
)  # fmt: skip
FACTS = {"name", "stored_rows", "schema", "promise", "pricing"}  # of every dataset
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

    of_server = True

    def __init__(self, wire: Wire, facts: dict[str, Any]) -> None:
        self._wire = wire
        schema = Schema.load(facts["schema"])
        promise: Any = promise_in(facts["promise"])
        away: Any = _Elsewhere(schema, facts["stored_rows"])
        pricing, called = facts["pricing"], facts["name"]
        planner = self._planner_of(schema, promise, pricing, called)
        super().__init__(
            away, promise, away, SystemNoise(), away, pricing=pricing, name=called, planner=planner
        )
        self.charge_time(facts.get("time_price", 0))
        self.url = wire.base
        self._planner.periods = lambda: self.periods

    def _planner_of(self, schema: Schema, promise: Any, pricing: str, name: str) -> Planner:
        # The server knows its ledger, and whether programs may run.
        return Planner(schema, promise, pricing, name, None, program_fuel=MAX_FUEL)

    # ---- questions, over the wire ---------------------------------------------------------

    def question(
        self,
        query: Query | Sequence[Query] | Marginals | str,
        *,
        share: bool = True,
        together: bool = False,
    ) -> Question:
        """Check and price a question; the server runs it over zeros before it charges."""
        return self._planner.question(query, share=share, together=together)

    def answer(
        self, question: Question, *, request_id: str | None = None, most: int | None = None
    ) -> Any:
        """Have the server's pipeline pay for a question and answer it; at most so much."""
        counts = self._counted(question.facts)
        found = self._asked(question.bundles, request_id, most)
        pairs, here = zip(question.bundles, found, strict=True), (self.url, self.name)
        return question.lay_out([with_noise_of(here, b, a) for b, a in pairs], counts)

    def unpaid(self, question: Question, *, analyst: str | None = None) -> int:
        """What the server would charge for it now, in micro-queries; nothing is spent."""
        if analyst is not None:
            raise Refused("unpaid: over HTTP the key says who asks. Connect with another key.")
        if not question.bundles:
            return 0
        body = _with_programs(_body_of(question.bundles))
        return int(self._wire.post(at(self.name, "price"), body)["unpaid_micro"])

    def _asked(
        self, asked: Sequence[Bundle], request_id: str | None, most: int | None = None
    ) -> list[list[Answer]]:
        """Send the queries of every bundle; the numbers that come back fill the answers."""
        self._pipeline.lifetime.check(self.name)
        if not asked:
            return []
        body = _with_programs(_body_of(asked)) | ({} if most is None else {"most_micro": most})
        answers = iter(_answers(self._wire.post(at(self.name, "ask"), body, request_id)))
        return [_filled(bundle, [next(answers) for _ in bundle.parts]) for bundle in asked]

    def wait_for_late(self, seconds: float) -> None:
        """Ask again for so long for an answer that is late, before Late is raised."""
        self._wire.late_seconds = seconds

    def estimated(self, question: Question, *, analyst: str | None = None) -> Any:
        """What the server's stored answers say about a question, free; no row is read."""
        self._pipeline.lifetime.check(self.name)
        if analyst is not None:
            raise Refused("estimated: over HTTP the key says who asks. Connect with another key.")
        if question.across and any(
            c.measurement is None for b in question.bundles for c, _ in b.parts
        ):
            raise not_known()
        told = [self._told(bundle) for bundle in question.bundles]
        asked = [({"query": fact.query.to_json()}, fact) for fact in question.facts]
        facts = [
            _public(f, self._wire.post(at(self.name, "estimate"), b)["answer"]) for b, f in asked
        ]
        return noted(question.lay_out(told, facts), NOTE)

    def _told(self, bundle: Bundle) -> list[Answer]:
        """What is known of a bundle's parts."""
        body = _with_programs(_body_of([bundle]))
        answers = _answers(self._wire.post(at(self.name, "estimate"), body))
        pairs = zip(bundle.parts, answers, strict=True)
        return [_estimate(checked, tariff, answer) for (checked, tariff), answer in pairs]

    # ---- what is public -------------------------------------------------------------------

    def _counted(self, facts: Sequence[Fact]) -> list[Answer]:
        """Public numbers, as the server counts them. Free."""
        if not facts:
            return []
        body = {"queries": [fact.query.to_json() for fact in facts], "share": False}
        found = self._wire.post(at(self.name, "ask"), body)["answers"]
        if any(answer["price_micro"] for answer in found):
            raise _differ()
        return [_public(fact, answer) for fact, answer in zip(facts, found, strict=True)]

    def sizes(self, *rows: Rows) -> list[tuple[int, ...]]:
        """How many rows each public set has, or each of its blocks. Free."""
        if self._planner.of_some_rows:  # the route counts the table's own rows
            asked = [self._planner.written(Query(rows=r)) for r in rows]
            facts = [Fact(query, self._planner.checked(query)) for query in asked]
            return [tuple(int(row[0]) for row in a.exact) for a in self._counted(facts)]
        found = self._sizes({"rows": [r.to_json() for r in rows]}) if rows else []
        return [tuple(int(n) for n in counts) for counts in found]

    def rows_of(self, query: Query) -> int:
        """How many rows a query is about, by public columns alone. Free."""
        asked = self._planner.written(query)
        return int(self._sizes({"queries": [asked.to_json()]})[0][0])

    def _sizes(self, body: dict[str, Any]) -> Any:
        return self._wire.post(at(self.name, "sizes"), body)["sizes"]

    def key_counts(self) -> KeyCounts:
        """Whether every row has a key of its own. Free."""
        if self._planner.of_people:  # each person has one row
            nobody = f"{quote(self._planner.schema.columns[0].name)} is null"
            return KeyCounts(self.rows, self.rows_of(Query(rows=Rows.where(nobody))), 0)
        found = self._wire.get(at(self.name, "keys"))
        return KeyCounts(found["rows"], found["missing"], found["repeated"])

    # ---- looking --------------------------------------------------------------------------

    @property
    def periods(self) -> list[Any]:
        """The periods that have rows, where the schema has a [period]. Public."""
        said = self._wire.get(at(self.name)).get("periods") or ()
        listed = self.schema[self.schema.period].listed if self.schema.period else ()
        return [period for period in listed or () if plain(period) in said]

    def append(self, rows: Any = None, *, reason: str = "new periods") -> RemoteDatabase:
        """The dataset with rows of new periods beside its own: the owner's to say.

        `rows` names a file that the server may read; without, they are in its source already.
        """
        if not isinstance(rows, str | PathLike | None):
            raise Refused(
                "append: over HTTP rows= names a file that the server may read. Nothing was "
                "charged.\nUpload it, or append on the server: sulq dataset append."
            )
        body = {"reason": reason, "rows": None if rows is None else str(rows)}
        facts = self._wire.post(at(self.name, "append"), body)
        return RemoteDatabase(self._wire, facts)

    @property
    def budget(self) -> Budget:
        """What you may spend, have spent and have left, in queries."""
        found = self._wire.get(at(self.name, "budget"))
        total, spent, left = (found[f"{k}_micro"] for k in ("total", "spent", "remaining"))
        group, there = found.get("group") or "", found.get("elsewhere_micro") or 0
        return Budget.of(total, spent, left, group, there, found.get("each_micro"))

    def left(self, question: Question | None = None) -> Fraction:
        """Queries that one more question about the same rows may have; None: about all rows."""
        if question is None or not question.bundles:
            return self.budget.of_all
        body = _with_programs(_body_of(question.bundles))
        return Fraction(self._wire.post(at(self.name, "price"), body)["left_micro"], MICRO)

    def budget_by_cell(self) -> list[dict[str, Any]]:
        """The table's budget by each combination of public values, in queries."""
        cells = self._wire.get(at(self.name, "budget"))["cells"]
        return [
            dict(zip((c.name for c in self.schema.cell_columns), values, strict=True))
            | {k: Fraction(cell[f"{k}_micro"], MICRO) for k in ("spent", "remaining")}
            for cell, values in zip(cells, self.schema.cells, strict=True)
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
        return [e for e in self.entries() if e.kind not in (*ASKED, PROGRAM, DISCOVER)]

    def verify(self) -> int:
        """Fetch the ledger and follow its hashes here; the number of entries. For its owner."""
        previous, count = EMPTY.hash, 0
        for entry in self.entries():
            row: Any = replace(entry, body=canonical(entry.body))  # type: ignore[arg-type]
            previous = checked_link(row, count, previous)
            count += 1
        return count

    def allot(self, analyst: str, queries: Any) -> None:
        """Let an analyst spend at most so many queries in all; for the owner."""
        said = queries if queries is None or isinstance(queries, int | str) else str(queries)
        self._wire.send("PUT", at(self.name, "allotments", analyst), {"queries": said})

    def allotments(self) -> dict[str, Allotment]:
        """What every analyst has spent and may spend, in micro-queries; for the owner."""
        found = self._wire.get(at(self.name, "allotments"))["allotments"]
        return {n: Allotment(a["spent_micro"], a["allotted_micro"]) for n, a in found.items()}

    @property
    def frozen(self) -> Freeze | None:
        """What failed and froze it; only its owner's key is told more than when."""
        found = self._wire.get(at(self.name))["frozen"]
        if found is None:
            return None
        said = {"number": -1, "canonical": (), "engine": "", "error": ""} | found
        asked = tuple(said["canonical"])
        return Freeze(said["number"], said["time"], asked, said["engine"], said["error"])

    def resume(self, reason: str) -> None:
        """Go on after a scan failed and froze it; for the owner."""
        if self.frozen is None:
            raise Refused("resume: nothing is frozen here, so there is nothing to go on from.")
        self._wire.send("PATCH", at(self.name), {"state": "open", "reason": reason})

    def as_analyst(self, name: str) -> Database:
        """Refused: a key says who asks."""
        raise Refused("as_analyst: over HTTP the key says who asks. Connect with another key.")

    def close(self) -> None:
        """Hang up, for good."""
        if self._pipeline.lifetime.end():
            self._wire.close()

    def __repr__(self) -> str:
        return f"<sulq.Database {self.name!r} at {self.url}: {self.rows:,} rows, {self.budget}>"


class RemoteAudited(AuditedCalls, RemoteDatabase):
    """A dataset of a server that answers exactly or refuses."""

    def _planner_of(self, schema: Schema, promise: Any, pricing: str, name: str) -> Planner:
        return AuditPlanner(schema, promise, name, None, None)

    def _asked(
        self, asked: Sequence[Bundle], request_id: str | None, most: int | None = None
    ) -> list[list[Answer]]:
        """As elsewhere; the numbers of a table come as they are laid out."""
        if len(asked) != 1 or not isinstance(asked[0], TableBundle):
            return super()._asked(asked, request_id, most)
        self._pipeline.lifetime.check(self.name)
        body = _body_of(asked) | ({} if most is None else {"most_micro": most})
        answers = _answers(self._wire.post(at(self.name, "ask"), body, request_id))
        if sum(answer["price_micro"] for answer in answers) != asked[0].price.micro:
            raise _differ()
        left = min(answer["remaining_micro"] for answer in answers)
        return [asked[0].laid_out([_exact(answer) for answer in answers], left)]

    def review(self, queries: Iterable[Query | str]) -> Review:
        """Which of a list of questions could be answered together, as the server finds."""
        said = [q if isinstance(q, str) else q.to_json() for q in a_list(queries)]
        return Review.from_json(self._wire.post(at(self.name, "review"), {"queries": said}))


def remote(wire: Wire, name: str) -> RemoteDatabase:
    """A dataset of a server, of the kind that it is."""
    return described(wire, wire.get(at(name)))


def described(wire: Wire, facts: dict[str, Any]) -> RemoteDatabase:
    """The same of what the server has said about it."""
    if not facts.keys() >= FACTS:
        raise stranger()
    audited = isinstance(promise_in(facts["promise"]), AuditPromise)
    return RemoteAudited(wire, facts) if audited else RemoteDatabase(wire, facts)


def promise_in(said: dict[str, Any]) -> Promise | AuditPromise:
    """The promise as a server describes it."""
    if said.get("mode") == "audited":
        return AuditPromise.from_json(said)
    return Promise.from_json({k: v for k, v in said.items() if k in PROMISE})


def _body_of(asked: Sequence[Bundle]) -> dict[str, Any]:
    """The queries of every bundle, as a server groups them into the same bundles."""
    queries = [query.to_json() for bundle in asked for query in bundle.queries]
    if len(asked) == 1 and len(queries) == 1:
        return {"query": queries[0]}
    body: dict[str, Any] = {"queries": queries, "share": False}
    return body | {"together": True} if len(asked) == 1 else body


def _with_programs(body: dict[str, Any]) -> dict[str, Any]:
    """The body with the modules that it names, which the server may not know."""
    programs = sent_along([json.dumps(body)])
    return body | {"programs": programs} if programs else body


def _answers(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of a reply, to one query or to a list."""
    return [found["answer"]] if "answer" in found else list(found["answers"])


def _exact(answer: dict[str, Any]) -> list[list[Fraction]]:
    return [[Fraction(x) for x in row] for row in answer["exact"]]


def _public(fact: Fact, answer: dict[str, Any]) -> Answer:
    return public_answer(fact.checked, _exact(answer), answer["remaining_micro"])


def _estimate(checked: CheckedQuery, tariff: Tariff, answer: dict[str, Any]) -> Answer:
    """An estimate from the numbers that came."""
    stds = answer["std"] if isinstance(answer["std"], list) else [[answer["std"]]]
    made = released_answer(checked, _exact(answer), stds, spread_of(tariff.laws))
    factors = tuple(tuple(map(tuple, cell)) for cell in answer.get("factors", ()))
    return replace(made, remaining=answer["remaining_micro"], factors=factors)


def _filled(bundle: Bundle, answers: Sequence[dict[str, Any]]) -> list[Answer]:
    """The bundle's answers from the numbers that came; both sides must agree what was asked."""
    checked, tariff = bundle.parts[0]
    if isinstance(checked.measurement, RunningRows):  # what it has paid for so far, it knows
        return [received(checked, tariff, answers[0])]
    noisy, prices = [], 0
    for (checked, tariff), answer in zip(bundle.parts, answers, strict=True):
        prices += answer["price_micro"]
        rows = [[Fraction(x) / s for x, s in zip(row, tariff.steps, strict=True)]
                for row in answer["exact"]]  # fmt: skip
        found = isinstance(checked.measurement, Discovery)
        named = [[value] for value in answer["cells"]] if found else [[]] * len(rows)
        noisy.append([[*n, *map(int, row)] for n, row in zip(named, rows, strict=True)])
        if any(x.denominator != 1 for row in rows for x in row):
            raise _differ()
    if prices != bundle.price.micro:
        raise _differ()
    return bundle.answers(noisy, min(answer["remaining_micro"] for answer in answers))


def _differ() -> SulqError:
    return SulqError(
        "the server computes this question otherwise than this program: they are of different "
        "versions of sulq. If a charge was made, asking again does not pay again."
    )

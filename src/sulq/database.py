"""The front door: short methods that build a question and hand it to the pipeline."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from sulq.common_questions import CommonQuestions
from sulq.errors import MICRO, NotKnown, NotPermitted, QueryNotAllowed, Refused, SulqError
from sulq.estimator import Estimator, combined
from sulq.expressions.parse import shorten
from sulq.expressions.quoting import quote
from sulq.expressions.row_function import RowFunction, expand
from sulq.expressions.stored_tree import dumps
from sulq.ledger.types import check_analyst
from sulq.lifetime import Lifetime
from sulq.pipeline import Order, Pipeline, Timing
from sulq.planner import Planner
from sulq.policies import Policy, drawn
from sulq.privacy.noise import Noise
from sulq.privacy.noise_ahead import NoiseAhead
from sulq.privacy.promise import Promise
from sulq.questions.contributions import Dense
from sulq.questions.defined_columns import defined
from sulq.questions.facts import MAX_COUNTS, Fact, KeyCounts, public_part
from sulq.questions.partitions import need_key
from sulq.questions.projection import projection
from sulq.questions.question import Question
from sulq.questions.star_tables import is_of
from sulq.values.answer import Answer
from sulq.values.counted_rows import RowCount, TableRows, ViewRows
from sulq.values.marginals import Marginals
from sulq.values.per_person import PerPerson
from sulq.values.price import Budget, Price, micro_of
from sulq.values.query import Query, Rows
from sulq.values.table import Table

if TYPE_CHECKING:
    from sulq.engines.base import Engine
    from sulq.ledger import Allotment, Charge, Entry, Freeze, Ledger
    from sulq.ledger.guard import Guard


class Database(CommonQuestions):
    """A private table that answers questions, each paid for before a row is read."""

    of_server = False  # is it a dataset of a server, whose promise somebody else chose?

    def __init__(
        self, engine: Engine, promise: Promise, ledger: Ledger, noise: Noise, guard: Guard, *,
        pricing: str = "geometry", name: str = "", planner: Planner | None = None,
        policy: Policy | None = None,
    ) -> None:  # fmt: skip
        self.promise = promise
        self.pricing = pricing
        self.name = name
        self.schema = engine.schema
        self._ledger = ledger
        self._planner = planner or Planner(engine.schema, promise, pricing, name, ledger)
        self._pipeline = Pipeline(
            engine, ledger, noise, guard, Lifetime(), name=name, policy=policy
        )
        self._planner.stored = self._pipeline.stored
        self._estimator = Estimator(self._planner, ledger, engine.schema)
        self._append: Callable[..., Database] | None = None
        self._analyst = ""  # whose questions these are, where the ledger tells people apart

    # --- asking -------------------------------------------------------------------------

    @overload
    def ask(
        self, query: Query, *, request_id: str | None = None, combine: bool = False
    ) -> Answer: ...
    @overload
    def ask(
        self, query: Sequence[Query], *, request_id: str | None = None, share: bool = True,
        together: bool = False,
    ) -> list[Answer]: ...  # fmt: skip
    def ask(
        self, query: Query | Sequence[Query], *, request_id: str | None = None,
        share: bool = True, together: bool = False, combine: bool = False,
    ) -> Answer | list[Answer]:  # fmt: skip
        """Ask one query, or a list of them as one batch: one charge, one scan.

        A question asked before returns its stored answer, free. A repeated `request_id` never
        pays twice or gets a second answer. Counts and tables over the same columns are measured
        together where the price is lower for the same mean error; share=False asks each by itself;
        together=True makes the list one question of the ledger, as the parts of a SQL statement
        are. With combine=True the answer to one query is read off it and all earlier answers.
        """
        if isinstance(query, str):
            raise QueryNotAllowed(f"{shorten(repr(query))}: want a sulq.Query or a list of them.")
        if combine and not isinstance(query, Query):
            raise QueryNotAllowed("combine=True: for one query at a time. Nothing was charged.")
        question = self.question(query, share=share, together=together)
        found: Answer | list[Answer] = self._paid(question, request_id, combine)
        return found

    def _paid(self, question: Question, request_id: str | None, combine: bool) -> Any:
        """The answer to a question, with what earlier answers say if that is wanted."""
        if not combine:
            return self.answer(question, request_id=request_id)
        return combined(*self.answer_and_estimate(question, request_id))

    def answer_and_estimate(self, question: Question, request_id: str | None) -> tuple[Any, Any]:
        """Its own answer, and what all stored ones say with it; None if that is no linear form."""
        found = self.answer(question, request_id=request_id)
        try:
            return found, self.estimated(question)
        except NotKnown:
            return found, None

    def question(
        self,
        query: Query | Sequence[Query] | Marginals | str,
        *,
        share: bool = True,
        together: bool = False,
    ) -> Question:
        """Check and price a query, a list of them or a SELECT. Nothing is spent, no row read."""
        question = self._planner.question(query, share=share, together=together)
        return self._pipeline.dry_runs.priced(question)

    def ready(self, question: Question) -> Question:
        """The question, run over zeros: once it is charged, only the engine can fail.

        Small ones are when they are priced. QueryNotAllowed if that fails.
        """
        return self._pipeline.dry_runs.ready(question)

    def answer(
        self, question: Question, *, request_id: str | None = None, most: int | None = None
    ) -> Any:
        """Pay for a question and answer it: an Answer, a list of them, or a Table for SQL.

        It is refused if more than `most` micro-queries would be charged.
        """
        (found,) = self.answer_all([Order(question, request_id, self._analyst, most)])
        if isinstance(found, Exception):
            raise found
        return found

    def answer_all(
        self, orders: Sequence[Order], *, until: float | None = None, timing: Timing | None = None
    ) -> list[Any]:
        """What each of several orders gets, of one or many people: its answer, or its error.

        `until` is the moment of time.monotonic() by which rows must be read, and `timing` says
        when what was read is stored.
        """
        return self._pipeline.answer(orders, until=until, timing=timing)

    def scan_seconds(
        self, questions: Sequence[Question], most: float, more_like_it: int = 0
    ) -> float:
        """How long noise and rows for these take now, up to so long; nothing of it is given."""
        return self._pipeline.scan_seconds(questions, most, more_like_it)

    def answer_with_noise_alone(self, order: Order) -> Any:
        """What it would get if every sum were 0: paid, stored nowhere, no row read."""
        return self._pipeline.answer_with_noise_alone(order)

    def sql(
        self, text: str, *, request_id: str | None = None, free: bool = False,
        combine: bool = False, define: Iterable[RowFunction] = (),
    ) -> Table:  # fmt: skip
        """Answer one SELECT: every declared group, each number with a low and high beside it.

        free=True asks nothing: it is `estimate`. combine=True is as in `ask`. It may call the row
        functions of `define` by their names.
        """
        text = expand(text, *define)
        if free:
            table: Table = self.estimate(text)
        else:
            table = self._paid(self.question(text), request_id, combine)
        return table

    # --- looking without paying ---------------------------------------------------------

    def review(self, queries: Iterable[Query | str]) -> Any:
        """Which of these questions an auditor would answer together: needs mode="audited"."""
        raise Refused(
            "review: it needs the terms of mode='audited': sulq.open(..., mode='audited', "
            "queries=m, independent_rows=True, priors={...} or rule='duan')."
        )

    def modulo(self, query: Query | str, q: int, *, request_id: str | None = None) -> Answer:
        """An exact sum modulo q: needs mode="audited" and dither=0, and is not sent over HTTP."""
        raise Refused(
            "modulo: exact sums modulo q are for sulq.open(..., mode='audited', dither=0), not for "
            "noise and not over HTTP. Nothing was charged."
        )

    def rows_of(self, query: Query) -> int:
        """How many rows a query is about, by public columns alone. Public like n, so free."""
        counting = Query(("1",), where=query.where, rows=query.rows, per_person=query.per_person)
        fact = Fact(counting, public_part(self._planner.check(counting)))
        return int(self._pipeline.count([fact], self._analyst)[0].exact[0][0])

    def price(
        self, query: Query | Sequence[Query] | Marginals | str, *,
        define: Iterable[RowFunction] = (),
    ) -> Price:  # fmt: skip
        """The price of a question. Nothing is spent, no row is read.

        `.estimate` has what stored answers say about it already, free.
        """
        query = expand(query, *define) if isinstance(query, str) else query
        question = self.question(query)
        return replace(question.price, _look=lambda: self.estimate(query))

    def outputs(self, text: str) -> dict[str, tuple[Any, ...] | None]:
        """The columns that a SELECT gives: the labels a group may have, None for a number."""
        return self._planner.outputs(text)

    def unpaid(self, question: Question, *, analyst: str | None = None) -> int:
        """What asking it now would charge, in micro-queries: what was paid before is free.

        Paid before by one analyst, if one is named. Nothing is spent, no row is read.
        """
        prices = {bundle.text: bundle.price.micro for bundle in question.bundles}
        found = self._ledger.find_all(list(prices)) if prices else {}
        paid = {text for text, (charge, _) in found.items() if analyst in (None, charge.analyst)}
        return sum(price for text, price in prices.items() if text not in paid)

    def estimate(self, query: Query | Sequence[Query] | Marginals | str) -> Any:
        """What stored answers say about a question, free: as `ask` or `sql` would give it.

        By least squares over all they measured of the present rows, with the interval that their
        noise leaves. No row is read, nothing is charged. NotKnown where they do not tell.
        """
        return self.estimated(self.question(query, share=False))

    def estimated(self, question: Question, *, analyst: str | None = None) -> Any:
        """The same for a question; from the answers of one analyst alone, if one is named."""
        self._pipeline.lifetime.check(self.name)
        known = dict(self._pipeline.known)
        left = self._pipeline.left(self._analyst, question.bundles)
        return self._estimator.estimate(question, self._row_counts(), known, left, analyst=analyst)

    def _row_counts(self) -> list[RowCount]:
        """The number of stored rows; of several tables also that of each, if it is known."""
        counts = [self.stored_rows]
        star = self._pipeline.engine.schema.star
        tables = () if star is None else star.tables
        with suppress(SulqError):  # a database that is frozen counts nothing more
            whole = [Query(rows=Rows.where(is_of(t))) for t in tables]
            found = self._pipeline.counts([self._planner.checked(q) for q in whole])
            pairs = zip(tables, found, strict=True)
            counts += [RowCount(n, TableRows(t.name)) for t, [[n]] in pairs]
        return counts

    @property
    def budget(self) -> Budget:
        """T, spent and remaining, in queries; an analyst's allotment and their own spending."""
        total, spent, left = self._ledger.budget()
        if self._analyst:
            own = self._ledger.allotment(self._analyst)
            if own.allotted is not None:
                total, spent, left = own.allotted, own.spent, min(left, max(own.left or 0, 0))
        there = getattr(self._ledger.standing(), "elsewhere", 0)
        each = left
        if self._ledger.width > 1:
            people = self._planner.check(Query()).people is not None
            each = self._pipeline.left(self._analyst, people=people)
        return Budget.of(total, spent, left, self.group, there, each if each != left else None)

    def left(self, question: Question | None = None) -> Fraction:
        """Queries that one more question about the same rows may have; None: about all rows.

        With [unit] max_periods someone pays for a question about several periods in each of
        theirs, so less may be left for it than for one about a single period.
        """
        bundles = () if question is None else question.bundles
        return Fraction(self._pipeline.left(self._analyst, bundles), MICRO)

    @property
    def group(self) -> str:
        """The group of datasets about the same people that it shares its T with; empty: none."""
        return getattr(self.promise, "group", "")  # audited tables are in none

    @property
    def periods(self) -> list[Any]:
        """The periods that have rows, where the schema has a [period]. Public."""
        return list(self._ledger.terms.get("periods") or ())

    def budget_by_cell(self) -> list[dict[str, Any]]:
        """The budget of each combination of public values, in queries."""
        spent, everyone = self._ledger.spent_by_cell(), self._ledger.base()
        schema, out = self._pipeline.engine.schema, []
        each = [spent.get(i, everyone) for i in range(len(schema.cells))]
        rooms = self._ledger.left_by_cell()
        own = self._pipeline.own_left(self._analyst)
        for cell, used, room in zip(schema.cells, each, rooms, strict=True):
            names = {c.name: v for c, v in zip(schema.cell_columns, cell, strict=True)}
            left = room if own is None else min(room, own)
            out.append(names | {"spent": Fraction(used, MICRO), "remaining": Fraction(left, MICRO)})
        return out

    def project(self, model: Any, *, clip: float | None = None) -> Database:
        """The same database with a model's components pc1, pc2, ... in place of its columns.

        `clip` keeps each within so many standard deviations, as the model knows them, so that
        less noise is needed than for the widest a component could be.
        """
        return self._seen_by(self._planner.seen_as(lambda: projection(model, self.schema, clip)))

    def define(self, *functions: RowFunction, **expressions: str) -> Database:
        """The same database with functions of a row as columns beside its own, by their names.

        So they can be learned from, too: model.fit(db.define(score, old="age > 65"), ...). The
        columns and the label of a fit may also be the functions themselves.
        """
        columns = self._planner.seen_as(lambda: defined(functions, expressions, self.schema))
        return self._seen_by(columns)

    @property
    def program_fuel(self) -> int | None:
        """The most instructions that a program may take for a row; None: programs are off."""
        return self._planner.program_fuel

    def charge_time(self, queries: Any) -> None:
        """Charge so much more for a question that runs a program: how long it took is told too.

        A server does so whose replies leave after a random delay; see docs/timing.md.
        """
        self._planner.time_micro = math.ceil(Fraction(str(queries)) * MICRO)

    def per_person(self, features: Any, *, where: str | None = None) -> Database:
        """The same database with one row for each person of [unit], at the price of one row.

        `features` names aggregates of all rows of a person: {"visits": "count(*)", "worst":
        "max(severity)"}. `where` says of which rows; people without such a row are left out.
        """
        return self._seen_by(self._planner.per_person(PerPerson(features, where)))

    def table(self, name: str) -> Database:
        """The rows of one of the schema's [tables]: its columns, and beside events those of people.

        Without it questions are about the table of people; SQL names the tables itself.
        """
        return self._seen_by(self._planner.of_table(name))

    def _seen_by(self, planner: Planner) -> Database:
        """The same database with the columns that this planner knows."""
        view = copy.copy(self)
        view._planner, view.schema = planner, planner.schema
        return view

    def as_analyst(self, name: str) -> Database:
        """The same database, asked by one analyst: charged by that name, within its allotment."""
        view = copy.copy(self)
        view._analyst = check_analyst(name)
        return view

    def allot(self, analyst: str, queries: Any) -> None:
        """Let an analyst spend at most so many queries in all; None: no limit of their own.

        A cap, not a reservation, since T is one for everybody. Logged in the ledger.
        """
        cap = None if queries is None else micro_of(queries)
        self._ledger.allot(check_analyst(analyst), cap)

    def allotments(self) -> dict[str, Allotment]:
        """What every analyst has spent and may spend, in micro-queries."""
        return self._ledger.allotments()

    def history(self) -> list[Charge]:
        """Every charge ever made, oldest first."""
        return self._ledger.history()

    def decisions(self) -> list[Entry]:
        """What the owner decided, oldest first: refreshes, overrides, allotments, restores."""
        return self._ledger.decisions()

    def entries(self, first: int = 0) -> Iterator[Entry]:
        """Every entry of the ledger's chain from this one on: charges, answers, decisions."""
        return self._ledger.entries(first)

    @property
    def columns(self) -> list[str]:
        """The declared columns."""
        return self.schema.names

    @property
    def rows(self) -> int:
        """n, the number of rows that questions are about: of several tables, of one. Public."""
        return self.row_count.n

    @property
    def row_count(self) -> RowCount:
        """The number of rows, with which rows it counts."""
        if not self._planner.of_some_rows:
            return self.stored_rows
        view = self._planner.of_people
        of = ViewRows() if view else TableRows(self._planner.table)
        return RowCount(self.rows_of(Query()), of)

    @property
    def stored_rows(self) -> RowCount:
        """The number of rows that the engine reads: those of all [tables] together. Public."""
        return self._pipeline.stored

    def sizes(self, *rows: Rows) -> list[tuple[int, ...]]:
        """How many rows each public set has, or each of its blocks. Public like n, so free."""
        counting = [self._planner.check(Query(("1",), rows=r)) for r in rows]
        if not counting:
            return []
        counts = sum(c.shape[0] for c in counting)
        if counts > MAX_COUNTS:  # these are free
            raise QueryNotAllowed(
                f"sizes: {counts:,} numbers at once, at most {MAX_COUNTS:,}. Ask for fewer blocks."
            )
        return [tuple(row[0] for row in matrix) for matrix in self._pipeline.counts(counting)]

    def key_counts(self) -> KeyCounts:
        """Whether every row has a key of its own. Public, so free."""
        key = need_key(self.schema, "counting keys")
        everyone = self._planner.check(Query())
        nobody = self._planner.check(Query(rows=Rows.where(f"{quote(key)} is null")))
        keys_alone = Dense("people", (key,), 0, None)
        text = dumps(json.loads(everyone.text) | {"kind": "keys", "values": keys_alone.tree})
        different = replace(everyone, values=keys_alone, text=text)
        found = self._pipeline.counts([everyone, nobody, different])
        rows, missing, keys = (matrix[0][0] for matrix in found)
        return KeyCounts(rows, missing, rows - missing - keys)

    def verify(self) -> int:
        """Walk the ledger's chain and give the number of entries; raises if it is broken."""
        return self._ledger.verify()

    def check_rows(self) -> None:
        """Raise unless it is open here, with the rows that its ledger began with."""
        self._pipeline.check_ready()

    def check_ledger(self) -> None:
        """Raise if nothing could be charged now. Nothing is written, and nothing is waited for."""
        self._ledger.check_usable()

    @property
    def frozen(self) -> Freeze | None:
        """What failed and froze it, without anything of the rows; None if nothing did."""
        return self._ledger.frozen()

    def resume(self, reason: str) -> None:
        """Go on after a scan failed and froze it. Logged in the ledger, with the reason."""
        if self._analyst:
            raise NotPermitted("resume: its owner goes on, not an analyst.")
        self._ledger.resume(reason)

    def append(self, rows: Any = None, *, reason: str = "") -> Database:
        """The database with rows of new periods beside its own; this one closes.

        Logged; older periods keep what was spent on them, the new ones begin with nothing. `rows`
        is a file or a frame; without, they have been added to the source already.
        """
        if self._analyst or self._append is None:
            raise NotPermitted("append: its owner appends rows, where they are.")
        made = self._append(rows, reason=reason)
        self.close()
        return made

    def close(self) -> None:
        """Let go of the source and the ledger, for all views of it; twice is once."""
        if self._pipeline.lifetime.end():
            self._let_go()

    def _let_go(self) -> None:
        self._pipeline.close()
        self._ledger.close()

    def warm(self, hold: bool | None = None) -> bool:
        """Load what loads on first use, and draw noise ahead of need from now on; for servers.

        Keeps the rows in memory as well, if they are few or if told to: are they?
        """
        held = self._pipeline.engine.hold(hold)
        drawn([self._planner.priced([Query()])], self._pipeline.noise)
        self._pipeline.noise = NoiseAhead(self._pipeline.noise)
        self._pipeline.count_aside()
        return held

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sulq.Database {self.name!r}: {self.rows:,} rows, {self.budget}>"

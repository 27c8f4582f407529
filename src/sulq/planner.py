"""Query, a list of them or a SELECT -> one checked and priced question. Nothing is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.parse import SHORT, shorten
from sulq.ledger.older_charges import Upgraded
from sulq.privacy.choice import choosing
from sulq.privacy.pricing import Tariff, tariff_of
from sulq.questions.check import CheckedQuery, check
from sulq.questions.defined_columns import stacked
from sulq.questions.discovery import Discovery
from sulq.questions.discovery_threshold import ready
from sulq.questions.facts import Fact, divided, is_public, public_values
from sulq.questions.joint_price import priced_together
from sulq.questions.partitions import histogram_axis
from sulq.questions.people_view import PeopleView, people_view
from sulq.questions.percentile_choice import Choice
from sulq.questions.programs_used import check_programs, programs_of, with_time
from sulq.questions.projection import Projection
from sulq.questions.question import (
    BatchPlan,
    Bundle,
    Question,
    SharedPlan,
    Unopened,
    listed,
)
from sulq.questions.row_limits import limits_of, with_limits
from sulq.questions.star_tables import TableView
from sulq.sql import ALL, Groupings, RunningSums, compile_statement
from sulq.strategies.many_tables import Crosstabs, crosstabs, each_table
from sulq.strategies.running_totals import running_question
from sulq.strategies.sharing import SharedCounts, may_be_shared, share
from sulq.strategies.subtotals import Subtotals, is_nested, subtotals
from sulq.values.counted_rows import RowCount, StoredRows
from sulq.values.marginals import Marginals
from sulq.values.per_person import PerPerson
from sulq.values.query import Query, Running

if TYPE_CHECKING:
    from sulq.ledger import Ledger
    from sulq.privacy.promise import Promise
    from sulq.sql import Statement
    from sulq.values.answer import Answer
    from sulq.values.schema import Schema
    from sulq.values.table import Table

MAX_NUMBERS = 300_000  # in the answer to one question
MAX_IN_A_LIST = 1_000_000  # in the answers to a list of them


class Planner:
    """Checks and prices questions about one table, by its schema and promise alone."""

    def __init__(
        self, schema: Schema, promise: Promise, pricing: str, name: str, ledger: Ledger | None,
        view: Projection | PeopleView | TableView | None = None,
        program_fuel: int | None = None, time_micro: int = 0,
    ) -> None:  # fmt: skip
        self._base = schema  # what the source has
        self._stored = view.stored if isinstance(view, PeopleView) else schema  # what rows have
        self.schema = schema if view is None else view.schema  # what a question may use
        self._view = view  # how the one is written in terms of the other
        self._promise = promise
        self._pricing = pricing
        self._name = name
        self._ledger = ledger  # None: the charges are kept elsewhere
        self.program_fuel = program_fuel  # of a row; None: programs are off
        self.time_micro = time_micro  # for how long a program took, beside its answer
        self.stored = RowCount(0, StoredRows())  # how many rows the engine reads, which is public
        self.periods: Callable[[], Sequence[Any]] = self._periods  # that have rows, public too
        self._older = None if ledger is None else Upgraded(ledger, self.with_tariff)

    @property
    def of_people(self) -> bool:
        """Has each person one row here, in place of the table's own?"""
        return isinstance(self._view, PeopleView)

    @property
    def of_some_rows(self) -> bool:
        """Is n another than the number of rows that are stored?"""
        return self.of_people or self._base.star is not None

    @property
    def table(self) -> str:
        """What a SELECT calls the rows that questions are about."""
        if isinstance(self._view, TableView):
            return self._view.table.name
        return self._name if self._base.star is None else self._base.star.people.name

    def of_table(self, name: str) -> Planner:
        """The rows of one of several tables."""
        return self.seen_as(lambda: TableView.of(name, self._base))

    def per_person(self, asked: PerPerson) -> Planner:
        """The same table with one row for each person."""
        if self.of_people:
            raise QueryNotAllowed("per_person: each person has one row already; ask the table.")
        if isinstance(self._view, TableView):
            asked = self._view.person_rows(asked)
            return self._of_all_tables().seen_as(lambda: people_view(asked, self._base))
        return self.seen_as(lambda: people_view(asked, self._base))

    def _of_all_tables(self) -> Planner:
        """The same without the view of a table: a SELECT names its tables itself."""
        return self._with_view(None)

    def seen_as(self, view: Callable[[], Projection | PeopleView | TableView]) -> Planner:
        """The same table with a view's columns in place of its own."""
        return self._with_view(view() if self._view is None else stacked(view, self._view))

    def _with_view(self, view: Projection | PeopleView | TableView | None) -> Planner:
        made = Planner(
            self._base, self._promise, self._pricing, self._name, self._ledger, view,
            self.program_fuel, self.time_micro,
        )  # fmt: skip
        made.stored, made.periods = self.stored, self.periods
        return made

    def _periods(self) -> Sequence[Any]:
        return () if self._ledger is None else self._ledger.terms.get("periods") or ()

    def question(
        self,
        query: Query | Sequence[Query] | Marginals | str,
        *,
        share: bool = True,
        together: bool = False,
    ) -> Question:
        """Check and price a query, a list of them or a SELECT. Nothing is spent, no row read."""
        if not isinstance(query, Query | Marginals | str) and isinstance(query, Iterable):
            query = list(query)
        made = self._question(query, share, together, older=False)
        _check_numbers(made.numbers)
        limits = limits_of(made.checked, self._base)
        made = self._as_charged(query, made, share, together)
        return replace(made, lay_out=with_limits(made.lay_out, limits))

    def _as_charged(self, query: Any, made: Question, share: bool, together: bool) -> Question:
        """The same question, in the form that an older version has charged for it, if one has."""
        if self._older is None or self.of_people or made.apart or isinstance(query, Marginals):
            return made
        return self._older.question(
            made, lambda: self._question(query, share, together, older=True)
        )

    def _question(
        self,
        query: Query | Sequence[Query] | Marginals | str,
        share: bool,
        together: bool,
        older: bool,
    ) -> Question:
        if isinstance(query, Query):
            if query.per_person is not None and not self.of_people:
                people = self.per_person(query.per_person)
                return people._question(replace(query, per_person=None), share, together, older)
            if isinstance(query.values, Running):
                return self._running(query)
            return self._together([query], lambda answers: answers[0], older)
        if isinstance(query, Marginals):
            return self._marginals(query, share)
        if isinstance(query, str):
            if isinstance(self._view, TableView):
                return self._of_all_tables()._question(query, share, together, older)
            statement = self.statement(query, older)
            if isinstance(statement, RunningSums):
                made = self._running(statement.query)
                return replace(made, lay_out=statement.tables(made.lay_out))
            if statement.per_person is None:
                return self._of_statement(statement, share, older)
            return self.per_person(statement.per_person)._of_statement(statement, share, older)
        if not isinstance(query, Iterable):
            raise QueryNotAllowed(f"{shorten(repr(query))}: want a sulq.Query or a list of them.")
        queries = list(query)
        if together and queries:
            return self._together(queries, lambda answers: answers, older)
        plans, numbers = [], 0
        for each in queries:
            plans.append(self.plan([each], older))
            numbers += plans[-1].numbers
            _check_numbers(numbers)  # before the next one takes room
        asked = [i for i, p in enumerate(plans) if p.bundle is not None]
        shared = self._shared([queries[i] for i in asked]) if share and not older else None
        return listed(plans, shared)

    def _running(self, query: Query) -> Question:
        """Totals so far at every period."""
        if self._view is not None or self._pricing != "geometry" or not self._may_share:
            raise QueryNotAllowed(
                "running: it needs the table itself, not a view of it, gaussian noise, and pricing "
                "by geometry. Nothing was charged."
            )
        stretches = None if self._ledger is None else self._ledger.stretches

        def checked(query: Query) -> tuple[CheckedQuery, Tariff]:
            found = self._checked(query, False)
            if self.time_micro and programs_of(found):
                raise QueryNotAllowed(
                    "running: no program here, whose time is told anew with every total."
                )
            return found, self.tariff(found)

        return running_question(query, self._base, self.periods(), stretches, checked)

    def _of_statement(self, statement: Statement | Groupings, share: bool, older: bool) -> Question:
        if isinstance(statement, Groupings):
            return self._groupings(statement, share, older)
        made = self._together(list(statement.queries), statement.table, older)
        return replace(made, across=bool(statement.formulas.quantiles))

    def _together(
        self, queries: list[Query], lay_out: Callable[[list[Answer]], Any], older: bool = False
    ) -> Question:
        """Queries as one question of the ledger, what is public of them aside."""
        plan = self.plan(queries, older)

        def laid_out(found: list[list[Answer]], known: list[Answer]) -> Any:
            return lay_out(plan.answers(found[0] if found else [], known))

        return Question((plan.bundle,) if plan.bundle else (), laid_out, plan.facts)

    def plan(self, queries: list[Query], older: bool = False) -> BatchPlan:
        """What of these queries is paid for, together, and what is public."""
        if older:
            return BatchPlan(((),) * len(queries), self.priced(queries, older), ())
        known_of, facts = [], []
        private: list[tuple[Query, CheckedQuery]] = []
        numbers = 0
        for query in queries:
            checked = self.check(query)
            numbers += checked.numbers
            _check_numbers(numbers)
            if is_public(checked, self._stored):
                known_of.append((True,) * len(checked.releases))
                facts.append(Fact(self.written(query), checked))
                continue
            public = public_values(query, checked, self._stored)
            known_of.append(public)
            if any(public):
                query, known = divided(query, public)
                facts.append(Fact(self.written(known), self.check(known)))
                checked = self.check(query)
            private.append((self.written(query), checked))
        bundle = self._bundle(private) if private else None
        return BatchPlan(tuple(known_of), bundle, tuple(facts), self._unopened())

    def _unopened(self) -> Unopened | None:
        """The periods that have no rows yet, as the ledger says; None where all have some."""
        column = self.schema.get(self.schema.period) if self.schema.period else None
        opened = self.periods() if column is not None and column.values else ()
        if column is None or not opened:
            return None
        return Unopened(column.name, frozenset(column.values or ()) - frozenset(opened))

    def _shared(self, queries: list[Query]) -> SharedPlan | None:
        """A plan for the whole batch at a lower price than asking each by itself."""
        if len(queries) < 2 or not self._may_share:
            return None
        checked = {q: self.check(q) for q in queries}
        if not self.of_people and any(c.people is not None for c in checked.values()):
            return None  # each is about rows of its own
        alone = {c.text: self.tariff(c).price.micro for c in checked.values()}
        pairs = [(q, checked[q]) for q in queries]
        tried = [self._shared_by(asked, self.plan(list(asked.queries)))
                 for asked in self._as_tables(pairs)]  # fmt: skip
        tried = tried or self._as_counts(pairs)
        if not tried:
            return None
        best = min(tried, key=lambda found: _micro(found.plan))
        return best if _micro(best.plan) < sum(alone.values()) else None

    def _shared_by(
        self, asked: Crosstabs | Subtotals | SharedCounts, plan: BatchPlan
    ) -> SharedPlan:
        assert plan.bundle is not None
        return SharedPlan(asked.answers, plan, asked.half_widths(plan.bundle))

    def _as_counts(self, asked: Sequence[tuple[Query, CheckedQuery]]) -> list[SharedPlan]:
        """The ways to ask counts together: by every value of their columns, or by the pieces that
        they tell apart where there are too many values.
        """
        each = [found for _, found in asked]
        counts = share(each, self._stored, self.check, self._micro, self._promise.guarantee)
        if counts is not None:
            return [self._shared_by(counts, BatchPlan(((),), self.priced([counts.query]), ()))]
        if not may_be_shared(each):
            return []
        by_pieces = self._subtotals(asked)
        return [self._shared_by(found, self.plan(list(found.queries))) for found in by_pieces]

    def _micro(self, query: Query) -> int:
        """The price of one query by itself, in micro-queries."""
        return self.tariff(self.check(query)).price.micro

    def _as_tables(
        self, asked: Sequence[tuple[Query, CheckedQuery]]
    ) -> list[Crosstabs | Subtotals]:
        """The ways to ask tables of counts together: by their columns, or by common cells."""
        by_columns = crosstabs(asked, self._promise.guarantee, weight=each_table)
        by_cells: list[Subtotals] = []
        tables = [c for _, c in asked]
        if by_columns is None or is_nested(tables):
            by_cells = self._subtotals(asked) if any(t.axes for t in tables) else []
        return [*([] if by_columns is None else [by_columns]), *by_cells]

    def _subtotals(self, asked: Sequence[tuple[Query, CheckedQuery]]) -> list[Subtotals]:
        return subtotals(
            [(q, c, self.tariff(c)) for q, c in asked], self._stored, self.check,
            lambda c: is_public(c, self._stored), self._promise.guarantee,
        )  # fmt: skip

    @property
    def _may_share(self) -> bool:
        """Strategies are for noise that is priced by squared size."""
        return self._promise.noise == "gaussian" and self._pricing == "geometry"

    def _marginals(self, asked: Marginals, share: bool) -> Question:
        """Tables as one question: from their residuals, or each by itself where that cannot be."""
        by = {c: histogram_axis(c, None, self.schema) for c in asked.columns}
        queries = [
            Query(by=tuple(by[c] for c in table), where=asked.where, rows=asked.rows)
            for table in asked.tables
        ]

        def tables(answers: list[Answer]) -> dict[tuple[str, ...], Table]:
            named = zip(asked.tables, answers, strict=True)
            return {table: answer.table(table, ("count",)) for table, answer in named}

        checked = [self.check(q) for q in queries]
        if not share or all(is_public(c, self._stored) for c in checked):
            return self._together(queries, tables)
        found = None
        if self._may_share:
            found = crosstabs(
                list(zip(queries, checked, strict=True)), self._promise.guarantee,
                weight=lambda i, cells: asked.weight(asked.tables[i]), budget=asked.budget,
                consistent=asked.consistent,
            )  # fmt: skip
        if found is not None:
            return self._from_parts(found, tables)
        if asked.budget is not None or asked.consistent:
            raise QueryNotAllowed(
                "marginals: budget= and consistent= need gaussian noise, pricing by geometry, and "
                "columns with two values or more."
            )
        return self._together(queries, tables)

    def _from_parts(
        self, asked: Crosstabs | Subtotals, lay_out: Callable[[list[Answer]], Any]
    ) -> Question:
        """Tables as one question for what they are put together from."""
        made = self._together(list(asked.queries), lambda found: lay_out(asked.answers(found)))
        return replace(made, half_widths=asked.half_widths(made.bundles[0]))

    def _groupings(self, statement: Groupings, share: bool, older: bool) -> Question:
        """Several groupings as one question: plain counts from their residuals."""
        queries = list(statement.queries)
        apart = self._together(queries, statement.table, older)
        if older or not share or not self._may_share:
            return apart
        asked = [(q, self.check(q)) for q in queries]
        made = [self._from_parts(found, statement.table) for found in self._as_tables(asked)]
        best = min(made, key=lambda question: question.price.micro, default=apart)
        return best if best.price.micro < apart.price.micro else apart

    def statement(self, text: str, older: bool = False) -> Statement | Groupings | RunningSums:
        """A SELECT, compiled to queries and the layout of their answers."""
        return compile_statement(text, self.schema, self._name, self._promise.noise, older)

    def outputs(self, text: str) -> dict[str, tuple[Any, ...] | None]:
        """The columns that a SELECT gives: the labels a group may have, None for a number."""
        if isinstance(self._view, TableView):
            return self._of_all_tables().outputs(text)
        found = self.statement(text)
        if isinstance(found, RunningSums):
            return found.columns
        if isinstance(found, Groupings):  # beside labels there is '(all)'
            return {o.name: (ALL,) if isinstance(o.by, int) else None for o in found.outputs}
        keys = found.formulas.keys
        axes = self.check(Query(("1",), by=keys)).axes if keys else ()
        return {o.name: axes[o.by].labels if isinstance(o.by, int) else None for o in found.outputs}

    def priced(self, queries: list[Query], older: bool = False) -> Bundle:
        """Queries as one question of the ledger."""
        written = [self.written(q) for q in queries]
        return self._bundle([(q, self.checked(q, older)) for q in written])

    def _bundle(self, asked: list[tuple[Query, CheckedQuery]]) -> Bundle:
        """Queries of the stored columns, checked, as one question."""
        numbers = sum(c.numbers for _, c in asked)
        if numbers > MAX_NUMBERS:
            raise QueryNotAllowed(
                f"the answer would need {numbers:,} noisy numbers, at most {MAX_NUMBERS:,}. Ask "
                "for fewer groups or fewer medians."
            )
        parts = tuple((c, self.tariff(c)) for _, c in asked)
        if self._may_share:
            parts = priced_together(parts, self._promise.guarantee)
        if self.time_micro:
            parts = with_time(parts, self.time_micro)
        return Bundle(parts, tuple(q for q, _ in asked))

    def written(self, query: Query) -> Query:
        """The query in terms of the stored columns."""
        return query if self._view is None else self._view.written_out(query)

    def check(self, query: Query) -> CheckedQuery:
        """A query of this view, checked."""
        return self.checked(self.written(query))

    def checked(self, query: Query, older: bool = False) -> CheckedQuery:
        """A query of the stored columns, checked."""
        if isinstance(getattr(query, "values", None), Running):
            raise QueryNotAllowed("running: ask for it by itself, not in a list or with others.")
        return self._checked(query, older)

    def _checked(self, query: Query, older: bool) -> CheckedQuery:
        try:
            hash(query)
        except TypeError:
            raise QueryNotAllowed(
                f"{shorten(repr(query))}: names and numbers are wanted where a list or set stands."
            ) from None
        terms = (query, self._base, self._promise.noise, self._promise.guarantee, older)
        # Looking is free, so only small questions are kept, whatever an analyst looks at.
        found = _small(*terms) if is_small(query) else check(*terms)
        check_programs(found, self.program_fuel)
        if isinstance(found.measurement, Discovery):
            if self.of_people or isinstance(
                self._view, Projection
            ):  # whose rows are not those that values are counted of
                raise QueryNotAllowed("discover: ask the table itself, not a view of it.")
            return ready(found, self._promise, self._pricing, self.stored)
        if isinstance(found.measurement, Choice):
            law = choosing(self._promise, found.measurement.share)
            return replace(found, measurement=found.measurement.ready(law))
        return found

    def tariff(self, checked: CheckedQuery) -> Tariff:
        """Its price, and the noise that buys."""
        return tariff_of(checked, self._promise, self._pricing)

    def with_tariff(self, query: Query, older: bool) -> tuple[CheckedQuery, Tariff]:
        """A query of the stored columns, checked, with its price and noise."""
        found = self.checked(query, older)
        return found, self.tariff(found)


def _micro(plan: BatchPlan) -> int:
    """The price of a plan, in micro-queries."""
    return 0 if plan.bundle is None else plan.bundle.price.micro


def _check_numbers(numbers: int) -> None:
    """Refuse what would not fit into memory: a scan that fails for that freezes the database."""
    if numbers > MAX_IN_A_LIST:
        raise QueryNotAllowed(
            f"the answers would have {numbers:,} numbers, at most {MAX_IN_A_LIST:,} in one list. "
            "Ask for fewer at a time."
        )


def is_small(query: Any) -> bool:
    """Is it a short list of sums without cells? These come by the hundred, and alike."""
    plain = isinstance(query, Query) and query.by is None and query.rows is None
    if not plain or not isinstance(query.values, tuple):
        return False
    return len(query.where or "") + sum(len(v) for v in query.values) <= SHORT


_small = lru_cache(maxsize=2048)(check)

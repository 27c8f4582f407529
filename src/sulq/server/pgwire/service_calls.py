"""What one connection asks: catalogues for nothing, datasets through the server's services.

A SELECT about a dataset goes the way of every question: its price, whether this connection may
spend it, then the batch of the dataset's beat. Rights are looked at anew for each statement.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sulq.database import Database
from sulq.errors import MICRO, LimitReached, NotFound, Refused, SulqError, in_queries
from sulq.preview import KeptRehearsals
from sulq.questions.question import Question
from sulq.server.pgwire import selects
from sulq.server.pgwire.catalogue import Catalogue, Catalogues, Offered, Unanswerable
from sulq.server.pgwire.catalogue_sql import (
    NoSuch,
    NotSql,
    SessionFacts,
    names_of,
    only_reads,
    tables_of,
    written,
)
from sulq.server.pgwire.problems import Problem
from sulq.server.pgwire.result_types import TEXT, ResultColumn
from sulq.server.pgwire.selects import Select
from sulq.server.pgwire.variables import VERSION, Variables
from sulq.server.services.access import Principal, Record
from sulq.server.services.context import Services
from sulq.server.services.threads import MeteredThreads

Given = TypeVar("Given")
PATIENT_SECONDS = 5.0  # that a statement waits where a request over HTTP would be refused
CAPPED = "or ask the owner to give the key a cap: sulq key cap"


@dataclass(slots=True)
class Result:
    """What a statement gave."""

    columns: list[ResultColumn]
    rows: list[tuple[Any, ...]]
    tag: str = ""
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tag = self.tag or f"SELECT {len(self.rows)}"


@dataclass(frozen=True, slots=True)
class WireServices:
    """What all connections of a server work with."""

    services: Services
    catalogues: Catalogues
    rehearsals: KeptRehearsals
    threads: MeteredThreads  # for what nobody pays


class Asking:
    """What one connection may ask, and how."""

    def __init__(
        self,
        shared: WireServices,
        principal: Principal,
        variables: Variables,
        database: str,
        number: int,
    ) -> None:
        self._shared = shared
        self.principal = principal
        self._variables = variables
        self._database = database
        self._number = number

    # ---- every statement --------------------------------------------------------------------

    async def admit(self) -> None:
        """Is the key still good, and is it this person's turn? Who asks too often waits."""
        registry, key = self._shared.services.registry, self.principal.key
        self.principal = await registry.run(self._shared.services.access.holder, key)
        take, person = self._shared.services.meter.take, self.principal.person.id
        await self._patient(lambda: registry.run(take, person))

    async def within_share(self) -> None:
        """Wait while this person's share of the processor is used up."""
        meter, person = self._shared.services.meter, self.principal.person.id

        async def check() -> None:
            meter.check(person)

        await self._patient(check)

    async def _patient(self, run: Callable[[], Awaitable[Given]]) -> Given:
        """Run this; wait a while where it would be refused for now."""
        until = asyncio.get_running_loop().time() + PATIENT_SECONDS
        while True:
            try:
                return await run()
            except LimitReached as error:
                wait = 0.05 + (error.retry_after or PATIENT_SECONDS)
                if asyncio.get_running_loop().time() + wait > until:
                    raise
                await asyncio.sleep(wait)

    async def metered(self, function: Callable[[], Given]) -> Given:
        """Run what nobody pays for in a thread, in this person's turn."""
        person = self.principal.person.id
        return await self._patient(lambda: self._shared.threads.run(person, function))

    async def read(self, text: str) -> Select:
        """What a SELECT is about."""
        return await self.metered(lambda: selects.read(text, self._database))

    # ---- datasets ---------------------------------------------------------------------------

    async def _records(self) -> list[Record]:
        """The datasets that this connection sees: of one only, if it was opened for that."""
        services = self._shared.services
        found = await services.registry.run(services.access.datasets, self.principal)
        own = [record for record in found if record.name == self._database]
        return own or found

    async def _record(self, name: str) -> Record:
        """The dataset of a name, in any case if that is one only."""
        records = await self._records()
        exact = [r for r in records if r.name == name]
        alike = exact or [r for r in records if r.name.lower() == name.lower()]
        if len(alike) != 1:
            raise NotFound(f'relation "{name[:64]}" does not exist for this key.')
        return alike[0]

    async def parameters(self, select: Select, said: Sequence[int]) -> list[int]:
        """The type of each parameter."""
        schema = None
        if select.table is not None and select.count:
            record = await self._record(select.table)
            schema = (await self._shared.services.answers.dataset(record)).db.schema
        return selects.parameter_types(select, schema, said)

    async def columns(self, select: Select, types: Sequence[int]) -> list[ResultColumn]:
        """The columns that a SELECT will give. Nothing is asked or spent."""
        if select.table is None:
            nulls = await self._filled(select, ["NULL"] * select.count)
            return (await self._browse(nulls)).columns
        record = await self._record(select.table)
        empty = await self._empty(select, record)
        if empty is not None:
            return empty.columns
        made: list[list[ResultColumn]] = []

        def make(db: Database) -> Question:
            text = selects.shape(select, types)
            columns = selects.columns_of(db, text)
            if self._variables.intervals:
                numbers = [labels is None for labels in db.outputs(text).values()]
                columns = selects.with_intervals(columns, numbers)
            made.append(columns)
            return db.question(text)

        await self._price(record, make)
        return made[-1]

    async def _empty(self, select: Select, record: Record) -> Result | None:
        """No rows, where none are wanted, only what the table is like."""
        schema = (await self._shared.services.answers.dataset(record)).db.schema
        found = selects.empty_columns(select, schema)
        return None if found is None else Result(found, [])

    async def _price(self, record: Record, make: Callable[[Database], Question]) -> Question:
        answers = self._shared.services.answers
        question, _ = await self._patient(lambda: answers.price(self.principal, record, make))
        return question

    async def _filled(self, select: Select, literals: Sequence[str]) -> Select:
        if not select.count:
            return select
        return await self.metered(lambda: select.with_values(literals))

    async def select(self, select: Select, literals: Sequence[str] = ()) -> Result:
        """The answer to a SELECT, with these values for its parameters."""
        # Before it is read: what was read before is read quicker.
        came = self._shared.services.answers.clock.now()
        select = await self._filled(select, literals)
        if select.table is None:
            return await self._browse(select)
        record = await self._record(select.table)
        empty = await self._empty(select, record)
        if empty is not None:
            return empty
        made: list[list[ResultColumn]] = []

        def make(db: Database) -> Question:
            made.append(selects.columns_of(db, select.text))
            return db.question(select.text)

        question = await self._price(record, make)
        body, unpaid = await self._paid(record, question, came)
        columns, rows = selects.laid_out(body, made[-1], self._variables.intervals)
        return Result(columns, rows, notices=_said(body["table"], unpaid))

    async def _paid(
        self, record: Record, question: Question, came: float
    ) -> tuple[dict[str, Any], int]:
        """The reply to a question that came then, and what was paid for it now."""
        answers, own = self._shared.services.answers, self._variables
        unpaid = await self._patient(lambda: answers.unpaid(self.principal, record, question))
        self._check_spending(unpaid)
        try:
            reply = await answers.answer(
                self.principal, record, lambda db: question, None, most=unpaid, came=came
            )
        except Refused as error:
            if error.charged is not False:
                own.spent += unpaid
            raise
        except BaseException:
            own.spent += unpaid  # perhaps; never less than it was
            raise
        own.spent += unpaid
        found: dict[str, Any] = json.loads(reply)
        return found, unpaid

    def _check_spending(self, unpaid: int) -> None:
        """Refuse what neither a person at this connection nor the owner of the key allowed."""
        left, price = self._variables.left, in_queries(unpaid)
        if unpaid == 0 or (left is None and self.principal.capped):
            return  # the cap of the key holds at every door
        if left is None:
            raise Problem(
                "53400", f"price={price}, and this connection may spend nothing yet",
                f"allow it first: set sulq.spend = {_enough(unpaid)}; EXPLAIN shows the price of a "
                f"statement; {CAPPED} {self.principal.key} {_enough(unpaid)}",
            )  # fmt: skip
        if unpaid > left:
            raise Problem(
                "53400", f"price={price} but {in_queries(left)} left of sulq.spend",
                f"set sulq.spend = {_enough(unpaid)} allows so many more",
            )  # fmt: skip

    async def explain(self, select: Select, literals: Sequence[str] = ()) -> list[str]:
        """Price, expected error and budget of a SELECT, line by line. Nothing is spent."""
        select = await self._filled(select, literals)
        if select.table is None:
            return ["Price: 0 queries: catalogues are public"]
        record = await self._record(select.table)
        widths: dict[str, list[tuple[str, str]]] = {}

        def make(db: Database) -> Question:
            question = db.question(select.text)
            if question.bundles:
                widths["found"] = self._shared.rehearsals.errors(db, select.text)
            return question

        answers = self._shared.services.answers
        question = await self._price(record, make)
        unpaid = await self._patient(lambda: answers.unpaid(self.principal, record, question))
        dataset = await answers.dataset(record)
        view = dataset.db.as_analyst(self.principal.person.in_ledger)
        budget = await answers.look(self.principal, lambda: view.budget)
        left = await answers.left(self.principal, record, question)
        own = [] if left == int(budget.remaining * MICRO) else [
            f"Left for a question about the same rows: {in_queries(left)}"
        ]  # fmt: skip
        return [*_priced(question, unpaid), *(
            f"Expected error of {name}: {reach} (95%)" for name, reach in widths.get("found", ())
        ), f"Budget: {budget}", *own, self._allowance()]  # fmt: skip

    def _allowance(self) -> str:
        left = self._variables.left
        if left is not None:
            return f"Spending: {in_queries(left)} left of sulq.spend"
        if self.principal.capped:
            return "Spending: within the cap of the key"
        return "Spending: not allowed yet; set sulq.spend = 5 allows 5 queries"

    # ---- catalogues -------------------------------------------------------------------------

    async def _offered(self) -> list[Offered]:
        out = []
        for record in await self._records():
            try:
                schema = (await self._shared.services.answers.dataset(record)).db.schema
                out.append(Offered(record.name, record.description, schema))
            except SulqError:
                out.append(Offered(record.name, record.description, None))
        return out

    async def _browse(self, select: Select) -> Result:
        """What catalogues say; free."""
        offered = await self._offered()
        role = f"sulq_{self.principal.key}"

        def run() -> Result:
            catalogue = self._shared.catalogues.of(self._database, role, offered)
            return browsed(catalogue, select, self._facts(role))

        try:
            return await self.metered(run)
        except NotSql:
            raise selects.unreadable() from None
        except NoSuch as error:
            states = {"relation": "42P01", "function": "42883", "setting": "42704"}
            raise Problem(
                states[error.kind], f'{error.kind} "{error.name}" does not exist'
            ) from None

    def _facts(self, role: str) -> SessionFacts:
        def change(name: str, value: str) -> str:
            self._variables.set(name, value)
            return self._variables.get(name) or ""

        said = f"PostgreSQL {VERSION} (SuLQ: sums and counts of private tables)"
        return SessionFacts(role, self._database, self._number, said, self._variables.get, change)


def browsed(catalogue: Catalogue, select: Select, facts: SessionFacts) -> Result:
    """The result of a statement about catalogues.

    What DuckDB does not run about tables that are there gives no rows: tools ask for much that
    has no meaning here, and go on without it.
    """
    names = names_of(select.tree)
    try:
        columns, rows = catalogue.run(written(select.tree, facts))
    except (Unanswerable, NoSuch, NotSql) as error:
        known = names is not None and tables_of(select.tree).catalogue
        if names is None or not known or not only_reads(select.tree):
            if not isinstance(error, Unanswerable):
                raise
            raise Problem("0A000", "this is not answered from the catalogues") from None
        return Result([ResultColumn(name, TEXT) for name in names], [])
    if names is not None and len(names) == len(columns):
        columns = [ResultColumn(name, c.oid) for name, c in zip(names, columns, strict=True)]
    return Result(columns, rows)


def _enough(micro: int) -> str:
    """So many queries as to allow a price."""
    return in_queries(micro).split()[0].replace(",", "")


def _priced(question: Question, unpaid: int) -> list[str]:
    price = in_queries(question.price.micro)
    if not question.bundles:
        return ["Price: 0 queries: public, so the answer is exact"]
    if unpaid == 0:
        return [f"Price: 0 queries: asked before, the stored answer comes back (it was {price})"]
    return [f"Price: {in_queries(unpaid)}"]


def _said(table: dict[str, Any], unpaid: int) -> list[str]:
    """What there is to know beside an answer."""
    said = [table["note"]] if table.get("note") else []
    if unpaid:
        left = in_queries(table["remaining_micro"])
        said.append(f"price {in_queries(unpaid)}, {left} left; asked again it is free")
    return said

"""Asking: a question, its price, then its answer. Three pages, the same without a script.

The page with the price carries a request id. Whoever sends it twice, by a double click or a
reload, pays once and sees the same answer.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from sulq.console.analyst import Facts, facts_of
from sulq.console.pages import queries, with_headers
from sulq.console.questions import (
    CONDITIONS,
    KINDS,
    TESTS,
    Asked,
    countable,
    examples,
    groupable,
)
from sulq.console.showing import body_of, csv_of, shown
from sulq.console.visits import Pages, Visit
from sulq.database import Database
from sulq.errors import BudgetExceeded, QueryNotAllowed, SulqError
from sulq.query import Query
from sulq.remote.wire import at
from sulq.server.replies import dumped, status_of

pages = Pages()
REQUEST = re.compile(r"[0-9a-f]{32}")
D = "/console/datasets/{name}"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a question will cost and how close its answer will be."""

    price_micro: int
    errors: list[tuple[str, str]]
    seconds: float | None
    request: str  # the id under which it will be paid

    @property
    def words(self) -> list[str]:
        """Line by line, for the script."""
        said = [f"Price: {queries(self.price_micro)}."]
        said += [f"{name}: {reach} (95%)" for name, reach in self.errors]
        if self.seconds is not None:
            said.append(f"The answer leaves after {self.seconds:.3g} seconds.")
        return said


# ---- filling in -----------------------------------------------------------------------------


@pages.get(D + "/ask")
async def ask(here: Visit) -> Response:
    """The box for SQL."""
    asked = Asked((("kind", "sql"), ("sql", here.said.raw("sql"))))
    return _form(here, await facts_of(here), asked)


@pages.get(D + "/guided")
async def guided(here: Visit) -> Response:
    """Forms for those who do not write SQL."""
    kind = here.said.get("kind")
    asked = Asked((("kind", kind if kind in KINDS[1:] else "count"),))
    return _form(here, await facts_of(here), asked)


@pages.get(D + "/rehearse")
async def rehearse(here: Visit) -> Response:
    """The box for SQL, with made-up rows behind it."""
    asked = Asked((("kind", "sql"), ("sql", here.said.raw("sql"))))
    return _form(here, await facts_of(here), asked, tab="rehearse")


def _form(
    here: Visit, facts: Facts, asked: Asked, *, problem: SulqError | None = None,
    preview: Preview | None = None, changed: bool = False, tab: str = "",
) -> Response:  # fmt: skip
    """The form of a question as it was filled in, with what there is to say about it."""
    sql = asked.kind == "sql"
    return here.page(
        "ask.html" if sql else "guided.html", 200 if problem is None else status_of(problem),
        facts=facts, name=facts.name, tab=tab or ("ask" if sql else "guided"), asked=asked,
        problem=problem, preview=preview, changed=changed,
        short=isinstance(problem, BudgetExceeded), examples=examples(facts.name, facts.schema),
        tests=list(TESTS.items()), conditions=range(CONDITIONS),
        groupable=groupable(facts.schema), countable=countable(facts.schema),
    )  # fmt: skip


# ---- the price ------------------------------------------------------------------------------


@pages.post(D + "/preview")
async def preview(here: Visit) -> Response:
    """The price and the error, before anything is paid."""
    asked = Asked.of(here.form)
    facts = await facts_of(here)
    try:
        found = await _preview(here, facts, asked)
    except SulqError as error:
        return _form(here, facts, asked, problem=error)
    return _form(here, facts, asked, preview=found)


@pages.post(D + "/price")
async def price(here: Visit) -> Response:
    """The same in a few words, for the script."""
    facts = await facts_of(here)
    try:
        found = await _preview(here, facts, Asked.of(here.form))
        said: dict[str, Any] = {"lines": found.words, "problem": ""}
    except SulqError as error:
        said = {"lines": [], "problem": str(error)}
    return with_headers(JSONResponse(said))


async def _preview(here: Visit, facts: Facts, asked: Asked) -> Preview:
    db = await here.database(facts.name)
    question = asked.question(db)
    said = await _price(here, facts.name, question)
    errors = await here.run(here.desk.rehearsals.errors, db, question)
    return Preview(said["price_micro"], errors, said["deadline_seconds"], secrets.token_hex(16))


async def _price(here: Visit, name: str, question: str | Query) -> dict[str, Any]:
    body = {"sql": question} if isinstance(question, str) else {"query": question.to_json()}
    said: dict[str, Any] = await here.send("POST", at(name, "price"), body)
    return said


# ---- the answer -----------------------------------------------------------------------------


@pages.post(D + "/pay")
async def pay(here: Visit) -> Response:
    """Ask and pay; the request id makes a second click the same as the first."""
    asked, request = Asked.of(here.form), here.form.get("request")
    name = here.part("name")
    if not REQUEST.fullmatch(request):
        raise QueryNotAllowed("this form has no request id. Look at the price again, then ask.")
    record = here.record(name)
    shelf, onward = here.desk.shelf, f"/console/datasets/{name}/asked/{request}"
    if shelf.find(here.visitor, record, request) is not None:
        return here.go(onward)
    db = await here.database(name)
    try:
        question = asked.question(db)
        now = await here.run(lambda: db.price(question))
        if here.form.get("price") != str(now.micro):
            facts = await facts_of(here)
            return _form(
                here, facts, asked, preview=await _preview(here, facts, asked), changed=True
            )
        answer = await here.run(_answered, db, question, request)
    except SulqError as error:
        return _form(here, await facts_of(here), asked, problem=error)
    shelf.put(here.visitor, record, request, asked, answer)
    return here.go(onward)


def _answered(db: Database, question: str | Query, request: str) -> dict[str, Any]:
    return body_of(db.answer(db.question(question), request_id=request))


@pages.get(D + "/asked/{id}")
async def answer(here: Visit) -> Response:
    """An answer that was paid for; looking at it is free."""
    name = here.part("name")
    kept = here.desk.shelf.get(here.visitor, here.record(name), here.part("id"))
    facts = await facts_of(here)
    return here.page(
        "answer.html", name=name, tab="answers", facts=facts, kept=kept, asked=kept.asked,
        shown=shown(kept.answer), rehearsed=False,
        python=kept.asked.python(here.address, name, facts.schema),
    )  # fmt: skip


@pages.get(D + "/asked/{id}/{file}")
async def download(here: Visit) -> Response:
    """The whole answer as a file."""
    name, kind = here.part("name"), here.part("file")
    kept = here.desk.shelf.get(here.visitor, here.record(name), here.part("id"))
    if kind == "csv":
        return here.file(csv_of(kept.answer), "text/csv; charset=utf-8", f"{name}.csv")
    if kind == "json":
        return here.file(dumped(kept.answer), "application/json", f"{name}.json")
    python = kept.asked.python(here.address, name, (await facts_of(here)).schema)
    return here.file(python.encode(), "text/x-python; charset=utf-8", f"{name}.py")


@pages.post(D + "/rehearse")
async def rehearsed(here: Visit) -> Response:
    """The answer on made-up rows: free, and it says so."""
    asked = Asked.of(here.form)
    facts = await facts_of(here)
    try:
        db = await here.database(facts.name)
        question = asked.question(db)
        await _price(here, facts.name, question)  # refuses what the real table would not answer
        found = await here.run(here.desk.rehearsals.answer, db, question)
    except SulqError as error:
        return _form(here, facts, asked, problem=error, tab="rehearse")
    return here.page(
        "answer.html", name=facts.name, tab="rehearse", facts=facts, kept=None, asked=asked,
        shown=shown(found), rehearsed=True,
        python=asked.python(here.address, facts.name, facts.schema),
    )  # fmt: skip

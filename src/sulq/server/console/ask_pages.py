"""Asking: a question, its price, and its answer below it. The same without a script.

The page with the price carries a request id. Whoever sends it twice, by a double click or a
reload, pays once and sees the same answer.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import JSONResponse, Response

from sulq.client.database import RemoteDatabase, described
from sulq.client.wire import at
from sulq.errors import Late, NotFound, QueryNotAllowed, SulqError, in_queries
from sulq.rehearsal_database import NOTE
from sulq.server.console.dataset_pages import DatasetFacts, facts_of
from sulq.server.console.definitions import in_the_box, pointed_at
from sulq.server.console.pages import with_headers
from sulq.server.console.question_form import (
    CONDITIONS,
    KINDS,
    LABELS,
    TESTS,
    WORDS,
    FilledForm,
    countable,
    examples,
    groupable,
    groups,
    offered,
    plain_name,
    ranges,
    tables,
)
from sulq.server.console.request_context import PageContext, Pages
from sulq.server.console.result_view import Shown, body_of, csv_of, file_name, picture_of, shown
from sulq.server.console.saved_results import Kept
from sulq.server.services.boards import Board
from sulq.server.services.responses import dumped
from sulq.values.price import known_already
from sulq.values.query import Query

pages = Pages()
D = "/datasets/{name}"


@dataclass(frozen=True, slots=True)
class PricedForm:
    """The price of a question and how close its answer will be."""

    price_micro: int
    errors: list[tuple[str, str]]
    seconds: float | None
    request: str  # the id under which it will be paid
    left_micro: int  # that a question about the same rows may have
    known: str = ""  # what earlier answers say about it

    @property
    def words(self) -> list[str]:
        """Line by line, for the script."""
        said = [f"Price: {in_queries(self.price_micro)}."]
        said += [self.known] if self.known else []
        said += [f"{name}: {reach} (95%)" for name, reach in self.errors]
        if self.seconds is not None:
            said.append(f"The answer leaves after {self.seconds:.3g} seconds.")
        return said


# ---- filling in -----------------------------------------------------------------------------


@pages.get(D + "/ask")
async def ask(here: PageContext) -> Response:
    """The box for SQL."""
    return _form(here, await facts_of(here), _begun(here))


@pages.get(D + "/guided")
async def guided(here: PageContext) -> Response:
    """Forms for those who do not write SQL."""
    kind = here.said.get("kind")
    asked = FilledForm((("kind", kind if kind in KINDS[1:] else "count"),))
    return _form(here, await facts_of(here), asked)


@pages.get(D + "/rehearse")
async def rehearse(here: PageContext) -> Response:
    """The box for SQL, with made-up rows behind it."""
    return _form(here, await facts_of(here), _begun(here), tab="rehearse")


def _begun(here: PageContext) -> FilledForm:
    """What an address fills in: a SELECT, and functions beside it."""
    return FilledForm((("kind", "sql"), *((n, here.said.raw(n)) for n in ("sql", "define"))))


@dataclass(frozen=True, slots=True)
class Result:
    """What stands below a question that was answered."""

    shown: Shown
    python: str
    kept: Kept | None = None  # None: made-up rows
    boards: Sequence[Board] = ()  # on which it may be put

    @property
    def places(self) -> list[tuple[str, str]]:
        """The boards to choose from."""
        return [("", "a new board"), *((board.id, board.name) for board in self.boards)]


def _form(
    here: PageContext, facts: DatasetFacts, asked: FilledForm, problem: SulqError | None = None, *,
    preview: PricedForm | None = None, changed: bool = False, tab: str = "",
    result: Result | None = None,
) -> Response:  # fmt: skip
    """The form of a question as it was filled in, with what there is to say about it."""
    sql, schema = asked.kind == "sql", facts.schema
    where = "" if problem is None else pointed_at(asked.get("define"), str(problem))
    return here.page(
        "ask.html" if sql else "guided.html", problem, facts=facts, name=facts.name,
        tab=tab or ("ask" if sql else "guided"), asked=asked, preview=preview, changed=changed,
        examples=examples(facts.name, schema), tables=tables(facts.name, schema),
        tests=list(TESTS.items()), labels=LABELS,
        conditions=range(CONDITIONS), groupable=groupable(schema), groups=groups(schema),
        countable=countable(schema), offered=offered(schema), ranges=ranges(schema),
        words=WORDS, result=result, plain_name=plain_name, where=where,
    )  # fmt: skip


async def _again(here: PageContext, problem: SulqError, tab: str = "") -> Response:
    return _form(here, await facts_of(here), FilledForm.of(here.form), problem, tab=tab)


# ---- the price ------------------------------------------------------------------------------


@pages.post(D + "/preview", again=_again)
async def preview(here: PageContext) -> Response:
    """The price and the error, before anything is paid."""
    asked = FilledForm.of(here.form)
    facts = await facts_of(here)
    return _form(here, facts, asked, preview=await _preview(here, facts, asked))


@pages.post(D + "/price")
async def price(here: PageContext) -> Response:
    """The same for the script: in a few words, and as it stands on a page."""
    facts = await facts_of(here)
    try:
        asked = FilledForm.of(here.form)
        found = await _preview(here, facts, asked)
    except SulqError as error:
        where = pointed_at(here.form.raw("define"), str(error))
        said = {"lines": [], "problem": str(error), "where": where, "html": ""}
        return with_headers(JSONResponse(said))
    page = here.page(
        "price.html", name=facts.name, facts=facts, asked=asked, preview=found, changed=False,
        where="",
    )  # fmt: skip
    said = {"lines": found.words, "problem": "", "where": "", "html": bytes(page.body).decode()}
    return with_headers(JSONResponse(said))


async def _preview(here: PageContext, facts: DatasetFacts, asked: FilledForm) -> PricedForm:
    db = described(here.wire(), facts.said)
    question, said = await _priced(here, db, asked)

    def look() -> tuple[list[tuple[str, str]], Any]:
        person = here.principal.person.id
        errors = here.console.rehearsals.errors(db, question, person)
        with suppress(SulqError):
            return errors, db.estimate(question)
        return errors, None

    errors, known = await here.run(look)
    return PricedForm(
        said["price_micro"], errors, said["deadline_seconds"], secrets.token_hex(16),
        said["left_micro"],
        "" if known is None else f"{known_already(known).capitalize()}.",
    )  # fmt: skip


async def _priced(
    here: PageContext, db: RemoteDatabase, asked: FilledForm
) -> tuple[str | Query, dict[str, Any]]:
    """What to ask, and what the route says of its price.

    A SELECT with functions goes to the route first, as it was typed: there reading is metered.
    """
    path = at(db.name, "price")
    if asked.get("define"):
        typed = {name: asked.get(name) for name in ("sql", "define")}
        try:
            said = await here.send("POST", path, typed)
        except QueryNotAllowed as error:
            raise QueryNotAllowed(in_the_box(str(error))) from None
        return await here.run(asked.question, db), said
    question = await here.run(asked.question, db)
    body = {"sql": question} if isinstance(question, str) else {"query": question.to_json()}
    said = await here.send("POST", path, body)
    return question, said


# ---- the answer -----------------------------------------------------------------------------


@pages.post(D + "/pay", again=_again)
async def pay(here: PageContext) -> Response:
    """Ask and pay; the request id makes a second click the same as the first."""
    asked, request = FilledForm.of(here.form), here.request_id()
    record, saved, onward = here.record(), here.console.saved, f"asked/{request}"
    if saved.find(here.principal, record, request) is not None:
        return here.go(onward)
    db = await here.database()
    db.wait_for_late(0.0)  # a page says so and counts down
    question, said = await _priced(here, db, asked)
    if here.form.get("price") != str(said["price_micro"]):
        facts = await facts_of(here)
        return _form(here, facts, asked, preview=await _preview(here, facts, asked), changed=True)
    try:
        found = await here.run(lambda: db.answer(db.question(question), request_id=request))
    except Late as late:
        return here.page(
            "late.html", late, name=here.name, asked=asked, request=request,
            price=here.form.get("price"), seconds=max(1, math.ceil(late.retry_after or 1)),
        )  # fmt: skip
    saved.put(here.principal, record, request, asked, body_of(found))
    return here.go(onward)


@pages.get(D + "/asked/{id}")
async def answer(here: PageContext) -> Response:
    """An answer that was paid for, below its question; looking at it is free."""
    kept, facts = _kept(here), await facts_of(here)
    boards = here.console.services.boards.own(here.principal, here.record())
    result = Result(
        shown(kept.answer, kind=here.said.get("chart")),
        kept.asked.python(here.address, facts.name, facts.schema), kept, boards,
    )  # fmt: skip
    return _form(here, facts, kept.asked, result=result)


def _kept(here: PageContext) -> Kept:
    """The answer that the path names: one's own, or one that was shared."""
    return here.console.saved.get(here.principal, here.record(), here.part("id"))


@pages.get(D + "/asked/{id}/{file}")
async def download(here: PageContext) -> Response:
    """The whole answer as a file, called after its question."""
    kind, kept = here.part("file"), _kept(here)
    words = kept.asked.words()
    if kind == "csv":
        content, media = csv_of(kept.answer), "text/csv; charset=utf-8"
    elif kind == "json":
        content, media = dumped(kept.answer), "application/json"
    elif kind in ("svg", "png"):
        picture = picture_of(kept.answer, here.said.get("chart"), words)
        png = kind == "png"
        content = await here.run(picture.png) if png else picture.svg.encode()
        media = "image/png" if png else "image/svg+xml"
    elif kind == "python":
        schema = (await facts_of(here)).schema
        content = kept.asked.python(here.address, here.name, schema).encode()
        kind, media = "py", "text/x-python; charset=utf-8"
    else:
        raise NotFound("there is no such file of an answer.")
    return here.file(content, media, file_name(here.name, words, kind))


@pages.post(D + "/rehearse", again=partial(_again, tab="rehearse"))
async def rehearsed(here: PageContext) -> Response:
    """The answer on made-up rows: free, and it says so."""
    asked = FilledForm.of(here.form)
    facts = await facts_of(here)
    db = described(here.wire(), facts.said)
    question, _ = await _priced(here, db, asked)  # refuses what the real table would not answer
    found = body_of(await here.run(here.console.rehearsals.answer, db, question))
    note = found.get("note", "").removeprefix(NOTE).removeprefix("; ")  # the page says so itself
    python = asked.python(here.address, facts.name, facts.schema)
    result = Result(shown(found | {"note": note}), python)
    return _form(here, facts, asked, tab="rehearse", result=result)

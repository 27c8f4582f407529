"""Price, ask, sql, sizes and answers: what analysts do."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import Query as Parameter
from fastapi import Response

from sulq.database import Database
from sulq.errors import LimitReached, QueryNotAllowed
from sulq.expressions.program import received
from sulq.expressions.row_function import expand, row_functions
from sulq.questions.defined_columns import all_written_out
from sulq.questions.question import Question
from sulq.server.api import answer_replies, replies
from sulq.server.api import request_bodies as bodies
from sulq.server.api.dependencies import (
    ADataset,
    DatasetCaller,
    RequestId,
    Routes,
    checked_id,
    reply,
)
from sulq.server.services.histories import newest_of, page_of
from sulq.server.services.responses import JSON, answer_body, dumped, price_body
from sulq.values.query import Query, Rows

MAX_VALUES = 5000  # expressions in one request
route = Routes("asking")


@route("POST /datasets/{name}/ask", "Ask a query, or a list of them", answer_replies.AnswerReply)
async def ask(here: ADataset, body: bodies.Ask, request_id: RequestId = None) -> Response:
    """Paid before a row is read. A question asked before gets its stored answer, free."""
    form = "query" if body.query is not None else "queries"
    return await _answered(here, _maker(here, body), request_id, form, body.most_micro)


@route("POST /datasets/{name}/price", "The price of a question", answer_replies.PriceReply)
async def price(here: ADataset, body: bodies.ToPrice) -> Response:
    """Nothing is spent and no row is read. The price depends on the question alone."""
    answers = here.services.answers
    question, seconds = await answers.price(here.principal, here.record, _maker(here, body))
    unpaid = await answers.unpaid(here.principal, here.record, question)
    left = await answers.left(here.principal, here.record, question)
    return reply(price_body(question.price, seconds, unpaid, left))


@route(
    "POST /datasets/{name}/estimate",
    "What stored answers say about a question",
    answer_replies.EstimateReply,
)
async def estimate(here: ADataset, body: bodies.ToPrice) -> Response:
    """Free: nothing is spent and no row is read. `NotKnown` where they do not tell."""
    body = body.model_copy(update={"share": False})
    found = await here.services.answers.estimate(here.principal, here.record, _maker(here, body))
    return reply(answer_body(found))


@route("POST /datasets/{name}/sql", "Ask one SELECT", answer_replies.TableReply)
async def sql(here: ADataset, body: bodies.Sql, request_id: RequestId = None) -> Response:
    """Every declared group, each number with a low and a high end beside it."""
    form = body.sql if body.define is None else json.dumps([body.sql, body.define])
    make = _with(body.programs, partial(_select, body.sql, body.define))
    return await _answered(here, make, request_id, form, body.most_micro)


@route(
    "POST /datasets/{name}/review",
    "Which of a list of questions an auditor would answer",
    replies.ReviewReply,
)
async def review(here: ADataset, body: bodies.ToReview) -> Response:
    """Of an audited dataset. Nothing is charged and no ledger is touched.

    Each question is judged beside those before it in the list that could be answered. Under
    rule="duan" without a public sample the findings depend on rows: they are for the owner.
    """
    most = here.services.settings.batch
    if len(body.queries) > most:
        raise LimitReached(
            f"queries: {len(body.queries):,} in one request, want at most {most:,}. Nothing was "
            "charged."
        )

    def review(db: Database) -> dict[str, Any]:
        said = [q if isinstance(q, str) else Query.from_json(q) for q in body.queries]
        found: dict[str, Any] = db.review(said).to_json()
        return found

    return reply(await here.services.answers.review(here.principal, here.record, review))


async def _answered(
    here: DatasetCaller, make: Callable[[Database], Question], request_id: str | None, form: str,
    most: int | None,
) -> Response:  # fmt: skip
    known = checked_id(request_id)
    body = await here.services.answers.answer(here.principal, here.record, make, known, form, most)
    return Response(body, media_type=JSON)


def _with(
    programs: list[str] | None, make: Callable[[Database], Question]
) -> Callable[[Database], Question]:
    """The same question, once the programs that came along are known."""

    def made(db: Database) -> Question:
        received(programs or ())
        return make(db)

    return made


def _maker(here: DatasetCaller, body: bodies.Ask) -> Callable[[Database], Question]:
    """What to ask of a database, from a body that says exactly one thing."""
    return _with(body.programs, _asked(here, body))


def _asked(here: DatasetCaller, body: bodies.Ask) -> Callable[[Database], Question]:
    said = [body.query, body.queries, getattr(body, "sql", None)]
    if sum(x is not None for x in said) != 1:
        names = "query, queries or sql" if hasattr(body, "sql") else "query or queries"
        raise QueryNotAllowed(f"the body: want exactly one of {names}. Nothing was charged.")
    if isinstance(body, bodies.ToPrice) and body.sql is not None:
        return partial(_select, body.sql, body.define)
    said_in = partial(_query, define=body.define)
    if body.query is not None:
        one = body.query
        _check_values([one])
        return lambda db: db.question(said_in([one])[0])
    many, most = body.queries or [], here.services.settings.batch
    if not 1 <= len(many) <= most:
        raise LimitReached(
            f"queries: {len(many):,} in one request, want 1 to {most:,}. Nothing was charged."
        )
    _check_values(many)
    return lambda db: db.question(said_in(many), share=body.share, together=body.together)


def _query(said: list[dict[str, Any]], define: str | None) -> list[Query]:
    """Queries as they were sent, with the functions that came with them written out."""
    found = [Query.from_json(query) for query in said]
    if define is None:
        return found
    return all_written_out(found, tuple(row_functions(define, "define").values()))


def _select(text: str, define: str | None, db: Database) -> Question:
    """A SELECT, with the functions that came with it."""
    functions = () if define is None else row_functions(define, "define").values()
    return db.question(expand(text, *functions))


def _check_values(queries: list[dict[str, Any]]) -> None:
    """Refuse more expressions than can be parsed in about a second."""
    count = sum(_expressions(q.get("values")) for q in queries)
    if count > MAX_VALUES:
        raise LimitReached(
            f"values: {count:,} in one request, want at most {MAX_VALUES:,}. Nothing was charged."
        )


def _expressions(values: Any) -> int:
    """How many expressions there are in values of any kind."""
    if isinstance(values, dict):
        return sum(_expressions(v) for name, v in values.items() if name != "kind")
    if isinstance(values, list):
        return sum(map(_expressions, values))
    return isinstance(values, str)


@route("POST /datasets/{name}/sizes", "How many rows public sets have", answer_replies.SizesReply)
async def sizes(here: ADataset, body: bodies.Sizes) -> Response:
    """Who is in a public set is no secret, so this is free: one list of counts for each set."""

    def read() -> tuple[list[Rows], list[Query]]:
        sets = [_rows(said) for said in body.rows]
        return sets, [Query.from_json(said) for said in body.queries]

    sets, queries = await here.look_at_ledger(read)

    def count(db: Database) -> list[tuple[int, ...]]:
        counted = db.sizes(*sets) if sets else []
        return counted + [(db.rows_of(query),) for query in queries]

    found = await here.services.answers.count(here.principal, here.record, count)
    return reply({"sizes": [list(counts) for counts in found]})


@route("GET /datasets/{name}/keys", "Whether keys name rows", answer_replies.KeyCountsReply)
async def key_counts(here: ADataset) -> Response:
    """How many rows there are, how many have no key, and how many a key seen before. Free."""
    found = await here.services.answers.count(
        here.principal, here.record, lambda db: db.key_counts()
    )
    return reply({"rows": found.rows, "missing": found.missing, "repeated": found.repeated})


def _rows(said: dict[str, Any]) -> Rows:
    query = Query.from_json({"rows": {"kind": "rows"} | said})
    assert query.rows is not None
    return query.rows


@route(
    "GET /datasets/{name}/answers",
    "Your own questions and their answers",
    answer_replies.AnswersReply,
)
async def answers(
    here: ADataset,
    after: int = Parameter(0, ge=0, le=2**62, description="Continue behind this entry."),
    limit: int = Parameter(100, ge=1, le=1000),
    newest: bool = Parameter(False, description="The last ones, newest first, without answers."),
) -> Response:
    """Free to read again. An answer is stored, and so listed, at a public moment."""
    db, who = (await here.dataset()).db, here.person.in_ledger

    def page() -> bytes:
        return dumped(newest_of(db, who, limit) if newest else page_of(db, who, after, limit))

    return Response(await here.look_at_ledger(page), media_type=JSON)

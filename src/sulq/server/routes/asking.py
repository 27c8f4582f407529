"""Price, ask, sql, sizes and answers: what analysts do."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from fastapi import Query as Parameter
from fastapi import Response

from sulq.errors import LimitReached, QueryNotAllowed
from sulq.pace import Paced
from sulq.query import Query, Rows
from sulq.question import Question
from sulq.server.datasets import check_open
from sulq.server.histories import newest_of, page_of
from sulq.server.replies import JSON, price_body
from sulq.server.routes import models
from sulq.server.routes.parts import (
    ADataset,
    Here,
    RequestId,
    checked_id,
    errors,
    gives,
    reply,
    router,
)

MOST_VALUES = 5000  # expressions in one request
ASKED = (400, 401, 402, 404, 409, 413, 415, 422, 429, 500, 503)
routes = router("asking")


@routes.post(
    "/datasets/{name}/ask",
    summary="Ask a query, or a list of them",
    responses=gives(models.AnswerReply, *ASKED),
)
async def ask(here: ADataset, body: models.Ask, request_id: RequestId = None) -> Response:
    """Paid before a row is read. A question asked before gets its stored answer, free."""
    form = "query" if body.query is not None else "queries"
    return await _answered(here, _maker(here, body), request_id, form)


@routes.post(
    "/datasets/{name}/price",
    summary="What a question would cost",
    responses=gives(models.PriceReply, 400, 401, 404, 409, 413, 415, 422, 429, 503),
)
async def price(here: ADataset, body: models.ToPrice) -> Response:
    """Nothing is spent and no row is read. The price depends on the question alone."""
    dataset = await here.dataset()
    question = await here.run(_maker(here, body), dataset.db)
    return reply(price_body(question.price, here.rooms.asking.seconds(dataset, question)))


@routes.post(
    "/datasets/{name}/sql",
    summary="Ask one SELECT",
    responses=gives(models.TableReply, *ASKED),
)
async def sql(here: ADataset, body: models.Sql, request_id: RequestId = None) -> Response:
    """Every declared group, each number with a low and a high end beside it."""
    return await _answered(here, lambda db: db.question(body.sql), request_id, body.sql)


async def _answered(
    here: Here, make: Callable[[Paced], Question], request_id: str | None, form: str
) -> Response:
    known = checked_id(request_id)
    body = await here.rooms.asking.answer(here.visitor, here.record, make, known, form)
    return Response(body, media_type=JSON)


def _maker(here: Here, body: models.Ask) -> Callable[[Paced], Question]:
    """What to ask of a database, from a body that says exactly one thing."""
    said = [body.query, body.queries, getattr(body, "sql", None)]
    if sum(x is not None for x in said) != 1:
        names = "query, queries or sql" if hasattr(body, "sql") else "query or queries"
        raise QueryNotAllowed(f"the body: want exactly one of {names}. Nothing was charged.")
    if isinstance(body, models.ToPrice) and body.sql is not None:
        text = body.sql
        return lambda db: db.question(text)
    if body.query is not None:
        one = body.query
        _check_values([one])
        return lambda db: db.question(Query.from_json(one))
    many, most = body.queries or [], here.rooms.settings.batch
    if not 1 <= len(many) <= most:
        raise LimitReached(
            f"queries: {len(many):,} in one request, want 1 to {most:,}. Nothing was charged."
        )
    _check_values(many)
    return lambda db: db.question(
        [Query.from_json(q) for q in many], share=body.share, together=body.together
    )


def _check_values(queries: list[dict[str, Any]]) -> None:
    """Refuse more expressions than can be parsed in about a second."""
    lists = [v for v in (q.get("values") for q in queries) if isinstance(v, list)]
    count = sum(len(v) for v in lists)
    if count > MOST_VALUES:
        raise LimitReached(
            f"values: {count:,} in one request, want at most {MOST_VALUES:,}. Nothing was charged."
        )


@routes.post(
    "/datasets/{name}/sizes",
    summary="How many rows public sets have",
    responses=errors(400, 401, 404, 409, 413, 415, 422, 429),
)
async def sizes(here: ADataset, body: models.Sizes) -> Response:
    """Who is in a public set is no secret, so this is free: one list of counts for each set."""
    sets = [_rows(said) for said in body.rows]
    queries = [Query.from_json(said) for said in body.queries]

    def count(db: Paced) -> list[tuple[int, ...]]:
        counted = db.sizes(*sets) if sets else []
        return counted + [(db.rows_of(query),) for query in queries]

    found = await _public(here, count)
    return reply({"sizes": [list(counts) for counts in found]})


@routes.get(
    "/datasets/{name}/keys",
    summary="Whether keys name rows",
    responses=errors(401, 404, 409, 422, 429),
)
async def key_counts(here: ADataset) -> Response:
    """How many rows there are, how many have no key, and how many a key seen before. Free."""
    found = await _public(here, lambda db: db.key_counts())
    return reply({"rows": found.rows, "missing": found.missing, "repeated": found.repeated})


async def _public(here: Here, count: Callable[[Paced], Any]) -> Any:
    """What is public about the rows, in turn with everything else that scans them."""
    dataset = await here.dataset()
    check_open(here.record)
    with dataset.using():
        async with dataset.turnstile.slot(here.visitor.person.id):
            return await here.run(count, dataset.db)


def _rows(said: dict[str, Any]) -> Rows:
    query = Query.from_json({"rows": {"kind": "rows"} | said})
    assert query.rows is not None
    return query.rows


@routes.get(
    "/datasets/{name}/answers",
    summary="Your own questions and their answers",
    responses=errors(401, 404, 422, 429),
)
async def answers(
    here: ADataset,
    after: int = Parameter(0, ge=0, le=2**62, description="Continue behind this entry."),
    limit: int = Parameter(100, ge=1, le=1000),
    newest: bool = Parameter(False, description="The last ones, newest first, without answers."),
) -> Response:
    """Free to read again. An answer is listed once the longest deadline has passed."""
    dataset, settings = await here.dataset(), here.rooms.settings

    def shown(charged: str) -> bool:
        """Can no deadline tell any more when it was ready?"""
        since = time.time() - datetime.fromisoformat(charged).timestamp()
        return not settings.padding or since > settings.longest_seconds + 2

    who = here.visitor.person.in_ledger
    if newest:
        return reply(await here.run(newest_of, dataset.db, who, limit))
    return reply(await here.run(page_of, dataset.db, who, after, limit, shown))

"""What an owner looks at before and after: sources, drafts, the timeline, the report."""

from __future__ import annotations

from typing import Any

from fastapi import Query as Parameter
from fastapi import Response

from sulq.server.histories import timeline_of
from sulq.server.routes import models
from sulq.server.routes.parts import OwnDataset, WholeOwner, errors, reply, router
from sulq.server.sources import allowed, listed

routes = router("owning")


@routes.get("/sources", summary="What datasets may be made of", responses=errors(401, 403, 429))
async def sources(house: WholeOwner) -> Response:
    """Files in the folders for data, where all of them are yours; and servers that may be read."""
    return reply(await house.run(listed, house.rooms.settings, house.rooms.people.owners() == 1))


@routes.post(
    "/draft",
    summary="A first draft of a schema",
    responses=errors(400, 401, 403, 409, 413, 415, 422, 429),
)
async def draft(house: WholeOwner, body: models.ToDraft) -> Response:
    """Names and stored types only. Bounds and categories are yours to say: no row is read."""
    source = allowed(body.source, house.rooms.settings)
    return reply({"columns": await house.run(_drafted, source, body.table)})


def _drafted(source: str, table: str | None) -> list[dict[str, Any]]:
    from sulq.drafting import kind_of, stored_types
    from sulq.sources import open_source

    stored = stored_types(open_source(source, table))
    return [
        {"name": name, "stored": kind, "type": None if kind is None else kind_of(kind)}
        for name, kind in stored.items()
    ]


@routes.get(
    "/datasets/{name}/timeline",
    summary="What happened, newest first",
    responses=errors(401, 403, 404, 409, 422, 429, 503),
)
async def timeline(
    here: OwnDataset,
    before: int | None = Parameter(None, ge=0, le=2**62, description="Only earlier entries."),
    limit: int = Parameter(50, ge=1, le=500),
    text: str = Parameter("", max_length=200, description="Only what has this text in it."),
    analyst: str = Parameter("", max_length=200, description="Only what this person asked."),
    kind: str = Parameter("", max_length=20, description="Only charge, refresh, override, ..."),
) -> Response:
    """Charges and decisions from the ledger in words, and how spending grew."""
    db = (await here.dataset()).db
    found = await here.run(timeline_of, db, before, limit, text, analyst, kind)
    return reply(found)


@routes.get(
    "/datasets/{name}/report",
    summary="The report for a reviewer",
    responses=errors(401, 403, 404, 409, 422, 429, 503),
)
async def report(
    here: OwnDataset,
    answers: bool = Parameter(False, description="Include the noisy answers given."),
    last: int | None = Parameter(None, ge=1, le=2**31, description="Only the last questions."),
    form: str = Parameter("json", pattern="^(json|markdown)$"),
) -> Response:
    """From the ledger alone; no row is read for it. The chain of hashes is walked."""
    from sulq.report import markdown
    from sulq.report import report as full

    db = (await here.dataset()).db
    found = await here.run(lambda: full(db._ledger, answers=answers, last=last))
    if form == "markdown":
        return Response(markdown(found), media_type="text/markdown; charset=utf-8")
    return reply(found)

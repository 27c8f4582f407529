"""What an owner looks at before and after: sources, drafts, the timeline, the report."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Query as Parameter
from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from sulq.data_check import DataCheck, check_data
from sulq.errors import LimitReached
from sulq.report import markdown
from sulq.report import report as full_report
from sulq.server.api import replies
from sulq.server.api import request_bodies as bodies
from sulq.server.api.dependencies import (
    Caller,
    OwnDataset,
    Routes,
    WholeOwner,
    declared,
    reply,
)
from sulq.server.services import locations
from sulq.server.services.allowed_sources import as_missing
from sulq.server.services.events import events_of
from sulq.server.services.histories import timeline_of
from sulq.sources.guess import guessed_types
from sulq.sources.parquet_bounds import bounded_memory
from sulq.sources.source import kind_of, open_source

route = Routes("owning")
WRITTEN_BYTES = 2**20  # of a file that arrives, at once
FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@route("GET /sources", "What datasets may be made of", replies.SourcesReply)
async def sources(caller: WholeOwner) -> Response:
    """Files of yours in the folders for data, and servers that may be read."""
    found = await caller.run(caller.services.sources.listed, caller.person)
    return reply(found | {"upload_bytes": caller.services.uploads.most_bytes})


@route(
    "PUT /files/{file}",
    "Send a file of rows",
    replies.FileReply,
    status_code=201,
    also=(
        409,
        413,
    ),
    openapi_extra=FILE,
)
async def upload(caller: WholeOwner, file: str, request: Request) -> Response:
    """CSV or Parquet, as it is: it goes into your folder for data, under a name not used yet."""
    with caller.services.uploading.one_more(caller.person.id):
        return reply(await _arrived(caller, file, request), 201)


async def _arrived(caller: Caller, name: str, request: Request) -> dict[str, Any]:
    """A file that was written bit by bit, and is there once it is whole."""
    begun = await caller.run(caller.services.uploads.begin, caller.person, name)
    try:
        waiting: list[bytes] = []
        async for chunk in request.stream():
            waiting.append(chunk)
            if sum(map(len, waiting)) >= WRITTEN_BYTES:
                await caller.run(begun.write, b"".join(waiting))
                waiting.clear()
        await caller.run(begun.write, b"".join(waiting))
        # It may have taken minutes, in which the right may have ended.
        await caller.look(caller.services.access.holder, caller.principal.key)
        place = await caller.run(begun.finish)
        await caller.look(_noted, caller, "file", name)
    except ClientDisconnect:
        raise LimitReached("the file ended in the middle. Nothing was kept.") from None
    finally:
        await caller.run(begun.clear)
    return {"source": caller.services.sources.named(place), "bytes": begun.size}


def _noted(caller: Caller, kind: str, name: str) -> None:
    caller.services.log.note(caller.person.tenant, kind, about=name)


@route(
    "DELETE /files/{file}",
    "Remove a file that was sent",
    replies.FileRemovedReply,
    also=(409,),
)
async def remove_file(caller: WholeOwner, file: str) -> Response:
    """Only one that no dataset is or was made of."""
    await caller.run(caller.services.uploads.remove, caller.person, file)
    await caller.look(_noted, caller, "file-removed", file)
    return reply({"removed": file})


@route("POST /draft", "A first draft of a schema", replies.DraftReply)
async def draft(caller: WholeOwner, body: bodies.ToGuess) -> Response:
    """Names, stored types, and how many rows there are, where metadata says so.

    Bounds and categories are yours to say: no row is read.

    With `guess`, the first rows of a CSV are read for a guess at types, for you to look at.
    """
    source = await caller.run(caller.services.sources.allowed, body.source, caller.person)
    return reply(await caller.run(_drafted, source, body.table, body.guess))


def _drafted(name: str, table: str | None, guess: bool) -> dict[str, Any]:
    from sulq.sources.draft import stored_rows, stored_types

    source = open_source(name, table)
    stored = stored_types(source)
    path = source.path if guess and source.kind == "csv" else None
    guessed = {} if path is None else guessed_types(path)
    columns = [
        {
            "name": name, "stored": kind, "guessed": name in guessed,
            "type": guessed.get(name) if kind is None else kind_of(kind),
        }
        for name, kind in stored.items()
    ]  # fmt: skip
    return {"columns": columns, "rows": stored_rows(source)}


@route("POST /check", "What a schema would lose", replies.WarningsReply)
async def check_first(caller: WholeOwner, body: bodies.ToCheck) -> Response:
    """Before a dataset is made: a warning for each column that cannot be read as declared.

    Reads the rows, for you alone; nothing is kept.
    """
    owner = caller.person
    source = await caller.run(caller.services.sources.allowed, body.source, owner)
    schema = await caller.run(declared, body.schema_)
    said = {"source": source, "table": body.table, "schema": schema}
    with caller.services.checking.one_more(owner.id):
        with as_missing(body.source):  # rows that this owner could not offer, in the same words
            await caller.run(caller.services.datasets.ledgers.of, owner, "", said)
        found = await caller.run(_checked, source, said["schema"], body.table)
    return reply({"warnings": found.to_json()["warnings"]})


@route(
    "POST /datasets/{name}/check", "How well the rows fit their declarations", replies.CheckReply
)
async def check(here: OwnDataset) -> Response:
    """Which share of each column is unreadable, outside or missing, and how to mend it.

    Exact, about the rows as they are now, and for you alone: not for analysts. Nothing is kept.
    """
    said = locations.found(json.loads(here.record.arguments), here.services.settings.folder)
    with here.services.checking.one_more(here.person.id):
        await here.run(locations.check_there, here.record.name, said)
        found = await here.run(_checked, said["source"], said["schema"], said.get("table"))
    return reply(found.to_json())


def _checked(source: str, schema: Any, table: str | None) -> DataCheck:
    """What the rows have that is not as declared, read in bounded memory."""
    with bounded_memory():
        return check_data(source, schema, table)


@route("GET /datasets/{name}/timeline", "What happened, newest first", replies.TimelineReply)
async def timeline(
    here: OwnDataset,
    before: int | None = Parameter(None, ge=0, le=2**62, description="Only earlier entries."),
    limit: int = Parameter(50, ge=1, le=500),
    text: str = Parameter("", max_length=200, description="Only what has this text in it."),
    analyst: str = Parameter("", max_length=200, description="Only what this person asked."),
    kind: str = Parameter("", max_length=20, description="Only charge, refresh, override, ..."),
) -> Response:
    """Charges and decisions in words, and how spending grew.

    From the ledger; freezes, invitations and keys, which have no number, from the registry.
    """
    db = (await here.dataset()).db
    events = await here.look(events_of, here.services.registry, here.record.id)
    return reply(await here.run(timeline_of, db, before, limit, text, analyst, kind, events))


@route(
    "GET /datasets/{name}/report",
    "The report for a reviewer",
    replies.ReportReply,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def report(
    here: OwnDataset,
    answers: bool = Parameter(False, description="Include the noisy answers given."),
    last: int | None = Parameter(None, ge=1, le=2**31, description="Only the last questions."),
    form: str = Parameter("json", pattern="^(json|markdown)$"),
) -> Response:
    """From the ledger; no row is read for it. The chain of hashes is walked.

    `access` has freezes, invitations and keys, from the server's registry.
    """
    db = (await here.dataset()).db
    found = await here.run(lambda: full_report(db._ledger, answers=answers, last=last))
    found["access"] = await here.look(events_of, here.services.registry, here.record.id)
    if form == "markdown":
        return Response(markdown(found), media_type="text/markdown; charset=utf-8")
    return reply(found)

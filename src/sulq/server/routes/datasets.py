"""Datasets: made, described, frozen, closed; budget and ledger."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

from fastapi import Response
from starlette.responses import StreamingResponse

import sulq
from sulq.database import Database
from sulq.errors import MICRO, SchemaError
from sulq.question import Work
from sulq.server.access import Record
from sulq.server.datasets import PROMISE, Dataset
from sulq.server.deadlines import seconds_for
from sulq.server.histories import chain_of
from sulq.server.routes import models
from sulq.server.routes.parts import (
    ADataset,
    Anyone,
    Here,
    OwnDataset,
    WholeOwner,
    errors,
    reply,
    router,
)
from sulq.server.sources import allowed

SHOWN = ("open", "refresh", "override", "restore")  # decisions that every visitor sees
A_COUNT = Work(150, 1, 1)
routes = router("datasets")


@routes.get("/datasets", summary="The datasets of this key", responses=errors(401, 429))
async def list_datasets(house: Anyone) -> Response:
    """Names, states and descriptions."""
    found = house.rooms.access.datasets(house.visitor)
    return reply({"datasets": [_line(record) for record in found]})


def _line(record: Record) -> dict[str, Any]:
    return {
        "name": record.name, "state": record.state, "description": record.description,
        "created": record.created,
    }  # fmt: skip


@routes.post(
    "/datasets",
    summary="Make a dataset",
    status_code=201,
    responses=errors(400, 401, 403, 409, 413, 415, 422, 429, 503),
)
async def create(house: WholeOwner, body: models.NewDataset) -> Response:
    """Rows that were asked about before go on with the ledger they have."""
    rooms, owner = house.rooms, house.visitor.person
    arguments = {name: getattr(body, name) for name in PROMISE}
    arguments |= {"source": allowed(body.source, rooms.settings), "schema": _schema(body.schema_)}
    if body.table is not None:
        arguments["table"] = body.table

    def make() -> Record:
        return rooms.datasets.create(
            owner, body.name, arguments, description=body.description, refresh=body.refresh,
            override=body.override,
        )  # fmt: skip

    here = Here(rooms, house.visitor, await house.run(make))
    return reply(await _described(here), 201)


def _schema(said: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(said, dict):
        return said
    try:
        return tomllib.loads(said)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(f"schema: not valid TOML: {str(error)[:200]}.") from None


@routes.get(
    "/datasets/{name}",
    summary="A dataset: schema, promise, budget",
    responses=errors(401, 404, 409, 429, 503),
)
async def describe(here: ADataset) -> Response:
    """All that is public about it, and what you may spend."""
    return reply(await _described(here))


async def _described(here: Here) -> dict[str, Any]:
    dataset, db = await here.dataset(), await here.own_view()
    return await here.run(_description, here, dataset, db)


def _description(here: Here, dataset: Dataset, db: Database) -> dict[str, Any]:
    promise, settings = db.promise, here.rooms.settings
    return _line(here.record) | {
        "rows": db.rows,
        "schema": db.schema.to_json(),
        "promise": promise.to_json() | {"words": str(promise), "std": promise.std},
        "pricing": db.pricing,
        "budget": _budget(db),
        "decisions": [
            {"number": e.number, "kind": e.kind, "time": e.body.get("time"), "reason": _reason(e)}
            for e in db.decisions()
            if e.kind in SHOWN
        ],
        "padding": settings.padding,
        "deadline_seconds_of_a_count": seconds_for(A_COUNT, dataset.pace, settings),
        "sulq": sulq.__version__,
    }


def _reason(entry: Any) -> str | None:
    said = entry.body.get("body", entry.body)
    return said.get("reason") if isinstance(said, dict) else None


def _budget(db: Any) -> dict[str, int]:
    found = db.budget
    return {
        f"{name}_micro": int(getattr(found, name) * MICRO)
        for name in ("total", "spent", "remaining")
    }


@routes.get(
    "/datasets/{name}/budget",
    summary="What is spent and left",
    responses=errors(401, 404, 409, 429, 503),
)
async def budget(here: ADataset) -> Response:
    """In micro-queries: yours to spend, and the table's for each combination of public values."""
    return reply(await here.run(_budgets, await here.own_view()))


def _budgets(db: Database) -> dict[str, Any]:
    names = [c.name for c in db.schema.cell_columns]
    cells = [
        {
            "cell": {name: cell[name] for name in names},
            "spent_micro": int(cell["spent"] * MICRO),
            "remaining_micro": int(cell["remaining"] * MICRO),
        }
        for cell in db.budget_by_cell()
    ]
    return _budget(db) | {"cells": cells}


@routes.patch(
    "/datasets/{name}",
    summary="Describe, freeze or thaw",
    responses=errors(400, 401, 403, 404, 409, 413, 415, 422, 429),
)
async def change(here: OwnDataset, body: models.Change) -> Response:
    """A frozen dataset answers nothing until it is thawed: state "open"."""
    datasets = here.rooms.datasets
    if body.description is not None:
        datasets.describe(here.record, body.description)
    if body.state is not None:
        datasets.set_state(here.record, body.state)
    return reply(_line(datasets.record(here.record.id)))


@routes.delete("/datasets/{name}", summary="Close a dataset", responses=errors(401, 403, 404, 429))
async def close(here: OwnDataset) -> Response:
    """It is gone for everyone. Its ledger stays: the same rows made again go on with it."""
    await here.run(here.rooms.datasets.set_state, here.record, "closed")
    return reply({"closed": here.record.name})


@routes.post(
    "/datasets/{name}/refresh",
    summary="Go on with changed rows",
    responses=errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
)
async def refresh(here: OwnDataset, body: models.Refresh) -> Response:
    """Logged; what was spent stays spent, and stored answers about the old rows are not given."""
    schema = None if body.schema_ is None else _schema(body.schema_)
    datasets = here.rooms.datasets
    await here.run(datasets.refresh, here.record, body.reason, schema)
    renewed = Here(here.rooms, here.visitor, datasets.record(here.record.id))
    return reply(await _described(renewed))


@routes.get(
    "/datasets/{name}/ledger",
    summary="The whole ledger, one entry a line",
    responses=errors(401, 403, 404, 409, 429, 503)
    | {200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
async def ledger(here: OwnDataset) -> Response:
    """Each entry with the hash of the one before: whoever has it can check it elsewhere."""
    lines = chain_of((await here.dataset()).db)

    async def stream() -> AsyncIterator[bytes]:
        while chunk := await here.run(_some, lines):
            yield chunk

    return StreamingResponse(stream(), media_type="application/x-ndjson")


def _some(lines: Iterator[bytes], count: int = 500) -> bytes:
    """The next lines, as many as are sent at once."""
    return b"".join(islice(lines, count))


@routes.get(
    "/datasets/{name}/allotments",
    summary="What each analyst spent and may spend",
    responses=errors(401, 403, 404, 409, 429, 503),
)
async def allotments(here: OwnDataset) -> Response:
    """In micro-queries, with the analysts who are invited."""
    known = await here.run((await here.dataset()).db.allotments)
    members = here.rooms.people.members(here.record.id)
    found = {
        name: {"spent_micro": a.spent, "allotted_micro": a.allotted, "invited": name in members}
        for name, a in sorted(known.items())
    }
    nothing = {"spent_micro": 0, "allotted_micro": None, "invited": True}
    return reply({"allotments": {name: nothing for name in members} | found})


@routes.put(
    "/datasets/{name}/allotments/{analyst}",
    summary="Allot a part of T to an analyst",
    responses=errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
)
async def allot(here: OwnDataset, analyst: str, body: models.Allot) -> Response:
    """A cap, not a reservation: T is one for everybody. Logged in the ledger."""
    person = here.rooms.people.analyst(here.record.house, analyst)
    await here.run((await here.dataset()).db.allot, person.in_ledger, body.queries)
    return reply({"analyst": analyst, "queries": body.queries})


@routes.put(
    "/datasets/{name}/analysts/{analyst}",
    summary="Invite an analyst",
    responses=errors(401, 403, 404, 429),
)
async def invite(here: OwnDataset, analyst: str) -> Response:
    """They see the dataset and may ask it."""
    people, record = here.rooms.people, here.record
    people.invite(record.id, people.analyst(record.house, analyst))
    return reply({"dataset": record.name, "analyst": analyst, "invited": True})


@routes.delete(
    "/datasets/{name}/analysts/{analyst}",
    summary="Take an invitation back",
    responses=errors(401, 403, 404, 429),
)
async def uninvite(here: OwnDataset, analyst: str) -> Response:
    """The dataset is no longer there for them. What they spent stays spent."""
    people, record = here.rooms.people, here.record
    people.uninvite(record.id, people.analyst(record.house, analyst))
    return reply({"dataset": record.name, "analyst": analyst, "invited": False})

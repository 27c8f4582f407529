"""Datasets: made, described, frozen, closed; budget and ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from fastapi import Response
from starlette.responses import StreamingResponse

import sulq
from sulq.audit.promise import is_audited
from sulq.database import Database
from sulq.errors import MICRO
from sulq.open_database import AUDITED
from sulq.report import stop_in
from sulq.server.api import replies
from sulq.server.api import request_bodies as bodies
from sulq.server.api.dependencies import (
    ADataset,
    Anyone,
    Caller,
    DatasetCaller,
    OwnDataset,
    Routes,
    WholeOwner,
    declared,
    reply,
)
from sulq.server.services.access import Record
from sulq.server.services.allowed_sources import as_missing
from sulq.server.services.datasets import PROMISE, Dataset
from sulq.server.services.histories import chain_of
from sulq.values.column import plain

# Decisions that every principal sees.
SHOWN = ("open", "join", "refresh", "append", "carry", "freeze", "resume", "override", "restore")
route = Routes("datasets")


class NdJson(StreamingResponse):
    """Lines, each a JSON document."""

    media_type = "application/x-ndjson"


@route("GET /datasets", "The datasets of this key", replies.DatasetsReply)
async def list_datasets(caller: Anyone) -> Response:
    """Names, states and descriptions."""
    found = await caller.look(caller.services.access.datasets, caller.principal)
    return reply({"datasets": [_line(caller, record) for record in found]})


def _line(caller: Caller, record: Record) -> dict[str, Any]:
    state = caller.services.states.of(record)
    return {
        "name": record.name, "state": state.name,
        "stopped": state.stop(to_owner=caller.principal.is_owner),
        "description": record.description, "created": record.created,
    }  # fmt: skip


@route("POST /datasets", "Make a dataset", replies.DatasetReply, status_code=201)
async def create(caller: WholeOwner, body: bodies.NewDataset) -> Response:
    """Rows that were asked about before go on with the ledger they have."""
    services, owner = caller.services, caller.person
    arguments = {name: getattr(body, name) for name in PROMISE}
    if body.mode != "noise":
        arguments["mode"] = body.mode
    arguments |= {n: getattr(body, n) for n in AUDITED if n in body.model_fields_set}
    if body.simulate is not None:
        arguments["simulate"] = await caller.run(services.sources.allowed, body.simulate, owner)
    source = await caller.run(services.sources.allowed, body.source, owner)
    arguments |= {"source": source, "schema": await caller.run(declared, body.schema_)}
    named = {"table": body.table, "group": body.group}
    arguments |= {name: said for name, said in named.items() if said is not None}
    if body.programs:
        arguments |= {"programs": True, "program_fuel": body.program_fuel}
    make = partial(
        services.datasets.create, owner, body.name, arguments, description=body.description,
        refresh=body.refresh, override=body.override,
    )  # fmt: skip
    with as_missing(body.source):
        record = await caller.run(make)
    return reply(await _described(DatasetCaller(services, caller.principal, record)), 201)


@route("GET /datasets/{name}", "A dataset: schema, promise, budget", replies.DatasetReply)
async def describe(here: ADataset) -> Response:
    """All that is public about it, and what you may spend."""
    return reply(await _described(here))


async def _described(here: DatasetCaller) -> dict[str, Any]:
    dataset, db = await here.dataset(), await here.own_view()
    return await here.look_at_ledger(_description, here, dataset, db)


def _description(here: DatasetCaller, dataset: Dataset, db: Database) -> dict[str, Any]:
    promise, settings = db.promise, here.services.settings
    stop = stop_in(db.frozen)
    line = _line(here, here.record)
    return line | {
        "state": line["state"] if stop is None else "frozen",
        "frozen": stop if stop is None or here.principal.is_owner else {"time": stop["time"]},
        "rows": db.rows,
        "stored_rows": db.stored_rows.n,
        "periods": plain(tuple(db.periods)) if db.schema.period else None,
        "schema": db.schema.to_json(),
        "promise": promise.to_json() | {"words": str(promise), "std": promise.std},
        "pricing": db.pricing,
        "program_fuel": here.record.program_fuel,
        "time_price": settings.price_of_time,
        "budget": _budget(db),
        "decisions": [
            {"number": e.number, "kind": e.kind, "time": e.body.get("time"), "reason": _reason(e)}
            for e in db.decisions()
            if e.kind in SHOWN
        ],
        "padding": settings.padding,
        "late": "retry" if is_audited(promise) else settings.late,
        "deadline_seconds_of_a_count": dataset.slots.of_a_count(),
        "periods_longer": dataset.slots.longer,
        "sulq": sulq.__version__,
    }


def _reason(entry: Any) -> str | None:
    said = entry.body.get("body", entry.body)
    return said.get("reason") if isinstance(said, dict) else None


def _budget(db: Any) -> dict[str, Any]:
    found = db.budget
    names = ["total", "spent", "remaining"] + (["elsewhere"] if found.group else [])
    budget: dict[str, Any] = {f"{name}_micro": int(getattr(found, name) * MICRO) for name in names}
    if found.each is not None:
        budget["each_micro"] = int(found.each * MICRO)
    return budget | ({"group": found.group} if found.group else {})


@route("GET /datasets/{name}/budget", "What is spent and left", replies.BudgetReply)
async def budget(here: ADataset) -> Response:
    """In micro-queries: yours to spend, and the table's for each combination of public values."""
    return reply(await here.look_at_ledger(_budgets, await here.own_view()))


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


@route("PATCH /datasets/{name}", "Describe, freeze or thaw", replies.DatasetLine)
async def change(here: OwnDataset, body: bodies.Change) -> Response:
    """A frozen dataset answers nothing until it is thawed: state "open".

    If it froze because a scan failed, thawing wants a reason: the ledger goes on with it.
    """
    datasets = here.services.datasets
    if body.description is not None:
        await here.look(datasets.describe, here.record, body.description)
    if body.state is not None:
        await here.run(datasets.set_state, here.record, body.state, body.reason)
    if body.programs is not None or body.program_fuel is not None:
        await here.run(datasets.set_programs, here.record, body.programs, body.program_fuel)
    here.services.states.forget(here.record)
    return reply(_line(here, await here.look(datasets.record, here.record.id)))


@route("DELETE /datasets/{name}", "Close a dataset", replies.ClosedReply)
async def close(here: OwnDataset) -> Response:
    """It is gone for everyone. Its ledger stays: the same rows made again go on with it."""
    await here.run(here.services.datasets.set_state, here.record, "closed")
    return reply({"closed": here.record.name})


@route("POST /datasets/{name}/refresh", "Go on with changed rows", replies.DatasetReply)
async def refresh(here: OwnDataset, body: bodies.Refresh) -> Response:
    """Logged; what was spent stays spent, and stored answers about the old rows are not given."""
    schema = None if body.schema_ is None else await here.run(declared, body.schema_)
    datasets, record = here.services.datasets, here.record
    await here.run(here.services.sources.check_still, record.arguments, here.person)
    with as_missing(record.name):
        await here.run(datasets.refresh, record, body.reason, schema)
    return await _as_now(here)


async def _as_now(here: DatasetCaller) -> Response:
    here.services.states.forget(here.record)  # mended, so it is looked at anew
    fresh = await here.look(here.services.datasets.record, here.record.id)
    return reply(await _described(replace(here, record=fresh)))


@route("POST /datasets/{name}/append", "Take in rows of new periods", replies.DatasetReply)
async def append(here: OwnDataset, body: bodies.Append) -> Response:
    """Logged; older periods keep what was spent on them, new ones begin with nothing.

    `rows` names a file that the server may read, whose rows are written into the source. Without
    it they are there already.
    """
    datasets, record, owner = here.services.datasets, here.record, here.person
    await here.run(here.services.sources.check_still, record.arguments, owner)
    rows = None
    if body.rows is not None:
        rows = await here.run(here.services.sources.allowed, body.rows, owner)
    with as_missing(record.name if body.rows is None else body.rows):
        await here.run(datasets.append, record, rows, body.reason)
    return await _as_now(here)


@route("GET /datasets/{name}/ledger", "The whole ledger, one entry a line", response_class=NdJson)
async def ledger(here: OwnDataset) -> Response:
    """Each entry with the hash of the one before: whoever has it can check it elsewhere."""
    lines = chain_of((await here.dataset()).db)

    async def stream() -> AsyncIterator[bytes]:
        while chunk := await here.run(_some, lines):
            yield chunk

    return NdJson(stream())


def _some(lines: Iterator[bytes], count: int = 500) -> bytes:
    """The next lines, as many as are sent at once."""
    return b"".join(islice(lines, count))


@route(
    "GET /datasets/{name}/allotments",
    "What each analyst spent and may spend",
    replies.AllotmentsReply,
)
async def allotments(here: OwnDataset) -> Response:
    """In micro-queries, with the analysts who are invited."""
    known = await here.run((await here.dataset()).db.allotments)
    members = await here.look(here.services.people.members, here.record.id)
    found = {
        name: {"spent_micro": a.spent, "allotted_micro": a.allotted, "invited": name in members}
        for name, a in sorted(known.items())
    }
    nothing = {"spent_micro": 0, "allotted_micro": None, "invited": True}
    return reply({"allotments": {name: nothing for name in members} | found})


@route(
    "PUT /datasets/{name}/allotments/{analyst}",
    "Allot a part of T to an analyst",
    replies.AllottedReply,
)
async def allot(here: OwnDataset, analyst: str, body: bodies.Allot) -> Response:
    """A cap, not a reservation: T is one for everybody. Logged in the ledger."""
    person = await here.look(here.services.people.analyst, here.record.tenant, analyst)
    await here.run(here.services.datasets.allot, here.record, person, body.queries)
    return reply({"analyst": analyst, "queries": body.queries})


@route("PUT /datasets/{name}/analysts/{analyst}", "Invite an analyst", replies.InvitedReply)
async def invite(here: OwnDataset, analyst: str) -> Response:
    """They see the dataset and may ask it."""
    return await _set_invited(here, analyst, True)


@route(
    "DELETE /datasets/{name}/analysts/{analyst}", "Take an invitation back", replies.InvitedReply
)
async def uninvite(here: OwnDataset, analyst: str) -> Response:
    """The dataset is no longer there for them. What they spent stays spent."""
    return await _set_invited(here, analyst, False)


async def _set_invited(here: DatasetCaller, analyst: str, invited: bool) -> Response:
    people, record = here.services.people, here.record
    change = people.invite if invited else people.uninvite
    person = await here.look(people.analyst, record.tenant, analyst)
    await here.look(change, record.id, person)
    return reply({"dataset": record.name, "analyst": analyst, "invited": invited})

"""Health, alarms and metrics."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import PlainTextResponse

import sulq
from sulq.errors import MICRO, LimitReached, SulqError
from sulq.server.api import replies
from sulq.server.api.dependencies import Counts, Routes, WholeOwner, reply
from sulq.server.services.context import Services
from sulq.server.services.dataset_states import OPEN
from sulq.server.services.metrics import Sample
from sulq.server.services.responses import error_body

route = Routes("running")
Some = Annotated[bool, Query(description="Ready as long as one dataset can be asked.")]


@route("GET /health", "Is it up?", replies.HealthReply)
async def health(request: Request) -> Response:
    """Needs no key, and says nothing of what is here but whether time is kept from telling."""
    padding = request.app.state.services.settings.padding
    return reply({"status": "ok", "sulq": sulq.__version__, "padding": padding})


@route("GET /ready", "May it be sent questions?", replies.ReadyReply, also=(503,))
async def ready(request: Request, some: Some = False) -> Response:
    """For load balancers and monitors. Needs no key, names no dataset; also at `/ready`.

    503 until every dataset was opened, while any dataset that is not frozen cannot be asked, while
    the registry cannot be reached, and when the server shuts down. With `some=true` 200 as long as
    one dataset can be asked, so that the fault of one takes no other out of service. Owners see
    which and why at `/v1/datasets` and `/v1/alarms`; the log names them.
    """
    readiness = request.app.state.services.readiness
    counts = readiness.counts
    if readiness.ready_for_some if some else readiness.ready:
        return reply({"status": "ready"} | asdict(counts))
    why = f" {counts.stopped} of {counts.datasets} datasets cannot be asked." * bool(counts.stopped)
    refusal = LimitReached(f"this server is not ready.{why} Ask another.", 1.0)
    return reply(error_body(refusal), 503)


@route("GET /alarms", "What an owner should look at", replies.AlarmsReply)
async def alarms(caller: WholeOwner) -> Response:
    """Newest first: datasets that stopped or froze, replies that were late."""
    services, tenant = caller.services, caller.person.tenant
    found = await caller.look(services.registry.alarms, tenant)
    return reply({"alarms": [*services.states.unwritten(tenant), *map(dict, found)]})


@route("POST /alarms/seen", "Mark all alarms as seen", replies.SeenReply)
async def seen(caller: WholeOwner) -> Response:
    """Late replies are counted anew towards the freezing of a dataset."""
    await caller.look(caller.services.log.see_alarms, caller.person.tenant)
    return reply({"seen": True})


@route("GET /metrics", "Counts of your datasets, for Prometheus", response_class=PlainTextResponse)
async def metrics(counts: Counts) -> Response:
    """Since this process started. There are no times in it.

    With the `metrics_token` of the settings instead of a key: those of all owners, by name.
    """
    services = counts.services
    values = await services.answers.run(lambda: list(_samples(services, counts.tenant)))
    return Response(services.metrics.text(values), media_type="text/plain; version=0.0.4")


def _samples(services: Services, tenant: int | None) -> Iterator[Sample]:
    if tenant is not None:
        yield from samples_of(services, tenant)
        return
    yield "sulq_ready", {}, int(services.readiness.ready)
    more = {"process": os.getpid()} if services.settings.workers > 1 else {}
    for owner in services.people.all_owners():
        for name, labels, value in samples_of(services, owner.tenant):
            yield name, {"owner": owner.name} | labels | more, value


def samples_of(services: Services, tenant: int) -> Iterator[Sample]:
    """The counts of one tenant, and values of this moment."""
    yield from services.metrics.of(tenant)
    unseen = sum(row["seen"] is None for row in services.registry.alarms(tenant))
    yield "sulq_alarms", {}, unseen + len(services.states.unwritten(tenant))
    for record in services.datasets.of_tenant(tenant):
        label, state = {"dataset": record.name}, services.states.of(record)
        yield "sulq_can_be_asked", label, int(state.name == OPEN)
        if state.name != OPEN:
            yield "sulq_stopped", label | {"why": state.kind}, 1
        if not services.datasets.is_open(record):
            continue
        dataset = services.datasets.opened(record)
        yield "sulq_waiting", label, services.answers.waiting(dataset)
        with suppress(SulqError):  # its ledger cannot be read, as `sulq_stopped` says
            budget = dataset.db.budget
            yield "sulq_spent_micro", label, int(budget.spent * MICRO)
            yield "sulq_remaining_micro", label, int(budget.remaining * MICRO)

"""Health, alarms and metrics."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse

import sulq
from sulq.errors import MICRO, LimitReached
from sulq.server.api import replies
from sulq.server.api.dependencies import Counts, Routes, WholeOwner, reply
from sulq.server.services.context import Services
from sulq.server.services.metrics import Sample
from sulq.server.services.responses import error_body

route = Routes("running")


@route("GET /health", "Is it up?", replies.HealthReply)
async def health(request: Request) -> Response:
    """Needs no key, and says nothing of what is here but whether time is kept from telling."""
    padding = request.app.state.services.settings.padding
    return reply({"status": "ok", "sulq": sulq.__version__, "padding": padding})


@route("GET /ready", "May it be sent questions?", replies.ReadyReply, also=(503,))
async def ready(request: Request) -> Response:
    """For whoever spreads questions over several servers. Needs no key; also at `/ready`.

    503 until every dataset was opened, while the registry, a ledger or a source cannot be reached,
    and when the server shuts down. What is missing is in its log.
    """
    if request.app.state.services.readiness.ready:
        return reply({"status": "ready"})
    return reply(error_body(LimitReached("this server is not ready. Ask another.", 1.0)), 503)


@route("GET /alarms", "What an owner should look at", replies.AlarmsReply)
async def alarms(caller: WholeOwner) -> Response:
    """Newest first: replies that were late, datasets that froze."""
    found = await caller.look(caller.services.registry.alarms, caller.person.tenant)
    return reply({"alarms": [dict(row) for row in found]})


@route("POST /alarms/seen", "Mark all alarms as seen", replies.SeenReply)
async def seen(caller: WholeOwner) -> Response:
    """Late replies are counted anew towards the freezing of a dataset."""
    await caller.look(caller.services.registry.see_alarms, caller.person.tenant)
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
    yield "sulq_alarms", {}, unseen
    for record in services.datasets.of_tenant(tenant):
        if not services.datasets.is_open(record):
            continue
        dataset = services.datasets.opened(record)
        budget, label = dataset.db.budget, {"dataset": record.name}
        yield "sulq_waiting", label, services.answers.waiting(dataset)
        yield "sulq_spent_micro", label, int(budget.spent * MICRO)
        yield "sulq_remaining_micro", label, int(budget.remaining * MICRO)

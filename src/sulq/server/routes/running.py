"""Health, alarms and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import Response

import sulq
from sulq.errors import MICRO
from sulq.server.rooms import Rooms
from sulq.server.routes.parts import (
    WholeOwner,
    errors,
    reply,
    router,
)

routes = router("running")


@routes.get("/health", summary="Is it up?")
async def health() -> Response:
    """Needs no key, and says nothing of what is here."""
    return reply({"status": "ok", "sulq": sulq.__version__})


@routes.get("/alarms", summary="What an owner should look at", responses=errors(401, 403, 429))
async def alarms(house: WholeOwner) -> Response:
    """Newest first: replies that were late, datasets that froze."""
    found = [dict(row) for row in house.rooms.registry.alarms(house.visitor.person.house)]
    return reply({"alarms": found})


@routes.post("/alarms/seen", summary="Mark all alarms as seen", responses=errors(401, 403, 429))
async def seen(house: WholeOwner) -> Response:
    """Late replies are counted anew towards the freezing of a dataset."""
    house.rooms.registry.see_alarms(house.visitor.person.house)
    return reply({"seen": True})


@routes.get(
    "/metrics",
    summary="Counts of your house, for Prometheus",
    responses=errors(401, 403, 429)
    | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(house: WholeOwner) -> Response:
    """Since this process started. There are no times in it."""
    number = house.visitor.person.house
    values = await house.rooms.asking.run(lambda: list(_values(house.rooms, number)))
    return Response(
        house.rooms.metrics.page(number, values), media_type="text/plain; version=0.0.4"
    )


def _values(rooms: Rooms, house: int) -> Iterator[tuple[str, dict[str, Any], int]]:
    unseen = sum(row["seen"] is None for row in rooms.registry.alarms(house))
    yield "sulq_alarms", {}, unseen
    for record in rooms.datasets.of_house(house):
        if not rooms.datasets.is_open(record):
            continue
        dataset = rooms.datasets.opened(record)
        budget, label = dataset.db.budget, {"dataset": record.name}
        yield "sulq_waiting", label, dataset.turnstile.waiting
        yield "sulq_spent_micro", label, int(budget.spent * MICRO)
        yield "sulq_remaining_micro", label, int(budget.remaining * MICRO)

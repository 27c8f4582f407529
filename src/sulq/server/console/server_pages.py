"""The server itself: how it does, its audit log, the reference of its API."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from starlette.responses import Response

from sulq.server.api.api_reference import Route, sections
from sulq.server.api.app import ABOUT, api
from sulq.server.api.health import samples_of
from sulq.server.console.request_context import PageContext, Pages
from sulq.server.services.audit_log import who_of, words_of
from sulq.server.services.metrics import Sample

pages = Pages()
MAX_ALARMS = 100  # on the page,
MAX_ENTRIES = 100  # and of the audit log


@pages.get("/server")
async def server(here: PageContext) -> Response:
    """Alarms first, then health and counts."""
    alarms = (await here.get("/v1/alarms"))["alarms"]
    health = await here.get("/v1/health")
    services, tenant = here.console.services, here.principal.person.tenant
    samples = await here.run(lambda: list(samples_of(services, tenant)))
    datasets = (await here.get("/v1/datasets"))["datasets"]
    return here.page(
        "server.html", health=health, alarms=alarms[:MAX_ALARMS],
        more=max(0, len(alarms) - MAX_ALARMS),
        unseen=sum(a["seen"] is None for a in alarms), counts=_counts(samples),
        lines=[_line(d, samples) for d in datasets], settings=services.settings,
    )  # fmt: skip


@pages.post("/server/seen")
async def seen(here: PageContext) -> Response:
    """The owner has looked at them."""
    await here.send("POST", "/v1/alarms/seen")
    return here.go("/console/server", done="seen")


def _counts(samples: Sequence[Sample]) -> dict[str, int]:
    """Sums over all datasets since the process started."""
    out = {"answers": 0, "late": 0, "requests": 0, "refused": 0, "failed": 0}
    for name, labels, value in samples:
        status = labels.get("status", "")
        if name == "sulq_answers_total":
            out["answers"] += value
        elif name == "sulq_late_total":
            out["late"] += value
        elif name == "sulq_requests_total":
            out["requests"] += value
            out["refused"] += value if status.startswith("4") else 0
            out["failed"] += value if status.startswith("5") else 0
    return out


def _line(dataset: dict[str, Any], samples: Sequence[Sample]) -> dict[str, Any]:
    """One dataset: its state, what it spent, what waits for it."""
    own = {n: v for n, labels, v in samples if labels.get("dataset") == dataset["name"]}
    return dataset | {
        "spent": own.get("sulq_spent_micro"), "left": own.get("sulq_remaining_micro"),
        "waiting": own.get("sulq_waiting", 0),
    }  # fmt: skip


# ---- the audit log --------------------------------------------------------------------------


@pages.get("/audit-log")
async def audit_log(here: PageContext) -> Response:
    """The newest entries first."""
    principal = here.console.services.access.whole_owner(here.principal)
    log, tenant = here.console.services.log, principal.person.tenant
    said = here.said.get("before")
    before = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None
    newest = await here.look(log.newest, tenant, MAX_ENTRIES, before)
    found = [
        (e, *who_of(e), words_of(e)) for e in (link.shown() for link in newest)
    ]  # fmt: skip
    older = newest[-1].number if newest and newest[-1].number > 0 else None
    head = await here.look(log.head, tenant)
    return here.page("audit-log.html", entries=found, older=older, paged=before is not None,
                     head=head)  # fmt: skip


@pages.get("/audit-log.ndjson")
async def export(here: PageContext) -> Response:
    """Every entry, one JSON object a line."""
    principal = here.console.services.access.whole_owner(here.principal)
    log = here.console.services.log
    lines = await here.run(log.export, principal.person.tenant)
    return here.file(lines, "application/x-ndjson", "audit-log.ndjson")


# ---- the reference of the API ---------------------------------------------------------------


@cache
def _sections() -> dict[str, list[Route]]:
    return sections(api().openapi())


@pages.get("/reference", open=True)
async def reference(here: PageContext) -> Response:
    """Every route, with an example of its request and its reply."""
    found = _sections()
    return here.page("reference.html", about=ABOUT, sections=found, address=here.address)

"""The audit log, for the owner: looked at, and saved to be checked elsewhere."""

from __future__ import annotations

import json

from starlette.responses import Response

from sulq.server.console.request_context import PageContext, Pages

pages = Pages()
SHOWN = 100


@pages.get("/audit-log")
async def audit_log(here: PageContext) -> Response:
    """The newest entries first."""
    principal = here.console.services.access.whole_owner(here.principal)
    log, tenant = here.console.services.log, principal.person.tenant
    said = here.said.get("before")
    before = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None
    found = await here.look(log.newest, tenant, SHOWN, before)
    older = found[-1]["number"] if found and found[-1]["number"] > 0 else None
    head = await here.look(log.head, tenant)
    return here.page("audit-log.html", entries=found, older=older, paged=before is not None,
                     head=head)  # fmt: skip


@pages.get("/audit-log.ndjson")
async def export(here: PageContext) -> Response:
    """Every entry, one JSON object a line."""
    principal = here.console.services.access.whole_owner(here.principal)
    log = here.console.services.log
    found = await here.run(lambda: list(log.all(principal.person.tenant)))
    lines = "".join(json.dumps(entry) + "\n" for entry in found)
    return here.file(lines.encode(), "application/x-ndjson", "audit-log.ndjson")

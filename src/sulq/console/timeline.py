"""The ledger as owners read it: how spending grew, what was asked; and the report to print."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from sulq.console.curves import spending
from sulq.console.visits import Pages, Visit
from sulq.remote.wire import at, error_of

pages = Pages()
LINES = 50
MOST_PRINTED = 300  # charges on the page; all of them are in the file
MOST_CELLS = 100
KINDS = ("charge", "allot", "refresh", "override", "restore", "open")


@pages.get("/console/datasets/{name}/timeline")
async def timeline(here: Visit) -> Response:
    """What happened, newest first, with a search."""
    name = here.part("name")
    said = {n: here.said.get(n)[:200] for n in ("text", "analyst", "kind")}
    before = here.said.get("before")
    asked: dict[str, Any] = said | {"limit": LINES}
    if before.isascii() and before.isdecimal() and len(before) < 18:
        asked["before"] = before
    found = await here.get(f"{at(name, 'timeline')}?{urlencode(asked)}")
    older = urlencode(said | {"before": found["next"]}) if found["next"] else ""
    return here.page(
        "timeline.html", name=name, tab="timeline", found=found, said=said, older=older,
        paged="before" in asked, kinds=KINDS,
        chart=spending(found["curve"], found["total_micro"]) if found["curve"] else "",
    )  # fmt: skip


@pages.get("/console/datasets/{name}/ledger.ndjson")
async def ledger(here: Visit) -> Response:
    """The whole chain, for whoever checks it elsewhere."""
    return await _passed_on(here, "ledger", "application/x-ndjson", "ledger.ndjson")


async def _passed_on(here: Visit, path: str, kind: str, ending: str) -> Response:
    name = here.part("name")
    plain, _, query = path.partition("?")
    reply = await here.reply("GET", f"{at(name, plain)}?{query}")
    if reply.status != 200:
        raise error_of(reply.status, reply.body, reply.wait)
    return here.file(reply.body, kind, f"{name}-{ending}")


# ---- the report -----------------------------------------------------------------------------


@pages.get("/console/datasets/{name}/report")
async def report(here: Visit) -> Response:
    """The page an owner shows a reviewer, fit for paper."""
    name = here.part("name")
    found = await here.get(f"{at(name, 'report')}?last={MOST_PRINTED + 1}")
    charges = found["charges"]
    public = {n: c for n, c in found["columns"].items() if c.get("public") or c.get("key")}
    cells = sorted(found["budget"]["cells"], key=lambda c: c["remaining_micro"])
    return here.page(
        "report.html", name=name, tab="report", report=found, public=public,
        private=[n for n in found["columns"] if n not in public],
        charges=charges[-MOST_PRINTED:], earlier=len(charges) > MOST_PRINTED,
        cells=cells[:MOST_CELLS], more_cells=max(0, len(cells) - MOST_CELLS),
        overridden=any(e["kind"] == "override" for e in found["events"]),
    )  # fmt: skip


@pages.get("/console/datasets/{name}/report.json")
async def as_json(here: Visit) -> Response:
    """The same for programs, with the noisy answers."""
    return await _passed_on(here, "report?answers=true", "application/json", "report.json")


@pages.get("/console/datasets/{name}/report.md")
async def as_markdown(here: Visit) -> Response:
    """The same as Markdown, with the noisy answers."""
    return await _passed_on(
        here, "report?answers=true&form=markdown", "text/markdown; charset=utf-8", "report.md"
    )

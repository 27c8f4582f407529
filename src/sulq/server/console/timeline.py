"""The ledger as owners read it: how spending grew, what was asked; and the report to print."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from sulq.drawing.lines import Axis, Line, lines
from sulq.drawing.scale import rounded_up
from sulq.drawing.svg import PAGE, Figure
from sulq.errors import MICRO, in_queries
from sulq.server.console.promise_plan import short
from sulq.server.console.request_context import PageContext, Pages
from sulq.server.console.result_view import NARROW, WHOLE, Chart

pages = Pages()
LINES = 50
MAX_PRINTED = 300  # charges on the page; all of them are in the file
MAX_CELLS = 100
KINDS = {  # how they are called, where that is not the word itself
    "allot": "allotment", "carry": "carried over", "join": "group", "override": "given up",
    "restore": "restored", "open": "beginning", "resume": "went on", "invite": "invitation",
    "uninvite": "invitation", "revoke": "key", "remove": "analyst",
}  # fmt: skip


@pages.get("/datasets/{name}/timeline")
async def timeline(here: PageContext) -> Response:
    """What happened, newest first, with a search."""
    said = {n: here.said.get(n)[:200] for n in ("text", "analyst", "kind")}
    before = here.said.get("before")
    asked: dict[str, Any] = said | {"limit": LINES}
    if before.isascii() and before.isdecimal() and len(before) < 18:
        asked["before"] = before
    found = await here.get(f"{here.at('timeline')}?{urlencode(asked)}")
    older = urlencode(said | {"before": found["next"]}) if found["next"] else ""
    drawn = (spending(found["curve"], found["total_micro"], w) for w in (WHOLE, NARROW))
    return here.page(
        "timeline.html", name=here.name, tab="timeline", found=found, said=said, older=older,
        paged="before" in asked, kinds=KINDS,
        charts=[Chart.of(*drawn)] if found["curve"] else [],  # nothing before the first question
    )  # fmt: skip


def spending(curve: Sequence[tuple[str, int]], total: int, width: float = PAGE) -> Figure:
    """What was spent over time, up to T."""
    times = [datetime.fromisoformat(time).timestamp() for time, _ in curve]
    span = times[-1] - times[0]
    # Within a minute, one after the other; there is nothing to see in seconds.
    at = times if span >= 60 else [float(i) for i in range(len(curve))]
    top = max(min(total, rounded_up(1.2 * curve[-1][1])), 1)  # T only once it is near
    points = [(x, float(spent)) for x, (_, spent) in zip(at, curve, strict=True)]
    ends = [(at[0], curve[0][0]), (at[-1], curve[-1][0])] if span >= 60 else [
        ((at[0] + at[-1]) / 2, curve[0][0])]  # fmt: skip
    quarters = [(top * i / 4, short(top * i / 4 / MICRO)) for i in range(5)]
    words = (
        f"From {_moment(curve[0][0], 0)} to {_moment(curve[-1][0], 0)} UTC, spending of the rows "
        f"that spent most grew to {in_queries(curve[-1][1])} of {in_queries(total)}."
    )
    return lines(
        "spending", "Queries spent over time", words, [Line(points, steps=True, area=True)],
        Axis(at[0], at[-1], marks=[(x, _moment(time, span)) for x, time in ends], name="time, UTC"),
        Axis(0.0, float(top), marks=quarters, name="queries spent"), dot=points[-1], width=width,
        height=190.0 if width < 500 else 260.0,
    )  # fmt: skip


def _moment(time: str, span: float) -> str:
    """A day; within two days, the minute too."""
    return time[:10] if span > 2 * 86_400 else f"{time[:10]} {time[11:16]}"


@pages.get("/datasets/{name}/ledger.ndjson")
async def ledger(here: PageContext) -> Response:
    """The whole chain, for whoever checks it elsewhere."""
    return await _passed_on(here, "ledger", "application/x-ndjson", "ledger.ndjson")


async def _passed_on(here: PageContext, path: str, kind: str, ending: str) -> Response:
    plain, _, query = path.partition("?")
    content = await here.content(f"{here.at(plain)}?{query}")
    return here.file(content, kind, f"{here.name}-{ending}")


# ---- the report -----------------------------------------------------------------------------


@pages.get("/datasets/{name}/report")
async def report(here: PageContext) -> Response:
    """The page an owner shows a reviewer, fit for paper."""
    found = await here.get(f"{here.at('report')}?last={MAX_PRINTED + 1}")
    charges = found["charges"]
    public = {n: c for n, c in found["columns"].items() if c.get("public") or c.get("key")}
    cells = sorted(found["budget"]["cells"], key=lambda c: c["remaining_micro"])
    return here.page(
        "report.html", name=here.name, tab="report", report=found, public=public,
        private=[n for n in found["columns"] if n not in public],
        charges=charges[-MAX_PRINTED:], earlier=len(charges) > MAX_PRINTED,
        cells=cells[:MAX_CELLS], more_cells=max(0, len(cells) - MAX_CELLS),
        overridden=any(e["kind"] == "override" for e in found["events"]),
    )  # fmt: skip


@pages.get("/datasets/{name}/report.json")
async def as_json(here: PageContext) -> Response:
    """The same for programs, with the noisy answers."""
    return await _passed_on(here, "report?answers=true", "application/json", "report.json")


@pages.get("/datasets/{name}/report.md")
async def as_markdown(here: PageContext) -> Response:
    """The same as Markdown, with the noisy answers."""
    return await _passed_on(
        here, "report?answers=true&form=markdown", "text/markdown; charset=utf-8", "report.md"
    )

"""How the server does, in words: alarms, what waits, what was answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from sulq.server.console.request_context import PageContext, Pages

pages = Pages()
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\d+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
MAX_ALARMS = 100  # on the page


@pages.get("/server")
async def server(here: PageContext) -> Response:
    """Alarms first, then health and counts."""
    alarms = (await here.get("/v1/alarms"))["alarms"]
    health = await here.get("/v1/health")
    samples = list(_samples((await here.content("/v1/metrics")).decode()))
    datasets = (await here.get("/v1/datasets"))["datasets"]
    return here.page(
        "server.html", health=health, alarms=alarms[:MAX_ALARMS],
        more=max(0, len(alarms) - MAX_ALARMS),
        unseen=sum(a["seen"] is None for a in alarms), counts=_counts(samples),
        lines=[_line(d, samples) for d in datasets], settings=here.console.services.settings,
    )  # fmt: skip


@pages.post("/server/seen")
async def seen(here: PageContext) -> Response:
    """The owner has looked at them."""
    await here.send("POST", "/v1/alarms/seen")
    return here.go("/console/server", done="seen")


def _samples(page: str) -> Iterator[tuple[str, dict[str, str], int]]:
    """The counts of a page that Prometheus reads."""
    for line in page.splitlines():
        found = SAMPLE.fullmatch(line)
        if found is not None:
            labels = {k: v.replace('\\"', '"') for k, v in LABEL.findall(found[2] or "")}
            yield found[1], labels, int(found[3])


def _counts(samples: list[tuple[str, dict[str, str], int]]) -> dict[str, int]:
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


def _line(
    dataset: dict[str, Any], samples: list[tuple[str, dict[str, str], int]]
) -> dict[str, Any]:
    """One dataset: its state, what it spent, what waits for it."""
    own = {n: v for n, labels, v in samples if labels.get("dataset") == dataset["name"]}
    return dataset | {
        "spent": own.get("sulq_spent_micro"), "left": own.get("sulq_remaining_micro"),
        "waiting": own.get("sulq_waiting", 0),
    }  # fmt: skip

"""The datasets that a principal may use: a list, a page for each, and one's own answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from sulq.audit.promise import AuditPromise
from sulq.client.database import promise_in
from sulq.client.wire import at
from sulq.errors import MICRO, NotFound, SulqError
from sulq.privacy.promise import Promise
from sulq.questions.describe import groups_in
from sulq.server.console.model_jobs import Job
from sulq.server.console.question_form import tables
from sulq.server.console.request_context import PageContext, Pages
from sulq.server.console.result_view import shown
from sulq.server.console.saved_results import Kept
from sulq.server.services.boards import SharedItem
from sulq.values.schema import Schema

pages = Pages()
LISTED = 100  # charges in a history
FOLDED = 25  # columns after which the rest is folded away


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """All that is public about a dataset, and what its principal may spend."""

    name: str
    said: dict[str, Any]  # as /v1/datasets/{name} gives it
    schema: Schema
    promise: Promise | AuditPromise

    @property
    def state(self) -> str:
        """open, frozen or stopped."""
        return str(self.said["state"])

    @property
    def own(self) -> dict[str, int]:
        """The principal's budget, in micro-queries."""
        budget: dict[str, int] = self.said["budget"]
        return budget

    @property
    def total_micro(self) -> int:
        """T of everyone."""
        return self.promise.queries * MICRO


async def facts_of(here: PageContext) -> DatasetFacts:
    """The dataset that the path names, or NotFound."""
    said = await here.get(here.at())
    return DatasetFacts(
        said["name"], said, Schema.load(said["schema"]), promise_in(said["promise"])
    )


@pages.get("/")
async def home(here: PageContext) -> Response:
    """Every dataset of this key, with what is left of each."""
    found = (await here.get("/v1/datasets"))["datasets"]
    for line in found[:FOLDED]:
        try:
            line["budget"] = await here.get(at(line["name"], "budget"))
        except SulqError as error:
            line["budget"], line["problem"] = None, str(error)
    return here.page("home.html", datasets=found)


@pages.get("/datasets/{name}")
async def dataset(here: PageContext) -> Response:
    """Promise, schema and budget of one dataset."""
    facts = await facts_of(here)
    budget = await here.get(here.at("budget"))
    cells = budget["cells"]
    return here.page(
        "dataset.html", name=facts.name, tab="overview", facts=facts,
        promise=facts.promise.explain(facts.said["rows"] or None).splitlines(),
        least=min(c["remaining_micro"] for c in cells), cells=cells, folded=FOLDED,
        tables=tables(facts.name, facts.schema),
    )  # fmt: skip


@pages.get("/datasets/{name}/answers")
async def answers(here: PageContext) -> Response:
    """What one asked: here, and with any other tool."""
    record = here.record()
    charges = (await here.get(f"{here.at('answers')}?newest=true&limit={LISTED}"))["answers"]
    kept = here.console.saved.all(here.principal, record)
    shared = here.console.services.boards.shared(record)
    jobs = here.console.jobs.all(here.principal, record)
    steps, elsewhere = folded(charges, kept, jobs)
    return here.page(
        "answers.html", name=here.name, tab="answers", kept=once(kept), elsewhere=elsewhere,
        steps=steps, shared=_from_others(here, shared), most=LISTED,
        charged=len(charges),
    )  # fmt: skip


def once(kept: Sequence[Kept]) -> list[tuple[Kept, int]]:
    """Each question once, as it was asked last, and how often it was asked."""
    newest: dict[str, Kept] = {}
    for each in kept:
        newest.setdefault(each.asked.to_json(), each)
    often = Counter(each.asked.to_json() for each in kept)
    return [(each, often[key]) for key, each in newest.items()]


def folded(
    charges: Sequence[dict[str, Any]], kept: Sequence[Kept], jobs: Sequence[Job]
) -> tuple[list[tuple[Job, list[dict[str, Any]]]], list[dict[str, Any]]]:
    """Charges that no answer of the console stands for: the steps of models, and others once."""
    known = {each.id for each in kept}
    rest = [c for c in charges if c["request"] not in known]
    steps: dict[str, list[dict[str, Any]]] = {job.id: [] for job in jobs}
    others: dict[str, dict[str, Any]] = {}
    for charge in rest:
        job = next((j for j in jobs if j.created <= charge["time"] <= j.ended), None)
        if job is None:
            others.setdefault(charge["question"], charge)
        else:
            steps[job.id].append(charge)
    return [(job, steps[job.id]) for job in jobs if steps[job.id]], list(others.values())


def _from_others(here: PageContext, shared: Sequence[SharedItem]) -> list[tuple[SharedItem, str]]:
    """What others share in this dataset, and what it is called."""
    console, record, who = here.console, here.record(), here.principal
    out = []
    for each in shared[:LISTED]:
        with suppress(NotFound):
            if each.kind == "answer":
                words = console.saved.get(who, record, each.id).asked.words()
            elif each.kind == "model":
                words = console.jobs.get(who, record, each.id).wish.words
            else:
                words = console.services.boards.get(who, record, each.id).name
            out.append((each, words))
    return [(each, words) for each, words in out if each.by_id != who.person.id]


@pages.get("/datasets/{name}/answers/{number}")
async def charge(here: PageContext) -> Response:
    """One charge of one's own, and its stored answer."""
    number, found = here.part("number"), []
    if number.isascii() and number.isdecimal() and len(number) < 16 and int(number):
        path = f"{here.at('answers')}?after={int(number) - 1}&limit=1"
        found = (await here.get(path))["answers"]
    else:
        here.record()
    if not found or found[0]["number"] != int(number):
        raise NotFound("there is no such answer of yours.")
    answer = found[0]["answer"] or ()
    named = groups_in(found[0]["query"])
    groups = named if len(named) == len(answer) else [""] * len(answer)
    parts = [
        shown(_table(part, group, found[0]), f"part-{i}")
        for i, (part, group) in enumerate(zip(answer, groups, strict=True))
        if "refused" not in part
    ]
    return here.page(
        "charge.html", name=here.name, tab="answers", charge=found[0], parts_shown=parts
    )


def _table(part: dict[str, Any], group: str, charge: dict[str, Any]) -> dict[str, Any]:
    """A part of a stored answer in the shape of a table."""
    alone, numbers = part["cells"] == ["all"], []
    for name in part["names"]:
        numbers += [name, f"{name}_low", f"{name}_high"]
    by = "group" if not group or group in numbers else group
    columns, rows = [*([] if alone else [by]), *numbers], []
    for cell, values in zip(part["cells"], part["values"], strict=True):
        row: dict[str, Any] = {by: cell}
        for name, value, reach in zip(part["names"], values, part["half_widths_95"], strict=True):
            row |= {name: value, f"{name}_low": value - reach, f"{name}_high": value + reach}
        rows.append(row)
    return {
        "columns": columns, "by": [] if alone else [by], "rows": rows,
        "price_micro": charge["price"], "remaining_micro": charge["remaining"],
    }  # fmt: skip

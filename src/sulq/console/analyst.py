"""The datasets that a visitor may use: a list, a page for each, and one's own answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from sulq.console.showing import shown
from sulq.console.visits import Pages, Visit
from sulq.errors import MICRO, NotFound, SulqError
from sulq.promise import Promise
from sulq.remote.database import PROMISE
from sulq.remote.wire import at
from sulq.schema import Schema

pages = Pages()
LISTED = 100  # charges in a history
FOLDED = 25  # columns after which the rest is folded away


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is public about a dataset, and what its visitor may spend."""

    name: str
    said: dict[str, Any]  # as /v1/datasets/{name} gives it
    schema: Schema
    promise: Promise

    @property
    def state(self) -> str:
        """open or frozen."""
        return str(self.said["state"])

    @property
    def own(self) -> dict[str, int]:
        """The visitor's budget, in micro-queries."""
        budget: dict[str, int] = self.said["budget"]
        return budget

    @property
    def total_micro(self) -> int:
        """T of everyone."""
        return self.promise.queries * MICRO


async def facts_of(here: Visit) -> Facts:
    """The dataset that the path names, or NotFound."""
    said = await here.get(at(here.part("name")))
    schema = Schema.load(said["schema"])
    promise = Promise.from_json({k: v for k, v in said["promise"].items() if k in PROMISE})
    return Facts(said["name"], said, schema, promise)


@pages.get("/console/")
async def home(here: Visit) -> Response:
    """Every dataset of this key, with what is left of each."""
    found = (await here.get("/v1/datasets"))["datasets"]
    for line in found[:FOLDED]:
        try:
            line["budget"] = await here.get(at(line["name"], "budget"))
        except SulqError as error:
            line["budget"], line["problem"] = None, str(error)
    return here.page("home.html", datasets=found)


@pages.get("/console/datasets/{name}")
async def dataset(here: Visit) -> Response:
    """Promise, schema and budget of one dataset."""
    facts = await facts_of(here)
    budget = await here.get(at(facts.name, "budget"))
    cells = budget["cells"]
    return here.page(
        "dataset.html", name=facts.name, tab="overview", facts=facts,
        promise=facts.promise.explain(facts.said["rows"] or None).splitlines(),
        least=min(c["remaining_micro"] for c in cells), cells=cells, folded=FOLDED,
    )  # fmt: skip


@pages.get("/console/datasets/{name}/answers")
async def answers(here: Visit) -> Response:
    """What one asked: here, and with any other tool."""
    name = here.part("name")
    record = here.record(name)
    path = f"{at(name, 'answers')}?newest=true&limit={LISTED}"
    charges = (await here.get(path))["answers"]
    kept = here.desk.shelf.all(here.visitor, record)
    return here.page(
        "answers.html", name=name, tab="answers", kept=kept, charges=charges, most=LISTED
    )


@pages.get("/console/datasets/{name}/answers/{number}")
async def charge(here: Visit) -> Response:
    """One charge of one's own, and its stored answer."""
    name, number = here.part("name"), here.part("number")
    found = []
    if number.isascii() and number.isdecimal() and len(number) < 16 and int(number):
        path = f"{at(name, 'answers')}?after={int(number) - 1}&limit=1"
        found = (await here.get(path))["answers"]
    else:
        here.record(name)
    if not found or found[0]["number"] != int(number):
        raise NotFound("there is no such answer of yours.")
    parts = [shown(_table(part, found[0]), f"part-{i}")
             for i, part in enumerate(found[0]["answer"] or ())]  # fmt: skip
    return here.page("charge.html", name=name, tab="answers", charge=found[0], parts_shown=parts)


def _table(part: dict[str, Any], charge: dict[str, Any]) -> dict[str, Any]:
    """A part of a stored answer in the shape of a table."""
    alone = part["cells"] == ["all"]
    columns, rows = [] if alone else ["cell"], []
    for name in part["names"]:
        columns += [name, f"{name}_low", f"{name}_high"]
    for cell, values in zip(part["cells"], part["values"], strict=True):
        row: dict[str, Any] = {"cell": cell}
        for name, value, reach in zip(part["names"], values, part["half_widths_95"], strict=True):
            row |= {name: value, f"{name}_low": value - reach, f"{name}_high": value + reach}
        rows.append(row)
    return {
        "columns": columns, "by": [] if alone else ["cell"], "rows": rows,
        "price_micro": charge["price"], "remaining_micro": charge["remaining"],
    }  # fmt: skip


@pages.get("/console/account")
async def account(here: Visit) -> Response:
    """Who one is, one's keys, and the way out."""
    keys = (await here.get("/v1/keys"))["keys"]
    who = here.visitor.person
    own = [k for k in keys if (k["person"], k["role"], k["revoked"]) == (who.name, who.role, None)]
    return here.page("account.html", keys=own, current=here.visitor.key)

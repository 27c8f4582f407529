"""Making a dataset: where its rows are, what is declared, what is promised. Three steps.

What was filled in travels in the forms themselves, so that nothing is kept half made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.responses import Response

from sulq.console import schemas
from sulq.console.planning import first_choice, planned
from sulq.console.plans import promise_of
from sulq.console.visits import Pages, Visit
from sulq.errors import SchemaError, SulqError
from sulq.ledger.place import shown
from sulq.remote.wire import at
from sulq.schema import TYPES
from sulq.server.replies import status_of

pages = Pages()
CARRIED = ("name", "source", "table", "description")
STEPS = ("Rows", "Columns", "Promise")


@pages.get("/console/new")
async def begin(here: Visit) -> Response:
    """Step 1: which rows, under which name."""
    return await _rows(here, {n: here.said.get(n) for n in CARRIED})


async def _rows(
    here: Visit, said: dict[str, str], problem: str = "", status: int = 200
) -> Response:
    found = await here.get("/v1/sources")
    return here.page(
        "new-rows.html", status, found=found, said=said, problem=problem, step=0, steps=STEPS,
        closed=_closed(here),
    )  # fmt: skip


def _closed(here: Visit) -> list[dict[str, Any]]:
    """Datasets of this house that were closed, whose ledgers go on if they are made again."""
    rows = here.desk.rooms.registry.all(
        "SELECT name, created, arguments FROM datasets WHERE house = ? AND state = 'closed' "
        "ORDER BY id DESC LIMIT 20", here.visitor.person.house,
    )  # fmt: skip
    return [
        {"name": row["name"], "created": row["created"], "source": _named(here, row["arguments"])}
        for row in rows
    ]


def _named(here: Visit, arguments: str) -> str:
    """The source as its owner would name it; nothing for an address, which may hold a password."""
    source, settings = str(json.loads(arguments)["source"]), here.desk.rooms.settings
    for folder in settings.sources:
        root = (settings.folder / folder).resolve()
        if "://" not in source and Path(source).is_relative_to(root):
            return str(Path(source).relative_to(root))
    return ""


@pages.post("/console/new/columns")
async def columns(here: Visit) -> Response:
    """Step 2: the columns, from a first draft or as they were filled in before."""
    said = _carried(here)
    here.desk.rooms.access.whole_owner(here.visitor)
    if here.form.has("columns"):
        return await _checked(here, said)
    if not said["name"]:
        said["name"] = _name_of(said)
    body = {"source": said["source"], "table": said["table"] or None}
    try:
        found = await here.send("POST", "/v1/draft", body)
    except SulqError as error:
        return await _rows(here, said, str(error), status_of(error))
    return _editor(here, said, schemas.drafted(found["columns"]), fresh=True)


async def _checked(here: Visit, said: dict[str, str]) -> Response:
    """After a button of step 2: take a text, check, or go on."""
    filled = schemas.typed(here.form)
    if here.form.has("take"):
        try:
            filled = schemas.of_text(here.form.raw("toml"))
        except SchemaError as error:
            return _editor(here, said, filled, problem=str(error), status=422)
        return _editor(here, said, filled)
    found = schemas.check(filled)
    if here.form.has("onward") and found.schema is not None:
        return await _promise(here, said, filled)
    return _editor(here, said, filled, status=422 if found.wrong else 200)


def _editor(
    here: Visit, said: dict[str, str], filled: schemas.Typed, *, problem: str = "",
    fresh: bool = False, status: int = 200,
) -> Response:  # fmt: skip
    return here.page(
        "new-columns.html", status, said=said, step=1, steps=STEPS, problem=problem,
        shown=shown(said["source"]), **editing(filled, fresh),
    )  # fmt: skip


def editing(filled: schemas.Typed, fresh: bool = False) -> dict[str, Any]:
    """What templates need for the fields of a schema."""
    return {
        "filled": filled, "found": schemas.check(filled), "types": TYPES,
        "left_out": schemas.LEFT_OUT, "fresh": fresh, "too_many": len(filled.fields) > schemas.MOST,
        "most": schemas.MOST,
    }  # fmt: skip


@pages.post("/console/schema/live")
async def live(here: Visit) -> Response:
    """What a check finds, while one types."""
    return here.page("schema-found.html", found=schemas.check(schemas.typed(here.form)))


@pages.post("/console/new/promise")
async def promise(here: Visit) -> Response:
    """Step 3: the promise, moved until it fits; then the dataset is made."""
    said, filled = _carried(here), schemas.typed(here.form)
    if here.form.has("back"):
        return _editor(here, said, filled)
    if not here.form.has("make"):
        return await _promise(here, said, filled)
    try:
        await here.send("POST", "/v1/datasets", await _body(here, said, filled))
    except SulqError as error:
        return await _promise(here, said, filled, str(error), status_of(error))
    return here.go(f"/console/datasets/{said['name']}/people", done="made")


async def _body(here: Visit, said: dict[str, str], filled: schemas.Typed) -> dict[str, Any]:
    """The dataset as /v1/datasets takes it."""
    promised = promise_of(first_choice(here))
    body: dict[str, Any] = {n: said[n] for n in ("name", "source", "description")}
    body |= {n: v for n, v in promised.to_json().items() if n != "subject"}
    body["schema"] = schemas.said(filled)
    for name in ("table",):
        if said[name]:
            body[name] = said[name]
    for name in ("refresh", "override"):
        if here.form.get(name):
            body[name] = here.form.get(name)
    return body


async def _promise(
    here: Visit, said: dict[str, str], filled: schemas.Typed, refused: str = "", status: int = 200
) -> Response:
    found = schemas.check(filled)
    if found.schema is None:
        return _editor(here, said, filled, status=422)
    values = await planned(here, first_choice(here), found.schema) | {
        "refused": refused, "again": Again.of(refused), "refresh": here.form.get("refresh"),
        "override": here.form.get("override"),
    }  # fmt: skip
    return here.page(
        "new-promise.html", status, carried=said, filled=filled, step=2, steps=STEPS, **values
    )


@pages.post("/console/new/live")
async def moved(here: Visit) -> Response:
    """What the promise comes to, while one moves a number."""
    found = schemas.check(schemas.typed(here.form))
    return here.page("plan-shown.html", **await planned(here, first_choice(here), found.schema))


@dataclass(frozen=True, slots=True)
class Again:
    """What may be said to go on, after a refusal to make a dataset."""

    refresh: bool
    override: bool

    @classmethod
    def of(cls, refused: str) -> Again:
        """By the words of the refusal."""
        known = "ledger" in refused or "changed" in refused
        return cls(known, known or "promise" in refused.lower())


def _carried(here: Visit) -> dict[str, str]:
    return {n: here.form.get(n) for n in CARRIED}


def _name_of(said: dict[str, str]) -> str:
    """A name from the table or the file."""
    plain = said["table"].split(".")[-1] or Path(said["source"].split("?")[0]).stem
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in plain)
    return kept.strip("._-")[:64]


# ---- a schema that is there -----------------------------------------------------------------


@pages.get("/console/datasets/{name}/schema")
async def schema(here: Visit) -> Response:
    """The declarations as fields, for an owner to look at and to change with a refresh."""
    name = here.part("name")
    facts = await here.get(at(name))
    here.desk.rooms.access.owner(here.visitor)
    return _existing(here, facts, schemas.declared(facts["schema"]))


@pages.post("/console/datasets/{name}/schema")
async def changed(here: Visit) -> Response:
    """Check a changed schema, or refresh with it."""
    name = here.part("name")
    facts = await here.get(at(name))
    here.desk.rooms.access.owner(here.visitor)
    filled, reason = schemas.typed(here.form), here.form.get("reason")
    if here.form.has("take"):
        try:
            return _existing(here, facts, schemas.of_text(here.form.raw("toml")), reason)
        except SchemaError as error:
            return _existing(here, facts, filled, reason, str(error), 422)
    if not here.form.has("refresh") or schemas.check(filled).schema is None:
        return _existing(here, facts, filled, reason)
    try:
        body = {"reason": reason, "schema": schemas.said(filled)}
        await here.send("POST", at(name, "refresh"), body)
    except SulqError as error:
        return _existing(here, facts, filled, reason, str(error), status_of(error))
    return here.go(f"/console/datasets/{name}/schema", done="refreshed")


def _existing(
    here: Visit, facts: dict[str, Any], filled: schemas.Typed, reason: str = "",
    problem: str = "", status: int = 200,
) -> Response:  # fmt: skip
    return here.page(
        "schema.html", status, name=facts["name"], facts=facts, tab="schema", reason=reason,
        problem=problem, **editing(filled),
    )  # fmt: skip

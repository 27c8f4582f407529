"""Making a dataset: where its rows are, what is declared, what is promised. Three steps.

What was filled in travels in the forms themselves, so that nothing is kept half made.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from sulq.client.wire import path_of
from sulq.errors import QueryNotAllowed, Refused, SchemaError, SulqError
from sulq.ledger.location import shown
from sulq.server.console import schema_form as schemas
from sulq.server.console import schema_view as views
from sulq.server.console.forms import Form
from sulq.server.console.promise_plan import chosen, planned, promise_of
from sulq.server.console.request_context import PREFIX, PageContext, Pages
from sulq.server.services import locations
from sulq.server.services.allowed_sources import TAKEN
from sulq.server.services.people import check_name
from sulq.server.services.uploads import KINDS
from sulq.values.schema import TYPES

pages = Pages()
CARRIED = ("name", "source", "table", "description")
STEPS = ("Rows", "Columns", "Promise")


def carried(here: PageContext) -> dict[str, str]:
    """What the earlier steps filled in."""
    return {n: here.form.get(n) or here.said.get(n) for n in CARRIED}


@pages.get("/new")
async def rows(here: PageContext, problem: SulqError | None = None) -> Response:
    """Step 1: which rows, under which name."""
    return here.page(
        "new-rows.html", problem, found=await here.get("/v1/sources"), said=carried(here), step=0,
        steps=STEPS, closed=_closed(here), endings=KINDS,
    )  # fmt: skip


def _closed(here: PageContext) -> list[dict[str, Any]]:
    """Datasets of this tenant that were closed, whose ledgers go on if they are made again."""
    rows = here.console.services.registry.all(
        "SELECT name, created, arguments FROM datasets WHERE house = ? AND state = 'closed' "
        "ORDER BY id DESC LIMIT 20", here.principal.person.tenant,
    )  # fmt: skip
    return [
        {"name": row["name"], "created": row["created"], "source": _named(here, row["arguments"])}
        for row in rows
    ]


def _named(here: PageContext, arguments: str) -> str:
    """The source as its owner would name it; nothing for an address, which may hold a password."""
    settings = here.console.services.settings
    source = str(locations.found(json.loads(arguments), settings.folder)["source"])
    for folder in settings.sources:
        root = (settings.folder / folder).resolve()
        if "://" not in source and Path(source).is_relative_to(root):
            return str(Path(source).relative_to(root))
    return ""


@pages.post("/new/upload", again=rows, file=True)
async def upload(here: PageContext) -> Response:
    """A file from the browser, into the owner's folder; then on as with one that was there."""
    file = here.sent
    if file is None or not file.name:
        raise QueryNotAllowed("no file was chosen. Nothing was kept.")
    try:
        found = await here.put(path_of("files", _file_name(file.name)), file.chunks())
    except SulqError:
        await file.pass_over()
        raise
    name = here.form.get("name")
    onward = urlencode({"source": found["source"]} | ({"name": name} if name else {}))
    return here.go(f"{PREFIX}/new/columns?{onward}")


def _file_name(said: str) -> str:
    """A plain name for what the browser calls a file; its ending stays."""
    path = Path(said)
    return f"{_plain(path.stem)[:80] or 'rows'}{path.suffix.lower()}"


@pages.get("/new/columns")
async def draft(here: PageContext) -> Response:
    """Step 2 for a file in the folder: a first draft of its columns."""
    if not here.said.get("source"):
        return here.go(f"{PREFIX}/new")
    try:
        return await _drafted(here)
    except SulqError as error:
        return await rows(here, error)


async def _drafted(here: PageContext) -> Response:
    found = await here.send("POST", "/v1/draft", _source(here) | {"guess": True})
    return _editor(here, schemas.drafted(found["columns"]), fresh=True, rows=found["rows"])


@pages.post("/new/columns", again=rows)
async def columns(here: PageContext) -> Response:
    """Step 2: the columns, from a first draft or as they were filled in before."""
    here.console.services.access.whole_owner(here.principal)
    if not here.form.has("columns"):
        return await _drafted(here)
    filled, problem = _filled(here)
    if here.form.has("onward") and problem is None:
        try:
            check_name(carried(here)["name"], "name")
        except Refused as error:
            problem = error
    onward = here.form.has("onward") and problem is None
    if onward and schemas.check(filled).schema is not None:
        lost, taken = await _lost(here, filled)
        return await _promise(here, taken, lost)
    return _editor(here, filled, problem)


def _source(here: PageContext) -> dict[str, Any]:
    said = carried(here)
    return {"source": said["source"], "table": said["table"] or None}


def _filled(here: PageContext) -> tuple[schemas.Typed, SulqError | None]:
    """The schema as it is filled in, changed for many columns, or taken from a text."""
    try:
        if here.form.has("take"):
            return schemas.of_text(here.form.raw("toml")), None
        if here.form.has("bulk"):
            return views.changed(schemas.typed(here.form), here.form)[0], None
    except (SchemaError, QueryNotAllowed) as error:
        return schemas.typed(here.form), error
    return schemas.typed(here.form), None


async def _lost(here: PageContext, filled: schemas.Typed) -> tuple[list[str], SulqError | None]:
    """A warning for each column of which nothing can be read as declared; or why none was sought.

    For the owner, before anything is promised; who may go on all the same, unless these rows are
    in another dataset: that refusal would come again, and is given beside the warnings.
    """
    body = _source(here) | {"schema": schemas.said(filled)}
    try:
        found = await here.send("POST", "/v1/check", body)
    except SulqError as error:
        if TAKEN in str(error):
            return [], error
        return [f"The declarations were not checked against the rows: {error}"], None
    return [str(line) for line in found["warnings"]], None


def _editor(
    here: PageContext, filled: schemas.Typed, problem: SulqError | None = None,
    fresh: bool = False, rows: int | None = None,
) -> Response:  # fmt: skip
    said = carried(here)
    said["name"] = said["name"] or _name_of(said)
    values = editing(filled, here.form, fresh)
    looked = any(here.form.has(n) for n in ("take", "bulk", "show"))
    wrong = bool(values["found"].wrong) and not fresh and not looked
    return here.page(
        "new-columns.html", problem, status=422 if wrong else 200, said=said, step=1, steps=STEPS,
        shown=shown(said["source"]), rows=rows or here.form.get("rows"), **values,
    )  # fmt: skip


def editing(filled: schemas.Typed, form: Form, fresh: bool = False) -> dict[str, Any]:
    """What templates need for the fields of a schema; `fresh` before anything was typed."""
    view = views.view_of(filled, form)
    bulk = {n: form.get(f"set_{n}") for n in ("type", "low", "high", "values", "public", "full")}
    return {
        "filled": filled, "found": schemas.check(filled), "types": TYPES, "view": view,
        "rest": schemas.packed(filled, view.shown), "kinds": (views.ANY, views.UNDECIDED, *TYPES),
        "left_out": schemas.LEFT_OUT, "fresh": fresh, "most": schemas.MAX_COLUMNS,
        "too_many": len(filled.fields) > schemas.MAX_COLUMNS, "bulk": bulk, "later": 0,
        "per": views.SHOWN, "set_now": len(view.matching) if form.has("bulk") else 0,
    }  # fmt: skip


@pages.post("/schema/live")
async def live(here: PageContext) -> Response:
    """What a check finds, while one types; of columns not come to yet only how many they are."""
    filled, only = schemas.typed(here.form), here.form.get("touched")
    found, later = schemas.check(filled), 0
    if here.form.has("touched"):
        touched = set(only.split(","))
        known = [f for f in found.wrong if f.column is None or str(f.column) in touched]
        later = len(found.wrong) - len(known)
        found = replace(found, wrong=known)
    view = views.view_of(filled, here.form)
    return here.page("schema-found.html", found=found, fresh=False, later=later, view=view)


async def _promise(
    here: PageContext, problem: SulqError | None = None, lost: list[str] | None = None
) -> Response:
    """Step 3: the promise, moved until it fits."""
    filled = schemas.typed(here.form)
    found, form = schemas.check(filled), here.form
    if found.schema is None:
        return _editor(here, filled)
    known = ("ledger", "changed", "promise")  # words of a refusal after which one may go on
    stopped = TAKEN in str(problem)
    values = await planned(here, chosen(form), found.schema) | {
        "again": any(word in str(problem).lower() for word in known), "stopped": stopped,
        **{name: form.get(name) for name in ("refresh", "override", "group")},
        "lost": form.all("lost") if lost is None else lost,
    }  # fmt: skip
    return here.page(
        "new-promise.html", problem, carried=carried(here), filled=filled, step=2, steps=STEPS,
        rest=schemas.packed(filled), **values,
    )  # fmt: skip


@pages.post("/new/promise", again=_promise)
async def promise(here: PageContext) -> Response:
    """The promise, looked at again; or the dataset is made."""
    said, filled, form = carried(here), schemas.typed(here.form), here.form
    if form.has("back"):
        return _editor(here, filled)
    if not form.has("make"):
        return await _promise(here)
    body: dict[str, Any] = {n: said[n] for n in ("name", "source", "description")}
    body |= {n: v for n, v in promise_of(chosen(form)).to_json().items() if n != "subject"}
    body |= {"schema": schemas.said(filled)} | ({"table": said["table"]} if said["table"] else {})
    body |= {n: form.get(n) for n in ("refresh", "override", "group") if form.get(n)}
    await here.send("POST", "/v1/datasets", body)
    return here.go(f"/console/datasets/{said['name']}/people", done="made")


@pages.post("/new/live")
async def moved(here: PageContext) -> Response:
    """What the promise comes to, while one moves a number."""
    found = schemas.check(schemas.typed(here.form))
    return here.page("plan-shown.html", **await planned(here, chosen(here.form), found.schema))


def _name_of(said: dict[str, str]) -> str:
    """A name from the table or the file."""
    return _plain(said["table"].split(".")[-1] or Path(said["source"].split("?")[0]).stem)[:64]


def _plain(text: str) -> str:
    """Letters, digits, dots, dashes and underscores, as names have them."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in text)
    return kept.strip("._-")


# ---- a schema that is there -----------------------------------------------------------------


@pages.get("/datasets/{name}/schema")
async def schema(here: PageContext, problem: SulqError | None = None) -> Response:
    """The declarations as fields, for an owner to look at and to change with a refresh."""
    facts = await here.get(here.at())
    here.own_record()
    filled = schemas.declared(facts["schema"])
    if here.form.has("columns"):
        filled, wrong = _filled(here)
        problem = problem or wrong
    return here.page(
        "schema.html", problem, name=here.name, facts=facts, tab="schema",
        reason=here.form.get("reason"), **editing(filled, here.form),
    )  # fmt: skip


@pages.post("/datasets/{name}/schema", again=schema)
async def changed(here: PageContext) -> Response:
    """Check a changed schema, or refresh with it."""
    filled = schemas.typed(here.form)
    wanted = here.form.has("refresh") and not (here.form.has("take") or here.form.has("bulk"))
    if not wanted or schemas.check(filled).schema is None:
        return await schema(here)
    body = {"reason": here.form.get("reason"), "schema": schemas.said(filled)}
    await here.send("POST", here.at("refresh"), body)
    return here.go("schema", "refreshed")

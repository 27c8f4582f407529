"""What an owner decides about one dataset: words, freezing, closing, new rows, who may ask."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from sulq.console.visits import Pages, Visit
from sulq.errors import SulqError
from sulq.remote.wire import at
from sulq.server.replies import status_of

pages = Pages()
HOME = "/console/datasets/{name}"


async def _facts(here: Visit) -> dict[str, Any]:
    """The dataset, if it is theirs to decide about: first whether it is there."""
    facts: dict[str, Any] = await here.get(at(here.part("name")))
    here.desk.rooms.access.owner(here.visitor)
    return facts


# ---- deciding -------------------------------------------------------------------------------


@pages.get(HOME + "/owner")
async def owner(here: Visit) -> Response:
    """Everything there is to decide, and what was decided."""
    return await _deciding(here)


async def _deciding(here: Visit, problem: str = "", status: int = 200) -> Response:
    """Even if its rows cannot be opened: then most of all."""
    name, facts, stopped = here.part("name"), None, ""
    record = here.desk.rooms.access.dataset(here.visitor, name)
    here.desk.rooms.access.owner(here.visitor)
    try:
        facts = await here.get(at(name))
    except SulqError as error:
        stopped = str(error)
    whole = here.visitor.scope is None
    alarms = (await here.get("/v1/alarms"))["alarms"] if whole else []
    return here.page(
        "owner.html", status, name=name, tab="owner", facts=facts, record=record, stopped=stopped,
        problem=problem, reason=here.form.get("reason"),
        alarms=[a for a in alarms if a["dataset"] == name and a["seen"] is None],
    )  # fmt: skip


@pages.post(HOME + "/owner/describe")
async def describe(here: Visit) -> Response:
    """What analysts read about it."""
    return await _changed(here, {"description": here.form.raw("description").strip()}, "saved")


@pages.post(HOME + "/owner/freeze")
async def freeze(here: Visit) -> Response:
    """Answer nothing until thawed."""
    return await _changed(here, {"state": "frozen"}, "frozen")


@pages.post(HOME + "/owner/thaw")
async def thaw(here: Visit) -> Response:
    """Answer again."""
    return await _changed(here, {"state": "open"}, "thawed")


async def _changed(here: Visit, change: dict[str, str], done: str) -> Response:
    name = here.part("name")
    try:
        await here.send("PATCH", at(name), change)
    except SulqError as error:
        if status_of(error) in (403, 404):
            raise
        return await _deciding(here, str(error), status_of(error))
    return here.go(f"/console/datasets/{name}/owner", done=done)


@pages.post(HOME + "/owner/refresh")
async def refresh(here: Visit) -> Response:
    """Go on with the rows as they are now."""
    name = here.part("name")
    try:
        await here.send("POST", at(name, "refresh"), {"reason": here.form.get("reason")})
    except SulqError as error:
        if status_of(error) in (403, 404):
            raise
        return await _deciding(here, str(error), status_of(error))
    return here.go(f"/console/datasets/{name}/owner", done="refreshed")


@pages.get(HOME + "/owner/close")
async def closing(here: Visit) -> Response:
    """Whether they mean it."""
    name = here.part("name")
    here.desk.rooms.access.dataset(here.visitor, name)
    here.desk.rooms.access.owner(here.visitor)
    return here.page("close.html", name=name, tab="owner", problem="")


@pages.post(HOME + "/owner/close")
async def close(here: Visit) -> Response:
    """Gone for everyone, once its name was typed."""
    name = here.part("name")
    if here.form.get("typed") != name:
        here.desk.rooms.access.dataset(here.visitor, name)
        here.desk.rooms.access.owner(here.visitor)
        problem = "The name you typed is not this dataset's. Nothing was closed."
        return here.page("close.html", 422, name=name, tab="owner", problem=problem)
    await here.send("DELETE", at(name))
    return here.go("/console/", done="closed")


# ---- who may ask ----------------------------------------------------------------------------


@pages.get(HOME + "/people")
async def people(here: Visit) -> Response:
    """Who is invited, what each spent and may spend."""
    return await _people(here)


async def _people(here: Visit, problem: str = "", status: int = 200) -> Response:
    facts = await _facts(here)
    name = here.part("name")
    found = (await here.get(at(name, "allotments")))["allotments"]
    known: list[str] = []
    if here.visitor.scope is None:
        known = [a["name"] for a in (await here.get("/v1/analysts"))["analysts"]]
    invited = {who for who, a in found.items() if a["invited"]}
    return here.page(
        "people.html", status, name=name, tab="people", facts=facts, allotments=found,
        others=[who for who in known if who not in invited], whole=here.visitor.scope is None,
        problem=problem,
    )  # fmt: skip


@pages.post(HOME + "/people/invite")
async def invite(here: Visit) -> Response:
    """Let an analyst see and ask it."""
    return await _decided(here, "PUT", ("analysts", here.form.get("analyst")), None, "invited")


@pages.post(HOME + "/people/uninvite")
async def uninvite(here: Visit) -> Response:
    """The dataset is no longer there for them."""
    return await _decided(here, "DELETE", ("analysts", here.form.get("analyst")), None, "uninvited")


@pages.post(HOME + "/people/allot")
async def allot(here: Visit) -> Response:
    """The most that an analyst may spend; an empty field: as much as there is."""
    most = here.form.get("queries").replace(",", "") or None
    return await _decided(
        here, "PUT", ("allotments", here.form.get("analyst")), {"queries": most}, "allotted"
    )


async def _decided(
    here: Visit, method: str, path: tuple[str, ...], body: Any, done: str
) -> Response:
    name = here.part("name")
    try:
        await here.send(method, at(name, *path), body)
    except SulqError as error:
        await _facts(here)  # is it there, and theirs?
        return await _people(here, str(error), status_of(error))
    return here.go(f"/console/datasets/{name}/people", done=done)

"""What an owner decides about one dataset: words, freezing, closing, new rows, who may ask."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from sulq.errors import NotFound, QueryNotAllowed, SulqError
from sulq.server.console.request_context import PageContext, Pages

pages = Pages()
HOME = "/datasets/{name}"


# ---- deciding -------------------------------------------------------------------------------


@pages.get(HOME + "/owner")
async def owner(
    here: PageContext, problem: SulqError | None = None, checked: dict[str, Any] | None = None
) -> Response:
    """Everything there is to decide, and what was decided.

    Even if its rows cannot be opened: then most of all.
    """
    name, facts, blocked = here.name, None, ""
    record = here.own_record()
    try:
        facts = await here.get(here.at())
    except SulqError as error:
        blocked = str(error)
    whole = here.principal.scope is None
    alarms = (await here.get("/v1/alarms"))["alarms"] if whole else []
    return here.page(
        "owner.html", problem, name=name, tab="owner", facts=facts, record=record, blocked=blocked,
        reason=here.form.get("reason"), checked=checked, rows=here.form.get("rows"),
        why_append=here.form.get("why_append"),
        by_periods="period" in json.loads(record.arguments)["schema"],
        alarms=[a for a in alarms if a["dataset"] == name and a["seen"] is None],
    )  # fmt: skip


@pages.post(HOME + "/owner/check", again=owner)
async def check(here: PageContext) -> Response:
    """How well its rows fit what is declared: shown this once, kept nowhere."""
    return await owner(here, checked=await here.send("POST", here.at("check")))


@pages.post(HOME + "/owner/describe", again=owner)
async def describe(here: PageContext) -> Response:
    """What analysts read about it."""
    return await _changed(here, {"description": here.form.raw("description").strip()}, "saved")


@pages.post(HOME + "/owner/freeze", again=owner)
async def freeze(here: PageContext) -> Response:
    """Answer nothing until thawed."""
    return await _changed(here, {"state": "frozen"}, "frozen")


@pages.post(HOME + "/owner/thaw", again=owner)
async def thaw(here: PageContext) -> Response:
    """Answer again; with a reason, if a scan failed."""
    why = here.form.get("why")
    return await _changed(here, {"state": "open"} | ({"reason": why} if why else {}), "thawed")


async def _changed(here: PageContext, change: dict[str, str], done: str) -> Response:
    await here.send("PATCH", here.at(), change)
    return here.go("owner", done)


@pages.post(HOME + "/owner/refresh", again=owner)
async def refresh(here: PageContext) -> Response:
    """Go on with the rows as they are now."""
    await here.send("POST", here.at("refresh"), {"reason": here.form.get("reason")})
    return here.go("owner", "refreshed")


@pages.post(HOME + "/owner/append", again=owner)
async def append(here: PageContext) -> Response:
    """Take in rows of new periods."""
    body = {"reason": here.form.get("why_append"), "rows": here.form.get("rows") or None}
    await here.send("POST", here.at("append"), body)
    return here.go("owner", "appended")


@pages.get(HOME + "/owner/close")
async def closing(here: PageContext, problem: SulqError | None = None) -> Response:
    """Whether they mean it."""
    return here.page("close.html", problem, name=here.own_record().name, tab="owner")


@pages.post(HOME + "/owner/close", again=closing)
async def close(here: PageContext) -> Response:
    """Gone for everyone, once its name was typed."""
    if here.form.get("typed") != here.name:
        raise QueryNotAllowed("the name you typed is not this dataset's. Nothing was closed.")
    await here.send("DELETE", here.at())
    return here.go("/console/", done="closed")


# ---- who may ask ----------------------------------------------------------------------------


@pages.get(HOME + "/people")
async def people(here: PageContext, problem: SulqError | None = None) -> Response:
    """Who is invited, what each spent and may spend."""
    facts = await here.get(here.at())
    here.own_record()
    found = (await here.get(here.at("allotments")))["allotments"]
    known: list[str] = []
    if here.principal.scope is None:
        known = [a["name"] for a in (await here.get("/v1/analysts"))["analysts"]]
    invited = {who for who, a in found.items() if a["invited"]}
    return here.page(
        "people.html", problem, name=here.name, tab="people", facts=facts, allotments=found,
        others=[who for who in known if who not in invited], whole=here.principal.scope is None,
    )  # fmt: skip


@pages.post(HOME + "/people/invite", again=people)
async def invite(here: PageContext) -> Response:
    """Let an analyst see and ask it."""
    return await _decided(here, "PUT", "analysts", None, "invited")


@pages.get(HOME + "/people/uninvite")
async def uninviting(here: PageContext) -> Response:
    """Whether they mean it."""
    who = here.said.get("analyst")
    here.own_record()
    found = (await here.get(here.at("allotments")))["allotments"]
    if who not in found or not found[who]["invited"]:
        raise NotFound(f"{who[:64]!r} is not invited.")
    return here.page("uninvite.html", name=here.name, tab="people", who=who)


@pages.post(HOME + "/people/uninvite", again=people)
async def uninvite(here: PageContext) -> Response:
    """The dataset is no longer there for them."""
    return await _decided(here, "DELETE", "analysts", None, "uninvited")


@pages.post(HOME + "/people/allot", again=people)
async def allot(here: PageContext) -> Response:
    """The most that an analyst may spend; an empty field: as much as there is."""
    most = here.form.get("queries").replace(",", "") or None
    return await _decided(here, "PUT", "allotments", {"queries": most}, "allotted")


async def _decided(here: PageContext, method: str, what: str, body: Any, done: str) -> Response:
    await here.send(method, here.at(what, here.form.get("analyst")), body)
    return here.go("people", done)

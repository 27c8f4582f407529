"""The people of a house: analysts, and keys that are shown once."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from sulq.console.visits import Pages, Visit
from sulq.errors import NotFound, Refused, SulqError
from sulq.server.registry import now
from sulq.server.replies import status_of

pages = Pages()
HOUSE = "/console/analysts"
DAYS = 90


@pages.get(HOUSE)
async def analysts(here: Visit) -> Response:
    """Everyone who may ask, and the way to add one."""
    return await _house(here)


async def _house(here: Visit, problem: str = "", status: int = 200) -> Response:
    found = (await here.get("/v1/analysts"))["analysts"]
    keys = (await here.get("/v1/keys"))["keys"]
    working = [k for k in keys if _works(k)]
    return here.page(
        "analysts.html", status, analysts=found, problem=problem, days=DAYS,
        keys_of={a["name"]: sum(_of(k, a["name"]) for k in working) for a in found},
        datasets=[d["name"] for d in (await here.get("/v1/datasets"))["datasets"]],
        said={"name": here.form.get("name"), "datasets": here.form.all("dataset")},
        own=[k | {"ended": _ended(k)} for k in keys if k["role"] == "owner"],
    )  # fmt: skip


@pages.post(HOUSE)
async def add(here: Visit) -> Response:
    """A new analyst with a key, invited to some datasets."""
    name, days = here.form.get("name"), here.form.get("days")
    try:
        body = {"analyst": name, "days": _days(days), "label": "first"}
        await here.send("POST", "/v1/analysts", {"name": name})
        for dataset in here.form.all("dataset"):
            path = f"/v1/datasets/{quote(dataset, safe='')}/analysts/{quote(name, safe='')}"
            await here.send("PUT", path)
        made = await here.send("POST", "/v1/keys", body)
    except SulqError as error:
        return await _house(here, str(error), status_of(error))
    return _shown(here, name, made, here.form.all("dataset"))


def _shown(here: Visit, whose: str, made: dict[str, Any], datasets: list[str]) -> Response:
    """A key, this once; and for an analyst (not for "", the owner) a link that signs in once."""
    base = f"{here.request.url.scheme}://{here.request.url.netloc}"
    own = whose == ""
    return here.page(
        "key.html", whose=here.visitor.person.name if own else whose, made=made,
        datasets=datasets, base=base, own=own,
        link="" if own else base + here.desk.sessions.link(made["id"]),
    )  # fmt: skip


# ---- one analyst ----------------------------------------------------------------------------


@pages.get(HOUSE + "/{analyst}")
async def analyst(here: Visit) -> Response:
    """One person: datasets, keys, and the end of them."""
    return await _person(here)


async def _person(here: Visit, problem: str = "", status: int = 200) -> Response:
    who = here.part("analyst")
    found = (await here.get("/v1/analysts"))["analysts"]
    one = next((a for a in found if a["name"] == who), None)
    if one is None:
        raise NotFound(f"there is no analyst {who[:64]!r}.")
    keys = [k for k in (await here.get("/v1/keys"))["keys"] if _of(k, who)]
    return here.page(
        "analyst.html", status, one=one, problem=problem, days=DAYS,
        keys=[k | {"ended": _ended(k)} for k in keys],
        datasets=[d["name"] for d in (await here.get("/v1/datasets"))["datasets"]],
    )  # fmt: skip


@pages.post(HOUSE + "/{analyst}/key")
async def new_key(here: Visit) -> Response:
    """One more key for an analyst."""
    who = here.part("analyst")
    try:
        made = await here.send("POST", "/v1/keys", _wanted(here) | {"analyst": who})
    except SulqError as error:
        return await _person(here, str(error), status_of(error))
    return _shown(here, who, made, here.form.all("dataset"))


@pages.post(HOUSE + "/{analyst}/remove")
async def remove(here: Visit) -> Response:
    """End their keys and invitations, once their name was typed."""
    who = here.part("analyst")
    if here.form.get("typed") != who:
        problem = "The name you typed is not this analyst's. Nobody was removed."
        return await _person(here, problem, 422)
    await here.send("DELETE", f"/v1/analysts/{quote(who, safe='')}")
    return here.go(HOUSE, done="removed")


@pages.post("/console/keys")
async def own_key(here: Visit) -> Response:
    """One more key for the owner."""
    try:
        made = await here.send("POST", "/v1/keys", _wanted(here))
    except SulqError as error:
        return await _house(here, str(error), status_of(error))
    return _shown(here, "", made, here.form.all("dataset"))


@pages.post("/console/keys/{key}/revoke")
async def revoke(here: Visit) -> Response:
    """End a key at once."""
    await here.send("DELETE", f"/v1/keys/{quote(here.part('key'), safe='')}")
    who = here.form.get("analyst")
    return here.go(f"{HOUSE}/{quote(who, safe='')}" if who else HOUSE, done="revoked")


def _wanted(here: Visit) -> dict[str, Any]:
    """A key as /v1/keys takes it."""
    return {
        "days": _days(here.form.get("days")), "label": here.form.get("label"),
        "datasets": here.form.all("dataset") or None,
    }  # fmt: skip


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise Refused(f"days={text[:20]!r}: want a whole number of days.")
    return int(text)


def _of(key: dict[str, Any], analyst: str) -> bool:
    return bool(key["person"] == analyst and key["role"] == "analyst")


def _works(key: dict[str, Any]) -> bool:
    return not _ended(key)


def _ended(key: dict[str, Any]) -> str:
    """Why a key works no longer; nothing if it does."""
    return "revoked" if key["revoked"] else "expired" if key["expires"] <= now() else ""

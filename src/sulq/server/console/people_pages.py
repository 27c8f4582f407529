"""The people of a tenant: analysts, their datasets and keys."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from sulq.client.wire import at, path_of
from sulq.errors import NotFound, QueryNotAllowed, Refused, SulqError
from sulq.server.console.account_pages import all_keys, opened, shown
from sulq.server.console.request_context import PREFIX, PageContext, Pages

pages = Pages()
ANALYSTS = "/analysts"
LIST = f"{PREFIX}{ANALYSTS}"
DAYS = 90


@pages.get(ANALYSTS)
async def analysts(here: PageContext, problem: SulqError | None = None) -> Response:
    """Everyone who may ask, and the way to add one."""
    found = (await here.get("/v1/analysts"))["analysts"]
    keys = await all_keys(here)
    working = [k for k in keys if not k["ended"]]
    return here.page(
        "analysts.html", problem, analysts=found, days=DAYS,
        keys_of={a["name"]: sum(_of(k, a["name"]) for k in working) for a in found},
        datasets=await here.dataset_names(),
        said={"name": here.form.get("name"), "datasets": here.form.all("dataset")},
        own=[k for k in keys if k["role"] == "owner"],
    )  # fmt: skip


@pages.post(ANALYSTS, again=analysts)
async def add(here: PageContext) -> Response:
    """A new analyst with a key, invited to some datasets."""
    name = here.form.get("name")
    body = {"analyst": name, "days": _days(here.form.get("days")), "label": "first"}
    await here.send("POST", "/v1/analysts", {"name": name})
    for dataset in here.form.all("dataset"):
        await here.send("PUT", at(dataset, "analysts", name))
    made = await here.send("POST", "/v1/keys", body)
    return shown(here, name, made, (await _one(here, name))["datasets"], analyst=True)


# ---- one analyst ----------------------------------------------------------------------------


@pages.get(ANALYSTS + "/{analyst}")
async def analyst(here: PageContext, problem: SulqError | None = None) -> Response:
    """One person: datasets, keys, and the end of them."""
    one = await _one(here, here.part("analyst"))
    keys = [k for k in await all_keys(here) if _of(k, one["name"])]
    return here.page(
        "analyst.html", problem, one=one, days=DAYS,
        keys=[k | {"opens": opened(one["datasets"], k["datasets"])} for k in keys],
        datasets=await here.dataset_names(),
    )  # fmt: skip


async def _one(here: PageContext, who: str) -> dict[str, Any]:
    """One analyst as /v1/analysts has them, or NotFound."""
    found: list[dict[str, Any]] = (await here.get("/v1/analysts"))["analysts"]
    one = next((a for a in found if a["name"] == who), None)
    if one is None:
        raise NotFound(f"there is no analyst {who[:64]!r}.")
    return one


@pages.post(ANALYSTS + "/{analyst}/key", again=analyst)
async def new_key(here: PageContext) -> Response:
    """One more key for an analyst."""
    wanted, one = _wanted(here), await _one(here, here.part("analyst"))
    made = await here.send("POST", "/v1/keys", wanted | {"analyst": one["name"]})
    opens, scoped = opened(one["datasets"], wanted["datasets"]), wanted["datasets"] is not None
    return shown(here, one["name"], made, opens, analyst=True, scoped=scoped)


@pages.post(ANALYSTS + "/{analyst}/remove", again=analyst)
async def remove(here: PageContext) -> Response:
    """End their keys and invitations, once their name was typed."""
    who = here.part("analyst")
    if here.form.get("typed") != who:
        raise QueryNotAllowed("the name you typed is not this analyst's. Nobody was removed.")
    await here.send("DELETE", path_of("analysts", who))
    return here.go(LIST, done="removed")


@pages.post("/keys", again=analysts)
async def own_key(here: PageContext) -> Response:
    """One more key for the owner."""
    wanted, name = _wanted(here), here.principal.person.name
    made = await here.send("POST", "/v1/keys", wanted)
    mine = await here.dataset_names()
    opens, scoped = opened(mine, wanted["datasets"]), wanted["datasets"] is not None
    return shown(here, name, made, opens, analyst=False, scoped=scoped)


def _wanted(here: PageContext) -> dict[str, Any]:
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

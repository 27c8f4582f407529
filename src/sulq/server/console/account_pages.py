"""One's own account, and keys: shown once, replaced, revoked; each says what it opens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from sulq.client.wire import path_of
from sulq.errors import NotFound
from sulq.server.console.request_context import PREFIX, PageContext, Pages

pages = Pages()
ACCOUNT = f"{PREFIX}/account"
ANALYSTS = f"{PREFIX}/analysts"


@pages.get("/account")
async def account(here: PageContext) -> Response:
    """Who one is, one's keys with what each opens, and the way out."""
    who, keys = here.principal.person, await all_keys(here)
    own = [k for k in keys if (k["person"], k["role"], k["ended"]) == (who.name, who.role, None)]
    mine, current = await here.dataset_names(), here.principal.key
    known = here.principal.scope is None  # or else only this key's datasets are
    opens = {
        k["id"]: opened(mine, k["datasets"]) if known or k["id"] == current else k["datasets"] or []
        for k in own
    }
    return here.page("account.html", current=current, keys=own, opens=opens)


async def all_keys(here: PageContext) -> list[dict[str, Any]]:
    """The keys that one may see, and why each works no longer."""
    found: list[dict[str, Any]] = (await here.get("/v1/keys"))["keys"]
    return found


def opened(datasets: Sequence[str], scope: Sequence[str] | None) -> list[str]:
    """The datasets that a key opens, of those its holder may see."""
    return [name for name in datasets if scope is None or name in scope]


def shown(
    here: PageContext, whose: str, made: dict[str, Any], opens: Sequence[str], *,
    analyst: bool, scoped: bool = False, own: bool = False,
) -> Response:  # fmt: skip
    """A new key, this once, and what it opens; for an analyst of ours a link that signs in once."""
    link = here.address + here.console.sessions.link(made["id"]) if analyst and not own else ""
    back = (ACCOUNT, "Account") if own else (ANALYSTS, "Analysts")
    return here.page(
        "key.html", whose=whose, made=made, opens=opens, analyst=analyst, scoped=scoped, own=own,
        base=here.address, link=link, back=back,
    )  # fmt: skip


# ---- replacing and revoking -----------------------------------------------------------------


@pages.get("/account/replace")
async def replacing(here: PageContext) -> Response:
    """Whether they mean it."""
    return here.page("replace.html", current=here.principal.key)


@pages.post("/account/replace")
async def replace(here: PageContext) -> Response:
    """A new key in place of the one this session began with; the session goes on."""
    assert here.session is not None
    principal, opens = here.principal, await here.dataset_names()
    made = await here.send("POST", "/v1/keys/rotate")
    await here.look(here.console.sessions.move, here.session, made["id"])
    return shown(
        here, principal.person.name, made, opens, analyst=not principal.is_owner,
        scoped=principal.scope is not None, own=True,
    )  # fmt: skip


@pages.get("/keys/{key}/revoke")
async def revoking(here: PageContext) -> Response:
    """Whether they mean it: whose key it is, and what would stop."""
    key = await _key(here)
    return here.page(
        "revoke.html", key=key, back=_back(here, key), current=key["id"] == here.principal.key
    )


@pages.post("/keys/{key}/revoke")
async def revoke(here: PageContext) -> Response:
    """End a key at once."""
    key = await _key(here)
    await here.send("DELETE", path_of("keys", key["id"]))
    return here.go(_back(here, key), done="revoked")


async def _key(here: PageContext) -> dict[str, Any]:
    """The key that the path names, or NotFound."""
    found = next((k for k in await all_keys(here) if k["id"] == here.part("key")), None)
    if found is None:
        raise NotFound("there is no such key.")
    return found


def _back(here: PageContext, key: dict[str, Any]) -> str:
    """Where one came from."""
    if not here.principal.is_owner:
        return ACCOUNT
    return ANALYSTS if key["role"] == "owner" else f"{ANALYSTS}/{quote(key['person'], safe='')}"

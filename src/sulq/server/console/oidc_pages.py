"""Signing in with an institution's account: there, and back with a code.

A sign-in on its way is known by a signed cookie of its browser alone. The server stores nothing for
it and counts nothing by address, so that a flood closes it for nobody.
"""

from __future__ import annotations

from starlette.responses import Response

from sulq.errors import SulqError
from sulq.server.console.forms import safe_path
from sulq.server.console.request_context import PREFIX, PageContext, Pages
from sulq.server.console.sign_in import with_cookie
from sulq.server.services.institution import BEGUN, Institution, no_institution
from sulq.server.services.oidc import refused

pages = Pages()
HERE = f"{PREFIX}/oidc"
BACK = f"{HERE}/back"
COOKIE = "sulq_oidc"


@pages.get("/oidc", open=True, spaced=True)
async def leave(here: PageContext) -> Response:
    """Off to the institution's own page."""
    found = _institution(here)
    onward = safe_path(here.said.get("next"))
    begun, cookie = await here.look(found.begin, onward)
    try:
        there = await found.issuer.sign_in_address(
            _back(here, found), begun.state, begun.nonce, begun.verifier
        )
    except SulqError as error:
        return here.page("sign-in.html", error, next=onward)
    gone = here.go(there)
    gone.set_cookie(
        COOKIE, cookie, max_age=int(BEGUN.total_seconds()), path=HERE, httponly=True,
        samesite="lax", secure=_back(here, found).startswith("https:"),
    )  # fmt: skip
    return gone


@pages.get("/oidc/back", open=True, spaced=True)
async def come_back(here: PageContext) -> Response:
    """A code -> a session. A page, since a browser would not send a strict cookie on a redirect."""
    found, said = _institution(here), here.said
    try:
        cookie = here.request.cookies.get(COOKIE, "")
        begun = await here.look(found.come_back, said.get("state"), cookie)
        found.issuer.check_issuer(said.get("iss"))
        if not said.get("code"):
            raise refused("the institution did not sign you in")
        claims = await found.redeemed(said.get("code"), _back(here, found), begun)
        key = await here.look(found.key_for, claims)
        principal = await here.look(here.console.services.access.holder, key.id)
        how = "the institution's account"
        session = await here.look(here.console.sessions.begun, principal, how)
    except SulqError as error:
        here.request.scope["refused"] = type(error).__name__
        return here.page("sign-in.html", error, next=f"{PREFIX}/")
    made = here.page("signed-in.html", onward=begun.onward or f"{PREFIX}/")
    made.delete_cookie(COOKIE, path=HERE, httponly=True, samesite="lax")
    return with_cookie(here, made, session)


def _institution(here: PageContext) -> Institution:
    found = here.console.services.institution
    if found is None:
        raise no_institution()
    return found


def _back(here: PageContext, found: Institution) -> str:
    """Where the institution sends browsers back to, as it was told beforehand."""
    return f"{found.settings.address or here.address}{BACK}"

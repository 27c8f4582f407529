"""Signing in with a key or a link, and signing out, here or everywhere."""

from __future__ import annotations

from starlette.responses import Response

from sulq.errors import KeyRefused, SulqError
from sulq.server.console.forms import safe_path
from sulq.server.console.request_context import PageContext, Pages
from sulq.server.console.sessions import COOKIE, Session

pages = Pages()
NO_KEY = "This is no key that works: it may be mistyped, expired or revoked. Ask the owner."


@pages.get("/sign-in", open=True)
async def sign_in(here: PageContext) -> Response:
    """The form for a key."""
    if here.session is not None:
        return here.go("/console/")
    return here.page("sign-in.html", next=safe_path(here.said.get("next")))


@pages.post("/sign-in", open=True)
async def signed_in(here: PageContext) -> Response:
    """A key -> a session."""
    onward = safe_path(here.form.get("next"))
    try:
        session = await here.look(here.console.sessions.begin, here.form.get("key"))
    except KeyRefused:
        here.request.scope["refused"] = "KeyRefused"
        return here.page("sign-in.html", KeyRefused(NO_KEY), next=onward)
    return with_cookie(here, here.go(onward), session)


@pages.get("/enter/{token}", open=True)
async def entrance(here: PageContext) -> Response:
    """A button, so that whatever previews links does not use this one up."""
    return here.page("sign-in.html", token=here.part("token"))


@pages.post("/enter/{token}", open=True)
async def enter(here: PageContext) -> Response:
    """A link -> a session, once."""
    try:
        session = await here.look(here.console.sessions.enter, here.part("token"))
    except SulqError as error:
        here.request.scope["refused"] = type(error).__name__
        return here.page("sign-in.html", error, next="/console/")
    return with_cookie(here, here.go("/console/"), session)


@pages.post("/sign-out")
async def sign_out(here: PageContext) -> Response:
    """End this session, or all of this person's."""
    assert here.session is not None
    everywhere = here.form.has("everywhere")
    sessions = here.console.sessions
    await here.look(sessions.end_all if everywhere else sessions.end, here.session)
    gone = here.go("/console/sign-in", "everywhere" if everywhere else "signed-out")
    gone.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return gone


def with_cookie(here: PageContext, response: Response, session: Session) -> Response:
    """Let the browser keep the session until it is closed; scripts cannot read it."""
    origin = here.request.headers.get("origin", "")
    secure = here.request.url.scheme == "https" or origin.startswith("https:")
    response.set_cookie(
        COOKIE, session.secret, path="/", httponly=True, samesite="strict", secure=secure
    )
    return response

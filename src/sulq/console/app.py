"""Which requests are for pages, and what every one of them passes.

A page walks one way: session -> form and its proof -> page -> headers. A refusal, wherever it
comes from, is a page that says what is wrong and how to go on.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sulq.console import (
    analyst,
    asking,
    entering,
    inviting,
    making,
    models,
    owner,
    planning,
    timeline,
    watching,
)
from sulq.console.calls import Calls
from sulq.console.forms import check_origin, check_token, parsed
from sulq.console.jobs import Jobs
from sulq.console.pages import static, warm, with_headers
from sulq.console.rehearsals import Rehearsals
from sulq.console.sessions import COOKIE, Sessions
from sulq.console.shelf import Shelf
from sulq.console.visits import Desk, Route, Visit
from sulq.errors import KeyRefused, NotFound, SulqError
from sulq.server import logs
from sulq.server.admission import AtOnce, Rate
from sulq.server.gate import STRANGERS, App, Message, Receive, Send, Turned, body_of
from sulq.server.replies import UNEXPECTED, error_body, status_of
from sulq.server.rooms import Rooms

HOME = "/console/"
STATIC = "/console/static/"
THREADS = 64
EACH = 8  # of them for one person
PARTS = (
    entering, planning, making, inviting, owner, timeline, watching, analyst, asking, models,
)  # fmt: skip
ROUTES: list[Route] = [r for part in PARTS for r in part.pages.routes]


class Console:
    """The application: pages here, everything else through the gate."""

    def __init__(self, gate: App, rooms: Rooms) -> None:
        self._gate = gate
        self._rooms = rooms
        self._strangers = Rate(*STRANGERS)
        self._desk = Desk(
            rooms, Calls(gate), Sessions(rooms.registry, rooms.access),
            Shelf(rooms.registry), Jobs(rooms.registry, rooms.settings.workers == 1), Rehearsals(),
            AtOnce(EACH),
            ThreadPoolExecutor(THREADS, thread_name_prefix="console"),
        )  # fmt: skip

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request for a page; hand on any other."""
        if scope["type"] == "lifespan":
            self._desk.threads.submit(warm)
            await self._gate(scope, receive, send)
            self._desk.close()
            return
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path in ("/", "/console") or path.startswith(HOME)):
            await self._gate(scope, receive, send)
            return
        request = Request(scope, receive)
        response = await self._response(request, receive)
        if scope["method"] == "HEAD":
            response.body = b""
        await response(scope, receive, send)
        self._note(request, response.status_code)

    async def _response(self, request: Request, receive: Receive) -> Response:
        path = request.scope["path"]
        if path in ("/", "/console"):
            return with_headers(RedirectResponse(HOME, 303))
        if path.startswith(STATIC):
            found = static(path.removeprefix(STATIC))
            if found is not None:
                return found
        here = Visit(self._desk, request, {})
        try:
            return await self._page(here, receive)
        except Turned as turned:
            return _refused(here, turned.error, turned.status)
        except SulqError as error:
            return _refused(here, error, status_of(error))
        except Exception as error:
            logs.failure(error, route=_named(request))
            return _refused(here, SulqError(UNEXPECTED), 500)

    async def _page(self, here: Visit, receive: Receive) -> Response:
        request = here.request
        here.session = self._desk.sessions.find(request.cookies.get(COOKIE))
        route = _route(here)
        if here.session is None and (route is None or not route.open):
            return self._to_sign_in(here)  # whether there is such a page or not
        if route is None:
            raise NotFound("there is no such page.")
        request.scope["page"] = route.path
        if route.method == "POST":
            await self._filled_in(here, route, receive)
        response = await route.page(here)
        if request.scope.get("refused"):
            self._strangers.take((request.scope.get("client") or ("",))[0])
        return response

    async def _filled_in(self, here: Visit, route: Route, receive: Receive) -> None:
        """Take a form, if it is ours."""
        headers = here.request.headers
        check_origin(headers)
        body = await body_of(here.request.scope, receive, self._rooms.settings)
        here.form = parsed(body, headers.get("content-type", ""))
        if not route.open:
            assert here.session is not None
            check_token(here.form, here.session)

    def _to_sign_in(self, here: Visit) -> Response:
        """Whoever is not signed in does so first, then goes on."""
        raw, query = here.request.scope["raw_path"], here.request.scope["query_string"]
        onward = (raw + b"?" + query if query else raw).decode("latin-1")
        back = onward if here.request.method == "GET" and onward != HOME else ""
        return here.go("/console/sign-in" + (f"?next={quote(back, safe='')}" if back else ""))

    def _note(self, request: Request, status: int) -> None:
        """One line in the log; what was typed stays out of it."""
        logs.event("page", logging.INFO, route=_named(request), status=status)


def _route(here: Visit) -> Route | None:
    """The page at this address, if there is one."""
    path = here.request.scope["path"]
    method = "GET" if here.request.method == "HEAD" else here.request.method
    for route in ROUTES:
        parts = route.parts(path) if route.method == method else None
        if parts is not None:
            here.parts = parts
            return route
    return None


def _refused(here: Visit, error: SulqError, status: int) -> Response:
    """A page for a refusal."""
    if isinstance(error, KeyRefused):
        here.session = None
    return here.page("error.html", status, code=status, error=error_body(error)["error"])


def _named(request: Request) -> str:
    return f"{request.method} {request.scope.get('page', '?')}"

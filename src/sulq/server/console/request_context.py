"""What every request for a page passes, and what a page is given.

A page is a function of a PageContext, declared with the path it has under /console:

    pages = Pages()

    @pages.get("/datasets/{name}")
    async def dataset(here: PageContext) -> Response:
        facts = await here.get(here.at())
        return here.page("dataset.html", facts=facts)

A form's function, `@pages.post(...)`, is only called when the form is proved to be ours.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from sulq.client.database import RemoteDatabase, described
from sulq.client.wire import Wire, at
from sulq.errors import BudgetExceeded, KeyRefused, LimitReached, QueryNotAllowed, SulqError
from sulq.preview import KeptRehearsals
from sulq.server.body_reader import BodyReader, HttpError
from sulq.server.console.api_client import call, wire
from sulq.server.console.forms import Form, check_origin, check_token, fields, parsed
from sulq.server.console.model_jobs import Jobs
from sulq.server.console.multipart import FilePart, begun
from sulq.server.console.pages import rendered, with_headers
from sulq.server.console.saved_results import SavedResults
from sulq.server.console.sessions import COOKIE, Session, Sessions
from sulq.server.gate import ARRIVING, RequestContext
from sulq.server.services import logs
from sulq.server.services.access import Principal, Record
from sulq.server.services.admission import AtOnce
from sulq.server.services.context import Services
from sulq.server.services.responses import UNEXPECTED, error_body, status_of, told, wait_header
from sulq.server.services.work_meter import current, timed

PREFIX = "/console"
REQUEST = re.compile(r"[0-9a-f]{32}")
CONSOLE = "sulq.console"  # in the scope of every request for a page
Given = TypeVar("Given")
Page = Callable[["PageContext"], Awaitable[Response]]
Declared = TypeVar("Declared", bound=Callable[..., Awaitable[Response]])
Again = Callable[["PageContext", SulqError], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ConsoleContext:
    """What all pages of a server share."""

    services: Services
    api: ASGIApp
    bodies: BodyReader
    sessions: Sessions
    saved: SavedResults
    jobs: Jobs
    rehearsals: KeptRehearsals
    at_once: AtOnce
    threads: ThreadPoolExecutor  # for what waits for routes, so that it never takes theirs

    def close(self) -> None:
        """Begin nothing more."""
        self.jobs.close()
        self.threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class PageContext:
    """One request for one page."""

    console: ConsoleContext
    request: Request
    session: Session | None = None
    form: Form = field(default_factory=lambda: Form([]))
    sent: FilePart | None = None  # the file of a form that carries one

    @property
    def principal(self) -> Principal:
        """Who looks; pages that are not `open` always have one."""
        assert self.session is not None
        return self.session.principal

    def part(self, name: str) -> str:
        """A part of the path, as {name} in it."""
        found: str = self.request.path_params[name]
        return found

    @property
    def name(self) -> str:
        """The dataset that the path names."""
        return self.part("name")

    def at(self, *more: str) -> str:
        """The route under /v1 to that dataset, or to something of it."""
        return at(self.name, *more)

    def request_id(self, then: str = "ask") -> str:
        """The id under which a form pays, so that a second click is the same as the first."""
        found = self.form.get("request")
        if not REQUEST.fullmatch(found):
            raise QueryNotAllowed(
                f"this form has no request id. Look at the price again, then {then}."
            )
        return found

    @property
    def said(self) -> Form:
        """What stands behind the ? of the address; nothing if that cannot be read."""
        with suppress(SulqError):
            return fields(self.request.scope["query_string"].decode("ascii", "replace"))
        return Form([])

    @property
    def address(self) -> str:
        """Where this server is, as the browser sees it."""
        secure = self.request.headers.get("origin", "").startswith("https:")
        scheme = "https" if secure else self.request.url.scheme
        return f"{scheme}://{self.request.url.netloc}"

    # ---- the product ----------------------------------------------------------------------

    async def get(self, path: str) -> Any:
        """What a route under /v1 gives, or the exception that its refusal is."""
        return await self.send("GET", path)

    async def send(
        self, method: str, path: str, body: Any = None, request_id: str | None = None
    ) -> Any:
        """The same with any method and a body."""
        return json.loads(
            await call(self.console.api, self.principal, method, path, body, request_id)
        )

    async def put(self, path: str, content: AsyncIterator[bytes]) -> Any:
        """The same with a file that is passed on as it arrives."""
        return json.loads(await call(self.console.api, self.principal, "PUT", path, stream=content))

    async def content(self, path: str) -> bytes:
        """The same for what is no JSON, or is passed on as it is."""
        return await call(self.console.api, self.principal, "GET", path)

    def record(self) -> Record:
        """That the dataset is there for this principal, or NotFound. Gives no way to its rows."""
        return self.console.services.access.dataset(self.principal, self.name)

    async def dataset_names(self) -> list[str]:
        """The datasets that are there for this principal."""
        found = await self.look(self.console.services.access.datasets, self.principal)
        return [record.name for record in found]

    def own_record(self) -> Record:
        """The same for whoever may decide about it, or NotPermitted."""
        record = self.record()
        self.console.services.access.owner(self.principal)
        return record

    async def database(self) -> RemoteDatabase:
        """The dataset as Python sees it, over the same routes. Use it in `run` only."""
        return described(self.wire(), await self.get(self.at()))

    def wire(self) -> Wire:
        """The routes for a thread; whoever loses their key cannot go on asking."""
        key, access = self.principal.key, self.console.services.access
        return wire(self.console.api, lambda: access.holder(key), asyncio.get_running_loop())

    async def run(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what blocks in a thread of the console's own; nobody may have many at once."""
        loop = asyncio.get_running_loop()
        with self.console.at_once.one_more(self.principal.person.id):
            context = contextvars.copy_context()
            work = partial(context.run, timed, function, *arguments)
            return await loop.run_in_executor(self.console.threads, work)

    async def look(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what looks or writes in the registry."""
        return await self.console.services.registry.run(function, *arguments)

    # ---- replies --------------------------------------------------------------------------

    def page(
        self, template: str, problem: SulqError | None = None, *, status: int = 200, **values: Any
    ) -> Response:
        """A template as a page; a problem is said on it, and gives it its status."""
        session = self.session
        return rendered(
            template, status if problem is None else status_of(problem),
            principal=None if session is None else session.principal,
            csrf="" if session is None else session.token,
            path=self.request.scope["path"], done=self.said.get("done"),
            problem="" if problem is None else str(problem),
            short=isinstance(problem, BudgetExceeded),
            timing_off=not self.console.services.settings.padding,
            institution=self.console.services.institution is not None, **values,
        )  # fmt: skip

    def go(self, path: str, done: str = "") -> Response:
        """On to another page, of the dataset unless the path begins with /.

        `done` is a word of pages.NOTICES, shown there.
        """
        path = path if path.startswith(("/", "http")) else f"{PREFIX}/datasets/{self.name}/{path}"
        return with_headers(RedirectResponse(f"{path}?done={done}" if done else path, 303))

    def file(self, content: bytes, kind: str, name: str) -> Response:
        """Something to save; never shown as a page."""
        made = Response(content, media_type=kind)
        made.headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name)}"
        return with_headers(made)


class Pages:
    """The routes to pages of one kind."""

    def __init__(self) -> None:
        self.routes: list[PageRoute] = []

    def get(
        self, path: str, *, open: bool = False, spaced: bool = False
    ) -> Callable[[Declared], Declared]:
        """Declare a page to look at; `open` if nobody need have signed in.

        With `spaced`, each connection is slowed down by itself and no address runs out of a share,
        so that a flood cannot refuse others behind its address.
        """
        return self._declared("GET", path, open=open, spaced=spaced)

    def post(
        self, path: str, *, open: bool = False, again: Again | None = None, file: bool = False
    ) -> Callable[[Declared], Declared]:
        """Declare what a form is sent to; `again` shows the form anew if it is refused.

        With `file`, an owner's form that ends with a file, which the page takes as it arrives.
        """
        return self._declared("POST", path, open=open, again=again, file=file)

    def _declared(self, method: str, path: str, **how: Any) -> Callable[[Declared], Declared]:
        def declare(page: Declared) -> Declared:
            self.routes.append(PageRoute(path, page, method, **how))
            return page

        return declare


class PageRoute(Route):
    """A route to a page. Every request passes: session, form and its proof, page, headers.

    A refusal, wherever it comes from, is a page that says what is wrong and how to go on.
    """

    def __init__(
        self, path: str, page: Page, method: str = "", *, open: bool = False,
        again: Again | None = None, file: bool = False, spaced: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(path, self._respond, methods=[method])
        if not method:
            self.methods = None  # every method
        self._page = page
        self._takes_form = method == "POST"
        self._open = open
        self._again = again
        self._spaced = spaced
        self.takes_file = file

    async def _respond(self, request: Request) -> Response:
        here = PageContext(request.scope[CONSOLE], request)
        try:
            response = await self._response(here)
        except HttpError as refused:
            response = _refused(here, refused.error, refused.status)
        except SulqError as error:
            heard = told(error, here.session is not None and here.session.principal.is_owner)
            if isinstance(error, LimitReached):
                await _held_back(here)
            response = _refused(here, heard, status_of(heard))
        except Exception as error:
            logs.failure(error, route=self._named(request))
            response = _refused(here, SulqError(UNEXPECTED), 500)
        logs.event(
            "page", logging.INFO, route=self._named(request), status=response.status_code
        )  # what was typed stays out of it
        return response

    async def _response(self, here: PageContext) -> Response:
        console = here.console
        registry, cookie = console.services.registry, here.request.cookies.get(COOKIE)
        here.session = await registry.run(console.sessions.find, cookie)
        account = current.get()
        if account is not None:
            if here.session is not None:
                account.belong_to(here.principal.person.id)
            if not self._spaced:
                account.check()
        if self._spaced:
            await console.services.meter.space(here.request.scope.get("client"))
        if here.session is None and not self._open:
            return _to_sign_in(here)  # whether there is such a page or not
        if self.takes_file:
            await self._take_file(here)
        elif self._takes_form:
            await self._fill_in(here)
        try:
            response = await self._page(here)
        except SulqError as error:
            if self._again is None:
                raise
            response = await self._again(here, error)
        if here.request.scope.get("refused") and not self._spaced:
            who = (here.request.scope.get("client") or ("",))[0]
            await registry.run(console.services.meter.strangers.take, who)
        return response

    async def _fill_in(self, here: PageContext) -> None:
        """Take a form, if it is ours."""
        request, bodies = here.request, here.console.bodies
        check_origin(request.headers)
        body = await bodies.read(request.scope, request.receive, here.session is not None)
        kind = request.headers.get("content-type", "")
        here.form = await bodies.aside(len(body), lambda: parsed(body, kind))
        if not self._open:
            assert here.session is not None
            check_token(here.form, here.session)

    async def _take_file(self, here: PageContext) -> None:
        """Take the fields before a file, if the form is ours, and leave the file to the page."""
        check_origin(here.request.headers)
        here.console.services.access.whole_owner(here.principal)
        here.request.scope.get("state", {})[ARRIVING] = True
        kind = here.request.headers.get("content-type", "")
        pairs, here.sent = await begun(kind, here.request.stream())
        here.form = Form(pairs)
        assert here.session is not None
        check_token(here.form, here.session)

    def _named(self, request: Request) -> str:
        return f"{request.method} {PREFIX}{self.path}" if self.methods else f"{request.method} ?"


def _to_sign_in(here: PageContext) -> Response:
    """Whoever is not signed in does so first, then goes on."""
    raw, query = here.request.scope["raw_path"], here.request.scope["query_string"]
    onward = (raw + b"?" + query if query else raw).decode("latin-1")
    back = onward if here.request.method == "GET" and onward != f"{PREFIX}/" else ""
    found = {"next": back} if back else {}
    if here.request.cookies.get(COOKIE):
        found["done"] = "over"
    return here.go(f"{PREFIX}/sign-in" + (f"?{urlencode(found)}" if found else ""))


def _refused(here: PageContext, error: SulqError, status: int) -> Response:
    """A page for a refusal."""
    if isinstance(error, KeyRefused):
        here.session = None
    said, seconds = error_body(error)["error"], wait_header(error)
    made = here.page("error.html", status=status, code=status, error=said)
    if seconds is not None:
        made.headers["retry-after"] = seconds
    return made


async def _held_back(here: PageContext) -> None:
    """Who sends too much hears of it so often at most."""
    account = current.get()
    if account is not None:
        here.request.scope["sulq"] = RequestContext(refusing=True)
        await here.console.services.meter.hold_back(account.who)

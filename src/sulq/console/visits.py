"""What a page is given: who looks, the form they sent, and the routes under /v1.

A page is a function of a Visit, hung on a path:

    pages = Pages()

    @pages.get("/console/datasets/{name}")
    async def dataset(here: Visit) -> Response:
        facts = await here.get(at(here.part("name")))
        return here.page("dataset.html", facts=facts)

A form's function, `@pages.post(...)`, is only called when the form is proved to be ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import compile_path

from sulq.console.calls import Calls, Inside, Said
from sulq.console.forms import Form, fields
from sulq.console.jobs import Jobs
from sulq.console.pages import rendered, with_headers
from sulq.console.rehearsals import Rehearsals
from sulq.console.sessions import Session, Sessions
from sulq.console.shelf import Shelf
from sulq.errors import SulqError
from sulq.remote.database import RemoteDatabase
from sulq.server.access import Record, Visitor
from sulq.server.admission import AtOnce
from sulq.server.rooms import Rooms

Given = TypeVar("Given")
Page = Callable[["Visit"], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Desk:
    """What all pages of a server share."""

    rooms: Rooms
    calls: Calls
    sessions: Sessions
    shelf: Shelf
    jobs: Jobs
    rehearsals: Rehearsals
    at_once: AtOnce
    threads: ThreadPoolExecutor  # for what waits for routes, so that it never takes theirs

    def close(self) -> None:
        """Begin nothing more."""
        self.jobs.close()
        self.threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class Visit:
    """One request for one page."""

    desk: Desk
    request: Request
    parts: dict[str, str]
    session: Session | None = None
    form: Form = field(default_factory=lambda: Form([]))

    @property
    def visitor(self) -> Visitor:
        """Who looks; pages that are not `open` always have one."""
        assert self.session is not None
        return self.session.visitor

    def part(self, name: str) -> str:
        """A part of the path, as {name} in it."""
        return self.parts[name]

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
        return await self.desk.calls.json(self.visitor, "GET", path)

    async def send(
        self, method: str, path: str, body: Any = None, request_id: str | None = None
    ) -> Any:
        """The same with any method and a body."""
        return await self.desk.calls.json(self.visitor, method, path, body, request_id)

    async def reply(
        self, method: str, path: str, body: Any = None, request_id: str | None = None
    ) -> Said:
        """The route's whole reply, for what is no JSON or is passed on as it is."""
        return await self.desk.calls.send(self.visitor, method, path, body, request_id)

    def record(self, name: str) -> Record:
        """That a dataset is there for this visitor, or NotFound. Gives no way to its rows."""
        return self.desk.rooms.access.dataset(self.visitor, name)

    async def database(self, name: str) -> RemoteDatabase:
        """A dataset as Python sees it, over the same routes. Use it in `run` only."""
        wire = self.wire()
        return await self.run(lambda: RemoteDatabase(wire, name))

    def wire(self) -> Inside:
        """The routes for a thread; whoever loses their key cannot go on asking."""
        key, access = self.visitor.key, self.desk.rooms.access
        return Inside(self.desk.calls, lambda: access.holder(key), asyncio.get_running_loop())

    async def run(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what blocks in a thread of the console's own; nobody may have many at once."""
        loop = asyncio.get_running_loop()
        with self.desk.at_once.one_more(self.visitor.person.id):
            return await loop.run_in_executor(self.desk.threads, function, *arguments)

    # ---- replies --------------------------------------------------------------------------

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A template as a page."""
        session = self.session
        return rendered(
            template, status,
            visitor=None if session is None else session.visitor,
            csrf="" if session is None else session.token,
            path=self.request.scope["path"],
            done=self.said.get("done"),
            **values,
        )  # fmt: skip

    def go(self, path: str, done: str = "") -> Response:
        """On to another page; `done` is a word of pages.NOTICES, shown there."""
        return with_headers(RedirectResponse(f"{path}?done={done}" if done else path, 303))

    def file(self, content: bytes, kind: str, name: str) -> Response:
        """Something to save; never shown as a page."""
        made = Response(content, media_type=kind)
        made.headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name)}"
        return with_headers(made)


@dataclass(frozen=True, slots=True)
class Route:
    """A page, its method and path, and whether it needs nobody to have signed in."""

    method: str
    path: str
    page: Page
    open: bool

    def parts(self, path: str) -> dict[str, str] | None:
        """The parts of a path that fits."""
        found = compile_path(self.path)[0].match(path)
        return None if found is None else found.groupdict()


class Pages:
    """Pages of one kind, by method and path."""

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def get(self, path: str, *, open: bool = False) -> Callable[[Page], Page]:
        """A page to look at."""
        return self._hung("GET", path, open)

    def post(self, path: str, *, open: bool = False) -> Callable[[Page], Page]:
        """What a form is sent to."""
        return self._hung("POST", path, open)

    def _hung(self, method: str, path: str, open: bool) -> Callable[[Page], Page]:
        def hang(page: Page) -> Page:
            self.routes.append(Route(method, path, page, open))
            return page

        return hang

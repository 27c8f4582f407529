"""Every page of the console, as one Starlette router."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from sulq.errors import NotFound
from sulq.preview import KeptRehearsals
from sulq.server.body_reader import BodyReader
from sulq.server.console import (
    account_pages,
    ask_pages,
    audit_pages,
    board_pages,
    dataset_form,
    dataset_pages,
    model_pages,
    oidc_pages,
    owner_pages,
    people_pages,
    promise_plan,
    server_pages,
    sign_in,
    timeline,
)
from sulq.server.console.model_jobs import Jobs
from sulq.server.console.pages import static, warm
from sulq.server.console.request_context import CONSOLE, ConsoleContext, PageContext, PageRoute
from sulq.server.console.saved_results import SavedResults
from sulq.server.console.sessions import Sessions
from sulq.server.services.admission import AtOnce
from sulq.server.services.context import Services

THREADS = 64
EACH = 8  # of them for one person
PARTS = (
    sign_in, oidc_pages, server_pages, promise_plan, dataset_form, people_pages, account_pages,
    owner_pages, timeline, dataset_pages, ask_pages, audit_pages, model_pages, board_pages,
)  # fmt: skip
ROUTES: list[PageRoute] = [route for part in PARTS for route in part.pages.routes]


class Console:
    """The pages of one server; `api` is where they get everything from."""

    def __init__(self, services: Services, api: ASGIApp, bodies: BodyReader) -> None:
        settings = services.settings
        alone = settings.workers == 1 and services.registry.store.local
        self._context = ConsoleContext(
            services, api, bodies,
            Sessions(services.registry, services.access, services.meter.sign_ins),
            SavedResults(services.registry, services.boards),
            Jobs(services.registry, services.boards, alone),
            KeptRehearsals(), AtOnce(EACH),
            ThreadPoolExecutor(THREADS, thread_name_prefix="console"),
        )  # fmt: skip
        parts = [part for part in PARTS if services.institution is not None or part != oidc_pages]
        routes: list[PageRoute] = [route for part in parts for route in part.pages.routes]
        self._router = Router(
            [Route("/static/{name}", _file), *routes, PageRoute("/{path:path}", _unknown)]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page."""
        scope[CONSOLE] = self._context
        await self._router(scope, receive, send)

    def start(self) -> None:
        """Prepare pages, so that nobody waits for the first of each."""
        self._context.threads.submit(warm)

    def close(self) -> None:
        """Begin nothing more."""
        self._context.close()


async def _file(request: Request) -> Response:
    return static(request.path_params["name"])


async def _unknown(here: PageContext) -> Response:
    raise NotFound("there is no such page.")

"""Settings -> the application: the API and the console, side by side."""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route

from sulq.server.api.agents import Agents
from sulq.server.api.app import api
from sulq.server.body_reader import BodyReader
from sulq.server.console.app import Console
from sulq.server.console.pages import with_headers
from sulq.server.front import Front
from sulq.server.gate import Gate
from sulq.server.pgwire.listener import Listener, tls_context
from sulq.server.services.context import Services
from sulq.server.services.quiet import Quiet
from sulq.server.services.settings import Settings
from sulq.server.telemetry import Telemetry

# What some question would load when it is the first of its kind, for longer than a slot.
LOADED_AT_START = ("scipy.sparse", "scipy.special", "scipy.optimize")


def make_app(
    settings: Settings, *, own_process: bool = False, postgres: socket.socket | None = None
) -> Starlette:
    """The application of one server's folder; in a process of its own, or beside other things.

    `postgres` is the socket for PostgreSQL's clients, if there is one.
    """
    services = _opened(settings)
    routes, gate, bodies = _routes(services)
    console = Console(services, gate, bodies)
    listener, tls = None, tls_context(settings) if postgres is not None else None
    if postgres is not None:
        listener = Listener(services, postgres, tls)

    quiet = Quiet(services.datasets, lambda: not services.answers.quiet)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        begin = partial(_begin, services, routes)
        opening = services.answers.start(begin)  # no question waits for it
        services.readiness.start(opening)
        console.start()
        quiet.start()
        if listener is not None:
            await listener.start()
        services.webhooks.start()
        tidying = asyncio.create_task(services.answers.tidy(opening)) if own_process else None
        yield
        if listener is not None:
            await listener.close()
        if tidying is not None:
            tidying.cancel()
        quiet.close()
        opening.cancel()
        bodies.close()
        services.close()
        console.close()

    def stop() -> None:
        """Told to stop: from now on nobody waits to be read, or to be refused."""
        services.meter.stop()
        bodies.stop()
        if listener is not None:
            listener.stop()
        services.answers.stop()

    home = [Route(path, _home) for path in ("/", "/console")]
    mounts = [Mount("/console", console), Mount("", gate)]
    made = Starlette(routes=[*home, *mounts], lifespan=lifespan)
    if settings.telemetry:
        made.add_middleware(Telemetry)
    made.add_middleware(Front, settings=settings, meter=services.meter)
    made.router.default = gate  # a path with a line end in it, which no mount takes
    made.state.api, made.state.gate, made.state.meter = routes, gate, services.meter
    made.state.stop, made.state.tls = stop, tls
    return made


def _opened(settings: Settings) -> Services:
    """The services of a folder; keys of roles that its settings take no longer have ended."""
    services = Services.open(settings)
    services.grounds.end_lost()
    return services


def _routes(services: Services) -> tuple[FastAPI, Gate, BodyReader]:
    """The API, the gate before it, and what reads bodies for it and for the console."""
    settings, meter, tokens = services.settings, services.meter, services.institution is not None
    routes = api(tokens=tokens)
    routes.state.services = services
    routes.state.agents = Agents(services)
    bodies = BodyReader(settings, meter)
    gate = Gate(
        routes, services.registry, services.access, services.metrics, settings, meter, bodies,
        tokens=tokens,
    )  # fmt: skip
    return routes, gate, bodies


def _begin(services: Services, routes: FastAPI) -> None:
    """Open the datasets, and make what would hold others up when it is asked for first."""
    services.datasets.open_all()
    for name in LOADED_AT_START:
        importlib.import_module(name)
    routes.openapi()


async def _home(request: Request) -> Response:
    """On to the console."""
    return with_headers(RedirectResponse("/console/", 303))

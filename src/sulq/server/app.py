"""The routes put together: settings -> an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import sulq
from sulq.console import Console
from sulq.errors import LimitReached, QueryNotAllowed, Refused, SulqError
from sulq.server.gate import App, Gate, unknown_route
from sulq.server.replies import UNEXPECTED, dumped, error_body, status_of, told
from sulq.server.rooms import Rooms
from sulq.server.routes import asking, datasets, owning, people, running
from sulq.server.routes.parts import passed
from sulq.server.settings import Settings
from sulq.server.sources import without_paths

ABOUT = """\
A statistical database that outsiders may query and no single row can be learned from.

Send your key as `Authorization: Bearer sulq_...`. Amounts are in micro-queries, millionths of a
query. `exact` has numbers as fractions in text, so that nothing is lost. Every error has one
shape: `{"error": {"type", "message", "charged"}}`. Send an `Idempotency-Key` with what is paid
for, and the same request may be sent again.
"""


def make_app(settings: Settings) -> App:
    """The application of one server's folder."""
    rooms = Rooms.open(settings)
    app = api()
    app.state.rooms = rooms
    return Console(Gate(app, rooms.access, rooms.metrics, settings), rooms)


def api() -> FastAPI:
    """The routes and their description."""
    app = FastAPI(
        title="SuLQ", version=sulq.__version__, description=ABOUT, lifespan=_lifespan,
        openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    for part in (asking, datasets, owning, people, running):
        app.include_router(part.routes)
    app.add_exception_handler(SulqError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(Exception, _failed)
    _describe_keys(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    rooms: Rooms = app.state.rooms
    opening = rooms.asking.start(rooms.datasets.open_all)  # so that no question waits for it
    yield
    opening.cancel()
    rooms.close()


def _refused(request: Request, error: Any) -> Response:
    """A refusal from a route."""
    found = passed(request)
    owner = found.visitor is not None and found.visitor.is_owner
    heard = told(error, owner)
    return _said(request, heard, status_of(heard))


def _said(request: Request, error: SulqError, status: int) -> Response:
    passed(request).refused = type(error).__name__
    body = error_body(error)
    folder = request.app.state.rooms.settings.folder
    body["error"]["message"] = without_paths(body["error"]["message"], folder)
    made = Response(dumped(body), status, media_type="application/json")
    if isinstance(error, LimitReached) and error.retry_after is not None:
        made.headers["retry-after"] = str(body["error"]["retry_after_seconds"])
    return made


def _failed(request: Request, error: Any) -> Response:
    """Something nobody thought of; its words stay inside, the gate logs where it was."""
    return _said(request, SulqError(UNEXPECTED), 500)


def _invalid(request: Request, error: Any) -> Response:
    """A body or a parameter that is not of its form: which, and why; never what was sent."""
    said = [
        f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}"[:200] for e in error.errors()[:5]
    ]
    return _said(
        request, QueryNotAllowed(f"{'; '.join(said)}. Nothing was charged or changed."), 422
    )


def _unrouted(request: Request, error: Any) -> Response:
    if error.status_code == 404:
        return _said(request, unknown_route(), 404)
    if error.status_code == 405:
        return _said(request, Refused(f"{request.method} is not for this address."), 405)
    return _said(request, Refused("the request was refused."), error.status_code)


def _describe_keys(app: FastAPI) -> None:
    """Say in the description that routes want a key, and which do not."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        found = plain()
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, methods in found["paths"].items():
            for method in methods.values():
                method["security"] = [] if path == "/v1/health" else [{"key": []}]
        return found

    app.openapi = described  # type: ignore[method-assign]

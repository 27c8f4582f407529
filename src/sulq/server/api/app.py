"""The routes under /v1 put together, with the one shape of their errors."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

import sulq
from sulq.errors import NotFound, QueryNotAllowed, Refused, SulqError
from sulq.server.api import (
    accounts,
    agents,
    datasets,
    health,
    oversight,
    ownership,
    questions,
)
from sulq.server.api.dependencies import context_of
from sulq.server.gate import OPEN, TOKEN
from sulq.server.services.allowed_sources import without_paths
from sulq.server.services.responses import (
    JSON,
    UNEXPECTED,
    dumped,
    error_body,
    status_of,
    told,
    wait_header,
)

PARTS = (questions, datasets, ownership, accounts, oversight, health, agents)
ABOUT = """\
A statistical database that outsiders may query and no single row can be learned from.

Send your key as `Authorization: Bearer sulq_...`. Amounts are in micro-queries, millionths of a
query. `exact` has numbers as fractions in text, so that nothing is lost. Every error has one
shape: `{"error": {"type", "message", "charged"}}`. Send an `Idempotency-Key` with what is paid
for, and the same request may be sent again.
"""


def api(*, tokens: bool = True) -> FastAPI:
    """The routes under /v1 and their description; `state.services` is what they work on.

    `tokens` is whether an institution's accounts sign in: without them there is no route for that.
    """
    app = FastAPI(
        title="SuLQ", version=sulq.__version__, description=ABOUT,
        openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    # Not by include_router: of routers within routers FastAPI looks every route up twice.
    for part in PARTS:
        routes = part.route.router.routes
        app.router.routes.extend(r for r in routes if tokens or getattr(r, "path", "") != TOKEN)
    # Each is async: what is not, Starlette runs in a thread, and a flood of refusals in many.
    app.add_exception_handler(SulqError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(Exception, _failed)
    _describe(app)
    return app


async def _refused(request: Request, error: Any) -> Response:
    """A refusal from a route."""
    found = context_of(request)
    owner = found.principal is not None and found.principal.is_owner
    heard = told(error, owner)
    return _said(request, heard, status_of(heard))


def _said(request: Request, error: SulqError, status: int) -> Response:
    context_of(request).refused = type(error).__name__
    body = error_body(error)
    folder = request.app.state.services.settings.folder
    body["error"]["message"] = without_paths(body["error"]["message"], folder)
    made = Response(dumped(body), status, media_type="application/json")
    seconds = wait_header(error)
    if seconds is not None:
        made.headers["retry-after"] = seconds
    return made


async def _failed(request: Request, error: Any) -> Response:
    """Something nobody thought of; its words stay inside, the gate logs where it was."""
    return _said(request, SulqError(UNEXPECTED), 500)


async def _invalid(request: Request, error: Any) -> Response:
    """A body or a parameter that is not of its form: which, and why; never what was sent."""
    said = [
        f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}"[:200] for e in error.errors()[:5]
    ]
    return _said(
        request, QueryNotAllowed(f"{'; '.join(said)}. Nothing was charged or changed."), 422
    )


async def _unrouted(request: Request, error: Any) -> Response:
    if error.status_code == 404:
        missing = NotFound("there is no such address. /v1/openapi.json lists them.")
        return _said(request, missing, 404)
    if error.status_code == 405:
        made = _said(request, Refused(f"{request.method} is not for this address."), 405)
        made.headers["allow"] = ", ".join(_allowed(request))
        return made
    return _said(request, Refused("the request was refused."), error.status_code)


def _allowed(request: Request) -> list[str]:
    """The methods that this address has, over all routes to it."""
    found = [r for r in request.app.routes if r.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in found for method in getattr(route, "methods", None) or ()})


def _describe(app: FastAPI) -> None:
    """Say in the description which routes want a key, and that errors are JSON everywhere."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        found = plain()
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, methods in found["paths"].items():
            for method in methods.values():
                method["security"] = [] if path in OPEN else [{"key": []}]
                for status, reply in method["responses"].items():
                    if status >= "4":  # FastAPI gives them the kind of the reply
                        (kind,) = reply["content"].values()
                        reply["content"] = {JSON: kind}
        return found

    app.openapi = described  # type: ignore[method-assign]

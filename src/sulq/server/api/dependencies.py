"""What routes share: who asks, which dataset, and a reply as bytes.

Each route has one dependency, and that is `async def`: FastAPI would run a plain one in a thread,
and every further one costs about as much as a statement of the ledger.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.routing import APIRoute

from sulq.database import Database
from sulq.errors import QueryNotAllowed, SchemaError
from sulq.server.api.replies import ErrorReply
from sulq.server.api.request_bodies import Body
from sulq.server.gate import OPEN, RequestContext
from sulq.server.services.access import Principal, Record
from sulq.server.services.context import Services
from sulq.server.services.datasets import Dataset
from sulq.server.services.people import Person
from sulq.server.services.responses import JSON, dumped

Given = TypeVar("Given")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
REQUEST_ID = re.compile(r"[\x21-\x7e]{1,200}")

_WORDS = {
    401: "No such key, or it has expired or was revoked.",
    402: "The price is more than what is left.",
    403: "The key is good, but not for this; or an auditor refused the question.",
    404: "Nothing of that name, or not for this key.",
    409: "Refused as things stand: frozen, taken, changed.",
    413: "Too large or nested too deeply.",
    415: "Not JSON.",
    422: "The question or the body is not one that may be asked.",
    429: "Too many requests.",
    400: "The body is not JSON as wanted here.",
    500: "Failed; `charged` says whether it was paid.",
    503: "Frozen, blocked or too busy.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Errors of a route, for its description."""
    return {s: {"model": ErrorReply, "description": _WORDS[s]} for s in statuses}


class Parsed(Request):
    """A request whose body the gate has parsed, strictly."""

    async def json(self) -> Any:
        """The body, parsed once and by the strict rules."""
        return context_of(self).json


class StrictRoute(APIRoute):
    """A route that takes its body from the gate, and says which errors it may give."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **said: Any) -> None:
        said["responses"] = errors(*_statuses(path, endpoint)) | (said.get("responses") or {})
        super().__init__(path, endpoint, **said)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The usual handler, on the parsed body."""
        usual = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await usual(Parsed(request.scope, request.receive))

        return handler


class Routes:
    """Routes of one kind, each declared so:

    @route("GET /me", "Whose key this is", replies.MeReply, also=(errors beside the usual ones))
    """

    def __init__(self, tag: str, prefix: str = "/v1") -> None:
        self.router = APIRouter(prefix=prefix, tags=[tag], route_class=StrictRoute)

    def __call__(
        self, place: str, summary: str, holds: Any = None, also: Sequence[int] = (), **more: Any
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare a route: its method and path, what it does, what its reply holds."""
        method, path = place.split()
        known = {"summary": summary, "response_model": holds, "responses": errors(*also)}
        return self.router.api_route(path, methods=[method], **known | more)


def context_of(request: Request) -> RequestContext:
    """What the gate found out."""
    found: RequestContext = request.scope["sulq"]
    return found


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and the services of the server."""

    services: Services
    principal: Principal

    @property
    def person(self) -> Person:
        """Whose key it is."""
        return self.principal.person

    async def run(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what blocks in a thread."""
        return await self.services.answers.run(function, *arguments)

    async def look_at_ledger(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what reads stored answers and budgets: of one person one at a time."""
        return await self.services.answers.look(self.principal, function, *arguments)

    async def look(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what looks or writes in the registry."""
        return await self.services.registry.run(function, *arguments)


@dataclass(frozen=True, slots=True)
class DatasetCaller(Caller):
    """The same, and which dataset it is about."""

    record: Record

    async def dataset(self) -> Dataset:
        """The dataset, opened if need be."""
        return await self.services.answers.dataset(self.record)

    async def own_view(self) -> Database:
        """The database as this principal sees it, with their own allotment."""
        return (await self.dataset()).db.as_analyst(self.principal.person.in_ledger)


@dataclass(frozen=True, slots=True)
class Counting:
    """Whose counts are wanted: those of one tenant, or of all for whoever runs the server."""

    services: Services
    tenant: int | None


async def _anyone(request: Request) -> Caller:
    principal = context_of(request).principal
    assert principal is not None  # the gate has made sure of it
    return Caller(request.app.state.services, principal)


async def _whole_owner(request: Request) -> Caller:
    caller = await _anyone(request)
    caller.services.access.whole_owner(caller.principal)
    return caller


async def _counting(request: Request) -> Counting:
    services = request.app.state.services
    if context_of(request).operator:
        return Counting(services, None)
    return Counting(services, (await _whole_owner(request)).principal.person.tenant)


async def _visible(request: Request, name: str) -> DatasetCaller:
    caller = await _anyone(request)
    record = await caller.look(caller.services.access.dataset, caller.principal, name)
    context_of(request).dataset = record.name
    return DatasetCaller(caller.services, caller.principal, record)


async def _owned(request: Request, name: str) -> DatasetCaller:
    """First whether it is there, then whether it is theirs to decide."""
    here = await _visible(request, name)
    here.services.access.owner(here.principal)
    return here


Anyone = Annotated[Caller, Depends(_anyone)]
Counts = Annotated[Counting, Depends(_counting)]
WholeOwner = Annotated[Caller, Depends(_whole_owner)]
ADataset = Annotated[DatasetCaller, Depends(_visible)]
OwnDataset = Annotated[DatasetCaller, Depends(_owned)]

RequestId = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A text of your own choosing. Sent again with the same body, it never pays "
        "twice and gets the same reply; with another body it is refused.",
        json_schema_extra={"pattern": f"^{REQUEST_ID.pattern}$"},
    ),
]


def _statuses(path: str, endpoint: Callable[..., Any]) -> list[int]:
    """The statuses of a route's errors, by what it takes."""
    takes = list(get_type_hints(endpoint, include_extras=True).values())
    bodies = [taken for taken in takes if isinstance(taken, type) and issubclass(taken, Body)]
    about = ADataset in takes or OwnDataset in takes
    found = {
        (401, 429): path not in OPEN,
        (402, 403, 500): RequestId in takes,
        (403,): WholeOwner in takes or Counts in takes or OwnDataset in takes,
        (404, 422): "{" in path,
        (409, 503): about or bodies,
        (400, 413, 415, 422): bodies,
    }
    return sorted({status for statuses, given in found.items() if given for status in statuses})


def checked_id(request_id: str | None) -> str | None:
    """The request id that a principal gave, if it is one."""
    if request_id is not None and not REQUEST_ID.fullmatch(request_id):
        raise QueryNotAllowed(
            "Idempotency-Key: want 1 to 200 visible ASCII letters. Nothing was charged."
        )
    return request_id


def declared(said: dict[str, Any] | str) -> dict[str, Any]:
    """The schema of a body: an object, or the text of a TOML file; it names no files here.

    A lookup table's file would be read on the server, whoever it belongs to.
    """
    try:
        found = said if isinstance(said, dict) else tomllib.loads(said)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(f"schema: not valid TOML: {str(error)[:200]}.") from None
    lookups = found.get("lookups")
    for name, table in lookups.items() if isinstance(lookups, dict) else ():
        if isinstance(table, dict) and "file" in table:
            raise SchemaError(
                f"lookups.{name}: over HTTP a lookup table has its rows in the schema, rows = "
                "[...] and no file: files are read for who opens rows on their own machine."
            )
    return found


def reply(body: Any, status: int = 200) -> Response:
    """A JSON reply, made here so that nobody guesses at its numbers."""
    return Response(dumped(body), status, media_type=JSON)

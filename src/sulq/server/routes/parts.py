"""What routes share: who asks, which dataset, and a reply as bytes.

Each route has one dependency, and that is `async def`: FastAPI would run a plain one in a thread,
and every further one costs about as much as a statement of the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.routing import APIRoute

from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.server.access import Record, Visitor
from sulq.server.datasets import Dataset
from sulq.server.gate import Passed
from sulq.server.replies import JSON, dumped
from sulq.server.rooms import Rooms
from sulq.server.routes.models import ErrorReply

Given = TypeVar("Given")
REQUEST_ID = re.compile(r"[\x21-\x7e]{1,200}")

_WORDS = {
    401: "No such key, or it has expired or was revoked.",
    402: "The price is more than what is left.",
    403: "The key is good, but not for this.",
    404: "Nothing of that name, or not for this key.",
    409: "Refused as things stand: frozen, taken, changed.",
    413: "Too large or nested too deeply.",
    415: "Not JSON.",
    422: "The question or the body is not one that may be asked.",
    429: "Too many requests.",
    400: "The body is not JSON as wanted here.",
    500: "Failed; `charged` says whether it was paid.",
    503: "Stopped, or too busy.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for its description."""
    return {s: {"model": ErrorReply, "description": _WORDS[s]} for s in statuses}


def gives(model: type[Any], *statuses: int, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """What a route gives, and its errors."""
    return {status: {"model": model}, **errors(*statuses)}


class Parsed(Request):
    """A request whose body the gate has parsed, strictly."""

    async def json(self) -> Any:
        """The body, parsed once and by the strict rules."""
        return passed(self).json


class StrictRoute(APIRoute):
    """A route that takes its body from the gate."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The usual handler, on the parsed body."""
        usual = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await usual(Parsed(request.scope, request.receive))

        return handler


def router(tag: str) -> APIRouter:
    """A router for routes of one kind."""
    return APIRouter(prefix="/v1", tags=[tag], route_class=StrictRoute)


def passed(request: Request) -> Passed:
    """What the gate found out."""
    found: Passed = request.scope["sulq"]
    return found


@dataclass(frozen=True, slots=True)
class House:
    """Who asks, and the rooms of the server."""

    rooms: Rooms
    visitor: Visitor

    async def run(self, function: Callable[..., Given], *arguments: Any) -> Given:
        """Run what blocks in a thread."""
        return await self.rooms.asking.run(function, *arguments)


@dataclass(frozen=True, slots=True)
class Here(House):
    """The same, and which dataset it is about."""

    record: Record

    async def dataset(self) -> Dataset:
        """The dataset, opened if need be."""
        return await self.rooms.asking.dataset(self.record)

    async def own_view(self) -> Database:
        """The database as this visitor sees it, with their own allotment."""
        return (await self.dataset()).db.as_analyst(self.visitor.person.in_ledger)


async def _anyone(request: Request) -> House:
    visitor = passed(request).visitor
    assert visitor is not None  # the gate has made sure of it
    return House(request.app.state.rooms, visitor)


async def _whole_owner(request: Request) -> House:
    house = await _anyone(request)
    house.rooms.access.whole_owner(house.visitor)
    return house


async def _visible(request: Request, name: str) -> Here:
    house = await _anyone(request)
    record = house.rooms.access.dataset(house.visitor, name)
    passed(request).dataset = record.name
    return Here(house.rooms, house.visitor, record)


async def _owned(request: Request, name: str) -> Here:
    """First whether it is there, then whether it is theirs to decide."""
    here = await _visible(request, name)
    here.rooms.access.owner(here.visitor)
    return here


Anyone = Annotated[House, Depends(_anyone)]
WholeOwner = Annotated[House, Depends(_whole_owner)]
ADataset = Annotated[Here, Depends(_visible)]
OwnDataset = Annotated[Here, Depends(_owned)]

RequestId = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A text of your own choosing. Sent again with the same body, it never pays "
        "twice and gets the same reply; with another body it is refused.",
    ),
]


def checked_id(request_id: str | None) -> str | None:
    """The request id that a visitor gave, if it is one."""
    if request_id is not None and not REQUEST_ID.fullmatch(request_id):
        raise QueryNotAllowed(
            "Idempotency-Key: want 1 to 200 visible ASCII letters. Nothing was charged."
        )
    return request_id


def reply(body: Any, status: int = 200) -> Response:
    """A JSON reply, made here so that nobody guesses at its numbers."""
    return Response(dumped(body), status, media_type=JSON)

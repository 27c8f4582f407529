"""What every request passes before its route: key, rate, body, and after it: headers, a log line.

The key is looked at before the body is read, so that strangers cost little. A body is read
whole, within its limits, before anything is done with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from sulq.errors import KeyRefused, LimitReached, NotFound, QueryNotAllowed, SulqError
from sulq.server import logs
from sulq.server.access import Access, Visitor
from sulq.server.admission import Rate
from sulq.server.bodies import parsed
from sulq.server.metrics import Metrics
from sulq.server.replies import JSON, UNEXPECTED, dumped, error_body, status_of
from sulq.server.settings import Settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = ("/v1/health", "/v1/openapi.json")  # what needs no key
INSIDE = "sulq.visitor"  # in the scope of a call from a page of the console, never of a request
STRANGERS = 20.0, 100  # refused keys a second from one address, and at once
A_REQUEST = 50_000  # bytes of a body that count as one more request
ONCE = (b"idempotency-key", b"content-type")  # headers with one reader
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)


class Turned(Exception):
    """A refusal with a status of its own."""

    def __init__(self, status: int, error: SulqError) -> None:
        self.status = status
        self.error = error
        super().__init__(status)


@dataclass(slots=True)
class Passed:
    """What the gate found out about a request, for its route and its log line."""

    visitor: Visitor | None = None
    json: Any = None
    dataset: str | None = None
    refused: str | None = None  # the type of the error


class Gate:
    """The ASGI application in front of the routes."""

    def __init__(self, app: App, access: Access, metrics: Metrics, settings: Settings) -> None:
        self._app = app
        self._access = access
        self._metrics = metrics
        self._settings = settings
        self._rate = Rate(settings.rate, settings.burst)
        self._strangers = Rate(*STRANGERS)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it in the one shape."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        passed = scope["sulq"] = Passed()
        reply = _Reply(send)
        try:
            _check_once(scope)
            self._admit(scope, passed)
            body = await body_of(scope, receive, self._settings)
            if passed.visitor is not None:
                self._rate.take(passed.visitor.person.id, len(body) / A_REQUEST)
            passed.json = self._parsed(scope, body)
            await self._app(scope, _again(body, receive), reply)
        except Turned as turned:
            await reply.refuse(
                turned.status, turned.error, passed, last=turned.status in (400, 408, 413)
            )
        except SulqError as error:
            await reply.refuse(status_of(error), error, passed)
        except Exception as error:
            logs.failure(error, route=_route(scope))
            await reply.refuse(500, SulqError(UNEXPECTED), passed)
        self._note(scope, passed, reply.status)

    def _admit(self, scope: Message, passed: Passed) -> None:
        """Whose key is it, and is it one too many?"""
        if scope["path"] in OPEN:
            return
        if INSIDE in scope:
            passed.visitor = scope[INSIDE]
            self._rate.take(scope[INSIDE].person.id)
            return
        headers = [v for k, v in scope["headers"] if k == b"authorization"]
        try:
            text = headers[0].decode("latin-1") if len(headers) == 1 else None
            passed.visitor = self._access.visitor(text)
        except KeyRefused:
            self._strangers.take((scope.get("client") or ("",))[0])
            raise
        self._rate.take(passed.visitor.person.id)

    def _parsed(self, scope: Message, body: bytes) -> Any:
        if not body:
            return None
        kinds = [v for k, v in scope["headers"] if k == b"content-type"]
        kind = kinds[0].split(b";")[0].strip().lower() if len(kinds) == 1 else b""
        if kind != JSON.encode():
            raise Turned(415, QueryNotAllowed(f"content-type: want {JSON}. Nothing was charged."))
        try:
            return parsed(body, self._settings.nesting)
        except QueryNotAllowed as error:
            raise Turned(400, error) from None
        except LimitReached as error:
            raise Turned(413, error) from None

    def _note(self, scope: Message, passed: Passed, status: int) -> None:
        """One line, and one more in the owner's counts."""
        visitor = passed.visitor
        if visitor is not None and passed.dataset is not None:
            self._metrics.add(
                visitor.person.house, "sulq_requests_total", dataset=passed.dataset, status=status
            )
        said: dict[str, Any] = {"route": _route(scope), "status": status}
        if visitor is not None:
            said |= {"person": visitor.person.name, "key": visitor.key}
        if passed.dataset is not None:
            said["dataset"] = passed.dataset
        if passed.refused is not None:
            said["refused"] = passed.refused
        logs.event("request", logging.INFO, **said)


class _Reply:
    """The way out: adds headers, and knows what was said already."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await self._send(message)

    async def refuse(
        self, status: int, error: SulqError, passed: Passed, *, last: bool = False
    ) -> None:
        """Send an error, unless a reply has begun already."""
        passed.refused = type(error).__name__
        if self.status:
            return
        body = dumped(error_body(error))
        headers = [
            (b"content-type", JSON.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        if isinstance(error, LimitReached) and error.retry_after is not None:
            seconds = error_body(error)["error"]["retry_after_seconds"]
            headers.append((b"retry-after", str(seconds).encode()))
        if isinstance(error, KeyRefused):
            headers.append((b"www-authenticate", b"Bearer"))
        if last:  # the rest of the request is not read
            headers.append((b"connection", b"close"))
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


async def body_of(scope: Message, receive: Receive, settings: Settings) -> bytes:
    """The whole body, or a refusal as soon as it is too much."""
    most = settings.body_bytes
    names = [name for name, _ in scope["headers"]]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise Turned(400, QueryNotAllowed("a body has one length: send one header for it."))
    for name, value in scope["headers"]:
        if name == b"content-length" and (not value.isdigit() or int(value[:20]) > most):
            raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    while True:
        try:
            message = await asyncio.wait_for(receive(), settings.read_seconds)
        except TimeoutError:
            raise Turned(408, LimitReached("the request did not arrive in time.")) from None
        if message["type"] != "http.request":
            raise Turned(408, LimitReached("the request ended in the middle."))
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _check_once(scope: Message) -> None:
    """Refuse a header given twice, of which one reader takes the first and another the last."""
    names = [name for name, _ in scope["headers"] if name in ONCE]
    if len(set(names)) != len(names):
        raise Turned(400, QueryNotAllowed("a header is given twice. Nothing was charged."))


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the route; then whatever comes."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


def _route(scope: Message) -> str:
    """The route's own name; what a stranger typed stays out of the log."""
    route = scope.get("route")
    return f"{scope['method']} {getattr(route, 'path', '?')}"


def _too_large(most: int) -> Turned:
    return Turned(
        413, LimitReached(f"the body is larger than {most:,} bytes. Nothing was charged.")
    )


def unknown_route() -> NotFound:
    """What an address without a route hears."""
    return NotFound("there is no such address. /v1/openapi.json lists them.")

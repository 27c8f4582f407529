"""What every request passes before its route: key, rate, body, and after it: headers, a log line.

The key is looked at before the body is read, so that strangers cost little. A body is read
whole, within its limits, before anything is done with it; but for a file that an owner sends.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sulq.errors import KeyRefused, LimitReached, QueryNotAllowed, SulqError
from sulq.server.services import logs
from sulq.server.services.access import Access, Principal
from sulq.server.services.actors import acting
from sulq.server.services.admission import Overload, Rate, Spaced, Waits, too_many
from sulq.server.services.metrics import Metrics
from sulq.server.services.registry import Registry
from sulq.server.services.responses import (
    JSON,
    UNEXPECTED,
    dumped,
    error_body,
    status_of,
    told,
    wait_header,
)
from sulq.server.services.settings import Settings
from sulq.server.services.shared_rate import rate_of
from sulq.server.strict_json import parsed

OPEN = ("/v1/health", "/v1/ready", "/v1/openapi.json", "/v1/token")  # what needs no key
METRICS = "/v1/metrics"  # what a token of its own opens too
FILES = "/v1/files/"  # what is put here is streamed, not read whole
INSIDE = "sulq.principal"  # in the scope of a call from a page of the console, never of a request
STRANGERS = 20.0, 100  # refused keys a second from one address, and at once
REFUSALS = 0.4  # of the requests that a person may send, that are refused in the same time
FLOOD = 20  # refusals that a person waits for, after which the next requests are not read
OPEN_SHARE = 0.02  # of them too, on one connection, for what needs no key
A_REQUEST = 50_000  # bytes of a body that count as one more request,
SMALL = 500  # and those that do not count
ONCE = (b"idempotency-key", b"content-type")  # headers with one reader
ARRIVING = "sulq.arriving"  # in the state of a connection: a large body of somebody known
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)


class HttpError(Exception):
    """A refusal with a status of its own."""

    def __init__(self, status: int, error: SulqError) -> None:
        self.status = status
        self.error = error
        super().__init__(status)


@dataclass(slots=True)
class RequestContext:
    """What the gate found out about a request, for its route and its log line."""

    principal: Principal | None = None
    json: Any = None
    dataset: str | None = None
    refused: str | None = None  # the type of the error
    refusing: bool = False  # is it refused, and waits to hear it?
    operator: bool = False  # whoever runs the server, by the token for metrics


class Gate:
    """The ASGI application in front of the routes."""

    def __init__(
        self, app: ASGIApp, registry: Registry, access: Access, metrics: Metrics,
        settings: Settings, overload: Overload,
    ) -> None:  # fmt: skip
        self._app = app
        self._registry = registry
        self._access = access
        self._metrics = metrics
        self._settings = settings
        self._rate = rate_of(registry, "requests", settings.rate, settings.burst)
        self.strangers = rate_of(registry, "strangers", *STRANGERS)  # by address
        self._here = self._rate if isinstance(self._rate, Rate) else Rate(
            settings.rate, settings.burst
        )  # fmt: skip
        self._refusals = Spaced(REFUSALS * settings.rate, REFUSALS * settings.burst)
        self._floods = Rate(1 / 60, 1)  # words about them in the log
        self._waits = Waits()
        self._overload = overload
        self._open = Spaced(OPEN_SHARE * settings.rate, OPEN_SHARE * settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it in the one shape."""
        if scope["type"] != "http":
            return
        context = scope["sulq"] = RequestContext()
        reply = _Reply(send)
        try:
            _check_once(scope)
            if scope["path"] in OPEN:
                await self._open_to_all(scope)
            else:
                await self._registry.run(self._admit, scope, context)
                if context.principal is not None:
                    acting.set(context.principal.person.acting_with(context.principal.key))
            await self._app(scope, await self._read(scope, receive, context), reply)
        except HttpError as refused:
            await reply.refuse(
                refused.status, refused.error, context, last=refused.status in (400, 408, 413)
            )
        except SulqError as error:
            heard = told(error, context.principal is not None and context.principal.is_owner)
            if isinstance(error, LimitReached):
                await self._held_back(scope, context)
            await reply.refuse(status_of(heard), heard, context)
        except Exception as error:
            logs.failure(error, route=_route(scope))
            await reply.refuse(500, SulqError(UNEXPECTED), context)
        self._note(scope, context, reply.status)

    async def _open_to_all(self, scope: Scope) -> None:
        """Whoever asks this often waits, and others' answers have more time."""
        seconds = self._open.wait(scope.get("client"))
        if seconds > 0:
            self.note_overload()
        await self._waits.wait(seconds)

    async def _held_back(self, scope: Scope, context: RequestContext) -> None:
        """Who sends too much hears of it so often at most: a refusal takes time of others too."""
        principal = context.principal
        who = _address(scope) if principal is None else principal.person.id
        context.refusing = True
        await self._waits.wait(self._refusals.wait(who))

    # ---- at the door ------------------------------------------------------------------------

    def note_overload(self) -> None:
        """Somebody sends more than is read at once."""
        self._overload.note()

    def is_flood(self, person: int) -> bool:
        """Does this person wait for many refusals, and would be refused again?"""
        return self._refusals.waiting(person) > FLOOD and self._here.wait(person) > 0

    def refused(self, person: int) -> tuple[float, LimitReached]:
        """The seconds after which one more refusal is told, and what it says."""
        self._overload.note()
        with suppress(LimitReached):
            self._floods.take(person)
            logs.event("flood", logging.WARNING, person=person)
        return self._refusals.wait(person), too_many(self._settings.rate, self._here.wait(person))

    def stop(self) -> None:
        """Let nobody wait for a refusal any more."""
        self._waits.stop()

    async def _read(self, scope: Scope, receive: Receive, context: RequestContext) -> Receive:
        """The body for the route: read whole and parsed, or a file that it takes bit by bit."""
        if scope["method"] == "PUT" and scope["path"].startswith(FILES):
            scope.get("state", {})[ARRIVING] = True
            return receive
        body = await body_of(scope, receive, self._settings)
        if context.principal is not None and len(body) >= SMALL:
            who, much = context.principal.person.id, len(body) / A_REQUEST
            await self._registry.run(self.take, who, much)
        context.json = self._parsed(scope, body)
        return _again(body, receive)

    def _admit(self, scope: Scope, context: RequestContext) -> None:
        """Whose key is it, and is it one too many?"""
        if INSIDE in scope:
            context.principal = scope[INSIDE]
            self.take(scope[INSIDE].person.id)
            return
        headers = [v for k, v in scope["headers"] if k == b"authorization"]
        try:
            text = headers[0].decode("latin-1") if len(headers) == 1 else None
            if scope["path"] == METRICS and self._is_operator(text):
                context.operator = True
                return
            context.principal = self._access.principal(text)
        except KeyRefused:
            self.strangers.take(_address(scope))
            raise
        self.take(context.principal.person.id)

    def take(self, who: int, much: float = 1.0) -> None:
        """As much as so many requests of this person; LimitReached if it is too much."""
        if self._here is not self._rate:
            with suppress(LimitReached):
                self._here.take(who, much)
        self._rate.take(who, much)

    def _is_operator(self, authorization: str | None) -> bool:
        token = self._settings.metrics_token
        said = f"Bearer {token}".encode()
        return token is not None and hmac.compare_digest(said, (authorization or "").encode())

    def _parsed(self, scope: Scope, body: bytes) -> Any:
        if not body or scope["path"].startswith(FILES):  # no body of a file is JSON
            return None
        kinds = [v for k, v in scope["headers"] if k == b"content-type"]
        kind = kinds[0].split(b";")[0].strip().lower() if len(kinds) == 1 else b""
        if kind != JSON.encode():
            raise HttpError(
                415, QueryNotAllowed(f"content-type: want {JSON}. Nothing was charged.")
            )
        try:
            return parsed(body, self._settings.nesting)
        except QueryNotAllowed as error:
            raise HttpError(400, error) from None
        except LimitReached as error:
            raise HttpError(413, error) from None

    def _note(self, scope: Scope, context: RequestContext, status: int) -> None:
        """One line, and one more in the owner's counts."""
        principal = context.principal
        if context.refused == LimitReached.__name__:
            self._overload.note()
        if principal is not None and context.dataset is not None:
            tenant, labels = principal.person.tenant, {"dataset": context.dataset, "status": status}
            self._metrics.add(tenant, "sulq_requests_total", **labels)
        said: dict[str, Any] = {"route": _route(scope), "status": status}
        if principal is not None:
            said |= {"person": principal.person.name, "key": principal.key}
        if context.dataset is not None:
            said["dataset"] = context.dataset
        if context.refused is not None:
            said["refused"] = context.refused
        logs.event("request", logging.INFO, **said)


def _address(scope: Scope) -> str:
    """Where a request comes from."""
    return str((scope.get("client") or ("",))[0])


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
        self, status: int, error: SulqError, context: RequestContext, *, last: bool = False
    ) -> None:
        """Send an error, unless a reply has begun already."""
        context.refused = type(error).__name__
        if self.status:
            return
        body = dumped(error_body(error))
        headers = [
            (b"content-type", JSON.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        seconds = wait_header(error)
        if seconds is not None:
            headers.append((b"retry-after", seconds.encode()))
        if isinstance(error, KeyRefused):
            headers.append((b"www-authenticate", b"Bearer"))
        if last:  # the rest of the request is not read
            headers.append((b"connection", b"close"))
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


async def body_of(scope: Scope, receive: Receive, settings: Settings) -> bytes:
    """The whole body, or a refusal as soon as it is too much."""
    most = settings.body_bytes
    names = [name for name, _ in scope["headers"]]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise HttpError(400, QueryNotAllowed("a body has one length: send one header for it."))
    for name, value in scope["headers"]:
        if name == b"content-length" and (not value.isdigit() or int(value[:20]) > most):
            raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(settings.read_seconds):
                message = await receive()
        except TimeoutError:
            raise HttpError(408, LimitReached("the request did not arrive in time.")) from None
        if message["type"] != "http.request":
            raise HttpError(408, LimitReached("the request ended in the middle."))
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _check_once(scope: Scope) -> None:
    """Refuse a header given twice, of which one reader takes the first and another the last."""
    names = [name for name, _ in scope["headers"] if name in ONCE]
    if len(set(names)) != len(names):
        raise HttpError(400, QueryNotAllowed("a header is given twice. Nothing was charged."))


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the route; then whatever comes."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


def _route(scope: Scope) -> str:
    """The route's own name; what a stranger typed stays out of the log."""
    route = scope.get("route")
    return f"{scope['method']} {getattr(route, 'path', '?')}"


def _too_large(most: int) -> HttpError:
    return HttpError(
        413, LimitReached(f"the body is larger than {most:,} bytes. Nothing was charged.")
    )

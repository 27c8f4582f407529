"""What every request passes before its route: key, meter, body, and after it: headers, a log line.

The key is looked at before the body is read, so that strangers cost little. A body is read
whole, within its limits (body_reader.py), before anything is done with it; but for a file that an
owner sends. All of it is work that the meter counts (services/work_meter.py).
"""

from __future__ import annotations

import hmac
import logging
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sulq.errors import KeyRefused, LimitReached, QueryNotAllowed, SulqError
from sulq.server.body_reader import BodyReader, HttpError
from sulq.server.services import logs
from sulq.server.services.access import Access, Principal
from sulq.server.services.actors import acting
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
from sulq.server.services.work_meter import Account, WorkMeter, current

TOKEN = "/v1/token"  # which is there where an institution's accounts sign in
LOOKS = ("/v1/health", "/v1/ready", "/v1/openapi.json")  # what needs no key and takes no body
OPEN = (*LOOKS, TOKEN)  # what needs no key
METRICS = "/v1/metrics"  # what a token of its own opens too
FILES = "/v1/files/"  # what is put here is streamed, not read whole
INSIDE = "sulq.principal"  # in the scope of a call from a page of the console, never of a request
ONCE = (b"idempotency-key", b"content-type")  # headers with one reader
ARRIVING = "sulq.arriving"  # in the state of a connection: a large body of somebody known
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)


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
        settings: Settings, meter: WorkMeter, bodies: BodyReader, *, tokens: bool = True,
    ) -> None:  # fmt: skip
        self._app = app
        self._registry = registry
        self._access = access
        self._metrics = metrics
        self._settings = settings
        self.meter = meter
        self._bodies = bodies
        self._open = OPEN if tokens else LOOKS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it in the one shape."""
        if scope["type"] != "http":
            return
        if current.get() is None:
            await Account(self.meter, _address(scope)).run(self._passed(scope, receive, send))
        else:
            await self._passed(scope, receive, send)

    async def _passed(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = scope["sulq"] = RequestContext()
        reply = _Reply(send)
        try:
            _check_once(scope)
            if scope["path"] in self._open:
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
        """Who asks this often waits, and others' answers have more time."""
        if scope["path"] not in LOOKS:
            self.meter.check(_address(scope))
        await self.meter.space(scope.get("client"))

    async def _held_back(self, scope: Scope, context: RequestContext) -> None:
        """Who sends too much hears of it so often at most: a refusal takes time of others too."""
        principal = context.principal
        who = _address(scope) if principal is None else principal.person.id
        context.refusing = True
        await self.meter.hold_back(who)

    async def _read(self, scope: Scope, receive: Receive, context: RequestContext) -> Receive:
        """The body for the route: read whole and parsed, or a file that it takes bit by bit."""
        if scope["method"] == "PUT" and scope["path"].startswith(FILES):
            scope.get("state", {})[ARRIVING] = True
            return receive
        known = context.principal is not None or context.operator
        body = await self._bodies.read(scope, receive, known)
        context.json = await self._parsed(scope, body)
        return _again(body, receive)

    def _admit(self, scope: Scope, context: RequestContext) -> None:
        """Whose key is it, and is it one too many?"""
        if INSIDE in scope:
            self._let_in(context, scope[INSIDE])
            return
        headers = [v for k, v in scope["headers"] if k == b"authorization"]
        try:
            text = headers[0].decode("latin-1") if len(headers) == 1 else None
            if scope["path"] == METRICS and self._is_operator(text):
                context.operator = True
                return
            principal = self._access.principal(text)
        except KeyRefused:
            self.meter.strangers.take(_address(scope))
            raise
        self._let_in(context, principal)

    def _let_in(self, context: RequestContext, principal: Principal) -> None:
        """Count it as this person's request."""
        context.principal, who = principal, principal.person.id
        account = current.get()
        if account is not None:
            account.belong_to(who)
        self.meter.take(who)
        self.meter.check(who)

    def _is_operator(self, authorization: str | None) -> bool:
        token = self._settings.metrics_token
        said = f"Bearer {token}".encode()
        return token is not None and hmac.compare_digest(said, (authorization or "").encode())

    async def _parsed(self, scope: Scope, body: bytes) -> Any:
        if not body or scope["path"].startswith(FILES):  # no body of a file is JSON
            return None
        kinds = [v for k, v in scope["headers"] if k == b"content-type"]
        kind = kinds[0].split(b";")[0].strip().lower() if len(kinds) == 1 else b""
        if kind != JSON.encode():
            raise HttpError(
                415, QueryNotAllowed(f"content-type: want {JSON}. Nothing was charged.")
            )
        try:
            return await self._bodies.json(body)
        except QueryNotAllowed as error:
            raise HttpError(400, error) from None
        except LimitReached as error:
            if error.retry_after is not None:  # it is not the body that is too much
                raise
            raise HttpError(413, error) from None

    def _note(self, scope: Scope, context: RequestContext, status: int) -> None:
        """One line, and one more in the owner's counts."""
        principal = context.principal
        if context.refused == LimitReached.__name__:
            self.meter.overload.note()
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

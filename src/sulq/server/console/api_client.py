"""The routes under /v1, called in this process for a principal who signed in.

There is no second way to rows: a page's question goes through the same gate, rights, limits,
admission and ledger as everyone else's, as the bytes of a request.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from sulq.client.wire import Wire, error_of, wait_of
from sulq.server.gate import INSIDE
from sulq.server.services.access import Principal
from sulq.server.services.responses import JSON

BASE = "http://this-server"  # never looked up: nothing leaves this process
LONGEST_SECONDS = 600.0  # more than any question waits and takes, but for a server that shuts down
RETRY_SECONDS = 30.0

# httpx imports sniffio for every request, to ask it for trio. Where there is none, Python looks
# through all folders each time: a fifth of a page's time. None says at once that there is none.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]


async def reply(api: ASGIApp, principal: Principal, request: httpx.Request) -> httpx.Response:
    """The API's whole reply to a principal. Only this process can name one in a scope."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await api({**scope, INSIDE: principal}, receive, send)

    response = await httpx.ASGITransport(app=called).handle_async_request(request)
    await response.aread()
    return response


async def call(
    api: ASGIApp, principal: Principal, method: str, path: str, body: Any = None,
    request_id: str | None = None, stream: AsyncIterator[bytes] | None = None,
) -> httpx.Response:  # fmt: skip
    """A route's reply, or its refusal as the exception it was; `stream` is a body bit by bit."""
    headers = {} if body is None else {b"content-type": JSON.encode()}
    if request_id is not None:
        headers[b"idempotency-key"] = request_id.encode("latin-1", "replace")
    content = stream if body is None else json.dumps(body, allow_nan=False).encode()
    request = httpx.Request(method, BASE + path, content=content, headers=headers)
    response = await reply(api, principal, request)
    if response.status_code >= 300:
        raise error_of(response.status_code, response.content, wait_of(response))
    return response


def wire(api: ASGIApp, who: Callable[[], Principal], loop: asyncio.AbstractEventLoop) -> Wire:
    """The API for a RemoteDatabase in a thread of its own.

    `who` is asked before every call, so that a key that ends also ends a long computation.
    """
    return Wire(
        BASE, "", _LoopTransport(api, who, loop), timeout_seconds=LONGEST_SECONDS,
        retry_seconds=RETRY_SECONDS,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _LoopTransport(httpx.BaseTransport):
    """Requests of a thread, answered by an application that lives in an event loop."""

    api: ASGIApp
    who: Callable[[], Principal]
    loop: asyncio.AbstractEventLoop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The reply of the application."""
        coming = asyncio.run_coroutine_threadsafe(reply(self.api, self.who(), request), self.loop)
        try:
            response = coming.result(LONGEST_SECONDS)
        except TimeoutError:
            raise httpx.ReadTimeout("the server is shutting down", request=request) from None
        stream = httpx.ByteStream(response.content)
        return httpx.Response(response.status_code, headers=response.headers, stream=stream)

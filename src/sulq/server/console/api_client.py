"""The routes under /v1, called in this process for a principal who signed in.

There is no second way to rows: a page's question goes through the same gate, rights, limits,
admission and ledger as everyone else's, as the bytes of a request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import httpx
from starlette.types import ASGIApp, Message, Scope

from sulq.client.wire import Wire, error_of, wait_of
from sulq.server.gate import INSIDE
from sulq.server.services.access import Principal
from sulq.server.services.responses import JSON

BASE = "http://this-server"  # never looked up: nothing leaves this process
LONGEST_SECONDS = 600.0  # more than any question waits and takes, but for a server that shuts down
RETRY_SECONDS = 30.0
Headers = list[tuple[bytes, bytes]]


class Exchange:
    """A request to the API and its reply: what stands in the place of a socket."""

    def __init__(self, content: bytes | AsyncIterator[bytes] = b"") -> None:
        self._unread: bytes | AsyncIterator[bytes] | None = content
        self._whole = asyncio.Event()
        self._chunks: list[bytes] = []
        self.status = 0
        self.headers: Headers = []

    async def receive(self) -> Message:
        """The next part of the body; once the reply is whole, that its reader hung up."""
        if self._unread is None:
            await self._whole.wait()
            return {"type": "http.disconnect"}
        whole = isinstance(self._unread, bytes)
        chunk = self._unread if isinstance(self._unread, bytes) else await anext(self._unread, None)
        if whole or chunk is None:
            self._unread = None
        return {"type": "http.request", "body": chunk or b"", "more_body": self._unread is not None}

    async def send(self, message: Message) -> None:
        """Take the next part of the reply."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
            return
        self._chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            self._whole.set()

    @property
    def content(self) -> bytes:
        """The whole reply."""
        return b"".join(self._chunks)


async def exchange(
    api: ASGIApp, principal: Principal, method: str, path: str, headers: Headers,
    content: bytes | AsyncIterator[bytes] = b"",
) -> Exchange:  # fmt: skip
    """Ask the API for a principal. Only this process can name one in a scope."""
    made = Exchange(content)
    plain, _, query = path.partition("?")
    scope: Scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": unquote(plain), "raw_path": plain.encode(),
        "query_string": query.encode(), "root_path": "", "headers": headers, "client": None,
        "server": None, INSIDE: principal,
    }  # fmt: skip
    await api(scope, made.receive, made.send)
    return made


async def call(
    api: ASGIApp, principal: Principal, method: str, path: str, body: Any = None,
    request_id: str | None = None, stream: AsyncIterator[bytes] | None = None,
) -> bytes:  # fmt: skip
    """A route's reply, or its refusal as the exception it was; `stream` is a body bit by bit."""
    headers: Headers = [] if body is None else [(b"content-type", JSON.encode())]
    if request_id is not None:
        headers.append((b"idempotency-key", request_id.encode("latin-1", "replace")))
    content = b"" if body is None else json.dumps(body, allow_nan=False).encode()
    made = await exchange(api, principal, method, path, headers, stream or content)
    if made.status >= 300:
        wait = next((v.decode() for n, v in made.headers if n == b"retry-after"), "")
        raise error_of(made.status, made.content, wait_of(wait))
    return made.content


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
        asked = exchange(
            self.api, self.who(), request.method, request.url.raw_path.decode(),
            [(name.lower(), value) for name, value in request.headers.raw], request.read(),
        )  # fmt: skip
        coming = asyncio.run_coroutine_threadsafe(asked, self.loop)
        try:
            made = coming.result(LONGEST_SECONDS)
        except TimeoutError:
            raise httpx.ReadTimeout("the server is shutting down", request=request) from None
        stream = httpx.ByteStream(made.content)
        return httpx.Response(made.status, headers=made.headers, stream=stream)

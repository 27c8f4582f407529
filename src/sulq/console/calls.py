"""The routes under /v1, called in this process for a visitor who signed in.

There is no second way to rows: a page's question goes through the same gate, rights, limits,
admission and ledger as everyone else's, as the bytes of a request.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from sulq.remote.wire import Wire, error_of
from sulq.server.access import Visitor
from sulq.server.gate import INSIDE, App, Message
from sulq.server.replies import JSON

LONGEST_SECONDS = 600.0  # more than any question waits and takes, but for a server that stops


@dataclass(frozen=True, slots=True)
class Said:
    """What a route said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def wait(self) -> float | None:
        """Seconds until asking again may help."""
        said = self.headers.get("retry-after", "")
        return float(said) if said.isdigit() else None


class Calls:
    """The application behind the gate, as pages see it."""

    def __init__(self, gate: App) -> None:
        self._gate = gate

    async def json(
        self, visitor: Visitor, method: str, path: str, body: Any = None,
        request_id: str | None = None,
    ) -> Any:  # fmt: skip
        """What a route gives, or its refusal as the exception it was."""
        said = await self.send(visitor, method, path, body, request_id)
        if said.status >= 300:
            raise error_of(said.status, said.body, said.wait)
        return json.loads(said.body)

    async def send(
        self, visitor: Visitor, method: str, path: str, body: Any = None,
        request_id: str | None = None,
    ) -> Said:  # fmt: skip
        """The whole reply, whatever it is."""
        content = b"" if body is None else json.dumps(body, allow_nan=False).encode()
        return await self.bytes(visitor, method, path, content, request_id)

    async def bytes(
        self, visitor: Visitor, method: str, path: str, content: bytes, request_id: str | None
    ) -> Said:
        """The same with a body as bytes."""
        headers = [(b"content-type", JSON.encode())] if content else []
        if request_id is not None:
            headers.append((b"idempotency-key", request_id.encode("latin-1", "replace")))
        parts = urlsplit(path)
        scope: Message = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": unquote(parts.path), "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(), "root_path": "", "headers": headers,
            "client": None, "server": None, INSIDE: visitor,
        }  # fmt: skip
        heard = _Heard(content)
        await self._gate(scope, heard.receive, heard.send)
        return Said(heard.status, heard.headers, b"".join(heard.chunks))


class _Heard:
    """The two ends of a call: what is sent, and what comes back."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self._done = asyncio.Event()
        self.status = 500
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []

    async def receive(self) -> Message:
        if self._content is not None:
            content, self._content = self._content, None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._done.wait()  # nobody hangs up before the end
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in message["headers"]}
            return
        self.chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            self._done.set()


class Inside(Wire):
    """A wire that never leaves this process, for a RemoteDatabase in a thread of its own.

    Who asks is looked up for every call, so that a key that ends also ends a long computation.
    """

    def __init__(
        self, calls: Calls, who: Callable[[], Visitor], loop: asyncio.AbstractEventLoop,
        patience_seconds: float = 30.0,
    ) -> None:  # fmt: skip
        self.base = "this server"
        self.key = ""
        self._patience = patience_seconds
        self._calls = calls
        self._who = who
        self._loop = loop
        self._own = threading.local()

    def _once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, float | None]:
        call = self._calls.bytes(
            self._who(), method, path, body or b"", headers.get("Idempotency-Key")
        )
        said = asyncio.run_coroutine_threadsafe(call, self._loop).result(LONGEST_SECONDS)
        return said.status, said.body, said.wait

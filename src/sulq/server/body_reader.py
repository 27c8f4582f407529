"""A request's body: within limits of bytes, time and memory, parsed aside where it is long.

Who has no key may send a small one. What a body holds is counted before a parser meets it
(strict_json.py), and a long one is parsed in a thread, of one person at a time, within the seconds
of their meter: the event loop is everybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.types import Receive, Scope

from sulq.errors import LimitReached, QueryNotAllowed, SulqError
from sulq.server.services.settings import Settings
from sulq.server.services.threads import MeteredThreads
from sulq.server.services.work_meter import Account, WorkMeter, current
from sulq.server.strict_json import parsed

WITHOUT_KEY_BYTES = 20_000
SHORT_BYTES = 4_000  # of what is parsed where it is read
THREADS = 1

Given = TypeVar("Given")


class HttpError(Exception):
    """A refusal with a status of its own."""

    def __init__(self, status: int, error: SulqError) -> None:
        self.status = status
        self.error = error
        super().__init__(status)


class BodyReader:
    """Reads the bodies of one server's requests."""

    def __init__(self, settings: Settings, meter: WorkMeter) -> None:
        self._settings = settings
        self._threads = MeteredThreads(THREADS, meter, settings.at_once)
        self.stop, self.close = self._threads.stop, self._threads.close

    def most(self, has_key: bool) -> int:
        """The bytes that a body may have."""
        most = self._settings.body_bytes
        return most if has_key else min(most, WITHOUT_KEY_BYTES)

    async def read(self, scope: Scope, receive: Receive, has_key: bool) -> bytes:
        """The whole body, or a refusal as soon as it is too much."""
        most, account = self.most(has_key), current.get()
        check_length(scope, most)
        chunks: list[bytes] = []
        size = 0
        while True:
            try:
                async with asyncio.timeout(self._settings.read_seconds):
                    message = await receive()
            except TimeoutError:
                raise HttpError(408, LimitReached("the request did not arrive in time.")) from None
            if message["type"] != "http.request":
                raise HttpError(408, LimitReached("the request ended in the middle."))
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > most:
                raise too_large(most)
            if account is not None and chunk:
                account.hold(len(chunk))
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def json(self, body: bytes) -> Any:
        """The document that a body is; QueryNotAllowed or LimitReached if it is none we take."""
        nesting, most = self._settings.nesting, self._settings.body_bytes
        return await self.aside(len(body), lambda: parsed(body, nesting, most))

    async def aside(self, size: int, function: Callable[[], Given]) -> Given:
        """Run what looks through so many bytes: in a thread, unless they are few."""
        account: Account | None = current.get()
        if size <= SHORT_BYTES or account is None:
            return function()
        return await self._threads.run(account.who, function)


def check_length(scope: Scope, most: int) -> None:
    """Refuse a body that is announced as larger, before any of it is read."""
    names = [name for name, _ in scope["headers"]]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise HttpError(400, QueryNotAllowed("a body has one length: send one header for it."))
    for name, value in scope["headers"]:
        if name == b"content-length" and (not value.isdigit() or int(value[:20]) > most):
            raise too_large(most)


def too_large(most: int) -> HttpError:
    """The refusal of a body that is larger than it may be."""
    return HttpError(
        413, LimitReached(f"the body is larger than {most:,} bytes. Nothing was charged.")
    )

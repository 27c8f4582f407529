"""Sockets that must speak and listen in time.

uvicorn waits for ever for the end of a request's head, and for whoever does not read its reply.
Here a request must have arrived whole within `read_seconds`, a reply must be taken as steadily,
there are at most so many connections, and what is no HTTP is refused in the one shape of an
error.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sulq.errors import LimitReached, QueryNotAllowed, SulqError
from sulq.server.replies import JSON, dumped, error_body
from sulq.server.settings import Settings


def protocol(settings: Settings) -> type[H11Protocol]:
    """uvicorn's protocol, with a clock and a limit."""

    class Timely(H11Protocol):
        _clock: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                self._refuse(503, LimitReached("too many connections. Ask again later.", 1.0))
                return
            self._start_clock()

        def data_received(self, data: bytes) -> None:
            if self._clock is None and self._between_requests():
                self._start_clock()
            super().data_received(data)
            if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
                self._stop_clock()

        def on_response_complete(self) -> None:
            self._stop_clock()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_clock()
            self._is_read()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._must_be_read()

        def resume_writing(self) -> None:
            self._is_read()
            super().resume_writing()

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            self._must_be_read()  # what is left of a reply keeps a closing socket open

        def shutdown(self) -> None:
            super().shutdown()
            if self.transport.is_closing():
                self._must_be_read()

        def _must_be_read(self) -> None:
            """Hang up without waiting any more, unless what was sent is taken in time."""
            self._is_read()
            self._unread = self.loop.call_later(settings.read_seconds, self.transport.abort)

        def _is_read(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, QueryNotAllowed("this is no HTTP request that is read here."))

        def _between_requests(self) -> bool:
            return self.conn.their_state is h11.IDLE or self.conn.their_state is h11.SEND_BODY

        def _start_clock(self) -> None:
            self._clock = self.loop.call_later(settings.read_seconds, self._too_slow)

        def _stop_clock(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

        def _too_slow(self) -> None:
            self._clock = None
            seconds = f"{settings.read_seconds:g} seconds"
            self._refuse(408, LimitReached(f"the request did not arrive within {seconds}."))

        def _refuse(self, status: int, error: SulqError) -> None:
            """Say why and hang up; without words if a reply has begun."""
            if self.transport.is_closing():
                return
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self._replying():
                self.transport.write(_raw(status, error))
            self.transport.close()
            self._must_be_read()

        def _replying(self) -> bool:
            return self.cycle is not None and self.cycle.response_started

    return Timely


def _raw(status: int, error: SulqError) -> bytes:
    """A whole reply as bytes."""
    body = dumped(error_body(error))
    head = (
        f"HTTP/1.1 {status} Refused\r\ncontent-type: {JSON}\r\ncontent-length: {len(body)}\r\n"
        "cache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body

"""Sockets that must speak and listen in time.

uvicorn waits for ever for the end of a request's head, and for whoever does not read its reply.
Here a request must have arrived whole within `read_seconds` (of a file that an owner sends, some
more of it each time), a reply must be taken as steadily, and what is no HTTP is refused in the one
shape of an error. There are at most so many connections, well below the number of files that the
process may open, since ledgers and rows need some too: of those on which nothing is under way the
oldest makes room for a new one. Requests are read in turns of persons (door.py). Those of a person
who waits for many refusals already are not read at all.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Hashable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sulq.errors import LimitReached, QueryNotAllowed, SulqError
from sulq.server.bounded_http import BoundedConnection
from sulq.server.door import FEW, Door
from sulq.server.gate import ARRIVING, RequestContext
from sulq.server.services.responses import JSON, dumped, error_body, wait_header
from sulq.server.services.settings import Settings
from sulq.server.services.work_meter import ACCOUNT, WorkMeter

MAX_FILES = 65_536  # as many as are ever asked for
READ_BYTES = 65_536  # that are read in one turn of the event loop
STEADY_BYTES = 100_000  # of a file, which may take longer, that must arrive within `read_seconds`


def open_files() -> int:
    """How many files this process may open: as many as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return MAX_FILES if soft == resource.RLIM_INFINITY else soft


def max_connections(settings: Settings) -> int:
    """As many as the settings say, within half of the files that may be open."""
    return min(settings.connections, max(1, open_files() // 2))


def protocol(settings: Settings, meter: WorkMeter) -> type[Timely]:
    """The protocol of one server."""
    made = {
        "read_seconds": settings.read_seconds, "most": max_connections(settings), "held": {},
        "refused": {}, "door": Door(), "meter": meter,
    }  # fmt: skip
    return type("Protocol", (Timely,), made)


class Timely(H11Protocol):
    """uvicorn's protocol, with a clock and a limit, which `protocol` fills in."""

    read_seconds: float
    most: int  # connections
    held: dict[Timely, None]  # the connections, the one longest without a request first
    refused: dict[Timely, None]  # those that are not read, the oldest first
    door: Door
    meter: WorkMeter
    _refusal: asyncio.TimerHandle | None = None  # of what is not read
    _line: Hashable = None  # at the door, in which it waits
    _clock: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _arrived: int = 0  # bytes since the clock was started

    def connection_made(self, transport: Any) -> None:
        """Take it, if there is room."""
        super().connection_made(transport)
        self.conn = BoundedConnection()
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES
        if len(self.held) >= self.most and not self._make_room():
            self._refuse(503, LimitReached("too many connections. Ask again later.", 1.0))
            return
        self.held[self] = None
        self._start_clock()

    def _make_room(self) -> bool:
        """Hang up on the oldest connection on which nothing is under way, if there is one.

        First on those that wait for a refusal and are not read.
        """
        oldest = next(iter(self.refused), None)
        if oldest is None:
            oldest = next((one for one in self.held if one.is_idle()), None)
        if oldest is None:
            return False
        self.held.pop(oldest, None)
        self.refused.pop(oldest, None)
        oldest.transport.abort()
        return True

    def is_idle(self) -> bool:
        """Is there no request under way, or only one that waits to be refused?

        One that waits at the door counts as under way, unless many of the same person do.
        """
        if self._line is not None and self.door.waiting(self._line) <= FEW:
            return False
        if self.cycle is None or self.cycle.response_complete:
            return True
        context = self._context()
        return context is not None and context.refusing

    def _context(self) -> RequestContext | None:
        """What the gate found out about the request under way."""
        found: Any = None if self.cycle is None else self.cycle.scope.get("sulq")
        return found if isinstance(found, RequestContext) else None

    def data_received(self, data: bytes) -> None:
        """A request waits for its turn at the door; more of one does not."""
        if self._refusal is not None:
            return
        if self.conn.their_state is not h11.IDLE:
            self._take(data)
            return
        who = self._who(data)
        if isinstance(who, int) and self.meter.is_flood(who):
            self._refuse_unread(who)
            return
        if self.door.waiting(who) > FEW:
            self.meter.overload.note()
        self._line = who
        self.transport.pause_reading()
        self.door.enter(who, lambda: self._let_in(data))

    def _who(self, data: bytes) -> Hashable:
        return self.door.who(data, (self.client or ("",))[0])

    def _refuse_unread(self, person: int) -> None:
        """Say so later; what arrives meanwhile is lost.

        Whoever waits for that asks less than whoever is hung up on, and comes again at once.
        """
        self._stop_clock()
        seconds, error = self.meter.refused(person)
        self._refusal = self.loop.call_later(seconds, self._refuse, 429, error)
        self.refused[self] = None

    def _let_in(self, data: bytes) -> None:
        """Read it, unless too many of the same person were read while it waited."""
        self._line = None
        if self.transport.is_closing():
            return
        self.transport.resume_reading()
        who = self._who(data)
        if isinstance(who, int) and self.meter.is_flood(who):
            self._refuse_unread(who)
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Start the clock of a request, and stop it once the request is whole."""
        if self._clock is None and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._start_clock()
        self._arrived += len(data)
        start = time.thread_time()
        super().data_received(data)
        state = {} if self.cycle is None else self.cycle.scope.get("state", {})
        if ACCOUNT in state:
            state[ACCOUNT].spend(time.thread_time() - start)
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            self._stop_clock()

    def on_response_complete(self) -> None:
        """It is now the last to have asked, and known if its key was let through."""
        self._stop_clock()
        context = self._context()
        if context is not None and context.principal is not None:
            self.door.know(context.principal.key, context.principal.person.id)
        if self.held.pop(self, self) is None:
            self.held[self] = None
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of its clocks."""
        self.held.pop(self, None)
        self._stop_clock()
        self._is_read()
        if self._refusal is not None:
            self._refusal.cancel()
            self.refused.pop(self, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The reply is not taken: it must be in time."""
        super().pause_writing()
        self._must_be_read()

    def resume_writing(self) -> None:
        """The reply is taken again."""
        self._is_read()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """What is left of a reply keeps a closing socket open, but not for ever."""
        super().timeout_keep_alive_handler()
        self._must_be_read()

    def shutdown(self) -> None:
        """Close it, in time."""
        super().shutdown()
        if self.transport.is_closing():
            self._must_be_read()

    def _must_be_read(self) -> None:
        """Hang up without waiting any more, unless what was sent is taken in time."""
        self._is_read()
        self._unread = self.loop.call_later(self.read_seconds, self.transport.abort)

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the one shape of an error."""
        self._refuse(400, QueryNotAllowed("this is no HTTP request that is read here."))

    def _start_clock(self) -> None:
        self._arrived = 0
        self._clock = self.loop.call_later(self.read_seconds, self._too_slow)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_slow(self) -> None:
        self._clock = None
        state = {} if self.cycle is None else self.cycle.scope.get("state", {})
        if state.get(ARRIVING) and self._arrived >= STEADY_BYTES:
            self._start_clock()
            return
        seconds = f"{self.read_seconds:g} seconds"
        self._refuse(408, LimitReached(f"the request did not arrive within {seconds}."))

    def _refuse(self, status: int, error: SulqError) -> None:
        """Say why and hang up; without words if a reply has begun."""
        if self.transport.is_closing():
            return
        replying = self.cycle is not None and self.cycle.response_started
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not replying:
            self.transport.write(_raw(status, error, self.server_state.default_headers))
        self.transport.close()
        self._must_be_read()


def _raw(status: int, error: SulqError, headers: list[tuple[bytes, bytes]]) -> bytes:
    """A whole reply as bytes."""
    body, seconds = dumped(error_body(error)), wait_header(error)
    head = (
        f"HTTP/1.1 {status} Refused\r\ncontent-type: {JSON}\r\ncontent-length: {len(body)}\r\n"
        "cache-control: no-store\r\nconnection: close\r\n"
    )
    if seconds is not None:
        head += f"retry-after: {seconds}\r\n"
    more = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    return head.encode() + more + b"\r\n" + body

"""One socket: messages of it in time and within limits, replies that are taken in time.

A message that has begun must be whole within `read_seconds`; what was sent must be taken as
quickly. What arrives ahead of its turn is bounded: the rest waits in the network.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable
from typing import cast

AHEAD = 65_536  # bytes that may arrive before they are wanted


class Gone(Exception):
    """The client hung up, or is too slow."""


class TooLong(Exception):
    """A message is longer than any that is read."""


class Wire(asyncio.Protocol):
    """The two directions of one connection."""

    def __init__(self, read_seconds: float, begin: Callable[[Wire], None]) -> None:
        self._read_seconds = read_seconds
        self._begin = begin
        self._buffer = bytearray()
        self._wanted = 0
        self._more = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._paused = False
        self.gone = False
        self.address = ""
        self.secure = False
        self._transport: asyncio.Transport | None = None

    # ---- what asyncio calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless it is the same connection again, now with TLS."""
        first, self._transport = self._transport is None, cast(asyncio.Transport, transport)
        if first:
            peer = transport.get_extra_info("peername")
            self.address = str(peer[0]) if isinstance(peer, tuple) else ""
            self._begin(self)

    def data_received(self, data: bytes) -> None:
        """Keep it until it is wanted."""
        self._buffer += data
        if len(self._buffer) > self._wanted + AHEAD and not self._paused and self._transport:
            self._transport.pause_reading()
            self._paused = True
        self._more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let nobody wait for it any more."""
        self.gone = True
        self._more.set()
        self._drained.set()

    def pause_writing(self) -> None:
        """What was sent is not taken."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """It is taken again."""
        self._drained.set()

    # ---- reading ----------------------------------------------------------------------------

    async def _take(self, count: int) -> bytes:
        """So many bytes, when they are there."""
        while len(self._buffer) < count:
            if self.gone:
                raise Gone
            self._wanted = count
            if self._paused and self._transport:
                self._transport.resume_reading()
                self._paused = False
            self._more.clear()
            await self._more.wait()
        self._wanted = 0
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    async def opening(self, most: int) -> tuple[int, bytes]:
        """The first message, which has a code in place of a kind."""
        length, code = struct.unpack("!ii", await self._take(8))
        if not 8 <= length <= most:
            raise TooLong
        return code, await self._take(length - 8)

    async def message(self, most: int) -> tuple[str, bytes]:
        """The next message, whenever it comes; once begun it must be whole in time."""
        kind = (await self._take(1)).decode("latin-1")
        try:
            async with asyncio.timeout(self._read_seconds):
                (length,) = struct.unpack("!i", await self._take(4))
                if not 4 <= length <= most:
                    raise TooLong
                return kind, await self._take(length - 4)
        except TimeoutError:
            raise Gone from None

    # ---- writing ----------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send it, as soon as it can be."""
        if self._transport is not None and not self.gone and not self._transport.is_closing():
            self._transport.write(data)

    async def flush(self) -> None:
        """Wait until the client takes what was sent, in time."""
        if self._drained.is_set() and not self.gone:
            return
        try:
            async with asyncio.timeout(self._read_seconds):
                await self._drained.wait()
        except TimeoutError:
            self.abort()
            raise Gone from None
        if self.gone:
            raise Gone

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """From here on in TLS; what came in the clear before it is not believed."""
        if self._buffer or self._transport is None:
            raise Gone
        self.write(b"S")
        loop = asyncio.get_running_loop()
        try:
            made = await loop.start_tls(
                self._transport, self, context, server_side=True,
                ssl_handshake_timeout=self._read_seconds,
            )  # fmt: skip
        except (OSError, ssl.SSLError):
            raise Gone from None
        if made is None:
            raise Gone
        self._transport, self.secure = made, True

    def close(self) -> None:
        """Hang up when what was sent is taken; without waiting if it is not."""
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(self._read_seconds, self._transport.abort)

    def abort(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

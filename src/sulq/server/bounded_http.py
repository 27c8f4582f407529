"""h11's reader with limits on what costs more than its bytes: header lines, and tiny chunks.

h11 bounds only heads that are not whole yet, and makes an event of every chunk, however small.
"""

from __future__ import annotations

from typing import Any

import h11

MAX_HEAD_BYTES = 16_384
MAX_HEADERS = 100
MANY_CHUNKS = 500  # of one body, after which they must hold
MEAN_CHUNK_BYTES = 200  # so many bytes each on average


class BoundedConnection(h11.Connection):
    """One connection, as its server reads it."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self._chunks = self._bytes = 0

    def next_event(self) -> Any:
        """The next event, or h11's RemoteProtocolError."""
        if self.their_state is h11.IDLE:
            self._chunks = self._bytes = 0
            self._check_head()
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._chunks += 1
            self._bytes += len(event.data)
            if self._chunks > MANY_CHUNKS and self._bytes < MEAN_CHUNK_BYTES * self._chunks:
                raise h11.RemoteProtocolError("the chunks of a body are too small")
        return event

    def _check_head(self) -> None:
        """Refuse a head of too many bytes or lines before it is read."""
        waiting, _ = self.trailing_data
        ends = [end for end in (waiting.find(b"\n\r\n"), waiting.find(b"\n\n")) if end >= 0]
        end = min(ends, default=len(waiting))
        if end > MAX_HEAD_BYTES or waiting.count(b"\n", 0, end) > MAX_HEADERS:
            raise h11.RemoteProtocolError("a head is too long")

"""Whose request is read next: persons take turns, however many connections each has.

What has arrived waits here before it is parsed. In each turn of the event loop a few requests are
let in, of one person after the other, so that nobody's thousand stand before another's first; and
of a long line one at a time with a pause, in which others are answered. Whose a request is says its
key, if that worked before; else its address does.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

AT_A_TIME = 4  # requests in one turn of the event loop
FEW = 16  # requests in a line that is not long
PAUSE_SECONDS = 0.002  # between requests of long lines
REMEMBERED = 10_000  # keys
KEY = re.compile(rb"\r\nauthorization:[ \t]*bearer[ \t]+sulq_([0-9a-f]{16})_", re.IGNORECASE)


class Door:
    """The lines before one server."""

    def __init__(self) -> None:
        self._lines: OrderedDict[Hashable, deque[Callable[[], None]]] = OrderedDict()
        self._known: OrderedDict[bytes, int] = OrderedDict()  # public halves of keys, and whose
        self._next: asyncio.Handle | None = None  # when some are let in
        self._pause = 0.0  # until when none of a long line is

    def know(self, key: str, person: int) -> None:
        """A request with this key was let through."""
        self._known[key.encode()] = person
        self._known.move_to_end(key.encode())
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def who(self, data: bytes, address: Hashable) -> Hashable:
        """In whose line this stands."""
        found = KEY.search(data)
        if found is None:
            return ("no key", address)
        return self._known.get(found[1].lower(), ("unknown key", address))

    def enter(self, who: Hashable, let_in: Callable[[], None]) -> None:
        """Let this in when it is its turn."""
        line = self._lines.setdefault(who, deque())
        line.append(let_in)
        if self._next is None or (hasattr(self._next, "when") and len(line) == 1):
            self._serve_soon()

    def waiting(self, who: Hashable) -> int:
        """How many stand in this line."""
        return len(self._lines.get(who, ()))

    def _serve(self) -> None:
        """Let some in, and others in the next turn of the event loop, whatever comes of these."""
        try:
            self._let_some_in()
        finally:
            self._next = None
            if any(len(line) <= FEW for line in self._lines.values()):
                self._serve_soon()
            elif self._lines:
                self._next = asyncio.get_running_loop().call_at(self._pause, self._serve)

    def _let_some_in(self) -> None:
        """One of each line in turn."""
        loop = asyncio.get_running_loop()
        for _ in range(AT_A_TIME):
            paused = loop.time() < self._pause
            who = next(
                (w for w, line in self._lines.items() if not paused or len(line) <= FEW), None
            )
            if who is None:
                break
            line = self._lines.pop(who)
            if len(line) > FEW:
                self._pause = loop.time() + PAUSE_SECONDS
            let_in = line.popleft()
            if line:
                self._lines[who] = line  # to the end: the others come first
            let_in()

    def _serve_soon(self) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = asyncio.get_running_loop().call_soon(self._serve)

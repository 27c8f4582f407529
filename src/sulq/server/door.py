"""Whose request is read next: persons take turns, however many connections each has.

What has arrived waits here before it is parsed. In each turn of the event loop a few requests are
let in, of one person after the other, so that nobody's thousand stand before another's first. Whose
a request is says its key, if that worked before; else its address does.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

AT_A_TIME = 4  # requests in one turn of the event loop
REMEMBERED = 10_000  # keys
KEY = re.compile(rb"\r\nauthorization:[ \t]*bearer[ \t]+sulq_([0-9a-f]{16})_", re.IGNORECASE)


class Door:
    """The lines before one server."""

    def __init__(self) -> None:
        self._lines: OrderedDict[Hashable, deque[Callable[[], None]]] = OrderedDict()
        self._known: OrderedDict[bytes, int] = OrderedDict()  # public halves of keys, and whose
        self._serving = False

    def know(self, key: str, person: int) -> None:
        """A request with this key was let through."""
        self._known[key.encode()] = person
        self._known.move_to_end(key.encode())
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def who(self, data: bytes, address: Hashable) -> Hashable:
        """In whose line this stands."""
        found = KEY.search(data)
        person = None if found is None else self._known.get(found[1].lower())
        return ("address", address) if person is None else person

    def enter(self, who: Hashable, let_in: Callable[[], None]) -> None:
        """Let this in when it is its turn."""
        self._lines.setdefault(who, deque()).append(let_in)
        if not self._serving:
            self._serving = True
            asyncio.get_running_loop().call_soon(self._serve)

    def waiting(self, who: Hashable) -> int:
        """How many stand in this line."""
        return len(self._lines.get(who, ()))

    def _serve(self) -> None:
        """Let some in, one of each line, and others in the next turn of the event loop."""
        for _ in range(AT_A_TIME):
            if not self._lines:
                break
            who, line = self._lines.popitem(last=False)
            let_in = line.popleft()
            if line:
                self._lines[who] = line  # to the end: the others come first
            let_in()
        self._serving = bool(self._lines)
        if self._serving:
            asyncio.get_running_loop().call_soon(self._serve)

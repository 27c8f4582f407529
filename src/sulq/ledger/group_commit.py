"""Threads that wait to write go together: one transaction, one sync, each its own outcome.

The first to get the lock writes for all who wait; the others find theirs done. Alone, a thread
waits for nobody.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from sulq.errors import SulqError

MOST = 64  # that go together

Asked = TypeVar("Asked")
Given = TypeVar("Given")


class Ticket(Future[Given], Generic[Asked, Given]):
    """What one thread wants written, and what became of it: said after the commit, never before."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.asked = asked
        self.process = os.getpid()

    def outcome(self) -> Given | SulqError:
        """What was given, or why not; what nobody thought of is raised."""
        error = self.exception(timeout=0)
        return error if isinstance(error, SulqError) else self.result()


class Together(Generic[Asked, Given]):
    """A queue of writers before one lock, which `write` finds held."""

    def __init__(self, lock: Any, write: Callable[[Sequence[Ticket[Asked, Given]]], None]) -> None:
        self._lock = lock
        self._write = write
        self._waiting: deque[Ticket[Asked, Given]] = deque()

    def through(self, asked: Asked) -> Given:
        """Have this written, alone or with others; raise what was wrong with this one."""
        (outcome,) = self.through_each([asked])
        if isinstance(outcome, SulqError):
            raise outcome
        return outcome

    def through_each(self, asked: Iterable[Asked]) -> list[Given | SulqError]:
        """Have these written; each with what was wrong with it, if anything."""
        tickets: list[Ticket[Asked, Given]] = [Ticket(each) for each in asked]
        self._waiting.extend(tickets)
        with self._lock:
            for ticket in tickets:
                if not ticket.done():
                    self._write_with(ticket)
        return [ticket.outcome() for ticket in tickets]

    def _write_with(self, ticket: Ticket[Asked, Given]) -> None:
        batch = self._taken()
        if ticket not in batch:  # its writer was interrupted
            batch.append(ticket)
        try:
            self._write(batch)
        except Exception as error:
            for each in batch:
                each.set_exception(error)  # nothing of the transaction was kept

    def _taken(self) -> list[Ticket[Asked, Given]]:
        """Those who wait, but not those of a process that this one was forked from."""
        taken: list[Ticket[Asked, Given]] = []
        while self._waiting and len(taken) < MOST:
            ticket = self._waiting.popleft()
            if ticket.process == os.getpid() and not ticket.done():
                taken.append(ticket)
        return taken

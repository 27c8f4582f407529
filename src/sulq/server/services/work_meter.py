"""One meter for all work before a charge: requests, seconds of processor time, bytes in memory.

Each is counted by person, or by address until a key is proved, at every door: HTTP, the console and
PostgreSQL's protocol. Every step of a request in the event loop is timed, and so is its work in
threads, so that parsing, validation, prices and pages cost what they take, whatever code runs. Who
uses more than a share of the processor is refused until it is made good.
"""

from __future__ import annotations

import logging
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Hashable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from sulq.errors import LimitReached
from sulq.server.services import logs
from sulq.server.services.admission import Overload, Rate, Seconds, Spaced, Waits, too_many
from sulq.server.services.registry import Registry
from sulq.server.services.settings import Settings
from sulq.server.services.shared_rate import rate_of

Given = TypeVar("Given")

A_REQUEST_SECONDS = 1 / 100  # of processor time that a person's rate of requests allows for each,
AT_ONCE_SECONDS = 1 / 20  # and that a burst of them does
LEAST_AT_ONCE_SECONDS = 2.0
UNPAID = 5.0  # times that a second counts for which nobody will pay: prices, looks, strangers
STRANGERS = 20.0, 100  # refused keys a second from one address, and at once
REFUSALS = 0.4  # of the requests that a person may send, that are refused in the same time
FLOOD = 20  # refusals that a person waits for, after which the next requests are not read
OPEN_SHARE = 0.02  # of them too, on one connection, for what needs no key
MAX_BYTES = 64_000_000  # of all bodies that are under way at once,
MAX_BYTES_EACH = 16_000_000  # and of one person's, or one address's


class WorkMeter:
    """Meters the work of each person and address on one server, and refuses too much of it."""

    def __init__(self, registry: Registry, settings: Settings) -> None:
        rate, burst = settings.rate, settings.burst
        self._each_second = rate
        self._requests = rate_of(registry, "requests", rate, burst)
        self._here = self._requests if isinstance(self._requests, Rate) else Rate(rate, burst)
        self._seconds = Seconds(
            A_REQUEST_SECONDS * rate, max(AT_ONCE_SECONDS * burst, LEAST_AT_ONCE_SECONDS)
        )
        self.strangers = rate_of(registry, "strangers", *STRANGERS)  # by address
        self.sign_ins = rate_of(registry, "sign-in", rate, burst)
        self._refusals = Spaced(REFUSALS * rate, REFUSALS * burst)
        self._open = Spaced(OPEN_SHARE * rate, OPEN_SHARE * burst)
        self._floods = Rate(1 / 60, 1)  # words about them in the log
        self._waits = Waits()
        self.overload = Overload()
        self.bytes = BytesInFlight(MAX_BYTES, MAX_BYTES_EACH)

    # ---- requests ---------------------------------------------------------------------------

    def take(self, who: Hashable, much: float = 1.0) -> None:
        """Count a request, or as much as several; LimitReached if it is too much."""
        if self._here is not self._requests:
            with suppress(LimitReached):
                self._here.take(who, much)
        self._requests.take(who, much)

    async def space(self, connection: Hashable) -> None:
        """Wait, where one connection often asks for what needs no key; others get more time."""
        seconds = self._open.wait(connection)
        if seconds > 0:
            self.overload.note()
        await self._waits.wait(seconds)

    # ---- seconds ----------------------------------------------------------------------------

    def check(self, who: Hashable) -> None:
        """LimitReached if the seconds of this person or address are used up."""
        self._seconds.check(who)

    def spend(self, who: Hashable, seconds: float) -> None:
        """Count processor time that was used."""
        self._seconds.spend(who, seconds)

    # ---- refusals ---------------------------------------------------------------------------

    async def hold_back(self, who: Hashable) -> None:
        """Wait before one more refusal is sent: it takes time of others too."""
        await self._waits.wait(self._refusals.wait(who))

    def stop(self) -> None:
        """Let nobody wait any more."""
        self._waits.stop()

    def is_flood(self, who: Hashable) -> bool:
        """True if many refusals wait to be sent, and the next request would be refused too."""
        if self._refusals.waiting(who) <= FLOOD:
            return False
        return self._here.wait(who) > 0 or self._seconds.wait(who) > 0

    def refused(self, who: Hashable) -> tuple[float, LimitReached]:
        """The seconds after which a request that is not read is refused, and the refusal."""
        self.overload.note()
        with suppress(LimitReached):
            self._floods.take(who)
            logs.event("flood", logging.WARNING, person=who)
        wait = max(self._here.wait(who), self._seconds.wait(who))
        return self._refusals.wait(who), too_many(self._each_second, wait)


class BytesInFlight:
    """The bytes of bodies that are held in memory."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._total = 0
        self._each: dict[Hashable, int] = {}

    def take(self, who: Hashable, count: int) -> None:
        """Reserve this many bytes; raise LimitReached if there is no room for them."""
        own = self._each.get(who, 0)
        if own + count > self._most_each or self._total + count > self._most:
            raise LimitReached(
                "the bodies under way are too large in all. Nothing was charged.\n"
                "Send fewer at once.", 1.0,
            )  # fmt: skip
        self._total += count
        self._each[who] = own + count

    def give_back(self, who: Hashable, count: int) -> None:
        """Release this many bytes."""
        if not count:
            return
        self._total -= count
        self._each[who] -= count
        if not self._each[who]:
            del self._each[who]

    @property
    def total(self) -> int:
        """All that are held."""
        return self._total


class Account:
    """The principal that one request, or one connection, is metered for."""

    def __init__(self, meter: WorkMeter, who: Hashable) -> None:
        self._meter = meter
        self._lock = threading.Lock()
        self.who = who
        self._times = UNPAID  # until a key is proved
        self._spent = 0.0
        self._held: list[tuple[Hashable, int]] = []

    def check(self) -> None:
        """LimitReached if the share is used up."""
        self._meter.check(self.who)

    def spend(self, seconds: float) -> None:
        """Count processor time."""
        with self._lock:
            self._spent += seconds
            self._meter.spend(self.who, seconds * self._times)

    def belong_to(self, person: Hashable) -> None:
        """A key was proved: its person pays from now on, and for what the address paid so far."""
        with self._lock:
            if self.who == person:
                return
            self._meter.spend(self.who, -self._spent * self._times)
            self.who, self._times = person, 1.0
            self._meter.spend(person, self._spent)

    def hold(self, count: int) -> None:
        """Hold bytes of a body until the request is done."""
        self._meter.bytes.take(self.who, count)
        self._held.append((self.who, count))

    def let_go(self) -> None:
        """Give back every byte that is held."""
        for who, count in self._held:
            self._meter.bytes.give_back(who, count)
        self._held.clear()

    async def run(self, work: Coroutine[Any, Any, Given]) -> Given:
        """Run what a request does, and count each of its steps in the event loop."""
        before = current.set(self)
        try:
            return await _stepped(work, self.spend)
        finally:
            current.reset(before)
            self.let_go()


ACCOUNT = "sulq.account"  # in the state of a connection, for what reads its bytes
# The account of the request under way: set at the doors, seen by the threads that work for it.
current: ContextVar[Account | None] = ContextVar("account", default=None)


@types.coroutine
def _stepped(
    work: Coroutine[Any, Any, Given], spend: Callable[[float], None]
) -> Generator[Any, Any, Given]:
    """Run a coroutine step by step; tell the processor time of each."""
    value: Any = None
    error: BaseException | None = None
    while True:
        start = time.thread_time()
        try:
            waiting = work.send(value) if error is None else work.throw(error)
        except StopIteration as done:
            result: Given = done.value
            return result
        finally:
            spend(time.thread_time() - start)
        value = error = None
        try:
            value = yield waiting
        except BaseException as raised:
            error = raised


def timed(function: Callable[..., Given], *arguments: Any) -> Given:
    """Run this in a thread, and count its processor time for the request under way."""
    account = current.get()
    if account is None:
        return function(*arguments)
    start = time.thread_time()
    try:
        return function(*arguments)
    finally:
        account.spend(time.thread_time() - start)

"""One person's floods against a server as it is shipped: others' answers are on time.

Whoever floods is refused or waits in a line of their own. Another's answers are at most two beats
later than alone, none is late, and the server says within a second that it is there. In `make
soak`, on a quiet machine, against a process, by the clock, and with each flood against a server
without turns and limits (altered.py), where it must show; in `make test` by counting: here who is
let in next, in services/test_beat.py who is in the next batch.
"""

import asyncio
import math
import signal
import statistics
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from types import SimpleNamespace

import pytest
from attacks.harness import people
from server.flooding import FLOODS, HALF_REQUESTS, OPEN_LOOP, flooding
from server.instance import made
from server.processes import BOUND_SECONDS, served, until
from soak import in_soak

from sulq.errors import LimitReached
from sulq.server.connections import Timely
from sulq.server.door import AT_A_TIME, FEW, Door
from sulq.server.gate import RequestContext
from sulq.server.services.admission import LONGEST_SECONDS, Rate, Spaced, Waits, too_many
from sulq.server.services.settings import Settings
from sulq.server.services.work_meter import FLOOD, WorkMeter

D = "/v1/datasets/people"
ASKED = 40  # questions of somebody else, one after the other
ASKED_IN_CONTROL = 8
ENOUGH_SECONDS = 20  # in which they are asked
TOO_LONG = 10  # seconds to wait for one reply
IN_CONTROL = [  # what takes time of a server; what does not is no flood even to the others
    "1,000 questions", OPEN_LOOP,
    *(f"300 connections, {route}" for route in ("ask", "price", "sql", "estimate", "answers")),
]  # fmt: skip
NO_LIMITS = {
    "SULQ_SERVER_RATE": "1e6", "SULQ_SERVER_BURST": "1000000", "SULQ_SERVER_AT_ONCE": "100000",
    "SULQ_SERVER_QUEUE": "100000",
}  # fmt: skip


@contextmanager
def asked_server(folder, altered=None, **environment):
    """A server process: anna owns, bob floods."""
    instance = made(folder, people(20_000), queries=10**6)
    environment = {"SULQ_SERVER_PADDING": "yes"} | environment
    with served(folder, env=environment, altered=altered) as (instance.child, instance.url):
        instance.until_ready()
        instance.number = iter(range(10**6))
        for _ in range(6):  # until such questions are measured
            asked(instance)
        instance.alone = statistics.median(asked(instance)[0] for _ in range(ASKED))
        yield instance


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A server with nothing set."""
    with asked_server(tmp_path_factory.mktemp("floods") / "instance") as instance:
        yield instance


def asked(instance):
    """The seconds that a new question of anna's takes, and what she heard."""
    return timed(lambda: instance.ask(f"income > {next(instance.number)}.5", "anna"))


def timed(call):
    """The seconds until its reply, and which it was; so long at most."""
    thread = ThreadPoolExecutor(1)
    start = time.perf_counter()
    waiting = thread.submit(call)
    thread.shutdown(wait=False)
    try:
        reply = waiting.result(TOO_LONG)
        heard = "reply" if reply.status == 200 else reply.error
    except (OSError, HTTPException):  # it may be too long, too
        heard = "nothing"
    return time.perf_counter() - start, heard


def beat_of(instance):
    """The slot of a full share of one person's questions, as the server says it."""
    queries = [{"where": f"income > {i}.25"} for i in range(16)]
    body = {"queries": queries, "share": False}
    return instance.call("POST", f"{D}/price", body, "anna").json["deadline_seconds"]


@dataclass
class Seen:
    """What anna met while bob's flood went on."""

    alone: float  # the median before there was any
    beat: float
    taken: list
    heard: set
    healths: list
    flood: dict

    def wrong(self):
        """What is not as it should be."""
        most, median = self.alone + 2 * self.beat, statistics.median(self.taken)
        found = {
            "late": self.heard != {"reply"},
            "median": median > most,
            "nine of ten": self.taken[int(0.9 * len(self.taken))] > most,
            "health": max(self.healths) >= 1.0,
        }
        return [what for what, bad in found.items() if bad]

    def __str__(self):
        return (
            f"alone {self.alone * 1000:.0f} ms, beat {self.beat * 1000:.0f} ms, median "
            f"{statistics.median(self.taken) * 1000:.0f}, slowest {self.taken[-1] * 1000:.0f}, "
            f"{sorted(self.heard)}, health {max(self.healths) * 1000:.0f}; "
            f"the flood heard {self.flood}"
        )


def seen(instance, what, many, capsys):
    """Ask so many questions during a flood."""
    beat = beat_of(instance)
    with flooding(instance.url, instance.keys["bob"], what) as counts:
        found, end = [], time.monotonic() + ENOUGH_SECONDS
        while len(found) < many and time.monotonic() < end:
            found.append(asked(instance))
        health = [timed(lambda: instance.call("GET", "/v1/health", None, None)) for _ in range(5)]
    taken, heard = sorted(seconds for seconds, _ in found), {heard for _, heard in found}
    healths = [seconds if heard == "reply" else math.inf for seconds, heard in health]
    made = Seen(instance.alone, beat, taken, heard, healths, counts)
    with capsys.disabled():
        print(f"\n{what}: {made}")
    return made


@in_soak
@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_delays_others_by_two_beats_at_most(shipped, what, capsys):
    """Nine of ten by no more than that, and none is late."""
    found = seen(shipped, what, ASKED, capsys)
    assert found.wrong() == []
    if what == OPEN_LOOP:
        assert found.flood["sent"] >= 0.8 * found.flood["due"]


@in_soak
@pytest.mark.parametrize("what", IN_CONTROL)
def test_control_where_all_stand_in_one_line_the_same_flood_does(tmp_path, what, capsys):
    """Without turns, limits and threads of their own, as servers were before."""
    with asked_server(tmp_path / "instance", "one line", **NO_LIMITS) as instance:
        try:
            assert seen(instance, what, ASKED_IN_CONTROL, capsys).wrong()
        finally:
            instance.child.kill()


@in_soak
def test_control_where_idle_connections_make_no_room_others_are_refused(tmp_path, capsys):
    """Three hundred that never end a request, where two hundred may be open."""
    few = {"SULQ_SERVER_CONNECTIONS": "200"}
    with asked_server(tmp_path / "instance", **few) as instance:
        found = seen(instance, HALF_REQUESTS, ASKED_IN_CONTROL, capsys)
        assert found.heard <= {"reply", "Late"}
    with (
        asked_server(tmp_path / "altered", "no room", **few) as instance,
        flooding(instance.url, instance.keys["bob"], HALF_REQUESTS),
    ):
        assert until(lambda: asked(instance)[1] in ("LimitReached", "nothing"))


@in_soak
def test_a_flooded_server_stops_when_told_to(tmp_path):
    """With hundreds of requests under way, and while more come."""
    with asked_server(tmp_path / "instance") as instance:
        key = instance.keys["bob"]
        with flooding(instance.url, key, OPEN_LOOP), flooding(instance.url, key, "1,000 questions"):
            asked(instance)
            instance.child.terminate()
            assert instance.child.wait(BOUND_SECONDS / 2) in (0, -signal.SIGTERM)


# ---- at the door ----------------------------------------------------------------------------

ANNA, BOB = "0123456789abcdef", "fedcba9876543210"


def request(key):
    return f"GET / HTTP/1.1\r\nhost: x\r\nAuthorization: Bearer sulq_{key}_x\r\n\r\n".encode()


def let_in(known, many=100):
    """So many requests of bob's and then one of anna's: who is let in, turn by turn."""

    async def main():
        door, turns = Door(), []
        for key, person in known.items():
            door.know(key, person)
        seen = []
        for key in [BOB] * many + [ANNA]:
            door.enter(door.who(request(key), "here"), lambda key=key: seen.append(key))
        while len(seen) < many + 1:
            before = len(seen)
            await asyncio.sleep(0)
            turns.append(seen[before:])
        return turns

    return asyncio.run(main())


def test_many_requests_of_one_do_not_stand_before_anothers_first():
    """Persons take turns; of a long line one is let in and then there is a pause."""
    turns = let_in({ANNA: 1, BOB: 2})
    assert turns[0] == [BOB, ANNA]
    later = [turn for turn in turns[1:] if turn]
    assert {len(turn) for turn in later[: 100 - FEW - 2]} == {1}
    assert max(map(len, later)) == AT_A_TIME


def test_a_short_line_waits_for_no_pause():
    """As many at a time as the event loop takes, one turn after the other."""
    turns = let_in({ANNA: 1, BOB: 2}, FEW)
    assert turns[0][:2] == [BOB, ANNA]
    assert {len(turn) for turn in turns[:4]} == {AT_A_TIME}


def test_who_comes_in_a_pause_is_let_in_at_once():
    """It is others' pause."""

    async def main():
        door, seen = Door(), []
        for _ in range(100):
            door.enter("bob", lambda: seen.append("bob"))
        while not seen:
            await asyncio.sleep(0)
        door.enter("anna", lambda: seen.append("anna"))
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(main())[:3] == ["bob", "anna"]


def test_what_fails_at_the_door_keeps_nobody_outside():
    """It is told to the event loop, and the next one is let in."""

    async def main():
        door, seen, told = Door(), [], []
        asyncio.get_running_loop().set_exception_handler(lambda _, said: told.append(said))
        door.enter("bob", lambda: 1 // 0)
        await asyncio.sleep(0)
        door.enter("anna", lambda: seen.append("anna"))
        await asyncio.sleep(0)
        return seen, [type(said["exception"]) for said in told]

    assert asyncio.run(main()) == (["anna"], [ZeroDivisionError])


def test_control_in_one_line_they_do():
    """What would be if requests were read in the order in which they come."""
    turns = let_in({})
    assert turns[-1] == [ANNA]


def test_a_key_that_never_worked_stands_in_the_line_of_its_address():
    """So that nobody has more turns by making keys up; nor by several keys of one person."""
    door = Door()
    door.know(ANNA, 1)
    door.know(BOB, 1)
    assert door.who(request(ANNA), "here") == door.who(request(BOB), "there") == 1
    stranger = door.who(request("0" * 16), "here")
    assert stranger == door.who(request("1" * 16), "here") != door.who(request("1" * 16), "there")
    assert stranger != door.who(b"GET / HTTP/1.1", "here")  # what needs none waits for none


def test_refusals_leave_one_after_the_other(monkeypatch):
    """A few at once, then so many a second, and nobody waits for ever."""
    from sulq.server.services import admission

    now = [100.0]
    monkeypatch.setattr(admission, "time", SimpleNamespace(monotonic=lambda: now[0]))
    spaced = Spaced(2.0, 3.0)
    assert [spaced.wait("a") for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert spaced.wait("b") == 0.0
    now[0] += 10.0
    assert spaced.wait("a") == 0.0
    assert LONGEST_SECONDS / 2 < max(spaced.wait("a") for _ in range(1000)) <= LONGEST_SECONDS


@pytest.fixture
def meter(tmp_path, monkeypatch):
    """A meter with a clock that is set by hand: fifty requests a second, a hundred at once."""
    from sulq.server.services import admission

    now = [100.0]
    monkeypatch.setattr(admission, "time", SimpleNamespace(monotonic=lambda: now[0]))
    settings = Settings(tmp_path, rate=50.0, burst=100)
    made = WorkMeter(SimpleNamespace(store=None), settings)
    made.now = now
    return made


def refused(meter, person, many):
    """So many requests that arrive: how many are read, and what the others get."""
    heard = []
    for _ in range(many):
        if meter.is_flood(person):
            heard.append(meter.refused(person)[0])
            continue
        heard.append("read")
        try:
            meter.take(person)
        except LimitReached:
            meter._refusals.wait(person)
    return heard


def test_who_waits_for_many_refusals_is_not_read(meter):
    """Of a thousand at once a few are; the others hear of it later, not all at one moment."""
    heard = refused(meter, 1, 1000)
    assert heard.count("read") == 100 + 40 + FLOOD  # let through; told at once; told soon
    waits = [one for one in heard if isinstance(one, float)]
    assert len(set(waits)) == len(waits) == 1000 - 100 - 40 - FLOOD
    assert max(waits) <= LONGEST_SECONDS
    assert waits[:300] == sorted(waits[:300])
    assert meter.overload.here
    assert refused(meter, 2, 100) == ["read"] * 100
    meter.now[0] += 10.0
    assert not meter.overload.here
    assert refused(meter, 1, 100) == ["read"] * 100


def test_control_without_a_limit_all_are_read(meter):
    """As many as come."""
    meter._here = meter._requests = Rate(1e9, 10**9)
    assert refused(meter, 1, 1000) == ["read"] * 1000


def test_what_is_not_read_is_told_so(tmp_path, monkeypatch):
    """On a real connection: 429, when to come back, and the connection is closed."""
    instance = made(tmp_path / "instance")
    with instance.serving() as served:
        assert served.call("GET", D).status == 200  # its key is known from now on
        monkeypatch.setattr(WorkMeter, "is_flood", lambda self, who: True)
        monkeypatch.setattr(WorkMeter, "refused", lambda self, who: (0.01, too_many(50.0, 0.5)))
        reply = served.call("POST", f"{D}/price", {"query": {"where": "age > 30"}})
        assert (reply.status, reply.error) == (429, "LimitReached")
        assert reply.headers["connection"] == "close"
        assert float(reply.headers["retry-after"]) >= 0.5
        assert served.call("GET", "/v1/health", None, None).status == 200


def test_told_to_stop_nobody_waits_for_a_refusal():
    """Twenty seconds are over at once, then and for whoever comes."""

    async def main():
        waits = Waits()
        waiting = [asyncio.ensure_future(waits.wait(1e6)) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in waiting)
        waits.stop()
        await asyncio.gather(*waiting, waits.wait(1e6))

    asyncio.run(main())


@pytest.mark.parametrize(("many", "idle"), [(1, False), (FEW, False), (FEW + 1, True)])
def test_a_request_at_the_door_makes_room_only_if_it_is_one_of_many(many, idle):
    """Else the newest of a flood's connections would hang up on who has just come."""
    waiting = Timely.__new__(Timely)
    waiting.cycle, waiting.door, waiting._line = None, Door(), 1
    waiting.door._lines[1] = deque([None] * many)
    assert waiting.is_idle() is idle
    waiting._line = None
    assert waiting.is_idle()


def test_who_is_not_read_makes_room_first():
    """Before whoever is idle, the oldest first; and is forgotten when it goes."""
    gone = []

    def connection(name):
        made = Timely.__new__(Timely)
        made.transport = SimpleNamespace(abort=lambda: gone.append(name))
        made.cycle = None
        return made

    idle, first, second = map(connection, ("idle", "first", "second"))
    shared = {
        "held": dict.fromkeys([idle, first, second]),
        "refused": dict.fromkeys([first, second]),
    }
    for one in (idle, first, second):
        vars(one).update(shared)
    assert [idle._make_room() for _ in range(4)] == [True] * 3 + [False]
    assert gone == ["first", "second", "idle"]


@pytest.mark.parametrize("flood", [True, False])
def test_what_waited_at_the_door_is_looked_at_again(monkeypatch, flood):
    """A thousand that came at once are not all read because none was too many when they came."""
    done = []
    waiting = Timely.__new__(Timely)
    waiting.door, waiting.client = Door(), ("here", 1)
    waiting.door.know(BOB, 2)
    waiting.transport = SimpleNamespace(is_closing=lambda: False, resume_reading=lambda: None)
    waiting.meter = SimpleNamespace(is_flood=lambda person: flood)
    monkeypatch.setattr(Timely, "_take", lambda self, data: done.append("read"))
    monkeypatch.setattr(Timely, "_refuse_unread", lambda self, person: done.append(person))
    waiting._let_in(request(BOB))
    assert done == [2 if flood else "read"]


@pytest.mark.parametrize("refusing", [True, False])
def test_a_connection_that_waits_to_be_refused_may_make_room(refusing):
    """Else a thousand of one person, refused and not told yet, would lock everybody out."""
    waiting = Timely.__new__(Timely)
    context = RequestContext(refusing=refusing)
    waiting.cycle = SimpleNamespace(response_complete=False, scope={"sulq": context})
    assert waiting.is_idle() is refusing

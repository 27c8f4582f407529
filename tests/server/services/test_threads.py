"""Few threads, shared fairly: one at a time for each person; and what nobody pays for, metered."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from server.instance import made

from sulq.errors import LimitReached
from sulq.server.services import threads as threads_module
from sulq.server.services.answers import Answers
from sulq.server.services.scan_times import ScanTimes
from sulq.server.services.settings import Settings
from sulq.server.services.threads import FairThreads, MeteredThreads
from sulq.server.services.work_meter import WorkMeter


def test_a_person_has_one_thread_and_persons_take_turns():
    """A flood of one person's questions does not stand before another's first."""
    order, gate = [], threading.Event()

    def work(what):
        assert gate.wait(20)
        order.append(what)

    async def main():
        threads = FairThreads(1)
        sent = [asyncio.ensure_future(threads.run("a", work, f"a{i}")) for i in range(50)]
        sent += [asyncio.ensure_future(threads.run("b", work, "b0"))]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*sent)
        threads.close()

    asyncio.run(main())
    assert order.index("b0") <= 2
    assert len(order) == 51


def test_who_waits_and_goes_leaves_no_gap():
    """A turn that nobody wants any more is passed on."""

    async def main():
        threads, gate = FairThreads(1), threading.Event()
        first = asyncio.ensure_future(threads.run("a", gate.wait, 20))
        await asyncio.sleep(0)
        gone = asyncio.ensure_future(threads.run("b", gate.wait, 20))
        last = asyncio.ensure_future(threads.run("c", lambda: "done"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        gate.set()
        found = await asyncio.gather(first, last)
        threads.close()
        return found

    assert asyncio.run(main()) == [True, "done"]


def test_who_goes_at_the_moment_of_their_turn_leaves_no_gap(monkeypatch):
    """Neither is the thread lost, nor does whoever had it before hear of that."""

    async def main():
        job = asyncio.get_running_loop().create_future()
        threads = FairThreads(1)
        with monkeypatch.context() as patch:
            patch.setattr(threads_module, "run_in", lambda *_: job)
            first = asyncio.ensure_future(threads.run("a", list))
            await asyncio.sleep(0)
        gone = asyncio.ensure_future(threads.run("b", list))
        await asyncio.sleep(0)
        job.set_result("done")
        gone.cancel()
        found = await asyncio.gather(first, gone, return_exceptions=True)
        async with asyncio.timeout(20):
            found += [await threads.run(who, lambda: "read") for who in ("b", "c")]
        threads.close()
        return [type(one) if isinstance(one, BaseException) else one for one in found]

    assert asyncio.run(main()) == ["done", asyncio.CancelledError, "read", "read"]


def test_whoever_gives_up_has_the_thread_until_it_is_done():
    """Else one who asks and gives up, again and again, has them all."""
    most, now, lock, gate = [0], [0], threading.Lock(), threading.Event()

    def work():
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        assert gate.wait(20)
        with lock:
            now[0] -= 1

    async def main():
        threads = FairThreads(2)
        for _ in range(4):
            sent = asyncio.ensure_future(threads.run("a", work))
            await asyncio.sleep(0.02)
            sent.cancel()
            await asyncio.gather(sent, return_exceptions=True)
        async with asyncio.timeout(20):
            found = await threads.run("b", lambda: "read")
        gate.set()
        threads.close()
        return found

    try:
        assert asyncio.run(main()) == "read"
    finally:
        gate.set()
    assert most == [1]


def heard(found):
    """What each met: what it got, or the name of its error."""
    return [type(one).__name__ if isinstance(one, Exception) else one for one in found]


@pytest.mark.parametrize("seconds", [1.5, 0.0])
def test_who_waits_while_seconds_are_used_up_is_refused_in_turn(tmp_path, monkeypatch, seconds):
    """Each looks at what is left when its turn comes; where nothing is used, all are served."""
    clock = iter(range(100))
    monkeypatch.setattr(
        threads_module.time, "thread_time", lambda: next(clock) * seconds, raising=True
    )

    async def main():
        settings = Settings(tmp_path, rate=0.001, burst=2)
        meter = WorkMeter(SimpleNamespace(store=None), settings)  # two seconds
        metered = MeteredThreads(1, meter, 5)
        sent = [metered.run("a", lambda: "read") for _ in range(5)]
        found = await asyncio.gather(*sent, return_exceptions=True)
        metered.close()
        return heard(found)

    served = asyncio.run(main())
    assert served == (["read"] * 2 + ["LimitReached"] * 3 if seconds else ["read"] * 5)


def test_of_one_person_only_so_many_wait(tmp_path):
    """More are refused at once, and others are not."""

    async def main():
        meter = WorkMeter(SimpleNamespace(store=None), Settings(tmp_path))
        metered = MeteredThreads(1, meter, 3)
        go_on = threading.Event()
        sent = [asyncio.ensure_future(metered.run("a", go_on.wait)) for _ in range(8)]
        sent += [asyncio.ensure_future(metered.run("b", go_on.wait))]
        await asyncio.sleep(0)
        go_on.set()
        found = await asyncio.gather(*sent, return_exceptions=True)
        metered.close()
        return heard(found)

    assert asyncio.run(main()) == [True] * 3 + ["LimitReached"] * 5 + [True]


def test_told_to_stop_those_who_wait_are_refused_and_who_is_served_is_not():
    """Nobody's line is worked through first."""

    async def main():
        threads, go_on = FairThreads(1), threading.Event()
        sent = [asyncio.ensure_future(threads.run(who, go_on.wait, 60)) for who in "aab"]
        await asyncio.sleep(0)
        threads.stop()
        go_on.set()
        found = await asyncio.gather(*sent, return_exceptions=True)
        with pytest.raises(LimitReached, match="Nothing was charged"):
            await threads.run("c", go_on.wait)
        threads.close()
        return heard(found)

    assert asyncio.run(main()) == [True, "LimitReached", "LimitReached"]


def test_a_server_told_to_stop_reads_nothing_more(tmp_path, monkeypatch):
    """Of twelve prices that wait one is being read: eleven hear that it stops, and it stops.

    The one hears its price, or on a machine that is too busy to tell it in time, the same as they.
    """
    reading, go_on, read, came = threading.Event(), threading.Event(), [], threading.Semaphore(0)
    work, run, stop = ScanTimes.work, FairThreads.run, Answers.stop

    def slow(self, question, **known):
        read.append(question)
        reading.set()
        assert go_on.wait(60)
        return work(self, question, **known)

    async def counted(self, *arguments):
        came.release()
        return await run(self, *arguments)

    def stopped(self):
        stop(self)
        go_on.set()

    instance = made(tmp_path / "instance")
    with ThreadPoolExecutor(12) as pool, instance.serving(padding=True) as served:
        served.until_ready()
        monkeypatch.setattr(ScanTimes, "work", slow)
        monkeypatch.setattr(FairThreads, "run", counted)
        monkeypatch.setattr(Answers, "stop", stopped)
        body = {"query": {"where": "age > 30"}}
        asked = [
            pool.submit(served.call, "POST", "/v1/datasets/people/price", body) for _ in range(12)
        ]
        assert reading.wait(60)
        for _ in asked:
            assert came.acquire(timeout=60)
    statuses = sorted(one.result().status for one in asked)
    assert statuses[1:] == [429] * 11
    assert statuses[0] in (200, 429)
    assert len(read) == 1

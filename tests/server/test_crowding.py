"""Who waits is worked on together, nobody waits for a thread that is free, errors are one's own."""

import asyncio

import pytest
from server.house import made

from sulq.server import crowding
from sulq.server.crowding import Crowding


def test_those_who_arrive_meanwhile_go_together():
    batches = []

    async def main():
        gate = asyncio.Event()

        async def work(some):
            batches.append(list(some))
            await gate.wait()
            return [x * 10 for x in some]

        crowd = Crowding(work)
        tasks = []
        for i in range(crowding.USUAL):  # each a thread of its own, while there are some
            tasks.append(asyncio.create_task(crowd.ask(i)))
            while len(batches) <= i:
                await asyncio.sleep(0)
        tasks += [asyncio.create_task(crowd.ask(i)) for i in range(crowding.USUAL, 10)]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [i * 10 for i in range(10)]
    alone = [[i] for i in range(crowding.USUAL)]
    assert batches == [*alone, list(range(crowding.USUAL, 10))]


def test_an_error_is_ones_own_and_the_next_are_answered():
    async def work(some):
        if "all" in some:
            raise RuntimeError("all")
        return [ValueError(x) if x == "bad" else x for x in some]

    async def main():
        crowd = Crowding(work)
        first = await asyncio.gather(*map(crowd.ask, ("a", "bad")), return_exceptions=True)
        with pytest.raises(RuntimeError):
            await crowd.ask("all")
        return first, await crowd.ask("z")

    (a, bad), z = asyncio.run(main())
    assert (a, str(bad), z) == ("a", "bad", "z")


def test_a_long_scan_does_not_hold_up_the_rest(monkeypatch):
    monkeypatch.setattr(crowding, "LONG_SECONDS", 0.001)

    async def main():
        stuck = asyncio.Event()

        async def work(some):
            if "slow" in some:
                await stuck.wait()
            return list(some)

        crowd = Crowding(work)
        slow = [asyncio.create_task(crowd.ask("slow")) for _ in range(2)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(crowd.ask("quick"), 10) == "quick"
        stuck.set()
        return await asyncio.gather(*slow)

    assert asyncio.run(main()) == ["slow", "slow"]


def test_one_who_leaves_is_not_missed():
    async def main():
        gate = asyncio.Event()

        async def work(some):
            await gate.wait()
            return list(some)

        crowd = Crowding(work)
        gone = asyncio.create_task(crowd.ask(1))
        await asyncio.sleep(0)
        gone.cancel()
        stays = asyncio.create_task(crowd.ask(2))
        gate.set()
        return await stays

    assert asyncio.run(main()) == 2


def test_refusals_and_answers_of_one_moment_find_their_askers(tmp_path):
    """Good and bad questions at once over HTTP: each gets its own reply."""
    from concurrent.futures import ThreadPoolExecutor

    asked = {f"age > {i}": 200 for i in range(10)} | {f"nothing > {i}": 422 for i in range(10)}
    with made(tmp_path / "house", queries=100).serving(at_once=64, slots=16) as house:
        with ThreadPoolExecutor(20) as pool:
            replies = dict(zip(asked, pool.map(house.ask, asked), strict=True))
        assert {where: reply.status for where, reply in replies.items()} == asked
        for where, reply in replies.items():
            if reply.status == 200:
                assert house.ask(where).json["answer"]["exact"] == reply.json["answer"]["exact"]

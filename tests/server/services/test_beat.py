"""Batches on a beat: who is in one, when it begins and when its replies leave; by a fake clock."""

import asyncio
import threading
import warnings

import pytest
from attacks.harness import SCHEMA, people
from server.clock import FakeClock

import sulq
from sulq.errors import Late, LimitReached
from sulq.pipeline import Order
from sulq.server.services import beat as beats
from sulq.server.services.beat import Beat, Line, Place
from sulq.server.services.windows import Slot, Window

SLOT = Slot(1.0, 0.6)


def beating(clock, scans, *, slot=SLOT, missed=None, late=True, log=None, **said):
    """A beat whose n-th batch takes so many seconds to scan; `log` gets what each batch had.

    `scans` may also say what a batch takes by what is asked in it.
    """
    left = None if callable(scans) else iter(scans)

    def window(batch):
        if slot is None:
            return None
        return Window(slot, clock, threading.Event(), missed)

    async def work(asked, window):
        begun = clock.now()
        await clock.scan(window, scans(asked) if left is None else next(left))
        if log is not None:
            log.append((begun, list(asked), clock.now()))
        return [f"answer to {one}" for one in asked]

    async def said_late(asked, window):
        late = Late("late", window.slot.seconds)
        return [f"{one} is settled" if "settled" in one else late for one in asked]

    async def aside(look):
        look()

    return Beat(
        lambda asked, window: asyncio.ensure_future(work(asked, window)), window,
        late=said_late if late else None, aside=aside, queue=1000, wait_seconds=1000.0,
        clock=clock, **said,
    )  # fmt: skip


async def asks(clock, beat, at, what, who="bob", kind="plain", weight=1.0, came=None):
    """What is asked at this moment hears, and when."""
    await clock.until(at)
    try:
        found = await beat.ask(who, kind, weight, what, came=came)
    except (Late, LimitReached) as error:
        found = type(error).__name__
    return found, round(clock.now(), 9)


def driven(clock, *tasks):
    return asyncio.run(clock.drive(*tasks))


def replied(seconds, **said):
    """When the reply to a lone question leaves whose scan takes so long, after its batch began."""

    async def main():
        clock, log = FakeClock(), []
        beat = beating(clock, [seconds], log=log, **said)
        ((found, left),) = await clock.drive(asks(clock, beat, 5.0, "a"))
        return found, round(left - log[0][0], 9) if log else None

    return asyncio.run(main())


@pytest.mark.parametrize("seconds", [0.0, 1e-6, 0.1, 0.599, 0.6])
def test_a_reply_leaves_at_the_end_of_the_period_however_long_the_scan_took(seconds):
    """To the last digit."""
    assert replied(seconds) == ("answer to a", 1.0)


@pytest.mark.parametrize("told", [True, False], ids=["", "control"])
def test_a_reply_leaves_at_the_same_moment_however_long_the_question_took_to_read(told):
    """One that was asked before is read quicker; from when it came on they last equally long."""

    def left(reading_seconds):
        clock = FakeClock()
        at, came = 5.0 + reading_seconds, 5.0 if told else None
        beat = beating(clock, [0.1])
        ((_, left),) = asyncio.run(clock.drive(asks(clock, beat, at, "a", came=came)))
        return left

    assert (len({left(s) for s in (0.0001, 0.0004, 0.0012, 0.0029)}) == 1) is told


def beside_another(seconds, at, slot=SLOT):
    """When anna's replies leave, who asks all the time, and bob's, whose rows take so long."""

    async def main():
        clock = FakeClock()
        beat = beating(clock, lambda asked: seconds if "bob's" in asked else 0.1, slot=slot)

        async def anna():
            left = [0.0]
            while left[-1] < 12.0:
                left.append((await asks(clock, beat, left[-1] + 0.01, "anna's", "anna"))[1])
            return left

        return await clock.drive(anna(), asks(clock, beat, at, "bob's"))

    return asyncio.run(main())


@pytest.mark.parametrize("at", [5.0 + k / 16 for k in range(17)])
def test_while_another_asks_every_reply_leaves_when_it_would_whatever_rows_take(at):
    """Bob's own and all of the other's, to the last digit, at whatever moment he asks."""
    assert beside_another(0.0, at) == beside_another(0.599, at)


def test_control_without_a_period_the_others_replies_tell_too():
    """The same clock sees bob's rows in what anna hears."""
    (quick, _), (slow, _) = (beside_another(s, 5.0, slot=None) for s in (0.0, 0.599))
    assert quick != slow


def test_control_without_a_period_time_tells():
    """The same clock sees every scan where replies leave at once."""
    taken = [replied(seconds, slot=None)[1] for seconds in (0.1, 0.599)]
    assert taken == [0.1, 0.599]


def visible(seconds):
    """A late question asked again at once: when the first batch is over, and the next begins."""

    async def main():
        clock, log = FakeClock(), []
        beat = beating(clock, [seconds, 0.0], log=log)
        (first, left), (again, _) = await clock.drive(
            asks(clock, beat, 0.0, "a"), asks(clock, beat, 1.5, "a again")
        )
        start = log[0][0]
        return first, round(left - start, 6), again, round(log[0][2] - start, 6), log[1][0] - start

    return asyncio.run(main())


def test_what_is_late_says_so_on_the_beat_and_is_stored_after_1_3_7_periods():
    """Never at the moment it is done: all scans within one step look the same."""
    for lower, upper, stored in ((0.6, 1.6, 1.6), (1.6, 3.6, 3.6), (3.6, 7.6, 7.6)):
        seen = {visible(lower + share * (upper - lower)) for share in (1e-6, 0.3, 0.7, 0.999)}
        ((first, left, again, at, begins),) = {
            (f, le, a, s, round(b, 3)) for f, le, a, s, b in seen
        }
        assert (first, left, again, at) == ("Late", 1.0, "answer to a again", stored)
        assert begins >= stored


def test_the_time_of_a_scan_is_over_when_its_share_is_however_long_it_took():
    """What is done between batches waits for that moment, not for the scan."""

    def seen(seconds):
        async def main():
            clock, moments = FakeClock(), []
            beat = beating(clock, [seconds])

            async def look():
                for k in range(12):
                    await clock.until(5.05 + k / 10)
                    moments.append(beat.reading)

            await clock.drive(asks(clock, beat, 5.0, "a"), look())
            return moments

        return asyncio.run(main())

    quick, slow = seen(0.0), seen(0.59)
    assert quick == slow == [True] * 8 + [False] * 4


def looked_into(seconds, looking):
    """What is told of a scan that takes so long, when, and when the next batch begins."""
    clock, told, log = FakeClock(), [], []

    def missed(took):
        told.append((round(took, 9), round(clock.now(), 3)))
        clock.time += looking
        return lambda: told.append(round(clock.now(), 3))

    async def main():
        beat = beating(clock, [seconds, 0.0], missed=missed, log=log)
        return await clock.drive(asks(clock, beat, 0.0, "a"), asks(clock, beat, 1.5, "b"))

    (first, _), (then, _) = asyncio.run(main())
    assert (first, then) == ("Late", "answer to b")
    return told, round(log[1][0] - log[0][0], 3)


def test_a_miss_is_looked_into_once_it_is_stored():
    """How long that takes shows no more than how long the scan did: what follows is late too."""
    for looking, begins in ((0.0, 1.6), (1e-3, 3.6), (1.9, 3.6), (2.1, 7.6)):
        for seconds in (0.61, 1.59):
            ((took, at), followed), began = looked_into(seconds, looking)
            assert (took, began) == (pytest.approx(seconds), pytest.approx(begins, abs=0.01))
            assert at == pytest.approx(1.6, abs=0.01)
            assert followed == pytest.approx(begins, abs=0.01)


def heard_while_somebody_sends_too_much(seconds, crowded=True):
    """What is heard of a scan that takes so long, and of what needed none, and when."""

    async def main():
        clock = FakeClock()
        beat = beating(clock, [seconds], crowded=lambda: crowded)
        found = await clock.drive(
            asks(clock, beat, 0.0, "a"), asks(clock, beat, 0.0, "settled", "anna")
        )
        return [(what, round(left - (found[1][1] - 1.0), 3)) for what, left in found]

    return asyncio.run(main())


def test_while_somebody_sends_too_much_what_misses_its_period_has_more_time(monkeypatch):
    """It leaves at a public moment, whenever it was done before; what is settled does not wait."""
    settled = ("settled is settled", 1.0)
    for patience, last in ((0.25, 1.6), (0.9, 3.6)):
        monkeypatch.setattr(beats, "PATIENCE_SECONDS", patience)
        for lower, upper in ((0.6, 1.6), (1.6, 3.6), (3.6, 7.6)):
            heard = ("Late", last) if upper > last else ("answer to a", upper)
            for share in (0.001, 0.5, 0.999):
                seconds = lower + share * (upper - lower)
                assert heard_while_somebody_sends_too_much(seconds) == [heard, settled]


def test_control_else_it_is_late_at_once():
    """Nobody is in the way, so it is said when the slot is over."""
    assert heard_while_somebody_sends_too_much(0.601, crowded=False)[0] == ("Late", 1.0)


def test_what_is_free_is_waited_for_and_leaves_at_a_public_moment():
    """Nothing was charged, so there is nothing to come back for."""

    async def main(seconds):
        clock = FakeClock()
        beat = beating(clock, [seconds], late=False)
        ((found, left),) = await clock.drive(asks(clock, beat, 0.0, "a"))
        return found, round(left, 3)

    assert asyncio.run(main(0.7)) == asyncio.run(main(1.5))
    assert asyncio.run(main(0.1))[1] < asyncio.run(main(0.7))[1]


def test_a_slow_disk_is_nobodys_secret():
    """A charge that takes long delays the scan; what is read in time after it is not late."""
    clock = FakeClock()

    async def main():
        window = Window(SLOT, clock, threading.Event())
        beat = beating(clock, [])
        work = asyncio.ensure_future(clock.scan(window, 0.3, pay_seconds=2.0))
        (late,) = await clock.drive(beat._is_late(window, work))
        return late, clock.now()

    late, at = asyncio.run(main())
    assert (late, at) == (False, pytest.approx(2.6))


def test_questions_that_come_together_are_one_batch():
    """The one that comes a moment later is waited for; the one that comes too late is not."""
    clock, log = FakeClock(), []

    async def main():
        beat = beating(clock, [0.1, 0.1], log=log)
        return await clock.drive(
            *(asks(clock, beat, at, what, who=what)
              for at, what in ((0.0, "a"), (0.001, "b"), (0.0025, "c"), (0.5, "d")))
        )  # fmt: skip

    replies = asyncio.run(main())
    assert [asked for _, asked, _ in log] == [["a", "b", "c"], ["d"]]
    assert len({left for _, left in replies[:3]}) == 1
    assert replies[3][1] > replies[0][1]


def test_a_stream_of_questions_holds_no_batch_back_for_long():
    """Gathering ends, however many come."""
    clock, log = FakeClock(), []

    async def main():
        beat = beating(clock, [0.0] * 9, log=log)
        every = [asks(clock, beat, 0.001 * i, i, who=i % 7) for i in range(60)]
        await clock.drive(*every)

    asyncio.run(main())
    assert log[0][0] <= beats.GATHER_SECONDS + 2 * beats.STEP_SECONDS


@pytest.mark.parametrize("counted", [True, False], ids=["", "control"])
def test_who_has_questions_enough_for_a_batch_is_not_waited_for(monkeypatch, counted):
    """However many more they send, and however many of theirs are being read."""
    if not counted:
        monkeypatch.setattr(Line, "has_share", lambda self, who: False)
    clock, log = FakeClock(), []

    async def main():
        beat = beating(clock, [0.0] * 90, log=log)
        stream = [asks(clock, beat, 0.0005 * i, i, weight=9.0) for i in range(60)]
        with beat.coming("bob"):
            await clock.drive(*stream, asks(clock, beat, 0.0, "anna's", "anna"))

    asyncio.run(main())
    soon = 2 * beats.QUIET_SECONDS + 2 * beats.STEP_SECONDS
    assert (log[0][0] <= soon) is counted
    assert "anna's" in log[0][1]


# ---- who is in a batch ----------------------------------------------------------------------


def line(*places):
    loop = asyncio.new_event_loop()
    made = Line()
    for who, kind, weight, what in places:
        made.add(Place(who, kind, weight, what, loop.create_future()))
    loop.close()
    return made


def batch(made):
    return [place.asked for place in made.batch()]


def test_persons_take_turns_whatever_each_has_sent():
    """A thousand of one person's questions do not stand before another's first."""
    made = line(*(("a", "plain", 1.0, f"a{i}") for i in range(1000)), ("b", "plain", 1.0, "b0"),
                ("c", "plain", 1.0, "c0"))  # fmt: skip
    first = batch(made)
    assert first[:3] == ["b0", "c0", "a0"]  # who has many comes after who has not
    assert len(first) == beats.AMONG_OTHERS + 2  # nobody has more than a share where others ask


def test_control_in_the_order_of_arrival_one_person_has_it_all():
    """What a queue without turns would give."""
    made = line(*(("one", "plain", 1.0, f"a{i}") for i in range(1000)), ("one", "plain", 1.0, "b0"))
    assert "b0" not in batch(made)


@pytest.mark.parametrize(("who", "soon"), [("anna", True), ("bob", False)], ids=["", "control"])
def test_a_thousand_questions_of_one_delay_another_by_two_beats_at_most(who, soon):
    """Whenever it is asked; as one more of the same person it waits for dozens of batches."""

    async def main(at):
        clock = FakeClock()
        beat = beating(clock, [0.1] * 200)
        bobs = [asks(clock, beat, 0.0, i) for i in range(999)]
        (*_, (_, left)) = await clock.drive(*bobs, asks(clock, beat, at, "mine", who))
        return left - at

    waits = [asyncio.run(main(at)) for at in (0.0, 0.3, 0.81, 2.4)]
    assert all((wait <= 3 * SLOT.seconds) is soon for wait in waits)


def test_dear_questions_have_batches_of_their_own_and_take_turns_with_cheap_ones():
    """Who asks for much does not lengthen the slot of who asks for little."""
    made = line(("a", "dear", 40.0, "d0"), ("a", "dear", 40.0, "d1"), ("b", "plain", 1.0, "p0"),
                ("c", "kernel", 3.0, "k0"))  # fmt: skip
    assert [batch(made) for _ in range(4)] == [["p0"], ["k0"], ["d0"], ["d1"]]
    assert len(made) == 0


@pytest.mark.parametrize("along", [True, False], ids=["", "control"])
def test_plain_questions_go_along_with_a_dear_one(monkeypatch, along):
    """They would wait for it, and for a slot of their own after it."""
    if not along:
        monkeypatch.setattr(beats, "DEAR", None)
    made = line(*(("bob", "dear", 40.0, f"d{i}") for i in range(3)))
    loop = asyncio.new_event_loop()
    found = []
    for _ in range(8):
        if not any("anna" in waiting for waiting in made._kinds.values()):
            made.add(Place("anna", "plain", 1.0, "anna's", loop.create_future()))
        found.append(batch(made))
    loop.close()
    theirs = ["d0", "d1"]
    assert [asked for asked in found if asked != ["anna's"]] == [
        [one, "anna's"] if along else [one] for one in theirs
    ]


def test_none_go_along_with_what_is_computed_row_by_row():
    """They would be computed so too, which takes far longer than a scan."""
    made = line(("b", "kernel", 3.0, "k0"), ("b", "kernel", 3.0, "k1"))
    assert batch(made) == ["k0", "k1"]
    made = line(*(("b", "kernel", 40.0, f"k{i}") for i in range(9)))
    loop = asyncio.new_event_loop()
    for _ in range(8):
        if not any("anna" in waiting for waiting in made._kinds.values()):
            made.add(Place("anna", "plain", 1.0, "anna's", loop.create_future()))
        assert len(batch(made)) == 1
    loop.close()


def test_what_goes_along_makes_no_batch_heavier_than_others():
    """Of the dear one's own person nothing more, of others a share each, and so many in all."""
    others = [(who, "plain", 3.0, who) for who in "acdefghijklmnopqrstu" for _ in range(9)]
    mine = [("b", "plain", 1.0, f"b{i}") for i in range(20)]
    made = line(*(("b", "dear", 14.0, f"d{i}") for i in range(2)), *mine, *others)
    kinds = []
    while not kinds or "dear" not in kinds[-1]:
        taken = made.batch()
        kinds.append([place.kind for place in taken])
    assert sum(place.weight for place in taken) <= beats.MAX_WEIGHT
    assert len(taken) <= beats.MAX_BATCH
    assert [place.asked for place in taken if place.who == "b"] == ["d0"]
    assert {place.kind for place in taken} == {"dear", "plain"}


@pytest.mark.parametrize("kinds", [["dear"], ["dear", "kernel"], ["plain", "dear", "kernel"]])
def test_who_asks_again_after_each_reply_has_every_second_batch(kinds):
    """Whatever kinds another's thousand are of, who comes back is before who was answered since."""
    made = line(*(("bob", kind, 40.0, i) for i in range(300) for kind in kinds))
    batch(made)
    loop = asyncio.new_event_loop()
    for _ in range(6):
        made.add(Place("anna", "plain", 1.0, "anna's", loop.create_future()))
        assert "anna's" in batch(made)
        assert "anna's" not in batch(made)  # it begins before her reply leaves
    loop.close()


def test_who_is_back_in_time_comes_before_who_has_many_but_for_every_fourth_batch():
    """The one with many waits for two batches more, and not for three."""
    made = line(*(("bob", "dear", 40.0, i) for i in range(30)))
    loop = asyncio.new_event_loop()
    batches = []
    for _ in range(12):
        if not any("anna" in waiting for waiting in made._kinds.values()):
            made.add(Place("anna", "plain", 1.0, "anna's", loop.create_future()))
        batches.append(batch(made) == ["anna's"])
    loop.close()
    assert batches == [True, True, True, False] * 3


@pytest.mark.parametrize("crowded", [True, False], ids=["", "control"])
def test_who_asks_again_while_another_sends_too_much_is_in_the_next_batch(crowded):
    """It waits a moment for them after their reply; else it would begin without them."""
    clock, log = FakeClock(), []

    async def annas(beat):
        for i in range(4):
            await beat.ask("anna", "plain", 1.0, f"anna {i}")
            await clock.until(clock.now() + beats.AGAIN_SECONDS / 2)

    async def main():
        slot = Slot(1.0, 0.99)
        beat = beating(clock, [0.1] * 30, slot=slot, log=log, crowded=lambda: crowded)
        bobs = (asks(clock, beat, 0.2 * i, i) for i in range(40))
        await clock.drive(annas(beat), *bobs)

    asyncio.run(main())
    annas_batches = [
        i for i, (_, asked, _) in enumerate(log) if any("anna" in str(a) for a in asked)
    ]
    assert (annas_batches == [0, 1, 2, 3]) is crowded


def test_a_batch_weighs_so_much_at_most_unless_one_question_does():
    """What one person adds to it is capped at half."""
    made = line(*((who, "plain", 10.0, f"{who}{i}") for who in "abc" for i in range(5)))
    first = batch(made)
    assert sum(10.0 for _ in first) <= beats.MAX_WEIGHT
    assert max(sum(10.0 for w in first if w[0] == who) for who in "abc") <= beats.MAX_WEIGHT / 2
    heavy = line(("a", "plain", 500.0, "a"), ("b", "plain", 1.0, "b"))
    assert [batch(heavy), batch(heavy)] == [["a"], ["b"]]


def test_while_others_are_about_one_persons_dear_questions_make_no_long_batch():
    """Who asks cheap ones, one after the other, waits for less; alone one has more at once."""
    made = line(*(("bob", "dear", 8.0, f"b{i}") for i in range(60)))
    assert len(batch(made)) == beats.ALONE // 8
    loop = asyncio.new_event_loop()
    made.add(Place("anna", "plain", 1.0, "a", loop.create_future()))
    loop.close()
    sizes = [len(batch(made)) for _ in range(beats.ABOUT + 4)]
    assert sizes[:2] == [1, beats.AMONG_OTHERS // 8]  # she was not answered yet
    assert set(sizes[2 : beats.ABOUT]) == {beats.AMONG_OTHERS // 8}
    assert sizes[-1] == beats.ALONE // 8


def test_questions_that_are_alike_weigh_what_they_share_once():
    """Sixteen of one person go into one batch, where sixteen that share nothing do not."""

    def first(shapes):
        loop = asyncio.new_event_loop()
        made = Line()
        for i, shape in enumerate(shapes):
            made.add(Place("a", "plain", 1.0, i, loop.create_future(), shape, 10.0))
        loop.close()
        return len(batch(made))

    assert first(["s"] * 20) == beats.MAX_EACH
    assert first(range(20)) == 2  # 22 of 32


def test_the_next_batch_begins_when_the_time_of_the_scan_is_over():
    """Whatever the scan took, and before the replies of the batch before leave."""

    async def main(seconds):
        clock, log = FakeClock(), []
        beat = beating(clock, [seconds, 0.0], log=log)
        (_, first), (_, second) = await clock.drive(
            asks(clock, beat, 0.0, "a"), asks(clock, beat, 0.3, "b")
        )
        start = log[0][0]
        return first - start, second - start

    found = {asyncio.run(main(seconds)) for seconds in (0.0, 0.2, 0.6)}
    assert len(found) == 1
    ((first, second),) = found
    assert (first, second) == (pytest.approx(1.0), pytest.approx(1.8, abs=0.01))


@pytest.mark.parametrize("others", [False, True], ids=["", "control"])
def test_who_is_alone_and_has_sent_all_that_a_batch_takes_is_not_made_to_wait(others):
    """Whoever else asked of late may be just coming, and is waited for."""
    clock, log = FakeClock(), []

    async def main():
        beat = beating(clock, [0.0] * 9, log=log)
        if others:
            await clock.drive(asks(clock, beat, 0.0, "anna's", "anna"))
        at, many = clock.now() + 1.0, beats.MAX_EACH
        await clock.drive(*(asks(clock, beat, at, i) for i in range(many)))
        begun, asked, _ = log[others]
        return begun - at, len(asked)

    waited, many = asyncio.run(main())
    assert many == (beats.AMONG_OTHERS if others else beats.MAX_EACH)
    assert (waited < beats.QUIET_SECONDS / 2) is not others  # a look every millisecond


def failing_once(what):
    """Raises when it is called first, and then does what it should."""
    calls = []

    def call(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise RuntimeError("once")
        return what(*arguments)

    return call


@pytest.mark.parametrize("where", ["_window", "_work"])
def test_a_batch_that_cannot_begin_is_told_so_and_the_next_one_begins(where):
    """Nobody is forgotten: neither who was in it nor who waits."""

    async def main():
        clock = FakeClock()
        beat = beating(clock, [0.1] * 3)
        beat._gather = quick_gather(clock)
        setattr(beat, where, failing_once(getattr(beat, where)))
        return await clock.drive(heard(clock, beat, 0.0, "a"), heard(clock, beat, 0.5, "b"))

    async def heard(clock, beat, at, what):
        await clock.until(at)
        try:
            return await beat.ask("bob", "plain", 1.0, what)
        except RuntimeError as error:
            return str(error)

    def quick_gather(clock):
        async def gather():
            return clock.now()

        return gather

    assert asyncio.run(main()) == ["once", "answer to b"]


def test_what_fails_between_batches_keeps_nobody_waiting():
    """It is told to the event loop, which has a log."""
    said = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, about: said.append(about))
        clock = FakeClock()
        beat = beating(clock, [0.1], between=failing_once(lambda: None))
        return await clock.drive(asks(clock, beat, 0.0, "a"))

    (found,) = asyncio.run(main())
    assert found[0] == "answer to a"
    assert [str(about["exception"]) for about in said] == ["once"]


def test_a_full_queue_is_refused_and_waiting_ends():
    """Nobody waits for ever, and nobody's place is kept who has gone."""

    async def main():
        gate = asyncio.Event()

        async def work(asked, window):
            await gate.wait()
            return asked

        beat = Beat(
            lambda asked, window: asyncio.ensure_future(work(asked, window)), lambda batch: None,
            queue=2, wait_seconds=0.05,
        )  # fmt: skip
        first = asyncio.ensure_future(beat.ask("a", "", 1.0, "first"))
        await asyncio.sleep(0.01)
        waiting = [asyncio.ensure_future(beat.ask("a", "", 1.0, i)) for i in range(3)]
        await asyncio.sleep(0)
        gone = waiting[1]
        gone.cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        left = beat.waiting
        gate.set()
        return found, left, await first

    (waited, gone, full), left, first = asyncio.run(main())
    assert (type(waited), type(full), first, left) == (LimitReached, LimitReached, "first", 0)
    assert isinstance(gone, asyncio.CancelledError)
    assert str(waited) != str(full)


def test_a_batch_that_fails_is_heard_of_by_all_in_it():
    """What nobody thought of reaches everybody who waits, and the next batch goes on."""

    async def main():
        async def work(asked, window):
            if asked[0] == "bad":
                raise RuntimeError("nobody thought of it")
            return asked

        beat = Beat(
            lambda asked, window: asyncio.ensure_future(work(asked, window)), lambda batch: None,
            queue=9, wait_seconds=9.0,
        )  # fmt: skip
        bad = await asyncio.gather(beat.ask("a", "", 1.0, "bad"), return_exceptions=True)
        return bad[0], await beat.ask("a", "", 1.0, "good")

    bad, good = asyncio.run(main())
    assert (type(bad), good) == (RuntimeError, "good")


# ---- what is stored -------------------------------------------------------------------------


def test_stored_answers_are_laid_out_at_the_same_moment_as_new_ones():
    """The time for a scan is waited for whether one is needed or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        db = sulq.open(people(50), schema=SCHEMA, epsilon=1, delta=1e-6, queries=9)
    orders, seen = [Order(db.question(sulq.Query(where="secret")))], []

    class Watch:
        def begin(self, known):
            seen.append([None if one is None else one.value for one in known])

        def end(self):
            seen.append("end")

    (first,), (again,) = (db.answer_all(orders, timing=Watch()) for _ in range(2))
    assert first.value == again.value
    assert seen == [[None], "end", [first.value], "end"]

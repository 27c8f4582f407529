"""Slots: from what was measured, on a public scale; longer on a slow machine."""

import numpy as np
import pytest
from scipy import stats
from server.instance import made

from sulq.errors import LimitReached
from sulq.privacy.promise import Promise
from sulq.server.services.settings import Settings
from sulq.server.services.slots import (
    DEAR,
    FACTOR,
    KERNEL,
    OVERLOADED,
    PLAIN,
    SHORTEST,
    SLACK,
    STEP,
    Pace,
    Slots,
    Work,
    pace_of,
    random_delay,
)

PACE = Pace(rows=1000, shared=0.002, count=0.003, batch=0.004, each=0.0005, number=1e-5)
COUNT = Work(0.003, 1)


def test_a_period_is_a_small_factor_of_what_the_whole_batch_takes(tmp_path):
    """And no more than a step longer; what its scan may take is in proportion."""
    slots = Slots(PACE, Settings(tmp_path))
    for works in ([COUNT], [COUNT] * 16, [Work(0.2, 4000), COUNT]):
        slot, whole = slots.of(works), PACE.whole(works)
        most = FACTOR * whole + SLACK
        assert most <= slot.seconds * (1 + 1e-4)
        assert slot.seconds <= STEP * most
        rest = FACTOR * (whole - PACE.scan(works))
        assert slot.seconds - slot.scan_seconds == pytest.approx(rest)
        assert slot.scan_seconds >= FACTOR * PACE.scan(works)
    assert slots.of([]).seconds >= SHORTEST
    assert slots.of_a_count() == slots.of([COUNT]).seconds


def test_an_overload_makes_periods_longer_by_a_moment(tmp_path):
    """While somebody is refused for sending too much the scan has more time, and only it."""
    slots = Slots(PACE, Settings(tmp_path))
    alone, overloaded = slots.of([COUNT]), slots.of([COUNT], overloaded=True)
    more = overloaded.seconds - alone.seconds
    assert abs(more - OVERLOADED) <= (STEP - 1) * overloaded.seconds < OVERLOADED
    assert overloaded.scan_seconds - alone.scan_seconds == pytest.approx(more)
    fixed = Slots(None, Settings(tmp_path, deadline_seconds=0.5))
    assert fixed.of([COUNT]) == fixed.of([COUNT], overloaded=True)


def test_questions_of_one_scan_share_what_they_share():
    """Sixteen counts are far from sixteen scans."""
    assert PACE.scan([COUNT] * 16) == pytest.approx(0.002 + 16 * 0.001)


def test_questions_that_are_alike_share_more_than_others_do():
    """What reading their columns takes is there once, however many there are."""
    alike, other = (Work(0.006, 1, more=0.0005, shape=shape) for shape in (b"a", b"b"))
    assert PACE.scan([alike]) == pytest.approx(0.006)
    assert PACE.scan([alike] * 16) == pytest.approx(0.006 + 15 * 0.0005)
    assert PACE.scan([alike, other]) == pytest.approx(0.002 + 2 * 0.004)
    adds, begins = PACE.weight(alike)
    count = 0.0005 + 1e-5 + 0.001
    assert (adds, begins) == (pytest.approx((0.0005 + 1e-5 + 0.0005) / count),
                              pytest.approx(0.0035 / count))  # fmt: skip


def test_a_period_may_be_set_by_hand_or_not_be_there(tmp_path):
    """`deadline_seconds` is the same for all; without padding there is none."""
    by_hand = Slots(None, Settings(tmp_path, deadline_seconds=0.5))
    assert by_hand.of([COUNT] * 9).seconds == by_hand.of_one(COUNT) == 0.5
    none = Slots(PACE, Settings(tmp_path, padding=False))
    assert none.of([COUNT]) is none.of_one(COUNT) is none.of_a_count() is None


def test_a_question_that_takes_too_long_is_refused(tmp_path):
    """Before anything is charged."""
    slots = Slots(PACE, Settings(tmp_path, longest_seconds=2.0))
    with pytest.raises(LimitReached, match="Nothing was charged"):
        slots.of_one(Work(5.0, 1))


def test_cheap_and_dear_questions_are_told_apart(tmp_path):
    """By what they take on made-up rows, in plain counts."""
    slots = Slots(PACE, Settings(tmp_path))
    assert slots.place(COUNT) == (PLAIN, pytest.approx(1.0), 0.0)
    assert slots.place(Work(0.1, 1))[0] == DEAR
    assert slots.place(Work(0.1, 1, more=0.001, shape=b"s"))[0] == DEAR  # if it is the first
    assert slots.place(Work(0.004, 1, kernel=True))[0] == KERNEL


def test_a_slow_machine_lengthens_by_twos_up_to_a_limit_and_recovers(tmp_path):
    """Each step is public, and what was measured stays what it was."""
    slots = Slots(PACE, Settings(tmp_path, longest_seconds=0.15))
    short, scan = slots.of_a_count(), slots.of([COUNT]).scan_seconds
    assert [slots.lengthen() for _ in range(4)] == [True, True, False, False]
    assert (slots.longer, slots.of_a_count()) == (4, pytest.approx(4 * short))
    assert not slots.recover(3 * scan)  # it would not fit half of that
    assert slots.longer == 4
    assert not slots.recover(1.5 * scan)
    assert slots.longer == 2
    assert slots.recover(PACE.count)
    assert slots.of_a_count() == short


def test_a_machine_that_is_far_slower_lengthens_at_once(tmp_path):
    """Ten times as slow is sixteen times as long: one late batch, not four."""
    slots = Slots(PACE, Settings(tmp_path))
    assert slots.lengthen(10.0)
    assert slots.longer == 16


def test_the_quickest_measurement_of_the_same_rows_counts(tmp_path):
    """A busy moment makes no slot longer; other rows begin anew."""
    slots = Slots(PACE, Settings(tmp_path))
    busy = Pace(1000, 0.02, 0.03, 0.001, 0.005, 1e-4)
    assert slots.measure_again(busy) == Pace(1000, 0.002, 0.003, 0.001, 0.0005, 1e-5)
    other = Pace(2000, 0.02, 0.03, 0.04, 0.005, 1e-4)
    assert slots.measure_again(other) == other


def test_what_was_measured_is_kept_for_as_many_rows(tmp_path):
    """After a refresh, or from a folder of before, it is measured again."""
    assert pace_of(PACE.to_json(), 1000) == PACE
    assert pace_of(PACE.to_json(), 1001) is None
    assert pace_of('{"scan": 1, "letter": 1, "value": 1, "number": 1}', 1000) is None
    assert pace_of(None, 1000) is None


def test_the_papers_delay_has_its_mean_and_its_deviation():
    """Normal, mean t_max sqrt(R) ln(T/delta), deviation t_max sqrt(R). False alarm 1e-9."""
    promise, rows, seconds = Promise(1.0, 1e-6, 100), 1000, 0.5
    draws = np.array([random_delay(seconds, rows, promise) for _ in range(20_000)])
    std = seconds / FACTOR / rows * promise.std
    mean = std * np.log(100 / 1e-6)
    z = (draws.mean() - mean) / (std / np.sqrt(len(draws)))
    assert abs(z) < 6.2
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], len(draws) - 1) / (len(draws) - 1)
    assert low < draws.var(ddof=1) / std**2 < high
    wrong = (draws.mean() - 1.05 * mean) / (std / np.sqrt(len(draws)))
    assert abs(wrong) > 6.2  # and a mean 5% off would be noticed


D = "/v1/datasets/people"


def test_periods_are_public_and_whether_there_are_any(tmp_path):
    """Beside the price, in the description, and in the health of the server."""
    instance = made(tmp_path / "instance")
    with instance.serving(padding=True, deadline_seconds=0.125) as served:
        price = served.call("POST", f"{D}/price", {"query": {"where": "secret"}}).json
        assert price["deadline_seconds"] == 0.125
        said = served.call("GET", D).json
        assert (said["padding"], said["late"], said["periods_longer"]) == (True, "retry", 1)
        assert said["deadline_seconds_of_a_count"] == 0.125
        assert served.call("GET", "/v1/health", None, None).json["padding"] is True
    with instance.serving() as served:
        assert served.call("GET", D).json["deadline_seconds_of_a_count"] is None
        assert served.call("GET", "/v1/health", None, None).json["padding"] is False


def test_the_random_delay_comes_on_top(tmp_path, monkeypatch):
    """It is added to the slot, never taken from it."""
    from sulq.server.services import answers

    waited = []
    monkeypatch.setattr(answers, "random_delay", lambda seconds, *_: waited.append(seconds) or 0.0)
    instance = made(tmp_path / "instance")
    with instance.serving(padding=True, deadline_seconds=1.0, random_delay=True) as served:
        assert served.ask("secret").status == 200
    assert waited == [1.0]

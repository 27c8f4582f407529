"""What questions take is measured on made-up rows, a few times, and the quickest counts."""

import asyncio
import math
import threading
from contextlib import closing

import pytest
from attacks.harness import SCHEMA, people
from programs.modules import module
from server.clock import FakeClock
from server.instance import made

import sulq
from sulq import Bins, Blocks, Query, Rows
from sulq.questions.alike import alike
from sulq.server.services import scan_times, slots
from sulq.server.services.answers import QUIET_SECONDS, Answers
from sulq.server.services.scan_times import (
    MORE,
    TRIES,
    MadeUp,
    ScanTimes,
    row_seconds,
    table_like,
)
from sulq.values.schema import Schema

D = "/v1/datasets/people"


@pytest.fixture
def db():
    with sulq.open(people(300), SCHEMA, epsilon=1.0, queries=100, ledger=":memory:") as found:
        yield found


def test_a_dataset_is_measured_without_looking_at_its_rows(db, tmp_path):
    """Any scan of the real ones would fail; nothing is spent, and nothing is left behind."""
    db._pipeline.engine.sums = None
    with closing(MadeUp(db, "parquet", tmp_path)) as rows:
        pace = rows.pace()
    assert pace.rows == 300
    assert min(pace.shared, pace.count, pace.batch, pace.each, pace.number) > 0
    assert db.budget.spent == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_question_is_timed_a_few_times_with_those_like_it(db, tmp_path, kind, monkeypatch):
    """Questions that differ in numbers alone are the same work."""
    timed = []
    honest = MadeUp.seconds

    def seconds(self, question, most, more=0):
        """It is run, and then took what this test wants: now more, now less."""
        timed.append((question, more))
        assert honest(self, question, most, more) > 0
        return (10 + 7 * len(timed) % 5 + more) / 1000

    monkeypatch.setattr(MadeUp, "seconds", seconds)
    with closing(ScanTimes(lambda: MadeUp(db, kind, tmp_path), 60.0)) as known:
        alike = [known.work(db.question(Query(where=f"income > {10 + i}.5"))) for i in range(20)]
        assert [more for _, more in timed] == [0, MORE] * TRIES  # alone, and with others like it
        assert alike[-1].scan == min(work.scan for work in alike)
        assert alike[-1].more == min(work.more for work in alike) > 0
        other = known.work(db.question(Query(["exp(age / 100)"])))
        assert len(timed) == 2 * TRIES + 1  # there is none like it
        assert (alike[0].kernel, other.kernel, other.numbers) == (False, True, 1)
        assert alike[0].shape == alike[1].shape != other.shape
        known.again()
        known.work(db.question(Query(where="income > 50.5")))
        assert len(timed) == 2 * TRIES + 3


def test_a_question_like_another_is_counted_by_itself(db):
    """Other numbers in the same places, so that no part of one is part of the other."""
    (asked,) = db.question(Query(where="income > 10.5 and age < 30 and secret")).checked
    (public,) = db.question(Query(where="secret")).checked
    others = [alike(asked, k) for k in (1, 2)]
    texts = {asked.where.text, *(other.where.text for other in others)}
    assert len(texts) == 3
    assert alike(public, 1) is None
    every = [asked, *others]
    assert len(db._pipeline.engine.sums(every)) == 3


def test_what_was_quickest_stays(db, monkeypatch):
    """A busy moment makes no question dearer."""
    seconds = iter([0.3, 0.1, 0.9, 0.2])

    class Rows:
        def seconds(self, questions, most, more=0):
            return 0.5 if more else next(seconds)

        def close(self):
            pass

    known = ScanTimes(Rows, 60.0)
    found = [known.work(db.question(Query(where=f"income > {10 + i}.5"))).scan for i in range(6)]
    assert found == [0.3, 0.1, 0.1, 0.1, 0.1, 0.1]


def names(db, *queries):
    """What the work of each is called."""
    known = ScanTimes(lambda: Timed(*[0.1] * 4 * len(queries)), 60.0)
    return [known.work(db.question(query)).shape for query in queries]


def test_what_is_measured_with_few_cells_says_nothing_of_many(db):
    """Else two blocks, asked first, would be what twenty thousand are thought to take."""
    few, many, again, others = names(
        db, *(Query(by=Blocks(seed, count)) for seed, count in ((1, 2), (1, 2000), (2, 2), (3, 3)))
    )
    assert few == again
    assert len({few, many, others}) == 3
    narrow, wide = names(db, *(Query(by=Bins("age", edges)) for edges in ([0, 9], [0, 5, 9])))
    assert narrow != wide


def test_nor_does_a_small_sample_say_anything_of_a_large_one(db):
    """Of one seed or of several."""
    rates = (0.001, 0.99, 0.001)
    small, large, again = names(
        db, *(Query(rows=Rows.sample(seed, rate)) for seed, rate in enumerate(rates))
    )
    assert small == again != large


class Timed:
    """Rows that take what it says, and what was asked of them."""

    def __init__(self, *seconds):
        self.seconds_left, self.asked = iter(seconds), []

    def seconds(self, questions, most, more=0):
        self.asked.append(more)
        return 0.5 if more else next(self.seconds_left)

    def close(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    """The time of those measurements, moved by hand."""
    now = [100.0]
    monkeypatch.setattr(scan_times.time, "monotonic", lambda: now[0])
    return now


def test_what_a_busy_moment_takes_does_not_settle_it(db, clock):
    """It is measured by itself, again now and then, and once more when nobody sends too much."""
    rows = Timed(0.9, 0.8, 0.7, 0.6, 0.05, 0.09)
    known = ScanTimes(lambda: rows, 60.0)
    question = db.question(Query(where="income > 10.5"))
    found = [known.work(question, busy=True).scan for _ in range(9)]
    assert found == [0.9, 0.8, 0.7] + [0.6] * 6
    clock[0] += scan_times.AGAIN_SECONDS
    assert known.work(question, busy=True).scan == 0.05
    assert rows.asked == [0] * 5  # never with others like it
    clock[0] += scan_times.AGAIN_SECONDS
    settled = known.work(question)
    assert settled.scan == 0.05
    assert settled.more is not None
    clock[0] += 1.0
    assert [known.work(question, busy=busy).scan for busy in (True, False)] == [0.05, 0.05]
    assert rows.asked == [0] * 6 + [MORE]


def test_control_if_it_did_a_flood_would_make_a_question_dear(db, clock):
    """As it was before: four tries in a row, whatever the moment."""
    known = ScanTimes(lambda: Timed(0.9, 0.8, 0.7, 0.6, 0.05), 60.0)
    question = db.question(Query(["exp(age / 100)"]))
    assert [known.work(question).scan for _ in range(9)][-1] == 0.6


def test_made_up_rows_are_as_many_as_asked_for():
    """A sample of them again and again; texts are long and differ."""
    schema = Schema.load({"id": {"key": True}, "note": {"type": "text"}})
    table = table_like(schema, 250_000)
    assert table.num_rows == 250_000
    notes = table.column("note").slice(0, 1000).to_pylist()
    assert len(set(notes)) == 1000
    assert {len(note) for note in notes} == {64}


def test_periods_are_measured_again_when_the_rows_change(tmp_path):
    """After a refresh with far more rows the slot is another."""
    import pyarrow.parquet as pq

    instance = made(tmp_path / "instance", people(50), queries=100)
    with instance.serving(padding=True) as served:
        assert served.ask("secret").status in (200, 503)
        (before,) = stored(instance)
        pq.write_table(people(5000), instance.folder / "data" / "people.parquet")
        refreshed = served.call("POST", f"{D}/refresh", {"reason": "grown"}, "anna")
        assert (refreshed.status, refreshed.json["rows"]) == (200, 5000)
        (after,) = stored(instance)
    assert (before["rows"], after["rows"]) == (50, 5000)


def stored(instance):
    import json

    with instance.services() as services:
        rows = services.registry.all("SELECT pace FROM datasets WHERE name = 'people'")
        return [json.loads(row["pace"]) for row in rows]


def test_it_is_quiet_some_time_after_the_last_request(tmp_path):
    """Not between two questions of one who asks all the time: measuring would make them late."""
    clock = FakeClock()
    with made(tmp_path / "instance").services() as services:
        record = services.datasets.find(services.people.owner("anna").tenant, "people")
        answers = Answers(
            services.datasets, services.access, services.settings, services.metrics,
            services.caps, services.meter, clock,
        )  # fmt: skip
        assert answers.quiet
        asyncio.run(answers.dataset(record))
        clock.time += QUIET_SECONDS
        assert not answers.quiet
        clock.time += 0.01
        assert answers.quiet
        answers.close()


def test_it_is_measured_again_while_nobody_asks(tmp_path):
    """Not while somebody does, and not what somebody disturbed."""
    from sulq.server.services.quiet import AGAIN_SECONDS, FIRST_SECONDS, Quiet

    instance = made(tmp_path / "instance", people(50), queries=100)
    with instance.services(padding=True) as services:
        record = services.datasets.find(services.people.owner("anna").tenant, "people")
        dataset = services.datasets.opened(record)
        busy = threading.Event()
        quiet = Quiet(services.datasets, busy.is_set)
        assert quiet.look(0.0) == 0  # it has just been measured
        busy.set()
        assert quiet.look(FIRST_SECONDS) == 0
        busy.clear()
        assert quiet.look(FIRST_SECONDS) == 1
        assert quiet.look(FIRST_SECONDS + 1) == 0
        honest = dataset.scan_times.pace

        def disturbed():
            busy.set()
            return honest()

        object.__setattr__(dataset.scan_times, "pace", disturbed)
        assert quiet.look(FIRST_SECONDS + AGAIN_SECONDS) == 0


PROGRAMS = {
    "quick": ("(param i32) (result i32) (i32.gt_s (local.get 0) (i32.const 40))", 4),
    "endless": ("(param i32) (result i32) (loop (br 0)) (i32.const 1)", 10_000),
    "endless on no made-up row": (
        "(param i32) (result i32) (loop (br_if 0 (i32.eq (local.get 0) (i32.const -1)))) "
        "(i32.const 1)",
        10_000,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_period_has_room_for_all_fuel_of_all_rows(tmp_path, monkeypatch, name):
    """Whatever made-up rows take: instructions x what one can take x n, from the question alone."""
    body, instructions = PROGRAMS[name]
    monkeypatch.setattr("sulq.programs.worst_time.unit_seconds", lambda: 1e-6)
    monkeypatch.setattr(MadeUp, "seconds", lambda *_: 0.001)
    settings = {"epsilon": 1.0, "queries": 100, "ledger": ":memory:", "programs": True}
    with sulq.open(people(300), SCHEMA, **settings) as db:
        question = db.question(Query(where=sulq.Program(module(body), "f", columns=["age"])))
        plain = db.question(Query(where="age > 40"))
        with closing(ScanTimes(lambda: MadeUp(db, "parquet", tmp_path), 60.0)) as known:
            assert known.work(question).scan == pytest.approx(0.001 + instructions * 1e-6 * 300)
            assert known.work(plain).scan == 0.001
        assert row_seconds(question) == pytest.approx(instructions * 1e-6)


def test_the_random_delay_has_room_for_a_rows_fuel(monkeypatch):
    """Its t_max is fuel x what an instruction can take, if that is more than a row's share."""
    monkeypatch.setattr(slots, "_random", Even())
    promise = sulq.Promise(1.0, 1e-6, 100)
    mean = promise.std * math.log(100 / 1e-6)
    assert slots.random_delay(0.175, 1000, promise) == pytest.approx(1e-4 * mean)
    assert slots.random_delay(0.175, 1000, promise, 1e-5) == pytest.approx(1e-4 * mean)
    assert slots.random_delay(0.175, 1000, promise, 1e-3) == pytest.approx(1e-3 * mean)
    assert slots.random_delay(0.0, 1000, promise, 1e-3, 0.01) == pytest.approx(1e-2 * mean)


class Even:
    """Draws the mean."""

    def gauss(self, mean, std):
        return mean


def test_tables_of_people_without_a_number_are_measured(tmp_path):
    """Patients with a sex, visits with days: the questions it asks by itself are about people."""
    import duckdb

    rows = {
        "patients": "SELECT i AS id, CAST(i % 2 AS VARCHAR) AS sex FROM range(200) t(i)",
        "visits": "SELECT i AS visit, i % 200 AS id, i % 9 AS days FROM range(900) t(i)",
    }
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as file:
        for name, select in rows.items():
            file.execute(f"CREATE TABLE {name} AS {select}")
    days = {"type": "integer", "low": 0, "high": 30}
    schema = {
        "unit": {"column": "id"},
        "tables": {
            "patients": {"columns": {"sex": {"values": ["0", "1"]}}},
            "visits": {"max_rows": 5, "columns": {"visit": {"key": True}, "days": days}},
        },
    }
    terms = {"epsilon": 1.0, "queries": 100, "ledger": ":memory:"}
    with sulq.open(tmp_path / "clinic.duckdb", schema, **terms) as found:
        (tmp_path / "timing").mkdir()
        with closing(MadeUp(found, "duckdb", tmp_path / "timing")) as made_up:
            assert made_up.pace().count > 0

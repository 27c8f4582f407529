"""What a late reply says, and what is done about a batch whose rows were not read in time.

Was the machine slow, or were these rows? Once what the batch gave is stored, it is timed again, on
made-up and on real rows in random order, pair after pair. If made-up rows take too long as well,
the machine is slow: the slot is lengthened, publicly, and nothing counts. If real rows are in time,
or take no longer beside made-up ones than the slot allows for, it was a moment; several of them are
a slow machine too. Rows are blamed only if in every pair the real ones were late although the
made-up ones beside them were not. Where rows are alike, each order of the times is as likely as any
other whatever else the machine does, so that happens in one late batch of comb(20, 10) = 184,756 at
most. It is an alarm for the owner, and too many freeze the dataset: being late may tell something
of rows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from secrets import SystemRandom
from weakref import WeakKeyDictionary

from sulq.audit.promise import is_audited
from sulq.database import Database
from sulq.errors import Late, QueryNotAllowed
from sulq.questions.question import Question
from sulq.server.services import logs, scan_times
from sulq.server.services.asked import Asked
from sulq.server.services.datasets import Dataset, Datasets
from sulq.server.services.metrics import Metrics
from sulq.server.services.responses import answer_body, dumped
from sulq.server.services.settings import Settings
from sulq.server.services.threads import run_in
from sulq.server.services.windows import Slot, Window

MARGIN = 1.25  # of what made-up rows take now
ENOUGH = 4.0  # times what is allowed, after which a scan is known to be late
RECOVER_SECONDS = 1.0  # after a slow moment the machine is tried again,
RARELY_SECONDS = 16.0  # less and less often as long as it is slow
ODD, ODD_SECONDS = 3, 60.0  # moments that were slow for no reason found, and in what time


_random = SystemRandom()


def late(window: Window | None) -> Late:
    """What is said in place of an answer that is not there at the end of its slot."""
    seconds = 1.0 if window is None else window.slot.seconds
    return Late(
        f"the rows were not read within the slot of {seconds:.3g} seconds. The charge stands and "
        "the answer is stored when it is there: asking the same again is free.\n"
        f"Ask again in {seconds:.3g} seconds.", round(seconds, 3),
    )  # fmt: skip


class Verdict(Enum):
    """The cause of a late batch."""

    MACHINE = "made-up rows are late too"
    MOMENT = "real rows are late no more, or only as much as made-up ones beside them"
    ROWS = "real rows alone are late, each time"


def judged(
    pairs: Iterable[tuple[float, float]], allowed: float, usual: float | None
) -> tuple[Verdict, float]:
    """The cause of a late batch, by the seconds of made-up and real rows beside each other.

    `usual` is what made-up rows take while the machine is as the slot expects it. Where they take
    longer, real ones may take longer in proportion. Gives the last time of made-up rows, too.
    """
    made_up = 0.0
    for made_up, real in pairs:
        if made_up > allowed:
            return Verdict.MACHINE, made_up
        room = allowed if usual is None else allowed * max(made_up / usual, 1.0)
        if real <= room:
            return Verdict.MOMENT, made_up
    return Verdict.ROWS, made_up


class Lateness:
    """Tells a slow machine from slow rows."""

    def __init__(self, datasets: Datasets, metrics: Metrics) -> None:
        self._datasets = datasets
        self._metrics = metrics
        self._tries: WeakKeyDictionary[Dataset, tuple[float, float]] = WeakKeyDictionary()
        self._odd: WeakKeyDictionary[Dataset, deque[float]] = WeakKeyDictionary()

    def of(
        self, dataset: Dataset, questions: Sequence[Question], slot: Slot,
        quiet_seconds: float | None = None,
    ) -> Callable[[float], Callable[[], None] | None]:  # fmt: skip
        """What follows if this batch is late; told how long its rows took.

        `quiet_seconds` is what its made-up rows took on a quiet machine, if that was measured.
        """
        allowed, longer = slot.scan_seconds, dataset.slots.longer

        def pairs() -> Iterator[tuple[float, float]]:
            scans = (
                lambda: dataset.scan_times.seconds(questions),
                lambda: dataset.db.scan_seconds(questions, ENOUGH * allowed),
            )
            for _ in range(scan_times.PAIRS):
                first = _random.randrange(2)
                times = {k: scans[k]() for k in (first, 1 - first)}
                yield times[0], times[1]

        def missed(seconds: float) -> Callable[[], None] | None:
            record = dataset.record
            self._metrics.add(record.tenant, "sulq_late_total", dataset=record.name)
            slowness = None if quiet_seconds is None else quiet_seconds * longer
            verdict, made_up = judged(pairs(), allowed, slowness)
            if verdict is Verdict.MACHINE:
                return partial(self._lengthen, dataset, MARGIN * made_up / allowed)
            if verdict is Verdict.MOMENT:
                return partial(self._lengthen, dataset, 2.0) if self._too_odd(dataset) else None
            return partial(self._datasets.note_late, record, dataset.db.schema)

        return missed

    async def aside(
        self, dataset: Dataset, threads: ThreadPoolExecutor, look: Callable[[], None]
    ) -> None:
        """Look into why a batch was late, unless its dataset is closed.

        Its answers were given, so what fails here is for the log alone.
        """
        if not dataset.use.begin():
            return
        try:
            await run_in(threads, look)
        except Exception as error:
            logs.failure(error)
        finally:
            dataset.use.end()

    def _lengthen(self, dataset: Dataset, times: float) -> None:
        if dataset.slots.lengthen(times):
            self._tries[dataset] = time.monotonic(), RECOVER_SECONDS
            self._datasets.note_slow(dataset)

    def _too_odd(self, dataset: Dataset) -> bool:
        """It was late, and is not when it is tried again: has that happened often of late?"""
        odd, now = self._odd.setdefault(dataset, deque(maxlen=ODD)), time.monotonic()
        odd.append(now)
        often = len(odd) == ODD and now - odd[0] < ODD_SECONDS
        if often:
            odd.clear()
        return often

    # ---- going back to what was measured --------------------------------------------------

    def may_recover(self, dataset: Dataset) -> bool:
        """Is it time to see whether the machine is quicker again?"""
        since, wait = self._tries.get(dataset, (0.0, 0.0))
        return time.monotonic() - since > wait

    def recover(self, dataset: Dataset) -> None:
        """Go back towards the slot that was measured, as far as the machine is quick."""
        before, (_, wait) = dataset.slots.longer, self._tries.get(dataset, (0.0, RECOVER_SECONDS))
        dataset.slots.recover(MARGIN * dataset.scan_times.count_seconds())
        better = dataset.slots.longer < before
        wait = RECOVER_SECONDS if better else min(2 * wait, RARELY_SECONDS)
        self._tries[dataset] = time.monotonic(), wait


class LateNoise:
    """late = "noise": a late reply is noise, shown as an answer, the same for one request id."""

    def __init__(self, datasets: Datasets, settings: Settings) -> None:
        self._datasets = datasets
        self._wanted = settings.padding and settings.late == "noise"

    def is_given_by(self, db: Database) -> bool:
        """Is this what a late question to it hears? An audited table has no noise to give."""
        return self._wanted and not is_audited(db.promise)

    def before(self, asked: Asked) -> bytes | None:
        """The noise that this request id was answered with, if it was late then."""
        if asked.request_id is None:
            return None
        row = self._datasets.registry.one(
            "SELECT asked, body FROM late WHERE dataset = ? AND analyst = ? AND request = ?",
            asked.record.id, asked.analyst, asked.request_id,
        )  # fmt: skip
        if row is not None and row["asked"] != asked.digest:  # or the same, laid out otherwise
            raise QueryNotAllowed(
                f"request id {asked.request_id!r} was used for another question. Nothing was "
                "charged.\nGive each request its own id."
            )
        return None if row is None else bytes(row["body"])

    def reply(self, asked: Asked) -> bytes | Exception:
        """Noise, charged; for a request id that was late before the same again."""
        try:
            before = self.before(asked)
            if before is not None:
                return before
            body = dumped(answer_body(asked.db.answer_with_noise_alone(asked.order)))
            self._datasets.note_noise(asked.record)
            if asked.request_id is None:
                return body
            with self._datasets.registry.writing() as run:
                run("INSERT INTO late (dataset, analyst, request, asked, body) "
                    "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", asked.record.id, asked.analyst,
                    asked.request_id, asked.digest, body)  # fmt: skip
            return self.before(asked) or body  # another of this id may have been kept first
        except Exception as error:
            return error

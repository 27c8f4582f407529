"""How long a batch of questions lasts: from what such questions take on made-up rows.

A slot depends on the questions, the schema, n and the machine, never on the rows. It is FACTOR
times what was measured (scan_times.py) and a little more, rounded up to a public scale. On a
machine that has become slow it is longer, by public steps of two.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from secrets import SystemRandom

from sulq.errors import LimitReached
from sulq.privacy.promise import Promise
from sulq.server.services.settings import Settings
from sulq.server.services.windows import Slot

FACTOR = 1.75  # times what was measured,
SLACK = 0.008  # and so many seconds more, for what else a machine does,
OVERLOADED = 0.01  # and so many more while somebody is refused for sending too much
SHORTEST = 0.01  # seconds
STEP = 1.05  # between one slot and the next
SCAN_SHARE = 0.7  # of a slot that is set by hand
PLAIN, DEAR, KERNEL = "plain", "dear", "kernel"  # kinds, each in batches of its own
A_DEAR_ONE = 16.0  # plain counts

_random = SystemRandom()


@dataclass(frozen=True, slots=True)
class Work:
    """What a question takes on made-up rows."""

    scan: float  # seconds, by itself
    numbers: int  # in its answer
    kernel: bool = False  # is it computed row by row outside of the database?
    more: float | None = None  # seconds that it adds to the scan of others like it, if measured
    shape: bytes = b""  # the same for questions that are alike

    def times(self, scans: int) -> Work:
        """So many times as much to read for the same answer."""
        if scans == 1:
            return self
        return replace(self, scan=scans * self.scan, more=None, shape=b"")


@dataclass(frozen=True, slots=True)
class Pace:
    """What was measured for a dataset, as long as it has so many rows; in seconds."""

    rows: int
    shared: float  # what questions of one scan share of it
    count: float  # the scan of a plain count by itself
    batch: float  # beside the scan: two commits
    each: float  # and for each question,
    number: float  # and for each number

    def scan(self, works: Sequence[Work]) -> float:
        """What the one scan of a batch takes: what all share, what those that are alike share
        beyond that, and what each adds.
        """
        adds, begins = 0.0, {b"": self.shared}
        for work in works:
            more = self._more(work)
            adds += more
            begins[work.shape] = max(begins.get(work.shape, self.shared), work.scan - more)
        return self.shared + sum(begin - self.shared for begin in begins.values()) + adds

    def _more(self, work: Work) -> float:
        """What one question adds to a scan that goes on anyway."""
        if work.more is not None and work.shape:
            return work.more
        return max(work.scan - self.shared, 0.2 * work.scan)

    def whole(self, works: Sequence[Work]) -> float:
        """What a batch takes."""
        numbers = sum(work.numbers for work in works)
        return self.batch + self.each * len(works) + self.number * numbers + self.scan(works)

    @property
    def a_count(self) -> Work:
        """A plain count."""
        return Work(self.count, 1)

    def weight(self, work: Work) -> tuple[float, float]:
        """In plain counts, what a question adds to a batch of others like it, and what the first
        of those adds more.
        """
        one, more = self.a_count, self._more(work)
        count = self.each + self.number + self._more(one)
        begins = max(work.scan - more - self.shared, 0.0)
        return (self.each + self.number * work.numbers + more) / count, begins / count

    def quickest(self, other: Pace) -> Pace:
        """Of two measurements of the same rows the quicker one, number by number."""
        mine, theirs = asdict(self), asdict(other)
        return Pace(**{name: min(mine[name], theirs[name]) for name in mine})

    def to_json(self) -> str:
        """As the registry keeps it."""
        return json.dumps(asdict(self))


def pace_of(text: str | None, rows: int) -> Pace | None:
    """What the registry keeps, if it was measured for so many rows."""
    found = {} if text is None else json.loads(text)
    return Pace(**found) if found.get("rows") == rows and "shared" in found else None


class Slots:
    """The slots of one dataset, as they are now."""

    def __init__(self, pace: Pace | None, settings: Settings) -> None:
        self._settings = settings
        self._pace = pace  # None: there are none, or they are set by hand
        self._longer = 1  # times as long as measured
        self._lock = threading.Lock()

    @property
    def measured(self) -> bool:
        """Do slots come from what questions take?"""
        return self._settings.padding and self._settings.deadline_seconds is None

    @property
    def known(self) -> bool:
        """Were questions to these rows measured?"""
        return self._pace is not None

    def measure_again(self, pace: Pace) -> Pace:
        """A new measurement: the quickest of all that fit the rows counts. Gives that."""
        with self._lock:
            same = self._pace is not None and self._pace.rows == pace.rows
            self._pace = pace.quickest(self._pace) if same and self._pace else pace
            return self._pace

    def of(self, works: Sequence[Work], *, overloaded: bool = False) -> Slot | None:
        """The slot of a batch of such questions; None if replies leave at once.

        Refusals take time of the same processor, and how many there are is no secret.
        """
        if not self._settings.padding:
            return None
        fixed, pace = self._settings.deadline_seconds, self._pace
        if fixed is not None or pace is None:
            seconds = (fixed or SHORTEST) * self._longer
            return Slot(seconds, SCAN_SHARE * seconds)
        whole, scan = pace.whole(works), pace.scan(works)
        seconds = _step(FACTOR * whole + SLACK + (OVERLOADED if overloaded else 0.0))
        return Slot(seconds * self._longer, (seconds - FACTOR * (whole - scan)) * self._longer)

    def quiet_scan_seconds(self, works: Sequence[Work]) -> float | None:
        """Seconds that the scan of a batch takes on a quiet machine; None if not measured."""
        return None if self._pace is None else self._pace.scan(works)

    def of_a_count(self) -> float | None:
        """Seconds of the slot of a plain count by itself."""
        slot = self.of_counts(1)
        return None if slot is None else slot.seconds

    def of_one(self, work: Work) -> float | None:
        """Seconds of the slot of a question by itself; refused if that is too long."""
        slot = self.of([work])
        longest = self._settings.longest_seconds
        if slot is not None and slot.seconds > longest:
            raise LimitReached(
                f"this question may take up to {slot.seconds:.3g} seconds here, and at most "
                f"{longest:g} are allowed. Nothing was charged.\n"
                "Ask for fewer values or cells, or in parts."
            )
        return None if slot is None else slot.seconds

    def of_counts(self, many: int) -> Slot | None:
        """The slot of so many public counts."""
        return self.of([] if self._pace is None else [self._pace.a_count] * many)

    def place(self, work: Work) -> tuple[str, float, float]:
        """In which batches a question is answered, what it weighs, what the first more."""
        weight, begins = (1.0, 0.0) if self._pace is None else self._pace.weight(work)
        kind = DEAR if weight + begins > A_DEAR_ONE else PLAIN
        return KERNEL if work.kernel else kind, weight, begins

    # ---- a slow machine -------------------------------------------------------------------

    @property
    def longer(self) -> int:
        """How many times as long as measured."""
        return self._longer

    def lengthen(self, times: float = 2.0) -> bool:
        """The machine is slow: so many times as long from now on, in steps of two, up to a limit.

        Is it longer than it was?
        """
        with self._lock:
            before, count = self._longer, self.of_a_count() or 0.0
            while self._longer < times * before:
                if 2 * count * self._longer / before > self._settings.longest_seconds:
                    break
                self._longer *= 2
            return self._longer > before

    def recover(self, count_seconds: float) -> bool:
        """Half as long again, if the rows of a plain count take no longer than fits that.

        Is it as long as it was measured?
        """
        with self._lock:
            slot = self.of_counts(1)
            if slot is None or count_seconds <= slot.scan_seconds / 2:
                self._longer = max(self._longer // 2, 1)
            return self._longer == 1


def _step(seconds: float) -> float:
    """The next longer slot on the public scale."""
    steps = math.ceil(math.log(max(seconds, SHORTEST) / SHORTEST, STEP) - 1e-9)
    return round(SHORTEST * STEP**steps, 6)


def random_delay(
    seconds: float, rows: int, promise: Promise, row_seconds: float = 0.0, price: float = 1.0
) -> float:
    """The paper's delay: normal, mean t_max sqrt(R) ln(T/delta), standard deviation t_max sqrt(R).

    `price` is what is charged for the time, in queries: for less than one both are wider, by its
    square root.

    t_max is the most that one row takes: its share of the slot, or `row_seconds`, all the fuel of
    its programs, if that is more. (The text gives t_max R as the variance, which is not in seconds
    squared.) What falls below 0 is 0.
    """
    t_max = max(seconds / FACTOR / max(rows, 1), row_seconds)
    std = t_max * promise.std / math.sqrt(price)
    mean = std * math.log(promise.queries / max(promise.delta, 1e-300))
    return max(0.0, _random.gauss(mean, std))

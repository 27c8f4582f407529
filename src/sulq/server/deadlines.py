"""How long a kind of question takes at most, and so when its reply leaves (PODS 05, 3.1.5).

A deadline depends on the question, the schema, n and the machine, never on the rows: what
things take is measured once, when the dataset is made, on made-up rows (measuring.py). The
deadline is ten times that, rounded up to a power of two, and public.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from secrets import SystemRandom

from sulq.errors import LimitReached
from sulq.promise import Promise
from sulq.question import Work
from sulq.server.settings import Settings

FACTOR = 10
SHORTEST = 1 / 32  # seconds

_random = SystemRandom()


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds at worst: of a plain scan with its two commits, and of what comes on top."""

    scan: float
    letter: float
    value: float
    number: float

    def worst(self, work: Work) -> float:
        """Seconds that a question takes at most."""
        rows = self.scan + self.letter * work.letters + self.value * work.values
        return rows + self.number * work.numbers

    def to_json(self) -> str:
        """As the registry keeps it."""
        return json.dumps(asdict(self))


def pace_of(text: str | None) -> Pace | None:
    """The inverse; None if nothing was measured."""
    return None if text is None else Pace(**json.loads(text))


def seconds_for(work: Work, pace: Pace | None, settings: Settings) -> float | None:
    """The public deadline of a question after its admission; None without padding."""
    if not settings.padding:
        return None
    if settings.deadline_seconds is not None:
        return settings.deadline_seconds
    worst = SHORTEST if pace is None else pace.worst(work)
    seconds = float(2 ** math.ceil(math.log2(max(FACTOR * worst, SHORTEST))))
    if seconds > settings.longest_seconds:
        raise LimitReached(
            f"this question may take up to {seconds:g} seconds here, and at most "
            f"{settings.longest_seconds:g} are allowed. Nothing was charged.\n"
            "Ask for fewer values or cells, or in parts."
        )
    return seconds


def random_delay(seconds: float, rows: int, promise: Promise) -> float:
    """The paper's delay: normal, mean t_max sqrt(R) ln(T/delta), standard deviation t_max sqrt(R).

    t_max is the most that one row takes. (The text gives t_max R as the variance, which is not
    in seconds squared.) What falls below 0 is 0.
    """
    t_max = seconds / FACTOR / max(rows, 1)
    std = t_max * promise.std
    mean = std * math.log(promise.queries / max(promise.delta, 1e-300))
    return max(0.0, _random.gauss(mean, std))

"""PERCENTILE_DISC: one value, chosen so that it is near the percentile asked for.

The declared range is cut into 8,192 cells; whole numbers, up to 32,768 of them, have cells of their
own. A cell is chosen by the rows below it, closer than a distribution function of all cells could
say it, and two more for the ends of its interval (questions/percentile_choice.py). MEDIAN and
PERCENTILE_CONT give all percentiles of a column for one price; a choice gives one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.questions.partitions import MAX_LABELS, axes_of
from sulq.questions.percentile_choice import ENDS
from sulq.sql.quantiles import Located, bounded_number, groups_of
from sulq.values.answer import Answer
from sulq.values.query import MAX_DENOMINATOR, Percentile, Query
from sulq.values.schema import Schema

MAX_CELLS = 2**13  # of one group
MAX_WHOLE = 2**15  # of one group, where each is one whole number
FINE = 256  # cells in one of the first axis
FEWEST = 4


class ChosenPercentile:
    """One percentile of one expression over the rows of one condition."""

    levels = 1  # queries

    def __init__(
        self, x: str, condition: str, share: float, schema: Schema, keys: tuple[str, ...]
    ) -> None:
        node = bounded_number(x, schema, "PERCENTILE_DISC")
        self.x = x
        self.condition = condition
        self.asked = [share]
        self.share = Fraction(str(share)).limit_denominator(MAX_DENOMINATOR)
        if not 0 < self.share < 1:
            raise QueryNotAllowed(f"PERCENTILE_DISC({share:g}): want 0.0001 to 0.9999.")
        self.whole = node.type == "integer"
        self.low, self.high = float(node.low), float(node.high)
        groups = math.prod(len(a.labels) for a in axes_of(keys, schema))
        cells = min(MAX_WHOLE if self.whole else MAX_CELLS, MAX_LABELS // groups - 2 * FINE)
        if cells < FEWEST * FINE:
            raise QueryNotAllowed(
                f"PERCENTILE_DISC: {groups:,} groups are too many to choose a value in each. "
                "PERCENTILE_CONT is answered."
            )
        span = self.high - self.low
        self.step = float(math.ceil((span + 1) / cells)) if self.whole else (span or 1.0) / cells

    def within(self, keys: tuple[str, ...], condition: str | None) -> list[Query]:
        """What is asked of the rows of a statement."""
        parts = [c for c in (condition, self.condition) if c not in (None, "true")]
        where = " AND ".join(f"({c})" for c in parts) or None
        low = int(self.low) if self.whole else repr(self.low)
        place = f"(({self.x}) - ({low}))"
        if self.step != 1.0:
            place = f"FLOOR({place} / {self.step!r})"
        by = (*keys, f"FLOOR({place} / {FINE})", f"MOD({place}, {FINE})")
        return [Query(Percentile(self.share, 2), by=by, where=where)]

    def cells(self, answer: Answer, depth: int) -> list[tuple[Any, ...]]:
        """The groups: the last part of each label is not one."""
        return groups_of(answer, depth)

    def located(
        self, answers: list[Answer], groups: int, source: int
    ) -> tuple[list[Located], NDArray[np.bool_]]:
        """The value in every group within the ends of its interval; no group is too small."""
        places = answers[0].values.reshape(groups, len(ENDS))
        first, at, last = places.T
        low = self._begins(np.minimum(first, at))
        high = self._ends(np.maximum(last, at))
        value = (self._begins(at) + self._ends(at)) / 2
        value = np.floor(value) if self.whole else value
        return [Located(value, low, high, source)], np.zeros(groups, dtype=bool)

    def _begins(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip(self.low + places * self.step, self.low, self.high)

    def _ends(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where cells end; of whole numbers, the last one in each."""
        ends = self.low + (places + 1) * self.step - self.whole
        return np.clip(ends, self.low, self.high)

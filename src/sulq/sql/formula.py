"""What a formula of aggregates is made of: numbers, truths and labels, one per cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.expressions import shorten
from sulq.sql.moments import Released
from sulq.sql.noisy import Noisy

Bools = NDArray[np.bool_]
Numbers = Callable[["Context"], Noisy]


class Context:
    """What a compiled formula reads from: released sums, quantiles, the cells' keys."""

    def __init__(
        self,
        moments: Released,
        people: list[Noisy],
        quantiles: list[Noisy],
        cells: list[tuple[Any, ...]],
    ) -> None:
        self.moments = moments
        self.people = people
        self.quantiles = quantiles
        self.cells = cells
        self.divisors: list[Noisy] = []  # what was divided by, on the way

    def constant(self, value: float) -> Noisy:
        """The same number in every cell."""
        return Noisy(np.full(len(self.cells), float(value)), {})


@dataclass(frozen=True)
class Truth:
    """True, false or unknown, in every cell."""

    true: Bools
    known: Bools

    def number(self) -> Noisy:
        """1, 0 or missing."""
        return Noisy(np.where(self.known, self.true.astype(float), np.nan), {})


@dataclass(frozen=True)
class Formula:
    """A compiled expression. `kind` says what it reads: number, truth or label."""

    kind: str
    read: Callable[[Context], Any]


def numbers_of(made: Formula, e: Any) -> Numbers:
    """What must be a number; true and false count as 1 and 0."""
    if made.kind == "label":
        raise QueryNotAllowed(
            f"{shorten(sql_of(e))}: text and dates can be compared by =, <> and IN only. Choose "
            "rows by them in WHERE."
        )
    if made.kind == "truth":
        return lambda c: made.read(c).number()
    return made.read


def sql_of(e: Any) -> str:
    """An expression as text."""
    return str(e.sql(dialect="duckdb", comments=False))


def label_name(label: Any) -> Any:
    """A group key as a table shows it."""
    return "other" if label is None else label


def truth_of_labels(labels: list[Any]) -> Truth:
    """Keys that are true, false or missing."""
    known = np.array([x is not None for x in labels])
    return Truth(np.array([bool(x) for x in labels]), known)

"""What the ledger is asked and what it gives, as plain frozen values.

Money is whole micro-queries throughout: what privacy rests on is never rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sulq.errors import QueryNotAllowed


@dataclass(frozen=True, slots=True)
class Request:
    """A question to pay for: its canonical text, its price, and whose rows it concerns."""

    query: str
    price: int  # micro-queries
    cells: tuple[int, ...] | None  # ledger cells of public columns; None = everybody
    id: str | None = None  # the same id from the same analyst never pays twice
    analyst: str = ""

    def __post_init__(self) -> None:
        if type(self.price) is not int or self.price < 0:
            raise QueryNotAllowed(
                f"price={self.price!r}: a price is a whole number of micro-queries, 0 or more. "
                "Nothing was charged."
            )
        if self.id is not None and not isinstance(self.id, str):
            raise QueryNotAllowed(
                f"request_id={self.id!r}: want a text of your own choosing. Nothing was charged."
            )
        if not isinstance(self.query, str) or not isinstance(self.analyst, str):
            raise QueryNotAllowed(
                f"analyst={self.analyst!r}: query and analyst are texts. Nothing was charged."
            )


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the ledger: what was asked, its price, what was left."""

    number: int  # its entry in the chain
    query: str
    price: int  # micro-queries
    remaining: int  # micro-queries, the smallest over the cells after this charge
    request: str | None
    time: str  # UTC, ISO 8601
    analyst: str
    own: int | None = None  # micro-queries left of the analyst's allotment, if there is one


@dataclass(frozen=True, slots=True)
class Allotment:
    """What one analyst has spent, and the most that the owner lets them spend."""

    spent: int  # micro-queries
    allotted: int | None  # micro-queries; None: as much as there is

    @property
    def left(self) -> int | None:
        """Micro-queries left; below 0 if the owner lowered it since. None: no limit."""
        return None if self.allotted is None else self.allotted - self.spent


@dataclass(frozen=True, slots=True)
class Entry:
    """One link of the chain."""

    number: int
    kind: str
    body: dict[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends and what has been spent."""

    number: int
    hash: str
    base: int  # micro-queries spent by everybody
    most: int  # the largest extra spending of one cell
    epoch: int  # the entry that brought the present rows: 0, or the last refresh

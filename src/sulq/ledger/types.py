"""What the ledger is asked and what it gives, as plain frozen values.

Money is whole micro-queries throughout: what privacy rests on is never rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sulq.errors import QueryNotAllowed, Refused

MEMORY = ":memory:"  # where a ledger is that ends with the program


@dataclass(frozen=True, slots=True)
class Request:
    """A question to pay for: its canonical text, its price, and whose rows it concerns."""

    query: str
    price: int  # micro-queries
    cells: tuple[int, ...] | None  # ledger cells of public columns; None = everybody
    id: str | None = None  # the same id from the same analyst never pays twice
    analyst: str = ""
    programs: tuple[bytes, ...] = ()  # modules that it runs
    key_sets: tuple[tuple[str, tuple[Any, ...]], ...] = ()  # hashes and keys of rows it names
    discoveries: int = 0  # how often it names values that nobody listed
    people: bool = False  # is it about people, of whom each counts once whatever rows they have?
    most: int | None = None  # that may be charged for it and what is paid with it; None: its price

    def __post_init__(self) -> None:
        if type(self.price) is not int or self.price < 0:
            raise QueryNotAllowed(
                f"price={self.price!r}: a price is a whole number of micro-queries, 0 or more. "
                "Nothing was charged."
            )
        check_id(self.id)
        if not isinstance(self.query, str) or not isinstance(self.analyst, str):
            raise QueryNotAllowed(
                f"analyst={self.analyst!r}: query and analyst are texts. Nothing was charged."
            )


def check_id(request_id: Any) -> None:
    """Refuse a request id that is no text."""
    if request_id is not None and not isinstance(request_id, str):
        raise QueryNotAllowed(
            f"request_id={request_id!r}: want a text of your own choosing. Nothing was charged."
        )


def check_analyst(name: Any) -> str:
    """An analyst's name, or a refusal of what is none."""
    if not isinstance(name, str) or not name:
        raise Refused(f"name={name!r}: want the analyst's name.")
    if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise Refused(f"name={name!r} holds half a character, which no ledger can hold.")
    return name


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the ledger: what was asked, its price, what was left."""

    number: int  # its entry in the chain
    query: str
    price: int  # micro-queries
    remaining: int  # micro-queries that a question about the same rows could have after it
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
class Group:
    """A group's name, and where its ledger is."""

    name: str
    ledger: str


@dataclass(frozen=True, slots=True)
class Freeze:
    """A scan that failed although its engine was there: what was asked, and nothing of the rows."""

    number: int  # its entry in the chain; -1 while it could not be written
    time: str  # UTC, ISO 8601
    questions: tuple[str, ...]  # canonical
    engine: str
    error: str  # the class of what the engine raised, never its words


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
